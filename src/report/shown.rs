use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::units::{TokenId, amount};

/// Bytes of a token that a report shows; a token of an unsplit vocabulary can be as long as a document.
const SHOWN_BYTES: usize = 120;

/// A token as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownToken {
    /// Its id.
    pub id: TokenId,
    /// Its text, or the beginning of it; what is not UTF-8 stands as U+FFFD.
    pub text: String,
    /// The bytes shown, in hex, where the text is not all of the truth.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hex: Option<String>,
    /// How many bytes the whole token has.
    pub bytes: u64,
    /// Whether it is a special token.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub special: bool,
}

impl ShownToken {
    /// Shows an ordinary token.
    pub fn new(id: TokenId, bytes: &[u8]) -> ShownToken {
        let shown = beginning(bytes);
        let hex = std::str::from_utf8(shown).is_err().then(|| hex(shown));
        let text = String::from_utf8_lossy(shown).into_owned();
        ShownToken { id, text, hex, bytes: amount(bytes.len()), special: false }
    }

    /// Shows a special token.
    pub fn special(id: TokenId, text: &str) -> ShownToken {
        ShownToken { special: true, ..ShownToken::new(id, text.as_bytes()) }
    }

    /// The token with everything visible that would not be, or that would disturb the text around it:
    /// spaces, control characters, bytes that are not UTF-8, marks that turn the writing direction.
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

    fn is_cut(&self) -> bool {
        let shown = self.hex.as_ref().map_or(self.text.len(), |hex| hex.len() / 2);
        amount(shown) < self.bytes
    }
}

/// What is shown of a token: at most 120 bytes from its beginning, and no character cut in two if the bytes are text.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// The bytes that hex stands for; what is no hex, for none.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |&digit: &u8| char::from(digit).to_digit(16);
    let digits: Vec<u32> = hex.as_bytes().iter().filter_map(digit).collect();
    digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect()
}

/// Appends bytes as characters, and those that are not UTF-8 as `\xE2`.
pub fn push_escaped(out: &mut String, bytes: &[u8], push: impl Fn(&mut String, char)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(out, c));
        for byte in chunk.invalid() {
            // A String takes all that is written.
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// A text with everything escaped that would disturb the text around it.
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

/// Whether a character has no image of its own and can hide or turn what stands around it, as marks without width and
/// those of the writing direction do. Control characters are not meant.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}
