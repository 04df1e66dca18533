use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, Date32Array, Date64Array, DictionaryArray, Int64Array, RecordBatch, StringArray,
    StringViewArray, Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Encoding;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use proptest::prelude::*;

use super::*;
use crate::base::int::u64_to_usize;
use crate::base::test_support::one_case_in;
use crate::error::ErrorKind;
use crate::sink::row_group::{GROUP_IDS, GROUP_ROWS};
use crate::sink::schema::{DECLARATION_KEY, FEATURES_KEY};
use crate::source::row_bytes;

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
        assert_eq!(hint.metadata()[FEATURES_KEY], value(FEATURES_KEY), "pyarrow looks here");
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
    let odd = arrow_schema::DataType::Interval(arrow_schema::IntervalUnit::DayTime);
    let odd = Arc::new(arrow_schema::Field::new("span", odd, true));
    let error = output_schema(&[odd]).expect_err("a type that cannot be written");
    assert!(error.to_string().contains("span"), "{error}");
}

#[test]
fn ids_past_31_bits_are_refused() {
    let shape =
        FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &Declaration::default());
    let mut writer = ShardWriter::new(
        Vec::new(),
        "memory",
        &shape.expect("legal"),
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
    let shape =
        FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &Declaration::default());
    let (shape, encoders) = (shape.expect("legal"), RowGroupEncoders::start(1).expect("threads"));
    let rows = some_rows(1_000);
    let write = |room| {
        let mut writer = ShardWriter::new(Room(room), "out.parquet", &shape, &encoders)?;
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
