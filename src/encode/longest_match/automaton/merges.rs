use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};

/// Bits of a token's number. Tokens are numbered by the ranks of their merges, after the single bytes, and are so
/// few that three numbers fit in one 64-bit slot. The last number is not used for a token.
const NUMBER_BITS: u32 = 20;
const RESULT_BITS: u32 = u64::BITS - 2 * NUMBER_BITS;
pub(super) const MOST: usize = (1 << NUMBER_BITS) - 1;
const NO_TOKEN: u32 = truncate_to_u32(MOST);

/// Greater than all ranks.
const NONE: u32 = u32::MAX;

/// Most tokens that are merged at a time: a 64-bit mask has one bit for each, and one for the sentinel on either
/// side.
pub(super) const MANY: usize = 62;

/// Slots in a bucket.
const BUCKET: usize = 4;

/// The merge table of the late merges: which pairs of tokens merge, and to what. It does what
/// [`Pairs`](crate::encode::pairs::Pairs) does for any list of merges, in half the memory, because here a token's
/// number gives its merge's rank.
///
/// A pair is stored in its home bucket, or in the next one that is not full. A bucket is searched without a
/// branch, since half of the pairs that are looked up do not merge and the CPU could not predict which.
///
/// **Memory:** 16 to 32 bytes per merge.
#[derive(Debug)]
pub(super) struct Merges {
    /// In each slot a pair, and in the low bits its result; zero if free. At most half of the slots are in use.
    buckets: Box<[[u64; BUCKET]]>,
    shift: u32,
}

impl Merges {
    /// An empty table for at most `merges` merges.
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
    /// The bucket in which the search for a pair begins.
    fn home(&self, pair: u64) -> usize {
        u64_to_usize(pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift)
    }

    /// The rank at which a pair merges, which is the result's number minus one; [`NONE`] if it does not.
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
            return truncate_to_u32(u64_to_usize(found)).wrapping_sub(1);
        }
    }

    /// Merges at least one and at most [`MANY`] tokens, the lowest rank first, the leftmost among equals. Passes
    /// the resulting tokens to `put`.
    #[inline(always)]
    pub(super) fn merge(&self, given: impl ExactSizeIterator<Item = u32>, put: impl FnMut(u32)) {
        match given.len() {
            ..=6 => self.merge_in::<8>(given, put),
            7..=14 => self.merge_in::<16>(given, put),
            _ => self.merge_in::<{ MANY + 2 }>(given, put),
        }
    }

    /// Merges in arrays of `N` entries, which include a sentinel on either side.
    #[inline(always)]
    fn merge_in<const N: usize>(&self, given: impl Iterator<Item = u32>, mut put: impl FnMut(u32)) {
        let (mut tokens, mut number) = ([NO_TOKEN; N], 0);
        for token in given {
            number += 1;
            tokens[number] = token;
        }
        // The rank at which each token merges with the next one; [`NONE`] for tokens that were merged away.
        let mut ranks = [NONE; N];
        for at in 1..number {
            ranks[at] = self.find(tokens[at], tokens[at + 1]);
        }
        // One bit for each position that holds a token, and for the sentinel on either side.
        let mut there = u64::MAX >> (u64::BITS - 2 - truncate_to_u32(number));
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
            let left = to_usize((there & !(u64::MAX << at)).ilog2());
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

/// Index of the lowest set bit.
#[inline(always)]
fn first(bits: u64) -> usize {
    to_usize(bits.trailing_zeros())
}
