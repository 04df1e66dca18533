//! Writes counts files.

use std::io::Write;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::PretokenCounts;
use super::checksum::{self, Checksum};
use super::counts_file::{CountsInfo, KEY, schema};
use super::fault::{Fault, io_error};
use crate::base::int::{Count, to_u64};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::split::SplitPattern;

/// Most rows of a batch.
const ROWS: usize = 1 << 16;

/// Most bytes (16 MiB) of the pre-tokens in a batch, unless it has one pre-token only.
const BATCH_BYTES: usize = 16 << 20;

/// Writes a counts file: Parquet with the columns `pretoken` and `count`.
///
/// The rows are sorted by the bytes of the pre-tokens. If `info.ordered`, they are in order of first appearance
/// instead, and a third column, `first`, numbers them from 0.
///
/// Equal pre-tokens become one row with the sum of their counts. With `info.ordered` they must be distinct: they are
/// not compared here, and [`read_counts`](super::read_counts) refuses a file with equal ones.
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
/// let pre-tokens: PretokenCounts = [(&b" cat"[..], Count::new(1)), (b"the", Count::new(2))].into_iter().collect();
/// let info = CountsInfo { pattern: "gpt2".parse()?, ..CountsInfo::default() };
/// write_counts(std::fs::File::create(&path)?, &path, &pre-tokens, &info, &Silent)?;
/// assert_eq!(read_counts(&path)?.pretokens, pre-tokens);
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
    if info.ordered {
        pretokens.iter().try_for_each(|(pretoken, count)| writer.push(pretoken, count))?;
        return writer.end();
    }
    for same in
        pretokens.by_bytes().chunk_by(|one, other| pretokens.pretoken(*one) == pretokens.pretoken(*other))
    {
        let pretoken = pretokens.pretoken(same[0]);
        let add = |sum: Count, index: &usize| sum.checked_add(pretokens.counts[*index]);
        let count = same.iter().try_fold(Count::ZERO, add);
        writer.push(pretoken, count.ok_or_else(|| Fault::Overflow { pretoken: pretoken.to_vec() })?)?;
    }
    writer.end()
}

/// Writes a counts file, pre-token by pre-token, in the order of the file.
pub(super) struct CountsWriter<'a, W: Write + Send> {
    path: &'a Path,
    observer: &'a dyn Observer,
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    ordered: bool,
    /// Number of rows written.
    rows: u64,
    /// The rows of the next batch.
    pretokens: BinaryBuilder,
    counts: Vec<u64>,
    bytes: usize,
    checksum: Checksum,
}

impl<'a, W: Write + Send> CountsWriter<'a, W> {
    /// Starts a counts file. `path` appears in error messages only.
    pub(super) fn begin(
        out: W,
        path: &'a Path,
        info: &CountsInfo,
        observer: &'a dyn Observer,
    ) -> Result<CountsWriter<'a, W>> {
        if info.pattern == SplitPattern::None {
            return Err(Fault::Unsplit.into());
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
            checksum: Checksum::new(&text),
        })
    }

    /// Adds a row. The caller must keep the order of the file.
    pub(super) fn push(&mut self, pretoken: &[u8], count: Count) -> Result<()> {
        if i32::try_from(pretoken.len()).is_err() {
            return Err(Fault::PretokenTooLong { bytes: pretoken.len() }.into());
        }
        if self.counts.len() == ROWS || self.bytes + pretoken.len() > BATCH_BYTES {
            self.write()?;
        }
        self.checksum.add(pretoken, count);
        self.pretokens.append_value(pretoken);
        self.counts.push(count.get());
        self.bytes += pretoken.len();
        Ok(())
    }

    /// Writes the remaining rows and the footer.
    pub(super) fn end(mut self) -> Result<()> {
        self.write()?;
        let checksum = KeyValue::new(checksum::KEY.to_owned(), self.checksum.get());
        self.writer.append_key_value_metadata(checksum);
        self.writer.close().map_err(|cause| write_error(self.path, cause))?;
        Ok(())
    }

    /// Writes the rows of the batch.
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
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_owned(), info)]))
        .build()
}

/// Returns a write error. If an I/O error caused it (a full disk, for example), the result is an I/O error.
fn write_error(path: &Path, cause: ParquetError) -> Error {
    let fault = |cause| Fault::Write { path: path.to_path_buf(), cause }.into();
    io_error(cause).map_or_else(fault, |cause| Error::io("write", path, *cause))
}
