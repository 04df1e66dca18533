//! Repairs lines of JSONL that other programs write and that are not JSON: `NaN` and infinities as numbers, and text
//! with invalid characters.

use std::borrow::Cow;

/// A repaired line. Each value keeps its position and length.
pub(super) struct Mended<'a> {
    /// The line that can be parsed.
    pub(super) line: Vec<u8>,
    /// The original line, with invalid characters replaced as in `line`.
    pub(super) before: Cow<'a, [u8]>,
    /// Whether numbers that are not finite were replaced.
    pub(super) has_numbers: bool,
    /// Whether invalid characters were replaced by U+FFFD.
    pub(super) is_replaced: bool,
}

/// Numbers that JSON lacks, as Python's `json` and others write them, and the numbers of equal length that replace
/// them.
const NUMBERS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"0.0"), (b"Infinity", b"0.000000"), (b"-Infinity", b"-0.000000")];

/// Replaces numbers that JSON lacks and, if `replace` is set, invalid characters in text; `None` if the line has none
/// of these. The result may still be invalid JSON for other reasons.
///
/// The replaced numbers only make the line parseable: where a value is passed through as JSON, the caller takes its
/// text from [`Mended::before`] at the same position. This is why replacements must have equal lengths.
pub(super) fn mended(line: &[u8], replace: bool) -> Option<Mended<'_>> {
    let before = match String::from_utf8_lossy(line) {
        Cow::Owned(text) if replace => Cow::Owned(text.into_bytes()),
        _ => Cow::Borrowed(line),
    };
    let mut is_replaced = matches!(before, Cow::Owned(_));
    let mut mended = before.to_vec();
    let (mut at, mut has_numbers, mut in_text) = (0, false, false);
    while let Some(&byte) = before.get(at) {
        let rest = &before[at..];
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                let units = (unit_of(rest), unit_of(rest.get(6..).unwrap_or_default()));
                at += match units {
                    (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
                    (Some(0xD800..0xE000), _) if replace => {
                        mended[at..at + 6].copy_from_slice(b"\\ufffd");
                        is_replaced = true;
                        6
                    }
                    _ => 2,
                };
                continue;
            }
            _ if in_text => {}
            b'N' | b'I' | b'-' if at > 0 && is_border(before[at - 1]) => {
                let number = NUMBERS.iter().find(|(name, _)| {
                    rest.strip_prefix(*name)
                        .is_some_and(|behind| behind.first().is_none_or(|&next| is_border(next)))
                });
                if let Some((name, number)) = number {
                    mended[at..at + name.len()].copy_from_slice(number);
                    has_numbers = true;
                    at += name.len();
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (has_numbers || is_replaced).then_some(Mended { line: mended, before, has_numbers, is_replaced })
}

/// The UTF-16 code unit of the `\uXXXX` escape at the beginning of `text`, if any.
fn unit_of(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
}

/// Whether a number can begin after, or end before, this byte.
fn is_border(byte: u8) -> bool {
    matches!(byte, b':' | b',' | b'[' | b']' | b'}') || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: &str, replace: bool) -> Option<String> {
        let mended = mended(of.as_bytes(), replace)?;
        assert_eq!(mended.line.len(), mended.before.len());
        Some(String::from_utf8(mended.line).unwrap())
    }

    /// Only complete tokens outside of strings are replaced.
    #[test]
    fn numbers_that_json_lacks_become_others_of_their_length() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":NaN}"#, false), some(r#"{"a":0.0}"#));
        assert_eq!(
            line(r#"{"a": [NaN, -Infinity ,Infinity]}"#, false),
            some(r#"{"a": [0.0, -0.000000 ,0.000000]}"#)
        );
        assert_eq!(
            line(r#"{"NaN": "NaN \" NaN", "b":NaN}"#, false),
            some(r#"{"NaN": "NaN \" NaN", "b":0.0}"#)
        );
        for wrong in [r#"{"a":NaNa}"#, r#"{"a":-NaN}"#, r#"{"a":"NaN"}"#, r#"{"a":1NaN}"#, "NaN", ""] {
            assert_eq!(line(wrong, false), None, "{wrong}");
        }
    }

    /// Lone surrogates, escaped or not, are replaced; pairs, and escapes of a backslash, are kept.
    #[test]
    fn halves_of_pairs_become_the_replacement() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":"\ud800"}"#, true), some(r#"{"a":"\ufffd"}"#));
        assert_eq!(
            line(r#"{"a":"\udc00\ud83d\ude00\uD800x"}"#, true),
            some(r#"{"a":"\ufffd\ud83d\ude00\ufffdx"}"#)
        );
        assert_eq!(line(r#"{"a":"\ud800\ud83d\ude00"}"#, true), some(r#"{"a":"\ufffd\ud83d\ude00"}"#));
        for right in
            [r#"{"a":"\\ud800"}"#, r#"{"a":"\u00e9\n"}"#, r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\u+800"}"#]
        {
            assert_eq!(line(right, true), None, "{right}");
        }
        assert_eq!(line(r#"{"a":"\ud800"}"#, false), None);
        let wrong = mended(b"{\"a\":\"\xFF\", \"b\":NaN}", true).unwrap();
        assert_eq!(wrong.line, "{\"a\":\"\u{fffd}\", \"b\":0.0}".as_bytes());
    }
}
