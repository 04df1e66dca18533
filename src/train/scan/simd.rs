//! Finds the sites of a batch of rules in blocks of 64 codes, and compacts the text: portable code, AVX2 and
//! AVX-512, with the same results.

use std::ops::Range;

use super::batch::BatchRules;
use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};

/// Codes per block, which are processed together.
pub(super) const LANES: usize = 64;

/// Codes that are scanned before their sites are handled: few enough to be still in the L1 cache.
pub(super) const SPAN: usize = 64 * LANES;

/// Implementation that finds the pairs to merge and compacts the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEngine {
    /// Portable code, which runs on every processor.
    Portable,
    /// Uses AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Uses AVX-512 with VBMI and VBMI2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl ScanEngine {
    /// The engines that run on this processor, the fastest last.
    pub fn available() -> Vec<ScanEngine> {
        let mut engines = vec![ScanEngine::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            engines.extend(avx2::runs_here().then_some(ScanEngine::Avx2));
            engines.extend(avx512::runs_here().then_some(ScanEngine::Avx512));
        }
        engines
    }

    /// The fastest engine that runs on this processor.
    pub(super) fn best() -> ScanEngine {
        ScanEngine::available().pop().unwrap_or(ScanEngine::Portable)
    }

    /// Does what the function [`close_gaps`] does for a range of whole blocks, behind which the chunk has more
    /// codes.
    pub(super) fn close_gaps(
        self,
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &BatchRules,
        sites: &mut Sites,
    ) {
        match self {
            ScanEngine::Portable => close_gaps(planes, from, rules, sites),
            #[cfg(target_arch = "x86_64")]
            ScanEngine::Avx2 => avx2::close_gaps(planes, from, rules, sites),
            #[cfg(target_arch = "x86_64")]
            ScanEngine::Avx512 => avx512::close_gaps(planes, from, rules, sites),
        }
    }
}

/// The planes of a chunk: low and high bytes of its codes. `high` is empty if all codes have one byte.
pub(super) struct Planes<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Number of codes written so far.
    pub(super) out: usize,
    /// Whether the next code to read is removed, because it was merged with the one before.
    pub(super) removed: bool,
}

/// Where pairs are to be merged, in ascending order. At each site the text still has the left code, at the
/// position of the new code.
pub(super) struct Sites {
    /// Number of sites in the arrays.
    pub(super) count: usize,
    /// Positions of the left codes after compaction.
    pub(super) places: Box<[u32; SITES]>,
    /// The right codes, which are removed from the text: low bytes, then high bytes.
    pub(super) rights_low: Box<[u8; SITES]>,
    pub(super) rights_high: Box<[u8; SITES]>,
}

/// Capacity: one site that waits from before, those of a span, and slack for vector stores beyond the last one.
const SITES: usize = 1 + SPAN / 2 + LANES;

impl Sites {
    pub(super) fn new() -> Sites {
        Sites {
            count: 0,
            places: Box::new([0; SITES]),
            rights_low: Box::new([0; SITES]),
            rights_high: Box::new([0; SITES]),
        }
    }

    /// Adds the sites of a block: bit n of `merges` is set if lane n begins a pair. The block is written from
    /// `out` on, and `removed` is 1 if its first code is removed. `right` gives the right code of a lane.
    pub(super) fn add(
        &mut self,
        mut merges: u64,
        out: usize,
        removed: u64,
        right: impl Fn(usize) -> (u8, u8),
    ) {
        let mut before = u64_to_usize(removed);
        while merges != 0 {
            let lane = to_usize(merges.trailing_zeros());
            // Each earlier merge in the block moves this code forward by one.
            self.places[self.count] = truncate_to_u32(out + lane - before);
            before += 1;
            (self.rights_low[self.count], self.rights_high[self.count]) = right(lane);
            self.count += 1;
            merges &= merges - 1;
        }
    }
}

/// Reads the codes at `from` and writes those that stay at `planes.out`, which is at or before them.
///
/// The left code of a pair to be merged stays and becomes a site; the right code is removed. The code just
/// behind `from` can be a right code. At the end of a chunk the last block may be shorter.
pub(super) fn close_gaps(planes: &mut Planes<'_>, from: Range<usize>, rules: &BatchRules, sites: &mut Sites) {
    let wide = !planes.high.is_empty();
    for at in from.clone().step_by(LANES) {
        let lanes = LANES.min(from.end - at);
        let low = CodeBlock::read(planes.low, at, lanes);
        let high = if wide { CodeBlock::read(planes.high, at, lanes) } else { CodeBlock::default() };
        let merges = if wide { merges::<true> } else { merges::<false> };
        let mut merges = merges(&low, &high, rules);
        // A removed code is never a left code, because no code is on both sides of the rules. The mask excludes
        // lanes that only pad the block.
        let pairs = lanes.min(planes.low.len() - at - 1);
        merges &= ones(pairs);
        for &twice in &rules.doubles {
            let [twice_low, twice_high] = twice.to_le_bytes();
            let is = equal(&low.here, twice_low) & equal(&high.here, twice_high) & ones(lanes);
            let then = equal(&low.next, twice_low) & equal(&high.next, twice_high) & ones(pairs);
            merges |= odd_of_runs(is & !u64::from(planes.removed)) & then;
        }
        let removed = u64::from(planes.removed);
        let kept = !(merges << 1 | removed) & ones(lanes);
        planes.removed = merges >> (LANES - 1) == 1;
        let start = planes.out;
        sites.add(merges, start, removed, |lane| (low.next[lane], high.next[lane]));
        planes.out = keep(planes.low, start, &low.here, kept, lanes);
        if wide {
            keep(planes.high, start, &high.here, kept, lanes);
        }
    }
}

/// A mask of the lowest `lanes` bits.
fn ones(lanes: usize) -> u64 {
    if lanes == LANES { u64::MAX } else { (1 << lanes) - 1 }
}

/// One byte (low or high) of each code of a block, and of the code after each.
struct CodeBlock {
    here: [u8; LANES],
    next: [u8; LANES],
}

impl Default for CodeBlock {
    fn default() -> CodeBlock {
        CodeBlock { here: [0; LANES], next: [0; LANES] }
    }
}

impl CodeBlock {
    /// Reads `lanes` codes from index `at` on, and the code after each; the rest is 0.
    fn read(plane: &[u8], at: usize, lanes: usize) -> CodeBlock {
        let mut block = CodeBlock::default();
        let next = &plane[at + 1..plane.len().min(at + 1 + lanes)];
        block.here[..lanes].copy_from_slice(&plane[at..at + lanes]);
        block.next[..next.len()].copy_from_slice(next);
        block
    }
}

/// Lanes where a rule of two different codes applies. `WIDE` says that codes have two bytes.
fn merges<const WIDE: bool>(low: &CodeBlock, high: &CodeBlock, rules: &BatchRules) -> u64 {
    let mut hits = [0; LANES];
    for rule in rules.list.iter().filter(|rule| rule.left != rule.right) {
        let ([left, left_high], [right, right_high]) = (rule.left.to_le_bytes(), rule.right.to_le_bytes());
        for (lane, hit) in hits.iter_mut().enumerate() {
            let mut is = u8::from(low.here[lane] == left) & u8::from(low.next[lane] == right);
            if WIDE {
                is &= u8::from(high.here[lane] == left_high) & u8::from(high.next[lane] == right_high);
            }
            *hit |= is;
        }
    }
    bits(&hits)
}

/// Lanes that have this byte.
fn equal(bytes: &[u8; LANES], wanted: u8) -> u64 {
    bits(&bytes.map(|byte| u8::from(byte == wanted)))
}

/// Packs bytes that are 0 or 1 into bits.
fn bits(bytes: &[u8; LANES]) -> u64 {
    // The product moves bit 8n of the eight bytes to bit 56 + n.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |bits, &eight| bits << 8 | u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56)
}

/// In each run of ones: the first, third, fifth … one.
///
/// For a pair of equal tokens, these are the places in each run of the token at which merges begin, except at
/// the last token of an odd run. For example, `0b111_0110` gives `0b101_0010`.
pub(super) fn odd_of_runs(runs: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let starts = runs & !(runs << 1);
    // Adding its start to a run clears the run and sets the bit behind it.
    let from_even = runs & !runs.wrapping_add(starts & EVEN);
    (from_even & EVEN) | (runs & !from_even & !EVEN)
}

/// Writes the codes that stay, and returns the position behind them.
fn keep(plane: &mut [u8], start: usize, block: &[u8; LANES], kept: u64, lanes: usize) -> usize {
    if kept == u64::MAX {
        plane[start..start + LANES].copy_from_slice(block);
        return start + LANES;
    }
    let mut out = start;
    let (eights, _) = block.as_chunks::<8>();
    for (eight, kept) in eights.iter().zip(kept.to_le_bytes()).take(lanes.div_ceil(8)) {
        if kept == u8::MAX {
            plane[out..out + 8].copy_from_slice(eight);
            out += 8;
            continue;
        }
        for (lane, &byte) in eight.iter().enumerate() {
            if kept >> lane & 1 == 1 {
                plane[out] = byte;
                out += 1;
            }
        }
    }
    out
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "vectors are loaded from and stored to arrays, and the processor is asked first"
)]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_shuffle_epi8, _mm256_and_si256, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    };
    use std::ops::Range;

    use super::super::batch::BatchRules;
    use super::{LANES, Planes, Sites, odd_of_runs};
    use crate::base::cpu_has;
    use crate::base::int::to_usize;

    /// Whether this processor has the features that [`close_gaps`] needs.
    pub(super) fn runs_here() -> bool {
        cpu_has!("avx2", "bmi1", "popcnt")
    }

    /// Does what the portable [`close_gaps`](super::close_gaps) does.
    ///
    /// # Panics
    /// If the processor lacks the features, or if `from` is not a number of whole blocks with another code behind
    /// them.
    pub(super) fn close_gaps(
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &BatchRules,
        sites: &mut Sites,
    ) {
        assert!(runs_here() && from.len().is_multiple_of(LANES) && from.end < planes.low.len());
        // SAFETY: the assertion has just checked that the processor has the features.
        unsafe {
            if planes.high.is_empty() {
                close::<false>(planes, from, rules, sites);
            } else {
                close::<true>(planes, from, rules, sites);
            }
        }
    }

    /// Each iteration compares a block, and the block that begins one code later, with the two codes of every rule.
    /// So each lane sees a code and the code after it.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    fn close<const WIDE: bool>(
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &BatchRules,
        sites: &mut Sites,
    ) {
        let pairs: Vec<[CodePattern; 2]> = rules
            .list
            .iter()
            .filter(|rule| rule.left != rule.right)
            .map(|rule| {
                [CodePattern::new(rule.left.to_le_bytes()), CodePattern::new(rule.right.to_le_bytes())]
            })
            .collect();
        let doubles: Vec<CodePattern> =
            rules.doubles.iter().map(|code| CodePattern::new(code.to_le_bytes())).collect();
        for at in from.step_by(LANES) {
            let (low, high) = (&mut *planes.low, &mut *planes.high);
            let here = CodeBlock::new::<WIDE>(low, high, at);
            let next = CodeBlock::new::<WIDE>(low, high, at + 1);
            let mut hits = [_mm256_setzero_si256(); 2];
            for [left, right] in &pairs {
                let (left, right) = (here.equal::<WIDE>(left), next.equal::<WIDE>(right));
                for half in 0..2 {
                    hits[half] = _mm256_or_si256(hits[half], _mm256_and_si256(left[half], right[half]));
                }
            }
            let removed = u64::from(planes.removed);
            let mut merges = mask(hits);
            for twice in &doubles {
                let is = mask(here.equal::<WIDE>(twice));
                merges |= odd_of_runs(is & !removed) & mask(next.equal::<WIDE>(twice));
            }
            let kept = !(merges << 1 | removed);
            planes.removed = merges >> (LANES - 1) == 1;
            sites.add(merges, planes.out, removed, |lane| {
                (low[at + 1 + lane], if WIDE { high[at + 1 + lane] } else { 0 })
            });
            let start = planes.out;
            planes.out = keep(low, at, start, kept);
            if WIDE {
                keep(high, at, start, kept);
            }
        }
    }

    /// A code, repeated in each lane.
    #[derive(Clone, Copy)]
    struct CodePattern {
        low: __m256i,
        high: __m256i,
    }

    impl CodePattern {
        #[target_feature(enable = "avx2")]
        fn new(code: [u8; 2]) -> CodePattern {
            let [low, high] = code.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
            CodePattern { low, high }
        }
    }

    /// The codes of a block, in two vectors for each plane.
    struct CodeBlock {
        low: [__m256i; 2],
        high: [__m256i; 2],
    }

    impl CodeBlock {
        #[target_feature(enable = "avx2")]
        fn new<const WIDE: bool>(low: &[u8], high: &[u8], at: usize) -> CodeBlock {
            let low = load(low, at);
            CodeBlock { low, high: if WIDE { load(high, at) } else { low } }
        }

        /// Lanes that have this code.
        #[target_feature(enable = "avx2")]
        fn equal<const WIDE: bool>(&self, code: &CodePattern) -> [__m256i; 2] {
            let equal = |half: usize| {
                let low = _mm256_cmpeq_epi8(self.low[half], code.low);
                if WIDE { _mm256_and_si256(low, _mm256_cmpeq_epi8(self.high[half], code.high)) } else { low }
            };
            [equal(0), equal(1)]
        }
    }

    /// One bit for each lane, from bytes that are 0 or 255.
    #[target_feature(enable = "avx2")]
    fn mask(halves: [__m256i; 2]) -> u64 {
        let [first, second] = halves.map(|half| u64::from(_mm256_movemask_epi8(half).cast_unsigned()));
        second << 32 | first
    }

    /// Writes those bytes of a block that stay, and returns the position behind them.
    ///
    /// AVX2 has no instruction that compresses bytes, so a table gives the order for each eight of them.
    ///
    /// A shuffle moves the bytes that stay to the front of each eight. Bytes written beyond those overwrite only
    /// what has been read already.
    #[target_feature(enable = "avx2,popcnt")]
    fn keep(plane: &mut [u8], at: usize, start: usize, kept: u64) -> usize {
        if kept == u64::MAX {
            plane.copy_within(at..at + LANES, start);
            return start + LANES;
        }
        let mut out = start;
        for (eight, kept) in (at..at + LANES).step_by(8).zip(kept.to_le_bytes()) {
            let bytes = u64::from_le_bytes(*plane[eight..].first_chunk().expect("a whole block"));
            let order = u64::from_le_bytes(TO_FRONT[usize::from(kept)]);
            let moved = _mm_shuffle_epi8(
                _mm_cvtsi64_si128(bytes.cast_signed()),
                _mm_cvtsi64_si128(order.cast_signed()),
            );
            let moved = _mm_cvtsi128_si64(moved).to_le_bytes();
            *plane[out..].first_chunk_mut().expect("it is not behind what was read") = moved;
            out += to_usize(kept.count_ones());
        }
        out
    }

    /// For each byte of bits, the numbers of the bits that are set, in order.
    static TO_FRONT: [[u8; 8]; 256] = {
        let mut table = [[0; 8]; 256];
        let mut bits = 0;
        while bits < 256 {
            let (mut bit, mut number, mut found) = (0, 0u8, 0);
            while bit < 8 {
                if bits >> bit & 1 == 1 {
                    table[bits][found] = number;
                    found += 1;
                }
                bit += 1;
                number += 1;
            }
            bits += 1;
        }
        table
    };

    /// Loads a block in two halves.
    #[target_feature(enable = "avx2")]
    fn load(plane: &[u8], at: usize) -> [__m256i; 2] {
        let bytes: &[u8; LANES] = plane[at..].first_chunk().expect("a whole block");
        let (halves, _) = bytes.as_chunks::<32>();
        // SAFETY: each half has as many bytes as are read, and the load needs no alignment.
        [&halves[0], &halves[1]].map(|half| unsafe { _mm256_loadu_si256(half.as_ptr().cast()) })
    }
}

/// The same with AVX-512.
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "vectors are loaded from and stored to arrays, and the processor is asked first"
)]
mod avx512 {
    use std::arch::x86_64::{
        __m128i, __m512i, _mm_loadu_si128, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4,
        _mm512_castsi512_si128, _mm512_cmpeq_epi8_mask, _mm512_cvtepu8_epi32, _mm512_extracti32x4_epi32,
        _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_maskz_compress_epi8, _mm512_movepi8_mask,
        _mm512_permutex2var_epi8, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512,
        _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_test_epi8_mask, _pext_u64,
    };
    use std::ops::Range;

    use super::super::batch::{BatchRules, SideBits, StarBits};
    use super::{LANES, Planes, Sites, odd_of_runs};
    use crate::base::cpu_has;
    use crate::base::int::{ALL_BYTES, to_usize, truncate_to_u32};

    /// Whether this processor has the features that [`close_gaps`] needs.
    pub(super) fn runs_here() -> bool {
        cpu_has!("avx512f", "avx512bw", "avx512vbmi", "avx512vbmi2", "bmi1", "bmi2", "popcnt")
    }

    /// Does what the portable [`close_gaps`](super::close_gaps) does.
    ///
    /// # Panics
    /// If the processor lacks the features, or if `from` is not a number of whole blocks with another code behind
    /// them.
    pub(super) fn close_gaps(
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &BatchRules,
        sites: &mut Sites,
    ) {
        assert!(runs_here() && from.len().is_multiple_of(LANES) && from.end < planes.low.len());
        let sets = rules.stars.as_slice();
        let wide = !planes.high.is_empty();
        // SAFETY: the assertion has just checked that the processor has the features.
        unsafe {
            match (wide, sets) {
                (false, []) => close::<false, 0>(planes, from, rules, &[], sites),
                (false, [one]) => close::<false, 1>(planes, from, rules, &[one], sites),
                (false, [one, two]) => close::<false, 2>(planes, from, rules, &[one, two], sites),
                (true, []) => close::<true, 0>(planes, from, rules, &[], sites),
                (true, [one]) => close::<true, 1>(planes, from, rules, &[one], sites),
                (true, [one, two]) => close::<true, 2>(planes, from, rules, &[one, two], sites),
                _ => unreachable!("a batch has two sets of stars at most"),
            }
        }
    }

    /// Each iteration loads a block, and the block that begins one code later, so that each lane sees a code and
    /// the code after it. Looking both up in the tables of the stars gives the lanes at which a pair begins.
    /// Compressing stores then write the codes that stay and the right codes of the sites; they may write a whole
    /// vector, for which the arrays have slack.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
    fn close<const WIDE: bool, const SETS: usize>(
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &BatchRules,
        sets: &[&StarBits; SETS],
        sites: &mut Sites,
    ) {
        let tables = sets.map(|bits| (StarTable::new(&bits.left), StarTable::new(&bits.right)));
        let numbers = load(block(&ALL_BYTES, 0));
        let (low, high) = (&mut *planes.low, &mut *planes.high);
        let (mut out, mut removed, mut count) = (planes.out, u64::from(planes.removed), sites.count);
        for at in from.step_by(LANES) {
            let here = load(block(low, at));
            let next = load(block(low, at + 1));
            let zero = _mm512_setzero_si512();
            let (here_high, next_high) =
                if WIDE { (load(block(high, at)), load(block(high, at + 1))) } else { (zero, zero) };
            let mut merges = 0;
            for (left, right) in &tables {
                let left = left.bits::<WIDE>(here, here_high);
                let right = right.bits::<WIDE>(next, next_high);
                merges |= _mm512_test_epi8_mask(left, right);
            }
            for code in &rules.doubles {
                let code = code.to_le_bytes();
                let is = equal::<WIDE>(here, here_high, code);
                let then = equal::<WIDE>(next, next_high, code);
                merges |= odd_of_runs(is & !removed) & then;
            }
            let kept = !(merges << 1 | removed);
            removed = merges >> (LANES - 1);
            store(block_mut(low, out), _mm512_maskz_compress_epi8(kept, here));
            store(block_mut(&mut *sites.rights_low, count), _mm512_maskz_compress_epi8(merges, next));
            if WIDE {
                store(block_mut(high, out), _mm512_maskz_compress_epi8(kept, here_high));
                store(
                    block_mut(&mut *sites.rights_high, count),
                    _mm512_maskz_compress_epi8(merges, next_high),
                );
            }
            let lanes = _mm512_maskz_compress_epi8(_pext_u64(merges, kept), numbers);
            let found = to_usize(merges.count_ones());
            store_places(&mut sites.places[count..], lanes, out, found);
            count += found;
            out += to_usize(kept.count_ones());
        }
        planes.out = out;
        planes.removed = removed == 1;
        sites.count = count;
    }

    /// The bits of the stars for each low byte and each high byte, in registers.
    #[derive(Clone, Copy)]
    struct StarTable {
        /// The bits by low byte: 256 entries in four registers.
        low: [__m512i; 4],
        /// The bits by high byte: 16 entries, repeated in each part of 16 bytes.
        high: __m512i,
    }

    impl StarTable {
        #[target_feature(enable = "avx512f")]
        fn new(bits: &SideBits) -> StarTable {
            let (quarters, _) = bits.low.as_chunks::<LANES>();
            StarTable {
                low: [load(&quarters[0]), load(&quarters[1]), load(&quarters[2]), load(&quarters[3])],
                high: _mm512_broadcast_i32x4(load_16(&bits.high)),
            }
        }

        /// The bits of the stars that each code is in.
        ///
        /// A permutation looks up the lower seven bits of each low byte in two registers; the top bit selects
        /// between the two results. Codes have fewer than 16 high bytes, so a shuffle looks these up.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        fn bits<const WIDE: bool>(&self, low: __m512i, high: __m512i) -> __m512i {
            let [a, b, c, d] = self.low;
            let lower = _mm512_permutex2var_epi8(a, low, b);
            let upper = _mm512_permutex2var_epi8(c, low, d);
            let bits = _mm512_mask_blend_epi8(_mm512_movepi8_mask(low), lower, upper);
            if WIDE { _mm512_and_si512(bits, _mm512_shuffle_epi8(self.high, high)) } else { bits }
        }
    }

    /// Lanes that have this code.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn equal<const WIDE: bool>(low: __m512i, high: __m512i, code: [u8; 2]) -> u64 {
        let [code_low, code_high] = code.map(|byte| _mm512_set1_epi8(byte.cast_signed()));
        let is = _mm512_cmpeq_epi8_mask(low, code_low);
        if WIDE { is & _mm512_cmpeq_epi8_mask(high, code_high) } else { is }
    }

    /// Writes the positions of the sites of a block, sixteen at a time.
    #[target_feature(enable = "avx512f")]
    fn store_places(places: &mut [u32], lanes: __m512i, out: usize, found: usize) {
        let out = _mm512_set1_epi32(truncate_to_u32(out).cast_signed());
        let place_of = |lanes: __m128i| _mm512_add_epi32(_mm512_cvtepu8_epi32(lanes), out);
        let (sixteens, _) = places.as_chunks_mut::<16>();
        store_16(&mut sixteens[0], place_of(_mm512_castsi512_si128(lanes)));
        if found > 16 {
            // At most 32 sites, because pairs do not overlap.
            store_16(&mut sixteens[1], place_of(_mm512_extracti32x4_epi32::<1>(lanes)));
        }
    }

    /// The block that begins at an index.
    fn block(plane: &[u8], at: usize) -> &[u8; LANES] {
        plane[at..].first_chunk().expect("a whole block")
    }

    /// The block that begins at an index, to be written.
    fn block_mut(plane: &mut [u8], at: usize) -> &mut [u8; LANES] {
        plane[at..].first_chunk_mut().expect("a whole block")
    }

    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; LANES]) -> __m512i {
        // SAFETY: the array has as many bytes as are read, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn load_16(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: the array has as many bytes as are read, and the load needs no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn store(bytes: &mut [u8; LANES], vector: __m512i) {
        // SAFETY: the array has as many bytes as are written, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
    }

    #[target_feature(enable = "avx512f")]
    fn store_16(numbers: &mut [u32; 16], vector: __m512i) {
        // SAFETY: the array has as many bytes as are written, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), vector) }
    }
}
