//! The errors of sources, and the conversion of errors and panics of decoders into them.
//!
//! An error's kind decides what happens: only [`ErrorKind::Failed`] is bad input, which may be skipped. A wrong
//! request, a lack of memory, and a failure of the system or network end the run even then, because reading again may
//! succeed.

use std::io;

use super::Format;
use crate::base::int::ByteCount;
use crate::error::{Error, ErrorKind, catch_panic, remedy};

/// The ways in which a source can be wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// A requested column is missing.
    #[error("{file} has no column {column:?}; its columns are {}", columns.join(", "))]
    NoColumn { file: String, column: String, columns: Vec<String> },
    /// A requested field of JSON is in none of the first lines.
    #[error("the first lines of {file} have no field {column:?}; the fields of the first are {}", fields.join(", "))]
    NoField { file: String, column: String, fields: Vec<String> },
    /// The column of the text has another type.
    #[error("column {column:?} of {file} holds {found}, not text")]
    NotText { file: String, column: String, found: String },
    /// A requested name is ambiguous.
    #[error("{column:?} names two columns of {file}")]
    TwoColumns { file: String, column: String },
    /// A pass-through column has types without a common one.
    #[error("column {column:?} of {file} holds {found}, but {expected} in the files before it")]
    OtherType { file: String, column: String, found: String, expected: String },
    /// The template of the text is invalid.
    #[error("the template {problem}")]
    Template { problem: String },
    /// Columns are requested of files that have none.
    #[error("{file} is {format} and has no columns to pass through")]
    NoColumns { file: String, format: Format },
    /// A part of a file cannot be read, for any reason.
    #[error("{file}: {place} cannot be read")]
    Damaged {
        file: String,
        place: String,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A line of JSON Lines is invalid.
    #[error("{file}: line {line}: {problem}")]
    Line { file: String, line: u64, problem: String },
    /// A record of JSON, CSV or TSV is invalid.
    #[error("{file}: record {record}: {problem}")]
    Record { file: String, record: u64, problem: String },
    /// A file is no longer the one that was listed.
    #[error("{file} changed while it was read")]
    Changed { file: String },
    /// A file that is read as text has the magic bytes of another format.
    #[error("{file} is not text: {how}it is {what}")]
    BinaryData { file: String, how: &'static str, what: &'static str },
    /// A file is named or requested as Parquet or Arrow, and has the magic bytes of another format.
    #[error("{file} is not {format}: it is {what}")]
    OtherFormat { file: String, format: Format, what: &'static str },
    /// The first frame of a compressed file needs more memory than the limit.
    #[error("{file} is compressed with a window of {window}, and the limit is {limit}")]
    Window { file: String, window: ByteCount, limit: ByteCount },
    /// A later frame of a compressed file needs more memory than the limit.
    #[error("it is compressed with a larger window than the limit of {limit}")]
    LaterWindow { limit: ByteCount },
    /// A file has the extension of a compression and holds plain text.
    #[error("{file} has the name of a compressed file, but is not compressed")]
    NotCompressed { file: String },
    /// A file does not begin with the magic bytes of Parquet.
    #[error("{file} is not a Parquet file: it does not begin with PAR1")]
    NotParquet { file: String },
    /// A file does not end with the magic bytes of Parquet.
    #[error("{file} is cut off: the index at the end of a Parquet file is missing")]
    Truncated { file: String },
    /// A remote file has a format that is not read by ranges.
    #[error("{file} is {format} and cannot be read without downloading it")]
    NeedsDownload { file: String, format: Format },
    /// The footer of a Parquet file is encrypted.
    #[error("{file} is an encrypted Parquet file")]
    Encrypted { file: String },
    /// A requested column of a Parquet file is encrypted.
    #[error("column {column:?} of {file} is encrypted")]
    EncryptedColumn { file: String, column: String },
    /// A glob matches nothing.
    #[error("no file matches {pattern}")]
    NoMatch { pattern: String },
    /// A glob is invalid.
    #[error("{pattern} is not a valid pattern of file names")]
    Pattern {
        pattern: String,
        #[source]
        cause: glob::PatternError,
    },
    /// A folder has no file whose name shows a format.
    #[error("the folder {folder} has no files to read")]
    EmptyFolder { folder: String },
    /// A dataset that `save_to_disk` has written is incomplete.
    #[error("{file} of the dataset that was saved in {folder} is missing")]
    MissingSavedFile { folder: String, file: String },
    /// The files of one source have several formats.
    #[error("{uri} has files of several formats: {first} is {one}, {other} is {two}")]
    Mixed { uri: String, first: String, one: Format, other: String, two: Format },
    /// A URI has an unknown scheme, or a `file:` URI has no absolute path.
    #[error("{uri} is not a source that this program can read")]
    Scheme { uri: String },
    /// A pipe is to be read in a format that needs random access.
    #[error("{format} cannot be read from {name}")]
    NotFromStream { name: String, format: Format },
    /// A pipe is to be read a second time.
    #[error("{name} can be read only once")]
    AlreadyRead { name: String },
    /// The separator of [`DocumentRule::Separator`](super::DocumentRule::Separator) is empty.
    #[error("the separator between documents is empty")]
    EmptySeparator,
    /// The URI of a generated source is invalid.
    #[error("{uri}: {problem}")]
    Demo { uri: String, problem: String },
    /// A document does not fit into a batch.
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
pub(super) fn over_memory_limit(what: &str, bytes: u64, limit: u64) -> io::Error {
    let problem = format!(
        "{what} of {} is larger than {}, the most that the memory limit allows",
        ByteCount(bytes),
        ByteCount(limit)
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
        Err(message) => Err(SourceError::damaged(file, place, Panicked(message))),
    }
}
