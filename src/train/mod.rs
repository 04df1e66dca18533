//! Learns merges from weighted byte sequences.
//!
//! Takes [`PieceCounts`](crate::count::PieceCounts), gives [`Merges`]. Knows nothing of files, text
//! or patterns; what it gives depends on no number of threads.
//!
//! [`learn_merges`] is the fast way, [`mod@reference`] the obvious one. Counts of pairs are sums over
//! sequences of weight × adjacent positions; positions overlap (`aaaa` has the pair (a, a) three
//! times), but replacing goes left to right without overlap.

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

use crate::units::Count;

/// Which of several pairs with equal counts is merged first. Each is a total order, so the result
/// never depends on threads or hash order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TieBreak {
    /// The smallest (left id, right id), bytes as 0–255; what rustbpe and bpeasy do.
    #[default]
    Ids,
    /// The smallest ids with bytes in the order of GPT-2's byte alphabet; what HF tokenizers does.
    Hf,
    /// The pair whose first occurrence in the current text comes first; what minbpe does.
    First,
    /// The greatest (left bytes, right bytes); the Stanford CS336 assignment.
    BytesGreatest,
    /// The smallest (left bytes, right bytes); fastboundlessbpe.
    BytesSmallest,
}

impl TieBreak {
    /// Whether it needs the bytes of tokens, which training otherwise knows by numbers alone.
    fn looks_at_bytes(self) -> bool {
        match self {
            TieBreak::Ids | TieBreak::Hf | TieBreak::First => false,
            TieBreak::BytesGreatest | TieBreak::BytesSmallest => true,
        }
    }
}

/// Settings of [`learn_merges`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainConfig {
    /// How many merges to learn at most.
    pub merges: usize,
    /// A pair that occurs less often is never merged; 0 acts as 1.
    pub min_frequency: Count,
    /// Merges whose token would be longer are refused.
    pub max_token_bytes: Option<usize>,
    /// Who wins among equals.
    pub tie_break: TieBreak,
    /// What is maximised.
    pub score: Score,
    /// A [`HistoryPoint`] is recorded after every so many merges (and at the start and the end).
    pub history_every: usize,
    /// One is recorded after these numbers of merges too.
    pub history_at: Vec<usize>,
}

/// Default of [`TrainConfig::min_frequency`]: a pair that occurs once compresses nothing.
pub const DEFAULT_MIN_FREQUENCY: Count = Count::new(2);

impl TrainConfig {
    /// The defaults, with this many merges.
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

    /// Whether a [`HistoryPoint`] is recorded after so many merges.
    fn records_after(&self, merges: usize) -> bool {
        merges.is_multiple_of(self.history_every.max(1)) || self.history_at.contains(&merges)
    }
}

/// How many history points training records by default.
pub const DEFAULT_HISTORY_POINTS: usize = 200;
