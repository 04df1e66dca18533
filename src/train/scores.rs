//! Scores of pairs, their exact comparison, and the training loop for any [`Score`].
//!
//! If the score depends on the counts of tokens, merging a pair can raise the scores of other pairs, so it is
//! not enough to look again at the pair that was best before. After each step, every pair with a changed score
//! moves to its new position in a heap. These are the pairs with a changed count and, as far as the score
//! depends on tokens, all pairs that contain one of the two merged tokens.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::corpus::{SEPARATOR, Text};
use super::extend::Replayed;
use super::tie_break::ById;
use super::{HistoryPoint, Learned, Merge, TieBreak, TrainConfig};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};

/// The quantity that training maximises: at each step the pair with the greatest score is merged.
///
/// As text a score is `count`, `count-length` or `conditional:p,q,r`. The tie rule decides between equal
/// scores, and [`min_frequency`](super::TrainConfig::min_frequency) limits the count whatever the score. Scores
/// are compared exactly, as integers that are as wide as needed.
///
/// ```
/// use tokenmill::train::{Powers, Score};
///
/// let score: Score = "conditional:2,1,1".parse()?;
/// assert_eq!(Some(score), Powers::new(2, 1, 1).map(Score::Conditional));
/// # Ok::<(), tokenmill::train::NotScore>(())
/// ```
///
/// Bytes per token on the training text after 2 000 merges, with a minimum frequency of 2:
///
/// | score | Swann's Way, no split | `gpt2` | taylorswift.txt, no split | `gpt2` |
/// | --- | --- | --- | --- | --- |
/// | `count` | 3.553 | 3.268 | 4.232 | 3.405 |
/// | `count-length` | 3.440 | 3.187 | 3.319 | 3.287 |
/// | `conditional:3,1,1` | 3.428 | 3.136 | 3.779 | 3.254 |
/// | `conditional:2,1,0` | 3.277 | 2.930 | 3.667 | 2.810 |
/// | `conditional:2,1,1` | 2.915 | 2.883 | 3.104 | 2.594 |
/// | `conditional:3,2,2` | 1.935 | 1.918 | 2.083 | 2.030 |
/// | `conditional:1,1,1` | 1.030 | 1.080 | 1.313 | 1.519 |
///
/// So merging the most frequent pair at each step also compresses best in the end. `count-length` prefers long
/// repeated passages. Conditional scores prefer rare tokens that seldom occur apart; with (1, 1, 1) they merge
/// tokens that occur twice, always together. Each figure is `training.tokens_before` divided by
/// `training.tokens_after`, as `out/report.json` has them after a command like
///
/// ```text
/// tokenmill train swanns-way.txt -o out --merges 2000 --split none --score count-length
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Score {
    /// How often the pair occurs. This is standard byte-pair encoding.
    #[default]
    Count,
    /// How often the pair occurs, times the length of its token in bytes minus one. These are the bytes that
    /// the merge would save if each byte of the pair were a token of its own.
    CountLength,
    /// How often the pair occurs in proportion to its tokens: count(lr)^p / (count(l)^q × count(r)^r), with the
    /// counts of the tokens in the current text.
    Conditional(Powers),
}

/// The powers p, q and r of [`Score::Conditional`], each from 0 to 3. (1, 0, 0) orders pairs as
/// [`Score::Count`] does, and (1, 1, 1) is the likelihood score of WordPretoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedPowers")]
pub struct Powers {
    /// Power of the pair's count.
    p: u8,
    /// Power of the left token's count.
    q: u8,
    /// Power of the right token's count.
    r: u8,
}

/// The greatest power.
const MOST: u8 = 3;

/// Maximum number of factors in a product that is compared: three powers of at most three.
const FACTORS: usize = 9;

/// Powers as they are deserialized, before the check against [`MOST`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedPowers {
    p: u8,
    q: u8,
    r: u8,
}

/// The error for text that is not a score, and for powers above 3.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a score; the scores are count, count-length and conditional:p,q,r with p, q and r from 0 to {MOST}"
)]
pub struct NotScore {
    text: String,
}

impl From<NotScore> for Error {
    fn from(wrong: NotScore) -> Error {
        Error::new(ErrorKind::Usage, wrong)
    }
}

impl Powers {
    /// The powers of the pair's count, of the left token's count and of the right token's. `None` if one is
    /// above 3.
    pub fn new(p: u8, q: u8, r: u8) -> Option<Powers> {
        [p, q, r].iter().all(|power| *power <= MOST).then_some(Powers { p, q, r })
    }
}

impl TryFrom<UncheckedPowers> for Powers {
    type Error = NotScore;

    fn try_from(UncheckedPowers { p, q, r }: UncheckedPowers) -> Result<Powers, NotScore> {
        Powers::new(p, q, r).ok_or_else(|| NotScore { text: format!("conditional:{p},{q},{r}") })
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Score::Count => f.write_str("count"),
            Score::CountLength => f.write_str("count-length"),
            Score::Conditional(Powers { p, q, r }) => write!(f, "conditional:{p},{q},{r}"),
        }
    }
}

impl FromStr for Score {
    type Err = NotScore;

    fn from_str(text: &str) -> Result<Score, NotScore> {
        let conditional = || {
            let powers = text.strip_prefix("conditional:")?.split(',');
            let powers: Vec<u8> = powers.map(|power| power.trim().parse().ok()).collect::<Option<_>>()?;
            let [p, q, r] = powers[..] else { return None };
            Powers::new(p, q, r).map(Score::Conditional)
        };
        match text {
            "count" => Ok(Score::Count),
            "count-length" => Ok(Score::CountLength),
            _ => conditional().ok_or_else(|| NotScore { text: text.to_owned() }),
        }
    }
}

/// The quantities from which scores are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measures {
    /// How often the pair occurs.
    pub(super) count: u64,
    /// How often its left token occurs in the text.
    pub(super) left: u64,
    /// How often its right token occurs in the text.
    pub(super) right: u64,
    /// Length in bytes of the token that it would make.
    pub(super) bytes: u64,
}

impl Score {
    /// Compares the scores of two pairs exactly: [`Ordering::Greater`] if `one` has the greater score.
    pub(super) fn compare(self, one: &Measures, two: &Measures) -> Ordering {
        let saved = |pair: &Measures| u128::from(pair.count) * u128::from(pair.bytes - 1);
        match self {
            Score::Count => one.count.cmp(&two.count),
            Score::CountLength => saved(one).cmp(&saved(two)),
            // Instead of dividing, each side is multiplied by the other's denominator.
            Score::Conditional(powers) => {
                compare_products(&powers.factors(one.count, two), &powers.factors(two.count, one))
            }
        }
    }

    /// Whether the score of a pair depends on the count of its left token, and on that of its right token.
    pub(super) fn depends_on_tokens(self) -> (bool, bool) {
        match self {
            Score::Count | Score::CountLength => (false, false),
            Score::Conditional(Powers { q, r, .. }) => (q > 0, r > 0),
        }
    }
}

impl Powers {
    /// The powers p, q and r.
    pub(super) fn values(self) -> [u8; 3] {
        [self.p, self.q, self.r]
    }

    /// The factors on a pair's side of the comparison: its count, and the counts of the other pair's tokens.
    /// Unused factors are 1.
    fn factors(self, count: u64, other: &Measures) -> [u64; FACTORS] {
        let mut factors = [1; FACTORS];
        let powers = [(count, self.p), (other.left, self.q), (other.right, self.r)];
        let all = powers.iter().flat_map(|&(number, power)| std::iter::repeat_n(number, usize::from(power)));
        factors.iter_mut().zip(all).for_each(|(factor, number)| *factor = number);
        factors
    }
}

/// Compares the products of two lists of factors.
fn compare_products(one: &[u64; FACTORS], two: &[u64; FACTORS]) -> Ordering {
    match (narrow_product(one), narrow_product(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => wide_product(one).iter().rev().cmp(wide_product(two).iter().rev()),
    }
}

/// The product if it fits 128 bits, as it does for most texts.
fn narrow_product(factors: &[u64; FACTORS]) -> Option<u128> {
    factors.iter().try_fold(1_u128, |product, &factor| product.checked_mul(u128::from(factor)))
}

/// The product as limbs of 64 bits, lowest first. It fits, because each factor has 64 bits.
fn wide_product(factors: &[u64; FACTORS]) -> [u64; FACTORS] {
    let mut product = [0_u64; FACTORS];
    product[0] = 1;
    for &factor in factors {
        let mut carry = 0;
        for limb in &mut product {
            (*limb, carry) = limb.carrying_mul(factor, carry);
        }
        debug_assert!(carry == 0, "nine factors of 64 bits fit nine limbs");
    }
    product
}

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

/// Place of a number that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// A binary heap of numbers in which any number can be moved or removed, wherever it is.
///
/// Each call gets the order as a function `before`. The order of all numbers must be the same as in earlier
/// calls, except for the number that the call is about.
#[derive(Default)]
pub(self) struct Heap {
    /// The heap: number 0 is the first, and the children of place i are at 2i + 1 and 2i + 2.
    numbers: Vec<u32>,
    /// Place of each number in `numbers`, or [`ABSENT`].
    places: Vec<u32>,
}

impl Heap {
    /// The number that comes before all others.
    pub(self) fn first(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    /// Adds a number, or moves it to its new place if the heap has it already.
    pub(self) fn put(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        if self.places.len() <= to_usize(number) {
            self.places.resize(to_usize(number) + 1, ABSENT);
        }
        let mut at = self.places[to_usize(number)];
        if at == ABSENT {
            at = truncate_to_u32(self.numbers.len());
            self.numbers.push(number);
            self.places[to_usize(number)] = at;
        }
        self.settle(to_usize(at), before);
    }

    /// Removes a number, if the heap has it.
    pub(self) fn remove(&mut self, number: u32, before: impl Fn(u32, u32) -> bool) {
        let at = self.places.get(to_usize(number)).copied().filter(|at| *at != ABSENT);
        let Some(at) = at.map(to_usize) else { return };
        self.places[to_usize(number)] = ABSENT;
        let last = self.numbers.pop().expect("a number that has a place is there");
        if at < self.numbers.len() {
            self.write(at, last);
            self.settle(at, before);
        }
    }

    /// Moves the number at a place up or down until the heap is in order.
    fn settle(&mut self, mut at: usize, before: impl Fn(u32, u32) -> bool) {
        let number = self.numbers[at];
        while at > 0 && before(number, self.numbers[(at - 1) / 2]) {
            self.write(at, self.numbers[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        while let Some(&left) = self.numbers.get(2 * at + 1) {
            let (mut child, mut down) = (2 * at + 1, left);
            if let Some(&right) = self.numbers.get(child + 1)
                && before(right, left)
            {
                (child, down) = (child + 1, right);
            }
            if !before(down, number) {
                break;
            }
            self.write(at, down);
            at = child;
        }
        self.write(at, number);
    }

    /// Writes a number and records its place.
    fn write(&mut self, at: usize, number: u32) {
        self.numbers[at] = number;
        self.places[to_usize(number)] = truncate_to_u32(at);
    }
}

/// The data that a tie rule compares, for training by any score.
///
/// The bytes of a new token are a slice of the text, at its first occurrence, so they are not copied.
pub(self) struct Ties {
    rule: TieBreak,
    /// Ranks of the bytes in GPT-2's byte alphabet.
    gpt2: ById,
    /// The bytes of all tokens: the 256 bytes, then the tokens made by the merges given at the start, then the
    /// text. This field and the next two are empty unless the rule compares bytes.
    bytes: Vec<u8>,
    /// Start in `bytes` and length of each token.
    tokens: Vec<(usize, usize)>,
    /// Start in `bytes` of each position of the text.
    places: Vec<usize>,
}

/// A pair, as tie rules compare it.
#[derive(Clone, Copy)]
pub(self) struct Tied {
    pub(self) left: u32,
    pub(self) right: u32,
    /// Position of its first occurrence.
    pub(self) first: u32,
}

impl Ties {
    /// For a text in which every token spans one position; the tokens are bytes or made by `merges`.
    pub(self) fn new(rule: TieBreak, text: &Text, merges: &[Merge]) -> Ties {
        let mut ties = Ties {
            rule,
            gpt2: ById::gpt2_alphabet(),
            bytes: Vec::new(),
            tokens: Vec::new(),
            places: Vec::new(),
        };
        if rule.looks_at_bytes() {
            ties.lay_out(text, merges);
        }
        ties
    }

    /// Writes out the bytes of all tokens and of the text.
    fn lay_out(&mut self, text: &Text, merges: &[Merge]) {
        self.bytes.extend(0..=255);
        self.tokens.extend((0..256).map(|byte| (byte, 1)));
        for merge in merges {
            let token = [self.of(merge.left), self.of(merge.right)].concat();
            self.tokens.push((self.bytes.len(), token.len()));
            self.bytes.extend(token);
        }
        for &token in &text.tokens {
            self.places.push(self.bytes.len());
            if token == SEPARATOR {
                self.bytes.push(0);
            } else {
                let (start, length) = self.tokens[to_usize(token)];
                self.bytes.extend_from_within(start..start + length);
            }
        }
    }

    /// Notes that a new token of `length` bytes has been made, which occurs at `position`.
    pub(self) fn made(&mut self, position: usize, length: usize) {
        if let Some(&place) = self.places.get(position) {
            self.tokens.push((place, length));
        }
    }

    /// Compares two pairs by the rule; the lesser is merged first.
    pub(self) fn compare(&self, one: &Tied, two: &Tied) -> Ordering {
        let gpt2 = |pair: &Tied| (self.gpt2.place_of(pair.left), self.gpt2.place_of(pair.right));
        let by_bytes =
            || (self.of(one.left), self.of(one.right)).cmp(&(self.of(two.left), self.of(two.right)));
        match self.rule {
            TieBreak::Ids => (one.left, one.right).cmp(&(two.left, two.right)),
            TieBreak::Hf => gpt2(one).cmp(&gpt2(two)),
            TieBreak::First => one.first.cmp(&two.first),
            TieBreak::BytesSmallest => by_bytes(),
            TieBreak::BytesGreatest => by_bytes().reverse(),
        }
    }

    /// The bytes of a token.
    fn of(&self, token: u32) -> &[u8] {
        let (start, length) = self.tokens[to_usize(token)];
        &self.bytes[start..start + length]
    }
}
