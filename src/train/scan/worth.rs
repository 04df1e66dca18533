//! Decides when lists of occurrences become cheaper than scanning.

use super::blocks::Engine;
use crate::base::int::to_u64;

/// Rounds that are averaged, because single rounds differ much.
const ROUNDS: usize = 8;

/// Rounds. If no more than these are likely to do all remaining merges, building lists does not pay off.
const FEW_ROUNDS: usize = 60;

/// Cost of merging one occurrence with lists, and of finding it for them, in codes that are scanned in the same
/// time. For texts that the caches do not hold, values from 150 to 500 are about equally fast with AVX-512; and
/// the later the lists are built, the less memory they take.
pub(super) fn codes_a_merge(engine: Engine, is_cached: bool) -> u64 {
    match engine {
        _ if !is_cached => 400,
        Engine::Portable => 40,
        #[cfg(target_arch = "x86_64")]
        Engine::Avx2 => 80,
        #[cfg(target_arch = "x86_64")]
        Engine::Avx512 => 130,
    }
}

/// Decides when scanning is no longer worth it.
#[derive(Default)]
pub(super) struct Worth {
    /// The last rounds, in a ring.
    rounds: [Round; ROUNDS],
    /// Number of rounds so far.
    next: usize,
}

/// The costs of one round.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Number of pairs merged.
    merges: usize,
    /// Number of their occurrences.
    occurrences: u64,
    /// Number of codes scanned.
    codes: u64,
}

impl Worth {
    /// Records a round: the number of pairs that it merges, the number of their occurrences, and the number of
    /// codes that it scans.
    pub(super) fn note(&mut self, merges: usize, occurrences: u64, codes: u64) {
        self.rounds[self.next % ROUNDS] = Round { merges, occurrences, codes };
        self.next += 1;
    }

    /// Whether `wanted` more merges would take less time with lists, if merging one occurrence with them takes
    /// as long as scanning `codes_a_merge` codes.
    pub(super) fn lists_are_cheaper(&self, wanted: usize, codes_a_merge: u64) -> bool {
        if self.next < ROUNDS {
            return false;
        }
        let merges: usize = self.rounds.iter().map(|round| round.merges).sum();
        let occurrences: u64 = self.rounds.iter().map(|round| round.occurrences).sum();
        let codes: u64 = self.rounds.iter().map(|round| round.codes).sum();
        let few = to_u64(wanted).saturating_mul(to_u64(ROUNDS)) <= to_u64(merges) * to_u64(FEW_ROUNDS);
        occurrences.saturating_mul(codes_a_merge) < codes && !few
    }
}
