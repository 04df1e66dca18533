use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// `Result` with the [`Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of a failure. The exit code of the program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A failure of an input or an output: missing, unreadable or damaged input, output that cannot be written.
    Failed,
    /// A mistake in the request itself: a wrong flag or recipe, a column that does not exist.
    Usage,
    /// Two results that should be equal differ.
    Mismatch,
    /// The network failed, or a server gave a wrong answer or none.
    Network,
    /// A server requires a token, a different token, or the acceptance of terms.
    Authorisation,
    /// The disk is full, or a limit on the size of files is reached.
    DiskFull,
    /// The job needs more memory than it may use.
    Memory,
    /// An input changed after it was listed: it was replaced, emptied or extended during the run.
    InputChanged,
    /// The operating system failed, not the input: an I/O error of a disk, a stale mount, too many open files.
    System,
    /// The run was asked to stop.
    Interrupted,
}

impl ErrorKind {
    /// Name of the kind, for machines to read: `failed`, `usage`, `mismatch`, `network`, `authorisation`, `disk_full`,
    /// `memory`, `input_changed`, `system` or `interrupted`. The program gives it with `--json`. Names do not change.
    ///
    /// ```
    /// assert_eq!(tokenmill::ErrorKind::DiskFull.name(), "disk_full");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Failed => "failed",
            ErrorKind::Usage => "usage",
            ErrorKind::Mismatch => "mismatch",
            ErrorKind::Network => "network",
            ErrorKind::Authorisation => "authorisation",
            ErrorKind::DiskFull => "disk_full",
            ErrorKind::Memory => "memory",
            ErrorKind::InputChanged => "input_changed",
            ErrorKind::System => "system",
            ErrorKind::Interrupted => "interrupted",
        }
    }

    /// The kind of the [`Error`] that an I/O error wraps, if it wraps one.
    pub(crate) fn of_wrapped(cause: &io::Error) -> Option<ErrorKind> {
        Some(cause.get_ref()?.downcast_ref::<Error>()?.kind())
    }

    /// The kind of failure of an error: found in the error itself or in its chain of causes, because decoders
    /// wrap the errors of their readers. [`Failed`](ErrorKind::Failed), which may be the input's fault, if none
    /// of them says more.
    pub(crate) fn of(cause: &(dyn std::error::Error + 'static)) -> ErrorKind {
        let kind = std::iter::successors(Some(cause), |cause| cause.source()).find_map(|cause| {
            let io = || cause.downcast_ref().and_then(of_io);
            cause.downcast_ref().map(Error::kind).or_else(io)
        });
        kind.unwrap_or(ErrorKind::Failed)
    }
}

/// Error codes for too many open files, in this process (`EMFILE`) or on this machine (`ENFILE`). They are the
/// same on Linux, macOS and the BSDs.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// Error code for a path with too many symbolic links (`ELOOP`).
const LINK_LOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

/// Message of the zstd decoder if it gets no memory. It arrives as text without an error code.
const ZSTD_WITHOUT_MEMORY: &str = "Allocation error : not enough memory";

/// Decides whether an I/O error is the system's fault or the input's. No other function of the crate does.
/// `None` if the error comes from a decoder and not from the system. Unknown codes count as the system's: a run
/// that ends can be resumed without loss, but input that is left out is lost.
fn of_io(cause: &io::Error) -> Option<ErrorKind> {
    use io::ErrorKind::{
        AlreadyExists, BrokenPipe, DirectoryNotEmpty, FileTooLarge, InvalidFilename, InvalidInput,
        IsADirectory, NotADirectory, NotFound, OutOfMemory, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    if cause.kind() == OutOfMemory {
        return Some(ErrorKind::Memory);
    }
    if let Some(inner) = cause.get_ref() {
        let without_memory = || inner.to_string() == ZSTD_WITHOUT_MEMORY;
        return match ErrorKind::of(inner) {
            ErrorKind::Failed => without_memory().then_some(ErrorKind::Memory),
            kind => Some(kind),
        };
    }
    match cause.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Some(ErrorKind::DiskFull),
        NotFound | PermissionDenied | NotADirectory | IsADirectory | InvalidFilename | InvalidInput
        | AlreadyExists | BrokenPipe | DirectoryNotEmpty | ReadOnlyFilesystem => Some(ErrorKind::Failed),
        _ => match cause.raw_os_error()? {
            LINK_LOOP => Some(ErrorKind::Failed),
            _ => Some(ErrorKind::System),
        },
    }
}

/// The remedy for a failure of the system, found in an error or in its chain of causes.
pub(crate) fn remedy(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    match ErrorKind::of(cause) {
        ErrorKind::Memory => {
            Some("raise --memory, use fewer threads (--threads), or a machine with more memory")
        }
        ErrorKind::System if code(cause).is_some_and(|code| TOO_MANY_FILES.contains(&code)) => Some(
            "raise the limit of open files (ulimit -n) or use fewer threads, then run the same command again",
        ),
        ErrorKind::System => Some("check the disk or the mount, then run the same command again"),
        _ => None,
    }
}

/// The operating system's code of an error or of one of its causes.
fn code(cause: &(dyn std::error::Error + 'static)) -> Option<i32> {
    std::iter::successors(Some(cause), |cause| cause.source()).find_map(|cause| {
        let io = cause.downcast_ref::<io::Error>()?;
        io.raw_os_error().or_else(|| code(io.get_ref()?))
    })
}

/// The error of all functions in this crate: problem, place, cause and, if one is known, the remedy.
///
/// The type is opaque. Most errors are [messages](Error::message); a fault that callers recognise by its type is
/// wrapped with [`Error::new`].
/// `Display` gives one line with place and problem, [`source`](std::error::Error::source) the chain of causes,
/// and [`help`](Error::help) the remedy. `Debug` gives all of them, so that a `main` that returns [`Result`]
/// prints a complete message.
///
/// ```
/// use std::io;
/// use tokenmill::{Error, ErrorKind};
///
/// let error = Error::io("read", "a.txt", io::Error::from(io::ErrorKind::NotFound));
/// assert_eq!(error.kind(), ErrorKind::Failed);
/// assert_eq!(error.to_string(), "cannot read a.txt");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    fault: Box<dyn std::error::Error + Send + Sync>,
    help: Option<Cow<'static, str>>,
}

impl Error {
    /// Wraps a fault of a stage.
    pub fn new(kind: ErrorKind, fault: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error(Box::new(Inner { kind, fault: Box::new(fault), help: None }))
    }

    /// An error that is only its message: one line without a final period, with the place and the problem.
    ///
    /// ```
    /// use tokenmill::{Error, ErrorKind};
    ///
    /// let error = Error::message(ErrorKind::Mismatch, "row 3 differs");
    /// assert_eq!((error.kind(), error.to_string()), (ErrorKind::Mismatch, "row 3 differs".to_owned()));
    /// ```
    pub fn message(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error::new(kind, Message { text: text.into(), cause: None })
    }

    /// A message with its cause, which is the [source](std::error::Error::source) of the error.
    pub fn caused(
        kind: ErrorKind,
        text: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::new(kind, Message { text: text.into(), cause: Some(cause.into()) })
    }

    /// A message of kind [`ErrorKind::Failed`].
    pub fn failed(text: impl Into<String>) -> Error {
        Error::message(ErrorKind::Failed, text)
    }

    /// A message of kind [`ErrorKind::Usage`].
    pub fn usage(text: impl Into<String>) -> Error {
        Error::message(ErrorKind::Usage, text)
    }

    /// Wraps an I/O error, with the action that failed and its path. The kind follows from the cause: a full
    /// disk is recognised, and an [`Error`] that the I/O error wraps keeps its kind.
    ///
    /// `action` is a verb in the infinitive: `"read"`, `"write"`, `"create"`.
    pub fn io(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Error {
        let (kind, help) = match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (ErrorKind::DiskFull, Some("free some space, then run the same command again"))
            }
            io::ErrorKind::FileTooLarge => (
                ErrorKind::DiskFull,
                Some("raise the limit on file size (ulimit -f), or write smaller files"),
            ),
            // An error of this crate has its own remedy.
            _ => match ErrorKind::of_wrapped(&cause) {
                Some(kind) => (kind, None),
                None => (ErrorKind::of(&cause), remedy(&cause)),
            },
        };
        let error = Error::new(kind, IoFault { action, path: path.as_ref().to_path_buf(), cause });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    /// The error of a run that was asked to stop.
    pub fn interrupted() -> Error {
        Error::message(ErrorKind::Interrupted, "interrupted")
    }

    /// Adds the remedy: a sentence fragment that says what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Error {
        self.0.help = Some(help.into());
        self
    }

    /// Replaces the kind. Message, causes and remedy stay the same.
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Puts the place of the failure before the message. Kind, causes and remedy stay the same.
    #[must_use]
    pub(crate) fn at(self, place: impl fmt::Display) -> Error {
        let Inner { kind, fault, help } = *self.0;
        let fault = Box::new(Placed { place: place.to_string(), fault });
        Error(Box::new(Inner { kind, fault, help }))
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The fault that this error wraps, for callers that recognise it by its type: for example an error of the
    /// program's own [`Source`](crate::source::Source), or of its own code that receives results. An
    /// [`io::Error`] is mostly a [source](std::error::Error::source) instead.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        let mut fault = &*self.0.fault;
        while let Some(Placed { fault: inner, .. }) = fault.downcast_ref() {
            fault = &**inner;
        }
        fault
    }

    /// What the user of the program can do about it, in terms of its flags and of recipe keys; `None` if
    /// nothing is known to help.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fault.fmt(f)
    }
}

/// The output for `fn main() -> tokenmill::Result<()>`: message, causes and remedy.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.fault, f)?;
        for cause in std::iter::successors(self.0.fault.source(), |cause| cause.source()) {
            write!(f, ": {cause}")?;
        }
        self.help().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.fault.source()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display().to_string().replace('\n', r"\n"))]
struct IoFault {
    action: &'static str,
    path: PathBuf,
    #[source]
    cause: io::Error,
}

/// A fault that no code distinguishes from others: only people read it.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Message {
    text: String,
    #[source]
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A fault with its place. The fault's message is part of this one, so the next cause is that of the fault.
#[derive(Debug)]
struct Placed {
    place: String,
    fault: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

impl std::error::Error for Placed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

/// The beginning of a text from the input, for messages: quoted and escaped, and at most 200 characters,
/// because input may be of any length.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

thread_local! {
    /// Whether this thread is inside [`catch_panic`].
    static CATCHING_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Calls a decoder that panics on some malformed input, and returns the message of a panic as the error.
///
/// After an error, anything that `decode` has worked on must not be used again.
pub(crate) fn catch_panic<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CATCHING_PANICS.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    CATCHING_PANICS.set(outer);
    outcome.map_err(|panic| panic_message(&*panic))
}

/// Whether a panic of the current thread becomes an error, as panics of Parquet decoders on damaged files do.
///
/// A panic hook is called for these panics too, and can call this function to recognise and ignore them. In a
/// program built with `panic = "abort"`, such a panic ends the program.
pub fn is_catching_panics() -> bool {
    CATCHING_PANICS.get()
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// Says in plain words what is wrong with a JSON text, without the place.
pub(crate) fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let plain = match message {
        "EOF while parsing a list" => "it ends within a list",
        "EOF while parsing an object" => "it ends within an object",
        "EOF while parsing a string" => "it ends within a string",
        "EOF while parsing a value" => "it ends where a value should be",
        "expected ident" => "a word is neither true, false nor null",
        "expected value" => "no value begins here; text must be in double quotes",
        "expected `:`" => "a colon should follow the name of a field",
        "expected `,` or `]`" => "a comma or ] should follow the item of a list",
        "expected `,` or `}`" => "a comma or } should follow the field of an object",
        "trailing comma" => "a comma has nothing behind it",
        "trailing characters" => "more text follows the end of the value",
        "key must be a string" => "the name of a field must be in double quotes",
        "invalid escape" => "the character behind a backslash is none that can be escaped",
        "invalid number" => "a number is not written as JSON writes numbers",
        "number out of range" => "a number is too large",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a string has a tab, line break or other control character that is not escaped"
        }
        "recursion limit exceeded" => "lists and objects are nested too deeply",
        "invalid unicode code point" => "its bytes are not UTF-8",
        // The parser reports the second half of a pair as missing, and any half that stands alone as a leading one.
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "half of a surrogate pair is alone, which is not a character"
        }
        other => return other.replacen("invalid type: ", "found ", 1),
    };
    plain.to_owned()
}

/// Says at which line and column a JSON text is wrong, and in plain words why. Both are counted from 1.
pub(crate) fn json_problem_at(error: &serde_json::Error) -> String {
    let problem = json_problem(error);
    match (error.line(), error.column()) {
        // An error of a value that was parsed before has no place.
        (0, _) => problem,
        // The parser has read the line break.
        (line, 0) => format!("line {}, at its end: {problem}", line - 1),
        (line, column) => format!("line {line}, column {column}: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_was_made_of_is_found_behind_places() {
        let error = Error::new(ErrorKind::Failed, io::Error::other("mine")).at("row 3").at("a.txt");
        assert_eq!(error.to_string(), "a.txt: row 3: mine");
        let own = error.get_ref().downcast_ref::<io::Error>().map(io::Error::to_string);
        assert_eq!(own.as_deref(), Some("mine"));
    }

    #[test]
    fn faults_of_json_are_said_in_plain_words_with_their_place() {
        for (json, said) in [
            ("{\n  \"a\": tru\n}", "line 2, at its end: a word is neither true, false nor null"),
            ("{\"a\": x}", "line 1, column 7: no value begins here; text must be in double quotes"),
            ("{\"a\": [1, 2", "line 1, column 11: it ends within a list"),
            ("{\"a\": 1,}", "line 1, column 9: a comma has nothing behind it"),
            ("{a: 1}", "line 1, column 2: the name of a field must be in double quotes"),
            ("{\"a\" 1}", "line 1, column 6: a colon should follow the name of a field"),
            ("[1 2]", "line 1, column 4: a comma or ] should follow the item of a list"),
            ("{} {}", "line 1, column 4: more text follows the end of the value"),
            (
                "\"a\tb\"",
                "line 1, column 3: a string has a tab, line break or other control character that is not escaped",
            ),
        ] {
            let error = serde_json::from_str::<serde_json::Value>(json).expect_err(json);
            assert_eq!(json_problem_at(&error), said, "{json}");
        }
        let error = serde_json::from_str::<Vec<String>>("[5]").expect_err("a number");
        assert_eq!(json_problem_at(&error), "line 1, column 2: found integer `5`, expected a string");
        let error = serde_json::from_value::<Vec<String>>(serde_json::json!([5])).expect_err("a number");
        assert_eq!(json_problem_at(&error), "found integer `5`, expected a string");
    }

    /// Wraps an I/O error as decoders do.
    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] io::Error);

    #[test]
    fn what_the_system_fails_at_is_not_the_input_s_fault() {
        use ErrorKind::{DiskFull, Failed, Interrupted, Memory, System};
        // EIO, ENFILE, EMFILE, ENOMEM, ESTALE; ENOENT, EACCES, EEXIST, ENOTDIR, EISDIR, EINVAL, EROFS, EPIPE.
        let stale = if cfg!(target_os = "linux") { 116 } else { 70 };
        let codes = [(5, System), (23, System), (24, System), (12, Memory), (stale, System), (28, DiskFull)];
        let codes =
            codes.into_iter().chain([2, 13, 17, 20, 21, 22, 30, 32, LINK_LOOP].map(|code| (code, Failed)));
        for (code, expected) in codes {
            let cause = || io::Error::from_raw_os_error(code);
            assert_eq!(Error::io("read", "a.txt", cause()).kind(), expected, "{code}");
            assert_eq!(ErrorKind::of(&Wrapped(cause())), expected, "{code} in a cause");
            assert_eq!(ErrorKind::of(&io::Error::other(Wrapped(cause()))), expected, "{code} carried");
        }
        let said = |cause| ErrorKind::of(&Wrapped(cause));
        assert_eq!(said(io::Error::other("corrupt deflate stream")), Failed);
        assert_eq!(said(io::ErrorKind::UnexpectedEof.into()), Failed);
        assert_eq!(said(io::Error::other(ZSTD_WITHOUT_MEMORY)), Memory);
        assert_eq!(said(io::Error::other(Error::interrupted())), Interrupted);
        let many = Error::io("read", "a.txt", io::Error::from_raw_os_error(24));
        assert!(many.help().is_some_and(|help| help.contains("ulimit -n")), "{many:?}");
        let wrapped = io::Error::other(Wrapped(io::Error::from_raw_os_error(24)));
        assert_eq!(remedy(&Wrapped(wrapped)), many.help());
    }

    #[test]
    fn what_zstd_says_without_memory_is_known() {
        let code = 0_usize.wrapping_sub(64);
        assert_eq!(zstd::zstd_safe::get_error_name(code), ZSTD_WITHOUT_MEMORY);
    }

    #[test]
    fn main_tells_message_causes_and_remedy() {
        let cause = io::Error::new(io::ErrorKind::StorageFull, "full");
        let error = Error::io("write", "a.txt", cause);
        assert_eq!(
            format!("{error:?}"),
            "cannot write a.txt: full\n  help: free some space, then run the same command again"
        );
    }

    #[test]
    fn what_a_panic_said_is_the_error() {
        assert!(!is_catching_panics());
        let inner =
            |fails: bool| catch_panic(move || if fails { panic!("bad {}", 7) } else { is_catching_panics() });
        assert_eq!(inner(false), Ok(true));
        assert_eq!(inner(true), Err("bad 7".to_owned()));
        assert_eq!(catch_panic(|| (inner(true).is_err(), is_catching_panics())), Ok((true, true)));
        assert!(!is_catching_panics());
    }
}
