use rustc_hash::FxHashMap;

use super::fault::Fault;
use super::{RankedMerge, Vocabulary, VocabularyParts};
use crate::error::{Error, ErrorKind, Result};
use crate::train::{Merge, Merges};
use crate::units::{Count, TokenId, low32, place};

impl Vocabulary {
    /// The merges as training numbers tokens, whatever their ids are here: byte b is b, and merge k makes
    /// token 256 + k. The counts are zero: no file holds them.
    ///
    /// # Errors
    /// The vocabulary is no plain list of merges: a token is made by none of them or by several, a merge uses
    /// what only a later one makes, ranks are equal, whole pieces are looked up before merging, or text is
    /// changed or cut as no tokenizer trained here does it.
    pub fn merge_list(&self) -> Result<Merges> {
        self.as_list().map_err(|problem| {
            Error::new(ErrorKind::Failed, Fault::NotAList { problem })
                .with_help("give a tokenizer whose merges were learned one after the other")
        })
    }

    /// The vocabulary with the merges that a list has beyond this one's [own](Vocabulary::merge_list), with which the list
    /// begins. All that is here keeps its id, so that a model's embeddings stay what they are; new tokens get the ids
    /// after the highest, special tokens among them or not.
    ///
    /// # Errors
    /// The list begins otherwise, or there is none; a special token is equal to a token that was learned.
    pub fn extended(&self, merges: &Merges) -> Result<Vocabulary> {
        let own = self.merges.len();
        let pairs =
            |merges: &Merges| merges.iter().take(own).map(|merge| (merge.left, merge.right)).collect();
        let (own_pairs, first_pairs): (Vec<_>, Vec<_>) = (pairs(&self.merge_list()?), pairs(merges));
        if own_pairs != first_pairs {
            return Err(Error::new(ErrorKind::Usage, Fault::OtherBeginning)
                .with_help("give merges that were learned by going on from this tokenizer"));
        }
        let made = self.merges.iter().map(|merge| merge.result);
        // By the numbers of training.
        let mut ids: Vec<TokenId> = self.byte_ids.into_iter().chain(made).collect();
        let mut parts = VocabularyParts {
            tokens: self.ordinary().map(|(id, bytes)| (id, bytes.into())).collect(),
            added: self.added.clone(),
            merges: self.merges.clone(),
            split: self.split.clone(),
            rules: self.rules.clone(),
            around: self.around.clone(),
            ignore_merges: self.ignore_merges,
            unknown: self.unknown.clone(),
        };
        let first = parts.tokens.len();
        for (merge, rank) in merges.iter().zip(0u32..).skip(own) {
            let [left, right] = [merge.left, merge.right].map(|number| ids[place(number)]);
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

    fn as_list(&self) -> Result<Merges, String> {
        if let Some(foreign) = self.foreign() {
            return Err(foreign.to_string());
        }
        if self.ignore_merges {
            return Err("pieces that are tokens are not merged".to_owned());
        }
        let mut numbers: FxHashMap<TokenId, u32> =
            (0..).zip(self.byte_ids).map(|(byte, id)| (id, byte)).collect();
        let mut merges = Vec::with_capacity(self.merges.len());
        for (index, merge) in self.merges.iter().enumerate() {
            if place(merge.rank) != index {
                return Err(format!("merges {index} and {} have the same rank", index + 1));
            }
            let number = |id: TokenId| {
                let unmade = || format!("merge {} uses token {id}, which no earlier merge makes", index + 1);
                numbers.get(&id).copied().ok_or_else(unmade)
            };
            merges.push(Merge { left: number(merge.left)?, right: number(merge.right)?, count: Count::ZERO });
            if numbers.insert(merge.result, 256 + low32(index)).is_some() {
                return Err(format!(
                    "merge {} makes token {}, which is there already",
                    index + 1,
                    merge.result
                ));
            }
        }
        match self.ordinary().find(|(id, _)| !numbers.contains_key(id)) {
            Some((id, _)) => Err(format!("no merge makes token {id}")),
            None => Ok(Merges::new(merges)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::split::SplitPattern;
    use crate::train::{Merge, Merges};
    use crate::units::Count;
    use crate::vocab::{SpecialTokensAt, Vocabulary};

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
            assert!(refused.to_string().contains("begin otherwise"), "{refused}");
        }
    }
}
