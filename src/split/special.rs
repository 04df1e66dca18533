use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, FindIter, MatchKind};

use super::fault::Fault;
use crate::error::Result;

/// For a longer token no table of all steps is made: where one letter is repeated that takes the square of its length.
const LONG: usize = 1 << 10;

/// Finds special tokens in text; of overlapping ones the leftmost, and of these the longest.
#[derive(Clone, Debug, Default)]
pub struct SpecialFinder {
    search: Option<AhoCorasick>,
    longest: usize,
}

/// A part of a text as [`SpecialFinder::segments`] cuts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text without special tokens, never empty.
    Text(Range<usize>),
    /// A special token: its number in the list, and where it stands.
    Special(usize, Range<usize>),
}

impl SpecialFinder {
    /// Makes a finder of these tokens. Without any it finds nothing, at no cost.
    ///
    /// # Errors
    /// A token is empty, or they are more than a search can be built for.
    pub fn new(tokens: &[impl AsRef<[u8]>]) -> Result<SpecialFinder> {
        SpecialFinder::of(tokens, LONG)
    }

    /// The same, where longer tokens than `most` get no table.
    pub(super) fn of(tokens: &[impl AsRef<[u8]>], most: usize) -> Result<SpecialFinder> {
        if let Some(number) = tokens.iter().position(|token| token.as_ref().is_empty()) {
            return Err(Fault::EmptySpecial { number }.into());
        }
        let Some(longest) = tokens.iter().map(|token| token.as_ref().len()).max() else {
            return Ok(SpecialFinder::default());
        };
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind((longest > most).then_some(AhoCorasickKind::ContiguousNFA))
            .build(tokens)
            .map_err(Fault::Specials)?;
        Ok(SpecialFinder { search: Some(search), longest })
    }

    /// Length of the longest token in bytes; 0 if there is none.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Cuts a text into special tokens and the text around them, in order and without gaps.
    pub fn segments<'a>(&'a self, text: &'a [u8]) -> Segments<'a> {
        let found = self.search.as_ref().map(|search| search.find_iter(text));
        Segments { found, done: 0, end: text.len(), waiting: None }
    }
}

/// The parts of a text; see [`SpecialFinder::segments`].
#[derive(Debug)]
pub struct Segments<'a> {
    found: Option<FindIter<'a, 'a>>,
    done: usize,
    end: usize,
    waiting: Option<Segment>,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if let Some(special) = self.waiting.take() {
            return Some(special);
        }
        let start = self.done;
        let Some(found) = self.found.as_mut().and_then(Iterator::next) else {
            self.done = self.end;
            return (start < self.end).then_some(Segment::Text(start..self.end));
        };
        self.done = found.end();
        let special = Segment::Special(found.pattern().as_usize(), found.range());
        if found.start() == start {
            return Some(special);
        }
        self.waiting = Some(special);
        Some(Segment::Text(start..found.start()))
    }
}
