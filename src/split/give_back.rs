//! Custom patterns with the usual white-space tail, split in linear time.

use super::Splitter;
use super::classes::Classes;
use super::regex::{gap, split_lossy};
use super::search::{BoundedRegex, Steps};
use crate::error::Result;
use crate::observer::Observer;

/// Tails of most published patterns. They match white space without its last character, which is left to the word
/// after it.
const TAILS: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)|\s"];

/// Splits by an expression that ends in one of [`TAILS`], without the look-ahead of the tail.
///
/// It matches white space whole, and then gives the last character back. The remaining expression is mostly a regular
/// language, which the engine matches in linear time. With the look-ahead, the engine would backtrack and fail on a
/// million spaces.
pub(super) struct GiveBack {
    /// The original expression, for error messages.
    pattern: String,
    /// The other alternatives, then all white space as the last capture group.
    regex: BoundedRegex,
    classes: &'static Classes,
    covers: bool,
}

impl GiveBack {
    /// Returns the splitter of a valid expression; `None` if it does not end in one of [`TAILS`].
    pub(super) fn new(pattern: &str) -> Option<GiveBack> {
        let others = TAILS.iter().find_map(|tail| pattern.strip_suffix(tail))?;
        // The bar of the tail is escaped, or matches depend on where the search started.
        if others.is_empty()
            || others.ends_with('\\')
            || [r"\K", r"\G"].iter().any(|place| others.contains(place))
        {
            return None;
        }
        let regex = BoundedRegex::new(&format!(r"{others}|(\s+)")).ok()?;
        // If a comment in the expression contains the added group, there are too few groups.
        let is_there = BoundedRegex::new(others).ok()?.groups().ok()? + 1 == regex.groups().ok()?;
        is_there.then(|| GiveBack {
            pattern: pattern.to_owned(),
            regex,
            classes: Classes::get(),
            covers: false,
        })
    }

    /// Sets whether text outside of all matches is an error.
    pub(super) fn covering(self, covers: bool) -> GiveBack {
        GiveBack { covers, ..self }
    }

    /// Passes the end of each pre-token to `take`.
    fn pretokens(&self, text: &str, steps: &mut Steps<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        let (mut done, mut at) = (0, 0);
        while let Some(found) = self.regex.search(steps, at, |regex| regex.find_from_pos(text, at))? {
            if found.start() > done {
                self.unmatched(&text[done..found.start()])?;
                take(found.start());
                done = found.start();
            }
            if found.start() == found.end() {
                let Some(skipped) = text[found.end()..].chars().next() else { break };
                at = found.end() + skipped.len_utf8();
                continue;
            }
            done = self.end(text, found.start(), found.end(), steps)?;
            take(done);
            at = done;
        }
        if done < text.len() {
            self.unmatched(&text[done..])?;
            take(text.len());
        }
        Ok(())
    }

    /// Checks text outside of all matches, which can be an error.
    fn unmatched(&self, text: &str) -> Result<()> {
        if self.covers { Err(gap(&self.pattern, text)) } else { Ok(()) }
    }

    /// Returns the end of the match `start..end` after white space has given back its last character.
    ///
    /// A match keeps its last character if that is its only one, or if it is the end of the text.
    fn end(&self, text: &str, start: usize, end: usize, steps: &mut Steps<'_>) -> Result<usize> {
        let last =
            text[start..end].char_indices().next_back().filter(|(_, last)| self.classes.is_white(*last));
        let Some((last, _)) = last.filter(|(last, _)| *last > 0 && end < text.len()) else { return Ok(end) };
        // The match of another alternative can also end in white space; it keeps all of it.
        let white = self.regex.search(steps, start, |regex| {
            let groups = regex.captures_from_pos(text, start)?;
            Ok(groups.is_some_and(|groups| groups.get(groups.len() - 1).is_some()))
        })?;
        Ok(if white { start + last } else { end })
    }
}

impl Splitter for GiveBack {
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
