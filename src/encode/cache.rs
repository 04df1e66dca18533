use crate::units::{TokenId, amount, place64};

/// Pieces up to this length are remembered.
const PIECE: usize = 15;
/// Up to so many tokens of a piece are remembered.
const IDS: usize = 4;
/// Slots of a worker's cache: at 32 bytes each, 2 MiB.
pub(super) const SLOTS: usize = 1 << 16;

/// Where the piece's length stands in a key: 15 bytes of text below it.
const LENGTH_AT: u32 = 120;
/// Where the number of ids stands, above the length.
const COUNT_AT: u32 = 124;
const KEY: u128 = (1 << COUNT_AT) - 1;

/// The tokens of short pieces met before, one piece a slot; a new piece takes the slot of an old one.
///
/// Keys are the pieces themselves, so a hit is never wrong.
///
/// **Memory:** 32 bytes a slot, whatever the text.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Box<[Slot]>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The key, and above it how many ids there are. 0 is free: no piece is empty.
    tag: u128,
    ids: [TokenId; IDS],
}

impl Cache {
    /// A cache of so many slots, a power of two of at least 2.
    pub(super) fn new(slots: usize) -> Cache {
        let free = Slot { tag: 0, ids: [TokenId::default(); IDS] };
        Cache { slots: vec![free; slots].into(), shift: u64::BITS - slots.trailing_zeros() }
    }

    /// The tokens of the piece with this key, if they are remembered.
    pub(super) fn get(&self, key: u128) -> Option<&[TokenId]> {
        let slot = &self.slots[self.home(key)];
        (slot.tag & KEY == key).then(|| &slot.ids[..place64(low64(slot.tag >> COUNT_AT))])
    }

    /// Remembers the tokens of the piece with this key, if they are few enough.
    pub(super) fn put(&mut self, key: u128, tokens: &[TokenId]) {
        let mut ids = [TokenId::default(); IDS];
        if let Some(first) = ids.get_mut(..tokens.len()) {
            first.copy_from_slice(tokens);
            let tag = key | u128::from(amount(tokens.len())) << COUNT_AT;
            self.slots[self.home(key)] = Slot { tag, ids };
        }
    }

    fn home(&self, key: u128) -> usize {
        let mixed = low64(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low64(key >> 64);
        place64(mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> self.shift)
    }
}

/// The key of the piece `text[start..end]`, if it is short enough to be remembered.
pub(super) fn key(text: &[u8], start: usize, end: usize) -> Option<u128> {
    let length = end - start;
    if length > PIECE {
        return None;
    }
    // One load of fixed size, even where it reads past the piece, is quicker than a copy of any size.
    let word = match text[start..].first_chunk() {
        Some(chunk) => u128::from_le_bytes(*chunk) & ((1 << (8 * length)) - 1),
        None => {
            let mut chunk = [0; 16];
            chunk[..length].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(chunk)
        }
    };
    Some(word | u128::from(amount(length)) << LENGTH_AT)
}

fn low64(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).expect("the mask leaves 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_length_and_bytes_apart_and_nothing_else() {
        let text = b"ab\0\0cab\0 and more than sixteen bytes, then ab\0";
        let at = |start, end| key(text, start, end);
        assert_eq!(at(0, 2), at(5, 7));
        assert_eq!(at(5, 8), at(text.len() - 3, text.len()));
        assert_ne!(at(0, 2), at(0, 3));
        assert_ne!(at(0, 3), at(0, 4));
        assert!(at(0, 15).is_some());
        assert_eq!(at(0, 16), None);
    }

    #[test]
    fn a_piece_is_found_until_another_takes_its_slot() {
        let mut cache = Cache::new(2);
        let ids = |numbers: &[u32]| numbers.iter().map(|&id| TokenId::new(id)).collect::<Vec<_>>();
        let keys: Vec<u128> = (0..8).filter_map(|start| key(b"abcdefgh", start, start + 1)).collect();
        for (number, &key) in (0..).zip(&keys) {
            assert_eq!(cache.get(key), None);
            cache.put(key, &ids(&[number; 4]));
            assert_eq!(cache.get(key), Some(&*ids(&[number; 4])));
        }
        assert!(keys.iter().filter(|&&key| cache.get(key).is_some()).count() <= 2);
        cache.put(keys[0], &ids(&[7; 5]));
        assert_ne!(cache.get(keys[0]), Some(&*ids(&[7; 5])));
    }
}
