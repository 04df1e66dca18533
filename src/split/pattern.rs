//! Split patterns: their names, their regular expressions, and how recipes and metadata write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dialect::{same_in_both, translated};
use super::steps::SplitStep;
use crate::error::{Error, ErrorKind, Result};

/// How text is split into pre-tokens.
///
/// Recipes and metadata write it as a name (`"gpt4"`) or as `{ regex = "…" }`.
///
/// ```
/// use tokenmill::split::{Named, SplitPattern};
///
/// assert_eq!("gpt4".parse(), Ok(SplitPattern::Named(Named::Gpt4)));
/// // The published expression of a named pattern is recognised and gets the fast scanner.
/// assert_eq!(SplitPattern::from_regex(Named::Gpt4.regex()), SplitPattern::Named(Named::Gpt4));
/// assert_eq!(SplitPattern::from_regex("[a-z]+").to_string(), "[a-z]+");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitPattern {
    /// No split: a document is one pre-token.
    #[default]
    None,
    /// One of the named patterns.
    Named(Named),
    /// A regular expression: its matches and the text between them are the pre-tokens.
    ///
    /// Create it with [`from_regex`](SplitPattern::from_regex), which recognises the named patterns; these are split
    /// many times faster by name.
    Custom(String),
    /// Several splits in a row, each applied to the pre-tokens of the previous one. Only tokenizer files contain it.
    Steps(Vec<SplitStep>),
}

/// The named patterns. Each splits exactly like the regular expression that its origin publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Named {
    /// GPT-2's pattern.
    Gpt2,
    /// GPT-4's pattern as Hugging Face, rustbpe and minbpe write it. Llama 3 uses the same.
    Gpt4,
    /// The current cl100k pattern of tiktoken. It differs from `Gpt4` at the end of a text: it keeps all white space
    /// there as one pre-token.
    Cl100k,
    /// GPT-4o's pattern.
    O200k,
    /// nanochat's pattern: GPT-4's with groups of at most two digits.
    Nanochat,
    /// The pattern of Qwen 2 and 2.5: GPT-4's with single digits.
    Qwen2,
    /// DeepSeek V3's pattern, three splits in a row: numbers, then Chinese and Japanese, then the rest.
    DeepSeekV3,
}

/// An expression that matches every text as a whole.
const UNSPLIT: &str = r"(?s).+";
/// GPT-2's pattern in a shorter spelling.
const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-2's pattern character for character as its origin writes it: `tokenizers` 1.0 recognises only this spelling.
const GPT2_PUBLISHED: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-4's pattern, in the spelling of Hugging Face.
const GPT4: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// [`GPT4`] with `{1,2}` instead of `{1,3}`.
const NANOCHAT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// The present spelling of tiktoken, with possessive repetitions.
const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);
/// cl100k in Oniguruma's dialect, without possessive repetitions and without `$`, which mean something else there.
const CL100K_ONIGURUMA: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s",
);
/// GPT-4o's pattern.
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// [`GPT4`] without `{1,3}`.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// The expressions of DeepSeek's `tokenizer.json`. Each splits the pre-tokens of the previous one.
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
/// The three expressions of DeepSeek in one. Chinese and Japanese characters have alternatives of their own. White
/// space before them, and before numbers, is treated like white space at the end of a text. The last alternative
/// matches the text that the three expressions leave over, for example control characters, because tiktoken drops
/// unmatched text.
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
    /// All named patterns.
    pub const ALL: [Named; 7] = [
        Named::Gpt2,
        Named::Gpt4,
        Named::Cl100k,
        Named::O200k,
        Named::Nanochat,
        Named::Qwen2,
        Named::DeepSeekV3,
    ];

    /// Returns the name, as recipes write it.
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

    /// Returns the regular expression, as its origin publishes it; only DeepSeek's three are combined into one. It is
    /// in the dialect of fancy-regex, tiktoken and Python's `regex`.
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

    /// Returns the expressions of the origin's `tokenizer.json`, in Oniguruma's dialect. Applied in a row, each to
    /// the pre-tokens of the previous one, they split like [`regex`](Named::regex).
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
    /// Returns the pattern of a regular expression in the dialect of fancy-regex, tiktoken and Python's `regex`.
    /// Published spellings of the named patterns become [`Named`](SplitPattern::Named).
    ///
    /// Whether the expression is valid is not checked here but by [`splitter`](super::splitter).
    pub fn from_regex(text: &str) -> SplitPattern {
        recognised(text, Dialect::Rust).unwrap_or_else(|| SplitPattern::Custom(text.to_owned()))
    }

    /// Returns the pattern of a regular expression in Oniguruma's dialect, as a `tokenizer.json` contains it.
    ///
    /// A known expression becomes a named pattern. In others, `$` is translated, because it ends every line in
    /// Oniguruma.
    ///
    /// # Errors
    /// The expression is not a known one, and it uses a construct that means something else in Oniguruma than in
    /// fancy-regex, or it has more than 64 KiB.
    pub fn from_oniguruma(text: &str) -> Result<SplitPattern> {
        if let Some(known) = recognised(text, Dialect::Oniguruma) {
            return Ok(known);
        }
        translated(text).map(SplitPattern::Custom)
    }

    /// Returns the pattern that makes each occurrence of `text` a pre-token of its own.
    pub fn of_literal(text: &str) -> SplitPattern {
        SplitPattern::Custom(fancy_regex::escape(text).into_owned())
    }

    /// Returns the pattern of several splits in a row, each applied to the pre-tokens of the previous one. It is a
    /// named pattern if the steps are those of the pattern's origin.
    pub fn from_steps(mut steps: Vec<SplitStep>) -> SplitPattern {
        let same = |(step, known): (&SplitStep, &&str)| match &step.pattern {
            SplitPattern::Custom(regex) if step.is_plain() => escaped(regex) == escaped(known),
            _ => false,
        };
        // Named patterns of one step match every text, so `covers` changes nothing. A single step of several does not
        // match every text, so there `covers` matters.
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

    /// Returns the regular expression in the dialect of fancy-regex, tiktoken and Python's `regex`; `None` if the
    /// pattern has several steps.
    pub fn regex(&self) -> Option<&str> {
        match self {
            SplitPattern::None => Some(UNSPLIT),
            SplitPattern::Named(named) => Some(named.regex()),
            SplitPattern::Custom(text) => Some(text),
            SplitPattern::Steps(_) => None,
        }
    }

    /// Returns the equivalent regular expressions in Oniguruma's dialect, to be applied in a row, each to the
    /// pre-tokens of the previous one. The flag of each is [`SplitStep::covers`].
    ///
    /// # Errors
    /// A custom pattern uses a construct that means something else in Oniguruma than in fancy-regex.
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

/// Returns the expression with its line breaks as escapes. Some tokenizer files contain the line breaks themselves.
fn escaped(regex: &str) -> String {
    regex.replace('\r', r"\r").replace('\n', r"\n")
}

/// A dialect of regular expressions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// That of fancy-regex, tiktoken and Python's `regex`.
    Rust,
    /// That of Hugging Face's tokenizers.
    Oniguruma,
}

/// Spellings of one alternative that split alike, given the other alternatives of its pattern.
type Spellings = &'static [&'static str];

/// The alternatives of GPT-2's pattern.
const GPT2_SPELLINGS: [Spellings; 5] = [
    &[r"'(?:[sdmt]|ll|ve|re)", r"'s|'t|'re|'ve|'m|'ll|'d"],
    &[r" ?\p{L}+", r" ?\p{L}++"],
    &[r" ?\p{N}+", r" ?\p{N}++"],
    &[r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]++"],
    &[r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"\s++$|\s+(?!\S)|\s"],
];
/// Contractions, in any case. The apostrophe has no case, so it can be outside the group.
const CONTRACTION: Spellings = &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"'(?i:[sdmt]|ll|ve|re)"];
/// Words, with the character before them. The two parts share no characters, so possessive repetitions match alike.
const WORD: Spellings =
    &[r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}++"];
/// Punctuation, with the space before it and the newlines after it.
const PUNCTUATION: Spellings =
    &[r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*+"];
/// Groups of at most three digits.
const THREE_DIGITS: Spellings = &[r"\p{N}{1,3}", r"\p{N}{1,3}+"];
/// Groups of at most two digits.
const TWO_DIGITS: Spellings = &[r"\p{N}{1,2}", r"\p{N}{1,2}+"];
/// Single digits.
const ONE_DIGIT: Spellings = &[r"\p{N}"];
/// White space. `\s*` takes all newlines but the last, so `[\r\n]` and `[\r\n]+` match alike. The last alternative is
/// tried only for a single character, so `\s` and `\s+` match alike.
const GPT4_SPACE: Spellings = &[
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s*[\r\n]|\s+(?!\S)|\s+",
    r"\s*[\r\n]+|\s+(?!\S)|\s",
    r"\s*[\r\n]|\s+(?!\S)|\s",
];
/// White space of cl100k, where white space at the end of the text comes first.
const CL100K_SPACE: Spellings =
    &[r"\s++$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+\z|\s*[\r\n]|\s+(?!\S)|\s"];

/// Returns the named pattern, or none, that an expression spells.
fn recognised(text: &str, dialect: Dialect) -> Option<SplitPattern> {
    if text == DEEPSEEK_V3_AT_ONCE {
        return Some(SplitPattern::Named(Named::DeepSeekV3));
    }
    // Both mean something else in Oniguruma: there `{1,3}+` repeats the group of digits, and `$` ends every line.
    if dialect == Dialect::Oniguruma && (text.contains(",2}+") || text.contains(",3}+") || text.contains('$'))
    {
        return None;
    }
    if matches!(text, "(?s).+" | "(?s:.+)" | "(?m:.+)") {
        // The options `s` and `m` differ by dialect: each dialect has a spelling in which the dot excludes newlines.
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

/// Returns whether `text` consists of one spelling of each alternative, in order, joined by `|`.
fn spelled(text: &str, alternatives: &[Spellings]) -> bool {
    let Some((first, others)) = alternatives.split_first() else { return false };
    first.iter().filter_map(|spelling| text.strip_prefix(spelling)).any(|rest| match rest.strip_prefix('|') {
        Some(rest) => spelled(rest, others),
        None => rest.is_empty() && others.is_empty(),
    })
}

impl fmt::Display for SplitPattern {
    /// Writes the name, or the regular expression of a custom pattern. Several steps are joined by " then ".
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

/// The error for a name that no pattern has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown split pattern {name:?}; the known ones are none, gpt2, gpt4 (also llama3), cl100k, o200k, nanochat, qwen2 and deepseek-v3, or {{ regex = \"…\" }}"
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

    /// Parses the name of a pattern. `llama3` is an alias of `gpt4`, because the patterns are the same.
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

/// Reads a pattern from a name, a map with the key `regex`, or a list of steps.
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
