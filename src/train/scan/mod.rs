//! Learns the first merges of a long text without lists of occurrences.
//!
//! Takes unweighted sequences; gives the text as tokens and the [merges](Scanned::merges) so far, from which
//! the trainer with lists continues. The text is kept in place as one-byte codes (two bytes once these run
//! out), and a dense table holds the count of every pair. A round merges an exact [batch] of pairs in one pass
//! over the text. The pass also compacts the text and tallies the neighbours of the merged pairs while they are
//! in cache.
//!
//! On a long text the first lists would have nearly as many entries as the text has bytes; after some hundred
//! merges they are much shorter.

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
use crate::base::int::{to_u64, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::Observer;

/// Separates sequences in [`Scanned::text`]. No token has this id.
pub(super) const BETWEEN: u16 = u16::MAX;

/// State after the merges that were learned by scanning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Token ids of training, one per token, with [`BETWEEN`] between sequences. `None` if training is
    /// complete: there are enough merges, or no pair is left that may be merged.
    pub(super) text: Option<Vec<u16>>,
    /// The merges so far, with exact counts.
    pub(super) merges: Vec<Merge>,
    /// The history so far, with a point at the start and wherever [`TrainConfig`] asks for one.
    pub(super) history: Vec<HistoryPoint>,
    /// Number of tokens in the text, without the separators.
    pub(super) tokens: u64,
}

/// Parameters of the scan. Results do not depend on them, except for the number of merges learned by scanning.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// Codes per chunk. A thread works on one chunk of the text at a time.
    chunk: usize,
    /// Bytes that make up less than `1 / rare_share` of the text share one code at first.
    rare_share: u64,
    /// Maximum number of merges that get one-byte codes.
    narrow_merges: usize,
    /// Number of codes at which the scan ends.
    most_codes: usize,
    /// Cost of merging one occurrence with lists, as the number of codes that can be scanned in the same time.
    codes_a_merge: u64,
    /// Implementation of the pass over the text.
    engine: Engine,
}

/// Value of [`Tuning::codes_a_merge`] with which lists are never cheaper.
const NEVER: u64 = u64::MAX;

impl Tuning {
    /// Parameters for a text of `bytes` bytes.
    fn new(engine: Engine, bytes: usize) -> Tuning {
        let is_cached = to_u64(bytes) < CACHED_BYTES;
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

/// Bytes. Shorter texts are learned faster with lists from the start.
const LEAST_BYTES: u64 = 1 << 18;

/// Bytes. For shorter texts the lists refer to memory that fits the caches, so that they become cheaper
/// earlier.
const CACHED_BYTES: u64 = 1 << 24;

/// Learns merges by scanning for as long as that is cheaper than lists, or until there are enough merges or no
/// pair is left that may be merged.
///
/// `byte_order` has the rank of each byte in the tie order. The text is scanned on all threads of the current
/// pool; the result does not depend on their number.
///
/// **Memory:** 1 byte per byte of the text, 1 more per token once more than 256 codes are needed, and 2 per
/// token of the result.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn learn_by_scanning(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    byte_order: &[u32; 256],
    observer: &dyn Observer,
) -> Result<Scanned> {
    let tuning = Tuning::new(Engine::best(), pretokens.bytes());
    Rounds::new(pretokens, config, byte_order, tuning, observer)?.run()
}

/// The merges that are learned by scanning alone, even where lists would be cheaper. For tests and benchmarks.
///
/// # Errors
/// The observer asks to stop.
pub fn merges_by_scanning(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    engine: Engine,
    observer: &dyn Observer,
) -> Result<Merges> {
    let tuning = Tuning { codes_a_merge: NEVER, ..Tuning::new(engine, pretokens.bytes()) };
    let byte_order = std::array::from_fn(truncate_to_u32);
    Ok(Merges::new(Rounds::new(pretokens, config, &byte_order, tuning, observer)?.run()?.merges))
}

/// Whether [`learn_by_scanning`] supports these settings and pays off for these sequences.
pub(super) fn suits(pretokens: &PretokenCounts, config: &TrainConfig) -> bool {
    let bytes = to_u64(pretokens.bytes());
    is_for(config, bytes) && layout::laid_out(pretokens).is_some_and(|laid_out| laid_out <= bytes / 4 * 5)
}

/// Whether `bytes` bytes of sequences that seldom repeat are scanned for long enough that the lists after it
/// are short.
pub(super) fn keeps_lists_short(config: &TrainConfig, bytes: u64) -> bool {
    is_for(config, bytes) && bytes >= CACHED_BYTES
}

/// Whether scanning supports these settings, and the text is long enough.
fn is_for(config: &TrainConfig, bytes: u64) -> bool {
    let by_ids = matches!(config.tie_break, TieBreak::Ids | TieBreak::Hf);
    by_ids && config.score == Score::Count && config.merges > 0 && bytes >= LEAST_BYTES
}
