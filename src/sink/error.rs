//! Errors of writing and reading outputs.

use std::fmt;
use std::path::Path;

use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind};

/// The error that documents cannot be packed. `problem` completes "packed rows …".
pub(super) fn cannot_pack(problem: impl fmt::Display) -> Error {
    Error::usage(format!("packed rows {problem}"))
}

/// The error that writing would overwrite, remove or adopt a file.
pub(super) fn foreign_file(folder: &Path, name: &str) -> Error {
    let folder = folder.display();
    Error::usage(format!("{folder} holds {name}, which tokenmill did not write, or has no record of"))
        .with_help("move it away, or choose another folder")
}

/// The error that a file of the manifest is missing.
pub(super) fn file_missing(path: &Path) -> Error {
    let problem = format!("{}: listed in the manifest, but missing", path.display());
    Error::message(ErrorKind::Mismatch, problem)
}

/// The error that an index of token ids is damaged. `problem` is a clause.
pub(super) fn index_damaged(path: &Path, problem: &str) -> Error {
    Error::failed(format!("{}: not an index of token ids: {problem}", path.display()))
        .with_help("write the output again, or restore the file that belongs to the ids")
}

/// The error that a row group, or the footer if `row_group` is `None`, cannot be read.
pub(super) fn unreadable(path: &Path, row_group: Option<usize>, cause: ParquetError) -> Error {
    let problem = format!("{}: cannot be read as Parquet{}", path.display(), in_row_group(row_group));
    Error::caused(ErrorKind::Failed, problem, cause)
}

/// The place in a message: empty for the footer.
pub(super) fn in_row_group(row_group: Option<usize>) -> String {
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
    Error::caused(ErrorKind::Failed, format!("cannot write {}", path.display()), cause)
}
