//! Joins documents that were split over several batches.

use arrow_array::builder::make_view;
use arrow_array::{BinaryViewArray, RecordBatch};
use arrow_buffer::Buffer;

use super::fault::Fault;
use super::{Batch, Documents};
use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// Maximum bytes of a document that a batch holds as a whole: the length limit of an Arrow view (2 GiB − 1).
pub const LONGEST_DOCUMENT: u64 = (1 << 31) - 1;

/// Joins the parts of split documents, so that every batch holds complete documents only.
///
/// **Memory:** one batch and the longest document.
///
/// # Errors
/// Those of `documents`, and an error for a document of more than [`LONGEST_DOCUMENT`] bytes, which names its source
/// and unit by index. After an error the iterator ends.
pub fn whole_documents(documents: Documents<'_>) -> Documents<'_> {
    whole_documents_of(documents, |source, unit| format!("source {source}, unit {unit}"))
}

/// Like [`whole_documents`], but errors name the file that `name` returns for a source and unit.
pub fn whole_documents_of<'a>(
    documents: Documents<'a>,
    name: impl Fn(usize, usize) -> String + Send + 'a,
) -> Documents<'a> {
    let (name, longest) = (Box::new(name), LONGEST_DOCUMENT);
    Box::new(Whole { documents, name, begun: None, next: None, longest, failed: false })
}

/// Iterator over complete documents.
struct Whole<'a> {
    documents: Documents<'a>,
    /// Returns the name of a source's unit, for errors.
    name: Box<dyn Fn(usize, usize) -> String + Send + 'a>,
    /// The split document that is being joined.
    begun: Option<Begun>,
    /// The documents of the last batch that follow the end of a split document.
    next: Option<Batch>,
    /// Maximum bytes of a document.
    longest: u64,
    /// Whether an error was given.
    failed: bool,
}

/// A document with parts still to be read.
struct Begun {
    source: usize,
    unit: usize,
    row: u64,
    /// The bytes so far.
    bytes: Vec<u8>,
    /// The pass-through columns of the document, which come with its first part.
    columns: Option<RecordBatch>,
}

impl Begun {
    /// Appends a part and returns `true`, or returns `false` if the document would become too long.
    fn add(&mut self, part: &[u8], longest: u64) -> bool {
        let fits = to_u64(self.bytes.len() + part.len()) <= longest;
        if fits {
            self.bytes.extend_from_slice(part);
        }
        fits
    }

    /// A batch with the complete document.
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
    /// The error that a document is too long.
    fn too_long(&self, document: &Begun) -> Error {
        let file = (self.name)(document.source, document.unit);
        let error = Fault::TooLong { file, row: document.row, limit: self.longest }.failed();
        error.with_help(
            "cut the text into documents: --documents line or paragraph, or --separator (in a recipe \
             `documents = \"line\"`)",
        )
    }

    /// Processes the next batch; returns complete documents if it has any.
    ///
    /// # Errors
    /// A document is too long.
    fn take(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let Some(mut begun) = self.begun.take() else {
            return self.after(batch);
        };
        if batch.is_empty() {
            self.begun = Some(begun);
            return Ok(None);
        }
        if !begun.add(batch.documents.value(0), self.longest) {
            return Err(self.too_long(&begun));
        }
        if batch.open && batch.len() == 1 {
            self.begun = Some(begun);
            return Ok(None);
        }
        if batch.len() > 1 {
            self.next = Some(batch.slice(1, batch.len() - 1));
        }
        begun.end().map(Some)
    }

    /// Processes a batch that does not begin in the middle of a document.
    ///
    /// # Errors
    /// A document is too long.
    fn after(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let Some(last) = batch.len().checked_sub(1) else { return Ok(None) };
        if !batch.open {
            return Ok(Some(batch));
        }
        let part = batch.slice(last, 1);
        let mut begun = Begun {
            source: part.source,
            unit: part.unit,
            row: part.first_row,
            bytes: Vec::new(),
            columns: part.columns,
        };
        if !begun.add(part.documents.value(0), self.longest) {
            return Err(self.too_long(&begun));
        }
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
                    // Sources mark the end of every document. If the mark is missing, the document ends here.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts are joined up to the limit; the error names the file and the row.
    #[test]
    fn a_document_that_is_too_long_is_named() {
        let batch = |first_row, texts: &[&str], open| {
            let documents = BinaryViewArray::from_iter_values(texts);
            Ok(Batch {
                source: 1,
                unit: 2,
                first_row,
                documents,
                columns: None,
                continued: first_row > 0,
                open,
            })
        };
        let parts = [batch(0, &["a", "begun"], true), batch(1, &["more"], true), batch(1, &["end"], false)];
        let name = Box::new(|source, unit| format!("file {source}.{unit}"));
        let documents = Box::new(parts.into_iter());
        let whole = Whole { documents, name, begun: None, next: None, longest: 10, failed: false };
        let outcome: Vec<_> = whole.collect();
        assert_eq!(outcome.len(), 2);
        let error = outcome[1].as_ref().expect_err("12 bytes");
        assert_eq!(error.to_string(), "file 1.2: row 1: a document is longer than 10 bytes");
        assert!(error.help().is_some_and(|help| help.contains("--documents line")));
    }

    /// An empty batch may be marked as open.
    #[test]
    fn a_batch_without_documents_begins_none() {
        let documents = BinaryViewArray::from_iter_values([""; 0]);
        let (source, unit, first_row, columns) = (0, 0, 0, None);
        let batch = Batch { source, unit, first_row, documents, columns, continued: false, open: true };
        assert_eq!(whole_documents(Box::new([Ok(batch)].into_iter())).count(), 0);
    }
}
