// Blocks of 64 codes with AVX-512. `blocks` has the portable implementation of the same function.
#![expect(
    unsafe_code,
    reason = "vectors are loaded from and stored to arrays, and the processor is asked first"
)]

use std::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_castsi512_si128, _mm512_cmpeq_epi8_mask, _mm512_cvtepu8_epi32, _mm512_extracti32x4_epi32,
    _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_maskz_compress_epi8, _mm512_movepi8_mask,
    _mm512_permutex2var_epi8, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_storeu_si512, _mm512_test_epi8_mask, _pext_u64,
};
use std::ops::Range;

use super::blocks::{LANES, Planes, Sites, firsts};
use super::rules::{Bits, Rules, SideBits};
use crate::base::int::{to_usize, truncate_to_u32};

/// Whether this processor has the features that [`close_gaps`] needs.
pub(super) fn runs_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Does what [`blocks::close_gaps`](super::blocks::close_gaps) does.
///
/// # Panics
/// If the processor lacks the features, or if `from` is not a number of whole blocks with another code behind
/// them.
pub(super) fn close_gaps(planes: &mut Planes<'_>, from: Range<usize>, rules: &Rules, sites: &mut Sites) {
    assert!(runs_here() && from.len().is_multiple_of(LANES) && from.end < planes.low.len());
    let sets = rules.stars.sets.as_slice();
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
    rules: &Rules,
    sets: &[&Bits; SETS],
    sites: &mut Sites,
) {
    let tables = sets.map(|bits| (Table::new(&bits.left), Table::new(&bits.right)));
    let numbers = load(&LANE_NUMBERS);
    let (low, high) = (&mut *planes.low, &mut *planes.high);
    let (mut out, mut gone, mut count) = (planes.out, u64::from(planes.gone), sites.count);
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
            merges |= firsts(is & !gone) & then;
        }
        let stays = !(merges << 1 | gone);
        gone = merges >> (LANES - 1);
        store(block_mut(low, out), _mm512_maskz_compress_epi8(stays, here));
        store(block_mut(&mut *sites.rights_low, count), _mm512_maskz_compress_epi8(merges, next));
        if WIDE {
            store(block_mut(high, out), _mm512_maskz_compress_epi8(stays, here_high));
            store(block_mut(&mut *sites.rights_high, count), _mm512_maskz_compress_epi8(merges, next_high));
        }
        let lanes = _mm512_maskz_compress_epi8(_pext_u64(merges, stays), numbers);
        let found = to_usize(merges.count_ones());
        store_places(&mut sites.places[count..], lanes, out, found);
        count += found;
        out += to_usize(stays.count_ones());
    }
    planes.out = out;
    planes.gone = gone == 1;
    sites.count = count;
}

static LANE_NUMBERS: [u8; LANES] = {
    let mut numbers = [0; LANES];
    let (mut lane, mut number) = (0, 0u8);
    while lane < LANES {
        numbers[lane] = number;
        lane += 1;
        number += 1;
    }
    numbers
};

/// The bits of the stars for each low byte and each high byte, in registers.
#[derive(Clone, Copy)]
struct Table {
    /// The bits by low byte: 256 entries in four registers.
    low: [__m512i; 4],
    /// The bits by high byte: 16 entries, repeated in each part of 16 bytes.
    high: __m512i,
}

impl Table {
    #[target_feature(enable = "avx512f")]
    fn new(bits: &SideBits) -> Table {
        let (quarters, _) = bits.low.as_chunks::<LANES>();
        Table {
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
