//! The module `tokenmill._core`: the classes and functions of the Python package that are written in Rust.
//!
//! Python's global lock is released while the library works. A forked process makes its own pools, and prepares
//! tokenizers again that were in use; see [`pool`] and [`shared`].

mod arrow;
mod batch;
mod counts;
mod errors;
mod ids;
mod input;
mod job;
mod learn;
mod loading;
mod ordered;
mod pool;
mod process;
mod recipes;
mod shared;
mod text;
mod tokenizer;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The functions of tokenmill that are written in Rust. Import `tokenmill` instead.
///
/// The rules for forks rest on the global lock, so an interpreter that can do without it must use it.
#[pymodule(gil_used = true)]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::arrow::ArrowStream;
    #[pymodule_export]
    use super::counts::{Counts, count, merge_counts};
    #[pymodule_export]
    use super::learn::train;
    #[pymodule_export]
    use super::loading::from_pickle;
    #[pymodule_export]
    use super::loading::get_encoding;
    #[pymodule_export]
    use super::recipes::{encode, merge, plan, run};
    #[pymodule_export]
    use super::tokenizer::{DecodeStream, Tokenizer};

    #[pymodule_export]
    use super::main;

    /// Adds the version, and notes which process imports the module.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        process::keep_id();
        pool::note_first_process();
        module.add("__version__", tokenmill::VERSION)
    }
}

/// Runs the command line with these words and returns its exit code. The first word is the name of the program.
///
/// It is for a process that does nothing else.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| tokenmill::cli::main(words))
}
