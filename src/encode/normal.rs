use std::borrow::Cow;
use std::iter::once;
use std::sync::LazyLock;

use unicode_normalization_alignments::char::canonical_combining_class;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::units::place;

/// Characters below U+0300 are in normalization form C whatever stands next to them, and have only lower bytes.
const FIRST: u8 = 0xCC;

/// The characters below U+30000, and whether each [is steady](steady): the rest is rare.
static STEADY: LazyLock<Vec<bool>> =
    LazyLock::new(|| (0..0x3_0000).map(|code| char::from_u32(code).is_some_and(steady)).collect());

/// A text in Unicode's normalization form C. Bytes that are not UTF-8 stay as they are, and what stands on
/// both sides of them is normalized apart, as if they were a replacement character.
///
/// The tables are those of Unicode 9, as in Hugging Face's tokenizers: marks that came later stay in the order
/// in which they stand.
pub(super) fn nfc(text: &[u8]) -> Cow<'_, [u8]> {
    if is_nfc(text) {
        return Cow::Borrowed(text);
    }
    let mut normal = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        let mut buffer = [0; 4];
        for (character, _) in chunk.valid().nfc() {
            normal.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        normal.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(normal)
}

/// Whether a text is in normalization form C, as far as that is plain.
pub(super) fn is_nfc(text: &[u8]) -> bool {
    text.utf8_chunks().all(|chunk| is_normal(chunk.valid()))
}

fn is_normal(text: &str) -> bool {
    all_steady(text) || is_nfc_quick(text.chars()) == IsNormalized::Yes
}

fn all_steady(text: &str) -> bool {
    let mut rest = text;
    while let Some(skipped) = rest.bytes().position(|byte| byte >= FIRST) {
        let mut characters = rest[skipped..].chars();
        let Some(character) = characters.next() else { break };
        let known = STEADY.get(place(u32::from(character))).copied();
        if !known.unwrap_or_else(|| steady(character)) {
            return false;
        }
        rest = characters.as_str();
    }
    true
}

/// Whether a character stays as it is, and where it is, beside any other of these.
fn steady(character: char) -> bool {
    canonical_combining_class(character) == 0 && is_nfc_quick(once(character)) == IsNormalized::Yes
}
