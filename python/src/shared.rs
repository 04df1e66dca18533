//! A tokenizer of the library that threads and forked processes share.

use std::mem;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use tokenmill::Tokenizer;

use crate::errors::OrRaise;
use crate::pool::{lock, on_threads};
use crate::process;

/// A tokenizer, and who uses it.
///
/// Parts of a tokenizer are locked while a thread works with it. A process that is forked meanwhile has these locks as
/// they were, and no thread that would ever release them. So the uses are counted: a forked process that was made
/// during a use prepares the tokenizer again, and otherwise shares the memory of its parent.
pub(crate) struct Shared(Mutex<State>);

/// What [`Shared`] protects. It is locked only by threads that hold Python's global lock and do not release it
/// meanwhile; see [`POOLS`](crate::pool).
struct State {
    /// The tokenizer, as `process` may use it.
    tokenizer: Tokenizer,
    /// The process that used it last.
    process: u32,
    /// Number of uses that are going on in that process.
    uses: usize,
}

impl Shared {
    /// A tokenizer that nobody uses yet.
    pub(crate) fn new(tokenizer: Tokenizer) -> Shared {
        Shared(Mutex::new(State { tokenizer, process: process::id(), uses: 0 }))
    }

    /// The tokenizer for calls that only read its vocabulary.
    pub(crate) fn to_read(&self) -> Tokenizer {
        lock(&self.0).tokenizer.clone()
    }

    /// The tokenizer for calls that encode. The use ends when the result is dropped, which must happen while Python's
    /// global lock is held.
    ///
    /// # Errors
    /// In a forked process, the tokenizer cannot be prepared again.
    pub(crate) fn to_encode(&self, py: Python<'_>) -> PyResult<Use<'_>> {
        let process = process::id();
        let left = {
            let mut state = lock(&self.0);
            if state.process == process {
                return Ok(self.begin(&mut state));
            }
            (state.uses > 0).then(|| state.tokenizer.clone())
        };
        let prepared = left.map(|tokenizer| prepared_again(py, &tokenizer)).transpose()?;
        let mut state = lock(&self.0);
        // Another thread may have done the same meanwhile.
        if state.process != process {
            if let Some(prepared) = prepared {
                mem::forget(mem::replace(&mut state.tokenizer, prepared));
            }
            (state.process, state.uses) = (process, 0);
        }
        Ok(self.begin(&mut state))
    }

    /// Begins a use by the process that used the tokenizer last.
    fn begin(&self, state: &mut State) -> Use<'_> {
        state.uses += 1;
        Use { shared: self, process: state.process, tokenizer: state.tokenizer.clone() }
    }
}

/// A tokenizer with the same vocabulary and nothing else of this one.
fn prepared_again(py: Python<'_>, tokenizer: &Tokenizer) -> PyResult<Tokenizer> {
    let encoder = tokenizer.encoder();
    let (vocabulary, config) = (Arc::clone(encoder.vocabulary()), encoder.config());
    on_threads(py, None, || Tokenizer::new(vocabulary, config))?.or_raise(py)
}

/// A use of a tokenizer.
pub(crate) struct Use<'a> {
    /// The tokenizer that counts it.
    shared: &'a Shared,
    /// The process in which it began.
    process: u32,
    /// The tokenizer.
    pub(crate) tokenizer: Tokenizer,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.0);
        if state.process == self.process {
            state.uses = state.uses.saturating_sub(1);
        }
    }
}
