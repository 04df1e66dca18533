use crate::base::int::{to_usize, u64_to_usize};
use crate::vocab::{RankedMerge, Vocabulary};

/// The merge of a pair: its rank and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Lower ranks merge first. Vocabularies number ranks without gaps, so no merge has the rank of
    /// [`Step::NONE`].
    pub(super) rank: u32,
    /// The token that replaces the pair.
    pub(super) result: u32,
}

impl Step {
    /// The pair does not merge. Its rank is higher than every rank in use.
    pub(super) const NONE: Step = Step { rank: u32::MAX, result: 0 };

    /// Whether the pair does not merge.
    pub(super) fn is_none(self) -> bool {
        self.rank == u32::MAX
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    left: u32,
    right: u32,
    step: Step,
}

/// The merge table: which pairs of tokens merge, at which rank and to which token.
///
/// An open-addressing hash table with linear probing. It is at most half full, because most lookups find nothing
/// and end at the first free slot. Pairs of single bytes, which encoding looks up first for every text, have a
/// dense table.
///
/// **Memory:** 0.5 MB, and 32 to 64 bytes per merge.
#[derive(Debug)]
pub(super) struct Pairs {
    slots: Box<[Slot]>,
    shift: u32,
    bytes: Box<[Step]>,
    /// For each pair of adjacent bytes, one bit: whether any merge result contains the two side by side.
    joined: Box<[u64]>,
}

impl Pairs {
    /// The merge table of a vocabulary in which every byte has a token.
    pub(super) fn new(vocabulary: &Vocabulary) -> Pairs {
        let merges = vocabulary.merges();
        let bits = (merges.len() * 2).max(2).next_power_of_two().trailing_zeros();
        let free = Slot { left: 0, right: 0, step: Step::NONE };
        let mut pairs = Pairs {
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
        self.slots[at] = Slot { left, right, step: Step { rank: merge.rank, result: merge.result.get() } };
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
    pub(super) fn find(&self, left: u32, right: u32) -> Step {
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
    pub(super) fn find_bytes(&self, two: [u8; 2]) -> Step {
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
