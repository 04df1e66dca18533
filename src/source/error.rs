//! The errors of sources, and the conversion of errors and panics of decoders into them.
//!
//! An error's kind decides what happens: only [`ErrorKind::Failed`] is bad input, which may be skipped. A wrong
//! request, a lack of memory, and a failure of the system or network end the run even then, because reading again may
//! succeed.

use std::{fmt, io};

use arrow::datatypes::DataType;

use crate::base::int::ByteCount;
use crate::error::{Error, ErrorKind, catch_panic, remedy};

/// The error for a place in a file that cannot be read because of `cause`, which decides the kind and the advice.
pub(super) fn damaged(
    file: &str,
    place: impl fmt::Display,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let cause = cause.into();
    let (kind, help) = (ErrorKind::of(&*cause), remedy(&*cause));
    let error = Error::caused(kind, format!("{file}: {place} cannot be read"), cause);
    match help {
        Some(help) => error.with_help(help),
        None => error,
    }
}

/// The error that a requested column is missing.
pub(super) fn no_column<'a>(
    file: &str,
    column: &str,
    columns: impl IntoIterator<Item = &'a String>,
) -> Error {
    let columns: Vec<&str> = columns.into_iter().map(String::as_str).collect();
    Error::usage(format!("{file} has no column {column:?}; its columns are {}", columns.join(", ")))
}

/// The error that the column of the text has another type.
pub(super) fn holds_no_text(file: &str, column: &str, found: &DataType) -> Error {
    Error::usage(format!("column {column:?} of {file} holds {found}, not text"))
}

/// The error that a document is longer than an array can hold.
pub(super) fn too_long(file: &str, row: u64, limit: u64) -> Error {
    Error::failed(format!("{file}: row {row}: a document is longer than {limit} bytes"))
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
    Error::message(ErrorKind::InputChanged, format!("{file} changed while it was read")).with_help(
        "give the same command again when nothing writes to the input any more; it starts from the beginning",
    )
}

/// The cause of an error if a decoder panicked with this message.
pub(super) fn panicked(message: &str) -> String {
    format!("the decoder gave up: {message}")
}

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
        Ok(result) => result.map_err(|cause| damaged(file, place, cause)),
        Err(message) => Err(damaged(file, place, panicked(&message))),
    }
}
