//! The reference splitter, which runs a regular expression over the text. It serves custom patterns, and it is the
//! oracle in the tests of the other splitters.

use std::ops::Range;
use std::str::{Utf8Chunks, from_utf8};

use super::dialect::translated;
use super::fault::Fault;
use super::search::{BoundedRegex, Steps};
use super::{Splitter, length32};
use crate::base::int::truncate_to_u32;
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};

/// Splits by any regular expression that fancy-regex supports.
///
/// A search takes linear time if the expression has no look-around. Other expressions backtrack. A search fails if it
/// takes more than 50 million backtracking steps or keeps more than a million backtracking positions. A text fails if
/// its searches together take more than 200 million steps plus 2 000 per byte.
///
/// All searches together can take quadratic time if most of them look far ahead without success, as `a+b|.` does in a
/// run of `a`. The observer can stop them.
#[derive(Debug)]
pub struct RegexSplitter {
    regexes: Vec<BoundedRegex>,
    covers: bool,
}

impl RegexSplitter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is not a valid regular expression, or it matches the empty text.
    pub fn new(pattern: &str) -> Result<RegexSplitter> {
        RegexSplitter::sequence(&[pattern])
    }

    /// Compiles expressions that are applied in a row, each to the pre-tokens of the previous one.
    ///
    /// # Errors
    /// One of them is not a valid regular expression, or it matches the empty text.
    pub fn sequence(patterns: &[&str]) -> Result<RegexSplitter> {
        let regexes = patterns.iter().map(|pattern| checked(pattern)).collect::<Result<_>>()?;
        Ok(RegexSplitter { regexes, covers: false })
    }

    /// Sets whether text outside of all matches is an error.
    pub(super) fn covering(self, covers: bool) -> RegexSplitter {
        RegexSplitter { covers, ..self }
    }
}

/// Finds the matches of a regular expression from a `tokenizer.json`.
#[derive(Debug)]
pub(crate) struct Matcher(BoundedRegex);

impl Matcher {
    /// Compiles an expression in Oniguruma's dialect.
    ///
    /// # Errors
    /// It is not a valid regular expression, matches the empty text, or means something else in Oniguruma than in
    /// fancy-regex.
    pub(crate) fn from_oniguruma(pattern: &str) -> Result<Matcher> {
        checked(&translated(pattern)?).map(Matcher)
    }

    /// Returns `true` only if a text has no match. A search that exceeds its limits gives `false`.
    pub(crate) fn matches_nothing_of(&self, text: &str) -> bool {
        let first = self.0.matches(text).next(&mut Steps::new(0, &Silent));
        matches!(first, Ok(None))
    }

    /// Passes the byte range of each match to `take`, in order, until it returns `false`.
    ///
    /// # Errors
    /// The searches take too many backtracking steps.
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

/// Compiles an expression and checks that it does not match the empty text.
pub(super) fn checked(pattern: &str) -> Result<BoundedRegex> {
    let regex =
        BoundedRegex::new(pattern).map_err(|cause| Fault::Syntax { pattern: pattern.to_owned(), cause })?;
    if regex.search(&mut Steps::new(0, &Silent), 0, |regex| regex.is_match(""))? {
        return Err(Fault::MatchesNothing { pattern: pattern.to_owned() }.into());
    }
    Ok(regex)
}

/// Passes the end of each pre-token to `take`.
///
/// The matches of the first expression, and the text between them, are each split by the other expressions. `base` is
/// the offset of `text` within the whole text; it is added to the ends. With `covers`, text outside of all matches is
/// an error.
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
    let mut pretoken = |end: usize, matched: bool, steps: &mut Steps<'_>| {
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
        // An empty match splits the text at its position, as in Hugging Face's tokenizers.
        pretoken(found.start(), false, steps)?;
        pretoken(found.end(), true, steps)?;
    }
    pretoken(text.len(), false, steps)
}

impl Splitter for RegexSplitter {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut steps = Steps::new(text.len(), observer);
        split_lossy(text, ends, |text, take| cut(&self.regexes, self.covers, text, 0, &mut steps, take))
    }
}

/// Returns the error for text that an expression must match and does not. It quotes the first 40 characters.
pub(super) fn gap(pattern: &str, text: &str) -> Error {
    const SHOWN: usize = 40;
    Fault::Gap { pattern: pattern.to_owned(), text: text.chars().take(SHOWN).collect() }.into()
}

/// Appends to `ends` the ends that `pretokens` finds. If the text is not UTF-8, `pretokens` gets it with replacement
/// characters, and the ends are mapped back to the original bytes.
///
/// # Errors
/// The text has 4 GiB or more, or `pretokens` fails.
pub(super) fn split_lossy(
    text: &[u8],
    ends: &mut Vec<u32>,
    pretokens: impl FnOnce(&str, &mut dyn FnMut(usize)) -> Result<()>,
) -> Result<()> {
    length32(text)?;
    if let Ok(text) = from_utf8(text) {
        return pretokens(text, &mut |end| ends.push(truncate_to_u32(end)));
    }
    let (lossy, shifts) = lossy(text.utf8_chunks());
    let mut shift = 0;
    let mut next = shifts.iter().peekable();
    pretokens(&lossy, &mut |end| {
        while let Some(&(_, at_shift)) = next.next_if(|(after, _)| *after <= end) {
            shift = at_shift;
        }
        ends.push(truncate_to_u32(end.wrapping_add(shift)));
    })
}

/// Returns the text with one replacement character for each invalid chunk, and the shifts back to the original.
///
/// Each shift is the end of a replacement character and the number to add (wrapping) to an offset from there on to
/// get the offset in the original.
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
