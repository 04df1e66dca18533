use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::fault::Fault;
use super::format::{LoadOptions, read_bytes};
use super::keyed::{Entries, Keyed};
use super::{SpecialToken, Vocabulary};
use crate::error::Result;
use crate::observer::Observer;
use crate::split::SplitPattern;
use crate::units::TokenId;

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
    /// Whether the token is sought before or after normalising, which is the same without a normaliser.
    #[serde(default, rename = "normalized")]
    _normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    r#type: Option<String>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Entries,
    merges: Vec<Pair>,
}

/// A merge, written `"a b"` or `["a", "b"]`.
struct Pair(String, String);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pair, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Pair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pair, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                two_keys(text).ok_or_else(wrong).map(|(left, right)| Pair(left.to_owned(), right.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pair, A::Error> {
                let left = items.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right = items.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match items.next_element::<de::IgnoredAny>()? {
                    None => Ok(Pair(left, right)),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The two keys of a merge that is written with a space between them.
pub(super) fn two_keys(text: &str) -> Option<(&str, &str)> {
    let (left, right) = text.split_once(' ')?;
    (!left.is_empty() && !right.is_empty() && !right.contains(' ')).then_some((left, right))
}

pub(super) fn load(path: &Path, options: &LoadOptions, observer: &dyn Observer) -> Result<Vocabulary> {
    let bytes = read_bytes(path)?;
    let file: File = serde_json::from_slice(&bytes).map_err(|wrong| not_bpe(&bytes, wrong).in_file(path))?;
    drop(bytes);
    let split = match cut(&file).map_err(|fault| fault.in_file(path))? {
        Cut::Known(split) => split,
        Cut::Regexes(regexes) => SplitPattern::from_steps(&regexes)?,
    };
    if let Some(kind) = surroundings(&file).map_err(|fault| fault.in_file(path))? {
        let path = path.display();
        observer.noted(&format!("{path}: its post_processor {kind} is left out; name bos and eos instead"));
    }
    vocabulary(file, split, options).map_err(|fault| fault.in_file(path))
}

/// Why a file does not parse: another kind of model has other fields, and its name says more.
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
        _ => Fault::Json(wrong),
    }
}

fn vocabulary(file: File, split: SplitPattern, options: &LoadOptions) -> Result<Vocabulary, Fault> {
    let split = options.same_split(split)?;
    refuse_features(&file)?;
    let mut specials = Vec::with_capacity(file.added_tokens.len());
    for added in file.added_tokens {
        specials.push(special(added)?);
    }
    let merges = file.model.merges.into_iter().map(|Pair(left, right)| (left, right)).collect();
    let keyed = Keyed { entries: file.model.vocab, merges };
    keyed.parts(specials, split, file.model.ignore_merges.unwrap_or(false))?.build()
}

fn special(added: Added) -> Result<SpecialToken, Fault> {
    let flags = [("single_word", added.single_word), ("lstrip", added.lstrip), ("rstrip", added.rstrip)];
    for (name, set) in flags {
        if set {
            return Err(Fault::unsupported(format!("{name} of added token {:?}", added.content)));
        }
    }
    if !added.special {
        return Err(Fault::unsupported(format!("added token {:?}, which is not special,", added.content)));
    }
    Ok(SpecialToken { id: added.id, text: added.content })
}

fn refuse_features(file: &File) -> Result<(), Fault> {
    let model = &file.model;
    let text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let features = [
        ("version", file.version.as_ref().is_some_and(|version| version != "1.0")),
        ("truncation", file.truncation.is_some()),
        ("padding", file.padding.is_some()),
        ("dropout", model.dropout.is_some_and(|dropout| dropout != 0.0)),
        ("unk_token", model.unk_token.is_some()),
        ("continuing_subword_prefix", text(&model.continuing_subword_prefix)),
        ("end_of_word_suffix", text(&model.end_of_word_suffix)),
        ("fuse_unk", model.fuse_unk == Some(true)),
        ("byte_fallback", model.byte_fallback == Some(true)),
    ];
    if let Some((name, _)) = features.iter().find(|(_, used)| *used) {
        return Err(Fault::unsupported(*name));
    }
    if let Some(kind) = model.r#type.as_ref().filter(|kind| *kind != "BPE") {
        return Err(Fault::unsupported(format!("model {kind}")));
    }
    match flat(file.normalizer.as_ref(), "normalizers", "normalizer")?.first() {
        Some(normalizer) => Err(Fault::unsupported(format!("normalizer {}", kind(normalizer)))),
        None => Ok(()),
    }
}

/// How a file cuts text: known at once, or by regular expressions in Oniguruma's dialect, one after the
/// other.
enum Cut {
    Known(SplitPattern),
    Regexes(Vec<String>),
}

enum Step {
    ByteLevel { splits: bool },
    Split(String),
}

fn step(value: &Value) -> Result<Step, Fault> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ByteLevel {
        #[serde(rename = "type")]
        _kind: String,
        add_prefix_space: bool,
        #[serde(rename = "trim_offsets")]
        _trim_offsets: Option<bool>,
        use_regex: Option<bool>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Split {
        #[serde(rename = "type")]
        _kind: String,
        pattern: Pattern,
        behavior: String,
        invert: bool,
    }
    #[derive(Deserialize)]
    enum Pattern {
        Regex(String),
        String(de::IgnoredAny),
    }
    match kind(value) {
        "ByteLevel" => {
            let step = ByteLevel::deserialize(value).map_err(Fault::Json)?;
            if step.add_prefix_space {
                return Err(Fault::unsupported("add_prefix_space"));
            }
            Ok(Step::ByteLevel { splits: step.use_regex.unwrap_or(true) })
        }
        "Split" => {
            let step = Split::deserialize(value).map_err(Fault::Json)?;
            match step.pattern {
                _ if step.invert => Err(Fault::unsupported("invert of pre_tokenizer Split")),
                _ if step.behavior != "Isolated" => {
                    Err(Fault::unsupported(format!("behavior {} of pre_tokenizer Split", step.behavior)))
                }
                Pattern::String(_) => Err(Fault::unsupported("pre_tokenizer Split by a fixed string")),
                Pattern::Regex(regex) => Ok(Step::Split(regex)),
            }
        }
        other => Err(Fault::unsupported(format!("pre_tokenizer {other}"))),
    }
}

/// What the steps come to. A file without any is an unsplit tokenizer if its decoder shows that its
/// keys stand for bytes.
fn cut(file: &File) -> Result<Cut, Fault> {
    let steps = flat(file.pre_tokenizer.as_ref(), "pretokenizers", "pre_tokenizer")?;
    let steps: Vec<Step> = steps.into_iter().map(step).collect::<Result<_, _>>()?;
    let decoders = flat(file.decoder.as_ref(), "decoders", "decoder")?;
    if let Some(other) = decoders.iter().find(|decoder| kind(decoder) != "ByteLevel") {
        return Err(Fault::unsupported(format!("decoder {}", kind(other))));
    }
    match &*steps {
        [] if decoders.is_empty() => Err(Fault::unsupported("a tokenizer that is not byte-level")),
        [] | [Step::ByteLevel { splits: false }] => Ok(Cut::Known(SplitPattern::None)),
        [Step::ByteLevel { splits: true }] => Ok(Cut::Known(SplitPattern::Named(crate::split::Named::Gpt2))),
        [splits @ .., Step::ByteLevel { splits: false }] => {
            let regex = |step: &Step| match step {
                Step::Split(regex) => Some(regex.clone()),
                Step::ByteLevel { .. } => None,
            };
            let regexes: Option<Vec<String>> = splits.iter().map(regex).collect();
            regexes.map(Cut::Regexes).ok_or_else(|| Fault::unsupported("ByteLevel twice in pre_tokenizer"))
        }
        [Step::Split(_)] => Err(Fault::unsupported("pre_tokenizer Split without ByteLevel")),
        _ => Err(Fault::unsupported("more than one way to split in pre_tokenizer")),
    }
}

/// The post-processor that puts tokens around a text, if there is one. What stands around a document
/// is said where it is encoded, so this one is not followed.
fn surroundings(file: &File) -> Result<Option<&str>, Fault> {
    let mut found = None;
    for step in flat(file.post_processor.as_ref(), "processors", "post_processor")? {
        match kind(step) {
            "ByteLevel" => {}
            known @ ("TemplateProcessing" | "RobertaProcessing" | "BertProcessing") => found = Some(known),
            other => return Err(Fault::unsupported(format!("post_processor {other}"))),
        }
    }
    Ok(found)
}

/// The steps of a component: itself, or those of a `Sequence`, whose list is called `list`.
fn flat<'a>(value: Option<&'a Value>, list: &str, component: &str) -> Result<Vec<&'a Value>, Fault> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if kind(value) != "Sequence" {
        return Ok(vec![value]);
    }
    let Some(steps) = value.get(list).and_then(Value::as_array) else {
        return Err(Fault::unsupported(format!("{component} Sequence without {list}")));
    };
    match steps.iter().any(|step| kind(step) == "Sequence") {
        true => Err(Fault::unsupported(format!("{component} Sequence within a Sequence"))),
        false => Ok(steps.iter().collect()),
    }
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or("of unknown type")
}
