//! Arenas for lists of occurrences, whose spans are reused.

use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

/// A span of an arena: a contiguous list of occurrences within one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Index of the arena.
    pub(super) arena: u32,
    /// Index of the block in the arena.
    pub(super) block: u32,
    /// Index of the first occurrence in the block.
    pub(super) start: u32,
    /// Number of occurrences.
    pub(super) length: u32,
}

/// A cursor: the position in an arena at which one occurrence is written.
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Index of the block in the arena.
    pub(super) block: u32,
    /// Index in the block.
    pub(super) index: u32,
}

impl Cursor {
    /// A cursor at the start of a span.
    pub(super) fn start_of(span: Span) -> Cursor {
        Cursor { block: span.block, index: span.start }
    }

    /// Returns this cursor and advances it by one.
    pub(super) fn next(&mut self) -> Cursor {
        let next = *self;
        self.index += 1;
        next
    }
}

/// Free spans, which belonged to pairs that have been merged.
pub(super) struct FreeSpans {
    /// Free spans by the number of binary digits of their length.
    by_digits: [Vec<Span>; 33],
    /// Bit n is set if `by_digits[n]` is not empty.
    nonempty: u64,
}

impl Default for FreeSpans {
    fn default() -> FreeSpans {
        FreeSpans { by_digits: std::array::from_fn(|_| Vec::new()), nonempty: 0 }
    }
}

impl FreeSpans {
    /// Occurrences. Shorter spans are dropped: reusing them is not worth it.
    const MIN: u32 = 4;

    /// Adds a free span.
    pub(super) fn put(&mut self, span: Span) {
        if span.length >= FreeSpans::MIN {
            let digits = digits(span.length);
            self.by_digits[digits].push(span);
            self.nonempty |= 1 << digits;
        }
    }

    /// A span of `length` occurrences, cut off a free span with more binary digits, which is long enough in any
    /// case. The rest stays free.
    pub(super) fn take(&mut self, length: u32) -> Option<Span> {
        let longer = digits(length) + 1;
        let number = longer + to_usize((self.nonempty >> longer).trailing_zeros());
        let spans = self.by_digits.get_mut(number)?;
        let span = spans.pop()?;
        self.nonempty &= !(u64::from(spans.is_empty()) << number);
        self.put(Span { start: span.start + length, length: span.length - length, ..span });
        Some(Span { length, ..span })
    }
}

/// Number of binary digits of a length.
fn digits(length: u32) -> usize {
    to_usize(u32::BITS - length.leading_zeros())
}

/// A position at which a pair occurs, and the weight of the sequence there.
#[derive(Clone, Copy, Default)]
pub(super) struct Occurrence<W> {
    /// Position at which the pair begins.
    pub(super) position: u32,
    /// Weight of the sequence.
    pub(super) weight: W,
}

/// An arena of occurrence lists. Each of the threads that merge a pair together writes to its own.
///
/// A list takes one [`Span`] of a block. Freed lists are reused before new blocks are allocated.
pub(super) struct Arena<W> {
    /// Blocks never grow, so that occurrences never move. The first block has one entry, at the default cursor:
    /// occurrences of pairs that are not kept are written there, and it is never read.
    blocks: Vec<Vec<Occurrence<W>>>,
    /// Spans that can be reused.
    free: FreeSpans,
}

/// Occurrences in the first block that is allocated for pairs created by merges; each later block is twice as
/// large.
const FIRST_BLOCK: usize = 1 << 12;

/// Occurrences in the largest blocks, except for single lists that are longer.
const LAST_BLOCK: usize = 1 << 21;

impl<W: Copy + Default> Default for Arena<W> {
    fn default() -> Arena<W> {
        Arena { blocks: vec![vec![Occurrence::default()]], free: FreeSpans::default() }
    }
}

impl<W: Copy + Default> Arena<W> {
    /// Adds a block, which may have spare capacity, and returns its number.
    pub(super) fn push(&mut self, block: Vec<Occurrence<W>>) -> u32 {
        self.blocks.push(block);
        truncate_to_u32(self.blocks.len() - 1)
    }

    /// Replaces a block that was added empty.
    pub(super) fn fill(&mut self, number: u32, block: Vec<Occurrence<W>>) {
        self.blocks[to_usize(number)] = block;
    }

    /// Reserves a span for `occurrences` occurrences. `number` is the index of this arena.
    pub(super) fn span(&mut self, number: usize, occurrences: u32) -> Span {
        self.free.take(occurrences).unwrap_or_else(|| self.append_span(number, occurrences))
    }

    /// Reserves a span at the end of the last block, or of a new one.
    fn append_span(&mut self, number: usize, occurrences: u32) -> Span {
        let length = to_usize(occurrences);
        let mut block = self.blocks.len() - 1;
        if self.blocks[block].len() + length > self.blocks[block].capacity() {
            let doubled = (FIRST_BLOCK << block.saturating_sub(1).min(16)).min(LAST_BLOCK);
            self.blocks.push(huge_pages::with_capacity(doubled.max(length)));
            block += 1;
        }
        let start = self.blocks[block].len();
        self.blocks[block].resize(start + length, Occurrence::default());
        Span {
            arena: truncate_to_u32(number),
            block: truncate_to_u32(block),
            start: truncate_to_u32(start),
            length: occurrences,
        }
    }

    /// Frees a span that is not read any more, so that other lists can use it.
    pub(super) fn free(&mut self, span: Span) {
        self.free.put(span);
    }

    /// Writes one occurrence at a cursor.
    #[inline]
    pub(super) fn write(&mut self, to: Cursor, occurrence: Occurrence<W>) {
        self.blocks[to_usize(to.block)][to_usize(to.index)] = occurrence;
    }

    /// The occurrences in a span.
    #[inline]
    pub(super) fn list(&self, span: Span) -> &[Occurrence<W>] {
        &self.blocks[to_usize(span.block)][to_usize(span.start)..][..to_usize(span.length)]
    }

    /// Prefetches the first `ahead` occurrences of a span.
    pub(super) fn prefetch(&self, span: Span, ahead: usize) {
        // A cache line holds at least eight.
        (0..ahead)
            .step_by(8)
            .for_each(|at| huge_pages::fetch(&self.blocks[to_usize(span.block)], to_usize(span.start) + at));
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{FreeSpans, Span};

    #[test]
    fn a_span_is_taken_from_a_longer_one() {
        let mut free = FreeSpans::default();
        assert_eq!(free.take(1), None);
        free.put(Span { arena: 1, block: 3, start: 10, length: 9 });
        assert_eq!(free.take(9), None, "it could be found among shorter ones only by looking at each");
        assert_eq!(free.take(5), Some(Span { arena: 1, block: 3, start: 10, length: 5 }));
        assert_eq!(free.take(2), Some(Span { arena: 1, block: 3, start: 15, length: 2 }));
        assert_eq!(free.take(1), None, "a rest of two is not kept");
    }

    proptest! {
        #[test]
        fn taken_spans_do_not_overlap(lengths in vec(1..100_u32, 1..20), wanted in vec(1..60_u32, 1..60)) {
            let mut free = FreeSpans::default();
            let mut start = 0;
            for &length in &lengths {
                free.put(Span { arena: 0, block: 0, start, length });
                start += length;
            }
            let mut taken: Vec<Span> = wanted.iter().filter_map(|&length| free.take(length)).collect();
            taken.sort_unstable_by_key(|span| span.start);
            for [one, next] in taken.array_windows() {
                prop_assert!(one.start + one.length <= next.start);
            }
            prop_assert!(taken.last().is_none_or(|last| last.start + last.length <= start));
        }
    }
}
