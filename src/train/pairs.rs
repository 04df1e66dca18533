//! Pairs, their counts, and the lists of their occurrences.

use std::ops::Range;

use super::arena::{Occurrence, Store};
use super::arena::{Place, Room};
use super::corpus::{Cell, Corpus, NOT_KEPT, PairId, SEPARATOR, Weight, fetch_around};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

/// Occurrences by which cells are prefetched ahead: about the latency of memory divided by the time that one
/// occurrence takes.
pub(super) const AHEAD: usize = 24;

/// Which pairs are worth keeping.
#[derive(Clone, Copy)]
pub(super) struct Keep {
    /// Minimum count.
    pub(super) threshold: u64,
    /// Maximum length in bytes of the token that the pair makes.
    pub(super) longest: usize,
}

/// Divisor of the estimated count of the last pair to be merged. Pairs below that share are not kept at first.
const LAST_SHARE: u64 = 4;

impl Keep {
    /// Whether to keep a pair that occurs `count` times and makes a token of `bytes` bytes.
    pub(super) fn wants(self, count: u64, bytes: usize) -> bool {
        count >= self.threshold && bytes <= self.longest
    }

    /// Raises the threshold so that only about as many pairs are kept as `merges` merges need, given the counts
    /// of all pairs.
    ///
    /// The last of n merges has a pair that occurs about as often as the n-th most frequent pair of the present
    /// text: 70 and 77 times for n = 31 000 on 60 MB of mail. Merges create new pairs that are as frequent, and
    /// use up about as many. A margin of [`LAST_SHARE`] allows for the error of this estimate.
    pub(super) fn for_merges(self, merges: usize, counts: impl ExactSizeIterator<Item = u64>) -> Keep {
        if merges == 0 || counts.len() < merges {
            return self;
        }
        let mut counts: Vec<u64> = counts.collect();
        let (_, last, _) = counts.select_nth_unstable_by(merges - 1, |one, other| other.cmp(one));
        Keep { threshold: self.threshold.max(*last / LAST_SHARE), ..self }
    }
}

/// A pair of tokens, and the spans of the arenas that list its occurrences.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// Id of the left token.
    pub(super) left: u32,
    /// Id of the right token.
    pub(super) right: u32,
    /// Index of the pair's first span in [`Pairs::rooms`], and the number of its spans.
    first_room: u32,
    rooms: u32,
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
pub(super) struct Pairs<W> {
    /// Which pairs are worth keeping.
    pub(super) keep: Keep,
    /// Tokens and spans of each pair, by id.
    pairs: Vec<Pair>,
    /// Current count of each pair, by id.
    counts: Vec<u64>,
    /// The spans of all pairs, those of one pair in a row.
    rooms: Vec<Room>,
    /// Arenas for occurrences, one for each thread that merges.
    pub(super) stores: Vec<Store<W>>,
}

/// Initial capacity in pairs. Unused capacity costs nothing, and growing step by step would copy.
const INITIAL_CAPACITY: usize = 1 << 16;

impl<W: Weight + Default> Pairs<W> {
    /// No pair except the placeholder [`NOT_KEPT`], with memory for `occurrences` occurrences.
    pub(super) fn with_room(keep: Keep, occurrences: usize) -> Pairs<W> {
        let mut pairs = Pairs {
            keep,
            pairs: Vec::with_capacity(INITIAL_CAPACITY),
            counts: Vec::with_capacity(INITIAL_CAPACITY),
            rooms: Vec::with_capacity(INITIAL_CAPACITY),
            stores: vec![Store::default()],
        };
        pairs.stores[0].push(huge_pages::with_capacity(occurrences));
        pairs.add(SEPARATOR, SEPARATOR, 0);
        pairs
    }

    /// Adds a pair without memory for its occurrences, and returns its id.
    pub(super) fn add(&mut self, left: u32, right: u32, count: u64) -> PairId {
        let id = truncate_to_u32(self.pairs.len());
        self.pairs.push(Pair { left, right, first_room: truncate_to_u32(self.rooms.len()), rooms: 0 });
        self.counts.push(count);
        id
    }

    /// Gives the pair that was added last one more span, after those that it has.
    pub(super) fn add_room(&mut self, room: Room) {
        self.rooms.push(room);
        if let Some(last) = self.pairs.last_mut() {
            last.rooms += 1;
        }
    }

    /// Reserves memory for `occurrences` occurrences of the pair that was added last, in the arena with index
    /// `store`. Returns the cursor for the first.
    pub(super) fn make_room(&mut self, store: usize, occurrences: u32) -> Place {
        let room = self.stores[store].room(store, occurrences);
        self.add_room(room);
        Place::first_of(room)
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
    pub(super) fn lower(&mut self, id: PairId, weight: u64) {
        let count = &mut self.counts[to_usize(id)];
        debug_assert!(id == NOT_KEPT || *count >= weight, "a pair cannot occur less often than never");
        *count = count.wrapping_sub(weight);
    }

    /// Sets the count of a pair to 0.
    pub(super) fn ends(&mut self, id: PairId) {
        self.counts[to_usize(id)] = 0;
    }

    /// Frees the list of a pair, which must not be read again: its memory can be reused for other lists.
    pub(super) fn free_rooms(&mut self, id: PairId) {
        let Pair { first_room, rooms, .. } = self.pairs[to_usize(id)];
        for room in &self.rooms[to_usize(first_room)..][..to_usize(rooms)] {
            self.stores[to_usize(room.store)].free(*room);
        }
    }

    /// Number of listed occurrences of a pair, live or not.
    pub(super) fn listed(&self, id: PairId) -> usize {
        self.rooms_of(id).iter().map(|room| to_usize(room.length)).sum()
    }

    /// The listed occurrences of a pair, which are those at the time when it was created: slices in ascending
    /// order.
    #[inline]
    pub(super) fn occurrences(&self, id: PairId) -> impl Iterator<Item = &[Occurrence<W>]> {
        self.rooms_of(id).iter().map(|room| self.stores[to_usize(room.store)].list(*room))
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
    fn rooms_of(&self, id: PairId) -> &[Room] {
        let Pair { first_room, rooms, .. } = self.pairs[to_usize(id)];
        &self.rooms[to_usize(first_room)..][..to_usize(rooms)]
    }

    /// Prefetches what merging the upcoming pairs will read; the first argument is the nearest pair. To reach
    /// the cells of a pair, the processor follows a chain: pair, span, list, cells. Each link is known only
    /// when the one before has been read, so each upcoming pair is advanced by one link at a time.
    pub(super) fn fetch(
        &self,
        [cells_of, list_of, room_of, pair_of]: [Option<PairId>; 4],
        Corpus { cells, spans, .. }: &Corpus<W>,
    ) {
        if let Some(id) = pair_of {
            huge_pages::fetch(&self.pairs, to_usize(id));
        }
        if let Some(id) = room_of {
            huge_pages::fetch(&self.rooms, to_usize(self.pair(id).first_room));
        }
        if let Some(id) = list_of {
            let room = self.rooms[to_usize(self.pair(id).first_room)];
            self.stores[to_usize(room.store)].fetch(room, AHEAD);
        }
        if let Some(id) = cells_of {
            let Pair { left, right, .. } = self.pair(id);
            let span = to_usize(spans[to_usize(left)] + spans[to_usize(right)]);
            let first = self.occurrences(id).flatten().take(AHEAD);
            first.for_each(|occurrence| fetch_around(cells, to_usize(occurrence.position), span));
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
