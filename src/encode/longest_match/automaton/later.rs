use super::merges::{MANY, MOST, Merges};
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::encode::cache::Seed;
use crate::vocab::{RankedMerge, Vocabulary, VocabularyParts};

/// Most merges of a vocabulary that are all early. With more, a DFA of all their tokens would have more states
/// than the CPU caches hold.
const ALL_EARLY: usize = if cfg!(test) { 60 } else { (8 << 10) - 256 };

/// Early merges of larger vocabularies. Their DFA has about 12 000 states.
const EARLY: usize = if cfg!(test) { 24 } else { (4 << 10) - 256 };

/// Bits of the hash of a border between two early tokens. With 20 bits (128 KiB), two in a hundred of the borders
/// that no merge crosses are mistaken for crossed ones, which costs time only.
const BORDER_BITS: u32 = 20;

/// The number of an early token: a byte, or the result of one of the first merges.
pub(super) type Early = u16;

/// How many merges of a vocabulary are early.
pub(in crate::encode::longest_match) fn early_merges(vocabulary: &Vocabulary) -> usize {
    let all = vocabulary.merges().len();
    if all <= ALL_EARLY { all } else { EARLY }
}

/// What the late merges make of early tokens.
///
/// Merges are carried out by rank, each over the whole text before the next. So the early merges first turn a
/// text into early tokens, and what the late ones make of these no longer depends on bytes. Late merges can cross
/// the border between two early tokens only if some token, traced back through the late merges, has the two side
/// by side. At all other borders a text falls into segments that are encoded independently, as the pre-tokens of
/// a split pattern are. Segments are half as many as early tokens, and nearly all are early tokens themselves or
/// were met before.
///
/// **Memory:** 128 KiB, 4 bytes per token, and 20 to 36 per late merge; up to 24 more for its token as a segment.
#[derive(Debug)]
pub(super) struct Later {
    /// The ids of all tokens by number: first the bytes, then merge results by rank.
    ids: Box<[TokenId]>,
    /// One bit per border, set if a merge may cross it. Many borders share a bit.
    crossed: Box<[u64]>,
    merges: Merges,
    /// Late tokens of few early ones, as segments that are known in advance.
    pub(super) seeds: Box<[Seed]>,
}

/// Facts about a token that are needed while later ones are built.
#[derive(Clone, Debug, Default)]
struct Known {
    number: u32,
    first: Early,
    last: Early,
    /// Its early tokens as the bytes of a cache key; empty if they are too many.
    pretoken: Vec<u8>,
}

impl Known {
    fn early(early: Early) -> Known {
        Known { number: early.into(), first: early, last: early, pretoken: early.to_le_bytes().into() }
    }
}

impl Later {
    /// Splits the merges of a vocabulary. Also returns the vocabulary of the early ones, which uses the numbers
    /// of early tokens as ids. `None` if the vocabulary has too many tokens.
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
        for (merge, number) in late.iter().zip(truncate_to_u32(256 + merges.len() - late.len())..) {
            let [left, right] = [merge.left, merge.right].map(|id| &known[id.index()]);
            later.merges.add(left.number, right.number, number);
            let (word, bit) = border(left.last, right.first);
            later.crossed[word] |= bit;
            let mut made = Known { number, first: left.first, last: right.last, pretoken: Vec::new() };
            if !left.pretoken.is_empty() && !right.pretoken.is_empty() {
                let pretoken = [&*left.pretoken, &right.pretoken].concat();
                if let Some(seed) = Seed::new(merge.result, &pretoken) {
                    seeds.push(seed);
                    made.pretoken = pretoken;
                }
            }
            known[merge.result.index()] = made;
        }
        later.seeds = seeds.into();
        Some((early, later))
    }

    /// Number of tokens, early and late.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// The id of an early token.
    #[inline(always)]
    pub(super) fn id(&self, early: Early) -> TokenId {
        self.ids[usize::from(early)]
    }

    /// Carries out the late merges on early tokens, at least one and at most [`MANY`], and writes the resulting
    /// ids. Returns their number.
    #[inline]
    pub(super) fn merge(&self, early: impl ExactSizeIterator<Item = Early>, ids: &mut [TokenId]) -> usize {
        debug_assert!((1..=MANY).contains(&early.len()), "pre-tokens of other lengths are encoded elsewhere");
        let mut written = 0;
        self.merges.merge(early.map(u32::from), |token| {
            ids[written] = self.ids[to_usize(token)];
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

/// The word and the bit of a border in `crossed`.
#[inline(always)]
fn border(left: Early, right: Early) -> (usize, u64) {
    let both = u32::from(left) << u16::BITS | u32::from(right);
    let at = to_usize(both.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BORDER_BITS));
    (at / 64, 1 << (at % 64))
}
