//! The slots of the hash table, with linear probing.

use std::mem;

use super::entry::{Entry, Key};
use super::pretoken_log::PretokenLog;
use crate::base::huge_pages;
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::base::seeded_hash::Hashing;

/// Factor of the reserved capacity over the initial number of slots. Most growth then happens in place.
const RESERVED: usize = 8;

/// Slots (8 MB) from which on a table does not fit the caches of one core.
pub(super) const FAR_SLOTS: usize = 1 << 18;

/// A hash table with open addressing and linear probing.
///
/// The high bits of a hash name the home slot of an entry. If that is taken, the entry is in the next free slot after
/// it. So entries are nearly in the order of their hashes, whatever the number of slots.
///
/// **Memory:** 43 to 85 bytes per entry. A table that has outgrown the caches takes up to 171 until it has 393 216
/// entries.
pub(super) struct Slots {
    /// The slots: a power of two, at most three quarters of them in use.
    pub(super) all: Vec<Entry>,
    /// Right shift that turns a hash into its home slot: 64 minus the number of bits that name a slot.
    pub(super) shift: u32,
    /// Number of entries.
    used: usize,
    /// The hash function, here so that loops find it at hand.
    pub(super) hashing: Hashing,
}

impl Slots {
    /// Creates `length` empty slots, a power of two above one.
    pub(super) fn new(length: usize) -> Slots {
        let mut all = Vec::new();
        // Reserved memory takes no physical memory until it is touched. If reserving fails, growing copies.
        if all.try_reserve_exact(length * RESERVED).is_ok() {
            huge_pages::advise(&mut all);
        }
        all.resize_with(length, Entry::default);
        Slots { all, shift: u64::BITS - length.trailing_zeros(), used: 0, hashing: Hashing::of_process() }
    }

    /// Returns the number of entries.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns the home slot of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        u64_to_usize(hash >> self.shift)
    }

    /// Returns the slot of the entry with this hash for which `same` holds, or else the free slot for it.
    #[inline]
    pub(super) fn find(&self, hash: u64, same: impl Fn(Key) -> bool) -> usize {
        let last = self.all.len() - 1;
        let mut at = self.home(hash);
        loop {
            let found = self.all[at].key;
            if found.is_none() || same(found) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// Puts an entry into the free slot that [`find`](Slots::find) returned, and grows the table if necessary.
    /// Growing moves all entries.
    #[inline]
    pub(super) fn put(&mut self, slot: usize, entry: Entry) {
        self.all[slot] = entry;
        self.used += 1;
        if self.used * 4 > self.all.len() * 3 {
            self.grow();
        }
    }

    /// Returns whether the table will grow after few more entries, about as many as a window of text can add.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.used * 32 >= self.all.len() * 23
    }

    /// Returns the bytes of all slots.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.all[..])
    }

    /// Returns the bytes that the slots would take while the table grows.
    pub(super) fn bytes_grown(&self) -> usize {
        let (before, length) = (self.all.len(), self.grown());
        let in_place = length <= self.all.capacity();
        size_of::<Entry>() * if in_place { length } else { before + length }
    }

    /// Moves the entries to the front, sorts them by the bytes of their pre-tokens, and returns them. The table is
    /// then unusable until [`Slots::clear`].
    pub(super) fn sort(&mut self, log: &PretokenLog) -> &[Entry] {
        let mut kept = 0;
        for at in 0..self.all.len() {
            if !self.all[at].key.is_none() {
                self.all.swap(kept, at);
                kept += 1;
            }
        }
        let entries = &mut self.all[..kept];
        entries.sort_unstable_by(|one, other| one.key.compare(other.key, log));
        entries
    }

    /// Returns the number of slots after growing: twice as many, or four times as many at [`FAR_SLOTS`]. A table that
    /// outgrows the caches mostly outgrows the next size as well, and moving all entries is slow then.
    fn grown(&self) -> usize {
        self.all.len() * if self.all.len() == FAR_SLOTS { 4 } else { 2 }
    }

    /// Grows the table, in place if the reserved capacity suffices.
    #[cold]
    fn grow(&mut self) {
        let length = self.grown();
        if length <= self.all.capacity() {
            return self.grow_in_place(length);
        }
        let grown = Slots::new(length);
        let before = mem::replace(self, grown);
        self.used = before.used;
        before.all.into_iter().filter(|entry| !entry.key.is_none()).for_each(|entry| self.insert(entry));
    }

    /// Grows the table within its capacity.
    ///
    /// It moves the entries from back to front. The home of each is now at least twice as far from the front, in a
    /// region with entries that have been moved already, and no others.
    fn grow_in_place(&mut self, length: usize) {
        let before = self.all.len();
        self.all.resize_with(length, Entry::default);
        self.shift = u64::BITS - length.trailing_zeros();
        // Entries that were far behind a home near the front, or that have no free slot between their home and the
        // end.
        let mut aside = Vec::new();
        for at in (0..before).rev() {
            let entry = mem::take(&mut self.all[at]);
            if entry.key.is_none() {
                continue;
            }
            let home = self.home(entry.key.hash(self.hashing));
            let free = self.all[home..].iter().position(|slot| slot.key.is_none());
            match free {
                Some(behind) if home >= at => self.all[home + behind] = entry,
                _ => aside.push(entry),
            }
        }
        aside.into_iter().for_each(|entry| self.insert(entry));
    }

    /// Puts an entry that the table does not have yet into the first free slot from its home on.
    fn insert(&mut self, entry: Entry) {
        let slot = self.find(entry.key.hash(self.hashing), |_| false);
        self.all[slot] = entry;
    }

    /// Returns the entries with hashes that have `range` as their highest `bits`, and these hashes. `bits` is at most
    /// [`bits()`](Slots::bits).
    pub(super) fn range(&self, range: usize, bits: u32) -> impl Iterator<Item = (u64, &Entry)> {
        let (width, last) = (self.all.len() >> bits, self.all.len() - 1);
        let slots = (0..self.all.len()).map(move |at| &self.all[(range * width + at) & last]).enumerate();
        // Entries can be behind their home slot, so the range can extend behind its slots, and its first slots can
        // have entries of the previous range.
        let entries = slots.take_while(move |(at, slot)| *at < width || !slot.key.is_none());
        let entries = entries
            .filter(|(_, slot)| !slot.key.is_none())
            .map(|(_, entry)| (entry.key.hash(self.hashing), entry));
        entries.filter(move |(hash, _)| hash.checked_shr(u64::BITS - bits).unwrap_or(0) == to_u64(range))
    }

    /// Returns the number of hash bits that name a slot.
    pub(super) fn bits(&self) -> u32 {
        u64::BITS - self.shift
    }

    /// Removes all entries and keeps the slots.
    pub(super) fn clear(&mut self) {
        self.all.fill_with(Entry::default);
        self.used = 0;
    }

    /// Returns the counts by the numbers of the entries. The numbers must be `0..used`.
    pub(super) fn counts(&self) -> Vec<Count> {
        let mut counts = huge_pages::populated(Count::ZERO, self.used);
        for entry in self.all.iter().filter(|entry| !entry.key.is_none()) {
            counts[u64_to_usize(entry.number)] = entry.count();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot_of(slots: &Slots, pretoken: &[u8]) -> usize {
        let key = Key::new(pretoken, slots.hashing);
        slots.find(key.hash(slots.hashing), |found| found == key)
    }

    proptest! {
        #[test]
        fn all_that_was_put_is_found(
            pretokens in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 1..4), 0..400),
            length in prop::sample::select(vec![8, 64, 2048]),
        ) {
            let pretokens: Vec<Vec<u8>> = pretokens.into_iter().collect();
            let mut slots = Slots::new(length);
            let mut log = PretokenLog::default();
            for pretoken in &pretokens {
                let slot = slot_of(&slots, pretoken);
                let number = log.push(pretoken, 0);
                slots.put(slot, Entry::new(Key::new(pretoken, slots.hashing), Count::new(number + 1), number));
            }
            prop_assert_eq!(slots.used(), pretokens.len());
            prop_assert!(slots.used() * 4 <= slots.all.len() * 3);
            for (number, pretoken) in (0..).zip(&pretokens) {
                let entry = &slots.all[slot_of(&slots, pretoken)];
                prop_assert!(!entry.key.is_none());
                prop_assert_eq!(entry.number, number);
            }
            let counts: Vec<Count> = (1..=to_u64(pretokens.len())).map(Count::new).collect();
            prop_assert_eq!(slots.counts(), counts);
            for bits in 0..=slots.bits().min(5) {
                let mut found = vec![0; pretokens.len()];
                for range in 0..1 << bits {
                    for (hash, entry) in slots.range(range, bits) {
                        prop_assert_eq!(hash, entry.key.hash(slots.hashing));
                        prop_assert_eq!(hash.checked_shr(64 - bits).unwrap_or(0), to_u64(range));
                        found[u64_to_usize(entry.number)] += 1;
                    }
                }
                prop_assert!(found.iter().all(|&times| times == 1), "{found:?} in ranges of {bits} bits");
            }
            let mut sorted = pretokens.clone();
            sorted.sort();
            let sorted_slots: Vec<Vec<u8>> =
                slots.sort(&log).iter().map(|entry| log.pretoken(entry.number).to_vec()).collect();
            prop_assert_eq!(sorted_slots, sorted);
        }
    }
}
