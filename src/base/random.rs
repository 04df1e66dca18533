//! Random numbers from a seed, the same on every machine: SplitMix64.

use super::int::to_f64;
#[cfg(feature = "data")]
use super::int::{to_u64, u64_to_usize};

/// Increment of the state from number to number.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of random numbers from a seed.
#[derive(Clone)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// The sequence of this seed, from its first number on.
    pub(crate) fn of(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// A number from 0 to below 1, a multiple of 2⁻⁵³. All are equally likely.
    pub(crate) fn fraction(&mut self) -> f64 {
        const STEPS: u64 = 1 << 53;
        to_f64(self.next() >> 11) / to_f64(STEPS)
    }

    /// A number below `length`. All are equally likely, up to a deviation of `length` / 2⁶⁴.
    #[cfg(feature = "data")]
    pub(crate) fn below(&mut self, length: usize) -> usize {
        let scaled = (u128::from(self.next()) * u128::from(to_u64(length))) >> 64;
        u64_to_usize(u64::try_from(scaled).expect("the upper half of a product of two 64-bit numbers"))
    }
}

/// The first random number of a seed. Every bit of it depends on every bit of the seed.
pub(crate) fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the seed 1234567 according to the author's program in C.
    #[test]
    fn they_are_those_of_split_mix() {
        let mut random = SeededRandom::of(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first.map(|_| random.next()), first);
    }
}
