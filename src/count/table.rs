//! The hash table that one thread counts into.
//!
//! [`PretokenTable`] has two parts: a [`HashTable`] with open addressing, and a [`KeyArena`] with the bytes of all
//! pre-tokens. Each [`CountSlot`] of the hash table has a [`PretokenKey`] and a count. The key of a short pre-token
//! contains its bytes, so that most lookups read one cache line.

use std::cmp::Ordering;
use std::mem;

use super::overflow;
use super::pretokens::pretoken_at;
use crate::base::hash::SeededHash;
use crate::base::huge_pages::fetch;
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::base::{huge_pages, int};
use crate::error::Result;
use crate::split::{SHORT, ShortPretoken};

/// Slots of a new table.
const FIRST_SLOTS: usize = 1 << 14;

/// Number of pre-tokens that are looked up together in a table that does not fit the CPU caches: all of their slots
/// are prefetched first. Also the prefetch distance when a table is written out.
const PREFETCH_DISTANCE: usize = 64;

/// The hash table of one thread: distinct pre-tokens with their counts and first positions.
///
/// **Memory:** that of the [slots](HashTable) and of the [arena](KeyArena). It is 59 to 101 bytes for each pre-token,
/// in addition to its own bytes. A pre-token takes more while the table has few, since the slots take at least
/// 512 KiB. While the slots grow by copying, the old ones are allocated as well.
pub(super) struct PretokenTable {
    /// The counts, found by pre-token.
    pub(super) index: HashTable,
    /// The bytes and the first positions.
    pub(super) arena: KeyArena,
}

impl PretokenTable {
    /// Creates an empty table.
    pub(super) fn new() -> PretokenTable {
        PretokenTable { index: HashTable::new(FIRST_SLOTS), arena: KeyArena::default() }
    }

    /// Returns whether the table should be written out and emptied so that it does not exceed `max_bytes`.
    pub(super) fn is_full(&self, max_bytes: usize) -> bool {
        let slots = if self.index.is_nearly_full() { self.index.bytes_grown() } else { self.index.bytes() };
        let full = slots + self.arena.memory() > max_bytes;
        full && self.index.len > 0
    }

    /// Passes the pre-tokens with their counts and first positions to `write`, sorted by bytes, and removes them.
    ///
    /// If the slots take nearly all of `max_bytes`, they are freed: they would leave little for the arena, and the
    /// next sorted run would have few pre-tokens.
    pub(super) fn drain_sorted(
        &mut self,
        max_bytes: usize,
        write: impl FnOnce(&mut dyn Iterator<Item = (KeyBytes<'_>, Count, u64)>) -> Result<()>,
    ) -> Result<()> {
        let PretokenTable { index, arena } = self;
        let entries = index.sort(arena);
        write(&mut entries.iter().enumerate().map(|(at, entry)| {
            // In this order, the first positions are scattered in memory, so they are prefetched.
            let later = &entries[(at + PREFETCH_DISTANCE).min(entries.len() - 1)];
            fetch(&arena.first_positions, u64_to_usize(later.number));
            (entry.key.bytes_in(arena), entry.count, arena.first(entry.number))
        }))?;
        arena.clear();
        if index.bytes() > max_bytes / 8 * 7 && index.slots.len() > FIRST_SLOTS {
            *index = HashTable::new(FIRST_SLOTS);
        } else {
            index.clear();
        }
        Ok(())
    }

    /// Counts pre-tokens of a text, each `weight` times.
    ///
    /// `position` is the position of the text in the corpus. `ends` are the ends of the pre-tokens; the first one
    /// starts at `start`, and each other one at the end of the previous one. The text may continue after the last.
    ///
    /// Calls must be in the order of the corpus, because the position of a new pre-token is stored as its first one.
    ///
    /// # Errors
    /// A count exceeds 2⁶⁴ − 1.
    pub(super) fn count(
        &mut self,
        text: &[u8],
        start: u32,
        ends: &[u32],
        weight: Count,
        position: u64,
    ) -> Result<()> {
        let mut text = Text { text, start, weight, position, hashing: self.index.hashing };
        if self.index.slots.len() < MIN_UNCACHED_SLOTS {
            return self.count_cached(&mut text, ends);
        }
        ends.chunks(PREFETCH_DISTANCE).try_for_each(|ends| self.count_prefetched(&mut text, ends))
    }

    /// Counts pre-tokens in a table that fits the caches. The common case, a short pre-token in its home slot, is a
    /// loop without calls, so that its variables stay in registers.
    fn count_cached(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<()> {
        let mut rest = ends.iter();
        loop {
            let (shift, slots) = (self.index.shift, &mut self.index.slots[..]);
            let Text { text: bytes, mut start, weight, hashing, .. } = *text;
            let missed = rest.by_ref().find(|&&end| {
                let length = int::to_usize(end - start);
                if length > SHORT {
                    return true;
                }
                let key = PretokenKey::of_short(bytes, int::to_usize(start), length);
                let slot = &mut slots[u64_to_usize(key.hash_of_short(hashing) >> shift)];
                let known = slot.key == key && slot.add(weight);
                start = if known { end } else { start };
                !known
            });
            text.start = start;
            let Some(&end) = missed else { return Ok(()) };
            let key = text.key(text.start, end);
            self.count_pretoken(text, end, key)?;
        }
    }

    /// Counts at most [`PREFETCH_DISTANCE`] pre-tokens in a table that does not fit the CPU caches. It prefetches the
    /// slots of all of them before it reads the first one.
    fn count_prefetched(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<()> {
        let mut keys = [(PretokenKey::default(), 0); PREFETCH_DISTANCE];
        let mut start = text.start;
        for (key, &end) in keys.iter_mut().zip(ends) {
            *key = text.key(start, end);
            // A cache line has two slots. If the home slot has another pre-token, the search continues with the next
            // slots. It usually ends in this line or the next, at the pre-token or at a free slot.
            let home = self.index.home(key.1);
            fetch(&self.index.slots, home);
            fetch(&self.index.slots, home + 2);
            start = end;
        }
        let mut rest = keys.iter().zip(ends);
        loop {
            let (shift, slots) = (self.index.shift, &mut self.index.slots[..]);
            let Text { mut start, weight, .. } = *text;
            let missed = rest.by_ref().find(|&(&(key, hash), &end)| {
                let slot = &mut slots[u64_to_usize(hash >> shift)];
                let known = slot.key == key && slot.add(weight);
                start = if known { end } else { start };
                !known
            });
            text.start = start;
            let Some((&key, &end)) = missed else { return Ok(()) };
            self.count_pretoken(text, end, key)?;
        }
    }

    /// Counts the next pre-token of a text, which ends at `end`, and advances `text.start` to its end.
    ///
    /// The fast loops call it for pre-tokens that they do not find in their home slots. It searches the following
    /// slots as well, and adds an entry for a new pre-token. `key` comes from [`Text::key`], so the key of a long
    /// pre-token does not have its number in the arena yet.
    ///
    /// # Errors
    /// The count exceeds 2⁶⁴ − 1.
    #[inline(never)]
    fn count_pretoken(
        &mut self,
        text: &mut Text<'_>,
        end: u32,
        (key, hash): (PretokenKey, u64),
    ) -> Result<()> {
        let pretoken = &text.text[int::to_usize(text.start)..int::to_usize(end)];
        let first = text.position + u64::from(text.start);
        text.start = end;
        let (home, arena) = (self.index.home(hash), &self.arena);
        let slot = self.index.find(hash, |found| found.is(key, pretoken, arena));
        let found = &mut self.index.slots[slot];
        if found.key.is_none() {
            let number = self.arena.push(pretoken, first);
            self.index.put(slot, CountSlot::new(key.numbered(number), text.weight, number));
            return Ok(());
        }
        if !found.add(text.weight) {
            return Err(overflow(pretoken));
        }
        // Frequent pre-tokens should be in their home slots, because the fast loops look only there. So the more
        // frequent of two entries gets the slot. Both are still found after the swap: a search ends at a free slot,
        // and no slot between the two is free.
        let count = found.count;
        if count > self.index.slots[home].count {
            self.index.slots.swap(home, slot);
        }
        Ok(())
    }
}

/// A text that is being counted.
struct Text<'t> {
    /// The bytes. Pre-tokens are ranges of them.
    text: &'t [u8],
    /// The start of the next pre-token.
    start: u32,
    /// What each occurrence adds to a count.
    weight: Count,
    /// The position of the text in the corpus.
    position: u64,
    /// The hash function of the table.
    hashing: SeededHash,
}

impl Text<'_> {
    /// Returns the key of a pre-token, without a number, and its hash.
    #[inline(always)]
    fn key(&self, start: u32, end: u32) -> (PretokenKey, u64) {
        let (start, end) = (int::to_usize(start), int::to_usize(end));
        if end - start <= SHORT {
            let key = PretokenKey::of_short(self.text, start, end - start);
            return (key, key.hash_of_short(self.hashing));
        }
        let key = PretokenKey::new(&self.text[start..end], self.hashing);
        (key, key.hash(self.hashing))
    }
}

/// The last byte in the key of a long pre-token. In the key of a short one, the last byte is the length.
const LONG: u64 = 0xFF;

/// Number of bits below the last byte in the high half of a key. In the key of a long pre-token, these bits are its
/// number in the arena.
const NUMBER_BITS: u32 = 56;

/// The 16-byte key of a pre-token.
///
/// A short pre-token, of at most [`SHORT`] bytes, has a key of its bytes, zeros, and its length. A longer one has a
/// key of its hash and its number in a [`KeyArena`]. The all-zero key is no pre-token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PretokenKey {
    /// The first eight bytes of a short pre-token, or the hash of a long one.
    low: u64,
    /// The other bytes of a short pre-token, and its length in the top byte; or the number of a long one, and [`LONG`]
    /// in the top byte.
    high: u64,
}

/// A slot of the hash table: the key of a pre-token, its count, and its number in the arena of the table. Two slots
/// fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct CountSlot {
    /// The key; all zeros if the slot is free.
    pub(super) key: PretokenKey,
    /// The count since the table was last emptied.
    pub(super) count: Count,
    /// The number in the arena, by which the first position is found.
    pub(super) number: u64,
}

impl From<ShortPretoken> for PretokenKey {
    #[inline(always)]
    fn from(ShortPretoken { low, high }: ShortPretoken) -> PretokenKey {
        PretokenKey { low, high }
    }
}

impl PretokenKey {
    /// Returns the key of the pre-token `text[start..start + length]`, which has at most [`SHORT`] bytes.
    #[inline(always)]
    pub(super) fn of_short(text: &[u8], start: usize, length: usize) -> PretokenKey {
        PretokenKey::from(ShortPretoken::within(text, start, length))
    }

    /// Returns the key of a pre-token. The key of a long one has no number yet, so it cannot be stored in a table.
    pub(super) fn new(pretoken: &[u8], hashing: SeededHash) -> PretokenKey {
        if pretoken.len() > SHORT {
            return PretokenKey { low: hashing.bytes(pretoken), high: u64::MAX };
        }
        PretokenKey::from(ShortPretoken::new(pretoken))
    }

    /// Returns this key with the number of its pre-token. The key of a short pre-token is returned unchanged.
    pub(super) fn numbered(self, number: u64) -> PretokenKey {
        if self.is_long() { PretokenKey { high: LONG << NUMBER_BITS | number, ..self } } else { self }
    }

    /// Returns whether this is the key of no pre-token, that of a free slot.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.high == 0
    }

    /// Returns whether this is the key of a long pre-token.
    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high >> NUMBER_BITS == LONG
    }

    /// Returns the number of a long pre-token in its arena. `None` for a short one: its key has no number.
    #[inline]
    fn number(self) -> Option<u64> {
        self.is_long().then_some(self.high & ((1 << NUMBER_BITS) - 1))
    }

    /// Returns the hash. Tables use its high bits.
    #[inline(always)]
    pub(super) fn hash(self, hashing: SeededHash) -> u64 {
        if self.is_long() { self.low } else { self.hash_of_short(hashing) }
    }

    /// Returns the same as [`hash`](PretokenKey::hash) for the key of a short pre-token, without testing that the
    /// pre-token is short.
    #[inline(always)]
    pub(super) fn hash_of_short(self, hashing: SeededHash) -> u64 {
        hashing.halves([self.low, self.high])
    }

    /// Returns whether this is the key of the pre-token `bytes`. `other` is the key of `bytes`; its number is
    /// ignored.
    #[inline]
    pub(super) fn is(self, other: PretokenKey, bytes: &[u8], arena: &KeyArena) -> bool {
        if self.low != other.low {
            return false;
        }
        match self.number() {
            None => self.high == other.high,
            Some(number) => other.is_long() && arena.pretoken(number) == bytes,
        }
    }

    /// Returns whether two keys have the same pre-token: this one, with its number in `arena`, and `other`, with its
    /// number in `others`. If the hashes differ, no arena is read, which saves cache misses.
    #[inline]
    pub(super) fn same(self, arena: &KeyArena, other: PretokenKey, others: &KeyArena) -> bool {
        let bytes = || other.number().map_or(&[][..], |number| others.pretoken(number));
        self.low == other.low && self.is(other, bytes(), arena)
    }

    /// Compares the bytes of two pre-tokens of one arena.
    #[inline]
    pub(super) fn compare(self, other: PretokenKey, arena: &KeyArena) -> Ordering {
        if self.is_long() || other.is_long() {
            return self.bytes_in(arena).as_ref().cmp(other.bytes_in(arena).as_ref());
        }
        // The zeros after a pre-token are less than, or equal to, any byte. The length, in the last byte, decides
        // between pre-tokens that differ only in zeros at the end.
        let big_endian = |key: PretokenKey| (key.low.swap_bytes(), key.high.swap_bytes());
        big_endian(self).cmp(&big_endian(other))
    }

    /// Returns the bytes of the pre-token. The arena is read for long ones only.
    #[inline]
    pub(super) fn bytes_in(self, arena: &KeyArena) -> KeyBytes<'_> {
        match self.number() {
            Some(number) => KeyBytes::Long(arena.pretoken(number)),
            None => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.low.to_le_bytes());
                bytes[8..].copy_from_slice(&self.high.to_le_bytes());
                KeyBytes::Short(bytes)
            }
        }
    }
}

/// The bytes of a pre-token.
pub(super) enum KeyBytes<'a> {
    /// The bytes of a short one, then zeros, and in the last byte its length.
    Short([u8; 16]),
    /// The bytes of a long one, from the arena.
    Long(&'a [u8]),
}

impl AsRef<[u8]> for KeyBytes<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            KeyBytes::Short(bytes) => &bytes[..usize::from(bytes[15])],
            KeyBytes::Long(bytes) => bytes,
        }
    }
}

impl CountSlot {
    /// Creates an entry.
    pub(super) fn new(key: PretokenKey, count: Count, number: u64) -> CountSlot {
        CountSlot { key, count, number }
    }

    /// Adds to the count. Returns `false` and changes nothing if the sum would exceed 2⁶⁴ − 1.
    #[inline(always)]
    pub(super) fn add(&mut self, more: Count) -> bool {
        let Some(sum) = self.count.checked_add(more) else { return false };
        self.count = sum;
        true
    }
}

/// Ratio of the reserved capacity to the initial number of slots. Most growth then happens in place.
const CAPACITY_FACTOR: usize = 8;

/// Slots (32 MiB) that are reserved at least. A thread of many mostly has fewer pre-tokens than fit there, so it touches
/// no memory but that of its last size.
const RESERVED_SLOTS: usize = if cfg!(test) { 1 } else { 1 << 20 };

/// Minimum number of slots (8 MiB) of a table that is treated as too large for the CPU caches of one core.
pub(super) const MIN_UNCACHED_SLOTS: usize = 1 << 18;

/// A hash table with open addressing and linear probing.
///
/// The high bits of a hash name the home slot of an entry. If that is taken, the entry is in the next free slot after
/// it. So entries are nearly in the order of their hashes, whatever the number of slots. [`range`](HashTable::range)
/// relies on that when threads sum tables of different sizes, each thread its own range of hashes.
///
/// **Memory:** 32 bytes per slot, so 43 bytes per entry when three quarters of the slots are taken, and 85 after the
/// number of slots was doubled.
pub(super) struct HashTable {
    /// The slots: a power of two, at most three quarters of them in use.
    pub(super) slots: Vec<CountSlot>,
    /// Right shift that turns a hash into its home slot: 64 minus the number of bits that name a slot.
    pub(super) shift: u32,
    /// Number of entries.
    pub(super) len: usize,
    /// The hash function: a copy of that of the process, so that loops do not have to look it up.
    pub(super) hashing: SeededHash,
}

impl HashTable {
    /// Creates `length` empty slots, a power of two above one.
    pub(super) fn new(length: usize) -> HashTable {
        let mut slots = Vec::new();
        // Reserved memory takes no physical memory until it is touched. If reserving fails, the table grows by copying.
        if slots.try_reserve_exact((length * CAPACITY_FACTOR).max(RESERVED_SLOTS)).is_ok() {
            huge_pages::advise(&mut slots);
        }
        slots.resize_with(length, CountSlot::default);
        HashTable {
            slots,
            shift: u64::BITS - length.trailing_zeros(),
            len: 0,
            hashing: SeededHash::of_process(),
        }
    }

    /// Returns the home slot of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        u64_to_usize(hash >> self.shift)
    }

    /// Returns the slot of the entry with this hash for which `same` holds, or else the free slot for it.
    #[inline]
    pub(super) fn find(&self, hash: u64, same: impl Fn(PretokenKey) -> bool) -> usize {
        let last = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let found = self.slots[at].key;
            if found.is_none() || same(found) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// Puts an entry into the free slot that [`find`](HashTable::find) returned, and grows the table if necessary.
    /// Growing moves all entries.
    #[inline]
    pub(super) fn put(&mut self, slot: usize, entry: CountSlot) {
        self.slots[slot] = entry;
        self.len += 1;
        if self.len * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    /// Returns whether the table will grow after few more entries, about as many as a window of text can add.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.len * 32 >= self.slots.len() * 23
    }

    /// Returns the bytes of all slots.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// Returns the bytes that the slots would take while the table grows.
    pub(super) fn bytes_grown(&self) -> usize {
        let (before, length) = (self.slots.len(), self.grown());
        let in_place = length <= self.slots.capacity();
        size_of::<CountSlot>() * if in_place { length } else { before + length }
    }

    /// Moves the entries to the front, sorts them by the bytes of their pre-tokens, and returns them. The table is
    /// then unusable until [`HashTable::clear`].
    pub(super) fn sort(&mut self, arena: &KeyArena) -> &[CountSlot] {
        let mut kept = 0;
        for at in 0..self.slots.len() {
            if !self.slots[at].key.is_none() {
                self.slots.swap(kept, at);
                kept += 1;
            }
        }
        let entries = &mut self.slots[..kept];
        entries.sort_unstable_by(|one, other| one.key.compare(other.key, arena));
        entries
    }

    /// Returns the number of slots after growing.
    fn grown(&self) -> usize {
        self.slots.len() * 2
    }

    /// Grows the table, in place if the reserved capacity suffices.
    #[cold]
    fn grow(&mut self) {
        let length = self.grown();
        if length <= self.slots.capacity() {
            return self.grow_in_place(length);
        }
        let grown = HashTable::new(length);
        let before = mem::replace(self, grown);
        self.len = before.len;
        before.slots.into_iter().filter(|entry| !entry.key.is_none()).for_each(|entry| self.insert(entry));
    }

    /// Grows the table within its capacity.
    ///
    /// It moves the entries one by one, beginning with the last. The new home of an entry is twice as far
    /// from the front as the old one, or a few slots more. So it is usually at or after the entry's old slot. From
    /// there on, all entries have been moved already, and the entry goes to the first free slot. The other entries
    /// are put aside, and inserted when all others have been moved.
    fn grow_in_place(&mut self, length: usize) {
        let before = self.slots.len();
        self.slots.resize_with(length, CountSlot::default);
        self.shift = u64::BITS - length.trailing_zeros();
        // Entries with a new home before their old slot: their old home was near the front, and their slot was far
        // after it. Also entries without a free slot between their new home and the end.
        let mut aside = Vec::new();
        for at in (0..before).rev() {
            let entry = mem::take(&mut self.slots[at]);
            if entry.key.is_none() {
                continue;
            }
            let home = self.home(entry.key.hash(self.hashing));
            let free = self.slots[home..].iter().position(|slot| slot.key.is_none());
            match free {
                Some(behind) if home >= at => self.slots[home + behind] = entry,
                _ => aside.push(entry),
            }
        }
        aside.into_iter().for_each(|entry| self.insert(entry));
    }

    /// Puts an entry that the table does not have yet into the first free slot from its home on.
    fn insert(&mut self, entry: CountSlot) {
        let slot = self.find(entry.key.hash(self.hashing), |_| false);
        self.slots[slot] = entry;
    }

    /// Returns the entries with a hash that begins with the `bits` bits of the number `range`, each with its hash.
    ///
    /// `bits` is at most [`bits()`](HashTable::bits), and `range` is below 2 to the power of `bits`. All these ranges
    /// together have each entry once. Since entries are nearly in the order of their hashes, only the home slots of
    /// the range are read, and those after them up to the next free slot.
    pub(super) fn range(&self, range: usize, bits: u32) -> impl Iterator<Item = (u64, &CountSlot)> {
        let (width, last) = (self.slots.len() >> bits, self.slots.len() - 1);
        let slots = (0..self.slots.len()).map(move |at| &self.slots[(range * width + at) & last]).enumerate();
        // An entry can be in a slot after its home slot. So entries of this range can be in slots after the last one
        // of the range, and its first slots can have entries of the previous range.
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
        self.slots.fill_with(CountSlot::default);
        self.len = 0;
    }

    /// Returns the counts by the numbers of the entries. The numbers must be `0..len`.
    pub(super) fn counts(&self) -> Vec<Count> {
        let mut counts = huge_pages::populated(Count::ZERO, self.len);
        for entry in self.slots.iter().filter(|entry| !entry.key.is_none()) {
            counts[u64_to_usize(entry.number)] = entry.count;
        }
        counts
    }
}

/// Bytes (64 MiB) of address space reserved for each list, so that it grows in place. If a list grows by copying, the
/// allocator keeps the old copy, and a table takes up to that much more memory than it reports.
const RESERVED_BYTES: usize = 64 << 20;

/// The distinct pre-tokens of a table in order of first appearance, numbered from 0 on.
///
/// **Memory:** the bytes of the pre-tokens and 16 for each.
#[derive(Debug, Default)]
pub(super) struct KeyArena {
    /// The concatenated bytes of the pre-tokens.
    pub(super) bytes: Vec<u8>,
    /// The end of each pre-token in `bytes`.
    pub(super) ends: Vec<usize>,
    /// The position in the corpus at which each pre-token first appears, ascending.
    pub(super) first_positions: Vec<u64>,
}

impl KeyArena {
    /// Appends a pre-token that first appears at the position `first`, and returns its number.
    pub(super) fn push(&mut self, pretoken: &[u8], first: u64) -> u64 {
        if self.ends.capacity() == 0 {
            self.reserve();
        }
        let number = to_u64(self.ends.len());
        self.bytes.extend_from_slice(pretoken);
        self.ends.push(self.bytes.len());
        self.first_positions.push(first);
        number
    }

    /// Reserves the lists of an arena that is used for the first time.
    #[cold]
    fn reserve(&mut self) {
        // Reserved memory takes no physical memory until it is touched. If reserving fails, the lists grow by copying.
        let _ = self.bytes.try_reserve_exact(RESERVED_BYTES);
        let _ = self.ends.try_reserve_exact(RESERVED_BYTES / size_of::<usize>());
        let _ = self.first_positions.try_reserve_exact(RESERVED_BYTES / size_of::<u64>());
    }

    /// Returns the pre-token with this number.
    #[inline]
    pub(super) fn pretoken(&self, number: u64) -> &[u8] {
        pretoken_at(&self.bytes, &self.ends, u64_to_usize(number))
    }

    /// Returns the first position of the pre-token with this number.
    #[inline]
    pub(super) fn first(&self, number: u64) -> u64 {
        self.first_positions[u64_to_usize(number)]
    }

    /// Returns the memory in bytes, without unused capacity.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&self.ends[..]) + size_of_val(&self.first_positions[..])
    }

    /// Removes all pre-tokens and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.first_positions.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot_of(slots: &HashTable, pretoken: &[u8]) -> usize {
        let key = PretokenKey::new(pretoken, slots.hashing);
        slots.find(key.hash(slots.hashing), |found| found == key)
    }

    proptest! {
        #[test]
        fn all_that_was_put_is_found(
            pretokens in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 1..4), 0..400),
            length in prop::sample::select(vec![8, 64, 2048]),
        ) {
            let pretokens: Vec<Vec<u8>> = pretokens.into_iter().collect();
            let mut slots = HashTable::new(length);
            let mut arena = KeyArena::default();
            for pretoken in &pretokens {
                let slot = slot_of(&slots, pretoken);
                let number = arena.push(pretoken, 0);
                slots.put(slot, CountSlot::new(PretokenKey::new(pretoken, slots.hashing), Count::new(number + 1), number));
            }
            prop_assert_eq!(slots.len, pretokens.len());
            prop_assert!(slots.len * 4 <= slots.slots.len() * 3);
            for (number, pretoken) in (0..).zip(&pretokens) {
                let entry = &slots.slots[slot_of(&slots, pretoken)];
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
                slots.sort(&arena).iter().map(|entry| arena.pretoken(entry.number).to_vec()).collect();
            prop_assert_eq!(sorted_slots, sorted);
        }
    }
}
