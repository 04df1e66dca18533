//! The `pre_tokenizer` and `decoder` of a `tokenizer.json`, read as a split pattern.

use serde::Deserialize;
use serde_json::Value;

use super::{flat, kind};
use crate::error::Result;
use crate::split::{Named, SplitBehavior, SplitPattern, SplitStep};
use crate::vocab::fault::Fault;

/// How a file splits text.
pub(super) struct Cut {
    /// The steps in their order, one of them `ByteLevel`; empty if the file has no pre-tokenizer.
    steps: Vec<Step>,
    /// Whether a space is put before a text that does not begin with one.
    pub(super) prefix_space: bool,
}

/// One step of a pre-tokenizer.
enum Step {
    /// Converts text to the byte alphabet, and splits it by GPT-2's pattern if `splits` is set.
    ByteLevel { splits: bool, prefix_space: bool },
    /// Splits by a pattern; see [`SplitStep`] for the fields.
    Split { pattern: Pattern, covers: bool, behavior: SplitBehavior, invert: bool },
}

/// The pattern of a `Split`.
#[derive(Deserialize)]
enum Pattern {
    /// A regular expression in Oniguruma's dialect.
    Regex(String),
    /// A literal string.
    String(String),
}

/// The fields of a `ByteLevel`. `trim_offsets` changes no ids.
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

/// The fields of a `Split`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    #[serde(rename = "type")]
    _kind: String,
    pattern: Pattern,
    behavior: String,
    invert: bool,
}

/// The fields of a `Punctuation`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Punctuation {
    #[serde(rename = "type")]
    _kind: String,
    behavior: Option<String>,
}

/// The fields of a `Digits`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Digits {
    #[serde(rename = "type")]
    _kind: String,
    individual_digits: bool,
}

/// The characters by which `Digits` splits: those of Rust's `char::is_numeric`, which includes some that are not
/// numbers in Unicode 16.
pub(super) const NUMBER: &str = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]";

/// The characters by which `Punctuation` splits: those of Rust's `char::is_ascii_punctuation`, and punctuation in
/// Unicode 8, the version of the crate that tokenizers uses.
pub(super) const PUNCTUATION: &str = concat!(
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
pub(super) const BEHAVIORS: [(&str, SplitBehavior); 5] = [
    ("Isolated", SplitBehavior::Isolated),
    ("Removed", SplitBehavior::Removed),
    ("MergedWithPrevious", SplitBehavior::MergedWithPrevious),
    ("MergedWithNext", SplitBehavior::MergedWithNext),
    ("Contiguous", SplitBehavior::Contiguous),
];

impl Cut {
    /// Returns whether the file has no pre-tokenizer, so that it neither splits text nor converts it to the byte
    /// alphabet.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the steps as one pattern.
    ///
    /// # Errors
    /// A regular expression uses syntax that has another meaning here than in Oniguruma.
    pub(super) fn pattern(&self) -> Result<SplitPattern> {
        let (mut steps, mut spelled) = (Vec::with_capacity(self.steps.len()), false);
        for step in &self.steps {
            steps.extend(match step {
                Step::ByteLevel { splits, .. } => {
                    spelled = true;
                    splits.then(|| SplitStep::new(SplitPattern::Named(Named::Gpt2), false))
                }
                Step::Split { pattern, covers, behavior, invert } => {
                    let pattern = match pattern {
                        Pattern::String(text) => SplitPattern::of_literal(text),
                        Pattern::Regex(regex) => SplitPattern::from_oniguruma(regex)?,
                    };
                    let covers = *covers && matches!(pattern, SplitPattern::Custom(_));
                    Some(SplitStep { pattern, covers, behavior: *behavior, invert: *invert, spelled })
                }
            });
        }
        Ok(SplitPattern::from_steps(steps))
    }
}

/// Reads how a file splits text. A file without steps does not split, if its decoder shows that its keys stand for
/// bytes.
///
/// # Errors
/// A step or decoder cannot be reproduced, or the tokenizer is not byte-level.
pub(super) fn read(pre_tokenizer: Option<&Value>, decoder: Option<&Value>) -> Result<Cut, Fault> {
    let steps = flat(pre_tokenizer, "pretokenizers", "pre_tokenizer")?;
    let steps: Vec<Step> = steps.into_iter().map(step).collect::<Result<_, _>>()?;
    let decoders = flat(decoder, "decoders", "decoder")?;
    // `Fuse` joins what the other decoders give, which changes no byte.
    if let Some(other) = decoders.iter().find(|decoder| !["ByteLevel", "Fuse"].contains(&kind(decoder))) {
        return Err(Fault::unsupported(format!("decoder {}", kind(other))));
    }
    if steps.is_empty() {
        let spells = decoders.iter().any(|decoder| kind(decoder) == "ByteLevel");
        return match spells {
            true => Ok(Cut { steps, prefix_space: false }),
            false => Err(Fault::unsupported("a tokenizer that is not byte-level")),
        };
    }
    let mut alphabets = steps.iter().enumerate().filter_map(|(at, step)| match step {
        Step::ByteLevel { prefix_space, .. } => Some((at, *prefix_space)),
        Step::Split { .. } => None,
    });
    match (alphabets.next(), alphabets.next()) {
        (None, _) => Err(Fault::unsupported("pre_tokenizer Split without ByteLevel")),
        (_, Some(_)) => Err(Fault::unsupported("ByteLevel twice in pre_tokenizer")),
        (Some((at, true)), _) if at > 0 => Err(Fault::unsupported("add_prefix_space after a split")),
        (Some((_, prefix_space)), _) => Ok(Cut { steps, prefix_space }),
    }
}

/// Reads one step.
fn step(value: &Value) -> Result<Step, Fault> {
    match kind(value) {
        "ByteLevel" => {
            let step = ByteLevel::deserialize(value).map_err(Fault::Json)?;
            Ok(Step::ByteLevel {
                splits: step.use_regex.unwrap_or(true),
                prefix_space: step.add_prefix_space,
            })
        }
        "Digits" => {
            let step = Digits::deserialize(value).map_err(Fault::Json)?;
            let regex = if step.individual_digits { NUMBER.to_owned() } else { format!("{NUMBER}+") };
            Ok(cut(Pattern::Regex(regex), SplitBehavior::Isolated, false))
        }
        "Punctuation" => {
            let step = Punctuation::deserialize(value).map_err(Fault::Json)?;
            let behavior = behavior(step.behavior.as_deref().unwrap_or("Isolated"), "Punctuation")?;
            Ok(cut(Pattern::Regex(PUNCTUATION.to_owned()), behavior, false))
        }
        "Split" => {
            let Split { pattern, behavior: named, invert, .. } =
                Split::deserialize(value).map_err(Fault::Json)?;
            Ok(cut(pattern, behavior(&named, "Split")?, invert))
        }
        other => Err(Fault::unsupported(format!("pre_tokenizer {other}"))),
    }
}

/// Creates a step that splits by a pattern.
fn cut(pattern: Pattern, behavior: SplitBehavior, invert: bool) -> Step {
    let (covers, behavior) = match (behavior, invert) {
        // This keeps the matches and removes the other text. Most patterns match everything, so that they remove
        // nothing.
        (SplitBehavior::Removed, true) => (true, SplitBehavior::Isolated),
        (behavior, _) => (false, behavior),
    };
    // Inversion changes nothing for the other behaviors.
    let merges = matches!(behavior, SplitBehavior::MergedWithPrevious | SplitBehavior::MergedWithNext);
    Step::Split { pattern, covers, behavior, invert: invert && merges }
}

fn behavior(name: &str, step: &str) -> Result<SplitBehavior, Fault> {
    match BEHAVIORS.iter().find(|(known, _)| *known == name) {
        Some((_, behavior)) => Ok(*behavior),
        None => Err(Fault::unsupported(format!("behavior {name} of pre_tokenizer {step}"))),
    }
}
