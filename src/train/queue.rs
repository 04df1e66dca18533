//! A priority queue of pairs, which is fast because counts only fall.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::corpus::PairId;
use crate::base::int::{to_u64, u64_to_usize};

/// Counts below this have a level each in a plain table; higher counts are in a tree.
const LOW_LEVELS: usize = 1 << 12;

/// The pairs ordered by count; returns the one to merge next.
///
/// Counts only fall. So a pair is filed under the count that it has at that time, and looked at again only when
/// that level is reached; if its count has fallen by then, it is filed again at a lower level. The key of a
/// pair can change only when its count does, so the pairs of a level are sorted by key once, when the level is
/// reached. Pairs that are created into the current level wait in a small heap. Compared with one large heap,
/// this touches each pair only once per level, and most pairs never.
pub(super) struct PairQueue<K> {
    /// The current level: the count of all pairs in `sorted`, and the greatest count that any pair can have.
    level: u64,
    /// The pairs of the current level in descending order, so that the next one is last.
    sorted: Vec<(K, PairId)>,
    /// Pairs that were created with the count of the current level.
    created: BinaryHeap<Reverse<(K, PairId)>>,
    /// Pairs by count, for counts below [`LOW_LEVELS`].
    low: Vec<Vec<PairId>>,
    /// Pairs by count, for greater counts.
    high: BTreeMap<u64, Vec<PairId>>,
    /// All levels of `low` from this one on are empty.
    low_end: usize,
    /// Pairs that occur less often are dropped.
    threshold: u64,
}

/// What the queue needs to know about a pair. The trainer implements it, because it has the counts and the tie
/// rule.
pub(super) trait PairOrder {
    /// Orders pairs of equal count: the pair with the smallest key is merged first.
    type Key: Ord + Copy;

    /// Current count of the pair.
    fn count(&self, pair: PairId) -> u64;

    /// Current key of the pair, which must occur.
    fn key(&self, pair: PairId) -> Self::Key;
}

impl<K: Ord + Copy> PairQueue<K> {
    /// An empty queue. Pairs that occur less often than `threshold` are dropped.
    pub(super) fn new(threshold: u64) -> PairQueue<K> {
        PairQueue {
            level: u64::MAX,
            sorted: Vec::new(),
            created: BinaryHeap::new(),
            low: vec![Vec::new(); LOW_LEVELS],
            high: BTreeMap::new(),
            low_end: 0,
            threshold: threshold.max(1),
        }
    }

    /// Files a pair under its current count, or drops it if that is below the threshold.
    pub(super) fn push(&mut self, pair: PairId, order: &impl PairOrder<Key = K>) {
        let count = order.count(pair);
        if count < self.threshold {
            return;
        }
        if count >= self.level {
            debug_assert!(count == self.level, "a new pair is at most as frequent as its newer token");
            self.created.push(Reverse((order.key(pair), pair)));
        } else if count < to_u64(LOW_LEVELS) {
            let level = u64_to_usize(count);
            self.low[level].push(pair);
            self.low_end = self.low_end.max(level + 1);
        } else {
            self.high.entry(count).or_default().push(pair);
        }
    }

    /// Removes and returns the pair with the greatest count; among equal counts, the one with the smallest key.
    pub(super) fn pop(&mut self, order: &impl PairOrder<Key = K>) -> Option<PairId> {
        loop {
            let Some(pair) = self.pop_at_level() else {
                self.next_level(order)?;
                continue;
            };
            if order.count(pair) == self.level {
                return Some(pair);
            }
            self.push(pair, order);
        }
    }

    /// The pair that is likely to be returned after `distance` others. A hint for prefetching: pairs can still
    /// fall to a lower level or be created in between.
    pub(super) fn upcoming(&self, distance: usize) -> Option<PairId> {
        self.sorted.len().checked_sub(distance + 1).map(|at| self.sorted[at].1)
    }

    /// The next pair of the current level, by key.
    fn pop_at_level(&mut self) -> Option<PairId> {
        let created_first = match (self.sorted.last(), self.created.peek()) {
            (Some(filed), Some(Reverse(created))) => created < filed,
            (filed, _) => filed.is_none(),
        };
        if created_first {
            self.created.pop().map(|Reverse((_, pair))| pair)
        } else {
            self.sorted.pop().map(|(_, pair)| pair)
        }
    }

    /// Moves down to the next level that has pairs, and sorts those that still have that count. Returns `None`
    /// if no level has any.
    fn next_level(&mut self, order: &impl PairOrder<Key = K>) -> Option<()> {
        let filed = match self.high.pop_last() {
            Some((level, filed)) => {
                self.level = level;
                filed
            }
            None => {
                let level = self.low[..self.low_end].iter().rposition(|filed| !filed.is_empty())?;
                self.low_end = level;
                self.level = to_u64(level);
                std::mem::take(&mut self.low[level])
            }
        };
        for pair in filed {
            if order.count(pair) == self.level {
                self.sorted.push((order.key(pair), pair));
            } else {
                self.push(pair, order);
            }
        }
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }
}
