//! Tokens and amounts as people read them on a terminal.

use std::fmt::Write;

use tokenmill::report::is_invisible;
pub(super) use tokenmill::units::counted;

/// A token's bytes with everything escaped that would not be seen: control characters, marks that turn the
/// writing direction, and bytes that are not UTF-8, as `\xE2`.
pub(super) fn visible(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_visible(&mut shown, c));
        for byte in chunk.invalid() {
            // A String takes all that is written.
            let _ = write!(shown, "\\x{byte:02X}");
        }
    }
    shown
}

fn push_visible(shown: &mut String, c: char) {
    match c {
        '\\' => shown.push_str(r"\\"),
        '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
        c if c.is_control() || is_invisible(c) => shown.extend(c.escape_unicode()),
        c => shown.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for (bytes, shown) in [
            (&b"the "[..], "the "),
            (b"a\nb\t", r"a\nb\t"),
            (b"\\n", r"\\n"),
            ("né".as_bytes(), "né"),
            (b"\xE2\x82", r"\xE2\x82"),
            (b"a\xFFb", r"a\xFFb"),
            (b"\x1b[31m\0", r"\u{1b}[31m\u{0}"),
            ("\u{202E}x".as_bytes(), r"\u{202e}x"),
        ] {
            assert_eq!(visible(bytes), shown);
        }
    }
}
