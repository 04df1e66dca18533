//! Masks by 64-bit arithmetic, for CPUs without AVX2, and what these share with AVX2: the characters outside ASCII,
//! which are looked up one by one, and the output of the results.

use super::masks::{BLOCK, ClassPlanes, Masks, OpenCharacter, WINDOW, set_bits};
use super::rules::{BlockRule, scan_blocks};
use crate::base::int::truncate_to_u32;

/// The lowest bit of each of eight bytes.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Runs [`scan_blocks`] with masks made by 64-bit arithmetic, eight bytes at a time, and appends the pre-token
/// starts, plus `base`, to `ends`. Returns what `scan_blocks` returns.
pub(super) fn run<const P: usize, R: BlockRule<P>>(text: &[u8], base: usize, ends: &mut Vec<u32>) -> usize {
    let (planes, mut open) = (R::planes(), OpenCharacter::NONE);
    let masks = |bytes: &[u8; WINDOW]| {
        let here = bytes.first_chunk().expect("a block and more");
        let masks = of_ascii(here, planes);
        if masks.non_ascii == 0 { masks } else { of_any(masks, bytes, planes, &mut open) }
    };
    scan_blocks::<P, R>(text, masks, |at, mask| append(ends, base + at, mask))
}

/// Appends the positions of the one bits of a mask, plus `at`.
pub(super) fn append(ends: &mut Vec<u32>, at: usize, mut mask: u64) {
    ends.reserve(BLOCK);
    let base = truncate_to_u32(at);
    while mask != 0 {
        ends.push(base + mask.trailing_zeros());
        mask &= mask - 1;
    }
}

/// Computes the masks of a block, eight bytes at a time. The planes of bytes outside ASCII are 0.
fn of_ascii<const P: usize>(here: &[u8; BLOCK], planes: &ClassPlanes<P>) -> Masks<P> {
    let mut masks =
        Masks { planes: [0; P], start: !0, non_ascii: 0, space: 0, newline: 0, quote: 0, slash: 0 };
    for (number, bytes) in here.as_chunks::<8>().0.iter().enumerate() {
        let at = 8 * number;
        let classes = u64::from_le_bytes(bytes.map(|byte| planes.bytes[usize::from(byte)]));
        for (plane, mask) in masks.planes.iter_mut().enumerate() {
            *mask |= gather(classes >> plane & ONES) << at;
        }
        let word = u64::from_le_bytes(*bytes);
        masks.non_ascii |= gather(word >> 7 & ONES) << at;
        // Compares each byte with an ASCII byte: the uppermost bit of each byte becomes 1 where they are equal.
        let is = |byte: u8| {
            let other = word ^ (ONES * u64::from(byte));
            gather(!(((other & (ONES * 127)) + ONES * 127) | other) >> 7 & ONES) << at
        };
        masks.space |= is(b' ');
        masks.newline |= is(b'\n') | is(b'\r');
        masks.quote |= is(b'\'');
        masks.slash |= is(b'/');
    }
    masks.start = !masks.non_ascii;
    masks
}

/// Completes the masks of a block that is not all ASCII.
#[inline(never)]
fn of_any<const P: usize>(
    masks: Masks<P>,
    bytes: &[u8; WINDOW],
    planes: &ClassPlanes<P>,
    open: &mut OpenCharacter<P>,
) -> Masks<P> {
    let mut uppers = [0; 4];
    for (number, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        for (upper, below) in uppers.iter_mut().zip(0..) {
            *upper |= gather(word >> (7 - below) & ONES) << (8 * number);
        }
    }
    add_non_ascii(masks, bytes, HighBits::new(bytes, uppers), planes, open)
        .unwrap_or_else(|| Masks::by_character(bytes, planes, open))
}

/// Gathers the lowest bits of eight bytes into the low eight bits. All other bits must be 0.
fn gather(bits: u64) -> u64 {
    bits.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The upper four bits of each byte of a block as masks, and the continuation bytes after it.
#[derive(Clone, Copy)]
pub(super) struct HighBits {
    /// The masks of the four bits, the uppermost bit first.
    pub(super) bits: [u64; 4],
    /// Which of the three bytes after the block are of the form 10xxxxxx, the first byte in the lowest bit.
    pub(super) tails_after: u64,
}

impl HighBits {
    /// Combines the masks of a block with those of the three bytes after it.
    #[inline(always)] // Compiled for each CPU.
    pub(super) fn new(bytes: &[u8; WINDOW], bits: [u64; 4]) -> HighBits {
        let tail = |at: usize| u64::from(bytes[BLOCK + at] & 0xC0 == 0x80) << at;
        HighBits { bits, tails_after: tail(0) | tail(1) | tail(2) }
    }
}

/// Adds the characters outside ASCII to masks that have the ASCII characters of a block. It looks each one up in the
/// table of pages. Returns `None` if the block contains invalid UTF-8.
#[inline(always)] // Compiled for each CPU.
pub(super) fn add_non_ascii<const P: usize>(
    mut masks: Masks<P>,
    bytes: &[u8; WINDOW],
    uppers: HighBits,
    planes: &ClassPlanes<P>,
    open: &mut OpenCharacter<P>,
) -> Option<Masks<P>> {
    let [non_ascii, bit6, bit5, bit4] = uppers.bits;
    let tails = non_ascii & !bit6;
    let leads = non_ascii & bit6;
    let (three, four) = (leads & bit5, leads & bit5 & bit4);
    let expected = ((1 << open.bytes) - 1) | leads << 1 | three << 2 | four << 3;
    let spilled = leads >> 63 | three >> 62 | four >> 61;
    if tails != expected || spilled & !uppers.tails_after != 0 {
        return None;
    }
    masks.non_ascii = non_ascii;
    masks.start = !tails;
    for at in set_bits(leads) {
        let (number, last) = page_and_index(bytes, at)?;
        for (mask, bits) in masks.planes.iter_mut().zip(planes.page(number)) {
            *mask |= (bits >> last & 1) << at;
        }
    }
    masks.fill(leads, tails, open);
    open.bytes = spilled.count_ones();
    Some(masks)
}

/// Returns the page number of the character that starts at `at`, and its index in the page.
///
/// The lead must be followed by the number of continuation bytes that it requires. Returns `None` for overlong forms,
/// surrogates, and numbers above U+10FFFF.
#[inline(always)] // Part of the loop above.
fn page_and_index(bytes: &[u8; WINDOW], at: usize) -> Option<(u32, u32)> {
    let lead = bytes[at];
    let tail = |offset: usize| u32::from(bytes[at + offset] & 0x3F);
    let (number, last, known) = match lead {
        0xC0..0xE0 => (u32::from(lead & 0x1F), tail(1), 2..0x20),
        0xE0..0xF0 => (u32::from(lead & 0x0F) << 6 | tail(1), tail(2), 0x20..0x400),
        _ => (u32::from(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), tail(3), 0x400..0x4400),
    };
    let surrogate = 0x360..0x380;
    (known.contains(&number) && !surrogate.contains(&number)).then_some((number, last))
}
