use crate::units::{low32, place, place64};

/// Tokens are numbered by the ranks of their merges, behind the bytes; and so few that three numbers fit a slot. The last
/// number is no token's.
const NUMBER_BITS: u32 = 20;
const RESULT_BITS: u32 = u64::BITS - 2 * NUMBER_BITS;
pub(super) const MOST: usize = (1 << NUMBER_BITS) - 1;
const NO_TOKEN: u32 = low32(MOST);

/// Behind all ranks.
const NONE: u32 = u32::MAX;

/// At most so many tokens are merged at a time: one bit each, and one on either side.
pub(super) const MANY: usize = 62;

/// Slots in a bucket.
const BUCKET: usize = 4;

/// Which pairs of tokens merge, and to what. As [`Pairs`](crate::encode::pairs::Pairs) tell it of any list of merges, in half
/// the memory: here a token's number is its merge's rank.
///
/// A pair has a bucket to stand in, or the next one if that is full. What it becomes is told without a branch that a
/// processor would have to guess: of the pairs that are looked up half do not merge.
///
/// **Memory:** 16 to 32 bytes a merge.
#[derive(Debug)]
pub(super) struct Merges {
    /// A pair, and in the low bits what it becomes; zero is free. At most half of them are taken.
    buckets: Box<[[u64; BUCKET]]>,
    shift: u32,
}

impl Merges {
    /// Room for so many.
    pub(super) fn new(merges: usize) -> Merges {
        let bits = (merges * 2).div_ceil(BUCKET).max(2).next_power_of_two().trailing_zeros();
        Merges { buckets: vec![[0; BUCKET]; 1 << bits].into(), shift: u64::BITS - bits }
    }

    /// Adds a merge.
    pub(super) fn add(&mut self, left: u32, right: u32, result: u32) {
        let pair = pair(left, right);
        let mut at = self.home(pair);
        loop {
            if let Some(free) = self.buckets[at].iter_mut().find(|slot| **slot == 0) {
                *free = pair << RESULT_BITS | u64::from(result);
                return;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    #[inline(always)]
    fn home(&self, pair: u64) -> usize {
        place64(pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift)
    }

    /// The rank at which a pair merges, or [`NONE`]: one less than the number of what it becomes.
    #[inline(always)]
    fn find(&self, left: u32, right: u32) -> u32 {
        let pair = pair(left, right);
        let mut at = self.home(pair);
        loop {
            let bucket = &self.buckets[at];
            let of_slot = |slot: &u64| match slot ^ pair << RESULT_BITS {
                result if result >> RESULT_BITS == 0 => result,
                _ => 0,
            };
            let found = bucket.iter().map(of_slot).fold(0, |found, result| found | result);
            if found == 0 && bucket[BUCKET - 1] != 0 {
                at = (at + 1) & (self.buckets.len() - 1);
                continue;
            }
            return low32(place64(found)).wrapping_sub(1);
        }
    }

    /// Merges some tokens, at least one and [`MANY`] at most, the lowest rank first, the leftmost among equals. Gives `put`
    /// what becomes of them.
    #[inline(always)]
    pub(super) fn merge(&self, given: impl ExactSizeIterator<Item = u32>, put: impl FnMut(u32)) {
        match given.len() {
            ..=6 => self.merge_in::<8>(given, put),
            7..=14 => self.merge_in::<16>(given, put),
            _ => self.merge_in::<{ MANY + 2 }>(given, put),
        }
    }

    /// In so much room, of which the first and the last are on either side.
    #[inline(always)]
    fn merge_in<const N: usize>(&self, given: impl Iterator<Item = u32>, mut put: impl FnMut(u32)) {
        let (mut tokens, mut number) = ([NO_TOKEN; N], 0);
        for token in given {
            number += 1;
            tokens[number] = token;
        }
        // At which rank each merges with the next: those never that have been merged.
        let mut ranks = [NONE; N];
        for at in 1..number {
            ranks[at] = self.find(tokens[at], tokens[at + 1]);
        }
        // A bit for each place where a token stands, and for one on either side.
        let mut there = u64::MAX >> (u64::BITS - 2 - low32(number));
        loop {
            let lowest = ranks.iter().copied().fold(NONE, u32::min);
            if lowest == NONE {
                break;
            }
            let at = ranks.iter().position(|&rank| rank == lowest).unwrap_or_default();
            let behind = u64::MAX << at << 1;
            let right = first(there & behind);
            there ^= 1 << right;
            ranks[right] = NONE;
            tokens[at] = lowest + 1;
            ranks[at] = self.find(tokens[at], tokens[first(there & behind)]);
            let left = place((there & !(u64::MAX << at)).ilog2());
            ranks[left] = self.find(tokens[left], tokens[at]);
        }
        for _ in 2..there.count_ones() {
            there &= there - 1;
            put(tokens[first(there)]);
        }
    }
}

#[inline(always)]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << NUMBER_BITS | u64::from(right)
}

/// The lowest of some bits that is set.
#[inline(always)]
fn first(bits: u64) -> usize {
    place(bits.trailing_zeros())
}
