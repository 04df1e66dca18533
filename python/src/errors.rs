//! Errors of the library as exceptions of `tokenmill.errors`.

use std::io;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use tokenmill::{Error, ErrorKind};

/// Turns a result of the library into one of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    ///
    /// # Errors
    /// The exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for tokenmill::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// The exception for an error: its message with all causes, and the remedy as its `help`.
///
/// An interruption is Python's own `KeyboardInterrupt`.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    if error.kind() == ErrorKind::Interrupted {
        return PyKeyboardInterrupt::new_err(());
    }
    let help = error.help().map(flags_as_arguments);
    raised(py, class_of(error), &with_causes(error), help.as_deref()).unwrap_or_else(|other| other)
}

/// The exception for a mistake in a call.
pub(crate) fn usage(py: Python<'_>, message: &str, help: &str) -> PyErr {
    exception(py, &Error::usage(message).with_help(help.to_owned()))
}

/// A remedy with the flags of the command line as arguments of Python: "--on-bad-input" becomes "`on_bad_input`". Commands
/// between backticks stay as they are.
fn flags_as_arguments(help: &str) -> String {
    let parts = help.split('`').enumerate().map(|(number, part)| {
        let is_code = number % 2 == 1;
        match part.strip_prefix("--") {
            Some(flag) if is_code => argument(flag),
            _ if is_code => part.to_owned(),
            _ => part.split(' ').map(word_as_argument).collect::<Vec<_>>().join(" "),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

/// A word of a sentence, or the argument if it is a flag. Brackets and commas around it stay.
fn word_as_argument(word: &str) -> String {
    match word.split_once("--") {
        Some((before @ ("" | "("), flag)) => {
            let name = flag.trim_end_matches(|end: char| !end.is_alphanumeric());
            format!("{before}`{}`{}", argument(name), &flag[name.len()..])
        }
        _ => word.to_owned(),
    }
}

/// The name of a flag as an argument's, and its value, if there is one.
fn argument(flag: &str) -> String {
    match flag.split_once(' ') {
        Some((name, value)) => format!("{}={value}", name.replace('-', "_")),
        None => flag.replace('-', "_"),
    }
}

/// Makes an instance of a class of `tokenmill.errors`.
///
/// # Errors
/// The module cannot be imported.
fn raised(py: Python<'_>, class: &str, message: &str, help: Option<&str>) -> PyResult<PyErr> {
    let made = py.import("tokenmill.errors")?.getattr(class)?.call1((message, help))?;
    Ok(PyErr::from_value(made))
}

/// The name of the exception's class.
fn class_of(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Usage => "UsageError",
        ErrorKind::Mismatch => "MismatchError",
        ErrorKind::Network => "NetworkError",
        ErrorKind::Authorisation => "AuthorisationError",
        ErrorKind::DiskFull => "DiskFullError",
        ErrorKind::Memory => "MemoryLimitError",
        ErrorKind::InputChanged => "InputChangedError",
        ErrorKind::System => "SystemFailure",
        _ if is_not_found(error) => "NotFoundError",
        _ => "TokenmillError",
    }
}

/// Whether the cause of an error is that a file does not exist.
fn is_not_found(error: &Error) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes
        .any(|cause| cause.downcast_ref().is_some_and(|io: &io::Error| io.kind() == io::ErrorKind::NotFound))
}

/// The message of an error and those of its causes, on one line.
pub(crate) fn with_causes(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |message, cause| format!("{message}: {cause}"))
}
