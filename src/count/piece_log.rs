use super::pieces::nth;
use crate::units::{amount, place64};

/// So many bytes are reserved for each list. Where one grows by copying, what was copied stays in the allocator's
/// hands, and the memory of a table would be up to that much more than it says.
const RESERVED: usize = 64 << 20;

/// The distinct pieces of a table in order of first appearance, numbered from 0 on, with where that was.
///
/// **Memory:** the bytes of the pieces and 16 for each.
#[derive(Debug, Default)]
pub(super) struct PieceLog {
    pub(super) bytes: Vec<u8>,
    /// Where in `bytes` each piece ends.
    pub(super) ends: Vec<usize>,
    /// Where in the corpus each piece first appears.
    pub(super) firsts: Vec<u64>,
}

impl PieceLog {
    /// Appends a piece that first appears at a place, and gives its number.
    pub(super) fn push(&mut self, piece: &[u8], first: u64) -> u64 {
        if self.ends.capacity() == 0 {
            self.reserve();
        }
        let number = amount(self.ends.len());
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
        self.firsts.push(first);
        number
    }

    #[cold]
    fn reserve(&mut self) {
        // What is reserved and not touched is no memory yet. Where even that is refused, growing copies.
        let _ = self.bytes.try_reserve_exact(RESERVED);
        let _ = self.ends.try_reserve_exact(RESERVED / size_of::<usize>());
        let _ = self.firsts.try_reserve_exact(RESERVED / size_of::<u64>());
    }

    /// The piece of a number.
    #[inline]
    pub(super) fn piece(&self, number: u64) -> &[u8] {
        nth(&self.bytes, &self.ends, place64(number))
    }

    /// Where the piece of a number first appears.
    #[inline]
    pub(super) fn first(&self, number: u64) -> u64 {
        self.firsts[place64(number)]
    }

    /// Bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&self.ends[..]) + size_of_val(&self.firsts[..])
    }

    /// Forgets all pieces, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.firsts.clear();
    }
}
