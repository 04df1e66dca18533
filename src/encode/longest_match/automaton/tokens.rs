use super::lanes::{LANES, WINDOW};
use super::{After, Found, LONGEST, Later, MOST_BEGUN, Prefixes};
use crate::base::int::truncate_to_u32;
use crate::encode::longest_match::follow::{Misfits, Order};
use crate::vocab::Vocabulary;

/// The early tokens of a vocabulary, which the automaton finds, and what the late merges make of them.
///
/// **Memory:** 17 bytes per prefix of an early token, about 100 per early token, and that of [`Later`].
#[derive(Debug)]
pub(in crate::encode::longest_match) struct Tokens {
    pub(super) prefixes: Prefixes,
    pub(super) after: After,
    /// The intervals of all sets of incompatible tokens.
    misfits: Box<[Misfits]>,
    /// Length of each early token in bytes.
    lengths: Box<[u32]>,
    pub(super) later: Later,
}

impl Tokens {
    /// Uses at most `early_merges` merges for the early tokens. `None` if one of these is too long, or if they
    /// have too many incompatible pairs.
    pub(in crate::encode::longest_match) fn new(
        vocabulary: &Vocabulary,
        early_merges: usize,
    ) -> Option<Tokens> {
        let (early, later) = Later::new(vocabulary, early_merges)?;
        let order = Order::new(&early);
        let prefixes = Prefixes::new(&early, |token| order.number(token));
        if prefixes.longest() > LONGEST {
            return None;
        }
        let (sets_after, sets) = order.sets_after()?;
        let after = After::new(&prefixes, sets_after, &sets);
        let lengths = early.ordinary().map(|(_, bytes)| truncate_to_u32(bytes.len())).collect();
        Some(Tokens { prefixes, after, misfits: sets.into_items().into(), lengths, later })
    }

    /// Number of early tokens.
    pub(in crate::encode::longest_match) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether all tokens are early.
    pub(in crate::encode::longest_match) fn are_all(&self) -> bool {
        self.len() == self.later.tokens()
    }

    /// Bytes per lane between two checks of whether the automaton is full. At most as many as a window of a long
    /// text has, so that there are never [too many states](super::steps::MOST_STATES).
    pub(super) fn bytes_at_a_time(&self) -> usize {
        (MOST_BEGUN / self.prefixes.longest() / LANES).min(WINDOW)
    }

    /// The intervals of one of the sets of tokens that are not compatible after a token.
    pub(super) fn misfits(&self, set: u32) -> &[Misfits] {
        &self.misfits[self.after.misfits(set)]
    }

    /// Length of a token in bytes.
    #[inline(always)]
    pub(super) fn length(&self, found: Found) -> usize {
        found.length(&self.lengths)
    }
}
