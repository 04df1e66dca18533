//! Checks which properties of trained vocabularies hold for any vocabulary, to decide which fast ways to encode are
//! exact.

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::crossing::Making;
use super::merging::Merging;
use super::{RankedMerge, Vocabulary};
use crate::base::hash::Set;
use crate::base::int::TokenId;

/// Properties of a vocabulary beyond its invariants. Vocabularies learned by this program have all of them; edited or
/// concatenated ones lack some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// Number of ids below [`id_limit`](Vocabulary::id_limit) that no token has.
    pub holes: usize,
    /// Number of tokens of several bytes that no merge makes.
    pub unmade: usize,
    /// Number of tokens that are not what the merges make of their own bytes. Tokens without bytes are not counted.
    pub not_self_encoding: usize,
    /// Whether no two tokens have equal bytes.
    pub unique_bytes: bool,
    /// Whether each token is made by one merge at most.
    pub one_merge_each: bool,
    /// Whether all ranks differ, and the parts of each merge are bytes or are made by merges of lower rank only.
    pub rank_order: bool,
    /// Whether the merges in order of rank make tokens in order of id.
    pub ids_in_rank_order: bool,
}

impl Checks {
    /// Returns whether the shortcuts for trained vocabularies are exact for this one: merging by the rank of the
    /// joined bytes equals merging by the list of merges, whole pre-tokens may be looked up before merging, and a
    /// sequence of tokens is an encoding if every two adjacent tokens in it are.
    pub fn shortcuts_hold(&self) -> bool {
        self.not_self_encoding == 0 && self.unique_bytes && self.one_merge_each && self.rank_order
    }
}

/// Checks a vocabulary on the threads of the current Rayon pool. Takes a few tens of milliseconds for 100 000 tokens.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::{LearnConfig, learn};
/// use tokenmill::source;
///
/// let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
/// assert!(tokenmill::vocab::check(&vocabulary).shortcuts_hold());
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn check(vocabulary: &Vocabulary) -> Checks {
    let makers = makers(vocabulary);
    let results: Vec<TokenId> = vocabulary.merges.iter().map(|merge| merge.result).collect();
    let one_merge_each = makers.iter().all(|maker| maker.merges <= 1);
    let rank_order = rank_order(vocabulary, &makers);
    let (mut unmade, mut unique, mut seen) = (0, true, Set::default());
    for (id, bytes) in vocabulary.ordinary() {
        unmade += usize::from(bytes.len() > 1 && makers[id.index()].merges == 0);
        unique &= seen.insert(bytes);
    }
    Checks {
        holes: vocabulary.tokens.iter().filter(|token| token.is_none()).count(),
        unmade,
        not_self_encoding: match one_merge_each && rank_order {
            true => not_coming_about(vocabulary),
            false => merged_otherwise(vocabulary),
        },
        unique_bytes: unique,
        one_merge_each,
        rank_order,
        ids_in_rank_order: results.is_sorted(),
    }
}

/// Returns how many tokens the merges do not make of the tokens' own bytes. Requires that each token has one merge at
/// most, with parts that merges of lower rank make.
fn not_coming_about(vocabulary: &Vocabulary) -> usize {
    let mut making = Making::new(vocabulary.tokens.len(), vocabulary.merges.len());
    vocabulary.merges.iter().for_each(|merge| making.add(merge));
    let alone: Vec<bool> = vocabulary.merges.par_iter().map(|merge| making.comes_about(merge)).collect();
    let mut comes_about = vec![false; vocabulary.tokens.len()];
    (0..=u8::MAX).filter_map(|byte| vocabulary.byte_id(byte)).for_each(|id| comes_about[id.index()] = true);
    for (merge, alone) in vocabulary.merges.iter().zip(alone) {
        let parts = comes_about[merge.left.index()] && comes_about[merge.right.index()];
        comes_about[merge.result.index()] = parts && alone;
    }
    vocabulary.ordinary().filter(|(id, bytes)| !bytes.is_empty() && !comes_about[id.index()]).count()
}

/// Returns how many tokens the merges do not make of the tokens' own bytes, for any vocabulary, by applying all
/// merges.
fn merged_otherwise(vocabulary: &Vocabulary) -> usize {
    let pairs: FxHashMap<(u32, u32), (u32, u32)> = vocabulary
        .merges
        .iter()
        .map(|merge| ((merge.left.get(), merge.right.get()), (merge.rank, merge.result.get())))
        .collect();
    let fails = |merging: &mut Merging, (id, bytes): (TokenId, &[u8])| {
        let symbols = bytes.iter().map(|&byte| vocabulary.byte_ids[usize::from(byte)].get());
        merging.run(symbols, |pair, _| pairs.get(&pair).copied()) != [id.get()]
    };
    let tokens: Vec<_> = vocabulary.ordinary().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let fails = tokens.into_par_iter().map_init(Merging::default, fails);
    fails.filter(|&fails| fails).count()
}

/// The number of merges that make one token, and the highest rank among them.
#[derive(Clone, Copy, Default)]
struct Makers {
    merges: usize,
    highest: u32,
}

/// Returns the merges of each token, by id.
fn makers(vocabulary: &Vocabulary) -> Vec<Makers> {
    let mut makers = vec![Makers::default(); vocabulary.tokens.len()];
    for merge in &vocabulary.merges {
        let maker = &mut makers[merge.result.index()];
        maker.merges += 1;
        maker.highest = maker.highest.max(merge.rank);
    }
    makers
}

/// Returns whether ranks differ and the parts of each merge are made before it; see [`Checks::rank_order`].
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
