use super::corpus::{Corpus, SEPARATOR, Weight};
use super::pairs::{Keep, NOT_KEPT, PairId, Pairs, Room};
use crate::pages;
use crate::units::place;

/// So many occurrences ahead a cell is fetched: about what memory takes over what an occurrence takes.
const AHEAD: usize = 24;

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
struct Tally {
    /// How often the token stands at this side.
    count: u64,
    /// Where the next occurrence of the new pair is written.
    room: Room,
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
    fn next_room(&mut self, token: u32) -> Room {
        self.by_token[place(token)].room.next()
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
    scratch.born.clear();
    let length = place(lengths[place(token)]);
    let fits = |other: u32| place(lengths[place(other)]) + length <= keep.longest;
    settle(&mut scratch.left, |left| (left, token), pairs, keep, fits, &mut scratch.born);
    settle(&mut scratch.right, |right| (token, right), pairs, keep, fits, &mut scratch.born);
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
    let Scratch { sites, left, right, .. } = scratch;
    sites.clear();
    let Corpus { cells, spans, heavy, tokens, .. } = corpus;
    let (cells, spans) = (&mut cells[..], &spans[..]);
    let left_span = place(spans[place(pairs.pair(pair).left)]);
    let span = place(spans[place(token)]);
    let mut merged = 0;
    let mut between = Between::default();
    let occurrences = pairs.occurrences(pair);
    for (number, occurrence) in occurrences.iter().enumerate() {
        if let Some(later) = occurrences.get(number + AHEAD) {
            pages::fetch(cells, place(later.position));
        }
        let position = place(occurrence.position);
        if cells[position].pair != pair {
            continue;
        }
        let weight = occurrence.weight.value(heavy);
        let inner = position + left_span;
        let ended = std::mem::replace(&mut cells[inner].pair, NOT_KEPT);
        cells[position].pair = NOT_KEPT;
        cells[position].token = token;
        cells[position + span - 1].token = token;
        merged += weight;
        let mut site = Site {
            position: occurrence.position,
            left: cells[position - 1].token,
            right: cells[position + span].token,
            weight: occurrence.weight,
        };
        if site.left == token {
            // The one before was merged too: its neighbour is not the left part, but the new token.
            let before: &mut Site<W> = sites.last_mut().expect("the token before was made in this step");
            between.add(right.remove(before.right, weight), weight);
            before.right = token;
            right.add(token, token, weight, NOT_KEPT);
            site.left = SEPARATOR;
        } else if site.left != SEPARATOR {
            let start = position - place(spans[place(site.left)]);
            let ended = std::mem::replace(&mut cells[start].pair, NOT_KEPT);
            left.add(site.left, token, weight, ended);
        }
        if site.right != SEPARATOR {
            right.add(site.right, token, weight, ended);
        }
        sites.push(site);
    }
    pairs.lower(between.pair, between.weight);
    *tokens -= merged;
}

/// The pair of the right part and the left one, which ends where two merged pairs stand side by side.
#[derive(Default)]
struct Between {
    pair: PairId,
    weight: u64,
}

impl Between {
    fn add(&mut self, pair: PairId, weight: u64) {
        self.pair = pair;
        self.weight += weight;
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
            (tally.born, tally.room) = pairs.add(left, right, tally.count, tally.occurrences);
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
                pairs.write(left.next_room(site.left), start, site.weight);
            }
        }
        if site.right != SEPARATOR {
            let born = right.born(site.right);
            if born != NOT_KEPT {
                cells[position].pair = born;
                pairs.write(right.next_room(site.right), position, site.weight);
            }
        }
    }
}
