//! Sums the tables of all threads, in parallel, into one list in order of first appearance.
//!
//! First, each range of hashes is summed over all tables, which finds the earliest entry of each pre-token. Then the
//! arenas of the tables are merged, without the entries that are not the earliest.
//! [`count_texts`] fills a table on each thread with the texts that a program holds, and sums them.

use std::cmp::Reverse;
use std::iter::once;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use super::table::{CountSlot, KeyArena, PretokenTable};
use super::{PretokenCounts, overflow};
use crate::base::hash::HashIndex;
use crate::base::huge_pages::{self, populated};
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::error::Result;
use crate::split::Splitter;

/// Entries of all tables, approximately, that are summed at a time. This number fits the caches.
const RANGE: usize = if cfg!(test) { 8 } else { 4 << 10 };

/// Entries, approximately, of one share of the result, which is one parallel task.
const SHARE: usize = SAMPLED * 16;

/// Pre-tokens of a table per entry in [`TableTotals::sampled_positions`], the sparse list of first positions.
const NEAR: usize = if cfg!(test) { 2 } else { 64 };

/// Entries per sample when looking for the corpus positions that divide the result into shares.
const SAMPLED: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// Sums tables, and returns their pre-tokens in order of first appearance in the corpus.
///
/// Among entries of the same pre-token, the one with the earliest position gets the total count, and the others get
/// zero. The arenas, each in order, are then merged without the entries that have zero.
///
/// **Memory:** that of the tables and of the result, and 8 bytes for each entry. The arena of a single table becomes
/// the result without a copy.
///
/// # Errors
/// A total exceeds 2⁶⁴ − 1, or the pre-tokens exceed the capacity of their index.
pub(super) fn fold(mut tables: Vec<PretokenTable>) -> Result<PretokenCounts> {
    tables.retain(|table| table.index.len > 0);
    if tables.len() > 1 {
        return sum(tables);
    }
    let Some(PretokenTable { index, arena }) = tables.pop() else { return Ok(PretokenCounts::new()) };
    Ok(PretokenCounts { counts: index.counts(), bytes: arena.bytes, ends: arena.ends })
}

/// Does the same for at least two tables.
fn sum(mut tables: Vec<PretokenTable>) -> Result<PretokenCounts> {
    tables.sort_unstable_by_key(|table| Reverse(table.index.len));
    let sums: Vec<TableTotals> = tables.par_iter().map(TableTotals::new).collect();
    add_table(&tables, &sums)?;
    let arenas: Vec<KeyArena> = tables.into_iter().map(|table| table.arena).collect();
    Ok(merged(arenas.iter().zip(&sums).map(|(arena, sums)| ArenaSlice::all(arena, &sums.totals)).collect()))
}

/// The data of a table that summing needs.
struct TableTotals {
    /// The total counts over all tables, by the numbers of the pre-tokens in this table; zero if another table's
    /// entry has the total. Each is read and written only by the thread that sums the range of hashes it belongs to.
    totals: Vec<AtomicU64>,
    /// The first position of one in [`NEAR`] pre-tokens.
    sampled_positions: Vec<u64>,
}

impl TableTotals {
    /// Returns the data of a table, with totals of zero.
    fn new(table: &PretokenTable) -> TableTotals {
        let length = table.index.len;
        let mut totals = Vec::with_capacity(length);
        huge_pages::populate(&mut totals, length);
        totals.resize_with(length, AtomicU64::default);
        TableTotals {
            totals,
            sampled_positions: table.arena.first_positions.iter().step_by(NEAR).copied().collect(),
        }
    }
}

/// Computes the totals. Each range of hashes is summed by one thread.
fn add_table(tables: &[PretokenTable], sums: &[TableTotals]) -> Result<()> {
    let entries: usize = tables.iter().map(|table| table.index.len).sum();
    let divisible = tables.iter().map(|table| table.index.bits()).min().unwrap_or(0);
    let bits = (entries / RANGE).max(1).ilog2().min(divisible);
    let tables: Vec<TableWithTotals<'_>> =
        tables.iter().zip(sums).map(|(of, sums)| TableWithTotals { of, sums }).collect();
    let [largest, others @ .., last] = &tables[..] else { return Ok(()) };
    (0..1 << bits).into_par_iter().try_for_each_init(
        || RangeSums::new(*largest),
        |seen, range| {
            seen.clear();
            largest
                .slots_in_range(range, bits)
                .for_each(|(_, slots_in_range)| slots_in_range.set_total(slots_in_range.entry.count));
            for table in others {
                seen.add_table(*table, range, bits, true)?;
            }
            seen.add_table(*last, range, bits, false)
        },
    )
}

/// A table to sum, and its data.
#[derive(Clone, Copy)]
struct TableWithTotals<'a> {
    /// The counts of one thread. Nothing changes them while tables are summed.
    of: &'a PretokenTable,
    /// The totals of its entries. Threads write to different ones.
    sums: &'a TableTotals,
}

/// An entry and its table.
#[derive(Clone, Copy)]
struct LocatedSlot<'a> {
    /// The slot of the entry in its table.
    entry: &'a CountSlot,
    /// The table. Its arena has the bytes of long pre-tokens.
    table: TableWithTotals<'a>,
}

impl<'a> TableWithTotals<'a> {
    /// Returns the entries with hashes that have `range` as their highest `bits`, and these hashes.
    fn slots_in_range(self, range: usize, bits: u32) -> impl Iterator<Item = (u64, LocatedSlot<'a>)> {
        self.of.index.range(range, bits).map(move |(hash, entry)| (hash, LocatedSlot { entry, table: self }))
    }
}

impl LocatedSlot<'_> {
    /// Returns whether two entries have the same pre-token.
    fn same(self, other: LocatedSlot<'_>) -> bool {
        self.entry.key.same(&self.table.of.arena, other.entry.key, &other.table.of.arena)
    }

    /// Returns whether this entry's first position precedes that of another entry.
    ///
    /// The exact positions are in the arenas, which cost cache misses. They are read only if the sparse lists do not
    /// decide.
    fn precedes(self, other: LocatedSlot<'_>) -> bool {
        let (own, others) = (self.sampled_positions(), other.sampled_positions());
        own.end <= others.start || others.end > own.start && self.first() < other.first()
    }

    /// Returns a range of positions in which the pre-token first appears, from the sparse list.
    fn sampled_positions(self) -> Range<u64> {
        let sampled_positions = &self.table.sums.sampled_positions;
        let sample = u64_to_usize(self.entry.number) / NEAR;
        sampled_positions[sample]..sampled_positions.get(sample + 1).copied().unwrap_or(u64::MAX)
    }

    /// Returns the position at which the pre-token first appears in this table.
    fn first(self) -> u64 {
        self.table.of.arena.first(self.entry.number)
    }

    /// Returns the total count that this entry has.
    fn total(self) -> Count {
        Count::new(self.table.sums.totals[u64_to_usize(self.entry.number)].load(Relaxed))
    }

    /// Sets the total count of this entry.
    fn set_total(self, total: Count) {
        self.table.sums.totals[u64_to_usize(self.entry.number)].store(total.get(), Relaxed);
    }
}

/// The entries that have the totals so far, in a range of hashes.
struct RangeSums<'a> {
    /// The largest table. It finds its own entries by its hash table.
    largest: TableWithTotals<'a>,
    /// The entries of other tables.
    others: Vec<LocatedSlot<'a>>,
    /// Finds the entries of `others` by their hashes.
    index: HashIndex,
}

impl<'a> RangeSums<'a> {
    /// Creates an empty list. The entries of `largest` are found without being added.
    fn new(largest: TableWithTotals<'a>) -> RangeSums<'a> {
        RangeSums { largest, others: Vec::new(), index: HashIndex::default() }
    }

    /// Removes the entries, to start with another range of hashes.
    fn clear(&mut self) {
        self.others.clear();
        self.index.clear();
    }

    /// Adds the entries of a table with hashes that have `range` as their highest `bits`. `more` says that further
    /// tables follow, so that entries that get a total must be remembered.
    fn add_table(&mut self, table: TableWithTotals<'a>, range: usize, bits: u32, more: bool) -> Result<()> {
        for (hash, new) in table.slots_in_range(range, bits) {
            let (known, number) = self.find(hash, bits, new);
            let mut total = new.entry.count;
            if let Some(known) = known {
                let sum = total.checked_add(known.total());
                total = sum.ok_or_else(|| overflow(table.of.arena.pretoken(new.entry.number)))?;
                if known.precedes(new) {
                    known.set_total(total);
                    continue;
                }
                known.set_total(Count::ZERO);
            }
            new.set_total(total);
            if more {
                self.remember(hash << bits, new, number)?;
            }
        }
        Ok(())
    }

    /// Returns the entry that has the total of this entry's pre-token, and its number if it is in `others`.
    fn find(&self, hash: u64, bits: u32, new: LocatedSlot<'a>) -> (Option<LocatedSlot<'a>>, Option<usize>) {
        let PretokenTable { index, arena } = self.largest.of;
        let slot = index.find(hash, |key| key.same(arena, new.entry.key, &new.table.of.arena));
        let known = LocatedSlot { entry: &index.slots[slot], table: self.largest };
        if !known.entry.key.is_none() && known.total() > Count::ZERO {
            return (Some(known), None);
        }
        // All hashes of the range have the same highest bits, so these are shifted out.
        let number = self.index.find(hash << bits, |number| self.others[number - 1].same(new));
        (number.map(|number| self.others[number - 1]), number)
    }

    /// Remembers an entry, in place of the one with this number if a number is given.
    fn remember(&mut self, hash: u64, new: LocatedSlot<'a>, number: Option<usize>) -> Result<()> {
        if let Some(number) = number {
            self.others[number - 1] = new;
            return Ok(());
        }
        self.others.push(new);
        Ok(self.index.insert(hash, self.others.len())?)
    }
}

/// A section of an arena: pre-tokens in order of first appearance. Those with a total of zero are skipped.
#[derive(Clone, Copy)]
struct ArenaSlice<'a> {
    /// The position at which each pre-token first appears, ascending.
    first_positions: &'a [u64],
    /// The end of each pre-token in `bytes`.
    ends: &'a [usize],
    /// The total of each pre-token; zero if an entry of another table has it.
    totals: &'a [AtomicU64],
    /// The start of the first pre-token in `bytes`.
    start: usize,
    /// The bytes of the whole arena, not only of this section.
    bytes: &'a [u8],
}

impl<'a> ArenaSlice<'a> {
    /// Returns the whole of an arena.
    fn all(
        KeyArena { bytes, ends, first_positions }: &'a KeyArena,
        totals: &'a [AtomicU64],
    ) -> ArenaSlice<'a> {
        ArenaSlice { first_positions, ends, totals, start: 0, bytes }
    }

    /// Splits off and returns the pre-tokens that first appear before a corpus position.
    fn take_before(&mut self, position: u64) -> ArenaSlice<'a> {
        let before = self.first_positions.partition_point(|&first| first < position);
        let taken = ArenaSlice {
            first_positions: self.first_positions.split_off(..before).unwrap_or_default(),
            ends: self.ends.split_off(..before).unwrap_or_default(),
            totals: self.totals.split_off(..before).unwrap_or_default(),
            ..*self
        };
        self.start = taken.ends.last().copied().unwrap_or(self.start);
        taken
    }

    /// Returns the pre-tokens with totals above zero, and the totals.
    fn iter(self) -> impl Iterator<Item = (&'a [u8], Count)> {
        let starts = once(self.start).chain(self.ends.iter().copied());
        let pretokens = starts.zip(self.ends).map(move |(start, &end)| &self.bytes[start..end]);
        let totals = self.totals.iter().map(|total| Count::new(total.load(Relaxed)));
        pretokens.zip(totals).filter(|&(_, total)| total > Count::ZERO)
    }

    /// Returns the number of pre-tokens with totals above zero, and the number of their bytes.
    fn size(self) -> (usize, usize) {
        self.iter().fold((0, 0), |(pretokens, bytes), (pretoken, _)| (pretokens + 1, bytes + pretoken.len()))
    }
}

/// Merges lists in order of first appearance, in parallel.
fn merged(lists: Vec<ArenaSlice<'_>>) -> PretokenCounts {
    let shares = shares(lists);
    let sum = |sum: (usize, usize), size: (usize, usize)| (sum.0 + size.0, sum.1 + size.1);
    let sizes: Vec<(usize, usize)> =
        shares.par_iter().map(|share| share.iter().map(|list| list.size()).fold((0, 0), sum)).collect();
    let (pretokens, total) = sizes.iter().copied().fold((0, 0), sum);
    let ((mut bytes, mut ends), mut counts) =
        rayon::join(|| (populated(0, total), populated(0, pretokens)), || populated(Count::ZERO, pretokens));
    let mut rest = OutputSlice { start: 0, bytes: &mut bytes, ends: &mut ends, counts: &mut counts };
    let rooms: Vec<OutputSlice<'_>> =
        sizes.into_iter().map(|(pretokens, bytes)| rest.take(pretokens, bytes)).collect();
    shares.into_par_iter().zip(rooms).for_each(|(share, room)| room.fill(share));
    PretokenCounts { bytes, ends, counts }
}

/// Divides all lists at the same corpus positions, into shares of about [`SHARE`] entries.
fn shares(mut lists: Vec<ArenaSlice<'_>>) -> Vec<Vec<ArenaSlice<'_>>> {
    let mut sampled: Vec<u64> =
        lists.iter().flat_map(|list| list.first_positions.iter().step_by(SAMPLED)).copied().collect();
    sampled.sort_unstable();
    let positions = sampled.into_iter().step_by(SHARE / SAMPLED).skip(1);
    let mut shares: Vec<Vec<ArenaSlice<'_>>> =
        positions.map(|position| lists.iter_mut().map(|list| list.take_before(position)).collect()).collect();
    shares.push(lists);
    shares
}

/// A section of the result, to be filled by one thread.
struct OutputSlice<'a> {
    /// Bytes of the result before this section.
    start: usize,
    /// Receives the bytes of the pre-tokens.
    bytes: &'a mut [u8],
    /// Receives the end of each pre-token in the bytes of the whole result.
    ends: &'a mut [usize],
    /// Receives the total of each pre-token.
    counts: &'a mut [Count],
}

impl<'a> OutputSlice<'a> {
    /// Splits off and returns the first section, for the given numbers of pre-tokens and bytes.
    fn take(&mut self, pretokens: usize, bytes: usize) -> OutputSlice<'a> {
        const ALL: &str = "the parts are no longer than the whole";
        let start = self.start;
        self.start += bytes;
        OutputSlice {
            start,
            bytes: self.bytes.split_off_mut(..bytes).expect(ALL),
            ends: self.ends.split_off_mut(..pretokens).expect(ALL),
            counts: self.counts.split_off_mut(..pretokens).expect(ALL),
        }
    }

    /// Fills the section with the merged lists of a share.
    fn fill(mut self, mut share: Vec<ArenaSlice<'_>>) {
        loop {
            // Finds the list with the earliest position, and the next position of any other list.
            let (mut earliest, mut until) = ((u64::MAX, 0), u64::MAX);
            for (number, list) in share.iter().enumerate() {
                let Some(&first) = list.first_positions.first() else { continue };
                until = until.min(first.max(earliest.0));
                earliest = earliest.min((first, number));
            }
            if earliest.0 == u64::MAX {
                return;
            }
            // Two pre-tokens never start at the same position, so at least one is taken.
            self.append(share[earliest.1].take_before(until));
        }
    }

    /// Copies the pre-tokens of a list to the start of the section, and removes that part from the section.
    fn append(&mut self, list: ArenaSlice<'_>) {
        for (pretoken, count) in list.iter() {
            let own = self.take(1, pretoken.len());
            own.bytes.copy_from_slice(pretoken);
            (own.ends[0], own.counts[0]) = (own.start + pretoken.len(), count);
        }
    }
}

/// Counts the pre-tokens of texts, in order of first appearance, on all threads of the current rayon pool. Each text
/// counts once, and special tokens in it are ordinary text.
///
/// **Memory:** about 40 bytes and its own length for each distinct pre-token, once per thread.
///
/// # Errors
/// The splitter fails, for example because a text has 4 GiB or more; or a count exceeds 2⁶⁴ − 1.
///
/// ```
/// use tokenmill::count::count_texts;
/// use tokenmill::split::{NamedPattern, SplitPattern, splitter};
///
/// let splitter = splitter(&SplitPattern::Named(NamedPattern::Gpt4))?;
/// let counts = count_texts(&["the cat sat", "the cat ran"], &*splitter)?;
/// let counts: Vec<_> = counts.iter().map(|(pretoken, count)| (pretoken, count.get())).collect();
/// assert_eq!(counts[..3], [(&b"the"[..], 2), (b" cat", 2), (b" sat", 1)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn count_texts<T: AsRef<[u8]> + Sync>(texts: &[T], splitter: &dyn Splitter) -> Result<PretokenCounts> {
    let mut position = 0;
    let texts: Vec<(u64, &[u8])> = texts
        .iter()
        .map(|text| {
            let start = position;
            position += to_u64(text.as_ref().len());
            (start, text.as_ref())
        })
        .collect();
    let share = texts.len().div_ceil(rayon::current_num_threads()).max(1);
    let count = |texts: &[(u64, &[u8])]| -> Result<PretokenTable> {
        let (mut table, mut ends) = (PretokenTable::new(), Vec::new());
        for &(position, text) in texts {
            ends.clear();
            splitter.pretoken_ends(text, &mut ends)?;
            table.count(text, 0, &ends, Count::ONE, position)?;
        }
        Ok(table)
    };
    fold(texts.par_chunks(share).map(count).collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::to_u64;
    use crate::base::test_support::one_case_in;
    use crate::count::{CountConfig, reference};
    use crate::split::{NamedPattern, SplitPattern, splitter};

    /// Returns the bits of a number as bytes, which gives both short and long pre-tokens.
    fn pretoken(bits: u16) -> Vec<u8> {
        let length = if bits.is_multiple_of(3) { 20 } else { 11 };
        (0..length).map(|bit| u8::from(u32::from(bits) >> bit & 1 == 1)).collect()
    }

    #[test]
    fn tables_are_summed_in_order_of_first_appearance() {
        let inputs =
            prop::collection::vec((0_usize..5, prop::collection::vec(0_u16..1 << 11, 0..200)), 0..30);
        one_case_in(4, &inputs, |parts| {
            let mut tables: Vec<PretokenTable> = (0..5).map(|_| PretokenTable::new()).collect();
            let (mut expected, mut order) = (HashMap::new(), Vec::new());
            let mut position = 0;
            for (table, pretokens) in &parts {
                let (mut text, mut ends) = (Vec::new(), Vec::new());
                for pretoken in pretokens.iter().map(|&bits| pretoken(bits)) {
                    text.extend_from_slice(&pretoken);
                    ends.push(u32::try_from(text.len()).expect("short texts"));
                    let count = expected.entry(pretoken.clone()).or_insert(0);
                    *count += 3;
                    if *count == 3 {
                        order.push(pretoken);
                    }
                }
                tables[*table].count(&text, 0, &ends, Count::new(3), position).expect("small counts");
                position += to_u64(text.len());
            }
            let sum = fold(tables).expect("small counts");
            let sum: Vec<(Vec<u8>, u64)> =
                sum.iter().map(|(pretoken, count)| (pretoken.to_vec(), count.get())).collect();
            let expected: Vec<(Vec<u8>, u64)> =
                order.into_iter().map(|pretoken| (pretoken.clone(), expected[&pretoken])).collect();
            prop_assert_eq!(sum, expected);
            Ok(())
        });
    }

    #[test]
    fn a_sum_that_passes_64_bits_names_the_pretoken() {
        let mut tables: Vec<PretokenTable> = (0..3).map(|_| PretokenTable::new()).collect();
        for (table, position) in tables.iter_mut().zip([0, 2, 4]) {
            table
                .count(b"often", 0, &[5], Count::new(u64::MAX / 2), 9 * position)
                .expect("each by itself fits");
        }
        let told = fold(tables).expect_err("three halves").to_string();
        assert!(told.contains("does not fit in 64 bits") && told.contains("often"), "{told}");
    }

    proptest! {
        #[test]
        fn texts_are_counted_as_the_reference_does(texts in vec("[ab 1\n]{0,12}", 0..40)) {
            let splitter = splitter(&SplitPattern::Named(NamedPattern::Gpt4))?;
            let documents: Vec<_> = texts.iter().map(|text| (0, Some(text.clone().into_bytes()))).collect();
            let expected = reference::count_pretokens(&documents, &*splitter, &CountConfig::default())?;
            prop_assert_eq!(count_texts(&texts, &*splitter)?, expected);
        }
    }
}
