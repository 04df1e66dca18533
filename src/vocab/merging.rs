//! Byte-pair merging of a single sequence, as its definition says. It checks vocabularies, reads rank files, and encodes
//! pre-tokens by given merges; encoding of texts has faster ways.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Merges one sequence by rank: the pair with the lowest rank first, and among equal ranks the leftmost.
///
/// O(n log n), so that a file with one enormous token takes no longer than its size suggests. The buffers are reused
/// between calls.
#[derive(Default)]
pub(super) struct Merging {
    /// The symbol at each position; positions that were merged away keep an old one.
    symbols: Vec<u32>,
    /// The position of each symbol's right neighbour, or [`END`]. For a symbol that was merged away it is the symbol's
    /// own position.
    next: Vec<usize>,
    /// The position of each symbol's left neighbour, or [`END`].
    previous: Vec<usize>,
    /// The pairs that can merge, the next one first. Some are outdated: they are skipped when they come up.
    queue: BinaryHeap<Reverse<Candidate>>,
    /// The result: the symbols that are left.
    left: Vec<u32>,
}

/// A pair to merge. Rank and place decide the order. The pair says whether the candidate is still valid when its turn
/// comes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    place: usize,
    pair: (u32, u32),
    result: u32,
}

/// Marks the absence of a neighbour.
const END: usize = usize::MAX;

impl Merging {
    /// Merges until no adjacent pair has a rank, and returns the remaining symbols. `lookup` receives a pair and the
    /// range of original symbols that it covers. It returns the pair's rank and the symbol that replaces it.
    pub(super) fn run(
        &mut self,
        symbols: impl IntoIterator<Item = u32>,
        lookup: impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
    ) -> &[u32] {
        self.run_told(symbols, lookup, |_| {})
    }

    /// Does the same as [`run`](Merging::run), and calls `merged` with each pair that is merged, in order.
    pub(super) fn run_told(
        &mut self,
        symbols: impl IntoIterator<Item = u32>,
        mut lookup: impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
        mut merged: impl FnMut((u32, u32)),
    ) -> &[u32] {
        self.start(symbols);
        for place in 0..self.symbols.len() {
            self.offer(place, &mut lookup);
        }
        while let Some(Reverse(candidate)) = self.queue.pop() {
            if self.apply(&candidate, &mut lookup) {
                merged(candidate.pair);
            }
        }
        self.collect()
    }

    /// Fills the buffers with unmerged symbols.
    fn start(&mut self, symbols: impl IntoIterator<Item = u32>) {
        self.symbols.clear();
        self.symbols.extend(symbols);
        let length = self.symbols.len();
        self.next.clear();
        self.next.extend((1..length).chain([END]).take(length));
        self.previous.clear();
        self.previous.extend([END].into_iter().chain(0..).take(length));
    }

    /// Adds the pair that begins at `place` to the queue if it can merge.
    fn offer(
        &mut self,
        place: usize,
        lookup: &mut impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
    ) {
        let next = self.next[place];
        if next != END {
            let pair = (self.symbols[place], self.symbols[next]);
            let end = self.next[next].min(self.symbols.len());
            if let Some((rank, result)) = lookup(pair, place..end) {
                self.queue.push(Reverse(Candidate { rank, place, pair, result }));
            }
        }
    }

    /// Merges a pair if it still exists. Returns whether it did.
    fn apply(
        &mut self,
        candidate: &Candidate,
        lookup: &mut impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
    ) -> bool {
        let place = candidate.place;
        let gone = self.next[place];
        if gone == END || gone == place || (self.symbols[place], self.symbols[gone]) != candidate.pair {
            return false;
        }
        self.symbols[place] = candidate.result;
        let after = self.next[gone];
        self.next[gone] = gone;
        self.next[place] = after;
        if after != END {
            self.previous[after] = place;
        }
        if self.previous[place] != END {
            self.offer(self.previous[place], lookup);
        }
        self.offer(place, lookup);
        true
    }

    /// Collects the symbols that are left.
    fn collect(&mut self) -> &[u32] {
        self.left.clear();
        let mut place = if self.symbols.is_empty() { END } else { 0 };
        while place != END {
            self.left.push(self.symbols[place]);
            place = self.next[place];
        }
        &self.left
    }
}
