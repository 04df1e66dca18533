//! Splits text into pre-tokens. No merge crosses the border between two pre-tokens.
//!
//! Takes bytes and gives the offsets at which pre-tokens end. Knows nothing of documents, counts or tokens.
//!
//! A hand-written scanner splits by the named patterns (`gpt4`, `o200k`, …). It is many times faster than the regular
//! expression of the pattern and is tested against it. Every other pattern is split by its regular expression.
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
mod dialect;
mod special;
mod short;
mod classes;
mod scanner;
mod search;
#[doc(hidden)]
pub mod regex;
mod give_back;
mod behavior;
pub(crate) mod alphabet;
mod steps;
mod fault;

pub use behavior::SplitBehavior;
pub(crate) use classes::ranges as class_ranges;
pub use pattern::{Named, NotPattern, SplitPattern};
pub(crate) use regex::Matcher;
#[doc(hidden)]
pub use scanner::Instructions;
pub(crate) use short::{SHORT, ShortPretoken};
pub use special::{Segment, Segments, SpecialFinder};
pub use steps::SplitStep;

use std::ops::RangeInclusive;

use crate::error::Result;
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
    fn pretoken_ends(&self, text: &[u8], ends: &mut Vec<u32>) -> Result<()> {
        self.pretoken_ends_observed(text, ends, &Silent)
    }

    /// Does the same as [`pretoken_ends`](Splitter::pretoken_ends), but can be stopped. A custom pattern can take minutes
    /// for one text, so it asks `observer` before each search whether to stop.
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
pub fn splitter(pattern: &SplitPattern) -> Result<Box<dyn Splitter>> {
    Ok(match pattern {
        SplitPattern::None => Box::new(Whole),
        SplitPattern::Steps(steps) if steps.is_empty() => Box::new(Whole),
        SplitPattern::Named(name) => Box::new(scanner::Scanner::new(*name, Instructions::best())),
        SplitPattern::Custom(text) => by_regex(text, false)?,
        SplitPattern::Steps(steps) => Box::new(steps::Chain::new(steps)?),
    })
}

/// Creates the splitter of a regular expression. With `covers`, text outside of all matches is an error.
fn by_regex(text: &str, covers: bool) -> Result<Box<dyn Splitter>> {
    let plain = regex::RegexSplitter::new(text)?;
    Ok(match give_back::GiveBack::new(text) {
        Some(linear) => Box::new(linear.covering(covers)),
        None => Box::new(plain.covering(covers)),
    })
}

/// Returns the length of a text as 32 bits.
///
/// # Errors
/// The text has 4 GiB or more, so that its offsets do not fit.
fn length32(text: &[u8]) -> Result<u32> {
    Ok(u32::try_from(text.len()).map_err(|_| fault::Fault::TooLong { bytes: text.len() })?)
}

/// Creates the splitter of a named pattern with a given instruction set. The instruction set changes the speed,
/// never the pre-tokens.
///
/// # Panics
/// The splitter panics when it splits if this CPU does not have the instructions.
#[doc(hidden)]
pub fn splitter_by(pattern: Named, instructions: Instructions) -> Box<dyn Splitter> {
    Box::new(scanner::Scanner::new(pattern, instructions))
}

/// Does not split: a text is one pre-token.
struct Whole;

impl Splitter for Whole {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        _observer: &dyn Observer,
    ) -> Result<()> {
        let length = length32(text)?;
        ends.extend((length > 0).then_some(length));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
