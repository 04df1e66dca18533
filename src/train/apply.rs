//! One merge step: replaces a pair in the whole text, and updates the pairs around it.
//!
//! A step has three phases. `replace` writes the new token over the live occurrences, ends the old pairs around
//! them, and tallies the neighbours on both sides. Then the count of each new pair is known: `settle` lowers
//! the counts of the old pairs, and keeps the new pairs that are frequent enough. Finally `write` lists the
//! occurrences of the latter. In long steps, threads run the first and the last phase in parallel, on segments
//! of the text.
//!
//! Divides the text into segments in which threads merge a pair independently.

use std::iter::once;
use std::mem;
use std::ops::Range;

use rayon::prelude::*;

use super::arena::{Occurrence, Place, Store};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight, fetch_around};
use super::pairs::{AHEAD, Pairs};
use crate::base::int::{to_usize, truncate_to_u32};

/// Buffers of merge steps, which are kept from step to step.
pub(super) struct Scratch<W> {
    /// One for each segment of the text that a thread merges.
    parts: Vec<Part<W>>,
    /// Maximum number of segments.
    pub(super) most_parts: usize,
    /// The pairs that the last step created.
    pub(super) born: Vec<PairId>,
}

impl<W> Default for Scratch<W> {
    fn default() -> Scratch<W> {
        Scratch { parts: vec![Part::default()], most_parts: 1, born: Vec::new() }
    }
}

/// The result of a merge step in one segment of the text.
struct Part<W> {
    /// Where the pair was merged, in ascending order.
    sites: Vec<Site<W>>,
    /// The tokens to the left of the sites.
    left: Side,
    /// The tokens to the right of the sites.
    right: Side,
    /// Total weight of the merged occurrences.
    merged: u64,
    /// The pair that ended between adjacent sites.
    between: Between,
}

impl<W> Default for Part<W> {
    fn default() -> Part<W> {
        Part {
            sites: Vec::new(),
            left: Side::default(),
            right: Side::default(),
            merged: 0,
            between: Between::default(),
        }
    }
}

impl<W> Part<W> {
    /// Clears the result, and makes space for token ids below `limit`.
    fn begin(&mut self, limit: usize) {
        self.sites.clear();
        self.left.begin(limit);
        self.right.begin(limit);
        (self.merged, self.between) = (0, Between::default());
    }
}

impl<W: Weight + Default> Part<W> {
    /// Writes the ids of the new pairs at their positions, and lists their occurrences. Occurrences of new
    /// pairs that are not kept go to the placeholder entry of the arena.
    fn write<const WHOLE: bool>(&mut self, stretch: Stretch<'_>, spans: &[u32], store: &mut Store<W>) {
        let Stretch { start, cells, .. } = stretch;
        let start = if WHOLE { 0 } else { start };
        let Part { sites, left, right, .. } = self;
        for &Site { position, left: before, right: after, weight } in &*sites {
            let at = to_usize(position) - start;
            if let Some(tally) = left.tallies.get_mut(to_usize(before)) {
                let span = spans[to_usize(tally.token)];
                cells[at - to_usize(span)].pair = tally.born;
                store.write(tally.next_place(), Occurrence { position: position - span, weight });
            }
            if let Some(tally) = right.tallies.get_mut(to_usize(after)) {
                cells[at].pair = tally.born;
                store.write(tally.next_place(), Occurrence { position, weight });
            }
        }
    }
}

/// A position at which the pair was just merged, and the indices of the tallies of its left and right
/// neighbours after the step, or [`NO_TALLY`].
struct Site<W> {
    position: u32,
    left: u32,
    right: u32,
    weight: W,
}

/// Tally index of a separator, which forms no pair, and of a neighbour that another site counts.
const NO_TALLY: u32 = u32::MAX;

/// The distinct tokens on one side of the sites, with the pairs that end there and the pairs with the new token
/// that begin to exist.
#[derive(Default)]
struct Side {
    /// One tally for each distinct token, in order of first appearance.
    tallies: Vec<Tally>,
    /// Index of each token's tally. Valid only if the tally at that index is of this token.
    by_token: Vec<u32>,
    /// By index of a tally in the first segment, the index of the same token's tally here, or [`NO_TALLY`].
    of_first: Vec<u32>,
}

/// What happens to the pairs of one token at one side.
#[derive(Clone, Copy, Default)]
struct Tally {
    token: u32,
    occurrences: u32,
    /// Total weight of the token's occurrences at this side.
    count: u64,
    /// The token's pair with the old token beside it, which ends.
    ended: PairId,
    /// The token's pair with the new token, which is created.
    born: PairId,
    /// Cursor for the next occurrence of the new pair. If the pair is not kept, the placeholder that nobody
    /// reads.
    next: Place,
}

impl Tally {
    /// Keeps the new pair: reserves memory for its occurrences in this segment, in the arena with index
    /// `store`.
    fn keep<W: Weight + Default>(&mut self, born: PairId, pairs: &mut Pairs<W>, store: usize) {
        (self.born, self.next) = (born, pairs.make_room(store, self.occurrences));
    }

    /// Returns the cursor for the next occurrence and advances it. Without a branch: about half of the new
    /// pairs are kept, in no predictable order.
    fn next_place(&mut self) -> Place {
        let next = self.next;
        self.next.index += u32::from(self.born != NOT_KEPT);
        next
    }
}

impl Side {
    /// Counts an occurrence of `token`, at which its pair `ended` with the old token beside it has ended. Returns
    /// the index of the token's tally.
    #[inline]
    fn add(&mut self, token: u32, weight: u64, ended: PairId) -> u32 {
        let at = &mut self.by_token[to_usize(token)];
        match self.tallies.get_mut(to_usize(*at)) {
            Some(tally) if tally.token == token => {
                tally.count += weight;
                tally.occurrences += 1;
            }
            _ => {
                *at = truncate_to_u32(self.tallies.len());
                self.tallies.push(Tally { token, occurrences: 1, count: weight, ended, ..Tally::default() });
            }
        }
        *at
    }

    /// Takes an occurrence back. Returns the pair that it would have ended.
    fn remove(&mut self, tally: u32, weight: u64) -> PairId {
        let tally = &mut self.tallies[to_usize(tally)];
        tally.count -= weight;
        tally.occurrences -= 1;
        tally.ended
    }

    /// Adds the counts of another segment's tallies; the occurrences stay with that segment.
    fn unite(&mut self, other: &mut Side) {
        other.of_first.clear();
        for (number, tally) in (0..).zip(&other.tallies) {
            let at = &mut self.by_token[to_usize(tally.token)];
            match self.tallies.get_mut(to_usize(*at)) {
                Some(known) if known.token == tally.token => known.count += tally.count,
                _ => {
                    *at = truncate_to_u32(self.tallies.len());
                    self.tallies.push(Tally { occurrences: 0, ..*tally });
                }
            }
            let length = other.of_first.len().max(to_usize(*at) + 1);
            other.of_first.resize(length, NO_TALLY);
            other.of_first[to_usize(*at)] = number;
        }
    }

    /// The tally of the same token as tally `number` of the first segment, if the token occurs in this segment.
    fn same(&mut self, number: usize) -> Option<&mut Tally> {
        let own = self.of_first.get(number)?;
        self.tallies.get_mut(to_usize(*own)).filter(|tally| tally.occurrences > 0)
    }

    /// Clears the tallies, and makes space for token ids below `limit`.
    fn begin(&mut self, limit: usize) {
        self.tallies.clear();
        if self.by_token.len() < limit {
            self.by_token.resize(limit.next_power_of_two(), 0);
        }
    }
}

/// Replaces every occurrence of `pair` by `token`, from left to right without overlap, and updates the pairs
/// around it. `corpus` must already know `token`. Afterwards
/// `scratch.born` has the new pairs that are kept.
///
/// Returns the position of the first replacement.
pub(super) fn apply<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    scratch: &mut Scratch<W>,
) -> usize {
    let Scratch { parts, most_parts, born } = scratch;
    let cuts = cuts(pair, corpus, pairs, *most_parts);
    let number = cuts.len() + 1;
    if pairs.stores.len() < number {
        pairs.stores.resize_with(number, Store::default);
    }
    if parts.len() < number {
        parts.resize_with(number, Part::default);
    }
    let parts = &mut parts[..number];
    parts.iter_mut().for_each(|part| part.begin(corpus.lengths.len()));
    replace(pair, token, corpus, pairs, &cuts, parts);
    pairs.free_rooms(pair);
    born.clear();
    let (length, longest) = (corpus.length(token), pairs.keep.longest);
    let fits = |other: u32| corpus.length(other) + length <= longest;
    settle(parts, |part| &mut part.left, |left| (left, token), pairs, fits, born);
    settle(parts, |part| &mut part.right, |right| (token, right), pairs, fits, born);
    // In a run of one token, the merged pair is itself among the pairs that `settle` lowers, so its count is
    // cleared last.
    pairs.ends(pair);
    if !born.is_empty() {
        write(corpus, pairs, &cuts, parts);
    }
    let first = parts.iter().find_map(|part| part.sites.first());
    to_usize(first.expect("a pair that is merged occurs").position)
}

/// Occurrences that are checked together: few enough that their cells stay in the L1 cache.
const BATCH: usize = 32;

/// Writes the new token over each live occurrence, ends the old pairs there, and tallies the neighbours.
fn replace<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    cuts: &[Cut],
    parts: &mut [Part<W>],
) {
    let Corpus { cells, spans, heavy, tokens, .. } = corpus;
    let (spans, left) = (&spans[..], pairs.pair(pair).left);
    let (left_span, span) = (to_usize(spans[to_usize(left)]), to_usize(spans[to_usize(token)]));
    let step = Step { pair, token, left_span, span, spans, heavy, pairs };
    match &mut *parts {
        [only] => step.replace::<true>(only, Stretch::whole(cells)),
        parts => {
            let stretches: Vec<Stretch<'_>> = stretches(cells, cuts).collect();
            let parts = parts.par_iter_mut().zip(stretches);
            parts.for_each(|(part, stretch)| step.replace::<false>(part, stretch));
        }
    }
    for part in &*parts {
        *tokens -= part.merged;
        pairs.lower(part.between.pair, part.between.weight);
    }
    if let [first, others @ ..] = parts {
        for other in others {
            first.left.unite(&mut other.left);
            first.right.unite(&mut other.right);
        }
    }
}

/// Constants of a merge step, the same for all segments.
#[derive(Clone, Copy)]
struct Step<'a, W> {
    pair: PairId,
    token: u32,
    /// Positions that the left token of the pair spans.
    left_span: usize,
    /// Positions that the new token spans.
    span: usize,
    /// Positions that each token spans.
    spans: &'a [u32],
    /// Weights that are too large to be stored in occurrences.
    heavy: &'a [u64],
    pairs: &'a Pairs<W>,
}

impl<W: Weight + Default> Step<'_, W> {
    /// Merges the occurrences in a segment. `WHOLE` says that it is the whole text.
    fn replace<const WHOLE: bool>(&self, part: &mut Part<W>, stretch: Stretch<'_>) {
        let Part { sites, left, right, .. } = part;
        let Stretch { start, cells, occurrences } = stretch;
        let (merged, between) = (0, Between::default());
        let mut walk = Walk::<W, WHOLE> { step: *self, start, cells, sites, left, right, merged, between };
        for occurrences in self.pairs.listed_in(self.pair, occurrences) {
            walk.merge_all(occurrences);
        }
        (part.merged, part.between) = (walk.merged, walk.between);
    }
}

/// The walk of a merge step through the occurrences in a segment of the text.
struct Walk<'a, W, const WHOLE: bool> {
    /// A copy, so that the compiler knows that no write through the other fields changes it.
    step: Step<'a, W>,
    /// Position of the first cell.
    start: usize,
    cells: &'a mut [Cell],
    /// The results of the segment so far: see [`Part`].
    sites: &'a mut Vec<Site<W>>,
    left: &'a mut Side,
    right: &'a mut Side,
    /// Total weight of the occurrences merged so far.
    merged: u64,
    between: Between,
}

/// The pair (right token, left token), which ends where two merged occurrences are adjacent.
#[derive(Default)]
struct Between {
    pair: PairId,
    weight: u64,
}

impl<W: Weight + Default, const WHOLE: bool> Walk<'_, W, WHOLE> {
    /// Merges the live ones of these occurrences, from left to right.
    fn merge_all(&mut self, occurrences: &[Occurrence<W>]) {
        let mut room = [Occurrence::default(); BATCH];
        for start in (0..occurrences.len()).step_by(BATCH) {
            for occurrence in self.live(occurrences, start, &mut room) {
                // In a run of one token, each merge ends the occurrence that overlaps it, so this is checked
                // again.
                if self.cells[self.place(*occurrence)].pair == self.step.pair {
                    self.merge(*occurrence, occurrence.weight.value(self.step.heavy));
                }
            }
        }
    }

    /// Index of the cell of an occurrence.
    #[inline(always)]
    fn place(&self, occurrence: Occurrence<W>) -> usize {
        to_usize(occurrence.position) - if WHOLE { 0 } else { self.start }
    }

    /// The live ones among the next [`BATCH`] occurrences from `start` on. Selected without a branch, because
    /// about half are live, in no predictable order.
    #[inline]
    fn live<'r>(
        &self,
        occurrences: &[Occurrence<W>],
        start: usize,
        room: &'r mut [Occurrence<W>; BATCH],
    ) -> &'r [Occurrence<W>] {
        let mut live = 0;
        for (number, occurrence) in (start..).zip(&occurrences[start..]).take(BATCH) {
            if let Some(later) = occurrences.get(number + AHEAD) {
                fetch_around(self.cells, self.place(*later), self.step.span);
            }
            room[live] = *occurrence;
            live += usize::from(self.cells[self.place(*occurrence)].pair == self.step.pair);
        }
        &room[..live]
    }

    /// Merges one occurrence.
    #[inline]
    fn merge(&mut self, occurrence: Occurrence<W>, weight: u64) {
        let position = self.place(occurrence);
        let ended = self.end_pair(position + self.step.left_span);
        self.cells[position] = Cell { token: self.step.token, pair: NOT_KEPT };
        self.cells[position + self.step.span - 1].token = self.step.token;
        self.merged += weight;
        let before = self.cells[position - 1].token;
        let after = self.cells[position + self.step.span].token;
        let mut left = NO_TALLY;
        if before == self.step.token {
            self.join(weight);
        } else if before != SEPARATOR {
            let ended = self.end_pair(position - to_usize(self.step.spans[to_usize(before)]));
            left = self.left.add(before, weight, ended);
        }
        let right = if after == SEPARATOR { NO_TALLY } else { self.right.add(after, weight, ended) };
        let Occurrence { position, weight } = occurrence;
        self.sites.push(Site { position, left, right, weight });
    }

    /// Clears the pair id at a position and returns it.
    #[inline]
    fn end_pair(&mut self, position: usize) -> PairId {
        std::mem::replace(&mut self.cells[position].pair, NOT_KEPT)
    }

    /// Two merged occurrences are adjacent. The first one has the new token at its right, and not the left
    /// token, as it seemed when it was merged. Their new pair is counted at the first site alone.
    fn join(&mut self, weight: u64) {
        let first = self.sites.last_mut().expect("the token before was made in this step");
        self.between.pair = self.right.remove(first.right, weight);
        self.between.weight += weight;
        first.right = self.right.add(self.step.token, weight, NOT_KEPT);
    }
}

/// Lowers the counts of the pairs that ended at one side, and keeps the new pairs that are worth it.
fn settle<W: Weight + Default>(
    parts: &mut [Part<W>],
    side: impl Fn(&mut Part<W>) -> &mut Side,
    with_new: impl Fn(u32) -> (u32, u32),
    pairs: &mut Pairs<W>,
    fits: impl Fn(u32) -> bool,
    born: &mut Vec<PairId>,
) {
    let Some((first, others)) = parts.split_first_mut() else { return };
    let threshold = pairs.keep.threshold;
    for (number, tally) in side(first).tallies.iter_mut().enumerate() {
        pairs.lower(tally.ended, tally.count);
        if tally.count < threshold || !fits(tally.token) {
            continue;
        }
        let (left, right) = with_new(tally.token);
        let id = pairs.add(left, right, tally.count);
        born.push(id);
        if tally.occurrences > 0 {
            tally.keep(id, pairs, 0);
        }
        for (store, other) in (1..).zip(&mut *others) {
            if let Some(tally) = side(other).same(number) {
                tally.keep(id, pairs, store);
            }
        }
    }
}

/// Writes the ids of the new pairs at their positions, and lists their occurrences, in all segments.
fn write<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    cuts: &[Cut],
    parts: &mut [Part<W>],
) {
    let Corpus { cells, spans, .. } = corpus;
    match &mut *parts {
        [only] => only.write::<true>(Stretch::whole(cells), spans, &mut pairs.stores[0]),
        parts => {
            let stretches: Vec<Stretch<'_>> = stretches(cells, cuts).collect();
            let parts = parts.par_iter_mut().zip(stretches).zip(&mut pairs.stores);
            parts.for_each(|((part, stretch), store)| part.write::<false>(stretch, spans, store));
        }
    }
}

/// Minimum occurrences of a pair in a segment. A shorter segment would be merged before another thread has even
/// started on it.
const LEAST: usize = if cfg!(test) { 2 } else { 1 << 12 };

/// Occurrences that are searched for one cut.
const LOOKED_AT: usize = 1 << 8;

/// Where one segment of the text ends and the next begins.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Position of the first cell after the cut.
    position: usize,
    /// Number of listed occurrences of the pair before the cut.
    occurrences: usize,
}

/// A segment of the text, which one thread merges.
pub(super) struct Stretch<'a> {
    /// Position of the first cell.
    pub(super) start: usize,
    pub(super) cells: &'a mut [Cell],
    /// Indices of the pair's listed occurrences in the segment.
    pub(super) occurrences: Range<usize>,
}

impl<'a> Stretch<'a> {
    /// The whole text as one segment.
    pub(super) fn whole(cells: &'a mut [Cell]) -> Stretch<'a> {
        Stretch { start: 0, cells, occurrences: 0..usize::MAX }
    }
}

/// Whether merging a pair is worth sharing between threads.
pub(super) fn is_long<W: Weight + Default>(pair: PairId, pairs: &Pairs<W>) -> bool {
    pairs.listed(pair) >= 2 * LEAST
}

/// Finds cuts between segments of the text, in which threads can merge a pair independently. Each cut is
/// between two occurrences whose neighbours are different tokens, so that every cell is read and written in one
/// segment alone. Gives at most `most` segments, fewer if more are not worth it.
pub(super) fn cuts<W: Weight + Default>(
    pair: PairId,
    corpus: &Corpus<W>,
    pairs: &Pairs<W>,
    most: usize,
) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    if most == 1 {
        return cuts;
    }
    let listed = pairs.listed(pair);
    let parts = most.min(listed / LEAST);
    for part in 1..parts {
        let first = cuts.last().map_or(0, |cut| cut.occurrences).max(listed * part / parts);
        cuts.extend(cut(pair, first..listed.min(first + LOOKED_AT), corpus, pairs));
    }
    cuts
}

/// A cut between two of these occurrences, if one is found.
fn cut<W: Weight + Default>(
    pair: PairId,
    occurrences: Range<usize>,
    corpus: &Corpus<W>,
    pairs: &Pairs<W>,
) -> Option<Cut> {
    let span = |token: u32| to_usize(corpus.spans[to_usize(token)]);
    let parts = pairs.pair(pair);
    let length = span(parts.left) + span(parts.right);
    let mut after = usize::MAX;
    for (number, occurrence) in occurrences.clone().zip(pairs.listed_in(pair, occurrences).flatten()) {
        let position = to_usize(occurrence.position);
        // The cell before an occurrence that is no longer live may be stale.
        if corpus.cells[position].pair == pair {
            let before = corpus.cells[position - 1].token;
            let start = position - if before == SEPARATOR { 1 } else { span(before) };
            if after < start {
                return Some(Cut { position: start, occurrences: number });
            }
        }
        after = position + length;
    }
    None
}

/// Divides the text at the cuts.
pub(super) fn stretches<'a>(cells: &'a mut [Cell], cuts: &[Cut]) -> impl Iterator<Item = Stretch<'a>> {
    let end = Cut { position: cells.len(), occurrences: usize::MAX };
    let (mut rest, mut last) = (cells, Cut { position: 0, occurrences: 0 });
    cuts.iter().copied().chain(once(end)).map(move |cut| {
        let (cells, behind) = mem::take(&mut rest).split_at_mut(cut.position - last.position);
        let stretch = Stretch { start: last.position, cells, occurrences: last.occurrences..cut.occurrences };
        (rest, last) = (behind, cut);
        stretch
    })
}
