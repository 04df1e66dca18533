//! Reads Parquet files: each row group is a unit, only the needed columns are read, and batches are limited by bytes.
//!
//! A file may declare any sizes, so everything that the decoder allocates by is checked first (see
//! [`self::footer_check`]). Small files can also expand to any amount of text, through dictionaries, deltas and nulls.
//! Therefore text is read as views, which share repeated values, and the number of rows that are decoded at once
//! follows from their size in memory.

pub(crate) mod footer_check;
mod columns;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use memchr::memmem;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use self::columns::{annotated, as_views, leaf_of, leaves_of, readable};
use super::cast::cast;
use super::content::{RangeRead, SourceFile};
use super::documents::{rows_in_batch, split};
use super::error::{damaged, guarded, over_memory_limit};
use super::row_text::{Projection, TextRows};
use super::skipped_rows::ReadContext;
use super::sniff::{FileKind, is_utf8_start};
use super::{Batch, Format, Identity, SourceSpec};
use crate::base::int::{declared_sum, to_u64, u64_to_usize};
use crate::base::integrity;
use crate::error::{Error, Result};
use footer_check::{check_index, check_pages, encrypted_columns};

/// The magic bytes at the beginning and end of a Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

/// Bytes at the end of a remote file that are fetched first (64 KiB). Most footers fit.
const TAIL_BYTES: u64 = 64 << 10;

/// The advice for encrypted data.
const DECRYPT: &str = "decrypt it first, with a program that has its keys, or name other columns";

/// Bytes that are searched for the end of another file in front of this one.
const JOIN_SEARCH_BYTES: u64 = 64 << 10;

/// Bytes at the beginning of a file that are examined to recognize its format.
const HEAD_BYTES: u64 = 1 << 10;

/// Bytes of a value in memory as a view, and the maximum for a number.
const VIEW_BYTES: u64 = 16;

/// Maximum number of rows that are read at once if a column uses delta encoding of strings (DELTA_BYTE_ARRAY). Such
/// strings may be long although the difference from the previous one takes few bytes, and each has its own memory
/// here.
const ROWS_BY_DIFFERENCES: usize = 256;

/// A Parquet file with its footer read and its columns located. Clones share the footer.
#[derive(Clone, Debug)]
pub(super) struct Footer {
    /// The metadata, with the types to read the columns as.
    metadata: ArrowReaderMetadata,
    /// The requested columns, located in the schema.
    chosen: Projection,
    /// The schema of the pass-through columns that the file has, with the types in the file.
    pub(super) passed: SchemaRef,
    /// The names of all columns.
    pub(super) all: Vec<String>,
    /// The leaf columns to read.
    mask: ProjectionMask,
    /// The index of the text's leaf column, if the text is a single column.
    leaf: Option<usize>,
}

/// Number of rows, and bytes of text if known, of a row group.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowGroupSize {
    /// Number of rows.
    pub(super) rows: u64,
    /// Bytes of text, exactly or approximately; `None` if they are unknown.
    pub(super) text_bytes: Option<u64>,
}

impl Footer {
    /// Reads the footer and finds the columns.
    ///
    /// # Errors
    /// The file is not a complete Parquet file, or lacks a column, or a needed column is encrypted.
    pub(super) fn read(file: &SourceFile, spec: &SourceSpec) -> Result<Footer> {
        let name = &file.name;
        let input = open_footer(file)?;
        let options = ArrowReaderOptions::new();
        let (encrypted, metadata) = guarded(name, "its index", || {
            let encrypted =
                if check_index(&input)? { encrypted_columns(&input)? } else { BTreeSet::default() };
            Ok::<_, ParquetError>((encrypted, ArrowReaderMetadata::load(&input, options)?))
        })?;
        if file.remote.is_none() {
            check_alone(&input, file, metadata.metadata())?;
        }
        let schema = readable(metadata.schema());
        let chosen = Projection::find(name, schema.fields(), spec)?;
        let declared = annotated(&schema, metadata.parquet_schema());
        let passed = chosen.passed_schema(&declared).map_err(|e| damaged(name, "its schema", e))?;
        let passed = Arc::new(passed);
        let leaf = leaf_of(schema.fields(), &chosen.text);
        let metadata = guarded(name, "its schema", || {
            Ok::<_, ParquetError>(as_views(metadata, &schema, &chosen, leaf))
        })?;
        let parquet = metadata.parquet_schema();
        let (leaf, mask) = match &chosen.composed {
            Some(composed) => {
                let leaves = composed.paths().flat_map(|steps| leaves_of(schema.fields(), steps));
                (None, ProjectionMask::leaves(parquet, leaves))
            }
            None => {
                let mut mask = ProjectionMask::leaves(parquet, [leaf]);
                mask.union(&ProjectionMask::roots(parquet, chosen.passed_through.iter().copied()));
                (Some(leaf), mask)
            }
        };
        let unreadable = encrypted.into_iter().map(u64_to_usize).find(|&leaf| mask.leaf_included(leaf));
        if let Some(column) = unreadable.and_then(|leaf| parquet.columns().get(leaf)) {
            let problem = format!("column {:?} of {name} is encrypted", column.path().string());
            return Err(Error::failed(problem).with_help(DECRYPT));
        }
        let all = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(Footer { metadata, chosen, passed, all, mask, leaf })
    }

    /// The sizes of the row groups, in order.
    ///
    /// # Errors
    /// The footer has negative sizes.
    pub(super) fn groups(&self, name: &str) -> Result<Vec<RowGroupSize>> {
        let groups = self.metadata.metadata().row_groups().iter().enumerate();
        groups.map(|(at, group)| self.group(group).ok_or_else(|| contradiction(name, at))).collect()
    }

    /// The sizes of a row group; `None` if the footer contradicts itself.
    fn group(&self, group: &RowGroupMetaData) -> Option<RowGroupSize> {
        let rows = u64::try_from(group.num_rows()).ok()?;
        let Some(leaf) = self.leaf else { return Some(RowGroupSize { rows, text_bytes: None }) };
        let column = group.columns().get(leaf)?;
        Some(RowGroupSize { rows, text_bytes: text_bytes(column, rows)? })
    }

    /// Number of rows of a row group to read at once, so that they take about `batch_bytes` in memory.
    fn batch_rows(&self, group: &RowGroupMetaData, rows: u64, batch_bytes: u64) -> usize {
        let declared = |size| u64::try_from(size).unwrap_or(0);
        // Nulls take no space in the file but take memory here; and a single row may be a list of any number of
        // values.
        let places = |column: &ColumnChunkMetaData| declared(column.num_values()).saturating_mul(VIEW_BYTES);
        let bytes =
            |column: &ColumnChunkMetaData| Some(declared(column.uncompressed_size()).max(places(column)));
        let bytes = declared_sum(self.columns_read(group).map(bytes)).unwrap_or(u64::MAX);
        let by_differences = |column: &ColumnChunkMetaData| {
            column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY)
        };
        let max_rows =
            if self.columns_read(group).any(by_differences) { ROWS_BY_DIFFERENCES } else { usize::MAX };
        rows_in_batch(batch_bytes, bytes, rows).min(max_rows)
    }

    /// Metadata of the leaf columns that are read.
    fn columns_read<'g>(&self, group: &'g RowGroupMetaData) -> impl Iterator<Item = &'g ColumnChunkMetaData> {
        let read = group.columns().iter().enumerate().filter(|(leaf, _)| self.mask.leaf_included(*leaf));
        read.map(|(_, column)| column)
    }
}

/// Bytes of text in a column, if known: the number that the writer declared, or otherwise the size of the pages
/// without the 4-byte length before each value. The outer `None` means that the footer contradicts itself.
fn text_bytes(column: &ColumnChunkMetaData, rows: u64) -> Option<Option<u64>> {
    let declared = column.unencoded_byte_array_data_bytes();
    let bytes = u64::try_from(declared.unwrap_or(column.uncompressed_size())).ok()?;
    Some(match declared {
        Some(_) => Some(bytes),
        None => has_plain_pages(column).then(|| bytes.saturating_sub(rows.saturating_mul(4))),
    })
}

/// Whether the column's pages store all values in full. With dictionaries or differences, any amount of text may take
/// no space. A writer that abandons a dictionary declares that plain pages follow.
fn has_plain_pages(column: &ColumnChunkMetaData) -> bool {
    let is_short = |encoding| {
        use Encoding::{DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, PLAIN_DICTIONARY, RLE_DICTIONARY};
        matches!(encoding, PLAIN_DICTIONARY | RLE_DICTIONARY | DELTA_BYTE_ARRAY | DELTA_LENGTH_BYTE_ARRAY)
    };
    match column.page_encoding_stats_mask() {
        Some(pages) => pages.is_set(Encoding::PLAIN),
        None => !column.encodings().any(is_short),
    }
}

/// The error that the footer declares negative sizes.
fn contradiction(name: &str, group: usize) -> Error {
    damaged(name, format!("row group {group}"), "its index has negative sizes")
}

/// Returns an iterator over the documents of one row group.
///
/// # Errors
/// The row group cannot be read, or a page has more than `max_page_bytes` bytes.
pub(super) fn read(
    footer: &Footer,
    file: &SourceFile,
    group: usize,
    max_page_bytes: u64,
    reading: ReadContext,
) -> Result<RowGroupReader> {
    let place = format!("row group {group}");
    let groups = footer.metadata.metadata().row_groups();
    let shape = groups
        .get(group)
        .ok_or_else(|| damaged(&reading.name, &place, "the file has changed since it was listed"))?;
    let rows = u64::try_from(shape.num_rows()).map_err(|_| contradiction(&reading.name, group))?;
    let mut input = ParquetInput::open(file)?;
    for column in footer.columns_read(shape) {
        let (start, bytes) = guarded(&reading.name, &place, || Ok::<_, ParquetError>(column.byte_range()))?;
        input.fetch(start, bytes)?;
        guarded(&reading.name, &place, || {
            check_pages(&input, column, |bytes| match bytes > max_page_bytes {
                true => Err(over_memory_limit("a page", bytes, max_page_bytes).into()),
                false => Ok(()),
            })
        })?;
    }
    let batch_rows = footer.batch_rows(shape, rows, reading.batch_bytes);
    let code = input.code();
    let reader = guarded(&reading.name, &place, || {
        ParquetRecordBatchReaderBuilder::new_with_metadata(input, footer.metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(footer.mask.clone())
            .with_batch_size(batch_rows)
            .build()
    })?;
    let (texts, passed) = (TextRows::new(projected(footer), usize::MAX), Arc::clone(&footer.passed));
    Ok(RowGroupReader {
        reader: Some(reader),
        code,
        texts,
        passed,
        place,
        rows,
        row: 0,
        ready: VecDeque::new(),
        reading,
    })
}

/// The chosen columns, located among those that are read.
fn projected(footer: &Footer) -> Projection {
    let mut chosen = footer.chosen.among_roots();
    // If only one field of a struct is read, the struct has only that field. The same holds on each level.
    if !chosen.text_is_passed() {
        chosen.text.iter_mut().skip(1).for_each(|at| *at = 0);
    }
    chosen
}

/// Iterator over the documents of one row group.
pub(super) struct RowGroupReader {
    /// `None` once reading has ended.
    reader: Option<ParquetRecordBatchReader>,
    /// The last error of the system while reading the file.
    code: LastOsError,
    /// Gives the texts of the record batches.
    texts: TextRows,
    /// The schema of the pass-through columns in batches.
    passed: SchemaRef,
    /// The row group, as messages name it.
    place: String,
    /// Number of rows that the footer declares.
    rows: u64,
    /// Number of rows that have been decoded.
    row: u64,
    /// Decoded batches that have not been given out yet.
    ready: VecDeque<Batch>,
    /// The unit and its source.
    reading: ReadContext,
}

impl RowGroupReader {
    /// Decodes the next rows; `None` at the end of the row group.
    ///
    /// # Errors
    /// The data is damaged, or has another number of rows than the footer declares.
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(reader) = self.reader.as_mut() else { return Ok(None) };
        let place = format!("{}, row {} and the following rows", self.place, self.row);
        let (texts, batch_bytes) = (&mut self.texts, self.reading.batch_bytes);
        let mut next = || reader.next().transpose();
        let decoded = guarded(&self.reading.name, &place, || texts.next(batch_bytes, &mut next));
        let decoded = decoded.map_err(|error| match self.code.error() {
            Some(cause) => damaged(&self.reading.name, &place, cause),
            None => error,
        })?;
        let Some((documents, columns)) = decoded else {
            self.reader = None;
            if self.row == self.rows {
                return Ok(None);
            }
            let problem = format!("it has {} rows where the file's index says {}", self.row, self.rows);
            return Err(damaged(&self.reading.name, &self.place, problem));
        };
        let first_row = self.row;
        self.row += to_u64(documents.len());
        Ok(Some(self.reading.batch(first_row, documents, columns)))
    }

    /// Converts the pass-through columns to the types that the file declares.
    ///
    /// # Errors
    /// A value does not fit the type.
    fn typed(&self, mut batch: Batch) -> Result<Batch> {
        let cast = |columns: RecordBatch| {
            let fields = self.passed.fields().iter();
            let columns =
                columns.columns().iter().zip(fields).map(|(column, field)| cast(column, field.data_type()));
            RecordBatch::try_new(Arc::clone(&self.passed), columns.collect::<Result<_, _>>()?)
        };
        let columns =
            batch.columns.take().map(|columns| guarded(&self.reading.name, &self.place, || cast(columns)));
        batch.columns = columns.transpose()?;
        Ok(batch)
    }
}

impl Iterator for RowGroupReader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(self.typed(batch));
            }
            match self.decode() {
                Ok(None) => return None,
                Ok(Some(batch)) if batch.is_empty() => {}
                Ok(Some(batch)) => self.ready = split(batch, self.reading.batch_bytes),
                Err(error) => {
                    self.reader = None;
                    let lost = self.rows.saturating_sub(self.row);
                    return self.reading.bad.skip_rows(error, lost).err().map(Err);
                }
            }
        }
    }
}

/// Identifies a file by its size and the SHA-256 of its footer.
///
/// # Errors
/// The file is not a complete Parquet file, or cannot be read.
pub(super) fn identity(file: &SourceFile) -> Result<Identity> {
    let input = open_footer(file)?;
    let io = |cause| Error::io("read", &file.path, cause);
    let start = footer_start(&input, file)?;
    let sha256 = integrity::sha256_of(input.reader(start).map_err(io)?).map_err(io)?;
    Ok(Identity::Footer { bytes: input.bytes, sha256 })
}

/// Opens a file and checks that it begins and ends like a Parquet file. Of a remote file, fetches the footer.
///
/// # Errors
/// The file is not a complete Parquet file, or cannot be read.
fn open_footer(file: &SourceFile) -> Result<ParquetInput> {
    let mut input = ParquetInput::open(file)?;
    input.fetch(input.bytes.saturating_sub(TAIL_BYTES), TAIL_BYTES)?;
    // Of a large remote file, only the tail has been fetched.
    if file.remote.is_none() || input.bytes <= TAIL_BYTES {
        check_begin(&input, file)?;
    }
    let io = |cause| Error::io("read", &file.path, cause);
    if input.bytes < 12 || input.read_range(input.bytes - 4, 4).map_err(io)? != MAGIC[..] {
        let problem = format!("{} is cut off: the index at the end of a Parquet file is missing", file.name);
        return Err(Error::failed(problem).with_help("copy or download the file again"));
    }
    let start = footer_start(&input, file)?;
    input.fetch(start, input.bytes - start)?;
    Ok(input)
}

/// The offset of the footer, from the length that follows it.
///
/// # Errors
/// The length exceeds the file.
fn footer_start(input: &ParquetInput, file: &SourceFile) -> Result<u64> {
    let tail = input.read_range(input.bytes - 8, 4).map_err(|cause| Error::io("read", &file.path, cause))?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let start = (input.bytes - 8).checked_sub(length);
    start.ok_or_else(|| damaged(&file.name, "its index", "it is longer than the file"))
}

/// Rejects a file that has other files in front of it. Its footer counts bytes from the file's own beginning, so rows
/// of the files in front would be read as its own, or would be lost.
///
/// # Errors
/// The file is preceded by another one.
fn check_alone(input: &ParquetInput, file: &SourceFile, metadata: &ParquetMetaData) -> Result<()> {
    let end = |start: Option<i64>, length: Option<i32>| {
        u64::try_from(start?).ok()?.checked_add(u64::try_from(length.unwrap_or(0)).ok()?)
    };
    let ends = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).flat_map(|column| {
        let (start, bytes) = (column.data_page_offset(), column.compressed_size());
        let pages = u64::try_from(column.dictionary_page_offset().unwrap_or(start).min(start))
            .ok()
            .and_then(|start| start.checked_add(u64::try_from(bytes).ok()?));
        [
            pages,
            end(column.bloom_filter_offset(), column.bloom_filter_length()),
            end(column.column_index_offset(), column.column_index_length()),
            end(column.offset_index_offset(), column.offset_index_length()),
        ]
    });
    let Some(end) = ends.flatten().max() else { return Ok(()) };
    // If no other data precedes the footer, the file's own data ends at the footer. Otherwise the difference is the
    // length of the data in front.
    let Some(begin) = footer_start(input, file)?.checked_sub(end).filter(|begin| *begin > 0) else {
        return Ok(());
    };
    let from = begin.saturating_sub(JOIN_SEARCH_BYTES);
    let between = input
        .read_range(from, u64_to_usize((begin + to_u64(MAGIC.len())).min(input.bytes) - from))
        .map_err(|cause| Error::io("read", &file.path, cause))?;
    if memmem::find(&between, b"PAR1PAR1").is_some() {
        let problem = "it is several files joined into one: give them as separate files";
        return Err(damaged(&file.name, "its index", problem));
    }
    Ok(())
}

/// Checks the first bytes of a file. The error names the format if they belong to another one.
///
/// # Errors
/// The file is encrypted, or is not a Parquet file.
fn check_begin(input: &ParquetInput, file: &SourceFile) -> Result<()> {
    let io = |cause| Error::io("read", &file.path, cause);
    let head = input.read_range(0, u64_to_usize(input.bytes.min(HEAD_BYTES))).map_err(io)?;
    let file = &file.name;
    if head.starts_with(b"PARE") {
        return Err(Error::failed(format!("{file} is an encrypted Parquet file")).with_help(DECRYPT));
    }
    if head.starts_with(MAGIC) {
        return Ok(());
    }
    if let Some(known) = FileKind::of(&head) {
        return Err(known.wrong_format_error(Format::Parquet, file));
    }
    let error = Error::failed(format!("{file} is not a Parquet file: it does not begin with PAR1"));
    Err(if is_utf8_start(&head) {
        error.with_help("it looks like text: give it another name, or say `format = \"text\"` or \"jsonl\"")
    } else {
        error
    })
}

/// A file for the Parquet reader. Reads never go past its end, whatever sizes the file declares, and no other thread
/// moves its position.
struct ParquetInput {
    /// Where the bytes are.
    from: Origin,
    /// Size of the file in bytes.
    bytes: u64,
    /// The last error while reading.
    code: LastOsError,
}

/// The system's code of the last error of a file; 0 if there was none. Parquet's reader of record batches reports
/// errors of its input as text only, which does not distinguish damaged input from a failed system.
#[derive(Clone, Debug, Default)]
struct LastOsError(Arc<AtomicI32>);

impl LastOsError {
    /// Records the code of an error.
    fn record<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(cause) = &outcome {
            self.0.store(cause.raw_os_error().unwrap_or(0), Relaxed);
        }
        outcome
    }

    /// The last error, if it had a system code.
    fn error(&self) -> Option<io::Error> {
        Some(self.0.load(Relaxed)).filter(|code| *code != 0).map(io::Error::from_raw_os_error)
    }
}

/// Reads a file and records the codes of errors.
struct ErrorRecorder(BufReader<File>, LastOsError);

impl Read for ErrorRecorder {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.record(self.0.read(into))
    }
}

/// Access to the bytes of a file.
enum Origin {
    /// A local file.
    File(File),
    /// The fetched ranges, each with its offset. Only these can be read.
    Remote(Arc<dyn RangeRead>, Vec<(u64, Bytes)>),
}

impl ParquetInput {
    /// Opens a local or remote file. Of a remote file, nothing is fetched yet.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open(file: &SourceFile) -> Result<ParquetInput> {
        if let Some(remote) = &file.remote {
            let bytes = remote.bytes();
            let from = Origin::Remote(Arc::clone(remote), Vec::new());
            return Ok(ParquetInput { from, bytes, code: LastOsError::default() });
        }
        let open = || -> io::Result<ParquetInput> {
            let file = File::open(&file.path)?;
            let bytes = file.metadata()?.len();
            Ok(ParquetInput { from: Origin::File(file), bytes, code: LastOsError::default() })
        };
        open().map_err(|cause| Error::io("read", &file.path, cause))
    }

    /// Fetches a range, or the part of it before the end of the file, if the file is remote. Only fetched ranges can
    /// be read.
    ///
    /// # Errors
    /// The range cannot be fetched, or the file has changed since it was listed.
    fn fetch(&mut self, start: u64, bytes: u64) -> Result<()> {
        let Origin::Remote(file, fetched) = &mut self.from else { return Ok(()) };
        let bytes = bytes.min(self.bytes.saturating_sub(start));
        // A length that does not fit in memory cannot be read, which reading reports.
        let length = usize::try_from(bytes).unwrap_or(0);
        if length > 0 && part(fetched, start, length).is_none() {
            fetched.push((start, file.range(start, length)?));
        }
        Ok(())
    }

    /// The record of error codes.
    fn code(&self) -> LastOsError {
        self.code.clone()
    }

    /// The `length` bytes from the offset `start` on.
    ///
    /// # Errors
    /// The range is not inside the file or the fetched ranges, or cannot be read.
    fn read_range(&self, start: u64, length: usize) -> io::Result<Bytes> {
        if start.checked_add(to_u64(length)).is_none_or(|end| end > self.bytes) {
            return Err(past_the_end(start, length));
        }
        match &self.from {
            Origin::File(_) => {
                let mut bytes = vec![0; length];
                self.reader(start)?.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
            Origin::Remote(_, fetched) => {
                part(fetched, start, length).ok_or_else(|| past_the_end(start, length))
            }
        }
    }

    /// A reader of everything from the offset `start` on.
    ///
    /// # Errors
    /// The offset is not inside the fetched ranges, or the file cannot be read.
    fn reader(&self, start: u64) -> io::Result<Box<dyn Read + Send>> {
        match &self.from {
            Origin::File(file) => {
                let mut file = self.code.record(file.try_clone())?;
                self.code.record(file.seek(SeekFrom::Start(start)))?;
                Ok(Box::new(ErrorRecorder(BufReader::new(file), self.code.clone())))
            }
            Origin::Remote(_, fetched) => match part(fetched, start, 0) {
                Some(rest) => Ok(Box::new(Cursor::new(rest))),
                None => Err(past_the_end(start, 0)),
            },
        }
    }
}

/// The bytes of a range if they were fetched; for an empty range, all fetched bytes that follow its start.
fn part(fetched: &[(u64, Bytes)], start: u64, length: usize) -> Option<Bytes> {
    fetched.iter().find_map(|(begin, bytes)| {
        let at = usize::try_from(start.checked_sub(*begin)?).ok().filter(|&at| at < bytes.len())?;
        let end = if length == 0 { bytes.len() } else { at.checked_add(length)? };
        (end <= bytes.len()).then(|| bytes.slice(at..end))
    })
}

/// The error that a read goes past the end of the file, or of the fetched ranges.
fn past_the_end(start: u64, length: usize) -> io::Error {
    let problem = format!("{length} bytes at {start} are past the end of the file, or of its columns");
    io::Error::new(io::ErrorKind::UnexpectedEof, problem)
}

impl Length for ParquetInput {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for ParquetInput {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.reader(start)?)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.read_range(start, length)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::EncodingMask;
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    /// Text sizes are unknown if a dictionary or differences may shorten them and no writer's figure exists.
    #[test]
    fn text_that_dictionaries_may_shorten_is_not_known() {
        use Encoding::{DELTA_BYTE_ARRAY, PLAIN, RLE, RLE_DICTIONARY};
        let message = parse_message_type("message m { required binary text (STRING); }").expect("a schema");
        let column = SchemaDescriptor::new(Arc::new(message)).column(0);
        let bytes = |declared, encodings: &[Encoding], data_pages: Option<&[Encoding]>| {
            let mut chunk = ColumnChunkMetaData::builder(Arc::clone(&column))
                .set_total_uncompressed_size(1_000)
                .set_unencoded_byte_array_data_bytes(declared)
                .set_encodings(encodings.to_vec());
            if let Some(pages) = data_pages {
                chunk = chunk.set_page_encoding_stats_mask(EncodingMask::new_from_encodings(pages.iter()));
            }
            text_bytes(&chunk.build().expect("a column"), 100)
        };
        assert_eq!(bytes(None, &[PLAIN, RLE], None), Some(Some(600)));
        assert_eq!(bytes(None, &[PLAIN, RLE, RLE_DICTIONARY], None), Some(None));
        assert_eq!(bytes(None, &[PLAIN, RLE, RLE_DICTIONARY], Some(&[RLE_DICTIONARY])), Some(None));
        assert_eq!(
            bytes(None, &[PLAIN, RLE, RLE_DICTIONARY], Some(&[RLE_DICTIONARY, PLAIN])),
            Some(Some(600))
        );
        assert_eq!(bytes(None, &[DELTA_BYTE_ARRAY], None), Some(None));
        assert_eq!(bytes(Some(70_000), &[PLAIN, RLE, RLE_DICTIONARY], None), Some(Some(70_000)));
        assert_eq!(bytes(Some(-1), &[PLAIN], None), None);
    }
}
