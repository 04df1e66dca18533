use super::bits::{after, ahead, places};
use super::drive::View;
use super::masks::BLOCK;

/// Where the characters of `set` begin after which white space ends.
#[inline(always)] // Part of each rule's loop.
pub(super) fn last_white<const P: usize>(view: &View<'_, P>, set: u64, white: [u64; 2]) -> u64 {
    let last = set & !ahead(white, 1);
    if set & view.here.wide == 0 {
        return last;
    }
    // The white space that is not ASCII has two or three bytes.
    let [two, three] = [2, 3].map(|places| !ahead(white, places));
    let start = [view.here.start, view.next.start];
    let [second, third] = [1, 2].map(|places| !ahead(start, places));
    set & view.here.start & (last & !second | second & (two & !third | three & third))
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`, where newlines right after signs go with these.
#[derive(Default)]
pub(super) struct Lines {
    white: u64,
    newline: u64,
}

impl Lines {
    /// Where pieces begin in white space, of which signs before it took `taken`, up to `behind`. `until` is
    /// white space, and what makes it end as a text does. `None` where a block and more of blanks tells
    /// nothing of a further newline.
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

/// Of the runs of blanks that begin here after a newline, those that no other newline follows.
#[inline(always)] // Part of each rule's loop.
fn last_lines<const P: usize>(view: &View<'_, P>, mut tails: u64, blank: u64) -> Option<u64> {
    let (sum, carried) = blank.overflowing_add(tails);
    if carried {
        // White space is in the last plane of all rules; what is white and no newline is blank.
        let next_blank = view.next.planes[P - 1] & !view.next.newline;
        let length = next_blank.trailing_ones();
        // Where the text ends within the next block, that block shows what stands behind it.
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
