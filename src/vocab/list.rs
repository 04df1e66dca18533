//! A vocabulary as the plain list of merges that training produces, and its extension by further merges.

use rustc_hash::FxHashMap;

use super::fault::Fault;
use super::{RankedMerge, Vocabulary, VocabularyParts};
use crate::base::int::{Count, TokenId, to_usize, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result};
use crate::train::{Merge, Merges};

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
            return Err(Error::new(ErrorKind::Usage, Fault::OtherBeginning)
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
        parts.build().map_err(|fault| Error::new(ErrorKind::Usage, fault))
    }

    /// Returns the first `most` merges as a list, and the number of each token in it.
    ///
    /// # Errors
    /// Merges share a rank, or one of them cannot be [listed].
    pub(super) fn as_list(&self, most: usize) -> Result<(Merges, FxHashMap<TokenId, u32>), String> {
        let mut numbers: FxHashMap<TokenId, u32> =
            (0..).zip(self.byte_ids).map(|(byte, id)| (id, byte)).collect();
        let mut merges = Vec::with_capacity(most);
        for (index, merge) in self.merges.iter().enumerate().take(most) {
            if to_usize(merge.rank) != index {
                return Err(format!("merges {index} and {} have the same rank", index + 1));
            }
            merges.push(listed(merge, index, &mut numbers)?);
        }
        Ok((Merges::new(merges), numbers))
    }

    /// Returns the parts from which an equal vocabulary can be built.
    pub(super) fn parts(&self) -> VocabularyParts {
        VocabularyParts {
            tokens: self.ordinary().map(|(id, bytes)| (id, bytes.into())).collect(),
            added: self.added.clone(),
            merges: self.merges.clone(),
            split: self.split.clone(),
            rules: self.rules.clone(),
            around: self.around.clone(),
            ignore_merges: self.ignore_merges,
            unknown: self.unknown.clone(),
        }
    }
}

/// Renumbers the merge at `index` as in training, and gives its token the next number.
///
/// # Errors
/// A part has no number yet, or the token already has one.
pub(super) fn listed(
    merge: &RankedMerge,
    index: usize,
    numbers: &mut FxHashMap<TokenId, u32>,
) -> Result<Merge, String> {
    let number = |id: TokenId| {
        let unmade = || format!("merge {} uses token {id}, which no earlier merge makes", index + 1);
        numbers.get(&id).copied().ok_or_else(unmade)
    };
    let listed = Merge { left: number(merge.left)?, right: number(merge.right)?, count: Count::ZERO };
    match numbers.insert(merge.result, 256 + truncate_to_u32(index)) {
        Some(_) => Err(format!("merge {} makes token {}, which already exists", index + 1, merge.result)),
        None => Ok(listed),
    }
}

pub(super) fn not_a_list(problem: String) -> Error {
    Error::new(ErrorKind::Failed, Fault::NotAList { problem })
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
