//! Keys and entries of the hash table. A key contains a short pre-token itself, so that most lookups read one cache
//! line.

use std::cmp::Ordering;

use super::pretoken_log::PretokenLog;
use crate::base::int::Count;
use crate::base::seeded_hash::Hashing;
use crate::split::{SHORT, ShortPretoken};

/// The last byte in the key of a long pre-token. In the key of a short one, the last byte is the length.
const LONG: u64 = 0xFF;

/// Bits below the last byte in the high half of a key. In the key of a long pre-token they are its number.
const NUMBER_BITS: u32 = 56;

/// The 16-byte key of a pre-token.
///
/// A short pre-token, of at most [`SHORT`] bytes, has a key of its bytes, zeros, and its length. A longer one has a
/// key of its hash and its number in a [`PretokenLog`]. The all-zero key is no pre-token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// An entry of the hash table: the key of a pre-token, its count, and its number in the log of the table. Two entries
/// fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Entry {
    pub(super) key: Key,
    count: Count,
    pub(super) number: u64,
}

impl From<ShortPretoken> for Key {
    #[inline(always)]
    fn from(ShortPretoken { low, high }: ShortPretoken) -> Key {
        Key { low, high }
    }
}

impl Key {
    /// Returns the key of the pre-token `text[start..start + length]`, which has at most [`SHORT`] bytes.
    #[inline(always)]
    pub(super) fn of_short(text: &[u8], start: usize, length: usize) -> Key {
        Key::from(ShortPretoken::within(text, start, length))
    }

    /// Returns the key of a pre-token. The key of a long one has no number yet, so it cannot be stored in a table.
    pub(super) fn new(pretoken: &[u8], hashing: Hashing) -> Key {
        if pretoken.len() > SHORT {
            return Key { low: hashing.bytes(pretoken), high: u64::MAX };
        }
        Key::from(ShortPretoken::new(pretoken))
    }

    /// Returns this key with the number of the pre-token, if that is a long one.
    pub(super) fn numbered(self, number: u64) -> Key {
        if self.is_long() { Key { high: LONG << NUMBER_BITS | number, ..self } } else { self }
    }

    /// Returns whether this is the key of no pre-token, that of a free slot.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.high == 0
    }

    /// Returns whether this is the key of a long pre-token.
    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high >> NUMBER_BITS == LONG
    }

    /// Returns the number of a long pre-token.
    #[inline]
    fn number(self) -> Option<u64> {
        self.is_long().then_some(self.high & ((1 << NUMBER_BITS) - 1))
    }

    /// Returns the hash. Tables use its high bits.
    #[inline(always)]
    pub(super) fn hash(self, hashing: Hashing) -> u64 {
        if self.is_long() { self.low } else { self.hash_of_short(hashing) }
    }

    /// Returns the hash of a key that is known to be that of a short pre-token.
    #[inline(always)]
    pub(super) fn hash_of_short(self, hashing: Hashing) -> u64 {
        hashing.halves([self.low, self.high])
    }

    /// Returns whether this is the key of the pre-token `bytes`. `other` is the key of `bytes`; its number is
    /// ignored.
    #[inline]
    pub(super) fn is(self, other: Key, bytes: &[u8], log: &PretokenLog) -> bool {
        if self.low != other.low {
            return false;
        }
        match self.number() {
            None => self.high == other.high,
            Some(number) => other.is_long() && log.pretoken(number) == bytes,
        }
    }

    /// Returns whether this key and one with a number in another log have the same pre-token. If the hashes differ,
    /// no log is read, which saves cache misses.
    #[inline]
    pub(super) fn same(self, log: &PretokenLog, other: Key, others: &PretokenLog) -> bool {
        let bytes = || other.number().map_or(&[][..], |number| others.pretoken(number));
        self.low == other.low && self.is(other, bytes(), log)
    }

    /// Compares the bytes of two pre-tokens of one log.
    #[inline]
    pub(super) fn compare(self, other: Key, log: &PretokenLog) -> Ordering {
        if self.is_long() || other.is_long() {
            return self.spelled(log).as_ref().cmp(other.spelled(log).as_ref());
        }
        // The zeros after a pre-token are less than, or equal to, any byte. The length, in the last byte, decides
        // between pre-tokens that differ only in zeros at the end.
        let big_endian = |key: Key| (key.low.swap_bytes(), key.high.swap_bytes());
        big_endian(self).cmp(&big_endian(other))
    }

    /// Returns the bytes of the pre-token. The log is read for long ones only.
    #[inline]
    pub(super) fn spelled(self, log: &PretokenLog) -> Spelled<'_> {
        match self.number() {
            Some(number) => Spelled::Longer(log.pretoken(number)),
            None => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.low.to_le_bytes());
                bytes[8..].copy_from_slice(&self.high.to_le_bytes());
                Spelled::Short(bytes)
            }
        }
    }
}

/// The bytes of a pre-token.
pub(super) enum Spelled<'a> {
    /// The bytes of a short one, with their number in the last byte.
    Short([u8; 16]),
    /// The bytes of a long one, from the log.
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
    /// Creates an entry.
    pub(super) fn new(key: Key, count: Count, number: u64) -> Entry {
        Entry { key, count, number }
    }

    /// Returns the count of the pre-token; zero for a free slot.
    pub(super) fn count(&self) -> Count {
        self.count
    }

    /// Adds to the count. Returns `false` and changes nothing if the sum would exceed 2⁶⁴ − 1.
    #[inline(always)]
    pub(super) fn add(&mut self, more: Count) -> bool {
        let Some(sum) = self.count.checked_add(more) else { return false };
        self.count = sum;
        true
    }
}
