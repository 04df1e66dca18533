use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::fault::Fault;
use super::{Boundary, PieceCounts};
use super::{entry::hash_of_bytes, index::HashIndex};
use crate::declared::{check_index, check_pages};
use crate::error::{Error, Result};
use crate::panics::catching;
use crate::split::SplitPattern;
use crate::units::{Count, amount};

const PIECE: &str = "piece";
const COUNT: &str = "count";
const FIRST: &str = "first";
pub(super) const KEY: &str = "tokenmill.counts";
pub(super) const ROWS: usize = 1 << 16;

/// What a counts file says of itself.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CountsInfo {
    /// The pattern that cut the text.
    pub pattern: SplitPattern,
    /// What ended a text.
    pub boundary: Boundary,
    /// The special tokens that were cut out.
    pub special_tokens: Vec<String>,
    /// What was counted: the sources' names and identities, as the run describes them.
    pub sources: serde_json::Value,
    /// Whether the pieces are in order of first appearance, which the tie rule `first` needs; else in
    /// order of their bytes.
    pub ordered: bool,
    /// Version of the program that counted.
    pub tool_version: String,
}

/// A counts file that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsFile {
    /// The pieces, in the order that `info.ordered` tells.
    pub pieces: PieceCounts,
    /// What the file says of itself.
    pub info: CountsInfo,
}

pub(super) fn schema(ordered: bool) -> Schema {
    let mut fields =
        vec![Field::new(PIECE, DataType::Binary, false), Field::new(COUNT, DataType::UInt64, false)];
    if ordered {
        fields.push(Field::new(FIRST, DataType::UInt64, false));
    }
    Schema::new(fields)
}

/// Reads a counts file, and checks it: a damaged or foreign file is an error, never a wrong count.
///
/// **Memory:** that of the [`PieceCounts`], and while reading 32 bytes more for each piece.
///
/// # Errors
/// The file cannot be read, is not a counts file, or holds what no counts file can hold.
pub fn read_counts(path: &Path) -> Result<CountsFile> {
    let file = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
    // The Parquet reader panics on some malformed files.
    catching(|| read(&file, path))
        .unwrap_or_else(|said| Err(parquet_error(path, ParquetError::General(said))))
}

/// Reads what a counts file says of itself, without the counts.
///
/// # Errors
/// The file cannot be read or is not a counts file.
pub fn read_counts_info(path: &Path) -> Result<CountsInfo> {
    let file = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
    let read = || {
        let builder = begin(&file).map_err(|cause| parquet_error(path, cause))?;
        info(builder.metadata().file_metadata().key_value_metadata(), path)
    };
    catching(read).unwrap_or_else(|said| Err(parquet_error(path, ParquetError::General(said))))
}

/// Reads the index, and looks over what it and the pages declare.
fn begin(file: &File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    check_index(file)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.try_clone()?)?;
    let mut columns = builder.metadata().row_groups().iter().flat_map(|group| group.columns());
    columns.try_for_each(|column| check_pages(file, column))?;
    Ok(builder)
}

fn read(file: &File, path: &Path) -> Result<CountsFile> {
    let failed = |cause| parquet_error(path, cause);
    let builder = begin(file).map_err(failed)?;
    let groups = builder.metadata().row_groups().iter();
    let declared = groups.fold(0_i64, |rows, group| rows.saturating_add(group.num_rows()));
    let info = info(builder.metadata().file_metadata().key_value_metadata(), path)?;
    let found = builder.schema().fields().iter().map(|field| (field.name(), field.data_type()));
    let expected = schema(info.ordered);
    if !found.eq(expected.fields().iter().map(|field| (field.name(), field.data_type()))) {
        return Err(Fault::NotCounts { path: path.to_path_buf(), problem: "its columns are others" }.into());
    }
    let mut rows =
        Rows { path, ordered: info.ordered, pieces: PieceCounts::new(), index: HashIndex::default() };
    for batch in builder.with_batch_size(ROWS).build().map_err(failed)? {
        rows.take(&batch.map_err(|cause| Fault::Data { path: path.to_path_buf(), cause })?)?;
    }
    let found = rows.pieces.len();
    if usize::try_from(declared) != Ok(found) {
        let problem = format!("it has {found} rows where its index says {declared}");
        return Err(failed(ParquetError::General(problem)));
    }
    Ok(CountsFile { pieces: rows.pieces, info })
}

fn info(metadata: Option<&Vec<KeyValue>>, path: &Path) -> Result<CountsInfo> {
    let entry = metadata.into_iter().flatten().find(|entry| entry.key == KEY);
    let Some(text) = entry.and_then(|entry| entry.value.as_deref()) else {
        let problem = "it does not say what was counted";
        return Err(Fault::NotCounts { path: path.to_path_buf(), problem }.into());
    };
    let wrong = |cause| Fault::Metadata { path: path.to_path_buf(), key: KEY, cause };
    Ok(serde_json::from_str(text).map_err(wrong)?)
}

/// The rows read so far.
struct Rows<'a> {
    path: &'a Path,
    ordered: bool,
    pieces: PieceCounts,
    index: HashIndex,
}

impl Rows<'_> {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let (bytes, counts) =
            (batch.column(0).as_binary::<i32>(), batch.column(1).as_primitive::<UInt64Type>());
        let firsts = self.ordered.then(|| batch.column(2).as_primitive::<UInt64Type>());
        for row in 0..batch.num_rows() {
            let number = amount(self.pieces.len());
            let problem = match firsts {
                _ if batch.columns().iter().any(|column| column.is_null(row)) => Some("a value is missing"),
                Some(firsts) if firsts.value(row) != number => Some("the order is broken"),
                _ => self.take_row(bytes.value(row), Count::new(counts.value(row))),
            };
            if let Some(problem) = problem {
                return Err(Fault::Row { path: self.path.to_path_buf(), row: number, problem }.into());
            }
        }
        Ok(())
    }

    /// Adds a piece, or says what is wrong with it.
    fn take_row(&mut self, piece: &[u8], count: Count) -> Option<&'static str> {
        if piece.is_empty() {
            return Some("the piece is empty");
        }
        if count == Count::ZERO {
            return Some("the count is zero");
        }
        if self.stands_already(piece) {
            return Some("the piece stands there already, or should");
        }
        self.pieces.push(piece, count);
        None
    }

    /// Whether a piece is no new one. In order of bytes the one before tells.
    fn stands_already(&mut self, piece: &[u8]) -> bool {
        let number = self.pieces.len();
        if !self.ordered {
            return number.checked_sub(1).is_some_and(|last| self.pieces.piece(last) >= piece);
        }
        let hash = hash_of_bytes(piece);
        let known = self.index.find(hash, |number| self.pieces.piece(number) == piece).is_some();
        self.index.insert(hash, number);
        known
    }
}

fn parquet_error(path: &Path, cause: ParquetError) -> Error {
    Fault::Parquet { path: path.to_path_buf(), cause }.into()
}
