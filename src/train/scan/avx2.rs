// Blocks of 64 codes with AVX2. `blocks` has the portable implementation of the same function.
#![expect(
    unsafe_code,
    reason = "vectors are loaded from and stored to arrays, and the processor is asked first"
)]

use std::arch::x86_64::{
    __m256i, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_shuffle_epi8, _mm256_and_si256, _mm256_cmpeq_epi8,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256,
};
use std::ops::Range;

use super::blocks::{LANES, Planes, Sites, firsts};
use super::rules::Rules;
use crate::base::int::to_usize;

/// Whether this processor has the features that [`close_gaps`] needs.
pub(super) fn runs_here() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt")
}

/// Does what [`blocks::close_gaps`](super::blocks::close_gaps) does.
///
/// # Panics
/// If the processor lacks the features, or if `from` is not a number of whole blocks with another code behind
/// them.
pub(super) fn close_gaps(planes: &mut Planes<'_>, from: Range<usize>, rules: &Rules, sites: &mut Sites) {
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
fn close<const WIDE: bool>(planes: &mut Planes<'_>, from: Range<usize>, rules: &Rules, sites: &mut Sites) {
    let pairs: Vec<[Wanted; 2]> = rules
        .list
        .iter()
        .filter(|rule| rule.left != rule.right)
        .map(|rule| [Wanted::new(rule.left.to_le_bytes()), Wanted::new(rule.right.to_le_bytes())])
        .collect();
    let doubles: Vec<Wanted> = rules.doubles.iter().map(|code| Wanted::new(code.to_le_bytes())).collect();
    for at in from.step_by(LANES) {
        let (low, high) = (&mut *planes.low, &mut *planes.high);
        let here = Block::new::<WIDE>(low, high, at);
        let next = Block::new::<WIDE>(low, high, at + 1);
        let mut hits = [_mm256_setzero_si256(); 2];
        for [left, right] in &pairs {
            let (left, right) = (here.equal::<WIDE>(left), next.equal::<WIDE>(right));
            for half in 0..2 {
                hits[half] = _mm256_or_si256(hits[half], _mm256_and_si256(left[half], right[half]));
            }
        }
        let gone = u64::from(planes.gone);
        let mut merges = mask(hits);
        for twice in &doubles {
            let is = mask(here.equal::<WIDE>(twice));
            merges |= firsts(is & !gone) & mask(next.equal::<WIDE>(twice));
        }
        let stays = !(merges << 1 | gone);
        planes.gone = merges >> (LANES - 1) == 1;
        sites.add(merges, planes.out, gone, |lane| {
            (low[at + 1 + lane], if WIDE { high[at + 1 + lane] } else { 0 })
        });
        let start = planes.out;
        planes.out = keep(low, at, start, stays);
        if WIDE {
            keep(high, at, start, stays);
        }
    }
}

/// A code, repeated in each lane.
#[derive(Clone, Copy)]
struct Wanted {
    low: __m256i,
    high: __m256i,
}

impl Wanted {
    #[target_feature(enable = "avx2")]
    fn new(code: [u8; 2]) -> Wanted {
        let [low, high] = code.map(|byte| _mm256_set1_epi8(byte.cast_signed()));
        Wanted { low, high }
    }
}

/// The codes of a block, in two vectors for each plane.
struct Block {
    low: [__m256i; 2],
    high: [__m256i; 2],
}

impl Block {
    #[target_feature(enable = "avx2")]
    fn new<const WIDE: bool>(low: &[u8], high: &[u8], at: usize) -> Block {
        let low = load(low, at);
        Block { low, high: if WIDE { load(high, at) } else { low } }
    }

    /// Lanes that have this code.
    #[target_feature(enable = "avx2")]
    fn equal<const WIDE: bool>(&self, code: &Wanted) -> [__m256i; 2] {
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
fn keep(plane: &mut [u8], at: usize, start: usize, stays: u64) -> usize {
    if stays == u64::MAX {
        plane.copy_within(at..at + LANES, start);
        return start + LANES;
    }
    let mut out = start;
    for (eight, stays) in (at..at + LANES).step_by(8).zip(stays.to_le_bytes()) {
        let bytes = u64::from_le_bytes(*plane[eight..].first_chunk().expect("a whole block"));
        let order = u64::from_le_bytes(TO_FRONT[usize::from(stays)]);
        let moved =
            _mm_shuffle_epi8(_mm_cvtsi64_si128(bytes.cast_signed()), _mm_cvtsi64_si128(order.cast_signed()));
        let moved = _mm_cvtsi128_si64(moved).to_le_bytes();
        *plane[out..].first_chunk_mut().expect("it is not behind what was read") = moved;
        out += to_usize(stays.count_ones());
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
