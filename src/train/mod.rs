//! Learns merges from weighted byte sequences: the training loop of byte-level BPE.
//!
//! Takes [`PretokenCounts`](crate::count::PretokenCounts), gives [`Merges`]. Knows nothing of files, text or
//! patterns. The result does not depend on the number of threads.
//!
//! [`learn_merges`] is the fast implementation, [`mod@reference`] the obvious one; tests compare the two. The
//! count of a pair is the sum over all sequences of weight × number of positions where the pair begins.
//! Overlapping positions count each (`aaaa` has the pair (a, a) three times), but replacement goes from left to
//! right without overlap.
//!
//! If the score is the count and ties are broken by ids, long texts with few repeated sequences are first
//! scanned as a whole (`scan`). Otherwise, and for all later merges, the trainer keeps a list of the occurrences
//! of each pair (`learn`, `pairs`, `apply`). Other scores have their own loop (`scores`).
//!
//! [`learn_parity_merges`] learns from several sources, and balances their numbers of tokens.

mod apply;
mod arena;
mod corpus;
mod extend;
mod learn;
mod memory;
mod occurrences;
mod pairs;
mod parity;
mod progress;
mod queue;
#[doc(hidden)]
pub mod reference;
mod scan;
mod scores;
#[cfg(test)]
mod tests;
mod tie_break;
mod unique_tail;
mod verify;
mod word_rule;

use progress::TrainProgress;

use super::base::int::{Count, to_u64, to_usize};
use super::observer::Observer;

pub use corpus::TokenSequences;
pub use extend::{extend_merges, extend_sequences};
pub use learn::learn_merges;
#[cfg(feature = "pipeline")]
pub(crate) use memory::with_sequences;
pub use memory::{extend_memory_estimate, memory_estimate, parity_memory_estimate, verify_memory_estimate};
pub use parity::{
    DEFAULT_PARITY_ALPHA, DEFAULT_PARITY_WINDOW, ParityConfig, ParityLearned, ParityPoint, ParityTexts,
    ParityWindow, learn_parity_merges,
};
#[doc(hidden)]
pub use scan::{ScanEngine, merges_by_scanning};
pub use scores::{Powers, Score};
pub use tie_break::TieBreak;
pub use verify::{Deviation, verify_merges, verify_sequences};
pub(crate) use word_rule::TokenLimits;

/// Settings of [`learn_merges`]. [`TrainConfig::new`] gives the defaults for a number of merges.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::train::{DEFAULT_MIN_FREQUENCY, TieBreak, TrainConfig};
///
/// let config = TrainConfig { tie_break: TieBreak::Hf, ..TrainConfig::new(32_000) };
/// assert_eq!(config.min_frequency, DEFAULT_MIN_FREQUENCY);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainConfig {
    /// Maximum number of merges to learn. Fewer are learned if no pair is left that may be merged.
    pub merges: usize,
    /// Pairs that occur less often are never merged. 0 means 1.
    pub min_frequency: Count,
    /// Maximum length in bytes of a token that a merge makes. `None` means no limit.
    pub max_token_bytes: Option<usize>,
    /// Maximum number of words of a token that a merge makes: parts between spaces that are not empty. If it is set,
    /// no merge makes a token with a colon followed by a space either: both are rules of SuperBPE. `None` means no
    /// limit.
    pub max_words: Option<usize>,
    /// Which of several pairs with the same score is merged first.
    pub tie_break: TieBreak,
    /// The score to maximise: at each step the pair with the greatest score is merged.
    pub score: Score,
    /// Number of merges between two [`HistoryPoint`]s, which are also recorded at the start and at the end. 0
    /// means 1.
    pub history_every: usize,
    /// Further numbers of merges after which a [`HistoryPoint`] is recorded.
    pub history_at: Vec<usize>,
}

/// Default of [`TrainConfig::min_frequency`]. Merging a pair that occurs once compresses nothing.
pub const DEFAULT_MIN_FREQUENCY: Count = Count::new(2);

impl TrainConfig {
    /// The defaults, with at most `merges` merges.
    pub fn new(merges: usize) -> TrainConfig {
        TrainConfig {
            merges,
            min_frequency: DEFAULT_MIN_FREQUENCY,
            max_token_bytes: None,
            max_words: None,
            tie_break: TieBreak::default(),
            score: Score::default(),
            history_every: (merges / DEFAULT_HISTORY_POINTS).max(1),
            history_at: Vec::new(),
        }
    }

    /// Minimum count at which a pair is merged.
    fn min_count(&self) -> u64 {
        self.min_frequency.get().max(1)
    }

    /// Maximum length in bytes of a token that a merge makes.
    fn max_bytes(&self) -> usize {
        self.max_token_bytes.unwrap_or(usize::MAX)
    }

    /// Whether a [`HistoryPoint`] is recorded after this number of merges.
    fn records_after(&self, merges: usize) -> bool {
        merges.is_multiple_of(self.history_every.max(1)) || self.history_at.contains(&merges)
    }
}

/// Default number of history points that training records.
pub const DEFAULT_HISTORY_POINTS: usize = 200;

/// One learned merge. Tokens have the ids of training: byte `b` has id `b`, and merge `k`, counted from 0,
/// makes token `256 + k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// Id of the left token.
    pub left: u32,
    /// Id of the right token.
    pub right: u32,
    /// How often the pair occurred when it was merged; overlapping occurrences count each.
    pub count: Count,
}

/// Learned merges in the order in which they were learned. Both tokens of a merge are bytes or made by an
/// earlier merge, and no pair occurs twice.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, learn_merges};
///
/// let words: PretokenCounts = [(&b"lower"[..], Count::new(5))].into_iter().collect();
/// let merges = learn_merges(words, &TrainConfig::new(2), &Silent)?.merges;
/// // Token 256 is `er`; token 257 is made of `l` and `o`.
/// let pairs: Vec<_> = merges.iter().map(|merge| (merge.left, merge.right)).collect();
/// assert_eq!(pairs, [(101, 114), (108, 111)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merges(Vec<Merge>);

impl Merges {
    /// Wraps merges in the order in which they were learned.
    pub(crate) fn new(merges: Vec<Merge>) -> Merges {
        debug_assert!(
            merges.iter().zip(256u64..).all(|(m, id)| u64::from(m.left) < id && u64::from(m.right) < id)
        );
        Merges(merges)
    }

    /// Number of merges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first `max_merges` merges, or all if the list is shorter. This is what a shorter training with the same
    /// settings would have learned.
    ///
    /// ```
    /// use tokenmill::Count;
    /// use tokenmill::count::PretokenCounts;
    /// use tokenmill::observer::Silent;
    /// use tokenmill::train::{TrainConfig, learn_merges};
    ///
    /// let words: PretokenCounts = [(&b"lower"[..], Count::new(5))].into_iter().collect();
    /// let learn = |merges| learn_merges(words.clone(), &TrainConfig::new(merges), &Silent).unwrap().merges;
    /// assert_eq!(learn(3).first(1), learn(1));
    /// ```
    #[must_use]
    pub fn first(&self, max_merges: usize) -> Merges {
        Merges(self.0[..self.0.len().min(max_merges)].to_vec())
    }

    /// Total length in bytes of the tokens that the merges make, at most 2⁶⁴ − 1.
    pub fn token_bytes(&self) -> u64 {
        let mut lengths = vec![1_u64; 256];
        for merge in &self.0 {
            lengths.push(lengths[to_usize(merge.left)].saturating_add(lengths[to_usize(merge.right)]));
        }
        lengths[256..].iter().fold(0, |sum, &length| sum.saturating_add(length))
    }

    /// Iterates over the merges in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Merge> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Merges {
    type Item = &'a Merge;
    type IntoIter = std::slice::Iter<'a, Merge>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Size of the corpus after some merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HistoryPoint {
    /// Number of merges learned so far.
    pub merges: u64,
    /// Number of tokens in the corpus at that point: the sum over sequences of weight × number of tokens.
    pub tokens: u64,
}

/// Result of training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The merges, in order.
    pub merges: Merges,
    /// Number of tokens in the corpus before the first merge, after the merges that
    /// [`history_every`](TrainConfig::history_every) and [`history_at`](TrainConfig::history_at)
    /// select, and at the end.
    pub history: Vec<HistoryPoint>,
    /// For each merge, how many pairs it replaced, by weight. That is its count, except for pairs of a token with
    /// itself: overlapping ones count each, but only one of two is replaced.
    pub replaced: Vec<u64>,
}

/// The merges so far, and the history so far. Every training loop records its merges here, so that all loops
/// record history points after the same merges.
struct MergeLog<'a> {
    config: &'a TrainConfig,
    /// The merges so far, including those that were given at the start.
    merges: Vec<Merge>,
    /// The history so far, with a point at the start and wherever [`TrainConfig`] asks for one.
    history: Vec<HistoryPoint>,
    /// For each merge, how many pairs it replaced; see [`Learned::replaced`].
    replaced: Vec<u64>,
    /// Number of tokens in the corpus after the merges so far.
    tokens: u64,
    /// What observers learn of the merges.
    progress: TrainProgress,
}

impl<'a> MergeLog<'a> {
    /// No merge, on a corpus of `tokens` tokens.
    fn new(config: &'a TrainConfig, tokens: u64, progress: TrainProgress) -> MergeLog<'a> {
        /// Unused capacity costs nothing, and growing step by step would copy.
        const INITIAL_CAPACITY: usize = 1 << 16;
        let merges = Vec::with_capacity(config.merges.min(INITIAL_CAPACITY));
        let history = vec![HistoryPoint { merges: 0, tokens }];
        MergeLog { config, merges, history, replaced: Vec::new(), tokens, progress }
    }

    /// Records a merge at `occurrences` positions that leaves `tokens` tokens in the corpus.
    fn push(&mut self, merge: Merge, occurrences: usize, tokens: u64) {
        self.progress.work.merged(merge.count.get(), occurrences);
        self.merges.push(merge);
        // Each replaced pair leaves one token less.
        self.replaced.push(self.tokens - tokens);
        self.tokens = tokens;
        if self.config.records_after(self.merges.len()) {
            self.record(tokens);
        }
    }

    /// Records a history point for the present number of merges.
    fn record(&mut self, tokens: u64) {
        self.history.push(HistoryPoint { merges: to_u64(self.merges.len()), tokens });
    }

    /// Reports the merges since the last report.
    fn report(&mut self, observer: &dyn Observer) {
        self.progress.report(self.merges.len(), observer);
    }

    /// Number of merges that may still be learned.
    fn remaining(&self) -> usize {
        self.config.merges.saturating_sub(self.merges.len())
    }

    /// The result, with a last history point for the `tokens` tokens that are left. Reports the end.
    fn finish(mut self, tokens: u64, observer: &dyn Observer) -> Learned {
        self.progress.finished(self.merges.len(), observer);
        if self.history.last().is_none_or(|last| last.merges != to_u64(self.merges.len())) {
            self.record(tokens);
        }
        Learned { merges: Merges::new(self.merges), history: self.history, replaced: self.replaced }
    }
}
