//! Finds special tokens in text. They are cut out before the text around them is split.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, FindIter, MatchKind};

use super::fault::Fault;
use crate::error::Result;

/// Bytes of the longest special token for which the search may use a full DFA. For a longer token it uses an NFA: the
/// DFA of one repeated letter takes time and memory that grow with the square of its length.
const LONG: usize = 1 << 10;

/// Finds special tokens in text. Among overlapping ones it takes the leftmost, and of those the longest.
///
/// ```
/// use tokenmill::split::{Segment, SpecialFinder};
///
/// let finder = SpecialFinder::new(&["<s>", "</s>"])?;
/// let segments: Vec<Segment> = finder.segments(b"<s>a b").collect();
/// assert_eq!(segments, [Segment::Special(0, 0..3), Segment::Text(3..6)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SpecialFinder {
    search: Option<AhoCorasick>,
    longest: usize,
}

/// A segment of a text, from [`SpecialFinder::segments`]. Ranges are byte offsets into the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text without special tokens, never empty.
    Text(Range<usize>),
    /// A special token: its index in the list given to [`SpecialFinder::new`], and its range.
    Special(usize, Range<usize>),
}

impl SpecialFinder {
    /// Creates a finder of these tokens. Without tokens it finds nothing and costs nothing.
    ///
    /// # Errors
    /// A token is empty, or the tokens are too many or too long to build a search for.
    pub fn new(tokens: &[impl AsRef<[u8]>]) -> Result<SpecialFinder> {
        SpecialFinder::of(tokens, LONG)
    }

    /// Does the same as [`new`](SpecialFinder::new), without a DFA if a token is longer than `most` bytes.
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

    /// Returns the length of the longest token in bytes; 0 without tokens.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Divides a text into special tokens and the text around them, in order and without gaps. Takes linear time.
    pub fn segments<'a>(&'a self, text: &'a [u8]) -> Segments<'a> {
        let found = self.search.as_ref().map(|search| search.find_iter(text));
        Segments { found, done: 0, end: text.len(), waiting: None }
    }
}

/// Iterator over the segments of a text; see [`SpecialFinder::segments`].
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
