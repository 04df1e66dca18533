use std::cmp::Reverse;

use super::corpus::{Cell, Weight};
use super::pairs::{Pair, PairId, Pairs};
use crate::units::place;

/// A tie rule: orders pairs of equal count by a key, of which the least is merged first.
pub(super) trait Order: Send {
    /// What pairs are ordered by.
    type Key: Ord + Copy + Send;

    /// The key of a pair that occurs. It stays the same until the pair's count changes.
    fn key<W: Weight + Default>(&self, id: PairId, pairs: &Pairs<W>, cells: &[Cell]) -> Self::Key;

    /// The order of the bytes, if the rule is: by the ids of (left, right), bytes in some order before all
    /// other tokens.
    fn byte_order(&self) -> Option<&[u32; 256]> {
        None
    }

    /// A token has been made that spans `length` bytes at `position`.
    fn made(&mut self, _position: usize, _length: u32) {}
}

/// By (left, right) after the single bytes have been ordered in some way.
pub(super) struct ById {
    pub(super) byte_order: [u32; 256],
}

impl ById {
    /// Bytes by value.
    pub(super) fn value() -> ById {
        ById { byte_order: std::array::from_fn(|byte| u32::try_from(byte).expect("a byte")) }
    }

    /// Bytes in the code-point order of GPT-2's byte alphabet: 33–126, 161–172 and 174–255 stand for
    /// themselves and come first; the other 68 are moved behind them, ascending.
    pub(super) fn gpt2_alphabet() -> ById {
        let stays = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let first = (0..=255u8).filter(stays);
        let then = (0..=255u8).filter(|byte| !stays(byte));
        let mut byte_order = [0; 256];
        for (place, byte) in (0..).zip(first.chain(then)) {
            byte_order[usize::from(byte)] = place;
        }
        ById { byte_order }
    }

    pub(super) fn place_of(&self, token: u32) -> u64 {
        u64::from(self.byte_order.get(place(token)).copied().unwrap_or(token))
    }
}

impl Order for ById {
    type Key = u64;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &Pairs<W>, _cells: &[Cell]) -> u64 {
        let Pair { left, right, .. } = pairs.pair(id);
        self.place_of(left) << 32 | self.place_of(right)
    }

    fn byte_order(&self) -> Option<&[u32; 256]> {
        Some(&self.byte_order)
    }
}

/// By where the pair occurs first in the text as it stands.
///
/// An occurrence that goes takes some of the count with it, and none comes later: so the first place is
/// the same as long as the count is.
pub(super) struct ByFirstPosition;

impl Order for ByFirstPosition {
    type Key = u32;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &Pairs<W>, cells: &[Cell]) -> u32 {
        pairs.first_position(id, cells)
    }
}

/// By the bytes of (left, right), least first.
pub(super) struct ByBytes<'a> {
    bytes: &'a [u8],
    /// Where in `bytes` each token that is no single byte was made, and its length.
    made: Vec<(usize, usize)>,
}

/// A token's own bytes for each of the 256 that are single.
static SINGLE_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let (mut place, mut byte) = (0, 0u8);
    while place < 255 {
        place += 1;
        byte += 1;
        bytes[place] = byte;
    }
    bytes
};

impl<'a> ByBytes<'a> {
    /// `bytes` has the byte of each position of the corpus.
    pub(super) fn new(bytes: &'a [u8]) -> ByBytes<'a> {
        ByBytes { bytes, made: Vec::new() }
    }

    fn of(&self, token: u32) -> &'a [u8] {
        let token = place(token);
        if token < 256 {
            return &SINGLE_BYTES[token..=token];
        }
        let (start, length) = self.made[token - 256];
        &self.bytes[start..start + length]
    }
}

impl<'a> Order for ByBytes<'a> {
    type Key = (&'a [u8], &'a [u8]);

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &Pairs<W>, _cells: &[Cell]) -> Self::Key {
        let Pair { left, right, .. } = pairs.pair(id);
        (self.of(left), self.of(right))
    }

    fn made(&mut self, position: usize, length: u32) {
        self.made.push((position, place(length)));
    }
}

/// The other way round.
pub(super) struct Reversed<O>(pub(super) O);

impl<O: Order> Order for Reversed<O> {
    type Key = Reverse<O::Key>;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &Pairs<W>, cells: &[Cell]) -> Self::Key {
        Reverse(self.0.key(id, pairs, cells))
    }

    fn made(&mut self, position: usize, length: u32) {
        self.0.made(position, length);
    }
}
