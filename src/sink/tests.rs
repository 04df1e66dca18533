//! Helpers that the tests of this module share: rows, batches, and files in memory.

mod dataset;
mod flat;
mod pack;
mod footer;
mod journal;
mod resume;
mod folder;
mod manifest;
mod plan;
mod read;
mod writer;

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::schema::output_schema;
use super::{Compression, Declaration, FileSpec, RowGroupEncoders, ShardFacts, ShardWriter, TokenReader};
use crate::base::int::{TokenId, to_u64};
use crate::encode::{TokenBatch, TokenIds};

/// A row: its ids, or `None` for null.
pub(super) type Row = Option<Vec<u32>>;

/// A batch of these rows as unit 0, each with as many bytes of text as ids. Depending on the number of rows, the ids
/// are narrow if they fit, wide, or joined from parts like those of long documents.
pub(super) fn batch(rows: &[Row]) -> TokenBatch {
    let ids = rows.iter().flatten().flatten().copied().map(TokenId::new);
    let ids = match rows.len() % 3 {
        0 => ids.collect(),
        1 => {
            let ids: Vec<TokenId> = ids.collect();
            let (first, second) = ids.split_at(ids.len() / 3);
            let mut joined: TokenIds = first.iter().copied().collect();
            joined.join(TokenIds::default());
            joined.join(second.iter().copied().collect());
            joined
        }
        _ => ids.collect::<Vec<TokenId>>().into(),
    };
    let lengths: Vec<u64> = rows.iter().map(|row| to_u64(row.as_ref().map_or(0, Vec::len))).collect();
    let ends = rows.iter().scan(0, |end, row| {
        *end += row.as_ref().map_or(0, Vec::len);
        Some(*end)
    });
    TokenBatch {
        source: 0,
        unit: 0,
        first_row: 0,
        ends: ends.collect(),
        nulls: rows.iter().map(Option::is_none).collect(),
        text_bytes: lengths.iter().sum(),
        text_lengths: lengths,
        ids,
        columns: None,
    }
}

pub(super) fn batch_with(rows: &[Row], columns: &RecordBatch) -> TokenBatch {
    TokenBatch { columns: Some(columns.clone()), ..batch(rows) }
}

/// Writes a file in memory. Returns its bytes and the facts from the writer.
pub(super) fn write(
    batches: impl IntoIterator<Item = TokenBatch>,
    columns: Option<&RecordBatch>,
    compression: Compression,
    threads: usize,
) -> (Vec<u8>, ShardFacts) {
    let fields = columns.map(|columns| columns.schema().fields().to_vec()).unwrap_or_default();
    let schema = output_schema(&fields).expect("legal columns");
    let shape = FileSpec::new(schema, compression, &Declaration::default()).expect("legal columns");
    let encoders = RowGroupEncoders::start(threads).expect("threads");
    let mut writer = ShardWriter::new(Vec::new(), "memory", &shape, &encoders).expect("a writer");
    for batch in batches {
        writer.write(batch).expect("a written batch");
    }
    writer.finish().expect("a finished file")
}

/// All rows of a file or folder.
pub(super) fn read_rows(path: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in TokenReader::open(path).expect("a readable file") {
        let batch = batch.expect("readable rows");
        rows.extend(batch.iter().map(|row| row.map(|ids| ids.iter().map(|id| id.get()).collect())));
    }
    rows
}

pub(super) fn read_back(bytes: &[u8]) -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.parquet");
    std::fs::write(&path, bytes).expect("a file");
    read_rows(&path)
}

/// Rows of many sizes, some null, some empty. They are the same in every call.
pub(super) fn some_rows(count: u32) -> Vec<Row> {
    let row = |number: u32| match number % 11 {
        3 => None,
        5 => Some(Vec::new()),
        _ => {
            let mixed = number.wrapping_mul(2_654_435_761) >> 16;
            Some((0..mixed % 97).map(|place| mixed.wrapping_mul(place + 1) % 50_000).collect())
        }
    };
    (0..count).map(row).collect()
}

pub(super) fn strings(name: &str, values: &[Option<&str>]) -> RecordBatch {
    let column: arrow_array::ArrayRef = Arc::new(arrow_array::StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter_with_nullable([(name, column, true)]).expect("one column")
}
