use std::cmp::Ordering;

use super::fault::Fault;
use crate::split::{SHORT, ShortPiece, halves};
use crate::units::{Count, amount, place, place64};

/// What the last byte of a longer piece's key is; of a short one's it is the length.
const LONG: u64 = 0xFF;

/// A longer piece's place: its arena in so many bits, and where in it in those below.
const ARENA_BITS: u32 = 16;
const START_BITS: u32 = 40;

const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// Sixteen bytes that stand for a piece. A short one's are its bytes, zeros, and its length; a longer
/// one's are its hash and the place of its bytes in an [`Arena`]. All zero is no piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// A piece with how often it occurs, and where first. Two of them fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) count: Count,
    pub(super) first: u64,
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

    /// The key of a piece; that of a longer one without its place, which makes it no key of a table.
    pub(super) fn new(piece: &[u8]) -> Key {
        if piece.len() > SHORT {
            return Key { low: hash_of_bytes(piece), high: u64::MAX };
        }
        Key::from(ShortPiece::new(piece))
    }

    /// This key of a longer piece, with a place.
    fn at(self, arena: u16, start: u64) -> Key {
        Key { high: LONG << 56 | u64::from(arena) << START_BITS | start, ..self }
    }

    /// The same key for a piece whose arena is now one of several; short pieces are in none.
    pub(super) fn in_arena(self, arena: u16) -> Key {
        self.place().map_or(self, |(_, start)| self.at(arena, amount(start)))
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.high == 0
    }

    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high >> 56 == LONG
    }

    /// The arena and the start in it of a longer piece.
    #[inline]
    fn place(self) -> Option<(usize, usize)> {
        const LOW: fn(u64, u32) -> u64 = |number, bits| number & ((1 << bits) - 1);
        let (arena, start) = (LOW(self.high >> START_BITS, ARENA_BITS), LOW(self.high, START_BITS));
        self.is_long().then_some((place64(arena), place64(start)))
    }

    /// The hash, of which tables take the high bits. Multiplying brings every bit of the key into those.
    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        if self.is_long() { self.low } else { self.hash_of_short() }
    }

    /// The same for a key that is known to be a short piece's.
    #[inline(always)]
    pub(super) fn hash_of_short(self) -> u64 {
        ShortPiece { low: self.low, high: self.high }.hash()
    }

    /// Whether this is the key of the piece of the bytes given, whose key without a place is `other`.
    #[inline]
    pub(super) fn is(self, other: Key, bytes: &[u8], arenas: &[Arena]) -> bool {
        if self.low != other.low {
            return false;
        }
        match self.place() {
            None => self.high == other.high,
            Some((arena, start)) => other.is_long() && arenas[arena].piece(start) == bytes,
        }
    }

    /// Whether both are keys of the same piece. An arena, far from here, is looked into only where hashes are equal.
    #[inline]
    pub(super) fn same(self, other: Key, arenas: &[Arena]) -> bool {
        self.low == other.low && self.is(other, other.long_bytes(arenas), arenas)
    }

    /// The order of the pieces' bytes.
    #[inline]
    pub(super) fn compare(self, other: Key, arenas: &[Arena]) -> Ordering {
        if self.is_long() || other.is_long() {
            let mut rooms = [[0; 16]; 2];
            let [one, two] = &mut rooms;
            return self.bytes(one, arenas).cmp(other.bytes(two, arenas));
        }
        // The zeros behind a piece come before any byte, and the length decides where it ends in zeros.
        let big_endian = |key: Key| (key.low.swap_bytes(), key.high.swap_bytes());
        big_endian(self).cmp(&big_endian(other))
    }

    /// How many bytes the piece has.
    #[inline]
    pub(super) fn length(self, arenas: &[Arena]) -> usize {
        if self.is_long() { self.long_bytes(arenas).len() } else { place64(self.high >> 56) }
    }

    /// The bytes of a longer piece; none of a short one.
    #[inline]
    pub(super) fn long_bytes(self, arenas: &[Arena]) -> &[u8] {
        self.place().map_or(&[], |(arena, start)| arenas[arena].piece(start))
    }

    /// The bytes of the piece; those of a short one in `room`.
    #[inline]
    pub(super) fn bytes<'a>(self, room: &'a mut [u8; 16], arenas: &'a [Arena]) -> &'a [u8] {
        if let Some((arena, start)) = self.place() {
            return arenas[arena].piece(start);
        }
        room[..8].copy_from_slice(&self.low.to_le_bytes());
        room[8..].copy_from_slice(&self.high.to_le_bytes());
        &room[..usize::from(room[15])]
    }
}

impl Entry {
    /// Adds to the count, or tells by `false` that it would pass 2⁶⁴.
    #[inline(always)]
    pub(super) fn add(&mut self, more: Count) -> bool {
        let Some(sum) = self.count.checked_add(more) else { return false };
        self.count = sum;
        true
    }
}

impl Entry {
    /// Adds what was counted elsewhere of the same piece.
    ///
    /// # Errors
    /// The count would pass 2⁶⁴.
    pub(super) fn unite(&mut self, other: &Entry, arenas: &[Arena]) -> Result<(), Fault> {
        self.first = self.first.min(other.first);
        if self.add(other.count) {
            return Ok(());
        }
        Err(Fault::Overflow { piece: self.key.bytes(&mut [0; 16], arenas).to_vec() })
    }
}

/// So many bytes are reserved for longer pieces. Where an arena grows by copying, what was copied stays in the
/// allocator's hands, and the memory of a table would be up to that much more than it says.
const RESERVED: usize = 64 << 20;

/// The bytes of longer pieces, each behind its length in four bytes.
#[derive(Debug, Default)]
pub(super) struct Arena(Vec<u8>);

impl Arena {
    /// Adds the bytes of a piece, whose key without a place is given, and gives the key with the place.
    ///
    /// # Panics
    /// At a terabyte of longer pieces, or one of 4 GiB, which no splitter gives.
    pub(super) fn push(&mut self, key: Key, bytes: &[u8]) -> Key {
        if self.0.capacity() == 0 {
            // What is reserved and not touched is no memory yet. Where even that is refused, growing copies.
            let _ = self.0.try_reserve_exact(RESERVED);
        }
        let start = amount(self.0.len());
        assert!((start + 1) >> START_BITS == 0, "a terabyte of distinct pieces");
        let length = u32::try_from(bytes.len()).expect("places in a text have 32 bits");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        key.at(0, start)
    }

    /// Forgets all pieces, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes that it holds.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn piece(&self, start: usize) -> &[u8] {
        let (length, rest) = self.0[start..].split_first_chunk().expect("a length precedes each piece");
        &rest[..place(u32::from_le_bytes(*length))]
    }
}

/// Both halves of the product, so that every bit of the result depends on every bit of the factors.
#[inline(always)]
fn product(one: u64, other: u64) -> u64 {
    let [low, high] = halves(&(u128::from(one) * u128::from(other)).to_le_bytes());
    low ^ high
}

/// The hash of bytes of any length.
#[inline]
pub(super) fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let take = |hash: u64, chunk: &[u8; 16]| {
        let [low, high] = halves(chunk);
        product(low ^ hash, high ^ MULTIPLIERS[0])
    };
    let (chunks, rest) = bytes.as_chunks();
    let hash = chunks.iter().fold(amount(bytes.len()) ^ MULTIPLIERS[1], take);
    let last = bytes.last_chunk().copied().unwrap_or_else(|| {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        last
    });
    take(hash, &last)
}
