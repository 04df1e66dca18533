use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dialect::{same_in_both, translated};
use super::steps::SplitStep;
use crate::error::{Error, ErrorKind, Result};

/// How text is cut into pieces.
///
/// In recipes and metadata it is a name (`"gpt4"`) or `{ regex = "…" }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitPattern {
    /// Not at all: a document is one piece.
    #[default]
    None,
    /// By one of the patterns that have a name.
    Named(Named),
    /// By a regular expression: matches and the text between matches are the pieces. To be made by
    /// [`from_regex`](SplitPattern::from_regex), which knows those that have a name, and are many times as fast by it.
    Custom(String),
    /// By several cuts, each of which cuts the pieces of the one before. Only files of tokenizers say so.
    Steps(Vec<SplitStep>),
}

/// The patterns that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Named {
    /// GPT-2's.
    Gpt2,
    /// GPT-4's, as Hugging Face, rustbpe and minbpe write it, and as Llama 3 has it.
    Gpt4,
    /// tiktoken's present cl100k string, which differs from `Gpt4` on white space at the end of a text.
    Cl100k,
    /// GPT-4o's.
    O200k,
    /// nanochat's: GPT-4's with at most two digits together.
    Nanochat,
    /// Qwen 2's and 2.5's: GPT-4's with digits one by one.
    Qwen2,
    /// DeepSeek V3's: numbers, Chinese and Japanese, and the rest, cut one after the other.
    DeepSeekV3,
}

const UNSPLIT: &str = r"(?s).+";
const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// As the origin writes it, letter for letter: `tokenizers` 1.0 knows only this spelling.
const GPT2_PUBLISHED: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const GPT4: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const NANOCHAT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);
const CL100K_ONIGURUMA: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s",
);
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// The expressions of DeepSeek's `tokenizer.json`, each of which cuts the pieces of the one before.
const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"##,
        "\r\n",
        r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[",
        "\r\n",
        r"]*|\s*[",
        "\r\n",
        r"]+|\s+(?!\S)|\s+",
    ),
];
/// The same at once. What cuts within Chinese and Japanese stands apart, and white space ends before these
/// and before numbers as it ends with the text. The last alternative takes what the three leave over, such as
/// control characters, because tiktoken drops what is not matched.
const DEEPSEEK_V3_AT_ONCE: &str = concat!(
    r##"\p{N}{1,3}|[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{N}\p{P}\p{S}\u4E00-\u9FA5\u3040-\u30FF]?(?:(?![\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])+",
    r"|[\u3040\u3097\u3098\u3099\u309A]?(?:(?=[\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])+",
    r"| ?(?:(?![\u3040-\u30FF])[\p{P}\p{S}])+[\r\n]*|(?:(?=[\u3040-\u30FF])[\p{P}\p{S}])+",
    r"|[\u3040\u3097\u3098]+?(?=[\u3040\u3097\u3098](?=[\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])|[\u3040\u3097\u3098]+",
    r"|\s*[\r\n]+|\s+(?![^\s\p{N}\u4E00-\u9FA5\u3040-\u30FF])|\s+",
    r"|[^\s\p{L}\p{M}\p{N}\p{P}\p{S}\u4E00-\u9FA5\u3040-\u30FF]+(?!(?![\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])",
);

impl Named {
    /// All of them.
    pub const ALL: [Named; 7] = [
        Named::Gpt2,
        Named::Gpt4,
        Named::Cl100k,
        Named::O200k,
        Named::Nanochat,
        Named::Qwen2,
        Named::DeepSeekV3,
    ];

    /// The name, as recipes write it.
    pub const fn name(self) -> &'static str {
        match self {
            Named::Gpt2 => "gpt2",
            Named::Gpt4 => "gpt4",
            Named::Cl100k => "cl100k",
            Named::O200k => "o200k",
            Named::Nanochat => "nanochat",
            Named::Qwen2 => "qwen2",
            Named::DeepSeekV3 => "deepseek-v3",
        }
    }

    /// The regular expression, as its origin publishes it, except that DeepSeek's three are one; right for
    /// fancy-regex, tiktoken and Python's `regex`.
    pub const fn regex(self) -> &'static str {
        match self {
            Named::Gpt2 => GPT2,
            Named::Gpt4 => GPT4,
            Named::Cl100k => CL100K,
            Named::O200k => O200K,
            Named::Nanochat => NANOCHAT,
            Named::Qwen2 => QWEN2,
            Named::DeepSeekV3 => DEEPSEEK_V3_AT_ONCE,
        }
    }

    /// Expressions in Oniguruma's dialect that cut the same if each cuts the pieces of the one before, as
    /// the origin's `tokenizer.json` has them.
    pub const fn steps(&self) -> &[&'static str] {
        match self {
            Named::Gpt2 => &[GPT2_PUBLISHED],
            Named::Gpt4 => &[GPT4],
            Named::Cl100k => &[CL100K_ONIGURUMA],
            Named::O200k => &[O200K],
            Named::Nanochat => &[NANOCHAT],
            Named::Qwen2 => &[QWEN2],
            Named::DeepSeekV3 => &DEEPSEEK_V3,
        }
    }
}

impl SplitPattern {
    /// The pattern of a regular expression in the dialect of fancy-regex, tiktoken, and Python's
    /// `regex`. The published spellings of the patterns that have a name are recognised.
    pub fn from_regex(text: &str) -> SplitPattern {
        recognised(text, Dialect::Rust).unwrap_or_else(|| SplitPattern::Custom(text.to_owned()))
    }

    /// The pattern of a regular expression in Oniguruma's dialect, as a `tokenizer.json` holds it.
    ///
    /// # Errors
    /// The expression is unknown and uses what means something else in Oniguruma than here.
    pub fn from_oniguruma(text: &str) -> Result<SplitPattern> {
        if let Some(known) = recognised(text, Dialect::Oniguruma) {
            return Ok(known);
        }
        translated(text).map(SplitPattern::Custom)
    }

    /// The pattern that cuts a text off wherever it stands.
    pub fn of_literal(text: &str) -> SplitPattern {
        SplitPattern::Custom(fancy_regex::escape(text).into_owned())
    }

    /// The pattern of cuts each of which cuts the pieces of the one before; one that has a name if they are
    /// those of its origin.
    pub fn from_steps(mut steps: Vec<SplitStep>) -> SplitPattern {
        let same = |(step, known): (&SplitStep, &&str)| match &step.pattern {
            SplitPattern::Custom(regex) if step.is_plain() => escaped(regex) == escaped(known),
            _ => false,
        };
        // Those of one step leave nothing of a text out, each of several would.
        let covers = steps.len() > 1 && steps.iter().any(|step| step.covers);
        let is = |named: &Named| {
            !covers && named.steps().len() == steps.len() && steps.iter().zip(named.steps()).all(same)
        };
        if let Some(named) = Named::ALL.into_iter().find(is) {
            return SplitPattern::Named(named);
        }
        match &mut *steps {
            [] => SplitPattern::None,
            [step] if step.is_plain() && !step.covers => std::mem::take(&mut step.pattern),
            _ => SplitPattern::Steps(steps),
        }
    }

    /// The regular expression in the dialect of fancy-regex, tiktoken, and Python's `regex`; `None` if it
    /// takes several.
    pub fn regex(&self) -> Option<&str> {
        match self {
            SplitPattern::None => Some(UNSPLIT),
            SplitPattern::Named(named) => Some(named.regex()),
            SplitPattern::Custom(text) => Some(text),
            SplitPattern::Steps(_) => None,
        }
    }

    /// Regular expressions in Oniguruma's dialect that cut the same if each cuts the pieces of the one
    /// before; with each, whether it covers every text.
    ///
    /// # Errors
    /// A custom pattern uses what means something else in Oniguruma than here.
    pub fn oniguruma(&self) -> Result<Vec<(&str, bool)>> {
        Ok(match self {
            SplitPattern::None => vec![(r"(?m:.+)", false)],
            SplitPattern::Named(named) => named.steps().iter().map(|&step| (step, false)).collect(),
            SplitPattern::Custom(text) => vec![(same_in_both(text)?, false)],
            SplitPattern::Steps(steps) => {
                let mut all = Vec::with_capacity(steps.len());
                for step in steps {
                    let cuts = step.pattern.oniguruma()?;
                    all.extend(cuts.into_iter().map(|(cut, _)| (cut, step.covers)));
                }
                all
            }
        })
    }
}

/// With line breaks as escapes, which some write as they are.
fn escaped(regex: &str) -> String {
    regex.replace('\r', r"\r").replace('\n', r"\n")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Rust,
    Oniguruma,
}

/// Spellings of one alternative that cut the same wherever the others of its pattern stand around it.
type Spellings = &'static [&'static str];

const GPT2_SPELLINGS: [Spellings; 5] = [
    &[r"'(?:[sdmt]|ll|ve|re)", r"'s|'t|'re|'ve|'m|'ll|'d"],
    &[r" ?\p{L}+", r" ?\p{L}++"],
    &[r" ?\p{N}+", r" ?\p{N}++"],
    &[r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]++"],
    &[r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"\s++$|\s+(?!\S)|\s"],
];
const CONTRACTION: Spellings = &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"'(?i:[sdmt]|ll|ve|re)"];
const WORD: Spellings =
    &[r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}++"];
const PUNCTUATION: Spellings =
    &[r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*+"];
const THREE_DIGITS: Spellings = &[r"\p{N}{1,3}", r"\p{N}{1,3}+"];
const TWO_DIGITS: Spellings = &[r"\p{N}{1,2}", r"\p{N}{1,2}+"];
const ONE_DIGIT: Spellings = &[r"\p{N}"];
const GPT4_SPACE: Spellings = &[
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s*[\r\n]|\s+(?!\S)|\s+",
    r"\s*[\r\n]+|\s+(?!\S)|\s",
    r"\s*[\r\n]|\s+(?!\S)|\s",
];
const CL100K_SPACE: Spellings =
    &[r"\s++$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+\z|\s*[\r\n]|\s+(?!\S)|\s"];

fn recognised(text: &str, dialect: Dialect) -> Option<SplitPattern> {
    if text == DEEPSEEK_V3_AT_ONCE {
        return Some(SplitPattern::Named(Named::DeepSeekV3));
    }
    // Both mean something else in Oniguruma: groups of digits repeated, and the end of a line.
    if dialect == Dialect::Oniguruma && (text.contains(",2}+") || text.contains(",3}+") || text.contains('$'))
    {
        return None;
    }
    if matches!(text, "(?s).+" | "(?s:.+)" | "(?m:.+)") {
        // In each dialect one of these leaves newlines out.
        let whole = matches!(
            (dialect, text),
            (Dialect::Rust, "(?s).+" | "(?s:.+)") | (Dialect::Oniguruma, "(?m:.+)")
        );
        return whole.then_some(SplitPattern::None);
    }
    let named = if text == O200K {
        Named::O200k
    } else if spelled(text, &GPT2_SPELLINGS) {
        Named::Gpt2
    } else if spelled(text, &[CONTRACTION, WORD, THREE_DIGITS, PUNCTUATION, GPT4_SPACE]) {
        Named::Gpt4
    } else if spelled(text, &[CONTRACTION, WORD, THREE_DIGITS, PUNCTUATION, CL100K_SPACE]) {
        Named::Cl100k
    } else if spelled(text, &[CONTRACTION, WORD, TWO_DIGITS, PUNCTUATION, GPT4_SPACE]) {
        Named::Nanochat
    } else if spelled(text, &[CONTRACTION, WORD, ONE_DIGIT, PUNCTUATION, GPT4_SPACE]) {
        Named::Qwen2
    } else {
        return None;
    };
    Some(SplitPattern::Named(named))
}

/// Whether `text` is one spelling of each alternative, in order, with `|` between them.
fn spelled(text: &str, alternatives: &[Spellings]) -> bool {
    let Some((first, others)) = alternatives.split_first() else { return false };
    first.iter().filter_map(|spelling| text.strip_prefix(spelling)).any(|rest| match rest.strip_prefix('|') {
        Some(rest) => spelled(rest, others),
        None => rest.is_empty() && others.is_empty(),
    })
}

impl fmt::Display for SplitPattern {
    /// The name, or the regular expression of a custom pattern; of several, one after the other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitPattern::None => f.write_str("none"),
            SplitPattern::Named(named) => f.write_str(named.name()),
            SplitPattern::Custom(text) => f.write_str(text),
            SplitPattern::Steps(steps) => steps.iter().enumerate().try_for_each(|(number, step)| {
                write!(f, "{}{step}", if number == 0 { "" } else { " then " })
            }),
        }
    }
}

/// A text that names no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no split pattern {name:?}; there are none, gpt2, gpt4 (also llama3), cl100k, o200k, nanochat, qwen2 and deepseek-v3, and {{ regex = \"…\" }}"
)]
pub struct NotPattern {
    name: String,
}

impl From<NotPattern> for Error {
    fn from(wrong: NotPattern) -> Error {
        Error::new(ErrorKind::Usage, wrong)
    }
}

impl FromStr for SplitPattern {
    type Err = NotPattern;

    /// Reads a name. `llama3` is another name of `gpt4`, since the patterns are the same.
    fn from_str(name: &str) -> Result<SplitPattern, NotPattern> {
        let name = if name == "llama3" { Named::Gpt4.name() } else { name };
        let named = Named::ALL.into_iter().find(|named| named.name() == name).map(SplitPattern::Named);
        match named {
            None if name == "none" => Ok(SplitPattern::None),
            None => Err(NotPattern { name: name.to_owned() }),
            Some(named) => Ok(named),
        }
    }
}

impl Serialize for SplitPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SplitPattern::Custom(text) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("regex", text)?;
                map.end()
            }
            SplitPattern::Steps(steps) => steps.serialize(serializer),
            SplitPattern::None | SplitPattern::Named(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for SplitPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SplitPattern, D::Error> {
        deserializer.deserialize_any(PatternVisitor)
    }
}

struct PatternVisitor;

impl<'de> Visitor<'de> for PatternVisitor {
    type Value = SplitPattern;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a split pattern, { regex = \"…\" }, or a list of steps")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<SplitPattern, E> {
        name.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SplitPattern, A::Error> {
        let mut steps = Vec::new();
        while let Some(step) = list.next_element()? {
            steps.push(step);
        }
        if steps.is_empty() {
            return Err(de::Error::invalid_length(0, &"at least one step"));
        }
        Ok(SplitPattern::from_steps(steps))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SplitPattern, A::Error> {
        let Some((key, text)) = map.next_entry::<Cow<'de, str>, String>()? else {
            return Err(de::Error::missing_field("regex"));
        };
        if key != "regex" {
            return Err(de::Error::unknown_field(&key, &["regex"]));
        }
        match map.next_key::<Cow<'de, str>>()? {
            Some(other) => Err(de::Error::unknown_field(&other, &["regex"])),
            None => Ok(SplitPattern::from_regex(&text)),
        }
    }
}
