use std::mem;

use super::entry::{Arena, Entry, Key};
use crate::pages;
use crate::units::place64;

/// Room for so many times as many entries is reserved, so that most growing is done in place.
const RESERVED: usize = 8;

/// Entries in open addressing: each stands in the slot that the high bits of its hash name, or, where
/// that is taken, in the next free one. So they are nearly in the order of their hashes, however many
/// slots there are.
///
/// **Memory:** 43 to 85 bytes an entry.
pub(super) struct Slots {
    /// A power of two of them, at most three quarters in use.
    pub(super) all: Vec<Entry>,
    /// How many high bits of a hash are passed over.
    skipped: u32,
    /// How many bits of what is left name no slot.
    pub(super) shift: u32,
    used: usize,
}

impl Slots {
    /// Empty slots: `length` of them, a power of two above one.
    pub(super) fn new(length: usize) -> Slots {
        Slots::of_partition(length, 0)
    }

    /// The same for hashes that are all alike in so many of their high bits.
    pub(super) fn of_partition(length: usize, bits: u32) -> Slots {
        let mut all = Vec::new();
        // What is reserved and not touched is no memory yet. Where even that is refused, growing copies.
        if all.try_reserve_exact(length * RESERVED).is_ok() {
            pages::advise(&mut all);
        }
        all.resize(length, Entry::default());
        Slots { all, skipped: bits, shift: u64::BITS - length.trailing_zeros(), used: 0 }
    }

    /// How many high bits of a hash are passed over.
    pub(super) fn skipped(&self) -> u32 {
        self.skipped
    }

    /// How many entries there are.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The home of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        place64(hash << self.skipped >> self.shift)
    }

    /// The slot that has the piece of these bytes, or the free one that it may have. Of a short piece the
    /// key alone is looked at.
    #[inline]
    pub(super) fn find(&self, key: Key, hash: u64, piece: &[u8], arenas: &[Arena]) -> usize {
        let last = self.all.len() - 1;
        let mut at = self.home(hash);
        loop {
            let found = self.all[at].key;
            if found.is_none() || found.is(key, piece, arenas) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// Puts an entry into the free slot that was found for it.
    #[inline]
    pub(super) fn put(&mut self, slot: usize, entry: Entry) {
        self.all[slot] = entry;
        self.used += 1;
        if self.used * 4 > self.all.len() * 3 {
            self.grow();
        }
    }

    /// Whether few more entries make them grow, hardly more than a window of text has.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.used * 32 >= self.all.len() * 23
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.all[..])
    }

    /// Bytes that they would take while growing.
    pub(super) fn bytes_grown(&self) -> usize {
        let in_place = self.all.len() * 2 <= self.all.capacity();
        self.bytes() * if in_place { 2 } else { 3 }
    }

    /// Brings the entries to the front, in order of their pieces' bytes, and gives them. What follows must
    /// be [`Slots::clear`].
    pub(super) fn sort(&mut self, arenas: &[Arena]) -> &[Entry] {
        let mut kept = 0;
        for at in 0..self.all.len() {
            if !self.all[at].key.is_none() {
                self.all.swap(kept, at);
                kept += 1;
            }
        }
        let entries = &mut self.all[..kept];
        entries.sort_unstable_by(|one, other| one.key.compare(other.key, arenas));
        entries
    }

    #[cold]
    fn grow(&mut self) {
        let length = self.all.len() * 2;
        if length <= self.all.capacity() {
            return self.grow_in_place(length);
        }
        let grown = Slots::of_partition(length, self.skipped);
        let before = mem::replace(self, grown);
        before.entries().for_each(|entry| self.insert(*entry));
        self.used = before.used;
    }

    /// Takes the entries from back to front, so that each moves to where only moved ones are: its home is
    /// now twice as far from the front.
    fn grow_in_place(&mut self, length: usize) {
        let before = self.all.len();
        self.all.resize(length, Entry::default());
        self.shift -= 1;
        // Those that stood far behind a home at the very front, or find no room before the end.
        let mut aside = Vec::new();
        for at in (0..before).rev() {
            let entry = mem::take(&mut self.all[at]);
            if entry.key.is_none() {
                continue;
            }
            let home = self.home(entry.key.hash());
            let free = self.all[home..].iter().position(|slot| slot.key.is_none());
            match free {
                Some(behind) if home >= at => self.all[home + behind] = entry,
                _ => aside.push(entry),
            }
        }
        aside.into_iter().for_each(|entry| self.insert(entry));
    }

    /// Puts an entry that is not there into the first free slot from its home on.
    fn insert(&mut self, entry: Entry) {
        let last = self.all.len() - 1;
        let mut at = self.home(entry.key.hash());
        while !self.all[at].key.is_none() {
            at = (at + 1) & last;
        }
        self.all[at] = entry;
    }

    /// All entries, nearly in the order of their hashes.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter().filter(|entry| !entry.key.is_none())
    }

    /// The entries of the hashes that begin with these bits, nearly in order.
    ///
    /// There are no more such bits than name a slot.
    pub(super) fn partition(&self, number: usize, bits: u32) -> impl Iterator<Item = &Entry> {
        let width = self.all.len() >> bits;
        let own = number * width..(number + 1) * width;
        // What found no free slot there stands behind, before the next free one, or at the very beginning.
        let behind = self.all[own.end..].iter().chain(&self.all[..own.start]);
        let behind = behind.take_while(|entry| !entry.key.is_none());
        let within = move |entry: &&Entry| place64(entry.key.hash() >> (u64::BITS - bits)) == number;
        self.all[own].iter().filter(|entry| !entry.key.is_none()).chain(behind).filter(within)
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.all.fill(Entry::default());
        self.used = 0;
    }

    /// Gives the entries alone, and with them the memory.
    pub(super) fn into_entries(mut self) -> Vec<Entry> {
        self.all.retain(|entry| !entry.key.is_none());
        self.all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::units::Count;

    fn slot_of(slots: &Slots, piece: &[u8]) -> usize {
        let key = Key::new(piece);
        slots.find(key, key.hash(), &[], &[])
    }

    fn filled(length: usize, pieces: &[Vec<u8>]) -> Slots {
        let mut slots = Slots::new(length);
        for (first, piece) in (0..).zip(pieces) {
            let slot = slot_of(&slots, piece);
            slots.put(slot, Entry { key: Key::new(piece), count: Count::ONE, first });
        }
        slots
    }

    proptest! {
        #[test]
        fn all_that_was_put_is_found(
            pieces in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 1..4), 0..400),
            length in prop::sample::select(vec![8, 64, 2048]),
            bits in 1..4_u32,
        ) {
            let pieces: Vec<Vec<u8>> = pieces.into_iter().collect();
            let mut slots = filled(length, &pieces);
            prop_assert_eq!(slots.used(), pieces.len());
            prop_assert!(slots.used() * 4 <= slots.all.len() * 3);
            for (first, piece) in (0..).zip(&pieces) {
                let entry = slots.all[slot_of(&slots, piece)];
                prop_assert!(!entry.key.is_none());
                prop_assert_eq!(entry.first, first);
            }
            let partitions = (0..1 << bits).flat_map(|number| slots.partition(number, bits));
            let firsts: Vec<u64> = partitions.map(|entry| entry.first).collect();
            prop_assert_eq!(firsts.len(), pieces.len());
            prop_assert_eq!(firsts.iter().collect::<HashSet<_>>().len(), pieces.len());
            let mut sorted = pieces.clone();
            sorted.sort();
            let sorted_slots: Vec<Vec<u8>> =
                slots.sort(&[]).iter().map(|entry| entry.key.bytes(&mut [0; 16], &[]).to_vec()).collect();
            prop_assert_eq!(sorted_slots, sorted);
        }
    }
}
