use super::corpus::{Corpus, SEPARATOR};
use super::pairs::{NOT_KEPT, PairId, Pairs};
use crate::units::place;

/// What a merge step needs besides the corpus and its pairs; kept from step to step.
#[derive(Default)]
pub(super) struct Scratch {
    sites: Vec<Site>,
    left: Neighbours,
    right: Neighbours,
    /// The pairs that came to be in the last step.
    pub(super) born: Vec<PairId>,
}

/// Where a pair was just merged, and which tokens stand around it after the step.
struct Site {
    position: usize,
    left: u32,
    right: u32,
}

/// The distinct tokens on one side of the sites, and what becomes of their pairs with the new token.
#[derive(Default)]
struct Neighbours {
    tokens: Vec<u32>,
    by_token: Vec<Tally>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    count: u64,
    occurrences: u32,
    pair: PairId,
    slot: usize,
}

impl Neighbours {
    fn add(&mut self, token: u32, weight: u64) {
        let tally = &mut self.by_token[place(token)];
        if tally.occurrences == 0 {
            self.tokens.push(token);
        }
        tally.count += weight;
        tally.occurrences += 1;
    }

    /// Forgets the last step and makes room for tokens below `limit`.
    fn clear(&mut self, limit: usize) {
        for token in self.tokens.drain(..) {
            self.by_token[place(token)] = Tally::default();
        }
        if self.by_token.len() < limit {
            self.by_token.resize(limit.next_power_of_two(), Tally::default());
        }
    }
}

/// Replaces every occurrence of `pair` by `token`, left to right without overlap, and brings the pairs
/// up to date. `lengths` has the new token's length already. New pairs that occur `threshold` times or
/// more, and whose token would have `longest` bytes or fewer, are kept and listed in `scratch.born`.
///
/// Returns where it was merged first.
pub(super) fn apply(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus,
    pairs: &mut Pairs,
    lengths: &[u32],
    keep: Keep,
    scratch: &mut Scratch,
) -> usize {
    scratch.left.clear(lengths.len());
    scratch.right.clear(lengths.len());
    replace(pair, token, corpus, pairs, lengths, &mut scratch.sites);
    tally(token, corpus, lengths, scratch);
    scratch.born.clear();
    for &left in &scratch.left.tokens {
        let born = keep_pair((left, token), &mut scratch.left.by_token[place(left)], pairs, lengths, keep);
        scratch.born.extend(born);
    }
    for &right in &scratch.right.tokens {
        let born = keep_pair((token, right), &mut scratch.right.by_token[place(right)], pairs, lengths, keep);
        scratch.born.extend(born);
    }
    write(token, pairs, lengths, scratch);
    scratch.sites[0].position
}

/// Which new pairs are worth keeping.
#[derive(Clone, Copy)]
pub(super) struct Keep {
    /// Those that occur this often or more,
    pub(super) threshold: u64,
    /// and whose token would have so many bytes or fewer.
    pub(super) longest: usize,
}

/// Writes the new token over each live occurrence and lowers the counts of the pairs that it ends.
///
/// Of two merged neighbours the pair between them is lowered by the first: when the second comes, its
/// left neighbour is the new token already.
fn replace(
    pair: PairId,
    token: u32,
    corpus: &mut Corpus,
    pairs: &mut Pairs,
    lengths: &[u32],
    sites: &mut Vec<Site>,
) {
    sites.clear();
    let parts = pairs.pair(pair);
    let left_length = place(lengths[place(parts.left)]);
    let length = place(lengths[place(token)]);
    let mut merged = 0;
    for slot in pairs.slots(pair) {
        let position = pairs.position(slot);
        if pairs.at(position) != pair {
            continue;
        }
        let weight = corpus.weight(position);
        let before = corpus.text[position - 1];
        if before != SEPARATOR && before != token {
            pairs.lower(position - place(lengths[place(before)]), weight);
        }
        let inner = position + left_length;
        pairs.lower(inner, weight);
        pairs.lower(position, weight);
        pairs.set(inner, NOT_KEPT);
        pairs.set(position, NOT_KEPT);
        corpus.text[position] = token;
        corpus.text[position + length - 1] = token;
        merged += weight;
        sites.push(Site { position, left: SEPARATOR, right: SEPARATOR });
    }
    corpus.tokens -= merged;
}

/// Reads the neighbours once all of the step's writes are done, so that of two merged neighbours each
/// sees the other: their pair is counted on the right of the first alone.
fn tally(token: u32, corpus: &Corpus, lengths: &[u32], scratch: &mut Scratch) {
    let length = place(lengths[place(token)]);
    for site in &mut scratch.sites {
        let weight = corpus.weight(site.position);
        site.left = corpus.text[site.position - 1];
        site.right = corpus.text[site.position + length];
        if site.left != SEPARATOR && site.left != token {
            scratch.left.add(site.left, weight);
        }
        if site.right != SEPARATOR {
            scratch.right.add(site.right, weight);
        }
    }
}

fn keep_pair(
    (left, right): (u32, u32),
    tally: &mut Tally,
    pairs: &mut Pairs,
    lengths: &[u32],
    keep: Keep,
) -> Option<PairId> {
    let length = place(lengths[place(left)]) + place(lengths[place(right)]);
    if tally.count < keep.threshold || length > keep.longest {
        return None;
    }
    (tally.pair, tally.slot) = pairs.add(left, right, tally.count, tally.occurrences);
    Some(tally.pair)
}

/// Names the new pairs at their positions, and writes the positions into the pairs' lists.
fn write(token: u32, pairs: &mut Pairs, lengths: &[u32], scratch: &mut Scratch) {
    let mut note = |tally: &mut Tally, position: usize| {
        pairs.set(position, tally.pair);
        if tally.pair != NOT_KEPT {
            pairs.write(tally.slot, position);
            tally.slot += 1;
        }
    };
    for site in &scratch.sites {
        if site.left != SEPARATOR && site.left != token {
            let position = site.position - place(lengths[place(site.left)]);
            note(&mut scratch.left.by_token[place(site.left)], position);
        }
        if site.right != SEPARATOR {
            note(&mut scratch.right.by_token[place(site.right)], site.position);
        }
    }
}
