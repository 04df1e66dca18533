use super::lanes::{LANES, WINDOW};
use super::{After, Found, LONGEST, Later, MOST_BEGUN, Prefixes};
use crate::encode::longest_match::follow::{Misfits, Order};
use crate::units::low32;
use crate::vocab::Vocabulary;

/// The early tokens of a vocabulary, which an automaton finds, and what later merges make of them.
///
/// **Memory:** 17 bytes for each prefix of an early token, some 100 for each early token, and that of [`Later`].
#[derive(Debug)]
pub(in crate::encode::longest_match) struct Tokens {
    pub(super) prefixes: Prefixes,
    pub(super) after: After,
    /// The tokens of all sets of those that do not fit.
    misfits: Box<[Misfits]>,
    lengths: Box<[u32]>,
    pub(super) later: Later,
}

impl Tokens {
    /// With at most so many merges for the early ones; `None` if one of these is too long, or if there are too many
    /// that do not fit.
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
        let lengths = early.ordinary().map(|(_, bytes)| low32(bytes.len())).collect();
        Some(Tokens { prefixes, after, misfits: sets.into_items().into(), lengths, later })
    }

    /// How many early tokens there are.
    pub(in crate::encode::longest_match) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no others.
    pub(in crate::encode::longest_match) fn are_all(&self) -> bool {
        self.len() == self.later.tokens()
    }

    /// So many bytes are gone through at each place before it is looked whether the automaton is full: no more than a window
    /// of a long text has, lest there be [too many states](super::steps::MOST_STATES) by then.
    pub(super) fn bytes_at_a_time(&self) -> usize {
        (MOST_BEGUN / self.prefixes.longest() / LANES).min(WINDOW)
    }

    /// The tokens of a set among those after a token.
    pub(super) fn misfits(&self, set: u32) -> &[Misfits] {
        &self.misfits[self.after.misfits(set)]
    }

    /// How many bytes a token has.
    #[inline(always)]
    pub(super) fn length(&self, found: Found) -> usize {
        found.length(&self.lengths)
    }
}
