//! The format of counts files.
//!
//! A counts file is a Parquet file. Each row is a distinct pre-token:
//!
//! | column | type | content |
//! | --- | --- | --- |
//! | `pretoken` | binary | the bytes of the pre-token, not empty |
//! | `count` | 64-bit unsigned integer | how often it occurs, at least 1 |
//! | `first` | 64-bit unsigned integer | the number of the row; only if the file is in order of first appearance |
//!
//! Without the column `first`, rows are sorted by `pretoken`. The key-value metadata of the file has the [`CountsInfo`]
//! as JSON under `tokenmill.counts`, and a [`Checksum`] of it and of all rows under `tokenmill.counts.sha256`.
//!
//! [`CountsWriter`] writes such a file row by row. [`CountsReader`] reads one row by row, and checks all that it reads.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, mem};

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, LargeBinaryArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use sha2::{Digest, Sha256};

use super::pretokens::{BYTES_EACH, BYTES_EACH_INDEXED, DistinctPretokens, PretokenReader, sum_of_counts};
use super::{Boundary, PretokenCounts};
use crate::base::int::{ByteCount, Count, to_u64};
use crate::base::integrity;
use crate::base::integrity::hex;
use crate::error::catch_panic;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::{check_index, check_pages};
use crate::split::{SplitPattern, splitter};
use crate::{FORMAT_VERSION, VERSION};

/// The name of the first column: the bytes of each pre-token.
pub(super) const PRETOKEN: &str = "pretoken";
/// The name of the second column: the count of each pre-token.
pub(super) const COUNT: &str = "count";
/// The name of the third column, which only a file in order of first appearance has.
const FIRST: &str = "first";
/// The metadata key of the [`CountsInfo`], as JSON.
pub const INFO_KEY: &str = "tokenmill.counts";

/// The metadata of a counts file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CountsInfo {
    /// [`FORMAT_VERSION`] of the program that wrote the file.
    pub format_version: u32,
    /// The split pattern. It must not be [`SplitPattern::None`].
    pub pattern: SplitPattern,
    /// The extent of a text that was split on its own.
    pub boundary: Boundary,
    /// The special tokens that were removed from the text.
    pub special_tokens: Vec<String>,
    /// The sources that were counted: their names and identities, as the run describes them.
    pub sources: serde_json::Value,
    /// Whether the pre-tokens are in order of first appearance, which the tie rule `first` needs. Otherwise they are
    /// sorted by their bytes.
    pub ordered: bool,
    /// Version of the program that counted.
    pub tool_version: String,
}

impl CountsInfo {
    /// Describes the counts of another program. Nothing else is known of them.
    ///
    /// # Errors
    /// The split cannot be used, or is none ([`ErrorKind::Usage`]).
    ///
    /// ```
    /// use tokenmill::count::{Boundary, CountsInfo};
    ///
    /// let info = CountsInfo::of_split("gpt2".parse()?, Boundary::Document, &[])?;
    /// assert!(!info.ordered);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    pub fn of_split(
        pattern: SplitPattern,
        boundary: Boundary,
        special_tokens: &[String],
    ) -> Result<CountsInfo> {
        if pattern == SplitPattern::None {
            return Err(Error::usage("counts need a split").with_help("name the split of the pre-tokens"));
        }
        splitter(&pattern)?;
        Ok(CountsInfo { pattern, boundary, special_tokens: special_tokens.to_vec(), ..CountsInfo::default() })
    }
}

impl Default for CountsInfo {
    /// Returns the versions of this program, and empty values otherwise.
    fn default() -> CountsInfo {
        CountsInfo {
            format_version: FORMAT_VERSION,
            pattern: SplitPattern::default(),
            boundary: Boundary::default(),
            special_tokens: Vec::new(),
            sources: serde_json::Value::Null,
            ordered: false,
            tool_version: VERSION.to_owned(),
        }
    }
}

/// The contents of a counts file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsFile {
    /// The pre-tokens. [`CountsInfo::ordered`] says in which order.
    pub pretokens: PretokenCounts,
    /// The metadata.
    pub info: CountsInfo,
}

/// Returns the columns of a counts file.
pub(super) fn schema(ordered: bool) -> Schema {
    let mut fields =
        vec![Field::new(PRETOKEN, DataType::Binary, false), Field::new(COUNT, DataType::UInt64, false)];
    if ordered {
        fields.push(Field::new(FIRST, DataType::UInt64, false));
    }
    Schema::new(fields)
}

/// Reads and checks a counts file. A damaged or foreign file is an error, never a wrong count.
///
/// **Memory:** that of the [`PretokenCounts`]. For a file in order of first appearance, 11 to 32 bytes more for each
/// pre-token while reading.
///
/// # Errors
/// The file cannot be read, is not a counts file, or contains values that no counts file can contain.
pub fn read_counts(path: &Path) -> Result<CountsFile> {
    read_counts_within(path, ByteCount(u64::MAX))
}

/// Does the same as [`read_counts`]. Pre-tokens that take more than `limit` are an error.
pub(super) fn read_counts_within(path: &Path, limit: ByteCount) -> Result<CountsFile> {
    let mut reader = CountsReader::open(path)?;
    let mut distinct = DistinctPretokens::default();
    let ordered = reader.info.ordered;
    while reader.advance()? {
        let (pretoken, count, _) = reader.current();
        if ordered {
            // In a file sorted by bytes, the reader itself detects equal pre-tokens.
            let Err(hash) = distinct.find(pretoken) else {
                let row = distinct.pretokens.len();
                return Err(damaged(path, format_args!("the pre-token is repeated in row {row}")));
            };
            distinct.push(hash, pretoken, count)?;
        } else {
            distinct.pretokens.push(pretoken, count);
        }
        distinct.pretokens.check_fits(if ordered { BYTES_EACH_INDEXED } else { BYTES_EACH }, limit)?;
    }
    let pretokens = distinct.pretokens;
    Ok(CountsFile { pretokens, info: reader.info })
}

/// Reads the metadata of a counts file, without the counts.
///
/// # Errors
/// The file cannot be read, or is not a counts file.
pub fn read_counts_info(path: &Path) -> Result<CountsInfo> {
    CountsReader::open(path).map(|reader| reader.info)
}

/// Reads the metadata of a counts file; `None` if it is a Parquet file without it, as other programs write them.
///
/// # Errors
/// The file cannot be read, is not Parquet, or is a damaged counts file.
pub(crate) fn read_counts_info_if_ours(path: &Path) -> Result<Option<CountsInfo>> {
    let file = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
    let is_ours = decoded(path, || {
        let builder = builder(&file).map_err(|cause| parquet_error(path, cause))?;
        Ok(value(builder.metadata().file_metadata().key_value_metadata(), INFO_KEY).is_some())
    })?;
    if is_ours { read_counts_info(path).map(Some) } else { Ok(None) }
}

/// Returns the number of distinct pre-tokens in a counts file, as its index declares it. The counts are not read.
///
/// # Errors
/// The file cannot be read, or is not a counts file.
pub fn read_counts_len(path: &Path) -> Result<u64> {
    CountsReader::open(path).map(|reader| reader.declared)
}

/// The metadata key of the checksum in a counts file.
pub(super) const CHECKSUM_KEY: &str = "tokenmill.counts.sha256";

/// Bytes that are buffered for one call of the hash function.
const AT_ONCE: usize = 16 << 10;

/// The checksum of a counts file: the SHA-256 of its [`CountsInfo`], as the JSON in the file, and
/// of its rows.
///
/// Each row gives the length of the pre-token, its bytes, and its count. Both numbers have eight bytes,
/// little-endian.
#[derive(Debug)]
pub(super) struct Checksum {
    /// The hash of the JSON and of the rows that are not in `rows`.
    hash: Sha256,
    /// Encoded rows that are not hashed yet, fewer than [`AT_ONCE`] bytes between calls.
    rows: Vec<u8>,
}

impl Checksum {
    /// Starts a checksum with the JSON of the [`CountsInfo`].
    pub(super) fn new(info: &str) -> Checksum {
        Checksum { hash: Sha256::new_with_prefix(info), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, pretoken: &[u8], count: Count) {
        self.rows.extend_from_slice(&to_u64(pretoken.len()).to_le_bytes());
        self.rows.extend_from_slice(pretoken);
        self.rows.extend_from_slice(&count.get().to_le_bytes());
        if self.rows.len() >= AT_ONCE {
            self.hash.update(&self.rows);
            self.rows.clear();
        }
    }

    /// Returns the checksum of the rows so far, in hexadecimal.
    pub(super) fn get(&self) -> String {
        hex(&self.hash.clone().chain_update(&self.rows).finalize())
    }
}

/// Rows per batch.
pub(super) const ROWS_PER_READ: usize = 1 << 13;

/// Reads and checks a counts file, pre-token by pre-token. A damaged or foreign file is an error, never a wrong
/// count. One thing is not checked: whether a file in order of first appearance has equal pre-tokens.
///
/// **Memory:** a page of each column and 8 192 pre-tokens: a few MB, unless pre-tokens are long.
pub(super) struct CountsReader {
    /// The path of the file, for messages.
    path: PathBuf,
    /// The metadata of the file, which was checked when the file was opened.
    pub(super) info: CountsInfo,
    /// The batches that are not read yet.
    batches: ParquetRecordBatchReader,
    /// The current batch, empty at first.
    batch: Batch,
    /// Number of rows of the batch that were read.
    read: usize,
    /// Number of rows of the earlier batches.
    before: u64,
    /// The last pre-token of the previous batch.
    last: Vec<u8>,
    /// Number of rows by the index of the file.
    declared: u64,
    /// The checksum of the rows so far.
    checksum: Checksum,
    /// The checksum in the metadata, if the file has one.
    declared_checksum: Option<String>,
}

/// A batch of rows of a counts file.
struct Batch {
    /// The bytes of the pre-tokens, with 64-bit offsets.
    pretokens: LargeBinaryArray,
    /// The count of each pre-token.
    counts: UInt64Array,
    /// The third column of a file in order of first appearance.
    first_positions: Option<UInt64Array>,
}

impl Batch {
    /// Creates a batch without rows, for the times before the first batch and after the last one.
    fn empty() -> Batch {
        Batch {
            pretokens: Vec::<&[u8]>::new().into(),
            counts: Vec::<u64>::new().into(),
            first_positions: None,
        }
    }
}

impl CountsReader {
    /// Opens a counts file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a counts file.
    pub(super) fn open(path: &Path) -> Result<CountsReader> {
        let file = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
        decoded(path, || CountsReader::begin(&file, path))
    }

    /// Checks the metadata and the columns, and starts reading.
    fn begin(file: &File, path: &Path) -> Result<CountsReader> {
        let failed = |cause| parquet_error(path, cause);
        let builder = builder(file).map_err(failed)?;
        let rows = builder.metadata().row_groups().iter().map(|group| group.num_rows());
        // A negative number of rows is invalid; as `u64::MAX` it never equals the number of rows that are read.
        let declared = rows.fold(0_u64, |sum, rows| sum.saturating_add(rows.try_into().unwrap_or(u64::MAX)));
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let (text, info) = info(metadata, path)?;
        let checksum = Checksum::new(text);
        let declared_checksum = value(metadata, CHECKSUM_KEY).map(str::to_owned);
        let found = builder.schema().fields().iter().map(|field| (field.name(), field.data_type()));
        let expected = schema(info.ordered);
        if !found.eq(expected.fields().iter().map(|field| (field.name(), field.data_type()))) {
            return Err(not_counts(path, "its columns are not those of a counts file"));
        }
        let batches = with_long_offsets(&builder, file).map_err(failed)?;
        let (path, batch, last) = (path.to_path_buf(), Batch::empty(), Vec::new());
        Ok(CountsReader {
            path,
            info,
            batches,
            batch,
            read: 0,
            before: 0,
            last,
            declared,
            checksum,
            declared_checksum,
        })
    }

    /// Reads the next batch. Returns `false` at the end of the file, after checking the number of rows and the
    /// checksum.
    fn next_batch(&mut self) -> Result<bool> {
        if let Some(last) = self.batch.pretokens.len().checked_sub(1) {
            self.last.clear();
            self.last.extend_from_slice(self.batch.pretokens.value(last));
        }
        self.before += to_u64(self.batch.pretokens.len());
        (self.batch, self.read) = (Batch::empty(), 0);
        let Some(batch) = decoded(&self.path, || Ok(self.batches.next()))? else {
            if self.before == self.declared {
                return self.check().map(|()| false);
            }
            let problem = format!("it has {} rows, but its index says {}", self.before, self.declared);
            return Err(parquet_error(&self.path, ParquetError::General(problem)));
        };
        let batch: RecordBatch = batch.map_err(|cause| {
            Error::caused(ErrorKind::Failed, format!("{} is damaged", self.path.display()), cause)
                .with_help(COUNT_AGAIN)
        })?;
        let is_null = |row: &usize| batch.columns().iter().any(|column| column.is_null(*row));
        if let Some(row) = (0..batch.num_rows()).find(is_null) {
            return Err(self.wrong(row, "a value is missing"));
        }
        self.batch = Batch {
            pretokens: batch.column(0).as_binary().clone(),
            counts: batch.column(1).as_primitive::<UInt64Type>().clone(),
            first_positions: self.info.ordered.then(|| batch.column(2).as_primitive::<UInt64Type>().clone()),
        };
        Ok(true)
    }

    /// Checks that the rows have the checksum in the metadata. A file without a checksum passes.
    fn check(&self) -> Result<()> {
        let checksum = self.checksum.get();
        match &self.declared_checksum {
            Some(declared) if *declared != checksum => {
                Err(damaged(&self.path, "its counts or pre-tokens do not match its checksum"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the problem with a row, if it has one.
    fn problem(&self, row: usize) -> Option<&'static str> {
        let Batch { pretokens, counts, first_positions } = &self.batch;
        let before = if row > 0 { pretokens.value(row - 1) } else { &*self.last };
        if first_positions
            .as_ref()
            .is_some_and(|first_positions| first_positions.value(row) != self.before + to_u64(row))
        {
            Some("the first appearances are out of order")
        } else if pretokens.value(row).is_empty() {
            Some("the pre-token is empty")
        } else if counts.value(row) == 0 {
            Some("the count is zero")
        } else if first_positions.is_none() && before >= pretokens.value(row) {
            Some("the pre-token is repeated or out of order")
        } else {
            None
        }
    }

    /// Returns the error for a row of this batch.
    fn wrong(&self, row: usize, problem: &'static str) -> Error {
        damaged(&self.path, format_args!("{problem} in row {}", self.before + to_u64(row)))
    }
}

impl PretokenReader for CountsReader {
    /// Reads and checks the next row.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is not in order. At its end, also if the checksum or the number of
    /// rows is wrong.
    fn advance(&mut self) -> Result<bool> {
        while self.read == self.batch.pretokens.len() {
            if !self.next_batch()? {
                return Ok(false);
            }
        }
        if let Some(problem) = self.problem(self.read) {
            return Err(self.wrong(self.read, problem));
        }
        self.checksum
            .add(self.batch.pretokens.value(self.read), Count::new(self.batch.counts.value(self.read)));
        self.read += 1;
        Ok(true)
    }

    /// The first position is the number of the row. In an ordered file this is the order of first appearance.
    fn current(&self) -> (&[u8], Count, u64) {
        let (Batch { pretokens, counts, .. }, row) = (&self.batch, self.read - 1);
        (pretokens.value(row), Count::new(counts.value(row)), self.before + to_u64(row))
    }
}

/// Reads the index of the file, after checking the sizes that the index and the page headers declare.
pub(super) fn builder(file: &File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    check_index(file)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.try_clone()?)?;
    let mut columns = builder.metadata().row_groups().iter().flat_map(|group| group.columns());
    columns.try_for_each(|column| check_pages(file, column, |_| Ok(())))?;
    Ok(builder)
}

/// Returns a reader with 64-bit offsets, so that the pre-tokens of a batch may have 2 GiB or more.
///
/// # Errors
/// The file cannot be read, or its columns cannot be read with this schema.
fn with_long_offsets(
    builder: &ParquetRecordBatchReaderBuilder<File>,
    file: &File,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let mut fields = builder.schema().fields().to_vec();
    fields[0] = Arc::new(fields[0].as_ref().clone().with_data_type(DataType::LargeBinary));
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(builder.metadata()), options)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata);
    builder.with_batch_size(ROWS_PER_READ).build()
}

/// Returns the metadata of the file, as JSON and parsed.
///
/// # Errors
/// The metadata is missing or is not valid JSON of a [`CountsInfo`], or the file has a version that this program does
/// not read.
fn info<'m>(metadata: Option<&'m Vec<KeyValue>>, path: &Path) -> Result<(&'m str, CountsInfo)> {
    let Some(text) = value(metadata, INFO_KEY) else {
        return Err(not_counts(path, "it lacks the metadata of a counts file").with_help(
            "give a file that `tokenmill count` wrote, or name the split of the counts if another program wrote them",
        ));
    };
    let wrong = |cause| {
        let problem = format!("{}: the value of its metadata key {INFO_KEY} is invalid", path.display());
        Error::caused(ErrorKind::Failed, problem, cause).with_help(COUNT_AGAIN)
    };
    integrity::check_format_version(path, text.as_bytes(), wrong)?;
    Ok((text, serde_json::from_str(text).map_err(wrong)?))
}

/// Returns the value of a metadata key.
fn value<'m>(metadata: Option<&'m Vec<KeyValue>>, key: &str) -> Option<&'m str> {
    metadata.into_iter().flatten().find(|entry| entry.key == key)?.value.as_deref()
}

/// Calls the Parquet reader, which panics on some malformed files, and returns a panic as an error.
pub(super) fn decoded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic(decode).unwrap_or_else(|panic| Err(parquet_error(path, ParquetError::General(panic))))
}

/// Returns a read error. If an I/O error caused it, the result is an I/O error, because the file need not be damaged.
/// An unexpected end of the file counts as damage.
pub(super) fn parquet_error(path: &Path, cause: ParquetError) -> Error {
    let fault = |cause| {
        Error::caused(ErrorKind::Failed, format!("{} is damaged or not Parquet", path.display()), cause)
            .with_help(COUNT_AGAIN)
    };
    match io_error(cause) {
        Ok(cause) if cause.kind() != io::ErrorKind::UnexpectedEof => Error::io("read", path, *cause),
        Ok(cause) => fault(ParquetError::External(cause)),
        Err(other) => fault(other),
    }
}

/// Number of pre-tokens, approximately, that are copied in the order of the file at a time.
const ROWS_PER_COPY: usize = if cfg!(test) { 2 } else { 1 << 18 };

/// Maximum number of rows of a batch.
const ROWS_PER_WRITE: usize = 1 << 16;

/// Maximum number of bytes (16 MiB) of the pre-tokens in a batch, unless it has one pre-token only.
const BATCH_BYTES: usize = 16 << 20;

/// Writes a counts file: Parquet with the columns `pretoken` and `count`.
///
/// The rows are sorted by the bytes of the pre-tokens. If `info.ordered`, they are in order of first appearance
/// instead, and a third column, `first`, numbers them from 0.
///
/// Equal pre-tokens become one row with the sum of their counts. With `info.ordered` they must be distinct: they are
/// not compared here, and [`read_counts`] refuses a file with equal ones.
///
/// The metadata contain a checksum, which reading verifies. The bytes depend on `pretokens` and `info` alone. `path`
/// appears in error messages only.
///
/// **Memory:** 16 bytes for each pre-token, about 20 MB, and the compressed size of a million pre-tokens.
///
/// # Errors
/// The pattern is [`SplitPattern::None`], a pre-token has 2 GiB or more, the sum of its counts exceeds 2⁶⁴ − 1,
/// writing fails, or the observer stops the run.
///
/// ```
/// use tokenmill::count::{CountsInfo, read_counts, write_counts};
/// use tokenmill::observer::Silent;
/// use tokenmill::{Count, PretokenCounts};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("counts.parquet");
/// let pretokens: PretokenCounts = [(&b" cat"[..], Count::new(1)), (b"the", Count::new(2))].into_iter().collect();
/// let info = CountsInfo { pattern: "gpt2".parse()?, ..CountsInfo::default() };
/// write_counts(std::fs::File::create(&path)?, &path, &pretokens, &info, &Silent)?;
/// assert_eq!(read_counts(&path)?.pretokens, pretokens);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_counts(
    out: impl Write + Send,
    path: &Path,
    pretokens: &PretokenCounts,
    info: &CountsInfo,
    observer: &dyn Observer,
) -> Result<()> {
    let mut writer = CountsWriter::begin(out, path, info, observer)?;
    writer.push_all(pretokens)?;
    writer.end().map(|_| ())
}

/// Writes a counts file, pre-token by pre-token, in the order of the file.
///
/// The footer is written by [`end`](CountsWriter::end) alone. A file without it is not a counts file.
///
/// **Memory:** the rows of a batch, and what Parquet buffers of a row group.
pub(super) struct CountsWriter<'a, W: Write + Send> {
    /// The path of the file, for messages.
    path: &'a Path,
    /// Asked before each batch whether to stop.
    observer: &'a dyn Observer,
    /// Writes batches as Parquet.
    writer: ArrowWriter<W>,
    /// Two columns, or three if the file is ordered.
    schema: Arc<Schema>,
    /// Whether the file is in order of first appearance, and so has the column `first`.
    ordered: bool,
    /// Number of rows written.
    rows: u64,
    /// The pre-tokens of the next batch.
    pretokens: BinaryBuilder,
    /// The counts of the next batch, one per pre-token.
    counts: Vec<u64>,
    /// Bytes of the pre-tokens of the next batch, at most [`BATCH_BYTES`] unless one pre-token has more.
    bytes: usize,
    /// Bytes of the pre-tokens of all rows.
    pretoken_bytes: u64,
    /// The checksum of the rows so far, including those of the next batch.
    checksum: Checksum,
}

impl<'a, W: Write + Send> CountsWriter<'a, W> {
    /// Starts a counts file. `path` appears in error messages only.
    ///
    /// # Errors
    /// The split pattern is [`SplitPattern::None`], or nothing can be written to `out`.
    pub(super) fn begin(
        out: W,
        path: &'a Path,
        info: &CountsInfo,
        observer: &'a dyn Observer,
    ) -> Result<CountsWriter<'a, W>> {
        if info.pattern == SplitPattern::None {
            let problem = "counts without a split cannot be saved: each pre-token would be a whole document";
            return Err(
                Error::usage(problem).with_help("choose a split pattern, or train from the text directly")
            );
        }
        let schema = Arc::new(schema(info.ordered));
        let text = serde_json::to_string(info).expect("names and numbers are JSON");
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties(text.clone())));
        Ok(CountsWriter {
            path,
            observer,
            writer: writer.map_err(|cause| write_error(path, cause))?,
            schema,
            ordered: info.ordered,
            rows: 0,
            pretokens: BinaryBuilder::new(),
            counts: Vec::new(),
            bytes: 0,
            pretoken_bytes: 0,
            checksum: Checksum::new(&text),
        })
    }

    /// Adds all pre-tokens, in the order of the file. Equal ones become one row, unless the file is in order of first
    /// appearance.
    ///
    /// # Errors
    /// Those of [`push`](CountsWriter::push), or a sum of equal pre-tokens exceeds 2⁶⁴ − 1.
    pub(super) fn push_all(&mut self, pretokens: &PretokenCounts) -> Result<()> {
        if self.ordered {
            return pretokens.iter().try_for_each(|(pretoken, count)| self.push(pretoken, count));
        }
        let order = pretokens.by_bytes();
        let same = |one: &usize, other: &usize| pretokens.pretoken(*one) == pretokens.pretoken(*other);
        let mut rest = &order[..];
        while !rest.is_empty() {
            let mut length = rest.len().min(ROWS_PER_COPY);
            while length < rest.len() && same(&rest[length - 1], &rest[length]) {
                length += 1;
            }
            // In this order, the pre-tokens are scattered in memory. All threads wait for it.
            let sorted = pretokens.copied(rest.split_off(..length).unwrap_or_default());
            let mut rows = sorted.iter().flat_map(PretokenCounts::iter).peekable();
            while let Some((pretoken, mut count)) = rows.next() {
                while let Some((_, more)) = rows.next_if(|(next, _)| *next == pretoken) {
                    count = sum_of_counts(pretoken, count, more)?;
                }
                self.push(pretoken, count)?;
            }
        }
        Ok(())
    }

    /// Adds a row. The caller must keep the order of the file.
    ///
    /// # Errors
    /// The pre-token has 2 GiB or more, a batch cannot be written, or the observer stops the run.
    pub(super) fn push(&mut self, pretoken: &[u8], count: Count) -> Result<()> {
        if i32::try_from(pretoken.len()).is_err() {
            // The offsets of the column have 31 bits.
            let bytes = pretoken.len();
            return Err(Error::failed(format!("a pre-token of {bytes} bytes is too long for a counts file"))
                .with_help("use a split pattern that gives shorter pre-tokens"));
        }
        if self.counts.len() == ROWS_PER_WRITE || self.bytes + pretoken.len() > BATCH_BYTES {
            self.write()?;
        }
        self.checksum.add(pretoken, count);
        self.pretokens.append_value(pretoken);
        self.counts.push(count.get());
        self.bytes += pretoken.len();
        self.pretoken_bytes += to_u64(pretoken.len());
        Ok(())
    }

    /// Writes the remaining rows and the footer. Returns the number of rows, and the bytes of all pre-tokens.
    ///
    /// # Errors
    /// The file cannot be written, or the observer stops the run.
    pub(super) fn end(mut self) -> Result<(u64, u64)> {
        self.write()?;
        let checksum = KeyValue::new(CHECKSUM_KEY.to_owned(), self.checksum.get());
        self.writer.append_key_value_metadata(checksum);
        self.writer.close().map_err(|cause| write_error(self.path, cause))?;
        Ok((self.rows, self.pretoken_bytes))
    }

    /// Writes the rows of the batch.
    ///
    /// Does nothing if there are none.
    fn write(&mut self) -> Result<()> {
        self.observer.checkpoint()?;
        if self.counts.is_empty() {
            return Ok(());
        }
        let rows = to_u64(self.counts.len());
        let counts = UInt64Array::from(mem::take(&mut self.counts));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.pretokens.finish()), Arc::new(counts)];
        if self.ordered {
            columns.push(Arc::new(UInt64Array::from_iter_values(self.rows..self.rows + rows)));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.expect("the columns are made after the schema");
        (self.rows, self.bytes) = (self.rows + rows, 0);
        self.writer.write(&batch).map_err(|cause| write_error(self.path, cause))
    }
}

/// Returns the settings of the file: compressed with zstd, without dictionaries, because all pre-tokens differ.
fn properties(info: String) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(vec![KeyValue::new(INFO_KEY.to_owned(), info)]))
        .build()
}

/// Returns a write error. If an I/O error caused it (a full disk, for example), the result is an I/O error.
fn write_error(path: &Path, cause: ParquetError) -> Error {
    let fault = |cause| Error::caused(ErrorKind::Failed, format!("cannot write {}", path.display()), cause);
    io_error(cause).map_or_else(fault, |cause| Error::io("write", path, *cause))
}

/// What to do about a damaged file.
const COUNT_AGAIN: &str = "count the corpus again";

/// Returns the error of a file with impossible content.
fn damaged(path: &Path, problem: impl Display) -> Error {
    Error::failed(format!("{} is damaged: {problem}", path.display())).with_help(COUNT_AGAIN)
}

/// Returns the error of a Parquet file of another kind.
pub(super) fn not_counts(path: &Path, problem: &str) -> Error {
    Error::failed(format!("{} is not a counts file: {problem}", path.display()))
        .with_help("give a file that `tokenmill count` wrote")
}

/// Returns the I/O error within a Parquet error, or `Err` with the Parquet error if it contains none.
fn io_error(cause: ParquetError) -> Result<Box<io::Error>, ParquetError> {
    match cause {
        ParquetError::External(inner) => inner.downcast().map_err(ParquetError::External),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::observer::Silent;
    use crate::split::NamedPattern;

    fn info(ordered: bool) -> CountsInfo {
        CountsInfo {
            pattern: SplitPattern::Named(NamedPattern::Gpt4),
            special_tokens: vec!["<s>".to_owned()],
            sources: serde_json::json!([{ "name": "a.txt" }]),
            ordered,
            ..CountsInfo::default()
        }
    }

    fn written(pretokens: &PretokenCounts, info: &CountsInfo) -> Vec<u8> {
        let mut file = Vec::new();
        write_counts(&mut file, "counts.parquet".as_ref(), pretokens, info, &Silent)
            .expect("memory takes everything");
        file
    }

    fn read_bytes(bytes: &[u8]) -> Result<CountsFile> {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path: PathBuf = folder.path().join("counts.parquet");
        fs::write(&path, bytes).expect("room for a small file");
        read_counts(&path)
    }

    fn pretokens(entries: &[(&str, u64)]) -> PretokenCounts {
        entries.iter().map(|(pretoken, count)| (pretoken.as_bytes(), Count::new(*count))).collect()
    }

    #[test]
    fn writing_can_be_stopped() {
        struct Stops;
        impl crate::observer::Observer for Stops {
            fn stopping(&self) -> bool {
                true
            }
        }
        for ordered in [true, false] {
            let stopped =
                write_counts(Vec::new(), "x".as_ref(), &pretokens(&[("a", 1)]), &info(ordered), &Stops);
            assert_eq!(stopped.expect_err("stopped").kind(), ErrorKind::Interrupted);
        }
    }

    #[test]
    fn counts_of_a_later_version_are_refused_by_name() {
        let later = CountsInfo { format_version: 2, ..info(false) };
        let refused = read_bytes(&written(&pretokens(&[("a", 1)]), &later)).expect_err("nobody knows it yet");
        assert!(refused.to_string().contains("counts.parquet: format version 2"), "{refused}");
    }

    #[test]
    fn what_is_written_is_read() {
        let counted =
            pretokens(&[(" the", u64::MAX), ("a", 3), ("\n", 1), (" a longer pretoken than fifteen", 7)]);
        for ordered in [true, false] {
            let read = read_bytes(&written(&counted, &info(ordered))).expect("a right file");
            assert_eq!(read.info, info(ordered));
            let mut expected: Vec<_> = counted.iter().collect();
            if !ordered {
                expected.sort();
            }
            assert_eq!(read.pretokens.iter().collect::<Vec<_>>(), expected);
        }
        let empty = read_bytes(&written(&PretokenCounts::new(), &info(false))).expect("a right file");
        assert!(empty.pretokens.is_empty());
    }

    #[test]
    fn equal_pretokens_are_written_once() {
        let counted = pretokens(&[("b", 1), ("a", 2), ("", 3), ("b", 4), ("c", 0), ("b", 5)]);
        let read = read_bytes(&written(&counted, &info(false))).expect("a right file");
        assert_eq!(read.pretokens, pretokens(&[("a", 2), ("b", 10)]));
        let often = pretokens(&[("b", u64::MAX), ("b", 1)]);
        let error =
            write_counts(Vec::new(), "x".as_ref(), &often, &info(false), &Silent).expect_err("too often");
        assert!(error.to_string().contains(r#""b" does not fit in 64 bits"#), "{error}");
    }

    #[test]
    fn many_rows_keep_their_order() {
        let names: Vec<String> =
            (0..150_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
        let counted: PretokenCounts = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
        let read = read_bytes(&written(&counted, &info(true))).expect("a right file");
        assert!(read.pretokens == counted);
    }

    #[test]
    fn wrong_counts_are_refused() {
        for entries in [["a", "a", "b"], ["b", "a", "b"]] {
            for ordered in [true, false] {
                let (mut file, info) = (Vec::new(), info(ordered));
                let writer = CountsWriter::begin(&mut file, "counts.parquet".as_ref(), &info, &Silent);
                let mut writer = writer.expect("memory takes everything");
                entries
                    .iter()
                    .for_each(|pretoken| writer.push(pretoken.as_bytes(), Count::ONE).expect("as before"));
                writer.end().expect("as before");
                let error = read_bytes(&file).expect_err("twice the same");
                assert!(error.to_string().contains("row"), "{error}");
            }
        }
        // Rows are read in batches of 8 192. The last row of the first batch occurs again as the next row.
        let mut names: Vec<String> = (0..8_192).map(|n| format!("{n:04}")).collect();
        names.push(names[8_191].clone());
        let (mut file, info_of_many) = (Vec::new(), info(false));
        let mut writer = CountsWriter::begin(&mut file, "counts.parquet".as_ref(), &info_of_many, &Silent)
            .expect("as before");
        names.iter().for_each(|name| writer.push(name.as_bytes(), Count::ONE).expect("as before"));
        writer.end().expect("as before");
        let error = read_bytes(&file).expect_err("twice the same");
        assert!(error.to_string().contains("row 8192"), "{error}");
        let unsplit = CountsInfo { pattern: SplitPattern::None, ..info(false) };
        let error = write_counts(Vec::new(), "x".as_ref(), &PretokenCounts::new(), &unsplit, &Silent)
            .expect_err("no split");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_foreign_or_missing_file_is_an_error() {
        assert!(read_counts("nowhere/counts.parquet".as_ref()).is_err());
        for bytes in [&b""[..], b"PAR1", b"no parquet at all, but long enough for a footer"] {
            assert!(read_bytes(bytes).is_err());
        }
        let mut file = written(&pretokens(&[("a", 1)]), &info(false));
        let metadata = &b"\"ordered\":false"[..];
        let at =
            file.windows(metadata.len()).position(|bytes| bytes == metadata).expect("metadata is plain JSON");
        file[at..at + metadata.len()].copy_from_slice(b"\"ordered\":true ");
        let error = read_bytes(&file).expect_err("there is no column of the order");
        assert!(error.to_string().contains("columns"), "{error}");
    }

    struct Full;

    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let error =
            write_counts(Full, "counts.parquet".as_ref(), &pretokens(&[("a", 1)]), &info(false), &Silent);
        assert_eq!(error.expect_err("nothing fits").kind(), ErrorKind::DiskFull);
    }

    proptest! {
        #[test]
        fn damaged_files_are_errors_or_right(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
            let names: Vec<String> = (0..500).map(|n| format!("pretoken {n}")).collect();
            let counts = (1..).map(|n| Count::new(n * n));
            let counted: PretokenCounts = names.iter().map(String::as_bytes).zip(counts).collect();
            let mut file = written(&counted, &info(true));
            let place = at.index(file.len());
            file[place] = byte;
            let read = read_bytes(&file);
            prop_assert!(read.is_err() || read.is_ok_and(|read| read.pretokens == counted && read.info == info(true)));
            file.truncate(cut.index(file.len()));
            prop_assert!(read_bytes(&file).is_err());
        }
    }
}
