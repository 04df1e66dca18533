use super::blocks::Engine;
use crate::units::amount;

/// Rounds that are looked at together: single ones differ much.
const ROUNDS: usize = 8;

/// If so many rounds are likely to do all that is left, making lists is not worth it.
const FEW_ROUNDS: usize = 60;

/// Merging one occurrence by lists costs as much as scanning about so many codes, finding it for the lists
/// included. Where caches do not hold the text it is more or less the same from 150 to 500 with AVX-512, and the
/// later lists are made the less memory they take.
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

/// Tells when scanning ceases to be worth it.
#[derive(Default)]
pub(super) struct Worth {
    rounds: [Round; ROUNDS],
    next: usize,
}

#[derive(Clone, Copy, Default)]
struct Round {
    merges: usize,
    occurrences: u64,
    codes: u64,
}

impl Worth {
    /// Takes note of a round: how many pairs it merges, how often they occur, and the codes it scans.
    pub(super) fn note(&mut self, merges: usize, occurrences: u64, codes: u64) {
        self.rounds[self.next % ROUNDS] = Round { merges, occurrences, codes };
        self.next += 1;
    }

    /// Whether so many more merges would cost less with lists, where merging an occurrence costs as much as
    /// scanning so many codes.
    pub(super) fn lists_are_cheaper(&self, wanted: usize, codes_a_merge: u64) -> bool {
        if self.next < ROUNDS {
            return false;
        }
        let merges: usize = self.rounds.iter().map(|round| round.merges).sum();
        let occurrences: u64 = self.rounds.iter().map(|round| round.occurrences).sum();
        let codes: u64 = self.rounds.iter().map(|round| round.codes).sum();
        let few = amount(wanted).saturating_mul(amount(ROUNDS)) <= amount(merges) * amount(FEW_ROUNDS);
        occurrences.saturating_mul(codes_a_merge) < codes && !few
    }
}
