use rayon::slice::ParallelSliceMut;

use crate::units::Count;

/// Distinct byte sequences with how often each occurs: what training learns from.
///
/// In order of first appearance in the corpus, none empty, all counts above zero, and as it is counted each once.
///
/// **Memory:** the bytes of the distinct sequences plus 16 bytes for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceCounts {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    pub(super) counts: Vec<Count>,
}

impl PieceCounts {
    /// No pieces yet.
    pub fn new() -> PieceCounts {
        PieceCounts::default()
    }

    /// Appends a sequence that appears after all that are there, unless it is empty or never occurs.
    ///
    /// One that is there already counts as more of the same.
    pub fn push(&mut self, piece: &[u8], count: Count) {
        if piece.is_empty() || count == Count::ZERO {
            return;
        }
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
        self.counts.push(count);
    }

    /// How many sequences there are: distinct ones, unless one was [pushed](PieceCounts::push) again.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all distinct sequences together, each counted once.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of all distinct sequences, one after the other.
    pub(super) fn all_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of all distinct sequences one after the other, where each ends, and how often each occurs.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<usize>, Vec<Count>) {
        (self.bytes, self.ends, self.counts)
    }

    /// The sequence at a place in the order.
    pub(super) fn piece(&self, index: usize) -> &[u8] {
        nth(&self.bytes, &self.ends, index)
    }

    /// The places of the sequences in the order of their bytes.
    pub(super) fn by_bytes(&self) -> Vec<usize> {
        // Most are told apart by what they begin with, without a look at where they lie.
        let beginning = |piece: &[u8]| {
            let mut bytes = [0; 8];
            let length = piece.len().min(bytes.len());
            bytes[..length].copy_from_slice(&piece[..length]);
            u64::from_be_bytes(bytes)
        };
        let placed = |index: usize| (beginning(self.piece(index)), index);
        let mut order: Vec<(u64, usize)> = (0..self.len()).map(placed).collect();
        order.par_sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.piece(one.1).cmp(self.piece(other.1)))
        });
        order.into_iter().map(|(_, index)| index).collect()
    }

    /// The sequences with their counts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Count)> {
        self.counts.iter().enumerate().map(|(index, &count)| (self.piece(index), count))
    }
}

/// One of several sequences that are laid end to end, given where each ends.
#[inline]
pub(super) fn nth<'a>(bytes: &'a [u8], ends: &[usize], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &bytes[start..ends[index]]
}

impl<'a> FromIterator<(&'a [u8], Count)> for PieceCounts {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], Count)>>(pieces: I) -> PieceCounts {
        let mut counts = PieceCounts::new();
        for (piece, count) in pieces {
            counts.push(piece, count);
        }
        counts
    }
}
