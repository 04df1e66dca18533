use super::corpus::{Cell, Corpus, SEPARATOR, Weight, fetch_around};
use super::pairs::{AHEAD, Keep, NOT_KEPT, Occurrence, PairId, Pairs};
use super::rooms::Place;
use crate::units::place;

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

/// Where a pair was just merged, and which tokens stand around it after the step.
struct Site<W> {
    position: u32,
    left: u32,
    right: u32,
    weight: W,
}

/// The distinct tokens on one side of the sites, and what becomes of their pairs with the new token.
#[derive(Default)]
struct Side {
    tokens: Vec<u32>,
    by_token: Vec<Tally>,
}

#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Tally {
    /// How often the token stands at this side.
    count: u64,
    /// Where the next occurrence of the new pair is written.
    next: Place,
    occurrences: u32,
    /// The step that this is about; anything else is forgotten. A step is named after its new token.
    step: u32,
    /// The token's pair with the part that stood at this side.
    ended: PairId,
    /// The token's pair with the new one.
    born: PairId,
}

impl Side {
    /// Adds an occurrence of a token, whose pair with the part beside it ends.
    #[inline]
    fn add(&mut self, token: u32, step: u32, weight: u64, ended: PairId) {
        let tally = &mut self.by_token[place(token)];
        if tally.step != step {
            *tally = Tally { step, ended, ..Tally::default() };
            self.tokens.push(token);
        }
        tally.count += weight;
        tally.occurrences += 1;
    }

    /// Takes an occurrence back, and tells which pair it would have ended.
    fn remove(&mut self, token: u32, weight: u64) -> PairId {
        let tally = &mut self.by_token[place(token)];
        tally.count -= weight;
        tally.occurrences -= 1;
        tally.ended
    }

    /// Makes room for tokens below `limit`.
    fn begin(&mut self, limit: usize) {
        self.tokens.clear();
        if self.by_token.len() < limit {
            self.by_token.resize(limit.next_power_of_two(), Tally::default());
        }
    }

    fn born(&self, token: u32) -> PairId {
        self.by_token[place(token)].born
    }

    /// Where the next occurrence of the new pair goes.
    fn next_place(&mut self, token: u32) -> Place {
        self.by_token[place(token)].next.next()
    }
}

/// Replaces every occurrence of `pair` by `token`, left to right without overlap, and brings the pairs
/// up to date. The corpus knows the token's span already. New pairs that `keep` wants are listed in
/// `scratch.born`.
///
/// Returns where it was merged first.
pub(super) fn apply<W: Weight + Default>(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus<W>,
    pairs: &mut Pairs<W>,
    lengths: &[u32],
    keep: Keep,
    scratch: &mut Scratch<W>,
) -> usize {
    scratch.left.begin(lengths.len());
    scratch.right.begin(lengths.len());
    replace(pair, token, corpus, pairs, scratch);
    pairs.free_rooms(pair);
    scratch.born.clear();
    let length = place(lengths[place(token)]);
    let fits = |other: u32| place(lengths[place(other)]) + length <= keep.longest;
    settle(&mut scratch.left, |left| (left, token), pairs, keep, fits, &mut scratch.born);
    settle(&mut scratch.right, |right| (token, right), pairs, keep, fits, &mut scratch.born);
    // In a run of one token it is also among the pairs whose counts were lowered.
    pairs.ends(pair);
    if !scratch.born.is_empty() {
        write(corpus, pairs, scratch);
    }
    place(scratch.sites[0].position)
}

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
    for occurrences in pairs.occurrences(pair) {
        for (number, occurrence) in occurrences.iter().enumerate() {
            if let Some(later) = occurrences.get(number + AHEAD) {
                fetch_around(step.cells, later.position, step.span);
            }
            if step.cells[place(occurrence.position)].pair == pair {
                step.merge(*occurrence, occurrence.weight.value(&corpus.heavy));
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
    #[inline]
    fn merge(&mut self, occurrence: Occurrence<W>, weight: u64) {
        let position = place(occurrence.position);
        let ended = self.end_pair(position + self.left_span);
        self.cells[position] = Cell { token: self.token, pair: NOT_KEPT };
        self.cells[position + self.span - 1].token = self.token;
        self.merged += weight;
        let mut left = self.cells[position - 1].token;
        let right = self.cells[position + self.span].token;
        if left == self.token {
            self.join(weight);
            left = SEPARATOR;
        } else if left != SEPARATOR {
            let ended = self.end_pair(position - place(self.spans[place(left)]));
            self.left.add(left, self.token, weight, ended);
        }
        if right != SEPARATOR {
            self.right.add(right, self.token, weight, ended);
        }
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
        first.right = self.token;
        self.right.add(self.token, self.token, weight, NOT_KEPT);
    }
}

/// Lowers the counts of the pairs that ended at one side, and keeps the new ones that are worth it.
fn settle<W: Weight + Default>(
    side: &mut Side,
    with_new: impl Fn(u32) -> (u32, u32),
    pairs: &mut Pairs<W>,
    keep: Keep,
    fits: impl Fn(u32) -> bool,
    born: &mut Vec<PairId>,
) {
    for &token in &side.tokens {
        let tally = &mut side.by_token[place(token)];
        pairs.lower(tally.ended, tally.count);
        if tally.count >= keep.threshold && fits(token) {
            let (left, right) = with_new(token);
            (tally.born, tally.next) = pairs.add(left, right, tally.count, tally.occurrences);
            born.push(tally.born);
        }
    }
}

/// Names the new pairs at their positions, and lists these.
fn write<W: Weight + Default>(corpus: &mut Corpus<W>, pairs: &mut Pairs<W>, scratch: &mut Scratch<W>) {
    let Scratch { sites, left, right, .. } = scratch;
    let (cells, spans) = (&mut corpus.cells[..], &corpus.spans[..]);
    for site in sites {
        let position = place(site.position);
        if site.left != SEPARATOR {
            let born = left.born(site.left);
            if born != NOT_KEPT {
                let start = position - place(spans[place(site.left)]);
                cells[start].pair = born;
                pairs.write(left.next_place(site.left), start, site.weight);
            }
        }
        if site.right != SEPARATOR {
            let born = right.born(site.right);
            if born != NOT_KEPT {
                cells[position].pair = born;
                pairs.write(right.next_place(site.right), position, site.weight);
            }
        }
    }
}
