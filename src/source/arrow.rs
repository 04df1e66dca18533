//! Reads Arrow IPC data: a file is one unit, and its record batches are decoded one at a time.
//!
//! Files of Arrow's file format are read by the footer, which lists the positions of record batches: a damaged one
//! can be skipped. The stream format, from files and pipes, is read from front to back, and an error ends it.
//! [`super::ipc`] reads the messages; this module turns record batches into batches of documents.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use std::sync::Arc;

use super::beginning::Beginning;
use super::fault::{Fault, guarded};
use super::files::Reading;
use super::ipc::{InFile, InStream};
use super::passed::OfFile;
use super::row_text::Composing;
use super::views::{Chosen, split};
use super::{Batch, Format, SourceSpec};
use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// The first bytes of Arrow's file format. Arrow's stream format does not begin with them.
const MAGIC: &[u8; 6] = b"ARROW1";

/// Rows of a column without a type that are taken out of a record batch at once. Untyped nulls occupy no memory in
/// the record batch, so a file of a few bytes can declare any number of them; each document occupies memory.
const NULLS_AT_ONCE: usize = 1 << 16;

/// Arrow data before its schema is read.
pub(super) enum Input {
    /// Data in the file format, which allows random access.
    File(File),
    /// Data in the stream format, from a file or a pipe.
    Stream(BufReader<Box<dyn Read + Send>>),
}

impl Input {
    /// Data of the stream format.
    pub(super) fn stream(from: Box<dyn Read + Send>) -> Input {
        Input::Stream(BufReader::new(from))
    }
}

/// Opens a file in either of Arrow's two formats, which the first bytes distinguish.
///
/// # Errors
/// The file cannot be read.
pub(super) fn open(path: &Path) -> Result<Input> {
    let open = || {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(to_u64(MAGIC.len())).read_to_end(&mut head)?;
        file.rewind()?;
        Ok(if head == MAGIC { Input::File(file) } else { Input::stream(Box::new(file)) })
    };
    open().map_err(|cause| Error::io("read", path, cause))
}

/// Reader of either format. `most` in [`new`](Reader::new) is the largest message, in bytes, that it reads.
enum Reader {
    File(InFile),
    Stream(InStream<BufReader<Box<dyn Read + Send>>>),
}

impl Reader {
    /// Reads the schema.
    ///
    /// # Errors
    /// The data has no valid schema.
    fn new(input: Input, most: u64) -> Result<Reader, ArrowError> {
        Ok(match input {
            Input::File(file) => Reader::File(InFile::open(file, most)?),
            Input::Stream(stream) => Reader::Stream(InStream::open(stream, most)?),
        })
    }

    /// The schema of the whole data, before [`begin`](Reader::begin) selects columns.
    fn schema(&self) -> SchemaRef {
        match self {
            Reader::File(reader) => reader.schema(),
            Reader::Stream(reader) => reader.schema(),
        }
    }

    /// Sets the columns to read, by index, and the schema to read them as.
    ///
    /// # Errors
    /// A dictionary of a file cannot be read.
    fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError> {
        match self {
            Reader::File(reader) => reader.begin(columns, schema),
            Reader::Stream(reader) => {
                reader.begin(columns, schema);
                Ok(())
            }
        }
    }

    /// Reads the next record batch, with the selected columns only; `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match self {
            Reader::File(reader) => reader.next(),
            Reader::Stream(reader) => reader.next(),
        }
    }
}

/// Opens a reader and finds the columns that `spec` asks for.
///
/// # Errors
/// The schema cannot be read, or a column is missing or holds no text.
fn start(mut input: Input, spec: &SourceSpec, name: &str) -> Result<(Reader, Chosen)> {
    if let Input::Stream(stream) = &mut input {
        check_begin(stream, name)?;
    }
    let reader = guarded(name, "its schema", || Reader::new(input, spec.longest_read()))?;
    let chosen = Chosen::find(name, reader.schema().fields(), spec)?;
    Ok((reader, chosen))
}

/// Checks that a stream does not begin with the magic bytes of another format.
///
/// # Errors
/// The stream is empty, cannot be read, or is data of another kind.
fn check_begin(stream: &mut impl BufRead, name: &str) -> Result<()> {
    let first = stream.fill_buf().map_err(|cause| Fault::damaged(name, "its schema", cause))?;
    match Beginning::of(first) {
        None => Ok(()),
        Some(known) if known.is_arrow_stream() => Ok(()),
        Some(known) if first.starts_with(MAGIC) => Err(known.of_pipe_as(Format::Arrow, name)),
        Some(known) => Err(known.instead_of(Format::Arrow, name)),
    }
}

/// The pass-through columns that the data has; `None` if none were requested.
pub(super) fn columns(input: Input, spec: &SourceSpec, name: &str) -> Result<Option<OfFile>> {
    let (reader, chosen) = start(input, spec, name)?;
    if spec.columns.is_empty() {
        return Ok(None);
    }
    let schema = reader.schema();
    let all = schema.fields().iter().map(|field| field.name().clone()).collect();
    let passed = chosen.passed_schema(&schema).map_err(|cause| Fault::damaged(name, "its schema", cause))?;
    Ok(Some(OfFile { columns: Arc::new(passed), all }))
}

/// Returns an iterator over the documents of all record batches.
///
/// # Errors
/// The schema or the dictionaries cannot be read, or a column is missing.
pub(super) fn read(input: Input, spec: &SourceSpec, reading: Reading) -> Result<RecordBatches> {
    let (mut reader, chosen) = start(input, spec, &reading.name)?;
    let schema = reader.schema();
    let fields = chosen.with_text(schema.fields(), bytes);
    let asked = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    guarded(&reading.name, "its dictionaries", || reader.begin(chosen.roots(), asked))?;
    let is_untyped = chosen.composed.is_none() && chosen.is_untyped(schema.fields());
    let at_once = if is_untyped { NULLS_AT_ONCE } else { usize::MAX };
    // From here on, columns are indexed among those that are read.
    let (chosen, reader, ready) = (chosen.among_roots(), Some(reader), VecDeque::new());
    Ok(RecordBatches {
        reader,
        chosen,
        at_once,
        begun: None,
        composing: None,
        number: 0,
        row: 0,
        ready,
        reading,
    })
}

/// The binary type with the same layout as a string type: reading text as it skips Arrow's check for UTF-8.
/// Dictionaries keep their type, because another column may share the same dictionary.
fn bytes(text: &DataType) -> DataType {
    match text {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        other => other.clone(),
    }
}

/// Iterator over the documents of an Arrow file or stream.
pub(super) struct RecordBatches {
    /// `None` once reading has ended.
    reader: Option<Reader>,
    /// The columns to read, located among those that the reader gives.
    chosen: Chosen,
    /// Maximum number of rows of a record batch that become documents at once.
    at_once: usize,
    /// A record batch that has not been given out completely, and the first row that is left.
    begun: Option<(RecordBatch, usize)>,
    /// The record batch from which texts are being composed.
    composing: Option<Composing>,
    /// Index of the current record batch, for messages.
    number: u64,
    /// Index of the next row within the unit.
    row: u64,
    /// Decoded batches that have not been given out yet.
    ready: VecDeque<Batch>,
    reading: Reading,
}

impl RecordBatches {
    /// Decodes the next batch of documents; `None` at the end. In a stream, an error also loses the record batches
    /// that follow, as the position of the next one is unknown.
    ///
    /// # Errors
    /// A record batch is damaged or exceeds the memory limit.
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(reader) = self.reader.as_mut() else { return Ok(None) };
        let and_more = if matches!(reader, Reader::Stream(_)) { " and everything after it" } else { "" };
        let place = format!("record batch {}{and_more}", self.number);
        let (chosen, at_once, begun) = (&self.chosen, self.at_once, &mut self.begun);
        let (composing, batch_bytes) = (&mut self.composing, self.reading.batch_bytes);
        let decoded = guarded(&self.reading.name, &place, || {
            if let Some(composed) = &chosen.composed {
                loop {
                    let next = composing.as_mut().map(|rows| rows.next(batch_bytes)).transpose()?.flatten();
                    if next.is_some() {
                        return Ok(next);
                    }
                    let Some(batch) = reader.next()? else { return Ok(None) };
                    *composing = Some(composed.begin(&batch)?);
                }
            }
            let next = || Ok::<_, ArrowError>(reader.next()?.map(|batch| (batch, 0)));
            let Some((batch, from)) = begun.take().map_or_else(next, |left| Ok(Some(left)))? else {
                return Ok(None);
            };
            let left = batch.num_rows() - from;
            let rows = batch.slice(from, left.min(at_once));
            if left > at_once {
                *begun = Some((batch, from + at_once));
            }
            Ok::<_, ArrowError>(Some((chosen.text_of(&rows)?, chosen.passed(&rows)?)))
        })?;
        let Some((documents, columns)) = decoded else { return Ok(None) };
        let first_row = self.row;
        self.row += to_u64(documents.len());
        let is_done = self.composing.as_ref().is_none_or(Composing::is_done);
        self.number += u64::from(self.begun.is_none() && is_done);
        Ok(Some(self.reading.batch(first_row, documents, columns)))
    }

    /// Skips the record batch that failed and continues with the next one, if its position and the number of lost
    /// rows are known, which only the file format tells. Otherwise reading ends.
    ///
    /// # Errors
    /// Bad input is not to be skipped, or the error is not bad input.
    fn leave_out(&mut self, error: Error) -> Result<()> {
        let rows = match &mut self.reader {
            Some(Reader::File(file)) => file.rows_of_last(),
            _ => None,
        };
        let Some(rows) = rows else {
            self.reader = None;
            return self.reading.bad(error);
        };
        // An error in a record batch is found before any of its rows is given out, so all its rows are lost.
        (self.begun, self.composing) = (None, None);
        self.number += 1;
        self.row = self.row.saturating_add(rows);
        self.reading.lost(error, rows)
    }
}

impl Iterator for RecordBatches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            match self.decode() {
                Ok(None) => return None,
                Ok(Some(batch)) if batch.is_empty() => {}
                Ok(Some(batch)) => self.ready = split(batch, self.reading.batch_bytes),
                Err(error) => {
                    if let Err(error) = self.leave_out(error) {
                        self.reader = None;
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}
