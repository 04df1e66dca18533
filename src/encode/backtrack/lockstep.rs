//! Encodes short pre-tokens by carrying out their merges, sixteen pre-tokens at a time in lockstep.
//!
//! Backtracking goes from token to token, and a processor can predict neither where the next one ends nor whether it is
//! compatible. Where most pre-tokens are new, that takes most of the time. Here each step carries out one merge in each
//! of sixteen lanes, by the same instructions whatever the texts are, so that hardly anything needs to be predicted, and
//! the loads of all lanes overlap.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "loads of whole rows, and calls of functions for this CPU")
)]

use std::cmp::Reverse;

use crate::base::int::{TokenId, to_usize, truncate_to_u32, u64_to_usize};
use crate::split::SHORT;
use crate::vocab::Vocabulary;

/// Bits of a token's number.
const NUMBER_BITS: u32 = 21;
/// No token: the number of what does not merge, and of what is beside a text.
const NONE: u32 = (1 << NUMBER_BITS) - 1;

/// Finds the token that two tokens merge to.
///
/// Tokens are numbered in the order of their merges, after the 256 bytes. So the number of a merge's result also gives
/// its rank. The pairs are in a perfect hash table by hashing and displacement (Belazzougui, Botelho and Dietzfelbinger,
/// 2009): pairs with the same hash share a bucket, whose displacement leads each pair to a slot of its own. So a search
/// reads one displacement and one slot, and needs no branch.
///
/// **Memory:** 0.25 MiB, and for each merge 15 to 27 bytes.
#[derive(Debug)]
pub(super) struct PairTable {
    /// The displacement of each bucket. Their number is a power of two.
    displacements: Box<[u16]>,
    /// Bits that a hash is shifted right by to give its bucket.
    bucket_shift: u32,
    /// In each slot a [key](pair_key), and below it the number of the token that the pair merges to. Their number is a power of two.
    slots: Box<[u64]>,
    /// Bits that a displaced hash is shifted right by to give its slot.
    slot_shift: u32,
    /// The number of the token that two bytes merge to, or [`NONE`], by [`byte_pair`].
    bytes: Box<[u32; 1 << 16]>,
    /// The id of each number.
    ids: Box<[TokenId]>,
}

/// A slot without a pair.
const FREE: u64 = u64::MAX;

/// Slots per bucket.
const BUCKET: usize = 4;

/// A pair of tokens as one number.
#[inline(always)]
fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << NUMBER_BITS | u64::from(right)
}

/// The hash of a key. Its high bits give the bucket.
#[inline(always)]
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The hash of a key, given the displacement of its bucket. Its high bits give the slot.
#[inline(always)]
fn displaced(hash: u64, displacement: u16) -> u64 {
    (hash ^ u64::from(displacement) << 20).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// The index of two bytes in the dense table.
#[inline(always)]
fn byte_pair(left: u8, right: u8) -> usize {
    usize::from(left) << 8 | usize::from(right)
}

impl PairTable {
    /// The table of a vocabulary in which every byte has a token, and each other token one merge of its own. `None` if
    /// it has more than two million tokens, or if a bucket finds no displacement.
    pub(super) fn new(vocabulary: &Vocabulary) -> Option<PairTable> {
        let merges = vocabulary.merges();
        let bytes = vocabulary.byte_ids().iter().copied();
        let ids: Box<[TokenId]> = bytes.chain(merges.iter().map(|merge| merge.result)).collect();
        if ids.len() >= to_usize(NONE) {
            return None;
        }
        let mut numbers = vec![NONE; vocabulary.id_limit()];
        for (number, id) in (0..).zip(&ids) {
            numbers[id.index()] = number;
        }
        let key = |left: TokenId, right: TokenId| pair_key(numbers[left.index()], numbers[right.index()]);
        let pairs =
            (256..).zip(merges).map(|(number, merge)| (key(merge.left, merge.right), number)).collect();
        let slots = (merges.len() * 4 / 3).next_power_of_two().max(2 * BUCKET);
        let mut table = PairTable {
            displacements: vec![0; slots / BUCKET].into(),
            bucket_shift: u64::BITS - (slots / BUCKET).trailing_zeros(),
            slots: vec![FREE; slots].into(),
            slot_shift: u64::BITS - slots.trailing_zeros(),
            bytes: vec![NONE; 1 << 16].try_into().expect("so many were made"),
            ids,
        };
        table.place(pairs)?;
        for (left, right) in (0..=255).flat_map(|left| (0..=255).map(move |right| (left, right))) {
            let key = pair_key(left.into(), right.into());
            [table.bytes[byte_pair(left, right)]] = table.find([key]);
        }
        Some(table)
    }

    /// Gives each pair a slot, those of the largest buckets first. `None` if a bucket finds no displacement.
    fn place(&mut self, mut pairs: Vec<(u64, u32)>) -> Option<()> {
        let bucket = |&(key, _): &(u64, u32)| u64_to_usize(hash(key) >> self.bucket_shift);
        pairs.sort_unstable_by_key(bucket);
        let mut buckets: Vec<&[(u64, u32)]> =
            pairs.chunk_by(|one, other| bucket(one) == bucket(other)).collect();
        buckets.sort_by_key(|pairs| Reverse(pairs.len()));
        let mut places = Vec::new();
        for pairs in buckets {
            let mut free = |&displacement: &u16| {
                places.clear();
                pairs.iter().all(|&(key, _)| {
                    let place = u64_to_usize(displaced(hash(key), displacement) >> self.slot_shift);
                    let is_free = self.slots[place] == FREE && !places.contains(&place);
                    places.push(place);
                    is_free
                })
            };
            let displacement = (0..=u16::MAX).find(&mut free)?;
            self.displacements[u64_to_usize(hash(pairs[0].0) >> self.bucket_shift)] = displacement;
            for (&place, &(key, number)) in places.iter().zip(pairs) {
                self.slots[place] = key << NUMBER_BITS | u64::from(number);
            }
        }
        Some(())
    }

    /// For each pair, the number of the token that it merges to, or [`NONE`].
    #[inline(always)]
    fn find<const N: usize>(&self, keys: [u64; N]) -> [u32; N] {
        // Loops of their own, so that the loads of each do not wait for one another.
        let mut found = [0; N];
        for (found, &key) in found.iter_mut().zip(&keys) {
            *found = hash(key);
        }
        for hash in &mut found {
            *hash = displaced(*hash, self.displacements[u64_to_usize(*hash >> self.bucket_shift)]);
        }
        for hash in &mut found {
            *hash = self.slots[u64_to_usize(*hash >> self.slot_shift)];
        }
        let mut numbers = [NONE; N];
        for ((number, &slot), &key) in numbers.iter_mut().zip(&found).zip(&keys) {
            if slot >> NUMBER_BITS == key {
                *number = truncate_to_u32(u64_to_usize(slot & u64::from(NONE)));
            }
        }
        numbers
    }
}

/// Texts that are merged at the same time.
const LANES: usize = 16;
/// Bits of a place.
const PLACE_BITS: u32 = 4;
/// Places in a lane at which a token may begin that merges with the next one. Place 0 is before the text.
const PLACES: usize = 1 << PLACE_BITS;
/// Steps that are not less than this are no merges.
const NO_STEP: u32 = NONE << PLACE_BITS;

/// A row has what all lanes have at one place.
type Row = [u32; LANES];

/// Merges texts of at most [`SHORT`] bytes, [`LANES`] at a time.
///
/// **Memory:** 3 KiB, and 72 bytes for each text.
#[derive(Debug, Default)]
pub(crate) struct LockstepMerger {
    /// For each place and lane, the number of the token that the token there merges to with the next one, and below it
    /// the place. Not less than [`NO_STEP`] if they do not merge, or if no token begins there. So the least number of a
    /// lane is its next merge: that of the lowest rank, and of equal ones the leftmost.
    steps: [Row; PLACES],
    /// For each lane, the number of the token that begins at each place. [`NONE`] before and after the text.
    tokens: [[u32; 2 * PLACES]; LANES],
    /// For each lane, a bit for each place at which a token begins, and for those before and after the text. No bits if
    /// the lane has no text.
    starts: [u32; LANES],
    /// For each lane, the index of its text.
    texts: [usize; LANES],
    /// For each text, its tokens and their number. Entries of larger batches stay, so that their memory is reused.
    encoded: Vec<([TokenId; SHORT], usize)>,
}

impl LockstepMerger {
    /// Encodes texts, none of them empty or longer than [`SHORT`].
    pub(super) fn encode(&mut self, pairs: &PairTable, texts: &[&[u8]]) {
        self.encode_by(Engine::best(), pairs, texts);
    }

    /// [`encode`](LockstepMerger::encode) with given instructions.
    fn encode_by(&mut self, engine: Engine, pairs: &PairTable, texts: &[&[u8]]) {
        let length = self.encoded.len().max(texts.len());
        self.encoded.resize(length, ([TokenId::default(); SHORT], 0));
        self.steps = [[NO_STEP; LANES]; PLACES];
        self.tokens = [[NONE; 2 * PLACES]; LANES];
        match engine {
            Engine::Portable => self.merge_all(pairs, texts, least),
            // SAFETY: the CPU has the features, or there would be no such engine.
            #[cfg(target_arch = "x86_64")]
            Engine::Avx2 => unsafe { x86::merge_by_avx2(self, pairs, texts) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Engine::Avx512 => unsafe { x86::merge_by_avx512(self, pairs, texts) },
        }
    }

    /// The tokens of one text of the last batch.
    pub(crate) fn ids(&self, text: usize) -> &[TokenId] {
        let (ids, number) = &self.encoded[text];
        &ids[..*number]
    }

    /// Merges all texts. `least` gives the least number of each lane.
    #[inline(always)]
    fn merge_all(&mut self, pairs: &PairTable, texts: &[&[u8]], least: impl Fn(&[Row; PLACES]) -> Row) {
        let mut waiting = texts.iter().copied().enumerate();
        let mut running = 0;
        for lane in 0..LANES {
            running += usize::from(self.begin(lane, pairs, &mut waiting) < NO_STEP);
        }
        while running > 0 {
            let mut steps = least(&self.steps);
            let mut ended = ended(&steps);
            while ended != 0 {
                let lane = to_usize(ended.trailing_zeros()) % LANES;
                ended &= ended - 1;
                if self.starts[lane] != 0 {
                    self.finish(lane, pairs);
                    steps[lane] = self.begin(lane, pairs, &mut waiting);
                    running -= usize::from(steps[lane] >= NO_STEP);
                }
            }
            self.merge(pairs, steps);
        }
    }

    /// Puts the next text that has a merge into a lane, and returns this merge. If none is left, returns [`NO_STEP`].
    #[inline(always)]
    fn begin<'t>(
        &mut self,
        lane: usize,
        pairs: &PairTable,
        waiting: &mut impl Iterator<Item = (usize, &'t [u8])>,
    ) -> u32 {
        for (number, text) in waiting {
            let tokens = &mut self.tokens[lane];
            let (mut first, mut left) = (NO_STEP, text[0]);
            tokens[1] = left.into();
            // An index is faster here than zipped iterators.
            for at in 1..text.len().min(SHORT) {
                let right = text[at];
                tokens[at + 1] = right.into();
                let step = pairs.bytes[byte_pair(left, right)] << PLACE_BITS | truncate_to_u32(at);
                self.steps[at][lane] = step;
                (first, left) = (first.min(step), right);
            }
            tokens[text.len() + 1] = NONE;
            self.starts[lane] = (4 << text.len()) - 1;
            self.texts[lane] = number;
            if first < NO_STEP {
                return first;
            }
            self.finish(lane, pairs);
        }
        self.starts[lane] = 0;
        NO_STEP
    }

    /// Carries out one merge in each lane. In a lane without a text, nothing changes.
    #[inline(always)]
    fn merge(&mut self, pairs: &PairTable, steps: Row) {
        let (mut nexts, mut befores) = ([0; LANES], [0; LANES]);
        let (mut lefts, mut rights) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            let (place, result) = (steps[lane] % (1 << PLACE_BITS), steps[lane] >> PLACE_BITS);
            let starts = self.starts[lane];
            let after = starts & u32::MAX << 1 << place;
            let next = after & after.wrapping_neg();
            let before = (starts & !(u32::MAX << place) | 1).ilog2();
            let behind = (after & !next).trailing_zeros() % u32::BITS;
            self.starts[lane] = starts & !next;
            let tokens = &mut self.tokens[lane];
            tokens[to_usize(place)] = result;
            lefts[lane] = pair_key(tokens[to_usize(before)], result);
            rights[lane] = pair_key(result, tokens[to_usize(behind)]);
            nexts[lane] = to_usize(next.trailing_zeros()) % PLACES;
            befores[lane] = before;
        }
        let (lefts, rights) = (pairs.find(lefts), pairs.find(rights));
        for lane in 0..LANES {
            let (place, before) = (steps[lane] % (1 << PLACE_BITS), befores[lane]);
            self.steps[nexts[lane]][lane] = NO_STEP;
            self.steps[to_usize(before) % PLACES][lane] = lefts[lane] << PLACE_BITS | before;
            self.steps[to_usize(place)][lane] = rights[lane] << PLACE_BITS | place;
        }
    }

    /// Stores the tokens of a lane's text.
    #[inline(always)]
    fn finish(&mut self, lane: usize, pairs: &PairTable) {
        let (ids, number) = &mut self.encoded[self.texts[lane]];
        // Without the places before and after the text.
        let mut starts = self.starts[lane] & !1;
        *number = to_usize(starts.count_ones()) - 1;
        for id in &mut ids[..*number] {
            *id = pairs.ids[to_usize(self.tokens[lane][to_usize(starts.trailing_zeros()) % (2 * PLACES)])];
            starts &= starts - 1;
        }
    }
}

/// The least number of each lane.
#[inline(always)]
fn least(steps: &[Row; PLACES]) -> Row {
    let mut least = [NO_STEP; LANES];
    for row in steps {
        for (least, step) in least.iter_mut().zip(row) {
            *least = (*least).min(*step);
        }
    }
    least
}

/// A bit for each lane that has no merge.
#[inline(always)]
fn ended(steps: &Row) -> u32 {
    let mut ended = 0;
    for (lane, &step) in steps.iter().enumerate() {
        ended |= u32::from(step >= NO_STEP) << lane;
    }
    ended
}

/// The instructions to use. All give the same result.
#[derive(Clone, Copy, Debug)]
enum Engine {
    /// Those that every CPU has.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Engine {
    /// Those that this CPU has, the fastest last.
    fn all() -> impl DoubleEndedIterator<Item = Engine> {
        #[cfg(target_arch = "x86_64")]
        let special = [x86::has_avx2().then_some(Engine::Avx2), x86::has_avx512().then_some(Engine::Avx512)];
        #[cfg(not(target_arch = "x86_64"))]
        let special = [];
        [Some(Engine::Portable)].into_iter().chain(special).flatten()
    }

    /// The fastest one that this CPU has.
    fn best() -> Engine {
        Engine::all().next_back().unwrap_or(Engine::Portable)
    }
}

/// The same by instructions that only some CPUs have. The compiler would read the rows lane by lane.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm256_loadu_si256, _mm256_min_epu32, _mm256_storeu_si256, _mm512_loadu_si512,
        _mm512_min_epu32, _mm512_storeu_si512,
    };

    use super::{LANES, LockstepMerger, PLACES, PairTable, Row};
    use crate::base::cpu_has;

    /// Whether this CPU has the features of [`merge_by_avx2`].
    pub(super) fn has_avx2() -> bool {
        cpu_has!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt")
    }

    /// Whether this CPU has the features of [`merge_by_avx512`].
    pub(super) fn has_avx512() -> bool {
        cpu_has!("avx512f", "avx512bw", "avx512vl", "avx512dq", "bmi1", "bmi2", "lzcnt", "popcnt")
    }

    /// Merges all texts with AVX2.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_by_avx2(merger: &mut LockstepMerger, pairs: &PairTable, texts: &[&[u8]]) {
        merger.merge_all(pairs, texts, |steps: &[Row; PLACES]| {
            let mut least = [0; LANES];
            for half in [0, LANES / 2] {
                // SAFETY: half a row has 32 bytes, and no alignment is needed.
                let load = |row: &Row| unsafe { _mm256_loadu_si256(row[half..].as_ptr().cast()) };
                let rows = steps.iter().skip(1).map(load);
                let half_least: __m256i =
                    rows.fold(load(&steps[0]), |least, row| _mm256_min_epu32(least, row));
                // SAFETY: as above.
                unsafe { _mm256_storeu_si256(least[half..].as_mut_ptr().cast(), half_least) };
            }
            least
        });
    }

    /// Merges all texts with AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_by_avx512(merger: &mut LockstepMerger, pairs: &PairTable, texts: &[&[u8]]) {
        merger.merge_all(pairs, texts, |steps: &[Row; PLACES]| {
            // SAFETY: a row has 64 bytes, and no alignment is needed.
            let load = |row: &Row| unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
            let rows = steps.iter().skip(1).map(load);
            let all = rows.fold(load(&steps[0]), |least, row| _mm512_min_epu32(least, row));
            let mut least = [0; LANES];
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(least.as_mut_ptr().cast(), all) };
            least
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_texts;
    use super::*;
    use crate::base::test_support::one_case_in;
    use crate::encode::reference;
    use proptest::prelude::*;

    /// All engines give the tokens of the reference, with fewer texts than lanes, and with more.
    #[test]
    fn texts_in_lockstep_are_encoded_as_each_alone() {
        one_case_in(4, &(with_texts(), 1..=SHORT), |((vocabulary, texts), cut)| {
            let pairs = PairTable::new(&vocabulary).expect("few tokens");
            let mut merger = LockstepMerger::default();
            for engine in Engine::all() {
                for cut in [cut, SHORT, 1] {
                    let texts: Vec<&[u8]> = texts.iter().flat_map(|text| text.chunks(cut)).collect();
                    merger.encode_by(engine, &pairs, &texts);
                    for (number, text) in texts.iter().enumerate() {
                        prop_assert_eq!(
                            merger.ids(number),
                            reference::encode_pretoken(&vocabulary, text),
                            "{:?}",
                            engine
                        );
                    }
                }
            }
            Ok(())
        });
    }
}
