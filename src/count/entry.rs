use std::cmp::Ordering;

use super::piece_log::PieceLog;
use crate::hashing::Hashing;
use crate::split::{SHORT, ShortPiece};
use crate::units::Count;

/// What the last byte of a longer piece's key is; of a short one's it is the length.
const LONG: u64 = 0xFF;

/// Bits below the last byte of a key's higher half: of a longer piece's, its number.
const NUMBER_BITS: u32 = 56;

/// Sixteen bytes that stand for a piece. A short one's are its bytes, zeros, and its length; a longer
/// one's are its hash and its number in a [`PieceLog`]. All zero is no piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// A piece with how often it occurs, and its number in the log of its table. Two of them fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Entry {
    pub(super) key: Key,
    count: Count,
    pub(super) number: u64,
}

impl From<ShortPiece> for Key {
    #[inline(always)]
    fn from(ShortPiece { low, high }: ShortPiece) -> Key {
        Key { low, high }
    }
}

impl Key {
    /// The key of a piece of at most [`SHORT`] bytes that stands in a text.
    #[inline(always)]
    pub(super) fn of_short(text: &[u8], start: usize, length: usize) -> Key {
        Key::from(ShortPiece::within(text, start, length))
    }

    /// The key of a piece; that of a longer one without its number, which makes it no key of a table.
    pub(super) fn new(piece: &[u8], hashing: Hashing) -> Key {
        if piece.len() > SHORT {
            return Key { low: hashing.bytes(piece), high: u64::MAX };
        }
        Key::from(ShortPiece::new(piece))
    }

    /// This key with the piece's number, if it is a longer one.
    pub(super) fn numbered(self, number: u64) -> Key {
        if self.is_long() { Key { high: LONG << NUMBER_BITS | number, ..self } } else { self }
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.high == 0
    }

    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high >> NUMBER_BITS == LONG
    }

    /// The number of a longer piece.
    #[inline]
    fn number(self) -> Option<u64> {
        self.is_long().then_some(self.high & ((1 << NUMBER_BITS) - 1))
    }

    /// The hash, of which tables take the high bits.
    #[inline(always)]
    pub(super) fn hash(self, hashing: Hashing) -> u64 {
        if self.is_long() { self.low } else { self.hash_of_short(hashing) }
    }

    /// The same for a key that is known to be a short piece's.
    #[inline(always)]
    pub(super) fn hash_of_short(self, hashing: Hashing) -> u64 {
        hashing.halves([self.low, self.high])
    }

    /// Whether this is the key of the piece of the bytes given, whose key is `other`; the number in that does not count.
    #[inline]
    pub(super) fn is(self, other: Key, bytes: &[u8], log: &PieceLog) -> bool {
        if self.low != other.low {
            return false;
        }
        match self.number() {
            None => self.high == other.high,
            Some(number) => other.is_long() && log.piece(number) == bytes,
        }
    }

    /// Whether this is the key of the same piece as one whose number is of another log. Neither log, far from here, is
    /// looked into where hashes differ.
    #[inline]
    pub(super) fn same(self, log: &PieceLog, other: Key, others: &PieceLog) -> bool {
        let bytes = || other.number().map_or(&[][..], |number| others.piece(number));
        self.low == other.low && self.is(other, bytes(), log)
    }

    /// The order of the pieces' bytes.
    #[inline]
    pub(super) fn compare(self, other: Key, log: &PieceLog) -> Ordering {
        if self.is_long() || other.is_long() {
            return self.spelled(log).as_ref().cmp(other.spelled(log).as_ref());
        }
        // The zeros behind a piece come before any byte, and the length decides where it ends in zeros.
        let big_endian = |key: Key| (key.low.swap_bytes(), key.high.swap_bytes());
        big_endian(self).cmp(&big_endian(other))
    }

    /// The piece itself. The log, far from here, is looked into for longer ones only.
    #[inline]
    pub(super) fn spelled(self, log: &PieceLog) -> Spelled<'_> {
        match self.number() {
            Some(number) => Spelled::Longer(log.piece(number)),
            None => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.low.to_le_bytes());
                bytes[8..].copy_from_slice(&self.high.to_le_bytes());
                Spelled::Short(bytes)
            }
        }
    }
}

/// The bytes of a piece.
pub(super) enum Spelled<'a> {
    /// With their number in the last place.
    Short([u8; 16]),
    Longer(&'a [u8]),
}

impl AsRef<[u8]> for Spelled<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Spelled::Short(bytes) => &bytes[..usize::from(bytes[15])],
            Spelled::Longer(bytes) => bytes,
        }
    }
}

impl Entry {
    pub(super) fn new(key: Key, count: Count, number: u64) -> Entry {
        Entry { key, count, number }
    }

    /// How often the piece occurs; zero where there is none.
    pub(super) fn count(&self) -> Count {
        self.count
    }

    /// Adds to the count, or tells by `false` that it would pass 2⁶⁴.
    #[inline(always)]
    pub(super) fn add(&mut self, more: Count) -> bool {
        let Some(sum) = self.count.checked_add(more) else { return false };
        self.count = sum;
        true
    }
}
