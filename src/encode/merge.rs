//! Encoding by merging, which works for every vocabulary: the merge table, and how short and long parts of a pre-token
//! are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::int::{TokenId, to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::error::Result;
use crate::observer::Observer;
use crate::vocab::{RankedMerge, Vocabulary};

/// The merge of a pair: its rank and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairMerge {
    /// Lower ranks merge first. Vocabularies number ranks without gaps, so no merge has the rank of
    /// [`PairMerge::NONE`].
    pub(super) rank: u32,
    /// The token that replaces the pair.
    pub(super) result: u32,
}

impl PairMerge {
    /// The pair does not merge. Its rank is higher than every rank in use.
    pub(super) const NONE: PairMerge = PairMerge { rank: u32::MAX, result: 0 };

    /// Whether the pair does not merge.
    pub(super) fn is_none(self) -> bool {
        self.rank == u32::MAX
    }
}

/// A slot of the hash table: a pair of token ids, and their merge. A slot is free if `step` is [`PairMerge::NONE`].
#[derive(Clone, Copy, Debug)]
struct PairSlot {
    left: u32,
    right: u32,
    step: PairMerge,
}

/// The merge table: which pairs of tokens merge, at which rank and to which token.
///
/// An open-addressing hash table with linear probing. It is at most half full, because most lookups find nothing
/// and end at the first free slot. Pairs of single bytes, which encoding looks up first for every text, have a
/// dense table.
///
/// **Memory:** 0.5 MB, and 32 to 64 bytes per merge.
#[derive(Debug)]
pub(super) struct MergeTable {
    /// The slots. Their number is a power of two, and some are free, so every search ends.
    slots: Box<[PairSlot]>,
    /// Bits that a hash is shifted right by. The highest bits remain, as many as the number of slots has.
    shift: u32,
    /// The merge of the tokens of each pair of bytes, by [`byte_pair`]: 65 536 entries, filled from `slots`.
    bytes: Box<[PairMerge]>,
    /// For each pair of adjacent bytes, one bit: whether any merge result contains the two side by side.
    joined: Box<[u64]>,
}

impl MergeTable {
    /// The merge table of a vocabulary in which every byte has a token.
    pub(super) fn new(vocabulary: &Vocabulary) -> MergeTable {
        let merges = vocabulary.merges();
        let bits = (merges.len() * 2).max(2).next_power_of_two().trailing_zeros();
        let free = PairSlot { left: 0, right: 0, step: PairMerge::NONE };
        let mut pairs = MergeTable {
            slots: vec![free; 1 << bits].into(),
            shift: u64::BITS - bits,
            bytes: Box::default(),
            joined: vec![0; 1 << 10].into(),
        };
        for merge in merges {
            pairs.insert(merge);
            pairs.join(vocabulary.bytes(merge.result).unwrap_or_default());
        }
        let ids = vocabulary.byte_ids();
        let steps = ids.iter().flat_map(|left| ids.iter().map(|right| pairs.find(left.get(), right.get())));
        pairs.bytes = steps.collect();
        pairs
    }

    /// Adds a merge. If a vocabulary has several for one pair, the first added is found.
    fn insert(&mut self, merge: &RankedMerge) {
        let (left, right) = (merge.left.get(), merge.right.get());
        let mut at = self.home(left, right);
        while !self.slots[at].step.is_none() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] =
            PairSlot { left, right, step: PairMerge { rank: merge.rank, result: merge.result.get() } };
    }

    /// Records all pairs of adjacent bytes of a merge result.
    fn join(&mut self, token: &[u8]) {
        for two in token.array_windows() {
            let at = byte_pair(*two);
            self.joined[at / 64] |= 1 << (at % 64);
        }
    }

    /// The slot at which the search for a pair begins.
    fn home(&self, left: u32, right: u32) -> usize {
        let key = u64::from(left) << 32 | u64::from(right);
        u64_to_usize(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift)
    }

    /// The merge of these two tokens.
    ///
    /// [`PairMerge::NONE`] if they do not merge. Usually reads a few adjacent slots.
    pub(super) fn find(&self, left: u32, right: u32) -> PairMerge {
        let mut at = self.home(left, right);
        loop {
            let slot = &self.slots[at];
            if (slot.left == left && slot.right == right) || slot.step.is_none() {
                return slot.step;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The merge of the tokens of these two bytes.
    pub(super) fn find_bytes(&self, two: [u8; 2]) -> PairMerge {
        self.bytes[byte_pair(two)]
    }

    /// The end of the part of `pretoken` that begins at `start` and that no merge crosses. Cutting there does not
    /// change the tokens: no merge result contains the bytes on both sides.
    pub(super) fn part_end(&self, pretoken: &[u8], start: usize) -> usize {
        let together = |two: &[u8; 2]| {
            let at = byte_pair(*two);
            self.joined[at / 64] >> (at % 64) & 1 == 1
        };
        let rest = &pretoken[start..];
        start + rest.array_windows().position(|two| !together(two)).map_or(rest.len(), |at| at + 1)
    }
}

/// The index of two bytes in the dense tables.
fn byte_pair([left, right]: [u8; 2]) -> usize {
    to_usize(u32::from(left) << 8 | u32::from(right))
}

/// Longest part, in bytes, that is merged by searching for the lowest rank again after each merge. This is
/// quadratic, but faster than a heap while all ranks fit in a few cache lines.
pub(super) const SHORT: usize = 64;

/// Bytes between two checks of the observer in pre-tokens that consist of short parts.
const BYTES_A_CHECK: usize = 1 << 18;

/// Encodes pre-tokens by merging. Its scratch memory is reused from one pre-token to the next.
///
/// **Memory:** that of [`HeapMerger`].
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// For parts of more than [`SHORT`] bytes.
    long: HeapMerger,
}

impl Merger {
    /// Appends the tokens of a pre-token to `ids`. `byte_ids` gives the token of each byte value.
    ///
    /// # Errors
    /// The observer asks to stop. It is asked only within long pre-tokens.
    pub(super) fn merge(
        &mut self,
        pairs: &MergeTable,
        byte_ids: &[TokenId; 256],
        pretoken: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (mut start, mut check) = (0, BYTES_A_CHECK);
        while start < pretoken.len() {
            if start >= check {
                observer.checkpoint()?;
                check = start + BYTES_A_CHECK;
            }
            let end = pairs.part_end(pretoken, start);
            let part = &pretoken[start..end];
            match part {
                [byte] => ids.push(byte_ids[usize::from(*byte)]),
                _ if part.len() <= SHORT => short(pairs, byte_ids, part, ids),
                _ => self.long.merge(pairs, byte_ids, part, ids, observer)?,
            }
            start = end;
        }
        Ok(())
    }
}

/// Merges a part of at most [`SHORT`] bytes.
fn short(pairs: &MergeTable, byte_ids: &[TokenId; 256], part: &[u8], ids: &mut Vec<TokenId>) {
    let mut part = ShortPart::new(pairs, byte_ids, part);
    while let Some(at) = part.lowest() {
        part.join(pairs, at);
    }
    part.append_tokens(ids);
}

/// The tokens of at most [`SHORT`] bytes while they are merged, on the stack.
///
/// Each merge closes the gap in both arrays, so tokens stay contiguous and the leftmost of equal ranks is the first one
/// found.
pub(super) struct ShortPart {
    /// The tokens.
    tokens: [u32; SHORT],
    /// The merge of each token with the next one; the last token has none.
    steps: [PairMerge; SHORT],
    /// Number of tokens.
    len: usize,
}

impl ShortPart {
    /// The tokens of these bytes.
    pub(super) fn new(pairs: &MergeTable, byte_ids: &[TokenId; 256], bytes: &[u8]) -> ShortPart {
        let (mut tokens, mut steps) = ([0; SHORT], [PairMerge::NONE; SHORT]);
        for (token, byte) in tokens.iter_mut().zip(bytes) {
            *token = byte_ids[usize::from(*byte)].get();
        }
        for (step, two) in steps.iter_mut().zip(bytes.array_windows()) {
            *step = pairs.find_bytes(*two);
        }
        ShortPart { tokens, steps, len: bytes.len() }
    }

    /// Position of the lowest rank, the leftmost if several are equal; `None` if no pair merges.
    fn lowest(&self) -> Option<usize> {
        let (at, step) = self.steps[..self.len].iter().enumerate().min_by_key(|(_, step)| step.rank)?;
        (!step.is_none()).then_some(at)
    }

    /// The [entry] and the position of the first possible merge that does not come before the entry `from`.
    pub(super) fn first_from(&self, from: u64) -> Option<(u64, usize)> {
        let entries = self.steps[..self.len].iter().enumerate().map(|(at, step)| entry(step.rank, at));
        let first = entries.filter(|entry| *entry >= from).min()?;
        (first < entry(u32::MAX, 0)).then(|| (first, u64_to_usize(first & u64::from(u32::MAX))))
    }

    /// Merges the token at this position with the next one.
    #[inline]
    pub(super) fn join(&mut self, pairs: &MergeTable, at: usize) {
        let ShortPart { tokens, steps, len } = self;
        tokens[at] = steps[at].result;
        tokens.copy_within(at + 2..*len, at + 1);
        steps.copy_within(at + 1..*len, at);
        *len -= 1;
        steps[at] = if at + 1 < *len { pairs.find(tokens[at], tokens[at + 1]) } else { PairMerge::NONE };
        if at > 0 {
            steps[at - 1] = pairs.find(tokens[at - 1], tokens[at]);
        }
    }

    /// Appends the tokens to `ids`.
    pub(super) fn append_tokens(&self, ids: &mut Vec<TokenId>) {
        ids.extend(self.tokens[..self.len].iter().copied().map(TokenId::new));
    }
}

/// Flag of the slots within a token, after its first byte, in [`HeapMerger::slots`].
const INSIDE: u32 = 1 << 31;

/// Token ids, and lengths of texts to merge, are below this, since [`INSIDE`] takes the highest bit.
pub(super) const LIMIT: usize = 1 << 31;

/// Maximum number of slots (16 MiB) and heap entries (32 MiB) that are kept allocated from text to text; more are freed
/// after use.
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
pub(super) struct HeapMerger {
    /// One slot per byte, and one zero at the end. The first slot of a token holds its id. Its other slots have
    /// the flag `INSIDE`, and the second and the last also hold the token's length. So both neighbours of a token
    /// are found without links.
    slots: Vec<u32>,
    /// The pairs to merge, as [entries](entry), the lowest rank first. May contain stale ones.
    heap: BinaryHeap<Reverse<u64>>,
}

impl HeapMerger {
    /// Appends the tokens of `part`, which has fewer than [`LIMIT`] bytes, to `ids`.
    ///
    /// # Errors
    /// The observer asks to stop; `ids` is then unchanged.
    pub(super) fn merge(
        &mut self,
        pairs: &MergeTable,
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
        self.append_tokens(tokens, ids);
        Ok(())
    }

    /// Appends the `tokens` tokens of the part to `ids`. Frees the memory of a long part.
    pub(super) fn append_tokens(&mut self, tokens: usize, ids: &mut Vec<TokenId>) {
        if self.heap.capacity() > KEPT {
            self.heap = BinaryHeap::new();
        }
        ids.reserve(tokens);
        let mut at = 0;
        while at + 1 < self.slots.len() {
            ids.push(TokenId::new(self.slots[at]));
            at = self.end(at);
        }
        if self.slots.capacity() > KEPT {
            self.slots = Vec::new();
        }
    }

    /// Handles the next [`ENTRIES_A_CHECK`] heap entries and returns the number of merges carried out.
    fn merge_some(&mut self, pairs: &MergeTable) -> usize {
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
    fn fill(&mut self, pairs: &MergeTable, byte_ids: &[TokenId; 256], part: &[u8]) {
        self.fill_slots(byte_ids, part);
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        // A part that was abandoned on an error may have left entries.
        entries.clear();
        // Count first: growing by doubling could take twice the memory.
        entries.reserve_exact(lowest_of_three(pairs, part).count());
        entries.extend(lowest_of_three(pairs, part).map(Reverse));
        self.heap = BinaryHeap::from(entries);
    }

    /// Sets up the slots for the bytes of a part.
    fn fill_slots(&mut self, byte_ids: &[TokenId; 256], part: &[u8]) {
        self.slots.clear();
        self.slots.reserve_exact(part.len() + 1);
        self.slots.extend(part.iter().map(|&byte| byte_ids[usize::from(byte)].get()));
        self.slots.push(0);
    }

    /// Sets up slots for the bytes of a part, and a heap of all its possible merges.
    pub(super) fn fill_with_all(&mut self, pairs: &MergeTable, byte_ids: &[TokenId; 256], part: &[u8]) {
        self.fill_slots(byte_ids, part);
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        entries.extend((0..part.len()).filter_map(|at| self.entry_at(pairs, at)));
        self.heap = BinaryHeap::from(entries);
    }

    /// Takes the first possible merge of a heap of [all](HeapMerger::fill_with_all) off it. `None` if none is left.
    ///
    /// Returns its entry, the merge, and the position of its first token.
    pub(super) fn next(&mut self, pairs: &MergeTable) -> Option<(Reverse<u64>, PairMerge, usize)> {
        loop {
            let entry = self.heap.pop()?;
            // If several pairs have one rank, an entry may stand for an earlier pair at this position, too.
            while self.heap.peek() == Some(&entry) {
                self.heap.pop();
            }
            let (rank, at) = (entry.0 >> 32, u64_to_usize(entry.0 & u64::from(u32::MAX)));
            let step = self.step(pairs, at);
            if u64::from(step.rank) == rank {
                return Some((entry, step, at));
            }
        }
    }

    /// Pushes the two possible merges of the token at `at`, and `others`.
    pub(super) fn push_around(
        &mut self,
        pairs: &MergeTable,
        at: usize,
        others: impl Iterator<Item = Reverse<u64>>,
    ) {
        let left = self.before(at).and_then(|left| self.entry_at(pairs, left));
        let right = self.entry_at(pairs, at);
        self.heap.extend(others.chain(left).chain(right));
    }

    /// The heap entry of the token at `at` and the next one, if they merge.
    fn entry_at(&self, pairs: &MergeTable, at: usize) -> Option<Reverse<u64>> {
        let step = self.step(pairs, at);
        (!step.is_none()).then(|| Reverse(entry(step.rank, at)))
    }

    /// The merge of the token at `at` with the next one; none if no token begins there.
    ///
    /// A stale heap entry can name a position that is now inside a token.
    fn step(&self, pairs: &MergeTable, at: usize) -> PairMerge {
        let left = self.slots[at];
        match self.after(at) {
            Some(next) if left & INSIDE == 0 => pairs.find(left, self.slots[next]),
            _ => PairMerge::NONE,
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

    /// Replaces the token at `at` and the next one by `result`, and returns these two tokens.
    pub(super) fn join(&mut self, at: usize, result: u32) -> [u32; 2] {
        let middle = self.end(at);
        let end = self.end(middle);
        let joined = [self.slots[at], self.slots[middle]];
        let length = INSIDE | truncate_to_u32(end - at);
        self.slots[at] = result;
        self.slots[middle] = INSIDE;
        self.slots[at + 1] = length;
        self.slots[end - 1] = length;
        joined
    }

    /// Replaces the token at `at` and the next one by `result`, and pushes those pairs near it that now come
    /// before their neighbours.
    fn replace(&mut self, pairs: &MergeTable, at: usize, result: u32) {
        let [old_left, old_right] = self.join(at, result);
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
fn lowest_of_three(pairs: &MergeTable, part: &[u8]) -> impl Iterator<Item = u64> {
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
