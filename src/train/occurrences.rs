//! Counts all pairs of the current text at the start of a round, and lists the occurrences of those worth
//! keeping. Large texts without weights are counted in parallel.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::arena::{Arena, Cursor, Occurrence, Span};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight};
use super::pairs::{KeepRule, KeptPairs};
use crate::base::huge_pages;
use crate::base::int::{to_u64, to_usize, truncate_to_u32};
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Tokens up to which pairs are counted in a square table, of 4 MB at most. Larger vocabularies use a hash
/// table.
const MAX_SQUARE_TOKENS: usize = 512;

/// The same limit for counting in chunks. It is larger than any vocabulary that scanning leaves behind.
const MAX_CHUNKED_TOKENS: usize = 1280;

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
    keep: KeepRule,
    merges: usize,
    observer: &dyn Observer,
) -> Result<KeptPairs<W>> {
    let tokens = corpus.lengths.len();
    if W::ONCE && tokens <= MAX_CHUNKED_TOKENS && corpus.is_large() && corpus.has_unit_widths() {
        find_in_chunks(corpus, keep, merges, observer)
    } else if tokens <= MAX_SQUARE_TOKENS {
        find_with(corpus, &mut SquareTable::new(tokens), keep, merges, observer)
    } else {
        find_with(corpus, &mut HashedTable::default(), keep, merges, observer)
    }
}

/// Counts in one pass over the text and lists the occurrences in a second one.
fn find_with<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    counter: &mut impl PairCounter,
    keep: KeepRule,
    merges: usize,
    observer: &dyn Observer,
) -> Result<KeptPairs<W>> {
    corpus.for_each_pair(observer, |pair| {
        let (number, entry) = counter.entry(pair.left, pair.right);
        entry.count += pair.value;
        entry.occurrences += 1;
        *pair.pair = number;
    })?;
    let (mut pairs, mut cursors) = keep_frequent(counter, corpus, keep, merges);
    let arena = &mut pairs.arenas[0];
    corpus.for_each_pair(observer, |pair| {
        let id = counter.id(*pair.pair);
        *pair.pair = id;
        if id != NOT_KEPT {
            let occurrence = Occurrence { position: truncate_to_u32(pair.position), weight: pair.weight };
            arena.write(cursors[to_usize(id)].next(), occurrence);
        }
    })?;
    Ok(pairs)
}

/// Creates the pairs worth keeping, with a span of the arena for the occurrences of each. Also returns, by pair
/// id, the cursor for the first occurrence.
fn keep_frequent<W: Weight + Default>(
    counter: &mut impl PairCounter,
    corpus: &Corpus<W>,
    keep: KeepRule,
    merges: usize,
) -> (KeptPairs<W>, Vec<Cursor>) {
    let keeps = |keep: KeepRule, left: u32, right: u32, count: u64| {
        let length = corpus.length(left) + corpus.length(right);
        keep.keeps(count, length) && corpus.words_allow(left, right)
    };
    let mut frequent = Vec::new();
    counter.for_each(|left, right, entry| {
        if keeps(keep, left, right, entry.count) {
            frequent.push(*entry);
        }
    });
    let keep = keep.for_merges(merges, frequent.iter().map(|entry| entry.count));
    frequent.retain(|entry| entry.count >= keep.threshold);
    let occurrences = frequent.iter().map(|entry| to_usize(entry.occurrences)).sum();
    let (mut pairs, mut cursors) = (KeptPairs::with_capacity(keep, occurrences), vec![Cursor::default()]);
    counter.for_each(|left, right, entry| {
        entry.id = NOT_KEPT;
        if keeps(keep, left, right, entry.count) {
            entry.id = pairs.add(left, right, entry.count);
            cursors.push(pairs.reserve(0, entry.occurrences));
        }
    });
    (pairs, cursors)
}

/// Count of a pair, and its id once it has one.
#[derive(Clone, Copy, Default)]
struct PairCount {
    /// Number of occurrences by weight.
    count: u64,
    /// Number of occurrences without weights, which is the length of the list.
    occurrences: u32,
    /// Id of the pair, or [`NOT_KEPT`].
    id: PairId,
}

/// A table of pair counts.
trait PairCounter {
    /// The entry of a pair, and a number with which [`id`](Self::id) finds it again.
    fn entry(&mut self, left: u32, right: u32) -> (u32, &mut PairCount);

    /// Id of the pair with this number.
    fn id(&self, number: u32) -> PairId;

    /// Calls `visit` with each pair that was counted, in an order that depends on the text alone.
    fn for_each(&mut self, visit: impl FnMut(u32, u32, &mut PairCount));
}

/// A table of tokens × tokens, with rows only for tokens that begin a pair: the first access to new memory
/// costs more than the counting.
struct SquareTable {
    /// Start of each token's row in `entries`, or [`NO_ROW`].
    rows: Vec<u32>,
    /// Entries per row: a few more than tokens, so that the entries of a column do not all fall into the same
    /// few cache sets.
    width: u32,
    entries: Vec<PairCount>,
}

/// Row of a token that no pair has begun with so far.
const NO_ROW: u32 = u32::MAX;

impl SquareTable {
    fn new(tokens: usize) -> SquareTable {
        let width = tokens + 4;
        let entries = huge_pages::with_capacity(tokens * width);
        SquareTable { rows: vec![NO_ROW; tokens], width: truncate_to_u32(width), entries }
    }

    /// Adds an empty row for a token.
    #[cold]
    fn add_row(&mut self, left: u32) {
        self.rows[to_usize(left)] = truncate_to_u32(self.entries.len());
        self.entries.resize(self.entries.len() + to_usize(self.width), PairCount::default());
    }
}

impl PairCounter for SquareTable {
    #[inline]
    fn entry(&mut self, left: u32, right: u32) -> (u32, &mut PairCount) {
        if self.rows[to_usize(left)] == NO_ROW {
            self.add_row(left);
        }
        let number = self.rows[to_usize(left)] + right;
        (number, &mut self.entries[to_usize(number)])
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.entries[to_usize(number)].id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut PairCount)) {
        for (left, &row) in (0..).zip(&self.rows).filter(|(_, row)| **row != NO_ROW) {
            let row = self.entries[to_usize(row)..][..to_usize(self.width)].iter_mut();
            for (right, entry) in (0..).zip(row).filter(|(_, entry)| entry.occurrences > 0) {
                visit(left, right, entry);
            }
        }
    }
}

/// Entries in the order in which the pairs were first seen, found by a hash table.
#[derive(Default)]
struct HashedTable {
    numbers: FxHashMap<(u32, u32), u32>,
    entries: Vec<(u32, u32, PairCount)>,
}

impl PairCounter for HashedTable {
    #[inline]
    fn entry(&mut self, left: u32, right: u32) -> (u32, &mut PairCount) {
        let next = truncate_to_u32(self.entries.len());
        let number = *self.numbers.entry((left, right)).or_insert(next);
        if number == next {
            self.entries.push((left, right, PairCount::default()));
        }
        (number, &mut self.entries[to_usize(number)].2)
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.entries[to_usize(number)].2.id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut PairCount)) {
        for (left, right, entry) in &mut self.entries {
            visit(*left, *right, entry);
        }
    }
}

/// Chunks in which the text is counted in parallel. Each has a table of tokens × tokens, of 6.5 MB at most.
const CHUNKS: usize = 8;

/// Does what [`find`] does, for texts in which every token takes one position and every sequence has weight 1. Threads
/// take the chunks as they become free, so the occurrences of a pair are in one span per chunk.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn find_in_chunks<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    keep: KeepRule,
    merges: usize,
    observer: &dyn Observer,
) -> Result<KeptPairs<W>> {
    let (tokens, size) = (corpus.lengths.len(), corpus.cells.len().div_ceil(CHUNKS));
    let tables = {
        let cells = &corpus.cells[..];
        let starts = (0..cells.len()).into_par_iter().step_by(size);
        // Each chunk is read with the first token of the next one, for the pair across the border.
        let chunk = |start: usize| &cells[start..cells.len().min(start + size + 1)];
        let counted = |start| {
            let table = count_chunk(chunk(start), tokens);
            observer.advanced(Stage::Prepare, to_u64(cells.len().min(start + size) - start));
            table
        };
        starts.map(counted).collect::<Vec<_>>()
    };
    observer.checkpoint()?;
    let KeptChunks { mut pairs, ids, layouts } = keep_frequent_in_chunks(&tables, corpus, keep, merges);
    drop(tables);
    let first_tokens = corpus.cells.iter().step_by(size).map(|cell| cell.token);
    let next_tokens: Vec<u32> = first_tokens.skip(1).chain([SEPARATOR]).collect();
    let chunks = corpus.cells.par_chunks_mut(size).zip(next_tokens).zip(layouts).enumerate();
    let blocks = chunks.map(|(number, ((cells, next), layout))| {
        let length = to_u64(cells.len());
        let chunk = TextChunk { cells, next, position: number * size };
        let listed = (layout.arena, layout.block, chunk.list_occurrences(&ids, tokens, layout));
        observer.advanced(Stage::Prepare, length);
        listed
    });
    for (arena, number, block) in blocks.collect::<Vec<_>>() {
        pairs.arenas[arena].fill(number, block);
    }
    observer.checkpoint()?;
    Ok(pairs)
}

/// The pairs worth keeping, and where their occurrences go.
struct KeptChunks<W> {
    pairs: KeptPairs<W>,
    /// Ids of the pairs, in a table of tokens × tokens with a row for each left token.
    ids: Vec<PairId>,
    /// Layout of the block of each chunk.
    layouts: Vec<BlockLayout>,
}

/// Where the occurrences of each pair go in the block of one chunk.
struct BlockLayout {
    /// Index of the arena.
    arena: usize,
    /// Index of the block in the arena.
    block: u32,
    /// Start of each pair's occurrences in the block, by pair id.
    starts: Vec<u32>,
    /// Number of occurrences in the block.
    length: u32,
}

/// Keeps the pairs worth keeping, and lays out a block of occurrences for each chunk.
fn keep_frequent_in_chunks<W: Weight + Default>(
    tables: &[Vec<u32>],
    corpus: &Corpus<W>,
    keep: KeepRule,
    merges: usize,
) -> KeptChunks<W> {
    let tokens = corpus.lengths.len();
    let counts = |at: usize| tables.iter().map(move |table| table[at]);
    let count = |at: usize| -> u64 { counts(at).map(u64::from).sum() };
    let keeps = |keep: KeepRule, at: usize| {
        let [left, right] = [at / tokens, at % tokens].map(truncate_to_u32);
        let length = corpus.length(left) + corpus.length(right);
        keep.keeps(count(at), length) && corpus.words_allow(left, right)
    };
    let all = 0..tokens * tokens;
    let frequent = all.clone().filter(|&at| keeps(keep, at));
    let keep = keep.for_merges(merges, frequent.map(count).collect::<Vec<_>>().into_iter());
    let mut pairs = KeptPairs::with_capacity(keep, 0);
    let arenas = rayon::current_num_threads().min(CHUNKS);
    pairs.arenas.resize_with(arenas, Arena::default);
    let mut layouts: Vec<BlockLayout> = (0..tables.len())
        .map(|chunk| {
            let arena = chunk * arenas / CHUNKS;
            BlockLayout { arena, block: pairs.arenas[arena].push(Vec::new()), starts: vec![0], length: 0 }
        })
        .collect();
    let mut keep_pair = |at: usize| {
        if !keeps(keep, at) {
            return NOT_KEPT;
        }
        let id = pairs.add(truncate_to_u32(at / tokens), truncate_to_u32(at % tokens), count(at));
        for (layout, length) in layouts.iter_mut().zip(counts(at)) {
            let BlockLayout { arena, block, length: start, .. } = *layout;
            layout.starts.push(start);
            layout.length += length;
            pairs.add_span(Span { arena: truncate_to_u32(arena), block, start, length });
        }
        id
    };
    let ids = all.map(&mut keep_pair).collect();
    KeptChunks { pairs, ids, layouts }
}

/// How often each pair occurs in a chunk, in a table of tokens × tokens with a row for each left token.
fn count_chunk(cells: &[Cell], tokens: usize) -> Vec<u32> {
    let mut table = vec![0; tokens * tokens];
    for &[left, right] in cells.array_windows() {
        if left.token != SEPARATOR && right.token != SEPARATOR {
            table[to_usize(left.token) * tokens + to_usize(right.token)] += 1;
        }
    }
    table
}

/// A chunk of the text.
struct TextChunk<'a> {
    cells: &'a mut [Cell],
    /// The first token after it.
    next: u32,
    /// Position of its first cell.
    position: usize,
}

impl TextChunk<'_> {
    /// Writes the ids of the pairs that begin in the chunk, and returns the block with their occurrences.
    fn list_occurrences<W: Weight + Default>(
        self,
        ids: &[PairId],
        tokens: usize,
        layout: BlockLayout,
    ) -> Vec<Occurrence<W>> {
        let BlockLayout { starts: mut ends, length, .. } = layout;
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
