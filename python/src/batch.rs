//! Encoding of many texts: the threads of the pool encode portions of them, while the calling thread draws the next
//! texts and makes lists of the ids.

use pyo3::prelude::*;
use pyo3::types::PyIterator;
use tokenmill::encode::FlatIds;
use tokenmill::{Error, ErrorKind, Result};

use crate::errors::{OrRaise, with_causes};
use crate::job::Watcher;
use crate::ordered::in_order;
use crate::text::{self, Text, at_row};
use crate::tokenizer::Tokenizer;

/// Bytes of the first portion (16 KiB): a thread takes about as long to encode them as to be woken.
const FIRST_PORTION: usize = 16 << 10;

/// Bytes of the largest portion (1 MiB), unless one text is longer.
const LARGEST_PORTION: usize = 1 << 20;

/// A portion is this part of all portions before it, so that the threads share small batches evenly, too.
const PART: usize = 16;

/// Bytes that a text counts in addition to its own.
const PER_TEXT: usize = 32;

/// Texts that are encoded together.
struct Portion {
    /// Number of texts before them.
    first_row: usize,
    /// The texts.
    texts: Vec<Text>,
    /// Whether it is a text alone, without a row.
    is_alone: bool,
}

impl Portion {
    /// Encodes the texts.
    ///
    /// # Errors
    /// A text cannot be encoded. The message names its row among all texts.
    fn encode(&self, tokenizer: &tokenmill::Tokenizer, watcher: &Watcher) -> Result<FlatIds> {
        tokenizer.encode_flat(&self.texts, watcher).map_err(|error| match &*self.texts {
            [text] if self.is_alone && error.kind() != ErrorKind::Interrupted => {
                tokenizer.count(text).err().unwrap_or(error)
            }
            texts => in_row(tokenizer, |row| self.first_row + row, texts, error),
        })
    }
}

/// Cuts texts into portions. They grow to [`LARGEST_PORTION`].
struct Portions<'py> {
    /// The texts that are not in a portion yet.
    texts: Bound<'py, PyIterator>,
    /// Number of texts in portions.
    row: usize,
    /// Bytes of the texts in portions.
    bytes: usize,
    /// Whether all texts are in portions.
    ended: bool,
}

impl<'py> Portions<'py> {
    /// The portions of an iterable of texts.
    ///
    /// # Errors
    /// Those of [`text::iterator`].
    fn new(texts: &Bound<'py, PyAny>) -> PyResult<Portions<'py>> {
        Ok(Portions { texts: text::iterator(texts)?, row: 0, bytes: 0, ended: false })
    }

    /// Draws the texts of the next portion.
    ///
    /// # Errors
    /// The iterator raises an exception, or an item is not a text; the message names its row.
    fn draw(&mut self) -> PyResult<Portion> {
        let full = self.bytes + (self.bytes / PART).clamp(FIRST_PORTION, LARGEST_PORTION);
        let (first_row, mut texts) = (self.row, Vec::new());
        while self.bytes < full {
            let Some(item) = self.texts.next() else {
                self.ended = true;
                break;
            };
            let text: PyResult<Text> = item?.extract();
            let text = text.map_err(|error| at_row(self.texts.py(), error, self.row))?;
            self.row += 1;
            self.bytes += text.as_ref().len() + PER_TEXT;
            texts.push(text);
        }
        Ok(Portion { first_row, texts, is_alone: false })
    }
}

impl Iterator for Portions<'_> {
    type Item = PyResult<Portion>;

    fn next(&mut self) -> Option<PyResult<Portion>> {
        let portion = (!self.ended).then(|| self.draw())?;
        self.ended |= portion.is_err();
        Some(portion).filter(|portion| portion.as_ref().map_or(true, |portion| !portion.texts.is_empty()))
    }
}

impl Tokenizer {
    /// Encodes the texts of an iterable on several threads, and gives their ids to `take` in order, portion by portion.
    ///
    /// # Errors
    /// Those of `take`; a text cannot be encoded, or is no text; the iterator or a signal handler raises an exception.
    pub(crate) fn encode_each(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        threads: Option<usize>,
        mut take: impl FnMut(FlatIds) -> PyResult<()>,
    ) -> PyResult<()> {
        self.encode_portions(py, Portions::new(texts)?, threads, &mut take)
    }

    /// The ids of a long text, encoded on several threads.
    ///
    /// # Errors
    /// The text cannot be encoded, or a signal handler raises an exception.
    pub(crate) fn encode_long(&self, py: Python<'_>, text: Text) -> PyResult<Vec<u32>> {
        let (portion, mut ids) = (Portion { first_row: 0, texts: vec![text], is_alone: true }, Vec::new());
        self.encode_portions(py, std::iter::once(Ok(portion)), None, &mut |flat| {
            ids = flat.ids;
            Ok(())
        })?;
        Ok(ids)
    }

    /// Encodes portions on several threads, and gives their ids to `take` in order.
    ///
    /// # Errors
    /// Those of [`encode_each`](Tokenizer::encode_each).
    fn encode_portions(
        &self,
        py: Python<'_>,
        portions: impl Iterator<Item = PyResult<Portion>>,
        threads: Option<usize>,
        take: &mut dyn FnMut(FlatIds) -> PyResult<()>,
    ) -> PyResult<()> {
        let using = self.shared.to_encode(py)?;
        let tokenizer = using.tokenizer.clone();
        let encode = move |portion: Portion, watcher: &Watcher| {
            let encoded = portion.encode(&tokenizer, watcher);
            (portion, encoded)
        };
        in_order(py, threads, portions, encode, |(portion, encoded)| {
            // The objects of the texts are released here, with the global lock.
            drop(portion);
            take(encoded.or_raise(py)?)
        })
    }
}

/// The error of the first text of several that cannot be encoded, with its row among all texts, which `row_of` gives.
pub(crate) fn in_row(
    tokenizer: &tokenmill::Tokenizer,
    row_of: impl Fn(usize) -> usize,
    texts: &[impl AsRef<[u8]>],
    error: Error,
) -> Error {
    if error.kind() == ErrorKind::Interrupted {
        return error;
    }
    let failed = texts.iter().enumerate().find_map(|(row, text)| Some((row, tokenizer.count(text).err()?)));
    let Some((row, cause)) = failed else { return error };
    let row = row_of(row);
    let message = Error::message(cause.kind(), format!("the batch: row {row}: {}", with_causes(&cause)));
    match cause.help() {
        Some(help) => message.with_help(help.to_owned()),
        None => message,
    }
}
