use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::base::int::{TokenId, to_u64};

/// Bytes of a token that a report displays. Without a split, a token can be as long as a document.
const SHOWN_BYTES: usize = 120;

/// A token as a report displays it.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::report::ShownToken;
///
/// let token = ShownToken::new(TokenId::new(300), b" a\n\xFF");
/// assert_eq!(token.visible(), "␣a⏎\\xFF");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownToken {
    /// The token's id.
    pub id: TokenId,
    /// Its text, cut after [120 bytes](beginning), with U+FFFD for bytes that are not UTF-8.
    pub text: String,
    /// The displayed bytes in hex, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hex: Option<String>,
    /// Length of the whole token in bytes.
    pub bytes: u64,
    /// Whether it is a special token.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub special: bool,
}

impl ShownToken {
    /// The display of an ordinary token.
    pub fn new(id: TokenId, bytes: &[u8]) -> ShownToken {
        let shown = beginning(bytes);
        let hex = std::str::from_utf8(shown).is_err().then(|| hex(shown));
        let text = String::from_utf8_lossy(shown).into_owned();
        ShownToken { id, text, hex, bytes: to_u64(bytes.len()), special: false }
    }

    /// The display of a special token.
    pub fn special(id: TokenId, text: &str) -> ShownToken {
        ShownToken { special: true, ..ShownToken::new(id, text.as_bytes()) }
    }

    /// The token's text with everything made visible that would be invisible or disturb the surrounding text:
    /// spaces, control characters, bytes that are not UTF-8, and marks that change the writing direction. A `…`
    /// at the end means that the token is longer.
    pub fn visible(&self) -> String {
        let mut out = String::new();
        match &self.hex {
            Some(hex) => push_escaped(&mut out, &bytes_of(hex), push_visible),
            None => push_escaped(&mut out, self.text.as_bytes(), push_visible),
        }
        if self.is_cut() {
            out.push('…');
        }
        out
    }

    /// Whether the token is longer than its display.
    fn is_cut(&self) -> bool {
        let shown = self.hex.as_ref().map_or(self.text.len(), |hex| hex.len() / 2);
        to_u64(shown) < self.bytes
    }
}

/// The part of a token that is displayed: at most its first 120 bytes, cut between characters if the bytes are
/// UTF-8.
///
/// ```
/// use tokenmill::report::beginning;
///
/// assert_eq!(beginning(b"the"), b"the");
/// assert_eq!(beginning("€".repeat(50).as_bytes()), "€".repeat(40).as_bytes());
/// ```
pub fn beginning(bytes: &[u8]) -> &[u8] {
    let Some(shown) = bytes.get(..SHOWN_BYTES).filter(|_| bytes.len() > SHOWN_BYTES) else { return bytes };
    match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() => &shown[..error.valid_up_to()],
        _ => shown,
    }
}

/// Bytes as upper-case hex digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// The bytes that a hex string encodes. Characters that are no hex digits are ignored.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |&digit: &u8| char::from(digit).to_digit(16);
    let digits: Vec<u32> = hex.as_bytes().iter().filter_map(digit).collect();
    digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect()
}

/// Appends the characters of `bytes` with `push`, and each byte that is not UTF-8 as an escape like `\xE2`.
pub fn push_escaped(out: &mut String, bytes: &[u8], push: impl Fn(&mut String, char)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(out, c));
        for byte in chunk.invalid() {
            // Writing to a `String` never fails.
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// A text in which control and invisible characters are escaped, since they could disturb the surrounding text.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Appends a character, or a visible substitute for it.
fn push_visible(out: &mut String, c: char) {
    match c {
        ' ' => out.push('␣'),
        '\n' => out.push('⏎'),
        '\t' => out.push('⇥'),
        '\\' => out.push_str(r"\\"),
        _ if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
        _ => out.push(c),
    }
}

/// Whether a character has no visible form and can hide or reorder the text around it, like zero-width characters
/// and marks of the writing direction. Control characters are not included.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}
