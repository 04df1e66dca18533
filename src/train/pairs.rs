//! Pairs, their counts, and the lists of their occurrences.

use std::ops::Range;

use super::arena::{Arena, Occurrence};
use super::arena::{Cursor, Span};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight, prefetch_around};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

/// Occurrences by which cells are prefetched ahead: about the latency of memory divided by the time that one
/// occurrence takes.
pub(super) const PREFETCH_DISTANCE: usize = 24;

/// Which pairs are worth keeping.
#[derive(Clone, Copy)]
pub(super) struct KeepRule {
    /// Minimum count.
    pub(super) threshold: u64,
    /// Maximum length in bytes of the token that the pair makes.
    pub(super) longest: usize,
}

/// Divisor of the estimated count of the last pair to be merged. Pairs below that share are not kept at first.
const MIN_COUNT_DIVISOR: u64 = 4;

impl KeepRule {
    /// Whether to keep a pair that occurs `count` times and makes a token of `bytes` bytes.
    pub(super) fn keeps(self, count: u64, bytes: usize) -> bool {
        count >= self.threshold && bytes <= self.longest
    }

    /// Raises the threshold so that only about as many pairs are kept as `merges` merges need, given the counts
    /// of all pairs.
    ///
    /// The last of n merges has a pair that occurs about as often as the n-th most frequent pair of the present
    /// text: 70 and 77 times for n = 31 000 on 60 MB of mail. Merges create new pairs that are as frequent, and
    /// use up about as many. A margin of [`MIN_COUNT_DIVISOR`] allows for the error of this estimate.
    pub(super) fn for_merges(self, merges: usize, counts: impl ExactSizeIterator<Item = u64>) -> KeepRule {
        if merges == 0 || counts.len() < merges {
            return self;
        }
        let mut counts: Vec<u64> = counts.collect();
        let (_, last, _) = counts.select_nth_unstable_by(merges - 1, |one, other| other.cmp(one));
        KeepRule { threshold: self.threshold.max(*last / MIN_COUNT_DIVISOR), ..self }
    }
}

/// A pair of tokens, and the spans of the arenas that list its occurrences.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// Id of the left token.
    pub(super) left: u32,
    /// Id of the right token.
    pub(super) right: u32,
    /// Index of the pair's first span in [`KeptPairs::spans`], and the number of its spans.
    first_span: u32,
    spans: u32,
}

/// The pairs worth keeping, their counts, and where they occur.
///
/// After the step that creates the newer of its two tokens, the count of a pair only falls, because a new
/// occurrence can appear only where one of its tokens is written. So the occurrences of a pair are written
/// once: all in one step, in ascending order, in contiguous memory. And a pair that is created with a count
/// below the threshold need not be kept at all.
///
/// The id of the pair that begins at a position is stored there, in its [`Cell`]. So a merge updates the counts
/// of the neighbouring pairs without looking pairs up by their tokens, and an occurrence is live exactly if its
/// position still has the id of its pair.
///
/// **Memory:** 4 bytes per occurrence, or 8 where sequences have weights. At first the lists have at most one
/// occurrence per position; then each merged occurrence adds up to two, which reuse the memory of merged pairs
/// where that is large enough.
pub(super) struct KeptPairs<W> {
    /// Which pairs are worth keeping.
    pub(super) keep: KeepRule,
    /// Tokens and spans of each pair, by id.
    pairs: Vec<Pair>,
    /// Current count of each pair, by id.
    counts: Vec<u64>,
    /// The spans of all pairs, those of one pair in a row.
    spans: Vec<Span>,
    /// Arenas for occurrences, one for each thread that merges.
    pub(super) arenas: Vec<Arena<W>>,
}

/// Initial capacity in pairs. Unused capacity costs nothing, and growing step by step would copy.
const INITIAL_CAPACITY: usize = 1 << 16;

impl<W: Weight + Default> KeptPairs<W> {
    /// No pair except the placeholder [`NOT_KEPT`], with memory for `occurrences` occurrences.
    pub(super) fn with_capacity(keep: KeepRule, occurrences: usize) -> KeptPairs<W> {
        let mut pairs = KeptPairs {
            keep,
            pairs: Vec::with_capacity(INITIAL_CAPACITY),
            counts: Vec::with_capacity(INITIAL_CAPACITY),
            spans: Vec::with_capacity(INITIAL_CAPACITY),
            arenas: vec![Arena::default()],
        };
        pairs.arenas[0].push(huge_pages::with_capacity(occurrences));
        pairs.add(SEPARATOR, SEPARATOR, 0);
        pairs
    }

    /// Adds a pair without memory for its occurrences, and returns its id.
    pub(super) fn add(&mut self, left: u32, right: u32, count: u64) -> PairId {
        let id = truncate_to_u32(self.pairs.len());
        self.pairs.push(Pair { left, right, first_span: truncate_to_u32(self.spans.len()), spans: 0 });
        self.counts.push(count);
        id
    }

    /// Gives the pair that was added last one more span, after those that it has.
    pub(super) fn add_span(&mut self, span: Span) {
        self.spans.push(span);
        if let Some(last) = self.pairs.last_mut() {
            last.spans += 1;
        }
    }

    /// Reserves memory for `occurrences` occurrences of the pair that was added last, in the arena with index
    /// `arena`. Returns the cursor for the first.
    pub(super) fn reserve(&mut self, arena: usize, occurrences: u32) -> Cursor {
        let span = self.arenas[arena].span(arena, occurrences);
        self.add_span(span);
        Cursor::start_of(span)
    }

    /// The tokens and spans of a pair.
    #[inline]
    pub(super) fn pair(&self, id: PairId) -> Pair {
        self.pairs[to_usize(id)]
    }

    /// The current count of a pair.
    #[inline]
    pub(super) fn count(&self, id: PairId) -> u64 {
        self.counts[to_usize(id)]
    }

    /// The ids of all kept pairs.
    pub(super) fn ids(&self) -> impl Iterator<Item = PairId> {
        1..truncate_to_u32(self.pairs.len())
    }

    /// Lowers the count of a pair by `weight`. The count of [`NOT_KEPT`] may wrap; it means nothing.
    #[inline]
    pub(super) fn lower_count(&mut self, id: PairId, weight: u64) {
        let count = &mut self.counts[to_usize(id)];
        debug_assert!(id == NOT_KEPT || *count >= weight, "a pair cannot occur less often than never");
        *count = count.wrapping_sub(weight);
    }

    /// Sets the count of a pair to 0.
    pub(super) fn clear_count(&mut self, id: PairId) {
        self.counts[to_usize(id)] = 0;
    }

    /// Frees the list of a pair, which must not be read again: its memory can be reused for other lists.
    pub(super) fn free_spans(&mut self, id: PairId) {
        let Pair { first_span, spans, .. } = self.pairs[to_usize(id)];
        for span in &self.spans[to_usize(first_span)..][..to_usize(spans)] {
            self.arenas[to_usize(span.arena)].free(*span);
        }
    }

    /// Number of listed occurrences of a pair, live or not.
    pub(super) fn listed(&self, id: PairId) -> usize {
        self.spans_of(id).iter().map(|span| to_usize(span.length)).sum()
    }

    /// The listed occurrences of a pair, which are those at the time when it was created: slices in ascending
    /// order.
    #[inline]
    pub(super) fn occurrences(&self, id: PairId) -> impl Iterator<Item = &[Occurrence<W>]> {
        self.spans_of(id).iter().map(|span| self.arenas[to_usize(span.arena)].list(*span))
    }

    /// The listed occurrences with indices in `range`, in slices.
    #[inline]
    pub(super) fn listed_in(
        &self,
        id: PairId,
        range: Range<usize>,
    ) -> impl Iterator<Item = &[Occurrence<W>]> {
        let mut before = 0;
        self.occurrences(id).map(move |list| {
            let within = |number: usize| number.saturating_sub(before).min(list.len());
            let part = within(range.start)..within(range.end);
            before += list.len();
            &list[part]
        })
    }

    /// The spans that list the occurrences of a pair.
    #[inline]
    fn spans_of(&self, id: PairId) -> &[Span] {
        let Pair { first_span, spans, .. } = self.pairs[to_usize(id)];
        &self.spans[to_usize(first_span)..][..to_usize(spans)]
    }

    /// Prefetches what merging the upcoming pairs will read; the first argument is the nearest pair. To reach
    /// the cells of a pair, the processor follows a chain: pair, span, list, cells. Each link is known only
    /// when the one before has been read, so each upcoming pair is advanced by one link at a time.
    pub(super) fn prefetch(
        &self,
        [cells_of, list_of, span_of, pair_of]: [Option<PairId>; 4],
        Corpus { cells, widths, .. }: &Corpus<W>,
    ) {
        if let Some(id) = pair_of {
            huge_pages::fetch(&self.pairs, to_usize(id));
        }
        if let Some(id) = span_of {
            huge_pages::fetch(&self.spans, to_usize(self.pair(id).first_span));
        }
        if let Some(id) = list_of {
            let span = self.spans[to_usize(self.pair(id).first_span)];
            self.arenas[to_usize(span.arena)].prefetch(span, PREFETCH_DISTANCE);
        }
        if let Some(id) = cells_of {
            let Pair { left, right, .. } = self.pair(id);
            let width = to_usize(widths[to_usize(left)] + widths[to_usize(right)]);
            let first = self.occurrences(id).flatten().take(PREFETCH_DISTANCE);
            first.for_each(|occurrence| prefetch_around(cells, to_usize(occurrence.position), width));
        }
    }

    /// Position of the first occurrence of a pair in the current text.
    ///
    /// # Panics
    /// If the pair does not occur.
    pub(super) fn first_position(&self, id: PairId, cells: &[Cell]) -> u32 {
        let live = |occurrence: &&Occurrence<W>| cells[to_usize(occurrence.position)].pair == id;
        let first = self.occurrences(id).flatten().find(live);
        first.expect("a pair with a count above zero occurs somewhere").position
    }
}
