//! Masks by 64-bit arithmetic, for CPUs without AVX2.

use super::drive::{Rule, drive};
use super::leads::{Uppers, add_wide};
use super::masks::{BLOCK, Masks, Open, Planes, SEEN};
use crate::base::int::truncate_to_u32;

/// The lowest bit of each of eight bytes.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Runs [`drive`] with masks made by 64-bit arithmetic, eight bytes at a time, and appends the pre-token starts, plus
/// `base`, to `ends`. Returns what `drive` returns.
pub(super) fn scan<const P: usize, R: Rule<P>>(
    text: &[u8],
    planes: &Planes<P>,
    rule: R,
    base: usize,
    ends: &mut Vec<u32>,
) -> usize {
    let mut open = Open::NONE;
    drive(
        text,
        planes,
        rule,
        |bytes| {
            let here = bytes.first_chunk().expect("a block and more");
            let masks = of_ascii(here, planes);
            if masks.wide == 0 { masks } else { of_any(masks, bytes, planes, &mut open) }
        },
        |at, mask| append(ends, base + at, mask),
    )
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
fn of_ascii<const P: usize>(here: &[u8; BLOCK], planes: &Planes<P>) -> Masks<P> {
    let mut masks = Masks { planes: [0; P], start: !0, wide: 0, space: 0, newline: 0, quote: 0, slash: 0 };
    for (number, bytes) in here.as_chunks::<8>().0.iter().enumerate() {
        let at = 8 * number;
        let classes = u64::from_le_bytes(bytes.map(|byte| planes.bytes[usize::from(byte)]));
        for (plane, mask) in masks.planes.iter_mut().enumerate() {
            *mask |= gather(classes >> plane & ONES) << at;
        }
        let word = u64::from_le_bytes(*bytes);
        masks.wide |= gather(word >> 7 & ONES) << at;
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
    masks.start = !masks.wide;
    masks
}

/// Completes the masks of a block that is not all ASCII.
#[inline(never)]
fn of_any<const P: usize>(
    masks: Masks<P>,
    bytes: &[u8; SEEN],
    planes: &Planes<P>,
    open: &mut Open<P>,
) -> Masks<P> {
    let mut uppers = [0; 4];
    for (number, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        for (upper, below) in uppers.iter_mut().zip(0..) {
            *upper |= gather(word >> (7 - below) & ONES) << (8 * number);
        }
    }
    add_wide(masks, bytes, Uppers::new(bytes, uppers), planes, open)
        .unwrap_or_else(|| Masks::by_character(bytes, planes, open))
}

/// Gathers the lowest bits of eight bytes into the low eight bits. All other bits must be 0.
fn gather(bits: u64) -> u64 {
    bits.wrapping_mul(0x0102_0408_1020_4080) >> 56
}
