//! Adds characters outside ASCII to the masks of a block, for all CPUs without AVX-512.

use super::bits::places;
use super::masks::{BLOCK, Masks, Open, Planes, SEEN};

/// The upper four bits of each byte of a block as masks, and the continuation bytes after it.
#[derive(Clone, Copy)]
pub(super) struct Uppers {
    /// The masks of the four bits, the uppermost bit first.
    pub(super) bits: [u64; 4],
    /// Which of the three bytes after the block are of the form 10xxxxxx, the first byte in the lowest bit.
    pub(super) tails_after: u64,
}

impl Uppers {
    /// Combines the masks of a block with those of the three bytes after it.
    #[inline(always)] // Compiled for each CPU.
    pub(super) fn new(bytes: &[u8; SEEN], bits: [u64; 4]) -> Uppers {
        let tail = |at: usize| u64::from(bytes[BLOCK + at] & 0xC0 == 0x80) << at;
        Uppers { bits, tails_after: tail(0) | tail(1) | tail(2) }
    }
}

/// Adds the characters outside ASCII to masks that have the ASCII characters of a block. It looks each one up in the
/// table of pages. Returns `None` if the block contains invalid UTF-8.
#[inline(always)] // Compiled for each CPU.
pub(super) fn add_wide<const P: usize>(
    mut masks: Masks<P>,
    bytes: &[u8; SEEN],
    uppers: Uppers,
    planes: &Planes<P>,
    open: &mut Open<P>,
) -> Option<Masks<P>> {
    let [wide, bit6, bit5, bit4] = uppers.bits;
    let tails = wide & !bit6;
    let leads = wide & bit6;
    let (three, four) = (leads & bit5, leads & bit5 & bit4);
    let expected = ((1 << open.bytes) - 1) | leads << 1 | three << 2 | four << 3;
    let spilled = leads >> 63 | three >> 62 | four >> 61;
    if tails != expected || spilled & !uppers.tails_after != 0 {
        return None;
    }
    masks.wide = wide;
    masks.start = !tails;
    for at in places(leads) {
        let (number, last) = page(bytes, at)?;
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
fn page(bytes: &[u8; SEEN], at: usize) -> Option<(u32, u32)> {
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
