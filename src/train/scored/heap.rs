use crate::units::{low32, place};

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// A binary heap of numbers that can be moved up, down and out again, wherever they stand.
///
/// What comes first is told anew at each call: it must be the same for all numbers but the one that the
/// call is about.
#[derive(Default)]
pub(super) struct Heap {
    numbers: Vec<u32>,
    places: Vec<u32>,
}

impl Heap {
    /// The number before all others.
    pub(super) fn first(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    /// Puts a number in, or to its new place if it is there already.
    pub(super) fn put(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        if self.places.len() <= place(number) {
            self.places.resize(place(number) + 1, ABSENT);
        }
        let mut at = self.places[place(number)];
        if at == ABSENT {
            at = low32(self.numbers.len());
            self.numbers.push(number);
            self.places[place(number)] = at;
        }
        self.settle(place(at), before);
    }

    /// Takes a number out, if it is there.
    pub(super) fn remove(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        let at = self.places.get(place(number)).copied().filter(|at| *at != ABSENT);
        let Some(at) = at.map(place) else { return };
        self.places[place(number)] = ABSENT;
        let last = self.numbers.pop().expect("a number that has a place is there");
        if at < self.numbers.len() {
            self.write(at, last);
            self.settle(at, before);
        }
    }

    /// Moves what stands at a place up or down to where it belongs.
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

    fn write(&mut self, at: usize, number: u32) {
        self.numbers[at] = number;
        self.places[place(number)] = low32(at);
    }
}
