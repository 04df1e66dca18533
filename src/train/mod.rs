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
//! of each pair (`learn`, `pairs`, `apply`). Other scores have their own loop (`scored`).

mod apply;
mod corpus;
mod extend;
mod fault;
mod find;
mod chunks;
mod estimate;
mod learn;
mod merges;
mod order;
mod pairs;
mod queue;
mod scan;
#[doc(hidden)]
pub mod reference;
mod replay;
mod rooms;
mod store;
mod parts;
mod score;
mod scored;
mod text;
mod unique;
mod verify;
#[cfg(test)]
mod tests;

pub use estimate::{extend_memory_estimate, memory_estimate, verify_memory_estimate};
pub use extend::{TokenSequences, extend_merges, extend_sequences};
pub use learn::learn_merges;
pub use merges::{HistoryPoint, Learned, Merge, Merges};
#[doc(hidden)]
pub use scan::{Engine as ScanEngine, merges_by_scanning};
pub use score::{NotScore, Powers, Score};
pub use verify::{Deviation, verify_from, verify_merges, verify_sequences};

use serde::{Deserialize, Serialize};

use super::base::int::Count;

/// Rule that decides which of several pairs with the same score is merged first. Each rule is a total order of
/// the pairs, so the result never depends on threads or hash order.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TieBreak, TrainConfig, learn_merges};
///
/// // (z, a) and (b, c) both occur twice.
/// let text: PretokenCounts = [(&b"zaza bcbc"[..], Count::ONE)].into_iter().collect();
/// let first_merge = |tie_break| {
///     let config = TrainConfig { tie_break, ..TrainConfig::new(1) };
///     let learned = learn_merges(text.clone(), &config, &Silent).unwrap();
///     learned.merges.iter().map(|merge| (merge.left, merge.right)).next()
/// };
/// assert_eq!(first_merge(TieBreak::Ids), Some((u32::from(b'b'), u32::from(b'c'))));
/// assert_eq!(first_merge(TieBreak::First), Some((u32::from(b'z'), u32::from(b'a'))));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TieBreak {
    /// The smallest (left id, right id), with byte `b` as id `b`; as in rustbpe and bpeasy.
    #[default]
    Ids,
    /// The smallest ids, with the bytes in the order of GPT-2's byte alphabet; as in HF tokenizers.
    Hf,
    /// The pair that occurs first in the current text; as in minbpe.
    First,
    /// The greatest (left bytes, right bytes); as in the Stanford CS336 assignment.
    BytesGreatest,
    /// The smallest (left bytes, right bytes); as in fastboundlessbpe.
    BytesSmallest,
}

impl TieBreak {
    /// Whether the rule compares the bytes of tokens. Training otherwise knows tokens by their ids alone.
    fn looks_at_bytes(self) -> bool {
        match self {
            TieBreak::Ids | TieBreak::Hf | TieBreak::First => false,
            TieBreak::BytesGreatest | TieBreak::BytesSmallest => true,
        }
    }
}

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
            tie_break: TieBreak::default(),
            score: Score::default(),
            history_every: (merges / DEFAULT_HISTORY_POINTS).max(1),
            history_at: Vec::new(),
        }
    }

    /// Whether a [`HistoryPoint`] is recorded after this number of merges.
    fn records_after(&self, merges: usize) -> bool {
        merges.is_multiple_of(self.history_every.max(1)) || self.history_at.contains(&merges)
    }
}

/// Default number of history points that training records.
pub const DEFAULT_HISTORY_POINTS: usize = 200;
