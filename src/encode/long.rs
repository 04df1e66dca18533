use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pairs::{Pairs, Step};
use crate::base::int::{TokenId, to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::error::Result;
use crate::observer::Observer;

/// Flag of the slots within a token, after its first byte, in [`Scratch::slots`].
const INSIDE: u32 = 1 << 31;

/// Token ids, and lengths of texts to merge, are below this, since [`INSIDE`] takes the highest bit.
pub(super) const LIMIT: usize = 1 << 31;

/// Most slots (16 MiB) and heap entries (32 MiB) that are kept allocated from text to text; more are freed after use.
const KEPT: usize = 1 << 22;

/// Heap entries between two checks of the observer: some tens of milliseconds.
const ENTRIES_A_CHECK: usize = 1 << 16;

/// Merges long parts of a pre-token in O(n log n).
///
/// A heap orders the adjacent pairs of tokens by rank, then by position. A pair can be the first of all only if
/// it comes before both of its neighbours, so the heap holds only such pairs. This makes it a third as large, and
/// tiny on runs of one letter. After each merge, pairs next to it that now come before their neighbours are
/// pushed. An entry is valid if the pair at its position still has its rank; stale entries are skipped when they
/// are popped. The algorithm does not rely on a token having a higher rank than its parts, so it is right for any
/// merge list.
///
/// **Memory:** 4 bytes per byte of the longest part so far, and 8 per heap entry. In all, 7 bytes per byte on
/// prose, and at worst 12, at the start.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// One slot per byte, and one zero at the end. The first slot of a token holds its id. Its other slots have
    /// the flag `INSIDE`, and the second and the last also hold the token's length. So both neighbours of a token
    /// are found without links.
    slots: Vec<u32>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl Scratch {
    /// Appends the tokens of `part`, which has fewer than [`LIMIT`] bytes, to `ids`.
    ///
    /// # Errors
    /// The observer asks to stop; `ids` is then unchanged.
    pub(super) fn merge(
        &mut self,
        pairs: &Pairs,
        byte_ids: &[TokenId; 256],
        part: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.fill(pairs, byte_ids, part);
        let mut tokens = part.len();
        while !self.heap.is_empty() {
            observer.checkpoint()?;
            tokens -= self.merge_some(pairs);
        }
        if self.heap.capacity() > KEPT {
            self.heap = BinaryHeap::new();
        }
        ids.reserve(tokens);
        let mut at = 0;
        while at < part.len() {
            ids.push(TokenId::new(self.slots[at]));
            at = self.end(at);
        }
        if self.slots.capacity() > KEPT {
            self.slots = Vec::new();
        }
        Ok(())
    }

    /// Handles the next [`ENTRIES_A_CHECK`] heap entries and returns the number of merges carried out.
    fn merge_some(&mut self, pairs: &Pairs) -> usize {
        let mut merged = 0;
        for _ in 0..ENTRIES_A_CHECK {
            let Some(Reverse(entry)) = self.heap.pop() else { break };
            let (rank, at) = (entry >> 32, u64_to_usize(entry & u64::from(u32::MAX)));
            let step = self.step(pairs, at);
            if u64::from(step.rank) == rank {
                self.replace(pairs, at, step.result);
                merged += 1;
            }
        }
        merged
    }

    /// Sets up slots and heap for the bytes of a part.
    fn fill(&mut self, pairs: &Pairs, byte_ids: &[TokenId; 256], part: &[u8]) {
        self.slots.clear();
        self.slots.reserve_exact(part.len() + 1);
        self.slots.extend(part.iter().map(|&byte| byte_ids[usize::from(byte)].get()));
        self.slots.push(0);
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        // A part that was abandoned on an error may have left entries.
        entries.clear();
        // Count first: growing by doubling could take twice the memory.
        entries.reserve_exact(lowest_of_three(pairs, part).count());
        entries.extend(lowest_of_three(pairs, part).map(Reverse));
        self.heap = BinaryHeap::from(entries);
    }

    /// The merge of the token at `at` with the next one; none if no token begins there.
    fn step(&self, pairs: &Pairs, at: usize) -> Step {
        let left = self.slots[at];
        match self.after(at) {
            Some(next) if left & INSIDE == 0 => pairs.find(left, self.slots[next]),
            _ => Step::NONE,
        }
    }

    /// The end of the token at `at`.
    fn end(&self, at: usize) -> usize {
        let second = self.slots[at + 1];
        if second & INSIDE == 0 { at + 1 } else { at + to_usize(second & !INSIDE) }
    }

    /// The start of the token after the one at `at`, if any.
    fn after(&self, at: usize) -> Option<usize> {
        let end = self.end(at);
        (end + 1 < self.slots.len()).then_some(end)
    }

    /// The start of the token before the one at `at`, if any.
    fn before(&self, at: usize) -> Option<usize> {
        let last = at.checked_sub(1)?;
        let slot = self.slots[last];
        Some(if slot & INSIDE == 0 { last } else { at - to_usize(slot & !INSIDE) })
    }

    /// Replaces the token at `at` and the next one by `result`, and pushes those pairs near it that now come
    /// before their neighbours.
    fn replace(&mut self, pairs: &Pairs, at: usize, result: u32) {
        let middle = self.end(at);
        let end = self.end(middle);
        let (old_left, old_right) = (self.slots[at], self.slots[middle]);
        let length = INSIDE | truncate_to_u32(end - at);
        self.slots[at] = result;
        self.slots[middle] = INSIDE;
        self.slots[at + 1] = length;
        self.slots[end - 1] = length;

        let rank = |at: Option<usize>| at.map_or(u32::MAX, |at| self.step(pairs, at).rank);
        let old_rank = |left, right| pairs.find(left, right).rank;
        let (left, right) = (self.before(at), self.after(at));
        let far_left = left.and_then(|left| self.before(left));
        let [a, b, c, d] = [far_left, left, Some(at), right].map(rank);
        // The outer two pairs did not change. They are in the heap already, unless the pair that disappeared came
        // before them.
        let a_rises = |left: usize| {
            a <= b
                && a > old_rank(self.slots[left], old_left)
                && a < rank(far_left.and_then(|at| self.before(at)))
        };
        let d_rises = |right: usize| {
            d < c && d >= old_rank(old_right, self.slots[right]) && d <= rank(self.after(right))
        };
        let rising = [
            far_left.filter(|_| a != u32::MAX && left.is_some_and(a_rises)).map(|at| entry(a, at)),
            left.filter(|_| b < a && b <= c).map(|at| entry(b, at)),
            Some(at).filter(|_| c < b && c <= d).map(|at| entry(c, at)),
            right.filter(|&right| d != u32::MAX && d_rises(right)).map(|at| entry(d, at)),
        ];
        for entry in rising.into_iter().flatten() {
            self.heap.push(Reverse(entry));
        }
    }
}

/// A heap entry, ordered by rank, then by position.
fn entry(rank: u32, at: usize) -> u64 {
    u64::from(rank) << 32 | to_u64(at)
}

/// Heap entries of the pairs of bytes that come before both of their neighbours.
fn lowest_of_three(pairs: &Pairs, part: &[u8]) -> impl Iterator<Item = u64> {
    let (mut before, mut rank) = (u32::MAX, u32::MAX);
    // The last pair has no neighbour on its right.
    let ranks = part.array_windows().map(|two| pairs.find_bytes(*two).rank).chain([u32::MAX]);
    ranks.enumerate().filter_map(move |(place, after)| {
        let lowest = rank != u32::MAX && rank < before && rank <= after;
        let found = lowest.then(|| entry(rank, place - 1));
        (before, rank) = (rank, after);
        found
    })
}
