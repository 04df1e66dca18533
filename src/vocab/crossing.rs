use rustc_hash::{FxBuildHasher, FxHashMap};

use super::RankedMerge;
use crate::units::place;

/// How tokens are made, of vocabularies in which each is made by one merge at most, of parts that merges of lower rank
/// made.
pub(super) struct Making {
    /// By id; `None` of bytes and of what no merge makes.
    made: Vec<Option<Made>>,
    /// The rank at which two tokens merge.
    ranks: FxHashMap<(u32, u32), u32>,
}

#[derive(Clone, Copy)]
struct Made {
    left: u32,
    right: u32,
    rank: u32,
}

/// A token at a border, and the rank of the merge that takes it up.
#[derive(Clone, Copy)]
struct AtBorder {
    token: u32,
    until: u32,
}

impl Making {
    /// Of a vocabulary with ids below `id_limit`, without its merges so far, of which there will be so many.
    pub(super) fn new(id_limit: usize, merges: usize) -> Making {
        let ranks = FxHashMap::with_capacity_and_hasher(merges, FxBuildHasher);
        Making { made: vec![None; id_limit], ranks }
    }

    pub(super) fn add(&mut self, merge: &RankedMerge) {
        let (left, right) = (merge.left.get(), merge.right.get());
        self.made[merge.result.index()] = Some(Made { left, right, rank: merge.rank });
        self.ranks.insert((left, right), merge.rank);
    }

    /// Whether what this merge makes comes about from its bytes, if both of its parts come about from theirs.
    ///
    /// It does unless an earlier merge crosses the border between the parts. While these are made side by side, the tokens at
    /// the border are, on the left, the last byte, then what takes that up, and so on to the whole left part, and on the
    /// right likewise from the first byte on; so all pairs that ever stand there are gone through, from the last to the
    /// first. At the very time of the merge that takes up a token, one that crosses still finds it if it is the right one
    /// (all three are then equal, and merging goes from left to right), but not if it is the left one.
    pub(super) fn comes_about(&self, merge: &RankedMerge) -> bool {
        let mut left = AtBorder { token: merge.left.get(), until: merge.rank };
        let mut right = AtBorder { token: merge.right.get(), until: merge.rank };
        loop {
            let crossing = self.ranks.get(&(left.token, right.token));
            if crossing.is_some_and(|&rank| rank < left.until && rank <= right.until) {
                return false;
            }
            let [last, first] = [left, right].map(|part| self.made[place(part.token)]);
            let [since, after] = [last, first].map(|made| made.map(|made| made.rank));
            if since.is_none() && after.is_none() {
                return true;
            }
            if let Some(Made { right: token, rank: until, .. }) = last.filter(|_| since >= after) {
                left = AtBorder { token, until };
            }
            if let Some(Made { left: token, rank: until, .. }) = first.filter(|_| after >= since) {
                right = AtBorder { token, until };
            }
        }
    }
}
