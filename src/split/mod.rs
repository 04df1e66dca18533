//! Cuts text into pieces across which no merge goes.
//!
//! Takes bytes, gives the places where pieces end. The obvious way is a regular expression; it is the
//! oracle for the scanner, which does the same for the patterns that have a name, many times faster.
//! Knows nothing of documents, counts or tokens.
//!
//! ```
//! use tokenmill::split::{SplitPattern, splitter};
//!
//! let text = b"It's 2024's best";
//! let mut ends = Vec::new();
//! splitter(&"gpt4".parse()?)?.piece_ends(text, &mut ends)?;
//! assert_eq!(ends, [2, 4, 5, 8, 9, 11, 16]); // It 's ␣ 202 4 's ␣best
//!
//! let words = SplitPattern::from_regex("[a-z]+"); // what is between matches is a piece, too
//! ends.clear();
//! splitter(&words)?.piece_ends(b"a, b", &mut ends)?;
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
pub(crate) use short::{SHORT, ShortPiece};
pub use special::{Segment, Segments, SpecialFinder};
pub use steps::SplitStep;

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::observer::{Observer, Silent};

/// Cuts text by one pattern.
///
/// Every byte belongs to exactly one piece. Bytes that are not UTF-8 are cut as
/// [`String::from_utf8_lossy`] of them would be, with the cuts mapped back to the bytes.
pub trait Splitter: Send + Sync {
    /// Appends to `ends` the end of each piece of `text`, ascending; the last is `text.len()`.
    /// Pieces are never empty; empty text has none.
    ///
    /// Places have 32 bits, since callers who split at certain cuts hold many of them in the cache.
    ///
    /// # Errors
    /// The text has 4 GiB or more, or a custom pattern ran past its limit of backtracking.
    fn piece_ends(&self, text: &[u8], ends: &mut Vec<u32>) -> Result<()> {
        self.piece_ends_observed(text, ends, &Silent)
    }

    /// The same, for patterns that can take minutes for a text: these ask the observer between two searches whether to
    /// stop.
    ///
    /// # Errors
    /// As for [`piece_ends`](Splitter::piece_ends), or the observer stops the run.
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer) -> Result<()>;

    /// The last of these places where the pattern certainly cuts, whatever stands before `text` and after
    /// it: then both sides can be split on their own. `None` if there is none to be seen. The beginning and
    /// the end of the text are no such places.
    fn certain_cut(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize>;

    /// The length of a first part of a text, of about so many bytes, that can be split on its own.
    fn first_part(&self, text: &[u8], about: usize) -> usize {
        let (mut searched, mut limit) = (0, about.max(1));
        while limit < text.len() {
            if let Some(cut) = self.certain_cut(text, searched + 1..=limit) {
                return cut;
            }
            (searched, limit) = (limit, 2 * limit);
        }
        text.len()
    }
}

/// Makes the splitter of a pattern.
///
/// # Errors
/// A custom pattern is not a regular expression, or can match nothing at all.
pub fn splitter(pattern: &SplitPattern) -> Result<Box<dyn Splitter>> {
    Ok(match pattern {
        SplitPattern::None => Box::new(Whole),
        SplitPattern::Steps(steps) if steps.is_empty() => Box::new(Whole),
        SplitPattern::Named(name) => Box::new(scanner::Scanner::new(*name, Instructions::best())),
        SplitPattern::Custom(text) => by_regex(text, false)?,
        SplitPattern::Steps(steps) => Box::new(steps::Chain::new(steps)?),
    })
}

/// The splitter of a regular expression; if it `covers`, text that it does not match is an error.
fn by_regex(text: &str, covers: bool) -> Result<Box<dyn Splitter>> {
    let plain = regex::RegexSplitter::new(text)?;
    Ok(match give_back::GiveBack::new(text) {
        Some(linear) => Box::new(linear.covering(covers)),
        None => Box::new(plain.covering(covers)),
    })
}

/// The length of a text that is split at once.
fn length32(text: &[u8]) -> Result<u32> {
    Ok(u32::try_from(text.len()).map_err(|_| fault::Fault::TooLong { bytes: text.len() })?)
}

/// Makes the splitter of a pattern that has a name, with these instructions; what it does does not depend
/// on them.
///
/// # Panics
/// When it splits, if this CPU does not have them.
#[doc(hidden)]
pub fn splitter_by(pattern: Named, instructions: Instructions) -> Box<dyn Splitter> {
    Box::new(scanner::Scanner::new(pattern, instructions))
}

/// Cuts nowhere.
struct Whole;

impl Splitter for Whole {
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, _observer: &dyn Observer) -> Result<()> {
        let length = length32(text)?;
        ends.extend((length > 0).then_some(length));
        Ok(())
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests;
