//! Tokens and amounts as people read them on a terminal.

use tokenmill::report::{beginning, is_invisible, push_escaped};
pub(super) use tokenmill::units::counted;

/// A token's bytes with everything escaped that would not be seen: control characters, marks that turn the
/// writing direction, and bytes that are not UTF-8, as `\xE2`.
pub(super) fn visible(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    push_escaped(&mut shown, bytes, push_visible);
    shown
}

/// A token as [`visible`] shows it; of a long one, which can be as long as a document, the beginning and how long it is.
pub(super) fn shortened(bytes: &[u8]) -> String {
    let shown = beginning(bytes);
    match shown.len() < bytes.len() {
        true => format!("{}… ({} bytes)", visible(shown), bytes.len()),
        false => visible(bytes),
    }
}

/// A message with the control characters escaped that names of files, or of what a server lists, bring into it. Lines stay.
pub(super) fn tame(message: &str) -> String {
    let is_wild = |c: char| c.is_control() && c != '\n';
    if !message.contains(is_wild) {
        return message.to_owned();
    }
    let shown = |c: char| if is_wild(c) { c.escape_default().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

/// A text whose places are pointed at, with control characters replaced by others that take as many bytes. Lines stay.
pub(super) fn tame_source(text: &str) -> String {
    let tamed = |c: char| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if c.is_ascii_control() => '?',
        c if c.is_control() => '¿',
        c => c,
    };
    text.chars().map(tamed).collect()
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
    use super::{shortened, tame, tame_source, visible};

    #[test]
    fn messages_send_nothing_to_the_terminal_but_lines() {
        assert_eq!(tame("a.txt is not there\n  help: é"), "a.txt is not there\n  help: é");
        assert_eq!(tame("\x1b[31ma\u{9b}\t\nb"), "\\u{1b}[31ma\\u{9b}\\t\nb");
    }

    #[test]
    fn places_of_a_tamed_source_stay() {
        let (source, tamed) = ("a = \"\x1b[31m\u{9b}\"\r\nb", "a = \"?[31m¿\" \nb");
        assert_eq!((tame_source(source).as_str(), tamed.len()), (tamed, source.len()));
    }

    #[test]
    fn long_tokens_are_shortened_between_characters() {
        assert_eq!(shortened("é".repeat(60).as_bytes()), "é".repeat(60));
        assert_eq!(
            shortened(("a".to_owned() + &"é".repeat(60)).as_bytes()),
            "a".to_owned() + &"é".repeat(59) + "… (121 bytes)"
        );
        assert_eq!(shortened(&[0x80; 200]), r"\x80".repeat(120) + "… (200 bytes)");
    }

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
