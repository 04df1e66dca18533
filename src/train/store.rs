//! Arenas for lists of occurrences.

use super::rooms::{FreeRooms, Place, Room};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

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
