use arrow_array::{Array, BinaryViewArray, RecordBatch};

use crate::lengths::row_bytes;
use crate::units::amount;

/// The bytes of so many rows are summed at once, for which each item of a list takes a place in memory.
const ROWS_AT_ONCE: usize = 1 << 10;

/// A run of consecutive documents of one unit, read together.
///
/// A document larger than a batch comes in parts: then the last document of a batch and the first of
/// the next are the same one, and `open` and `continued` say so. A null document is never in parts.
///
/// **Memory:** about the batch size asked for, or one row if that is larger.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Which of the run's sources the documents come from, counted from 0.
    pub source: usize,
    /// Which unit of that source, counted from 0.
    pub unit: usize,
    /// The row of the first document within its unit, counted from 0. A file that is one document has one row.
    pub first_row: u64,
    /// The documents' bytes; null where the row is null, and none there.
    pub documents: BinaryViewArray,
    /// The pass-through columns that were asked for, one row a document; `None` if there are none.
    pub columns: Option<RecordBatch>,
    /// The first document continues the last one of the batch before.
    pub continued: bool,
    /// The last document goes on in the next batch.
    pub open: bool,
}

impl Batch {
    /// How many documents or parts of documents there are, nulls included.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The documents in order; `None` is a null row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.documents.iter()
    }

    /// The documents from `from` on, `length` of them, without copying their text. Whether the first
    /// and last are parts is kept where they are the batch's own first and last.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn slice(&self, from: usize, length: usize) -> Batch {
        Batch {
            source: self.source,
            unit: self.unit,
            first_row: self.first_row + amount(from),
            documents: self.documents.slice(from, length),
            columns: self.columns.as_ref().map(|columns| columns.slice(from, length)),
            continued: self.continued && from == 0,
            open: self.open && from + length == self.len(),
        }
    }

    /// Bytes in the batch: of text, and what the pass-through columns take in memory.
    pub(super) fn bytes(&self) -> u64 {
        let columns = self.columns.iter().flat_map(RecordBatch::columns);
        let passed = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        self.text_bytes() + amount(passed.sum::<usize>())
    }

    /// Bytes of each row: of text, and of the pass-through columns as plain ones.
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

/// Batches in document order, each read when it is asked for.
pub type Documents<'a> = Box<dyn Iterator<Item = crate::error::Result<Batch>> + Send + 'a>;
