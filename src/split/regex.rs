//! The obvious splitter: a regular expression over the text. It serves custom patterns that need it, and
//! it is the oracle that the others are compared with.

use std::ops::RangeInclusive;
use std::str::{Utf8Chunks, from_utf8};

use fancy_regex::{Regex, RegexBuilder};

use super::fault::Fault;
use super::{Splitter, length32};
use crate::error::{Error, Result};
use crate::units::low32;

/// Splits by any regular expression that fancy-regex understands.
///
/// A search takes linear time for expressions without look-around. Others backtrack: a search that takes more than a
/// thousand million steps back, or remembers more than a million places, is an error. Where most searches look far ahead
/// in vain, as those for `a+b|.` in a run of `a`, all of them together take quadratic time.
#[derive(Debug)]
pub struct RegexSplitter {
    regexes: Vec<Regex>,
    covers: bool,
}

/// More than any search needs that does not grow faster than its text of some 100 MB.
const BACKTRACK_LIMIT: usize = 1_000_000_000;

pub(super) fn compile(pattern: &str) -> Result<Regex, fancy_regex::Error> {
    // What the engine makes of an expression before it compiles it is not always the same: in 0.20.2 `(?:x+a??x*)+`
    // takes an `a` at the end too.
    RegexBuilder::new(pattern).optimize(false).backtrack_limit(BACKTRACK_LIMIT).build()
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

fn checked(pattern: &str) -> Result<Regex> {
    let syntax = |cause| Fault::Syntax { pattern: pattern.to_owned(), cause: Box::new(cause) };
    let regex = compile(pattern).map_err(syntax)?;
    if regex.is_match("").map_err(syntax)? {
        return Err(Fault::MatchesNothing { pattern: pattern.to_owned() }.into());
    }
    Ok(regex)
}

/// Tells `take` the end of each piece: of each match, and of the text before it that no match takes;
/// of each of these, the pieces of the other expressions. `base` is where the text begins.
fn cut(regexes: &[Regex], covers: bool, text: &str, base: usize, take: &mut dyn FnMut(usize)) -> Result<()> {
    let Some((regex, others)) = regexes.split_first() else {
        take(base + text.len());
        return Ok(());
    };
    let mut done = 0;
    let mut piece = |end: usize, matched: bool| {
        let start = std::mem::replace(&mut done, end);
        if start == end {
            return Ok(());
        }
        if covers && !matched {
            return Err(gap(regex.as_str(), &text[start..end]));
        }
        cut(others, covers, &text[start..end], base + start, take)
    };
    for found in regex.find_iter(text) {
        let found = found.map_err(|cause| backtracking(regex.as_str(), base, cause))?;
        // An expression that matches at a place, and nothing of the text, cuts it there, as it does in Hugging Face's
        // tokenizers.
        piece(found.start(), false)?;
        piece(found.end(), true)?;
    }
    piece(text.len(), false)
}

impl Splitter for RegexSplitter {
    fn piece_ends(&self, text: &[u8], ends: &mut Vec<u32>) -> Result<()> {
        split_lossy(text, ends, |text, take| cut(&self.regexes, self.covers, text, 0, take))
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}

pub(super) fn backtracking(pattern: &str, at: usize, cause: fancy_regex::Error) -> Fault {
    Fault::Backtracking { pattern: pattern.to_owned(), at, cause: Box::new(cause) }
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
