//! Cuts whose matches belong to what stands beside them, and cuts of what is written in GPT-2's byte alphabet.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::regex::{checked, gap, split_lossy};
use super::search::{BoundedRegex, Steps};
use super::{Splitter, alphabet};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::low32;

/// What becomes of the matches of a cut, by the names of Hugging Face's tokenizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SplitBehavior {
    /// Each is a piece, and so is what stands between two.
    #[default]
    Isolated,
    /// They are dropped there. Here a text that has one is an error.
    Removed,
    /// Each belongs to what stands before it, unless that is a match too.
    MergedWithPrevious,
    /// Each belongs to what stands after it, unless that is a match too.
    MergedWithNext,
    /// Those that follow one another at once are one piece.
    Contiguous,
}

impl SplitBehavior {
    /// Whether it cuts between a part and the next, each of which is a match or not.
    fn cuts(self, left: bool, right: bool) -> bool {
        match self {
            SplitBehavior::Isolated | SplitBehavior::Removed => true,
            SplitBehavior::MergedWithPrevious => left || !right,
            SplitBehavior::MergedWithNext => !left || right,
            SplitBehavior::Contiguous => left != right,
        }
    }
}

/// Splits by an expression whose matches become what a behavior says.
pub(super) struct Behaving {
    regex: BoundedRegex,
    behavior: SplitBehavior,
    /// Whether what stands between matches counts as matched, and they do not.
    invert: bool,
}

impl Behaving {
    pub(super) fn new(pattern: &str, behavior: SplitBehavior, invert: bool) -> Result<Behaving> {
        Ok(Behaving { regex: checked(pattern)?, behavior, invert })
    }

    fn pieces(&self, text: &str, steps: &mut Steps<'_>, take: &mut dyn FnMut(usize)) -> Result<()> {
        // Where the part before ends, whether it counts as matched, and where the last cut is.
        let (mut done, mut before, mut cut) = (0, None, 0);
        let mut part = |end: usize, matched: bool| {
            let matched = matched != self.invert;
            if matched && end > done && self.behavior == SplitBehavior::Removed {
                return Err(gap(self.regex.pattern(), &text[done..end]));
            }
            // A match of no text has borders too.
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
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer) -> Result<()> {
        let mut steps = Steps::new(text.len(), observer);
        split_lossy(text, ends, |text, take| self.pieces(text, &mut steps, take))
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}

/// Cuts a text as another splitter cuts its spelling in GPT-2's byte alphabet: between any two bytes.
pub(super) struct Spelled(pub(super) Box<dyn Splitter>);

impl Splitter for Spelled {
    fn piece_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, observer: &dyn Observer) -> Result<()> {
        let spelled = alphabet::spell(text);
        let first = ends.len();
        self.0.piece_ends_observed(spelled.as_bytes(), ends, observer)?;
        // Each byte is a character.
        let mut characters = spelled.char_indices().map(|(start, _)| start).chain([spelled.len()]).zip(0..);
        for end in &mut ends[first..] {
            let byte = characters.find(|(start, _)| low32(*start) == *end);
            *end = byte.map_or(low32(text.len()), |(_, byte)| byte);
        }
        Ok(())
    }

    fn certain_cut(&self, _text: &[u8], _places: RangeInclusive<usize>) -> Option<usize> {
        None
    }
}
