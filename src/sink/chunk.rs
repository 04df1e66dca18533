//! Encodes a row group into Parquet column chunks.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Field;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
};
use parquet::data_type::Int32Type;
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};

use super::footer;
use super::row_group::{GROUP_IDS, RowGroup};
use super::schema::FileShape;
use crate::encode::TokenIds;

/// Number of levels, at least, that are passed to the Parquet writer at a time. A chunk of levels ends at the end of
/// a row.
const STRETCH: usize = 1 << 14;

/// The data of one column of a row group, as it is written to the file.
pub(super) enum Chunk {
    /// Token ids: encoded pages and the footer entry.
    Ids { pages: Bytes, close: Box<ColumnCloseResult> },
    /// Any other column, as Arrow's writer encodes it.
    Other(Box<ArrowColumnChunk>),
}

impl Chunk {
    /// The entry for the footer, with offsets relative to the beginning of the data.
    pub(super) fn close(&self) -> &ColumnCloseResult {
        match self {
            Chunk::Ids { close, .. } => close,
            Chunk::Other(chunk) => chunk.close(),
        }
    }

    fn close_mut(&mut self) -> &mut ColumnCloseResult {
        match self {
            Chunk::Ids { close, .. } => close,
            Chunk::Other(chunk) => chunk.close_mut(),
        }
    }

    /// Writes the column to a row group of a file.
    pub(super) fn append<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            Chunk::Ids { pages, close } => group.append_column(&pages, *close),
            Chunk::Other(chunk) => chunk.append_to_row_group(group),
        }
    }
}

/// The columns of a row group, and their entries for the footer in a form that can be stored.
pub(super) struct Columns {
    pub(super) chunks: Vec<Chunk>,
    /// The footer entries, as [`footer::to_bytes`] writes them.
    pub(super) metadata: Vec<u8>,
}

/// Encodes and compresses a row group. The bytes depend only on its rows.
///
/// **Memory:** the compressed columns, and per chunk of levels 4 bytes per id, or 8 if ids are widened. A row that
/// was encoded in parts takes 4 more bytes per id.
pub(super) fn encode(
    mut group: RowGroup,
    shape: &FileShape,
    writers: &ArrowRowGroupWriterFactory,
) -> Result<Columns, ParquetError> {
    let fields = shape.schema.fields();
    let ids = group.take_ids();
    let mut chunks = vec![encode_ids(ids, &group, shape)?];
    // One writer per leaf column. The first is for the ids, which are written without it.
    let mut writers = writers.create_column_writers(0)?.into_iter().skip(1);
    let lengths: ArrayRef = Arc::new(group.lengths());
    encode_column(&fields[1], &lengths, &mut writers, &mut chunks)?;
    let columns = group.into_columns();
    if let Some(first) = columns.first() {
        let columns: RecordBatch = arrow_select::concat::concat_batches(first.schema_ref(), &columns)?;
        for (field, column) in fields[2..].iter().zip(columns.columns()) {
            encode_column(field, column, &mut writers, &mut chunks)?;
        }
    }
    let metadata = footer::to_bytes(&chunks, &shape.columns)?;
    // A resumed file takes these entries from the journal, which cannot store every field. So use only the fields
    // that can be stored: then the footer is the same with and without an interruption.
    for (chunk, close) in chunks.iter_mut().zip(footer::from_bytes(&metadata, &shape.columns)?) {
        *chunk.close_mut() = close;
    }
    Ok(Columns { chunks, metadata })
}

/// Encodes a column with Arrow's writer, which has one writer for each leaf of nested types.
fn encode_column(
    field: &Field,
    column: &ArrayRef,
    writers: &mut impl Iterator<Item = ArrowColumnWriter>,
    chunks: &mut Vec<Chunk>,
) -> Result<(), ParquetError> {
    for leaf in compute_leaves(field, column)? {
        let mut writer = writers.next().expect("one writer a leaf of the schema");
        writer.write(&leaf)?;
        chunks.push(Chunk::Other(Box::new(writer.close()?)));
    }
    Ok(())
}

/// Writes the ids, with levels that are made in chunks. The Arrow writer would lay out 8 bytes and two levels for
/// each id of the row group at once: for a row of 100 MB, that is more than the ids themselves.
fn encode_ids(ids: TokenIds, group: &RowGroup, shape: &FileShape) -> Result<Chunk, ParquetError> {
    let mut pages = TrackedWrite::new(Vec::new());
    let page_writer = Box::new(SerializedPageWriter::new(&mut pages));
    let writer = get_column_writer(shape.columns.column(0), Arc::clone(&shape.properties), page_writer);
    let mut writer = get_typed_column_writer::<Int32Type>(writer);
    let ids = Ids::new(ids);
    let mut stretch = Stretch::default();
    for span in group.spans() {
        match span {
            None => stretch.push_level(Level::Null),
            Some(span) if span.is_empty() => stretch.push_level(Level::Empty),
            Some(span) => stretch.push_ids(span.len()),
        }
        if stretch.definitions.len() >= STRETCH {
            stretch.flush(&ids, &mut writer)?;
        }
    }
    stretch.flush(&ids, &mut writer)?;
    let close = Box::new(writer.close()?);
    Ok(Chunk::Ids { pages: pages.into_inner()?.into(), close })
}

/// The ids as the row group holds them (`Narrow`), or as they are written (`Signed`).
enum Ids {
    Narrow(Vec<u16>),
    Signed(Vec<i32>),
}

impl Ids {
    fn new(ids: TokenIds) -> Ids {
        let signed = |ids: TokenIds| ids.into_wide().into_iter().map(|id| id.get().cast_signed()).collect();
        // The ids of one huge row are written in one call, so they are widened all at once.
        if ids.len() > GROUP_IDS {
            return Ids::Signed(signed(ids));
        }
        ids.into_narrow().map_or_else(|ids| Ids::Signed(signed(ids)), Ids::Narrow)
    }
}

/// A definition level of `optional list / repeated group / optional element`.
#[derive(Clone, Copy)]
enum Level {
    Null,
    Empty,
    Id,
}

impl Level {
    fn definition(self) -> i16 {
        match self {
            Level::Null => 0,
            Level::Empty => 1,
            Level::Id => 3,
        }
    }
}

/// Levels of complete rows that have not been written yet.
#[derive(Default)]
struct Stretch {
    /// Per level, how much of the list exists: a [`Level`].
    definitions: Vec<i16>,
    /// Per level, 0 for the first of a row and 1 for a further id of the same row.
    repetitions: Vec<i16>,
    /// Number of ids that have been written, and number of ids whose levels wait.
    written: usize,
    waiting: usize,
    /// Buffer for ids that are widened.
    room: Vec<i32>,
}

impl Stretch {
    /// Adds a null row, an empty row, or the first id of a row.
    fn push_level(&mut self, level: Level) {
        self.definitions.push(level.definition());
        self.repetitions.push(0);
    }

    /// Adds a row of `count` ids, at least one.
    fn push_ids(&mut self, count: usize) {
        self.push_level(Level::Id);
        let end = self.definitions.len() + count - 1;
        self.definitions.resize(end, Level::Id.definition());
        self.repetitions.resize(end, 1);
        self.waiting += count;
    }

    /// Writes the waiting ids with their levels.
    fn flush(&mut self, ids: &Ids, writer: &mut ColumnWriterImpl<'_, Int32Type>) -> Result<(), ParquetError> {
        let range = self.written..self.written + self.waiting;
        let ids = match ids {
            Ids::Signed(ids) => &ids[range],
            Ids::Narrow(ids) => {
                self.room.clear();
                self.room.extend(ids[range].iter().map(|&id| i32::from(id)));
                &self.room
            }
        };
        writer.write_batch(ids, Some(&self.definitions), Some(&self.repetitions))?;
        self.written += self.waiting;
        self.waiting = 0;
        self.definitions.clear();
        self.repetitions.clear();
        Ok(())
    }
}
