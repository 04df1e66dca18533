//! Training: on sources, texts of a program, Arrow data, or counts.

use std::env;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

use pyo3::prelude::*;
use tokenmill::cli::hub;
use tokenmill::encode::EncodeConfig;
use tokenmill::run::recipe::{Command, CountsKeys, Given};
use tokenmill::run::{
    Plan, complete_from_counts, complete_from_counts_in_memory, complete_from_tokenizer, train_from_counts,
    train_in_memory,
};
use tokenmill::sample::Weight;
use tokenmill::source::{Batch, texts_from, tokenizer_path};
use tokenmill::{Error, Result, Tokenizer as LibraryTokenizer};

use crate::counts::Counts;
use crate::input::Input;
use crate::job::{self, Look, Watcher};
use crate::recipes::{Limits, context, from_arguments};
use crate::text::Text;
use crate::tokenizer::Tokenizer;

/// Bytes of text (1 MiB) that are handed over at a time.
const PORTION_BYTES: usize = 1 << 20;

/// Texts that are handed over at a time, if they are short.
const PORTION_TEXTS: usize = 1 << 13;

/// Trains a tokenizer by a recipe, which is given as JSON. `tokenmill.train` and `train_from_iterator` call it.
///
/// It learns from `texts`, or from a column of `table`, or from `counts`, or from the counts files `files`, or else from
/// the sources of the recipe. `extend` names a tokenizer whose merges come first, or the first `keep_merges` of them.
#[pyfunction]
#[pyo3(signature = (
    json, *, texts=None, table=None, column="text", counts=None, files=Vec::new(), extend=None, keep_merges=None,
    threads=None, progress=None
), text_signature = "(json, *, texts=None, table=None, column='text', counts=None, files=(), extend=None, keep_merges=None, threads=None, progress=None)")]
#[expect(clippy::too_many_arguments, reason = "they are those of the functions in Python")]
pub(crate) fn train(
    py: Python<'_>,
    json: Text,
    texts: Option<&Bound<'_, PyAny>>,
    table: Option<&Bound<'_, PyAny>>,
    column: &str,
    counts: Option<&Bound<'_, Counts>>,
    files: Vec<PathBuf>,
    extend: Option<PathBuf>,
    keep_merges: Option<u64>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tokenizer> {
    let (input, feed) = Input::of(texts, table, column)?;
    let counts = counts.map(|counts| counts.get().shared());
    let limits = Limits::of(py, threads)?;
    let threads = Some(limits.threads);
    let work = move |watcher: &Watcher| {
        let mut recipe = from_arguments(json.as_ref(), Command::Train)?;
        // Only pre-tokens that exceed the memory are written there, to files without names.
        recipe.output.dir = Some(Given::flag(env::temp_dir().display().to_string()));
        let path = |path: &PathBuf| path.display().to_string();
        recipe.counts = files
            .iter()
            .map(path)
            .chain(counts.iter().map(|_| "the counts".to_owned()))
            .map(|path| CountsKeys { path, weight: Weight::ONE })
            .collect();
        match &counts {
            Some(counts) => complete_from_counts_in_memory(&mut recipe, &counts.info),
            None if !recipe.counts.is_empty() => complete_from_counts(&mut recipe, watcher)?,
            None => {}
        }
        if let Some(name) = extend {
            recipe.extend_at = Some(tokenizer_path(&name, &hub(), watcher)?);
            recipe.extend = Some(name.display().to_string());
        }
        recipe.keep_merges = keep_merges.map(Given::flag);
        complete_from_tokenizer(&mut recipe, watcher)?;
        let plan = limits.plan(&recipe)?;
        check_one_size(&plan)?;
        let trained = match &counts {
            Some(counts) => train_from_counts(&plan, counts, watcher),
            None => train_in_memory(&plan, &input.open(&plan, &context(&plan, watcher))?, watcher),
        }?;
        Ok((LibraryTokenizer::new(trained.vocabulary, EncodeConfig::default())?, trained.options))
    };
    job::run(py, threads, progress, |py, look| feed.run(py, look), work).map(Tokenizer::new)
}

/// Refuses a plan for tokenizers of several sizes.
///
/// # Errors
/// There are several.
fn check_one_size(plan: &Plan) -> Result<()> {
    match plan.train.as_ref().is_some_and(|train| !train.smaller.is_empty()) {
        true => Err(Error::usage("`vocab_size` has several sizes, but one tokenizer is returned")
            .with_help("give one size, or use `run`, which writes a tokenizer of each size")),
        false => Ok(()),
    }
}

/// Sends the texts of an iterator in portions, as documents. Dropping the sender ends the texts.
///
/// It ends early if nobody receives them any more, since then the work has failed and reports why. After an error, the
/// work stops, and does not take the texts for all of them.
///
/// # Errors
/// The iterator raises an exception, an item is not a text, or a signal handler raises one.
pub(crate) fn hand_over<'py>(
    py: Python<'py>,
    iterator: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    sender: SyncSender<Result<Batch>>,
    look: Look<'_>,
) -> PyResult<()> {
    let (mut iterator, mut row) = (iterator.fuse(), 0);
    loop {
        let (mut portion, mut bytes) = (Vec::new(), 0);
        while bytes < PORTION_BYTES
            && portion.len() < PORTION_TEXTS
            && let Some(item) = iterator.next()
        {
            let text: Text = item?.extract()?;
            bytes += text.as_ref().len();
            portion.push(text);
        }
        if portion.is_empty() {
            return Ok(());
        }
        // A forked process must not wait for the thread that receives: it does not have it.
        look(py)?;
        for documents in texts_from(row, &portion) {
            row += documents.as_ref().map_or(0, |batch| u64::try_from(batch.len()).unwrap_or(u64::MAX));
            let is_received = py.detach(|| sender.send(documents).is_ok());
            if !is_received {
                return Ok(());
            }
        }
    }
}
