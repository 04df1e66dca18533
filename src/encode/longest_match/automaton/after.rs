use std::ops::Range;

use super::Prefixes;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::encode::longest_match::follow::Misfits;
use crate::encode::longest_match::lists::Lists;

/// The empty set of tokens.
pub(super) const NO_MISFITS: u32 = 0;

/// For each token, the set of tokens that are not compatible after it. Usually there are a third as many sets as
/// tokens.
///
/// **Memory:** 4 bytes per token, 40 per set.
#[derive(Debug)]
pub(in crate::encode::longest_match) struct After {
    /// For each token, the number of its set.
    sets: Vec<u32>,
    all: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    /// The range of its intervals among those of all sets.
    misfits: Range<u32>,
    /// One bit per byte, set if a token of the set begins with the byte.
    first_bytes: [u64; 4],
}

impl After {
    /// `sets` has the number of each token's set, and `all` the sets.
    pub(in crate::encode::longest_match) fn new(
        prefixes: &Prefixes,
        sets: Vec<u32>,
        all: &Lists<Misfits>,
    ) -> After {
        let begun_by = |byte: u8| {
            let longer = prefixes.longer(Prefixes::byte(byte));
            // The single byte has the lowest number of the tokens that begin with it.
            let first = prefixes.number(longer.start - 1);
            ((first, first + 1 + truncate_to_u32(longer.len())), byte)
        };
        let mut begun_by: Vec<_> = (0..=u8::MAX).map(begun_by).collect();
        begun_by.sort_unstable();
        let set = |number: usize| {
            let Range { start, end } = all.range(truncate_to_u32(number));
            let first_bytes = first_bytes(&begun_by, all.get(truncate_to_u32(number)));
            Set { misfits: truncate_to_u32(start)..truncate_to_u32(end), first_bytes }
        };
        After { sets, all: (0..all.len()).map(set).collect() }
    }

    /// The set of tokens that are not compatible after a token.
    pub(super) fn set(&self, token: u32) -> u32 {
        self.sets[to_usize(token)]
    }

    /// The range of a set's intervals among those of all sets.
    pub(super) fn misfits(&self, set: u32) -> Range<usize> {
        let Range { start, end } = self.all[to_usize(set)].misfits;
        to_usize(start)..to_usize(end)
    }

    /// Whether a set contains a token that begins with this byte.
    pub(super) fn has_first(&self, set: u32, byte: u8) -> bool {
        self.all[to_usize(set)].first_bytes[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// One bit per byte that tokens of a set begin with. `begun_by` has the numbers of the tokens that begin with
/// each byte, in order.
fn first_bytes(begun_by: &[(Misfits, u8)], mut set: &[Misfits]) -> [u64; 4] {
    let mut bytes = [0; 4];
    for &((first, end), byte) in begun_by {
        while let Some((_, rest)) = set.split_first().filter(|(misfits, _)| misfits.1 <= first) {
            set = rest;
        }
        let some = set.first().is_some_and(|misfits| misfits.0 < end);
        bytes[usize::from(byte / 64)] |= u64::from(some) << (byte % 64);
    }
    bytes
}
