//! Groups of digits by masks.

use super::bits::{after, places};
use super::masks::Masks;

/// `\p{N}{1,most}`.
#[derive(Default)]
pub(super) struct Digits {
    /// 1 if the previous block ends in a number.
    number: u64,
    /// How many of the next characters belong to the last group if they are numbers, too.
    left: u32,
}

impl Digits {
    /// Returns the starts of the groups of at most `MOST` numbers in a block; `MOST` is 1 to 3.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn starts<const MOST: u32, const P: usize>(&mut self, here: &Masks<P>, number: u64) -> u64 {
        if MOST == 1 || number == 0 {
            self.number = 0;
            return number & here.start;
        }
        let open = self.number != 0;
        let first = number & !after(number, &mut self.number);
        if number & here.wide != 0 {
            return self.by_character::<MOST>(number & here.start, first);
        }
        let mut groups = first;
        if open && number.trailing_ones() > self.left {
            groups |= 1 << self.left;
        }
        // A group starts `MOST` positions after another if only numbers are between the two starts.
        let further = number & number << 1 & if MOST > 2 { number << 2 } else { !0 };
        let mut latest = groups << MOST & further;
        while latest != 0 {
            groups |= latest;
            latest = latest << MOST & further;
        }
        if number >> 63 != 0 {
            // If numbers end the block, the last group starts at one of the last `MOST` positions.
            self.left = MOST - groups.leading_zeros() - 1;
        }
        groups
    }

    /// Does the same for numbers of several bytes. `numbers` are the first bytes of numbers, and `first` those of
    /// them that start a run.
    fn by_character<const MOST: u32>(&mut self, numbers: u64, first: u64) -> u64 {
        let mut groups = 0;
        for at in places(numbers) {
            if first >> at & 1 != 0 || self.left == 0 {
                groups |= 1 << at;
                self.left = MOST;
            }
            self.left -= 1;
        }
        groups
    }
}
