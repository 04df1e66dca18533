//! The first merges of a long text, learned without lists of occurrences.
//!
//! Takes unweighted sequences, gives the text as tokens and the [merges](Scanned::merges) so far, for the
//! list engine to go on from. The text stands in place as one-byte codes (two bytes once these run out);
//! a dense table has the count of every pair; a round merges an exact [batch] of pairs in one pass
//! over the text, which closes the gaps and tallies the neighbours of what it merged while they are in
//! cache. On a long text the first lists would have nearly as many entries as the text has bytes; after
//! some hundred merges they are a small part of that.

mod layout;
mod text;
mod counts;
mod batch;
mod rules;
mod pass;
mod blocks;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod rare;
mod worth;
mod rounds;
#[cfg(test)]
mod tests;

pub use self::blocks::Engine;
use self::rounds::Rounds;
use super::{HistoryPoint, Merge, Merges, Score, TieBreak, TrainConfig};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::Observer;
use crate::units::{amount, low32};

/// Stands between sequences in [`Scanned::text`]; no token has this number.
pub(super) const BETWEEN: u16 = u16::MAX;

/// The state after the merges that were learned by scanning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// The tokens as training numbers them, each once, with [`BETWEEN`] between sequences; `None` if there are enough merges
    /// or no pair is left that may be merged.
    pub(super) text: Option<Vec<u16>>,
    /// The merges so far, each with its exact count.
    pub(super) merges: Vec<Merge>,
    /// The history so far, as the list engine records it: at the start and after every so many merges.
    pub(super) history: Vec<HistoryPoint>,
    /// Tokens in the text, without what stands between sequences.
    pub(super) tokens: u64,
}

/// How the work is cut up; what is learned does not depend on it, except where it ends.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// Tokens in a chunk of the text, the part that a thread works on at a time.
    chunk: usize,
    /// Bytes that make up less than one in so many of the text share one code at first.
    rare_share: u64,
    /// So many merges at most get codes of one byte.
    narrow_merges: usize,
    /// The scan ends when there are so many tokens.
    most_codes: usize,
    /// Merging one occurrence by lists costs as much as scanning so many codes.
    codes_a_merge: u64,
    engine: Engine,
}

/// For [`Tuning::codes_a_merge`]: lists are never cheaper.
const NEVER: u64 = u64::MAX;

impl Tuning {
    /// What suits a text of so many bytes.
    fn new(engine: Engine, bytes: usize) -> Tuning {
        let is_cached = amount(bytes) < CACHED_BYTES;
        Tuning {
            chunk: if is_cached { 1 << 21 } else { 1 << 18 },
            rare_share: 2_500,
            narrow_merges: 256,
            most_codes: counts::MOST_CODES,
            codes_a_merge: worth::codes_a_merge(engine, is_cached),
            engine,
        }
    }
}

/// Texts of fewer bytes are better learned from lists right away.
const LEAST_BYTES: u64 = 1 << 18;

/// In texts of fewer bytes lists lead to places that the caches hold: they are cheap sooner.
const CACHED_BYTES: u64 = 1 << 24;

/// Learns merges by scanning for as long as that is cheaper than lists, or until there are enough merges
/// or no pair is left that may be merged.
///
/// `byte_order` says where each byte stands among the bytes in the order of ties. The text is scanned on
/// all threads of the current pool; what is learned does not depend on their number.
///
/// **Memory:** 1 byte for each of the text, 1 for each token once there are more than 256, and 2 for each
/// token that is given out.
///
/// # Errors
/// The observer wants to stop.
pub(super) fn learn_by_scanning(
    pieces: PieceCounts,
    config: &TrainConfig,
    byte_order: &[u32; 256],
    observer: &dyn Observer,
) -> Result<Scanned> {
    let tuning = Tuning::new(Engine::best(), pieces.bytes());
    Rounds::new(pieces, config, byte_order, tuning, observer)?.run()
}

/// The merges that scanning learns, however long lists have been cheaper; for tests and benchmarks.
///
/// # Errors
/// The observer wants to stop.
pub fn merges_by_scanning(
    pieces: PieceCounts,
    config: &TrainConfig,
    engine: Engine,
    observer: &dyn Observer,
) -> Result<Merges> {
    let tuning = Tuning { codes_a_merge: NEVER, ..Tuning::new(engine, pieces.bytes()) };
    let byte_order = std::array::from_fn(low32);
    Ok(Merges::new(Rounds::new(pieces, config, &byte_order, tuning, observer)?.run()?.merges))
}

/// Whether [`learn_by_scanning`] can learn from these sequences by these rules, and is worth it.
pub(super) fn suits(pieces: &PieceCounts, config: &TrainConfig) -> bool {
    let bytes = amount(pieces.bytes());
    is_for(config, bytes) && layout::laid_out(pieces).is_some_and(|laid_out| laid_out <= bytes / 4 * 5)
}

/// Whether sequences of so many bytes, if they seldom repeat, are scanned for so long that the lists that come
/// then are short.
pub(super) fn keeps_lists_short(config: &TrainConfig, bytes: u64) -> bool {
    is_for(config, bytes) && bytes >= CACHED_BYTES
}

fn is_for(config: &TrainConfig, bytes: u64) -> bool {
    let by_ids = matches!(config.tie_break, TieBreak::Ids | TieBreak::Hf);
    by_ids && config.score == Score::Count && config.merges > 0 && bytes >= LEAST_BYTES
}
