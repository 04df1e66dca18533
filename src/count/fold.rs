use std::cmp::Reverse;

use rayon::prelude::*;

use super::PieceCounts;
use super::entry::{Arena, Entry};
use super::fault::Fault;
use super::slots::Slots;
use super::table::PieceTable;
use crate::error::Result;
use crate::index::HashIndex;
use crate::pages;
use crate::units::Count;

/// About how many entries of all tables are summed at a time: the caches hold them.
const RANGE: usize = if cfg!(test) { 8 } else { 4 << 10 };

/// About how many entries are brought into the result at a time.
const SHARE: usize = SAMPLED * 16;

/// One of so many entries is looked at to find places that divide the text into shares.
const SAMPLED: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// Sums tables, and brings their pieces into the order of first appearance: of entries with the same piece one
/// counts for all, each table's entries that still count are sorted, and then all are merged.
///
/// **Memory:** that of the tables, whose entries stay where they are, and of the result.
pub(super) fn fold(mut tables: Vec<PieceTable>) -> Result<PieceCounts> {
    unite(&mut tables)?;
    let (slots, arenas): (Vec<Slots>, Vec<Arena>) =
        tables.into_iter().map(|table| (table.slots, table.arena)).unzip();
    let entries: Vec<Vec<Entry>> = slots.into_par_iter().map(Slots::into_entries).collect();
    let lists = entries.iter().zip(&arenas).map(|(entries, arena)| List { entries, arena });
    Ok(merged(lists.collect()))
}

/// Lets one of the entries that have the same piece count for all. Each range of hashes is summed by one thread.
fn unite(tables: &mut [PieceTable]) -> Result<()> {
    tables.sort_unstable_by_key(|table| Reverse(table.slots.used()));
    let empty = tables.iter().rev().take_while(|table| table.slots.used() == 0).count();
    let filled = &tables[..tables.len() - empty];
    let [largest, others @ .., last] = filled else { return Ok(()) };
    let entries: usize = filled.iter().map(|table| table.slots.used()).sum();
    let divisible = filled.iter().map(|table| table.slots.bits()).min().unwrap_or(0);
    let bits = (entries / RANGE).max(1).ilog2().min(divisible);
    Ok((0..1 << bits).into_par_iter().try_for_each_init(
        || Seen::new(largest),
        |seen, range| {
            seen.clear();
            for table in others {
                seen.unite(table, range, bits, true)?;
            }
            seen.unite(last, range, bits, false)
        },
    )?)
}

/// The entries that count for their pieces in a range of hashes.
struct Seen<'a> {
    /// Has most of them.
    largest: &'a PieceTable,
    /// Those that it has not.
    others: Vec<(&'a Entry, &'a Arena)>,
    index: HashIndex,
}

impl<'a> Seen<'a> {
    fn new(largest: &'a PieceTable) -> Seen<'a> {
        Seen { largest, others: Vec::new(), index: HashIndex::default() }
    }

    fn clear(&mut self) {
        self.others.clear();
        self.index.clear();
    }

    /// Looks for the entries of a table whose hashes have `range` as their highest `bits`. Those that are new count
    /// themselves, and are remembered, if more tables follow.
    fn unite(&mut self, table: &'a PieceTable, range: usize, bits: u32, more: bool) -> Result<(), Fault> {
        for (hash, entry) in table.slots.range(range, bits) {
            let Some(known) = self.find(hash, bits, entry, &table.arena) else {
                if more {
                    self.others.push((entry, &table.arena));
                    self.index.insert(hash << bits, self.others.len())?;
                }
                continue;
            };
            if !known.take_over(entry) {
                return Err(Fault::Overflow { piece: entry.key.bytes(&mut [0; 16], &table.arena).to_vec() });
            }
        }
        Ok(())
    }

    /// The entry that counts for the piece of this one.
    fn find(&self, hash: u64, bits: u32, entry: &Entry, arena: &Arena) -> Option<&'a Entry> {
        let PieceTable { slots, arena: largest } = self.largest;
        let slot = slots.find(hash, |key| key.same(largest, entry.key, arena));
        if !slots.all[slot].key.is_none() {
            return Some(&slots.all[slot]);
        }
        // What all hashes of the range have in common tells nothing.
        let number = self.index.find(hash << bits, |number| {
            let (seen, others) = self.others[number - 1];
            seen.key.same(others, entry.key, arena)
        });
        number.map(|number| self.others[number - 1].0)
    }
}

/// Entries in order of first appearance.
#[derive(Clone, Copy)]
struct List<'a> {
    entries: &'a [Entry],
    arena: &'a Arena,
}

impl<'a> List<'a> {
    /// Where the first of them appears.
    fn first(&self) -> Option<u64> {
        self.entries.first().map(Entry::first)
    }

    /// Takes those off that appear before a place.
    fn take_before(&mut self, place: u64) -> List<'a> {
        let before = self.entries.partition_point(|entry| entry.first() < place);
        let (taken, later) = self.entries.split_at(before);
        self.entries = later;
        List { entries: taken, ..*self }
    }
}

/// Brings the entries of lists together in order of first appearance.
fn merged(lists: Vec<List<'_>>) -> PieceCounts {
    let shares = shares(lists);
    let size = |share: &Vec<List<'_>>| -> (usize, usize) {
        let lengths =
            share.iter().flat_map(|list| list.entries.iter().map(|entry| entry.key.length(list.arena)));
        lengths.fold((0, 0), |(pieces, bytes), length| (pieces + 1, bytes + length))
    };
    let sizes: Vec<(usize, usize)> = shares.par_iter().map(size).collect();
    let (pieces, total) = sizes.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    let ((mut bytes, mut ends), mut counts) =
        rayon::join(|| (populated(0, total), populated(0, pieces)), || populated(Count::ZERO, pieces));
    let mut rest = Room { start: 0, bytes: &mut bytes, ends: &mut ends, counts: &mut counts };
    let rooms: Vec<Room<'_>> = sizes.into_iter().map(|(pieces, bytes)| rest.take(pieces, bytes)).collect();
    shares.into_par_iter().zip(rooms).for_each(|(share, room)| room.fill(share));
    PieceCounts { bytes, ends, counts }
}

/// A vector of equal items, whose memory is asked for at once.
fn populated<T: Copy>(value: T, length: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(length);
    pages::populate(&mut vector, length);
    vector.resize(length, value);
    vector
}

/// Divides lists at the same places of the text.
fn shares(mut lists: Vec<List<'_>>) -> Vec<Vec<List<'_>>> {
    let sampled = lists.iter().flat_map(|list| list.entries.iter().step_by(SAMPLED));
    let mut sampled: Vec<u64> = sampled.map(Entry::first).collect();
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
                let Some(first) = list.first() else { continue };
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
        let mut room = [0; 16];
        for entry in list.entries {
            let piece = entry.key.bytes(&mut room, list.arena);
            let own = self.take(1, piece.len());
            own.bytes.copy_from_slice(piece);
            (own.ends[0], own.counts[0]) = (own.start + piece.len(), entry.count());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::units::amount;

    /// The bits of a number as bytes: short pieces, and longer ones.
    fn piece(bits: u16) -> Vec<u8> {
        let length = if bits.is_multiple_of(3) { 20 } else { 11 };
        (0..length).map(|bit| u8::from(u32::from(bits) >> bit & 1 == 1)).collect()
    }

    proptest! {
        #[test]
        fn tables_are_summed_in_order_of_first_appearance(
            parts in prop::collection::vec((0_usize..5, prop::collection::vec(0_u16..1 << 11, 0..200)), 0..30),
        ) {
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
                tables[*table].count(&text, &ends, Count::new(3), place).expect("small counts");
                place += amount(text.len());
            }
            let sum = fold(tables).expect("small counts");
            let sum: Vec<(Vec<u8>, u64)> = sum.iter().map(|(piece, count)| (piece.to_vec(), count.get())).collect();
            let expected: Vec<(Vec<u8>, u64)> =
                order.into_iter().map(|piece| (piece.clone(), expected[&piece])).collect();
            prop_assert_eq!(sum, expected);
        }
    }

    #[test]
    fn a_sum_that_passes_64_bits_names_the_piece() {
        let mut tables: Vec<PieceTable> = (0..3).map(|_| PieceTable::new()).collect();
        for (table, place) in tables.iter_mut().zip([0, 2, 4]) {
            table.count(b"ab", &[1, 2], Count::new(u64::MAX / 2), place).expect("each by itself fits");
        }
        let told = fold(tables).expect_err("three halves").to_string();
        assert!(told.contains("passes 2^64"), "{told}");
    }
}
