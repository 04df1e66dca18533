//! Seeded hashes of bytes from outside, maps and sets with these hashes, and a compact index of numbered things.
//!
//! Each process draws its seeds at random. So nobody can make an input in which all pre-tokens or tokens have the
//! same hash. Hashes decide about the order in hash tables and so about the time, but never about a result.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use hashbrown::HashTable;

use super::int::{as_u64_halves, to_u64, u64_to_usize};
use super::lazy::Lazy;

/// A seeded hash function: products of 128 bits, folded, as in Wang Yi's *wyhash*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHash([u64; 2]);

/// A map with keys from outside. Its order differs from process to process.
pub(crate) type Map<K, V> = HashMap<K, V, SeededHash>;

/// A set of values from outside. Its order differs from process to process.
pub(crate) type Set<K> = HashSet<K, SeededHash>;

/// The hash function of this process.
static OF_PROCESS: Lazy<SeededHash> = Lazy::new(SeededHash::with_random_seeds);

impl SeededHash {
    /// A hash function with new random seeds.
    fn with_random_seeds() -> SeededHash {
        let random = RandomState::new();
        SeededHash([random.hash_one(0), random.hash_one(1)])
    }

    /// The hash function of this process. All tables share it, because hashes of different tables are compared.
    pub(crate) fn of_process() -> SeededHash {
        *OF_PROCESS
    }

    /// Hash of sixteen bytes. Every bit of it depends on all of them.
    #[inline(always)]
    pub(crate) fn halves(self, [low, high]: [u64; 2]) -> u64 {
        let [low, high] =
            as_u64_halves(&(u128::from(low ^ self.0[0]) * u128::from(high ^ self.0[1])).to_le_bytes());
        low ^ high
    }

    /// Hash of bytes of any length.
    #[inline]
    pub(crate) fn bytes(self, bytes: &[u8]) -> u64 {
        let take = |hash: u64, [low, high]: [u64; 2]| self.halves([low ^ hash, high]);
        let start = to_u64(bytes.len());
        match bytes.last_chunk() {
            Some(last) => {
                take(bytes.as_chunks().0.iter().map(as_u64_halves).fold(start, take), as_u64_halves(last))
            }
            None => take(start, ends(bytes)),
        }
    }
}

/// Two numbers that contain all of fewer than 16 bytes: the first bytes and the last bytes, which may overlap.
#[inline]
fn ends(bytes: &[u8]) -> [u64; 2] {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [first, last].map(|eight| u64::from_le_bytes(*eight));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [first, last].map(|four| u64::from(u32::from_le_bytes(*four)));
    }
    let byte = |at: usize| bytes.get(at).copied().map_or(0, u64::from);
    [byte(0), byte(1) | byte(2) << 8]
}

impl Default for SeededHash {
    fn default() -> SeededHash {
        SeededHash::of_process()
    }
}

impl BuildHasher for SeededHash {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { hashing: *self, hash: 0 }
    }
}

/// Hash of everything written so far.
#[derive(Debug)]
pub(crate) struct SeededHasher {
    /// The function that combines the parts of a value.
    hashing: SeededHash,
    /// 0 at the start.
    hash: u64,
}

impl Hasher for SeededHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(self.hashing.bytes(bytes));
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.hash = self.hashing.halves([self.hash, number]);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(to_u64(number));
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Maximum number of entries. A table keeps 32 bits of each hash, and more entries would need more slots than these
/// can address.
pub(crate) const MAX_ENTRIES: usize = 3 << 30;

/// The table already has [`MAX_ENTRIES`] entries.
#[derive(Debug)]
pub(crate) struct IndexFull;

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
    /// The lower half of the hash is dropped. `number` is at most [`MAX_ENTRIES`] and so fits 32 bits.
    fn new(hash: u64, number: usize) -> Slot {
        Slot(hash >> 32 << 32 | to_u64(number))
    }

    /// The number of the thing.
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
    /// The table already has [`MAX_ENTRIES`] entries.
    pub(crate) fn insert(&mut self, hash: u64, number: usize) -> Result<(), IndexFull> {
        if number > MAX_ENTRIES {
            return Err(IndexFull);
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
    use crate::base::int::u64_to_usize;

    /// Whether most seeds spread these keys: of 4 096 keys in as many slots, no slot gets more than 32. About
    /// one seed in a thousand does bring together keys that are as far apart from each other as these.
    fn are_spread(keys: impl Iterator<Item = [u64; 2]> + Clone) -> bool {
        let by_drawn = |_: &i32| {
            let (hashing, mut places) = (SeededHash::with_random_seeds(), vec![0; 1 << 12]);
            keys.clone().take(1 << 12).for_each(|key| places[u64_to_usize(hashing.halves(key) >> 52)] += 1);
            places.into_iter().all(|keys| keys <= 32)
        };
        (0..7).filter(by_drawn).count() > 3
    }

    #[test]
    fn hashes_of_keys_that_are_made_alike_are_spread() {
        const LENGTH: u64 = 15 << 56;
        for shift in [0, 8, 20, 44, 52] {
            assert!(are_spread((0..).map(|key| [key << shift, LENGTH])), "low halves, {shift} bits up");
        }
        for shift in [0, 8, 20, 44] {
            assert!(are_spread((0..).map(|key| [0, LENGTH | key << shift])), "high halves, {shift} bits up");
        }
        // With a known seed, as here, it is easy to make keys with the same hash.
        let factor = 0xD6E8_FEB8_6659_FD93_u64;
        let high = |key: u64| LENGTH | key << 11 | key;
        assert!(are_spread((0..).map(|key| [high(key).wrapping_mul(factor), high(key)])));
    }

    #[test]
    fn hashes_are_others_whenever_numbers_are_drawn() {
        let hashes = || [7; 70].map(|byte: u8| SeededHash::with_random_seeds().bytes(&[byte]));
        assert_eq!(hashes().into_iter().chain(hashes()).collect::<HashSet<u64>>().len(), 140);
        assert_eq!(SeededHash::of_process().bytes(b"pretoken"), SeededHash::of_process().bytes(b"pretoken"));
    }

    /// In both ways: as tables hash, and as maps hash.
    #[test]
    fn hashes_depend_on_all_bytes_and_the_length() {
        let hashing = SeededHash::with_random_seeds();
        let both = |bytes: &[u8]| [hashing.bytes(bytes), hashing.hash_one(bytes)];
        let apart = |one: [u64; 2], other: [u64; 2]| one[0] != other[0] && one[1] != other[1];
        let bytes = [7; 70];
        for length in 1..bytes.len() {
            let hashes = both(&bytes[..length]);
            assert!(apart(hashes, both(&bytes[..length + 1])), "{length} bytes and one more");
            for at in 0..length {
                let mut other = bytes;
                other[at] = 8;
                assert!(apart(hashes, both(&other[..length])), "byte {at} of {length}");
            }
        }
    }

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
        assert!(index.insert(1, MAX_ENTRIES).is_ok());
        assert!(matches!(index.insert(2, MAX_ENTRIES + 1), Err(IndexFull)));
        assert_eq!(index.find(1, |_| true), Some(MAX_ENTRIES));
    }
}
