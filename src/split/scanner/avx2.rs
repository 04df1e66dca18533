//! Masks by AVX2.

#![expect(unsafe_code, reason = "loads of 32 bytes, and calls of functions for this CPU")]
#![expect(clippy::as_conversions, reason = "lanes are signed in the names of the instructions only")]

use std::arch::x86_64::*;

use super::masks::{ClassPlanes, Masks, OpenCharacter, WINDOW};
use super::portable::{HighBits, add_non_ascii, append};
use super::rules::{BlockRule, scan_blocks};
use crate::base::cpu_has;

/// Returns whether this CPU has the features that [`run`] needs.
pub(super) fn is_supported() -> bool {
    cpu_has!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt")
}

/// Runs [`scan_blocks`] with masks made 32 bytes at a time, and appends the pre-token starts, plus `base`, to `ends`.
/// Returns what `scan_blocks` returns.
///
/// # Panics
/// This CPU lacks the features.
pub(super) fn run<const P: usize, R: BlockRule<P>>(text: &[u8], base: usize, ends: &mut Vec<u32>) -> usize {
    assert!(is_supported(), "the caller has asked");
    // SAFETY: the CPU has the features, as just asserted.
    unsafe { run_here::<P, R>(text, base, ends) }
}

/// [`run`] compiled with the features. [`scan_blocks`] and the rule are inlined into it, so that they use them, too.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_here<const P: usize, R: BlockRule<P>>(text: &[u8], base: usize, ends: &mut Vec<u32>) -> usize {
    let (planes, mut open) = (R::planes(), OpenCharacter::NONE);
    let tables = ShuffleTables::new(&planes.bytes);
    let masks = |bytes: &[u8; WINDOW]| {
        let halves = [load(bytes), load(&bytes[32..])];
        let masks = of_ascii(halves, &tables);
        if masks.non_ascii == 0 { masks } else { of_any(masks, bytes, halves, planes, &mut open) }
    };
    scan_blocks::<P, R>(text, masks, |at, mask| append(ends, base + at, mask))
}

/// Loads the first 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8]) -> __m256i {
    let bytes: &[u8; 32] = bytes.first_chunk().expect("callers pass 32 bytes or more");
    // SAFETY: the reference is to 32 bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Returns one bit of each byte as a mask: the bit `below` positions below the uppermost.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(halves: [__m256i; 2], below: i32) -> u64 {
    let by = _mm_cvtsi32_si128(below);
    let [low, high] = halves.map(|half| _mm256_movemask_epi8(_mm256_sll_epi16(half, by)) as u32);
    u64::from(high) << 32 | u64::from(low)
}

/// Returns the positions of a byte.
#[inline]
#[target_feature(enable = "avx2")]
fn is(halves: [__m256i; 2], byte: u8) -> u64 {
    let byte = _mm256_set1_epi8(byte as i8);
    bits(halves.map(|half| _mm256_cmpeq_epi8(half, byte)), 0)
}

/// The planes of ASCII characters: for each value of their upper three bits, a shuffle table indexed by the lower
/// four.
struct ShuffleTables([__m256i; 8]);

impl ShuffleTables {
    /// Copies the tables of the 128 ASCII characters, each twice: once for each half of a vector.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bytes: &[u8; 256]) -> ShuffleTables {
        let mut tables = [_mm256_setzero_si256(); 8];
        for (row, bytes) in tables.iter_mut().zip(bytes.as_chunks::<16>().0) {
            let (low, high) = bytes.as_chunks::<8>().0.split_at(1);
            let [low, high] = [low[0], high[0]].map(|half| u64::from_le_bytes(half) as i64);
            *row = _mm256_set_epi64x(high, low, high, low);
        }
        ShuffleTables(tables)
    }

    /// Returns the planes of each byte; 0 for bytes outside ASCII.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn planes(&self, bytes: __m256i) -> __m256i {
        let mut planes = _mm256_setzero_si256();
        for (number, row) in (0_i8..).zip(self.0) {
            // Bytes that belong to another row get their uppermost bit set, so that the shuffle gives zero.
            let within = _mm256_xor_si256(bytes, _mm256_set1_epi8(number << 4));
            let within = _mm256_adds_epu8(within, _mm256_set1_epi8(0x70));
            planes = _mm256_or_si256(planes, _mm256_shuffle_epi8(row, within));
        }
        planes
    }
}

/// Computes the masks of a block. The planes of bytes outside ASCII are 0.
#[inline]
#[target_feature(enable = "avx2")]
fn of_ascii<const P: usize>(halves: [__m256i; 2], tables: &ShuffleTables) -> Masks<P> {
    let classes = halves.map(|half| tables.planes(half));
    let mut planes = [0; P];
    for (plane, mask) in (0_i32..).zip(&mut planes) {
        *mask = bits(classes, 7 - plane);
    }
    let non_ascii = bits(halves, 0);
    Masks {
        planes,
        start: !non_ascii,
        non_ascii,
        space: is(halves, b' '),
        newline: is(halves, b'\n') | is(halves, b'\r'),
        quote: is(halves, b'\''),
        slash: is(halves, b'/'),
    }
}

/// Completes the masks of a block that is not all ASCII.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn of_any<const P: usize>(
    masks: Masks<P>,
    bytes: &[u8; WINDOW],
    halves: [__m256i; 2],
    planes: &ClassPlanes<P>,
    open: &mut OpenCharacter<P>,
) -> Masks<P> {
    let uppers = HighBits::new(bytes, [0, 1, 2, 3].map(|below| bits(halves, below)));
    add_non_ascii(masks, bytes, uppers, planes, open)
        .unwrap_or_else(|| Masks::by_character(bytes, planes, open))
}
