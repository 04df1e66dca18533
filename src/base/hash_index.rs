//! A compact hash table that finds numbered things.

use hashbrown::HashTable;

use super::int::{to_u64, u64_to_usize};

/// Maximum number of entries. A table keeps 32 bits of each hash, and more entries would need more slots than these
/// can address.
pub(crate) const MOST: usize = 3 << 30;

/// The table already has [`MOST`] entries.
#[derive(Debug)]
pub(crate) struct Full;

/// A hash table of numbers: finds numbered things by their hashes. The things themselves are stored elsewhere and are
/// numbered from 1.
///
/// **Memory:** 11 to 21 bytes per entry, and half as much again while the table grows.
#[derive(Debug, Default)]
pub(crate) struct HashIndex(HashTable<Slot>);

/// The upper half of a hash, and the number of a thing in the lower half.
#[derive(Clone, Copy, Debug)]
struct Slot(u64);

impl Slot {
    fn new(hash: u64, number: usize) -> Slot {
        Slot(hash >> 32 << 32 | to_u64(number))
    }

    fn number(self) -> usize {
        u64_to_usize(self.0 & u64::from(u32::MAX))
    }

    /// Whether the stored half of its hash agrees with `hash`.
    fn has(self, hash: u64) -> bool {
        (self.0 ^ hash) >> 32 == 0
    }
}

/// The hash that the table gets: twice the half that slots store, so that the table can grow without the other half.
fn stored_half_twice(hash: u64) -> u64 {
    hash >> 32 << 32 | hash >> 32
}

impl HashIndex {
    /// The number of the thing that has this hash and for which `same` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
        let is_it = |slot: &Slot| slot.has(hash) && same(slot.number());
        self.0.find(stored_half_twice(hash), is_it).map(|slot| slot.number())
    }

    /// Adds a thing that is not in the table yet.
    ///
    /// # Errors
    /// The table already has [`MOST`] entries.
    pub(crate) fn insert(&mut self, hash: u64, number: usize) -> Result<(), Full> {
        if number > MOST {
            return Err(Full);
        }
        self.0.insert_unique(stored_half_twice(hash), Slot::new(hash, number), |slot| {
            stored_half_twice(slot.0)
        });
        Ok(())
    }

    /// Removes all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Many hashes have the same first slot, and the table grows several times.
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
