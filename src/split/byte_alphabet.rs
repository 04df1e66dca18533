//! GPT-2's byte alphabet, `bytes_to_unicode`: a printable character for each byte, so that tokens can be keys of
//! JSON.
//!
//! Bytes 33–126, 161–172 and 174–255 map to the code points of the same value. The other 68 bytes map, in ascending
//! order, to U+0100 and the code points after it.

use super::Splitter;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::base::lazy::Lazy;
use crate::error::Result;
use crate::observer::Observer;

/// Bytes that map to the code point of the same value.
const UNCHANGED: [std::ops::RangeInclusive<u8>; 3] = [33..=126, 161..=172, 174..=255];

/// The character of each byte.
static CHARACTERS: Lazy<[char; 256]> = Lazy::new(|| {
    let mut characters: [char; 256] = std::array::from_fn(|_| '\0');
    let mut others = '\u{100}'..;
    for (byte, character) in (0..=255u8).zip(&mut characters) {
        let unchanged = UNCHANGED.iter().any(|range| range.contains(&byte));
        *character = if unchanged { char::from(byte) } else { others.next().expect("68 characters") };
    }
    characters
});

/// The byte of each character; the highest character of the alphabet is U+0143.
static BYTES: Lazy<[Option<u8>; 0x144]> = Lazy::new(|| {
    let mut bytes = [None; 0x144];
    for (byte, &character) in (0..=255u8).zip(&*CHARACTERS) {
        bytes[to_usize(u32::from(character))] = Some(byte);
    }
    bytes
});

/// Spells bytes in the alphabet.
pub(crate) fn spell(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| CHARACTERS[usize::from(byte)]).collect()
}

/// Returns the bytes that a text spells; `None` if a character is not in the alphabet.
pub(crate) fn read(text: &str) -> Option<Box<[u8]>> {
    text.chars().map(|character| *BYTES.get(to_usize(u32::from(character)))?).collect()
}

/// Splits the spelling of a text in GPT-2's byte alphabet, and maps the ends back. So it can split between any two
/// bytes, even within a character.
pub(super) struct ByteAlphabetSplitter(pub(super) Box<dyn Splitter>);

impl Splitter for ByteAlphabetSplitter {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let spelled = spell(text);
        let first = ends.len();
        self.0.pretoken_ends_observed(spelled.as_bytes(), ends, observer)?;
        // Each byte is one character of the spelling, so the number of a character is the offset of its byte.
        let mut characters = spelled.char_indices().map(|(start, _)| start).chain([spelled.len()]).zip(0..);
        for end in &mut ends[first..] {
            let byte = characters.find(|(start, _)| truncate_to_u32(*start) == *end);
            *end = byte.map_or(truncate_to_u32(text.len()), |(_, byte)| byte);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_gpt2s() {
        let every: Vec<u8> = (0..=255).collect();
        let spelled = spell(&every);
        assert_eq!(spelled.chars().count(), 256);
        assert_eq!(read(&spelled).as_deref(), Some(&*every));
        for (bytes, text) in [(" the".as_bytes(), "Ġthe"), (b"\n\t", "Ċĉ"), (b"\x00\x7f\xad\xff", "ĀġŃÿ")]
        {
            assert_eq!(spell(bytes), text);
        }
        assert_eq!((read("a b"), read("→"), read("\u{144}"), read("")), (None, None, None, Some([].into())));
    }
}
