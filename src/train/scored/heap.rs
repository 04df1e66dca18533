//! A binary heap in which numbers can move when their order changes.

use crate::base::int::{to_usize, truncate_to_u32};

/// Place of a number that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// A binary heap of numbers in which any number can be moved or removed, wherever it is.
///
/// Each call gets the order as a function `before`. The order of all numbers must be the same as in earlier
/// calls, except for the number that the call is about.
#[derive(Default)]
pub(super) struct Heap {
    /// The heap: number 0 is the first, and the children of place i are at 2i + 1 and 2i + 2.
    numbers: Vec<u32>,
    /// Place of each number in `numbers`, or [`ABSENT`].
    places: Vec<u32>,
}

impl Heap {
    /// The number that comes before all others.
    pub(super) fn first(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    /// Adds a number, or moves it to its new place if the heap has it already.
    pub(super) fn put(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        if self.places.len() <= to_usize(number) {
            self.places.resize(to_usize(number) + 1, ABSENT);
        }
        let mut at = self.places[to_usize(number)];
        if at == ABSENT {
            at = truncate_to_u32(self.numbers.len());
            self.numbers.push(number);
            self.places[to_usize(number)] = at;
        }
        self.settle(to_usize(at), before);
    }

    /// Removes a number, if the heap has it.
    pub(super) fn remove(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        let at = self.places.get(to_usize(number)).copied().filter(|at| *at != ABSENT);
        let Some(at) = at.map(to_usize) else { return };
        self.places[to_usize(number)] = ABSENT;
        let last = self.numbers.pop().expect("a number that has a place is there");
        if at < self.numbers.len() {
            self.write(at, last);
            self.settle(at, before);
        }
    }

    /// Moves the number at a place up or down until the heap is in order.
    fn settle(&mut self, mut at: usize, before: impl Fn(u32, u32) -> bool) {
        let number = self.numbers[at];
        while at > 0 && before(number, self.numbers[(at - 1) / 2]) {
            self.write(at, self.numbers[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        while let Some(&left) = self.numbers.get(2 * at + 1) {
            let (mut child, mut down) = (2 * at + 1, left);
            if let Some(&right) = self.numbers.get(child + 1)
                && before(right, left)
            {
                (child, down) = (child + 1, right);
            }
            if !before(down, number) {
                break;
            }
            self.write(at, down);
            at = child;
        }
        self.write(at, number);
    }

    /// Writes a number and records its place.
    fn write(&mut self, at: usize, number: u32) {
        self.numbers[at] = number;
        self.places[to_usize(number)] = truncate_to_u32(at);
    }
}
