//! Counts how often each distinct pre-token occurs, exactly and on all cores.
//!
//! Takes batches of documents and a splitter, gives [`PretokenCounts`]. Without a split, each document is one
//! pre-token; [`count_whole_documents`] counts these. Knows nothing of merges and tokens.
//!
//! Counting works in these steps: `documents` divides the corpus into chunks at safe split points, each thread of
//! `shard` counts into a hash `table`, and `fold` sums the tables. With a limit of memory, `spill` writes full tables
//! to disk as sorted runs, and merges these. `counts_file` stores the result, `foreign` reads counts of other programs,
//! and `sum` adds such files.
//!
//! `documents`, `shard`, `spill`, `counts_file`, `foreign` and `sum` read and write data; the other files need only bytes.
//!
//! ```
//! use tokenmill::count::{CountConfig, count_pretokens};
//! use tokenmill::observer::Silent;
//! use tokenmill::{source, split};
//!
//! let splitter = split::splitter(&"gpt2".parse()?)?;
//! let documents = source::texts(["the cat sat", "the cat ran"]);
//! let counted = count_pretokens(documents, &*splitter, &CountConfig::default(), &Silent)?;
//! let pretokens: Vec<_> = counted.pretokens.iter().map(|(pretoken, count)| (pretoken, count.get())).collect();
//! // Pre-tokens are in order of first appearance.
//! assert_eq!(pretokens[..2], [(&b"the"[..], 2), (b" cat", 2)]);
//! # Ok::<(), tokenmill::Error>(())
//! ```
//!

mod pretokens;
mod facts;
mod table;
mod fold;
#[cfg(feature = "data")]
mod documents;
#[cfg(feature = "data")]
mod spill;
#[cfg(feature = "data")]
mod shard;
#[cfg(feature = "data")]
mod counts_file;
#[cfg(feature = "data")]
mod foreign;
#[cfg(feature = "data")]
mod input_shards;
#[cfg(feature = "data")]
mod sum;
#[doc(hidden)]
pub mod reference;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::hash;
use crate::base::int::{ByteCount, to_u64, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};
use crate::split::SpecialFinder;

#[cfg(feature = "data")]
pub(crate) use counts_file::read_counts_info_if_ours;
#[cfg(feature = "data")]
pub use counts_file::{
    CountsFile, CountsInfo, INFO_KEY as COUNTS_INFO_KEY, read_counts, read_counts_info, read_counts_len,
    write_counts,
};
#[cfg(feature = "data")]
pub use documents::count_whole_documents;
pub(crate) use facts::count_characters;
pub use facts::{Bin, CorpusFacts, Histogram, SourceFacts};
pub use fold::count_texts;
pub use pretokens::PretokenCounts;
#[cfg(feature = "data")]
pub use shard::{PretokenVisitor, count_pretokens, count_spilling, visit_pretokens};
#[cfg(feature = "data")]
pub use spill::{SpillableCounts, WrittenCounts};
#[cfg(feature = "data")]
pub use sum::{SumConfig, WeightedFile, WrittenSum, check_same_settings, sum_counts, write_sum};

/// The extent of a text that is split on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// Each document is split on its own.
    #[default]
    Document,
    /// The documents of a source are concatenated, with nothing between them, and split as one text.
    Join,
}

/// The memory that counting may take, and the folder for pre-tokens beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes of the tables of all threads together, also while they grow.
    pub table_bytes: ByteCount,
    /// The folder for sorted runs of pre-tokens. It is created if it does not exist.
    ///
    /// The runs take less space than the text. They take twice as much if the result is in order of first appearance,
    /// or if they are too many to be read at a time. Their files have no names: the system removes them however the
    /// program ends.
    pub spill_folder: PathBuf,
}

/// Bytes (1 MiB) that a single pre-token may have however small the limit of memory is.
const MIN_LONGEST_PRETOKEN: u64 = 1 << 20;

/// Settings of [`count_pretokens`] and [`count_whole_documents`].
///
/// ```
/// use tokenmill::count::{CountConfig, count_pretokens};
/// use tokenmill::observer::Silent;
/// use tokenmill::split::SpecialFinder;
/// use tokenmill::{source, split};
///
/// let specials = SpecialFinder::new(&["<s>"])?;
/// let config = CountConfig { specials, weights: vec![3], ..CountConfig::default() };
/// let splitter = split::splitter(&"gpt2".parse()?)?;
/// let counted = count_pretokens(source::texts(["<s>hello"]), &*splitter, &config, &Silent)?;
/// let pretokens: Vec<_> = counted.pretokens.iter().map(|(pretoken, count)| (pretoken, count.get())).collect();
/// assert_eq!(pretokens, [(&b"hello"[..], 3)]);
/// assert_eq!(counted.facts.special_tokens, 1);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CountConfig {
    /// Special tokens. They are removed from the text before it is split, and never counted.
    pub specials: SpecialFinder,
    /// Further preparation of a text before it is split. It needs [whole documents](crate::source::collected_documents)
    /// and [`Boundary::Document`], and it must find the special tokens itself: `specials` is then not used.
    pub prepare: Option<Arc<dyn Prepare>>,
    /// The factor of each source's counts, by the number of the source; 1 for sources beyond the end of the list. A
    /// source of weight 0 is read and described in the facts, but not counted.
    pub weights: Vec<u64>,
    /// The extent of a text that is split on its own.
    pub boundary: Boundary,
    /// The memory that distinct pre-tokens may take, and the folder for the rest; `None` is no limit.
    /// [`count_whole_documents`] does not use the folder: for it, more than the limit is an error.
    pub limit: Option<MemoryLimit>,
}

impl CountConfig {
    /// Returns the most bytes that one pre-token may have: an eighth of the limit of memory, and at least
    /// [`MIN_LONGEST_PRETOKEN`]. The divisor allows for copies: a pre-token is carried until its end is known, and is then
    /// in a table, in a run on disk, and where runs are merged and written.
    fn longest_pretoken(&self) -> usize {
        const COPIES: u64 = 8;
        self.limit.as_ref().map_or(usize::MAX, |limit| {
            u64_to_usize((limit.table_bytes.0 / COPIES).max(MIN_LONGEST_PRETOKEN))
        })
    }

    /// Returns the factor of the counts of a source.
    fn weight(&self, source: usize) -> u64 {
        self.weights.get(source).copied().unwrap_or(1)
    }
}

/// Distinct pre-tokens with their counts, and facts about the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorpusCounts {
    /// The pre-tokens, in order of first appearance in the corpus.
    pub pretokens: PretokenCounts,
    /// Facts about the text.
    pub facts: CorpusFacts,
}

/// Prepares a whole text before it is split: it normalizes the text, for example, or removes added tokens from it. So
/// counting sees the text that a tokenizer merges.
///
/// ```
/// use tokenmill::Result;
/// use tokenmill::count::{Prepare, Prepared};
///
/// #[derive(Debug)]
/// struct Lowercase;
///
/// impl Prepare for Lowercase {
///     fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()> {
///         if text.is_empty() { Ok(()) } else { take(Prepared::Text(&text.to_ascii_lowercase())) }
///     }
/// }
/// ```
pub trait Prepare: fmt::Debug + Send + Sync {
    /// Passes the segments of the prepared text to `take`, in order.
    ///
    /// All of them together may have at most 1 024 times as many bytes as `text`.
    ///
    /// # Errors
    /// The first error of `take`.
    fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()>;
}

/// A segment of a prepared text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared<'a> {
    /// Text to split and to count, never empty.
    Text(&'a [u8]),
    /// The text of a token that was removed. It is not counted.
    Token(&'a [u8]),
}

/// Largest factor by which preparation may lengthen a text. Positions in a prepared corpus are spaced by this factor,
/// so that each byte of a prepared text has its own.
const MAX_GROWTH: u64 = 1 << 10;

/// Returns the position of a text in a prepared corpus, given the bytes of the original corpus before it.
fn prepared_position(bytes_before: u64) -> u64 {
    bytes_before.saturating_mul(MAX_GROWTH)
}

/// Checks that a text has not become more than [`MAX_GROWTH`] times as long. `prepared` is its length afterwards, in
/// bytes.
fn check_growth(prepared: u64, text: &[u8]) -> Result<()> {
    if prepared <= to_u64(text.len()).saturating_mul(MAX_GROWTH) {
        return Ok(());
    }
    let problem =
        format!("normalizing a text before the split makes it more than {MAX_GROWTH} times as long");
    Err(Error::failed(problem).with_help("use a tokenizer whose normalizer makes text less long"))
}

/// A pre-token that is longer than the memory limit allows. The source and the unit are given by their numbers; a
/// caller that knows their names can add these.
#[derive(Debug, thiserror::Error)]
#[error("a pre-token is longer than {limit}, the most that the memory limit allows")]
pub(crate) struct PretokenExceedsLimit {
    /// The source, as an index of the run's sources.
    pub(crate) source_number: usize,
    /// The unit in that source, for example a file.
    pub(crate) unit: usize,
    /// The row of the unit in which the pre-token starts.
    pub(crate) row: u64,
    /// The longest pre-token that is allowed.
    limit: ByteCount,
}

impl PretokenExceedsLimit {
    /// Returns the error for a pre-token that starts in this unit and row.
    fn new(source_number: usize, (unit, row): (usize, u64), config: &CountConfig) -> PretokenExceedsLimit {
        PretokenExceedsLimit { source_number, unit, row, limit: ByteCount(to_u64(config.longest_pretoken())) }
    }
}

impl From<PretokenExceedsLimit> for Error {
    fn from(error: PretokenExceedsLimit) -> Error {
        Error::new(ErrorKind::Memory, error).with_help(
            "raise --memory, leave the document out, or cut it: --documents line or paragraph, or --separator",
        )
    }
}

/// Returns the start of a pre-token for messages, and its length if it has more than 40 bytes.
fn shown(pretoken: &[u8]) -> String {
    const MAX: usize = 40;
    let start = String::from_utf8_lossy(&pretoken[..pretoken.len().min(MAX)]);
    if pretoken.len() > MAX {
        format!("{start:?}… ({} bytes)", pretoken.len())
    } else {
        format!("{start:?}")
    }
}

/// Returns the error of a count that exceeds 2⁶⁴ − 1.
fn overflow(pretoken: &[u8]) -> Error {
    Error::failed(format!("the count of {} does not fit in 64 bits", shown(pretoken)))
        .with_help("use smaller weights, or sample the corpus")
}

/// What to do about a corpus that does not fit the memory of the machine.
const USE_A_PART: &str = "use only a part of the corpus (`take`, `every`, `max_bytes`)";

impl From<hash::IndexFull> for Error {
    fn from(_: hash::IndexFull) -> Error {
        let max = hash::MAX_ENTRIES;
        let problem = format!("the corpus has more than {max} distinct pre-tokens, which is the limit");
        Error::message(ErrorKind::Memory, problem).with_help(USE_A_PART)
    }
}

#[cfg(test)]
mod tests;
