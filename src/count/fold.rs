use std::mem;

use rayon::prelude::*;

use super::PieceCounts;
use super::entry::{Arena, Entry};
use super::slots::Slots;
use super::table::PieceTable;
use crate::error::Result;
use crate::units::Count;

/// About how many entries are brought into the result at a time.
const SHARE: usize = 16 << 10;

/// Sums tables, and brings their pieces into the order of first appearance.
///
/// The largest table takes the others in, so that hardly any memory is touched that was not before.
pub(super) fn fold(mut tables: Vec<PieceTable>) -> Result<PieceCounts> {
    if let Some(largest) = (0..tables.len()).max_by_key(|&number| tables[number].slots.used()) {
        tables.swap(0, largest);
    }
    let (slots, arenas): (Vec<Slots>, Vec<Arena>) =
        tables.into_iter().map(|table| (table.slots, table.arena)).unzip();
    let mut numbered = (0..).zip(slots);
    let Some((_, mut sum)) = numbered.next() else {
        return Ok(PieceCounts::new());
    };
    for (arena, slots) in numbered {
        sum.take_in(slots, arena, &arenas)?;
    }
    let mut entries = sum.into_entries();
    // Two pieces never begin at the same place.
    entries.par_sort_unstable_by_key(|entry| entry.first);
    Ok(in_order(&entries, &arenas))
}

/// The pieces and counts of entries, in their order.
fn in_order(entries: &[Entry], arenas: &[Arena]) -> PieceCounts {
    let length = |share: &[Entry]| -> usize { share.iter().map(|entry| entry.key.length(arenas)).sum() };
    let lengths: Vec<usize> = entries.par_chunks(SHARE).map(length).collect();
    let total = lengths.iter().sum();
    let (mut bytes, mut ends) = (vec![0; total], vec![0; entries.len()]);
    let mut counts = vec![Count::ZERO; entries.len()];
    let (mut rest, mut start) = (&mut bytes[..], 0);
    let places = lengths.into_iter().map(|length| {
        let (own, others) = mem::take(&mut rest).split_at_mut(length);
        rest = others;
        start += length;
        (start - length, own)
    });
    let places: Vec<(usize, &mut [u8])> = places.collect();
    let shares = entries.par_chunks(SHARE).zip(ends.par_chunks_mut(SHARE)).zip(counts.par_chunks_mut(SHARE));
    shares.zip(places).for_each(|(((entries, ends), counts), (mut place, mut bytes))| {
        for ((entry, end), count) in entries.iter().zip(ends).zip(counts) {
            let mut room = [0; 16];
            let piece = entry.key.bytes(&mut room, arenas);
            let (own, others) = mem::take(&mut bytes).split_at_mut(piece.len());
            own.copy_from_slice(piece);
            bytes = others;
            place += piece.len();
            (*end, *count) = (place, entry.count);
        }
    });
    PieceCounts { bytes, ends, counts }
}
