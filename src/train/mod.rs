//! Learns merges from weighted byte sequences.
//!
//! Takes [`PieceCounts`](crate::count::PieceCounts), gives [`Merges`]. Knows nothing of files, text,
//! patterns or the number of threads.

mod merges;

pub use merges::{HistoryPoint, Learned, Merge, Merges};

use crate::units::Count;
use serde::{Deserialize, Serialize};

/// Which of several pairs with equal counts is merged first. Each is a total order, so the result
/// never depends on threads or hash order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// What the greatest of is merged next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Score {
    /// How often the pair occurs.
    #[default]
    Count,
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
}

/// Default of [`TrainConfig::min_frequency`]: a pair that occurs once compresses nothing.
pub const DEFAULT_MIN_FREQUENCY: Count = Count::new(2);
