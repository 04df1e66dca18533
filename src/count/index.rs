use crate::units::place64;

/// Finds numbered things by their hash. The things themselves lie elsewhere.
#[derive(Default)]
pub(super) struct HashIndex {
    /// Hash, and number + 1; 0 is no thing.
    slots: Vec<(u64, usize)>,
    used: usize,
}

impl HashIndex {
    /// The number of the thing that has this hash and is the `same`.
    pub(super) fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        let mut at = place64(hash) & last;
        loop {
            let (other, number) = self.slots[at];
            let number = number.checked_sub(1)?;
            if other == hash && same(number) {
                return Some(number);
            }
            at = (at + 1) & last;
        }
    }

    /// Adds a thing that is not there yet.
    pub(super) fn insert(&mut self, hash: u64, number: usize) {
        if (self.used + 1) * 2 > self.slots.len() {
            let slots = vec![(0, 0); (self.slots.len() * 2).max(64)];
            for (hash, number) in std::mem::replace(&mut self.slots, slots) {
                if number > 0 {
                    self.place(hash, number);
                }
            }
        }
        self.place(hash, number + 1);
        self.used += 1;
    }

    fn place(&mut self, hash: u64, stored: usize) {
        let last = self.slots.len() - 1;
        let mut at = place64(hash) & last;
        while self.slots[at].1 != 0 {
            at = (at + 1) & last;
        }
        self.slots[at] = (hash, stored);
    }
}
