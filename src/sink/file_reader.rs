//! Reads one file of token ids, Parquet or bare ids, in batches of rows.
//!
//! Files may come from anywhere, so sizes that a file declares are checked before memory is taken for them, and a
//! panic of the Parquet reader becomes an error.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int32Type, Int64Type, UInt16Type, UInt32Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;

use super::flat_file::{FlatIndex, index_damaged};
use super::layout::{index_path, is_flat};
use super::schema::{DECLARATION_KEY, Declaration, INPUT_IDS, IdWidth};
use crate::base::int::{TokenId, to_u64, to_usize, u64_to_usize};
use crate::base::integrity;
use crate::encode::{TokenBatch, TokenIds};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::source::{check_index, check_pages};

/// Token ids per batch, about, if rows are not longer. That is 2 to 4 MiB of ids.
const BATCH_IDS: u64 = 1 << 20;

/// Rows per batch, at most. Short rows would otherwise take more memory for their ends than for their ids.
const BATCH_ROWS: u64 = 1 << 13;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";

/// A file of token ids that is being read, Parquet or bare ids. Both give batches of rows in the order of the file.
pub(super) enum FileReader {
    /// Boxed, because it is much larger than the other.
    Parquet(Box<ParquetFileReader>),
    /// Bare ids with the index beside them.
    Flat(FlatFileReader),
}

impl FileReader {
    /// Opens a file: bare ids if its name ends in `.bin`, otherwise Parquet. `number` becomes the `unit` of the
    /// batches.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or has no token ids.
    pub(super) fn open(number: usize, path: PathBuf) -> Result<FileReader> {
        if is_flat(&path) {
            return Ok(FileReader::Flat(FlatFileReader::open(number, path)?));
        }
        Ok(FileReader::Parquet(Box::new(ParquetFileReader::open(number, path)?)))
    }

    /// The next batch; `None` at the end of the file. No batch is empty.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub(super) fn read(&mut self) -> Result<Option<TokenBatch>> {
        match self {
            FileReader::Parquet(file) => file.read(),
            FileReader::Flat(file) => file.read(),
        }
    }

    /// The declaration in the file, or the manifest's if the format cannot hold one.
    ///
    /// # Errors
    /// The declaration in a Parquet file cannot be read.
    pub(super) fn declaration(&self, of_all: Option<&Declaration>) -> Result<Option<Declaration>> {
        match self {
            FileReader::Parquet(file) => file.declaration(),
            FileReader::Flat(_) => Ok(of_all.cloned()),
        }
    }
}

/// A Parquet file that is being read, one row group at a time.
///
/// Only the column of token ids is read. The footer is loaded once, and each row group opens the file again.
pub(super) struct ParquetFileReader {
    /// The number of the file, which becomes the `unit` of batches.
    number: usize,
    /// The path for opening row groups and for messages.
    path: PathBuf,
    /// The footer.
    metadata: ArrowReaderMetadata,
    /// The index of the column of token ids among the top-level columns.
    column: usize,
    /// The number of the next row group to open.
    next_group: usize,
    /// The reader of the current row group.
    batches: Option<ParquetRecordBatchReader>,
    /// The number of the next row.
    row: u64,
    /// The number of the row group's first row.
    group_row: u64,
}

/// The error that a column of token ids is missing or of another kind.
fn no_tokens(path: &Path, problem: impl fmt::Display) -> Error {
    Error::usage(format!("{}: column {INPUT_IDS:?} {problem}", path.display()))
        .with_help("name files of token ids, or the output folder of `run` or `encode`")
}

impl ParquetFileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It is not a Parquet file, is damaged, or has no column of token ids.
    fn open(number: usize, path: PathBuf) -> Result<ParquetFileReader> {
        let metadata = load(&path)?;
        let fields = metadata.schema().fields();
        let Some((column, field)) = fields.find(INPUT_IDS) else {
            let found = fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
            return Err(no_tokens(&path, format!("not found; it has {found}")));
        };
        if !is_tokens(field.data_type()) {
            let found = field.data_type();
            return Err(no_tokens(&path, format!("is {found}, not a list of token ids")));
        }
        Ok(ParquetFileReader {
            number,
            path,
            metadata,
            column,
            next_group: 0,
            batches: None,
            row: 0,
            group_row: 0,
        })
    }

    /// The declaration in the file's metadata; `None` if it has none.
    ///
    /// # Errors
    /// It cannot be read, or is of a later version.
    fn declaration(&self) -> Result<Option<Declaration>> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata();
        let pair = pairs.into_iter().flatten().find(|pair| pair.key == DECLARATION_KEY);
        let Some(text) = pair.and_then(|pair| pair.value.as_deref()) else { return Ok(None) };
        let damaged = |cause: serde_json::Error| {
            let problem = format!("{}: its token metadata cannot be read", self.path.display());
            Error::caused(ErrorKind::Failed, problem, cause)
        };
        integrity::check_format_version(&self.path, text.as_bytes(), damaged)?;
        serde_json::from_str(text).map(Some).map_err(damaged)
    }

    /// The next batch; `None` at the end of the file.
    ///
    /// A row group without rows gives no batch.
    ///
    /// # Errors
    /// A row group cannot be read, has other rows than it declares, or holds a value that is no token id.
    fn read(&mut self) -> Result<Option<TokenBatch>> {
        loop {
            let group = self.next_group;
            if let Some(batches) = &mut self.batches {
                let batch = guarded(&self.path, Some(group - 1), || Ok(batches.next().transpose()?))?;
                match batch {
                    Some(batch) if batch.num_rows() > 0 => return self.tokens(&batch).map(Some),
                    Some(_) => continue,
                    None => self.end_group(group - 1)?,
                }
            }
            if group == self.metadata.metadata().num_row_groups() {
                return Ok(None);
            }
            self.batches = Some(self.open_group(group)?);
            self.next_group += 1;
        }
    }

    /// Ends a row group, and checks that it gave all of its rows: a damaged one can end early.
    ///
    /// # Errors
    /// The row group ended early.
    fn end_group(&mut self, group: usize) -> Result<()> {
        self.batches = None;
        let declared = self.metadata.metadata().row_group(group).num_rows();
        let found = self.row - std::mem::replace(&mut self.group_row, self.row);
        if u64::try_from(declared) == Ok(found) {
            return Ok(());
        }
        let cause =
            ParquetError::General(format!("it has {found} rows where the file's index says {declared}"));
        Err(unreadable(&self.path, Some(group), cause))
    }

    /// Opens a row group, after checking its pages for sizes that would exhaust memory. Only the column of token ids
    /// is read.
    fn open_group(&self, group: usize) -> Result<ParquetRecordBatchReader> {
        let file = File::open(&self.path).map_err(|cause| Error::io("read", &self.path, cause))?;
        guarded(&self.path, Some(group), || {
            self.id_columns(group).try_for_each(|column| check_pages(&file, column, |_| Ok(())))?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
            let columns = ProjectionMask::roots(builder.parquet_schema(), [self.column]);
            builder
                .with_projection(columns)
                .with_row_groups(vec![group])
                .with_batch_size(self.batch_rows(group))
                .build()
        })
    }

    /// The footer entries of the id column in a row group.
    fn id_columns(&self, group: usize) -> impl Iterator<Item = &ColumnChunkMetaData> {
        let columns = self.metadata.metadata().row_group(group).columns().iter();
        columns.filter(|column| column.column_path().parts()[0] == INPUT_IDS)
    }

    /// Rows per batch, from the figures that the file declares for the group. A wrong figure only costs memory for
    /// one batch.
    ///
    /// The average length of the rows decides: about [`BATCH_IDS`] ids, and at most [`BATCH_ROWS`] rows.
    fn batch_rows(&self, group: usize) -> usize {
        let ids = self.id_columns(group).map(|column| column.num_values().unsigned_abs()).max().unwrap_or(0);
        let rows = self.metadata.metadata().row_group(group).num_rows().unsigned_abs().max(1);
        let batch = BATCH_IDS / (ids / rows).max(1);
        usize::try_from(batch.clamp(1, BATCH_ROWS)).expect("at most 8192")
    }

    /// The rows of a batch that Arrow's reader gives, numbered from [`row`](ParquetFileReader::row) on.
    fn tokens(&mut self, batch: &RecordBatch) -> Result<TokenBatch> {
        let column = batch.column(0);
        let batch = match column.data_type() {
            DataType::LargeList(_) => self.rows(column.as_list::<i64>()),
            _ => self.rows(column.as_list::<i32>()),
        }?;
        self.row += to_u64(batch.len());
        Ok(batch)
    }

    /// A batch of the rows in a column of lists.
    ///
    /// Positions in errors are rows of the file, counted from 0.
    ///
    /// # Errors
    /// An id is null, negative, or has more than 32 bits.
    fn rows<O: OffsetSizeTrait>(&self, list: &GenericListArray<O>) -> Result<TokenBatch> {
        let offsets = list.value_offsets();
        let first = offsets[0].as_usize();
        let values = list.values().slice(first, offsets[list.len()].as_usize() - first);
        let row_of = |index: usize| {
            let row = offsets.partition_point(|offset| offset.as_usize() <= first + index) - 1;
            self.row + to_u64(row)
        };
        if let Some(nulls) = values.nulls()
            && let Some(index) = (0..values.len()).find(|&index| nulls.is_null(index))
        {
            let (path, row) = (self.path.display(), row_of(index));
            return Err(Error::failed(format!("{path}: row {row} holds a null among its ids")));
        }
        let converted = match values.data_type() {
            DataType::Int32 => ids_of::<Int32Type>(&values),
            DataType::Int64 => ids_of::<Int64Type>(&values),
            DataType::UInt16 => ids_of::<UInt16Type>(&values),
            _ => ids_of::<UInt32Type>(&values),
        };
        let ids = converted.map_err(|(index, id)| {
            let (path, row) = (self.path.display(), row_of(index));
            Error::failed(format!("{path}: row {row} holds {id}, which is not a token id"))
        })?;
        let nulls = list.nulls().map_or_else(Vec::new, |valid| valid.iter().map(|valid| !valid).collect());
        let ends = offsets[1..].iter().map(|end| end.as_usize() - first).collect();
        Ok(batch_of(self.number, self.row, ids, ends, nulls))
    }
}

/// A batch of the rows of a file: its text and pass-through columns are not known. Text lengths are 0, so that every
/// row has one. `nulls` is empty if no row is null.
fn batch_of(unit: usize, first_row: u64, ids: TokenIds, ends: Vec<usize>, nulls: Vec<bool>) -> TokenBatch {
    let text_lengths = vec![0; ends.len()];
    TokenBatch { source: 0, unit, first_row, ids, ends, nulls, text_bytes: 0, text_lengths, columns: None }
}

/// The columns of a Parquet file.
///
/// # Errors
/// The file cannot be read, or is not Parquet.
pub(super) fn columns_of(path: &Path) -> Result<arrow::datatypes::Fields> {
    Ok(load(path)?.schema().fields().clone())
}

/// Number of rows that a file declares. For bare ids, the index declares it.
///
/// # Errors
/// The file or its index cannot be read or is damaged.
pub(super) fn row_count(path: &Path) -> Result<u64> {
    if is_flat(path) {
        return Ok(to_u64(FlatIndex::read(path)?.lengths.len()));
    }
    let metadata = load(path)?;
    Ok(u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// Reads the footer of a Parquet file, after checking it for sizes that would exhaust memory.
///
/// # Errors
/// The file is not Parquet, its footer is damaged, or it cannot be read.
fn load(path: &Path) -> Result<ArrowReaderMetadata> {
    let file = File::open(path).map_err(|cause| Error::io("read", path, cause))?;
    check_begin(&file, path)?;
    guarded(path, None, || {
        check_index(&file)?;
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
    })
}

/// Checks the first bytes of a file: a file of another kind was named by mistake. Leaves the position at the
/// beginning.
fn check_begin(mut file: &File, path: &Path) -> Result<()> {
    let mut begin = Vec::new();
    let read = file.take(to_u64(MAGIC.len())).read_to_end(&mut begin).and_then(|_| file.rewind());
    read.map_err(|cause| Error::io("read", path, cause))?;
    if begin == MAGIC {
        return Ok(());
    }
    Err(Error::failed(format!("{} is not a Parquet file: it does not begin with PAR1", path.display()))
        .with_help("name a file of token ids, or the output folder of `run` or `encode`"))
}

/// Runs `read`, and turns a panic of the Parquet reader into an error. It panics on some damaged files. `row_group`
/// only completes the message.
fn guarded<R>(
    path: &Path,
    row_group: Option<usize>,
    read: impl FnOnce() -> Result<R, ParquetError>,
) -> Result<R> {
    match catch_panic(read) {
        Ok(read) => read.map_err(|cause| unreadable(path, row_group, cause)),
        Err(message) => {
            let (path, place) = (path.display(), in_row_group(row_group));
            Err(Error::failed(format!("{path}: damaged{place}; the Parquet reader gave up: {message}")))
        }
    }
}

/// Whether a type is a list of token ids: of `int32`, `int64`, `uint16` or `uint32`. Signed types are accepted,
/// because many programs write them. Negative values are found while reading.
fn is_tokens(data_type: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else { return false };
    matches!(item.data_type(), DataType::Int32 | DataType::Int64 | DataType::UInt16 | DataType::UInt32)
}

/// The values as token ids, or the index and value of the first that is not a token id.
fn ids_of<T: ArrowPrimitiveType>(values: &dyn Array) -> Result<TokenIds, (usize, i64)>
where
    T::Native: TryInto<u32> + Into<i64>,
{
    let values = values.as_primitive::<T>().values();
    let id = |(index, &value): (usize, &T::Native)| match value.try_into() {
        Ok(id) => Ok(TokenId::new(id)),
        Err(_) => Err((index, value.into())),
    };
    values.iter().enumerate().map(id).collect::<Result<Vec<_>, _>>().map(TokenIds::from)
}

/// A file of ids that is being read.
pub(super) struct FlatFileReader {
    /// The number of the file, which batches have as `unit`.
    number: usize,
    /// The path of the ids. That of the index follows from it.
    path: PathBuf,
    /// The file of ids, at the first id of the next row.
    ids: BufReader<File>,
    /// The length of each row, for the whole file.
    index: FlatIndex,
    /// The number of the next row.
    row: usize,
}

impl FlatFileReader {
    /// Opens a file and its index.
    ///
    /// # Errors
    /// Those of [`FlatIndex::read`].
    pub(super) fn open(number: usize, path: PathBuf) -> Result<FlatFileReader> {
        let index = FlatIndex::read(&path)?;
        let file = File::open(&path).map_err(|cause| Error::io("read", &path, cause))?;
        Ok(FlatFileReader { number, path, ids: BufReader::new(file), index, row: 0 })
    }

    /// The next rows, at most [`BATCH_ROWS`] with about [`BATCH_IDS`] ids; `None` at the end.
    ///
    /// A single longer row is a batch of its own.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than its index says.
    pub(super) fn read(&mut self) -> Result<Option<TokenBatch>> {
        let first = self.row;
        let mut ends: Vec<usize> = Vec::new();
        for &length in self.index.lengths[first..].iter().take(u64_to_usize(BATCH_ROWS)) {
            let end = ends.last().copied().unwrap_or(0) + to_usize(length);
            if to_u64(end) > BATCH_IDS && !ends.is_empty() {
                break;
            }
            ends.push(end);
        }
        let Some(&count) = ends.last() else { return Ok(None) };
        let mut bytes = Vec::new();
        let wanted = to_u64(count) * self.index.width.bytes();
        let read = (&mut self.ids).take(wanted).read_to_end(&mut bytes);
        read.map_err(|cause| Error::io("read", &self.path, cause))?;
        if to_u64(bytes.len()) < wanted {
            let problem = "it does not fit the size of the file of ids";
            return Err(index_damaged(&index_path(&self.path), problem));
        }
        let ids = match self.index.width {
            IdWidth::Two => {
                let ids = bytes.as_chunks::<2>().0.iter();
                ids.map(|id| u16::from_le_bytes(*id)).collect::<Vec<_>>().into()
            }
            IdWidth::Four => {
                let ids = bytes.as_chunks::<4>().0.iter();
                ids.map(|id| TokenId::new(u32::from_le_bytes(*id))).collect::<Vec<_>>().into()
            }
        };
        self.row += ends.len();
        Ok(Some(batch_of(self.number, to_u64(first), ids, ends, Vec::new())))
    }
}

/// The error that a row group, or the footer if `row_group` is `None`, cannot be read.
fn unreadable(path: &Path, row_group: Option<usize>, cause: ParquetError) -> Error {
    let problem = format!("{}: cannot be read as Parquet{}", path.display(), in_row_group(row_group));
    Error::caused(ErrorKind::Failed, problem, cause)
}

/// The place in a message: empty for the footer.
fn in_row_group(row_group: Option<usize>) -> String {
    row_group.map_or_else(String::new, |number| format!(", row group {number}"))
}
