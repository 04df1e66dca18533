use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::pairs::PairId;
use crate::units::{amount, place64};

/// Counts below this have a level of their own in a plain table.
const LOW_LEVELS: usize = 1 << 12;

/// The pairs by count; gives the one to merge next.
///
/// Counts only fall, so a pair is filed under the count it had when it was filed, and looked at again
/// only when that level is reached: if its count has fallen it is filed anew, lower. Since a pair's key
/// can only change when its count does, the pairs of a level are sorted by key once, when the level is
/// reached; those born into the level later wait in a small heap. Compared with one big heap this
/// touches a pair only once a level, and most pairs never.
pub(super) struct Queue<K> {
    level: u64,
    /// The pairs of the current level, the next one last.
    sorted: Vec<(K, PairId)>,
    born: BinaryHeap<Reverse<(K, PairId)>>,
    low: Vec<Vec<PairId>>,
    high: BTreeMap<u64, Vec<PairId>>,
    /// No pair is filed in `low` at this level or above.
    low_end: usize,
    /// Pairs below this count are let go.
    threshold: u64,
}

/// What a queue needs to know of a pair; implemented where counts and tie rule are at hand.
pub(super) trait Rank {
    /// Orders pairs of equal count: the least is merged first.
    type Key: Ord + Copy;

    /// How often the pair occurs now.
    fn count(&self, pair: PairId) -> u64;

    /// The pair's key now. The pair occurs.
    fn key(&self, pair: PairId) -> Self::Key;
}

impl<K: Ord + Copy> Queue<K> {
    pub(super) fn new(threshold: u64) -> Queue<K> {
        Queue {
            level: u64::MAX,
            sorted: Vec::new(),
            born: BinaryHeap::new(),
            low: vec![Vec::new(); LOW_LEVELS],
            high: BTreeMap::new(),
            low_end: 0,
            threshold: threshold.max(1),
        }
    }

    /// Files a pair under its present count.
    pub(super) fn push(&mut self, pair: PairId, rank: &impl Rank<Key = K>) {
        let count = rank.count(pair);
        if count < self.threshold {
            return;
        }
        if count >= self.level {
            debug_assert!(count == self.level, "a pair is born no more frequent than its newer token");
            self.born.push(Reverse((rank.key(pair), pair)));
        } else if count < amount(LOW_LEVELS) {
            let level = place64(count);
            self.low[level].push(pair);
            self.low_end = self.low_end.max(level + 1);
        } else {
            self.high.entry(count).or_default().push(pair);
        }
    }

    /// Takes out the pair with the greatest count, among equals the one with the least key.
    pub(super) fn pop(&mut self, rank: &impl Rank<Key = K>) -> Option<PairId> {
        loop {
            let Some(pair) = self.pop_at_level() else {
                self.next_level(rank)?;
                continue;
            };
            if rank.count(pair) == self.level {
                return Some(pair);
            }
            self.push(pair, rank);
        }
    }

    /// A pair that is likely to be taken out soon: the next, or so many after it.
    pub(super) fn upcoming(&self, after: usize) -> Option<PairId> {
        self.sorted.len().checked_sub(after + 1).map(|at| self.sorted[at].1)
    }

    fn pop_at_level(&mut self) -> Option<PairId> {
        let born_first = match (self.sorted.last(), self.born.peek()) {
            (Some(filed), Some(Reverse(born))) => born < filed,
            (filed, _) => filed.is_none(),
        };
        if born_first {
            self.born.pop().map(|Reverse((_, pair))| pair)
        } else {
            self.sorted.pop().map(|(_, pair)| pair)
        }
    }

    /// Goes down to the next level that has pairs, and sorts those whose count is still that level's.
    fn next_level(&mut self, rank: &impl Rank<Key = K>) -> Option<()> {
        let filed = match self.high.pop_last() {
            Some((level, filed)) => {
                self.level = level;
                filed
            }
            None => {
                let level = self.low[..self.low_end].iter().rposition(|filed| !filed.is_empty())?;
                self.low_end = level;
                self.level = amount(level);
                std::mem::take(&mut self.low[level])
            }
        };
        for pair in filed {
            if rank.count(pair) == self.level {
                self.sorted.push((rank.key(pair), pair));
            } else {
                self.push(pair, rank);
            }
        }
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }
}
