//! Patterns of several steps, as tokenizer files have them.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::behavior::{Behaving, Spelled, SplitBehavior};
use super::{SplitPattern, Splitter, by_regex, splitter};
use crate::base::int::to_usize;
use crate::error::Result;
use crate::observer::Observer;

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
    pub fn new(pattern: SplitPattern, covers: bool) -> SplitStep {
        SplitStep { pattern, covers, behavior: SplitBehavior::default(), invert: false, spelled: false }
    }

    /// Returns whether the step has the default behavior, is not inverted, and matches the text itself.
    pub(crate) fn is_plain(&self) -> bool {
        self.behavior == SplitBehavior::Isolated && !self.invert && !self.spelled
    }

    /// Creates the splitter of this step.
    fn splitter(&self) -> Result<Box<dyn Splitter>> {
        let plain: Box<dyn Splitter> = match (self.behavior, &self.pattern) {
            (SplitBehavior::Isolated, SplitPattern::Custom(text)) => by_regex(text, self.covers)?,
            (SplitBehavior::Isolated, pattern) => splitter(pattern)?,
            (behavior, pattern) => match pattern.regex() {
                Some(regex) => Box::new(Behaving::new(regex, behavior, self.invert)?),
                None => splitter(pattern)?,
            },
        };
        Ok(if self.spelled { Box::new(Spelled(plain)) } else { plain })
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

/// Splits in several steps. Each step splits the pre-tokens of the previous one as separate texts.
pub(super) struct Chain {
    steps: Vec<Box<dyn Splitter>>,
}

impl Chain {
    /// Creates the splitters of the steps.
    ///
    /// # Errors
    /// A custom pattern is not a valid regular expression, or it matches the empty text.
    pub(super) fn new(steps: &[SplitStep]) -> Result<Chain> {
        Ok(Chain { steps: steps.iter().map(SplitStep::splitter).collect::<Result<_>>()? })
    }
}

impl Splitter for Chain {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let first_end = ends.len();
        let mut before: Vec<u32> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            if number == 0 {
                step.pretoken_ends_observed(text, ends, observer)?;
                continue;
            }
            before.clear();
            before.extend(ends.drain(first_end..));
            let mut start = 0;
            for &end in &before {
                let inner = ends.len();
                step.pretoken_ends_observed(&text[to_usize(start)..to_usize(end)], ends, observer)?;
                ends[inner..].iter_mut().for_each(|end| *end += start);
                start = end;
            }
        }
        Ok(())
    }

    /// Returns a safe split point of the first step. It is one of the whole chain, because all further steps see the
    /// two sides as separate texts.
    fn safe_split_point(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize> {
        self.steps.first()?.safe_split_point(text, places)
    }
}
