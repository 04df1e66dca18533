//! Counts all pairs of the current text at the start of a round, and lists the occurrences of those worth
//! keeping.

use rustc_hash::FxHashMap;

use super::chunks::find_in_chunks;
use super::corpus::{Corpus, Weight};
use super::pairs::{Keep, NOT_KEPT, PairId, Pairs};
use super::rooms::Place;
use super::store::Occurrence;
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
/// writes their ids at their positions. `lengths` has the length of each token in bytes.
///
/// Small vocabularies use a square table, which needs no hashing. Large texts without weights are counted by
/// all threads.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn find<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    lengths: &[u32],
    keep: Keep,
    merges: usize,
    observer: &dyn Observer,
) -> Result<Pairs<W>> {
    if W::ONCE && lengths.len() <= DENSE_IN_CHUNKS && corpus.is_large() && corpus.is_dense() {
        find_in_chunks(corpus, lengths, keep, merges, observer)
    } else if lengths.len() <= DENSE {
        let mut tallies = Square::new(lengths.len());
        find_with(corpus, &mut tallies, lengths, keep, merges, observer)
    } else {
        find_with(corpus, &mut Hashed::default(), lengths, keep, merges, observer)
    }
}

/// Counts in one walk over the text and lists the occurrences in a second one.
fn find_with<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    tallies: &mut impl Tallies,
    lengths: &[u32],
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
    let (mut pairs, mut places) = kept(tallies, lengths, keep, merges);
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
