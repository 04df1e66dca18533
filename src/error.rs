use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is; the program's exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something failed: a missing, unreadable or damaged input, an output that cannot be written.
    Failed,
    /// The request itself is wrong: a flag, a recipe, a column that does not exist.
    Usage,
    /// Two things that should be equal are not.
    Mismatch,
    /// The network, or a server on it, did not do its part.
    Network,
    /// A server wants a token, another token, or accepted terms.
    Authorisation,
    /// The disk is full, or a limit to what may be written is reached.
    DiskFull,
    /// The job does not fit the memory limit.
    Memory,
    /// The run was asked to stop.
    Interrupted,
}

impl ErrorKind {
    /// The kind of the [`Error`] that an I/O error was made of, if it was.
    pub(crate) fn carried(cause: &io::Error) -> Option<ErrorKind> {
        Some(cause.get_ref()?.downcast_ref::<Error>()?.kind())
    }
}

/// What went wrong, where, and, if there is one, the remedy.
///
/// Opaque: each stage keeps its own kinds of fault with their fields private, and hands them over by
/// [`Error::new`]. `Display` gives one line with place and problem; [`source`](std::error::Error::source)
/// chains the cause; [`help`](Error::help) is the remedy.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    fault: Box<dyn std::error::Error + Send + Sync>,
    help: Option<Cow<'static, str>>,
}

impl Error {
    /// Wraps a stage's own fault.
    pub fn new(kind: ErrorKind, fault: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error(Box::new(Inner { kind, fault: Box::new(fault), help: None }))
    }

    /// Wraps an I/O error with what was being done to which path. A full disk is recognised, and so is
    /// an [`Error`] that the I/O error carries: its kind stays.
    ///
    /// `action` is a verb in the infinitive: `"read"`, `"write"`, `"create"`.
    pub fn io(action: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Error {
        let (kind, help) = match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (ErrorKind::DiskFull, Some("free some space, then run the same command again"))
            }
            io::ErrorKind::FileTooLarge => (
                ErrorKind::DiskFull,
                Some("raise the limit of a file's size (ulimit -f), or write smaller files"),
            ),
            _ => (ErrorKind::carried(&cause).unwrap_or(ErrorKind::Failed), None),
        };
        let error = Error::new(kind, IoFault { action, path: path.as_ref().to_path_buf(), cause });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    /// The error of a run that was asked to stop.
    pub fn interrupted() -> Error {
        Error::new(ErrorKind::Interrupted, Interrupted)
    }

    /// Adds the remedy: a sentence fragment that says what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Error {
        self.0.help = Some(help.into());
        self
    }

    /// Puts the place where it went wrong before the message; kind, causes and remedy stay.
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

    /// What it was made of, such as an error of a program's own [`Source`](crate::source::Source), or of what it does with
    /// results: to be told by its type. An [`io::Error`] is mostly a [source](std::error::Error::source) instead.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        let mut fault = &*self.0.fault;
        while let Some(Placed { fault: inner, .. }) = fault.downcast_ref() {
            fault = &**inner;
        }
        fault
    }

    /// What whoever uses the program can do about it, if that is known: in terms of its flags and of keys of recipes.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fault.fmt(f)
    }
}

/// What `fn main() -> tokenmill::Result<()>` tells: the message, its causes and the remedy.
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
#[error("cannot {action} {}", path.display())]
struct IoFault {
    action: &'static str,
    path: PathBuf,
    #[source]
    cause: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Interrupted;

/// A fault with its place; the fault itself is in the message already, its cause is the cause.
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

/// The beginning of what a message quotes of its input, in quotes and with escapes: input may be of any length.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
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
    fn main_tells_message_causes_and_remedy() {
        let cause = io::Error::new(io::ErrorKind::StorageFull, "full");
        let error = Error::io("write", "a.txt", cause);
        assert_eq!(
            format!("{error:?}"),
            "cannot write a.txt: full\n  help: free some space, then run the same command again"
        );
    }
}
