//! Lines of JSONL as other programs write them, made JSON: with `NaN` and infinities for numbers, and text that is not all
//! characters.

use std::borrow::Cow;

/// A line made JSON. Each value has the place and length that it had.
pub(super) struct Mended<'a> {
    pub(super) line: Vec<u8>,
    /// What stood there, but for what is no character.
    pub(super) before: Cow<'a, [u8]>,
    /// Whether there were numbers that are not finite.
    pub(super) has_numbers: bool,
    /// Whether something was no character, and now is U+FFFD.
    pub(super) is_replaced: bool,
}

/// Numbers that JSON does not have, as Python's `json` and others write them, and numbers of the same length.
const NUMBERS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"0.0"), (b"Infinity", b"0.000000"), (b"-Infinity", b"-0.000000")];

/// The line without what keeps it from being JSON, if that is nothing but such numbers, and, if `replace` says so, what is no
/// character in text; `None` if there is nothing of this in it.
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

/// The UTF-16 unit that an escape stands for, at the beginning.
fn unit_of(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
}

/// Whether a number ends or begins beside this byte.
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
