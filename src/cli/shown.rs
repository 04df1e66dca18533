//! Tokens and amounts as people read them on a terminal.

use std::io::{self, Write};

use tokenmill::report::{beginning, is_invisible, push_escaped};
use tokenmill::source::without_secrets;
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

/// A message with those characters escaped that a terminal would act upon, and that names of files, or of what a server
/// lists, bring into it: control characters and those that turn the writing direction. Lines stay.
pub(super) fn tame(message: &str) -> String {
    let is_wild = |c: char| c.is_control() && c != '\n' || turns_direction(c);
    if !message.contains(is_wild) {
        return message.to_owned();
    }
    let shown = |c: char| if is_wild(c) { c.escape_default().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

/// The same of a name, in which a line break would begin a line that looks like one of the program's own.
pub(super) fn on_one_line(name: &str) -> String {
    tame(name).replace('\n', r"\n")
}

/// What may be told of a message that quotes names, addresses and what servers say: on one line, and without secrets.
pub(super) fn told(message: &str) -> String {
    on_one_line(&without_secrets(message))
}

/// JSON in which the characters that [`tame`] escapes are escaped as JSON does it: they stand in strings alone.
pub(super) fn tame_json(json: &str) -> String {
    let shown = |c: char| match c {
        '\n' => "\n".to_owned(),
        c if c.is_control() || turns_direction(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    json.chars().map(shown).collect()
}

fn turns_direction(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// What is written for people to read on a terminal, [tamed](tame).
#[derive(Debug)]
pub(super) struct Tamed<W>(pub(super) W);

impl<W: Write> Write for Tamed<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(tame(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
    use std::io::Write;

    use super::{Tamed, on_one_line, shortened, tame, tame_json, tame_source, visible};

    #[test]
    fn messages_send_nothing_to_the_terminal_but_lines() {
        assert_eq!(tame("a.txt is not there\n  help: é"), "a.txt is not there\n  help: é");
        assert_eq!(tame("\x1b[31ma\u{9b}\t\nb"), "\\u{1b}[31ma\\u{9b}\\t\nb");
        assert_eq!(tame("txt.\u{202E}a"), "txt.\\u{202e}a");
        assert_eq!(on_one_line("a\nerror: \x07"), "a\\nerror: \\u{7}");
        let mut written = Tamed(Vec::new());
        writeln!(written, "\x07 \x1b]0;é").expect("memory");
        assert_eq!(written.0, "\\u{7} \\u{1b}]0;é\n".as_bytes());
    }

    #[test]
    fn json_keeps_its_meaning_and_sends_nothing_to_the_terminal() {
        let text = "a\x1b\x7f\u{9b}\u{202E}\n\"é";
        let json = tame_json(&serde_json::to_string(text).expect("a text"));
        assert_eq!(json, "\"a\\u001b\\u007f\\u009b\\u202e\\n\\\"é\"");
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
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
