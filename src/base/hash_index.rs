//! A compact hash table that finds numbered things.

use std::mem;

use super::int::{to_u64, u64_to_usize};

/// Slots of an empty table.
const FIRST_SLOTS: usize = 64;

/// Maximum number of entries. More would need more slots than the 32 bits of a hash that a slot keeps can
/// address.
pub(crate) const MOST: usize = 3 << 30;

/// The table already has [`MOST`] entries.
#[derive(Debug)]
pub(crate) struct Full;

/// A hash table of numbers: finds numbered things by their hashes. The things themselves are stored elsewhere
/// and are numbered from 1.
///
/// **Memory:** 11 to 21 bytes per entry, and half as much again while the table grows.
#[derive(Debug)]
pub(crate) struct HashIndex {
    /// Open addressing with linear probing. At most three quarters of the slots are used; their number is a
    /// power of two.
    slots: Vec<Slot>,
    /// Number of low bits of a hash that do not address a slot. The upper bits do.
    shift: u32,
    /// Number of entries.
    used: usize,
}

/// The upper half of a hash, and the number of a thing in the lower half. All bits zero means free.
#[derive(Clone, Copy, Debug, Default)]
struct Slot(u64);

impl Slot {
    fn new(hash: u64, number: usize) -> Slot {
        Slot(hash >> 32 << 32 | to_u64(number))
    }

    fn is_free(self) -> bool {
        self.0 == 0
    }

    fn number(self) -> usize {
        u64_to_usize(self.0 & u64::from(u32::MAX))
    }

    /// Whether the stored half of its hash agrees with `hash`.
    fn has(self, hash: u64) -> bool {
        (self.0 ^ hash) >> 32 == 0
    }
}

impl Default for HashIndex {
    fn default() -> HashIndex {
        HashIndex::of_slots(FIRST_SLOTS)
    }
}

impl HashIndex {
    /// An empty table. `slots` is a power of two.
    fn of_slots(slots: usize) -> HashIndex {
        HashIndex { slots: vec![Slot::default(); slots], shift: u64::BITS - slots.trailing_zeros(), used: 0 }
    }

    /// The number of the thing that has this hash and for which `same` is true.
    pub(crate) fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
        let slot = self.slots[self.place(hash, same)];
        (!slot.is_free()).then(|| slot.number())
    }

    /// Adds a thing that is not in the table yet.
    ///
    /// # Errors
    /// The table already has [`MOST`] entries.
    pub(crate) fn insert(&mut self, hash: u64, number: usize) -> Result<(), Full> {
        if number > MOST {
            return Err(Full);
        }
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.put(Slot::new(hash, number));
        Ok(())
    }

    /// Doubles the number of slots.
    fn grow(&mut self) {
        let grown = HashIndex::of_slots(self.slots.len() * 2);
        let before = mem::replace(self, grown);
        before.slots.into_iter().filter(|slot| !slot.is_free()).for_each(|slot| self.put(slot));
    }

    /// Writes a slot that is not in the table yet.
    fn put(&mut self, slot: Slot) {
        let place = self.place(slot.0, |_| false);
        self.slots[place] = slot;
        self.used += 1;
    }

    /// Index of the slot of the thing that has this hash and for which `same` is true; if none is found, of the
    /// free slot where it would go.
    #[inline]
    fn place(&self, hash: u64, same: impl Fn(usize) -> bool) -> usize {
        let last = self.slots.len() - 1;
        // Without the lower half of the hash, which slots do not store.
        let mut at = u64_to_usize((hash >> 32 << 32) >> self.shift);
        loop {
            let slot = self.slots[at];
            if slot.is_free() || slot.has(hash) && same(slot.number()) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// Removes all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(Slot::default());
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Many hashes have the same first slot, and probing wraps around from the last slot to the first.
        #[test]
        fn all_that_was_put_is_found(
            hashes in prop::collection::vec(
                prop_oneof![any::<u64>(), (0..40_u64).prop_map(|high| u64::MAX - (high << 54)), 0..9_u64],
                0..300,
            ),
        ) {
            let mut index = HashIndex::default();
            for (hash, number) in hashes.iter().zip(1..) {
                index.insert(*hash, number).expect("few numbers");
            }
            prop_assert!(index.used * 4 <= index.slots.len() * 3);
            for (hash, number) in hashes.iter().zip(1..) {
                prop_assert_eq!(index.find(*hash, |found| found == number), Some(number));
                prop_assert_eq!(index.find(*hash, |_| false), None);
            }
            index.clear();
            prop_assert!(hashes.iter().all(|hash| index.find(*hash, |_| true).is_none()));
        }
    }

    #[test]
    fn there_is_a_greatest_number() {
        let mut index = HashIndex::default();
        assert!(index.insert(1, MOST).is_ok());
        assert!(matches!(index.insert(2, MOST + 1), Err(Full)));
        assert_eq!(index.find(1, |_| true), Some(MOST));
    }
}
