//! Counts all pairs in parallel, for large texts without weights.

use rayon::prelude::*;

use super::corpus::{Cell, Corpus, SEPARATOR, Weight};
use super::pairs::{Keep, NOT_KEPT, PairId, Pairs};
use super::rooms::Room;
use super::store::{Occurrence, Store};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::error::Result;
use crate::observer::Observer;

/// Chunks in which the text is counted in parallel. Each has a table of tokens × tokens, of 6.5 MB at most.
const CHUNKS: usize = 8;

/// Does what [`find`](super::find::find) does, where every token spans one position and every sequence has
/// weight 1: in chunks, which threads take as they become free. The occurrences of a pair are then in one span
/// per chunk.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn find_in_chunks<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    lengths: &[u32],
    keep: Keep,
    merges: usize,
    observer: &dyn Observer,
) -> Result<Pairs<W>> {
    let (tokens, size) = (lengths.len(), corpus.cells.len().div_ceil(CHUNKS));
    let tables = {
        let cells = &corpus.cells[..];
        let starts = (0..cells.len()).into_par_iter().step_by(size);
        // Each chunk is read with the first token of the next one, for the pair across the border.
        let chunk = |start: usize| &cells[start..cells.len().min(start + size + 1)];
        starts.map(|start| tally(chunk(start), tokens)).collect::<Vec<_>>()
    };
    observer.checkpoint()?;
    let Kept { mut pairs, ids, rooms } = keep_pairs(&tables, lengths, keep, merges);
    drop(tables);
    let firsts = corpus.cells.iter().step_by(size).map(|cell| cell.token);
    let nexts: Vec<u32> = firsts.skip(1).chain([SEPARATOR]).collect();
    let chunks = corpus.cells.par_chunks_mut(size).zip(nexts).zip(rooms).enumerate();
    let blocks = chunks.map(|(number, ((cells, next), rooms))| {
        let chunk = Chunk { cells, next, position: number * size };
        (rooms.store, rooms.block, chunk.name(&ids, tokens, rooms))
    });
    for (store, number, block) in blocks.collect::<Vec<_>>() {
        pairs.stores[store].fill(number, block);
    }
    observer.checkpoint()?;
    Ok(pairs)
}

/// The pairs worth keeping, and where their occurrences go.
struct Kept<W> {
    pairs: Pairs<W>,
    /// Ids of the pairs, in a table of tokens × tokens with a row for each left token.
    ids: Vec<PairId>,
    /// Layout of the block of each chunk.
    rooms: Vec<Rooms>,
}

/// Where the occurrences of each pair go in the block of one chunk.
struct Rooms {
    /// Index of the arena.
    store: usize,
    /// Index of the block in the arena.
    block: u32,
    /// Start of each pair's occurrences in the block, by pair id.
    starts: Vec<u32>,
    /// Number of occurrences in the block.
    length: u32,
}

/// Keeps the pairs worth keeping, and lays out a block of occurrences for each chunk.
fn keep_pairs<W: Weight + Default>(
    tables: &[Vec<u32>],
    lengths: &[u32],
    keep: Keep,
    merges: usize,
) -> Kept<W> {
    let tokens = lengths.len();
    let counts = |at: usize| tables.iter().map(move |table| table[at]);
    let count = |at: usize| -> u64 { counts(at).map(u64::from).sum() };
    let length = |at: usize| to_usize(lengths[at / tokens]) + to_usize(lengths[at % tokens]);
    let all = 0..tokens * tokens;
    let wanted = all.clone().filter(|&at| keep.wants(count(at), length(at)));
    let keep = keep.for_merges(merges, wanted.map(count).collect::<Vec<_>>().into_iter());
    let mut pairs = Pairs::with_room(keep, 0);
    let stores = rayon::current_num_threads().min(CHUNKS);
    pairs.stores.resize_with(stores, Store::default);
    let mut rooms: Vec<Rooms> = (0..tables.len())
        .map(|chunk| {
            let store = chunk * stores / CHUNKS;
            Rooms { store, block: pairs.stores[store].push(Vec::new()), starts: vec![0], length: 0 }
        })
        .collect();
    let mut keep_pair = |at: usize| {
        if !keep.wants(count(at), length(at)) {
            return NOT_KEPT;
        }
        let id = pairs.add(truncate_to_u32(at / tokens), truncate_to_u32(at % tokens), count(at));
        for (rooms, length) in rooms.iter_mut().zip(counts(at)) {
            let Rooms { store, block, length: start, .. } = *rooms;
            rooms.starts.push(start);
            rooms.length += length;
            pairs.add_room(Room { store: truncate_to_u32(store), block, start, length });
        }
        id
    };
    let ids = all.map(&mut keep_pair).collect();
    Kept { pairs, ids, rooms }
}

/// How often each pair occurs in a chunk, in a table of tokens × tokens with a row for each left token.
fn tally(cells: &[Cell], tokens: usize) -> Vec<u32> {
    let mut table = vec![0; tokens * tokens];
    for &[left, right] in cells.array_windows() {
        if left.token != SEPARATOR && right.token != SEPARATOR {
            table[to_usize(left.token) * tokens + to_usize(right.token)] += 1;
        }
    }
    table
}

/// A chunk of the text.
struct Chunk<'a> {
    cells: &'a mut [Cell],
    /// The first token after it.
    next: u32,
    /// Position of its first cell.
    position: usize,
}

impl Chunk<'_> {
    /// Writes the ids of the pairs that begin in the chunk, and returns the block with their occurrences.
    fn name<W: Weight + Default>(self, ids: &[PairId], tokens: usize, rooms: Rooms) -> Vec<Occurrence<W>> {
        let Rooms { starts: mut ends, length, .. } = rooms;
        let mut block = huge_pages::filled(Occurrence::default(), to_usize(length));
        for at in 0..self.cells.len() {
            let right = self.cells.get(at + 1).map_or(self.next, |cell| cell.token);
            let cell = &mut self.cells[at];
            if cell.token == SEPARATOR || right == SEPARATOR {
                continue;
            }
            cell.pair = ids[to_usize(cell.token) * tokens + to_usize(right)];
            if cell.pair != NOT_KEPT {
                let end = &mut ends[to_usize(cell.pair)];
                block[to_usize(*end)] =
                    Occurrence { position: truncate_to_u32(self.position + at), weight: W::default() };
                *end += 1;
            }
        }
        block
    }
}
