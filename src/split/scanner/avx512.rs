//! Masks by AVX-512.

#![expect(unsafe_code, reason = "loads of whole blocks, and calls of functions for this CPU")]
#![expect(clippy::as_conversions, reason = "lanes are signed in the names of the instructions only")]

use std::arch::x86_64::*;

use super::masks::{BLOCK, ClassPlanes, LeadBits, Masks, OpenCharacter, WINDOW};
use super::rules::{BlockRule, scan_blocks};
use crate::base::cpu_has;
use crate::base::int::ALL_BYTES;

/// Returns whether this CPU has the features that [`run`] needs.
pub(super) fn is_supported() -> bool {
    cpu_has!("avx512f", "avx512bw", "avx512vbmi", "avx512vbmi2", "bmi1", "bmi2", "lzcnt", "popcnt")
}

/// Runs [`scan_blocks`] with masks made 64 bytes at a time, and appends the pre-token starts, plus `base`, to `ends`.
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
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt")]
fn run_here<const P: usize, R: BlockRule<P>>(text: &[u8], base: usize, ends: &mut Vec<u32>) -> usize {
    let (planes, mut open) = (R::planes(), OpenCharacter::NONE);
    let ascii = [load(&planes.bytes), load(&planes.bytes[64..])];
    let masks = |bytes: &[u8; WINDOW]| {
        let here = load(&bytes[..BLOCK]);
        let non_ascii = _mm512_movepi8_mask(here);
        if non_ascii == 0 { of_ascii(here, 0, ascii) } else { of_any(bytes, planes, ascii, &mut open) }
    };
    scan_blocks::<P, R>(text, masks, |at, mask| append(ends, base + at, mask))
}

/// Loads the first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8]) -> __m512i {
    let bytes: &[u8; 64] = bytes.first_chunk().expect("callers pass 64 bytes or more");
    // SAFETY: the reference is to 64 bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Appends the positions of the one bits of a mask, plus `at`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn append(ends: &mut Vec<u32>, at: usize, mask: u64) {
    ends.reserve(BLOCK);
    let count = mask.count_ones() as usize;
    let set_bits = _mm512_maskz_compress_epi8(mask, load(&ALL_BYTES));
    let base = _mm512_set1_epi32(at as i32);
    // SAFETY: the vector has capacity for 64 more numbers, and no store goes beyond them. The length grows by
    // `count`, and the stores have written the first `count` numbers.
    unsafe {
        let mut end = ends.as_mut_ptr().add(ends.len());
        let store = |end: *mut u32, set_bits: __m128i| {
            _mm512_storeu_si512(end.cast(), _mm512_add_epi32(_mm512_cvtepu8_epi32(set_bits), base));
        };
        store(end, _mm512_castsi512_si128(set_bits));
        if count > 16 {
            end = end.add(16);
            store(end, _mm512_extracti32x4_epi32::<1>(set_bits));
            if count > 32 {
                store(end.add(16), _mm512_extracti32x4_epi32::<2>(set_bits));
                store(end.add(32), _mm512_extracti32x4_epi32::<3>(set_bits));
            }
        }
        ends.set_len(ends.len() + count);
    }
}

/// Computes the masks of a block. `non_ascii` are its bytes outside ASCII; their planes are 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn of_ascii<const P: usize>(here: __m512i, non_ascii: u64, ascii: [__m512i; 2]) -> Masks<P> {
    let classes = _mm512_maskz_permutex2var_epi8(!non_ascii, ascii[0], here, ascii[1]);
    let is = |byte: u8| _mm512_cmpeq_epi8_mask(here, _mm512_set1_epi8(byte as i8));
    let mut planes = [0; P];
    for (plane, mask) in planes.iter_mut().enumerate() {
        *mask = _mm512_test_epi8_mask(classes, _mm512_set1_epi8((1_u8 << plane) as i8));
    }
    Masks {
        planes,
        start: !non_ascii,
        non_ascii,
        space: is(b' '),
        newline: is(b'\n') | is(b'\r'),
        quote: is(b'\''),
        slash: is(b'/'),
    }
}

/// Computes the masks of a block that is not all ASCII.
///
/// It looks characters up in bitmaps by their first two bytes. That is enough for all characters of two bytes, and
/// for most pages of three bytes. The remaining pages are handled one after another.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi1,bmi2,lzcnt,popcnt")]
fn of_any<const P: usize>(
    bytes: &[u8; WINDOW],
    planes: &ClassPlanes<P>,
    ascii: [__m512i; 2],
    open: &mut OpenCharacter<P>,
) -> Masks<P> {
    let [first, second, third] = [load(bytes), load(&bytes[1..]), load(&bytes[2..])];
    let byte = |value: u8| _mm512_set1_epi8(value as i8);
    let Some(leads) = Utf8Structure::of(bytes, first, second, third, open.bytes) else {
        return Masks::by_character(bytes, planes, open);
    };
    let mut masks = of_ascii::<P>(first, leads.non_ascii, ascii);
    masks.start = !leads.tails;

    let low = |vector, bits: u8| _mm512_and_si512(vector, byte(bits));
    let index =
        _mm512_or_si512(low(_mm512_slli_epi16::<3>(first), 0x78), low(_mm512_srli_epi16::<3>(second), 0x07));
    let powers = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let bit = _mm512_shuffle_epi8(powers, low(second, 0x07));
    let within = |table: &LeadBits| {
        let bits = _mm512_permutex2var_epi8(load(&table.0), index, load(&table.0[64..]));
        _mm512_test_epi8_mask(bits, bit)
    };
    if leads.two != 0 {
        let upper = leads.two & _mm512_test_epi8_mask(first, byte(0x10));
        let lower = leads.two & !upper;
        for (mask, tables) in masks.planes.iter_mut().zip(&planes.by_lead) {
            *mask |= within(&tables.two[0]) & lower | within(&tables.two[1]) & upper;
        }
    }
    if leads.three != 0 {
        for (mask, tables) in masks.planes.iter_mut().zip(&planes.by_lead) {
            *mask |= within(&tables.three) & leads.three;
        }
        let mut mixed = within(&planes.mixed) & leads.three;
        if mixed != 0 {
            let octet = low(_mm512_srli_epi16::<3>(third), 0x07);
            let bit = _mm512_shuffle_epi8(powers, low(third, 0x07));
            while mixed != 0 {
                let at = mixed.trailing_zeros() as usize;
                let (lead, next) = (bytes[at], bytes[at + 1]);
                let alike = _mm512_mask_cmpeq_epi8_mask(mixed, first, byte(lead));
                let alike = _mm512_mask_cmpeq_epi8_mask(alike, second, byte(next));
                let page = planes.page(u32::from(lead & 0x0F) << 6 | u32::from(next & 0x3F));
                for (mask, bits) in masks.planes.iter_mut().zip(page) {
                    let bits = _mm512_shuffle_epi8(_mm512_set1_epi64(*bits as i64), octet);
                    *mask |= _mm512_mask_test_epi8_mask(alike, bits, bit);
                }
                mixed &= !alike;
            }
        }
    }
    let mut four = leads.four;
    while four != 0 {
        let at = four.trailing_zeros() as usize;
        let tail = |offset: usize| u32::from(bytes[at + offset] & 0x3F);
        let page = planes.page(u32::from(bytes[at] & 0x07) << 12 | tail(1) << 6 | tail(2));
        for (mask, bits) in masks.planes.iter_mut().zip(page) {
            *mask |= (bits >> tail(3) & 1) << at;
        }
        four &= four - 1;
    }

    masks.fill(leads.non_ascii, leads.tails, open);
    open.bytes = leads.open;
    masks
}

/// The structure of the UTF-8 in a block, as masks. The block has no invalid UTF-8.
struct Utf8Structure {
    /// Bytes outside ASCII.
    non_ascii: u64,
    /// Continuation bytes.
    tails: u64,
    /// First bytes of characters of two bytes.
    two: u64,
    /// First bytes of characters of three bytes.
    three: u64,
    /// First bytes of characters of four bytes.
    four: u64,
    /// Number of bytes in the next block that belong to the last character.
    open: u32,
}

impl Utf8Structure {
    /// Checks a block and returns its structure; `None` if it contains invalid UTF-8.
    ///
    /// `first`, `second` and `third` are the 64 bytes from offset 0, 1 and 2 of the block on. `open` is the number of
    /// bytes that continue the last character of the previous block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
    fn of(
        bytes: &[u8; WINDOW],
        first: __m512i,
        second: __m512i,
        third: __m512i,
        open: u32,
    ) -> Option<Utf8Structure> {
        let byte = |value: u8| _mm512_set1_epi8(value as i8);
        let is_tail = |vector| _mm512_cmplt_epi8_mask(vector, byte(0xC0));
        let below = |mask, vector, value| _mm512_mask_cmplt_epu8_mask(mask, vector, byte(value));
        let non_ascii = _mm512_movepi8_mask(first);
        let tails = is_tail(first);
        let leads = non_ascii & !tails;
        let two = below(leads, first, 0xE0);
        let four = leads & !below(leads, first, 0xF0);
        let three = leads & !two & !four;
        let more = three | four;

        let expected = ((1 << open) - 1) | leads << 1 | more << 2 | four << 3;
        let mut wrong = tails ^ expected;
        wrong |= leads & !is_tail(second) | more & !is_tail(third);
        wrong |= below(two, first, 0xC2);
        // Overlong forms of three bytes, and surrogates.
        let least = _mm512_mask_cmpeq_epi8_mask(three, first, byte(0xE0));
        let surrogate = _mm512_mask_cmpeq_epi8_mask(three, first, byte(0xED));
        wrong |= below(least, second, 0xA0) | surrogate & !below(surrogate, second, 0xA0);
        if four != 0 {
            wrong |= four & !is_tail(load(&bytes[3..]));
            let least = _mm512_mask_cmpeq_epi8_mask(four, first, byte(0xF0));
            let greatest = _mm512_mask_cmpeq_epi8_mask(four, first, byte(0xF4));
            wrong |= below(least, second, 0x90) | greatest & !below(greatest, second, 0x90);
            wrong |= four & !below(four, first, 0xF5);
        }
        let open = (leads >> 63 | more >> 62 | four >> 61).count_ones();
        (wrong == 0).then_some(Utf8Structure { non_ascii, tails, two, three, four, open })
    }
}
