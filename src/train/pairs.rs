use std::ops::Range;

use super::corpus::{Cell, Corpus, SEPARATOR, Weight, fetch_around};
use super::rooms::{Place, Room};
use super::store::{Occurrence, Store};
use crate::pages;
use crate::units::{low32, place};

/// Names a pair that is kept in [`Pairs`]; [`NOT_KEPT`] is none.
pub(super) type PairId = u32;

/// Stands where no pair is kept: at the last token of a sequence, inside a token, and for pairs that
/// occur too seldom to matter.
pub(super) const NOT_KEPT: PairId = 0;

/// So many occurrences ahead a cell is fetched: about what memory takes over what an occurrence takes.
pub(super) const AHEAD: usize = 24;

/// Which pairs are worth keeping.
#[derive(Clone, Copy)]
pub(super) struct Keep {
    /// Those that occur this often or more,
    pub(super) threshold: u64,
    /// and whose token would have so many bytes or fewer.
    pub(super) longest: usize,
}

/// A share of how often a pair occurs that is the last to be merged as it seems; rarer ones are not kept at first.
const LAST_SHARE: u64 = 4;

impl Keep {
    /// Whether it is worth keeping a pair that occurs so often and whose token would have so many bytes.
    pub(super) fn wants(self, count: u64, bytes: usize) -> bool {
        count >= self.threshold && bytes <= self.longest
    }

    /// No more than so many merges need, given how often each pair occurs.
    ///
    /// Of n merges, the last one's pair occurs about as often as the n-th of the pairs that there are now: 70 times and
    /// 77 after 31 000 merges on 60 MB of mail. Others come to be that are as frequent, and take away as many.
    pub(super) fn for_merges(self, merges: usize, counts: impl ExactSizeIterator<Item = u64>) -> Keep {
        if merges == 0 || counts.len() < merges {
            return self;
        }
        let mut counts: Vec<u64> = counts.collect();
        let (_, last, _) = counts.select_nth_unstable_by(merges - 1, |one, other| other.cmp(one));
        Keep { threshold: self.threshold.max(*last / LAST_SHARE), ..self }
    }
}

/// A pair of tokens and where its occurrences are listed.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) left: u32,
    pub(super) right: u32,
    /// Where among all rooms this pair's begin, and how many there are.
    first_room: u32,
    rooms: u32,
}

/// The pairs worth keeping, their counts, and where they occur.
///
/// After the step that creates the newer of its two tokens a pair's count only falls, because an
/// occurrence can only appear where one of its tokens is written. So the occurrences of a pair are
/// written once, all in one step, ascending, in one place; and a pair that is born below the threshold
/// need not be kept at all.
///
/// The pair that begins at a position is named there, in its [`Cell`]: what a merge does to its
/// neighbours' counts needs no look-up by tokens, and an occurrence is live exactly if its position still
/// names its pair.
///
/// **Memory:** 4 bytes an occurrence, or 8 where sequences have weights; at most one for each position at
/// first, and two more for every merged occurrence as merges go, which stand in the rooms of merged pairs
/// where these are long enough.
pub(super) struct Pairs<W> {
    /// Which are worth it.
    pub(super) keep: Keep,
    pairs: Vec<Pair>,
    counts: Vec<u64>,
    rooms: Vec<Room>,
    pub(super) stores: Vec<Store<W>>,
}

/// Room for so many pairs, or merges, costs nothing until it is used, and growing up to it would.
pub(super) const AT_FIRST: usize = 1 << 16;

impl<W: Weight + Default> Pairs<W> {
    /// No pair at all but the one that stands for those not kept, with room for so many occurrences.
    pub(super) fn with_room(keep: Keep, occurrences: usize) -> Pairs<W> {
        let mut pairs = Pairs {
            keep,
            pairs: Vec::with_capacity(AT_FIRST),
            counts: Vec::with_capacity(AT_FIRST),
            rooms: Vec::with_capacity(AT_FIRST),
            stores: vec![Store::default()],
        };
        pairs.stores[0].push(pages::with_capacity(occurrences));
        pairs.add(SEPARATOR, SEPARATOR, 0);
        pairs
    }

    /// Adds a pair, whose occurrences have no room yet.
    pub(super) fn add(&mut self, left: u32, right: u32, count: u64) -> PairId {
        let id = low32(self.pairs.len());
        self.pairs.push(Pair { left, right, first_room: low32(self.rooms.len()), rooms: 0 });
        self.counts.push(count);
        id
    }

    /// Gives the pair that was added last a room, behind those that it has.
    pub(super) fn add_room(&mut self, room: Room) {
        self.rooms.push(room);
        if let Some(last) = self.pairs.last_mut() {
            last.rooms += 1;
        }
    }

    /// Gives it room for so many occurrences in a store, and tells the place of the first.
    pub(super) fn make_room(&mut self, store: usize, occurrences: u32) -> Place {
        let room = self.stores[store].room(store, occurrences);
        self.add_room(room);
        Place::first_of(room)
    }

    #[inline]
    pub(super) fn pair(&self, id: PairId) -> Pair {
        self.pairs[place(id)]
    }

    #[inline]
    pub(super) fn count(&self, id: PairId) -> u64 {
        self.counts[place(id)]
    }

    /// The kept pairs.
    pub(super) fn ids(&self) -> impl Iterator<Item = PairId> {
        1..low32(self.pairs.len())
    }

    /// A pair occurs less often by `weight`.
    ///
    /// Wraps for [`NOT_KEPT`] alone, whose count means nothing.
    #[inline]
    pub(super) fn lower(&mut self, id: PairId, weight: u64) {
        let count = &mut self.counts[place(id)];
        debug_assert!(id == NOT_KEPT || *count >= weight, "a pair cannot occur less often than never");
        *count = count.wrapping_sub(weight);
    }

    /// A pair occurs no more.
    pub(super) fn ends(&mut self, id: PairId) {
        self.counts[place(id)] = 0;
    }

    /// The list of a pair is read no more: others may stand there.
    pub(super) fn free_rooms(&mut self, id: PairId) {
        let Pair { first_room, rooms, .. } = self.pairs[place(id)];
        for room in &self.rooms[place(first_room)..][..place(rooms)] {
            self.stores[place(room.store)].free(*room);
        }
    }

    /// How many occurrences the list of a pair has.
    pub(super) fn listed(&self, id: PairId) -> usize {
        self.rooms_of(id).iter().map(|room| place(room.length)).sum()
    }

    /// Where a pair occurred when it was born, ascending, in stretches.
    #[inline]
    pub(super) fn occurrences(&self, id: PairId) -> impl Iterator<Item = &[Occurrence<W>]> {
        self.rooms_of(id).iter().map(|room| self.stores[place(room.store)].list(*room))
    }

    /// Those of the occurrences whose numbers are in a range.
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

    #[inline]
    fn rooms_of(&self, id: PairId) -> &[Room] {
        let Pair { first_room, rooms, .. } = self.pairs[place(id)];
        &self.rooms[place(first_room)..][..place(rooms)]
    }

    /// Fetches what merging upcoming pairs will read, the nearest pair first: of each one more link of the chain
    /// that leads from its name to the cells where it occurs, each of which is known only from the one before.
    pub(super) fn fetch(
        &self,
        [cells_of, list_of, room_of, pair_of]: [Option<PairId>; 4],
        Corpus { cells, spans, .. }: &Corpus<W>,
    ) {
        if let Some(id) = pair_of {
            pages::fetch(&self.pairs, place(id));
        }
        if let Some(id) = room_of {
            pages::fetch(&self.rooms, place(self.pair(id).first_room));
        }
        if let Some(id) = list_of {
            let room = self.rooms[place(self.pair(id).first_room)];
            self.stores[place(room.store)].fetch(room, AHEAD);
        }
        if let Some(id) = cells_of {
            let Pair { left, right, .. } = self.pair(id);
            let span = place(spans[place(left)] + spans[place(right)]);
            let first = self.occurrences(id).flatten().take(AHEAD);
            first.for_each(|occurrence| fetch_around(cells, place(occurrence.position), span));
        }
    }

    /// Where a pair occurs first in the text as it stands. It must occur.
    pub(super) fn first_position(&self, id: PairId, cells: &[Cell]) -> u32 {
        let live = |occurrence: &&Occurrence<W>| cells[place(occurrence.position)].pair == id;
        let first = self.occurrences(id).flatten().find(live);
        first.expect("a pair with a count above zero occurs somewhere").position
    }
}
