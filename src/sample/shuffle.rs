//! Shuffles a stream of documents with a buffer of fixed size.
//!
//! The order depends only on the seed, the size of the buffer and the order of the documents, never on how they are
//! divided into batches. So it is the same for any number of threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;

use super::not_joined;
use crate::base::int::u64_to_usize;
use crate::base::random::SeededRandom;
use crate::error::Result;
use crate::source::{Batch, DEFAULT_BATCH_BYTES, Documents, TextBuilder};

/// Maximum number of documents of a batch that leaves the buffer. Together with [`DEFAULT_BATCH_BYTES`] it bounds the
/// memory of later stages.
const BATCH_ROWS: usize = 1 << 16;

/// A document in the buffer. The text is a copy, so that one document of a batch does not keep the whole batch in
/// memory.
struct BufferedDocument {
    /// Number of the source that it comes from.
    source: usize,
    /// `None` for a null document.
    text: Option<Box<[u8]>>,
    /// `None` if the source passes no columns through.
    columns: Option<Row>,
    /// Bytes of the text and the columns.
    bytes: u64,
}

/// A row of pass-through columns. It refers to its original batch and keeps it in memory. Copying single rows of
/// columns would need an array for each.
struct Row {
    /// The number of the batch, and its columns. The number identifies the batch when rows are combined.
    batch: Arc<(u64, RecordBatch)>,
    /// Index of the row in the batch.
    row: usize,
}

/// A shuffle buffer; see [`sample`](super::sample) for its rule.
pub(super) struct Shuffle<'a> {
    /// `None` when all documents were read, or enough of them.
    documents: Option<Documents<'a>>,
    /// Number of documents in the full buffer.
    capacity: usize,
    /// Draws one number for each document that leaves.
    random: SeededRandom,
    /// Has at most `capacity` documents. Its order matters, because places are drawn in it.
    buffer: Vec<BufferedDocument>,
    /// Number of documents that may still leave the buffer.
    left: u64,
    /// Number of batches read so far.
    read: u64,
    /// The batch that is being read.
    current: Option<CurrentBatch>,
    /// The first document of the next batch, which did not fit into the last one.
    next: Option<BufferedDocument>,
}

/// A batch that is being read, row by row.
struct CurrentBatch {
    /// The batch itself, until its last row was taken.
    batch: Batch,
    /// The number of the batch and its columns, which all its rows share.
    columns: Option<Arc<(u64, RecordBatch)>>,
    /// Bytes of the text and the columns of each row.
    bytes: Vec<u64>,
    /// The next row.
    row: usize,
}

impl<'a> Shuffle<'a> {
    /// Creates an empty buffer for `buffer` documents. At most `max_documents` documents leave it; `None` is no limit.
    /// Nothing is read yet, and no memory is reserved for the buffer.
    pub(super) fn new(
        documents: Documents<'a>,
        buffer: u64,
        seed: u64,
        max_documents: Option<u64>,
    ) -> Shuffle<'a> {
        Shuffle {
            documents: Some(documents),
            capacity: u64_to_usize(buffer),
            random: SeededRandom::of(seed),
            buffer: Vec::new(),
            left: max_documents.unwrap_or(u64::MAX),
            read: 0,
            current: None,
            next: None,
        }
    }

    /// Returns the next document in the original order. `None` at the end of the stream, which is then dropped.
    ///
    /// # Errors
    /// Those of the stream.
    fn next_in_order(&mut self) -> Result<Option<BufferedDocument>> {
        loop {
            if let Some(current) = self.current.as_mut() {
                let Some(kept) = current.take() else {
                    self.current = None;
                    continue;
                };
                return Ok(Some(kept));
            }
            let Some(batch) = self.documents.as_mut().and_then(Iterator::next).transpose()? else {
                self.documents = None;
                return Ok(None);
            };
            let columns = batch.columns.as_ref().map(|columns| Arc::new((self.read, columns.clone())));
            self.read += 1;
            self.current = Some(CurrentBatch { bytes: batch.row_bytes(), batch, columns, row: 0 });
        }
    }

    /// Returns the next document in the shuffled order.
    ///
    /// While the stream lasts, a document leaves for each that arrives. Then the buffer empties in random order.
    /// `None` at the end, or when enough documents have left.
    ///
    /// # Errors
    /// Those of the stream.
    fn leave(&mut self) -> Result<Option<BufferedDocument>> {
        if self.left == 0 {
            // Drop these now, because their memory and threads are no longer needed.
            (self.documents, self.current) = (None, None);
            self.buffer = Vec::new();
            return Ok(None);
        }
        while let Some(kept) = self.next_in_order()? {
            if self.buffer.len() < self.capacity {
                self.buffer.push(kept);
                continue;
            }
            let place = self.random.below(self.buffer.len());
            self.left -= 1;
            return Ok(Some(std::mem::replace(&mut self.buffer[place], kept)));
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let place = self.random.below(self.buffer.len());
        self.left -= 1;
        Ok(Some(self.buffer.swap_remove(place)))
    }

    /// Returns the next batch. It ends before a document of another source, and at the usual limits of rows and
    /// bytes.
    ///
    /// A single document that is larger than the limit of bytes has a batch of its own. `None` at the end.
    ///
    /// # Errors
    /// Those of the stream, and of combining documents.
    fn batch(&mut self) -> Result<Option<Batch>> {
        let mut rows: Vec<BufferedDocument> = Vec::new();
        let mut bytes = 0;
        loop {
            let kept = match self.next.take() {
                Some(kept) => Some(kept),
                None => self.leave()?,
            };
            let Some(kept) = kept else { break };
            let full = rows.len() == BATCH_ROWS || bytes + kept.bytes > DEFAULT_BATCH_BYTES;
            if rows.first().is_some_and(|first| full || first.source != kept.source) {
                self.next = Some(kept);
                break;
            }
            bytes += kept.bytes;
            rows.push(kept);
        }
        (!rows.is_empty()).then(|| combined_batch(&rows).map_err(not_joined)).transpose()
    }
}

impl CurrentBatch {
    /// Returns the next row. Copies the text, and refers to the columns. `None` after the last row.
    fn take(&mut self) -> Option<BufferedDocument> {
        let row = self.row;
        if row == self.batch.len() {
            return None;
        }
        self.row += 1;
        let documents = &self.batch.documents;
        let text = (!arrow::array::Array::is_null(documents, row)).then(|| documents.value(row).into());
        let columns = self.columns.as_ref().map(|batch| Row { batch: Arc::clone(batch), row });
        Some(BufferedDocument { source: self.batch.source, text, columns, bytes: self.bytes[row] })
    }
}

/// Combines documents of one source into a batch. The text of all documents is copied into one buffer, to which the
/// views point. `unit` and `first_row` are 0, because the documents come from several places.
///
/// # Errors
/// A document has 2 GiB or more, which a view cannot describe.
fn combined_batch(rows: &[BufferedDocument]) -> Result<Batch, ArrowError> {
    let mut texts = TextBuilder::default();
    for row in rows {
        let from = texts.bytes.len();
        texts.bytes.extend_from_slice(row.text.as_deref().unwrap_or_default());
        texts.push(from, row.text.is_some());
    }
    let (documents, columns) = (texts.finish()?, columns(rows)?);
    let source = rows.first().map_or(0, |row| row.source);
    Ok(Batch { source, unit: 0, first_row: 0, documents, columns, continued: false, open: false })
}

/// Combines the pass-through columns of documents. `None` if a document has no columns; all documents of a source
/// have columns or none has. Each original batch is used once, in the order of first use.
///
/// # Errors
/// Arrow cannot combine the columns.
fn columns(rows: &[BufferedDocument]) -> Result<Option<RecordBatch>, ArrowError> {
    let mut places = BTreeMap::new();
    let mut batches = Vec::new();
    let mut indices = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(Row { batch, row }) = &row.columns else { return Ok(None) };
        let place = *places.entry(batch.0).or_insert_with(|| {
            batches.push(&batch.1);
            batches.len() - 1
        });
        indices.push((place, *row));
    }
    Ok(Some(interleave_record_batch(&batches, &indices)?))
}

impl Iterator for Shuffle<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        self.batch().transpose()
    }
}
