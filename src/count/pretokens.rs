//! The list of distinct pre-tokens and their counts.

use rayon::slice::ParallelSliceMut;

use crate::base::int::Count;

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
/// let pre-tokens: PretokenCounts = [(&b"the"[..], Count::new(2)), (b" cat", Count::new(1))].into_iter().collect();
/// assert_eq!((pretokens.len(), pretokens.bytes()), (2, 7));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PretokenCounts {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
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

    /// Returns the concatenated bytes of the sequences.
    pub(super) fn all_bytes(&self) -> &[u8] {
        &self.bytes
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
        nth(&self.bytes, &self.ends, index)
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
        let mut order: Vec<(u64, usize)> = (0..self.len()).map(placed).collect();
        order.par_sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.pretoken(one.1).cmp(self.pretoken(other.1)))
        });
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// Returns the sequences with their counts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Count)> {
        self.counts.iter().enumerate().map(|(index, &count)| (self.pretoken(index), count))
    }
}

/// Returns one of several concatenated sequences, given the end of each.
#[inline]
pub(super) fn nth<'a>(bytes: &'a [u8], ends: &[usize], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &bytes[start..ends[index]]
}

impl<'a> FromIterator<(&'a [u8], Count)> for PretokenCounts {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], Count)>>(pretokens: I) -> PretokenCounts {
        let mut counts = PretokenCounts::new();
        for (pretoken, count) in pretokens {
            counts.push(pretoken, count);
        }
        counts
    }
}
