//! What all commands share: how loud to be, how results look, which threads work.

use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write, stdout};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokenmill::run::recipe::Given;
use tokenmill::run::{Plan, Recipe};
use tokenmill::source::{shown_uri, without_secrets};
use tokenmill::units::{ByteCount, amount, counted, place64};
use tokenmill::{Error, ErrorKind, Result};

use super::args::Global;
use super::failure::Failure;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::shown::{Tamed, on_one_line, tame_json};
use super::surroundings::{Style, surroundings};

/// How long nothing may come of a text before it is asked whether to stop.
const WHILE: Duration = Duration::from_millis(200);

/// How a command that worked ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// All was done.
    Whole,
    /// Inputs were left out.
    Skipped,
}

/// What all commands share.
#[derive(Debug)]
pub(super) struct Session<'a> {
    global: &'a Global,
    interrupt: Interrupt,
}

impl<'a> Session<'a> {
    pub(super) fn new(global: &'a Global, interrupt: Interrupt) -> Session<'a> {
        Session { global, interrupt }
    }

    /// Whether results are wanted as JSON.
    pub(super) fn json(&self) -> bool {
        self.global.json
    }

    /// Tells whether the program was asked to stop.
    pub(super) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Begins to tell how far the work is.
    pub(super) fn progress(&self) -> Progress {
        Progress::start(self.global.quiet, Style::of_messages(), self.interrupt.clone())
    }

    /// The limit of memory where no recipe says one.
    pub(super) fn memory(&self) -> ByteCount {
        self.global.memory.unwrap_or_else(|| surroundings().memory)
    }

    /// How many threads work where no recipe says it.
    pub(super) fn threads(&self) -> usize {
        self.global.threads.map_or_else(|| surroundings().threads, place64)
    }

    /// Checks a recipe, with the flags that stand above it.
    pub(super) fn plan(&self, mut recipe: Recipe) -> Result<Plan, Failure> {
        if let Some(threads) = self.global.threads {
            recipe.run.threads = Some(Given::flag(threads));
        }
        if let Some(memory) = self.global.memory {
            recipe.run.memory = Some(Given::flag(memory));
        }
        let plan = tokenmill::run::plan(&recipe, &surroundings())?;
        if self.global.verbose {
            self.say(&format!(
                "{}, memory limit {}, recipe {}",
                counted(amount(plan.threads), "thread"),
                plan.memory,
                plan.recipe_hash
            ));
        }
        Ok(plan)
    }

    /// How a command ends that left so many rows or files out.
    pub(super) fn done(&self, skipped: u64) -> Done {
        if skipped == 0 {
            return Done::Whole;
        }
        let were = if skipped == 1 { "row or file was" } else { "rows or files were" };
        self.say(&format!("{skipped} {were} left out"));
        Done::Skipped
    }

    /// Tells something that is no result.
    pub(super) fn say(&self, line: &str) {
        if !self.global.quiet {
            // Where standard error is gone nobody can be told.
            let _ = writeln!(io::stderr(), "{}", on_one_line(line));
        }
    }

    /// Writes a result as one line of JSON.
    pub(super) fn print_json(&self, result: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(result).expect("plain fields with text keys");
        print_as_is(|out| writeln!(out, "{}", tame_json(&text)))
    }

    /// Passes on how a comparison ended. That two things differ is a result too: as JSON it is told under the same
    /// `verdict` as that they do not.
    pub(super) fn or_told<T>(&self, compared: Result<T>, verdict: &str) -> Result<T> {
        match &compared {
            Err(error) if self.json() && error.kind() == ErrorKind::Mismatch => {
                self.print_json(&json!({ verdict: false, "difference": error.to_string() }))?;
            }
            _ => {}
        }
        compared
    }
}

/// Standard output, for results.
pub(super) fn results() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(stdout().lock())
}

/// Writes a result for people to standard output.
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    print_as_is(|out| write(&mut Tamed(out)))
}

/// Writes a result to standard output, and nothing else than it.
pub(super) fn print_as_is(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<()> {
    let mut out = results();
    match write(&mut out).and_then(|()| out.flush()) {
        // What reads it has enough. How the command ended is still told by its code.
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(printing),
    }
}

/// The error of standard output.
pub(super) fn printing(cause: io::Error) -> Error {
    Error::io("write", "standard output", cause)
}

/// Bytes of a file that people write: a recipe with ten thousand sources has two million.
const MOST_TEXT_BYTES: u64 = 16 << 20;

/// Reads a file of text that people write.
///
/// It may be a pipe, as shells make them of `<(command)`: what it waits for is no reason not to hear a signal, so that a
/// thread reads which nobody waits for.
pub(super) fn read_text(path: &str, interrupt: &Interrupt) -> Result<String> {
    let (send, read) = channel();
    let of = path.to_owned();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let taken = File::open(&of).and_then(|file| file.take(MOST_TEXT_BYTES + 1).read_to_end(&mut bytes));
        // Nobody listens any more where the program ends.
        let _ = send.send(taken.map(|_| bytes));
    });
    let taken = loop {
        match read.recv_timeout(WHILE) {
            Ok(taken) => break taken,
            Err(_) if interrupt.is_asked() => return Err(Error::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(io::Error::other("its reader ended")),
        }
    };
    let bytes = taken.map_err(|cause| Error::io("read", path, cause))?;
    if amount(bytes.len()) > MOST_TEXT_BYTES {
        return Err(Error::new(ErrorKind::Usage, TooLong { path: path.to_owned() }));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let error = io::Error::new(io::ErrorKind::InvalidData, cause);
        Error::new(ErrorKind::Usage, NotText { path: path.to_owned(), cause: error })
    })
}

#[derive(Debug, thiserror::Error)]
#[error("{path} is no recipe: it has more than {MOST_TEXT_BYTES} bytes")]
struct TooLong {
    path: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{path} is not UTF-8")]
struct NotText {
    path: String,
    #[source]
    cause: io::Error,
}

/// The command as a shell takes it, with [addresses as they are shown](shown_uri): logs and reports are read by others.
pub(super) fn command_line() -> String {
    let shown = |word: &str| quoted(&without_secrets(&shown_uri(word)));
    std::env::args_os().map(|word| shown(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
