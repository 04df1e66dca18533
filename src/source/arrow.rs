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
use crate::error::{Error, Result};
use crate::units::amount;

/// What a file in Arrow's file format begins with; one in the stream format does not.
const MAGIC: &[u8; 6] = b"ARROW1";

/// So many rows without text are taken out of a record batch at once. Nulls that have no type take no room there: a
/// few bytes may stand for any number of them.
const NULLS_AT_ONCE: usize = 1 << 16;

/// Arrow data before its schema has been read.
pub(super) enum Input {
    File(File),
    Stream(BufReader<Box<dyn Read + Send>>),
}

impl Input {
    pub(super) fn stream(from: Box<dyn Read + Send>) -> Input {
        Input::Stream(BufReader::new(from))
    }
}

/// Opens a file in either of Arrow's formats.
pub(super) fn open(path: &Path) -> Result<Input> {
    let open = || {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(amount(MAGIC.len())).read_to_end(&mut head)?;
        file.rewind()?;
        Ok(if head == MAGIC { Input::File(file) } else { Input::stream(Box::new(file)) })
    };
    open().map_err(|cause| Error::io("read", path, cause))
}

enum Reader {
    File(InFile),
    Stream(InStream<BufReader<Box<dyn Read + Send>>>),
}

impl Reader {
    fn new(input: Input, most: u64) -> Result<Reader, ArrowError> {
        Ok(match input {
            Input::File(file) => Reader::File(InFile::open(file, most)?),
            Input::Stream(stream) => Reader::Stream(InStream::open(stream, most)?),
        })
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Reader::File(reader) => reader.schema(),
            Reader::Stream(reader) => reader.schema(),
        }
    }

    /// Says which columns are read, and as what.
    fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError> {
        match self {
            Reader::File(reader) => reader.begin(columns, schema),
            Reader::Stream(reader) => {
                reader.begin(columns, schema);
                Ok(())
            }
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match self {
            Reader::File(reader) => reader.next(),
            Reader::Stream(reader) => reader.next(),
        }
    }
}

fn start(mut input: Input, spec: &SourceSpec, name: &str) -> Result<(Reader, Chosen)> {
    if let Input::Stream(stream) = &mut input {
        check_begin(stream, name)?;
    }
    let reader = guarded(name, "its schema", || Reader::new(input, spec.longest_read()))?;
    let chosen = Chosen::find(name, reader.schema().fields(), spec)?;
    Ok((reader, chosen))
}

/// Checks that what is read as a stream does not begin as something else does.
fn check_begin(stream: &mut impl BufRead, name: &str) -> Result<()> {
    let first = stream.fill_buf().map_err(|cause| Fault::damaged(name, "its schema", cause))?;
    match Beginning::of(first) {
        None => Ok(()),
        Some(known) if known.is_arrow_stream() => Ok(()),
        Some(known) if first.starts_with(MAGIC) => Err(known.of_pipe_as(Format::Arrow, name)),
        Some(known) => Err(known.instead_of(Format::Arrow, name)),
    }
}

/// The pass-through columns that are there; `None` if none were asked for.
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

/// Reads all record batches.
pub(super) fn read(input: Input, spec: &SourceSpec, reading: Reading) -> Result<RecordBatches> {
    let (mut reader, chosen) = start(input, spec, &reading.name)?;
    let schema = reader.schema();
    let fields = chosen.with_text(schema.fields(), bytes);
    let asked = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    guarded(&reading.name, "its dictionaries", || reader.begin(chosen.roots(), asked))?;
    let is_untyped = chosen.composed.is_none() && chosen.is_untyped(schema.fields());
    let at_once = if is_untyped { NULLS_AT_ONCE } else { usize::MAX };
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

/// The type that looks the same in a file, for which it is not checked whether strings are UTF-8. Those of a dictionary
/// may be another column's too.
fn bytes(text: &DataType) -> DataType {
    match text {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        other => other.clone(),
    }
}

/// The batches of an Arrow file or stream.
pub(super) struct RecordBatches {
    reader: Option<Reader>,
    chosen: Chosen,
    /// How many rows of a record batch become documents at once.
    at_once: usize,
    /// A record batch of which rows are left, from this one on.
    begun: Option<(RecordBatch, usize)>,
    /// One whose texts are being put together.
    composing: Option<Composing>,
    number: u64,
    row: u64,
    ready: VecDeque<Batch>,
    reading: Reading,
}

impl RecordBatches {
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(reader) = self.reader.as_mut() else { return Ok(None) };
        let and_more = if matches!(reader, Reader::Stream(_)) { " and what follows it" } else { "" };
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
        self.row += amount(documents.len());
        let is_done = self.composing.as_ref().is_none_or(Composing::is_done);
        self.number += u64::from(self.begun.is_none() && is_done);
        Ok(Some(self.reading.batch(first_row, documents, columns)))
    }

    /// Goes on with the next record batch, where it is known where that stands and how many rows are lost; else ends.
    fn leave_out(&mut self, error: Error) -> Result<()> {
        let rows = match &mut self.reader {
            Some(Reader::File(file)) => file.rows_of_last(),
            _ => None,
        };
        let Some(rows) = rows else {
            self.reader = None;
            return self.reading.bad(error);
        };
        // What is wrong with a batch is seen before any of its rows is given out.
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
