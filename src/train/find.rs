use rustc_hash::FxHashMap;

use super::chunks::find_in_chunks;
use super::corpus::{Corpus, Weight};
use super::pairs::{Keep, NOT_KEPT, PairId, Pairs};
use super::rooms::Place;
use super::store::Occurrence;
use crate::error::Result;
use crate::observer::Observer;
use crate::pages;
use crate::units::{low32, place};

/// Up to so many tokens pairs are counted in a square table, of 4 MB at most; above, in a hash table.
const DENSE: usize = 512;

/// There up to so many tokens, more than scanning leaves.
const DENSE_IN_CHUNKS: usize = 1280;

/// Finds the pairs of the text as it stands that are worth keeping for so many merges, and names them at their
/// positions.
///
/// `lengths` has the bytes of each token.
///
/// # Errors
/// The observer wants to stop.
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
            let occurrence = Occurrence { position: low32(pair.position), weight: pair.weight };
            store.write(places[place(id)].next(), occurrence);
        }
    })?;
    Ok(pairs)
}

/// Makes the pairs worth keeping, with room for their occurrences, and says where each one's first goes.
fn kept<W: Weight + Default>(
    tallies: &mut impl Tallies,
    lengths: &[u32],
    keep: Keep,
    merges: usize,
) -> (Pairs<W>, Vec<Place>) {
    let length = |left: u32, right: u32| place(lengths[place(left)]) + place(lengths[place(right)]);
    let mut wanted = Vec::new();
    tallies.for_each(|left, right, tally| {
        if keep.wants(tally.count, length(left, right)) {
            wanted.push(*tally);
        }
    });
    let keep = keep.for_merges(merges, wanted.iter().map(|tally| tally.count));
    wanted.retain(|tally| tally.count >= keep.threshold);
    let room = wanted.iter().map(|tally| place(tally.occurrences)).sum();
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

/// How often a pair occurs, and its name once it has one.
#[derive(Clone, Copy, Default)]
struct Tally {
    count: u64,
    occurrences: u32,
    id: PairId,
}

/// Tallies by pair.
trait Tallies {
    /// A pair's tally, and a number by which [`id`](Self::id) finds it again.
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally);

    /// The name of the pair of this number.
    fn id(&self, number: u32) -> PairId;

    /// Calls back with each pair that was tallied, always in the same order.
    fn for_each(&mut self, visit: impl FnMut(u32, u32, &mut Tally));
}

/// A table of tokens × tokens, with rows for those only that pairs begin with: memory that is touched for the first
/// time costs more than what is done with it.
struct Square {
    /// Where each token's row begins, or [`NO_ROW`].
    rows: Vec<u32>,
    /// Tallies in a row: a few more than tokens, so that a column is not in the same few sets of the processor's cache.
    width: u32,
    tallies: Vec<Tally>,
}

/// Stands for the row of a token that no pair begins with so far.
const NO_ROW: u32 = u32::MAX;

impl Square {
    fn new(tokens: usize) -> Square {
        let width = tokens + 4;
        let tallies = pages::with_capacity(tokens * width);
        Square { rows: vec![NO_ROW; tokens], width: low32(width), tallies }
    }

    #[cold]
    fn add_row(&mut self, left: u32) {
        self.rows[place(left)] = low32(self.tallies.len());
        self.tallies.resize(self.tallies.len() + place(self.width), Tally::default());
    }
}

impl Tallies for Square {
    #[inline]
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally) {
        if self.rows[place(left)] == NO_ROW {
            self.add_row(left);
        }
        let number = self.rows[place(left)] + right;
        (number, &mut self.tallies[place(number)])
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.tallies[place(number)].id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut Tally)) {
        for (left, &row) in (0..).zip(&self.rows).filter(|(_, row)| **row != NO_ROW) {
            let row = self.tallies[place(row)..][..place(self.width)].iter_mut();
            for (right, tally) in (0..).zip(row).filter(|(_, tally)| tally.occurrences > 0) {
                visit(left, right, tally);
            }
        }
    }
}

/// Tallies in the order in which pairs were first seen, behind a hash table.
#[derive(Default)]
struct Hashed {
    numbers: FxHashMap<(u32, u32), u32>,
    tallies: Vec<(u32, u32, Tally)>,
}

impl Tallies for Hashed {
    #[inline]
    fn tally(&mut self, left: u32, right: u32) -> (u32, &mut Tally) {
        let next = low32(self.tallies.len());
        let number = *self.numbers.entry((left, right)).or_insert(next);
        if number == next {
            self.tallies.push((left, right, Tally::default()));
        }
        (number, &mut self.tallies[place(number)].2)
    }

    #[inline]
    fn id(&self, number: u32) -> PairId {
        self.tallies[place(number)].2.id
    }

    fn for_each(&mut self, mut visit: impl FnMut(u32, u32, &mut Tally)) {
        for (left, right, tally) in &mut self.tallies {
            visit(*left, *right, tally);
        }
    }
}
