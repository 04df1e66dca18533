use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pairs::{Pairs, Step};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::{TokenId, amount, low32, place, place64};

/// Set in [`Scratch::slots`] where no token begins.
const INSIDE: u32 = 1 << 31;

/// Token ids, and the lengths of parts, stay below this.
pub(super) const LIMIT: usize = 1 << 31;

/// Slots and heap entries that are kept from part to part; more is given back after a part.
const KEPT: usize = 1 << 22;

/// The observer is asked whether to stop after so many heap entries, some tens of milliseconds.
const ENTRIES_A_CHECK: usize = 1 << 16;

/// Merges a long part in O(n log n).
///
/// A heap holds the pairs by rank, then place. Only a pair that comes before both of its neighbours
/// can come before all, so only such pairs need to be in it; that makes it a third as large, and tiny
/// on runs of one letter. When a merge changes the pairs around it, those that now come before their
/// neighbours are put in. An entry is good if the pair at its place has its rank now; entries that
/// have gone stale are passed over when they come up. Nothing here needs ranks to rise from a token's
/// parts to the token, so any merge list is fine.
///
/// **Memory:** 4 bytes a byte of the longest part so far, and 8 for each heap entry: 7 in all on
/// prose, 12 at worst at the start.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// One slot a byte. Where a token begins, its id; `INSIDE` is set in its other slots, and the
    /// second and the last of them hold its length besides: so both its neighbours are found without
    /// links. One zero more at the end.
    slots: Vec<u32>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl Scratch {
    /// Appends the tokens of a part, of less than [`LIMIT`] bytes, to `ids`.
    ///
    /// # Errors
    /// The observer wants to stop; `ids` is as it was then.
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

    /// Takes up the next heap entries, and says how many merges came of them.
    fn merge_some(&mut self, pairs: &Pairs) -> usize {
        let mut merged = 0;
        for _ in 0..ENTRIES_A_CHECK {
            let Some(Reverse(entry)) = self.heap.pop() else { break };
            let (rank, at) = (entry >> 32, place64(entry & u64::from(u32::MAX)));
            let step = self.step(pairs, at);
            if u64::from(step.rank) == rank {
                self.replace(pairs, at, step.result);
                merged += 1;
            }
        }
        merged
    }

    fn fill(&mut self, pairs: &Pairs, byte_ids: &[TokenId; 256], part: &[u8]) {
        self.slots.clear();
        self.slots.reserve_exact(part.len() + 1);
        self.slots.extend(part.iter().map(|&byte| byte_ids[usize::from(byte)].get()));
        self.slots.push(0);
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        // A part that was left in the midst may have left some.
        entries.clear();
        // Counted first: growing by doubling could take twice the memory.
        entries.reserve_exact(lowest_of_three(pairs, part).count());
        entries.extend(lowest_of_three(pairs, part).map(Reverse));
        self.heap = BinaryHeap::from(entries);
    }

    /// What merging the token at `at` with the next means; nothing if no token begins there.
    fn step(&self, pairs: &Pairs, at: usize) -> Step {
        let left = self.slots[at];
        match self.after(at) {
            Some(next) if left & INSIDE == 0 => pairs.find(left, self.slots[next]),
            _ => Step::NONE,
        }
    }

    /// Where the token at `at` ends.
    fn end(&self, at: usize) -> usize {
        let second = self.slots[at + 1];
        if second & INSIDE == 0 { at + 1 } else { at + place(second & !INSIDE) }
    }

    /// Where the token after the one at `at` begins.
    fn after(&self, at: usize) -> Option<usize> {
        let end = self.end(at);
        (end + 1 < self.slots.len()).then_some(end)
    }

    /// Where the token before the one at `at` begins.
    fn before(&self, at: usize) -> Option<usize> {
        let last = at.checked_sub(1)?;
        let slot = self.slots[last];
        Some(if slot & INSIDE == 0 { last } else { at - place(slot & !INSIDE) })
    }

    /// Puts one token in the place of the one at `at` and the next, and into the heap those pairs near
    /// it that now come before their neighbours.
    fn replace(&mut self, pairs: &Pairs, at: usize, result: u32) {
        let middle = self.end(at);
        let end = self.end(middle);
        let (old_left, old_right) = (self.slots[at], self.slots[middle]);
        let length = INSIDE | low32(end - at);
        self.slots[at] = result;
        self.slots[middle] = INSIDE;
        self.slots[at + 1] = length;
        self.slots[end - 1] = length;

        let rank = |at: Option<usize>| at.map_or(u32::MAX, |at| self.step(pairs, at).rank);
        let old_rank = |left, right| pairs.find(left, right).rank;
        let (left, right) = (self.before(at), self.after(at));
        let far_left = left.and_then(|left| self.before(left));
        let [a, b, c, d] = [far_left, left, Some(at), right].map(rank);
        // The outer two pairs are as they were: they are in the heap already unless the pair that went
        // away came before them.
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

/// A heap entry: the lower rank first, then the leftmost place.
fn entry(rank: u32, at: usize) -> u64 {
    u64::from(rank) << 32 | amount(at)
}

/// Heap entries of the pairs of bytes that come before both of their neighbours.
fn lowest_of_three(pairs: &Pairs, part: &[u8]) -> impl Iterator<Item = u64> {
    let (mut before, mut rank) = (u32::MAX, u32::MAX);
    // Nothing stands after the last pair.
    let ranks = part.array_windows().map(|two| pairs.find_bytes(*two).rank).chain([u32::MAX]);
    ranks.enumerate().filter_map(move |(place, after)| {
        let lowest = rank != u32::MAX && rank < before && rank <= after;
        let found = lowest.then(|| entry(rank, place - 1));
        (before, rank) = (rank, after);
        found
    })
}
