//! Learns merges by any [`Score`](super::Score).
//!
//! If the score depends on the counts of tokens, merging a pair can raise the scores of other pairs, so it is
//! not enough to look again at the pair that was best before. After each step, every pair with a changed score
//! moves to its new place in a heap. These are the pairs with a changed count and, as far as the score depends
//! on tokens, all pairs that contain one of the two merged tokens.

mod heap;
mod ties;

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use self::heap::Heap;
use self::ties::{Tied, Ties};
use super::replay::Replayed;
use super::score::Measures;
use super::text::Text;
use super::{HistoryPoint, Learned, Merge, TrainConfig};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Marks positions where no kept pair begins.
const NO_PAIR: u32 = u32::MAX;

/// Does what [`learn_merges`](super::learn_merges) does, for any score.
///
/// **Memory:** about [`memory_estimate`](super::memory_estimate).
///
/// # Errors
/// The same as [`learn_merges`](super::learn_merges).
pub(super) fn learn(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    observer.started(Stage::Train, Some(to_u64(config.merges)));
    let text = Text::new(&pretokens)?;
    let history = vec![HistoryPoint { merges: 0, tokens: text.total }];
    drop(pretokens);
    Learner::new(text, Vec::new(), history, config).run(observer)
}

/// Continues training from a text to which merges have been applied.
pub(super) fn go_on(replayed: Replayed, config: &TrainConfig, observer: &dyn Observer) -> Result<Learned> {
    let Replayed { text, merges, history } = replayed;
    Learner::new(text, merges, history, config).run(observer)
}

/// A pair of tokens that may be merged.
struct Pair {
    left: u32,
    right: u32,
    count: u64,
    /// Positions at which the pair occurred when it was created, ascending. Those before index `live` are no
    /// longer live.
    positions: Vec<u32>,
    live: usize,
}

/// What decides about the place of a pair in the heap.
#[derive(Clone, Copy)]
struct Key {
    /// The quantities from which the score is computed.
    measures: Measures,
    /// The data that decide between equal scores.
    tied: Tied,
}

/// State of the training loop by scores.
///
/// A step takes time for the occurrences that it merges, and logarithmic time for each pair that moves in the
/// heap. Without dependence on tokens, only pairs next to a merged occurrence move. With it, all pairs that
/// contain one of the two merged tokens move, which can be many.
pub(super) struct Learner<'a> {
    config: &'a TrainConfig,
    /// The text as it is now.
    text: Text,
    /// Number of the pair that begins at each position, or [`NO_PAIR`].
    at: Vec<u32>,
    /// Data that the tie rule compares.
    ties: Ties,
    /// All pairs that were ever kept, by number.
    pairs: Vec<Pair>,
    /// Present key of each pair, by number.
    keys: Vec<Key>,
    /// The pairs that may be merged, the best first.
    heap: Heap,
    /// For each token, the pairs that begin with it. Empty unless the score depends on the counts of left tokens.
    begun: Vec<Vec<u32>>,
    /// For each token, the pairs that end with it. Empty unless the score depends on the counts of right tokens.
    ended: Vec<Vec<u32>>,
    /// Numbers of the pairs that lost occurrences in this step.
    fallen: Vec<u32>,
    /// The merges so far, including those that were given at the start.
    merges: Vec<Merge>,
    history: Vec<HistoryPoint>,
}

impl<'a> Learner<'a> {
    /// Begins with a text in which each token spans one position, the merges that made its tokens, and the
    /// history so far.
    pub(super) fn new(
        text: Text,
        merges: Vec<Merge>,
        history: Vec<HistoryPoint>,
        config: &'a TrainConfig,
    ) -> Learner<'a> {
        let mut learner = Learner {
            config,
            ties: Ties::new(config.tie_break, &text, &merges),
            at: vec![NO_PAIR; text.tokens.len()],
            begun: vec![Vec::new(); text.counts.len()],
            ended: vec![Vec::new(); text.counts.len()],
            text,
            pairs: Vec::new(),
            keys: Vec::new(),
            heap: Heap::default(),
            fallen: Vec::new(),
            merges,
            history,
        };
        learner.find_pairs(0..learner.at.len());
        learner
    }

    /// Merges the best pair until there are enough merges or no pair is left that may be merged.
    fn run(mut self, observer: &dyn Observer) -> Result<Learned> {
        while self.merges.len() < self.config.merges {
            observer.checkpoint()?;
            let Some(best) = self.best() else { break };
            self.merge(best);
            if self.config.records_after(self.merges.len()) {
                self.record();
            }
            observer.advanced(Stage::Train, 1);
        }
        observer.finished(Stage::Train);
        Ok(Learned::new(self.merges, self.history, self.text.total))
    }

    /// Records a history point for the present number of merges.
    fn record(&mut self) {
        self.history.push(HistoryPoint { merges: to_u64(self.merges.len()), tokens: self.text.total });
    }

    /// Number of the pair to merge next.
    pub(super) fn best(&self) -> Option<u32> {
        self.heap.first()
    }

    /// Number of pairs that were ever kept; these have the numbers below it.
    pub(super) fn known(&self) -> u32 {
        truncate_to_u32(self.pairs.len())
    }

    /// The tokens of a pair.
    pub(super) fn tokens(&self, pair: u32) -> (u32, u32) {
        (self.pairs[to_usize(pair)].left, self.pairs[to_usize(pair)].right)
    }

    /// How often a pair occurs now.
    pub(super) fn count(&self, pair: u32) -> Count {
        Count::new(self.pairs[to_usize(pair)].count)
    }

    /// Whether a pair still occurs often enough to be merged, and no pair has a greater score.
    pub(super) fn is_best(&self, pair: u32) -> bool {
        let measures = |pair: u32| self.keys[to_usize(pair)].measures;
        let score = self.config.score;
        self.pairs[to_usize(pair)].count >= least(self.config)
            && self.best().is_some_and(|best| score.compare(&measures(pair), &measures(best)).is_eq())
    }

    /// How often two tokens are adjacent, whether or not they are kept as a pair. Walks through the whole text.
    pub(super) fn count_of(&self, tokens: (u32, u32)) -> Count {
        self.text.count_of(tokens)
    }

    /// Merges a pair, and moves all pairs with a changed score to their new places in the heap.
    pub(super) fn merge(&mut self, best: u32) {
        let Pair { left, right, count, .. } = self.pairs[to_usize(best)];
        self.merges.push(Merge { left, right, count: Count::new(count) });
        let token = self.text.add_token(left, right);
        self.begun.push(Vec::new());
        self.ended.push(Vec::new());
        let sites = self.replace(best, token);
        self.ties.made(sites[0], self.text.length(token));
        let mut fallen = std::mem::take(&mut self.fallen);
        fallen.sort_unstable();
        fallen.dedup();
        fallen.into_iter().for_each(|pair| self.place_anew(pair));
        let (look_left, look_right) = self.config.score.depends_on_tokens();
        for token in [left, right].into_iter().take(if left == right { 1 } else { 2 }) {
            if look_left {
                let begun = std::mem::take(&mut self.begun[to_usize(token)]);
                self.begun[to_usize(token)] = self.place_all_anew(begun);
            }
            if look_right {
                let ended = std::mem::take(&mut self.ended[to_usize(token)]);
                self.ended[to_usize(token)] = self.place_all_anew(ended);
            }
        }
        self.find_pairs(changed_positions(&self.text, &sites, token).into_iter());
    }

    /// Writes the token over the occurrences of its pair, from left to right without overlap, and lowers the
    /// counts of the pairs that end there. Returns the positions.
    fn replace(&mut self, best: u32, token: u32) -> Vec<usize> {
        let Pair { left, right, live, .. } = self.pairs[to_usize(best)];
        let positions = std::mem::take(&mut self.pairs[to_usize(best)].positions);
        let mut sites = Vec::new();
        for position in positions[live..].iter().map(|&position| to_usize(position)) {
            if self.at[position] != best {
                continue;
            }
            // If the token before is the new one, its pair with this token has ended already: it began at that
            // occurrence's right token.
            let before = self.text.before(position).filter(|&before| self.text.tokens[before] != token);
            before.into_iter().for_each(|before| self.end_pair(before));
            self.end_pair(position);
            self.end_pair(position + self.text.span(left));
            self.text.replace(position, (left, right), token);
            sites.push(position);
        }
        sites
    }

    /// Ends the pair that begins at this position, if any.
    fn end_pair(&mut self, position: usize) {
        let pair = std::mem::replace(&mut self.at[position], NO_PAIR);
        if pair != NO_PAIR {
            self.pairs[to_usize(pair)].count -= self.text.weight(position);
            self.fallen.push(pair);
        }
    }

    /// Moves a pair to the place that its present score gives it, or out of the heap if it occurs too seldom.
    fn place_anew(&mut self, pair: u32) {
        let Learner { config, text, at, ties, pairs, keys, heap, .. } = self;
        let Pair { left, right, count, positions, live } = &mut pairs[to_usize(pair)];
        if *count < least(config) {
            heap.remove(pair, |one, two| comes_before(config, ties, keys, one, two));
            *positions = Vec::new();
            return;
        }
        while at[to_usize(positions[*live])] != pair {
            *live += 1;
        }
        let tied = Tied { left: *left, right: *right, first: positions[*live] };
        let measures = Measures {
            count: *count,
            left: text.counts[to_usize(*left)],
            right: text.counts[to_usize(*right)],
            bytes: to_u64(text.length(*left) + text.length(*right)),
        };
        keys[to_usize(pair)] = Key { measures, tied };
        heap.put(pair, |one, two| comes_before(config, ties, keys, one, two));
    }

    /// Moves pairs to their new places, and returns those that still occur often enough.
    fn place_all_anew(&mut self, mut pairs: Vec<u32>) -> Vec<u32> {
        pairs.retain(|&pair| self.pairs[to_usize(pair)].count >= least(self.config));
        for &pair in &pairs {
            self.place_anew(pair);
        }
        pairs
    }

    /// Finds the pairs that begin at these positions, all of them new, and keeps those that may ever be merged.
    /// The others never can be, because counts only fall.
    fn find_pairs(&mut self, positions: impl Iterator<Item = usize>) {
        let mut found: Vec<Pair> = Vec::new();
        let mut numbers: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        for position in positions {
            let Some((left, right)) = self.text.pair_at(position) else { continue };
            let number = *numbers.entry((left, right)).or_insert_with(|| {
                found.push(Pair { left, right, count: 0, positions: Vec::new(), live: 0 });
                found.len() - 1
            });
            found[number].count += self.text.weight(position);
            found[number].positions.push(truncate_to_u32(position));
        }
        for pair in found {
            if pair.count >= least(self.config) && self.fits(&pair) {
                self.keep(pair);
            }
        }
    }

    /// Whether the token of a pair is short enough.
    fn fits(&self, pair: &Pair) -> bool {
        let bytes = self.text.length(pair.left) + self.text.length(pair.right);
        self.config.max_token_bytes.is_none_or(|most| bytes <= most)
    }

    /// Adds a pair and puts it into the heap.
    fn keep(&mut self, pair: Pair) {
        let number = truncate_to_u32(self.pairs.len());
        for &position in &pair.positions {
            self.at[to_usize(position)] = number;
        }
        let (look_left, look_right) = self.config.score.depends_on_tokens();
        if look_left {
            self.begun[to_usize(pair.left)].push(number);
        }
        if look_right {
            self.ended[to_usize(pair.right)].push(number);
        }
        let (measures, tied) = (Measures::default(), Tied { left: pair.left, right: pair.right, first: 0 });
        self.keys.push(Key { measures, tied });
        self.pairs.push(pair);
        self.place_anew(number);
    }
}

/// Whether pair `one` is merged before pair `two`: by the greater score, then by the tie rule.
fn comes_before(config: &TrainConfig, ties: &Ties, keys: &[Key], one: u32, two: u32) -> bool {
    let (one, two) = (&keys[to_usize(one)], &keys[to_usize(two)]);
    let by_score = config.score.compare(&two.measures, &one.measures);
    by_score.then_with(|| ties.compare(&one.tied, &two.tied)) == Ordering::Less
}

/// Minimum count at which a pair is merged.
fn least(config: &TrainConfig) -> u64 {
    config.min_frequency.get().max(1)
}

/// Positions where pairs with the new token begin, ascending: at the token, and at the token before it.
fn changed_positions(text: &Text, sites: &[usize], token: u32) -> Vec<usize> {
    let mut positions = Vec::with_capacity(sites.len() * 2);
    for &site in sites {
        // If the token before is the new token too, it is a site itself.
        positions.extend(text.before(site).filter(|&before| text.tokens[before] != token));
        positions.push(site);
    }
    positions
}
