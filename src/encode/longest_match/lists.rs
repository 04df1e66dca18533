use std::ops::Range;

use super::follow::Misfits;
use crate::index::HashIndex;
use crate::pages;
use crate::units::{amount, low32, place};

/// Short lists, of which no two are equal, by their numbers.
#[derive(Debug)]
pub(super) struct Lists<T> {
    items: Vec<T>,
    /// Where each ends, and the next begins.
    ends: Vec<u32>,
    index: HashIndex,
}

/// What lists are made of.
pub(super) trait Item: Copy + Eq {
    /// A hash of it, or all of it.
    fn bits(self) -> u64;
}

impl Item for Misfits {
    fn bits(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

impl<T: Item> Lists<T> {
    /// With this list as number 0.
    pub(super) fn new(first: &[T]) -> Lists<T> {
        let mut lists = Lists { items: Vec::new(), ends: Vec::new(), index: HashIndex::default() };
        lists.number(first);
        lists
    }

    /// How many items all of them have.
    pub(super) fn items(&self) -> usize {
        self.items.len()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, number: u32) -> &[T] {
        &self.items[self.range(number)]
    }

    /// Where the items of a list stand among all.
    pub(super) fn range(&self, number: u32) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[place(before)]);
        place(start)..place(self.ends[place(number)])
    }

    /// Tells the processor that this item will be needed soon.
    pub(super) fn fetch(&self, at: usize) {
        pages::fetch(&self.items, at);
    }

    pub(super) fn item(&self, at: usize) -> T {
        self.items[at]
    }

    /// The items of all lists, one list behind the other.
    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }

    /// The number of a list, which may be new.
    pub(super) fn number(&mut self, list: &[T]) -> u32 {
        let hash = list.iter().fold(amount(list.len()), |hash, item| mixed(hash ^ item.bits()));
        // The index numbers from one on.
        if let Some(known) = self.index.find(hash, |known| self.get(low32(known - 1)) == list) {
            return low32(known - 1);
        }
        self.items.extend_from_slice(list);
        self.ends.push(low32(self.items.len()));
        self.index.insert(hash, self.len()).expect("a full table comes first");
        low32(self.len() - 1)
    }
}

/// A hash whose high bits depend on all bits.
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}
