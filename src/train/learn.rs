use super::apply::{Keep, Scratch, apply};
use super::corpus::{Corpus, bytes_by_position};
use super::order::{ByBytes, ByFirstPosition, ById, Order, Reversed};
use super::pairs::{PairId, Pairs};
use super::queue::{Queue, Rank};
use super::{HistoryPoint, Learned, Merge, Merges, TieBreak, TrainConfig};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::units::{ByteCount, Count, amount, low32, place};

/// Learns merges from weighted sequences, by [`TrainConfig`].
///
/// Exact and reproducible: the result depends on the sequences, their order (for
/// [`TieBreak::First`] alone) and the settings.
///
/// **Memory:** [`memory_estimate`].
///
/// # Errors
/// The text has 4 GiB or more; a count does not fit 64 bits; the observer wants to stop.
///
/// # Examples
/// ```
/// use tokenmill::count::PieceCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, learn_merges};
/// use tokenmill::Count;
///
/// let words: [(&[u8], _); 2] = [(b"low", Count::new(5)), (b"lower", Count::new(2))];
/// let learned = learn_merges(PieceCounts::from_iter(words), &TrainConfig::new(10), &Silent)?;
/// let first = learned.merges.iter().next().unwrap();
/// assert_eq!((first.left, first.right, first.count.get()), (u32::from(b'l'), u32::from(b'o'), 7));
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn learn_merges(pieces: PieceCounts, config: &TrainConfig, observer: &dyn Observer) -> Result<Learned> {
    let corpus = Corpus::new(&pieces)?;
    let by_bytes = matches!(config.tie_break, TieBreak::BytesGreatest | TieBreak::BytesSmallest);
    let bytes = if by_bytes { bytes_by_position(&pieces) } else { Vec::new() };
    drop(pieces);
    match config.tie_break {
        TieBreak::Ids => Trainer::new(corpus, ById::value(), config).run(observer),
        TieBreak::Hf => Trainer::new(corpus, ById::gpt2_alphabet(), config).run(observer),
        TieBreak::First => Trainer::new(corpus, ByFirstPosition, config).run(observer),
        TieBreak::BytesSmallest => Trainer::new(corpus, ByBytes::new(&bytes), config).run(observer),
        TieBreak::BytesGreatest => Trainer::new(corpus, Reversed(ByBytes::new(&bytes)), config).run(observer),
    }
}

/// About the most memory that training on this many bytes of distinct sequences takes, the sequences
/// themselves included.
pub fn memory_estimate(bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    // Text, pairs at their positions, first lists; later lists seldom reach half of their bound.
    let a_position = if weighted { 4 + 4 + 4 + 4 + 4 } else { 4 + 4 + 4 + 4 };
    ByteCount(
        positions
            .saturating_mul(a_position)
            .saturating_add(bytes)
            .saturating_add(sequences.saturating_mul(16)),
    )
}

/// The state of the loop.
struct Trainer<O> {
    corpus: Corpus,
    order: O,
    config: TrainConfig,
    /// Bytes of each token.
    lengths: Vec<u32>,
    merges: Vec<Merge>,
    history: Vec<HistoryPoint>,
}

/// Counts and keys as the queue wants them.
struct View<'a, O> {
    pairs: &'a Pairs,
    order: &'a O,
}

impl<O: Order> Rank for View<'_, O> {
    type Key = O::Key;

    fn count(&self, pair: PairId) -> u64 {
        self.pairs.count(pair)
    }

    fn key(&self, pair: PairId) -> O::Key {
        self.order.key(pair, self.pairs)
    }
}

impl<O: Order> Trainer<O> {
    fn new(corpus: Corpus, order: O, config: &TrainConfig) -> Trainer<O> {
        let mut trainer = Trainer {
            corpus,
            order,
            config: config.clone(),
            lengths: vec![1; 256],
            merges: Vec::new(),
            history: Vec::new(),
        };
        trainer.record();
        trainer
    }

    /// Learns in at most two rounds. Pairs that occur once are by far the most and are merged last, if
    /// at all; so they are not kept in the first round, and looked up anew if the second comes.
    fn run(mut self, observer: &dyn Observer) -> Result<Learned> {
        observer.started(Stage::Train, Some(amount(self.config.merges)));
        let least = self.config.min_frequency.get().max(1);
        self.learn_down_to(least.max(2), observer)?;
        if least == 1 {
            self.learn_down_to(1, observer)?;
        }
        if self.history.last().is_none_or(|last| last.merges != amount(self.merges.len())) {
            self.record();
        }
        observer.finished(Stage::Train);
        Ok(Learned { merges: Merges::new(self.merges), history: self.history })
    }

    /// Merges until there are enough merges, or no pair occurs `threshold` times.
    fn learn_down_to(&mut self, threshold: u64, observer: &dyn Observer) -> Result<()> {
        if self.merges.len() >= self.config.merges {
            return Ok(());
        }
        let longest = self.config.max_token_bytes.unwrap_or(usize::MAX);
        let keep = Keep { threshold, longest };
        let mut pairs = Pairs::find(&self.corpus, &self.lengths, keep, observer)?;
        let mut queue = Queue::new(threshold);
        let mut scratch = Scratch::default();
        for id in pairs.ids() {
            queue.push(id, &View { pairs: &pairs, order: &self.order });
        }
        while self.merges.len() < self.config.merges {
            let Some(pair) = queue.pop(&View { pairs: &pairs, order: &self.order }) else { break };
            self.merge(pair, keep, &mut pairs, &mut scratch);
            for &born in &scratch.born {
                queue.push(born, &View { pairs: &pairs, order: &self.order });
            }
            // After each: the first merges of a long text take a good part of a second.
            observer.advanced(Stage::Train, 1);
            observer.checkpoint()?;
        }
        Ok(())
    }

    fn merge(&mut self, pair: PairId, keep: Keep, pairs: &mut Pairs, scratch: &mut Scratch) {
        let parts = pairs.pair(pair);
        let token = low32(self.lengths.len());
        let length = self.lengths[place(parts.left)] + self.lengths[place(parts.right)];
        self.lengths.push(length);
        self.merges.push(Merge {
            left: parts.left,
            right: parts.right,
            count: Count::new(pairs.count(pair)),
        });
        let position = apply(pair, token, &mut self.corpus, pairs, &self.lengths, keep, scratch);
        self.order.made(position, length);
        if self.merges.len().is_multiple_of(self.config.history_every.max(1)) {
            self.record();
        }
    }

    fn record(&mut self) {
        self.history.push(HistoryPoint { merges: amount(self.merges.len()), tokens: self.corpus.tokens });
    }
}
