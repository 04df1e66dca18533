//! Spans of arenas, and the free list from which spans are reused.

use crate::base::int::to_usize;

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
