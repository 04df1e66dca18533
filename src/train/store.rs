use super::rooms::{FreeRooms, Place, Room};
use crate::pages;
use crate::units::{low32, place};

/// Where a pair occurs, and how much that counts.
#[derive(Clone, Copy, Default)]
pub(super) struct Occurrence<W> {
    pub(super) position: u32,
    pub(super) weight: W,
}

/// Lists of occurrences. Each of the threads that merge a pair together writes to a store of its own.
pub(super) struct Store<W> {
    /// Blocks never grow, so that what was written is not moved. The first has one place, the default one, to which
    /// occurrences of pairs that are not kept are written, and which is never read.
    blocks: Vec<Vec<Occurrence<W>>>,
    free: FreeRooms,
}

/// Occurrences in the first block that is made for pairs that are born; the next are larger.
const FIRST_BLOCK: usize = 1 << 12;

/// Occurrences in the blocks that are made later.
const LAST_BLOCK: usize = 1 << 21;

impl<W: Copy + Default> Default for Store<W> {
    fn default() -> Store<W> {
        Store { blocks: vec![vec![Occurrence::default()]], free: FreeRooms::default() }
    }
}

impl<W: Copy + Default> Store<W> {
    /// Takes a block, in which there may be room, and gives its number.
    pub(super) fn push(&mut self, block: Vec<Occurrence<W>>) -> u32 {
        self.blocks.push(block);
        low32(self.blocks.len() - 1)
    }

    /// Fills a block that was empty.
    pub(super) fn fill(&mut self, number: u32, block: Vec<Occurrence<W>>) {
        self.blocks[place(number)] = block;
    }

    /// Room for so many occurrences; `number` is that of this store.
    pub(super) fn room(&mut self, number: usize, occurrences: u32) -> Room {
        self.free.take(occurrences).unwrap_or_else(|| self.new_room(number, occurrences))
    }

    fn new_room(&mut self, number: usize, occurrences: u32) -> Room {
        let length = place(occurrences);
        let mut block = self.blocks.len() - 1;
        if self.blocks[block].len() + length > self.blocks[block].capacity() {
            let doubled = (FIRST_BLOCK << block.saturating_sub(1).min(16)).min(LAST_BLOCK);
            self.blocks.push(pages::with_capacity(doubled.max(length)));
            block += 1;
        }
        let start = self.blocks[block].len();
        self.blocks[block].resize(start + length, Occurrence::default());
        Room { store: low32(number), block: low32(block), start: low32(start), length: occurrences }
    }

    /// A room is read no more: other lists may stand there.
    pub(super) fn free(&mut self, room: Room) {
        self.free.put(room);
    }

    /// Writes one occurrence into a room.
    #[inline]
    pub(super) fn write(&mut self, to: Place, occurrence: Occurrence<W>) {
        self.blocks[place(to.block)][place(to.index)] = occurrence;
    }

    /// What stands in a room.
    #[inline]
    pub(super) fn list(&self, room: Room) -> &[Occurrence<W>] {
        &self.blocks[place(room.block)][place(room.start)..][..place(room.length)]
    }

    /// Asks for the first occurrences of a room, `ahead` of them.
    pub(super) fn fetch(&self, room: Room, ahead: usize) {
        // A line of the processor's cache has eight or more.
        (0..ahead)
            .step_by(8)
            .for_each(|at| pages::fetch(&self.blocks[place(room.block)], place(room.start) + at));
    }
}
