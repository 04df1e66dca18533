//! Sources of documents that a program holds or receives: any documents, and record batches of Arrow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, RecordBatch, RecordBatchReader};

use super::documents::split;
use super::error::damaged;
use super::row_text::{Projection, TextRows};
use super::{Batch, DEFAULT_BATCH_BYTES, Documents, Identity, RowRange, Source, SourceSpec, Unit};
use crate::base::int::to_u64;
use crate::base::pools::lock;
use crate::error::{Error, Result};

/// A source of documents that can be read once, as one unit of the only source. `name` is for messages.
///
/// ```
/// use tokenmill::source::{self, Source};
///
/// let source = source::once("the greetings", source::texts(["good morning", "good night"]));
/// assert_eq!(source.read(0)?.next().expect("a batch")?.len(), 2);
/// assert!(source.read(0).is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn once(name: &str, documents: Documents<'static>) -> Arc<dyn Source> {
    let unit = Unit { name: name.to_owned(), range: RowRange::Whole, rows: None, text_bytes: None };
    Arc::new(ReadOnce { units: [unit], documents: Mutex::new(Some(documents)) })
}

/// A source of [`once`].
struct ReadOnce {
    /// Its only unit.
    units: [Unit; 1],
    /// The documents, until they are read.
    documents: Mutex<Option<Documents<'static>>>,
}

impl Source for ReadOnce {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn identity(&self, _unit: usize) -> Result<Identity> {
        Ok(Identity::Stream)
    }

    fn read(&self, _unit: usize) -> Result<Documents<'static>> {
        let documents = lock(&self.documents).take();
        documents.ok_or_else(|| Error::usage(format!("{} can be read only once", self.units[0].name)))
    }
}

/// The documents of record batches, with the text that `spec` names: its `column`, `template` and `join`. The text is
/// not copied, unless it is composed. `name` is for messages.
///
/// ```
/// use std::sync::Arc;
///
/// use tokenmill::arrow::array::{ArrayRef, RecordBatch, RecordBatchIterator, StringArray};
/// use tokenmill::source::{self, SourceSpec};
///
/// let column: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), None]));
/// let batch = RecordBatch::try_from_iter([("text", column)]).expect("a batch");
/// let batches = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
/// let documents = source::record_batches(Box::new(batches), &SourceSpec::default(), "the table")?;
/// assert_eq!(documents.map(|batch| batch.map(|batch| batch.len())).sum::<tokenmill::Result<usize>>()?, 2);
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// The column is missing or holds no text. A batch that cannot be read is the last item.
pub fn record_batches(
    batches: Box<dyn RecordBatchReader + Send>,
    spec: &SourceSpec,
    name: &str,
) -> Result<Documents<'static>> {
    let chosen = Projection::find(name, batches.schema().fields(), spec)?;
    let texts = TextRows::new(chosen.among_roots(), usize::MAX);
    let (roots, name) = (chosen.roots(), name.to_owned());
    let (row, ready, ended) = (0, VecDeque::new(), false);
    Ok(Box::new(ProgramBatches { batches, roots, texts, row, ready, ended, name }))
}

/// The documents of record batches.
struct ProgramBatches {
    /// The record batches.
    batches: Box<dyn RecordBatchReader + Send>,
    /// The indexes of the columns with text.
    roots: Vec<usize>,
    /// Gives the texts of these columns.
    texts: TextRows,
    /// Number of rows so far.
    row: u64,
    /// Documents that have not been given out yet.
    ready: VecDeque<Batch>,
    /// Whether all record batches were read, or one could not be.
    ended: bool,
    /// The name of the data, for messages.
    name: String,
}

impl ProgramBatches {
    /// The documents of the next rows; `None` at the end.
    ///
    /// # Errors
    /// The record batch cannot be read, or a text is too long.
    fn decode(&mut self) -> Result<Option<Batch>> {
        let (batches, roots) = (&mut self.batches, &self.roots);
        let mut read =
            || batches.next().transpose()?.map(|batch: RecordBatch| batch.project(roots)).transpose();
        let decoded = self.texts.next(DEFAULT_BATCH_BYTES, &mut read).map_err(|cause| {
            damaged(&self.name, format_args!("the batch that begins with row {}", self.row), cause)
        })?;
        let Some((documents, columns)) = decoded else { return Ok(None) };
        let (source, unit, first_row, continued, open) = (0, 0, self.row, false, false);
        self.row += to_u64(documents.len());
        Ok(Some(Batch { source, unit, first_row, documents, columns, continued, open }))
    }
}

impl Iterator for ProgramBatches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while self.ready.is_empty() && !self.ended {
            match self.decode() {
                Ok(Some(batch)) => self.ready = split(batch, DEFAULT_BATCH_BYTES),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
