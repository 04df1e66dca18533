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

use super::corpus::{Cell, CompactWeight, Corpus, NOT_KEPT, PairId, SEPARATOR, positions};
use super::progress::{PassProgress, TrainProgress};
use super::tie_break::ById;
use super::{Learned, Merge, MergeLog, TieBreak, TrainConfig};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::{Error, Result};
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
/// # Ok::<(), tokenmill::Error>(())
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
const MAX_POWER: u8 = 3;

/// Maximum number of factors in a product that is compared: three powers of at most three.
const FACTORS: usize = 9;

/// Powers as they are deserialized, before the check against [`MAX_POWER`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedPowers {
    p: u8,
    q: u8,
    r: u8,
}

/// Returns the error for text that is not a score, and for powers above 3.
fn not_a_score(text: &str) -> Error {
    Error::usage(format!(
        "{text:?} is not a score; the scores are count, count-length and conditional:p,q,r with p, q and r from 0 to {MAX_POWER}"
    ))
}

impl Powers {
    /// The powers of the pair's count, of the left token's count and of the right token's. `None` if one is
    /// above 3.
    pub fn new(p: u8, q: u8, r: u8) -> Option<Powers> {
        [p, q, r].iter().all(|power| *power <= MAX_POWER).then_some(Powers { p, q, r })
    }
}

impl TryFrom<UncheckedPowers> for Powers {
    type Error = Error;

    fn try_from(UncheckedPowers { p, q, r }: UncheckedPowers) -> Result<Powers> {
        Powers::new(p, q, r).ok_or_else(|| not_a_score(&format!("conditional:{p},{q},{r}")))
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
    type Err = Error;

    fn from_str(text: &str) -> Result<Score> {
        let conditional = || {
            let powers = text.strip_prefix("conditional:")?.split(',');
            let powers = powers.map(|power| power.trim().parse::<u8>().ok()).collect::<Option<Vec<_>>>()?;
            let [p, q, r] = powers[..] else { return None };
            Powers::new(p, q, r).map(Score::Conditional)
        };
        match text {
            "count" => Ok(Score::Count),
            "count-length" => Ok(Score::CountLength),
            _ => conditional().ok_or_else(|| not_a_score(text)),
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
        let all = powers.iter().flat_map(|&(id, power)| std::iter::repeat_n(id, usize::from(power)));
        factors.iter_mut().zip(all).for_each(|(factor, id)| *factor = id);
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
    observer.started(Stage::Prepare, Some(to_u64(2 * positions(&pretokens))));
    let corpus = Corpus::new(&pretokens, observer)?.with_word_rule(config, []);
    drop(pretokens);
    let progress = TrainProgress::new(Stage::Train, config.merges, config, corpus.mergeable());
    let log = MergeLog::new(config, corpus.tokens, progress);
    ScoreTrainer::new(corpus, log, observer)?.run(observer)
}

/// A pair of tokens that may be merged.
struct ScoredPair {
    left: u32,
    right: u32,
    count: u64,
    /// Positions at which the pair occurred when it was created, ascending. Those before index `live` are no
    /// longer live.
    positions: Vec<u32>,
    live: usize,
}

impl ScoredPair {
    /// A pair without occurrences.
    fn new(left: u32, right: u32) -> ScoredPair {
        ScoredPair { left, right, count: 0, positions: Vec::new(), live: 0 }
    }
}

/// What decides about the position of a pair in the heap.
#[derive(Clone, Copy)]
struct ScoredKey {
    /// The quantities from which the score is computed.
    measures: Measures,
    /// The data that decide between equal scores.
    tied: TieKey,
}

/// State of the training loop by scores.
///
/// A step takes time for the occurrences that it merges, and logarithmic time for each pair that moves in the
/// heap. Without dependence on tokens, only pairs next to a merged occurrence move. With it, all pairs that
/// contain one of the two merged tokens move, which can be many.
pub(super) struct ScoreTrainer<'a> {
    log: MergeLog<'a>,
    /// The text as it is now, with the ids of the kept pairs.
    corpus: Corpus<CompactWeight>,
    /// Index of the sequence at each position.
    sequences: Vec<u32>,
    /// Number of occurrences of each token: the sum over sequences of weight × occurrences.
    counts: Vec<u64>,
    /// Data that the tie rule compares.
    ties: TieData,
    /// All pairs that were ever kept, by id. The first is a placeholder for [`NOT_KEPT`].
    pairs: Vec<ScoredPair>,
    /// Present key of each pair, by id.
    keys: Vec<ScoredKey>,
    /// The pairs that may be merged, the best first.
    heap: Heap,
    /// For each token, the pairs that begin with it. Empty unless the score depends on the counts of left tokens.
    by_left: Vec<Vec<PairId>>,
    /// For each token, the pairs that end with it. Empty unless the score depends on the counts of right tokens.
    by_right: Vec<Vec<PairId>>,
    /// The pairs that lost occurrences in this step.
    lowered: Vec<PairId>,
}

impl<'a> ScoreTrainer<'a> {
    /// Starts on a text in which each token has one position, after the merges in `log`.
    ///
    /// # Errors
    /// The observer asks to stop.
    pub(super) fn new(
        corpus: Corpus<CompactWeight>,
        log: MergeLog<'a>,
        observer: &dyn Observer,
    ) -> Result<ScoreTrainer<'a>> {
        let (sequences, tokens) = (corpus.sequence_numbers(), corpus.lengths.len());
        let mut counts = vec![0; tokens];
        for (cell, &sequence) in
            corpus.cells.iter().zip(&sequences).filter(|(cell, _)| cell.token != SEPARATOR)
        {
            counts[to_usize(cell.token)] += corpus.weight(sequence);
        }
        let mut trainer = ScoreTrainer {
            ties: TieData::new(log.config.tie_break, &corpus.cells, &log.merges),
            log,
            corpus,
            sequences,
            counts,
            pairs: Vec::new(),
            keys: Vec::new(),
            heap: Heap::default(),
            by_left: vec![Vec::new(); tokens],
            by_right: vec![Vec::new(); tokens],
            lowered: Vec::new(),
        };
        trainer.add(ScoredPair::new(SEPARATOR, SEPARATOR));
        let length = trainer.corpus.cells.len();
        trainer.log.progress.prepare(length, observer);
        let mut pass = PassProgress::new(observer);
        trainer.find_pairs(0..length, |position| pass.reached(position))?;
        pass.ended(length);
        trainer.log.progress.prepared(length, observer);
        trainer.log.report(observer);
        Ok(trainer)
    }

    /// Merges the best pair until there are enough merges or no pair is left that may be merged.
    pub(super) fn run(mut self, observer: &dyn Observer) -> Result<Learned> {
        while self.log.remaining() > 0 {
            observer.checkpoint()?;
            let Some(best) = self.best() else { break };
            self.merge(best);
            self.report(observer);
        }
        Ok(self.log.finish(self.corpus.tokens, observer))
    }

    /// Reports the merges since the last report.
    pub(super) fn report(&mut self, observer: &dyn Observer) {
        self.log.report(observer);
    }

    /// Reports the end.
    pub(super) fn finished(&mut self, observer: &dyn Observer) {
        self.log.progress.finished(self.log.merges.len(), observer);
    }

    /// The pair to merge next.
    pub(super) fn best(&self) -> Option<PairId> {
        self.heap.first()
    }

    /// Number of pairs that were ever kept, with the placeholder. They have the ids below it.
    pub(super) fn pair_count(&self) -> u32 {
        truncate_to_u32(self.pairs.len())
    }

    /// The tokens of a pair.
    pub(super) fn tokens(&self, pair: PairId) -> (u32, u32) {
        (self.pairs[to_usize(pair)].left, self.pairs[to_usize(pair)].right)
    }

    /// How often a pair occurs now.
    pub(super) fn count(&self, pair: PairId) -> Count {
        Count::new(self.pairs[to_usize(pair)].count)
    }

    /// Whether a pair still occurs often enough to be merged, and no pair has a greater score.
    pub(super) fn is_best(&self, pair: PairId) -> bool {
        let measures = |pair: PairId| self.keys[to_usize(pair)].measures;
        let TrainConfig { score, .. } = self.log.config;
        self.pairs[to_usize(pair)].count >= self.log.config.min_count()
            && self.best().is_some_and(|best| score.compare(&measures(pair), &measures(best)).is_eq())
    }

    /// How often two tokens are adjacent, whether or not they are kept as a pair. Walks through the whole text.
    pub(super) fn count_of(&self, tokens: (u32, u32)) -> Count {
        self.corpus.count_of(tokens)
    }

    /// Merges a pair, and moves all pairs with a changed score in the heap.
    pub(super) fn merge(&mut self, best: PairId) {
        let ScoredPair { left, right, count, .. } = self.pairs[to_usize(best)];
        let token = self.corpus.add_token(left, right);
        self.counts.push(0);
        self.by_left.push(Vec::new());
        self.by_right.push(Vec::new());
        let sites = self.replace(best, token);
        self.log.push(Merge { left, right, count: Count::new(count) }, sites.len(), self.corpus.tokens);
        self.ties.token_created(sites[0], self.corpus.length(token));
        let mut lowered = std::mem::take(&mut self.lowered);
        lowered.sort_unstable();
        lowered.dedup();
        lowered.into_iter().for_each(|pair| self.update(pair));
        let (by_left, by_right) = self.log.config.score.depends_on_tokens();
        for token in [left, right].into_iter().take(if left == right { 1 } else { 2 }).map(to_usize) {
            if by_left {
                let pairs = std::mem::take(&mut self.by_left[token]);
                self.by_left[token] = self.update_all(pairs);
            }
            if by_right {
                let pairs = std::mem::take(&mut self.by_right[token]);
                self.by_right[token] = self.update_all(pairs);
            }
        }
        let changed = changed_positions(&self.corpus, &sites, token).into_iter();
        self.find_pairs(changed, |_| Ok(())).expect("nothing stops it");
    }

    /// Writes the token over the occurrences of its pair, from left to right without overlap, and lowers the
    /// counts of the pairs that end there. Returns the positions.
    fn replace(&mut self, best: PairId, token: u32) -> Vec<usize> {
        let ScoredPair { left, right, live, .. } = self.pairs[to_usize(best)];
        let positions = std::mem::take(&mut self.pairs[to_usize(best)].positions);
        let mut sites = Vec::new();
        for position in positions[live..].iter().map(|&position| to_usize(position)) {
            if self.corpus.cells[position].pair != best {
                continue;
            }
            let weight = self.corpus.weight(self.sequences[position]);
            for pair in self.corpus.replace(position, left, token) {
                if pair != NOT_KEPT {
                    self.pairs[to_usize(pair)].count -= weight;
                    self.lowered.push(pair);
                }
            }
            self.counts[to_usize(left)] -= weight;
            self.counts[to_usize(right)] -= weight;
            self.counts[to_usize(token)] += weight;
            self.corpus.tokens -= weight;
            sites.push(position);
        }
        sites
    }

    /// Moves a pair to the position in the heap that its present score gives it, or out of the heap if it
    /// occurs too seldom.
    fn update(&mut self, pair: PairId) {
        let ScoreTrainer { log, corpus, counts, ties, pairs, keys, heap, .. } = self;
        let (config, id) = (log.config, to_usize(pair));
        let ScoredPair { left, right, count, positions, live } = &mut pairs[id];
        if *count < config.min_count() {
            heap.remove(pair, |one, two| comes_before(config, ties, keys, one, two));
            *positions = Vec::new();
            return;
        }
        while corpus.cells[to_usize(positions[*live])].pair != pair {
            *live += 1;
        }
        let tied = TieKey { left: *left, right: *right, first: positions[*live] };
        let measures = Measures {
            count: *count,
            left: counts[to_usize(*left)],
            right: counts[to_usize(*right)],
            bytes: to_u64(corpus.length(*left) + corpus.length(*right)),
        };
        keys[id] = ScoredKey { measures, tied };
        heap.insert_or_move(pair, |one, two| comes_before(config, ties, keys, one, two));
    }

    /// Moves pairs in the heap, and returns those that still occur often enough.
    fn update_all(&mut self, mut pairs: Vec<PairId>) -> Vec<PairId> {
        let min_count = self.log.config.min_count();
        pairs.retain(|&pair| self.pairs[to_usize(pair)].count >= min_count);
        pairs.iter().for_each(|&pair| self.update(pair));
        pairs
    }

    /// Finds the pairs that begin at these positions, all of them new, and keeps those that may ever be merged.
    /// The others never can be, because counts only fall. `reached` is called with each position.
    ///
    /// # Errors
    /// Those of `reached`.
    fn find_pairs(
        &mut self,
        positions: impl Iterator<Item = usize>,
        mut reached: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut found: Vec<ScoredPair> = Vec::new();
        let mut ids: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        for position in positions {
            reached(position)?;
            let Some((left, right)) = self.corpus.pair_at(position) else { continue };
            let id = *ids.entry((left, right)).or_insert_with(|| {
                found.push(ScoredPair::new(left, right));
                found.len() - 1
            });
            found[id].count += self.corpus.weight(self.sequences[position]);
            found[id].positions.push(truncate_to_u32(position));
        }
        let (min_count, longest) = (self.log.config.min_count(), self.log.config.max_bytes());
        for pair in found {
            let bytes = self.corpus.length(pair.left) + self.corpus.length(pair.right);
            let fits = bytes <= longest && self.corpus.words_allow(pair.left, pair.right);
            if pair.count >= min_count && fits {
                self.keep(pair);
            }
        }
        Ok(())
    }

    /// Adds a pair and puts it into the heap.
    fn keep(&mut self, pair: ScoredPair) {
        let id = self.pair_count();
        for &position in &pair.positions {
            self.corpus.cells[to_usize(position)].pair = id;
        }
        let (by_left, by_right) = self.log.config.score.depends_on_tokens();
        if by_left {
            self.by_left[to_usize(pair.left)].push(id);
        }
        if by_right {
            self.by_right[to_usize(pair.right)].push(id);
        }
        self.add(pair);
        self.update(id);
    }

    /// Adds a pair with an empty key.
    fn add(&mut self, pair: ScoredPair) {
        let tied = TieKey { left: pair.left, right: pair.right, first: 0 };
        self.keys.push(ScoredKey { measures: Measures::default(), tied });
        self.pairs.push(pair);
    }
}

/// Whether pair `one` is merged before pair `two`: by the greater score, then by the tie rule.
fn comes_before(config: &TrainConfig, ties: &TieData, keys: &[ScoredKey], one: PairId, two: PairId) -> bool {
    let (one, two) = (&keys[to_usize(one)], &keys[to_usize(two)]);
    let by_score = config.score.compare(&two.measures, &one.measures);
    by_score.then_with(|| ties.compare(&one.tied, &two.tied)) == Ordering::Less
}

/// Positions where pairs with the new token begin, ascending: at the token, and at the token before it.
pub(super) fn changed_positions(corpus: &Corpus<CompactWeight>, sites: &[usize], token: u32) -> Vec<usize> {
    let mut positions = Vec::with_capacity(sites.len() * 2);
    for &site in sites {
        // If the token before is the new token too, it is a site itself.
        positions.extend(corpus.before(site).filter(|&before| corpus.cells[before].token != token));
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
struct Heap {
    /// The heap: number 0 is the first, and the children of place i are at 2i + 1 and 2i + 2.
    ids: Vec<u32>,
    /// Place of each number in `ids`, or [`ABSENT`].
    positions: Vec<u32>,
}

impl Heap {
    /// The number that comes before all others.
    fn first(&self) -> Option<u32> {
        self.ids.first().copied()
    }

    /// Adds a number, or moves it to its new place if the heap has it already.
    fn insert_or_move(&mut self, id: u32, before: impl Fn(u32, u32) -> bool) {
        if self.positions.len() <= to_usize(id) {
            self.positions.resize(to_usize(id) + 1, ABSENT);
        }
        let mut slot = self.positions[to_usize(id)];
        if slot == ABSENT {
            slot = truncate_to_u32(self.ids.len());
            self.ids.push(id);
            self.positions[to_usize(id)] = slot;
        }
        self.sift(to_usize(slot), before);
    }

    /// Removes a number, if the heap has it.
    fn remove(&mut self, id: u32, before: impl Fn(u32, u32) -> bool) {
        let slot = self.positions.get(to_usize(id)).copied().filter(|slot| *slot != ABSENT);
        let Some(slot) = slot.map(to_usize) else { return };
        self.positions[to_usize(id)] = ABSENT;
        let last = self.ids.pop().expect("a number that has a place is there");
        if slot < self.ids.len() {
            self.set(slot, last);
            self.sift(slot, before);
        }
    }

    /// Moves the number at a place up or down until the heap is in order.
    fn sift(&mut self, mut slot: usize, before: impl Fn(u32, u32) -> bool) {
        let id = self.ids[slot];
        while slot > 0 && before(id, self.ids[(slot - 1) / 2]) {
            self.set(slot, self.ids[(slot - 1) / 2]);
            slot = (slot - 1) / 2;
        }
        while let Some(&left) = self.ids.get(2 * slot + 1) {
            let (mut child, mut down) = (2 * slot + 1, left);
            if let Some(&right) = self.ids.get(child + 1)
                && before(right, left)
            {
                (child, down) = (child + 1, right);
            }
            if !before(down, id) {
                break;
            }
            self.set(slot, down);
            slot = child;
        }
        self.set(slot, id);
    }

    /// Writes a number and records its place.
    fn set(&mut self, slot: usize, id: u32) {
        self.ids[slot] = id;
        self.positions[to_usize(id)] = truncate_to_u32(slot);
    }
}

/// The data that a tie rule compares, for training by any score.
///
/// The bytes of a new token are a slice of the text, at its first occurrence, so they are not copied.
struct TieData {
    rule: TieBreak,
    /// Ranks of the bytes in GPT-2's byte alphabet.
    gpt2: ById,
    /// The bytes of all tokens, as the rule compares them: the 256 bytes, then the tokens made by the merges given at the start, then the
    /// text. This field and the next two are empty unless the rule compares bytes.
    bytes: Vec<u8>,
    /// Start in `bytes` and length of each token.
    tokens: Vec<(usize, usize)>,
    /// Start in `bytes` of each position of the text.
    positions: Vec<usize>,
}

/// A pair, as tie rules compare it.
#[derive(Clone, Copy)]
struct TieKey {
    left: u32,
    right: u32,
    /// Position of its first occurrence.
    first: u32,
}

impl TieData {
    /// For a text in which every token spans one position; the tokens are bytes or made by `merges`.
    fn new(rule: TieBreak, cells: &[Cell], merges: &[Merge]) -> TieData {
        let mut ties = TieData {
            rule,
            gpt2: ById::new(TieBreak::Hf),
            bytes: Vec::new(),
            tokens: Vec::new(),
            positions: Vec::new(),
        };
        if rule.compares_bytes() {
            ties.lay_out(cells, merges);
        }
        ties
    }

    /// Writes out the bytes of all tokens and of the text.
    fn lay_out(&mut self, cells: &[Cell], merges: &[Merge]) {
        self.bytes.extend(self.rule.compared_bytes());
        self.tokens.extend((0..256).map(|byte| (byte, 1)));
        for merge in merges {
            let token = [self.of(merge.left), self.of(merge.right)].concat();
            self.tokens.push((self.bytes.len(), token.len()));
            self.bytes.extend(token);
        }
        for &Cell { token, .. } in cells {
            self.positions.push(self.bytes.len());
            if token == SEPARATOR {
                self.bytes.push(0);
            } else {
                let (start, length) = self.tokens[to_usize(token)];
                self.bytes.extend_from_within(start..start + length);
            }
        }
    }

    /// Notes that a new token of `length` bytes has been made, which occurs at `position`.
    fn token_created(&mut self, position: usize, length: usize) {
        if let Some(&place) = self.positions.get(position) {
            self.tokens.push((place, length));
        }
    }

    /// Compares two pairs by the rule; the lesser is merged first.
    fn compare(&self, one: &TieKey, two: &TieKey) -> Ordering {
        let gpt2 = |pair: &TieKey| (self.gpt2.rank(pair.left), self.gpt2.rank(pair.right));
        let by_bytes =
            || (self.of(one.left), self.of(one.right)).cmp(&(self.of(two.left), self.of(two.right)));
        match self.rule {
            TieBreak::Ids => (one.left, one.right).cmp(&(two.left, two.right)),
            TieBreak::Hf => gpt2(one).cmp(&gpt2(two)),
            TieBreak::First => one.first.cmp(&two.first),
            TieBreak::BytesSmallest => by_bytes(),
            TieBreak::BytesGreatest | TieBreak::AlphabetGreatest => by_bytes().reverse(),
        }
    }

    /// The bytes of a token.
    fn of(&self, token: u32) -> &[u8] {
        let (start, length) = self.tokens[to_usize(token)];
        &self.bytes[start..start + length]
    }
}
