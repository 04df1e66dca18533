//! Files made by the writer of the `parquet` crate.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int32Array, Int32Builder, Int64Array, ListArray, ListBuilder, MapArray, RecordBatch,
    StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use tokenmill::Count;
use tokenmill::count::{CountsInfo, PretokenCounts, write_counts};
use tokenmill::split::{NamedPattern, SplitPattern};

use super::cases::{Becomes, ROWS};
use super::parts::{PAGE_UNCOMPRESSED, Parts, SCHEMA};
use super::thrift::Value;

/// Writes columns to a Parquet file in memory, without the Arrow schema in its metadata.
fn written(columns: Vec<(String, ArrayRef)>, codec: Compression) -> Vec<u8> {
    let rows = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let rows = rows.unwrap();
    let properties =
        WriterProperties::builder().set_compression(codec).set_dictionary_page_size_limit(1 << 30);
    let options =
        ArrowWriterOptions::new().with_properties(properties.build()).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), rows.schema(), options).unwrap();
    writer.write(&rows).unwrap();
    writer.into_inner().unwrap()
}

fn one(column: impl Array + 'static) -> Vec<u8> {
    written(vec![("text".to_owned(), Arc::new(column))], Compression::SNAPPY)
}

fn with_codec(codec: Compression) -> Vec<u8> {
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..ROWS).map(|row| {
        (row % 7 > 0)
            .then(|| format!("text {} {}", row % 20, "and more ".repeat(usize::try_from(row % 3).unwrap())))
    })));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    written(vec![("text".to_owned(), texts), ("n".to_owned(), numbers)], codec)
}

/// A column of texts with a dictionary and some nulls, and a column of numbers.
pub(crate) fn text() -> Vec<u8> {
    with_codec(Compression::SNAPPY)
}

/// Rows of token ids in the columns that the program writes.
pub(crate) fn ids() -> Vec<u8> {
    let mut rows = ListBuilder::new(Int32Builder::new());
    for row in 0..ROWS {
        (0..row % 5).for_each(|id| rows.values().append_value(i32::try_from(id + row % 9).unwrap()));
        rows.append(row % 7 > 0);
    }
    let lengths = Int32Array::from_iter_values((0..ROWS).map(|row| i32::try_from(row % 5).unwrap()));
    let columns: [(&str, ArrayRef); 2] =
        [("input_ids", Arc::new(rows.finish())), ("length", Arc::new(lengths))];
    let columns = columns.map(|(name, column)| (name.to_owned(), column));
    written(columns.to_vec(), Compression::SNAPPY)
}

fn field(name: &str, of: &ArrayRef) -> Arc<Field> {
    Arc::new(Field::new(name, of.data_type().clone(), true))
}

/// Files with the types, contents and codecs of other programs, and files with a page that claims to have two
/// gigabytes.
pub(crate) fn foreign() -> Vec<(&'static str, Becomes, Vec<u8>)> {
    use Becomes::{Either, Error, Read};

    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("word {row}"))));
    let count = words.len();
    let structs = StructArray::from(vec![(field("below", &words), Arc::clone(&words))]);
    let lists = ListArray::new(
        field("item", &words),
        OffsetBuffer::from_repeated_length(1, count),
        Arc::clone(&words),
        None,
    );
    let keys = Arc::new(Field::new("keys", DataType::Utf8, false));
    let pairs =
        StructArray::from(vec![(keys, Arc::clone(&words)), (field("values", &words), Arc::clone(&words))]);
    let entries = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
    let maps = MapArray::new(entries, OffsetBuffer::from_repeated_length(1, count), pairs, None, false);
    let noise = BinaryArray::from_iter_values((0..ROWS).map(|_| b"caf\xE9"));
    let many = |names: usize| (0..names).map(|name| (format!("text{name}"), Arc::clone(&words)));
    let named = many(3_000).chain([("text".to_owned(), Arc::clone(&words))]).collect();
    let mut files = vec![
        ("numbers", Error, one(Int64Array::from_iter_values(0..ROWS))),
        ("fractions", Error, one(Float64Array::from(vec![0.5; count]))),
        ("truths", Error, one(BooleanArray::from(vec![true; count]))),
        ("days", Error, one(Date32Array::from(vec![1; count]))),
        ("times", Error, one(TimestampMillisecondArray::from(vec![1; count]))),
        ("decimals", Error, one(Decimal128Array::from(vec![1; count]))),
        ("bytes of one length", Error, one(FixedSizeBinaryArray::try_from_iter(["ab"; 9].iter()).unwrap())),
        (
            "lists of numbers",
            Error,
            one(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some([Some(1)]); 9])),
        ),
        ("structs", Error, one(structs)),
        ("lists", Error, one(lists)),
        ("maps", Error, one(maps)),
        ("bytes", Read, one(noise.clone())),
        ("text that is no UTF-8", Read, as_text(&one(noise))),
        ("no rows", Either, one(StringArray::new_null(0))),
        ("nothing but nulls", Either, one(StringArray::new_null(9))),
        ("many columns", Read, written(named, Compression::SNAPPY)),
        ("many columns without the text", Error, written(many(3_000).collect(), Compression::SNAPPY)),
        ("a text of zeros", Read, zeros(10_000_000)),
    ];
    let codecs = [
        ("two gigabytes, plain", Read, Compression::UNCOMPRESSED),
        ("two gigabytes by gzip", Error, Compression::GZIP(GzipLevel::default())),
        ("two gigabytes by brotli", Error, Compression::BROTLI(BrotliLevel::default())),
        ("two gigabytes by LZ4", Error, Compression::LZ4_RAW),
        ("two gigabytes by zstd", Error, Compression::ZSTD(ZstdLevel::default())),
    ];
    files.extend(codecs.map(|(name, becomes, codec)| (name, becomes, of_two_gigabytes(&with_codec(codec)))));
    files
}

/// A single text of zero bytes, which compresses to almost nothing.
pub(crate) fn zeros(bytes: usize) -> Vec<u8> {
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(["\0".repeat(bytes)]));
    written(vec![("text".to_owned(), text)], Compression::ZSTD(ZstdLevel::default()))
}

/// A counts file, as the program writes it.
pub(crate) fn counts() -> Vec<u8> {
    let pretokens: Vec<Vec<u8>> = (0..ROWS).map(|row| format!("{row:02}").into_bytes()).collect();
    let pretokens: PretokenCounts = pretokens.iter().map(|pretoken| (&pretoken[..], Count::ONE)).collect();
    let info = CountsInfo { pattern: SplitPattern::Named(NamedPattern::Gpt2), ..CountsInfo::default() };
    let mut file = Vec::new();
    write_counts(&mut file, Path::new("counts"), &pretokens, &info, &tokenmill::observer::Silent).unwrap();
    file
}

/// Declares the first column to be UTF-8 text.
fn as_text(file: &[u8]) -> Vec<u8> {
    Parts::of(file).file(|file| file.index.at(&[SCHEMA, 1]).set(6, Value::Int(5, 0)))
}

/// Lets the first data page declare an uncompressed size of two gigabytes.
fn of_two_gigabytes(file: &[u8]) -> Vec<u8> {
    let mut file = Parts::of(file);
    file.data_page(0).0.set(PAGE_UNCOMPRESSED, Value::int(i64::from(i32::MAX)));
    file.file(|_| {})
}
