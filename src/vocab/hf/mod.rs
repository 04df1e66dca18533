//! Reads and writes Hugging Face's `tokenizer.json`.

mod around;
mod config;
mod cut;
mod model;
mod template;
mod write;

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

pub(super) use self::config::{CONFIG, config};
pub use self::config::{named_beside, tell_left_out};
pub(super) use self::model::two_keys;
use self::model::{Model, Pair};
pub use self::template::{other_chat_template, read_chat_template};
use self::write::counted;
pub(super) use self::write::{TOKENIZER, cautions, pretty, render};
use super::fault::Fault;
use super::format::{LoadOptions, read_bytes};
use super::keyed::Keyed;
use super::{AddedToken, Around, Normalizer, ReplacePattern, TextRules, UnknownToken, Vocabulary, sniff};
use crate::base::hash::Map;
use crate::base::int::TokenId;
use crate::error::Result;
use crate::observer::Observer;
use crate::split::{Matcher, SplitPattern};

/// The content of a `tokenizer.json`. Unknown fields are refused, since they might change ids.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Option<String>,
    truncation: Option<Value>,
    padding: Option<Value>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Model,
}

/// A token in `added_tokens`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    id: TokenId,
    content: String,
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

/// Reads a `tokenizer.json`.
pub(super) fn load(path: &Path, options: &LoadOptions, observer: &dyn Observer) -> Result<Vocabulary> {
    parse(read_bytes(path)?, path, options, observer)
}

/// Does the same as [`load`] with the content of a file. `path` only names it in messages.
///
/// # Errors
/// The content is damaged, contradicts the options, or uses a feature that cannot be reproduced.
pub(super) fn parse(
    bytes: impl AsRef<[u8]>,
    path: &Path,
    options: &LoadOptions,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let file = serde_json::from_slice(bytes.as_ref());
    let file: File = file.map_err(|wrong| not_bpe(bytes.as_ref(), wrong).in_file(path))?;
    drop(bytes);
    let cut = cut::read(file.pre_tokenizer.as_ref(), file.decoder.as_ref());
    let cut = cut.map_err(|fault| fault.in_file(path))?;
    let split = cut.pattern().map_err(|wrong| Fault::Split(wrong).in_file(path))?;
    let prefix_space = cut.prefix_space;
    let post_processor = around::found(file.post_processor.as_ref()).map_err(|fault| fault.in_file(path))?;
    let post_processor = post_processor.map(|found| kind(found).to_owned());
    let uncut = cut.is_empty();
    // `transformers` saves the settings of its last call, and the next call overrides them.
    for (what, set) in [("truncation", &file.truncation), ("padding", &file.padding)] {
        if set.is_some() {
            observer.noted(&format!("{}: its {what} is ignored: texts are encoded whole", path.display()));
        }
    }
    let vocabulary = vocabulary(file, split, prefix_space, options).map_err(|fault| fault.in_file(path))?;
    if uncut {
        observer.noted(&format!(
            "{}: it has no pre_tokenizer, so texts are not split; Hugging Face's tokenizers would drop characters that the \
             byte alphabet spells differently, such as spaces",
            path.display()
        ));
    }
    if let Some(kind) = post_processor.filter(|_| vocabulary.around != Around::default()) {
        let (path, puts) = (path.display(), around::described(&vocabulary));
        observer.noted(&format!(
            "{path}: its post_processor {kind}, which adds {puts}, is ignored; set bos and eos instead"
        ));
    }
    Ok(vocabulary)
}

/// Returns why a file does not parse. Other kinds of models have other fields, so the kind says more than the field.
fn not_bpe(bytes: &[u8], wrong: serde_json::Error) -> Fault {
    #[derive(Deserialize)]
    struct Kind {
        model: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        r#type: String,
    }
    match serde_json::from_slice::<Kind>(bytes) {
        Ok(Kind { model: Named { r#type } }) if r#type != "BPE" => {
            Fault::unsupported(format!("model {}", r#type))
        }
        _ => match (sniff::unnamed_model(bytes), sniff::by_keys(bytes)) {
            (Some(model), _) => Fault::unsupported(format!("model {model}")),
            (None, Some(other)) => Fault::OtherKind(other),
            (None, None) => Fault::Json(wrong),
        },
    }
}

/// Builds the vocabulary from the parsed file.
fn vocabulary(
    file: File,
    split: SplitPattern,
    prefix_space: bool,
    options: &LoadOptions,
) -> Result<Vocabulary, Fault> {
    let split = options.same_split(split)?;
    refuse_features(&file)?;
    let normalizers = normalizers(file.normalizer.as_ref())?;
    let around = around::read(file.post_processor.as_ref())?;
    let Model { vocab, merges, ignore_merges, unk_token, fuse_unk, .. } = file.model;
    let merges = merges.into_iter().filter_map(|Pair(keys)| keys).collect();
    let keyed = Keyed { entries: vocab, merges };
    let added = added(file.added_tokens, !normalizers.is_empty());
    let ids = keyed.ids()?;
    let misnumbered = misnumbered(&added, &ids);
    let unknown = unk_token.map(|text| UnknownToken {
        id: ids.get(&*text).copied(),
        text,
        fuse: fuse_unk.unwrap_or(false),
    });
    let mut parts = keyed.parts(added, split, ignore_merges.unwrap_or(false))?;
    parts.rules = TextRules { normalizers, prefix_space };
    parts.around = around;
    parts.unknown = unknown;
    let vocabulary = parts.build()?;
    misnumbered.map_or(Ok(vocabulary), Err)
}

fn added(listed: Vec<Added>, normalizes: bool) -> Vec<AddedToken> {
    // Without normalizers, and if only one of the two searches has tokens, the flag `normalized` has no effect.
    let one_search =
        !normalizes && listed.array_windows().all(|[one, next]| one.normalized == next.normalized);
    let token = |Added { id, content: text, single_word, lstrip, rstrip, normalized, special }| {
        let normalized = normalized && !one_search;
        AddedToken { id, text, special, single_word, lstrip, rstrip, normalized }
    };
    // Tokenizers ignores tokens with an empty text, and so their ids.
    listed.into_iter().filter(|added| !added.content.is_empty()).map(token).collect()
}

/// Returns the fault of the first added token to which tokenizers would give another id than the file says.
fn misnumbered(added: &[AddedToken], ids: &Map<&str, TokenId>) -> Option<Fault> {
    let mut numbers = added.iter().zip(counted(added, ids));
    let (token, counted) = numbers.find(|(token, counted)| token.id != *counted)?;
    Some(Fault::AddedNumber { text: token.text.clone(), added: token.id, counted })
}

/// Refuses an unknown version and features of the model that cannot be reproduced.
fn refuse_features(file: &File) -> Result<(), Fault> {
    if file.version.as_ref().is_some_and(|version| version != "1.0") {
        return Err(Fault::unsupported("version"));
    }
    file.model.refuse_features()
}

/// Reads the normalizers, in the order in which they are applied.
fn normalizers(normalizer: Option<&Value>) -> Result<Vec<Normalizer>, Fault> {
    let mut normalizers: Vec<Normalizer> = Vec::new();
    for step in flat(normalizer, "normalizers", "normalizer")? {
        if !Normalizer::KINDS.contains(&kind(step)) {
            return Err(Fault::unsupported(format!("normalizer {}", kind(step))));
        }
        let normalizer = Normalizer::deserialize(step).map_err(Fault::Json)?;
        match &normalizer {
            Normalizer::Replace { pattern: ReplacePattern::String(text), .. } if text.is_empty() => {
                return Err(Fault::unsupported("normalizer Replace of an empty string"));
            }
            Normalizer::Replace { pattern: ReplacePattern::Regex(regex), .. } => {
                Matcher::from_oniguruma(regex).map_err(Fault::Split)?;
            }
            _ => {}
        }
        let again = normalizer == Normalizer::Nfc && normalizers.last() == Some(&normalizer);
        normalizers.extend((!again).then_some(normalizer));
    }
    Ok(normalizers)
}

/// Returns the steps of a component: the component itself, or the steps in the field `list` of a `Sequence`, at any
/// depth.
fn flat<'a>(value: Option<&'a Value>, list: &str, component: &str) -> Result<Vec<&'a Value>, Fault> {
    let mut steps = Vec::new();
    // The components still to visit, the next one last. A stack instead of recursion, so that deep nesting is
    // harmless.
    let mut rest: Vec<&Value> = value.into_iter().collect();
    while let Some(value) = rest.pop() {
        if kind(value) != "Sequence" {
            steps.push(value);
            continue;
        }
        let Some(inner) = value.get(list).and_then(Value::as_array) else {
            return Err(Fault::unsupported(format!("{component} Sequence without {list}")));
        };
        rest.extend(inner.iter().rev());
    }
    Ok(steps)
}

/// Returns the type of a component.
fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or("of unknown type")
}
