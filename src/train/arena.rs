//! Arenas for lists of occurrences, whose spans are reused.

use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

/// A span of an arena: a contiguous list of occurrences within one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Index of the arena.
    pub(super) store: u32,
    pub(super) block: u32,
    /// Index of the first occurrence in the block.
    pub(super) start: u32,
    /// Number of occurrences.
    pub(super) length: u32,
}

/// A cursor: the position in an arena at which one occurrence is written.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) block: u32,
    /// Index in the block.
    pub(super) index: u32,
}

impl Place {
    /// A cursor at the start of a span.
    pub(super) fn first_of(room: Room) -> Place {
        Place { block: room.block, index: room.start }
    }

    /// Returns this cursor and advances it by one.
    pub(super) fn next(&mut self) -> Place {
        let next = *self;
        self.index += 1;
        next
    }
}

/// Free spans, which belonged to pairs that have been merged.
pub(super) struct FreeRooms {
    /// Free spans by the number of binary digits of their length.
    by_digits: [Vec<Room>; 33],
    /// Bit n is set if `by_digits[n]` is not empty.
    filled: u64,
}

impl Default for FreeRooms {
    fn default() -> FreeRooms {
        FreeRooms { by_digits: std::array::from_fn(|_| Vec::new()), filled: 0 }
    }
}

impl FreeRooms {
    /// Occurrences. Shorter spans are dropped: reusing them is not worth it.
    const LEAST: u32 = 4;

    /// Adds a free span.
    pub(super) fn put(&mut self, room: Room) {
        if room.length >= FreeRooms::LEAST {
            let digits = digits(room.length);
            self.by_digits[digits].push(room);
            self.filled |= 1 << digits;
        }
    }

    /// A span of `length` occurrences, cut off a free span with more binary digits, which is long enough in any
    /// case. The rest stays free.
    pub(super) fn take(&mut self, length: u32) -> Option<Room> {
        let longer = digits(length) + 1;
        let number = longer + to_usize((self.filled >> longer).trailing_zeros());
        let rooms = self.by_digits.get_mut(number)?;
        let room = rooms.pop()?;
        self.filled &= !(u64::from(rooms.is_empty()) << number);
        self.put(Room { start: room.start + length, length: room.length - length, ..room });
        Some(Room { length, ..room })
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
/// A list takes one [`Room`] of a block. Freed lists are reused before new blocks are allocated.
pub(super) struct Store<W> {
    /// Blocks never grow, so that occurrences never move. The first block has one entry, at the default cursor:
    /// occurrences of pairs that are not kept are written there, and it is never read.
    blocks: Vec<Vec<Occurrence<W>>>,
    /// Spans that can be reused.
    free: FreeRooms,
}

/// Occurrences in the first block that is allocated for pairs created by merges; each later block is twice as
/// large.
const FIRST_BLOCK: usize = 1 << 12;

/// Occurrences in the largest blocks, except for single lists that are longer.
const LAST_BLOCK: usize = 1 << 21;

impl<W: Copy + Default> Default for Store<W> {
    fn default() -> Store<W> {
        Store { blocks: vec![vec![Occurrence::default()]], free: FreeRooms::default() }
    }
}

impl<W: Copy + Default> Store<W> {
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
    pub(super) fn room(&mut self, number: usize, occurrences: u32) -> Room {
        self.free.take(occurrences).unwrap_or_else(|| self.new_room(number, occurrences))
    }

    /// Reserves a span at the end of the last block, or of a new one.
    fn new_room(&mut self, number: usize, occurrences: u32) -> Room {
        let length = to_usize(occurrences);
        let mut block = self.blocks.len() - 1;
        if self.blocks[block].len() + length > self.blocks[block].capacity() {
            let doubled = (FIRST_BLOCK << block.saturating_sub(1).min(16)).min(LAST_BLOCK);
            self.blocks.push(huge_pages::with_capacity(doubled.max(length)));
            block += 1;
        }
        let start = self.blocks[block].len();
        self.blocks[block].resize(start + length, Occurrence::default());
        Room {
            store: truncate_to_u32(number),
            block: truncate_to_u32(block),
            start: truncate_to_u32(start),
            length: occurrences,
        }
    }

    /// Frees a span that is not read any more, so that other lists can use it.
    pub(super) fn free(&mut self, room: Room) {
        self.free.put(room);
    }

    /// Writes one occurrence at a cursor.
    #[inline]
    pub(super) fn write(&mut self, to: Place, occurrence: Occurrence<W>) {
        self.blocks[to_usize(to.block)][to_usize(to.index)] = occurrence;
    }

    /// The occurrences in a span.
    #[inline]
    pub(super) fn list(&self, room: Room) -> &[Occurrence<W>] {
        &self.blocks[to_usize(room.block)][to_usize(room.start)..][..to_usize(room.length)]
    }

    /// Prefetches the first `ahead` occurrences of a span.
    pub(super) fn fetch(&self, room: Room, ahead: usize) {
        // A cache line holds at least eight.
        (0..ahead)
            .step_by(8)
            .for_each(|at| huge_pages::fetch(&self.blocks[to_usize(room.block)], to_usize(room.start) + at));
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{FreeRooms, Room};

    #[test]
    fn a_room_is_cut_off_a_longer_one() {
        let mut free = FreeRooms::default();
        assert_eq!(free.take(1), None);
        free.put(Room { store: 1, block: 3, start: 10, length: 9 });
        assert_eq!(free.take(9), None, "it could be found among shorter ones only by looking at each");
        assert_eq!(free.take(5), Some(Room { store: 1, block: 3, start: 10, length: 5 }));
        assert_eq!(free.take(2), Some(Room { store: 1, block: 3, start: 15, length: 2 }));
        assert_eq!(free.take(1), None, "two places are not worth it");
    }

    proptest! {
        #[test]
        fn rooms_that_are_taken_do_not_meet(lengths in vec(1..100_u32, 1..20), wanted in vec(1..60_u32, 1..60)) {
            let mut free = FreeRooms::default();
            let mut start = 0;
            for &length in &lengths {
                free.put(Room { store: 0, block: 0, start, length });
                start += length;
            }
            let mut taken: Vec<Room> = wanted.iter().filter_map(|&length| free.take(length)).collect();
            taken.sort_unstable_by_key(|room| room.start);
            for [one, next] in taken.array_windows() {
                prop_assert!(one.start + one.length <= next.start);
            }
            prop_assert!(taken.last().is_none_or(|last| last.start + last.length <= start));
        }
    }
}
