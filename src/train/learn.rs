//! The training loop for [`Score::Count`]: at each step it merges the most frequent pair.
//!
//! A step takes the best pair from the [`PairQueue`], replaces its occurrences with [`apply`], and puts the new pairs
//! into the queue. The text is counted once per round (see `Trainer::run`). Apart from that, the time grows with the
//! number of merged occurrences, not with the length of the text.

use super::apply::{MergeScratch, apply, is_worth_sharing};
use super::corpus::{CompactWeight, Corpus, PairId, UnitWeight, Weight, positions};
use super::occurrences::find;
use super::pairs::{KeepRule, KeptPairs, Pair};
use super::progress::TrainProgress;
use super::queue::{PairOrder, PairQueue};
use super::scan::{self, Scanned};
use super::tie_break::{ByBytes, ByFirstPosition, ById, Reversed, TieOrder, compared_text};
use super::unique_tail::UniqueTail;
use super::{Learned, Merge, MergeLog, Score, TieBreak, TrainConfig, scores};
use crate::base::int::{Count, to_u64};
use crate::base::pools::in_busy_pool;
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Learns merges from weighted sequences, as [`TrainConfig`] says.
///
/// The result is exact and reproducible: it depends on the sequences, on the settings and, for
/// [`TieBreak::First`] alone, on the order of the sequences.
///
/// **Memory:** about [`memory_estimate`](super::memory_estimate).
///
/// # Errors
/// - [`ErrorKind::Memory`](crate::ErrorKind::Memory) if the positions of the text do not fit 32 bits. There is one
///   position for each byte, and one more for each sequence.
/// - The number of tokens in the corpus does not fit 64 bits.
/// - The observer asks to stop.
///
/// # Examples
/// ```
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, learn_merges};
/// use tokenmill::Count;
///
/// let words: [(&[u8], _); 2] = [(b"low", Count::new(5)), (b"lower", Count::new(2))];
/// let learned = learn_merges(PretokenCounts::from_iter(words), &TrainConfig::new(10), &Silent)?;
/// let first = learned.merges.iter().next().unwrap();
/// assert_eq!((first.left, first.right, first.count.get()), (u32::from(b'l'), u32::from(b'o'), 7));
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn learn_merges(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    if config.score != Score::Count {
        return scores::learn(pretokens, config, observer);
    }
    if scan::is_suitable(&pretokens, config) {
        let Scanned { text, log, tokens } = scan::learn_by_scanning(pretokens, config, observer)?;
        let Some(text) = text else {
            return Ok(log.finish(tokens, observer));
        };
        let corpus = Corpus::<UnitWeight>::of_scanned(text, tokens, &log.merges, observer)?;
        return continue_with_lists(corpus, log, &[], observer);
    }
    if pretokens.iter().all(|(_, count)| count == Count::ONE) {
        learn_with_lists::<UnitWeight>(pretokens, config, observer)
    } else {
        learn_with_lists::<CompactWeight>(pretokens, config, observer)
    }
}

/// Learns all merges with occurrence lists. `W` can be [`UnitWeight`] if every sequence has weight 1, which
/// halves the memory of the lists.
pub(super) fn learn_with_lists<W: Weight + Default>(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    // The text is laid out, its pairs are counted, and their occurrences are listed.
    const PASSES: usize = 3;
    observer.started(Stage::Prepare, Some(to_u64(PASSES * positions(&pretokens))));
    let corpus = Corpus::<W>::new(&pretokens, observer)?.with_word_rule(config, []);
    let bytes = compared_text(&pretokens, config.tie_break);
    drop(pretokens);
    let progress = TrainProgress::new(Stage::Train, config.merges, config, corpus.mergeable());
    let log = MergeLog::new(config, corpus.tokens, progress);
    continue_with_lists(corpus, log, &bytes, observer)
}

/// Learns the remaining merges with occurrence lists, after those in `log`. In `corpus`, each token must span exactly
/// one position. If the tie rule compares bytes, each token must be a single byte, and `bytes` has the byte at each
/// position; otherwise `bytes` is not used.
pub(super) fn continue_with_lists<W: Weight + Default>(
    corpus: Corpus<W>,
    log: MergeLog<'_>,
    bytes: &[u8],
    observer: &dyn Observer,
) -> Result<Learned> {
    let by_bytes = ByBytes::new(bytes, log.config.tie_break.compared_bytes());
    match log.config.tie_break {
        rule @ (TieBreak::Ids | TieBreak::Hf) => {
            Trainer { corpus, log, order: ById::new(rule) }.run(observer)
        }
        TieBreak::First => Trainer { corpus, log, order: ByFirstPosition }.run(observer),
        TieBreak::BytesSmallest => Trainer { corpus, log, order: by_bytes }.run(observer),
        TieBreak::BytesGreatest | TieBreak::AlphabetGreatest => {
            Trainer { corpus, log, order: Reversed(by_bytes) }.run(observer)
        }
    }
}

/// State of the training loop with occurrence lists.
struct Trainer<'a, W, O> {
    corpus: Corpus<W>,
    order: O,
    log: MergeLog<'a>,
}

/// The state of one round: the pairs that reach its threshold, and the queue that orders them.
struct TrainRound<W, K> {
    pairs: KeptPairs<W>,
    queue: PairQueue<K>,
    scratch: MergeScratch<W>,
}

/// Gives the [`PairQueue`] access to counts and tie-breaking keys.
struct PairOrderView<'a, W, O> {
    pairs: &'a KeptPairs<W>,
    corpus: &'a Corpus<W>,
    order: &'a O,
}

impl<W: Weight + Default, O: TieOrder> PairOrder for PairOrderView<'_, W, O> {
    type Key = O::Key;

    fn count(&self, pair: PairId) -> u64 {
        self.pairs.count(pair)
    }

    fn key(&self, pair: PairId) -> O::Key {
        self.order.key(pair, self.pairs, &self.corpus.cells)
    }
}

impl<W: Weight + Default, O: TieOrder> Trainer<'_, W, O> {
    /// Learns in rounds, each of which keeps only the pairs that occur at least `threshold` times. Rare pairs
    /// are by far the most numerous and are merged last, if at all; the text is counted again, with a lower
    /// threshold, only when a round has no pair left.
    fn run(mut self, observer: &dyn Observer) -> Result<Learned> {
        let config = self.log.config;
        let final_threshold = config.min_frequency.get().max(2);
        let mut threshold = first_threshold(self.corpus.tokens, config);
        loop {
            threshold = self.learn_to_threshold(threshold.max(final_threshold), observer)?;
            if self.is_done() || threshold == final_threshold {
                break;
            }
            threshold /= THRESHOLD_DIVISOR;
        }
        if config.min_frequency <= Count::ONE {
            self.learn_single_occurrences(observer)?;
        }
        Ok(self.log.finish(self.corpus.tokens, observer))
    }

    /// Merges until there are enough merges or no pair occurs `threshold` times or more. Returns the threshold
    /// that was used, which [`KeepRule::for_merges`] may have raised.
    fn learn_to_threshold(&mut self, threshold: u64, observer: &dyn Observer) -> Result<u64> {
        if self.is_done() {
            return Ok(threshold);
        }
        let keep = KeepRule { threshold, longest: self.log.config.max_bytes() };
        let positions = self.corpus.cells.len();
        self.log.progress.prepare(2 * positions, observer);
        let pairs = find(&mut self.corpus, keep, self.log.remaining(), observer)?;
        self.log.progress.prepared(positions, observer);
        let threshold = pairs.keep.threshold;
        let mut queue = PairQueue::new(threshold);
        for id in pairs.ids() {
            queue.push(id, &PairOrderView { pairs: &pairs, corpus: &self.corpus, order: &self.order });
        }
        let mut round = TrainRound { pairs, queue, scratch: MergeScratch::default() };
        // Several threads merge as long as steps are long enough to be divided. This thread merges the rest.
        if self.corpus.is_large() {
            in_busy_pool(|threads| self.merge_all(&mut round, threads, observer))?;
        }
        self.merge_all(&mut round, 1, observer)?;
        Ok(threshold)
    }

    /// Merges until there are enough merges or no pair is left. With several threads, also returns after
    /// [`MAX_SHORT_STEPS`] consecutive steps with too little work to divide among threads.
    fn merge_all(
        &mut self,
        round: &mut TrainRound<W, O::Key>,
        threads: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        let TrainRound { pairs, queue, scratch } = round;
        scratch.max_segments = threads;
        let mut short_steps = 0;
        while !self.is_done() && short_steps < MAX_SHORT_STEPS {
            let view = PairOrderView { pairs, corpus: &self.corpus, order: &self.order };
            let Some(pair) = queue.pop(&view) else { break };
            pairs.prefetch(std::array::from_fn(|distance| queue.upcoming(distance)), &self.corpus);
            short_steps = if threads == 1 || is_worth_sharing(pair, pairs) { 0 } else { short_steps + 1 };
            self.merge(pair, pairs, scratch);
            let view = PairOrderView { pairs, corpus: &self.corpus, order: &self.order };
            for &created in &scratch.created {
                queue.push(created, &view);
            }
            // The observer is asked after every merge, because on a long text each of the first merges can take a large
            // part of a second.
            self.log.report(observer);
            observer.checkpoint()?;
        }
        Ok(())
    }

    /// Merges the pairs that occur once, after all others. Tie rules that compare ids use [`UniqueTail`], which needs
    /// no queue; other rules run a round with threshold 1.
    fn learn_single_occurrences(&mut self, observer: &dyn Observer) -> Result<()> {
        let Some(byte_order) = self.order.byte_order().copied() else {
            return self.learn_to_threshold(1, observer).map(drop);
        };
        if self.is_done() {
            return Ok(());
        }
        let (limit, longest) = (self.log.remaining(), self.log.config.max_bytes());
        let tokens = self.corpus.live_tokens();
        let Corpus { lengths, word_rule, tokens: left_tokens, .. } = &mut self.corpus;
        let mut unique = UniqueTail::new(tokens, &byte_order, longest, lengths, word_rule);
        unique.merge(limit, observer, |left, right| {
            *left_tokens -= 1;
            self.log.push(Merge { left, right, count: Count::ONE }, 1, *left_tokens);
            if self.log.merges.len().is_multiple_of(SINGLES_PER_REPORT) {
                self.log.report(observer);
            }
        })?;
        self.log.report(observer);
        Ok(())
    }

    /// Whether there are enough merges.
    fn is_done(&self) -> bool {
        self.log.remaining() == 0
    }

    /// Merges a pair in the whole text, and records the merge.
    fn merge(&mut self, pair: PairId, pairs: &mut KeptPairs<W>, scratch: &mut MergeScratch<W>) {
        let Pair { left, right, .. } = pairs.pair(pair);
        let (count, occurrences) = (Count::new(pairs.count(pair)), pairs.listed(pair));
        let token = self.corpus.add_token(left, right);
        let position = apply(pair, token, &mut self.corpus, pairs, scratch);
        self.order.token_created(position, self.corpus.length(token));
        self.log.push(Merge { left, right, count }, occurrences, self.corpus.tokens);
    }
}

/// Lower bound for the threshold of the first round, which [`KeepRule::for_merges`] may raise. In natural text, counts
/// are so uneven that even the last merged pair occurs several times as often as this bound.
fn first_threshold(tokens: u64, config: &TrainConfig) -> u64 {
    tokens / to_u64(config.merges).max(1) / FIRST_THRESHOLD_DIVISOR
}

/// The first round keeps only pairs that occur at least (tokens of the text ÷ merges) ÷ this number times.
const FIRST_THRESHOLD_DIVISOR: u64 = 256;

/// Number of consecutive short steps after which the threads that poll for work (see [`in_busy_pool`]) are released.
const MAX_SHORT_STEPS: usize = 1 << 6;

/// Merges of pairs that occur once between two reports, because reporting takes as long as merging some of them.
const SINGLES_PER_REPORT: usize = 1 << 10;

/// Factor by which the threshold falls from round to round.
const THRESHOLD_DIVISOR: u64 = 16;
