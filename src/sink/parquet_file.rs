//! Encodes row groups into Parquet column chunks, and writes them to a file that another process can continue.
//!
//! A row group goes three ways:
//!
//! 1. [`encode_columns`] encodes and compresses its columns in memory, on any thread.
//! 2. [`ParquetFile::append`] copies the encoded pages to the file. Parquet keeps the entries for the footer, with
//!    sizes and offsets of the pages, in memory until the file ends.
//! 3. For a process that resumes the file, these entries are stored in a journal, in the form of the footer of a file
//!    with only this row group. [`ParquetFile::resume_group`] reads them, and so continues as if it had written the
//!    pages itself.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Field;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
};
use parquet::data_type::Int32Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaDataBuilder, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::types::SchemaDescriptor;

use super::packing::GROUP_IDS;
use super::row_group::RowGroup;
use super::schema::{FileSpec, OWN_COLUMNS};
use crate::base::int::to_u64;
use crate::base::integrity::HashingWriter;
use crate::encode::TokenIds;
use crate::error::{Error, ErrorKind, Result};

/// A Parquet file that grows by encoded row groups.
///
/// It can begin empty or with row groups of an earlier process. Both ways give the same bytes.
pub(super) struct ParquetFile<W: Write + Send> {
    /// Keeps the footer entries of all row groups, and the output.
    file: SerializedFileWriter<TakeableWriter<HashingWriter<W>>>,
    /// The path for messages.
    path: PathBuf,
    /// The columns and properties.
    spec: Arc<FileSpec>,
    /// Shared with the threads that encode.
    writers: Arc<ArrowRowGroupWriterFactory>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file in `out`. `path` is used only for messages.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn new(out: HashingWriter<W>, path: PathBuf, spec: &Arc<FileSpec>) -> Result<ParquetFile<W>> {
        let root = spec.columns.root_schema_ptr();
        let file = SerializedFileWriter::new(TakeableWriter(Some(out)), root, Arc::clone(&spec.properties))
            .map_err(|cause| write_failed(&path, cause))?;
        let writers = Arc::new(ArrowRowGroupWriterFactory::new(&file, Arc::clone(&spec.schema)));
        Ok(ParquetFile { file, path, spec: Arc::clone(spec), writers })
    }

    /// The factory of column writers for this file.
    pub(super) fn writers(&self) -> &Arc<ArrowRowGroupWriterFactory> {
        &self.writers
    }

    /// Appends a row group. Returns the data for [`resume_group`](ParquetFile::resume_group): its footer entries.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append(&mut self, columns: EncodedColumns) -> Result<Vec<u8>> {
        let EncodedColumns { chunks, metadata } = columns;
        let append = || {
            let mut group = self.file.next_row_group()?;
            for chunk in chunks {
                chunk.append(&mut group)?;
            }
            group.close()?;
            self.file.flush()?;
            Ok(metadata)
        };
        append().map_err(|cause: ParquetError| write_failed(&self.path, cause))
    }

    /// Adds a row group of an earlier run. Its pages are in the file already, and `metadata` is the result of
    /// [`append`](ParquetFile::append) for it.
    ///
    /// # Errors
    /// The entries cannot be parsed.
    pub(super) fn resume_group(&mut self, metadata: &[u8]) -> Result<()> {
        let mut append = || {
            let columns = columns_in_file(metadata, &self.spec.columns)?;
            let mut group = self.file.next_row_group()?;
            for close in columns {
                group.append_column(&ExistingPages, close)?;
            }
            group.close()?;
            Ok(self.file.flush()?)
        };
        append().map_err(|cause: ParquetError| write_failed(&self.path, cause))
    }

    /// The output so far.
    pub(super) fn written(&self) -> &HashingWriter<W> {
        self.file.inner().0.as_ref().expect("only `finish` takes it out")
    }

    /// Writes the footer, and returns the output.
    ///
    /// # Errors
    /// The footer cannot be written.
    pub(super) fn finish(mut self) -> Result<HashingWriter<W>> {
        self.file.finish().map_err(|cause| write_failed(&self.path, cause))?;
        Ok(self.file.inner_mut().0.take().expect("only `finish` takes it out"))
    }
}

/// A writer that can be taken out of a Parquet writer. The Parquet writer's own method turns an I/O error into a
/// text, so a full disk would not be recognized.
struct TakeableWriter<W>(Option<W>);

impl<W: Write> TakeableWriter<W> {
    /// The writer.
    ///
    /// # Errors
    /// It was taken out.
    fn inner(&mut self) -> io::Result<&mut W> {
        self.0.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl<W: Write> Write for TakeableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner()?.flush()
    }
}

/// Number of levels, at least, that are passed to the Parquet writer at a time. A chunk of levels ends at the end of
/// a row.
const LEVELS_PER_WRITE: usize = 1 << 14;

/// The data of one column of a row group, as it is written to the file.
pub(super) enum ColumnChunk {
    /// Token ids: encoded pages and the footer entry.
    IdValues { pages: Bytes, close: Box<ColumnCloseResult> },
    /// Any other column, as Arrow's writer encodes it.
    Other(Box<ArrowColumnChunk>),
}

impl ColumnChunk {
    /// The entry for the footer, with offsets relative to the beginning of the data.
    pub(super) fn close(&self) -> &ColumnCloseResult {
        match self {
            ColumnChunk::IdValues { close, .. } => close,
            ColumnChunk::Other(chunk) => chunk.close(),
        }
    }

    /// The same entry, to be replaced.
    fn close_mut(&mut self) -> &mut ColumnCloseResult {
        match self {
            ColumnChunk::IdValues { close, .. } => close,
            ColumnChunk::Other(chunk) => chunk.close_mut(),
        }
    }

    /// Writes the column to a row group of a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            ColumnChunk::IdValues { pages, close } => group.append_column(&pages, *close),
            ColumnChunk::Other(chunk) => chunk.append_to_row_group(group),
        }
    }
}

/// The columns of a row group, and their entries for the footer in a form that can be stored. They do not depend on
/// the position in the file.
pub(super) struct EncodedColumns {
    /// In the order of the leaf columns of the schema.
    pub(super) chunks: Vec<ColumnChunk>,
    /// The footer entries, as [`footer_bytes`] writes them.
    pub(super) metadata: Vec<u8>,
}

/// Encodes and compresses a row group. The bytes depend only on its rows.
///
/// **Memory:** the compressed columns, and per chunk of levels 4 bytes per id, or 8 if ids are widened. A row that
/// was encoded in parts takes 4 more bytes per id.
///
/// # Errors
/// A column cannot be encoded.
pub(super) fn encode_columns(
    mut group: RowGroup,
    spec: &FileSpec,
    writers: &ArrowRowGroupWriterFactory,
) -> Result<EncodedColumns, ParquetError> {
    let fields = spec.schema.fields();
    let ids = std::mem::take(&mut group.ids);
    let mut chunks = vec![encode_ids(ids, &group, spec)?];
    // One writer per leaf column. The first is for the ids, which are written without it.
    let mut writers = writers.create_column_writers(0)?.into_iter().skip(1);
    let lengths: ArrayRef = Arc::new(group.lengths());
    encode_column(&fields[1], &lengths, &mut writers, &mut chunks)?;
    if let Some(first) = group.columns.first() {
        let columns: RecordBatch = arrow::compute::concat_batches(first.schema_ref(), &group.columns)?;
        for (field, column) in fields[OWN_COLUMNS..].iter().zip(columns.columns()) {
            encode_column(field, column, &mut writers, &mut chunks)?;
        }
    }
    let metadata = footer_bytes(&chunks, &spec.columns)?;
    // A resumed file takes these entries from the journal, which cannot store every field. So use only the fields
    // that can be stored: then the footer is the same with and without an interruption.
    for (chunk, close) in chunks.iter_mut().zip(columns_from_footer(&metadata, &spec.columns)?) {
        *chunk.close_mut() = close;
    }
    Ok(EncodedColumns { chunks, metadata })
}

/// Encodes a column with Arrow's writer, which has one writer for each leaf of nested types. `writers` and `chunks`
/// are in the order of the leaves of the schema.
fn encode_column(
    field: &Field,
    column: &ArrayRef,
    writers: &mut impl Iterator<Item = ArrowColumnWriter>,
    chunks: &mut Vec<ColumnChunk>,
) -> Result<(), ParquetError> {
    for leaf in compute_leaves(field, column)? {
        let mut writer = writers.next().expect("one writer a leaf of the schema");
        writer.write(&leaf)?;
        chunks.push(ColumnChunk::Other(Box::new(writer.close()?)));
    }
    Ok(())
}

/// Writes the ids, with levels that are made in chunks. The Arrow writer would lay out 8 bytes and two levels for
/// each id of the row group at once: for a row of 100 MB, that is more than the ids themselves.
fn encode_ids(ids: TokenIds, group: &RowGroup, spec: &FileSpec) -> Result<ColumnChunk, ParquetError> {
    let mut pages = TrackedWrite::new(Vec::new());
    let page_writer = Box::new(SerializedPageWriter::new(&mut pages));
    let writer = get_column_writer(spec.columns.column(0), Arc::clone(&spec.properties), page_writer);
    let mut writer = get_typed_column_writer::<Int32Type>(writer);
    let ids = IdValues::new(ids);
    let mut levels = PendingLevels::default();
    for span in group.spans() {
        match span {
            None => levels.push_level(Level::Null),
            Some(span) if span.is_empty() => levels.push_level(Level::Empty),
            Some(span) => levels.push_ids(span.len()),
        }
        if levels.definitions.len() >= LEVELS_PER_WRITE {
            levels.flush(&ids, &mut writer)?;
        }
    }
    levels.flush(&ids, &mut writer)?;
    let close = Box::new(writer.close()?);
    Ok(ColumnChunk::IdValues { pages: pages.into_inner()?.into(), close })
}

/// The ids of a row group. Parquet has no 16-bit numbers, so narrow ids are widened in parts while they are written.
enum IdValues {
    /// 16-bit ids, as the row group holds them.
    Narrow(Vec<u16>),
    /// As they are written.
    Signed(Vec<i32>),
}

impl IdValues {
    /// Takes the ids over. Those of a huge row are widened at once.
    fn new(ids: TokenIds) -> IdValues {
        let signed = |ids: TokenIds| ids.into_wide().into_iter().map(|id| id.get().cast_signed()).collect();
        // The ids of one huge row are written in one call, so they are widened all at once.
        if ids.len() > GROUP_IDS {
            return IdValues::Signed(signed(ids));
        }
        ids.into_narrow().map_or_else(|ids| IdValues::Signed(signed(ids)), IdValues::Narrow)
    }
}

/// A definition level of `optional list / repeated group / optional element`.
#[derive(Clone, Copy)]
enum Level {
    /// The row is null.
    Null,
    /// The row is an empty list.
    Empty,
    /// The row has an id here.
    Id,
}

impl Level {
    /// The number that Parquet uses. 2 would be a null id, which does not occur.
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
struct PendingLevels {
    /// Per level, how much of the list exists: a [`Level`].
    definitions: Vec<i16>,
    /// Per level, 0 for the first of a row and 1 for a further id of the same row.
    repetitions: Vec<i16>,
    /// Number of ids that have been written.
    written: usize,
    /// Number of ids that are not written yet, although their levels are collected.
    pending: usize,
    /// Buffer for ids that are widened from 16 to 32 bits.
    widened: Vec<i32>,
}

impl PendingLevels {
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
        self.pending += count;
    }

    /// Writes the waiting ids with their levels. The buffers keep their memory for the next levels.
    fn flush(
        &mut self,
        ids: &IdValues,
        writer: &mut ColumnWriterImpl<'_, Int32Type>,
    ) -> Result<(), ParquetError> {
        let range = self.written..self.written + self.pending;
        let ids = match ids {
            IdValues::Signed(ids) => &ids[range],
            IdValues::Narrow(ids) => {
                self.widened.clear();
                self.widened.extend(ids[range].iter().map(|&id| i32::from(id)));
                &self.widened
            }
        };
        writer.write_batch(ids, Some(&self.definitions), Some(&self.repetitions))?;
        self.written += self.pending;
        self.pending = 0;
        self.definitions.clear();
        self.repetitions.clear();
        Ok(())
    }
}

/// The footer entries of a row group's columns, in the form of the footer of a file that has only this row group.
pub(super) fn footer_bytes(
    chunks: &[ColumnChunk],
    columns: &Arc<SchemaDescriptor>,
) -> Result<Vec<u8>, ParquetError> {
    let mut pages = PageIndexBuilder::new(1, chunks.len());
    let mut group = RowGroupMetaData::builder(Arc::clone(columns));
    let mut rows = 0;
    for (column, close) in chunks.iter().map(ColumnChunk::close).enumerate() {
        rows = i64::try_from(close.rows_written).unwrap_or(i64::MAX);
        group = group.add_column_metadata(close.metadata.clone());
        if let Some(index) = &close.column_index {
            pages.put_column_index(index.clone(), 0, column);
        }
        if let Some(index) = &close.offset_index {
            pages.put_offset_index(index.clone(), 0, column);
        }
    }
    let file = FileMetaData::new(2, rows, None, None, Arc::clone(columns), None);
    let metadata = ParquetMetaDataBuilder::new(file)
        .add_row_group(group.set_num_rows(rows).build()?)
        .set_page_index(Some(Arc::new(pages.build())))
        .build();
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish()?;
    Ok(bytes)
}

/// Reads the footer entries that [`footer_bytes`] wrote. They lack the pages, and the deprecated fields for minimum
/// and maximum values, which readers no longer use.
pub(super) fn columns_from_footer(
    bytes: &[u8],
    columns: &Arc<SchemaDescriptor>,
) -> Result<Vec<ColumnCloseResult>, ParquetError> {
    let options =
        ParquetMetaDataOptions::new().with_schema(Arc::clone(columns)).with_encoding_stats_as_mask(false);
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_metadata_options(Some(options))
        .parse_and_finish(&Bytes::copy_from_slice(bytes))?;
    let Some(group) = metadata.row_groups().first() else {
        return Err(ParquetError::General("there is no row group".to_owned()));
    };
    let pages = metadata.page_index_for_row_group(0);
    let close = |(column, metadata): (usize, &ColumnChunkMetaData)| {
        // The offsets of the indexes are relative to `bytes`.
        let metadata = metadata.clone().into_builder();
        let metadata = metadata.set_column_index_offset(None).set_column_index_length(None);
        let metadata = metadata.set_offset_index_offset(None).set_offset_index_length(None).build()?;
        Ok(ColumnCloseResult {
            bytes_written: metadata.compressed_size().unsigned_abs(),
            rows_written: group.num_rows().unsigned_abs(),
            metadata,
            bloom_filter: None,
            column_index: pages.column_index(column).cloned(),
            offset_index: pages.offset_index(column).cloned(),
        })
    };
    group.columns().iter().enumerate().map(close).collect()
}

/// Reads footer entries, with the offsets that the pages have in a file. A dictionary page is made after data pages
/// that use it, but is written before them.
pub(super) fn columns_in_file(
    bytes: &[u8],
    columns: &Arc<SchemaDescriptor>,
) -> Result<Vec<ColumnCloseResult>, ParquetError> {
    let placed = |close: ColumnCloseResult| match close.metadata.dictionary_page_offset() {
        Some(dictionary) if dictionary > close.metadata.data_page_offset() => {
            // Data pages follow the dictionary if it could not hold all values.
            let pages = close.offset_index.iter().flat_map(|index| index.page_locations());
            let behind = pages.map(|page| page.offset).filter(|&start| start > dictionary).min();
            let end = behind.unwrap_or(close.metadata.compressed_size());
            let length = usize::try_from(end - dictionary).unwrap_or(0);
            close.update_dictionary_location(length)
        }
        _ => Ok(close),
    };
    columns_from_footer(bytes, columns)?.into_iter().map(placed).collect()
}

/// Takes the place of pages that are already in the file. It yields zeros, which
/// [`HashingWriter`] does not write.
pub(super) struct ExistingPages;

impl Length for ExistingPages {
    fn len(&self) -> u64 {
        u64::MAX
    }
}

impl ChunkReader for ExistingPages {
    type T = std::io::Repeat;

    fn get_read(&self, _start: u64) -> Result<std::io::Repeat, ParquetError> {
        Ok(std::io::repeat(0))
    }

    fn get_bytes(&self, _start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = Vec::new();
        std::io::repeat(0).take(to_u64(length)).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// The error for a failed write of a Parquet file. An I/O error inside is unwrapped, so that a full disk is
/// recognized as such.
pub(super) fn write_failed(path: &Path, cause: ParquetError) -> Error {
    let cause = match cause {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => return Error::io("write", path, *io),
            Err(inner) => ParquetError::External(inner),
        },
        other => other,
    };
    Error::caused(ErrorKind::Failed, format!("cannot write {}", path.display()), cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::row_group::{OutputBatch, Position};
    use crate::sink::tests::{batch_with, some_rows, strings};
    use crate::sink::{Compression, Declaration, output_schema};

    #[test]
    fn what_the_footer_says_of_a_row_group_can_be_kept() {
        let rows = some_rows(5_000);
        let names: Vec<Option<String>> =
            rows.iter().map(|row| Some(format!("{:?}", row.as_ref()?.first()))).collect();
        let names = strings("name", &names.iter().map(Option::as_deref).collect::<Vec<_>>());
        let schema = output_schema(names.schema().fields()).expect("legal columns");
        for compression in [Compression::Default, Compression::Fast] {
            let spec = FileSpec::new(schema.clone(), compression, &Declaration::default()).expect("legal");
            let file =
                ParquetFile::new(HashingWriter::new(Vec::new()), "memory".into(), &spec).expect("a file");
            let mut group = RowGroup::default();
            let mut batch =
                OutputBatch::new(batch_with(&rows, &names), Position::default(), &spec).expect("rows");
            assert_eq!(group.take(&mut batch, 0..rows.len()), rows.len());
            let EncodedColumns { chunks, metadata } =
                encode_columns(group, &spec, file.writers()).expect("columns");
            let kept = columns_from_footer(&metadata, &spec.columns).expect("the same footer");
            assert_eq!(kept.len(), chunks.len());
            for (kept, chunk) in kept.iter().zip(&chunks) {
                let close = ColumnChunk::close(chunk);
                assert_eq!(kept.rows_written, close.rows_written);
                assert_eq!(format!("{:#?}", kept.metadata), format!("{:#?}", close.metadata));
                assert_eq!(format!("{:#?}", kept.column_index), format!("{:#?}", close.column_index));
                assert_eq!(format!("{:#?}", kept.offset_index), format!("{:#?}", close.offset_index));
                assert_eq!(kept.bytes_written, close.bytes_written);
            }
        }
    }
}
