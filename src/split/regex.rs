//! The obvious splitter: a regular expression over the text. It serves custom patterns that need it, and
//! it is the oracle that the others are compared with.

use std::ops::{Range, RangeInclusive};
use std::str::{Utf8Chunks, from_utf8};

use super::dialect::translated;
use super::fault::Fault;
use super::search::{BoundedRegex, Steps};
use super::{Splitter, length32};
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};
use crate::units::low32;

/// Splits by any regular expression that fancy-regex understands.
///
/// A search takes linear time for expressions without look-around. Others backtrack: a search that takes more than 50
/// million steps back, or remembers more than a million places, is an error, and so is a text whose searches take more
/// than 200 million and 2 000 for each byte together. Where most searches look far ahead in vain, as those for `a+b|.`
/// in a run of `a`, all of them together take quadratic time; the observer can stop them.
#[derive(Debug)]
pub struct RegexSplitter {
    regexes: Vec<BoundedRegex>,
    covers: bool,
}

impl RegexSplitter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a regular expression, or it matches empty text.
    pub fn new(pattern: &str) -> Result<RegexSplitter> {
        RegexSplitter::sequence(&[pattern])
    }

    /// Compiles expressions each of which cuts the pieces of the one before.
    ///
    /// # Errors
    /// As for one.
    pub fn sequence(patterns: &[&str]) -> Result<RegexSplitter> {
        let regexes = patterns.iter().map(|pattern| checked(pattern)).collect::<Result<_>>()?;
        Ok(RegexSplitter { regexes, covers: false })
    }

    /// The same, to which text that no match takes can be an error.
    pub(super) fn covering(self, covers: bool) -> RegexSplitter {
        RegexSplitter { covers, ..self }
    }
}

/// Finds what a regular expression of a `tokenizer.json` matches.
#[derive(Debug)]
pub(crate) struct Matcher(BoundedRegex);

impl Matcher {
    /// # Errors
    /// It is not a regular expression, matches empty text, or means something else in Oniguruma than here.
    pub(crate) fn from_oniguruma(pattern: &str) -> Result<Matcher> {
        checked(&translated(pattern)?).map(Matcher)
    }

    /// Whether a text certainly has no match.
    pub(crate) fn matches_nothing_of(&self, text: &str) -> bool {
        let first = self.0.matches(text).next(&mut Steps::new(0, &Silent));
        matches!(first, Ok(None))
    }

    /// Tells `take` each part that is matched, in order, until it returns `false`.
    ///
    /// # Errors
    /// The searches take too many steps.
    pub(crate) fn each(&self, text: &str, mut take: impl FnMut(Range<usize>) -> bool) -> Result<()> {
        let (mut matches, mut steps) = (self.0.matches(text), Steps::new(0, &Silent));
        while let Some(found) = matches.next(&mut steps)? {
            if !take(found.start()..found.end()) {
                break;
            }
        }
        Ok(())
    }
}

pub(super) fn checked(pattern: &str) -> Result<BoundedRegex> {
    let regex =
        BoundedRegex::new(pattern).map_err(|cause| Fault::Syntax { pattern: pattern.to_owned(), cause })?;
    if regex.search(&mut Steps::new(0, &Silent), 0, |regex| regex.is_match(""))? {
        return Err(Fault::MatchesNothing { pattern: pattern.to_owned() }.into());
    }
    Ok(regex)
}

/// Tells `take` the end of each piece: of each match, and of the text before it that no match takes;
/// of each of these, the pieces of the other expressions. `base` is where the text begins.
fn cut(
    regexes: &[BoundedRegex],
    covers: bool,
    text: &str,
    base: usize,
    steps: &mut Steps<'_>,
    take: &mut dyn FnMut(usize),
) -> Result<()> {
    let Some((regex, others)) = regexes.split_first() else {
        take(base + text.len());
        return Ok(());
    };
    let mut done = 0;
    let mut piece = |end: usize, matched: bool, steps: &mut Steps<'_>| {
        let start = std::mem::replace(&mut done, end);
        if start == end {
            return Ok(());
        }
        if covers && !matched {
            return Err(gap(regex.pattern(), &text[start..end]));
        }
        cut(others, covers, &text[start..end], base + start, steps, take)
    };
    let mut matches = regex.matches(text);
    loop {
        steps.base = base;
        let Some(found) = matches.next(steps)? else { break };
        // An expression that matches at a place, and nothing of the text, cuts it there, as it does in Hugging Face's
        // tokenizers.
        piece(found.start(), false, steps)?;
        piece(found.end(), true, steps)?;
    }
    piece(text.len(), false, steps)
}

impl Splitter for RegexSplitter {
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer) -> Result<()> {
        let mut steps = Steps::new(text.len(), observer);
        split_lossy(text, ends, |text, take| cut(&self.regexes, self.covers, text, 0, &mut steps, take))
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}

/// The error of an expression that should match every text, and did not match this.
pub(super) fn gap(pattern: &str, text: &str) -> Error {
    const SHOWN: usize = 40;
    Fault::Gap { pattern: pattern.to_owned(), text: text.chars().take(SHOWN).collect() }.into()
}

/// Lets `pieces` cut the text as it reads with replacement characters, and maps the ends back.
pub(super) fn split_lossy(
    text: &[u8],
    ends: &mut Vec<u32>,
    pieces: impl FnOnce(&str, &mut dyn FnMut(usize)) -> Result<()>,
) -> Result<()> {
    length32(text)?;
    if let Ok(text) = from_utf8(text) {
        return pieces(text, &mut |end| ends.push(low32(end)));
    }
    let (lossy, shifts) = lossy(text.utf8_chunks());
    let mut shift = 0;
    let mut next = shifts.iter().peekable();
    pieces(&lossy, &mut |end| {
        while let Some(&(_, at_shift)) = next.next_if(|(after, _)| *after <= end) {
            shift = at_shift;
        }
        ends.push(low32(end.wrapping_add(shift)));
    })
}

/// The text with one replacement character for each chunk that is not UTF-8, and for each of these
/// where it ends and what to add (wrapping) to a place from there on to have it in the original.
fn lossy(chunks: Utf8Chunks<'_>) -> (String, Vec<(usize, usize)>) {
    let (mut lossy, mut shifts, mut place) = (String::new(), Vec::new(), 0_usize);
    for chunk in chunks {
        lossy.push_str(chunk.valid());
        place += chunk.valid().len() + chunk.invalid().len();
        if !chunk.invalid().is_empty() {
            lossy.push(char::REPLACEMENT_CHARACTER);
            shifts.push((lossy.len(), place.wrapping_sub(lossy.len())));
        }
    }
    (lossy, shifts)
}
