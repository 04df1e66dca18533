use crate::units::place;

/// The bits after those of `mask`. `last` is the mask's last bit in the block before, then in this one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn after(mask: u64, last: &mut u64) -> u64 {
    let shifted = mask << 1 | *last;
    *last = mask >> 63;
    shifted
}

/// Whether the byte so many places further is in a mask, of this block and the next.
#[inline(always)] // Part of each rule's loop.
pub(super) fn ahead([here, next]: [u64; 2], places: u32) -> u64 {
    here >> places | next << (64 - places)
}

/// The runs of `mask` that have a bit of `starts` at their start, and the first bits after them; a start
/// that is in no run is such a bit itself. `open` is 1 where the last of these runs goes on into the
/// next block.
///
/// The carry of an addition runs through ones.
#[inline(always)] // Part of each rule's loop.
pub(super) fn runs(mask: u64, starts: u64, open: &mut u64) -> (u64, u64) {
    let (sum, carried) = mask.overflowing_add(starts | *open);
    *open = u64::from(carried);
    (mask & !sum, sum & !mask)
}

/// The places of a mask's bits, ascending.
#[inline(always)] // Part of each rule's loop.
pub(super) fn places(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| place(mask.trailing_zeros()));
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

/// A mask of this block and the next, bit by bit.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    here: u64,
    next: u64,
}

impl Marks {
    /// Marks the byte at a place, below 128, of the block.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn mark(&mut self, place: usize) {
        match place.checked_sub(64) {
            None => self.here |= 1 << place,
            Some(place) => self.next |= 1 << place,
        }
    }

    /// Whether a byte of this block is marked.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn is_marked(&self, place: usize) -> bool {
        self.here >> place & 1 != 0
    }

    /// The marks of this block; those of the next are then of this.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::replace(&mut self.here, std::mem::take(&mut self.next))
    }
}
