//! Counts all pairs of the current text at the start of a round, and lists the occurrences of those worth
//! keeping. Large texts without weights are counted in parallel.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::arena::{Occurrence, Place, Room, Store};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight};
use super::pairs::{Keep, Pairs};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::error::Result;
use crate::observer::Observer;

/// Tokens up to which pairs are counted in a square table, of 4 MB at most. Larger vocabularies use a hash
/// table.
const DENSE: usize = 512;

/// The same limit for counting in chunks. It is larger than any vocabulary that scanning leaves behind.
const DENSE_IN_CHUNKS: usize = 1280;

/// Counts the pairs of the current text, keeps those worth keeping when `merges` more merges are wanted, and
/// writes their ids at their positions.
///
/// Small vocabularies use a square table, which needs no hashing. Large texts without weights are counted by
/// all threads.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn find<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    keep: Keep,
    merges: usize,
    observer: &dyn Observer,
) -> Result<Pairs<W>> {
    let tokens = corpus.lengths.len();
    if W::ONCE && tokens <= DENSE_IN_CHUNKS && corpus.is_large() && corpus.is_dense() {
        find_in_chunks(corpus, keep, merges, observer)
    } else if tokens <= DENSE {
        find_with(corpus, &mut Square::new(tokens), keep, merges, observer)
    } else {
        find_with(corpus, &mut Hashed::default(), keep, merges, observer)
    }
}

/// Counts in one walk over the text and lists the occurrences in a second one.
fn find_with<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    tallies: &mut impl Tallies,
    keep: Keep,
    merges: usize,
    observer: &dyn Observer,
) -> Result<Pairs<W>> {
    corpus.for_each_pair(observer, |pair| {
        let (number, tally) = tallies.tally(pair.left, pair.right);
        tally.count += pair.value;
        tally.occurrences += 1;
        *pair.pair = number;
    })?;
    let (mut pairs, mut places) = kept(tallies, &corpus.lengths, keep, merges);
    let store = &mut pairs.stores[0];
    corpus.for_each_pair(observer, |pair| {
        let id = tallies.id(*pair.pair);
        *pair.pair = id;
        if id != NOT_KEPT {
            let occurrence = Occurrence { position: truncate_to_u32(pair.position), weight: pair.weight };
            store.write(places[to_usize(id)].next(), occurrence);
        }
    })?;
    Ok(pairs)
}

/// Creates the pairs worth keeping, with a span of the arena for the occurrences of each. Also returns, by pair
/// id, the cursor for the first occurrence.
fn kept<W: Weight + Default>(
    tallies: &mut impl Tallies,
    lengths: &[u32],
    keep: Keep,
    merges: usize,
) -> (Pairs<W>, Vec<Place>) {
    let length =
        |left: u32, right: u32| to_usize(lengths[to_usize(left)]) + to_usize(lengths[to_usize(right)]);
    let mut wanted = Vec::new();
    tallies.for_each(|left, right, tally| {
        if keep.wants(tally.count, length(left, right)) {
            wanted.push(*tally);
        }
    });
    let keep = keep.for_merges(merges, wanted.iter().map(|tally| tally.count));
    wanted.retain(|tally| tally.count >= keep.threshold);
    let room = wanted.iter().map(|tally| to_usize(tally.occurrences)).sum();
    let (mut pairs, mut places) = (Pairs::with_room(keep, room), vec![Place::default()]);
    tallies.for_each(|left, right, tally| {
        tally.id = NOT_KEPT;
        if keep.wants(tally.count, length(left, right)) {
            tally.id = pairs.add(left, right, tally.count);
            places.push(pairs.make_room(0, tally.occurrences));
        }
    });
    (pairs, places)
}

/// Count of a pair, and its id once it has one.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Number of occurrences by weight.
    count: u64,
    /// Number of occurrences without weights, which is the length of the list.
    occurrences: u32,
    /// Id of the pair, or [`NOT_KEPT`].
    id: PairId,
}

/// A table of tallies by pair.
trait Tallies {
    /// The tally of a pair, and a number with which [`id`](Self::id) finds it again.
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally);

    /// Id of the pair with this number.
    fn id(&self, number: u32) -> PairId;

    /// Calls `visit` with each pair that was tallied, in an order that depends on the text alone.
    fn for_each(&mut self, visit: impl FnMut(u32, u32, &mut Tally));
}

/// A table of tokens × tokens, with rows only for tokens that begin a pair: the first access to new memory
/// costs more than the counting.
struct Square {
    /// Start of each token's row in `tallies`, or [`NO_ROW`].
    rows: Vec<u32>,
    /// Tallies per row: a few more than tokens, so that the tallies of a column do not all fall into the same
    /// few cache sets.
    width: u32,
    tallies: Vec<Tally>,
}

/// Row of a token that no pair has begun with so far.
const NO_ROW: u32 = u32::MAX;

impl Square {
    fn new(tokens: usize) -> Square {
        let width = tokens + 4;
        let tallies = huge_pages::with_capacity(tokens * width);
        Square { rows: vec![NO_ROW; tokens], width: truncate_to_u32(width), tallies }
    }

    /// Adds an empty row for a token.
    #[cold]
    fn add_row(&mut self, left: u32) {
        self.rows[to_usize(left)] = truncate_to_u32(self.tallies.len());
        self.tallies.resize(self.tallies.len() + to_usize(self.width), Tally::default());
    }
}

impl Tallies for Square {
    #[inline]
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally) {
        if self.rows[to_usize(left)] == NO_ROW {
            self.add_row(left);
        }
        let number = self.rows[to_usize(left)] + right;
        (number, &mut self.tallies[to_usize(number)])
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.tallies[to_usize(number)].id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut Tally)) {
        for (left, &row) in (0..).zip(&self.rows).filter(|(_, row)| **row != NO_ROW) {
            let row = self.tallies[to_usize(row)..][..to_usize(self.width)].iter_mut();
            for (right, tally) in (0..).zip(row).filter(|(_, tally)| tally.occurrences > 0) {
                visit(left, right, tally);
            }
        }
    }
}

/// Tallies in the order in which the pairs were first seen, found by a hash table.
#[derive(Default)]
struct Hashed {
    numbers: FxHashMap<(u32, u32), u32>,
    tallies: Vec<(u32, u32, Tally)>,
}

impl Tallies for Hashed {
    #[inline]
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally) {
        let next = truncate_to_u32(self.tallies.len());
        let number = *self.numbers.entry((left, right)).or_insert(next);
        if number == next {
            self.tallies.push((left, right, Tally::default()));
        }
        (number, &mut self.tallies[to_usize(number)].2)
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.tallies[to_usize(number)].2.id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut Tally)) {
        for (left, right, tally) in &mut self.tallies {
            visit(*left, *right, tally);
        }
    }
}

/// Chunks in which the text is counted in parallel. Each has a table of tokens × tokens, of 6.5 MB at most.
const CHUNKS: usize = 8;

/// Does what [`find`](self::find) does, where every token spans one position and every sequence has
/// weight 1: in chunks, which threads take as they become free. The occurrences of a pair are then in one span
/// per chunk.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn find_in_chunks<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    keep: Keep,
    merges: usize,
    observer: &dyn Observer,
) -> Result<Pairs<W>> {
    let (tokens, size) = (corpus.lengths.len(), corpus.cells.len().div_ceil(CHUNKS));
    let tables = {
        let cells = &corpus.cells[..];
        let starts = (0..cells.len()).into_par_iter().step_by(size);
        // Each chunk is read with the first token of the next one, for the pair across the border.
        let chunk = |start: usize| &cells[start..cells.len().min(start + size + 1)];
        starts.map(|start| tally(chunk(start), tokens)).collect::<Vec<_>>()
    };
    observer.checkpoint()?;
    let Kept { mut pairs, ids, rooms } = keep_pairs(&tables, &corpus.lengths, keep, merges);
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
