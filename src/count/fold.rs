use std::cmp::Reverse;
use std::iter::once;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use super::PieceCounts;
use super::entry::Entry;
use super::fault::Fault;
use super::piece_log::PieceLog;
use super::table::PieceTable;
use crate::error::Result;
use crate::index::HashIndex;
use crate::pages::{self, populated};
use crate::units::{Count, place64};

/// About how many entries of all tables are summed at a time: the caches hold them.
const RANGE: usize = if cfg!(test) { 8 } else { 4 << 10 };

/// About how many entries are brought into the result at a time.
const SHARE: usize = SAMPLED * 16;

/// Of so many pieces of a table one tells about where they first appear.
const NEAR: usize = if cfg!(test) { 2 } else { 64 };

/// One of so many entries is looked at to find places that divide the text into shares.
const SAMPLED: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// Sums tables, and brings their pieces into the order of first appearance: of entries with the same piece the
/// earliest counts for all, and the logs, each in order, are merged without those whose entries do not count.
///
/// **Memory:** that of the tables and of the result, which the log of a single table is, and 8 bytes for each entry.
pub(super) fn fold(mut tables: Vec<PieceTable>) -> Result<PieceCounts> {
    tables.retain(|table| table.slots.used() > 0);
    if tables.len() > 1 {
        return sum(tables);
    }
    let Some(PieceTable { slots, log }) = tables.pop() else { return Ok(PieceCounts::new()) };
    Ok(PieceCounts { counts: slots.counts(), bytes: log.bytes, ends: log.ends })
}

fn sum(mut tables: Vec<PieceTable>) -> Result<PieceCounts> {
    tables.sort_unstable_by_key(|table| Reverse(table.slots.used()));
    let sums: Vec<Sums> = tables.par_iter().map(Sums::new).collect();
    unite(&tables, &sums)?;
    let logs: Vec<PieceLog> = tables.into_iter().map(|table| table.log).collect();
    Ok(merged(logs.iter().zip(&sums).map(|(log, sums)| List::all(log, &sums.totals)).collect()))
}

/// What is needed of a table while it is summed with others.
struct Sums {
    /// How often its pieces occur in all of them, by their numbers; zero where the entry of another table counts. Each is
    /// read and written by the one thread that sums the hashes among which the piece's is.
    totals: Vec<AtomicU64>,
    /// Where the first of every [`NEAR`] pieces first appears.
    nearly: Vec<u64>,
}

impl Sums {
    fn new(table: &PieceTable) -> Sums {
        let length = table.slots.used();
        let mut totals = Vec::with_capacity(length);
        pages::populate(&mut totals, length);
        totals.resize_with(length, AtomicU64::default);
        Sums { totals, nearly: table.log.firsts.iter().step_by(NEAR).copied().collect() }
    }
}

/// Finds the totals. Each range of hashes is summed by one thread.
fn unite(tables: &[PieceTable], sums: &[Sums]) -> Result<()> {
    let entries: usize = tables.iter().map(|table| table.slots.used()).sum();
    let divisible = tables.iter().map(|table| table.slots.bits()).min().unwrap_or(0);
    let bits = (entries / RANGE).max(1).ilog2().min(divisible);
    let tables: Vec<Table<'_>> = tables.iter().zip(sums).map(|(of, sums)| Table { of, sums }).collect();
    let [largest, others @ .., last] = &tables[..] else { return Ok(()) };
    Ok((0..1 << bits).into_par_iter().try_for_each_init(
        || Seen::new(*largest),
        |seen, range| {
            seen.clear();
            largest.located(range, bits).for_each(|(_, located)| located.set_total(located.entry.count()));
            for table in others {
                seen.unite(*table, range, bits, true)?;
            }
            seen.unite(*last, range, bits, false)
        },
    )?)
}

/// A table that is summed.
#[derive(Clone, Copy)]
struct Table<'a> {
    of: &'a PieceTable,
    sums: &'a Sums,
}

/// One of a table's entries.
#[derive(Clone, Copy)]
struct Located<'a> {
    entry: &'a Entry,
    table: Table<'a>,
}

impl<'a> Table<'a> {
    /// The entries whose hashes have `range` as their highest `bits`, and these hashes.
    fn located(self, range: usize, bits: u32) -> impl Iterator<Item = (u64, Located<'a>)> {
        self.of.slots.range(range, bits).map(move |(hash, entry)| (hash, Located { entry, table: self }))
    }
}

impl Located<'_> {
    fn same(self, other: Located<'_>) -> bool {
        self.entry.key.same(&self.table.of.log, other.entry.key, &other.table.of.log)
    }

    /// Whether its piece appears in its table before that of another entry does in the other's. Where they appear is far
    /// from here, and is looked up only if that is not plain from what is known of pieces near to them.
    fn precedes(self, other: Located<'_>) -> bool {
        let (own, others) = (self.nearly(), other.nearly());
        own.end <= others.start || others.end > own.start && self.first() < other.first()
    }

    /// About where the piece first appears.
    fn nearly(self) -> Range<u64> {
        let nearly = &self.table.sums.nearly;
        let nth = place64(self.entry.number) / NEAR;
        nearly[nth]..nearly.get(nth + 1).copied().unwrap_or(u64::MAX)
    }

    fn first(self) -> u64 {
        self.table.of.log.first(self.entry.number)
    }

    fn total(self) -> Count {
        Count::new(self.table.sums.totals[place64(self.entry.number)].load(Relaxed))
    }

    fn set_total(self, total: Count) {
        self.table.sums.totals[place64(self.entry.number)].store(total.get(), Relaxed);
    }
}

/// The entries that count for their pieces in a range of hashes.
struct Seen<'a> {
    /// Has most of them.
    largest: Table<'a>,
    /// Those of other tables.
    others: Vec<Located<'a>>,
    index: HashIndex,
}

impl<'a> Seen<'a> {
    fn new(largest: Table<'a>) -> Seen<'a> {
        Seen { largest, others: Vec::new(), index: HashIndex::default() }
    }

    fn clear(&mut self) {
        self.others.clear();
        self.index.clear();
    }

    /// Brings the entries of a table in whose hashes have `range` as their highest `bits`. Those that count are
    /// remembered, if more tables follow.
    fn unite(&mut self, table: Table<'a>, range: usize, bits: u32, more: bool) -> Result<(), Fault> {
        for (hash, new) in table.located(range, bits) {
            let (known, number) = self.find(hash, bits, new);
            let mut total = new.entry.count();
            if let Some(known) = known {
                let sum = total.checked_add(known.total());
                total = sum.ok_or_else(|| Fault::Overflow {
                    piece: table.of.log.piece(new.entry.number).to_vec(),
                })?;
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

    /// The entry that counts for the piece of this one, and its number if it is one of the others.
    fn find(&self, hash: u64, bits: u32, new: Located<'a>) -> (Option<Located<'a>>, Option<usize>) {
        let PieceTable { slots, log } = self.largest.of;
        let slot = slots.find(hash, |key| key.same(log, new.entry.key, &new.table.of.log));
        let known = Located { entry: &slots.all[slot], table: self.largest };
        if !known.entry.key.is_none() && known.total() > Count::ZERO {
            return (Some(known), None);
        }
        // What all hashes of the range have in common tells nothing.
        let number = self.index.find(hash << bits, |number| self.others[number - 1].same(new));
        (number.map(|number| self.others[number - 1]), number)
    }

    /// Remembers an entry of another table, instead of the one of this number.
    fn remember(&mut self, hash: u64, new: Located<'a>, number: Option<usize>) -> Result<(), Fault> {
        if let Some(number) = number {
            self.others[number - 1] = new;
            return Ok(());
        }
        self.others.push(new);
        Ok(self.index.insert(hash, self.others.len())?)
    }
}

/// Pieces in order of first appearance, some of which do not count.
#[derive(Clone, Copy)]
struct List<'a> {
    firsts: &'a [u64],
    ends: &'a [usize],
    totals: &'a [AtomicU64],
    /// Where the first of the pieces begins in `bytes`.
    start: usize,
    bytes: &'a [u8],
}

impl<'a> List<'a> {
    fn all(PieceLog { bytes, ends, firsts }: &'a PieceLog, totals: &'a [AtomicU64]) -> List<'a> {
        List { firsts, ends, totals, start: 0, bytes }
    }

    /// Takes those off that appear before a place.
    fn take_before(&mut self, place: u64) -> List<'a> {
        let before = self.firsts.partition_point(|&first| first < place);
        let taken = List {
            firsts: self.firsts.split_off(..before).unwrap_or_default(),
            ends: self.ends.split_off(..before).unwrap_or_default(),
            totals: self.totals.split_off(..before).unwrap_or_default(),
            ..*self
        };
        self.start = taken.ends.last().copied().unwrap_or(self.start);
        taken
    }

    /// The pieces that count, with their counts.
    fn iter(self) -> impl Iterator<Item = (&'a [u8], Count)> {
        let starts = once(self.start).chain(self.ends.iter().copied());
        let pieces = starts.zip(self.ends).map(move |(start, &end)| &self.bytes[start..end]);
        let totals = self.totals.iter().map(|total| Count::new(total.load(Relaxed)));
        pieces.zip(totals).filter(|&(_, total)| total > Count::ZERO)
    }

    /// How many pieces count, and their bytes.
    fn size(self) -> (usize, usize) {
        self.iter().fold((0, 0), |(pieces, bytes), (piece, _)| (pieces + 1, bytes + piece.len()))
    }
}

/// Brings lists together in order of first appearance.
fn merged(lists: Vec<List<'_>>) -> PieceCounts {
    let shares = shares(lists);
    let sum = |sum: (usize, usize), size: (usize, usize)| (sum.0 + size.0, sum.1 + size.1);
    let sizes: Vec<(usize, usize)> =
        shares.par_iter().map(|share| share.iter().map(|list| list.size()).fold((0, 0), sum)).collect();
    let (pieces, total) = sizes.iter().copied().fold((0, 0), sum);
    let ((mut bytes, mut ends), mut counts) =
        rayon::join(|| (populated(0, total), populated(0, pieces)), || populated(Count::ZERO, pieces));
    let mut rest = Room { start: 0, bytes: &mut bytes, ends: &mut ends, counts: &mut counts };
    let rooms: Vec<Room<'_>> = sizes.into_iter().map(|(pieces, bytes)| rest.take(pieces, bytes)).collect();
    shares.into_par_iter().zip(rooms).for_each(|(share, room)| room.fill(share));
    PieceCounts { bytes, ends, counts }
}

/// Divides lists at the same places of the text.
fn shares(mut lists: Vec<List<'_>>) -> Vec<Vec<List<'_>>> {
    let mut sampled: Vec<u64> =
        lists.iter().flat_map(|list| list.firsts.iter().step_by(SAMPLED)).copied().collect();
    sampled.sort_unstable();
    let places = sampled.into_iter().step_by(SHARE / SAMPLED).skip(1);
    let mut shares: Vec<Vec<List<'_>>> =
        places.map(|place| lists.iter_mut().map(|list| list.take_before(place)).collect()).collect();
    shares.push(lists);
    shares
}

/// A part of the result.
struct Room<'a> {
    /// Bytes of pieces before it.
    start: usize,
    bytes: &'a mut [u8],
    ends: &'a mut [usize],
    counts: &'a mut [Count],
}

impl<'a> Room<'a> {
    /// Takes off the first part, for so many pieces and bytes.
    fn take(&mut self, pieces: usize, bytes: usize) -> Room<'a> {
        const ALL: &str = "the parts are no longer than the whole";
        let start = self.start;
        self.start += bytes;
        Room {
            start,
            bytes: self.bytes.split_off_mut(..bytes).expect(ALL),
            ends: self.ends.split_off_mut(..pieces).expect(ALL),
            counts: self.counts.split_off_mut(..pieces).expect(ALL),
        }
    }

    /// Merges the lists of a share into it.
    fn fill(mut self, mut share: Vec<List<'_>>) {
        loop {
            // The list that goes on first, up to where another one does.
            let (mut earliest, mut until) = ((u64::MAX, 0), u64::MAX);
            for (number, list) in share.iter().enumerate() {
                let Some(&first) = list.firsts.first() else { continue };
                until = until.min(first.max(earliest.0));
                earliest = earliest.min((first, number));
            }
            if earliest.0 == u64::MAX {
                return;
            }
            // Two pieces never begin at the same place, so that at least one is taken.
            self.append(share[earliest.1].take_before(until));
        }
    }

    fn append(&mut self, list: List<'_>) {
        for (piece, count) in list.iter() {
            let own = self.take(1, piece.len());
            own.bytes.copy_from_slice(piece);
            (own.ends[0], own.counts[0]) = (own.start + piece.len(), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::costly::one_case_in;
    use crate::units::amount;

    /// The bits of a number as bytes: short pieces, and longer ones.
    fn piece(bits: u16) -> Vec<u8> {
        let length = if bits.is_multiple_of(3) { 20 } else { 11 };
        (0..length).map(|bit| u8::from(u32::from(bits) >> bit & 1 == 1)).collect()
    }

    #[test]
    fn tables_are_summed_in_order_of_first_appearance() {
        let inputs =
            prop::collection::vec((0_usize..5, prop::collection::vec(0_u16..1 << 11, 0..200)), 0..30);
        one_case_in(4, &inputs, |parts| {
            let mut tables: Vec<PieceTable> = (0..5).map(|_| PieceTable::new()).collect();
            let (mut expected, mut order) = (HashMap::new(), Vec::new());
            let mut place = 0;
            for (table, pieces) in &parts {
                let (mut text, mut ends) = (Vec::new(), Vec::new());
                for piece in pieces.iter().map(|&bits| piece(bits)) {
                    text.extend_from_slice(&piece);
                    ends.push(u32::try_from(text.len()).expect("short texts"));
                    let count = expected.entry(piece.clone()).or_insert(0);
                    *count += 3;
                    if *count == 3 {
                        order.push(piece);
                    }
                }
                tables[*table].count(&text, 0, &ends, Count::new(3), place).expect("small counts");
                place += amount(text.len());
            }
            let sum = fold(tables).expect("small counts");
            let sum: Vec<(Vec<u8>, u64)> =
                sum.iter().map(|(piece, count)| (piece.to_vec(), count.get())).collect();
            let expected: Vec<(Vec<u8>, u64)> =
                order.into_iter().map(|piece| (piece.clone(), expected[&piece])).collect();
            prop_assert_eq!(sum, expected);
            Ok(())
        });
    }

    #[test]
    fn a_sum_that_passes_64_bits_names_the_piece() {
        let mut tables: Vec<PieceTable> = (0..3).map(|_| PieceTable::new()).collect();
        for (table, place) in tables.iter_mut().zip([0, 2, 4]) {
            table.count(b"often", 0, &[5], Count::new(u64::MAX / 2), 9 * place).expect("each by itself fits");
        }
        let told = fold(tables).expect_err("three halves").to_string();
        assert!(told.contains("passes 2^64") && told.contains("often"), "{told}");
    }
}
