use super::text::Code;
use crate::units::amount;

/// So many codes fit the widest table.
pub(super) const MOST_CODES: usize = 1 << 10;

/// How often each pair of codes occurs, in a dense table.
///
/// **Memory:** 0.5 MB for one-byte codes, 8 MB for wider ones.
pub(super) struct PairCounts {
    side: usize,
    counts: Vec<u64>,
}

impl PairCounts {
    /// No pair of codes below `side` occurs.
    pub(super) fn new(side: usize) -> PairCounts {
        PairCounts { side, counts: vec![0; side * side] }
    }

    /// The same counts, with room for pairs of codes below `side`.
    pub(super) fn widened(&self, side: usize) -> PairCounts {
        let mut wide = PairCounts::new(side);
        for (to, from) in wide.counts.chunks_exact_mut(side).zip(self.counts.chunks_exact(self.side)) {
            to[..self.side].copy_from_slice(from);
        }
        wide
    }

    /// Codes that the table has room for.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    pub(super) fn get(&self, left: Code, right: Code) -> u64 {
        self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    pub(super) fn get_mut(&mut self, left: Code, right: Code) -> &mut u64 {
        &mut self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    /// The counts of the pairs with this left code, by their right codes.
    pub(super) fn row(&self, left: Code) -> &[u64] {
        let start = usize::from(left) * self.side;
        &self.counts[start..start + self.side]
    }
}

/// Counts the pairs of one-byte codes in parts of a text.
pub(super) struct ByteTally {
    /// Two tables taken in turn, so that a pair need not wait for the one before it to be counted.
    now: Vec<[u32; 2]>,
    /// Pairs in `now`, which has 32 bits for them.
    pairs: u64,
    counts: Vec<u64>,
}

impl ByteTally {
    pub(super) fn new() -> ByteTally {
        ByteTally { now: vec![[0; 2]; 1 << 16], pairs: 0, counts: vec![0; 1 << 16] }
    }

    /// Counts the pairs within this part of a text.
    pub(super) fn count(&mut self, text: &[u8]) {
        if self.pairs + amount(text.len()) > u64::from(u32::MAX) {
            self.settle();
        }
        self.pairs += amount(text.len());
        let now = self.now.first_chunk_mut::<{ 1 << 16 }>().expect("a count for each pair of bytes");
        for (at, pair) in text.windows(2).enumerate() {
            now[usize::from(pair[0]) << 8 | usize::from(pair[1])][at % 2] += 1;
        }
    }

    fn settle(&mut self) {
        for (count, now) in self.counts.iter_mut().zip(&mut self.now) {
            *count += now.iter().copied().map(u64::from).sum::<u64>();
            *now = [0; 2];
        }
        self.pairs = 0;
    }

    /// What both have counted.
    pub(super) fn add(mut self, mut other: ByteTally) -> ByteTally {
        self.settle();
        other.settle();
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self
    }

    pub(super) fn finish(mut self) -> PairCounts {
        self.settle();
        PairCounts { side: 256, counts: self.counts }
    }
}
