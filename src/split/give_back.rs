use std::ops::RangeInclusive;

use super::Splitter;
use super::classes::Classes;
use super::regex::{gap, split_lossy};
use super::search::{BoundedRegex, Steps};
use crate::error::Result;
use crate::observer::Observer;

/// How most published patterns end: all white space but the last character, which then belongs to the
/// word after it.
const TAILS: [&str; 2] = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)|\s"];

/// Splits by an expression with such a tail, without its look-ahead: white space is matched whole, and
/// its last character is given back. What is left is mostly a regular language, which the engine
/// matches in linear time, where the look-ahead would backtrack and fail on a million spaces.
pub(super) struct GiveBack {
    /// As it was given.
    pattern: String,
    /// The other alternatives, and as the last group all white space.
    regex: BoundedRegex,
    classes: &'static Classes,
    covers: bool,
}

impl GiveBack {
    /// The splitter of a pattern that is known to be right, or `None` if it has no such tail.
    pub(super) fn new(pattern: &str) -> Option<GiveBack> {
        let others = TAILS.iter().find_map(|tail| pattern.strip_suffix(tail))?;
        // An escaped bar, or a match that begins elsewhere than its search.
        if others.is_empty()
            || others.ends_with('\\')
            || [r"\K", r"\G"].iter().any(|place| others.contains(place))
        {
            return None;
        }
        let regex = BoundedRegex::new(&format!(r"{others}|(\s+)")).ok()?;
        // A comment may swallow the group.
        let is_there = BoundedRegex::new(others).ok()?.groups().ok()? + 1 == regex.groups().ok()?;
        is_there.then(|| GiveBack {
            pattern: pattern.to_owned(),
            regex,
            classes: Classes::get(),
            covers: false,
        })
    }

    /// The same, to which text that no match takes can be an error.
    pub(super) fn covering(self, covers: bool) -> GiveBack {
        GiveBack { covers, ..self }
    }

    fn pieces(&self, text: &str, steps: &mut Steps<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
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

    fn unmatched(&self, text: &str) -> Result<()> {
        if self.covers { Err(gap(&self.pattern, text)) } else { Ok(()) }
    }

    /// Where a match ends when white space has given back its last character.
    fn end(&self, text: &str, start: usize, end: usize, steps: &mut Steps<'_>) -> Result<usize> {
        let last =
            text[start..end].char_indices().next_back().filter(|(_, last)| self.classes.is_white(*last));
        let Some((last, _)) = last.filter(|(last, _)| *last > 0 && end < text.len()) else { return Ok(end) };
        // White space can be the end of another alternative's match too.
        let white = self.regex.search(steps, start, |regex| {
            let groups = regex.captures_from_pos(text, start)?;
            Ok(groups.is_some_and(|groups| groups.get(groups.len() - 1).is_some()))
        })?;
        Ok(if white { start + last } else { end })
    }
}

impl Splitter for GiveBack {
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer) -> Result<()> {
        let mut steps = Steps::new(text.len(), observer);
        split_lossy(text, ends, |text, take| self.pieces(text, &mut steps, take))
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}
