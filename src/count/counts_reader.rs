//! Reads counts files, and checks everything that it reads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, LargeBinaryArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::checksum::{self, Checksum};
use super::counts_file::{CountsInfo, KEY, schema};
use super::fault::{Fault, io_error};
use super::merge::PretokenReader;
use crate::base::int::{Count, to_u64};
use crate::base::panics::catching;
use crate::base::version;
use crate::error::{Error, Result};
use crate::source::{check_index, check_pages};

/// Rows per batch.
const ROWS: usize = 1 << 13;

/// Reads and checks a counts file, pre-token by pre-token. A damaged or foreign file is an error, never a wrong
/// count. One thing is not checked: whether a file in order of first appearance has equal pre-tokens.
///
/// **Memory:** a page of each column and 8 192 pre-tokens: a few MB, unless pre-tokens are long.
pub(super) struct CountsReader {
    path: PathBuf,
    info: CountsInfo,
    batches: ParquetRecordBatchReader,
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
    pretokens: LargeBinaryArray,
    counts: UInt64Array,
    /// The third column of a file in order of first appearance.
    firsts: Option<UInt64Array>,
}

impl Batch {
    fn empty() -> Batch {
        Batch { pretokens: Vec::<&[u8]>::new().into(), counts: Vec::<u64>::new().into(), firsts: None }
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
        let declared_checksum = value(metadata, checksum::KEY).map(str::to_owned);
        let found = builder.schema().fields().iter().map(|field| (field.name(), field.data_type()));
        let expected = schema(info.ordered);
        if !found.eq(expected.fields().iter().map(|field| (field.name(), field.data_type()))) {
            return Err(Fault::NotCounts {
                path: path.to_path_buf(),
                problem: "its columns are not those of a counts file",
            }
            .into());
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

    /// Returns the metadata of the file.
    pub(super) fn info(&self) -> &CountsInfo {
        &self.info
    }

    /// Closes the file and returns its metadata.
    pub(super) fn into_info(self) -> CountsInfo {
        self.info
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
        let batch: RecordBatch = batch.map_err(|cause| Fault::Data { path: self.path.clone(), cause })?;
        let is_null = |row: &usize| batch.columns().iter().any(|column| column.is_null(*row));
        if let Some(row) = (0..batch.num_rows()).find(is_null) {
            return Err(self.wrong(row, "a value is missing"));
        }
        self.batch = Batch {
            pretokens: batch.column(0).as_binary().clone(),
            counts: batch.column(1).as_primitive::<UInt64Type>().clone(),
            firsts: self.info.ordered.then(|| batch.column(2).as_primitive::<UInt64Type>().clone()),
        };
        Ok(true)
    }

    /// Checks that the rows have the checksum in the metadata. A file without a checksum passes.
    fn check(&self) -> Result<()> {
        let checksum = self.checksum.get();
        match &self.declared_checksum {
            Some(declared) if *declared != checksum => {
                Err(Fault::Checksum { path: self.path.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the problem with a row, if it has one.
    fn problem(&self, row: usize) -> Option<&'static str> {
        let Batch { pretokens, counts, firsts } = &self.batch;
        let before = if row > 0 { pretokens.value(row - 1) } else { &*self.last };
        if firsts.as_ref().is_some_and(|firsts| firsts.value(row) != self.before + to_u64(row)) {
            Some("the first appearances are out of order")
        } else if pretokens.value(row).is_empty() {
            Some("the pre-token is empty")
        } else if counts.value(row) == 0 {
            Some("the count is zero")
        } else if firsts.is_none() && before >= pretokens.value(row) {
            Some("the pre-token is repeated or out of order")
        } else {
            None
        }
    }

    /// Returns the error for a row of this batch.
    fn wrong(&self, row: usize, problem: &'static str) -> Error {
        Fault::Row { path: self.path.clone(), row: self.before + to_u64(row), problem }.into()
    }
}

impl PretokenReader for CountsReader {
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

    fn pretoken(&self) -> &[u8] {
        self.batch.pretokens.value(self.read - 1)
    }

    fn count(&self) -> Count {
        Count::new(self.batch.counts.value(self.read - 1))
    }

    fn first(&self) -> u64 {
        self.before + to_u64(self.read - 1)
    }
}

/// Reads the index of the file, after checking the sizes that the index and the page headers declare.
fn builder(file: &File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    check_index(file)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.try_clone()?)?;
    let mut columns = builder.metadata().row_groups().iter().flat_map(|group| group.columns());
    columns.try_for_each(|column| check_pages(file, column, |_| Ok(())))?;
    Ok(builder)
}

/// Returns a reader with 64-bit offsets, so that the pre-tokens of a batch may have 2 GiB or more.
fn with_long_offsets(
    builder: &ParquetRecordBatchReaderBuilder<File>,
    file: &File,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let mut fields = builder.schema().fields().to_vec();
    fields[0] = Arc::new(fields[0].as_ref().clone().with_data_type(DataType::LargeBinary));
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(builder.metadata()), options)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata);
    builder.with_batch_size(ROWS).build()
}

/// Returns the metadata of the file, as JSON and parsed.
fn info<'m>(metadata: Option<&'m Vec<KeyValue>>, path: &Path) -> Result<(&'m str, CountsInfo)> {
    let Some(text) = value(metadata, KEY) else {
        let problem = "it lacks the metadata of a counts file";
        return Err(Fault::NotCounts { path: path.to_path_buf(), problem }.into());
    };
    let wrong = |cause| Fault::Metadata { path: path.to_path_buf(), key: KEY, cause }.into();
    version::check(path, text.as_bytes(), wrong)?;
    Ok((text, serde_json::from_str(text).map_err(wrong)?))
}

/// Returns the value of a metadata key.
fn value<'m>(metadata: Option<&'m Vec<KeyValue>>, key: &str) -> Option<&'m str> {
    metadata.into_iter().flatten().find(|entry| entry.key == key)?.value.as_deref()
}

/// Calls the Parquet reader, which panics on some malformed files, and returns a panic as an error.
fn decoded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catching(decode).unwrap_or_else(|said| Err(parquet_error(path, ParquetError::General(said))))
}

/// Returns a read error. If an I/O error caused it, the result is an I/O error, because the file need not be damaged.
/// An unexpected end of the file counts as damage.
fn parquet_error(path: &Path, cause: ParquetError) -> Error {
    let fault = |cause| Fault::Parquet { path: path.to_path_buf(), cause }.into();
    match io_error(cause) {
        Ok(cause) if cause.kind() != io::ErrorKind::UnexpectedEof => Error::io("read", path, *cause),
        Ok(cause) => fault(ParquetError::External(cause)),
        Err(other) => fault(other),
    }
}
