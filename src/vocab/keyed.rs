//! Vocabularies whose tokens are keys in the byte alphabet: what `tokenizer.json` and GPT-2's
//! `vocab.json` have in common.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::alphabet;
use super::fault::{Fault, Limit};
use super::{RankedMerge, SpecialToken, Vocabulary, VocabularyParts};
use crate::split::SplitPattern;
use crate::units::{TokenId, low32};

/// A JSON object of names with ids, in the order of the file, with each entry that it has: a map
/// would keep the last of two entries with one name and say nothing.
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

/// Tokens and merges as keys.
pub(super) struct Keyed {
    pub(super) entries: Entries,
    pub(super) merges: Vec<(String, String)>,
}

impl Keyed {
    /// The parts of a vocabulary. A key that is a special token's text, with its id, is that token.
    pub(super) fn parts(
        &self,
        specials: Vec<SpecialToken>,
        split: SplitPattern,
        ignore_merges: bool,
    ) -> Result<VocabularyParts, Fault> {
        let ids = self.ids()?;
        let texts: FxHashMap<&str, TokenId> = specials.iter().map(|s| (&*s.text, s.id)).collect();
        let mut tokens = Vec::with_capacity(self.entries.0.len());
        for (key, id) in &self.entries.0 {
            match texts.get(&**key) {
                Some(added) if added == id => {}
                Some(&added) => {
                    return Err(Fault::AddedId { text: key.clone(), added, listed: *id });
                }
                None => {
                    let bytes = alphabet::read(key);
                    let bytes = bytes.ok_or_else(|| Fault::NotByteLevel { id: *id, key: key.clone() })?;
                    tokens.push((*id, bytes));
                }
            }
        }
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
            merges.push(RankedMerge { left: id(left)?, right: id(right)?, result, rank: low32(index) });
        }
        Ok(VocabularyParts { tokens, specials, merges, split, ignore_merges })
    }

    /// The ids of the keys.
    pub(super) fn ids(&self) -> Result<FxHashMap<&str, TokenId>, Fault> {
        let mut ids = FxHashMap::default();
        for (key, id) in &self.entries.0 {
            if ids.insert(&**key, *id).is_some() {
                return Err(Fault::KeyTwice(key.clone()));
            }
        }
        Ok(ids)
    }

    /// The keys and merges of a vocabulary, in the order of ids and ranks. Special tokens are keys
    /// too, spelled as they are: a reader that finds a token only elsewhere gives it an id of its own.
    pub(super) fn of(vocabulary: &Vocabulary) -> Result<Keyed, Limit> {
        let special = |id| vocabulary.special(id).map(|special| special.text.clone());
        let mut entries = Vec::new();
        let mut seen = FxHashMap::default();
        for (id, bytes) in vocabulary.tokens() {
            let key = special(id).unwrap_or_else(|| alphabet::spell(bytes));
            if let Some(first) = seen.insert(key.clone(), id) {
                return Err(
                    match special(id).map(|text| (text, first)).or(special(first).map(|text| (text, id))) {
                        Some((text, id)) => Limit::SpecialSpelled { text, id },
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
