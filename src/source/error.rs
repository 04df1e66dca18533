//! The errors of sources, and the conversion of errors and panics of decoders into them.
//!
//! An error's kind decides what happens: only [`ErrorKind::Failed`] is bad input, which may be skipped. A wrong
//! request, a lack of memory, and a failure of the system or network end the run even then, because reading again may
//! succeed.

use std::io;

use super::Format;
use crate::base::int::ByteCount;
use crate::error::catch_panic;
use crate::error::{Error, ErrorKind, remedy};

/// The ways in which a source can be wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("{file} has no column {column:?}; its columns are {}", columns.join(", "))]
    NoColumn { file: String, column: String, columns: Vec<String> },
    #[error("the first lines of {file} have no field {column:?}; the fields of the first are {}", fields.join(", "))]
    NoField { file: String, column: String, fields: Vec<String> },
    #[error("column {column:?} of {file} holds {found}, not text")]
    NotText { file: String, column: String, found: String },
    #[error("{column:?} names two columns of {file}")]
    TwoColumns { file: String, column: String },
    #[error("column {column:?} of {file} holds {found}, but {expected} in the files before it")]
    OtherType { file: String, column: String, found: String, expected: String },
    #[error("the template {problem}")]
    Template { problem: String },
    #[error("{file} is {format} and has no columns to pass through")]
    NoColumns { file: String, format: Format },
    #[error("{file}: {place} cannot be read")]
    Damaged {
        file: String,
        place: String,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{file}: line {line}: {problem}")]
    Line { file: String, line: u64, problem: String },
    #[error("{file}: record {record}: {problem}")]
    Record { file: String, record: u64, problem: String },
    #[error("{file} changed while it was read")]
    Changed { file: String },
    #[error("{file} is not text: {how}it is {what}")]
    BinaryData { file: String, how: &'static str, what: &'static str },
    #[error("{file} is not {format}: it is {what}")]
    OtherFormat { file: String, format: Format, what: &'static str },
    #[error("{file} is compressed with a window of {window}, and the limit is {limit}")]
    Window { file: String, window: ByteCount, limit: ByteCount },
    #[error("it is compressed with a larger window than the limit of {limit}")]
    LaterWindow { limit: ByteCount },
    #[error("{file} has the name of a compressed file, but is not compressed")]
    NotCompressed { file: String },
    #[error("{file} is not a Parquet file: it does not begin with PAR1")]
    NotParquet { file: String },
    #[error("{file} is cut off: the index at the end of a Parquet file is missing")]
    Truncated { file: String },
    #[error("{file} is {format} and cannot be read without downloading it")]
    NeedsDownload { file: String, format: Format },
    #[error("{file} is an encrypted Parquet file")]
    Encrypted { file: String },
    #[error("column {column:?} of {file} is encrypted")]
    EncryptedColumn { file: String, column: String },
    #[error("no file matches {pattern}")]
    NoMatch { pattern: String },
    #[error("{pattern} is not a valid pattern of file names")]
    Pattern {
        pattern: String,
        #[source]
        cause: glob::PatternError,
    },
    #[error("the folder {folder} has no files to read")]
    EmptyFolder { folder: String },
    #[error("{file} of the dataset that was saved in {folder} is missing")]
    MissingSavedFile { folder: String, file: String },
    #[error("{uri} has files of several formats: {first} is {one}, {other} is {two}")]
    Mixed { uri: String, first: String, one: Format, other: String, two: Format },
    #[error("{uri} is not a source that this program can read")]
    Scheme { uri: String },
    #[error("{format} cannot be read from {name}")]
    NotFromStream { name: String, format: Format },
    #[error("{name} can be read only once")]
    AlreadyRead { name: String },
    #[error("the separator between documents is empty")]
    EmptySeparator,
    #[error("{uri}: {problem}")]
    Demo { uri: String, problem: String },
    #[error("{file}: row {row}: a document is longer than {limit} bytes")]
    TooLong { file: String, row: u64, limit: u64 },
}

impl SourceError {
    /// The error of kind [`ErrorKind::Failed`].
    pub(super) fn failed(self) -> Error {
        Error::new(ErrorKind::Failed, self)
    }

    /// The error of kind [`ErrorKind::Usage`].
    pub(super) fn usage(self) -> Error {
        Error::new(ErrorKind::Usage, self)
    }

    /// The error for a place in a file that cannot be read because of `cause`, which decides the kind and the advice.
    pub(super) fn damaged(
        file: &str,
        place: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        let cause = cause.into();
        let kind = ErrorKind::of(&*cause);
        let help = remedy(&*cause);
        let failure = SourceError::Damaged { file: file.to_owned(), place: place.into(), cause };
        let error = Error::new(kind, failure);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}

/// The error for input that exceeds the memory limit and is otherwise valid. It is not bad input, so it is never
/// skipped.
pub(super) fn memory_error(error: Error) -> Error {
    Error::new(ErrorKind::Memory, error).with_help("raise --memory, or leave the file out")
}

/// The cause when something that is read as a whole takes more than the memory limit allows.
pub(super) fn over_memory_limit(what: &str, bytes: u64, most: u64) -> io::Error {
    let problem = format!(
        "{what} of {} is larger than {}, the most that the memory limit allows",
        ByteCount(bytes),
        ByteCount(most)
    );
    io::Error::new(io::ErrorKind::OutOfMemory, problem)
}

/// The error that a file is no longer the one that was listed.
pub(crate) fn changed(file: &str) -> Error {
    let failure = SourceError::Changed { file: file.to_owned() };
    Error::new(ErrorKind::InputChanged, failure)
        .with_help("run it again when nothing writes to the input any more")
}

/// The message of a panic in a decoder.
#[derive(Debug, thiserror::Error)]
#[error("the decoder gave up: {0}")]
pub(super) struct Panicked(pub(super) String);

/// Runs a decoder, and turns an error or panic into an error that names the file and place.
///
/// # Errors
/// The decoder fails or panics; the error names the file and the place.
pub(super) fn guarded<T, E>(
    file: &str,
    place: &str,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, Error>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match catch_panic(decode) {
        Ok(result) => result.map_err(|cause| SourceError::damaged(file, place, cause)),
        Err(said) => Err(SourceError::damaged(file, place, Panicked(said))),
    }
}
