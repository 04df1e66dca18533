use super::merges::{MANY, MOST, Merges};
use crate::encode::cache::Seed;
use crate::units::{TokenId, low32, place};
use crate::vocab::{RankedMerge, Vocabulary, VocabularyParts};

/// Of more merges than these, only some are early: one automaton for all of their tokens would have more states than lie near.
const ALL_EARLY: usize = if cfg!(test) { 60 } else { (8 << 10) - 256 };

/// So many then: their automaton has some 12 000 states.
const EARLY: usize = if cfg!(test) { 24 } else { (4 << 10) - 256 };

/// Borders between two early tokens are told apart by so many bits of a hash: with 128 KiB two in a hundred that no merge
/// crosses are taken for one that some merge may.
const BORDER_BITS: u32 = 20;

/// An early token: a byte, or what one of the first merges makes.
pub(super) type Early = u16;

/// How many merges of a vocabulary are early.
pub(in crate::encode::longest_match) fn early_merges(vocabulary: &Vocabulary) -> usize {
    let all = vocabulary.merges().len();
    if all <= ALL_EARLY { all } else { EARLY }
}

/// What the later merges make of early tokens.
///
/// Merges are carried out by rank, each over the whole text, before the next. So first the early ones make early tokens of
/// a text, and what the later ones make of these does not depend on bytes any more. Where two early tokens meet, a merge
/// can cross only if some token, traced back through the later merges, has the two side by side. At all other borders a text
/// falls into pieces that are encoded each on its own, as by a split pattern. There are half as many of them as early
/// tokens, and nearly all are early tokens themselves or have been met before.
///
/// **Memory:** 128 KiB, 4 bytes for each token, and 20 to 36 for each later merge; up to 24 for its token as a piece.
#[derive(Debug)]
pub(super) struct Later {
    /// The ids of all tokens by their numbers: bytes, and then by rank.
    ids: Box<[TokenId]>,
    /// A bit for each border, set if a merge may cross it. Many borders share one.
    crossed: Box<[u64]>,
    merges: Merges,
    /// The later tokens of few early ones, as pieces.
    pub(super) seeds: Box<[Seed]>,
}

/// What is known of a token while later ones are looked at.
#[derive(Clone, Debug, Default)]
struct Known {
    number: u32,
    first: Early,
    last: Early,
    /// Its early tokens as bytes of a piece; empty if they are too many.
    piece: Vec<u8>,
}

impl Known {
    fn early(early: Early) -> Known {
        Known { number: early.into(), first: early, last: early, piece: early.to_le_bytes().into() }
    }
}

impl Later {
    /// With at most so many early merges; and the vocabulary of these, whose ids are the numbers of the early tokens. `None`
    /// if there are too many tokens.
    pub(super) fn new(vocabulary: &Vocabulary, early_merges: usize) -> Option<(Vocabulary, Later)> {
        let merges = vocabulary.merges();
        let made = merges.iter().map(|merge| merge.result);
        let ids: Box<[TokenId]> = vocabulary.byte_ids().iter().copied().chain(made).collect();
        if ids.len() > MOST {
            return None;
        }
        let early = early_merges.min(merges.len()).min(usize::from(Early::MAX) - 255);
        let (early, late) = merges.split_at(early);
        let early_ids = &ids[..256 + early.len()];
        let mut known = vec![Known::default(); vocabulary.id_limit()];
        for (id, number) in early_ids.iter().zip(0..) {
            known[id.index()] = Known::early(number);
        }
        let early = early_vocabulary(vocabulary, early_ids, early, &known)?;

        let mut later = Later {
            crossed: vec![0; 1 << (BORDER_BITS - u64::BITS.ilog2())].into(),
            merges: Merges::new(late.len()),
            seeds: Box::default(),
            ids,
        };
        let mut seeds = Vec::new();
        for (merge, number) in late.iter().zip(low32(256 + merges.len() - late.len())..) {
            let [left, right] = [merge.left, merge.right].map(|id| &known[id.index()]);
            later.merges.add(left.number, right.number, number);
            let (word, bit) = border(left.last, right.first);
            later.crossed[word] |= bit;
            let mut made = Known { number, first: left.first, last: right.last, piece: Vec::new() };
            if !left.piece.is_empty() && !right.piece.is_empty() {
                let piece = [&*left.piece, &right.piece].concat();
                if let Some(seed) = Seed::new(merge.result, &piece) {
                    seeds.push(seed);
                    made.piece = piece;
                }
            }
            known[merge.result.index()] = made;
        }
        later.seeds = seeds.into();
        Some((early, later))
    }

    /// How many tokens there are, early ones and others.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// The id of an early token.
    #[inline(always)]
    pub(super) fn id(&self, early: Early) -> TokenId {
        self.ids[usize::from(early)]
    }

    /// Writes down what becomes of some early tokens, at least one and [`MANY`] at most. Gives their number.
    #[inline]
    pub(super) fn merge(&self, early: impl ExactSizeIterator<Item = Early>, ids: &mut [TokenId]) -> usize {
        debug_assert!((1..=MANY).contains(&early.len()), "other pieces are encoded otherwise");
        let mut written = 0;
        self.merges.merge(early.map(u32::from), |token| {
            ids[written] = self.ids[place(token)];
            written += 1;
        });
        written
    }

    /// Whether a merge may cross the border between two early tokens.
    #[inline(always)]
    pub(super) fn may_cross(&self, left: Early, right: Early) -> bool {
        let (word, bit) = border(left, right);
        self.crossed[word] & bit != 0
    }
}

/// The vocabulary of the early tokens and merges.
fn early_vocabulary(
    vocabulary: &Vocabulary,
    ids: &[TokenId],
    merges: &[RankedMerge],
    known: &[Known],
) -> Option<Vocabulary> {
    let number = |id: TokenId| TokenId::new(known[id.index()].number);
    let tokens = ids.iter().map(|&id| Some((number(id), vocabulary.bytes(id)?.into())));
    let merges = merges.iter().map(|merge| RankedMerge {
        left: number(merge.left),
        right: number(merge.right),
        result: number(merge.result),
        rank: merge.rank,
    });
    let (tokens, merges) = (tokens.collect::<Option<_>>()?, merges.collect());
    Vocabulary::new(VocabularyParts { tokens, merges, ..VocabularyParts::default() }).ok()
}

/// The word and the bit of a border.
#[inline(always)]
fn border(left: Early, right: Early) -> (usize, u64) {
    let both = u32::from(left) << u16::BITS | u32::from(right);
    let at = place(both.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BORDER_BITS));
    (at / 64, 1 << (at % 64))
}
