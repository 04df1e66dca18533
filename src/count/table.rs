use super::entry::{Entry, Key};
use super::fault::Fault;
use super::piece_log::PieceLog;
use super::runs::Runs;
use super::slots::{FAR_SLOTS, Slots};
use crate::error::Result;
use crate::hashing::Hashing;
use crate::pages::fetch;
use crate::split::SHORT;
use crate::units::{self, Count, place64};

const FIRST_SLOTS: usize = 1 << 14;

/// How many pieces are looked up together in such a table, and how far ahead they are asked for.
const AHEAD: usize = 64;

/// Distinct pieces with their counts and the places where they first appeared.
///
/// **Memory:** that of the [slots](Slots) and of the log: 59 to 101 bytes for most numbers of pieces, and their own.
pub(super) struct PieceTable {
    pub(super) slots: Slots,
    pub(super) log: PieceLog,
}

impl PieceTable {
    pub(super) fn new() -> PieceTable {
        PieceTable { slots: Slots::new(FIRST_SLOTS), log: PieceLog::default() }
    }

    /// Whether it should be written out and emptied, lest it take more than so many bytes.
    pub(super) fn is_full(&self, most_bytes: usize) -> bool {
        let slots = if self.slots.is_nearly_full() { self.slots.bytes_grown() } else { self.slots.bytes() };
        let full = slots + self.log.memory() > most_bytes;
        full && self.slots.used() > 0
    }

    /// Writes the pieces as a run in order of their bytes, and forgets them. Slots that leave hardly any of so many bytes to
    /// the log are given back: the next run would be short.
    pub(super) fn spill(&mut self, runs: &mut Runs, most_bytes: usize) -> Result<()> {
        let PieceTable { slots, log } = self;
        let entries = slots.sort(log);
        let record = |(at, entry): (usize, &Entry)| {
            // Where pieces first appeared lies far apart in this order.
            let later = &entries[(at + AHEAD).min(entries.len() - 1)];
            fetch(&log.firsts, place64(later.number));
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

    /// Counts pieces of a text that stands at `place` in the corpus, each `weight` times. `ends` are where
    /// they end; the first begins at `start`, each other where the one before ends, and the text may go on behind the last.
    ///
    /// All that was counted before stands before it in the corpus.
    ///
    /// # Errors
    /// A count passes 2⁶⁴.
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

    /// Counts pieces in a table that the caches hold. What is common, a short piece in its home slot,
    /// stands in a loop without calls, so that what the loop needs stays in registers.
    fn count_near(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<(), Fault> {
        let mut rest = ends.iter();
        loop {
            let (shift, slots) = (self.slots.shift, &mut self.slots.all[..]);
            let Text { text: bytes, mut start, weight, hashing, .. } = *text;
            let missed = rest.by_ref().find(|&&end| {
                let length = units::place(end - start);
                if length > SHORT {
                    return true;
                }
                let key = Key::of_short(bytes, units::place(start), length);
                let slot = &mut slots[place64(key.hash_of_short(hashing) >> shift)];
                let known = slot.key == key && slot.add(weight);
                start = if known { end } else { start };
                !known
            });
            text.start = start;
            let Some(&end) = missed else { return Ok(()) };
            let key = text.key(text.start, end);
            self.count_piece(text, end, key)?;
        }
    }

    /// Counts at most [`AHEAD`] pieces in a table beyond the caches: the slots of all are asked for before
    /// the first is looked at.
    fn count_far(&mut self, text: &mut Text<'_>, ends: &[u32]) -> Result<(), Fault> {
        let mut keys = [(Key::default(), 0); AHEAD];
        let mut start = text.start;
        for (key, &end) in keys.iter_mut().zip(ends) {
            *key = text.key(start, end);
            // If the home is taken, the piece, or the free slot for it, is mostly in this line or the next.
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
                let slot = &mut slots[place64(hash >> shift)];
                let known = slot.key == key && slot.add(weight);
                start = if known { end } else { start };
                !known
            });
            text.start = start;
            let Some((&key, &end)) = missed else { return Ok(()) };
            self.count_piece(text, end, key)?;
        }
    }

    /// Counts one piece, wherever it stands, or if it is new. Its key, without a number, and its hash are given.
    #[inline(never)]
    fn count_piece(&mut self, text: &mut Text<'_>, end: u32, (key, hash): (Key, u64)) -> Result<(), Fault> {
        let piece = &text.text[units::place(text.start)..units::place(end)];
        let first = text.place + u64::from(text.start);
        text.start = end;
        let (home, log) = (self.slots.home(hash), &self.log);
        let slot = self.slots.find(hash, |found| found.is(key, piece, log));
        let found = &mut self.slots.all[slot];
        if found.key.is_none() {
            let number = self.log.push(piece, first);
            self.slots.put(slot, Entry::new(key.numbered(number), text.weight, number));
            return Ok(());
        }
        if !found.add(text.weight) {
            return Err(Fault::Overflow { piece: piece.to_vec() });
        }
        // What comes often shall be found at once. All slots between the two are taken, so that either is
        // found in the other's.
        let count = found.count();
        if count > self.slots.all[home].count() {
            self.slots.all.swap(home, slot);
        }
        Ok(())
    }
}

/// A text whose pieces up to `start` have been counted.
struct Text<'t> {
    text: &'t [u8],
    start: u32,
    weight: Count,
    /// Where the text stands in the corpus.
    place: u64,
    hashing: Hashing,
}

impl Text<'_> {
    /// The key of a piece, without a number, and its hash.
    #[inline(always)]
    fn key(&self, start: u32, end: u32) -> (Key, u64) {
        let (start, end) = (units::place(start), units::place(end));
        if end - start <= SHORT {
            let key = Key::of_short(self.text, start, end - start);
            return (key, key.hash_of_short(self.hashing));
        }
        let key = Key::new(&self.text[start..end], self.hashing);
        (key, key.hash(self.hashing))
    }
}
