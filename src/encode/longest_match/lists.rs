use std::ops::Range;

use super::follow::Misfits;
use crate::base::hash::HashIndex;
use crate::base::huge_pages;
use crate::base::int::{to_u64, to_usize, truncate_to_u32};

/// Short lists without duplicates, each identified by a number.
#[derive(Debug)]
pub(super) struct Lists<T> {
    items: Vec<T>,
    /// The end of each list in `items`, where the next one begins.
    ends: Vec<u32>,
    index: HashIndex,
}

/// An item of such lists.
pub(super) trait Item: Copy + Eq {
    /// The item as a number, or a hash of it.
    fn bits(self) -> u64;
}

impl Item for Misfits {
    fn bits(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

impl<T: Item> Lists<T> {
    /// Creates the lists, with `first` as number 0.
    pub(super) fn new(first: &[T]) -> Lists<T> {
        let mut lists = Lists { items: Vec::new(), ends: Vec::new(), index: HashIndex::default() };
        lists.number(first);
        lists
    }

    /// Number of items in all lists.
    pub(super) fn items(&self) -> usize {
        self.items.len()
    }

    /// Number of lists.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The list with this number.
    pub(super) fn get(&self, number: u32) -> &[T] {
        &self.items[self.range(number)]
    }

    /// The range of a list among the items of all lists.
    pub(super) fn range(&self, number: u32) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[to_usize(before)]);
        to_usize(start)..to_usize(self.ends[to_usize(number)])
    }

    /// Prefetches the item at an index.
    pub(super) fn fetch(&self, at: usize) {
        huge_pages::fetch(&self.items, at);
    }

    /// The item at an index.
    pub(super) fn item(&self, at: usize) -> T {
        self.items[at]
    }

    /// The items of all lists, concatenated.
    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }

    /// The number of a list; adds it if it is new.
    pub(super) fn number(&mut self, list: &[T]) -> u32 {
        let hash = list.iter().fold(to_u64(list.len()), |hash, item| mixed(hash ^ item.bits()));
        // The index uses numbers from 1 on.
        if let Some(known) = self.index.find(hash, |known| self.get(truncate_to_u32(known - 1)) == list) {
            return truncate_to_u32(known - 1);
        }
        self.items.extend_from_slice(list);
        self.ends.push(truncate_to_u32(self.items.len()));
        self.index.insert(hash, self.len()).expect("a full table comes first");
        truncate_to_u32(self.len() - 1)
    }
}

/// A hash with high bits that depend on all bits.
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}
