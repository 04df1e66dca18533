//! Dense tables of pair counts.

use super::text::Code;
use crate::base::int::{to_u64, u64_to_usize};

/// Codes that fit the largest table.
pub(super) const MOST_CODES: usize = 1 << 10;

/// How often each pair of codes occurs, in a dense table.
///
/// **Memory:** 8 bytes per pair: 0.5 MB for one-byte codes, 8 MB for two-byte codes.
pub(super) struct PairCounts {
    /// Number of codes that the table has space for.
    side: usize,
    /// Counts by left code × `side` + right code.
    counts: Vec<u64>,
}

impl PairCounts {
    /// A table for codes below `side`, with all counts 0.
    pub(super) fn new(side: usize) -> PairCounts {
        PairCounts { side, counts: vec![0; side * side] }
    }

    /// The same counts in a larger table, for codes below `side`.
    pub(super) fn widened(&self, side: usize) -> PairCounts {
        let mut wide = PairCounts::new(side);
        for (to, from) in wide.counts.chunks_exact_mut(side).zip(self.counts.chunks_exact(self.side)) {
            to[..self.side].copy_from_slice(from);
        }
        wide
    }

    /// Number of codes that the table has space for.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// Count of a pair.
    pub(super) fn get(&self, left: Code, right: Code) -> u64 {
        self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    /// Count of a pair, to be changed.
    pub(super) fn get_mut(&mut self, left: Code, right: Code) -> &mut u64 {
        &mut self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    /// Counts of the pairs with this left code, by right code.
    pub(super) fn row(&self, left: Code) -> &[u64] {
        let start = usize::from(left) * self.side;
        &self.counts[start..start + self.side]
    }
}

impl PairCounts {
    /// Adds all counts of the code `from` to those of the code `to`, and clears them.
    pub(super) fn hand_over(&mut self, from: Code, to: Code) {
        if from == to {
            return;
        }
        let (from, to) = (usize::from(from), usize::from(to));
        for other in 0..self.side {
            let count = std::mem::take(&mut self.counts[from * self.side + other]);
            self.counts[to * self.side + other] += count;
        }
        for other in 0..self.side {
            let count = std::mem::take(&mut self.counts[other * self.side + from]);
            self.counts[other * self.side + to] += count;
        }
    }
}

/// Counts the pairs of bytes in chunks of a text.
pub(super) struct ByteTally {
    /// 32-bit counts, by right byte × 256 + left byte.
    now: Vec<u32>,
    /// Upper bound of the pairs in `now`: below 2³², so that no count overflows.
    pairs: u64,
    /// 64-bit sums of earlier contents of `now`. Empty at first.
    counts: Vec<u64>,
}

impl ByteTally {
    pub(super) fn new() -> ByteTally {
        ByteTally { now: vec![0; 1 << 16], pairs: 0, counts: Vec::new() }
    }

    /// Counts the pairs within this chunk of a text.
    pub(super) fn count(&mut self, text: &[u8]) {
        if self.pairs + to_u64(text.len()) > u64::from(u32::MAX) {
            self.settle();
        }
        self.pairs += to_u64(text.len());
        let now = self.now.first_chunk_mut::<{ 1 << 16 }>().expect("a count for each pair of bytes");
        let mut rest = text;
        // Eight pairs from two loads: one has the pairs that begin at even bytes, the other those that begin at
        // odd bytes.
        while let Some((nine, _)) = rest.split_first_chunk::<9>() {
            let [even @ .., _] = *nine;
            let [_, odd @ ..] = *nine;
            let (even, odd) = (u64::from_le_bytes(even), u64::from_le_bytes(odd));
            for shift in [0, 16, 32, 48] {
                now[u64_to_usize(even >> shift & 0xFFFF)] += 1;
                now[u64_to_usize(odd >> shift & 0xFFFF)] += 1;
            }
            rest = &rest[8..];
        }
        for pair in rest.windows(2) {
            now[usize::from(pair[1]) << 8 | usize::from(pair[0])] += 1;
        }
    }

    /// Adds the 32-bit counts to the 64-bit ones and clears them.
    fn settle(&mut self) {
        self.counts.resize(1 << 16, 0);
        for (count, now) in self.counts.iter_mut().zip(&mut self.now) {
            *count += u64::from(std::mem::take(now));
        }
        self.pairs = 0;
    }

    /// The sum of both tallies.
    pub(super) fn add(mut self, mut other: ByteTally) -> ByteTally {
        self.settle();
        other.settle();
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self
    }

    /// The counts as a table of one-byte codes.
    pub(super) fn finish(self) -> PairCounts {
        let count = |at: usize| u64::from(self.now[at]) + self.counts.get(at).copied().unwrap_or_default();
        PairCounts {
            side: 256,
            counts: (0..1 << 16).map(|pair| count((pair & 0xFF) << 8 | pair >> 8)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_bytes_are_counted_beyond_32_bits() {
        let tally = || {
            let mut tally = ByteTally::new();
            // The state after four billion pairs.
            tally.now[usize::from(b'b') << 8 | usize::from(b'a')] = u32::MAX;
            tally.pairs = u64::from(u32::MAX);
            tally.count(b"ab ab");
            tally
        };
        let (a, b) = (Code::from(b'a'), Code::from(b'b'));
        assert_eq!(tally().finish().get(a, b), u64::from(u32::MAX) + 2);
        assert_eq!(tally().add(tally()).finish().get(a, b), 2 * (u64::from(u32::MAX) + 2));
    }
}
