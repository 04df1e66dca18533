//! Tests of single files of token ids, and of whole outputs: their files, resuming, and the manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, Date32Array, Date64Array, DictionaryArray, FixedSizeListBuilder,
    GenericListBuilder, Int32Builder, Int64Array, Int64Builder, LargeListBuilder, ListBuilder, MapBuilder,
    OffsetSizeTrait, PrimitiveBuilder, RecordBatch, StringArray, StringBuilder, StringViewArray,
    Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray, TimestampSecondArray,
    UInt16Builder, UInt32Builder,
};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, Int8Type};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Encoding;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::flat_file::FlatIndex;
use super::packing::{GROUP_IDS, GROUP_ROWS};
use super::schema::{DECLARATION_KEY, FEATURES_KEY, IdWidth, output_schema};
use super::{
    Compression, DatasetConfig, DatasetWriter, Declaration, DocumentSpan, FilePlan, FileSpec, Manifest,
    OutputFile, OutputFolder, OutputFormat, Reused, RowGroupEncoders, ShardFacts, ShardWriter, TokenReader,
};
use crate::base::int::{TokenId, to_u64, u64_to_usize};
use crate::base::test_support::{one_case_in, with_threads};
use crate::encode::{TokenBatch, TokenIds};
use crate::error::{ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::source::{Identity, RowRange, Unit, row_bytes};

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
    let spec = FileSpec::new(schema, compression, &Declaration::default()).expect("legal columns");
    let encoders = RowGroupEncoders::start(threads).expect("threads");
    let mut writer = ShardWriter::new(Vec::new(), "memory", &spec, &encoders).expect("a writer");
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
    let column: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter_with_nullable([(name, column, true)]).expect("one column")
}

pub(super) fn unit(name: &str, text_bytes: Option<u64>) -> Unit {
    Unit { name: name.to_owned(), range: RowRange::Whole, rows: None, text_bytes }
}

pub(super) fn config(units: Vec<Vec<Unit>>, file_text_bytes: u64) -> DatasetConfig {
    DatasetConfig {
        job: "job".to_owned(),
        plan: FilePlan::of_units(&units, "train", file_text_bytes).expect("a plan"),
        units,
        columns: Vec::new(),
        ids: 50_000,
        compression: Compression::Default,
        declaration: Declaration::default(),
    }
}

/// All files outside of the state folder, with their bytes.
pub(super) fn output_bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for below in ["", "data"] {
        for entry in fs::read_dir(folder.join(below)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(folder).expect("below").display().to_string();
                files.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    files
}

fn metadata(bytes: &[u8]) -> ParquetMetaData {
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&Bytes::copy_from_slice(bytes))
        .expect("a Parquet file")
}

#[test]
fn rows_come_back_as_they_were() {
    let mut rows = some_rows(5_000);
    rows[4_000] = Some(vec![7, 70_000, i32::MAX.unsigned_abs(), 8]);
    for compression in [Compression::Default, Compression::Fast] {
        let (bytes, facts) = write(rows.chunks(300).map(batch), None, compression, 2);
        assert_eq!(read_back(&bytes), rows);
        let tokens = rows.iter().flatten().map(Vec::len).sum::<usize>();
        assert_eq!((facts.rows, facts.tokens), (5_000, to_u64(tokens)));
        assert_eq!(facts.bytes, to_u64(bytes.len()));
    }
}

#[test]
fn a_file_without_rows_is_a_file() {
    let (bytes, facts) = write([], None, Compression::Default, 1);
    assert_eq!(facts.rows, 0);
    assert_eq!(read_back(&bytes), Vec::<Row>::new());
}

#[test]
fn bytes_depend_on_the_rows_alone() {
    let inputs = (prop::collection::vec(1_usize..400, 1..20), 1_usize..4);
    one_case_in(16, &inputs, |(sizes, threads)| {
        let rows = some_rows(2_000);
        let names: Vec<Option<String>> =
            rows.iter().map(|row| Some(format!("{:?}", row.as_ref()?.first()))).collect();
        let names = strings("name", &names.iter().map(Option::as_deref).collect::<Vec<_>>());
        let (whole, _) = write([batch_with(&rows, &names)], Some(&names), Compression::Default, 1);
        let mut cut = Vec::new();
        let mut start = 0;
        for size in sizes.into_iter().cycle() {
            let end = (start + size).min(rows.len());
            cut.push(batch_with(&rows[start..end], &names.slice(start, end - start)));
            start = end;
            if start == rows.len() {
                break;
            }
        }
        let (ranges, _) = write(cut, Some(&names), Compression::Default, threads);
        prop_assert!(whole == ranges);
        Ok(())
    });
}

#[test]
fn row_groups_are_cut_by_ids_and_by_rows() {
    let third = vec![7_u32; GROUP_IDS / 3 + 1];
    let rows =
        vec![Some(third.clone()), Some(third.clone()), Some(third), Some(vec![1; GROUP_IDS + 1]), None];
    let (bytes, _) = write(rows.chunks(2).map(batch), None, Compression::Default, 3);
    let counts = |bytes: &[u8]| -> Vec<i64> {
        metadata(bytes).row_groups().iter().map(|group| group.num_rows()).collect()
    };
    assert_eq!(counts(&bytes), [2, 1, 1, 1]);
    assert!(read_back(&bytes) == rows);
    let full = [GROUP_IDS - 3, 3, 1].map(|ids| Some(vec![7; ids]));
    assert_eq!(counts(&write([batch(&full)], None, Compression::Default, 1).0), [2, 1]);
    let many = vec![Some(vec![]); GROUP_ROWS + 1];
    let (bytes, _) = write([batch(&many)], None, Compression::Default, 1);
    assert_eq!(counts(&bytes), [i64::try_from(GROUP_ROWS).expect("small"), 1]);
}

#[test]
fn row_groups_are_cut_by_pass_through_bytes() {
    let half = "x".repeat(40 << 20);
    let columns = strings("text", &[Some("y"), Some(&half), Some(&half), None]);
    let rows = vec![Some(vec![1]); 4];
    let (bytes, _) = write([batch_with(&rows, &columns)], Some(&columns), Compression::Fast, 1);
    let counts: Vec<i64> = metadata(&bytes).row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(counts, [2, 2]);
}

#[test]
fn row_bytes_are_those_of_the_values_alone() {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for list in [Some(vec![Some("abc"), None, Some("de")]), None, Some(vec![]), Some(vec![Some("f")])] {
        match list {
            Some(items) => lists.append_value(items),
            None => lists.append_null(),
        }
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)]));
    let columns = RecordBatch::try_from_iter([("lists", lists), ("numbers", numbers)]).expect("two columns");
    let expected = [4 + 5 + 8, 8, 4, 4 + 1 + 8];
    assert_eq!(row_bytes(&columns), expected);
    assert_eq!(row_bytes(&columns.slice(2, 2)), expected[2..]);
}

/// Covers lists of lists, large lists, fixed-size lists and maps. With this many rows, cutting them one by one would
/// take minutes if each slice looked at the items of all.
#[test]
fn row_bytes_of_slices_are_those_of_the_whole() {
    let rows = 20_000;
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut large = LargeListBuilder::new(StringBuilder::new());
    let mut fixed = FixedSizeListBuilder::new(StringBuilder::new(), 2);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..rows {
        let word = "word".repeat(row % 5);
        for _ in 0..row % 40 {
            lists.values().append_value([Some(&word), None]);
            large.values().append_value(&word);
            maps.keys().append_value("a key");
            maps.values().append_value(&word);
        }
        lists.append(row % 7 > 0);
        large.append(row % 11 > 0);
        maps.append(row % 13 > 0).expect("as many keys as values");
        fixed.values().append_value(&word);
        fixed.values().append_null();
        fixed.append(row % 3 > 0);
    }
    let columns: [(_, ArrayRef); 4] = [
        ("lists", Arc::new(lists.finish())),
        ("large", Arc::new(large.finish())),
        ("fixed", Arc::new(fixed.finish())),
        ("maps", Arc::new(maps.finish())),
    ];
    let columns = RecordBatch::try_from_iter(columns).expect("four columns");
    let whole = row_bytes(&columns);
    for length in [1, 7, rows - 1] {
        let starts = (0..rows).step_by(length);
        let ranges = starts.flat_map(|at| row_bytes(&columns.slice(at, length.min(rows - at))));
        assert!(ranges.eq(whole.iter().copied()), "slices of {length} rows");
    }
}

#[test]
fn a_huge_row_in_a_batch_of_its_own_is_the_same_row() {
    let rows = [Some(vec![5; GROUP_IDS + 10]), Some(vec![6]), None];
    let (together, _) = write([batch(&rows)], None, Compression::Default, 1);
    let (apart, _) = write(rows.chunks(1).map(batch), None, Compression::Default, 2);
    assert!(together == apart);
}

#[test]
fn files_keep_the_contract() {
    for (compression, encoding) in
        [(Compression::Default, Encoding::PLAIN), (Compression::Fast, Encoding::BYTE_STREAM_SPLIT)]
    {
        let (bytes, _) = write([batch(&some_rows(100))], None, compression, 1);
        let metadata = metadata(&bytes);
        let ids = metadata.row_group(0).column(0);
        assert_eq!(ids.column_path().string(), "input_ids.list.element");
        assert!(ids.encodings().any(|found| found == encoding));
        assert!(ids.encodings().all(|found| found == encoding || found == Encoding::RLE), "no dictionary");
        assert!(ids.statistics().is_none());
        assert_eq!(metadata.row_group(0).column(1).statistics().and_then(|s| s.null_count_opt()), Some(9));
        assert!(ids.offset_index_offset().is_some(), "a page index");
        let file = metadata.file_metadata();
        assert_eq!(file.created_by(), Some(concat!("tokenmill version ", env!("CARGO_PKG_VERSION"))));
        let value = |key: &str| {
            let pairs = file.key_value_metadata().expect("key values");
            pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).expect("a value")
        };
        let declared: Declaration = serde_json::from_str(&value(DECLARATION_KEY)).expect("a declaration");
        assert_eq!(declared, Declaration::default());
        let features: serde_json::Value = serde_json::from_str(&value(FEATURES_KEY)).expect("features");
        assert_eq!(features["info"]["features"]["input_ids"]["feature"]["dtype"], "int32");
        let mut pairs = file.key_value_metadata().expect("key values").clone();
        pairs.retain(|pair| pair.key == parquet::arrow::ARROW_SCHEMA_META_KEY);
        let hint =
            parquet::arrow::parquet_to_arrow_schema(file.schema_descr(), Some(&pairs)).expect("a hint");
        for key in [FEATURES_KEY, DECLARATION_KEY] {
            assert_eq!(hint.metadata()[key], value(key), "pyarrow looks here");
        }
    }
}

#[test]
fn pass_through_columns_become_plain_ones() {
    let dictionary: DictionaryArray<Int8Type> = [Some("a"), None, Some("b")].into_iter().collect();
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "a long text, not inline", ""]));
    let words: ArrayRef = Arc::new(dictionary);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    // Readers that do not know Arrow must see what the values mean.
    let dates: ArrayRef = Arc::new(Date64Array::from(vec![Some(86_400_000), None, Some(-86_400_000)]));
    let times: ArrayRef = Arc::new(Time32SecondArray::from(vec![Some(61), None, Some(0)]));
    let stamps = TimestampSecondArray::from(vec![Some(1 << 31), None, Some(-1)]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 6] = [
        ("view", views),
        ("word", words),
        ("number", numbers),
        ("date", dates),
        ("time", times),
        ("stamp", Arc::new(stamps)),
    ];
    let columns = RecordBatch::try_from_iter(columns).expect("six columns");
    let rows = [Some(vec![1]), None, Some(vec![])];
    let (bytes, _) = write([batch_with(&rows, &columns)], Some(&columns), Compression::Default, 1);
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::from(bytes), options);
    let read =
        reader.and_then(|reader| reader.build()).expect("a file").next().expect("a batch").expect("rows");
    let types: Vec<String> =
        read.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    let stamp = r#"Timestamp(ms, "UTC")"#;
    assert_eq!(types[1..], ["Int32", "Utf8", "Utf8", "Int64", "Date32", "Time32(ms)", stamp]);
    let stamps = TimestampMillisecondArray::from(vec![Some(1_000 << 31), None, Some(-1_000)]);
    let expected: [ArrayRef; 6] = [
        Arc::new(StringArray::from(vec!["x", "a long text, not inline", ""])),
        Arc::new(StringArray::from(vec![Some("a"), None, Some("b")])),
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(Date32Array::from(vec![Some(1), None, Some(-1)])),
        Arc::new(Time32MillisecondArray::from(vec![Some(61_000), None, Some(0)])),
        Arc::new(stamps.with_timezone("UTC")),
    ];
    assert_eq!(read.columns()[2..], expected);
}

#[test]
fn columns_that_cannot_be_are_usage_errors() {
    for name in ["input_ids", "length"] {
        let error = output_schema(strings(name, &[]).schema().fields()).expect_err("a name twice");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(name), "{error}");
    }
    let odd = arrow::datatypes::DataType::Interval(arrow::datatypes::IntervalUnit::DayTime);
    let odd = Arc::new(arrow::datatypes::Field::new("span", odd, true));
    let error = output_schema(&[odd]).expect_err("a type that cannot be written");
    assert!(error.to_string().contains("span"), "{error}");
}

#[test]
fn ids_past_31_bits_are_refused() {
    let spec =
        FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &Declaration::default());
    let mut writer = ShardWriter::new(
        Vec::new(),
        "memory",
        &spec.expect("legal"),
        &RowGroupEncoders::start(1).expect("threads"),
    )
    .expect("a writer");
    let error = writer.write(batch(&[Some(vec![1, 1 << 31])])).expect_err("too large");
    assert!(error.to_string().contains("2147483648"), "{error}");
}

/// A disk with room for this number of bytes.
struct Room(usize);

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_as_one() {
    let spec =
        FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &Declaration::default());
    let (spec, encoders) = (spec.expect("legal"), RowGroupEncoders::start(1).expect("threads"));
    let rows = some_rows(1_000);
    let write = |room| {
        let mut writer = ShardWriter::new(Room(room), "out.parquet", &spec, &encoders)?;
        writer.write(batch(&rows))?;
        writer.finish().map(|(_, facts)| facts.bytes)
    };
    let length = u64_to_usize(write(usize::MAX).expect("room enough"));
    // The disk fills up in the row group, or in the footer, which is written last.
    for room in [0, 4, length / 2, length - 300, length - 1] {
        let error = write(room).expect_err("a full disk");
        assert_eq!(error.kind(), ErrorKind::DiskFull, "room for {room} of {length} bytes: {error}");
        assert!(error.to_string().contains("out.parquet"), "{error}");
    }
    assert_eq!(write(length).expect("just enough room"), to_u64(length));
}

fn foreign(path: &Path, name: &str, column: ArrayRef) {
    let batch = RecordBatch::try_from_iter_with_nullable([(name, column, true)]).expect("a batch");
    let mut writer =
        ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
}

fn lists<O: OffsetSizeTrait, T: ArrowPrimitiveType>(items: PrimitiveBuilder<T>, one: T::Native) -> ArrayRef
where
    PrimitiveBuilder<T>: ArrayBuilder,
{
    let mut lists = GenericListBuilder::<O, _>::new(items);
    lists.values().append_value(one);
    lists.append(true);
    lists.append(false);
    lists.append(true);
    lists.values().append_slice(&[one, one]);
    lists.append(true);
    Arc::new(lists.finish())
}

#[test]
fn lists_of_other_programs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let expected: [Row; 4] = [Some(vec![60_000]), None, Some(vec![]), Some(vec![60_000, 60_000])];
    for column in [
        lists::<i32, _>(Int32Builder::new(), 60_000),
        lists::<i64, _>(Int32Builder::new(), 60_000),
        lists::<i64, _>(Int64Builder::new(), 60_000),
        lists::<i32, _>(UInt16Builder::new(), 60_000),
        lists::<i32, _>(UInt32Builder::new(), 60_000),
    ] {
        let of = column.data_type().clone();
        foreign(&path, "input_ids", column);
        assert_eq!(read_rows(&path), expected, "{of}");
        assert!(TokenReader::open(&path).expect("a file").declaration().is_none());
    }
}

#[test]
fn what_holds_no_tokens_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let error = |kind: ErrorKind, says: &str| {
        let error = TokenReader::open(&path).map(|_| ()).expect_err(says);
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(says) && error.to_string().contains("x.parquet"), "{error}");
    };
    error(ErrorKind::Failed, "read");
    fs::write(&path, "This is text, not Parquet.").expect("a file");
    error(ErrorKind::Failed, "Parquet");
    foreign(&path, "text", lists::<i32, _>(Int32Builder::new(), 1));
    error(ErrorKind::Usage, "it has text");
    let mut words = StringBuilder::new();
    words.append_value("a");
    foreign(&path, "input_ids", Arc::new(words.finish()));
    error(ErrorKind::Usage, "Utf8");
    let empty = TokenReader::open(folder.path()).map(|_| ()).expect_err("no data folder");
    assert!(empty.to_string().contains("no files of token ids"), "{empty}");
}

#[test]
fn values_that_are_no_ids_are_told_with_their_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let first = || TokenReader::open(&path).expect("a file").next().expect("a batch").map(|_| ());
    foreign(&path, "input_ids", lists::<i32, _>(Int32Builder::new(), -7));
    assert!(first().expect_err("negative").to_string().ends_with("row 0 holds -7, which is not a token id"));
    let mut with_null = GenericListBuilder::<i32, _>::new(Int32Builder::new());
    for item in [Some(1), Some(2), None] {
        with_null.values().append_option(item);
        with_null.append(true);
    }
    foreign(&path, "input_ids", Arc::new(with_null.finish()));
    assert!(first().expect_err("a null").to_string().ends_with("row 2 holds a null among its ids"));
}

#[test]
fn damaged_files_are_errors_or_rows() {
    let (bytes, _) = write([batch(&some_rows(300))], None, Compression::Default, 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let read = |bytes: &[u8]| -> crate::error::Result<()> {
        fs::write(&path, bytes).expect("a file");
        TokenReader::open(&path)?.try_for_each(|batch| batch.map(|_| ()))
    };
    for length in (0..bytes.len()).step_by(97) {
        read(&bytes[..length]).expect_err("cut short");
    }
    let mut failures = 0;
    for place in (0..bytes.len()).step_by(31) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x55;
        failures += u32::from(read(&damaged).is_err());
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn declared_tokens_are_read() {
    let bos = Some(crate::sink::DeclaredToken { id: TokenId::new(3), text: "<s>".to_owned() });
    let declaration = Declaration { bos, tokenizer: "abc".to_owned(), ..Declaration::default() };
    let spec = FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &declaration);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let file = File::create(&path).expect("a file");
    let writer =
        ShardWriter::new(file, &path, &spec.expect("legal"), &RowGroupEncoders::start(1).expect("threads"))
            .expect("a writer");
    writer.finish().expect("a file");
    assert_eq!(TokenReader::open(&path).expect("a file").declaration(), Some(&declaration));
}

fn write_flat(folder: &Path, format: OutputFormat, ids: u64, rows: &[Row]) {
    let config = config(vec![vec![unit("in", None)]], 1_000);
    let config = DatasetConfig { plan: config.plan.with_format(format), ids, ..config };
    let folder = OutputFolder::open(folder).expect("the folder");
    let mut writer = DatasetWriter::create(&folder, config, &Silent).expect("a writer");
    for (number, rows) in rows.chunks(7).enumerate() {
        writer.write(TokenBatch { first_row: to_u64(number * 7), ..batch(rows) }).expect("a batch");
    }
    let (manifest, _) = writer.finish(|_, _| Ok(Identity::Generated)).expect("an output");
    assert_eq!(manifest.rows(), to_u64(rows.len()));
    manifest.write(folder.path()).expect("a manifest");
    manifest.verify(folder.path(), &Silent).expect("as the manifest says");
}

/// The rows as a format without nulls stores them.
fn without_nulls(rows: &[Row]) -> Vec<Row> {
    rows.iter().map(|row| Some(row.clone().unwrap_or_default())).collect()
}

proptest! {
    #[test]
    fn flat_files_give_the_rows_back(
        rows in prop::collection::vec(prop::option::weighted(0.9, prop::collection::vec(0_u32..60_000, 0..90)), 0..60),
        megatron in any::<bool>(),
        wide in any::<bool>(),
    ) {
        let times = |id| if wide { id * 17 } else { id };
        let rows: Vec<Row> = rows.into_iter().map(|row| row.map(|ids| ids.into_iter().map(times).collect())).collect();
        let format = if megatron { OutputFormat::Megatron } else { OutputFormat::Bin };
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, if wide { 1 << 20 } else { 60_000 }, &rows);
        prop_assert_eq!(read_rows(folder.path()), without_nulls(&rows));
    }
}

#[test]
fn the_width_of_ids_is_the_least_that_holds_all() {
    for (ids, format, width) in [
        (65_536, OutputFormat::Bin, IdWidth::Two),
        (65_537, OutputFormat::Bin, IdWidth::Four),
        (65_499, OutputFormat::Megatron, IdWidth::Two),
        (65_500, OutputFormat::Megatron, IdWidth::Four),
    ] {
        assert_eq!(IdWidth::of(ids, format), width, "{ids} {format:?}");
    }
}

#[test]
fn the_bytes_are_those_of_the_formats() {
    let rows = [Some(vec![1, 258]), None, Some(vec![]), Some(vec![3])];
    for (format, index) in [
        (OutputFormat::Bin, [0_u64, 2, 2, 2, 3].map(u64::to_le_bytes).concat()),
        (
            OutputFormat::Megatron,
            [
                b"MMIDIDX\0\0".as_slice(),
                &1_u64.to_le_bytes(),
                &[8],
                &[2_u64, 5].map(u64::to_le_bytes).concat(),
                &[2_i32, 1].map(i32::to_le_bytes).concat(),
                &[0_i64, 4].map(i64::to_le_bytes).concat(),
                &[0_i64, 1, 1, 1, 2].map(i64::to_le_bytes).concat(),
            ]
            .concat(),
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, 300, &rows);
        let files = output_bytes(folder.path());
        assert_eq!(files["data/train-00000.bin"], [1, 0, 2, 1, 3, 0]);
        assert_eq!(files["data/train-00000.idx"], index, "{format:?}");
    }
}

#[test]
fn damaged_indexes_are_errors() {
    for format in [OutputFormat::Bin, OutputFormat::Megatron] {
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, 60_000, &some_rows(20));
        let data = folder.path().join("data/train-00000.bin");
        let path = data.with_extension("idx");
        let whole = fs::read(&path).expect("the index");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("a cut index");
            assert!(FlatIndex::read(&data).is_err(), "{format:?} cut to {length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80;
            fs::write(&path, bytes).expect("a damaged index");
            // Only the border between two documents can be wrong unnoticed.
            let lengths = FlatIndex::read(&data).map(|index| index.lengths.len());
            assert!(lengths.is_err() || lengths.is_ok_and(|count| count == 20), "{format:?} at {at}");
        }
    }
}

#[test]
fn a_missing_index_is_noticed_and_made_again() {
    let rows = some_rows(300);
    let folder = tempfile::tempdir().expect("a folder");
    write_flat(folder.path(), OutputFormat::Megatron, 60_000, &rows);
    let whole = output_bytes(folder.path());
    fs::remove_file(folder.path().join("data/train-00001.idx")).expect("removed");
    let other = tempfile::tempdir().expect("a folder");
    write_flat(other.path(), OutputFormat::Megatron, 60_000, &rows);
    assert!(output_bytes(other.path()) == whole);
    let output = OutputFolder::open(folder.path()).expect("the folder");
    let config = config(vec![vec![unit("in", None)]], 1_000);
    let config =
        DatasetConfig { plan: config.plan.with_format(OutputFormat::Megatron), ids: 60_000, ..config };
    let writer = DatasetWriter::create(&output, config, &Silent).expect("a writer");
    assert!(writer.missing()[0].documents.is_some_and(|documents| documents > 0));
}

fn run(folder: &Path, config: DatasetConfig, batches: Vec<TokenBatch>) -> Result<Manifest> {
    let folder = OutputFolder::open(folder)?;
    let mut writer = DatasetWriter::create(&folder, config, &Silent)?;
    for batch in batches {
        writer.write(batch)?;
    }
    let (manifest, _) = writer.finish(|_, _| Ok(Identity::Generated))?;
    manifest.write(folder.path())?;
    Ok(manifest)
}

fn of_unit(source: usize, unit: usize, rows: &[Row]) -> TokenBatch {
    TokenBatch { source, unit, ..batch(rows) }
}

#[test]
fn planned_units_go_to_their_files() {
    let units =
        vec![vec![unit("a", Some(6)), unit("b", Some(6))], vec![unit("c", Some(9)), unit("d", Some(1))]];
    let folder = tempfile::tempdir().expect("a folder");
    let (some, more) = (some_rows(40), some_rows(7));
    // Unit b and all units of the second file are empty. Unit d comes in two batches.
    let batches = vec![of_unit(0, 0, &some), of_unit(1, 1, &more), of_unit(1, 1, &[None])];
    let manifest = run(folder.path(), config(units, 8), batches).expect("an output");
    let seen: Vec<_> = manifest.files.iter().map(|file| (file.name.as_str(), file.rows)).collect();
    assert_eq!(
        seen,
        [
            ("data/train-00000-of-00004.parquet", 40),
            ("data/train-00001-of-00004.parquet", 0),
            ("data/train-00002-of-00004.parquet", 0),
            ("data/train-00003-of-00004.parquet", 8)
        ]
    );
    assert_eq!((manifest.files[3].units[0].name.as_str(), manifest.files[3].units[0].rows), ("d", 8));
    let all: Vec<Row> = [some, more, vec![None]].concat();
    assert_eq!(read_rows(folder.path()), all);
    manifest.verify(folder.path(), &Silent).expect("as the manifest says");
}

#[test]
fn rolling_files_are_cut_between_rows_whatever_the_batches() {
    let rows = some_rows(200);
    let write = |size: usize| {
        let folder = tempfile::tempdir().expect("a folder");
        let batches = rows
            .chunks(size)
            .enumerate()
            .map(|(number, rows)| TokenBatch { first_row: to_u64(number * size), ..batch(rows) });
        run(folder.path(), config(vec![vec![unit("in", None)]], 1_000), batches.collect())
            .expect("an output");
        assert_eq!(read_rows(folder.path()), rows);
        output_bytes(folder.path())
    };
    let whole = write(200);
    assert!(whole.len() > 6, "several data files");
    for size in [1, 7, 64] {
        assert!(write(size) == whole, "batches of {size}");
    }
    let manifest: Manifest = serde_json::from_slice(&whole["manifest.json"]).expect("a manifest");
    let mut next = 0;
    for file in &manifest.files {
        assert!(file.text_bytes <= 1_000);
        assert_eq!(file.units[0].first_row, next);
        next += file.rows;
    }
    assert_eq!((next, manifest.rows()), (200, 200));
}

#[test]
fn an_output_without_rows_is_an_output() {
    for text_bytes in [None, Some(0)] {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest =
            run(folder.path(), config(vec![vec![unit("in", text_bytes)]], 10), vec![]).expect("an output");
        assert_eq!((manifest.files.len(), manifest.rows()), (1, 0));
        assert!(read_rows(folder.path()).is_empty());
    }
}

#[test]
fn an_earlier_output_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = || vec![vec![unit("in", None)]];
    run(folder.path(), config(unit(), 100), vec![batch(&some_rows(50))]).expect("many files");
    let manifest =
        run(folder.path(), config(unit(), 1 << 30), vec![batch(&some_rows(50))]).expect("one file");
    manifest.verify(folder.path(), &Silent).expect("no file too many");
}

#[test]
fn a_run_that_ends_early_leaves_no_half_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let units = vec![vec![unit("in", None)]];
    let mut writer = DatasetWriter::create(&output, config(units, 1_000), &Silent).expect("a writer");
    writer.write(batch(&some_rows(50))).expect("a batch");
    drop(writer);
    let names: Vec<String> = output_bytes(folder.path()).into_keys().collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.ends_with(".parquet")), "{names:?}");
    let rows: Vec<Row> = names.iter().flat_map(|name| read_rows(&folder.path().join(name))).collect();
    assert!(rows.len() < 50 && some_rows(50).starts_with(&rows));
}

#[test]
fn batches_out_of_order_are_refused() {
    let units = vec![vec![unit("a", Some(9)), unit("b", Some(9))]];
    let folder = tempfile::tempdir().expect("a folder");
    let batches = vec![of_unit(0, 1, &[None]), of_unit(0, 0, &[None])];
    run(folder.path(), config(units.clone(), 9), batches).expect_err("backwards");
    run(folder.path(), config(units, 9), vec![of_unit(0, 2, &[None])]).expect_err("no such unit");
}

#[test]
fn the_card_tells_readers_what_there_is() {
    let column = strings("na\"me|\n\u{7f}\u{2028}é", &[Some("x"), None]);
    let fields: Vec<FieldRef> = column.schema().fields().to_vec();
    let folder = tempfile::tempdir().expect("a folder");
    let passing = DatasetConfig { columns: fields, ..config(vec![vec![unit("in", None)]], 10) };
    run(folder.path(), passing, vec![batch_with(&[Some(vec![1, 2, 3]), None], &column)]).expect("an output");
    let card = fs::read_to_string(folder.path().join("README.md")).expect("a card");
    for line in [
        "    path: \"data/train-*.parquet\"",
        "  - {\"name\":\"input_ids\",\"sequence\":\"int32\"}",
        "  - {\"name\":\"length\",\"dtype\":\"int32\"}",
        r#"  - {"name":"na\"me|\n\u007f\u2028é","dtype":"string"}"#,
        r#"| `na\"me\|\n\u{7f}\u{2028}é` | passed through |"#,
    ] {
        assert!(card.lines().any(|found| found == line), "{line} in\n{card}");
    }
    // The size of the extra column in memory is not known, and `datasets` warns of splits with only some figures.
    assert!(!card.contains("splits:"), "{card}");
    let folder = tempfile::tempdir().expect("a folder");
    let plain = config(vec![vec![unit("in", None)]], 10);
    run(folder.path(), plain, vec![batch(&[Some(vec![1, 2, 3]), None])]).expect("an output");
    let card = fs::read_to_string(folder.path().join("README.md")).expect("a card");
    let splits = "  splits:\n  - name: \"train\"\n    num_bytes: 28\n    num_examples: 2\n  download_size: ";
    assert!(card.contains(splits), "{card}");
}

#[test]
fn files_are_used_again_only_if_all_that_their_bytes_depend_on_is_the_same() {
    let same = || config(vec![vec![unit("in", None)]], 1 << 30);
    let columns = strings("name", &[]).schema().fields().to_vec();
    let declaration = Declaration { tokenizer: "another".to_owned(), ..Declaration::default() };
    let others = [
        DatasetConfig { columns, ..same() },
        DatasetConfig { ids: 60_000, ..same() },
        DatasetConfig { compression: Compression::Fast, ..same() },
        DatasetConfig { declaration, ..same() },
    ];
    // The name of an input depends on the working directory.
    let renamed = DatasetConfig { units: vec![vec![unit("there/in", None)]], ..same() };
    let used = [(same(), 1), (renamed, 1)];
    for (config, files) in used.into_iter().chain(others.map(|other| (other, 0))) {
        let folder = tempfile::tempdir().expect("a folder");
        run(folder.path(), same(), vec![batch(&some_rows(20))]).expect("an output");
        let output = OutputFolder::open(folder.path()).expect("a folder");
        let writer = DatasetWriter::create(&output, config.clone(), &Silent).expect("a writer");
        assert_eq!(writer.reused().files, files, "{config:?}");
    }
}

/// Units share a file or have their own, and two have the same number in different sources.
#[test]
fn the_manifest_has_the_identity_of_each_unit() {
    let two = |name: &str| vec![unit(&format!("{name}0"), Some(2)), unit(&format!("{name}1"), Some(2))];
    let folder = tempfile::tempdir().expect("a folder");
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let config = config(vec![two("a"), two("b")], 6);
    let mut writer = DatasetWriter::create(&output, config, &Silent).expect("a writer");
    for (source, unit) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        writer.write(of_unit(source, unit, &[Some(vec![1, 2])])).expect("a batch");
    }
    let identity = |source, unit| Identity::Content { bytes: 0, sha256: format!("of {source} {unit}") };
    let (manifest, _) = writer.finish(|source, unit| Ok(identity(source, unit))).expect("an output");
    let found: Vec<Vec<_>> = manifest
        .files
        .into_iter()
        .map(|file| file.units.into_iter().map(|unit| (unit.name, unit.identity)).collect())
        .collect();
    let of = |name: &str, source, unit| (name.to_owned(), identity(source, unit));
    assert_eq!(found, [vec![of("a0", 0, 0), of("a1", 0, 1), of("b0", 1, 0)], vec![of("b1", 1, 1)]]);
}

/// The first remarks are made before there is a file.
#[test]
fn what_was_remarked_of_files_is_found_by_a_later_writer() {
    let (folder, rows) = (tempfile::tempdir().expect("a folder"), some_rows(100));
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let writer = || {
        let config = config(vec![vec![unit("in", None)]], 600);
        DatasetWriter::create(&output, config, &Silent).expect("a writer")
    };
    let mut first = writer();
    for (number, rows) in rows.chunks(5).enumerate() {
        first.remark(number.into());
        first.write(TokenBatch { first_row: to_u64(number * 5), ..batch(rows) }).expect("a batch");
    }
    drop(first);
    let second = writer();
    let found: Vec<u64> = second.reused().remarks.iter().filter_map(Value::as_u64).collect();
    assert!(second.reused().files > 2 && found.len() > 6, "{found:?}");
    assert_eq!(found, (0..to_u64(found.len())).collect::<Vec<u64>>());
}

/// Rows of the input: slightly more than eight row groups.
const ROWS: usize = 8 * GROUP_ROWS + 77;
const BATCH: usize = GROUP_ROWS / 4;

/// Bytes of text per row. All rows fill two files.
const ROW_TEXT: u64 = 10;

fn job() -> DatasetConfig {
    with_row_groups(5)
}

/// The job with this number of row groups per file.
fn with_row_groups(groups: u64) -> DatasetConfig {
    config(vec![vec![unit("in", None)]], ROW_TEXT * groups * to_u64(GROUP_ROWS))
}

/// Rows from one number on, each with at most one id.
fn rows(from: usize, count: usize) -> TokenBatch {
    let ids = |row: usize| usize::from(!row.is_multiple_of(3));
    let mut end = 0;
    TokenBatch {
        first_row: to_u64(from),
        ids: (from..from + count)
            .filter(|&row| ids(row) == 1)
            .map(|row| TokenId::from_index(row % 999))
            .collect(),
        ends: (from..from + count)
            .map(|row| {
                end += ids(row);
                end
            })
            .collect(),
        nulls: (from..from + count).map(|row| row % 7 == 0 && ids(row) == 0).collect(),
        text_lengths: vec![ROW_TEXT; count],
        text_bytes: ROW_TEXT * to_u64(count),
        ..batch(&[])
    }
}

/// The job with the number of each row in a column, as text of 64 bytes. A row group has 2 MiB of it, which is too much
/// for a dictionary.
fn numbered_job() -> DatasetConfig {
    let number = Arc::new(Field::new("number", DataType::Utf8, true));
    DatasetConfig { columns: vec![number], ..job() }
}

fn with_numbers(batch: TokenBatch) -> TokenBatch {
    let rows = batch.first_row..batch.first_row + to_u64(batch.len());
    let numbers: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("{row:064}"))));
    let columns = RecordBatch::try_from_iter_with_nullable([("number", numbers, true)]).expect("one column");
    TokenBatch { columns: Some(columns), ..batch }
}

/// Writes the missing rows, at most `most` batches. Returns what was kept, and the manifest if the output is
/// complete. Otherwise leaves everything as a killed process does.
fn write_on(folder: &Path, job: DatasetConfig, most: usize) -> (Reused, Option<Manifest>) {
    let numbered = !job.columns.is_empty();
    let folder = OutputFolder::open(folder).expect("the folder");
    let mut writer = with_threads(1, || DatasetWriter::create(&folder, job, &Silent)).expect("a writer");
    let reused = writer.reused().clone();
    let mut batches = 0;
    for span in writer.missing() {
        let DocumentSpan { from, documents, .. } = writer.begin(span).expect("a span");
        let (mut row, end) =
            (u64_to_usize(from.row), documents.map_or(ROWS, |count| u64_to_usize(from.row + count)));
        while row < end {
            if batches == most {
                std::mem::forget(writer);
                return (reused, None);
            }
            let count = BATCH.min(end - row);
            writer.remark(json!(row));
            let batch = rows(row, count);
            writer.write(if numbered { with_numbers(batch) } else { batch }).expect("a batch");
            row += count;
            batches += 1;
        }
        writer.end(span).expect("the end of a span");
    }
    let (manifest, sum) = writer.finish(|_, _| Ok(Identity::Generated)).expect("an output");
    assert_eq!((sum.documents, sum.text_bytes), (to_u64(ROWS), to_u64(ROWS) * ROW_TEXT));
    manifest.write(folder.path()).expect("a manifest");
    (reused, Some(manifest))
}

fn undisturbed() -> std::collections::BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(write_on(folder.path(), job(), usize::MAX).0, Reused::default());
    output_bytes(folder.path())
}

/// A folder with a run that ended after this number of batches.
fn ended_after(batches: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(write_on(folder.path(), job(), batches).1.is_none());
    folder
}

fn state(folder: &Path, name: &str) -> PathBuf {
    folder.join(".tokenmill").join(name)
}

#[test]
fn a_run_goes_on_where_it_was_killed() {
    let whole = undisturbed();
    assert_eq!(whole.keys().filter(|name| name.starts_with("data/")).count(), 2);
    let folder = tempfile::tempdir().expect("a folder");
    // Each attempt gets further, and none starts over.
    let mut reused = Vec::new();
    while let (so_far, None) = write_on(folder.path(), job(), 14) {
        reused.push((so_far.files, so_far.row_groups));
        assert_eq!(so_far.remarks.first().and_then(Value::as_u64).is_some(), so_far.text_bytes > 0);
        assert!(reused.len() < 9, "it does not get on: {reused:?}");
    }
    assert!(reused.iter().any(|&(_, groups)| groups > 0), "{reused:?}");
    assert!(reused.is_sorted(), "{reused:?}");
    assert!(output_bytes(folder.path()) == whole);
    // Once the output is complete, no rows are asked for.
    assert_eq!(write_on(folder.path(), job(), 0).0.files, 2);
    assert!(output_bytes(folder.path()) == whole);
}

/// The resumed file must list pages at their offsets, also after a dictionary that is not at the end of its column.
#[test]
fn columns_that_outgrow_their_dictionary_are_gone_on_with() {
    let write = |most| {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = write_on(folder.path(), numbered_job(), most).1;
        (folder, manifest.is_some())
    };
    let (whole, _) = write(usize::MAX);
    let (killed, finished) = write(14);
    assert!(!finished);
    let (reused, manifest) = write_on(killed.path(), numbered_job(), usize::MAX);
    assert!(reused.row_groups > 0 && manifest.is_some());
    assert!(output_bytes(killed.path()) == output_bytes(whole.path()));
}

#[test]
fn what_is_damaged_is_written_again() {
    let whole = undisturbed();
    let flip = |path: PathBuf, at: usize| {
        let mut bytes = fs::read(&path).expect("a file");
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
        fs::write(&path, bytes).expect("a file");
    };
    let cut = |path: PathBuf, bytes: u64| {
        let file = fs::OpenOptions::new().write(true).open(path).expect("a file");
        file.set_len(bytes).expect("a shorter file");
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 6] = [
        ("first byte", &|folder| flip(state(folder, "incomplete-1"), 0)),
        ("last byte", &|folder| flip(state(folder, "incomplete-1"), usize::MAX)),
        ("cut file", &|folder| cut(state(folder, "incomplete-1"), 1_000)),
        ("no file", &|folder| fs::remove_file(state(folder, "incomplete-1")).expect("removed")),
        ("journal", &|folder| flip(state(folder, "row-groups.journal"), 2_000)),
        ("cut journal", &|folder| cut(state(folder, "row-groups.journal"), 3_000)),
    ];
    for (name, damage) in damages {
        let folder = ended_after(20);
        damage(folder.path());
        let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
        assert!(manifest.is_some() && reused.row_groups < 3, "{name}: {reused:?}");
        assert!(output_bytes(folder.path()) == whole, "{name}");
    }
}

#[test]
fn a_damaged_file_before_the_unfinished_one_is_written_again() {
    let job = || with_row_groups(4);
    let (whole, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write_on(whole.path(), job(), usize::MAX);
    // The first file is complete, and the second has some of its row groups.
    assert!(write_on(folder.path(), job(), 30).1.is_none());
    assert!(fs::metadata(state(folder.path(), "incomplete-1")).expect("a file").len() > 1_000);
    fs::write(folder.path().join("data/train-00000.parquet"), "PAR1").expect("a damaged file");
    let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
    assert!(reused.files == 0 && manifest.is_some());
    assert!(output_bytes(folder.path()) == output_bytes(whole.path()));
}

#[test]
fn of_a_finished_output_only_the_damaged_file_is_written_again() {
    let whole = undisturbed();
    for damaged in ["data/train-00000.parquet", "data/train-00001.parquet"] {
        let folder = tempfile::tempdir().expect("a folder");
        write_on(folder.path(), job(), usize::MAX);
        fs::write(folder.path().join(damaged), "PAR1").expect("a damaged file");
        // It is also killed during the repair.
        let (reused, manifest) = write_on(folder.path(), job(), 3);
        assert!(reused.files == 1 && manifest.is_none());
        let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
        assert!(reused.files == 1 && manifest.is_some());
        assert!(output_bytes(folder.path()) == whole, "{damaged}");
    }
}

/// A file that cannot be read may be undamaged.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    write_on(folder.path(), job(), usize::MAX);
    for name in ["data/train-00000.parquet", "data/train-00001.parquet"] {
        let (path, good) = (folder.path().join(name), folder.path().join("good"));
        fs::rename(&path, &good).expect("moved");
        // A link to itself cannot be opened.
        std::os::unix::fs::symlink(&path, &path).expect("a link");
        let output = OutputFolder::open(folder.path()).expect("the folder");
        let error = DatasetWriter::create(&output, job(), &Silent).expect_err(name);
        assert!(error.to_string().contains(name) && path.is_symlink(), "{error}");
        fs::rename(&good, &path).expect("moved back");
    }
    assert_eq!(write_on(folder.path(), job(), 0).0.files, 2);
}

#[test]
fn a_file_that_was_not_yet_named_is_named() {
    let whole = undisturbed();
    let folder = tempfile::tempdir().expect("a folder");
    write_on(folder.path(), job(), usize::MAX);
    let last = folder.path().join("data/train-00001.parquet");
    fs::rename(last, state(folder.path(), "incomplete-1")).expect("the file as it was before");
    let (reused, manifest) = write_on(folder.path(), job(), 0);
    assert!(reused.files == 2 && manifest.is_some());
    assert!(output_bytes(folder.path()) == whole);
}

#[test]
fn nothing_of_another_job_is_used() {
    let other = |config: DatasetConfig| DatasetConfig { job: "another".to_owned(), ..config };
    let renamed = |config: DatasetConfig| DatasetConfig {
        units: vec![vec![Unit { rows: Some(1), ..unit("in", None) }]],
        ..config
    };
    for config in [other(job()), renamed(job())] {
        let folder = ended_after(20);
        let (reused, manifest) = write_on(folder.path(), config, usize::MAX);
        assert_eq!((reused, manifest.is_some()), (Reused::default(), true));
    }
}

fn output(folder: &Path) -> Manifest {
    for name in ["data", "tokenizer"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    fs::write(folder.join("tokenizer/tokenizer.json"), "{}").expect("a file");
    let (bytes, facts) = write([batch(&some_rows(500))], None, Compression::Default, 1);
    fs::write(folder.join("data/train-00000.parquet"), bytes).expect("a file");
    let file = OutputFile {
        name: "data/train-00000.parquet".to_owned(),
        rows: facts.rows,
        tokens: facts.tokens,
        added_tokens: 0,
        text_bytes: 1,
        bytes: facts.bytes,
        sha256: facts.sha256,
        index: None,
        units: Vec::new(),
    };
    Manifest {
        format_version: 1,
        tool_version: "0".to_owned(),
        job: "j".to_owned(),
        tokenizer: "t".to_owned(),
        declaration: None,
        shard: None,
        inputs: Vec::new(),
        skipped_inputs: 0,
        files: vec![file],
        tokenizer_files: vec!["tokenizer/tokenizer.json".to_owned()],
        other_files: Vec::new(),
        reports: Vec::new(),
        splits: Vec::new(),
    }
}

#[test]
fn reads_what_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(Manifest::read(folder.path()).expect("nothing there"), None);
    let manifest = output(folder.path());
    manifest.write(folder.path()).expect("written");
    assert_eq!(Manifest::read(folder.path()).expect("there"), Some(manifest));
}

#[test]
fn any_change_to_a_file_is_noticed() {
    type Change = fn(&Path);
    let truncate: Change = |path| {
        let bytes = fs::read(path).expect("a file");
        fs::write(path, &bytes[..bytes.len() - 1]).expect("a file");
    };
    let flip: Change = |path| {
        let mut bytes = fs::read(path).expect("a file");
        bytes[100] ^= 1;
        fs::write(path, bytes).expect("a file");
    };
    let remove: Change = |path| fs::remove_file(path).expect("removed");
    let another: Change = |path| fs::write(path.with_file_name("stray.parquet"), "x").expect("a file");
    let tokenizer: Change = |path| {
        let output = path.ancestors().nth(2).expect("the output folder");
        fs::remove_file(output.join("tokenizer/tokenizer.json")).expect("removed");
    };
    for (change, says) in [
        (truncate, "train-00000.parquet: the size"),
        (flip, "train-00000.parquet: the SHA-256"),
        (remove, "train-00000.parquet: listed in the manifest, but missing"),
        (another, "stray.parquet"),
        (tokenizer, "tokenizer.json: listed in the manifest, but missing"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = output(folder.path());
        manifest.verify(folder.path(), &Silent).expect("unchanged");
        change(&folder.path().join("data/train-00000.parquet"));
        let error = manifest.verify(folder.path(), &Silent).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(says), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut manifest = output(folder.path());
    manifest.files[0].rows += 1;
    let error = manifest.verify(folder.path(), &Silent).expect_err("rows");
    assert!(error.to_string().contains("rows is 500"), "{error}");
}

#[test]
fn all_files_that_differ_are_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = output(folder.path());
    fs::write(folder.path().join("data/train-00000.parquet"), "x").expect("a file");
    fs::write(folder.path().join("data/stray.parquet"), "x").expect("a file");
    fs::remove_file(folder.path().join("tokenizer/tokenizer.json")).expect("removed");
    let error = manifest.verify(folder.path(), &Silent).expect_err("three files");
    let said = error.to_string();
    for part in ["train-00000.parquet: the size is 1,", "stray.parquet: not listed", "tokenizer.json: listed"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let help = error.help().expect("remedies");
    assert_eq!(help.matches("writes missing and damaged files again").count(), 1, "{help}");
    assert!(help.contains("remove files that are not listed"), "{help}");
}

#[test]
fn verifying_stops_when_asked() {
    struct Stop;
    impl Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let error = output(folder.path()).verify(folder.path(), &Stop).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn hostile_manifests_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = serde_json::to_string(&output(folder.path())).expect("JSON");
    let file = |name: &str| good.replace("data/train-00000.parquet", name);
    let twice = good.replace("\"files\":[", "\"files\":[{\"name\":\"data/train-00000.parquet\",\"rows\":0,\"tokens\":0,\"text_bytes\":0,\"bytes\":0,\"sha256\":\"\",\"units\":[]},");
    let tokenizer = good.replace("tokenizer/tokenizer.json", "../tokenizer.json");
    let other = twice.replacen("data/train-00000.parquet", "other", 1);
    let sum = |of: &str| other.replacen(&format!("\"{of}\":0"), &format!("\"{of}\":{}", u64::MAX), 1);
    for (text, says) in [
        (String::new(), "not a manifest"),
        ("[".repeat(100_000), "not a manifest"),
        (good.replace("\"rows\":500", "\"rows\":-1"), "not a manifest"),
        (good.replace("\"format_version\":1", "\"format_version\":2"), "format version 2"),
        ("{\"format_version\":9}".to_owned(), "format version 9"),
        (file("../x.parquet"), "outside"),
        (file("/etc/passwd"), "outside"),
        (file(""), "outside"),
        (tokenizer, "outside"),
        (twice, "twice"),
        (sum("rows"), "64 bits"),
        (sum("tokens"), "64 bits"),
        (sum("text_bytes"), "64 bits"),
        (sum("bytes"), "64 bits"),
    ] {
        fs::write(folder.path().join("manifest.json"), &text).expect("a file");
        let error = Manifest::read(folder.path()).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(error.to_string().contains("manifest.json"), "{error}");
        let keeps_files = error.help().is_some_and(|help| help.ends_with("complete files are kept"));
        assert_eq!(keeps_files, says == "not a manifest", "{error:?}");
    }
}
