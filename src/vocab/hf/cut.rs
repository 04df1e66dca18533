use serde::Deserialize;
use serde_json::Value;

use super::{flat, kind};
use crate::error::Result;
use crate::split::{Named, SplitPattern, SplitStep};
use crate::vocab::fault::Fault;

/// How a file cuts text.
pub(super) struct Cut {
    steps: Vec<Step>,
    /// Whether a space is put before a text that does not begin with one.
    pub(super) prefix_space: bool,
}

enum Step {
    ByteLevel { splits: bool, prefix_space: bool },
    Split { pattern: Pattern, covers: bool },
}

#[derive(Deserialize)]
enum Pattern {
    Regex(String),
    String(String),
}

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
#[serde(deny_unknown_fields)]
struct Digits {
    #[serde(rename = "type")]
    _kind: String,
    individual_digits: bool,
}

/// What Rust's `char::is_numeric`, by which `Digits` cuts, has over Unicode 16's numbers.
pub(super) const NUMBER: &str = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]";

impl Cut {
    /// Whether the file does not say how text is cut, nor that it is brought into bytes.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps as one pattern.
    ///
    /// # Errors
    /// An expression uses what means something else here than in Oniguruma.
    pub(super) fn pattern(&self) -> Result<SplitPattern> {
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let (pattern, covers) = match step {
                Step::ByteLevel { splits: false, .. } => continue,
                Step::ByteLevel { splits: true, .. } => (SplitPattern::Named(Named::Gpt2), false),
                Step::Split { pattern: Pattern::String(text), .. } => (SplitPattern::of_literal(text), false),
                Step::Split { pattern: Pattern::Regex(regex), covers } => {
                    let pattern = SplitPattern::from_oniguruma(regex)?;
                    let covers = *covers && matches!(pattern, SplitPattern::Custom(_));
                    (pattern, covers)
                }
            };
            steps.push(SplitStep { pattern, covers });
        }
        Ok(SplitPattern::from_steps(steps))
    }
}

/// Reads how a file cuts text. One that does not is an unsplit tokenizer if its decoder shows that its keys
/// stand for bytes.
pub(super) fn read(pre_tokenizer: Option<&Value>, decoder: Option<&Value>) -> Result<Cut, Fault> {
    let steps = flat(pre_tokenizer, "pretokenizers", "pre_tokenizer")?;
    let steps: Vec<Step> = steps.into_iter().map(step).collect::<Result<_, _>>()?;
    let decoders = flat(decoder, "decoders", "decoder")?;
    if let Some(other) = decoders.iter().find(|decoder| kind(decoder) != "ByteLevel") {
        return Err(Fault::unsupported(format!("decoder {}", kind(other))));
    }
    let byte_level = |step: &Step| matches!(step, Step::ByteLevel { .. });
    match &*steps {
        [] if decoders.is_empty() => Err(Fault::unsupported("a tokenizer that is not byte-level")),
        [] => Ok(Cut { steps, prefix_space: false }),
        [before @ .., Step::ByteLevel { prefix_space, .. }] => {
            if before.iter().any(byte_level) {
                return Err(Fault::unsupported("ByteLevel twice in pre_tokenizer"));
            }
            let prefix_space = *prefix_space;
            if prefix_space && !before.is_empty() {
                return Err(Fault::unsupported("add_prefix_space after a split"));
            }
            Ok(Cut { steps, prefix_space })
        }
        _ if steps.iter().any(byte_level) => Err(Fault::unsupported("pre_tokenizer Split after ByteLevel")),
        _ => Err(Fault::unsupported("pre_tokenizer Split without ByteLevel")),
    }
}

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
            Ok(Step::Split { pattern: Pattern::Regex(regex), covers: false })
        }
        "Split" => {
            let Split { pattern, behavior, invert, .. } = Split::deserialize(value).map_err(Fault::Json)?;
            match (&*behavior, invert, &pattern) {
                ("Isolated", _, _) => Ok(Step::Split { pattern, covers: false }),
                // Keeps the matches and removes the rest, of which most patterns leave none.
                ("Removed", true, Pattern::Regex(_)) => Ok(Step::Split { pattern, covers: true }),
                (other, _, _) => Err(Fault::unsupported(format!("behavior {other} of pre_tokenizer Split"))),
            }
        }
        other => Err(Fault::unsupported(format!("pre_tokenizer {other}"))),
    }
}
