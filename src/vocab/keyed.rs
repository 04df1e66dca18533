//! Vocabularies whose tokens are strings in the byte alphabet (their keys): the common part of `tokenizer.json`
//! and GPT-2's `vocab.json`.

use std::fmt;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::alphabet;
use super::fault::{Fault, Limit};
use super::{AddedToken, RankedMerge, Vocabulary, VocabularyParts};
use crate::base::hash::Map;
use crate::base::int::{TokenId, truncate_to_u32};
use crate::split::SplitPattern;

/// The entries of a JSON object that maps names to ids, in the order of the file. Duplicate names are kept, so that
/// they can be refused; a map would silently keep the last one.
#[derive(Debug, Default)]
pub(super) struct Entries(pub(super) Vec<(String, TokenId)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with their ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, id)| (name, id)))
    }
}

/// A vocabulary's keys with their ids, and its merges as pairs of keys, by ascending rank.
pub(super) struct Keyed {
    /// The keys with their ids.
    pub(super) entries: Entries,
    /// The merges as pairs of keys, by ascending rank.
    pub(super) merges: Vec<(String, String)>,
}

impl Keyed {
    /// Returns the parts of a vocabulary. A key with the text and id of an added token is that token. It is an
    /// ordinary token, too, if merges make or use it, if it is a single byte, or if a whole pre-token can become it.
    ///
    /// # Errors
    /// A key occurs twice, is not spelled in the byte alphabet, or has another id than the added token with its text;
    /// or a merge needs a key that is missing.
    pub(super) fn parts(
        &self,
        added: Vec<AddedToken>,
        split: SplitPattern,
        ignore_merges: bool,
    ) -> Result<VocabularyParts, Fault> {
        let ids = self.ids()?;
        let merges = self.ranked(&ids)?;
        let mut merging = FxHashSet::default();
        if !added.is_empty() {
            merging.extend(merges.iter().flat_map(|merge| [merge.left, merge.right, merge.result]));
        }
        let texts: Map<&str, &AddedToken> = added.iter().map(|token| (&*token.text, token)).collect();
        let mut tokens = Vec::with_capacity(self.entries.0.len());
        for (key, id) in &self.entries.0 {
            let bytes = alphabet::read(key);
            if let Some(token) = texts.get(&**key) {
                if token.id != *id {
                    return Err(Fault::AddedId { text: key.clone(), added: token.id, listed: *id });
                }
                let is_byte = bytes.as_ref().is_some_and(|bytes| bytes.len() == 1);
                let is_pretoken = ignore_merges && bytes.is_some() && !token.special;
                if !is_byte && !merging.contains(id) && !is_pretoken {
                    continue;
                }
            }
            let bytes = bytes.ok_or_else(|| Fault::NotByteLevel { id: *id, key: key.clone() })?;
            tokens.push((*id, bytes));
        }
        Ok(VocabularyParts { tokens, added, merges, split, ignore_merges, ..VocabularyParts::default() })
    }

    /// Returns the merges with ids instead of keys, ranked in their order.
    fn ranked(&self, ids: &Map<&str, TokenId>) -> Result<Vec<RankedMerge>, Fault> {
        let mut merges = Vec::with_capacity(self.merges.len());
        for (index, (left, right)) in self.merges.iter().enumerate() {
            let id = |key: &str| {
                ids.get(key).copied().ok_or_else(|| Fault::MergeKey {
                    merge: index + 1,
                    left: left.clone(),
                    right: right.clone(),
                    missing: key.to_owned(),
                })
            };
            let result = id(&[&**left, right].concat())?;
            merges.push(RankedMerge {
                left: id(left)?,
                right: id(right)?,
                result,
                rank: truncate_to_u32(index),
            });
        }
        Ok(merges)
    }

    /// Returns the id of each key.
    ///
    /// # Errors
    /// A key occurs twice.
    pub(super) fn ids(&self) -> Result<Map<&str, TokenId>, Fault> {
        let mut ids = Map::default();
        for (key, id) in &self.entries.0 {
            if ids.insert(&**key, *id).is_some() {
                return Err(Fault::KeyTwice(key.clone()));
            }
        }
        Ok(ids)
    }

    /// Returns the keys and merges of a vocabulary, in order of ids and ranks. Tokens that are only added ones become
    /// keys, too, spelled as their text, because a reader would give another id to a token that is not among the
    /// keys. With `ignore_merges`, those that are not special are left out, because a pre-token that equals their key
    /// would become them.
    ///
    /// # Errors
    /// Two tokens would have the same key, or merges share a rank.
    pub(super) fn of(vocabulary: &Vocabulary) -> Result<Keyed, Limit> {
        let apart =
            |id: TokenId| vocabulary.added_token(id).filter(|_| vocabulary.apart.binary_search(&id).is_ok());
        let mut entries = Vec::new();
        let mut seen = Map::default();
        for (id, bytes) in vocabulary.tokens() {
            let added = apart(id);
            if vocabulary.ignore_merges && added.is_some_and(|added| !added.special) {
                continue;
            }
            let key = added.map_or_else(|| alphabet::spell(bytes), |added| added.text.clone());
            if let Some(first) = seen.insert(key.clone(), id) {
                let text = |id| apart(id).map(|added| added.text.clone());
                return Err(
                    match text(id).map(|text| (text, first)).or(text(first).map(|text| (text, id))) {
                        Some((text, id)) => Limit::AddedSpelled { text, id },
                        None => Limit::EqualBytes { first, second: id },
                    },
                );
            }
            entries.push((key, id));
        }
        if !vocabulary.merges.is_sorted_by(|earlier, later| earlier.rank < later.rank) {
            return Err(Limit::EqualRanks);
        }
        let key = |id| alphabet::spell(vocabulary.bytes(id).unwrap_or_default());
        let merges = vocabulary.merges.iter().map(|merge| (key(merge.left), key(merge.right))).collect();
        Ok(Keyed { entries: Entries(entries), merges })
    }
}
