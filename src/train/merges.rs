//! Results of training.

use crate::base::int::{Count, to_u64, to_usize};

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

    /// The first `most` merges, or all if the list is shorter. This is what a shorter training with the same
    /// settings would have learned.
    #[must_use]
    pub fn first(&self, most: usize) -> Merges {
        Merges(self.0[..self.0.len().min(most)].to_vec())
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
    /// [`history_every`](super::TrainConfig::history_every) and [`history_at`](super::TrainConfig::history_at)
    /// select, and at the end.
    pub history: Vec<HistoryPoint>,
}

impl Learned {
    /// Appends a final history point with `tokens`, unless the last point is for the same number of merges.
    pub(super) fn new(merges: Vec<Merge>, mut history: Vec<HistoryPoint>, tokens: u64) -> Learned {
        let last = HistoryPoint { merges: to_u64(merges.len()), tokens };
        if history.last().is_none_or(|before| before.merges != last.merges) {
            history.push(last);
        }
        Learned { merges: Merges::new(merges), history }
    }
}
