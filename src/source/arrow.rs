//! Reads Arrow IPC data: a file is one unit, and its record batches are decoded one at a time.
//!
//! Files of Arrow's file format are read by the footer, which lists the positions of record batches: a damaged one can
//! be skipped. The stream format, from files and pipes, is read from front to back, and an error ends it.
//!
//! Both formats are read one message at a time. Memory grows with the data that can be read, not with the sizes that it
//! declares, which may be wrong or hostile.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_dictionary, read_footer_length, read_record_batch};
use arrow::ipc::{Block, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};

use super::documents::split;
use super::error::{damaged, guarded, over_memory_limit};
use super::passthrough::FileColumns;
use super::row_text::{Projection, TextRows};
use super::skipped_rows::ReadContext;
use super::sniff::FileKind;
use super::{Batch, Format, SourceSpec};
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};

/// The bytes at the beginning and end of data in Arrow's file format. The stream format does not begin with them.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";

/// Rows of a column without a type that are taken out of a record batch at once. Untyped nulls occupy no memory in
/// the record batch, so a file of a few bytes can declare any number of them; each document occupies memory.
const NULLS_AT_ONCE: usize = 1 << 16;

/// Arrow data before its schema is read.
pub(super) enum ArrowInput {
    /// Data in the file format, which allows random access.
    File(File),
    /// Data in the stream format, from a file or a pipe.
    Stream(BufReader<Box<dyn Read + Send>>),
}

impl ArrowInput {
    /// Data of the stream format.
    pub(super) fn stream(from: Box<dyn Read + Send>) -> ArrowInput {
        ArrowInput::Stream(BufReader::new(from))
    }
}

/// Opens a file in either of Arrow's two formats, which the first bytes distinguish.
///
/// # Errors
/// The file cannot be read.
pub(super) fn open(path: &Path) -> Result<ArrowInput> {
    let open = || {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(to_u64(MAGIC.len())).read_to_end(&mut head)?;
        file.rewind()?;
        Ok(if head == MAGIC { ArrowInput::File(file) } else { ArrowInput::stream(Box::new(file)) })
    };
    open().map_err(|cause| Error::io("read", path, cause))
}

/// A reader of either format.
trait IpcReader: Send {
    /// The schema of the whole data, before [`begin`](IpcReader::begin) selects columns.
    fn schema(&self) -> SchemaRef;

    /// Sets the columns to read, by ascending index, and the types to read them as, which must have the same layout in
    /// the data.
    ///
    /// # Errors
    /// A dictionary of a file is damaged or exceeds the memory limit.
    fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError>;

    /// Reads the next record batch, with the selected columns only; `None` at the end.
    ///
    /// # Errors
    /// The record batch is damaged, truncated, or exceeds the memory limit; or other data follows a complete stream.
    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError>;

    /// Whether an error also loses the record batches that follow, as the position of the next one is unknown.
    fn loses_rest(&self) -> bool;

    /// The number of rows that the last record batch declares, even if its data is damaged; `None` if its header is
    /// damaged, or if the rest is lost.
    fn rows_of_last(&mut self) -> Option<u64>;
}

/// Opens a reader and finds the columns that `spec` asks for.
///
/// # Errors
/// The schema cannot be read, or a column is missing or holds no text.
fn start(mut input: ArrowInput, spec: &SourceSpec, name: &str) -> Result<(Box<dyn IpcReader>, Projection)> {
    if let ArrowInput::Stream(stream) = &mut input {
        check_begin(stream, name)?;
    }
    let reader = guarded(name, "its schema", || {
        Ok::<Box<dyn IpcReader>, ArrowError>(match input {
            ArrowInput::File(file) => Box::new(IpcFile::open(file, spec.longest_read())?),
            ArrowInput::Stream(stream) => Box::new(IpcStream::open(stream, spec.longest_read())?),
        })
    })?;
    let chosen = Projection::find(name, reader.schema().fields(), spec)?;
    Ok((reader, chosen))
}

/// Checks that a stream does not begin with the magic bytes of another format.
///
/// # Errors
/// The stream is empty, cannot be read, or is data of another kind.
fn check_begin(stream: &mut impl BufRead, name: &str) -> Result<()> {
    let first = stream.fill_buf().map_err(|cause| damaged(name, "its schema", cause))?;
    match FileKind::of(first) {
        None => Ok(()),
        Some(known) if known.is_arrow_stream() => Ok(()),
        Some(known) if first.starts_with(MAGIC) => Err(known.pipe_format_error(Format::Arrow, name)),
        Some(known) => Err(known.wrong_format_error(Format::Arrow, name)),
    }
}

/// The pass-through columns that the data has; `None` if none were requested.
///
/// # Errors
/// The schema cannot be read, or a column is missing or holds no text.
pub(super) fn columns(input: ArrowInput, spec: &SourceSpec, name: &str) -> Result<Option<FileColumns>> {
    let (reader, chosen) = start(input, spec, name)?;
    if spec.columns.is_empty() {
        return Ok(None);
    }
    let schema = reader.schema();
    let all = schema.fields().iter().map(|field| field.name().clone()).collect();
    let passed = chosen.passed_schema(&schema).map_err(|cause| damaged(name, "its schema", cause))?;
    Ok(Some(FileColumns { columns: Arc::new(passed), all }))
}

/// Returns an iterator over the documents of all record batches.
///
/// # Errors
/// The schema or the dictionaries cannot be read, or a column is missing.
pub(super) fn read(input: ArrowInput, spec: &SourceSpec, reading: ReadContext) -> Result<RecordBatches> {
    let (mut reader, chosen) = start(input, spec, &reading.name)?;
    let schema = reader.schema();
    let fields = chosen.with_text(schema.fields(), bytes);
    let asked = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    guarded(&reading.name, "its dictionaries", || reader.begin(chosen.roots(), asked))?;
    let is_untyped = chosen.composed.is_none() && chosen.is_untyped(schema.fields());
    let at_once = if is_untyped { NULLS_AT_ONCE } else { usize::MAX };
    // From here on, columns are indexed among those that are read.
    let texts = TextRows::new(chosen.among_roots(), at_once);
    Ok(RecordBatches { reader: Some(reader), texts, number: 0, row: 0, ready: VecDeque::new(), reading })
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
    reader: Option<Box<dyn IpcReader>>,
    /// Gives the texts of the record batches.
    texts: TextRows,
    /// Index of the current record batch, for messages.
    number: u64,
    /// Index of the next row within the unit.
    row: u64,
    /// Decoded batches that have not been given out yet.
    ready: VecDeque<Batch>,
    /// The unit and its source.
    reading: ReadContext,
}

impl RecordBatches {
    /// Decodes the next batch of documents; `None` at the end. In a stream, an error also loses the record batches
    /// that follow, as the position of the next one is unknown.
    ///
    /// # Errors
    /// A record batch is damaged or exceeds the memory limit.
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(reader) = self.reader.as_mut() else { return Ok(None) };
        let and_more = if reader.loses_rest() { " and everything after it" } else { "" };
        let place = format!("record batch {}{and_more}", self.number);
        let (texts, batch_bytes) = (&mut self.texts, self.reading.batch_bytes);
        let decoded = guarded(&self.reading.name, &place, || texts.next(batch_bytes, &mut || reader.next()))?;
        let Some((documents, columns)) = decoded else { return Ok(None) };
        let first_row = self.row;
        self.row += to_u64(documents.len());
        self.number += u64::from(self.texts.is_done());
        Ok(Some(self.reading.batch(first_row, documents, columns)))
    }

    /// Skips the record batch that failed and continues with the next one, if its position and the number of lost
    /// rows are known, which only the file format tells. Otherwise reading ends.
    ///
    /// # Errors
    /// Bad input is not to be skipped, or the error is not bad input.
    fn leave_out(&mut self, error: Error) -> Result<()> {
        let Some(rows) = self.reader.as_mut().and_then(|reader| reader.rows_of_last()) else {
            self.reader = None;
            return self.reading.bad.skip(error);
        };
        // An error in a record batch is found before any of its rows is given out, so all its rows are lost.
        self.texts.drop_current();
        self.number += 1;
        self.row = self.row.saturating_add(rows);
        self.reading.bad.skip_rows(error, rows)
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

/// Maximum bytes that are reserved before they are read (64 MiB).
const RESERVED: u64 = 64 << 20;

/// The marker before each message in the current version of the formats.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// Maximum bytes between the last block of a file and its footer.
const MAGIC_AND_MARK: u64 = 64;

/// The magic bytes of Feather version 1, which is not Arrow's file format. Version 2 is.
const FEATHER_1: &[u8] = b"FEA1";

/// Reads the record batches of a file, which its footer lists.
struct IpcFile {
    /// The file, which is read at the positions of its blocks.
    file: File,
    /// The schema of the whole file.
    schema: SchemaRef,
    /// The version of the metadata format.
    version: MetadataVersion,
    /// Positions of the dictionaries.
    dictionaries: Vec<Block>,
    /// The decoder, which holds the dictionaries.
    decoder: FileDecoder,
    /// Positions of the record batches that have not been read.
    blocks: VecDeque<Block>,
    /// The record batch that was read last.
    last: Option<Block>,
    /// Maximum bytes of a message, as stored and as decompressed.
    max_message_bytes: u64,
}

impl IpcFile {
    /// Reads the footer of a file.
    ///
    /// # Errors
    /// The file has no valid footer, has the other byte order, or consists of several files laid end to end.
    fn open(mut file: File, max_message_bytes: u64) -> Result<IpcFile, ArrowError> {
        let mut end = [0; 10];
        let behind = file.seek(SeekFrom::End(-10))?;
        file.read_exact(&mut end)?;
        let length = to_u64(read_footer_length(end)?);
        let start = behind.checked_sub(length).ok_or_else(|| wrong("its footer is longer than the file"))?;
        file.seek(SeekFrom::Start(start))?;
        let footer = exactly(&mut file, length, max_message_bytes)?;
        let footer = root_as_footer(&footer).map_err(wrong)?;
        let schema = schema_of(footer.schema().ok_or_else(|| wrong("its footer has no schema"))?)?;
        let blocks = footer.recordBatches().ok_or_else(|| wrong("its footer lists no record batches"))?;
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        let (version, blocks): (_, VecDeque<Block>) = (footer.version(), blocks.iter().copied().collect());
        check_only(&mut file, start, blocks.iter().chain(&dictionaries))?;
        let decoder = FileDecoder::new(Arc::clone(&schema), version);
        Ok(IpcFile { file, schema, version, dictionaries, decoder, blocks, last: None, max_message_bytes })
    }
}

impl IpcReader for IpcFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError> {
        self.decoder = FileDecoder::new(schema, self.version).with_projection(columns);
        for block in &self.dictionaries {
            let bytes = read_block(&mut self.file, block, self.max_message_bytes)?;
            self.decoder.read_dictionary(block, &bytes)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.last = self.blocks.pop_front();
        let Some(block) = &self.last else { return Ok(None) };
        self.decoder.read_record_batch(block, &read_block(&mut self.file, block, self.max_message_bytes)?)
    }

    fn loses_rest(&self) -> bool {
        false
    }

    fn rows_of_last(&mut self) -> Option<u64> {
        let block = self.last.as_ref()?;
        self.file.seek(SeekFrom::Start(u64::try_from(block.offset()).ok()?)).ok()?;
        let head = u64::try_from(block.metaDataLength()).ok()?;
        let head = exactly(&mut self.file, head, self.max_message_bytes).ok()?;
        let message = root_as_message(message_of(&head)?).ok()?;
        u64::try_from(message.header_as_record_batch()?.length()).ok()
    }
}

/// Rejects a file that has other files in front of it. Its footer counts bytes from the file's own beginning, so rows
/// of the files in front would be read as its own, or would be lost.
///
/// # Errors
/// The file is preceded by another one, or cannot be read.
fn check_only<'a>(
    file: &mut File,
    footer: u64,
    blocks: impl Iterator<Item = &'a Block>,
) -> Result<(), ArrowError> {
    let end = |block: &Block| {
        let sizes = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        sizes.into_iter().try_fold(0_u64, |sum, size| sum.checked_add(u64::try_from(size).ok()?))
    };
    let Some(end) = blocks.filter_map(end).max() else { return Ok(()) };
    // Between the last block and the footer are an end marker and, in some files, a few more bytes.
    let Some(begin) = footer.checked_sub(end).filter(|between| *between > MAGIC_AND_MARK) else {
        return Ok(());
    };
    let from = begin.saturating_sub(MAGIC_AND_MARK);
    file.seek(SeekFrom::Start(from))?;
    let mut around = Vec::new();
    file.take(begin - from + to_u64(MAGIC.len())).read_to_end(&mut around)?;
    if around.windows(MAGIC.len()).any(|bytes| bytes == MAGIC) {
        return Err(wrong("it is several files joined into one: give them as separate files"));
    }
    Ok(())
}

/// The flatbuffer in the header of a block, after its length prefix.
fn message_of(head: &[u8]) -> Option<&[u8]> {
    head.get(if head.starts_with(&CONTINUATION) { 8 } else { 4 }..)
}

/// The schema of data in this machine's byte order. Other data is rejected.
///
/// # Errors
/// The data has the other byte order, or the schema is invalid.
fn schema_of(schema: arrow::ipc::Schema<'_>) -> Result<SchemaRef, ArrowError> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err(wrong("its byte order is not that of this machine"));
    }
    try_fb_to_schema(schema).map(Arc::new)
}

/// Reads a message of a file with its body.
///
/// # Errors
/// The message is damaged, truncated, or larger than `max_message_bytes`.
fn read_block(file: &mut File, block: &Block, max_message_bytes: u64) -> Result<Buffer, ArrowError> {
    let size = |declared| u64::try_from(declared).map_err(wrong);
    let (head, body) = (size(i64::from(block.metaDataLength()))?, size(block.bodyLength())?);
    let length = head.checked_add(body).ok_or_else(|| wrong("a message is longer than the file"))?;
    file.seek(SeekFrom::Start(size(block.offset())?))?;
    let bytes = exactly(file, length, max_message_bytes)?;
    let (head, body) = bytes.split_at(u64_to_usize(head));
    let message = message_of(head).ok_or_else(|| wrong("a message has no header"))?;
    check_sizes(&root_as_message(message).map_err(wrong)?, body, max_message_bytes)?;
    Ok(bytes.into())
}

/// Reads the record batches of a stream, and of further streams with the same columns that follow it.
struct IpcStream<R> {
    from: R,
    /// The schema of the first stream, which further streams must have.
    declared: SchemaRef,
    /// The schema to read the columns as.
    schema: SchemaRef,
    /// Indices of the columns that are read.
    columns: Vec<usize>,
    /// The dictionaries so far, by their id.
    dictionaries: HashMap<i64, ArrayRef>,
    /// Maximum bytes of a message, as stored and as decompressed.
    max_message_bytes: u64,
}

impl<R: BufRead> IpcStream<R> {
    /// Reads the schema of a stream.
    ///
    /// # Errors
    /// The data is not an Arrow stream, or has the other byte order.
    fn open(mut from: R, max_message_bytes: u64) -> Result<IpcStream<R>, ArrowError> {
        if from.fill_buf()?.starts_with(FEATHER_1) {
            return Err(wrong(
                "it is Feather V1, which is not Arrow data; rewrite it as Feather V2, in Python with \
                 `pyarrow.feather.write_feather(pyarrow.feather.read_table(old), new, version=2)`",
            ));
        }
        let StreamItem::Message(head, _) = read_message(&mut from, max_message_bytes)? else {
            return Err(wrong("it is empty"));
        };
        let schema = root_as_message(&head).map_err(wrong)?.header_as_schema();
        let schema = schema_of(schema.ok_or_else(|| wrong("it does not begin with a schema"))?)?;
        let declared = Arc::clone(&schema);
        Ok(IpcStream {
            from,
            declared,
            schema,
            columns: Vec::new(),
            dictionaries: HashMap::new(),
            max_message_bytes,
        })
    }

    /// Starts the next stream, checking that its schema has the same columns.
    ///
    /// # Errors
    /// The schema has other columns.
    fn begin_next(&mut self, schema: &SchemaRef) -> Result<(), ArrowError> {
        let columns = |schema: &SchemaRef| -> Vec<(String, DataType)> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if columns(schema) != columns(&self.declared) {
            return Err(wrong("a stream follows that has other columns than the first"));
        }
        self.dictionaries.clear();
        Ok(())
    }
}

impl<R: BufRead + Send> IpcReader for IpcStream<R> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError> {
        (self.columns, self.schema) = (columns, schema);
        Ok(())
    }

    fn loses_rest(&self) -> bool {
        true
    }

    fn rows_of_last(&mut self) -> Option<u64> {
        None
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut ended = false;
        loop {
            let (head, body) = match read_message(&mut self.from, self.max_message_bytes) {
                Ok(StreamItem::Message(head, body)) => (head, body),
                Ok(StreamItem::EndOfStream) => {
                    ended = true;
                    continue;
                }
                Ok(StreamItem::EndOfData) => return Ok(None),
                Err(error) if ended && ErrorKind::of(&error) == ErrorKind::Failed => {
                    return Err(wrong(NO_STREAM));
                }
                Err(error) => return Err(error),
            };
            let message = root_as_message(&head).map_err(wrong)?;
            let version = message.version();
            if let Some(schema) = message.header_as_schema() {
                self.begin_next(&schema_of(schema)?)?;
                ended = false;
                continue;
            }
            if ended {
                return Err(wrong(NO_STREAM));
            }
            if let Some(batch) = message.header_as_record_batch() {
                let schema = Arc::clone(&self.schema);
                let (columns, dictionaries) = (Some(&self.columns[..]), &self.dictionaries);
                return read_record_batch(&body, batch, schema, dictionaries, columns, &version).map(Some);
            }
            let dictionary = message.header_as_dictionary_batch();
            let dictionary =
                dictionary.ok_or_else(|| wrong("a message holds neither rows nor a dictionary"))?;
            read_dictionary(&body, dictionary, &self.schema, &mut self.dictionaries, &version)?;
        }
    }
}

/// The problem if other data follows a complete stream.
const NO_STREAM: &str = "the data after the end of a stream is not a stream";

/// The next part of the data.
enum StreamItem {
    /// A message: its header and its body.
    Message(Vec<u8>, Buffer),
    /// The marker at the end of a stream. Another stream may follow.
    EndOfStream,
    /// The end of the data.
    EndOfData,
}

/// Reads the next message or end marker.
///
/// # Errors
/// The message is damaged, truncated, or larger than `max_message_bytes`.
fn read_message(from: &mut impl Read, max_message_bytes: u64) -> Result<StreamItem, ArrowError> {
    let mut length = [0; 4];
    let (first, rest) = length.split_at_mut(1);
    match from.read_exact(first) {
        // A stream may end without a marker, but only between two messages.
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(StreamItem::EndOfData),
        read => read?,
    }
    fill(from, rest)?;
    if length == CONTINUATION {
        fill(from, &mut length)?;
    }
    let head = match u64::try_from(i32::from_le_bytes(length)).map_err(wrong)? {
        0 => return Ok(StreamItem::EndOfStream),
        length => exactly(from, length, max_message_bytes)?,
    };
    let message = root_as_message(&head).map_err(wrong)?;
    let body = exactly(from, u64::try_from(message.bodyLength()).map_err(wrong)?, max_message_bytes)?;
    check_sizes(&message, &body, max_message_bytes)?;
    Ok(StreamItem::Message(head, body.into()))
}

/// Fills a buffer, or fails if the data ends.
///
/// # Errors
/// The data ends first, or cannot be read.
fn fill(from: &mut impl Read, room: &mut [u8]) -> Result<(), ArrowError> {
    from.read_exact(room).map_err(|cause| match cause.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it is cut off"),
        _ => cause.into(),
    })
}

/// Reads exactly this number of bytes. The buffer grows as they arrive, in case the length is wrong.
///
/// # Errors
/// The number exceeds `max_message_bytes`, or the data ends first.
fn exactly(from: &mut impl Read, length: u64, max_message_bytes: u64) -> Result<Vec<u8>, ArrowError> {
    if length > max_message_bytes {
        return Err(over_memory_limit("a message", length, max_message_bytes).into());
    }
    let mut bytes = Vec::with_capacity(u64_to_usize(length.min(RESERVED)));
    if to_u64(from.take(length).read_to_end(&mut bytes)?) < length {
        return Err(wrong("it is cut off"));
    }
    Ok(bytes)
}

/// Rejects a message with a buffer that declares a larger decompressed size than can be allocated. The decoder
/// allocates the declared size and has no error for a failed allocation.
///
/// # Errors
/// A buffer declares more than `max_message_bytes` bytes, or more than can be allocated.
fn check_sizes(message: &Message<'_>, body: &[u8], max_message_bytes: u64) -> Result<(), ArrowError> {
    let batch = match message.header_type() {
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => message.header_as_record_batch(),
    };
    let compressed = batch.filter(|batch| batch.compression().is_some());
    for part in compressed.and_then(|batch| batch.buffers()).iter().flatten() {
        let at = usize::try_from(part.offset()).map_err(wrong)?;
        let Some(size) = body.get(at..).and_then(|rest| rest.first_chunk()) else { continue };
        // A negative size marks a buffer that is not compressed.
        let size = usize::try_from(i64::from_le_bytes(*size)).unwrap_or(0);
        if to_u64(size) > max_message_bytes {
            return Err(over_memory_limit("a column of a message", to_u64(size), max_message_bytes).into());
        }
        Vec::<u8>::new().try_reserve_exact(size).map_err(wrong)?;
    }
    Ok(())
}

/// The error that the data violates the format.
fn wrong(problem: impl ToString) -> ArrowError {
    ArrowError::IpcError(problem.to_string())
}
