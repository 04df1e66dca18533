//! What all commands share: messages, the form of results, HTML pages, threads and memory.
//!
//! A [`Session`] carries the global flags through a command. The free functions read and write: results on standard
//! output, recipes, pages, and the settings by which sources are opened. All of them escape characters that a
//! terminal would act on, except [`print_as_is`] and [`results`].

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, thread};

use serde::Serialize;
use serde_json::json;
use tokenmill::base::atomic_file;
use tokenmill::base::int::{ByteCount, to_u64, u64_to_usize, with_unit};
use tokenmill::run::recipe::Given;
use tokenmill::run::{Plan, Recipe};
use tokenmill::source::{
    HubSettings, OpenContext, ReadConfig, StoreSettings, shown_uri, tokenizer_path, without_secrets,
};
use tokenmill::{Error, ErrorKind, Result};

use super::args::Global;
use super::environment::system_environment;
use super::failure::Failure;
use super::progress::Progress;
use super::terminal::{EscapingWriter, Interrupt, Style, escape_controls_in_json};

/// Time to wait for text (200 ms) before checking whether the program was asked to stop. So the program notices a
/// signal after this time at most.
const WHILE: Duration = Duration::from_millis(200);

/// The outcome of a command that did its work.
///
/// [`program`](super::program) turns it into the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// All of the input was used.
    Whole,
    /// Some inputs were skipped. The result lacks only these. Their number was printed.
    Skipped,
}

/// The global flags and the interrupt, which all commands share. It is made once for each run of the program and
/// passed to every command by reference.
#[derive(Debug)]
pub(super) struct Session<'a> {
    /// The flags as they were given.
    global: &'a Global,
    /// The words of the command line, the name of the program first.
    words: &'a [OsString],
    /// The signals that arrived so far; shared with everything that can be stopped.
    interrupt: Interrupt,
    /// Whether a download has begun; shared with the reports of progress.
    downloaded: Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    /// The signal handlers of `interrupt` are already installed.
    pub(super) fn new(global: &'a Global, words: &'a [OsString], interrupt: Interrupt) -> Session<'a> {
        Session { global, words, interrupt, downloaded: Arc::default() }
    }

    /// Returns the command line in shell syntax. Bytes that are not UTF-8 become U+FFFD.
    pub(super) fn command_line(&self) -> String {
        in_shell(self.words.iter().map(|word| word.to_string_lossy().into_owned()))
    }

    /// Returns whether results should be printed as JSON. Errors are JSON then, too; other messages are not.
    pub(super) fn json(&self) -> bool {
        self.global.json
    }

    /// Returns the flag that says whether the program was asked to stop. It is a handle on the same flag, and cheap
    /// to copy.
    pub(super) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Starts to report progress on standard error. Nothing is reported with `--quiet`. The report ends when the
    /// returned value is dropped.
    pub(super) fn progress(&self) -> Progress {
        let format = (!self.global.quiet).then_some(self.global.log_format);
        let downloaded = Arc::clone(&self.downloaded);
        Progress::start(format, Style::of(&io::stderr()), self.interrupt.clone(), downloaded)
    }

    /// Returns whether a download has begun. The part of it that arrived is kept.
    pub(super) fn has_downloaded(&self) -> bool {
        self.downloaded.load(Ordering::Relaxed)
    }

    /// Returns the memory limit: that of the flag, or else that of the environment. It is for commands without a
    /// plan; a plan has the limit that a recipe may set.
    pub(super) fn memory(&self) -> ByteCount {
        self.global.memory.unwrap_or_else(|| system_environment().memory)
    }

    /// Returns the number of threads: that of the flag, or else the number of usable processors. It is for commands
    /// without a plan, like [`memory`](Session::memory).
    pub(super) fn threads(&self) -> usize {
        self.global.threads.map_or_else(|| system_environment().threads, u64_to_usize)
    }

    /// Returns a recipe with the limits of the global flags in place of its own.
    pub(super) fn limited(&self, mut recipe: Recipe) -> Recipe {
        if let Some(threads) = self.global.threads {
            recipe.run.threads = Some(Given::flag(threads));
        }
        if let Some(memory) = self.global.memory {
            recipe.run.memory = Some(Given::flag(memory));
        }
        recipe
    }

    /// Checks a recipe and returns its plan. Global flags override the recipe. With `--verbose`, the resulting limits
    /// and the hash of the recipe are printed.
    ///
    /// # Errors
    /// All mistakes in the recipe or the flags together.
    pub(super) fn plan(&self, recipe: Recipe) -> Result<Plan, Failure> {
        let plan = tokenmill::run::plan(&self.limited(recipe), &system_environment())?;
        if self.global.verbose {
            self.say(&format!(
                "{}, memory limit {}, recipe {}",
                with_unit(to_u64(plan.threads), "thread"),
                plan.memory,
                plan.recipe_hash
            ));
        }
        Ok(plan)
    }

    /// Returns the outcome of a command that skipped this number of rows or files, and reports the number. A message
    /// is printed only if there were any.
    pub(super) fn done(&self, skipped: u64) -> Done {
        if skipped == 0 {
            return Done::Whole;
        }
        let were = if skipped == 1 { "row or file was" } else { "rows or files were" };
        self.say(&format!("{skipped} {were} left out"));
        Done::Skipped
    }

    /// Prints a message that is not a result, unless quiet. Line breaks within the message are escaped, so a file
    /// name cannot imitate a second message.
    pub(super) fn say(&self, line: &str) {
        if !self.global.quiet {
            self.global.log_format.print(line);
        }
    }

    /// Writes a page or another text completely or not at all, and says so.
    ///
    /// # Errors
    /// The file cannot be written. An earlier file is then unchanged.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<()> {
        atomic_file::publish_bytes(Path::new(path), text.as_bytes())?;
        self.say(&format!("wrote {path}"));
        Ok(())
    }

    /// Prints a result: as JSON with `--json`, otherwise as `write` writes it.
    ///
    /// # Errors
    /// Those of [`print`].
    pub(super) fn print_result<T: Serialize>(
        &self,
        json: impl FnOnce() -> T,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        if self.json() { self.print_json(&json()) } else { print(write) }
    }

    /// Prints a result as one line of JSON. Control characters within strings are escaped, which does not change the
    /// meaning.
    ///
    /// # Errors
    /// Standard output cannot be written to. A closed pipe is no error.
    ///
    /// # Panics
    /// If the value is a map with keys that are not text; no result is.
    pub(super) fn print_json(&self, result: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(result).expect("plain fields with text keys");
        print_as_is(|out| writeln!(out, "{}", escape_controls_in_json(&text)))
    }

    /// Returns the result of a comparison unchanged. A difference is a result, too: with `--json` it is printed under
    /// the same key `verdict` as agreement.
    ///
    /// An error of another kind is printed nowhere here; the caller passes it on.
    ///
    /// # Errors
    /// The error of the comparison, or that of standard output.
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

/// Returns buffered standard output, for results. It stays locked until the value is dropped. The caller flushes it,
/// since an error while dropping would be lost.
pub(super) fn results() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(stdout().lock())
}

/// Prints a result for people, with control characters escaped.
///
/// # Errors
/// Those of [`print_as_is`].
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    print_as_is(|out| write(&mut EscapingWriter(out)))
}

/// Prints a result byte for byte. It is for JSON, scripts, and texts that are already escaped.
///
/// # Errors
/// Standard output cannot be written to. A closed pipe is no error, since its reader chose to end.
pub(super) fn print_as_is(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<()> {
    let mut out = results();
    match write(&mut out).and_then(|()| out.flush()) {
        // The reader has enough. The exit code still shows how the command ended.
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(printing),
    }
}

/// Returns the error for a failed write to standard output. [`Failure::is_closed_pipe`] recognises its direct cause.
pub(super) fn printing(cause: io::Error) -> Error {
    Error::io("write", "standard output", cause)
}

/// Largest size of a file that people write, in bytes (16 MiB). A recipe with ten thousand sources has two million.
/// The limit stops a mistyped path to a corpus from filling the memory.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Reads a text file that people write. `stopping` says whether the program was asked to stop.
///
/// # Errors
/// The file cannot be read, has more than 16 MiB, or is not UTF-8; or the program was asked to stop.
pub fn read_text(path: &str, stopping: &dyn Fn() -> bool) -> Result<String> {
    let bytes = read_file(path, MAX_TEXT_BYTES + 1, stopping)?;
    if to_u64(bytes.len()) > MAX_TEXT_BYTES {
        let problem = format!("{path} is not a recipe: it has more than {MAX_TEXT_BYTES} bytes");
        return Err(Error::usage(problem));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let error = io::Error::new(io::ErrorKind::InvalidData, cause);
        Error::caused(ErrorKind::Usage, format!("{path} is not UTF-8"), error)
    })
}

/// Reads the first `max` bytes of a file.
///
/// It may be a pipe, as shells create for `<(command)`. A separate thread reads it, so that a pipe that delivers
/// nothing does not keep the program from reacting to a signal. That thread is not joined.
///
/// # Errors
/// The file cannot be read, or the program was asked to stop.
pub(super) fn read_file(path: &str, max: u64, stopping: &dyn Fn() -> bool) -> Result<Vec<u8>> {
    let (send, read) = channel();
    let of = path.to_owned();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let taken = File::open(&of).and_then(|file| file.take(max).read_to_end(&mut bytes));
        // Nobody receives if the program is about to end.
        let _ = send.send(taken.map(|_| bytes));
    });
    let taken = loop {
        match read.recv_timeout(WHILE) {
            Ok(taken) => break taken,
            Err(_) if stopping() => return Err(Error::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(io::Error::other("its reader thread ended")),
        }
    };
    taken.map_err(|cause| Error::io("read", path, cause))
}

/// Returns the words of a command in shell syntax, with secrets hidden in [addresses](shown_uri), because other people
/// read logs and reports. Pasted into a shell, it runs the same command, unless secrets were hidden.
pub(super) fn in_shell(words: impl IntoIterator<Item = String>) -> String {
    let shown = |word: String| quoted(&without_secrets(&shown_uri(&word)));
    words.into_iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell if necessary. The quotes are those of POSIX shells: nothing within single quotes has a
/// meaning except their end.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The first bytes of a page, in any case.
const BEGINNING: &[u8] = b"<!doctype html";

/// Checks, before any work is done, that writing a page would replace nothing but a page. `None` is no page and
/// always allowed.
///
/// # Errors
/// The file exists and is not a page, or its folder is missing or cannot be written to.
pub(super) fn check(path: Option<&str>) -> Result<()> {
    check_kind(path, "page", BEGINNING)
}

/// Checks, before any work is done, that writing a file would replace nothing but a file that begins with these bytes,
/// in any case. `kind` names such a file in the error. `None` is no file and always allowed.
///
/// # Errors
/// The file exists and begins differently, or its folder is missing or cannot be written to.
pub(super) fn check_kind(path: Option<&str>, kind: &str, beginning: &[u8]) -> Result<()> {
    let begins = |path: &Path| {
        let mut bytes = vec![0; beginning.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
        read.is_ok() && bytes.eq_ignore_ascii_case(beginning)
    };
    path.map_or(Ok(()), |path| atomic_file::check_replaced(Path::new(path), kind, begins))
}

/// Returns the resources to open sources with: standard input, and the settings of the hub and object stores.
///
/// Standard input ends with an error once the program should stop, and so do network requests. Notes go to the
/// progress report.
pub(super) fn open_context<'a>(plan: &Plan, progress: &'a Progress) -> OpenContext<'a> {
    let context = OpenContext::new(progress);
    // Half of the memory is for reading; the rest is for text that has been read and for results.
    let config = ReadConfig { window_bytes: plan.memory.0 / 2, readers: plan.threads, ..context.config };
    OpenContext {
        config,
        stdin: Mutex::new(Some(Box::new(progress.input()))),
        hub: HubSettings { noted: progress.note(), ..hub() },
        stores: stores(),
        stop: progress.stop(),
        ..context
    }
}

/// Returns the settings of object stores, from the same variables that their own tools use.
///
/// Only variables with the prefixes of AWS, Google and Azure are passed on, so that other secrets of the environment
/// never reach the library. Empty variables count as unset.
pub fn stores() -> StoreSettings {
    let known = |name: &str| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix));
    let text =
        env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    StoreSettings { variables: text.filter(|(name, value)| known(name) && !value.is_empty()).collect() }
}

/// Returns the path of a tokenizer that is named by its path, by its name on the hub, or by a published name. One on
/// the hub is downloaded.
///
/// # Errors
/// There is no such file and the name is not known, or the download fails.
pub(super) fn tokenizer(name: impl AsRef<Path>, progress: &Progress) -> Result<PathBuf> {
    tokenizer_path(name, &HubSettings { noted: progress.note(), ..hub() }, progress)
}

/// Returns the settings of the hub, found like Python's `huggingface_hub` does. The variables decide the address of
/// the hub, the token and the folder of the cache.
pub fn hub() -> HubSettings {
    HubSettings::from_variables(&|name| env::var(name).ok(), env::home_dir().as_deref())
}
