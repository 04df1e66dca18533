//! Texts from Python, without copying them.

use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PyIterator, PyString};

use crate::errors::usage;

/// A text: `str`, or any bytes. It keeps the Python object alive, and can be read without the global lock.
pub(crate) enum Text {
    /// The UTF-8 of a `str`.
    Str(PyBackedStr),
    /// `bytes`, or a copy of a `bytearray`.
    Bytes(PyBackedBytes),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Text::Str(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

impl FromPyObject<'_, '_> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Text> {
        if let Ok(text) = object.cast::<PyString>() {
            let text = PyBackedStr::try_from(text.to_owned());
            return text.map(Text::Str).map_err(|error| not_utf8(object.py(), error));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Text::Bytes(bytes.to_owned().into()));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Text::Bytes(bytes.to_owned().into()));
        }
        let found = object.get_type().name()?;
        Err(PyTypeError::new_err(format!("a text must be str or bytes, not {found}")))
    }
}

/// The error of a `str` that UTF-8 cannot hold: it has half of a surrogate pair.
fn not_utf8(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
        return error;
    }
    let place = error.value(py).getattr("start").and_then(|start| start.extract::<usize>());
    let place = place.map_or_else(|_| String::new(), |start| format!(" at character {start}"));
    usage(
        py,
        &format!("the text has half of a surrogate pair{place}, which is not a character"),
        "repair the text, for example by text.encode('utf-8', 'replace'), or give bytes",
    )
}

/// An iterator over a list, a tuple or another iterable of texts. A single text is refused: its characters would be
/// taken as texts.
///
/// # Errors
/// It is a single text, or cannot be iterated over.
pub(crate) fn iterator<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    if of.is_instance_of::<PyString>() || of.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("texts must be a list of texts; this is one text"));
    }
    of.try_iter()
}

/// Puts the row of a batch before the message of an error.
pub(crate) fn at_row(py: Python<'_>, error: PyErr, row: usize) -> PyErr {
    let help = error.value(py).getattr("help").and_then(|help| help.extract::<String>());
    let message = error.value(py).getattr("message").and_then(|message| message.extract::<String>());
    match (message, help) {
        (Ok(message), Ok(help)) => usage(py, &format!("the batch: row {row}: {message}"), &help),
        _ if error.is_instance_of::<PyTypeError>(py) => {
            PyTypeError::new_err(format!("the batch: row {row}: {}", error.value(py)))
        }
        _ => error,
    }
}
