//! Stores the footer entries of a row group separately. With these and the bytes of its pages, a Parquet file that
//! another process began can be continued.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaDataBuilder, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use super::chunk::Chunk;

/// The footer entries of a row group's columns, in the form of the footer of a file that has only this row group.
pub(super) fn to_bytes(chunks: &[Chunk], columns: &Arc<SchemaDescriptor>) -> Result<Vec<u8>, ParquetError> {
    let mut pages = PageIndexBuilder::new(1, chunks.len());
    let mut group = RowGroupMetaData::builder(Arc::clone(columns));
    let mut rows = 0;
    for (column, close) in chunks.iter().map(Chunk::close).enumerate() {
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

/// Reads the footer entries that [`to_bytes`] wrote. They lack the pages, and the deprecated fields for minimum and
/// maximum values, which readers no longer use.
pub(super) fn from_bytes(
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
pub(super) fn in_file(
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
    from_bytes(bytes, columns)?.into_iter().map(placed).collect()
}

/// Stands for the bytes of pages that are already in the file. It yields zeros, which
/// [`Hashed`](super::hashed::Hashed) does not write.
pub(super) struct PagesThere;

impl Length for PagesThere {
    fn len(&self) -> u64 {
        u64::MAX
    }
}

impl ChunkReader for PagesThere {
    type T = std::io::Repeat;

    fn get_read(&self, _start: u64) -> Result<std::io::Repeat, ParquetError> {
        Ok(std::io::repeat(0))
    }

    fn get_bytes(&self, _start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = Vec::new();
        std::io::repeat(0).take(crate::base::int::to_u64(length)).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}
