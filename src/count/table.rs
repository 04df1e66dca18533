use std::hash::Hasher;
use std::ops::Range;

use rustc_hash::FxHasher;

use crate::units::{Count, amount, place64};

/// Longest piece that is its own key in a [`Short`]; almost all are.
const SHORT: usize = 15;
const FIRST_SLOTS: usize = 1 << 10;

/// Distinct pieces with their counts and the places where they first appeared, in no order.
///
/// Pieces up to 15 bytes are keys of 16 bytes in an open-addressed table; longer ones lie in an arena,
/// behind an index.
///
/// **Memory:** 64 to 128 bytes for each distinct piece, and the bytes of those over 15.
pub(super) struct PieceTable {
    slots: Vec<Short>,
    used: usize,
    pub(super) longs: Longs,
}

/// A piece of at most 15 bytes: the bytes, zeros, and in the last byte the length; all zero is no piece.
#[derive(Clone, Copy, Default)]
pub(super) struct Short {
    low: u64,
    high: u64,
    pub(super) count: Count,
    pub(super) first: u64,
}

/// The longer pieces.
#[derive(Default)]
pub(super) struct Longs {
    index: HashIndex,
    pub(super) list: Vec<Long>,
    arena: Vec<u8>,
}

/// A piece of more than 15 bytes.
#[derive(Clone)]
pub(super) struct Long {
    pub(super) hash: u64,
    bytes: Range<usize>,
    pub(super) count: Count,
    pub(super) first: u64,
}

/// A count has passed 2⁶⁴.
pub(super) struct Overflow;

impl Short {
    /// The key of a piece of a text. Reading 16 bytes at once and masking is much cheaper than copying
    /// a number of bytes that varies.
    #[inline]
    fn key(text: &[u8], piece: &Range<usize>) -> (u64, u64) {
        let length = piece.end - piece.start;
        let bytes = match text[piece.start..].first_chunk::<16>() {
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; 16];
                bytes[..length].copy_from_slice(&text[piece.clone()]);
                bytes
            }
        };
        let both = u128::from_le_bytes(bytes) & ((1 << (8 * length)) - 1) | u128::from(amount(length)) << 120;
        let [low, high] = halves(both);
        (low, high)
    }

    #[inline]
    pub(super) fn hash(&self) -> u64 {
        hash_of_key(self.low, self.high)
    }

    /// Calls `take` with the bytes of the piece.
    pub(super) fn with_bytes<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        take(&bytes[..usize::from(bytes[15])])
    }
}

#[inline]
fn halves(both: u128) -> [u64; 2] {
    let bytes = both.to_le_bytes();
    let (halves, _) = bytes.as_chunks::<8>();
    [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
}

/// Makes every bit of the result depend on every bit of the number.
#[inline]
fn mix(number: u64) -> u64 {
    let [low, high] = halves(u128::from(number) * 0x9E37_79B9_7F4A_7C15_u128);
    low ^ high
}

#[inline]
fn hash_of_key(low: u64, high: u64) -> u64 {
    mix(low ^ high.wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29))
}

/// The hash of bytes of any length, by which [`HashIndex`] finds them.
pub(super) fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    mix(hasher.finish())
}

impl PieceTable {
    pub(super) fn new() -> PieceTable {
        PieceTable { slots: vec![Short::default(); FIRST_SLOTS], used: 0, longs: Longs::default() }
    }

    /// Counts a piece of a text, `count` times more, which stands at the place `first` of the corpus;
    /// earlier calls are for earlier places.
    #[inline]
    pub(super) fn add(
        &mut self,
        text: &[u8],
        piece: Range<usize>,
        count: Count,
        first: u64,
    ) -> Result<(), Overflow> {
        if piece.end - piece.start <= SHORT {
            let (low, high) = Short::key(text, &piece);
            self.add_short(Short { low, high, count, first })
        } else {
            let bytes = &text[piece];
            self.longs.add(bytes, hash_of_bytes(bytes), count, first)
        }
    }

    /// Counts what a table has counted elsewhere.
    #[inline]
    pub(super) fn add_short(&mut self, new: Short) -> Result<(), Overflow> {
        let last = self.slots.len() - 1;
        let mut at = place64(new.hash()) & last;
        loop {
            let slot = &mut self.slots[at];
            if (slot.low, slot.high) == (new.low, new.high) {
                slot.count = slot.count.checked_add(new.count).ok_or(Overflow)?;
                slot.first = slot.first.min(new.first);
                return Ok(());
            }
            if slot.high == 0 {
                *slot = new;
                self.used += 1;
                if self.used * 2 > self.slots.len() {
                    self.grow();
                }
                return Ok(());
            }
            at = (at + 1) & last;
        }
    }

    fn grow(&mut self) {
        let mut slots = vec![Short::default(); self.slots.len() * 2];
        let last = slots.len() - 1;
        for short in self.shorts() {
            let mut at = place64(short.hash()) & last;
            while slots[at].high != 0 {
                at = (at + 1) & last;
            }
            slots[at] = *short;
        }
        self.slots = slots;
    }

    /// Bytes of all distinct pieces together.
    pub(super) fn bytes(&self) -> usize {
        let shorts = self.shorts().map(|short| short.with_bytes(<[u8]>::len));
        shorts.sum::<usize>() + self.longs.arena.len()
    }

    /// The pieces of at most 15 bytes.
    pub(super) fn shorts(&self) -> impl Iterator<Item = &Short> {
        self.slots.iter().filter(|slot| slot.high != 0)
    }
}

impl Longs {
    /// As [`PieceTable::add`], for a piece of any length with its hash.
    pub(super) fn add(&mut self, bytes: &[u8], hash: u64, count: Count, first: u64) -> Result<(), Overflow> {
        let Longs { index, list, arena } = self;
        if let Some(number) = index.find(hash, |number| &arena[list[number].bytes.clone()] == bytes) {
            let long = &mut list[number];
            long.count = long.count.checked_add(count).ok_or(Overflow)?;
            long.first = long.first.min(first);
            return Ok(());
        }
        index.insert(hash, list.len());
        let start = arena.len();
        arena.extend_from_slice(bytes);
        list.push(Long { hash, bytes: start..arena.len(), count, first });
        Ok(())
    }

    /// The bytes of a piece of the list.
    pub(super) fn bytes(&self, long: &Long) -> &[u8] {
        &self.arena[long.bytes.clone()]
    }
}

/// Finds numbered things by their hash. The things themselves lie elsewhere.
#[derive(Default)]
pub(super) struct HashIndex {
    /// Hash, and number + 1; 0 is no thing.
    slots: Vec<(u64, usize)>,
    used: usize,
}

impl HashIndex {
    /// The number of the thing that has this hash and is the `same`.
    pub(super) fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        let mut at = place64(hash) & last;
        loop {
            let (other, number) = self.slots[at];
            let number = number.checked_sub(1)?;
            if other == hash && same(number) {
                return Some(number);
            }
            at = (at + 1) & last;
        }
    }

    /// Adds a thing that is not there yet.
    pub(super) fn insert(&mut self, hash: u64, number: usize) {
        if (self.used + 1) * 2 > self.slots.len() {
            let slots = vec![(0, 0); (self.slots.len() * 2).max(64)];
            for (hash, number) in std::mem::replace(&mut self.slots, slots) {
                if number > 0 {
                    self.place(hash, number);
                }
            }
        }
        self.place(hash, number + 1);
        self.used += 1;
    }

    fn place(&mut self, hash: u64, stored: usize) {
        let last = self.slots.len() - 1;
        let mut at = place64(hash) & last;
        while self.slots[at].1 != 0 {
            at = (at + 1) & last;
        }
        self.slots[at] = (hash, stored);
    }
}
