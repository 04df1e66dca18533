//! Finds special tokens in text. They are taken out before the text around them is split.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, FindIter, MatchKind};

use crate::error::{Error, ErrorKind, Result};

/// Bytes of the longest special token for which the search may use a full DFA (1 KiB). For a longer token it uses an
/// NFA: the DFA of one repeated letter takes time and memory that grow with the square of its length.
const LONGEST_FOR_DFA: usize = 1 << 10;

/// Finds special tokens in text. Among overlapping ones it takes the leftmost, and of those the longest.
///
/// ```
/// use tokenmill::split::{Segment, SpecialFinder};
///
/// let finder = SpecialFinder::new(&["<s>", "</s>"])?;
/// let segments: Vec<Segment> = finder.segments(b"<s>a b").collect();
/// assert_eq!(segments, [Segment::Special(0, 0..3), Segment::Text(3..6)]);
///
/// let finder = SpecialFinder::new(&["<a>", "<a><b>"])?; // the longer of two that start at one place
/// assert!(finder.segments(b"<a><b>").eq([Segment::Special(1, 0..6)]));
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
        SpecialFinder::with_dfa_up_to(LONGEST_FOR_DFA, tokens)
    }

    /// Does the same as [`new`](SpecialFinder::new), without a DFA if a token is longer than `max_dfa_bytes` bytes.
    fn with_dfa_up_to(max_dfa_bytes: usize, tokens: &[impl AsRef<[u8]>]) -> Result<SpecialFinder> {
        if let Some(number) = tokens.iter().position(|token| token.as_ref().is_empty()) {
            return Err(Error::usage(format!("special token number {number} is empty")));
        }
        let Some(longest) = tokens.iter().map(|token| token.as_ref().len()).max() else {
            return Ok(SpecialFinder::default());
        };
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind((longest > max_dfa_bytes).then_some(AhoCorasickKind::ContiguousNFA))
            .build(tokens)
            .map_err(|cause| {
                let problem = "the special tokens are too many or too long to search for";
                Error::caused(ErrorKind::Usage, problem, cause)
            })?;
        Ok(SpecialFinder { search: Some(search), longest })
    }

    /// Returns the length of the longest token in bytes; 0 without tokens.
    ///
    /// ```
    /// use tokenmill::split::SpecialFinder;
    ///
    /// assert_eq!(SpecialFinder::new(&["<s>", "</s>"])?.longest(), 4);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Divides a text into special tokens and the text around them, in order and without gaps. Takes linear time.
    ///
    /// ```
    /// use tokenmill::split::{Segment, SpecialFinder};
    ///
    /// let finder = SpecialFinder::new(&["<s>"])?;
    /// assert!(finder.segments(b"a<s>").eq([Segment::Text(0..1), Segment::Special(0, 1..4)]));
    /// assert_eq!(finder.segments(b"").count(), 0);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: tries every token at every offset, the longest first.
    fn obvious(tokens: &[Vec<u8>], text: &[u8]) -> Vec<Segment> {
        let (mut segments, mut start, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let here = tokens.iter().enumerate().filter(|(_, token)| text[at..].starts_with(token));
            // Among equal tokens the first one counts.
            let Some((number, token)) = here.rev().max_by_key(|(_, token)| token.len()) else {
                at += 1;
                continue;
            };
            if at > start {
                segments.push(Segment::Text(start..at));
            }
            segments.push(Segment::Special(number, at..at + token.len()));
            at += token.len();
            start = at;
        }
        if text.len() > start {
            segments.push(Segment::Text(start..text.len()));
        }
        segments
    }

    proptest! {
        #[test]
        fn leftmost_then_longest(
            tokens in prop::collection::vec(prop::collection::vec(b'a'..b'd', 1..4), 0..5),
            text in prop::collection::vec(b'a'..b'e', 0..40),
        ) {
            let mut tokens = tokens;
            tokens.sort();
            tokens.dedup();
            for max_dfa_bytes in [usize::MAX, 0] {
                let finder = SpecialFinder::with_dfa_up_to(max_dfa_bytes, &tokens).expect("no token is empty");
                prop_assert_eq!(finder.segments(&text).collect::<Vec<_>>(), obvious(&tokens, &text));
            }
        }
    }

    #[test]
    fn an_empty_token_is_refused() {
        assert!(SpecialFinder::new(&["<s>", ""]).is_err());
    }
}
