//! Bit masks of the character classes in a 64-byte block, the tables to compute them, and bit operations on them.

use crate::base::int::to_usize;
use crate::split::classes::{ClassSet, Classes, PAGE, SIGN, decode};

/// Bytes per block: one bit of a 64-bit mask for each.
pub(super) const BLOCK: usize = 64;
/// Bytes, from the start of a block, that determine its masks. The last character of a block can have three bytes
/// after the block.
pub(super) const WINDOW: usize = BLOCK + 3;

/// The classes of the bytes of a block: masks with one bit per byte, the first byte in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks<const P: usize> {
    /// For each plane, all bytes of the characters in its set.
    pub(super) planes: [u64; P],
    /// First bytes of characters.
    pub(super) start: u64,
    /// Bytes that are not ASCII.
    pub(super) non_ascii: u64,
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
/// A pattern needs few planes, because it distinguishes few sets: GPT-4's has letters, numbers and white space, and all
/// other characters are signs. In each plane, the 64 code points of a page are one 64-bit number.
///
/// **Memory:** about 20 kB.
pub(super) struct ClassPlanes<const P: usize> {
    /// The class of each code point.
    pub(super) classes: &'static Classes,
    /// The set of classes of each plane.
    pub(super) sets: [ClassSet; P],
    /// For each byte, one bit per plane; 0 for bytes outside ASCII.
    pub(super) bytes: [u8; 256],
    /// For each distinct page and each plane, one bit per code point.
    pub(super) pages: Vec<[u64; P]>,
    /// For each plane, what the first two bytes of a character say.
    pub(super) by_lead: [LeadTables; P],
    /// For characters of three bytes, the pages that are neither entirely within a plane nor entirely outside it.
    pub(super) mixed: LeadBits,
}

/// 1024 bits, indexed by the low four bits of a lead byte and the low six bits of the next byte.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct LeadBits(pub(super) [u8; 128]);

/// Membership in one plane by the first two bytes of a character.
#[derive(Clone, Copy)]
pub(super) struct LeadTables {
    /// For the leads `C0` to `CF`, then `D0` to `DF`: whether the character is in the plane.
    pub(super) two: [LeadBits; 2],
    /// For the leads `E0` to `EF`: whether the whole page is in the plane.
    pub(super) three: LeadBits,
}

impl<const P: usize> ClassPlanes<P> {
    /// Builds the tables for these sets of classes, one per plane.
    pub(super) fn new(sets: [ClassSet; P]) -> ClassPlanes<P> {
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
        let (mut by_lead, mut mixed) =
            ([LeadTables { two: [LeadBits([0; 128]); 2], three: LeadBits([0; 128]) }; P], LeadBits([0; 128]));
        for number in 0..1024 {
            let page = &pages[classes.page_of(number)];
            let (byte, bit) = (to_usize(number / 8), 1 << (number % 8));
            for (leads, bits) in by_lead.iter_mut().zip(page) {
                if number < 32 {
                    let (row, from) = (to_usize(number / 16), to_usize(number % 16) * 8);
                    leads.two[row].0[from..from + 8].copy_from_slice(&bits.to_le_bytes());
                }
                leads.three.0[byte] |= if *bits == !0 { bit } else { 0 };
            }
            mixed.0[byte] |= if page.iter().all(|bits| [0, !0].contains(bits)) { 0 } else { bit };
        }
        ClassPlanes { classes, sets, bytes, pages, by_lead, mixed }
    }

    /// Returns the bits of one page in each plane: the code points `64 * number` and the next 63.
    #[inline]
    pub(super) fn page(&self, number: u32) -> &[u64; P] {
        &self.pages[self.classes.page_of(number)]
    }
}

/// The last character of a block, if it continues in the next block.
#[derive(Clone, Copy)]
pub(super) struct OpenCharacter<const P: usize> {
    /// Number of bytes of the character in the next block; 0 if it does not continue.
    pub(super) bytes: u32,
    /// For each plane, 1 if the character is in it, else 0.
    pub(super) planes: [u64; P],
}

impl<const P: usize> OpenCharacter<P> {
    /// No character continues.
    pub(super) const NONE: OpenCharacter<P> = OpenCharacter { bytes: 0, planes: [0; P] };
}

impl<const P: usize> Masks<P> {
    /// Returns the masks of a block that consists of one white-space byte, as it virtually follows the text.
    pub(super) fn of_padding(planes: &ClassPlanes<P>, byte: u8) -> Masks<P> {
        let class = planes.classes.of_byte(byte);
        let all = |is: bool| if is { !0 } else { 0 };
        Masks {
            planes: planes.sets.map(|set| all(set & class != 0)),
            start: !0,
            non_ascii: 0,
            space: all(byte == b' '),
            newline: all(byte == b'\n'),
            quote: 0,
            slash: 0,
        }
    }

    /// Adds the continuation bytes to the planes of their lead bytes. On entry `open` describes the character that
    /// continues from the previous block, on return the one that continues in the next block.
    #[inline(always)] // Compiled for each CPU.
    pub(super) fn fill(&mut self, leads: u64, tails: u64, open: &mut OpenCharacter<P>) {
        // The carry of the addition propagates through the continuation bytes of each lead that is in the plane.
        for (mask, inside) in self.planes.iter_mut().zip(&mut open.planes) {
            let marked = *mask & leads;
            let (sum, carried) = tails.overflowing_add(marked << 1 | *inside);
            *inside = u64::from(carried) | marked >> 63;
            *mask |= tails & !sum;
        }
    }

    /// Computes the masks character by character. Only this function handles invalid UTF-8.
    pub(super) fn by_character(
        bytes: &[u8; WINDOW],
        planes: &ClassPlanes<P>,
        open: &mut OpenCharacter<P>,
    ) -> Masks<P> {
        let span = |from: usize, to: usize| (!0 >> (BLOCK - (to - from))) << from;
        let mut masks =
            Masks { planes: [0; P], start: 0, non_ascii: 0, space: 0, newline: 0, quote: 0, slash: 0 };
        let mut at = to_usize(open.bytes);
        if at > 0 {
            masks.planes = open.planes.map(|inside| span(0, at) * inside);
            masks.non_ascii = span(0, at);
        }
        *open = OpenCharacter::NONE;
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
                masks.non_ascii |= span(at, next.min(BLOCK));
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

/// Returns the positions directly after those of `mask`. `last` is the last bit of the mask, on entry in the previous
/// block, on return in this one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn after(mask: u64, last: &mut u64) -> u64 {
    let shifted = mask << 1 | *last;
    *last = mask >> 63;
    shifted
}

/// Returns the positions for which the byte `distance` further on is in a mask. The mask is given for this block and
/// the next one.
#[inline(always)] // Part of each rule's loop.
pub(super) fn ahead([here, next]: [u64; 2], distance: u32) -> u64 {
    here >> distance | next << (64 - distance)
}

/// Returns the runs of ones in `mask` that start at a bit of `starts`, and the bits directly after these runs. A
/// start outside of all runs counts as an empty run, so its bit is among the latter.
///
/// `open` is 1 if the last of these runs may continue, on entry from the previous block, on return into the next one.
/// The carry of an addition propagates through a run of ones.
#[inline(always)] // Part of each rule's loop.
pub(super) fn runs(mask: u64, starts: u64, open: &mut u64) -> (u64, u64) {
    let (sum, carried) = mask.overflowing_add(starts | *open);
    *open = u64::from(carried);
    (mask & !sum, sum & !mask)
}

/// Returns the positions of the one bits of a mask, ascending.
#[inline(always)] // Part of each rule's loop.
pub(super) fn set_bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| to_usize(mask.trailing_zeros()));
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

/// A mask of this block and the next one, set bit by bit.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    here: u64,
    next: u64,
}

impl Marks {
    /// Marks a byte. `offset` counts from the start of this block, below 128.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn mark(&mut self, offset: usize) {
        match offset.checked_sub(64) {
            None => self.here |= 1 << offset,
            Some(beyond) => self.next |= 1 << beyond,
        }
    }

    /// Returns whether a byte of this block is marked.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn is_marked(&self, offset: usize) -> bool {
        self.here >> offset & 1 != 0
    }

    /// Returns the marks of this block and advances to the next block.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::replace(&mut self.here, std::mem::take(&mut self.next))
    }
}
