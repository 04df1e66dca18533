//! The pre-tokens of a table in order of first appearance.

use super::pretokens::nth;
use crate::base::int::{to_u64, u64_to_usize};

/// Bytes (64 MiB) of address space reserved for each list, so that it grows in place. If a list grows by copying, the
/// allocator keeps the old copy, and a table takes up to that much more memory than it reports.
const RESERVED: usize = 64 << 20;

/// The distinct pre-tokens of a table in order of first appearance, numbered from 0 on.
///
/// **Memory:** the bytes of the pre-tokens and 16 for each.
#[derive(Debug, Default)]
pub(super) struct PretokenLog {
    /// The concatenated bytes of the pre-tokens.
    pub(super) bytes: Vec<u8>,
    /// The end of each pre-token in `bytes`.
    pub(super) ends: Vec<usize>,
    /// The position in the corpus at which each pre-token first appears, ascending.
    pub(super) firsts: Vec<u64>,
}

impl PretokenLog {
    /// Appends a pre-token that first appears at the position `first`, and returns its number.
    pub(super) fn push(&mut self, pretoken: &[u8], first: u64) -> u64 {
        if self.ends.capacity() == 0 {
            self.reserve();
        }
        let number = to_u64(self.ends.len());
        self.bytes.extend_from_slice(pretoken);
        self.ends.push(self.bytes.len());
        self.firsts.push(first);
        number
    }

    /// Reserves the lists of a log that is used for the first time.
    #[cold]
    fn reserve(&mut self) {
        // Reserved memory takes no physical memory until it is touched. If reserving fails, growing copies.
        let _ = self.bytes.try_reserve_exact(RESERVED);
        let _ = self.ends.try_reserve_exact(RESERVED / size_of::<usize>());
        let _ = self.firsts.try_reserve_exact(RESERVED / size_of::<u64>());
    }

    /// Returns the pre-token with this number.
    #[inline]
    pub(super) fn pretoken(&self, number: u64) -> &[u8] {
        nth(&self.bytes, &self.ends, u64_to_usize(number))
    }

    /// Returns the first position of the pre-token with this number.
    #[inline]
    pub(super) fn first(&self, number: u64) -> u64 {
        self.firsts[u64_to_usize(number)]
    }

    /// Returns the memory in bytes, without unused capacity.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&self.ends[..]) + size_of_val(&self.firsts[..])
    }

    /// Removes all pre-tokens and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.firsts.clear();
    }
}
