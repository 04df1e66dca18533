//! Distinct pre-tokens and their counts: the list, the list with an index, and readers of other lists.

use std::ops::Range;

use rayon::prelude::*;

use super::overflow;
use crate::base::hash::{HashIndex, SeededHash};
use crate::base::int::{ByteCount, Count, to_u64};
use crate::error::{Error, ErrorKind, Result};

/// Bytes that [`PretokenCounts`] takes for each pre-token in addition to its own: its end and its count.
pub(super) const BYTES_EACH: u64 = 16;

/// The same for [`DistinctPretokens`]. Its index takes at most 32 bytes more for each pre-token.
pub(super) const BYTES_EACH_INDEXED: u64 = 48;

/// Distinct byte sequences and their counts: the input of training. The sequences are pre-tokens, or documents if
/// there is no split.
///
/// They are in order of first appearance in the corpus, which the tie rule `first` of training depends on. No
/// sequence is empty and no count is zero. Counting gives each sequence once.
///
/// **Memory:** the bytes of the distinct sequences plus 16 bytes for each.
///
/// ```
/// use tokenmill::{Count, PretokenCounts};
///
/// let pretokens: PretokenCounts = [(&b"the"[..], Count::new(2)), (b" cat", Count::new(1))].into_iter().collect();
/// assert_eq!((pretokens.len(), pretokens.bytes()), (2, 7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PretokenCounts {
    /// The bytes of all sequences, concatenated. While documents are read, the text in progress follows.
    pub(super) bytes: Vec<u8>,
    /// The end of each sequence in `bytes`, ascending.
    pub(super) ends: Vec<usize>,
    /// The count of each sequence, above zero.
    pub(super) counts: Vec<Count>,
}

impl PretokenCounts {
    /// Creates an empty list.
    pub fn new() -> PretokenCounts {
        PretokenCounts::default()
    }

    /// Appends a sequence that first appears after all others. Empty sequences and zero counts are ignored.
    ///
    /// It does not look for an equal sequence in the list. Training treats equal sequences like one with the sum of
    /// their counts.
    pub fn push(&mut self, pretoken: &[u8], count: Count) {
        if pretoken.is_empty() || count == Count::ZERO {
            return;
        }
        self.bytes.extend_from_slice(pretoken);
        self.ends.push(self.bytes.len());
        self.counts.push(count);
    }

    /// Returns the number of sequences. They are distinct unless one was [pushed](PretokenCounts::push) again.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list has no sequences.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the total length of the sequences in bytes, without regard to their counts.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the concatenated bytes of the sequences, the end of each in them, and the count of each.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<usize>, Vec<Count>) {
        (self.bytes, self.ends, self.counts)
    }

    /// Returns the sequence at an index.
    ///
    /// # Panics
    /// The index is not below [`len`](PretokenCounts::len).
    pub(super) fn pretoken(&self, index: usize) -> &[u8] {
        pretoken_at(&self.bytes, &self.ends, index)
    }

    /// Returns the indexes of the sequences, sorted by the bytes of the sequences.
    pub(super) fn by_bytes(&self) -> Vec<usize> {
        // The first eight bytes decide most comparisons without access to the memory of the sequences.
        let beginning = |pretoken: &[u8]| {
            let mut bytes = [0; 8];
            let length = pretoken.len().min(bytes.len());
            bytes[..length].copy_from_slice(&pretoken[..length]);
            u64::from_be_bytes(bytes)
        };
        let placed = |index: usize| (beginning(self.pretoken(index)), index);
        let mut order: Vec<(u64, usize)> = (0..self.len()).into_par_iter().map(placed).collect();
        order.par_sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.pretoken(one.1).cmp(self.pretoken(other.1)))
        });
        order.into_par_iter().map(|(_, index)| index).collect()
    }

    /// Returns copies of the sequences at these indexes with their counts, in this order, in several lists.
    pub(super) fn copied(&self, indexes: &[usize]) -> Vec<PretokenCounts> {
        /// Sequences of a list.
        const EACH: usize = 1 << 12;
        let copy = |indexes: &[usize]| {
            indexes.iter().map(|&index| (self.pretoken(index), self.counts[index])).collect()
        };
        indexes.par_chunks(EACH).map(copy).collect()
    }

    /// Returns the memory in bytes. `each` is the number of bytes for each sequence in addition to its own.
    pub(super) fn memory(&self, each: u64) -> u64 {
        to_u64(self.bytes()) + each * to_u64(self.len())
    }

    /// Checks that the [`memory`](PretokenCounts::memory) keeps within a limit.
    pub(super) fn check_fits(&self, each: u64, limit: ByteCount) -> Result<()> {
        if self.memory(each) <= limit.0 {
            return Ok(());
        }
        let problem =
            format!("the distinct pre-tokens need more than {limit}, their share of the memory limit");
        Err(Error::message(ErrorKind::Memory, problem)
            .with_help("raise --memory, or count a part of the corpus (`take`, `every`, `max_bytes`)"))
    }

    /// Returns the list with each sequence once. Equal ones are summed, in the place of the first of them.
    ///
    /// **Memory:** that of the result, and 11 to 32 bytes more for each of its sequences.
    ///
    /// ```
    /// use tokenmill::{Count, PretokenCounts};
    ///
    /// let parts: PretokenCounts = [(&b"the"[..], Count::new(2)), (b"the", Count::new(3))].into_iter().collect();
    /// assert_eq!(parts.summed()?.iter().collect::<Vec<_>>(), [(&b"the"[..], Count::new(5))]);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    ///
    /// # Errors
    /// A sum exceeds 2⁶⁴ − 1.
    pub fn summed(&self) -> Result<PretokenCounts> {
        let mut distinct = DistinctPretokens::default();
        for (pretoken, count) in self.iter() {
            match distinct.find(pretoken) {
                Ok(index) => distinct.add_at(index, count)?,
                Err(hash) => distinct.push(hash, pretoken, count)?,
            }
        }
        Ok(distinct.pretokens)
    }

    /// Returns the sequences with their counts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Count)> {
        self.range(0..self.len())
    }

    /// Returns the sequences at these indices with their counts, in order.
    ///
    /// # Panics
    /// While iterating, if an index is not below [`len`](PretokenCounts::len).
    pub fn range(&self, indices: Range<usize>) -> impl ExactSizeIterator<Item = (&[u8], Count)> {
        indices.map(|index| (self.pretoken(index), self.counts[index]))
    }
}

/// Returns one of several concatenated sequences, given the end of each.
#[inline]
pub(super) fn pretoken_at<'a>(bytes: &'a [u8], ends: &[usize], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &bytes[start..ends[index]]
}

impl<'a> FromIterator<(&'a [u8], Count)> for PretokenCounts {
    /// [Pushes](PretokenCounts::push) each sequence. Equal ones stay separate.
    fn from_iter<I: IntoIterator<Item = (&'a [u8], Count)>>(pretokens: I) -> PretokenCounts {
        let mut counts = PretokenCounts::new();
        for (pretoken, count) in pretokens {
            counts.push(pretoken, count);
        }
        counts
    }
}

/// [`PretokenCounts`] in which a pre-token is found by its bytes.
#[derive(Debug, Default)]
pub(super) struct DistinctPretokens {
    /// The pre-tokens. Each of them must be in the index.
    pub(super) pretokens: PretokenCounts,
    /// Finds the pre-tokens, numbered from 1, by their hashes.
    index: HashIndex,
}

impl DistinctPretokens {
    /// Returns the index of a pre-token, or, if the list does not have it, its hash.
    pub(super) fn find(&self, pretoken: &[u8]) -> Result<usize, u64> {
        let hash = SeededHash::of_process().bytes(pretoken);
        let found = self.index.find(hash, |number| self.pretokens.pretoken(number - 1) == pretoken);
        found.map(|number| number - 1).ok_or(hash)
    }

    /// Adds to the count of the pre-token at an index.
    ///
    /// # Errors
    /// The sum exceeds 2⁶⁴ − 1.
    pub(super) fn add_at(&mut self, index: usize, more: Count) -> Result<()> {
        let count = self.pretokens.counts[index];
        self.pretokens.counts[index] = sum_of_counts(self.pretokens.pretoken(index), count, more)?;
        Ok(())
    }

    /// Appends a new pre-token with the hash that [`find`](DistinctPretokens::find) returned.
    ///
    /// # Errors
    /// The index has as many pre-tokens as it can number.
    pub(super) fn push(&mut self, hash: u64, pretoken: &[u8], count: Count) -> Result<()> {
        self.pretokens.push(pretoken, count);
        self.index_last(hash)
    }

    /// Counts the bytes behind the last pre-token, up to `end`, as a new pre-token.
    pub(super) fn push_in_place(&mut self, hash: u64, end: usize, count: Count) -> Result<()> {
        self.pretokens.ends.push(end);
        self.pretokens.counts.push(count);
        self.index_last(hash)
    }

    /// Adds the last pre-token to the index.
    fn index_last(&mut self, hash: u64) -> Result<()> {
        Ok(self.index.insert(hash, self.pretokens.len())?)
    }
}

/// Returns the sum of two counts of a pre-token.
///
/// # Errors
/// It exceeds 2⁶⁴ − 1. The error names the pre-token.
pub(super) fn sum_of_counts(pretoken: &[u8], one: Count, other: Count) -> Result<Count> {
    one.checked_add(other).ok_or_else(|| overflow(pretoken))
}

/// Returns a count times a weight.
///
/// # Errors
/// The product exceeds 2⁶⁴ − 1. The error names the pre-token.
#[cfg(feature = "data")]
pub(super) fn multiplied(pretoken: &[u8], count: Count, weight: u64) -> Result<Count> {
    count.checked_mul(weight).ok_or_else(|| overflow(pretoken))
}

/// Reads pre-tokens one after another.
pub(super) trait PretokenReader {
    /// Reads the next pre-token. Returns `false` at the end.
    ///
    /// # Errors
    /// The source of the pre-tokens cannot be read, or is damaged.
    fn advance(&mut self) -> Result<bool>;

    /// Returns the current pre-token, its count, and the position at which it first appears. Valid after
    /// [`advance`](PretokenReader::advance) has returned `true`.
    fn current(&self) -> (&[u8], Count, u64);
}
