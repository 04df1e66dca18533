//! Split patterns, their steps and behaviors, and how recipes and metadata write them.

use std::fmt;
use std::str::FromStr;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dialect::{same_in_both, translated};
use super::named::{Dialect, NamedPattern};
use crate::error::{Error, Result};

/// How text is split into pre-tokens.
///
/// Recipes and metadata write it as a name (`"gpt4"`) or as `{ regex = "…" }`.
///
/// ```
/// use tokenmill::split::{NamedPattern, SplitPattern};
///
/// assert_eq!("gpt4".parse::<SplitPattern>().unwrap(), SplitPattern::Named(NamedPattern::Gpt4));
/// // The published expression of a named pattern is recognised and gets the fast scanner.
/// assert_eq!(SplitPattern::from_regex(NamedPattern::Gpt4.regex()), SplitPattern::Named(NamedPattern::Gpt4));
/// assert_eq!(SplitPattern::from_regex("[a-z]+").to_string(), "[a-z]+");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitPattern {
    /// No split: a document is one pre-token.
    #[default]
    None,
    /// One of the named patterns.
    Named(NamedPattern),
    /// A regular expression: its matches and the text between them are the pre-tokens.
    ///
    /// Create it with [`from_regex`](SplitPattern::from_regex), which recognises the named patterns; these are split
    /// many times faster by name.
    Custom(String),
    /// Several splits in a row, each applied to the pre-tokens of the previous one. Only tokenizer files contain it.
    Steps(Vec<SplitStep>),
}

/// An expression that matches every text as a whole.
const UNSPLIT: &str = r"(?s).+";
/// [`UNSPLIT`] in Oniguruma's dialect.
const UNSPLIT_ONIGURUMA: &str = r"(?m:.+)";

impl SplitPattern {
    /// Returns the pattern of a regular expression in the dialect of fancy-regex, tiktoken and Python's `regex`.
    /// Published spellings of the named patterns become [`Named`](SplitPattern::Named).
    ///
    /// Whether the expression is valid is not checked here but by [`splitter`](super::splitter).
    ///
    /// ```
    /// use tokenmill::split::{NamedPattern, SplitPattern};
    ///
    /// // The spelling of minbpe.
    /// let regex = concat!(
    ///     r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*",
    ///     r"|\s*[\r\n]|\s+(?!\S)|\s+"
    /// );
    /// assert_eq!(SplitPattern::from_regex(regex), SplitPattern::Named(NamedPattern::Gpt4));
    /// ```
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
    ///
    /// ```
    /// use tokenmill::split::SplitPattern;
    ///
    /// assert_eq!(SplitPattern::from_oniguruma(r"\s+$")?.to_string(), r"\s+(?m:$)");
    /// assert!(SplitPattern::from_oniguruma(r"\w+").is_err()); // `\w` has other characters in Oniguruma
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    pub fn from_oniguruma(text: &str) -> Result<SplitPattern> {
        if let Some(known) = recognised(text, Dialect::Oniguruma) {
            return Ok(known);
        }
        translated(text).map(SplitPattern::Custom)
    }

    /// Returns the pattern that makes each occurrence of `text` a pre-token of its own.
    ///
    /// ```
    /// let pattern = tokenmill::split::SplitPattern::of_literal("a.b");
    /// assert_eq!(pattern.regex(), Some(r"a\.b"));
    /// ```
    pub fn of_literal(text: &str) -> SplitPattern {
        SplitPattern::Custom(fancy_regex::escape(text).into_owned())
    }

    /// Returns the pattern of several splits in a row, each applied to the pre-tokens of the previous one. It is a
    /// named pattern if the steps are those of the pattern's origin.
    ///
    /// ```
    /// use tokenmill::split::{NamedPattern, SplitPattern, SplitStep};
    ///
    /// let step = |&regex: &&str| SplitStep::new(SplitPattern::Custom(regex.to_owned()), false);
    /// let pattern = SplitPattern::from_steps(NamedPattern::DeepSeekV3.steps().iter().map(step).collect());
    /// assert_eq!(pattern, SplitPattern::Named(NamedPattern::DeepSeekV3));
    /// ```
    pub fn from_steps(mut steps: Vec<SplitStep>) -> SplitPattern {
        let same = |(step, known): (&SplitStep, &&str)| match &step.pattern {
            SplitPattern::Custom(regex) if step.is_plain() => escaped(regex) == escaped(known),
            _ => false,
        };
        // Named patterns of one step match every text, so `covers` changes nothing. A single step of several does not
        // match every text, so there `covers` matters.
        let covers = steps.len() > 1 && steps.iter().any(|step| step.covers);
        let is = |named: &NamedPattern| {
            !covers && named.steps().len() == steps.len() && steps.iter().zip(named.steps()).all(same)
        };
        if let Some(named) = NamedPattern::ALL.into_iter().find(is) {
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
    ///
    /// ```
    /// use tokenmill::split::SplitPattern;
    ///
    /// assert_eq!(SplitPattern::None.regex(), Some("(?s).+")); // all of a text at once
    /// assert_eq!(SplitPattern::from_regex("[a-z]+").regex(), Some("[a-z]+"));
    /// ```
    pub fn regex(&self) -> Option<&str> {
        match self {
            SplitPattern::None => Some(UNSPLIT),
            SplitPattern::Named(named) => Some(named.regex()),
            SplitPattern::Custom(text) => Some(text),
            SplitPattern::Steps(_) => None,
        }
    }

    /// Returns the equivalent regular expressions in Oniguruma's dialect, to be applied in a row, each to the
    /// pre-tokens of the previous one. This is what a `tokenizer.json` gets.
    ///
    /// # Errors
    /// A custom pattern uses a construct that means something else in Oniguruma than in fancy-regex.
    pub fn oniguruma(&self) -> Result<Vec<&str>> {
        Ok(match self {
            SplitPattern::None => vec![UNSPLIT_ONIGURUMA],
            SplitPattern::Named(named) => named.steps().to_vec(),
            SplitPattern::Custom(text) => vec![same_in_both(text)?],
            SplitPattern::Steps(steps) => {
                let mut all = Vec::with_capacity(steps.len());
                for step in steps {
                    all.extend(step.pattern.oniguruma()?);
                }
                all
            }
        })
    }
}

/// Recognises a known spelling of a named pattern, or of none.
fn recognised(text: &str, dialect: Dialect) -> Option<SplitPattern> {
    // The options `s` and `m` differ by dialect: each has a spelling in which the dot also matches line breaks.
    let unsplit: &[&str] = match dialect {
        Dialect::Rust => &[UNSPLIT, "(?s:.+)"],
        Dialect::Oniguruma => &[UNSPLIT_ONIGURUMA],
    };
    if unsplit.contains(&text) {
        return Some(SplitPattern::None);
    }
    NamedPattern::recognised(text, dialect).map(SplitPattern::Named)
}

/// Returns the expression with its line breaks as escapes. Some tokenizer files contain the line breaks themselves.
fn escaped(regex: &str) -> String {
    regex.replace('\r', r"\r").replace('\n', r"\n")
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

impl FromStr for SplitPattern {
    type Err = Error;

    /// Parses the name of a pattern. `llama3` is an alias of `gpt4`, and `gpt4-digit` of `qwen2`, because the patterns
    /// are the same.
    ///
    /// # Errors
    /// No pattern has the name. The message lists the known names.
    fn from_str(name: &str) -> Result<SplitPattern> {
        match name {
            "none" => Ok(SplitPattern::None),
            "llama3" => Ok(SplitPattern::Named(NamedPattern::Gpt4)),
            "gpt4-digit" => Ok(SplitPattern::Named(NamedPattern::Qwen2)),
            _ => {
                let named = NamedPattern::ALL.into_iter().find(|named| named.name() == name);
                named.map(SplitPattern::Named).ok_or_else(|| {
                    Error::usage(format!(
                        "unknown split pattern {name:?}; the known ones are none, gpt2, gpt4 (also llama3), cl100k, o200k, nanochat, qwen2 (also gpt4-digit), deepseek-v3, gpt4-digits-rtl, o200k-digits-rtl, o200k-digit and superword, or {{ regex = \"…\" }}"
                    ))
                })
            }
        }
    }
}

impl Serialize for SplitPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SplitPattern::Custom(text) => serializer.collect_map([("regex", text)]),
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

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<SplitPattern, A::Error> {
        let steps: Vec<SplitStep> = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        if steps.is_empty() {
            return Err(de::Error::invalid_length(0, &"at least one step"));
        }
        Ok(SplitPattern::from_steps(steps))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SplitPattern, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Expression {
            regex: String,
        }
        let Expression { regex } = Expression::deserialize(MapAccessDeserializer::new(map))?;
        Ok(SplitPattern::from_regex(&regex))
    }
}

/// One split of a pattern that consists of several; see [`SplitPattern::Steps`].
///
/// ```
/// use tokenmill::split::{SplitPattern, SplitStep, splitter};
///
/// let step = |regex| SplitStep::new(SplitPattern::from_regex(regex), false);
/// let pattern = SplitPattern::from_steps(vec![step(r"\d+"), step("[a-z]")]);
/// let mut ends = Vec::new();
/// splitter(&pattern)?.pretoken_ends(b"12ab", &mut ends)?;
/// assert_eq!(ends, [2, 3, 4]); // 12 a b
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitStep {
    /// The pattern to split by.
    pub pattern: SplitPattern,
    /// Whether the matches must cover all of a text. Text outside of them is then an error, because the tokenizer's
    /// own program would drop it. The matches of named patterns always cover all of a text.
    pub covers: bool,
    /// How the matches become pre-tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behavior: SplitBehavior,
    /// Whether [`behavior`](SplitStep::behavior) applies to the text between matches instead of the matches.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
    /// Whether the pattern is matched against the text's spelling in GPT-2's byte alphabet, so that it can split
    /// between any two bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spelled: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl SplitStep {
    /// Creates a step in which each match, and the text between two, is a pre-token.
    ///
    /// With `covers`, text between two matches is an error.
    ///
    /// ```
    /// use tokenmill::split::{SplitPattern, SplitStep, splitter};
    ///
    /// let words = SplitStep::new(SplitPattern::from_regex("[a-z]+| "), true);
    /// let splitter = splitter(&SplitPattern::from_steps(vec![words]))?;
    /// splitter.pretoken_ends(b"ab c", &mut Vec::new())?;
    /// assert!(splitter.pretoken_ends(b"ab, c", &mut Vec::new()).is_err());
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    pub fn new(pattern: SplitPattern, covers: bool) -> SplitStep {
        SplitStep { pattern, covers, behavior: SplitBehavior::default(), invert: false, spelled: false }
    }

    /// Returns whether the step has the default behavior, is not inverted, and matches the text itself.
    pub(crate) fn is_plain(&self) -> bool {
        self.behavior == SplitBehavior::Isolated && !self.invert && !self.spelled
    }
}

impl fmt::Display for SplitStep {
    /// Writes the pattern, and in parentheses what differs from the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pattern)?;
        let behavior = match self.behavior {
            SplitBehavior::Isolated => "",
            SplitBehavior::Removed => "matches removed",
            SplitBehavior::MergedWithPrevious => "matches merged with what is before",
            SplitBehavior::MergedWithNext => "matches merged with what is after",
            SplitBehavior::Contiguous => "matches joined",
        };
        let facts = [
            behavior,
            if self.invert { "inverted" } else { "" },
            if self.spelled { "in the byte alphabet" } else { "" },
        ];
        let facts: Vec<&str> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        if facts.is_empty() { Ok(()) } else { write!(f, " ({})", facts.join(", ")) }
    }
}

/// How the matches of a split become pre-tokens. The names are those of Hugging Face's tokenizers.
///
/// The examples split `a--b` at the matches of `-`.
///
/// ```
/// use tokenmill::split::{SplitBehavior, SplitPattern, SplitStep, splitter};
///
/// let mut step = SplitStep::new(SplitPattern::of_literal("-"), false);
/// step.behavior = SplitBehavior::MergedWithPrevious;
/// let mut ends = Vec::new();
/// splitter(&SplitPattern::from_steps(vec![step]))?.pretoken_ends(b"a--b", &mut ends)?;
/// assert_eq!(ends, [2, 3, 4]); // a- - b
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SplitBehavior {
    /// Each match is a pre-token, and so is the text between two matches: `a`, `-`, `-`, `b`.
    #[default]
    Isolated,
    /// Hugging Face's tokenizers drop the matches. Here no text is dropped, so a match is an error.
    Removed,
    /// Each match is joined to the text before it, unless that is a match too: `a-`, `-`, `b`.
    MergedWithPrevious,
    /// Each match is joined to the text after it, unless that is a match too: `a`, `-`, `-b`.
    MergedWithNext,
    /// Directly adjacent matches are one pre-token: `a`, `--`, `b`.
    Contiguous,
}

impl SplitBehavior {
    /// Returns whether to split between two adjacent sections. `left` and `right` say whether each is a match.
    pub(super) fn splits_between(self, left: bool, right: bool) -> bool {
        match self {
            SplitBehavior::Isolated | SplitBehavior::Removed => true,
            SplitBehavior::MergedWithPrevious => left || !right,
            SplitBehavior::MergedWithNext => !left || right,
            SplitBehavior::Contiguous => left != right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::splitter;
    use crate::split::tests::{pretokens, step};

    #[test]
    fn names_read_and_print() {
        for name in ["none"].into_iter().chain(NamedPattern::ALL.map(NamedPattern::name)) {
            let pattern: SplitPattern = name.parse().expect("a name");
            assert_eq!(pattern.to_string(), name);
            let regex = pattern.regex().expect("one expression");
            assert_eq!(SplitPattern::from_regex(regex), pattern, "{name}");
            let written = pattern.oniguruma().expect("named patterns can be written");
            let steps = written.iter().map(|regex| step(regex, false)).collect();
            assert_eq!(SplitPattern::from_steps(steps), pattern, "{name}");
        }
        assert_eq!("llama3".parse().ok(), Some(SplitPattern::Named(NamedPattern::Gpt4)));
        assert_eq!("gpt4-digit".parse().ok(), Some(SplitPattern::Named(NamedPattern::Qwen2)));
        assert!("gpt5".parse::<SplitPattern>().is_err());
    }

    #[test]
    fn steps_are_recognised_or_split_one_after_the_other() {
        for named in NamedPattern::ALL {
            let mut steps: Vec<SplitStep> = named.steps().iter().map(|regex| step(regex, false)).collect();
            assert_eq!(SplitPattern::from_steps(steps.clone()), SplitPattern::Named(named));
            let escaped = named.steps().iter().map(|step| step.replace('\r', r"\r").replace('\n', r"\n"));
            let escaped = escaped.map(|regex| step(&regex, false)).collect();
            assert_eq!(SplitPattern::from_steps(escaped), SplitPattern::Named(named));
            steps[0].covers = true;
            let first_drops = SplitPattern::from_steps(steps.clone());
            assert!(
                steps.len() == 1 || first_drops != SplitPattern::Named(named),
                "the first step leaves something out"
            );
            steps[0].covers = false;
            steps.push(step(r"\p{L}", false));
            assert_eq!(SplitPattern::from_steps(steps.clone()), SplitPattern::Steps(steps));
        }
        assert_eq!(SplitPattern::from_steps(Vec::new()), SplitPattern::None);
        let starcoder =
            SplitPattern::from_steps(vec![step(r"\p{N}", false), step(NamedPattern::Gpt2.regex(), false)]);
        assert_eq!(starcoder.to_string(), r"\p{N} then gpt2");
        assert_eq!(starcoder.regex(), None);
        let splitter = splitter(&starcoder).expect("regular expressions");
        let expected: [&[u8]; 7] = [b"a", b" ", b"1", b"2", b" b", b"3", b"\xFF!!"];
        assert_eq!(pretokens(splitter.as_ref(), b"a 12 b3\xFF!!"), expected);
    }

    #[test]
    fn recipes_hold_a_name_or_a_regex() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Recipe {
            split: SplitPattern,
        }
        for (written, pattern) in [
            ("split = \"none\"", SplitPattern::None),
            ("split = \"o200k\"", SplitPattern::Named(NamedPattern::O200k)),
            ("split = { regex = '\\w+' }", SplitPattern::Custom(r"\w+".to_owned())),
            ("split = { regex = '(?s).+' }", SplitPattern::None),
        ] {
            let recipe: Recipe = toml::from_str(written).expect(written);
            assert_eq!(recipe.split, pattern);
            let json = serde_json::to_string(&recipe).expect("patterns serialise");
            let again: Recipe = serde_json::from_str(&json).expect("and read back");
            assert_eq!(again.split, pattern);
        }
        for wrong in [
            "split = \"gpt\"",
            "split = 3",
            "split = {}",
            "split = { regex = 'a', x = 1 }",
            "split = { re = 'a' }",
        ] {
            assert!(toml::from_str::<Recipe>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn steps_are_written_and_read_back() {
        let steps =
            vec![step(r"\p{N}", true), step(NamedPattern::Gpt2.regex(), false), step(r"\p{L}", false)];
        let pattern = SplitPattern::from_steps(steps);
        let json = serde_json::to_string(&pattern).expect("patterns serialise");
        assert_eq!(serde_json::from_str::<SplitPattern>(&json).expect("and read back"), pattern, "{json}");
        for wrong in ["[]", "[1]", r#"[{"pattern":"gpt2"}]"#, r#"[{"pattern":"gpt2","covers":false,"x":1}]"#]
        {
            assert!(serde_json::from_str::<SplitPattern>(wrong).is_err(), "{wrong}");
        }
    }
}
