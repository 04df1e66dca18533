//! The text that is carried from one batch to the next until a safe split point is found.

use std::mem;
use std::ops::Range;

use crate::split::{Segment, SpecialFinder, Splitter};

/// Bytes of a new text that are first appended to the carried text when looking for a safe split point. The number
/// doubles until one is found.
const JOINED: usize = 1 << 10;

/// The text that was read but not yet passed on, because it has no safe split point.
pub(super) struct Carry<'a> {
    splitter: &'a dyn Splitter,
    specials: &'a SpecialFinder,
    /// The carried text.
    text: Vec<u8>,
    /// Searches start at this offset. Earlier offsets have no safe split point, or a later one serves as well.
    searched: usize,
    /// The most bytes that may be carried.
    most: usize,
}

impl<'a> Carry<'a> {
    /// Creates an empty carry for at most `most` bytes. More are kept, too; the caller asks
    /// [`is_too_long`](Carry::is_too_long).
    pub(super) fn new(splitter: &'a dyn Splitter, specials: &'a SpecialFinder, most: usize) -> Carry<'a> {
        Carry { splitter, specials, text: Vec::new(), searched: 0, most }
    }

    /// Returns whether more text is carried than allowed.
    pub(super) fn is_too_long(&self) -> bool {
        self.text.len() > self.most
    }

    /// Returns whether no text is carried.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends to the carried text.
    pub(super) fn extend(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    /// Takes all of the carried text.
    pub(super) fn end(&mut self) -> Vec<u8> {
        self.searched = 0;
        mem::take(&mut self.text)
    }

    /// Returns the carried text before its last safe split point, and keeps the rest.
    pub(super) fn cut(&mut self) -> Vec<u8> {
        let limit = self.limit(self.text.len());
        let Some(cut) = self.last_cut(&self.text, self.searched) else {
            self.searched = limit;
            return Vec::new();
        };
        self.searched = limit - cut;
        let rest = self.text.split_off(cut);
        mem::replace(&mut self.text, rest)
    }

    /// Appends the start of a text, up to a safe split point. Returns all of the carried text, and the offset of the
    /// split point in `text`. If `text` has no safe split point, appends all of it and returns `None`.
    pub(super) fn join(&mut self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        if self.text.is_empty() {
            return Some((Vec::new(), 0));
        }
        let (carried, mut joined) = (self.text.len(), 0);
        let mut wanted = JOINED + self.specials.longest();
        while joined < text.len() {
            let more = wanted.min(text.len());
            self.text.extend_from_slice(&text[joined..more]);
            (joined, wanted) = (more, wanted * 2);
            // A safe split point in the text that was carried before may show only now. It is of no use here.
            if let Some(cut) = self.last_cut(&self.text, self.searched).filter(|&cut| cut >= carried) {
                self.text.truncate(cut);
                return Some((self.end(), cut - carried));
            }
            self.searched = self.limit(self.text.len());
        }
        None
    }

    /// Carries the text after the last safe split point of `text`, and returns the offset of that point, or 0. No
    /// text may be carried already.
    pub(super) fn begin(&mut self, text: &[u8]) -> usize {
        let cut = self.last_cut(text, 0).unwrap_or(0);
        self.text.extend_from_slice(&text[cut..]);
        self.searched = self.limit(text.len()).saturating_sub(cut);
        cut
    }

    /// Returns the last offset of a text at which a split point can be known to be safe: a special token that starts
    /// before it also ends within the text.
    fn limit(&self, length: usize) -> usize {
        length.saturating_sub(self.specials.longest())
    }

    /// Returns the last safe split point of a text from `searched` on. It is never within a special token.
    fn last_cut(&self, text: &[u8], searched: usize) -> Option<usize> {
        // The range includes `searched`: a safe split point at the former end of the text could not be seen.
        let before = |limit: usize| self.splitter.safe_split_point(text, searched..=limit);
        let mut cut = before(self.limit(text.len()))?;
        if self.specials.longest() == 0 {
            return Some(cut);
        }
        let found: Vec<Range<usize>> = self
            .specials
            .segments(text)
            .filter_map(|segment| match segment {
                Segment::Special(_, range) => Some(range),
                Segment::Text(_) => None,
            })
            .collect();
        for special in found.iter().rev() {
            if special.start < cut && cut < special.end {
                cut = before(special.start)?;
            }
        }
        Some(cut)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::error::Result;
    use crate::observer::Observer;

    /// Has safe split points before spaces, and counts the offsets that are searched.
    #[derive(Default)]
    struct Spaces {
        asked: AtomicUsize,
    }

    impl Splitter for Spaces {
        fn pretoken_ends_observed(
            &self,
            _text: &[u8],
            _ends: &mut Vec<u32>,
            _observer: &dyn Observer,
        ) -> Result<()> {
            unreachable!("only cuts are asked for")
        }

        fn safe_split_point(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize> {
            let (first, last) = places.into_inner();
            let found = (first.max(1)..=last.min(text.len() - 1)).rev().find(|&at| text[at] == b' ');
            self.asked.fetch_add(last.saturating_sub(found.unwrap_or(first)), Relaxed);
            found
        }
    }

    #[test]
    fn each_place_is_looked_at_few_times_wherever_the_only_cut_is() {
        const BATCH: usize = 4 << 10;
        let specials = SpecialFinder::new(&["<|endoftext|>".to_owned()]).expect("a token");
        for from_end in 1..=30 {
            let splitter = Spaces::default();
            let mut carry = Carry::new(&splitter, &specials, usize::MAX);
            let mut first = vec![b'a'; BATCH];
            first[BATCH - from_end] = b' ';
            let mut length = BATCH - carry.begin(&first);
            for _ in 0..100 {
                assert_eq!(carry.join(&[b'a'; BATCH]), None, "no cut in {from_end}");
                length += BATCH;
            }
            assert_eq!(carry.end().len(), length);
            let asked = splitter.asked.into_inner();
            assert!(asked < 3 * 100 * BATCH, "{asked} places, with a space {from_end} before the first end");
        }
    }
}
