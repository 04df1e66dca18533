use arrow_array::builder::make_view;
use arrow_array::{BinaryViewArray, RecordBatch};
use arrow_buffer::Buffer;

use super::fault::Fault;
use super::{Batch, Documents};
use crate::error::{Error, Result};
use crate::units::amount;

/// The longest document that a batch can hold whole: the limit of an Arrow view.
pub const LONGEST_DOCUMENT: u64 = (1 << 31) - 1;

/// Joins the parts of documents, so that every batch holds whole documents only.
///
/// **Memory:** the longest document beside a batch.
///
/// **Errors:** those of `documents`, and a document of more than [`LONGEST_DOCUMENT`] bytes.
pub fn whole_documents(documents: Documents<'_>) -> Documents<'_> {
    Box::new(Whole { documents, begun: None, next: None, longest: LONGEST_DOCUMENT, failed: false })
}

struct Whole<'a> {
    documents: Documents<'a>,
    begun: Option<Begun>,
    /// What was read together with the last part of a document, and comes after it.
    next: Option<Batch>,
    longest: u64,
    failed: bool,
}

/// A document of which not all parts have been read.
struct Begun {
    source: usize,
    unit: usize,
    row: u64,
    bytes: Vec<u8>,
    columns: Option<RecordBatch>,
}

impl Begun {
    fn add(&mut self, part: &[u8], longest: u64) -> Result<()> {
        if amount(self.bytes.len() + part.len()) > longest {
            let error = Fault::TooLong { limit: longest }.failed();
            return Err(error.with_help(
                "cut the text into documents, for instance with `documents = \"line\"` or \"paragraph\"",
            ));
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    fn end(self) -> Result<Batch> {
        let view = make_view(&self.bytes, 0, 0);
        let documents = BinaryViewArray::try_new(vec![view].into(), vec![Buffer::from_vec(self.bytes)], None)
            .map_err(|cause| -> Error { Fault::damaged("a document", "its text", cause) })?;
        Ok(Batch {
            source: self.source,
            unit: self.unit,
            first_row: self.row,
            documents,
            columns: self.columns,
            continued: false,
            open: false,
        })
    }
}

impl Whole<'_> {
    /// Takes a batch in; gives out what is whole, if anything is.
    fn take(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let Some(mut begun) = self.begun.take() else {
            return self.after(batch);
        };
        if batch.is_empty() {
            self.begun = Some(begun);
            return Ok(None);
        }
        begun.add(batch.documents.value(0), self.longest)?;
        if batch.open && batch.len() == 1 {
            self.begun = Some(begun);
            return Ok(None);
        }
        if batch.len() > 1 {
            self.next = Some(batch.slice(1, batch.len() - 1));
        }
        begun.end().map(Some)
    }

    /// Takes in a batch that begins with a document's beginning.
    fn after(&mut self, batch: Batch) -> Result<Option<Batch>> {
        if !batch.open {
            return Ok((!batch.is_empty()).then_some(batch));
        }
        let last = batch.len() - 1;
        let part = batch.slice(last, 1);
        let mut begun = Begun {
            source: part.source,
            unit: part.unit,
            row: part.first_row,
            bytes: Vec::new(),
            columns: part.columns,
        };
        begun.add(part.documents.value(0), self.longest)?;
        self.begun = Some(begun);
        Ok((last > 0).then(|| Batch { open: false, ..batch.slice(0, last) }))
    }
}

impl Iterator for Whole<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while !self.failed {
            let taken = match self.next.take() {
                Some(batch) => self.after(batch),
                None => match self.documents.next() {
                    Some(batch) => batch.and_then(|batch| self.take(batch)),
                    // Sources tell the end of every document; what none has told is over now.
                    None => return Some(self.begun.take()?.end()),
                },
            };
            self.failed = taken.is_err();
            if let Some(batch) = taken.transpose() {
                return Some(batch);
            }
        }
        None
    }
}
