//! The merges of a vocabulary as the plain list that training produces, with tokens numbered as in training. Training
//! extends such a list, and a vocabulary can be extended by the result.

use rustc_hash::{FxHashMap, FxHashSet};

use super::derivation::{BpeMerger, check};
use super::text_rules::BosEosTemplate;
use super::vocabulary::{RankedMerge, Vocabulary, VocabularyParts};
use crate::base::hash::Map;
use crate::base::int::{Count, TokenId, to_usize, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;
use crate::train::{Merge, Merges};

/// The merges of a vocabulary, split into the first ones, which are given, and the rest, which were learned one after
/// another. Training and checking start from the tokens that the given merges make of a text.
///
/// Tokens are numbered as in training: byte b is b, and merge k makes token 256 + k.
///
/// The given merges may be a plain list, which can be applied merge by merge. Otherwise several merges make one token
/// or share a rank, merges use parts that only later ones make, or whole pre-tokens are looked up
/// ([`ignore_merges`](Vocabulary::ignore_merges)). Then text must be [encoded](GivenMerges::encoder) by them, and the
/// list is ordered by the length of the tokens, so that parts come before the tokens made of them. A token that
/// several merges make has the number of the first.
///
/// **Memory:** the merges, 12 bytes per merge for ids and ranks, and what the encoder needs if the merges are no
/// plain list: a map of their pairs, and the bytes of all tokens if whole pre-tokens are looked up.
#[derive(Clone, Debug)]
pub struct GivenMerges {
    /// All merges, the given ones first.
    merges: Merges,
    /// Number of given merges.
    given: usize,
    /// The vocabulary's token for each number.
    ids: Vec<TokenId>,
    /// The index in the vocabulary's merges of each merge.
    ranks: Vec<usize>,
    /// How to encode text by the given merges; `None` if they are a plain list.
    encoding: Option<GivenEncoding>,
}

/// How to encode text by merges that are no plain list.
#[derive(Clone, Debug, Default)]
struct GivenEncoding {
    /// The merge of each pair of token numbers.
    pairs: FxHashMap<(u32, u32), GivenMerge>,
    /// The pre-tokens that become one token whatever the merges make of them, with the token's number. `None` for a
    /// token that no merge makes, which takes part in no merge and so has no number.
    whole_pretokens: Map<Box<[u8]>, Option<u32>>,
}

/// A merge of a pair in [`GivenEncoding`].
#[derive(Clone, Copy, Debug)]
struct GivenMerge {
    /// The merge's rank in the vocabulary. Lower ranks merge first; several merges may share one.
    rank: u32,
    /// The number of the token that replaces the pair.
    result: u32,
    /// The merge's index in the list.
    index: usize,
}

impl Vocabulary {
    /// Returns the merges as training numbers tokens. The first `given` (at most all) are accepted in any form.
    ///
    /// This is O(n log n) in the number of merges, plus a [`check`] of the vocabulary if it looks up whole pre-tokens.
    ///
    /// # Errors
    /// The merges after the given ones are no plain list: they share a rank, make a token twice, or use a part that
    /// only a later merge makes.
    pub fn given_merges(&self, given: usize) -> Result<GivenMerges> {
        let given = given.min(self.merges.len());
        // If no merge is given, every pre-token starts as single bytes, and none is looked up as a whole.
        let from_bytes = given == 0 && !self.merges.is_empty();
        let looked_up = self.ignore_merges && !from_bytes && self.looks_up(given);
        let plain = if looked_up { None } else { self.as_list(given).ok() };
        let (mut merges, mut numbers, mut ranks, encoding) = match plain {
            Some((merges, numbers)) => {
                (merges.iter().copied().collect(), numbers, (0..given).collect(), None)
            }
            None => self.by_length(given),
        };
        for (index, merge) in self.merges.iter().enumerate().skip(given) {
            if index > 0 && merge.rank == self.merges[index - 1].rank {
                return Err(not_a_list(format!("merges {index} and {} have the same rank", index + 1)));
            }
            merges.push(listed(merge, index, &mut numbers).map_err(not_a_list)?);
            ranks.push(index);
        }
        let made = ranks.iter().map(|&rank| self.merges[rank].result);
        let ids = self.byte_ids.into_iter().chain(made).collect();
        Ok(GivenMerges { merges: Merges::new(merges), given, ids, ranks, encoding })
    }

    /// Returns the number of each byte's token. A byte without a token has a number, too: its id is one that no token
    /// has.
    fn numbers(&self) -> FxHashMap<TokenId, u32> {
        (0..).zip(self.byte_ids).map(|(byte, id)| (id, byte)).collect()
    }

    /// Returns whether some token arises only by looking up a whole pre-token, since the first `given` merges do not
    /// make it of its bytes. Tokens that later merges make do not count. If it returns `false`,
    /// [`ignore_merges`](Vocabulary::ignore_merges) changes no encoding, and the merges can be applied as a list.
    fn looks_up(&self, given: usize) -> bool {
        let later = self.made_later(given);
        let mut parts = VocabularyParts { bos_eos_template: BosEosTemplate::default(), ..self.parts() };
        parts.merges.truncate(given);
        parts.tokens.retain(|(id, _)| !later.contains(id));
        parts.build().is_ok_and(|vocabulary| check(&vocabulary).not_self_encoding > 0)
    }

    /// Returns the tokens that only merges after the first `given` make.
    fn made_later(&self, given: usize) -> FxHashSet<TokenId> {
        let (first, later) = self.merges.split_at(given);
        let first: FxHashSet<TokenId> = first.iter().map(|merge| merge.result).collect();
        later.iter().map(|merge| merge.result).filter(|id| !first.contains(id)).collect()
    }

    /// Returns the given merges ordered by the length of their tokens, the number of each token, the vocabulary's
    /// index of each merge, and the data to encode text.
    ///
    /// Every merge has a place in the list, so that counts by merge keep their positions. A placeholder stands for a
    /// merge that can never be applied, and no pair leads to it.
    fn by_length(
        &self,
        given: usize,
    ) -> (Vec<Merge>, FxHashMap<TokenId, u32>, Vec<usize>, Option<GivenEncoding>) {
        let mut numbers = self.numbers();
        let length = |id: TokenId| self.bytes(id).map_or(0, <[u8]>::len);
        let mut ranks: Vec<usize> = (0..given).collect();
        ranks.sort_by_key(|&rank| length(self.merges[rank].result));
        let (mut merges, mut encoding) = (Vec::with_capacity(given), GivenEncoding::default());
        for (index, &rank) in ranks.iter().enumerate() {
            let merge = &self.merges[rank];
            let parts = (numbers.get(&merge.left).copied(), numbers.get(&merge.right).copied());
            let (Some(left), Some(right)) = parts else {
                // No merge makes this part, so the pair never occurs. A placeholder keeps the numbers of later
                // merges.
                merges.push(Merge { left: 0, right: 0, count: Count::ZERO });
                continue;
            };
            merges.push(Merge { left, right, count: Count::ZERO });
            let result = *numbers.entry(merge.result).or_insert(256 + truncate_to_u32(index));
            encoding.pairs.insert((left, right), GivenMerge { rank: merge.rank, result, index });
        }
        if self.ignore_merges {
            let later = self.made_later(given);
            let pretokens = self.ordinary().filter(|(id, _)| !later.contains(id));
            // Of tokens with equal bytes, the one with the lowest id is looked up.
            for (id, bytes) in pretokens {
                encoding.whole_pretokens.entry(bytes.into()).or_insert_with(|| numbers.get(&id).copied());
            }
        }
        (merges, numbers, ranks, Some(encoding))
    }
}

impl GivenMerges {
    /// Returns all merges, the given ones first, with tokens numbered as in training.
    pub fn merges(&self) -> &Merges {
        &self.merges
    }

    /// Returns the number of given merges. They are the first ones of [`merges`](GivenMerges::merges).
    pub fn given(&self) -> usize {
        self.given
    }

    /// Returns the vocabulary's token for each number: 256 bytes, then one per merge. Several numbers may have the
    /// same token, if several merges make it.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// Reorders one value per merge from the order of this list to the order of the vocabulary's merges. Values
    /// beyond the length of the list keep their positions.
    ///
    /// Use it for counts that training collected, before they are stored beside the vocabulary.
    pub fn by_rank<T: Clone>(&self, of_merges: &[T]) -> Vec<T> {
        let mut ordered = of_merges.to_vec();
        for (value, &rank) in of_merges.iter().zip(&self.ranks) {
            ordered[rank] = value.clone();
        }
        ordered
    }

    /// Returns an encoder by the given merges, or `None` if they are a plain list, which can be applied merge by
    /// merge. Each encoder has its own buffers and counts, so every thread needs one.
    pub fn encoder(&self) -> Option<GivenEncoder<'_>> {
        let encoding = self.encoding.as_ref()?;
        Some(GivenEncoder { encoding, merger: BpeMerger::default(), merged: vec![0; self.given] })
    }
}

/// Encodes pre-tokens by [`GivenMerges`] and counts how often each merge is applied.
///
/// It exists because training that extends a tokenizer must start from exactly the tokens that this tokenizer makes.
#[derive(Debug)]
pub struct GivenEncoder<'a> {
    /// The pairs and the pre-tokens that are looked up.
    encoding: &'a GivenEncoding,
    /// The buffers of the merging, reused for each pre-token.
    merger: BpeMerger,
    /// How often each given merge was applied, in the order of the list.
    merged: Vec<u64>,
}

impl GivenEncoder<'_> {
    /// Appends the token numbers of a pre-token that occurs `count` times. O(n log n) in its length.
    ///
    /// Returns `false`, and appends nothing, if the pre-token is looked up as a token that takes part in no merge and
    /// so has no number.
    ///
    /// `count` only weighs the merges in [`into_counts`](GivenEncoder::into_counts). The tokens are appended once.
    pub fn append(&mut self, pretoken: &[u8], count: Count, tokens: &mut Vec<u32>) -> bool {
        let GivenEncoder { encoding, merger, merged } = self;
        if let Some(whole_pretokens) = encoding.whole_pretokens.get(pretoken) {
            tokens.extend(whole_pretokens);
            return whole_pretokens.is_some();
        }
        let symbols = pretoken.iter().map(|&byte| u32::from(byte));
        let lookup = |pair: (u32, u32), _| {
            let merge = encoding.pairs.get(&pair)?;
            Some((merge.rank, merge.result))
        };
        let left = merger.run(symbols, lookup, |pair| {
            if let Some(merge) = encoding.pairs.get(&pair) {
                let merged = &mut merged[merge.index];
                *merged = merged.saturating_add(count.get());
            }
        });
        tokens.extend_from_slice(left);
        true
    }

    /// Returns how often each of the given merges was applied, in the order of the list. Counts saturate at 2^64 − 1.
    pub fn into_counts(self) -> Vec<u64> {
        self.merged
    }
}

impl Vocabulary {
    /// Returns the merges as training numbers tokens, whatever their ids in this vocabulary: byte b is b, and merge k
    /// makes token 256 + k. The counts are zero, since no file holds them.
    ///
    /// # Errors
    /// The vocabulary is no plain list of merges: a token is made by none of them or by several, a merge uses a token
    /// that only a later one makes, or merges share a rank.
    pub fn merge_list(&self) -> Result<Merges> {
        let list = self.as_list(self.merges.len()).and_then(|(merges, numbers)| {
            match self.ordinary().find(|(id, _)| !numbers.contains_key(id)) {
                Some((id, _)) => Err(format!("no merge makes token {id}")),
                None => Ok(merges),
            }
        });
        list.map_err(|problem| {
            not_a_list(problem).with_help("give a tokenizer whose merges were learned one after the other")
        })
    }

    /// Returns this vocabulary with further merges. `merges` must begin with this vocabulary's own merges as
    /// [`given_merges`](Vocabulary::given_merges) numbers them; for a plain list these are those of
    /// [`merge_list`](Vocabulary::merge_list). All existing tokens keep their ids, so that a model's embeddings stay
    /// valid. New tokens get the ids after the highest, even if special tokens have ids between them and the others.
    /// The rules that prepare and split text stay the same.
    ///
    /// # Errors
    /// `merges` begins differently, or a new token equals a special token.
    pub fn extended(&self, merges: &Merges) -> Result<Vocabulary> {
        let own = self.merges.len();
        let given = self.given_merges(own)?;
        let pairs =
            |merges: &Merges| merges.iter().take(own).map(|merge| (merge.left, merge.right)).collect();
        let (own_pairs, first_pairs): (Vec<_>, Vec<_>) = (pairs(given.merges()), pairs(merges));
        if own_pairs != first_pairs {
            return Err(Error::usage("the merges do not begin with those of the tokenizer")
                .with_help("give merges that were learned by extending this tokenizer"));
        }
        // The vocabulary's token for each number of training.
        let mut ids = given.ids().to_vec();
        let mut parts = self.parts();
        let first = parts.tokens.len();
        for (merge, rank) in merges.iter().zip(0u32..).skip(own) {
            let [left, right] = [merge.left, merge.right].map(|number| ids[to_usize(number)]);
            let result = TokenId::from_index(self.id_limit() + parts.tokens.len() - first);
            let bytes = |id: TokenId| match id.index().checked_sub(self.id_limit()) {
                Some(new) => &*parts.tokens[first + new].1,
                None => self.bytes(id).unwrap_or_default(),
            };
            let token = [bytes(left), bytes(right)].concat().into_boxed_slice();
            parts.tokens.push((result, token));
            parts.merges.push(RankedMerge { left, right, result, rank });
            ids.push(result);
        }
        parts.build().map_err(|error| error.with_kind(ErrorKind::Usage))
    }

    /// Returns this vocabulary with another pattern to split text by.
    ///
    /// # Errors
    /// None for a valid vocabulary.
    pub(crate) fn with_split(&self, split: &SplitPattern) -> Result<Vocabulary> {
        VocabularyParts { split: split.clone(), ..self.parts() }.build()
    }

    /// Returns this vocabulary with its first merges alone, or all of them if `merges` is `None` or larger. Tokens that
    /// only later merges make are left out, and the ids of the others close up.
    ///
    /// # Errors
    /// None for a valid vocabulary.
    pub(crate) fn with_first_merges(&self, merges: Option<usize>) -> Result<Vocabulary> {
        let Some(merges) = merges.filter(|&merges| merges < self.merges.len()) else {
            return Ok(self.clone());
        };
        let later = self.made_later(merges);
        let mut parts = self.parts();
        parts.merges.truncate(merges);
        parts.tokens.retain(|(id, _)| !later.contains(id));
        Ok(parts.build()?.with_dense_ids())
    }

    /// Returns the first `max_merges` merges as a list, and the number of each token in it.
    ///
    /// This is the form that training produces. Merges must be in ascending order of rank, as a [`Vocabulary`] has
    /// them.
    ///
    /// # Errors
    /// Merges share a rank, or one of them cannot be [listed].
    pub(super) fn as_list(&self, max_merges: usize) -> Result<(Merges, FxHashMap<TokenId, u32>), String> {
        let mut numbers = self.numbers();
        let mut merges = Vec::with_capacity(max_merges);
        for (index, merge) in self.merges.iter().enumerate().take(max_merges) {
            if to_usize(merge.rank) != index {
                return Err(format!("merges {index} and {} have the same rank", index + 1));
            }
            merges.push(listed(merge, index, &mut numbers)?);
        }
        Ok((Merges::new(merges), numbers))
    }

    /// Returns the parts from which an equal vocabulary can be built. The parts are copies: tokens that are only
    /// added ones are left out, since `added` has them.
    pub(super) fn parts(&self) -> VocabularyParts {
        VocabularyParts {
            tokens: self.ordinary().map(|(id, bytes)| (id, bytes.into())).collect(),
            added: self.added.clone(),
            merges: self.merges.clone(),
            split: self.split.clone(),
            rules: self.rules.clone(),
            bos_eos_template: self.bos_eos_template.clone(),
            ignore_merges: self.ignore_merges,
            unknown: self.unknown.clone(),
        }
    }
}

/// Renumbers the merge at `index` as in training, and gives its token the next number.
///
/// `numbers` gets the new token. It must not be used after an error.
///
/// # Errors
/// A part has no number yet, or the token already has one.
pub(super) fn listed(
    merge: &RankedMerge,
    index: usize,
    numbers: &mut FxHashMap<TokenId, u32>,
) -> Result<Merge, String> {
    let number = |id: TokenId| {
        let without_merge = || format!("merge {} uses token {id}, which no earlier merge makes", index + 1);
        numbers.get(&id).copied().ok_or_else(without_merge)
    };
    let listed = Merge { left: number(merge.left)?, right: number(merge.right)?, count: Count::ZERO };
    match numbers.insert(merge.result, 256 + truncate_to_u32(index)) {
        Some(_) => Err(format!("merge {} makes token {}, which already exists", index + 1, merge.result)),
        None => Ok(listed),
    }
}

/// Returns the error of a vocabulary with merges that are no plain list. `problem` completes its message and counts
/// merges from 1.
pub(super) fn not_a_list(problem: String) -> Error {
    Error::failed(format!("the tokenizer is not a plain list of merges: {problem}"))
}

#[cfg(test)]
mod tests {
    use crate::base::int::Count;
    use crate::split::SplitPattern;
    use crate::train::{Merge, Merges};
    use crate::vocab::{SpecialTokensAt, Vocabulary};

    /// A list that does not begin with the vocabulary's own merges is refused as an extension.
    #[test]
    fn a_list_that_begins_otherwise_is_none_to_go_on_with() {
        let list = |pairs: &[(u32, u32)]| {
            Merges::new(pairs.iter().map(|&(left, right)| Merge { left, right, count: Count::ONE }).collect())
        };
        let own = list(&[(97, 98), (99, 100)]);
        let vocabulary = Vocabulary::from_merges(&own, &[], SpecialTokensAt::End, SplitPattern::None);
        let vocabulary = vocabulary.expect("two merges");
        let longer =
            vocabulary.extended(&list(&[(97, 98), (99, 100), (256, 257)])).expect("its own come first");
        assert_eq!(longer.tokens().last().map(|(_, bytes)| bytes), Some(&b"abcd"[..]));
        for other in [list(&[(97, 98)]), list(&[(99, 100), (97, 98), (256, 257)]), Merges::default()] {
            let refused = vocabulary.extended(&other).expect_err("it begins otherwise");
            assert!(refused.to_string().contains("do not begin with"), "{refused}");
        }
    }
}
