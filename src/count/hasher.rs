use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::split::halves;
use crate::units::amount;

/// Hashes pieces by numbers that each process draws anew, so that no text can be made whose pieces all have the same hash.
/// Where entries stand depends on them, and so the time, but nothing that is counted.
///
/// Products of 128 bits, folded, as in Wang Yi's *wyhash*.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hasher([u64; 2]);

static OF_PROCESS: LazyLock<Hasher> = LazyLock::new(|| {
    let random = RandomState::new();
    Hasher([random.hash_one(0), random.hash_one(1)])
});

impl Hasher {
    /// The one of this process: hashes of several tables are compared.
    pub(super) fn of_process() -> Hasher {
        *OF_PROCESS
    }

    /// The hash of sixteen bytes, every bit of which depends on all of them.
    #[inline(always)]
    pub(super) fn halves(self, [low, high]: [u64; 2]) -> u64 {
        let [low, high] = halves(&(u128::from(low ^ self.0[0]) * u128::from(high ^ self.0[1])).to_le_bytes());
        low ^ high
    }

    /// The hash of bytes of any length.
    #[inline]
    pub(super) fn bytes(self, bytes: &[u8]) -> u64 {
        let take = |hash: u64, chunk: &[u8; 16]| {
            let [low, high] = halves(chunk);
            self.halves([low ^ hash, high])
        };
        let (chunks, rest) = bytes.as_chunks();
        let hash = chunks.iter().fold(amount(bytes.len()), take);
        let last = bytes.last_chunk().copied().unwrap_or_else(|| {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            last
        });
        take(hash, &last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::place64;

    /// Of 4 096 keys in as many places no more than 32 are in one. There might be by chance, but hardly within the age of the
    /// universe.
    fn are_spread(keys: impl Iterator<Item = [u64; 2]>) -> bool {
        let hasher = Hasher::of_process();
        let mut places = vec![0; 1 << 12];
        keys.take(1 << 12).for_each(|key| places[place64(hasher.halves(key) >> 52)] += 1);
        places.into_iter().all(|keys| keys <= 32)
    }

    #[test]
    fn hashes_of_keys_that_are_made_alike_are_spread() {
        const LENGTH: u64 = 15 << 56;
        for shift in [0, 8, 20, 44, 52] {
            assert!(are_spread((0..).map(|key| [key << shift, LENGTH])), "low halves, {shift} bits up");
        }
        for shift in [0, 8, 20, 44] {
            assert!(are_spread((0..).map(|key| [0, LENGTH | key << shift])), "high halves, {shift} bits up");
        }
        // By known numbers, as here, keys of one hash are made with ease.
        let factor = 0xD6E8_FEB8_6659_FD93_u64;
        let high = |key: u64| LENGTH | key << 11 | key;
        assert!(are_spread((0..).map(|key| [high(key).wrapping_mul(factor), high(key)])));
    }

    #[test]
    fn hashes_depend_on_all_bytes_and_the_length() {
        let hasher = Hasher::of_process();
        let bytes = [7; 70];
        for length in 1..bytes.len() {
            let hash = hasher.bytes(&bytes[..length]);
            assert_ne!(hash, hasher.bytes(&bytes[..length + 1]), "{length} bytes and one more");
            for at in 0..length {
                let mut other = bytes;
                other[at] = 8;
                assert_ne!(hash, hasher.bytes(&other[..length]), "byte {at} of {length}");
            }
        }
    }
}
