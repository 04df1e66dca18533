use super::*;
use crate::sink::hashed::HashingWriter;
use crate::sink::parquet_file::{self, ColumnChunk, EncodedColumns, ParquetFile};
use crate::sink::row_group::{OutputBatch, RowGroup};

#[test]
fn what_the_footer_says_of_a_row_group_can_be_kept() {
    let rows = some_rows(5_000);
    let names: Vec<Option<String>> =
        rows.iter().map(|row| Some(format!("{:?}", row.as_ref()?.first()))).collect();
    let names = strings("name", &names.iter().map(Option::as_deref).collect::<Vec<_>>());
    let schema = output_schema(names.schema().fields()).expect("legal columns");
    for compression in [Compression::Default, Compression::Fast] {
        let shape = FileSpec::new(schema.clone(), compression, &Declaration::default()).expect("legal");
        let file = ParquetFile::new(HashingWriter::new(Vec::new()), "memory".into(), &shape).expect("a file");
        let mut group = RowGroup::default();
        let mut batch = OutputBatch::new(batch_with(&rows, &names), &shape).expect("rows");
        assert_eq!(group.take(&mut batch, 0..rows.len()), rows.len());
        let EncodedColumns { chunks, metadata } =
            parquet_file::encode_columns(group, &shape, file.writers()).expect("columns");
        let kept = parquet_file::columns_from_footer(&metadata, &shape.columns).expect("the same footer");
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
