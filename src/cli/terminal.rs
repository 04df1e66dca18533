//! The terminal: colours, signals, and texts formatted so that they send nothing to it but lines.

use std::env;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use chrono::{DateTime, SecondsFormat, Utc};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGABRT, SIGINT, SIGTERM};
use signal_hook::flag;
use tokenmill::report::{beginning, is_invisible, push_escaped};
use tokenmill::source::without_secrets;

pub(super) use tokenmill::base::int::with_unit;

/// Records the signal that asked the program to stop.
///
/// All copies share one flag. Signal handlers may only store numbers, so the program asks at points where it can end
/// cleanly. A second signal ends the program at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    /// The exit code of the last signal; 0 before any.
    code: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Installs the signal handlers.
    ///
    /// It handles `SIGINT` and `SIGTERM`, turns the abort after a failed allocation into an exit code, and lets
    /// writes past the limit on file sizes fail.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(super) fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let asked = Arc::new(AtomicBool::new(false));
        for (signal, code) in [(SIGINT, 130_u8), (SIGTERM, 143)] {
            // Order matters: the conditional shutdown reads a flag that the first signal sets only afterwards.
            flag::register_conditional_shutdown(signal, code.into(), Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
            flag::register_usize(signal, Arc::clone(&interrupt.code), code.into())?;
        }
        // If an allocation fails, Rust's library prints a message and aborts. Only the exit code can be changed.
        flag::register_conditional_shutdown(SIGABRT, WITHOUT_MEMORY.into(), Arc::new(AtomicBool::new(true)))?;
        // A handler that does nothing is enough: writing past the limit of a file's size then fails instead of
        // killing the program.
        #[cfg(unix)]
        flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
        Ok(interrupt)
    }

    /// Returns whether the program was asked to stop. It is one atomic load, so it can be asked often.
    pub(super) fn is_asked(&self) -> bool {
        self.code.load(Ordering::Relaxed) != 0
    }

    /// Returns the exit code of the signal; that of SIGINT if there was none.
    pub(super) fn code(&self) -> u8 {
        u8::try_from(self.code.load(Ordering::Relaxed)).ok().filter(|&code| code != 0).unwrap_or(130)
    }
}

/// Standard input that fails once the program was asked to stop, so that a terminal or a pipe that delivers nothing
/// does not block the program.
///
/// An end of input and an error of the system are passed on unchanged.
#[derive(Debug)]
pub(super) struct Input {
    /// The flag that is asked before each wait.
    interrupt: Interrupt,
}

impl Input {
    /// Nothing is read until the first call of `read`.
    pub(super) fn new(interrupt: Interrupt) -> Input {
        Input { interrupt }
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut stdin = io::stdin();
        loop {
            if self.interrupt.is_asked() {
                return Err(io::Error::other(tokenmill::Error::interrupted()));
            }
            if has_input(&stdin)? {
                return stdin.read(into);
            }
        }
    }
}

/// Waits up to 200 ms and returns whether standard input has data or has ended.
#[cfg(unix)]
fn has_input(stdin: &io::Stdin) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    const WHILE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&WHILE)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

/// Returns `true`: on this system a read may block until input arrives.
#[cfg(not(unix))]
fn has_input(_stdin: &io::Stdin) -> io::Result<bool> {
    Ok(true)
}

/// Returns a token's bytes as text, with everything escaped that would not be visible: control characters, characters
/// that change the writing direction, and bytes that are not UTF-8, as `\xE2`. A backslash is doubled, so that the
/// escapes cannot be confused with text.
pub(super) fn visible(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    push_escaped(&mut shown, bytes, push_visible);
    shown
}

/// Returns a token like [`visible`]. Of a long one, which can have the length of a document, it returns the beginning
/// and the length. The beginning has at most 120 bytes; see [`beginning`].
pub(super) fn shortened(bytes: &[u8]) -> String {
    let shown = beginning(bytes);
    match shown.len() < bytes.len() {
        true => format!("{}… ({} bytes)", visible(shown), bytes.len()),
        false => visible(bytes),
    }
}

/// Escapes the characters of a message that a terminal would act on: control characters and those that change the
/// writing direction. They come from file names or servers. Line breaks stay. Escaping the result again changes
/// nothing.
pub(super) fn escape_controls(message: &str) -> String {
    let needs_escape = |c: char| c.is_control() && c != '\n' || turns_direction(c);
    if !message.contains(needs_escape) {
        return message.to_owned();
    }
    let shown = |c: char| if needs_escape(c) { c.escape_default().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

/// Does the same for a name, and escapes line breaks. A line break in a name could otherwise start a line that looks
/// like one of the program's own messages.
pub(super) fn on_one_line(name: &str) -> String {
    escape_controls(name).replace('\n', r"\n")
}

/// Returns a message that quotes names, addresses or servers on one line and without secrets.
pub(super) fn safe_line(message: &str) -> String {
    on_one_line(&without_secrets(message))
}

/// Escapes the same characters as [`escape_controls`] in JSON syntax. They occur only within strings, so the meaning
/// stays the same.
pub(super) fn escape_controls_in_json(json: &str) -> String {
    let shown = |c: char| match c {
        '\n' => "\n".to_owned(),
        c if c.is_control() || turns_direction(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    json.chars().map(shown).collect()
}

/// Returns whether a character changes the writing direction or separates lines. Such characters could make a file
/// name look like another one.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A writer that escapes like [`escape_controls`], for text that people read on a terminal.
///
/// A write must not end within a character; a part of one would become U+FFFD. `write!` passes on whole strings.
#[derive(Debug)]
pub(super) struct EscapingWriter<W>(pub(super) W);

impl<W: Write> Write for EscapingWriter<W> {
    /// Returns the length of the original text, since that is what the caller has handed over.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(escape_controls(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Replaces control characters by visible ones with the same number of bytes, so that positions in the text stay
/// valid. Line breaks and tabs stay.
pub(super) fn mask_controls(text: &str) -> String {
    let masked = |c: char| match c {
        '\n' | '\t' => c,
        '\r' => ' ',
        c if c.is_ascii_control() => '?',
        c if c.is_control() => '¿',
        c => c,
    };
    text.chars().map(masked).collect()
}

/// Appends a character, escaped if it would not be visible. Line breaks and tabs have their usual short escapes,
/// other characters the form `\u{…}`.
fn push_visible(shown: &mut String, c: char) {
    match c {
        '\\' => shown.push_str(r"\\"),
        '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
        c if c.is_control() || is_invisible(c) => shown.extend(c.escape_unicode()),
        c => shown.push(c),
    }
}

/// Returns the number of columns of the terminal that standard output goes to. Elsewhere it is that of the variable
/// `COLUMNS`, or else 80.
pub(super) fn columns() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        return size.ws_col.into();
    }
    env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(80)
}

/// The appearance of messages. Whether output goes to a terminal and whether the user wants colours are two
/// questions, so there are two fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether messages are drawn for people at a terminal. If not, they are plain lines.
    pub(super) drawn: bool,
    /// Whether they are coloured.
    pub(super) coloured: bool,
}

impl Style {
    /// Returns the style of a stream. Results and messages can go to different places, so each has its own style.
    ///
    /// Colours are those of [`choose_colours`]. If that leaves the choice open, `NO_COLOR` turns them off, else
    /// `CLICOLOR_FORCE` on; without these variables, a terminal has colours unless `TERM` is `dumb`.
    pub(super) fn of(stream: &impl RawStream) -> Style {
        Style { drawn: stream.is_terminal(), coloured: AutoStream::choice(stream) != ColorChoice::Never }
    }
}

/// Sets whether all streams have colours. `None` leaves it to the terminal and the variables.
pub(super) fn choose_colours(choice: Option<clap::ColorChoice>) {
    let choice = match choice {
        None | Some(clap::ColorChoice::Auto) => ColorChoice::Auto,
        Some(clap::ColorChoice::Always) => ColorChoice::Always,
        Some(clap::ColorChoice::Never) => ColorChoice::Never,
    };
    choice.write_global();
}

/// The form of messages and progress on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people, and bars at a terminal.
    #[default]
    Text,
    /// One JSON object per line, never bars.
    Json,
}

impl LogFormat {
    /// Prints a line on standard error that is not an error: as it is, or as the message of a JSON object.
    pub(super) fn print(self, line: &str) {
        let line = match self {
            LogFormat::Text => on_one_line(line),
            LogFormat::Json => log_object("info", &Map::new(), line),
        };
        // An error is ignored, since standard error is the only place to report it.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Returns a line of a log in JSON: the time, the level, the fields, and the message. Control characters are escaped.
pub(super) fn log_object(level: &str, fields: &Map<String, Value>, message: &str) -> String {
    let mut object = Map::new();
    object.insert("time".to_owned(), json!(time_of_day()));
    object.insert("level".to_owned(), json!(level));
    object.extend(fields.clone());
    object.insert("message".to_owned(), json!(message));
    escape_controls_in_json(&Value::Object(object).to_string())
}

/// Returns the time now in UTC, to the second, as RFC 3339 writes it: `2026-01-31T12:00:00Z`.
pub(super) fn time_of_day() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Exit code (8) of a command that needs more memory than its limit permits or the machine has. It is here because
/// the handler for a failed allocation needs it too.
pub(super) const WITHOUT_MEMORY: u8 = 8;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{
        EscapingWriter, escape_controls, escape_controls_in_json, mask_controls, on_one_line, shortened,
        visible,
    };

    /// Messages contain nothing but lines for the terminal.
    #[test]
    fn messages_send_nothing_to_the_terminal_but_lines() {
        assert_eq!(escape_controls("a.txt is not there\n  help: é"), "a.txt is not there\n  help: é");
        assert_eq!(escape_controls("\x1b[31ma\u{9b}\t\nb"), "\\u{1b}[31ma\\u{9b}\\t\nb");
        assert_eq!(escape_controls("txt.\u{202E}a"), "txt.\\u{202e}a");
        assert_eq!(on_one_line("a\nerror: \x07"), "a\\nerror: \\u{7}");
        let mut written = EscapingWriter(Vec::new());
        writeln!(written, "\x07 \x1b]0;é").expect("memory");
        assert_eq!(written.0, "\\u{7} \\u{1b}]0;é\n".as_bytes());
    }

    /// Escaped JSON has the same meaning and nothing that a terminal acts on.
    #[test]
    fn json_keeps_its_meaning_and_sends_nothing_to_the_terminal() {
        let text = "a\x1b\x7f\u{9b}\u{202E}\n\"é";
        let json = escape_controls_in_json(&serde_json::to_string(text).expect("a text"));
        assert_eq!(json, "\"a\\u001b\\u007f\\u009b\\u202e\\n\\\"é\"");
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
    }

    /// A source has the same length after control characters are replaced.
    #[test]
    fn places_of_a_tamed_source_stay() {
        let (source, masked) = ("a = \"\x1b[31m\u{9b}\"\r\nb", "a = \"?[31m¿\" \nb");
        assert_eq!((mask_controls(source).as_str(), masked.len()), (masked, source.len()));
    }

    /// Long tokens are cut between characters.
    #[test]
    fn long_tokens_are_shortened_between_characters() {
        assert_eq!(shortened("é".repeat(60).as_bytes()), "é".repeat(60));
        assert_eq!(
            shortened(("a".to_owned() + &"é".repeat(60)).as_bytes()),
            "a".to_owned() + &"é".repeat(59) + "… (121 bytes)"
        );
        assert_eq!(shortened(&[0x80; 200]), r"\x80".repeat(120) + "… (200 bytes)");
    }

    /// Invisible characters and invalid bytes are escaped.
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
