//! White space of the patterns by masks: how it is divided between the pre-tokens around it.

use super::bits::{after, ahead, places};
use super::drive::View;
use super::masks::BLOCK;

/// Returns the starts of the characters in `set` that white space does not follow. `white` is the white space of this
/// block and the next one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn last_white<const P: usize>(view: &View<'_, P>, set: u64, white: [u64; 2]) -> u64 {
    let last = set & !ahead(white, 1);
    if set & view.here.wide == 0 {
        return last;
    }
    // White space outside ASCII has two or three bytes per character.
    let [two, three] = [2, 3].map(|places| !ahead(white, places));
    let start = [view.here.start, view.next.start];
    let [second, third] = [1, 2].map(|places| !ahead(start, places));
    set & view.here.start & (last & !second | second & (two & !third | three & third))
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`, where newlines directly after signs belong to the signs.
#[derive(Default)]
pub(super) struct Lines {
    // The last bits of these masks in the previous block.
    white: u64,
    newline: u64,
}

impl Lines {
    /// Returns the pre-token starts in the white space of a block.
    ///
    /// `taken` are newlines that belong to signs before them, and `behind` the positions after these. `until` has
    /// white space, and whatever white space treats like the end of a text, in this block and the next one. Returns
    /// `None` if a run of blanks reaches beyond the next block, so that a newline after it cannot be seen.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn starts<const P: usize>(
        &mut self,
        view: &View<'_, P>,
        white: u64,
        until: [u64; 2],
        (taken, behind): (u64, u64),
    ) -> Option<u64> {
        let newline = view.here.newline;
        let blank = white & !newline;
        let mut tails = blank & after(newline, &mut self.newline) & !behind;
        if tails != 0 {
            tails = last_lines(view, tails, blank)?;
        }
        let first = white & !after(white, &mut self.white) & !taken;
        Some(first | blank & behind | tails | last_white(view, blank, until))
    }
}

/// Keeps those of `tails` with no newline after their run of blanks. `tails` are the starts of runs of blanks after a
/// newline. Returns `None` if a run reaches beyond the next block.
#[inline(always)] // Part of each rule's loop.
fn last_lines<const P: usize>(view: &View<'_, P>, mut tails: u64, blank: u64) -> Option<u64> {
    let (sum, carried) = blank.overflowing_add(tails);
    if carried {
        // White space is the last plane of every rule. Blanks are white space without newlines.
        let next_blank = view.next.planes[P - 1] & !view.next.newline;
        let length = next_blank.trailing_ones();
        // If the text ends within the next block, the bytes of that block after the end are `Rule::BEHIND`.
        if length == 64 && view.at + 2 * BLOCK <= view.text.len() {
            return None;
        }
        if view.next.newline.checked_shr(length).unwrap_or(0) & 1 != 0 {
            tails &= !(1 << (63 - tails.leading_zeros()));
        }
    }
    for line in places(sum & !blank & view.here.newline) {
        let before = tails & ((1 << line) - 1);
        tails &= !(1 << (63 - before.leading_zeros()));
    }
    Some(tails)
}
