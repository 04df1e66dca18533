//! Training on the texts that an iterator gives.

use std::sync::mpsc::{SyncSender, sync_channel};

use pyo3::prelude::*;
use tokenmill::encode::SpecialPolicy;
use tokenmill::run::{LearnConfig, learn};
use tokenmill::source::texts;
use tokenmill::vocab::WriteOptions;

use crate::job::{self, Look};
use crate::loading::{Loaded, split_pattern};
use crate::text::{self, Text};
use crate::tokenizer::Tokenizer;

/// Bytes of text (1 MiB) that are handed over at a time.
const PORTION_BYTES: usize = 1 << 20;

/// Texts that are handed over at a time, if they are short.
const PORTION_TEXTS: usize = 1 << 13;

/// Portions that wait to be counted.
const WAITING: usize = 8;

/// Trains a tokenizer on the texts of an iterator. Each text is a document.
///
/// The texts are counted as they arrive, so they need not fit in memory together. `split` is a name or a regular
/// expression. `progress` is called with the stage, the amount that is done, and the expected amount or None.
#[pyfunction]
#[pyo3(
    signature = (iterator, vocab_size, *, split="gpt4", special_tokens=Vec::new(), threads=None, progress=None),
    text_signature =
        "(iterator, vocab_size, *, split='gpt4', special_tokens=(), threads=None, progress=None)"
)]
pub(crate) fn train_from_iterator(
    py: Python<'_>,
    iterator: &Bound<'_, PyAny>,
    vocab_size: usize,
    split: &str,
    special_tokens: Vec<String>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tokenizer> {
    let iterator = text::iterator(iterator)?;
    let specials: Vec<&str> = special_tokens.iter().map(String::as_str).collect();
    let config = LearnConfig { split: split_pattern(split), ..LearnConfig::new(vocab_size, &specials) };
    let (sender, receiver) = sync_channel::<Vec<Vec<u8>>>(WAITING);
    let feed = move |py: Python<'_>, look: Look<'_>| hand_over(py, iterator, sender, look);
    let learned = job::run(py, threads, progress, feed, move |watcher| {
        let (vocabulary, _) = learn(texts(receiver.into_iter().flatten()), &config, watcher)?;
        Loaded { vocabulary, settings: WriteOptions::default() }.tokenizer(SpecialPolicy::default())
    })?;
    Ok(Tokenizer::new(learned))
}

/// Sends the texts of an iterator in portions. Dropping the sender ends the texts.
///
/// It ends early if nobody receives them any more, since then the work has failed and reports why. After an error, the
/// work stops, and does not take the texts for all of them.
///
/// # Errors
/// The iterator raises an exception, an item is not a text, or a signal handler raises one.
fn hand_over<'py>(
    py: Python<'py>,
    iterator: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    sender: SyncSender<Vec<Vec<u8>>>,
    look: Look<'_>,
) -> PyResult<()> {
    let (mut portion, mut bytes) = (Vec::new(), 0);
    for item in iterator {
        let text: Text = item?.extract()?;
        bytes += text.as_ref().len();
        portion.push(text.as_ref().to_vec());
        if bytes >= PORTION_BYTES || portion.len() >= PORTION_TEXTS {
            let full = std::mem::take(&mut portion);
            bytes = 0;
            if py.detach(|| sender.send(full)).is_err() {
                return Ok(());
            }
            look(py)?;
        }
    }
    // If nobody receives it, the work reports why.
    let _ = py.detach(|| sender.send(portion));
    Ok(())
}
