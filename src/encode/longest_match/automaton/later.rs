use crate::encode::pairs::Table;
use crate::units::{TokenId, place};
use crate::vocab::{RankedMerge, Vocabulary, VocabularyParts};

/// Of more merges than these, only some are early: one automaton for all of their tokens would have more states than lie near.
const ALL_EARLY: usize = if cfg!(test) { 60 } else { (8 << 10) - 256 };

/// So many, which have some 12 000 states, whatever the text.
const EARLY_BITS: u32 = 12;
const EARLY: usize = if cfg!(test) { 24 } else { (1 << EARLY_BITS) - 256 };

/// Borders between two early tokens are told apart by so many bits: 128 KiB in all.
const BORDER_BITS: u32 = 20;

/// An early token: a byte, or what one of the first merges makes.
pub(super) type Early = u16;

/// What the later merges make of early tokens.
///
/// Merges are carried out by rank, each over the whole text, before the next. So first the early ones make early tokens of
/// a text, and what the later ones make of these does not depend on bytes any more. Where two early tokens meet, a merge
/// can cross only if some token, traced back through the later merges, has the two side by side. At all other borders a text
/// falls into pieces that are encoded each on its own, as by a split pattern. There are half as many of them as early
/// tokens, and nearly all have been met before.
///
/// **Memory:** 128 KiB, 4 bytes for each early token, and 32 to 64 for each later merge.
#[derive(Debug)]
pub(super) struct Later {
    /// The ids of the early tokens.
    ids: Box<[TokenId]>,
    /// A bit for each border, set if a merge may cross it. Many borders share one.
    crossed: Box<[u64]>,
    pub(super) merges: Table,
    is_none: bool,
}

impl Later {
    /// With at most so many early merges; and the vocabulary of these, whose ids are the numbers of the early tokens.
    pub(super) fn new(vocabulary: &Vocabulary, early_merges: usize) -> Option<(Vocabulary, Later)> {
        let merges = vocabulary.merges();
        let (early, late) =
            merges.split_at(early_merges.min(merges.len()).min(usize::from(Early::MAX) - 255));
        let made = early.iter().map(|merge| merge.result);
        let ids: Box<[TokenId]> = vocabulary.byte_ids().iter().copied().chain(made).collect();

        // The first and the last early token of each token.
        let mut ends: Vec<[Early; 2]> = vec![[0; 2]; vocabulary.id_limit()];
        for (id, number) in ids.iter().zip(0..) {
            ends[id.index()] = [number; 2];
        }
        let mut crossed = vec![0; 1 << (BORDER_BITS - u64::BITS.ilog2())];
        for merge in late {
            let ([first, left], [right, last]) = (ends[merge.left.index()], ends[merge.right.index()]);
            let (word, bit) = border(left, right);
            crossed[word] |= bit;
            ends[merge.result.index()] = [first, last];
        }
        let number = |id: TokenId| TokenId::new(ends[id.index()][0].into());
        let parts = VocabularyParts {
            tokens: ids
                .iter()
                .map(|&id| Some((number(id), vocabulary.bytes(id)?.into())))
                .collect::<Option<_>>()?,
            merges: early
                .iter()
                .map(|merge| RankedMerge {
                    left: number(merge.left),
                    right: number(merge.right),
                    result: number(merge.result),
                    rank: merge.rank,
                })
                .collect(),
            ..VocabularyParts::default()
        };
        let later =
            Later { ids, crossed: crossed.into(), merges: Table::new(late), is_none: late.is_empty() };
        Some((Vocabulary::new(parts).ok()?, later))
    }

    /// Whether there are no later merges.
    pub(super) fn is_none(&self) -> bool {
        self.is_none
    }

    /// The id of an early token.
    #[inline(always)]
    pub(super) fn id(&self, early: Early) -> TokenId {
        self.ids[usize::from(early)]
    }

    /// Whether a merge may cross the border between two early tokens.
    #[inline(always)]
    pub(super) fn may_cross(&self, left: Early, right: Early) -> bool {
        let (word, bit) = border(left, right);
        self.crossed[word] & bit != 0
    }
}

/// How many merges of a vocabulary are early.
pub(in crate::encode::longest_match) fn early_merges(vocabulary: &Vocabulary) -> usize {
    let all = vocabulary.merges().len();
    if all <= ALL_EARLY { all } else { EARLY }
}

/// The word and the bit of a border.
#[inline(always)]
fn border(left: Early, right: Early) -> (usize, u64) {
    let bits = u32::from(left) << (BORDER_BITS - EARLY_BITS) ^ u32::from(right);
    let at = place(bits) % (1 << BORDER_BITS);
    (at / 64, 1 << (at % 64))
}
