//! The components of a `tokenizer.json` around its model: normalizer, pre-tokenizer, decoder and post-processor. Each
//! is read into the form that this program uses, and written from it.
//!
//! A component is a JSON object with a `type`. The type `Sequence` holds a list of components; [`flatten`]
//! resolves it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::int::TokenId;
use crate::error::{ErrorKind, Result};
use crate::split::{Matcher, NamedPattern, SplitBehavior, SplitPattern, SplitStep};
use crate::vocab::format::{Format, cannot_hold, not_json, unsupported};
use crate::vocab::text_rules::{BosEosTemplate, Normalizer, ReplacePattern};
use crate::vocab::vocabulary::{ADDS_SPACE, Vocabulary};

/// How a file splits text.
pub(super) struct PreTokenizer {
    /// The steps in their order, one of them `ByteLevel`; empty if the file has no pre-tokenizer.
    pub(super) steps: Vec<PreTokenizerStep>,
    /// Whether a space is put before a text that does not begin with one.
    pub(super) prefix_space: bool,
}

/// One step of a pre-tokenizer. `Digits` and `Punctuation` are splits by fixed patterns here.
pub(super) enum PreTokenizerStep {
    /// Converts text to the byte alphabet, and splits it by GPT-2's pattern if `splits` is set.
    ByteLevel { splits: bool, prefix_space: bool },
    /// Splits by a pattern; see [`SplitStep`] for the fields.
    Split { pattern: PatternJson, covers: bool, behavior: SplitBehavior, invert: bool },
}

/// The pattern of a `Split`.
#[derive(Deserialize)]
pub(super) enum PatternJson {
    /// A regular expression in Oniguruma's dialect.
    Regex(String),
    /// A literal string.
    String(String),
}

/// The JSON form of a pre-tokenizer. Unknown fields are refused, since they might change ids.
#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum PreTokenizerJson {
    /// Converts bytes to the byte alphabet.
    ByteLevel {
        /// Whether a space is put before a text that does not begin with one.
        add_prefix_space: bool,
        /// Changes no ids.
        #[serde(rename = "trim_offsets")]
        _trim_offsets: Option<bool>,
        /// Whether it also splits by GPT-2's pattern. `None` means `true`.
        use_regex: Option<bool>,
    },
    /// Splits by the pattern in the file.
    Split {
        pattern: PatternJson,
        /// One of the names in [`BEHAVIORS`].
        behavior: String,
        /// Whether the matches and the text between them change places.
        invert: bool,
    },
    /// Splits by [`PUNCTUATION`].
    Punctuation {
        /// As for `Split`. `None` means `Isolated`.
        behavior: Option<String>,
    },
    /// Splits by [`NUMBER`].
    Digits {
        /// Whether each character of a number is a part of its own.
        individual_digits: bool,
    },
}

impl PreTokenizerJson {
    /// The values of `type` that are read.
    const KINDS: [&str; 4] = ["ByteLevel", "Split", "Punctuation", "Digits"];
}

/// The characters by which `Digits` splits: those of Rust's `char::is_numeric`, which includes some that are not
/// numbers in Unicode 16.
const NUMBER: &str = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]";

/// The characters by which `Punctuation` splits: those of Rust's `char::is_ascii_punctuation`, and punctuation in
/// Unicode 8, the version of the crate that tokenizers uses.
const PUNCTUATION: &str = concat!(
    r"[[\p{P}&&[^",
    r"\x{061D}\x{09FD}\x{0A76}\x{0C77}\x{0C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F}",
    r"\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10D6E}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}",
    r"\x{113D4}-\x{113D5}\x{113D7}-\x{113D8}\x{1144B}-\x{1144F}\x{1145A}-\x{1145B}\x{1145D}",
    r"\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}",
    r"\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11B00}-\x{11B09}\x{11BE1}\x{11C41}-\x{11C45}",
    r"\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2}",
    r"\x{16D6D}-\x{16D6F}\x{16E97}-\x{16E9A}\x{16FE2}\x{1E5FF}\x{1E95E}-\x{1E95F}",
    r"]]$+<=>^`|~\x{166D}\x{111C9}]",
);

/// The behaviors with their names in files.
const BEHAVIORS: [(&str, SplitBehavior); 5] = [
    ("Isolated", SplitBehavior::Isolated),
    ("Removed", SplitBehavior::Removed),
    ("MergedWithPrevious", SplitBehavior::MergedWithPrevious),
    ("MergedWithNext", SplitBehavior::MergedWithNext),
    ("Contiguous", SplitBehavior::Contiguous),
];

impl PreTokenizer {
    /// Returns the steps as one pattern.
    ///
    /// # Errors
    /// A regular expression uses syntax that has another meaning here than in Oniguruma.
    pub(super) fn pattern(&self) -> Result<SplitPattern> {
        let (mut steps, mut spelled) = (Vec::with_capacity(self.steps.len()), false);
        for step in &self.steps {
            steps.extend(match step {
                PreTokenizerStep::ByteLevel { splits, .. } => {
                    spelled = true;
                    splits.then(|| SplitStep::new(SplitPattern::Named(NamedPattern::Gpt2), false))
                }
                PreTokenizerStep::Split { pattern, covers, behavior, invert } => {
                    let pattern = match pattern {
                        PatternJson::String(text) => SplitPattern::of_literal(text),
                        PatternJson::Regex(regex) => SplitPattern::from_oniguruma(regex)?,
                    };
                    let covers = *covers && matches!(pattern, SplitPattern::Custom(_));
                    Some(SplitStep { pattern, covers, behavior: *behavior, invert: *invert, spelled })
                }
            });
        }
        Ok(SplitPattern::from_steps(steps))
    }
}

/// Reads how a file splits text. A file without steps does not split. It is accepted only if its decoder is
/// `ByteLevel`: its keys are then known to spell bytes.
///
/// # Errors
/// A step or decoder cannot be reproduced, or the tokenizer is not byte-level.
pub(super) fn read_pre_tokenizer(
    pre_tokenizer: Option<&Value>,
    decoder: Option<&Value>,
) -> Result<PreTokenizer> {
    let steps = flatten(pre_tokenizer, "pretokenizers", "pre_tokenizer")?;
    let steps: Vec<PreTokenizerStep> = steps.into_iter().map(read_step).collect::<Result<_>>()?;
    let decoders = flatten(decoder, "decoders", "decoder")?;
    // `Fuse` joins what the other decoders give, which changes no byte.
    if let Some(other) = decoders.iter().find(|decoder| !["ByteLevel", "Fuse"].contains(&kind(decoder))) {
        return Err(unsupported(format!("decoder {}", kind(other))));
    }
    if steps.is_empty() {
        let spells = decoders.iter().any(|decoder| kind(decoder) == "ByteLevel");
        return match spells {
            true => Ok(PreTokenizer { steps, prefix_space: false }),
            false => Err(unsupported("a tokenizer that is not byte-level")),
        };
    }
    let mut byte_levels = steps.iter().enumerate().filter_map(|(at, step)| match step {
        PreTokenizerStep::ByteLevel { prefix_space, .. } => Some((at, *prefix_space)),
        PreTokenizerStep::Split { .. } => None,
    });
    match (byte_levels.next(), byte_levels.next()) {
        (None, _) => Err(unsupported("pre_tokenizer Split without ByteLevel")),
        (_, Some(_)) => Err(unsupported("ByteLevel twice in pre_tokenizer")),
        (Some((at, true)), _) if at > 0 => Err(unsupported("add_prefix_space after a split")),
        (Some((_, prefix_space)), _) => Ok(PreTokenizer { steps, prefix_space }),
    }
}

/// Reads one step.
///
/// # Errors
/// The type or behavior of the step is unknown, or one of its fields is.
fn read_step(value: &Value) -> Result<PreTokenizerStep> {
    if !PreTokenizerJson::KINDS.contains(&kind(value)) {
        return Err(unsupported(format!("pre_tokenizer {}", kind(value))));
    }
    Ok(match PreTokenizerJson::deserialize(value).map_err(not_json)? {
        PreTokenizerJson::ByteLevel { add_prefix_space, use_regex, .. } => {
            PreTokenizerStep::ByteLevel { splits: use_regex.unwrap_or(true), prefix_space: add_prefix_space }
        }
        PreTokenizerJson::Digits { individual_digits } => {
            let regex = if individual_digits { NUMBER.to_owned() } else { format!("{NUMBER}+") };
            split_step(PatternJson::Regex(regex), SplitBehavior::Isolated, false)
        }
        PreTokenizerJson::Punctuation { behavior: named } => {
            let behavior = behavior(named.as_deref().unwrap_or("Isolated"), "Punctuation")?;
            split_step(PatternJson::Regex(PUNCTUATION.to_owned()), behavior, false)
        }
        PreTokenizerJson::Split { pattern, behavior: named, invert } => {
            split_step(pattern, behavior(&named, "Split")?, invert)
        }
    })
}

/// Creates a step that splits by a pattern. `invert` is resolved here as far as possible, so that equal splits become
/// equal steps.
fn split_step(pattern: PatternJson, behavior: SplitBehavior, invert: bool) -> PreTokenizerStep {
    let (covers, behavior) = match (behavior, invert) {
        // This keeps the matches and removes the other text. Most patterns match everything, so that they remove
        // nothing.
        (SplitBehavior::Removed, true) => (true, SplitBehavior::Isolated),
        (behavior, _) => (false, behavior),
    };
    // Inversion changes nothing for the other behaviors.
    let merges = matches!(behavior, SplitBehavior::MergedWithPrevious | SplitBehavior::MergedWithNext);
    PreTokenizerStep::Split { pattern, covers, behavior, invert: invert && merges }
}

/// Returns the behavior with this name. `step` is the type of the step, for the message.
///
/// # Errors
/// There is no such behavior.
fn behavior(name: &str, step: &str) -> Result<SplitBehavior> {
    match BEHAVIORS.iter().find(|(known, _)| *known == name) {
        Some((_, behavior)) => Ok(*behavior),
        None => Err(unsupported(format!("behavior {name} of pre_tokenizer {step}"))),
    }
}

/// A post-processor that adds tokens before and after a text.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessorJson {
    /// The template for one text, and the special tokens that it may name. The template for pairs of texts is not
    /// read.
    TemplateProcessing { single: Vec<TemplateElement>, special_tokens: HashMap<String, TemplateToken> },
    /// `sep` follows the text, and `cls` precedes it.
    #[serde(alias = "BertProcessing")]
    RobertaProcessing { sep: (String, TokenId), cls: (String, TokenId) },
}

/// An element of a template: a special token, or the text `A`.
#[derive(Deserialize)]
enum TemplateElement {
    /// The name of a token in `special_tokens`.
    SpecialToken { id: String },
    /// The name of a text: `A` for the only one.
    Sequence { id: String },
}

/// A special token of a template, which may consist of several tokens.
#[derive(Deserialize)]
struct TemplateToken {
    /// The ids that the template puts in place of its name.
    ids: Vec<TokenId>,
}

/// Returns the tokens that the post-processor adds to a text, and the post-processor's type; `None` if it adds none.
/// The tokens are reported and kept, but encoding does not add them, because BOS and EOS tokens are chosen where
/// documents are encoded.
///
/// # Errors
/// A post-processor is of an unknown type, or two add tokens to a text; or a template does not contain the text
/// exactly once, or uses a token that it does not define.
pub(super) fn read_post_processor(
    post_processor: Option<&Value>,
) -> Result<Option<(BosEosTemplate, String)>> {
    let mut found = None;
    for step in flatten(post_processor, "processors", "post_processor")? {
        match kind(step) {
            "ByteLevel" => {}
            "TemplateProcessing" | "RobertaProcessing" | "BertProcessing" => {
                if found.replace(step).is_some() {
                    return Err(unsupported("a second post_processor that adds tokens around texts"));
                }
            }
            other => return Err(unsupported(format!("post_processor {other}"))),
        }
    }
    let Some(found) = found else { return Ok(None) };
    let template = match PostProcessorJson::deserialize(found).map_err(not_json)? {
        PostProcessorJson::TemplateProcessing { single, special_tokens } => {
            template(&single, &special_tokens)?
        }
        PostProcessorJson::RobertaProcessing { sep, cls } => {
            BosEosTemplate { before: vec![cls.1], after: vec![sep.1] }
        }
    };
    Ok(Some((template, kind(found).to_owned())))
}

/// Splits a template into the tokens before and after its text.
///
/// # Errors
/// The template does not contain the text exactly once, or names a token that is not defined.
fn template(
    parts: &[TemplateElement],
    special_tokens: &HashMap<String, TemplateToken>,
) -> Result<BosEosTemplate> {
    let not_once = || unsupported("a post_processor that does not contain the text exactly once");
    let mut template = BosEosTemplate::default();
    let mut has_text = false;
    for part in parts {
        match part {
            TemplateElement::Sequence { id } if id == "A" && !has_text => has_text = true,
            TemplateElement::Sequence { .. } => return Err(not_once()),
            TemplateElement::SpecialToken { id } => {
                let token = special_tokens.get(id).ok_or_else(|| {
                    unsupported(format!("a post_processor that uses {id:?} without defining it"))
                })?;
                if has_text { &mut template.after } else { &mut template.before }.extend(&token.ids);
            }
        }
    }
    if has_text { Ok(template) } else { Err(not_once()) }
}

/// Describes the post-processor of a vocabulary for a message. The result is a noun phrase that ends with "a text",
/// or "nothing".
pub(super) fn describe_post_processor(vocabulary: &Vocabulary) -> String {
    let texts = |ids: &[TokenId]| -> Vec<String> {
        let text = |id: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*id).unwrap_or_default());
        ids.iter().map(|id| format!("{:?}", text(id))).collect()
    };
    let BosEosTemplate { before, after } = &vocabulary.bos_eos_template;
    let sides = [("before", texts(before)), ("after", texts(after))];
    let sides: Vec<String> = sides
        .iter()
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(side, texts)| format!("{} {side}", texts.join(" ")))
        .collect();
    if sides.is_empty() { "nothing".to_owned() } else { format!("{} a text", sides.join(" and ")) }
}

/// Returns the post-processor for the vocabulary's tokens around a text, or `None` if it has none.
pub(super) fn write_post_processor(vocabulary: &Vocabulary) -> Option<Value> {
    let BosEosTemplate { before, after } = &vocabulary.bos_eos_template;
    if vocabulary.bos_eos_template == BosEosTemplate::default() {
        return None;
    }
    let text = |id: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*id).unwrap_or_default()).into_owned();
    // Tokens that are not UTF-8 can have equal names, which their ids then tell apart.
    let alike = |id: &TokenId| before.iter().chain(after).any(|other| other != id && text(other) == text(id));
    let name = |id: &TokenId| if alike(id) { format!("{} {id}", text(id)) } else { text(id) };
    let special = |id| json!({ "SpecialToken": { "id": name(id), "type_id": 0 } });
    let sequence = |name: &str, type_id| json!({ "Sequence": { "id": name, "type_id": type_id } });
    let framed = |name: &str, type_id: u32| -> Vec<Value> {
        let (before, after) = (before.iter().map(special), after.iter().map(special));
        before.chain([sequence(name, type_id)]).chain(after).collect()
    };
    let tokens = before.iter().chain(after);
    let tokens: serde_json::Map<String, Value> =
        tokens.map(|id| (name(id), json!({ "id": name(id), "ids": [id], "tokens": [text(id)] }))).collect();
    let pair = [framed("A", 0), framed("B", 1)].concat();
    Some(
        json!({ "type": "TemplateProcessing", "single": framed("A", 0), "pair": pair, "special_tokens": tokens }),
    )
}

/// Reads the normalizers, in the order in which they are applied.
///
/// A second `NFC` directly after the first is dropped, since it changes nothing.
///
/// # Errors
/// A normalizer is of an unknown type, replaces an empty string, or has a regular expression that cannot be
/// reproduced.
pub(super) fn read_normalizers(normalizer: Option<&Value>) -> Result<Vec<Normalizer>> {
    let mut normalizers: Vec<Normalizer> = Vec::new();
    for step in flatten(normalizer, "normalizers", "normalizer")? {
        if !Normalizer::KINDS.contains(&kind(step)) {
            return Err(unsupported(format!("normalizer {}", kind(step))));
        }
        let normalizer = Normalizer::deserialize(step).map_err(not_json)?;
        match &normalizer {
            Normalizer::Replace { pattern: ReplacePattern::String(text), .. } if text.is_empty() => {
                return Err(unsupported("normalizer Replace of an empty string"));
            }
            Normalizer::Replace { pattern: ReplacePattern::Regex(regex), .. } => {
                Matcher::from_oniguruma(regex).map_err(|error| error.with_kind(ErrorKind::Failed))?;
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
///
/// # Errors
/// A `Sequence` has no such list.
fn flatten<'a>(value: Option<&'a Value>, list: &str, component: &str) -> Result<Vec<&'a Value>> {
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
            return Err(unsupported(format!("{component} Sequence without {list}")));
        };
        rest.extend(inner.iter().rev());
    }
    Ok(steps)
}

/// Returns the type of a component. A component without a type gets a phrase that completes the message of the error.
fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or("of unknown type")
}

/// Returns the normalizers as one component; `None` if there are none.
pub(super) fn write_normalizers(normalizers: &[Normalizer]) -> Option<Value> {
    match normalizers {
        [] => None,
        [normalizer] => Some(json!(normalizer)),
        _ => Some(json!({ "type": "Sequence", "normalizers": normalizers })),
    }
}

/// Returns the pre-tokenizer. A vocabulary without a split needs one, too: it converts bytes to the alphabet of the
/// keys, and without it spaces would be lost.
///
/// # Errors
/// The format cannot express the prefix space together with splits before the conversion to bytes, or a pattern has
/// no form in Oniguruma's dialect.
pub(super) fn write_pre_tokenizer(vocabulary: &Vocabulary) -> Result<Value> {
    let prefix_space = vocabulary.rules.prefix_space;
    let steps = match &vocabulary.split {
        SplitPattern::None => Vec::new(),
        SplitPattern::Steps(steps) => steps.clone(),
        pattern => vec![SplitStep::new(pattern.clone(), false)],
    };
    let (mut before, after): (Vec<SplitStep>, Vec<SplitStep>) =
        steps.into_iter().partition(|step| !step.spelled);
    let gpt2 = SplitStep::new(SplitPattern::Named(NamedPattern::Gpt2), false);
    let splits = before.pop_if(|step| *step == gpt2).is_some();
    if prefix_space && !before.is_empty() {
        return Err(cannot_hold(Format::Hf, ADDS_SPACE));
    }
    let mut written = Vec::new();
    write_steps(&before, &mut written)?;
    written.push(byte_level(prefix_space, splits));
    write_steps(&after, &mut written)?;
    match <[Value; 1]>::try_from(written) {
        Ok([byte_level]) => Ok(byte_level),
        Err(steps) => Ok(json!({ "type": "Sequence", "pretokenizers": steps })),
    }
}

/// Appends the splits of these steps, one per regular expression.
fn write_steps(steps: &[SplitStep], written: &mut Vec<Value>) -> Result<()> {
    for step in steps {
        for regex in step.pattern.oniguruma()? {
            written.push(write_step(regex, step));
        }
    }
    Ok(())
}

/// Returns one split. It has the type `Digits` or `Punctuation` if its pattern is theirs.
fn write_step(regex: &str, step: &SplitStep) -> Value {
    let named = BEHAVIORS.iter().find(|(_, behavior)| *behavior == step.behavior);
    let behavior = if step.covers { "Removed" } else { named.map_or("Isolated", |(name, _)| *name) };
    let is_isolated = behavior == "Isolated";
    match regex.strip_prefix(NUMBER) {
        Some(after @ ("" | "+")) if is_isolated => {
            json!({ "type": "Digits", "individual_digits": after.is_empty() })
        }
        _ if regex == PUNCTUATION && !step.covers && !step.invert => {
            json!({ "type": "Punctuation", "behavior": behavior })
        }
        _ => {
            let invert = step.covers || step.invert;
            json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": behavior, "invert": invert })
        }
    }
}

/// Published regular expressions that `tokenizers` 1.0 knows and that have no name here: Mistral's, Kimi's, and
/// GPT-4's with numbers in one pre-token.
const KNOWN_TO_1_0: [&str; 3] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

/// Returns whether `tokenizers` 1.0 knows all regular expressions of a pre-tokenizer. `written` is the JSON form of a
/// pre-tokenizer.
pub(super) fn is_known_to_1_0(written: &Value) -> bool {
    let steps = written["pretokenizers"].as_array().map_or(std::slice::from_ref(written), Vec::as_slice);
    let regex = |step: &Value| step["pattern"]["Regex"].as_str().map(str::to_owned);
    let regexes: Vec<String> = steps.iter().filter_map(regex).collect();
    let named = [NamedPattern::Gpt2, NamedPattern::Gpt4, NamedPattern::O200k, NamedPattern::Qwen2];
    let known = KNOWN_TO_1_0.iter().copied().chain(named.iter().flat_map(|named| named.steps()).copied());
    let is_known = |regex: &String| known.clone().any(|known| known == regex);
    regexes == NamedPattern::DeepSeekV3.steps() || regexes.iter().all(is_known)
}

/// Returns a `ByteLevel` step.
pub(super) fn byte_level(prefix_space: bool, splits: bool) -> Value {
    json!({
        "type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": false, "use_regex": splits,
    })
}
