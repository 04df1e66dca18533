use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::split::{SHORT, ShortPiece, halves};
use crate::units::{Count, amount, place, place64};

/// What the last byte of a longer piece's key is; of a short one's it is the length.
const LONG: u64 = 0xFF;

/// Bits below the last byte of a key's higher half: of a longer piece's, its place in its arena.
const START_BITS: u32 = 56;

const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// Sixteen bytes that stand for a piece. A short one's are its bytes, zeros, and its length; a longer
/// one's are its hash and the place of its bytes in an [`Arena`]. All zero is no piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// A piece with how often it occurs, and where first. Two of them fill a cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(super) struct Entry {
    pub(super) key: Key,
    /// This and the next are changed by threads that share the entry only while tables are summed.
    count: AtomicU64,
    first: AtomicU64,
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

    /// This key of a longer piece, with its place in an arena.
    fn at(self, start: u64) -> Key {
        Key { high: LONG << START_BITS | start, ..self }
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.high == 0
    }

    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high >> START_BITS == LONG
    }

    /// Where in its arena a longer piece stands.
    #[inline]
    fn place(self) -> Option<usize> {
        self.is_long().then_some(place64(self.high & ((1 << START_BITS) - 1)))
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

    /// Whether this is the key of the piece of the bytes given, whose key is `other`; the place in that does not count.
    #[inline]
    pub(super) fn is(self, other: Key, bytes: &[u8], arena: &Arena) -> bool {
        if self.low != other.low {
            return false;
        }
        match self.place() {
            None => self.high == other.high,
            Some(start) => other.is_long() && arena.piece(start) == bytes,
        }
    }

    /// Whether this is the key of the same piece as one whose place is in another arena. Neither arena, far from here, is
    /// looked into where hashes differ.
    #[inline]
    pub(super) fn same(self, arena: &Arena, other: Key, others: &Arena) -> bool {
        self.low == other.low && self.is(other, other.long_bytes(others), arena)
    }

    /// The order of the pieces' bytes.
    #[inline]
    pub(super) fn compare(self, other: Key, arena: &Arena) -> Ordering {
        if self.is_long() || other.is_long() {
            let mut rooms = [[0; 16]; 2];
            let [one, two] = &mut rooms;
            return self.bytes(one, arena).cmp(other.bytes(two, arena));
        }
        // The zeros behind a piece come before any byte, and the length decides where it ends in zeros.
        let big_endian = |key: Key| (key.low.swap_bytes(), key.high.swap_bytes());
        big_endian(self).cmp(&big_endian(other))
    }

    /// How many bytes the piece has.
    #[inline]
    pub(super) fn length(self, arena: &Arena) -> usize {
        if self.is_long() { self.long_bytes(arena).len() } else { place64(self.high >> START_BITS) }
    }

    /// The bytes of a longer piece; none of a short one.
    #[inline]
    pub(super) fn long_bytes(self, arena: &Arena) -> &[u8] {
        self.place().map_or(&[], |start| arena.piece(start))
    }

    /// The bytes of the piece; those of a short one in `room`.
    #[inline]
    pub(super) fn bytes<'a>(self, room: &'a mut [u8; 16], arena: &'a Arena) -> &'a [u8] {
        if let Some(start) = self.place() {
            return arena.piece(start);
        }
        room[..8].copy_from_slice(&self.low.to_le_bytes());
        room[8..].copy_from_slice(&self.high.to_le_bytes());
        &room[..usize::from(room[15])]
    }
}

impl Entry {
    pub(super) fn new(key: Key, count: Count, first: u64) -> Entry {
        Entry { key, count: AtomicU64::new(count.get()), first: AtomicU64::new(first) }
    }

    /// How often the piece occurs; zero where there is none, or another entry counts for this one.
    pub(super) fn count(&self) -> Count {
        Count::new(self.count.load(Relaxed))
    }

    /// Where the piece first appears.
    pub(super) fn first(&self) -> u64 {
        self.first.load(Relaxed)
    }

    /// Takes over what another entry of the same piece has, or tells by `false` that the count would pass 2⁶⁴. No other
    /// thread may look at or change the count or the place of either meanwhile.
    pub(super) fn take_over(&self, other: &Entry) -> bool {
        let Some(sum) = self.count().checked_add(other.count()) else { return false };
        self.count.store(sum.get(), Relaxed);
        self.first.store(self.first().min(other.first()), Relaxed);
        other.count.store(0, Relaxed);
        true
    }

    /// Adds to the count, or tells by `false` that it would pass 2⁶⁴.
    #[inline(always)]
    pub(super) fn add(&mut self, more: Count) -> bool {
        let count = self.count.get_mut();
        let Some(sum) = count.checked_add(more.get()) else { return false };
        *count = sum;
        true
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
    /// At 64 petabytes of longer pieces, or one of 4 GiB, which no splitter gives.
    pub(super) fn push(&mut self, key: Key, bytes: &[u8]) -> Key {
        if self.0.capacity() == 0 {
            // What is reserved and not touched is no memory yet. Where even that is refused, growing copies.
            let _ = self.0.try_reserve_exact(RESERVED);
        }
        let start = amount(self.0.len());
        assert!((start + 1) >> START_BITS == 0, "more memory than there is");
        let length = u32::try_from(bytes.len()).expect("places in a text have 32 bits");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        key.at(start)
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
