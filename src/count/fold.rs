use rayon::prelude::*;

use super::PieceCounts;
use super::fault::Fault;
use super::table::{Long, Longs, PieceTable, Short};
use crate::error::Result;
use crate::units::place64;

/// One thread's pieces, those of each partition together.
struct Partitioned {
    partitions: Vec<(Vec<Short>, Vec<Long>)>,
    longs: Longs,
}

/// Sums tables, and brings their pieces into the order of first appearance.
///
/// The pieces are partitioned by hash and each partition is summed on its own, so that no step is
/// left to one thread alone.
pub(super) fn fold(tables: Vec<PieceTable>) -> Result<PieceCounts> {
    let folded = if tables.len() < 2 {
        tables
    } else {
        let bits = rayon::current_num_threads().next_power_of_two().trailing_zeros() + 1;
        let parts: Vec<Partitioned> = tables.into_par_iter().map(|table| partition(table, bits)).collect();
        (0..1_usize << bits).into_par_iter().map(|number| sum(&parts, number)).collect::<Result<_>>()?
    };
    Ok(in_order(&folded))
}

fn partition(table: PieceTable, bits: u32) -> Partitioned {
    let mut partitions = vec![(Vec::new(), Vec::new()); 1 << bits];
    // The tables look at the low bits of the hash: taking the high ones here keeps those as they are.
    let number = |hash: u64| place64(hash >> (u64::BITS - bits));
    for short in table.shorts() {
        partitions[number(short.hash())].0.push(*short);
    }
    for long in &table.longs.list {
        partitions[number(long.hash)].1.push(long.clone());
    }
    Partitioned { partitions, longs: table.longs }
}

fn sum(parts: &[Partitioned], number: usize) -> Result<PieceTable> {
    let mut table = PieceTable::new();
    for part in parts {
        let (shorts, longs) = &part.partitions[number];
        for short in shorts {
            let overflow = |_| Fault::Overflow { piece: short.with_bytes(<[u8]>::to_vec) };
            table.add_short(*short).map_err(overflow)?;
        }
        for long in longs {
            let bytes = part.longs.bytes(long);
            let overflow = |_| Fault::Overflow { piece: bytes.to_vec() };
            table.longs.add(bytes, long.hash, long.count, long.first).map_err(overflow)?;
        }
    }
    Ok(table)
}

/// A piece of one of several tables.
enum Piece<'t> {
    Short(&'t Short),
    Long(&'t Long, &'t Longs),
}

/// A table's pieces with the places where they first appeared.
fn pieces(table: &PieceTable) -> impl Iterator<Item = (u64, Piece<'_>)> {
    let shorts = table.shorts().map(|short| (short.first, Piece::Short(short)));
    let longs = table.longs.list.iter().map(|long| (long.first, Piece::Long(long, &table.longs)));
    shorts.chain(longs)
}

fn in_order(tables: &[PieceTable]) -> PieceCounts {
    let mut ordered: Vec<(u64, Piece<'_>)> = tables.par_iter().flat_map_iter(pieces).collect();
    // Two pieces never begin at the same place.
    ordered.par_sort_unstable_by_key(|(first, _)| *first);
    let bytes = tables.iter().map(PieceTable::bytes).sum();
    let mut counts = PieceCounts::with_capacity(ordered.len(), bytes);
    for (_, piece) in ordered {
        match piece {
            Piece::Short(short) => short.with_bytes(|bytes| counts.push(bytes, short.count)),
            Piece::Long(long, longs) => counts.push(longs.bytes(long), long.count),
        }
    }
    counts
}
