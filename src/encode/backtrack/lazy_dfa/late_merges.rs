//! The late stage: carries out the late merges on the early tokens that the lazy DFA has found.

use std::ops::Range;

use super::{EarlyTokens, FoundToken};
use crate::base::int::{TokenId, to_usize, truncate_to_u32, u64_to_usize};
use crate::encode::backtrack::BacktrackTables;
use crate::encode::backtrack::path::{Backtracker, DeadEnds, Path};
use crate::encode::cache::{LINES, Lookup, NOT_SHORT, PLAIN, PretokenCache, Seed};
use crate::split::{SHORT, ShortPretoken};
use crate::vocab::{RankedMerge, Vocabulary, VocabularyParts};

/// Maximum number of merges of a vocabulary in which all merges are early. With more, a DFA of all their tokens would
/// have more states than the CPU caches hold.
const ALL_EARLY: usize = if cfg!(test) { 60 } else { (8 << 10) - 256 };

/// Early merges of larger vocabularies. Their DFA has about 12 000 states.
const EARLY: usize = if cfg!(test) { 24 } else { (4 << 10) - 256 };

/// Bits of the hash of a border between two early tokens. With 20 bits (128 KiB), two in a hundred of the borders
/// that no merge crosses are mistaken for crossed ones, which costs time only.
const BORDER_BITS: u32 = 20;

/// The number of an early token: a byte, or the result of one of the first merges.
pub(super) type EarlyId = u16;

/// How many merges of a vocabulary are early.
pub(in crate::encode::backtrack) fn early_merges(vocabulary: &Vocabulary) -> usize {
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
pub(super) struct LateMerges {
    /// The ids of all tokens by number: first the bytes, then merge results by rank.
    ids: Box<[TokenId]>,
    /// One bit per border, set if a merge may cross it. Many borders share a bit.
    crossed: Box<[u64]>,
    /// Which pairs of tokens the late merges join.
    merges: LateMergeTable,
    /// Late tokens of few early ones, as segments that are known in advance.
    pub(super) seeds: Box<[Seed]>,
}

/// Facts about a token that are needed while later ones are built.
#[derive(Clone, Debug, Default)]
struct KnownToken {
    /// The token's number, by the rank of its merge.
    number: u32,
    /// The first of its early tokens.
    first: EarlyId,
    /// The last of its early tokens, equal to `first` for an early token.
    last: EarlyId,
    /// Its early tokens as the bytes of a cache key; empty if they are too many.
    segment: Vec<u8>,
}

impl KnownToken {
    /// The facts about an early token: its only part is itself.
    fn early(early: EarlyId) -> KnownToken {
        KnownToken { number: early.into(), first: early, last: early, segment: early.to_le_bytes().into() }
    }
}

impl LateMerges {
    /// Splits the merges of a vocabulary. Also returns the vocabulary of the early ones, which uses the numbers
    /// of early tokens as ids. `None` if the vocabulary has too many tokens.
    pub(super) fn new(vocabulary: &Vocabulary, early_merges: usize) -> Option<(Vocabulary, LateMerges)> {
        let merges = vocabulary.merges();
        let made = merges.iter().map(|merge| merge.result);
        let ids: Box<[TokenId]> = vocabulary.byte_ids().iter().copied().chain(made).collect();
        if ids.len() > MAX {
            return None;
        }
        let early = early_merges.min(merges.len()).min(usize::from(EarlyId::MAX) - 255);
        let (early, late_merges) = merges.split_at(early);
        let early_ids = &ids[..256 + early.len()];
        let mut known = vec![KnownToken::default(); vocabulary.id_limit()];
        for (id, number) in early_ids.iter().zip(0..) {
            known[id.index()] = KnownToken::early(number);
        }
        let early = early_vocabulary(vocabulary, early_ids, early, &known)?;

        let mut late = LateMerges {
            crossed: vec![0; 1 << (BORDER_BITS - u64::BITS.ilog2())].into(),
            merges: LateMergeTable::new(late_merges.len()),
            seeds: Box::default(),
            ids,
        };
        let mut seeds = Vec::new();
        for (merge, number) in
            late_merges.iter().zip(truncate_to_u32(256 + merges.len() - late_merges.len())..)
        {
            let [left, right] = [merge.left, merge.right].map(|id| &known[id.index()]);
            late.merges.add(left.number, right.number, number);
            let (word, bit) = border(left.last, right.first);
            late.crossed[word] |= bit;
            let mut made = KnownToken { number, first: left.first, last: right.last, segment: Vec::new() };
            if !left.segment.is_empty() && !right.segment.is_empty() {
                let segment = [&*left.segment, &right.segment].concat();
                if let Some(seed) = Seed::new(merge.result, &segment) {
                    seeds.push(seed);
                    made.segment = segment;
                }
            }
            known[merge.result.index()] = made;
        }
        late.seeds = seeds.into();
        Some((early, late))
    }

    /// Number of tokens, early and late.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// The id of an early token.
    #[inline(always)]
    pub(super) fn id(&self, early: EarlyId) -> TokenId {
        self.ids[usize::from(early)]
    }

    /// Carries out the late merges on early tokens, at least one and at most [`MAX_AT_ONCE`], and writes the resulting
    /// ids. Returns their number.
    #[inline]
    pub(super) fn merge(&self, early: impl ExactSizeIterator<Item = EarlyId>, ids: &mut [TokenId]) -> usize {
        debug_assert!(
            (1..=MAX_AT_ONCE).contains(&early.len()),
            "pre-tokens of other lengths are encoded elsewhere"
        );
        let mut written = 0;
        self.merges.merge(early.map(u32::from), |token| {
            ids[written] = self.ids[to_usize(token)];
            written += 1;
        });
        written
    }

    /// Whether a merge may cross the border between two early tokens.
    #[inline(always)]
    pub(super) fn may_cross(&self, left: EarlyId, right: EarlyId) -> bool {
        let (word, bit) = border(left, right);
        self.crossed[word] & bit != 0
    }
}

/// The vocabulary of the early tokens and merges.
fn early_vocabulary(
    vocabulary: &Vocabulary,
    ids: &[TokenId],
    merges: &[RankedMerge],
    known: &[KnownToken],
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
fn border(left: EarlyId, right: EarlyId) -> (usize, u64) {
    let both = u32::from(left) << u16::BITS | u32::from(right);
    let at = to_usize(both.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BORDER_BITS));
    (at / 64, 1 << (at % 64))
}

/// Bits of a token's number. Tokens are numbered by the ranks of their merges, after the single bytes, and are so
/// few that three numbers fit in one 64-bit slot. The last number is not used for a token.
const NUMBER_BITS: u32 = 20;
/// Bits of a slot that hold the result.
const RESULT_BITS: u32 = u64::BITS - 2 * NUMBER_BITS;
/// Maximum number of tokens that can have numbers.
pub(super) const MAX: usize = (1 << NUMBER_BITS) - 1;
/// The number that no token has.
const NO_TOKEN: u32 = truncate_to_u32(MAX);

/// Greater than all ranks.
const NONE: u32 = u32::MAX;

/// Maximum number of tokens that are merged at a time: a 64-bit mask has one bit for each, and one for the sentinel on
/// either side.
pub(super) const MAX_AT_ONCE: usize = 62;

/// Slots in a bucket.
const BUCKET: usize = 4;

/// The merge table of the late merges: which pairs of tokens merge, and to what. It does what
/// [`MergeTable`](crate::encode::merge::MergeTable) does for any list of merges, in half the memory, because here a token's
/// number gives its merge's rank.
///
/// A pair is stored in its home bucket, or in the next one that is not full. A bucket is searched without a
/// branch, since half of the pairs that are looked up do not merge and the CPU could not predict which.
///
/// **Memory:** 16 to 32 bytes per merge.
#[derive(Debug)]
pub(super) struct LateMergeTable {
    /// In each slot a pair, and in the low bits its result; zero if free. At most half of the slots are in use.
    buckets: Box<[[u64; BUCKET]]>,
    /// Bits that a hash is shifted right by to get a bucket.
    shift: u32,
}

impl LateMergeTable {
    /// An empty table for at most `merges` merges.
    pub(super) fn new(merges: usize) -> LateMergeTable {
        let bits = (merges * 2).div_ceil(BUCKET).max(2).next_power_of_two().trailing_zeros();
        LateMergeTable { buckets: vec![[0; BUCKET]; 1 << bits].into(), shift: u64::BITS - bits }
    }

    /// Adds a merge.
    pub(super) fn add(&mut self, left: u32, right: u32, result: u32) {
        let pair = pair(left, right);
        let mut at = self.home(pair);
        loop {
            if let Some(free) = self.buckets[at].iter_mut().find(|slot| **slot == 0) {
                *free = pair << RESULT_BITS | u64::from(result);
                return;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    #[inline(always)]
    /// The bucket in which the search for a pair begins.
    fn home(&self, pair: u64) -> usize {
        u64_to_usize(pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift)
    }

    /// The rank at which a pair merges, which is the result's number minus one; [`NONE`] if it does not.
    #[inline(always)]
    fn find(&self, left: u32, right: u32) -> u32 {
        let pair = pair(left, right);
        let mut at = self.home(pair);
        loop {
            let bucket = &self.buckets[at];
            let of_slot = |slot: &u64| match slot ^ pair << RESULT_BITS {
                result if result >> RESULT_BITS == 0 => result,
                _ => 0,
            };
            let found = bucket.iter().map(of_slot).fold(0, |found, result| found | result);
            if found == 0 && bucket[BUCKET - 1] != 0 {
                at = (at + 1) & (self.buckets.len() - 1);
                continue;
            }
            return truncate_to_u32(u64_to_usize(found)).wrapping_sub(1);
        }
    }

    /// Merges at least one and at most [`MAX_AT_ONCE`] tokens, the lowest rank first, the leftmost among equals. Passes
    /// the resulting tokens to `put`.
    #[inline(always)]
    pub(super) fn merge(&self, given: impl ExactSizeIterator<Item = u32>, put: impl FnMut(u32)) {
        match given.len() {
            ..=6 => self.merge_in::<8>(given, put),
            7..=14 => self.merge_in::<16>(given, put),
            _ => self.merge_in::<{ MAX_AT_ONCE + 2 }>(given, put),
        }
    }

    /// Merges in arrays of `N` entries, which include a sentinel on either side.
    #[inline(always)]
    fn merge_in<const N: usize>(&self, given: impl Iterator<Item = u32>, mut put: impl FnMut(u32)) {
        let (mut tokens, mut number) = ([NO_TOKEN; N], 0);
        for token in given {
            number += 1;
            tokens[number] = token;
        }
        // The rank at which each token merges with the next one; [`NONE`] for tokens that were merged away.
        let mut ranks = [NONE; N];
        for at in 1..number {
            ranks[at] = self.find(tokens[at], tokens[at + 1]);
        }
        // One bit for each position that holds a token, and for the sentinel on either side.
        let mut there = u64::MAX >> (u64::BITS - 2 - truncate_to_u32(number));
        loop {
            let lowest = ranks.iter().copied().fold(NONE, u32::min);
            if lowest == NONE {
                break;
            }
            let at = ranks.iter().position(|&rank| rank == lowest).unwrap_or_default();
            let behind = u64::MAX << at << 1;
            let right = first(there & behind);
            there ^= 1 << right;
            ranks[right] = NONE;
            tokens[at] = lowest + 1;
            ranks[at] = self.find(tokens[at], tokens[first(there & behind)]);
            let left = to_usize((there & !(u64::MAX << at)).ilog2());
            ranks[left] = self.find(tokens[left], tokens[at]);
        }
        for _ in 2..there.count_ones() {
            there &= there - 1;
            put(tokens[first(there)]);
        }
    }
}

/// Two numbers in one, the left one in the higher bits.
#[inline(always)]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << NUMBER_BITS | u64::from(right)
}

/// Index of the lowest set bit.
#[inline(always)]
fn first(bits: u64) -> usize {
    to_usize(bits.trailing_zeros())
}

/// Segments that are looked up, and prefetched, before the first of them is needed.
const LOOKUPS_AHEAD: usize = 64;

/// Bytes per early token in a key: to the cache, early tokens are the bytes of a text.
const BYTES: usize = size_of::<EarlyId>();

/// Reads the tokens of texts off the early tokens that a DFA has found, and carries out the late merges.
///
/// **Memory:** 8 MiB for the cache of segments (32 KiB at first), and 10 bytes for each byte of the longest text
/// or segment.
#[derive(Debug)]
pub(super) struct SegmentReader {
    /// The tokens of segments that were met. Its keys are early tokens, two bytes each, in place of text.
    cache: PretokenCache,
    /// The early tokens of a text, filled from the end.
    early: Vec<u8>,
    /// The segments of a text, filled from the end.
    segments: Vec<SegmentEnd>,
    /// The next [`LOOKUPS_AHEAD`] segments, prefetched.
    lookups: Vec<Lookup>,
    /// Dead ends of the segment in progress.
    dead: DeadEnds,
    /// The tokens of a segment that is encoded by backtracking.
    path: Path,
}

/// The end of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentEnd {
    /// In bytes of the text.
    end: u32,
    /// As an index of its early tokens.
    early_end: u32,
}

impl Default for SegmentReader {
    fn default() -> SegmentReader {
        let (early, segments, dead) = Default::default();
        SegmentReader {
            cache: PretokenCache::new(LINES),
            early,
            segments,
            lookups: vec![NOT_SHORT; LOOKUPS_AHEAD],
            dead,
            path: Path::new(Vec::new(), 0),
        }
    }
}

/// What segments are encoded with.
#[derive(Clone, Copy)]
struct SegmentInput<'a> {
    /// The vocabulary's tables.
    tables: &'a BacktrackTables,
    /// The late merges, which do not cross the borders between segments.
    late: &'a LateMerges,
    /// The text that segments are ranges of, for those that have too many early tokens for late merges.
    text: &'a [u8],
}

impl SegmentReader {
    /// Appends the tokens of a text to `ids`, given the early token of each of its positions. If the text
    /// continues and its last segment may continue too, that segment is left out. Returns the number of bytes that
    /// were encoded.
    pub(super) fn read(
        &mut self,
        (tables, tokens): (&BacktrackTables, &EarlyTokens),
        (text, found): (&[u8], &[FoundToken]),
        continues: bool,
        ids: &mut Vec<TokenId>,
    ) -> usize {
        if tokens.are_all() {
            return read_early(tokens, found, ids);
        }
        let (early, segments) = self.cut(tokens, found, continues);
        let Some(last) = self.segments[segments.clone()].last() else { return 0 };
        let end = to_usize(last.end);
        let first = ids.len();
        // Each early token ends up in some token, so this is enough. The cache writes four tokens at a time.
        ids.resize(first + early.len() + PLAIN, TokenId::default());
        let means = SegmentInput { tables, late: &tokens.late, text };
        let read = self.encode(means, early.start, segments, &mut ids[first..]);
        ids.truncate(first + read);
        end
    }

    /// Collects the early tokens and the segments of a text, and returns their ranges in the buffers.
    fn cut(
        &mut self,
        tokens: &EarlyTokens,
        found: &[FoundToken],
        continues: bool,
    ) -> (Range<usize>, Range<usize>) {
        let most = found.len();
        if self.segments.len() < most {
            self.segments.resize(most, SegmentEnd::default());
            self.early.resize(most * BYTES, 0);
        }
        let (mut first_early, mut first_segment) = (most, most);
        let (mut at, mut right) = (most, None);
        while at > 0 {
            let here = found[at - 1];
            let left = here.early();
            let may_cross = right.map_or(continues, |right| tokens.late.may_cross(left, right));
            self.segments[first_segment - 1] =
                SegmentEnd { end: truncate_to_u32(at), early_end: truncate_to_u32(first_early) };
            first_segment -= usize::from(!may_cross);
            first_early -= 1;
            self.early[first_early * BYTES..][..BYTES].copy_from_slice(&left.to_le_bytes());
            right = Some(left);
            at -= tokens.length(here);
        }
        (first_early..most, first_segment..most)
    }

    /// Writes the tokens of segments to `ids`, and returns their number. `first_early` is the index of the first
    /// segment's first early token.
    fn encode(
        &mut self,
        means: SegmentInput<'_>,
        first_early: usize,
        segments: Range<usize>,
        ids: &mut [TokenId],
    ) -> usize {
        let (mut start, mut first_early, mut written) = (0, first_early, 0);
        let (all, mut lookups) = (std::mem::take(&mut self.segments), std::mem::take(&mut self.lookups));
        for segments in all[segments].chunks(LOOKUPS_AHEAD) {
            self.cache.make_room(&means.late.seeds);
            self.look_up(first_early, segments, &mut lookups);
            for (segment, lookup) in segments.iter().zip(&lookups) {
                let (end, early_end) = (to_usize(segment.end), to_usize(segment.early_end));
                written +=
                    self.segment(means, start..end, first_early..early_end, *lookup, &mut ids[written..]);
                (start, first_early) = (end, early_end);
            }
        }
        (self.segments, self.lookups) = (all, lookups);
        written
    }

    /// The early token at an index.
    fn early(&self, nth: usize) -> EarlyId {
        let bytes = self.early[nth * BYTES..].first_chunk().expect("there are so many");
        EarlyId::from_le_bytes(*bytes)
    }

    /// Computes and prefetches the cache lines of segments.
    #[inline(never)]
    fn look_up(&self, first_early: usize, segments: &[SegmentEnd], lookups: &mut [Lookup]) {
        let mut start = first_early * BYTES;
        for (segment, lookup) in segments.iter().zip(lookups) {
            let end = to_usize(segment.early_end) * BYTES;
            let length = end - start;
            if length <= SHORT {
                let segment = ShortPretoken::within(&self.early, start, length);
                *lookup = (segment, self.cache.line(segment));
                self.cache.fetch(lookup.1);
            }
            start = end;
        }
    }

    /// Writes the tokens of one segment to `ids`, and returns their number.
    ///
    /// `range` is in bytes of the text, and `early` in early tokens. `lookup` is valid only for short segments.
    #[inline(always)]
    fn segment(
        &mut self,
        means: SegmentInput<'_>,
        range: Range<usize>,
        early: Range<usize>,
        lookup: Lookup,
        ids: &mut [TokenId],
    ) -> usize {
        let is_short = early.len() * BYTES <= SHORT;
        if is_short {
            let tokens = ids.first_chunk_mut().expect("there is room for all");
            let known = self.cache.get(lookup.0, lookup.1, tokens);
            if known > 0 {
                return known;
            }
        }
        self.new_segment(means, range, early, is_short.then_some(lookup), ids)
    }

    /// Encodes a segment that the fast lookup did not find.
    ///
    /// A segment of more than [`MAX_AT_ONCE`] early tokens is encoded by backtracking, and is not cached.
    #[inline(never)]
    fn new_segment(
        &mut self,
        SegmentInput { tables, late, text }: SegmentInput<'_>,
        range: Range<usize>,
        early: Range<usize>,
        lookup: Option<Lookup>,
        ids: &mut [TokenId],
    ) -> usize {
        if let Some((tokens, number)) =
            lookup.and_then(|(segment, line)| self.cache.get_packed(segment, line))
        {
            ids[..number].copy_from_slice(&tokens[..number]);
            return number;
        }
        if early.len() > MAX_AT_ONCE {
            self.path.restart();
            let length = range.len();
            Backtracker::new(tables, &text[range], &mut self.dead).extend_to(&mut self.path, length);
            ids[..self.path.ids.len()].copy_from_slice(&self.path.ids);
            return self.path.ids.len();
        }
        let number = late.merge(early.map(|nth| self.early(nth)), ids);
        if let Some((segment, line)) = lookup {
            self.cache.put_before(segment, line, &ids[..number]);
        }
        number
    }
}

/// Appends the early tokens of a text to `ids`. Returns the number of its bytes.
///
/// For vocabularies without late merges, these are the tokens of the text.
fn read_early(tokens: &EarlyTokens, found: &[FoundToken], ids: &mut Vec<TokenId>) -> usize {
    let (first, mut at) = (ids.len(), found.len());
    while at > 0 {
        ids.push(tokens.late.id(found[at - 1].early()));
        at -= tokens.length(found[at - 1]);
    }
    ids[first..].reverse();
    found.len()
}
