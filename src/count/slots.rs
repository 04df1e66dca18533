use std::mem;

use rayon::prelude::*;

use super::entry::{Arena, Entry, Key};
use super::fault::Fault;
use crate::pages;
use crate::units::place64;

/// Room for so many times as many entries is reserved, so that most growing is done in place.
const RESERVED: usize = 8;

/// About how many slots one thread adds to at a time.
const CHUNK: usize = 4 << 10;

/// Entries in open addressing: each stands in the slot that the high bits of its hash name, or, where
/// that is taken, in the next free one. So they are nearly in the order of their hashes, however many
/// slots there are.
///
/// **Memory:** 43 to 85 bytes an entry.
pub(super) struct Slots {
    /// A power of two of them, at most three quarters in use.
    pub(super) all: Vec<Entry>,
    /// How many bits of a hash name no slot.
    pub(super) shift: u32,
    used: usize,
}

impl Slots {
    /// Empty slots: `length` of them, a power of two above one.
    pub(super) fn new(length: usize) -> Slots {
        let mut all = Vec::new();
        // What is reserved and not touched is no memory yet. Where even that is refused, growing copies.
        if all.try_reserve_exact(length * RESERVED).is_ok() {
            pages::advise(&mut all);
        }
        all.resize(length, Entry::default());
        Slots { all, shift: u64::BITS - length.trailing_zeros(), used: 0 }
    }

    /// How many entries there are.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The home of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        place64(hash >> self.shift)
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
        let grown = Slots::new(length);
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

    /// Adds the entries of another table, chunk by chunk of both on all threads. The longer pieces of the other
    /// are in the arena of this number.
    ///
    /// # Errors
    /// A count passes 2⁶⁴.
    pub(super) fn take_in(&mut self, other: Slots, arena: u16, arenas: &[Arena]) -> Result<(), Fault> {
        let bits = (self.all.len() / CHUNK).min(other.all.len()).max(1).ilog2();
        let (own, others) = (self.all.len() >> bits, other.all.len() >> bits);
        let chunks = self.all.par_chunks_mut(own).zip(other.all.par_chunks(others)).enumerate();
        let taken = chunks.map(|(number, (slots, entries))| {
            let entries = entries.iter().filter(|entry| !entry.key.is_none());
            let entries = entries.map(|entry| Entry { key: entry.key.in_arena(arena), ..*entry });
            Chunk { slots, first_slot: number * own, shift: self.shift, arenas }.take_in(entries)
        });
        let taken = taken.collect::<Result<Vec<Taken>, Fault>>()?;
        self.used += taken.iter().map(|taken| taken.new).sum::<usize>();
        let left = taken.iter().flat_map(|taken| &taken.left);
        left.copied().try_for_each(|entry| self.add(entry, arenas))
    }

    /// Adds an entry, whether its piece is there or not.
    fn add(&mut self, entry: Entry, arenas: &[Arena]) -> Result<(), Fault> {
        let slot = self.find(entry.key, entry.key.hash(), entry.key.long_bytes(arenas), arenas);
        if self.all[slot].key.is_none() {
            self.put(slot, entry);
            return Ok(());
        }
        self.all[slot].unite(&entry, arenas)
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

/// Slots of a table that one thread adds to.
struct Chunk<'a> {
    slots: &'a mut [Entry],
    /// Where in the table they begin.
    first_slot: usize,
    shift: u32,
    arenas: &'a [Arena],
}

/// What came of adding entries to a chunk.
struct Taken {
    /// How many pieces were new.
    new: usize,
    /// What may stand behind the chunk, or finds no room in it.
    left: Vec<Entry>,
}

impl Chunk<'_> {
    fn take_in(&mut self, entries: impl Iterator<Item = Entry>) -> Result<Taken, Fault> {
        let free = self.slots.iter().filter(|slot| slot.key.is_none()).count();
        // Some stay free, so that a search that goes through many chunks ends.
        let room = free.saturating_sub(self.slots.len() / 8);
        let mut taken = Taken { new: 0, left: Vec::new() };
        for entry in entries {
            match self.find(&entry) {
                Some(slot) if !self.slots[slot].key.is_none() => {
                    self.slots[slot].unite(&entry, self.arenas)?;
                }
                Some(slot) if taken.new < room => {
                    self.slots[slot] = entry;
                    taken.new += 1;
                }
                _ => taken.left.push(entry),
            }
        }
        Ok(taken)
    }

    /// The slot of the chunk that has the entry's piece, or the free one where that would be.
    fn find(&self, entry: &Entry) -> Option<usize> {
        // An entry may stand behind the chunk that its hash names.
        let home = place64(entry.key.hash() >> self.shift).checked_sub(self.first_slot)?;
        let fits = |slot: &Entry| slot.key.is_none() || slot.key.same(entry.key, self.arenas);
        Some(home + self.slots.get(home..)?.iter().position(fits)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

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
            let mut sorted = pieces.clone();
            sorted.sort();
            let sorted_slots: Vec<Vec<u8>> =
                slots.sort(&[]).iter().map(|entry| entry.key.bytes(&mut [0; 16], &[]).to_vec()).collect();
            prop_assert_eq!(sorted_slots, sorted);
        }

        #[test]
        fn tables_of_any_lengths_are_summed(
            tables in prop::collection::vec(prop::collection::vec(any::<[bool; 12]>(), 0..600), 2..4),
            lengths in prop::collection::vec(prop::sample::select(vec![8, 64, 8192]), 3),
        ) {
            let pieces = |table: &Vec<[bool; 12]>| -> Vec<Vec<u8>> {
                let distinct: HashSet<Vec<u8>> =
                    table.iter().map(|bits| bits.iter().map(|&bit| u8::from(bit)).collect()).collect();
                distinct.into_iter().collect()
            };
            let tables: Vec<Vec<Vec<u8>>> = tables.iter().map(pieces).collect();
            let mut slots = tables.iter().zip(lengths).map(|(pieces, length)| filled(length, pieces));
            let mut sum = slots.next().expect("two tables at least");
            slots.try_for_each(|other| sum.take_in(other, 0, &[])).expect("small counts");
            let mut expected = HashMap::new();
            for (first, piece) in tables.iter().flat_map(|pieces| (0..).zip(pieces)) {
                let (count, least) = expected.entry(piece).or_insert((0, first));
                (*count, *least) = (*count + 1, first.min(*least));
            }
            prop_assert_eq!(sum.used(), expected.len());
            for (piece, (count, first)) in expected {
                let entry = sum.all[slot_of(&sum, piece)];
                prop_assert_eq!((entry.count.get(), entry.first), (count, first));
            }
        }
    }
}
