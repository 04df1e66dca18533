//! Splits text into pre-tokens. No merge crosses the border between two pre-tokens.
//!
//! Takes bytes and gives the offsets at which pre-tokens end. Knows nothing of documents, counts or tokens.
//!
//! A hand-written scanner splits by the named patterns (`gpt4`, `o200k`, …). It is many times faster than the regular
//! expression of the pattern and is tested against it. Every other pattern is split by its regular expression.
//!
//! | pattern | splitter | time for a text |
//! | --- | --- | --- |
//! | named | scanner, 64 bytes at a time | linear |
//! | custom, with the tail `\s+(?!\S)\|\s+` | the expression without the look-ahead of its tail | mostly linear |
//! | custom | the expression | bounded backtracking |
//! | several steps | one splitter for each, in a row | the sum of the steps |
//!
//! ```
//! use tokenmill::split::{SplitPattern, splitter};
//!
//! let text = b"It's 2024's best";
//! let mut ends = Vec::new();
//! splitter(&"gpt4".parse()?)?.pretoken_ends(text, &mut ends)?;
//! assert_eq!(ends, [2, 4, 5, 8, 9, 11, 16]); // It 's ␣ 202 4 's ␣best
//!
//! let words = SplitPattern::from_regex("[a-z]+"); // the text between two matches is a pre-token, too
//! ends.clear();
//! splitter(&words)?.pretoken_ends(b"a, b", &mut ends)?;
//! assert_eq!(ends, [1, 3, 4]);
//! # Ok::<(), tokenmill::Error>(())
//! ```

mod pattern;
mod named;
mod dialect;
mod special_tokens;
mod short_pretoken;
mod classes;
mod scanner;
mod regex;
mod javascript;
pub(crate) mod byte_alphabet;

pub(crate) use classes::class_ranges;
pub(crate) use javascript::JavascriptTranslator;
pub use named::NamedPattern;
pub use pattern::{SplitBehavior, SplitPattern, SplitStep};
pub(crate) use regex::Matcher;
#[doc(hidden)]
pub use scanner::Instructions;
pub(crate) use short_pretoken::{SHORT, ShortPretoken};
pub use special_tokens::{Segment, Segments, SpecialFinder};

use std::ops::RangeInclusive;

use byte_alphabet::ByteAlphabetSplitter;
use regex::{Lossy, RegexSplitter, TailSplitter};
use scanner::Scanner;

use crate::base::int::to_usize;
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};

/// Splits text into pre-tokens by one pattern.
///
/// Every byte belongs to exactly one pre-token. Bytes that are not UTF-8 are split as the replacement characters
/// of [`String::from_utf8_lossy`] would be, and the ends are mapped back to the original bytes.
///
/// A splitter does not change, so threads can share it. Get one from [`splitter`].
pub trait Splitter: Send + Sync {
    /// Appends the end of each pre-token of `text` to `ends`: byte offsets into `text`, ascending, the last one
    /// `text.len()`. Pre-tokens are never empty; an empty text has none.
    ///
    /// The contents of `ends` stay, so one vector can be cleared and used for many texts. Offsets have 32 bits
    /// because callers keep many of them in the CPU's cache; longer texts can be split in parts that end at a
    /// [`safe_prefix`](Splitter::safe_prefix).
    ///
    /// # Errors
    /// The text has 4 GiB or more, a custom pattern exceeded its limit of backtracking steps, or the pattern does
    /// not match all of a text that it must cover. `ends` may then have some of the ends already.
    ///
    /// ```
    /// let splitter = tokenmill::split::splitter(&"gpt2".parse()?)?;
    /// let mut ends = Vec::new();
    /// for text in ["one two", "three"] {
    ///     splitter.pretoken_ends(text.as_bytes(), &mut ends)?;
    /// }
    /// assert_eq!(ends, [3, 7, 5]); // one ␣two, then three
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    fn pretoken_ends(&self, text: &[u8], ends: &mut Vec<u32>) -> Result<()> {
        self.pretoken_ends_observed(text, ends, &Silent)
    }

    /// Does the same as [`pretoken_ends`](Splitter::pretoken_ends), but can be stopped. A custom pattern can take
    /// minutes for one text, so it asks `observer` before each search whether to stop.
    ///
    /// # Errors
    /// As for [`pretoken_ends`](Splitter::pretoken_ends), or the observer stops the run.
    fn pretoken_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer)
    -> Result<()>;

    /// Returns the last safe split point of `text` within `range`, a range of byte offsets.
    ///
    /// At a safe split point the pattern ends a pre-token whatever text precedes or follows `text`. So both sides can
    /// be split on their own, and give the pre-tokens of the whole. Offset 0 and `text.len()` are never returned.
    ///
    /// `None` means that none is known. Custom patterns always return `None`, as this default does.
    ///
    /// ```
    /// let splitter = tokenmill::split::splitter(&"gpt2".parse()?)?;
    /// assert_eq!(splitter.safe_split_point(b"hello world", 1..=8), Some(5)); // before the space
    /// assert_eq!(splitter.safe_prefix(b"hello world", 8), 5);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        let _ = (text, range);
        None
    }

    /// Returns the length in bytes of a safe prefix of `text`: one that can be split on its own.
    ///
    /// The prefix ends at the last safe split point in the first `about` bytes. If those have none, the search goes
    /// to twice as many bytes, and so on. Without any safe split point the prefix is all of the text.
    ///
    /// ```
    /// let splitter = tokenmill::split::splitter(&"gpt4".parse()?)?;
    /// let (mut text, mut sections) = (&b"one two three"[..], Vec::new());
    /// while !text.is_empty() {
    ///     let (section, rest) = text.split_at(splitter.safe_prefix(text, 4));
    ///     sections.push(section);
    ///     text = rest;
    /// }
    /// assert_eq!(sections.concat(), b"one two three");
    /// assert_eq!(sections[0], b"one");
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    fn safe_prefix(&self, text: &[u8], about: usize) -> usize {
        let (mut searched, mut limit) = (0, about.max(1));
        while limit < text.len() {
            if let Some(point) = self.safe_split_point(text, searched + 1..=limit) {
                return point;
            }
            (searched, limit) = (limit, 2 * limit);
        }
        text.len()
    }
}

/// Creates the splitter of a pattern.
///
/// A named pattern takes time linear in the text, and uses the best instructions that the CPU has. A search of a
/// custom pattern takes linear time if the pattern has no look-around, or none but the usual tail `\s+(?!\S)|\s+`.
/// Others backtrack, within a limit.
///
/// # Errors
/// A custom pattern is not a valid regular expression, or it matches the empty text.
///
/// ```
/// use tokenmill::split::{SplitPattern, splitter};
///
/// let refused = splitter(&SplitPattern::from_regex("a*")).err().expect("it matches the empty text");
/// assert!(refused.to_string().contains("can match the empty text"));
/// ```
pub fn splitter(pattern: &SplitPattern) -> Result<Box<dyn Splitter>> {
    Ok(match pattern {
        SplitPattern::None => Box::new(Unsplit),
        SplitPattern::Steps(steps) if steps.is_empty() => Box::new(Unsplit),
        SplitPattern::Named(name) => Box::new(Scanner::new(*name, Instructions::best())),
        SplitPattern::Custom(regex) => regex_splitter(regex, false)?,
        SplitPattern::Steps(steps) => {
            Box::new(StepsSplitter(steps.iter().map(step_splitter).collect::<Result<_>>()?))
        }
    })
}

/// Creates the splitter of one step.
fn step_splitter(step: &SplitStep) -> Result<Box<dyn Splitter>> {
    let plain = match step.pattern.regex() {
        Some(regex) if step.behavior != SplitBehavior::Isolated => {
            Box::new(Lossy(RegexSplitter::new(regex, step.behavior, step.invert)?))
        }
        Some(regex) if matches!(step.pattern, SplitPattern::Custom(_)) => regex_splitter(regex, step.covers)?,
        _ => splitter(&step.pattern)?,
    };
    Ok(if step.spelled { Box::new(ByteAlphabetSplitter(plain)) } else { plain })
}

/// Creates the splitter of a regular expression. With `covers`, text outside of all matches is an error.
fn regex_splitter(regex: &str, covers: bool) -> Result<Box<dyn Splitter>> {
    // To remove the text between matches is an error, because no text is dropped.
    let behavior = if covers { SplitBehavior::Removed } else { SplitBehavior::Isolated };
    let backtracking = RegexSplitter::new(regex, behavior, covers)?;
    Ok(match TailSplitter::new(regex, covers) {
        Some(linear) => Box::new(Lossy(linear)),
        None => Box::new(Lossy(backtracking)),
    })
}

/// Returns the length of a text as 32 bits.
///
/// # Errors
/// The text has 4 GiB or more, so that its offsets do not fit.
fn length32(text: &[u8]) -> Result<u32> {
    u32::try_from(text.len()).map_err(|_| {
        let (bytes, max) = (text.len(), u32::MAX);
        let problem = format!(
            "a text of {bytes} bytes has no safe split point; the limit for such a text is {max} bytes"
        );
        Error::failed(problem).with_help("cut the document, or use a named pattern")
    })
}

/// Creates the splitter of a named pattern with a given instruction set. The instruction set changes the speed,
/// never the pre-tokens.
///
/// # Panics
/// The splitter panics when it splits if this CPU does not have the instructions.
#[doc(hidden)]
pub fn splitter_by(pattern: NamedPattern, instructions: Instructions) -> Box<dyn Splitter> {
    Box::new(Scanner::new(pattern, instructions))
}

/// Does not split: a text is one pre-token.
struct Unsplit;

impl Splitter for Unsplit {
    fn pretoken_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, _: &dyn Observer) -> Result<()> {
        let length = length32(text)?;
        ends.extend((length > 0).then_some(length));
        Ok(())
    }
}

/// Splits in several steps. Each step splits the pre-tokens of the previous one as separate texts.
struct StepsSplitter(Vec<Box<dyn Splitter>>);

impl Splitter for StepsSplitter {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (first, mut before) = (ends.len(), Vec::new());
        Unsplit.pretoken_ends_observed(text, ends, observer)?;
        for step in &self.0 {
            before.clear();
            before.extend(ends.drain(first..));
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

    /// Returns a safe split point of the first step. It is one of all steps together, because all further steps see the
    /// two sides as separate texts.
    fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        self.0.first()?.safe_split_point(text, range)
    }
}

#[cfg(test)]
mod tests;
