//! Bit operations on masks, with the state that they carry from one block to the next.

use crate::base::int::to_usize;

/// Returns the positions directly after those of `mask`. `last` is the last bit of the mask, on entry in the previous
/// block, on return in this one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn after(mask: u64, last: &mut u64) -> u64 {
    let shifted = mask << 1 | *last;
    *last = mask >> 63;
    shifted
}

/// Returns the positions for which the byte `places` further on is in a mask. The mask is given for this block and
/// the next one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn ahead([here, next]: [u64; 2], places: u32) -> u64 {
    here >> places | next << (64 - places)
}

/// Returns the runs of ones in `mask` that start at a bit of `starts`, and the bits directly after these runs. A
/// start outside of all runs counts as an empty run, so its bit is among the latter.
///
/// `open` is 1 if the last of these runs may continue, on entry from the previous block, on return into the next one.
/// The carry of an addition propagates through a run of ones.
#[inline(always)] // Part of each rule's loop.
pub(super) fn runs(mask: u64, starts: u64, open: &mut u64) -> (u64, u64) {
    let (sum, carried) = mask.overflowing_add(starts | *open);
    *open = u64::from(carried);
    (mask & !sum, sum & !mask)
}

/// Returns the positions of the one bits of a mask, ascending.
#[inline(always)] // Part of each rule's loop.
pub(super) fn places(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| to_usize(mask.trailing_zeros()));
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

/// A mask of this block and the next one, set bit by bit.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    here: u64,
    next: u64,
}

impl Marks {
    /// Marks a byte. `place` is its offset from the start of this block, below 128.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn mark(&mut self, place: usize) {
        match place.checked_sub(64) {
            None => self.here |= 1 << place,
            Some(place) => self.next |= 1 << place,
        }
    }

    /// Returns whether a byte of this block is marked.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn is_marked(&self, place: usize) -> bool {
        self.here >> place & 1 != 0
    }

    /// Returns the marks of this block and advances to the next block.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::replace(&mut self.here, std::mem::take(&mut self.next))
    }
}
