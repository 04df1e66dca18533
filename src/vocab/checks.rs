use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::merging::Merging;
use super::{RankedMerge, Vocabulary};
use crate::hashing::Set;
use crate::units::TokenId;

/// What is true of a vocabulary beyond its invariants. All of it holds for vocabularies learned here;
/// edited and glued ones break some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// Ids below the limit that no token has.
    pub holes: usize,
    /// Tokens of several bytes that no merge makes.
    pub unmade: usize,
    /// Tokens whose bytes the merges alone turn into something else.
    pub not_self_encoding: usize,
    /// No two tokens have equal bytes.
    pub unique_bytes: bool,
    /// No token is made by two merges.
    pub one_merge_each: bool,
    /// Merges have ranks of their own, and each one's parts are bytes or made by merges of lower rank only.
    pub rank_order: bool,
    /// The tokens that merges make have ids in the order of the merges' ranks.
    pub ids_in_rank_order: bool,
}

impl Checks {
    /// Whether the shortcuts of trained vocabularies are exact for this one: merging by the rank of
    /// the bytes put together equals merging by the list of merges, whole pieces may be looked up
    /// before merging, and an encoding is right if every two neighbours in it are.
    pub fn shortcuts_hold(&self) -> bool {
        self.not_self_encoding == 0 && self.unique_bytes && self.one_merge_each && self.rank_order
    }
}

/// Checks a vocabulary, on the threads of the current pool: a few tens of milliseconds for 100 000 tokens.
pub fn check(vocabulary: &Vocabulary) -> Checks {
    let makers = makers(vocabulary);
    let results: Vec<TokenId> = vocabulary.merges.iter().map(|merge| merge.result).collect();
    let (mut unmade, mut unique, mut seen) = (0, true, Set::default());
    for (id, bytes) in vocabulary.ordinary() {
        unmade += usize::from(bytes.len() > 1 && makers[id.index()].merges == 0);
        unique &= seen.insert(bytes);
    }
    Checks {
        holes: vocabulary.tokens.iter().filter(|token| token.is_none()).count(),
        unmade,
        not_self_encoding: not_self_encoding(vocabulary).len(),
        unique_bytes: unique,
        one_merge_each: makers.iter().all(|maker| maker.merges <= 1),
        rank_order: rank_order(vocabulary, &makers),
        ids_in_rank_order: results.is_sorted(),
    }
}

/// The ordinary tokens whose bytes the merges turn into something else, by id.
pub(super) fn not_self_encoding(vocabulary: &Vocabulary) -> Vec<TokenId> {
    let pairs: FxHashMap<(u32, u32), (u32, u32)> = vocabulary
        .merges
        .iter()
        .map(|merge| ((merge.left.get(), merge.right.get()), (merge.rank, merge.result.get())))
        .collect();
    let fails = |merging: &mut Merging, (id, bytes): (TokenId, &[u8])| {
        let symbols = bytes.iter().map(|&byte| vocabulary.byte_ids[usize::from(byte)].get());
        let left = merging.run(symbols, |pair, _| pairs.get(&pair).copied());
        (left != [id.get()]).then_some(id)
    };
    let tokens: Vec<_> = vocabulary.ordinary().collect();
    tokens.into_par_iter().map_init(Merging::default, fails).flatten_iter().collect()
}

/// The merges that make one token: how many, and the highest rank among them.
#[derive(Clone, Copy, Default)]
struct Makers {
    merges: usize,
    highest: u32,
}

fn makers(vocabulary: &Vocabulary) -> Vec<Makers> {
    let mut makers = vec![Makers::default(); vocabulary.tokens.len()];
    for merge in &vocabulary.merges {
        let maker = &mut makers[merge.result.index()];
        maker.merges += 1;
        maker.highest = maker.highest.max(merge.rank);
    }
    makers
}

fn rank_order(vocabulary: &Vocabulary, makers: &[Makers]) -> bool {
    let made_before = |id: TokenId, rank: u32| {
        let maker = makers[id.index()];
        let is_byte = vocabulary.bytes(id).is_some_and(|bytes| bytes.len() == 1);
        is_byte || (maker.merges > 0 && maker.highest < rank)
    };
    let parts =
        |merge: &RankedMerge| made_before(merge.left, merge.rank) && made_before(merge.right, merge.rank);
    vocabulary.merges.iter().all(parts)
        && vocabulary.merges.is_sorted_by(|earlier, later| earlier.rank < later.rank)
}
