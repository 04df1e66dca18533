//! The `model` of a `tokenizer.json`: keys, merges, and features that are refused.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::base::hash::Set;
use crate::split::byte_alphabet as alphabet;
use crate::vocab::fault::Fault;
use crate::vocab::gpt2::HEADER;
use crate::vocab::keyed::Entries;

/// The model of a `tokenizer.json`. Unknown fields are refused, since they might change ids.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) r#type: Option<String>,
    pub(super) dropout: Option<f64>,
    /// The token for bytes without a token.
    pub(super) unk_token: Option<String>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    pub(super) fuse_unk: Option<bool>,
    pub(super) byte_fallback: Option<bool>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) vocab: Entries,
    pub(super) merges: Vec<Pair>,
}

/// A merge, written `"a b"` or `["a", "b"]`. `None` is a merge of the first form that looks like a [header](HEADER)
/// of `merges.txt`. Tokenizers skips it here, too.
pub(super) struct Pair(pub(super) Option<(String, String)>);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pair, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Pair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pair, E> {
                if text.starts_with(HEADER) {
                    return Ok(Pair(None));
                }
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                let (left, right) = two_keys(text).ok_or_else(wrong)?;
                Ok(Pair(Some((left.to_owned(), right.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
                let left = items.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right = items.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match items.next_element::<de::IgnoredAny>()? {
                    None => Ok(Pair(Some((left, right)))),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Splits a merge written as two keys with one space between them.
pub(crate) fn two_keys(text: &str) -> Option<(&str, &str)> {
    let (left, right) = text.split_once(' ')?;
    (!left.is_empty() && !right.is_empty() && !right.contains(' ')).then_some((left, right))
}

impl Model {
    /// Returns whether every byte has a token, so that no character of a text needs a fallback.
    fn has_every_byte(&self) -> bool {
        let keys: Set<&str> = self.vocab.0.iter().map(|(key, _)| &**key).collect();
        (0..=u8::MAX).all(|byte| keys.contains(&*alphabet::spell(&[byte])))
    }

    /// Refuses features that give other ids than merging bytes by rank.
    pub(super) fn refuse_features(&self) -> Result<(), Fault> {
        if let Some(kind) = self.r#type.as_ref().filter(|kind| *kind != "BPE") {
            return Err(Fault::unsupported(format!("model {kind}")));
        }
        let text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let features = [
            ("dropout", self.dropout.is_some_and(|dropout| dropout != 0.0)),
            ("continuing_subword_prefix", text(&self.continuing_subword_prefix)),
            ("end_of_word_suffix", text(&self.end_of_word_suffix)),
            ("byte_fallback", self.byte_fallback == Some(true) && !self.has_every_byte()),
        ];
        match features.iter().find(|(_, used)| *used) {
            Some((name, _)) => Err(Fault::unsupported(*name)),
            None => Ok(()),
        }
    }
}
