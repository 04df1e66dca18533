//! Errors of writing and reading outputs.

use std::path::{Path, PathBuf};

use arrow_schema::{ArrowError, DataType};
use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind};

/// An error of an output, with the file or column that is affected. As an [`Error`], it has a kind and a remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum SinkError {
    /// `what` names what the other split has.
    #[error("{} holds the split {split:?}, which has {what}", folder.display())]
    OtherSplit { folder: PathBuf, split: String, what: &'static str },
    #[error("{} has no split {split:?}", folder.display())]
    NoSplit { folder: PathBuf, split: String },
    /// The names `input_ids` and `length` are taken.
    #[error("two output columns would be named {name:?}")]
    ColumnTwice { name: String },
    #[error("column {name:?} has type {data_type}, which cannot be passed through")]
    ColumnType { name: String, data_type: DataType },
    /// Sources and units are counted from 0. The same holds in the errors below.
    #[error("column {name:?} is missing from the rows of source {source_index}, unit {unit}")]
    ColumnMissing { name: String, source_index: usize, unit: usize },
    #[error("column {name:?} of source {source_index}, unit {unit} does not fit the type {data_type}")]
    ColumnCast {
        name: String,
        source_index: usize,
        unit: usize,
        data_type: DataType,
        #[source]
        cause: ArrowError,
    },
    /// `what` completes "packed rows …".
    #[error("packed rows {what}")]
    CannotPack { what: String },
    #[error("{name:?} is not a valid name for a split of a dataset")]
    SplitName { name: String },
    /// The column of ids has signed numbers.
    #[error("token id {id} does not fit a signed 32-bit number")]
    IdTooLarge { id: u32 },
    #[error("a row of source {source_index}, unit {unit} has {tokens} tokens, more than a list can hold")]
    RowTooLong { source_index: usize, unit: usize, tokens: usize },
    /// Files are planned before encoding, so rows must arrive in the planned order.
    #[error("rows of source {source_index}, unit {unit} arrive out of the planned order")]
    OutOfOrder { source_index: usize, unit: usize },
    /// Parquet has no such type.
    #[error("cannot write the output's columns")]
    Columns(#[source] ParquetError),
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: ParquetError,
    },
    #[error("cannot write {}: an encoding thread has stopped", path.display())]
    EncoderStopped { path: PathBuf },
    /// Writing would overwrite, remove or adopt this file.
    #[error("{} holds {name}, which tokenmill did not write, or has no record of", folder.display())]
    ForeignFolder { folder: PathBuf, name: String },
    /// `holder` names the process, or is empty if it is not known.
    #[error("{} is being written by another process{holder}", folder.display())]
    Locked { folder: PathBuf, holder: String },
    #[error("{}: not a manifest", path.display())]
    ManifestDamaged {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    #[error("{}: larger than {limit} bytes", path.display())]
    ManifestTooLarge { path: PathBuf, limit: u64 },
    /// `what` is a phrase from [`Manifest::flaw`](super::manifest::Manifest).
    #[error("{}: {what}", path.display())]
    ManifestInvalid { path: PathBuf, what: &'static str },
    /// The manifest can be parsed, but it is not the text that was written.
    #[error("{}: not as it was written: its checksum differs", path.display())]
    ManifestChanged { path: PathBuf },
    #[error("{}: listed in the manifest, but missing", path.display())]
    FileMissing { path: PathBuf },
    /// Readers of the folder would take it for data.
    #[error("{}: not listed in the manifest", path.display())]
    FileUnlisted { path: PathBuf },
    #[error("{}: {what} is {found}, the manifest says {expected}", path.display())]
    FileDiffers { path: PathBuf, what: &'static str, found: String, expected: String },
    #[error("{} is not a Parquet file: it does not begin with PAR1", path.display())]
    NotParquet { path: PathBuf },
    /// `row_group` is `None` if the footer is meant.
    #[error("{}: cannot be read as Parquet{}", path.display(), in_row_group(*row_group))]
    Parquet {
        path: PathBuf,
        row_group: Option<usize>,
        #[source]
        cause: ParquetError,
    },
    /// The Parquet reader panics on some damaged files instead of returning an error.
    #[error("{}: damaged{}; the Parquet reader gave up: {message}", path.display(), in_row_group(*row_group))]
    ParquetPanic { path: PathBuf, row_group: Option<usize>, message: String },
    #[error("{}: column {column:?} not found; it has {found}", path.display())]
    NoTokenColumn { path: PathBuf, column: &'static str, found: String },
    #[error("{}: column {column:?} is {found}, not a list of token ids", path.display())]
    NotTokens { path: PathBuf, column: &'static str, found: DataType },
    /// Rows are counted from 0 in the file.
    #[error("{}: row {row} holds {id}, which is not a token id", path.display())]
    BadId { path: PathBuf, row: u64, id: i64 },
    #[error("{}: row {row} holds a null among its ids", path.display())]
    NullId { path: PathBuf, row: u64 },
    #[error("{}: its token metadata cannot be read", path.display())]
    DeclarationDamaged {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    /// All files of a folder must have been encoded by one tokenizer with the same settings.
    #[error("{}: its token metadata differs from that of {}", path.display(), first.display())]
    DeclarationDiffers { path: PathBuf, first: PathBuf },
    /// `path` is that of the index. `what` is a clause.
    #[error("{}: not an index of token ids: {what}", path.display())]
    IndexDamaged { path: PathBuf, what: &'static str },
    #[error("{} holds no files of token ids", folder.display())]
    NoFiles { folder: PathBuf },
}

/// The kind and the remedy of each error. Where the remedy depends on the place, the place adds it.
impl From<SinkError> for Error {
    fn from(error: SinkError) -> Error {
        use ErrorKind::{Failed, Mismatch, Usage};
        let (kind, help) = match &error {
            SinkError::OtherSplit { .. } => {
                (Usage, "encode all splits of an output with the same settings, or choose another folder")
            }
            SinkError::NoSplit { .. }
            | SinkError::SplitName { .. }
            | SinkError::CannotPack { .. }
            | SinkError::Columns(_) => (Usage, ""),
            SinkError::ColumnTwice { .. } => (Usage, "leave that column out, or rename it in the data"),
            SinkError::ColumnType { .. } => (Usage, "leave that column out"),
            SinkError::ForeignFolder { .. } => (Usage, "move it away, or choose another folder"),
            SinkError::NoTokenColumn { .. } | SinkError::NotTokens { .. } => {
                (Usage, "name files of token ids, or the output folder of `run` or `encode`")
            }
            SinkError::NotParquet { .. } => {
                (Failed, "name a file of token ids, or the output folder of `run` or `encode`")
            }
            SinkError::NoFiles { .. } => {
                (Failed, "name the output folder of `run` or `encode`, or its files")
            }
            SinkError::Locked { .. } => (Failed, "wait until it has ended, or choose another folder"),
            SinkError::ManifestDamaged { .. } => (Failed, "remove it to write the output again"),
            SinkError::DeclarationDiffers { .. } => {
                (Failed, "read one at a time: they are from different jobs")
            }
            SinkError::IndexDamaged { .. } => {
                (Failed, "write the output again, or restore the file that belongs to the ids")
            }
            SinkError::ManifestChanged { .. } => (
                Mismatch,
                "remove it, then give the same `run` or `encode` command again: complete files are kept",
            ),
            SinkError::FileMissing { .. }
            | SinkError::FileUnlisted { .. }
            | SinkError::FileDiffers { .. } => (Mismatch, ""),
            _ => (Failed, ""),
        };
        let error = Error::new(kind, error);
        if help.is_empty() { error } else { error.with_help(help) }
    }
}

/// The place in a message: empty for the footer.
fn in_row_group(row_group: Option<usize>) -> String {
    row_group.map_or_else(String::new, |number| format!(", row group {number}"))
}

/// The error for a failed write of a Parquet file. An I/O error inside is unwrapped, so that a full disk is
/// recognized as such.
pub(super) fn write_failed(path: &Path, cause: ParquetError) -> Error {
    let cause = match cause {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => return Error::io("write", path, *io),
            Err(inner) => ParquetError::External(inner),
        },
        other => other,
    };
    SinkError::Write { path: path.to_path_buf(), cause }.into()
}
