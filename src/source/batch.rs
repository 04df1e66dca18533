//! The unit of data that sources give: a batch of documents, with the columns that are passed through beside them.

use arrow_array::{Array, BinaryViewArray, RecordBatch};

use super::arrow_sizes::row_bytes;
use crate::base::int::to_u64;

/// Number of rows for which pass-through bytes are summed at once. The sum needs memory for every item of a list, so
/// this bounds it.
const ROWS_AT_ONCE: usize = 1 << 10;

/// Consecutive documents of one unit, read together.
///
/// A document that is larger than a batch is split over several batches. Then the last document of a batch and the
/// first document of the next one are parts of the same document, which `open` and `continued` indicate. A null
/// document is never split.
///
/// **Memory:** about the requested batch size, or one row if a row is larger.
///
/// ```
/// use tokenmill::source;
///
/// let batch = source::texts(["one", "two", "three"]).next().expect("a batch")?;
/// assert_eq!(batch.len(), 3);
/// assert_eq!(batch.text_bytes(), 11);
/// assert_eq!(batch.slice(1, 2).iter().next(), Some(Some(&b"two"[..])));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// Index of the source among the sources of the run, from 0.
    pub source: usize,
    /// Index of the unit in that source, from 0.
    pub unit: usize,
    /// Index of the first document's row within the unit, from 0. A file that is one document has one row.
    pub first_row: u64,
    /// The documents' bytes. A null row is null and has length 0.
    pub documents: BinaryViewArray,
    /// The requested pass-through columns, one row for each document; `None` if none were requested.
    pub columns: Option<RecordBatch>,
    /// Whether the first document continues the last document of the previous batch.
    pub continued: bool,
    /// Whether the last document continues in the next batch.
    pub open: bool,
}

impl Batch {
    /// The number of documents or parts of documents, nulls included.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether the batch has no documents.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The documents in order; `None` is a null row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.documents.iter()
    }

    /// `length` documents starting at index `from`, without copying their text. The flags `continued` and `open` are
    /// kept if the slice includes the batch's first or last document, respectively.
    ///
    /// # Panics
    /// If the batch has fewer than `from + length` documents.
    #[must_use]
    pub fn slice(&self, from: usize, length: usize) -> Batch {
        Batch {
            source: self.source,
            unit: self.unit,
            first_row: self.first_row + to_u64(from),
            documents: self.documents.slice(from, length),
            columns: self.columns.as_ref().map(|columns| columns.slice(from, length)),
            continued: self.continued && from == 0,
            open: self.open && from + length == self.len(),
        }
    }

    /// Size of the batch in memory: bytes of text, plus the memory of the pass-through columns.
    pub(super) fn bytes(&self) -> u64 {
        let columns = self.columns.iter().flat_map(RecordBatch::columns);
        let passed = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        self.text_bytes() + to_u64(passed.sum::<usize>())
    }

    /// Size of each row: bytes of text, plus the bytes that its pass-through columns would take as plain arrays. It
    /// does not depend on how rows were batched.
    pub(crate) fn row_bytes(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.documents.lengths().map(u64::from).collect();
        if let Some(columns) = &self.columns {
            for (part, sums) in sums.chunks_mut(ROWS_AT_ONCE).enumerate() {
                let rows = columns.slice(part * ROWS_AT_ONCE, sums.len());
                sums.iter_mut().zip(row_bytes(&rows)).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        sums
    }

    /// Bytes of text in the batch.
    pub fn text_bytes(&self) -> u64 {
        self.documents.lengths().map(u64::from).sum()
    }
}

/// Batches in document order. Each is read when the iterator is advanced. Nothing useful follows an error.
pub type Documents<'a> = Box<dyn Iterator<Item = crate::error::Result<Batch>> + Send + 'a>;
