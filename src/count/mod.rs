//! Counts how often each distinct piece occurs, on all cores, exactly.
//!
//! Takes batches of documents and a splitter, gives [`PieceCounts`]. Without a split the documents
//! themselves are the pieces. Knows nothing of merges and tokens.
//!
//! ```
//! use tokenmill::count::{CountConfig, count_pieces};
//! use tokenmill::observer::Silent;
//! use tokenmill::{source, split};
//!
//! let splitter = split::splitter(&"gpt2".parse()?)?;
//! let documents = source::texts(["the cat sat", "the cat ran"]);
//! let counted = count_pieces(documents, &*splitter, &CountConfig::default(), &Silent)?;
//! let pieces: Vec<_> = counted.pieces.iter().map(|(piece, count)| (piece, count.get())).collect();
//! // In the order in which they first appear.
//! assert_eq!(pieces[..2], [(&b"the"[..], 2), (b" cat", 2)]);
//! # Ok::<(), tokenmill::Error>(())
//! ```

mod pieces;
mod facts;
mod histogram;
mod prepare;
mod carry;
mod parts;
mod piece_log;
mod entry;
mod slots;
mod table;
mod fold;
mod shard;
mod runs;
mod merge;
mod counts;
mod gather;
mod checksum;
mod counts_reader;
mod counts_file;
mod counts_writer;
mod sum;
#[doc(hidden)]
pub mod reference;
mod fault;

pub use counts::{Counts, MemoryLimit, Written};
pub use counts_file::{CountsFile, CountsInfo, read_counts, read_counts_info};
pub use counts_writer::write_counts;
pub(crate) use facts::characters;
pub use facts::{CorpusFacts, SourceFacts};
pub(crate) use fault::TooLongForMemory;
pub use gather::gather_documents;
pub use histogram::{Bin, Histogram};
pub use pieces::PieceCounts;
pub use prepare::{Prepare, Prepared};
pub use sum::{Sum, WeightedFile, check_same, sum_counts, write_sum};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::observer::Observer;
use crate::source::Documents;
use crate::split::{SpecialFinder, Splitter};
use crate::units::{ByteCount, place64};

/// What ends a text that is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// Each document is split on its own.
    #[default]
    Document,
    /// The documents of a source are laid end to end, with nothing between them, and split as one text.
    Join,
}

/// A piece of so many bytes is held whatever the limit.
const LEAST_LONGEST: u64 = 1 << 20;

/// Settings of [`count_pieces`] and [`gather_documents`].
#[derive(Clone, Debug, Default)]
pub struct CountConfig {
    /// Special tokens, which are cut out of the text and never counted.
    pub specials: SpecialFinder,
    /// What else happens to a text before it is split. Documents must then come [whole](crate::source::whole_documents),
    /// with [`Boundary::Document`]; special tokens are for it to cut out.
    pub prepare: Option<Arc<dyn Prepare>>,
    /// What the counts of each source are multiplied by; 1 where the list ends. A source of weight 0 is
    /// read and described, but not counted.
    pub weights: Vec<u64>,
    /// What ends a text.
    pub boundary: Boundary,
    /// How much memory distinct pieces may take, and where more of them go; `None` is no limit. What
    /// [`gather_documents`] gathers goes nowhere: more is an error.
    pub limit: Option<MemoryLimit>,
}

impl CountConfig {
    /// The most bytes of one piece within the limit of memory: it is carried until its end is known, and once more in a
    /// table, on disk, and where runs are merged and written.
    fn longest_piece(&self) -> usize {
        const COPIES: u64 = 8;
        self.limit.as_ref().map_or(usize::MAX, |limit| place64((limit.tables.0 / COPIES).max(LEAST_LONGEST)))
    }

    fn weight(&self, source: usize) -> u64 {
        self.weights.get(source).copied().unwrap_or(1)
    }
}

/// Distinct pieces with their counts, and what was seen on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The pieces, in order of first appearance in the corpus.
    pub pieces: PieceCounts,
    /// Facts about the text.
    pub facts: CorpusFacts,
}

/// Counts the pieces that `splitter` cuts documents into, and takes them all into memory; see
/// [`count_within_limit`].
///
/// # Errors
/// Those of [`count_within_limit`] and [`Counts::into_counted`].
pub fn count_pieces(
    documents: Documents<'_>,
    splitter: &dyn Splitter,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<Counted> {
    count_within_limit(documents, splitter, config, observer)?.into_counted(observer)
}

/// Counts the pieces that `splitter` cuts documents into, on as many threads as the current rayon
/// pool has. The result does not depend on their number, nor on how documents come in batches, nor on
/// the limit of memory.
///
/// Calls `observer.advanced` with bytes of text, but neither `started` nor `finished`.
///
/// **Memory:** for each distinct piece that a thread has met its bytes and some 150 more, up to 200 where it has met about
/// 200 000; with a limit that, but at least a megabyte a thread. Besides a few batches, and the longest stretch of a
/// document (with [`Boundary::Join`], of a source) in which the pattern has no certain cut.
///
/// # Errors
/// Reading or splitting fails, a piece is longer than an eighth of the limit of memory, or 1 MiB
/// ([`ErrorKind::Memory`](crate::ErrorKind::Memory)), a count passes 2⁶⁴, a sorted run cannot be written, or the observer stops
/// the run.
pub fn count_within_limit(
    documents: Documents<'_>,
    splitter: &dyn Splitter,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<Counts> {
    let parts = parts::Parts::new(documents, splitter, config);
    let shard::Counted { tables, runs, facts } = shard::count(parts, splitter, config, observer)?;
    let pieces = match &config.limit {
        Some(limit) if !runs.is_empty() => {
            let (number, bytes) =
                (runs.iter().map(runs::Runs::len).sum::<usize>(), runs.iter().map(runs::Runs::bytes).sum());
            observer.noted(&format!(
                "the pieces went to {} in {number} sorted runs of {} in all: memory for them is limited to {}",
                limit.scratch.display(),
                ByteCount(bytes),
                limit.tables,
            ));
            counts::Pieces::Spilled(runs, limit.clone())
        }
        _ => counts::Pieces::Held(fold::fold(tables)?),
    };
    Ok(Counts { pieces, facts })
}

#[cfg(test)]
mod tests;
