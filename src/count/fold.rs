use rayon::prelude::*;

use super::PieceCounts;
use super::entry::{Arena, Entry};
use super::fault::Fault;
use super::slots::Slots;
use super::table::PieceTable;
use crate::error::Result;

/// About how many entries a partition has, so that the slots it is summed in stay in the cache.
const PARTITION: usize = 4 << 10;

/// At most so many bits of the hash tell the partition. No table has fewer slots than that many bits name.
const MOST_BITS: u32 = 12;

/// Sums tables, and brings their pieces into the order of first appearance.
pub(super) fn fold(tables: Vec<PieceTable>) -> Result<PieceCounts> {
    let (mut slots, arenas): (Vec<Slots>, Vec<Arena>) =
        tables.into_iter().map(|table| (table.slots, table.arena)).unzip();
    let mut entries = match slots.len() {
        0 | 1 => slots.pop().map_or_else(Vec::new, Slots::into_entries),
        _ => sum(slots, &arenas)?,
    };
    // Two pieces never begin at the same place.
    entries.par_sort_unstable_by_key(|entry| entry.first);
    let bytes = entries.par_iter().map(|entry| entry.key.length(&arenas)).sum();
    let (mut counts, mut room) = (PieceCounts::with_capacity(entries.len(), bytes), [0; 16]);
    for entry in entries {
        counts.push(entry.key.bytes(&mut room, &arenas), entry.count);
    }
    Ok(counts)
}

/// Sums tables partition by partition, so that no step is left to one thread alone. Each table is read
/// from front to back.
fn sum(tables: Vec<Slots>, arenas: &[Arena]) -> Result<Vec<Entry>, Fault> {
    let used: usize = tables.iter().map(Slots::used).sum();
    let wanted = (used / PARTITION).max(rayon::current_num_threads()).next_power_of_two();
    let bits = wanted.trailing_zeros().clamp(1, MOST_BITS);
    let room = || Slots::of_partition((used >> bits).next_power_of_two().max(1) * 2, bits);
    let partitions = (0..1_usize << bits)
        .into_par_iter()
        .map_init(room, |sums, number| sum_partition(&tables, arenas, number, sums))
        .collect::<Result<Vec<_>, Fault>>()?;
    drop(tables);
    Ok(partitions.concat())
}

fn sum_partition(
    tables: &[Slots],
    arenas: &[Arena],
    number: usize,
    sums: &mut Slots,
) -> Result<Vec<Entry>, Fault> {
    sums.clear();
    for (arena, table) in (0..).zip(tables) {
        for entry in table.partition(number, sums.skipped()) {
            let key = entry.key.in_arena(arena);
            let slot = sums.find(key, key.hash(), key.long_bytes(arenas), arenas);
            let found = &mut sums.all[slot];
            if found.key.is_none() {
                sums.put(slot, Entry { key, ..*entry });
                continue;
            }
            found.first = found.first.min(entry.first);
            if !found.add(entry.count) {
                return Err(Fault::Overflow { piece: key.bytes(&mut [0; 16], arenas).to_vec() });
            }
        }
    }
    Ok(sums.entries().copied().collect())
}
