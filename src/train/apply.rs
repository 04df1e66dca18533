use super::corpus::{Cell, Corpus, SEPARATOR, Weight, fetch_around};
use super::pairs::{AHEAD, NOT_KEPT, Occurrence, PairId, Pairs};
use super::rooms::Place;
use crate::units::{low32, place};

/// What a merge step needs besides the corpus and its pairs; kept from step to step.
pub(super) struct Scratch<W> {
    sites: Vec<Site<W>>,
    left: Side,
    right: Side,
    /// The pairs that came to be in the last step.
    pub(super) born: Vec<PairId>,
}

impl<W> Default for Scratch<W> {
    fn default() -> Scratch<W> {
        Scratch { sites: Vec::new(), left: Side::default(), right: Side::default(), born: Vec::new() }
    }
}

/// Where a pair was just merged, and the tallies of the tokens around it after the step, or [`NO_TALLY`].
struct Site<W> {
    position: u32,
    left: u32,
    right: u32,
    weight: W,
}

/// Stands for the tally of a separator, of which no pair is made.
const NO_TALLY: u32 = u32::MAX;

/// The distinct tokens on one side of the sites, and what becomes of their pairs with the new token.
#[derive(Default)]
struct Side {
    tallies: Vec<Tally>,
    /// Where each token's tally stands, if the tally there is of this token.
    by_token: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    token: u32,
    occurrences: u32,
    /// How often the token stands at this side.
    count: u64,
    /// The token's pair with the part that stood at this side.
    ended: PairId,
    /// The token's pair with the new one.
    born: PairId,
    /// Where the next occurrence of the new pair is written; if it is not kept, a place that nobody reads.
    next: Place,
}

impl Tally {
    /// Where the next occurrence goes. Without a branch: as many new pairs are kept as are not, in no order.
    fn next_place(&mut self) -> Place {
        let next = self.next;
        self.next.index += u32::from(self.born != NOT_KEPT);
        next
    }
}

impl Side {
    /// Adds an occurrence of a token, whose pair with the part beside it ends, and tells the token's tally.
    #[inline]
    fn add(&mut self, token: u32, weight: u64, ended: PairId) -> u32 {
        let at = &mut self.by_token[place(token)];
        match self.tallies.get_mut(place(*at)) {
            Some(tally) if tally.token == token => {
                tally.count += weight;
                tally.occurrences += 1;
            }
            _ => {
                *at = low32(self.tallies.len());
                self.tallies.push(Tally { token, occurrences: 1, count: weight, ended, ..Tally::default() });
            }
        }
        *at
    }

    /// Takes an occurrence back, and tells which pair it would have ended.
    fn remove(&mut self, tally: u32, weight: u64) -> PairId {
        let tally = &mut self.tallies[place(tally)];
        tally.count -= weight;
        tally.occurrences -= 1;
        tally.ended
    }

    /// Makes room for tokens below `limit`.
    fn begin(&mut self, limit: usize) {
        self.tallies.clear();
        if self.by_token.len() < limit {
            self.by_token.resize(limit.next_power_of_two(), 0);
        }
    }
}

/// Replaces every occurrence of `pair` by `token`, left to right without overlap, and brings the pairs
/// up to date. The corpus knows the token's span already. New pairs that are kept are listed in
/// `scratch.born`.
///
/// Returns where it was merged first.
pub(super) fn apply<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    lengths: &[u32],
    scratch: &mut Scratch<W>,
) -> usize {
    scratch.left.begin(lengths.len());
    scratch.right.begin(lengths.len());
    replace(pair, token, corpus, pairs, scratch);
    pairs.free_rooms(pair);
    scratch.born.clear();
    let length = place(lengths[place(token)]);
    let longest = pairs.keep.longest;
    let fits = |other: u32| place(lengths[place(other)]) + length <= longest;
    settle(&mut scratch.left, |left| (left, token), pairs, fits, &mut scratch.born);
    settle(&mut scratch.right, |right| (token, right), pairs, fits, &mut scratch.born);
    // In a run of one token it is also among the pairs whose counts were lowered.
    pairs.ends(pair);
    if !scratch.born.is_empty() {
        write(corpus, pairs, scratch);
    }
    place(scratch.sites[0].position)
}

/// So many occurrences are looked at together: few enough that their cells stay in the processor's nearest cache.
const BATCH: usize = 32;

/// Writes the new token over each live occurrence, ends the pairs that stood there, and tallies the
/// neighbours.
fn replace<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    scratch: &mut Scratch<W>,
) {
    scratch.sites.clear();
    let mut step = Step {
        token,
        left_span: place(corpus.spans[place(pairs.pair(pair).left)]),
        span: place(corpus.spans[place(token)]),
        cells: &mut corpus.cells,
        spans: &corpus.spans,
        sites: &mut scratch.sites,
        left: &mut scratch.left,
        right: &mut scratch.right,
        merged: 0,
        between: Between::default(),
    };
    let mut room = [Occurrence::default(); BATCH];
    for occurrences in pairs.occurrences(pair) {
        for start in (0..occurrences.len()).step_by(BATCH) {
            for occurrence in step.live(pair, occurrences, start, &mut room) {
                // In a run of one token each merge ends the pair that begins within it.
                if step.cells[place(occurrence.position)].pair == pair {
                    step.merge(*occurrence, occurrence.weight.value(&corpus.heavy));
                }
            }
        }
    }
    corpus.tokens -= step.merged;
    pairs.lower(step.between.pair, step.between.weight);
}

/// A merge step on its way through the occurrences.
struct Step<'a, W> {
    token: u32,
    left_span: usize,
    span: usize,
    cells: &'a mut [Cell],
    spans: &'a [u32],
    sites: &'a mut Vec<Site<W>>,
    left: &'a mut Side,
    right: &'a mut Side,
    /// The weight of all merged so far.
    merged: u64,
    between: Between,
}

/// The pair of the right part and the left one, which ends where two merged pairs stand side by side.
#[derive(Default)]
struct Between {
    pair: PairId,
    weight: u64,
}

impl<W: Weight> Step<'_, W> {
    /// Those of the next [`BATCH`] occurrences from `start` on that are live now. Found without a branch, because about
    /// as many are live as are not, in no order.
    #[inline]
    fn live<'r>(
        &self,
        pair: PairId,
        occurrences: &[Occurrence<W>],
        start: usize,
        room: &'r mut [Occurrence<W>; BATCH],
    ) -> &'r [Occurrence<W>] {
        let mut live = 0;
        for (number, occurrence) in (start..).zip(&occurrences[start..]).take(BATCH) {
            if let Some(later) = occurrences.get(number + AHEAD) {
                fetch_around(self.cells, later.position, self.span);
            }
            room[live] = *occurrence;
            live += usize::from(self.cells[place(occurrence.position)].pair == pair);
        }
        &room[..live]
    }

    #[inline]
    fn merge(&mut self, occurrence: Occurrence<W>, weight: u64) {
        let position = place(occurrence.position);
        let ended = self.end_pair(position + self.left_span);
        self.cells[position] = Cell { token: self.token, pair: NOT_KEPT };
        self.cells[position + self.span - 1].token = self.token;
        self.merged += weight;
        let before = self.cells[position - 1].token;
        let after = self.cells[position + self.span].token;
        let mut left = NO_TALLY;
        if before == self.token {
            self.join(weight);
        } else if before != SEPARATOR {
            let ended = self.end_pair(position - place(self.spans[place(before)]));
            left = self.left.add(before, weight, ended);
        }
        let right = if after == SEPARATOR { NO_TALLY } else { self.right.add(after, weight, ended) };
        self.sites.push(Site { position: occurrence.position, left, right, weight: occurrence.weight });
    }

    /// Ends the pair that begins at a position.
    #[inline]
    fn end_pair(&mut self, position: usize) -> PairId {
        std::mem::replace(&mut self.cells[position].pair, NOT_KEPT)
    }

    /// Two merged pairs stand side by side: the first has the new token at its right, and not the left
    /// part as it seemed. Their pair is counted with the first alone.
    fn join(&mut self, weight: u64) {
        let first = self.sites.last_mut().expect("the token before was made in this step");
        self.between.pair = self.right.remove(first.right, weight);
        self.between.weight += weight;
        first.right = self.right.add(self.token, weight, NOT_KEPT);
    }
}

/// Lowers the counts of the pairs that ended at one side, and keeps the new ones that are worth it.
fn settle<W: Weight + Default>(
    side: &mut Side,
    with_new: impl Fn(u32) -> (u32, u32),
    pairs: &mut Pairs<W>,
    fits: impl Fn(u32) -> bool,
    born: &mut Vec<PairId>,
) {
    let (bin, threshold) = (pairs.bin(), pairs.keep.threshold);
    for tally in &mut side.tallies {
        pairs.lower(tally.ended, tally.count);
        tally.next = bin;
        if tally.count >= threshold && fits(tally.token) {
            let (left, right) = with_new(tally.token);
            (tally.born, tally.next) = pairs.add(left, right, tally.count, tally.occurrences);
            born.push(tally.born);
        }
    }
}

/// Names the new pairs at their positions, and lists those that are kept; the others go to the bin.
fn write<W: Weight + Default>(corpus: &mut Corpus<W>, pairs: &mut Pairs<W>, scratch: &mut Scratch<W>) {
    let Scratch { sites, left, right, .. } = scratch;
    let (cells, spans) = (&mut corpus.cells[..], &corpus.spans[..]);
    for site in sites {
        let position = place(site.position);
        if let Some(tally) = left.tallies.get_mut(place(site.left)) {
            let start = position - place(spans[place(tally.token)]);
            cells[start].pair = tally.born;
            pairs.write(tally.next_place(), start, site.weight);
        }
        if let Some(tally) = right.tallies.get_mut(place(site.right)) {
            cells[position].pair = tally.born;
            pairs.write(tally.next_place(), position, site.weight);
        }
    }
}
