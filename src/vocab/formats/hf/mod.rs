//! Reads and writes Hugging Face's `tokenizer.json`.

mod components;

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::gpt2::{HEADER, JsonVocabulary, two_keys};
use super::transformers::{WriteOptions, tokenizer_config};
use crate::base::hash::{Map, Set};
use crate::base::int::{TokenId, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::observer::Observer;
use crate::split::{NamedPattern, SplitPattern, byte_alphabet};
use crate::vocab::format::{Format, cannot_hold, not_json, of_other_kind, unsupported};
use crate::vocab::io::{LoadOptions, Rendered, VocabularyEntries, pretty, read_bytes};
use crate::vocab::other_files;
use crate::vocab::text_rules::{AddedToken, BosEosTemplate, TextRules};
use crate::vocab::vocabulary::{UnknownToken, Vocabulary};

/// The content of a `tokenizer.json`, with the fields in the order in which `tokenizers` writes them. Unknown fields
/// are refused, since they might change ids.
///
/// The components around the model stay JSON values, which `components` reads. `None` is written as `null`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenizerJson {
    /// The version of the format. Only `1.0` exists.
    version: Option<String>,
    /// Changes no ids of whole texts, so it is only reported.
    truncation: Option<Value>,
    /// As for `truncation`.
    padding: Option<Value>,
    /// In the order in which the file lists them.
    #[serde(default)]
    added_tokens: Vec<AddedTokenJson>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    /// The tokens and merges.
    model: ModelJson,
}

/// A token in `added_tokens`. The fields are those of [`AddedToken`], in the order in which tokenizers writes them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AddedToken", deny_unknown_fields)]
struct AddedTokenFields {
    id: TokenId,
    #[serde(rename = "content")]
    text: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

/// An added token in the form in which it is read and written.
#[derive(Serialize, Deserialize)]
struct AddedTokenJson(#[serde(with = "AddedTokenFields")] AddedToken);

/// The `model` of a `tokenizer.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelJson {
    /// `None` in files of old versions. It must be `BPE`.
    r#type: Option<String>,
    /// The probability that a merge is skipped. It must be 0, since ids would otherwise be random.
    dropout: Option<f64>,
    /// The token for bytes without a token.
    unk_token: Option<String>,
    /// Must be empty, like `end_of_word_suffix`: both put text into tokens that the input does not have.
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    /// Whether several unknown tokens in a row become one. `None` means `false`.
    fuse_unk: Option<bool>,
    /// Has no effect if every byte has a token, and is refused otherwise.
    byte_fallback: Option<bool>,
    /// Whether a pre-token that is a key becomes its token before merging. `None` means `false`.
    ignore_merges: Option<bool>,
    /// The keys with their ids.
    vocab: VocabularyEntries,
    /// The merges, in ascending order of rank.
    merges: MergesJson,
}

/// Merges as pairs of keys, by ascending rank.
///
/// They are written as `"a b"`, which every version of tokenizers reads; no key contains a space. If one of them
/// would look like a [header](HEADER) of `merges.txt`, they are written as `["a", "b"]`, which versions from 0.20 on
/// read.
struct MergesJson(Vec<(String, String)>);

impl Serialize for MergesJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.iter().any(|(left, _)| left.starts_with(HEADER)) {
            return serializer.collect_seq(&self.0);
        }
        serializer.collect_seq(self.0.iter().map(|(left, right)| format!("{left} {right}")))
    }
}

impl<'de> Deserialize<'de> for MergesJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MergesJson, D::Error> {
        let merges = Vec::<MergeJson>::deserialize(deserializer)?;
        Ok(MergesJson(merges.into_iter().filter_map(|MergeJson(keys)| keys).collect()))
    }
}

/// A merge, written `"a b"` or `["a", "b"]`. `None` is a merge of the first form that looks like a [header](HEADER)
/// of `merges.txt`. Tokenizers skips it here, too.
struct MergeJson(Option<(String, String)>);

impl<'de> Deserialize<'de> for MergeJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MergeJson, D::Error> {
        /// Accepts both forms of a merge.
        struct EitherForm;
        impl<'de> Visitor<'de> for EitherForm {
            type Value = MergeJson;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MergeJson, E> {
                if text.starts_with(HEADER) {
                    return Ok(MergeJson(None));
                }
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                let (left, right) = two_keys(text).ok_or_else(wrong)?;
                Ok(MergeJson(Some((left.to_owned(), right.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<MergeJson, A::Error> {
                let left = items.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right = items.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match items.next_element::<de::IgnoredAny>()? {
                    None => Ok(MergeJson(Some((left, right)))),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        deserializer.deserialize_any(EitherForm)
    }
}

/// Reads a `tokenizer.json`.
///
/// # Errors
/// Those of [`parse`], or the file cannot be read.
pub(in crate::vocab) fn load(
    path: &Path,
    options: &LoadOptions,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    parse(read_bytes(path)?, path, options, observer)
}

/// Does the same as [`load`] with the content of a file. `path` only names it in messages.
///
/// # Errors
/// The content is damaged, contradicts the options, or uses a feature that cannot be reproduced.
pub(in crate::vocab) fn parse(
    bytes: impl AsRef<[u8]>,
    path: &Path,
    options: &LoadOptions,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let in_file = |error: Error| error.at(path.display());
    let file = serde_json::from_slice(bytes.as_ref());
    let file: TokenizerJson = file.map_err(|error| in_file(not_bpe(bytes.as_ref(), error)))?;
    drop(bytes);
    let pre_tokenizer = components::read_pre_tokenizer(file.pre_tokenizer.as_ref(), file.decoder.as_ref());
    let pre_tokenizer = pre_tokenizer.map_err(in_file)?;
    let split = pre_tokenizer.pattern().map_err(|error| in_file(error.with_kind(ErrorKind::Failed)))?;
    let prefix_space = pre_tokenizer.prefix_space;
    let post_processor = components::read_post_processor(file.post_processor.as_ref()).map_err(in_file)?;
    let (template, post_processor) = post_processor.unwrap_or_default();
    // `transformers` saves the settings of its last call, and the next call overrides them.
    for (what, set) in [("truncation", &file.truncation), ("padding", &file.padding)] {
        if set.is_some() {
            observer.noted(&format!("{}: its {what} is ignored: texts are encoded whole", path.display()));
        }
    }
    let vocabulary = vocabulary(file, split, prefix_space, template, options).map_err(in_file)?;
    if pre_tokenizer.steps.is_empty() {
        observer.noted(&format!(
            "{}: it has no pre_tokenizer, so texts are not split; Hugging Face's tokenizers would drop characters that the \
             byte alphabet spells differently, such as spaces",
            path.display()
        ));
    }
    if vocabulary.bos_eos_template != BosEosTemplate::default() {
        let (path, added) = (path.display(), components::describe_post_processor(&vocabulary));
        observer.noted(&format!(
            "{path}: its post_processor {post_processor}, which adds {added}, is ignored; set bos and eos instead"
        ));
    }
    Ok(vocabulary)
}

/// Returns why a file does not parse. Other kinds of models have other fields, so the type says more than the field.
/// The content is parsed again, which costs time only for files that are refused.
fn not_bpe(bytes: &[u8], error: serde_json::Error) -> Error {
    let file: Value = serde_json::from_slice(bytes).unwrap_or_default();
    match (other_files::other_model(&file), other_files::by_keys(&file)) {
        (Some(model), _) => unsupported(format!("model {model}")),
        (None, Some(other)) => of_other_kind(other),
        (None, None) => not_json(error),
    }
}

/// Builds the vocabulary from the parsed file.
///
/// # Errors
/// The file uses a feature that cannot be reproduced, the options name another split, an added token has an id that
/// tokenizers would not give it, or the parts break an invariant of [`Vocabulary`].
fn vocabulary(
    file: TokenizerJson,
    split: SplitPattern,
    prefix_space: bool,
    bos_eos_template: BosEosTemplate,
    options: &LoadOptions,
) -> Result<Vocabulary> {
    let split = options.same_split(split)?;
    if file.version.as_ref().is_some_and(|version| version != "1.0") {
        return Err(unsupported("version"));
    }
    file.model.refuse_features()?;
    let normalizers = components::read_normalizers(file.normalizer.as_ref())?;
    let ModelJson { vocab, merges, ignore_merges, unk_token, fuse_unk, .. } = file.model;
    let json = JsonVocabulary { entries: vocab, merges: merges.0 };
    let mut added: Vec<AddedToken> = file.added_tokens.into_iter().map(|token| token.0).collect();
    AddedToken::clear_idle_normalized(&mut added, !normalizers.is_empty());
    // Tokenizers ignores tokens with an empty text, and so their ids.
    added.retain(|token| !token.text.is_empty());
    let ids = json.ids()?;
    let misnumbered = misnumbered(&added, &ids).map(|(AddedToken { text, id, .. }, counted)| {
        let text = excerpt(text);
        Error::failed(format!(
            "added token {text} has id {id}, but Hugging Face's tokenizers would number it {counted}"
        ))
    });
    let unknown = unk_token.map(|text| UnknownToken {
        id: ids.get(&*text).copied(),
        text,
        fuse: fuse_unk.unwrap_or(false),
    });
    let mut parts = json.parts(added, split, ignore_merges.unwrap_or(false))?;
    parts.rules = TextRules { normalizers, prefix_space };
    parts.bos_eos_template = bos_eos_template;
    parts.unknown = unknown;
    let vocabulary = parts.build()?;
    misnumbered.map_or(Ok(vocabulary), Err)
}

/// Returns the first added token to which tokenizers would give another id than its own, and that id. `None` if
/// tokenizers would read all ids as they are written.
fn misnumbered<'a>(added: &'a [AddedToken], ids: &Map<&str, TokenId>) -> Option<(&'a AddedToken, TokenId)> {
    added.iter().zip(ids_by_tokenizers(added, ids)).find(|(token, counted)| token.id != *counted)
}

/// Returns the ids that tokenizers gives to added tokens, in the order in which they are listed. A token that is a
/// key has the key's id. The others are numbered consecutively from the number of keys on, whatever ids the keys
/// have.
fn ids_by_tokenizers(added: &[AddedToken], ids: &Map<&str, TokenId>) -> Vec<TokenId> {
    let mut next = truncate_to_u32(ids.len());
    let count = |token: &AddedToken| {
        ids.get(&*token.text).copied().unwrap_or_else(|| {
            let id = TokenId::new(next);
            next = next.saturating_add(1);
            id
        })
    };
    added.iter().map(count).collect()
}

impl ModelJson {
    /// Returns whether every byte has a token, so that no character of a text needs a fallback.
    fn has_every_byte(&self) -> bool {
        let keys: Set<&str> = self.vocab.0.iter().map(|(key, _)| &**key).collect();
        (0..=u8::MAX).all(|byte| keys.contains(&*byte_alphabet::spell(&[byte])))
    }

    /// Refuses features that give other ids than merging bytes by rank.
    ///
    /// # Errors
    /// The first such feature, by its name in the file.
    fn refuse_features(&self) -> Result<()> {
        if let Some(kind) = self.r#type.as_ref().filter(|kind| *kind != "BPE") {
            return Err(unsupported(format!("model {kind}")));
        }
        let text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let features = [
            ("dropout", self.dropout.is_some_and(|dropout| dropout != 0.0)),
            ("continuing_subword_prefix", text(&self.continuing_subword_prefix)),
            ("end_of_word_suffix", text(&self.end_of_word_suffix)),
            ("byte_fallback", self.byte_fallback == Some(true) && !self.has_every_byte()),
        ];
        match features.iter().find(|(_, used)| *used) {
            Some((name, _)) => Err(unsupported(*name)),
            None => Ok(()),
        }
    }
}

/// Writes `tokenizer.json` and `tokenizer_config.json`.
///
/// # Errors
/// The format cannot hold the vocabulary.
pub(in crate::vocab) fn render(vocabulary: &Vocabulary, options: &WriteOptions) -> Result<Rendered> {
    let json = JsonVocabulary::of(vocabulary, Format::Hf)?;
    let ids = json.entries.0.iter().map(|(key, id)| (&**key, *id)).collect();
    if let Some((AddedToken { text, id, .. }, counted)) = misnumbered(&vocabulary.added, &ids) {
        let problem = format!("added token {} has id {id}, but would get id {counted}", excerpt(text));
        return Err(cannot_hold(Format::Hf, problem));
    }
    let JsonVocabulary { entries, merges } = json;
    let unknown = vocabulary.unknown.as_ref();
    let key =
        |id| entries.0.iter().find(|(_, other)| *other == id).map(|(key, _)| key.clone()).unwrap_or_default();
    let file = TokenizerJson {
        version: Some("1.0".to_owned()),
        truncation: None,
        padding: None,
        added_tokens: vocabulary.added.iter().cloned().map(AddedTokenJson).collect(),
        normalizer: components::write_normalizers(&vocabulary.rules.normalizers),
        pre_tokenizer: Some(components::write_pre_tokenizer(vocabulary)?),
        post_processor: components::write_post_processor(vocabulary),
        decoder: Some(components::byte_level(false, false)),
        model: ModelJson {
            r#type: Some("BPE".to_owned()),
            dropout: None,
            unk_token: unknown.map(|token| token.id.map_or(token.text.clone(), key)),
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            fuse_unk: Some(unknown.is_some_and(|token| token.fuse)),
            byte_fallback: Some(false),
            ignore_merges: Some(vocabulary.ignore_merges),
            vocab: entries,
            merges: MergesJson(merges),
        },
    };
    Ok([pretty(&file), pretty(&tokenizer_config(options))])
}

/// Returns notes for users of the written file, possibly none. Each is one sentence or more, without a line break.
pub(in crate::vocab) fn compatibility_notes(vocabulary: &Vocabulary) -> Vec<String> {
    refused_by_1_0(vocabulary).into_iter().chain(decoded_otherwise(vocabulary)).collect()
}

/// Returns a note if an added token does not survive decoding. The decoder takes every token for a key if all its
/// letters spell bytes.
fn decoded_otherwise(vocabulary: &Vocabulary) -> Option<String> {
    let added_only = vocabulary.added.iter().filter(|token| vocabulary.is_added_only(token.id));
    let mut texts = added_only.map(|token| &token.text);
    let token =
        texts.find(|text| byte_alphabet::read(text).is_some_and(|bytes| *bytes != *text.as_bytes()))?;
    Some(format!(
        "hf: tokenizers encodes added token {token:?} correctly but decodes it to other characters, because its letters \
         also spell bytes: choose an ASCII text for it if it must be decoded"
    ))
}

/// Returns a note if not every version of `tokenizers` opens the file. Version 1.0 has no regular expression engine.
/// It recognizes published patterns by their exact text and refuses files with any other.
fn refused_by_1_0(vocabulary: &Vocabulary) -> Option<String> {
    let split = vocabulary.split();
    if *split == SplitPattern::Named(NamedPattern::Nanochat) {
        return Some(format!(
            "hf: tokenizers 1.0.0-rc.3 splits numbers differently from the split {split} and gives other ids; versions 0.x \
             give the same ids as this program"
        ));
    }
    let what = if vocabulary.rules.prefix_space {
        "adds a space before text".to_owned()
    } else if !vocabulary.missing_in_utf8().is_empty() {
        "lacks tokens for bytes of UTF-8".to_owned()
    } else if components::write_pre_tokenizer(vocabulary)
        .is_ok_and(|written| !components::is_known_to_1_0(&written))
    {
        match split {
            SplitPattern::Named(named) => format!("has the split {}", named.name()),
            _ => "has a custom split".to_owned(),
        }
    } else {
        return None;
    };
    Some(format!(
        "hf: tokenizers 1.0.0-rc.3 does not open a tokenizer that {what}; versions 0.x do. Both open the splits gpt2, \
         gpt4, o200k, qwen2, deepseek-v3 and none"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Added tokens that are no keys are numbered from the number of keys on.
    #[test]
    fn tokens_that_are_no_keys_are_numbered_from_the_number_of_keys_on() {
        let ids: Map<&str, TokenId> =
            [("a", 0), ("<far>", 12)].map(|(key, id)| (key, TokenId::new(id))).into_iter().collect();
        let added = ["<far>", "<x>", "a", "<y>"].map(|text| AddedToken::special(TokenId::new(0), text));
        assert_eq!(
            ids_by_tokenizers(&added, &ids).into_iter().map(TokenId::get).collect::<Vec<_>>(),
            [12, 2, 0, 3]
        );
    }
}
