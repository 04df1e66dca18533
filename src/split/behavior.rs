//! Splits that merge matches with the neighbouring text, and splits of the text's spelling in GPT-2's byte alphabet.

use serde::{Deserialize, Serialize};

use super::regex::{checked, gap, split_lossy};
use super::search::{BoundedRegex, Steps};
use super::{Splitter, alphabet};
use crate::base::int::truncate_to_u32;
use crate::error::Result;
use crate::observer::Observer;

/// How the matches of a split become pre-tokens. The names are those of Hugging Face's tokenizers.
///
/// The examples split `a--b` at the matches of `-`.
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
    fn cuts(self, left: bool, right: bool) -> bool {
        match self {
            SplitBehavior::Isolated | SplitBehavior::Removed => true,
            SplitBehavior::MergedWithPrevious => left || !right,
            SplitBehavior::MergedWithNext => !left || right,
            SplitBehavior::Contiguous => left != right,
        }
    }
}

/// Splits by a regular expression and a [`SplitBehavior`].
pub(super) struct Behaving {
    regex: BoundedRegex,
    behavior: SplitBehavior,
    /// Whether the text between matches counts as matched instead of the matches.
    invert: bool,
}

impl Behaving {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a valid regular expression, or it matches the empty text.
    pub(super) fn new(pattern: &str, behavior: SplitBehavior, invert: bool) -> Result<Behaving> {
        Ok(Behaving { regex: checked(pattern)?, behavior, invert })
    }

    /// Passes the end of each pre-token to `take`.
    fn pretokens(&self, text: &str, steps: &mut Steps<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        // The end of the previous section, whether it counts as matched, and the last split point.
        let (mut done, mut before, mut cut) = (0, None, 0);
        let mut part = |end: usize, matched: bool| {
            let matched = matched != self.invert;
            if matched && end > done && self.behavior == SplitBehavior::Removed {
                return Err(gap(self.regex.pattern(), &text[done..end]));
            }
            // An empty match splits, too.
            if before.is_some_and(|before| self.behavior.cuts(before, matched)) && done > cut {
                take(done);
                cut = done;
            }
            (done, before) = (end, Some(matched));
            Ok(())
        };
        let (mut matches, mut at) = (self.regex.matches(text), 0);
        while let Some(found) = matches.next(steps)? {
            if found.start() > at {
                part(found.start(), false)?;
            }
            part(found.end(), true)?;
            at = found.end();
        }
        if at < text.len() {
            part(text.len(), false)?;
        }
        if !text.is_empty() {
            take(text.len());
        }
        Ok(())
    }
}

impl Splitter for Behaving {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut steps = Steps::new(text.len(), observer);
        split_lossy(text, ends, |text, take| self.pretokens(text, &mut steps, take))
    }
}

/// Splits the spelling of a text in GPT-2's byte alphabet, and maps the ends back. So it can split between any two
/// bytes, even within a character.
pub(super) struct Spelled(pub(super) Box<dyn Splitter>);

impl Splitter for Spelled {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let spelled = alphabet::spell(text);
        let first = ends.len();
        self.0.pretoken_ends_observed(spelled.as_bytes(), ends, observer)?;
        // Each byte is one character of the spelling, so the number of a character is the offset of its byte.
        let mut characters = spelled.char_indices().map(|(start, _)| start).chain([spelled.len()]).zip(0..);
        for end in &mut ends[first..] {
            let byte = characters.find(|(start, _)| truncate_to_u32(*start) == *end);
            *end = byte.map_or(truncate_to_u32(text.len()), |(_, byte)| byte);
        }
        Ok(())
    }
}
