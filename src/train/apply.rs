//! One merge step: replaces a pair in the whole text, and updates the pairs around it.
//!
//! [`KeptPairs`] describes what a step changes: counts of pairs and lists of their occurrences. A listed occurrence
//! is *live* if the cell at its position still has the id of the pair. A pair *ends* at a position when one of its
//! two tokens there becomes part of another token; its id is then taken out of the cell. A pair is *kept* if it is
//! frequent enough to be merged later: it gets an id and a list of its occurrences.
//!
//! A step has three phases. `replace` writes the new token over the live occurrences, ends the old pairs around
//! them, and counts the neighbours on both sides. Then the count of each new pair is known: `update_counts`
//! lowers the counts of the old pairs, and keeps the new pairs that are frequent enough. Finally `list_created`
//! lists the occurrences of the new pairs that are kept. In long steps, threads run the first and the last phase in
//! parallel, on segments of the text.

use std::iter::once;
use std::mem;
use std::ops::Range;

use rayon::prelude::*;

use super::arena::{Arena, Cursor, Occurrence};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight, prefetch_around};
use super::pairs::{KeptPairs, PREFETCH_DISTANCE, Pair};
use crate::base::int::{to_usize, truncate_to_u32};

/// Buffers of merge steps, which are kept from step to step.
pub(super) struct MergeScratch<W> {
    /// One for each segment of the text that a thread merges.
    results: Vec<SegmentResult<W>>,
    /// Maximum number of segments.
    pub(super) max_segments: usize,
    /// The pairs that the last step created.
    pub(super) created: Vec<PairId>,
}

impl<W: Default> Default for MergeScratch<W> {
    fn default() -> MergeScratch<W> {
        MergeScratch { results: vec![SegmentResult::default()], max_segments: 1, created: Vec::new() }
    }
}

/// The result of a merge step in one segment of the text.
#[derive(Default)]
struct SegmentResult<W> {
    /// Where the pair was merged, in ascending order.
    sites: Vec<MergeSite<W>>,
    /// The tokens to the left of the sites.
    left: NeighbourTable,
    /// The tokens to the right of the sites.
    right: NeighbourTable,
    /// Total weight of the merged occurrences.
    merged: u64,
    /// The pair of the right and the left token of the merged pair, and how often it ended between adjacent sites.
    between: EndedBetween,
}

impl<W> SegmentResult<W> {
    /// Clears the result, and makes space for token ids below `limit`.
    fn reset(&mut self, limit: usize) {
        self.sites.clear();
        self.left.reset(limit);
        self.right.reset(limit);
        (self.merged, self.between) = (0, EndedBetween::default());
    }
}

impl<W: Weight + Default> SegmentResult<W> {
    /// Writes the id of each new pair into the cells where it begins, and its occurrences into its list.
    ///
    /// A new pair that is not kept has the id [`NOT_KEPT`] and no list. To save a branch, its occurrences are written
    /// all the same, all of them to the first entry of the arena's first block, a placeholder that nobody reads.
    fn list_created<const WHOLE: bool>(
        &mut self,
        segment: Segment<'_>,
        widths: &[u32],
        arena: &mut Arena<W>,
    ) {
        let Segment { start, cells, .. } = segment;
        let start = if WHOLE { 0 } else { start };
        let SegmentResult { sites, left, right, .. } = self;
        for &MergeSite { position, left: before, right: after, weight } in &*sites {
            let at = to_usize(position) - start;
            if let Some(neighbour) = left.neighbours.get_mut(to_usize(before)) {
                let width = widths[to_usize(neighbour.token)];
                cells[at - to_usize(width)].pair = neighbour.created;
                arena.write(neighbour.next_cursor(), Occurrence { position: position - width, weight });
            }
            if let Some(neighbour) = right.neighbours.get_mut(to_usize(after)) {
                cells[at].pair = neighbour.created;
                arena.write(neighbour.next_cursor(), Occurrence { position, weight });
            }
        }
    }
}

/// A merged occurrence of the pair. Its position is where the new token begins.
struct MergeSite<W> {
    position: u32,
    /// Index, in the segment's left table, of the token before the new token; or [`NO_NEIGHBOUR`].
    left: u32,
    /// Index, in the segment's right table, of the token after the new token; or [`NO_NEIGHBOUR`]. If another site
    /// follows directly, that token is the new token as well.
    right: u32,
    /// The weight of the sequence.
    weight: W,
}

/// Stands for a missing index. A site has it for a neighbour that is a separator, since separators form no pairs. It
/// also has it for a left neighbour that is the new token of another site: that site counts their pair.
const NO_NEIGHBOUR: u32 = u32::MAX;

/// The distinct tokens on one side of the sites, with the pairs that end there and the pairs with the new token
/// that begin to exist.
#[derive(Default)]
struct NeighbourTable {
    /// The distinct tokens, in order of first appearance.
    neighbours: Vec<Neighbour>,
    /// Index of each token in `neighbours`. Valid only if the entry at that index is of this token.
    by_token: Vec<u32>,
    /// The index here of each token, by its index in the table of the first segment; [`NO_NEIGHBOUR`] if this table
    /// lacks the token. May end before the last such index. Not used in the first segment.
    by_first_segment: Vec<u32>,
}

/// What happens to the pairs of one token at one side.
#[derive(Clone, Copy, Default)]
struct Neighbour {
    token: u32,
    /// Number of the token's occurrences at this side, without weights.
    occurrences: u32,
    /// Total weight of the token's occurrences at this side.
    count: u64,
    /// The token's pair with the old token beside it, which ends.
    ended: PairId,
    /// The token's pair with the new token, which is created.
    created: PairId,
    /// Cursor for the next occurrence of the new pair. If the pair is not kept, the placeholder that nobody
    /// reads.
    next: Cursor,
}

impl Neighbour {
    /// Keeps the new pair: reserves memory for its occurrences in this segment, in the arena with index
    /// `arena`.
    fn keep<W: Weight + Default>(&mut self, created: PairId, pairs: &mut KeptPairs<W>, arena: usize) {
        (self.created, self.next) = (created, pairs.reserve(arena, self.occurrences));
    }

    /// Returns the cursor for the next occurrence and advances it. Without a branch: about half of the new
    /// pairs are kept, in no predictable order.
    fn next_cursor(&mut self) -> Cursor {
        let next = self.next;
        self.next.index += u32::from(self.created != NOT_KEPT);
        next
    }
}

impl NeighbourTable {
    /// Counts an occurrence of `token`, at which its pair `ended` with the old token beside it has ended. Returns
    /// the index of the token.
    #[inline]
    fn add(&mut self, token: u32, weight: u64, ended: PairId) -> u32 {
        let at = &mut self.by_token[to_usize(token)];
        match self.neighbours.get_mut(to_usize(*at)) {
            Some(neighbour) if neighbour.token == token => {
                neighbour.count += weight;
                neighbour.occurrences += 1;
            }
            _ => {
                *at = truncate_to_u32(self.neighbours.len());
                self.neighbours.push(Neighbour {
                    token,
                    occurrences: 1,
                    count: weight,
                    ended,
                    ..Neighbour::default()
                });
            }
        }
        *at
    }

    /// Takes back an occurrence that [`add`](NeighbourTable::add) has counted, of the token with the index
    /// `neighbour`. Returns the token's pair with the old token beside it.
    fn remove(&mut self, neighbour: u32, weight: u64) -> PairId {
        let neighbour = &mut self.neighbours[to_usize(neighbour)];
        neighbour.count -= weight;
        neighbour.occurrences -= 1;
        neighbour.ended
    }

    /// Adds the counts of another segment's table to this table, which is that of the first segment and so gets the
    /// counts of the whole text. Numbers of occurrences are not added, because each segment lists its own. The other
    /// table gets its `by_first_segment`.
    fn add_segment(&mut self, other: &mut NeighbourTable) {
        other.by_first_segment.clear();
        for (number, neighbour) in (0..).zip(&other.neighbours) {
            let at = &mut self.by_token[to_usize(neighbour.token)];
            match self.neighbours.get_mut(to_usize(*at)) {
                Some(known) if known.token == neighbour.token => known.count += neighbour.count,
                _ => {
                    *at = truncate_to_u32(self.neighbours.len());
                    self.neighbours.push(Neighbour { occurrences: 0, ..*neighbour });
                }
            }
            let length = other.by_first_segment.len().max(to_usize(*at) + 1);
            other.by_first_segment.resize(length, NO_NEIGHBOUR);
            other.by_first_segment[to_usize(*at)] = number;
        }
    }

    /// This table's entry for the token that has the index `number` in the table of the first segment; `None` if this
    /// segment has no occurrence of the token.
    fn of_first_segment(&mut self, number: usize) -> Option<&mut Neighbour> {
        let own = self.by_first_segment.get(number)?;
        self.neighbours.get_mut(to_usize(*own)).filter(|neighbour| neighbour.occurrences > 0)
    }

    /// Clears the table, and makes space for token ids below `limit`.
    fn reset(&mut self, limit: usize) {
        self.neighbours.clear();
        if self.by_token.len() < limit {
            self.by_token.resize(limit.next_power_of_two(), 0);
        }
    }
}

/// Replaces every occurrence of `pair` by `token`, from left to right without overlap, and updates the pairs
/// around it. `corpus` must already have the width and the length of `token`. Afterwards `scratch.created` has the
/// new pairs that are kept.
///
/// Returns the position of the first replacement.
pub(super) fn apply<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut KeptPairs<W>,
    scratch: &mut MergeScratch<W>,
) -> usize {
    let MergeScratch { results, max_segments, created } = scratch;
    let cuts = cuts(pair, corpus, pairs, *max_segments);
    let number = cuts.len() + 1;
    if pairs.arenas.len() < number {
        pairs.arenas.resize_with(number, Arena::default);
    }
    if results.len() < number {
        results.resize_with(number, SegmentResult::default);
    }
    let results = &mut results[..number];
    results.iter_mut().for_each(|result| result.reset(corpus.lengths.len()));
    replace(pair, token, corpus, pairs, &cuts, results);
    pairs.free_spans(pair);
    created.clear();
    let (length, longest) = (corpus.length(token), pairs.keep.longest);
    let fits = |other: u32, (left, right): (u32, u32)| {
        corpus.length(other) + length <= longest && corpus.words_allow(left, right)
    };
    update_counts(results, |result| &mut result.left, |left| (left, token), pairs, fits, created);
    update_counts(results, |result| &mut result.right, |right| (token, right), pairs, fits, created);
    // In a run such as `aaaa`, merging the first two tokens ends the occurrence of `aa` in the middle. So the counts
    // that were lowered include that of the merged pair, and it is cleared only now.
    pairs.clear_count(pair);
    if !created.is_empty() {
        list_created(corpus, pairs, &cuts, results);
    }
    let first = results.iter().find_map(|result| result.sites.first());
    to_usize(first.expect("a pair that is merged occurs").position)
}

/// Occurrences that are checked together: few enough that their cells stay in the L1 cache.
const OCCURRENCES_PER_BATCH: usize = 32;

/// Writes the new token over each live occurrence, ends the old pairs there, and counts the neighbours.
fn replace<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut KeptPairs<W>,
    cuts: &[SegmentCut],
    results: &mut [SegmentResult<W>],
) {
    let Corpus { cells, widths, heavy, tokens, .. } = corpus;
    let (widths, left) = (&widths[..], pairs.pair(pair).left);
    let (left_width, width) = (to_usize(widths[to_usize(left)]), to_usize(widths[to_usize(token)]));
    let step = MergeStep { pair, token, left_width, width, widths, heavy, pairs };
    match &mut *results {
        [only] => step.replace::<true>(only, Segment::whole(cells)),
        results => {
            let segments: Vec<Segment<'_>> = split_at_cuts(cells, cuts).collect();
            let results = results.par_iter_mut().zip(segments);
            results.for_each(|(result, segment)| step.replace::<false>(result, segment));
        }
    }
    for result in &*results {
        *tokens -= result.merged;
        pairs.lower_count(result.between.pair, result.between.weight);
    }
    if let [first, others @ ..] = results {
        for other in others {
            first.left.add_segment(&mut other.left);
            first.right.add_segment(&mut other.right);
        }
    }
}

/// Constants of a merge step, the same for all segments.
#[derive(Clone, Copy)]
struct MergeStep<'a, W> {
    pair: PairId,
    token: u32,
    /// Positions that the left token of the pair spans.
    left_width: usize,
    /// Positions that the new token spans.
    width: usize,
    /// Positions that each token spans.
    widths: &'a [u32],
    /// Weights that are too large to be stored in occurrences.
    heavy: &'a [u64],
    pairs: &'a KeptPairs<W>,
}

impl<W: Weight + Default> MergeStep<'_, W> {
    /// Merges the occurrences in a segment. `WHOLE` says that it is the whole text.
    fn replace<const WHOLE: bool>(&self, result: &mut SegmentResult<W>, segment: Segment<'_>) {
        let SegmentResult { sites, left, right, .. } = result;
        let Segment { start, cells, occurrences } = segment;
        let (merged, between) = (0, EndedBetween::default());
        let mut merger =
            SegmentMerger::<W, WHOLE> { step: *self, start, cells, sites, left, right, merged, between };
        for occurrences in self.pairs.listed_in(self.pair, occurrences) {
            merger.merge_all(occurrences);
        }
        (result.merged, result.between) = (merger.merged, merger.between);
    }
}

/// The walk of a merge step through the occurrences in a segment of the text.
struct SegmentMerger<'a, W, const WHOLE: bool> {
    /// A copy, so that the compiler knows that no write through the other fields changes it.
    step: MergeStep<'a, W>,
    /// Position of the first cell.
    start: usize,
    cells: &'a mut [Cell],
    /// The results of the segment so far: see [`SegmentResult`].
    sites: &'a mut Vec<MergeSite<W>>,
    left: &'a mut NeighbourTable,
    right: &'a mut NeighbourTable,
    /// Total weight of the occurrences merged so far.
    merged: u64,
    between: EndedBetween,
}

/// The pair (right token, left token), which ends where two merged occurrences are adjacent.
#[derive(Default)]
struct EndedBetween {
    pair: PairId,
    /// Total weight of the places where it ended.
    weight: u64,
}

impl<W: Weight + Default, const WHOLE: bool> SegmentMerger<'_, W, WHOLE> {
    /// Merges the live ones of these occurrences, from left to right.
    fn merge_all(&mut self, occurrences: &[Occurrence<W>]) {
        let mut buffer = [Occurrence::default(); OCCURRENCES_PER_BATCH];
        for start in (0..occurrences.len()).step_by(OCCURRENCES_PER_BATCH) {
            for occurrence in self.live(occurrences, start, &mut buffer) {
                // In a run of one token, each merge ends the occurrence that overlaps it, so this is checked
                // again.
                if self.cells[self.cell_index(*occurrence)].pair == self.step.pair {
                    self.merge(*occurrence, occurrence.weight.value(self.step.heavy));
                }
            }
        }
    }

    /// Index of the cell of an occurrence.
    #[inline(always)]
    fn cell_index(&self, occurrence: Occurrence<W>) -> usize {
        to_usize(occurrence.position) - if WHOLE { 0 } else { self.start }
    }

    /// The live ones among the next [`OCCURRENCES_PER_BATCH`] occurrences from `start` on. Selected without a
    /// branch, because about half are live, in no predictable order.
    #[inline]
    fn live<'r>(
        &self,
        occurrences: &[Occurrence<W>],
        start: usize,
        buffer: &'r mut [Occurrence<W>; OCCURRENCES_PER_BATCH],
    ) -> &'r [Occurrence<W>] {
        let mut live = 0;
        for (number, occurrence) in (start..).zip(&occurrences[start..]).take(OCCURRENCES_PER_BATCH) {
            if let Some(later) = occurrences.get(number + PREFETCH_DISTANCE) {
                prefetch_around(self.cells, self.cell_index(*later), self.step.width);
            }
            buffer[live] = *occurrence;
            live += usize::from(self.cells[self.cell_index(*occurrence)].pair == self.step.pair);
        }
        &buffer[..live]
    }

    /// Merges one occurrence.
    #[inline]
    fn merge(&mut self, occurrence: Occurrence<W>, weight: u64) {
        let position = self.cell_index(occurrence);
        let ended = self.end_pair(position + self.step.left_width);
        self.cells[position] = Cell { token: self.step.token, pair: NOT_KEPT };
        self.cells[position + self.step.width - 1].token = self.step.token;
        self.merged += weight;
        let before = self.cells[position - 1].token;
        let after = self.cells[position + self.step.width].token;
        let mut left = NO_NEIGHBOUR;
        if before == self.step.token {
            self.join_adjacent(weight);
        } else if before != SEPARATOR {
            let ended = self.end_pair(position - to_usize(self.step.widths[to_usize(before)]));
            left = self.left.add(before, weight, ended);
        }
        let right = if after == SEPARATOR { NO_NEIGHBOUR } else { self.right.add(after, weight, ended) };
        let Occurrence { position, weight } = occurrence;
        self.sites.push(MergeSite { position, left, right, weight });
    }

    /// Clears the pair id at a position and returns it.
    #[inline]
    fn end_pair(&mut self, position: usize) -> PairId {
        std::mem::replace(&mut self.cells[position].pair, NOT_KEPT)
    }

    /// Corrects the last site when the next occurrence, directly after it, is merged too.
    ///
    /// When the last site was merged, the token after it was still the left token of the next occurrence, and was
    /// counted as its right neighbour. Now that is the new token. So the left token is taken back, and the new token
    /// counted instead. This also counts the pair of the two new tokens, so the next site does not count it at its
    /// left.
    fn join_adjacent(&mut self, weight: u64) {
        let first = self.sites.last_mut().expect("the token before was made in this step");
        self.between.pair = self.right.remove(first.right, weight);
        self.between.weight += weight;
        first.right = self.right.add(self.step.token, weight, NOT_KEPT);
    }
}

/// Lowers the counts of the pairs that ended at one side, and keeps the new pairs that are worth it.
fn update_counts<W: Weight + Default>(
    results: &mut [SegmentResult<W>],
    side: impl Fn(&mut SegmentResult<W>) -> &mut NeighbourTable,
    with_new: impl Fn(u32) -> (u32, u32),
    pairs: &mut KeptPairs<W>,
    fits: impl Fn(u32, (u32, u32)) -> bool,
    created: &mut Vec<PairId>,
) {
    let Some((first, others)) = results.split_first_mut() else { return };
    let threshold = pairs.keep.threshold;
    for (number, neighbour) in side(first).neighbours.iter_mut().enumerate() {
        pairs.lower_count(neighbour.ended, neighbour.count);
        let (left, right) = with_new(neighbour.token);
        if neighbour.count < threshold || !fits(neighbour.token, (left, right)) {
            continue;
        }
        let id = pairs.add(left, right, neighbour.count);
        created.push(id);
        if neighbour.occurrences > 0 {
            neighbour.keep(id, pairs, 0);
        }
        for (arena, other) in (1..).zip(&mut *others) {
            if let Some(neighbour) = side(other).of_first_segment(number) {
                neighbour.keep(id, pairs, arena);
            }
        }
    }
}

/// Writes the ids of the new pairs at their positions, and lists their occurrences, in all results.
fn list_created<W: Weight + Default>(
    corpus: &mut Corpus<W>,
    pairs: &mut KeptPairs<W>,
    cuts: &[SegmentCut],
    results: &mut [SegmentResult<W>],
) {
    let Corpus { cells, widths, .. } = corpus;
    match &mut *results {
        [only] => only.list_created::<true>(Segment::whole(cells), widths, &mut pairs.arenas[0]),
        results => {
            let segments: Vec<Segment<'_>> = split_at_cuts(cells, cuts).collect();
            let results = results.par_iter_mut().zip(segments).zip(&mut pairs.arenas);
            results
                .for_each(|((result, segment), arena)| result.list_created::<false>(segment, widths, arena));
        }
    }
}

/// Minimum occurrences of a pair in a segment. A shorter segment would be merged before another thread has even
/// started on it.
const MIN_SEGMENT: usize = if cfg!(test) { 2 } else { 1 << 12 };

/// Occurrences that are searched for one cut.
const CUT_SEARCH: usize = 1 << 8;

/// Where one segment of the text ends and the next begins.
#[derive(Clone, Copy)]
pub(super) struct SegmentCut {
    /// Position of the first cell after the cut.
    position: usize,
    /// Number of listed occurrences of the pair before the cut.
    occurrences: usize,
}

/// A segment of the text, which one thread merges.
pub(super) struct Segment<'a> {
    /// Position of the first cell.
    pub(super) start: usize,
    pub(super) cells: &'a mut [Cell],
    /// Indices of the pair's listed occurrences in the segment.
    pub(super) occurrences: Range<usize>,
}

impl<'a> Segment<'a> {
    /// The whole text as one segment.
    pub(super) fn whole(cells: &'a mut [Cell]) -> Segment<'a> {
        Segment { start: 0, cells, occurrences: 0..usize::MAX }
    }
}

/// Whether a pair has enough occurrences to divide the work of merging it among threads.
pub(super) fn is_worth_sharing<W: Weight + Default>(pair: PairId, pairs: &KeptPairs<W>) -> bool {
    pairs.listed(pair) >= 2 * MIN_SEGMENT
}

/// Finds cuts between segments of the text, in which threads can merge a pair independently.
///
/// A merge reads and writes cells from the token before the occurrence to the token after it. So a cut is made only
/// where the token after one occurrence and the token before the next are two places of the text, not one that both
/// would read. They may have the same id. Gives at most `max_segments` segments, fewer if more are not worth it.
pub(super) fn cuts<W: Weight + Default>(
    pair: PairId,
    corpus: &Corpus<W>,
    pairs: &KeptPairs<W>,
    max_segments: usize,
) -> Vec<SegmentCut> {
    let mut cuts: Vec<SegmentCut> = Vec::new();
    if max_segments == 1 {
        return cuts;
    }
    let listed = pairs.listed(pair);
    let segments = max_segments.min(listed / MIN_SEGMENT);
    for segment in 1..segments {
        let first = cuts.last().map_or(0, |cut| cut.occurrences).max(listed * segment / segments);
        cuts.extend(cut(pair, first..listed.min(first + CUT_SEARCH), corpus, pairs));
    }
    cuts
}

/// A cut between two of these occurrences, if one is found.
fn cut<W: Weight + Default>(
    pair: PairId,
    occurrences: Range<usize>,
    corpus: &Corpus<W>,
    pairs: &KeptPairs<W>,
) -> Option<SegmentCut> {
    let width = |token: u32| to_usize(corpus.widths[to_usize(token)]);
    let Pair { left, right, .. } = pairs.pair(pair);
    let length = width(left) + width(right);
    let mut after = usize::MAX;
    for (number, occurrence) in occurrences.clone().zip(pairs.listed_in(pair, occurrences).flatten()) {
        let position = to_usize(occurrence.position);
        // The cell before an occurrence that is no longer live may be stale.
        if corpus.cells[position].pair == pair {
            let before = corpus.cells[position - 1].token;
            let start = position - if before == SEPARATOR { 1 } else { width(before) };
            if after < start {
                return Some(SegmentCut { position: start, occurrences: number });
            }
        }
        after = position + length;
    }
    None
}

/// Divides the text at the cuts.
pub(super) fn split_at_cuts<'a>(
    cells: &'a mut [Cell],
    cuts: &[SegmentCut],
) -> impl Iterator<Item = Segment<'a>> {
    let end = SegmentCut { position: cells.len(), occurrences: usize::MAX };
    let (mut rest, mut last) = (cells, SegmentCut { position: 0, occurrences: 0 });
    cuts.iter().copied().chain(once(end)).map(move |cut| {
        let (cells, behind) = mem::take(&mut rest).split_at_mut(cut.position - last.position);
        let segment = Segment { start: last.position, cells, occurrences: last.occurrences..cut.occurrences };
        (rest, last) = (behind, cut);
        segment
    })
}
