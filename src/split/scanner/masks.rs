//! Bit masks of the character classes in a 64-byte block, and the tables to compute them.

use super::super::classes::{ClassSet, Classes, PAGE, SIGN, decode};
use crate::base::int::to_usize;

/// Bytes per block: one bit of a 64-bit mask for each.
pub(super) const BLOCK: usize = 64;
/// Bytes, from the start of a block, that determine its masks. The last character of a block can have three bytes
/// after the block.
pub(super) const SEEN: usize = BLOCK + 3;

/// The classes of the bytes of a block: masks with one bit per byte, the first byte in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks<const P: usize> {
    /// For each plane, all bytes of the characters in its set.
    pub(super) planes: [u64; P],
    /// First bytes of characters.
    pub(super) start: u64,
    /// Bytes that are not ASCII.
    pub(super) wide: u64,
    /// Spaces (U+0020).
    pub(super) space: u64,
    /// Carriage returns and line feeds.
    pub(super) newline: u64,
    /// Apostrophes.
    pub(super) quote: u64,
    /// Slashes.
    pub(super) slash: u64,
}

/// Lookup tables for `P` planes. A plane is a set of character classes; the tables say which characters are in it.
///
/// **Memory:** about 20 kB.
pub(super) struct Planes<const P: usize> {
    /// The class of each code point.
    pub(super) classes: &'static Classes,
    /// The set of classes of each plane.
    pub(super) sets: [ClassSet; P],
    /// For each byte, one bit per plane; 0 for bytes outside ASCII.
    pub(super) bytes: [u8; 256],
    /// For each distinct page and each plane, one bit per code point.
    pub(super) pages: Vec<[u64; P]>,
    /// For each plane, what the first two bytes of a character say.
    pub(super) rows: [Rows; P],
    /// For characters of three bytes, the pages that are neither entirely within a plane nor entirely outside it.
    pub(super) mixed: Row,
}

/// 1024 bits, indexed by the low four bits of a lead byte and the low six bits of the next byte.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Row(pub(super) [u8; 128]);

/// Membership in one plane by the first two bytes of a character.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// For the leads `C0` to `CF`, then `D0` to `DF`: whether the character is in the plane.
    pub(super) two: [Row; 2],
    /// For the leads `E0` to `EF`: whether the whole page is in the plane.
    pub(super) three: Row,
}

impl<const P: usize> Planes<P> {
    /// Builds the tables for these sets of classes, one per plane.
    pub(super) fn new(sets: [ClassSet; P]) -> Planes<P> {
        let classes = Classes::get();
        let bit = |set: ClassSet, class: ClassSet, at: usize| u64::from(class & set != 0) << at;
        let of_page = |page: &[ClassSet; PAGE]| {
            sets.map(|set| (0..).zip(page).map(|(at, class)| bit(set, *class, at)).sum::<u64>())
        };
        let pages: Vec<[u64; P]> = classes.pages().iter().map(of_page).collect();
        let mut bytes = [0; 256];
        for (byte, bits) in (0..128).zip(&mut bytes) {
            for (plane, set) in sets.iter().enumerate() {
                *bits |= u8::from(classes.of_code(byte) & set != 0) << plane;
            }
        }
        let (mut rows, mut mixed) =
            ([Rows { two: [Row([0; 128]); 2], three: Row([0; 128]) }; P], Row([0; 128]));
        for number in 0..1024 {
            let page = &pages[classes.page_of(number)];
            let (byte, bit) = (to_usize(number / 8), 1 << (number % 8));
            for (rows, bits) in rows.iter_mut().zip(page) {
                if number < 32 {
                    let (row, from) = (to_usize(number / 16), to_usize(number % 16) * 8);
                    rows.two[row].0[from..from + 8].copy_from_slice(&bits.to_le_bytes());
                }
                rows.three.0[byte] |= if *bits == !0 { bit } else { 0 };
            }
            mixed.0[byte] |= if page.iter().all(|bits| [0, !0].contains(bits)) { 0 } else { bit };
        }
        Planes { classes, sets, bytes, pages, rows, mixed }
    }

    /// Returns the bits of one page in each plane: the code points `64 * number` and the next 63.
    #[inline]
    pub(super) fn page(&self, number: u32) -> &[u64; P] {
        &self.pages[self.classes.page_of(number)]
    }
}

/// The last character of a block, if it continues in the next block.
#[derive(Clone, Copy)]
pub(super) struct Open<const P: usize> {
    /// Number of bytes of the character in the next block; 0 if it does not continue.
    pub(super) bytes: u32,
    /// For each plane, 1 if the character is in it, else 0.
    pub(super) planes: [u64; P],
}

impl<const P: usize> Open<P> {
    /// No character continues.
    pub(super) const NONE: Open<P> = Open { bytes: 0, planes: [0; P] };
}

impl<const P: usize> Masks<P> {
    /// Returns the masks of a block that consists of one white-space byte, as it virtually follows the text.
    pub(super) fn white(planes: &Planes<P>, byte: u8) -> Masks<P> {
        let class = planes.classes.of_byte(byte);
        let all = |is: bool| if is { !0 } else { 0 };
        Masks {
            planes: planes.sets.map(|set| all(set & class != 0)),
            start: !0,
            wide: 0,
            space: all(byte == b' '),
            newline: all(byte == b'\n'),
            quote: 0,
            slash: 0,
        }
    }

    /// Adds the continuation bytes to the planes of their lead bytes. On entry `open` describes the character that
    /// continues from the previous block, on return the one that continues in the next block.
    #[inline(always)] // Compiled for each CPU.
    pub(super) fn fill(&mut self, leads: u64, tails: u64, open: &mut Open<P>) {
        // The carry of the addition propagates through the continuation bytes of each lead that is in the plane.
        for (mask, inside) in self.planes.iter_mut().zip(&mut open.planes) {
            let marked = *mask & leads;
            let (sum, carried) = tails.overflowing_add(marked << 1 | *inside);
            *inside = u64::from(carried) | marked >> 63;
            *mask |= tails & !sum;
        }
    }

    /// Computes the masks character by character. Only this function handles invalid UTF-8.
    pub(super) fn by_character(bytes: &[u8; SEEN], planes: &Planes<P>, open: &mut Open<P>) -> Masks<P> {
        let span = |from: usize, to: usize| (!0 >> (BLOCK - (to - from))) << from;
        let mut masks = Masks { planes: [0; P], start: 0, wide: 0, space: 0, newline: 0, quote: 0, slash: 0 };
        let mut at = to_usize(open.bytes);
        if at > 0 {
            masks.planes = open.planes.map(|inside| span(0, at) * inside);
            masks.wide = span(0, at);
        }
        *open = Open::NONE;
        while at < BLOCK {
            let bit = 1 << at;
            masks.start |= bit;
            let (class, next) = if bytes[at].is_ascii() {
                match bytes[at] {
                    b' ' => masks.space |= bit,
                    b'\n' | b'\r' => masks.newline |= bit,
                    b'\'' => masks.quote |= bit,
                    b'/' => masks.slash |= bit,
                    _ => {}
                }
                (planes.classes.of_byte(bytes[at]), at + 1)
            } else {
                let (code, next) = decode(bytes, at);
                masks.wide |= span(at, next.min(BLOCK));
                (code.map_or(SIGN, |code| planes.classes.of_code(code)), next)
            };
            for (mask, set) in masks.planes.iter_mut().zip(planes.sets) {
                *mask |= if class & set != 0 { span(at, next.min(BLOCK)) } else { 0 };
            }
            if next > BLOCK {
                open.bytes = u32::try_from(next - BLOCK).expect("at most three");
                open.planes = planes.sets.map(|set| u64::from(class & set != 0));
            }
            at = next;
        }
        masks
    }
}
