//! The training loop for [`Score::Count`]: at each step it merges the most frequent pair.
//!
//! A step takes the best pair from the [`Queue`], replaces its occurrences with [`apply`], and files the pairs
//! that this creates. Apart from one count of the text per round, the time grows with the number of merged
//! occurrences and not with the length of the text.

use super::apply::is_long;
use super::apply::{Scratch, apply};
use super::corpus::{Corpus, Once, Weight, Weighted, bytes_by_position};
use super::extend::Replayed;
use super::occurrences::find;
use super::pairs::{AT_FIRST, Keep, PairId, Pairs};
use super::queue::{Queue, Rank};
use super::scan::{self, Scanned};
use super::tie_break::{ByBytes, ByFirstPosition, ById, Order, Reversed};
use super::unique_tail::Unique;
use super::{HistoryPoint, Learned, Merge, Score, TieBreak, TrainConfig, scores};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
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
/// - [`ErrorKind::Memory`](crate::ErrorKind::Memory) if the text has too many positions, which are its bytes
///   plus one for each sequence: they are numbered with 32 bits.
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
    observer.started(Stage::Train, Some(to_u64(config.merges)));
    if let Some(order) = by_id(config).filter(|_| scan::suits(&pretokens, config)) {
        return learn_after_scanning(pretokens, config, order, observer);
    }
    if pretokens.iter().all(|(_, count)| count == Count::ONE) {
        learn_by::<Once>(pretokens, config, observer)
    } else {
        learn_by::<Weighted>(pretokens, config, observer)
    }
}

/// The tie rule as an order by ids, or `None` if the rule looks at anything else.
fn by_id(config: &TrainConfig) -> Option<ById> {
    match config.tie_break {
        TieBreak::Ids => Some(ById::value()),
        TieBreak::Hf => Some(ById::gpt2_alphabet()),
        TieBreak::First | TieBreak::BytesGreatest | TieBreak::BytesSmallest => None,
    }
}

/// Learns the first merges by scanning, then continues with occurrence lists once these are cheaper.
fn learn_after_scanning(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    order: ById,
    observer: &dyn Observer,
) -> Result<Learned> {
    let Scanned { text, merges, history, tokens } =
        scan::learn_by_scanning(pretokens, config, &order.byte_order, observer)?;
    let Some(text) = text else {
        observer.finished(Stage::Train);
        return Ok(Learned::new(merges, history, tokens));
    };
    let mut lengths = vec![1; 256];
    for merge in &merges {
        lengths.push(lengths[to_usize(merge.left)] + lengths[to_usize(merge.right)]);
    }
    let corpus = Corpus::<Once>::of_tokens(text, tokens, lengths.len())?;
    Trainer { corpus, order, config: config.clone(), lengths, merges, history }.run(observer)
}

/// Learns all merges with occurrence lists. `W` can be [`Once`] if every sequence has weight 1, which halves
/// the memory of the lists.
pub(super) fn learn_by<W: Weight + Default>(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    let corpus = Corpus::<W>::new(&pretokens)?;
    let by_bytes = config.tie_break.looks_at_bytes();
    let bytes = if by_bytes { bytes_by_position(&pretokens) } else { Vec::new() };
    drop(pretokens);
    match config.tie_break {
        TieBreak::Ids => Trainer::new(corpus, ById::value(), config).run(observer),
        TieBreak::Hf => Trainer::new(corpus, ById::gpt2_alphabet(), config).run(observer),
        TieBreak::First => Trainer::new(corpus, ByFirstPosition, config).run(observer),
        TieBreak::BytesSmallest => Trainer::new(corpus, ByBytes::new(&bytes), config).run(observer),
        TieBreak::BytesGreatest => Trainer::new(corpus, Reversed(ByBytes::new(&bytes)), config).run(observer),
    }
}

/// Continues training on a text to which merges have been applied, for [`Score::Count`] and tie rules that do
/// not look at bytes.
pub(super) fn go_on(replayed: Replayed, config: &TrainConfig, observer: &dyn Observer) -> Result<Learned> {
    match config.tie_break {
        TieBreak::Hf => Trainer::after(replayed, ById::gpt2_alphabet(), config)?.run(observer),
        TieBreak::First => Trainer::after(replayed, ByFirstPosition, config)?.run(observer),
        TieBreak::Ids => Trainer::after(replayed, ById::value(), config)?.run(observer),
        TieBreak::BytesGreatest | TieBreak::BytesSmallest => unreachable!("by bytes it is gone on by scores"),
    }
}

impl<O: Order> Trainer<Weighted, O> {
    /// The state after the given merges have been replayed.
    fn after(replayed: Replayed, order: O, config: &TrainConfig) -> Result<Trainer<Weighted, O>> {
        let Replayed { text, merges, history } = replayed;
        let corpus = Corpus::of_text(&text)?;
        Ok(Trainer { corpus, order, config: config.clone(), lengths: text.into_lengths(), merges, history })
    }
}

/// State of the training loop with occurrence lists.
struct Trainer<W, O> {
    corpus: Corpus<W>,
    order: O,
    config: TrainConfig,
    /// Length of each token in bytes.
    lengths: Vec<u32>,
    /// The merges so far, including those that were given at the start.
    merges: Vec<Merge>,
    /// The history so far.
    history: Vec<HistoryPoint>,
}

/// The pairs that are kept between one threshold and the next, and the queue that orders them.
struct Round<W, K> {
    pairs: Pairs<W>,
    queue: Queue<K>,
    scratch: Scratch<W>,
}

/// Gives the [`Queue`] access to counts and tie-breaking keys.
struct View<'a, W, O> {
    pairs: &'a Pairs<W>,
    corpus: &'a Corpus<W>,
    order: &'a O,
}

impl<W: Weight + Default, O: Order> Rank for View<'_, W, O> {
    type Key = O::Key;

    fn count(&self, pair: PairId) -> u64 {
        self.pairs.count(pair)
    }

    fn key(&self, pair: PairId) -> O::Key {
        self.order.key(pair, self.pairs, &self.corpus.cells)
    }
}

impl<W: Weight + Default, O: Order> Trainer<W, O> {
    fn new(corpus: Corpus<W>, order: O, config: &TrainConfig) -> Trainer<W, O> {
        let mut trainer = Trainer {
            corpus,
            order,
            config: config.clone(),
            lengths: vec![1; 256],
            merges: Vec::with_capacity(config.merges.min(AT_FIRST)),
            history: Vec::new(),
        };
        trainer.record();
        trainer
    }

    /// Learns in rounds, each of which keeps only the pairs that occur at least `threshold` times. Rare pairs
    /// are by far the most numerous and are merged last, if at all; the text is counted again, with a lower
    /// threshold, only when a round has no pair left.
    fn run(mut self, observer: &dyn Observer) -> Result<Learned> {
        let last = self.config.min_frequency.get().max(2);
        let mut threshold = first_threshold(self.corpus.tokens, &self.config);
        loop {
            threshold = self.learn_down_to(threshold.max(last), observer)?;
            if self.is_done() || threshold == last {
                break;
            }
            threshold /= THRESHOLD_STEP;
        }
        if self.config.min_frequency <= Count::ONE {
            self.learn_unique(observer)?;
        }
        observer.finished(Stage::Train);
        Ok(Learned::new(self.merges, self.history, self.corpus.tokens))
    }

    /// Merges until there are enough merges or no pair occurs `threshold` times or more. Returns the threshold
    /// that was used, which [`Keep::for_merges`] may have raised.
    fn learn_down_to(&mut self, threshold: u64, observer: &dyn Observer) -> Result<u64> {
        if self.is_done() {
            return Ok(threshold);
        }
        let keep = Keep { threshold, longest: self.longest() };
        let merges = self.config.merges - self.merges.len();
        let pairs = find(&mut self.corpus, &self.lengths, keep, merges, observer)?;
        let threshold = pairs.keep.threshold;
        let mut queue = Queue::new(threshold);
        for id in pairs.ids() {
            queue.push(id, &View { pairs: &pairs, corpus: &self.corpus, order: &self.order });
        }
        let mut round = Round { pairs, queue, scratch: Scratch::default() };
        if self.corpus.is_large() {
            in_busy_pool(|threads| self.merge_all(&mut round, threads, observer))?;
        }
        self.merge_all(&mut round, 1, observer)?;
        Ok(threshold)
    }

    /// Merges until there are enough merges or no pair is left. With several threads, also returns after
    /// [`SHORT_STEPS`] consecutive steps that are too short to share.
    fn merge_all(
        &mut self,
        round: &mut Round<W, O::Key>,
        threads: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Round { pairs, queue, scratch } = round;
        scratch.most_parts = threads;
        let mut short_steps = 0;
        while !self.is_done() && short_steps < SHORT_STEPS {
            let view = View { pairs, corpus: &self.corpus, order: &self.order };
            let Some(pair) = queue.pop(&view) else { break };
            pairs.fetch(std::array::from_fn(|after| queue.upcoming(after)), &self.corpus);
            short_steps = if threads == 1 || is_long(pair, pairs) { 0 } else { short_steps + 1 };
            self.merge(pair, pairs, scratch);
            let view = View { pairs, corpus: &self.corpus, order: &self.order };
            for &born in &scratch.born {
                queue.push(born, &view);
            }
            // After every merge: each of the first merges of a long text takes a good part of a second.
            observer.advanced(Stage::Train, 1);
            observer.checkpoint()?;
        }
        Ok(())
    }

    /// Merges the pairs that occur once, after all others. Rules by ids use [`Unique`], which needs no queue;
    /// other rules run a round with threshold 1.
    fn learn_unique(&mut self, observer: &dyn Observer) -> Result<()> {
        let Some(byte_order) = self.order.byte_order().copied() else {
            return self.learn_down_to(1, observer).map(drop);
        };
        if self.is_done() {
            return Ok(());
        }
        let limit = self.config.merges - self.merges.len();
        let longest = self.longest();
        let mut unique = Unique::new(&self.corpus, &byte_order, longest, &mut self.lengths);
        unique.merge(limit, observer, |left, right| {
            self.corpus.tokens -= 1;
            self.merges.push(Merge { left, right, count: Count::ONE });
            if self.config.records_after(self.merges.len()) {
                self.history
                    .push(HistoryPoint { merges: to_u64(self.merges.len()), tokens: self.corpus.tokens });
            }
        })
    }

    /// Whether there are enough merges.
    fn is_done(&self) -> bool {
        self.merges.len() >= self.config.merges
    }

    /// Maximum length of a token in bytes.
    fn longest(&self) -> usize {
        self.config.max_token_bytes.unwrap_or(usize::MAX)
    }

    /// Merges a pair in the whole text, and records the merge.
    fn merge(&mut self, pair: PairId, pairs: &mut Pairs<W>, scratch: &mut Scratch<W>) {
        let parts = pairs.pair(pair);
        let (left, right) = (to_usize(parts.left), to_usize(parts.right));
        let token = truncate_to_u32(self.lengths.len());
        let length = self.lengths[left] + self.lengths[right];
        self.lengths.push(length);
        self.corpus.spans.push(self.corpus.spans[left] + self.corpus.spans[right]);
        self.merges.push(Merge {
            left: parts.left,
            right: parts.right,
            count: Count::new(pairs.count(pair)),
        });
        let position = apply(pair, token, &mut self.corpus, pairs, &self.lengths, scratch);
        self.order.made(position, length);
        if self.config.records_after(self.merges.len()) {
            self.record();
        }
    }

    /// Records a history point for the present number of merges.
    fn record(&mut self) {
        self.history.push(HistoryPoint { merges: to_u64(self.merges.len()), tokens: self.corpus.tokens });
    }
}

/// Lower bound for the threshold of the first round, which [`Keep::for_merges`] may raise. In natural text pair
/// counts are so uneven that the last pair merged still occurs several times as often.
fn first_threshold(tokens: u64, config: &TrainConfig) -> u64 {
    tokens / to_u64(config.merges).max(1) / FIRST_SHARE
}

/// Divisor of the mean number of tokens per merge. Pairs with a count below that share of the mean are not kept
/// in the first round.
const FIRST_SHARE: u64 = 256;

/// Consecutive short steps after which the threads that busily wait for segments of long steps are released.
const SHORT_STEPS: usize = 1 << 6;

/// Factor by which the threshold falls from round to round.
const THRESHOLD_STEP: u64 = 16;
