//! Decides whether the merges make a token of its own bytes, by looking only at the border between its two parts
//! instead of merging its bytes.

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::RankedMerge;
use crate::base::int::to_usize;

/// How tokens are derived, for vocabularies in which one merge at most makes each token, of parts that merges of
/// lower rank make.
pub(super) struct Making {
    /// The merge of each token, by id; `None` for bytes and tokens that no merge makes.
    made: Vec<Option<Made>>,
    /// The rank of the merge of each pair.
    ranks: FxHashMap<(u32, u32), u32>,
}

/// The merge that makes a token: its two parts and its rank.
#[derive(Clone, Copy)]
struct Made {
    left: u32,
    right: u32,
    rank: u32,
}

/// The token next to the border between two parts, and the rank of the merge that consumes it.
#[derive(Clone, Copy)]
struct AtBorder {
    token: u32,
    until: u32,
}

impl Making {
    /// Creates the derivations of a vocabulary with ids below `id_limit`. [`add`](Making::add) adds its merges, of
    /// which `merges` are expected.
    pub(super) fn new(id_limit: usize, merges: usize) -> Making {
        let ranks = FxHashMap::with_capacity_and_hasher(merges, FxBuildHasher);
        Making { made: vec![None; id_limit], ranks }
    }

    /// Adds a merge.
    pub(super) fn add(&mut self, merge: &RankedMerge) {
        let (left, right) = (merge.left.get(), merge.right.get());
        self.made[merge.result.index()] = Some(Made { left, right, rank: merge.rank });
        self.ranks.insert((left, right), merge.rank);
    }

    /// Returns whether the merges turn the bytes of this merge's result into that token, given that they turn the
    /// bytes of each part into that part. Takes at most one look-up per byte of the token.
    ///
    /// They do unless an earlier merge crosses the border between the parts. While the parts are derived side by
    /// side, the token left of the border is first the last byte of the left part, then the token that consumes that
    /// byte, and so on up to the whole left part. The token right of the border changes likewise, from the first byte
    /// of the right part on. The loop visits all pairs of tokens that are ever adjacent at the border, from the last
    /// to the first. A crossing merge can have the same rank as the merge that consumes one of its tokens. On the
    /// right it still finds its token: all three tokens are then equal, and merging goes from left to right. On the
    /// left the token is already consumed.
    pub(super) fn comes_about(&self, merge: &RankedMerge) -> bool {
        let mut left = AtBorder { token: merge.left.get(), until: merge.rank };
        let mut right = AtBorder { token: merge.right.get(), until: merge.rank };
        loop {
            let crossing = self.ranks.get(&(left.token, right.token));
            if crossing.is_some_and(|&rank| rank < left.until && rank <= right.until) {
                return false;
            }
            let [last, first] = [left, right].map(|part| self.made[to_usize(part.token)]);
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
