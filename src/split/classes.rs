//! Unicode character classes that the named patterns distinguish, as a lookup table by code point.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use regex_syntax::Parser;
use regex_syntax::hir::{Class, HirKind};

use crate::base::int::to_usize;
use crate::base::lazy::Lazy;

/// A set of the character classes below, as bits. Each character is in exactly one of them, and some are in [`HAN`]
/// as well. The end of a text is in none.
pub(super) type ClassSet = u16;

/// `\p{Lu}` and `\p{Lt}`.
pub(super) const UPPER: ClassSet = 1;
/// `\p{Ll}`.
pub(super) const LOWER: ClassSet = 1 << 1;
/// `\p{Lm}` and `\p{Lo}`.
pub(super) const UNCASED: ClassSet = 1 << 2;
/// `\p{M}`.
pub(super) const MARK: ClassSet = 1 << 3;
/// `\p{N}`.
pub(super) const NUMBER: ClassSet = 1 << 4;
/// `\s` without [`NEWLINE`].
pub(super) const SPACE: ClassSet = 1 << 5;
/// Carriage return and line feed.
pub(super) const NEWLINE: ClassSet = 1 << 6;
/// `[\p{P}\p{S}]`, and invalid UTF-8, which is treated like a replacement character.
pub(super) const SIGN: ClassSet = 1 << 7;
/// All other characters.
pub(super) const OTHER: ClassSet = 1 << 8;
/// In addition to another class: the characters that DeepSeek's pattern splits off as Chinese and Japanese.
pub(super) const HAN: ClassSet = 1 << 9;

/// The regular expression of each class. A later entry replaces an earlier one for the characters of both.
const SOURCES: [(&str, ClassSet); 10] = [
    (r"\p{Lu}", UPPER),
    (r"\p{Lt}", UPPER),
    (r"\p{Ll}", LOWER),
    (r"\p{Lm}", UNCASED),
    (r"\p{Lo}", UNCASED),
    (r"\p{M}", MARK),
    (r"\p{N}", NUMBER),
    (r"[\p{P}\p{S}]", SIGN),
    (r"\s", SPACE),
    (r"[\r\n]", NEWLINE),
];
/// The regular expression of [`HAN`].
const HAN_RANGES: &str = r"[一-龥぀-ゟ゠-ヿ]";

/// Code points per page. The UTF-8 forms of a page's code points differ in the last byte only.
pub(super) const PAGE: usize = 64;
/// Number of code points.
const CODES: usize = 0x11_0000;

/// The class of each code point.
///
/// The table is made from regex-syntax, so that it has the same Unicode version as the regular expressions. The
/// methods of Rust's `char` follow another version.
///
/// **Memory:** about 100 kB. Equal pages are stored once.
pub(super) struct Classes {
    /// The class of each ASCII byte; 0 for the other bytes, which do not determine a class alone.
    bytes: [ClassSet; 256],
    /// Index into `pages` for each page of code points.
    page_of: Vec<u16>,
    /// The distinct pages.
    pages: Vec<[ClassSet; PAGE]>,
}

impl Classes {
    /// Returns the table of the process. The first call builds it, which takes some milliseconds.
    pub(super) fn get() -> &'static Classes {
        static CLASSES: Lazy<Classes> = Lazy::new(Classes::build);
        &CLASSES
    }

    /// Builds the table.
    fn build() -> Classes {
        let mut codes = vec![OTHER; CODES];
        for (pattern, class) in SOURCES {
            for range in class_ranges(pattern) {
                codes[range].fill(class);
            }
        }
        for range in class_ranges(HAN_RANGES) {
            codes[range].iter_mut().for_each(|class| *class |= HAN);
        }
        let mut bytes = [0; 256];
        bytes[..128].copy_from_slice(&codes[..128]);
        let (mut page_of, mut pages, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for page in codes.as_chunks::<PAGE>().0 {
            let number = *known.entry(page).or_insert_with(|| {
                pages.push(*page);
                u16::try_from(pages.len() - 1).expect("there are 17408 pages in all")
            });
            page_of.push(number);
        }
        Classes { bytes, page_of, pages }
    }

    /// Returns the distinct pages.
    pub(super) fn pages(&self) -> &[[ClassSet; PAGE]] {
        &self.pages
    }

    /// Returns the index into [`pages`](Classes::pages()) of a page. `number` is a code point divided by 64.
    #[inline]
    pub(super) fn page_of(&self, number: u32) -> usize {
        usize::from(self.page_of[to_usize(number)])
    }

    /// Returns the class of an ASCII byte; 0 for any other byte.
    #[inline]
    pub(super) fn of_byte(&self, byte: u8) -> ClassSet {
        self.bytes[usize::from(byte)]
    }

    /// Returns whether `\s` matches a character.
    pub(super) fn is_white_space(&self, character: char) -> bool {
        self.of_code(u32::from(character)) & (SPACE | NEWLINE) != 0
    }

    /// Returns the class of a code point.
    #[inline]
    pub(super) fn of_code(&self, code: u32) -> ClassSet {
        self.pages[self.page_of(code >> 6)][to_usize(code & 63)]
    }
}

/// Returns the code points of a character class as ascending ranges.
///
/// # Panics
/// `pattern` is not a regular expression that consists of one character class.
pub(crate) fn class_ranges(pattern: &str) -> Vec<RangeInclusive<usize>> {
    let parsed = Parser::new().parse(pattern).expect("callers give regular expressions");
    let HirKind::Class(Class::Unicode(class)) = parsed.into_kind() else {
        unreachable!("callers give classes of characters")
    };
    let code = |character| to_usize(u32::from(character));
    class.iter().map(|range| code(range.start())..=code(range.end())).collect()
}

/// Decodes the character that starts at `at` with a byte outside ASCII. Returns its code point and the offset of the
/// next character.
///
/// The code point is `None` for invalid UTF-8. The invalid bytes then end where a chunk of
/// [`utf8_chunks`](slice::utf8_chunks) ends.
pub(super) fn decode(text: &[u8], at: usize) -> (Option<u32>, usize) {
    let byte = |offset: usize| text.get(at + offset).copied().unwrap_or(0);
    let (first, second) = (byte(0), byte(1));
    let (length, low, high) = match first {
        0xC2..=0xDF => (2, 0x80, 0xBF),
        0xE0 => (3, 0xA0, 0xBF),
        0xED => (3, 0x80, 0x9F),
        0xE1..=0xEF => (3, 0x80, 0xBF),
        0xF0 => (4, 0x90, 0xBF),
        0xF1..=0xF3 => (4, 0x80, 0xBF),
        0xF4 => (4, 0x80, 0x8F),
        _ => return (None, at + 1),
    };
    if !(low..=high).contains(&second) {
        return (None, at + 1);
    }
    let tail = |byte: u8| u32::from(byte & 0x3F);
    if length == 2 {
        return (Some(u32::from(first & 0x1F) << 6 | tail(second)), at + 2);
    }
    let third = byte(2);
    if third & 0xC0 != 0x80 {
        return (None, at + 2);
    }
    if length == 3 {
        return (Some(u32::from(first & 0x0F) << 12 | tail(second) << 6 | tail(third)), at + 3);
    }
    let fourth = byte(3);
    if fourth & 0xC0 != 0x80 {
        return (None, at + 3);
    }
    let code = u32::from(first & 0x07) << 18 | tail(second) << 12 | tail(third) << 6 | tail(fourth);
    (Some(code), at + 4)
}
