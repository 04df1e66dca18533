use rustc_hash::FxHashMap;

use super::apply::Keep;
use super::corpus::{Corpus, SEPARATOR};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::{low32, place};

/// Names a pair that is kept in [`Pairs`]; [`NOT_KEPT`] is none.
pub(super) type PairId = u32;

/// Stands where no pair is kept: at the last token of a sequence, inside a token, and for pairs that
/// occur too seldom to matter.
pub(super) const NOT_KEPT: PairId = 0;

/// The observer is asked whether to stop after so many positions, some tens of milliseconds.
const POSITIONS_A_CHECK: usize = 1 << 22;

/// A pair of tokens and where it occurred when it was born.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) left: u32,
    pub(super) right: u32,
    start: usize,
    occurrences: u32,
}

/// The pairs worth keeping, their counts, and where they occur.
///
/// After the step that creates the newer of its two tokens a pair's count only falls, because an
/// occurrence can only appear where one of its tokens is written. So the positions of a pair are
/// written once, all in one step, ascending, into one arena; and a pair that is born below the
/// threshold need not be kept at all.
///
/// The pair that begins at a position is named there (`at`): what a merge does to its neighbours'
/// counts needs no look-up by tokens, and an occurrence is live exactly if its position still names
/// its pair.
///
/// **Memory:** 4 bytes a position for `at`, 4 for the positions at first, and at most 8 more as merges
/// go, since every merged occurrence writes two.
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    counts: Vec<u64>,
    positions: Vec<u32>,
    at: Vec<PairId>,
}

impl Pairs {
    /// Finds the pairs of the text as it stands that are worth keeping.
    ///
    /// # Errors
    /// The observer wants to stop.
    pub(super) fn find(
        corpus: &Corpus,
        lengths: &[u32],
        keep: Keep,
        observer: &dyn Observer,
    ) -> Result<Pairs> {
        let mut found = Pairs {
            pairs: vec![Pair { left: SEPARATOR, right: SEPARATOR, start: 0, occurrences: 0 }],
            counts: vec![0],
            positions: Vec::new(),
            at: vec![NOT_KEPT; corpus.text.len()],
        };
        found.tally(corpus, lengths, observer)?;
        found.drop_rare(keep.threshold, |pair| {
            place(lengths[place(pair.left)]) + place(lengths[place(pair.right)]) <= keep.longest
        });
        found.write_positions(corpus, lengths, observer)?;
        Ok(found)
    }

    /// Names the pair at every position, and counts.
    fn tally(&mut self, corpus: &Corpus, lengths: &[u32], observer: &dyn Observer) -> Result<()> {
        let mut ids = PairIds::new(lengths.len());
        for_each_pair(corpus, lengths, observer, |position, left, right| {
            let next = low32(self.pairs.len());
            let id = ids.get_or_insert(left, right, next);
            if id == next {
                self.pairs.push(Pair { left, right, start: 0, occurrences: 0 });
                self.counts.push(0);
            }
            self.at[position] = id;
            self.counts[place(id)] += corpus.weight(position);
            self.pairs[place(id)].occurrences += 1;
        })
    }

    /// Renumbers the pairs so that only those worth keeping are left.
    fn drop_rare(&mut self, threshold: u64, wanted: impl Fn(&Pair) -> bool) {
        let mut renumbered = vec![NOT_KEPT; self.pairs.len()];
        let (mut kept, mut start) = (1, 0);
        for (id, renumbered) in renumbered.iter_mut().enumerate().skip(1) {
            let pair = self.pairs[id];
            if self.counts[id] >= threshold && wanted(&pair) {
                self.pairs[kept] = Pair { start, ..pair };
                self.counts[kept] = self.counts[id];
                *renumbered = low32(kept);
                start += place(pair.occurrences);
                kept += 1;
            }
        }
        self.pairs.truncate(kept);
        self.counts.truncate(kept);
        for id in &mut self.at {
            *id = renumbered[place(*id)];
        }
    }

    fn write_positions(&mut self, corpus: &Corpus, lengths: &[u32], observer: &dyn Observer) -> Result<()> {
        let mut ends: Vec<usize> = self.pairs.iter().map(|pair| pair.start).collect();
        let total = self.pairs.iter().map(|pair| place(pair.occurrences)).sum();
        self.positions = vec![0; total];
        for_each_pair(corpus, lengths, observer, |position, _, _| {
            let id = self.at[position];
            if id != NOT_KEPT {
                let end = &mut ends[place(id)];
                self.positions[*end] = low32(position);
                *end += 1;
            }
        })
    }

    /// Adds a pair that has just come to be, with room for its positions, and says where they go.
    pub(super) fn add(&mut self, left: u32, right: u32, count: u64, occurrences: u32) -> (PairId, usize) {
        let id = low32(self.pairs.len());
        let start = self.positions.len();
        self.pairs.push(Pair { left, right, start, occurrences });
        self.counts.push(count);
        self.positions.resize(start + place(occurrences), 0);
        (id, start)
    }

    /// Writes one position of a pair into the room that [`add`](Self::add) made.
    pub(super) fn write(&mut self, slot: usize, position: usize) {
        self.positions[slot] = low32(position);
    }

    pub(super) fn pair(&self, id: PairId) -> Pair {
        self.pairs[place(id)]
    }

    pub(super) fn count(&self, id: PairId) -> u64 {
        self.counts[place(id)]
    }

    /// The kept pairs.
    pub(super) fn ids(&self) -> impl Iterator<Item = PairId> {
        1..low32(self.pairs.len())
    }

    /// The pair that begins at a position.
    pub(super) fn at(&self, position: usize) -> PairId {
        self.at[position]
    }

    /// Names the pair that begins at a position from now on.
    pub(super) fn set(&mut self, position: usize, id: PairId) {
        self.at[position] = id;
    }

    /// The pair at a position occurs less often by `weight`.
    ///
    /// Wraps for [`NOT_KEPT`] alone, whose count means nothing.
    pub(super) fn lower(&mut self, position: usize, weight: u64) {
        let count = &mut self.counts[place(self.at[position])];
        *count = count.wrapping_sub(weight);
    }

    /// Where a pair's positions lie, for [`position`](Self::position).
    pub(super) fn slots(&self, id: PairId) -> std::ops::Range<usize> {
        let pair = self.pairs[place(id)];
        pair.start..pair.start + place(pair.occurrences)
    }

    pub(super) fn position(&self, slot: usize) -> usize {
        place(self.positions[slot])
    }

    /// Where a pair occurs first in the text as it stands. It must occur.
    pub(super) fn first_position(&self, id: PairId) -> u32 {
        let positions = &self.positions[self.slots(id)];
        let live = positions.iter().find(|&&position| self.at[place(position)] == id);
        *live.expect("a pair with a count above zero occurs somewhere")
    }
}

/// Calls back with the position, left and right token of every pair of neighbours in the text, unless
/// the observer wants to stop.
fn for_each_pair(
    corpus: &Corpus,
    lengths: &[u32],
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, u32, u32),
) -> Result<()> {
    let text = &corpus.text;
    let (mut position, mut check) = (0, 0);
    while position + 1 < text.len() {
        if position >= check {
            observer.checkpoint()?;
            check = position + POSITIONS_A_CHECK;
        }
        let left = text[position];
        if left == SEPARATOR {
            position += 1;
            continue;
        }
        let next = position + place(lengths[place(left)]);
        let right = text[next];
        if right != SEPARATOR {
            visit(position, left, right);
        }
        position = next;
    }
    Ok(())
}

/// Pair ids by their tokens: a dense table for bytes, a hash table for anything more.
enum PairIds {
    Dense(Vec<PairId>),
    Sparse(FxHashMap<(u32, u32), PairId>),
}

impl PairIds {
    fn new(tokens: usize) -> PairIds {
        if tokens <= 256 {
            PairIds::Dense(vec![NOT_KEPT; 1 << 16])
        } else {
            PairIds::Sparse(FxHashMap::default())
        }
    }

    /// The pair's id, which is `next` if it had none.
    fn get_or_insert(&mut self, left: u32, right: u32, next: PairId) -> PairId {
        match self {
            PairIds::Dense(table) => {
                let id = &mut table[place(left << 8 | right)];
                if *id == NOT_KEPT {
                    *id = next;
                }
                *id
            }
            PairIds::Sparse(table) => *table.entry((left, right)).or_insert(next),
        }
    }
}
