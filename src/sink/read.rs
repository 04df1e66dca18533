//! Reads token ids from Parquet files and from files of bare ids.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{Array, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;

use super::error::SinkError;
use super::flat_file::{FlatFileReader, FlatIndex};
use super::folder::data_files;
use super::layout::DATA_FOLDER;
use super::manifest::Manifest;
use super::manifest::{same_tokens, split_of};
use super::schema::{DECLARATION_KEY, Declaration, INPUT_IDS};
use crate::base::int::{TokenId, to_u64};
use crate::base::panics::catching;
use crate::base::version;
use crate::encode::{TokenBatch, TokenIds};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{check_index, check_pages};

/// Token ids per batch, about, if rows are not longer.
pub(super) const BATCH_IDS: u64 = 1 << 20;

/// Rows per batch, at most.
pub(super) const BATCH_ROWS: u64 = 1 << 13;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";

/// Reads rows of token ids in order, from an output folder or a single file. Files of other programs can be read too:
/// Parquet files with a column `input_ids` that is a list of integers, and `.bin` files with their `.idx`. The latter
/// do not distinguish null rows from empty ones.
///
/// In the batches, `unit` is the number of the file, counted from 0. Text and pass-through columns are missing.
/// [`ShardWriter`](super::ShardWriter) has an example.
///
/// After an error, the iterator ends.
///
/// **Memory:** a batch of about a million ids, or one longer row, and a page of the file.
pub struct TokenReader {
    paths: Vec<PathBuf>,
    /// The number of the next file to open.
    next: usize,
    /// The open file; `None` at the end and after an error.
    open: Option<FileReader>,
    /// The declaration of the first file, with which the others must agree.
    declaration: Option<Declaration>,
}

impl fmt::Debug for TokenReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenReader")
            .field("paths", &self.paths)
            .field("next", &self.next)
            .field("declaration", &self.declaration)
            .finish_non_exhaustive()
    }
}

/// A file of either kind.
enum FileReader {
    Parquet(Box<ParquetFileReader>),
    Flat(FlatFileReader),
}

impl FileReader {
    /// Opens a file: bare ids if its name ends in `.bin`, otherwise Parquet.
    fn open(number: usize, path: PathBuf) -> Result<FileReader> {
        if is_flat(&path) {
            return Ok(FileReader::Flat(FlatFileReader::open(number, path)?));
        }
        Ok(FileReader::Parquet(Box::new(ParquetFileReader::open(number, path)?)))
    }

    fn read(&mut self) -> Result<Option<TokenBatch>> {
        match self {
            FileReader::Parquet(file) => file.read(),
            FileReader::Flat(file) => file.read(),
        }
    }

    /// The declaration in the file, or the manifest's if the format cannot hold one.
    fn declaration(&self, of_all: Option<&Declaration>) -> Result<Option<Declaration>> {
        match self {
            FileReader::Parquet(file) => file.declaration(),
            FileReader::Flat(_) => Ok(of_all.cloned()),
        }
    }
}

/// Whether a file has bare ids.
fn is_flat(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("bin"))
}

/// A Parquet file that is being read, one row group at a time.
struct ParquetFileReader {
    number: usize,
    path: PathBuf,
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

/// The help for a file without token ids.
const NAME_TOKENS: &str = "name files of token ids, or the output folder of `run` or `encode`";

impl TokenReader {
    /// Opens an output folder, its `data` folder, or a single file. In a folder, the files that the manifest lists
    /// are read, or without a manifest all data files.
    ///
    /// # Errors
    /// The folder has no data files, or the first file is not Parquet or has no column of token ids.
    pub fn open(path: &Path) -> Result<TokenReader> {
        TokenReader::open_split(path, None)
    }

    /// Opens the files of one split of a folder, or of all splits if `split` is `None`. For a single file, `split` is
    /// ignored.
    ///
    /// # Errors
    /// Those of [`open`](TokenReader::open), or the folder has no such split ([`ErrorKind::Usage`]).
    pub fn open_split(path: &Path, split: Option<&str>) -> Result<TokenReader> {
        let (mut paths, declaration) =
            if path.is_dir() { files_of(path)? } else { (vec![path.to_path_buf()], None) };
        if let Some(split) = split.filter(|_| path.is_dir()) {
            let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            paths.retain(|path| split_of(&name(path)) == split);
            if paths.is_empty() {
                let error = SinkError::NoSplit { folder: path.to_path_buf(), split: split.to_owned() };
                return Err(Error::new(ErrorKind::Usage, error));
            }
        }
        let Some(first) = paths.first() else {
            return Err(Error::new(ErrorKind::Failed, SinkError::NoFiles { folder: path.to_path_buf() })
                .with_help("name the output folder of `run` or `encode`, or its files"));
        };
        let first = FileReader::open(0, first.clone())?;
        let declaration = first.declaration(declaration.as_ref())?;
        Ok(TokenReader { paths, next: 1, open: Some(first), declaration })
    }

    /// What the files declare about their tokens: the tokenizer, and the tokens before and after each row. `None` for
    /// files of other programs.
    pub fn declaration(&self) -> Option<&Declaration> {
        self.declaration.as_ref()
    }

    /// Whether null rows are distinguished from empty ones in all files.
    pub fn tells_nulls(&self) -> bool {
        !self.paths.iter().any(|path| is_flat(path))
    }

    /// The next batch. Opens the next file when one ends.
    ///
    /// # Errors
    /// A file cannot be read, is damaged, or declares other tokens than the first one.
    fn advance(&mut self) -> Result<Option<TokenBatch>> {
        loop {
            if let Some(file) = &mut self.open
                && let Some(batch) = file.read()?
            {
                return Ok(Some(batch));
            }
            self.open = None;
            let Some(path) = self.paths.get(self.next) else { return Ok(None) };
            let file = FileReader::open(self.next, path.clone())?;
            if !same_tokens(file.declaration(self.declaration.as_ref())?.as_ref(), self.declaration.as_ref())
            {
                let (path, first) = (path.clone(), self.paths[0].clone());
                return Err(Error::new(ErrorKind::Failed, SinkError::DeclarationDiffers { path, first })
                    .with_help("read one at a time: they are from different jobs"));
            }
            self.open = Some(file);
            self.next += 1;
        }
    }
}

impl Iterator for TokenReader {
    type Item = Result<TokenBatch>;

    fn next(&mut self) -> Option<Result<TokenBatch>> {
        let next = self.advance();
        if next.is_err() {
            self.open = None;
            self.next = self.paths.len();
        }
        next.transpose()
    }
}

/// The data files of a folder, and the declaration in its manifest.
fn files_of(folder: &Path) -> Result<(Vec<PathBuf>, Option<Declaration>)> {
    if let Some(manifest) = Manifest::read(folder)? {
        let paths = manifest.files.iter().map(|file| folder.join(&file.name)).collect();
        return Ok((paths, manifest.declaration));
    }
    let mut paths = data_files(folder)?;
    paths.retain(|path| path.extension() != Some(OsStr::new("idx")));
    match folder.parent() {
        Some(output) if paths.is_empty() && folder.ends_with(DATA_FOLDER) => files_of(output),
        _ => Ok((paths, None)),
    }
}

/// The columns of a Parquet file.
pub(super) fn columns_of(path: &Path) -> Result<arrow_schema::Fields> {
    Ok(load(path)?.schema().fields().clone())
}

/// Number of rows that a file declares.
pub(super) fn row_count(path: &Path) -> Result<u64> {
    if is_flat(path) {
        return Ok(to_u64(FlatIndex::read(path)?.lengths.len()));
    }
    let metadata = load(path)?;
    Ok(u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// Reads the footer of a Parquet file, after checking it for sizes that would exhaust memory.
fn load(path: &Path) -> Result<ArrowReaderMetadata> {
    let file = File::open(path).map_err(|cause| Error::io("read", path, cause))?;
    check_begin(&file, path)?;
    guarded(path, None, || {
        check_index(&file)?;
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
    })
}

/// Checks the first bytes of a file: a file of another kind was named by mistake.
fn check_begin(mut file: &File, path: &Path) -> Result<()> {
    let mut begin = Vec::new();
    let read = file.take(to_u64(MAGIC.len())).read_to_end(&mut begin).and_then(|_| file.rewind());
    read.map_err(|cause| Error::io("read", path, cause))?;
    if begin == MAGIC {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Failed, SinkError::NotParquet { path: path.to_path_buf() })
        .with_help("name a file of token ids, or the output folder of `run` or `encode`"))
}

/// Runs `read`, and turns a panic of the Parquet reader into an error. It panics on some damaged files.
fn guarded<R>(
    path: &Path,
    row_group: Option<usize>,
    read: impl FnOnce() -> Result<R, ParquetError>,
) -> Result<R> {
    let error = match catching(read) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(cause)) => SinkError::Parquet { path: path.to_path_buf(), row_group, cause },
        Err(parsable_records) => {
            SinkError::ParquetPanic { path: path.to_path_buf(), row_group, parsable_records }
        }
    };
    Err(Error::new(ErrorKind::Failed, error))
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
            let error = SinkError::NoTokenColumn { path, column: INPUT_IDS, found };
            return Err(Error::new(ErrorKind::Usage, error).with_help(NAME_TOKENS));
        };
        if !is_tokens(field.data_type()) {
            let error = SinkError::NotTokens { path, column: INPUT_IDS, found: field.data_type().clone() };
            return Err(Error::new(ErrorKind::Usage, error).with_help(NAME_TOKENS));
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
        let damaged = |cause| {
            Error::new(ErrorKind::Failed, SinkError::DeclarationDamaged { path: self.path.clone(), cause })
        };
        version::check(&self.path, text.as_bytes(), damaged)?;
        serde_json::from_str(text).map(Some).map_err(damaged)
    }

    /// The next batch; `None` at the end of the file.
    fn read(&mut self) -> Result<Option<TokenBatch>> {
        loop {
            let group = self.next_group;
            if let Some(batches) = &mut self.batches {
                let place = Some(group - 1);
                let batch = guarded(&self.path, place, || Ok(batches.next().transpose()?))?;
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
    fn end_group(&mut self, group: usize) -> Result<()> {
        self.batches = None;
        let declared = self.metadata.metadata().row_group(group).num_rows();
        let found = self.row - std::mem::replace(&mut self.group_row, self.row);
        if u64::try_from(declared) == Ok(found) {
            return Ok(());
        }
        let cause =
            ParquetError::General(format!("it has {found} rows where the file's index says {declared}"));
        let error = SinkError::Parquet { path: self.path.clone(), row_group: Some(group), cause };
        Err(Error::new(ErrorKind::Failed, error))
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
    fn batch_rows(&self, group: usize) -> usize {
        let ids = self.id_columns(group).map(|column| column.num_values().unsigned_abs()).max().unwrap_or(0);
        let rows = self.metadata.metadata().row_group(group).num_rows().unsigned_abs().max(1);
        let batch = BATCH_IDS / (ids / rows).max(1);
        usize::try_from(batch.clamp(1, BATCH_ROWS)).expect("at most 8192")
    }

    /// The rows of a batch that Arrow's reader gives.
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
    fn rows<O: OffsetSizeTrait>(&self, list: &GenericListArray<O>) -> Result<TokenBatch> {
        let offsets = list.value_offsets();
        let first = offsets[0].as_usize();
        let values = list.values().slice(first, offsets[list.len()].as_usize() - first);
        let row_of = |place: usize| {
            let row = offsets.partition_point(|offset| offset.as_usize() <= first + place) - 1;
            self.row + to_u64(row)
        };
        let error = |error| Err(Error::new(ErrorKind::Failed, error));
        if let Some(nulls) = values.nulls()
            && let Some(place) = (0..values.len()).find(|&place| nulls.is_null(place))
        {
            return error(SinkError::NullId { path: self.path.clone(), row: row_of(place) });
        }
        let converted = match values.data_type() {
            DataType::Int32 => ids_of::<Int32Type>(&values),
            DataType::Int64 => ids_of::<Int64Type>(&values),
            DataType::UInt16 => ids_of::<UInt16Type>(&values),
            _ => ids_of::<UInt32Type>(&values),
        };
        let ids = match converted {
            Ok(ids) => ids,
            Err((place, id)) => {
                return error(SinkError::BadId { path: self.path.clone(), row: row_of(place), id });
            }
        };
        let nulls = match list.nulls() {
            Some(nulls) => nulls.iter().map(|valid| !valid).collect(),
            None => Vec::new(),
        };
        Ok(TokenBatch {
            source: 0,
            unit: self.number,
            first_row: self.row,
            ids,
            ends: offsets[1..].iter().map(|end| end.as_usize() - first).collect(),
            nulls,
            text_bytes: 0,
            text_lengths: vec![0; list.len()],
            columns: None,
        })
    }
}

/// Whether a type is a list of token ids: of `int32`, `int64`, `uint16` or `uint32`.
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
    let id = |(place, &value): (usize, &T::Native)| match value.try_into() {
        Ok(id) => Ok(TokenId::new(id)),
        Err(_) => Err((place, value.into())),
    };
    values.iter().enumerate().map(id).collect::<Result<Vec<_>, _>>().map(TokenIds::from)
}
