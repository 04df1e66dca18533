//! The hash table that one thread counts into.

use super::entry::{Entry, Key};
use super::fault::Fault;
use super::pretoken_log::PretokenLog;
use super::runs::Runs;
use super::slots::{FAR_SLOTS, Slots};
use crate::base::huge_pages::fetch;
use crate::base::int;
use crate::base::int::{Count, u64_to_usize};
use crate::base::seeded_hash::Hashing;
use crate::error::Result;
use crate::split::SHORT;

/// Slots of a new table.
const FIRST_SLOTS: usize = 1 << 14;

/// Pre-tokens that are looked up together in a table beyond the caches, after prefetching all of their slots. Also
/// the prefetch distance when a table is written out.
const AHEAD: usize = 64;

/// The hash table of one thread: distinct pre-tokens with their counts and first positions.
///
/// **Memory:** that of the [slots](Slots) and of the log: for most numbers of pre-tokens, 59 to 101 bytes for each in
/// addition to its own.
pub(super) struct PretokenTable {
    /// The counts.
    pub(super) slots: Slots,
    /// The bytes and the first positions.
    pub(super) log: PretokenLog,
}

impl PretokenTable {
    /// Creates an empty table.
    pub(super) fn new() -> PretokenTable {
        PretokenTable { slots: Slots::new(FIRST_SLOTS), log: PretokenLog::default() }
    }

    /// Returns whether the table should be written out and emptied so that it does not exceed `most_bytes`.
    pub(super) fn is_full(&self, most_bytes: usize) -> bool {
        let slots = if self.slots.is_nearly_full() { self.slots.bytes_grown() } else { self.slots.bytes() };
        let full = slots + self.log.memory() > most_bytes;
        full && self.slots.used() > 0
    }

    /// Writes the pre-tokens as a run, sorted by bytes, and removes them.
    ///
    /// If the slots take nearly all of `most_bytes`, they are freed: they would leave little for the log, and the
    /// next run would be short.
    pub(super) fn spill(&mut self, runs: &mut Runs, most_bytes: usize) -> Result<()> {
        let PretokenTable { slots, log } = self;
        let entries = slots.sort(log);
        let record = |(at, entry): (usize, &Entry)| {
            // In this order, the first positions are scattered in memory, so they are prefetched.
            let later = &entries[(at + AHEAD).min(entries.len() - 1)];
            fetch(&log.firsts, u64_to_usize(later.number));
            (entry.key.spelled(log), entry.count(), log.first(entry.number))
        };
        runs.write(entries.iter().enumerate().map(record))?;
        log.clear();
        if slots.bytes() > most_bytes / 8 * 7 && slots.all.len() > FIRST_SLOTS {
            *slots = Slots::new(FIRST_SLOTS);
        } else {
            slots.clear();
        }
        Ok(())
    }

    /// Counts pre-tokens of a text, each `weight` times.
    ///
    /// `place` is the position of the text in the corpus. `ends` are the ends of the pre-tokens; the first one starts
    /// at `start`, and each other one at the end of the previous one. The text may continue after the last.
    ///
    /// Calls must be in the order of the corpus, because a new pre-token gets its current position as the first one.
    ///
    /// # Errors
    /// A count exceeds 2⁶⁴ − 1.
    pub(super) fn count(
        &mut self,
        text: &[u8],
        start: u32,
        ends: &[u32],
        weight: Count,
        place: u64,
    ) -> Result<(), Fault> {
        let mut text = Text { text, start, weight, place, hashing: self.slots.hashing };
        if self.slots.all.len() < FAR_SLOTS {
            return self.count_near(&mut text, ends);
        }
        ends.chunks(AHEAD).try_for_each(|ends| self.count_far(&mut text, ends))
    }

    /// Counts pre-tokens in a table that fits the caches. The common case, a short pre-token in its home slot, is a
    /// loop without calls, so that its variables stay in registers.
    fn count_near(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<(), Fault> {
        let mut rest = ends.iter();
        loop {
            let (shift, slots) = (self.slots.shift, &mut self.slots.all[..]);
            let Text { text: bytes, mut start, weight, hashing, .. } = *text;
            let missed = rest.by_ref().find(|&&end| {
                let length = int::to_usize(end - start);
                if length > SHORT {
                    return true;
                }
                let key = Key::of_short(bytes, int::to_usize(start), length);
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

    /// Counts at most [`AHEAD`] pre-tokens in a table beyond the caches. It prefetches the slots of all before it
    /// reads the first.
    fn count_far(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<(), Fault> {
        let mut keys = [(Key::default(), 0); AHEAD];
        let mut start = text.start;
        for (key, &end) in keys.iter_mut().zip(ends) {
            *key = text.key(start, end);
            // If the home slot is taken, the pre-token, or the free slot for it, is mostly in this cache line or the
            // next.
            let home = self.slots.home(key.1);
            fetch(&self.slots.all, home);
            fetch(&self.slots.all, home + 2);
            start = end;
        }
        let mut rest = keys.iter().zip(ends);
        loop {
            let (shift, slots) = (self.slots.shift, &mut self.slots.all[..]);
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

    /// Counts one pre-token in the general case: in any slot, or new. `key` has no number yet.
    #[inline(never)]
    fn count_pretoken(
        &mut self,
        text: &mut Text<'_>,
        end: u32,
        (key, hash): (Key, u64),
    ) -> Result<(), Fault> {
        let pretoken = &text.text[int::to_usize(text.start)..int::to_usize(end)];
        let first = text.place + u64::from(text.start);
        text.start = end;
        let (home, log) = (self.slots.home(hash), &self.log);
        let slot = self.slots.find(hash, |found| found.is(key, pretoken, log));
        let found = &mut self.slots.all[slot];
        if found.key.is_none() {
            let number = self.log.push(pretoken, first);
            self.slots.put(slot, Entry::new(key.numbered(number), text.weight, number));
            return Ok(());
        }
        if !found.add(text.weight) {
            return Err(Fault::Overflow { pretoken: pretoken.to_vec() });
        }
        // Frequent pre-tokens should be in their home slots. Swapping is allowed because all slots between the two
        // are taken, so either entry is still found.
        let count = found.count();
        if count > self.slots.all[home].count() {
            self.slots.all.swap(home, slot);
        }
        Ok(())
    }
}

/// A text that is being counted.
struct Text<'t> {
    text: &'t [u8],
    /// The start of the next pre-token.
    start: u32,
    weight: Count,
    /// The position of the text in the corpus.
    place: u64,
    hashing: Hashing,
}

impl Text<'_> {
    /// Returns the key of a pre-token, without a number, and its hash.
    #[inline(always)]
    fn key(&self, start: u32, end: u32) -> (Key, u64) {
        let (start, end) = (int::to_usize(start), int::to_usize(end));
        if end - start <= SHORT {
            let key = Key::of_short(self.text, start, end - start);
            return (key, key.hash_of_short(self.hashing));
        }
        let key = Key::new(&self.text[start..end], self.hashing);
        (key, key.hash(self.hashing))
    }
}
