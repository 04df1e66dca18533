//! Reads Arrow's file and stream formats one message at a time. Memory grows with the data that can be read, not with
//! the sizes that it declares, which may be wrong or hostile.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_dictionary, read_footer_length, read_record_batch};
use arrow_ipc::{Block, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use super::fault::too_much;
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::ErrorKind;

/// Maximum bytes that are reserved before they are read (64 MiB).
const RESERVED: u64 = 64 << 20;

/// The marker before each message in the current version of the formats.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// The magic bytes at the beginning and end of a file.
const MAGIC: &[u8] = b"ARROW1";

/// Maximum bytes between the last block of a file and its footer.
const MAGIC_AND_MARK: u64 = 64;

/// The magic bytes of Feather version 1, which is not Arrow's file format. Version 2 is.
const FEATHER_1: &[u8] = b"FEA1";

/// Reads the record batches of a file, which its footer lists.
pub(super) struct InFile {
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
    most: u64,
}

impl InFile {
    /// Reads the footer of a file.
    ///
    /// # Errors
    /// The file has no valid footer, has the other byte order, or consists of several files laid end to end.
    pub(super) fn open(mut file: File, most: u64) -> Result<InFile, ArrowError> {
        let mut end = [0; 10];
        let behind = file.seek(SeekFrom::End(-10))?;
        file.read_exact(&mut end)?;
        let length = to_u64(read_footer_length(end)?);
        let start = behind.checked_sub(length).ok_or_else(|| wrong("its footer is longer than the file"))?;
        file.seek(SeekFrom::Start(start))?;
        let footer = exactly(&mut file, length, most)?;
        let footer = root_as_footer(&footer).map_err(wrong)?;
        let schema = schema_of(footer.schema().ok_or_else(|| wrong("its footer has no schema"))?)?;
        let blocks = footer.recordBatches().ok_or_else(|| wrong("its footer lists no record batches"))?;
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        let (version, blocks): (_, VecDeque<Block>) = (footer.version(), blocks.iter().copied().collect());
        check_only(&mut file, start, blocks.iter().chain(&dictionaries))?;
        let decoder = FileDecoder::new(Arc::clone(&schema), version);
        Ok(InFile { file, schema, version, dictionaries, decoder, blocks, last: None, most })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Sets the columns to read, by ascending index, and the types to read them as, which must have the same layout
    /// in the file. Reads the dictionaries, which record batches depend on.
    ///
    /// # Errors
    /// A dictionary is damaged or exceeds the memory limit.
    pub(super) fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) -> Result<(), ArrowError> {
        self.decoder = FileDecoder::new(schema, self.version).with_projection(columns);
        for block in &self.dictionaries {
            self.decoder.read_dictionary(block, &read_block(&mut self.file, block, self.most)?)?;
        }
        Ok(())
    }

    /// Reads the next record batch; `None` at the end.
    ///
    /// # Errors
    /// The record batch is damaged or exceeds the memory limit.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.last = self.blocks.pop_front();
        let Some(block) = &self.last else { return Ok(None) };
        self.decoder.read_record_batch(block, &read_block(&mut self.file, block, self.most)?)
    }

    /// The number of rows that the last record batch declares, even if its data is damaged; `None` if its header is
    /// damaged.
    pub(super) fn rows_of_last(&mut self) -> Option<u64> {
        let block = self.last.as_ref()?;
        self.file.seek(SeekFrom::Start(u64::try_from(block.offset()).ok()?)).ok()?;
        let head = u64::try_from(block.metaDataLength()).ok()?;
        let head = exactly(&mut self.file, head, self.most).ok()?;
        let message = root_as_message(message_of(&head)?).ok()?;
        u64::try_from(message.header_as_record_batch()?.length()).ok()
    }
}

/// Rejects a file that has other files in front of it. Its footer counts bytes from the file's own beginning, so rows
/// of the files in front would be read as its own, or would be lost.
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
fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef, ArrowError> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err(wrong("its byte order is not that of this machine"));
    }
    try_fb_to_schema(schema).map(Arc::new)
}

/// Reads a message of a file with its body.
///
/// # Errors
/// The message is damaged, truncated, or larger than `most`.
fn read_block(file: &mut File, block: &Block, most: u64) -> Result<Buffer, ArrowError> {
    let size = |declared| u64::try_from(declared).map_err(wrong);
    let (head, body) = (size(i64::from(block.metaDataLength()))?, size(block.bodyLength())?);
    let length = head.checked_add(body).ok_or_else(|| wrong("a message is longer than the file"))?;
    file.seek(SeekFrom::Start(size(block.offset())?))?;
    let bytes = exactly(file, length, most)?;
    let (head, body) = bytes.split_at(u64_to_usize(head));
    let message = message_of(head).ok_or_else(|| wrong("a message has no header"))?;
    check_sizes(&root_as_message(message).map_err(wrong)?, body, most)?;
    Ok(bytes.into())
}

/// Reads the record batches of a stream, and of further streams with the same columns that follow it.
pub(super) struct InStream<R> {
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
    most: u64,
}

impl<R: BufRead> InStream<R> {
    /// Reads the schema of a stream.
    ///
    /// # Errors
    /// The data is not an Arrow stream, or has the other byte order.
    pub(super) fn open(mut from: R, most: u64) -> Result<InStream<R>, ArrowError> {
        if from.fill_buf()?.starts_with(FEATHER_1) {
            return Err(wrong(
                "it is Feather V1, which is not Arrow data; rewrite it as Feather V2, in Python with \
                 `pyarrow.feather.write_feather(pyarrow.feather.read_table(old), new, version=2)`",
            ));
        }
        let Next::Message(head, _) = read_message(&mut from, most)? else { return Err(wrong("it is empty")) };
        let schema = root_as_message(&head).map_err(wrong)?.header_as_schema();
        let schema = schema_of(schema.ok_or_else(|| wrong("it does not begin with a schema"))?)?;
        let declared = Arc::clone(&schema);
        Ok(InStream { from, declared, schema, columns: Vec::new(), dictionaries: HashMap::new(), most })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Sets the columns to read and their types, like [`InFile::begin`].
    pub(super) fn begin(&mut self, columns: Vec<usize>, schema: SchemaRef) {
        (self.columns, self.schema) = (columns, schema);
    }

    /// Reads the next record batch; `None` at the end.
    ///
    /// # Errors
    /// The next message is damaged, truncated, or too large; or other data follows a complete stream.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut ended = false;
        loop {
            let (head, body) = match read_message(&mut self.from, self.most) {
                Ok(Next::Message(head, body)) => (head, body),
                Ok(Next::Mark) => {
                    ended = true;
                    continue;
                }
                Ok(Next::Nothing) => return Ok(None),
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

/// The problem if other data follows a complete stream.
const NO_STREAM: &str = "the data after the end of a stream is not a stream";

/// The next part of the data.
enum Next {
    /// A message: its header and its body.
    Message(Vec<u8>, Buffer),
    /// The marker at the end of a stream. Another stream may follow.
    Mark,
    /// The end of the data.
    Nothing,
}

/// Reads the next message or end marker.
///
/// # Errors
/// The message is damaged, truncated, or larger than `most`.
fn read_message(from: &mut impl Read, most: u64) -> Result<Next, ArrowError> {
    let mut length = [0; 4];
    let (first, rest) = length.split_at_mut(1);
    match from.read_exact(first) {
        // A stream may end without a marker, but only between two messages.
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(Next::Nothing),
        read => read?,
    }
    fill(from, rest)?;
    if length == CONTINUATION {
        fill(from, &mut length)?;
    }
    let head = match u64::try_from(i32::from_le_bytes(length)).map_err(wrong)? {
        0 => return Ok(Next::Mark),
        length => exactly(from, length, most)?,
    };
    let message = root_as_message(&head).map_err(wrong)?;
    let body = exactly(from, u64::try_from(message.bodyLength()).map_err(wrong)?, most)?;
    check_sizes(&message, &body, most)?;
    Ok(Next::Message(head, body.into()))
}

/// Fills a buffer, or fails if the data ends.
fn fill(from: &mut impl Read, room: &mut [u8]) -> Result<(), ArrowError> {
    from.read_exact(room).map_err(|cause| match cause.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it is cut off"),
        _ => cause.into(),
    })
}

/// Reads exactly this number of bytes. The buffer grows as they arrive, in case the length is wrong.
///
/// # Errors
/// The number exceeds `most`, or the data ends first.
fn exactly(from: &mut impl Read, length: u64, most: u64) -> Result<Vec<u8>, ArrowError> {
    if length > most {
        return Err(too_much("a message", length, most).into());
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
/// A buffer declares more than `most` bytes, or more than can be allocated.
fn check_sizes(message: &Message<'_>, body: &[u8], most: u64) -> Result<(), ArrowError> {
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
        if to_u64(size) > most {
            return Err(too_much("a column of a message", to_u64(size), most).into());
        }
        Vec::<u8>::new().try_reserve_exact(size).map_err(wrong)?;
    }
    Ok(())
}

/// The error that the data violates the format.
fn wrong(problem: impl ToString) -> ArrowError {
    ArrowError::IpcError(problem.to_string())
}
