//! Tests of Parquet and Arrow data: types of text, columns that pass through, texts from nested columns, and damaged or
//! hostile files, which give errors, are skipped if requested, and never cause a panic or a large allocation.

use std::fs::File;
use std::path::PathBuf;

use ::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, Date32Array, Date64Array, Decimal128Array,
    DictionaryArray, FixedSizeListArray, FixedSizeListBuilder, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, Int64Builder, LargeBinaryArray, LargeListArray, LargeStringArray, ListArray,
    MapBuilder, NullArray, RecordBatch, StringArray, StringBuilder, StringViewArray, StructArray,
    Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    UInt8Array, UInt32Array, UInt64Array,
};
use ::arrow::buffer::{NullBuffer, OffsetBuffer};
use ::arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int32Type, Int64Type};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;

/// Texts that views store inline and ones that they do not, an empty text, and a null.
const WORDS: [Option<&str>; 6] = [
    Some("one"),
    None,
    Some(""),
    Some("one text that is longer than twelve bytes"),
    Some("one text that is longer than twelve bytes"),
    Some("\u{e9}nd"),
];

/// The same texts as bytes.
fn bytes() -> impl Iterator<Item = Option<&'static [u8]>> {
    WORDS.into_iter().map(|word| word.map(str::as_bytes))
}

/// The documents that every type must give.
fn expected() -> Texts {
    bytes().map(|word| word.map(<[u8]>::to_vec)).collect()
}

/// The same words in every type that text may have.
fn kinds() -> Vec<(&'static str, ArrayRef)> {
    let dictionary: DictionaryArray<Int32Type> = WORDS.into_iter().collect();
    vec![
        ("string", Arc::new(StringArray::from_iter(WORDS))),
        ("large_string", Arc::new(LargeStringArray::from_iter(WORDS))),
        ("string_view", Arc::new(StringViewArray::from_iter(WORDS))),
        ("binary", Arc::new(BinaryArray::from_iter(bytes()))),
        ("large_binary", Arc::new(LargeBinaryArray::from_iter(bytes()))),
        ("binary_view", Arc::new(BinaryViewArray::from_iter(bytes()))),
        ("dictionary", Arc::new(dictionary)),
    ]
}

/// A table with a column for each of these types, one nested twice, and numbers and lists between them.
fn kinds_table() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(10..16));
    let lists = ListArray::from_iter_primitive::<::arrow::datatypes::Int64Type, _, _>(
        (0..6).map(|n| Some((0..n).map(Some).collect::<Vec<_>>())),
    );
    let lists: ArrayRef = Arc::new(lists);
    let mut columns = vec![("lists", lists), ("id", ids.clone())];
    columns.extend(kinds());
    let words: ArrayRef = Arc::new(StringArray::from_iter(WORDS));
    let inner: ArrayRef = Arc::new(StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), ids.clone()),
        (Arc::new(Field::new("c", DataType::Utf8, true)), words),
    ]));
    let inner_type = inner.data_type().clone();
    let outer = StructArray::from(vec![
        (Arc::new(Field::new("id", DataType::Int64, true)), ids),
        (Arc::new(Field::new("b", inner_type, true)), inner),
    ]);
    columns.push(("a", Arc::new(outer)));
    columns.push(("nothing", Arc::new(NullArray::new(6))));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}

/// Writes a table as a Parquet file and returns its path.
pub(super) fn parquet_file(path: PathBuf, table: &RecordBatch, properties: WriterProperties) -> PathBuf {
    let file = File::create(&path).expect("a file to write to");
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).expect("a known schema");
    writer.write(table).expect("a file to write to");
    writer.close().expect("a file to write to");
    path
}

/// Settings for row groups of four rows. Without an encoding, dictionaries are used.
fn properties(encoding: Option<Encoding>, compression: Compression) -> WriterProperties {
    let builder =
        WriterProperties::builder().set_max_row_group_row_count(Some(4)).set_compression(compression);
    match encoding {
        Some(encoding) => builder
            .set_dictionary_enabled(false)
            .set_column_encoding("string".into(), encoding)
            .set_column_encoding("binary".into(), encoding)
            .build(),
        None => builder.build(),
    }
}

/// Text is equal for every type, encoding and codec, and each row group is a unit.
#[test]
fn parquet_gives_the_same_text_from_every_type_encoding_and_codec() {
    let folder = folder();
    let variants = [
        (None, Compression::UNCOMPRESSED),
        (None, Compression::SNAPPY),
        (Some(Encoding::PLAIN), Compression::ZSTD(Default::default())),
        (Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), Compression::GZIP(Default::default())),
        (Some(Encoding::DELTA_BYTE_ARRAY), Compression::LZ4_RAW),
    ];
    for (encoding, codec) in variants {
        let path = parquet_file(folder.path().join("t.parquet"), &kinds_table(), properties(encoding, codec));
        let columns = kinds().into_iter().map(|(name, _)| name).chain(["a.b.c"]);
        for column in columns {
            let spec = SourceSpec { column: Some(column.to_owned()), ..spec(&path) };
            for config in [ReadConfig::default(), SMALL] {
                assert_eq!(read(&spec, config).unwrap(), expected(), "{column} {encoding:?} {codec}");
            }
            let units = opened(&spec, SMALL).unwrap().units().to_vec();
            let ranges: Vec<_> = units.iter().map(|unit| (unit.range, unit.rows)).collect();
            assert_eq!(ranges, [(RowRange::RowGroups(0, 1), Some(4)), (RowRange::RowGroups(1, 2), Some(2))]);
        }
        let spec = SourceSpec { column: Some("nothing".to_owned()), ..spec(&path) };
        assert_eq!(read(&spec, SMALL).unwrap(), vec![None; 6]);
    }
}

/// Text need not be UTF-8 in a column of bytes.
#[test]
fn text_that_is_no_utf8_is_legal_in_a_binary_column() {
    let folder = folder();
    let texts: [&[u8]; 2] = [b"\xFF\xFE\x00", b"\xC3"];
    let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(texts));
    let table = RecordBatch::try_from_iter([("text", array)]).expect("one column");
    let path = parquet_file(folder.path().join("t.parquet"), &table, WriterProperties::default());
    assert_eq!(read(&spec(&path), SMALL).unwrap(), super::texts(texts));
}

/// Text need not be UTF-8 in a column of strings either, although that violates the format: plain text need not be
/// either.
#[test]
fn text_that_is_no_utf8_is_legal_in_a_column_of_strings_too() {
    let folder = folder();
    let message = "message m { required group a { required binary b (STRING); } required binary c (JSON); }";
    let texts = [&b"caf\xE9 in a text of more than twelve bytes"[..], b"\xFF", b"caf\xE9"];
    let values = texts.map(ByteArray::from);
    for encoding in [None, Some(Encoding::PLAIN), Some(Encoding::DELTA_BYTE_ARRAY)] {
        let path = folder.path().join("t.parquet");
        let file = File::create(&path).expect("a file to write to");
        let properties = WriterProperties::builder().set_dictionary_enabled(encoding.is_none());
        let properties = properties.set_encoding(encoding.unwrap_or(Encoding::PLAIN)).build();
        let schema = Arc::new(parse_message_type(message).expect("a schema"));
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).expect("it begins");
        let mut group = writer.next_row_group().expect("a row group");
        while let Some(mut column) = group.next_column().expect("a column") {
            column.typed::<ByteArrayType>().write_batch(&values, None, None).expect("values");
            column.close().expect("a column ends");
        }
        group.close().expect("a row group ends");
        writer.close().expect("a file ends");
        for column in ["a.b", "c"] {
            let spec = SourceSpec { column: Some(column.to_owned()), ..spec(&path) };
            assert_eq!(read(&spec, SMALL).unwrap(), super::texts(texts), "{column} {encoding:?}");
        }
    }
}

/// Both Arrow formats give the text of every type.
#[test]
fn arrow_files_and_streams_give_the_same() {
    let folder = folder();
    let table = kinds_table();
    let mut file = ::arrow::ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = ::arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    for part in [table.slice(0, 4), table.slice(4, 2)] {
        file.write(&part).unwrap();
        stream.write(&part).unwrap();
    }
    let file = written(folder.path(), "t.arrow", file.into_inner().unwrap());
    let stream = written(folder.path(), "t.feather", stream.into_inner().unwrap());
    for path in [file, stream] {
        for column in kinds().into_iter().map(|(name, _)| name).chain(["a.b.c"]) {
            let spec = SourceSpec { column: Some(column.to_owned()), ..spec(&path) };
            assert_eq!(read(&spec, SMALL).unwrap(), expected(), "{column}");
        }
        passes_columns(&path);
    }
}

/// Arrow text need not be UTF-8, even if the column declares strings.
#[test]
fn text_that_is_no_utf8_is_legal_in_strings_of_arrow() {
    let folder = folder();
    let text = "a caf\u{e9} in a text of more than twelve bytes";
    let wrong = [b"a caf\xFF", &text.as_bytes()[6..]].concat();
    let spoilt = |mut bytes: Vec<u8>| {
        for number in 0..3 {
            let at = bytes.windows(text.len()).position(|found| found == text.as_bytes());
            let at = at.unwrap_or_else(|| panic!("column {number} is there"));
            bytes[at..][..text.len()].copy_from_slice(&wrong);
        }
        bytes
    };
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from(vec![text])),
        Arc::new(LargeStringArray::from(vec![text])),
        Arc::new(StringViewArray::from(vec![text])),
    ];
    for column in columns {
        let columns = [("before", column.clone()), ("text", column.clone()), ("after", column)];
        let table = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let mut file = ::arrow::ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
        let mut stream = ::arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
        file.write(&table).unwrap();
        stream.write(&table).unwrap();
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            let path = written(folder.path(), "t.arrow", spoilt(bytes));
            assert_eq!(read(&spec(&path), SMALL).unwrap(), super::texts([&*wrong]));
            let passed = SourceSpec { columns: vec!["text".to_owned()], ..spec(&path) };
            assert!(read(&passed, SMALL).is_err());
        }
    }
}

/// Pass-through columns keep their types and follow their rows.
#[test]
fn parquet_passes_columns_through() {
    let folder = folder();
    let table = kinds_table();
    passes_columns(&parquet_file(
        folder.path().join("t.parquet"),
        &table,
        properties(None, Compression::UNCOMPRESSED),
    ));
}

/// Checks that columns follow their rows with their types, also if one of them is the column of the text.
fn passes_columns(path: &Path) {
    let table = kinds_table();
    for (column, passed) in [("string", vec!["id", "string"]), ("a.b.c", vec!["dictionary", "a", "lists"])] {
        let columns: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
        let spec = SourceSpec { column: Some(column.to_owned()), columns, ..spec(path) };
        let source = opened(&spec, SMALL).unwrap();
        let batches = batches(&*source).unwrap();
        let parts: Vec<RecordBatch> = batches.iter().filter_map(|batch| batch.columns.clone()).collect();
        let schema = source.columns().expect("columns were asked for");
        let all = ::arrow::compute::concat_batches(&parts[0].schema(), &parts).expect("one schema");
        assert_eq!(documents(batches.into_iter().map(Ok)).unwrap(), expected());
        for name in passed {
            let (found, wanted) = (all.column_by_name(name), table.column_by_name(name));
            assert_eq!(found.map(|array| array.to_data()), wanted.map(|array| array.to_data()), "{name}");
            assert_eq!(schema.field_with_name(name).unwrap().data_type(), wanted.unwrap().data_type());
        }
    }
}

/// Requests that do not match the columns are errors, not bad input.
#[test]
fn a_missing_or_wrong_column_is_a_wrong_request() {
    let folder = folder();
    let path = parquet_file(folder.path().join("t.parquet"), &kinds_table(), WriterProperties::default());
    let cases = [
        ("line", vec![], "large_string"),
        ("a.b.x", vec![], "its columns are"),
        ("id", vec![], "holds Int64, not text"),
        ("a.b", vec![], "Struct"),
        ("string", vec!["nope".to_owned()], "\"nope\""),
    ];
    for (column, columns, says) in cases {
        // The request is wrong for every file, so skipping bad input must not hide it.
        let on_bad_input = OnBadInput::Skip;
        let spec = SourceSpec { column: Some(column.to_owned()), columns, on_bad_input, ..spec(&path) };
        let (kind, message) = failure(opened(&spec, SMALL));
        assert_eq!(kind, ErrorKind::Usage, "{message}");
        assert!(message.contains(says), "{message}");
    }
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values(["x"]));
    let other = RecordBatch::try_from_iter([("string", ids.clone()), ("id", ids)]).expect("two columns");
    parquet_file(folder.path().join("u.parquet"), &other, WriterProperties::default());
    let column = Some("string".to_owned());
    let spec = SourceSpec { column, columns: vec!["id".to_owned()], ..spec(folder.path()) };
    let (kind, message) = failure(opened(&spec, SMALL));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(message.contains("u.parquet") && message.contains("Int64"), "{message}");
}

/// A value that a dictionary or a view shares stays shared, so that batches stay within their limit.
#[test]
fn a_long_value_that_many_rows_share_is_not_copied_for_all_of_them_at_once() {
    const ROWS: usize = 2_000;
    let folder = folder();
    let long = "a licence ".repeat(10_000);
    let texts = StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row}")));
    let value = |row: usize| [None, Some("short"), Some(long.as_str()), Some(long.as_str())][row % 4];
    let values = || (0..ROWS).map(value);
    let dictionary: DictionaryArray<Int32Type> = values().collect();
    let bytes = || values().map(|value| value.map(str::as_bytes));
    let strings: ArrayRef = Arc::new(StringArray::from_iter(values()));
    let item = |array: &ArrayRef| Arc::new(Field::new("item", array.data_type().clone(), true));
    let list = |array: &ArrayRef| -> ArrayRef {
        Arc::new(ListArray::new(item(array), OffsetBuffer::from_lengths([1; ROWS]), Arc::clone(array), None))
    };
    let of_struct: ArrayRef =
        Arc::new(StructArray::new(vec![item(&strings)].into(), vec![Arc::clone(&strings)], None));
    let columns: [(&str, ArrayRef); 10] = [
        ("text", Arc::new(texts)),
        ("list", list(&strings)),
        ("structs", list(&of_struct)),
        ("struct", of_struct),
        ("string", Arc::new(StringArray::from_iter(values()))),
        ("large_string", Arc::new(LargeStringArray::from_iter(values()))),
        ("string_view", Arc::new(StringViewArray::from_iter(values()))),
        ("binary", Arc::new(BinaryArray::from_iter(bytes()))),
        ("large_binary", Arc::new(LargeBinaryArray::from_iter(bytes()))),
        ("dictionary", Arc::new(dictionary)),
    ];
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let table = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
    let path = parquet_file(folder.path().join("t.parquet"), &table.unwrap(), WriterProperties::default());
    for name in &names[1..] {
        let spec = SourceSpec { columns: vec![name.clone(), "text".to_owned()], ..spec(&path) };
        let source = opened(&spec, ReadConfig { batch_bytes: 1 << 20, ..ReadConfig::default() }).unwrap();
        let declared = source.columns().unwrap();
        let mut row = 0;
        for batch in batches(&*source).unwrap() {
            let columns = batch.columns.unwrap();
            assert_eq!(columns.schema(), declared);
            let text = columns.column(1).as_string::<i32>();
            assert!(text.value(0) == format!("row {row}"));
            let found = innermost(columns.column(0));
            assert!(found.iter().eq((row..row + text.len()).map(|row| value(row).map(str::as_bytes))));
            let bytes: usize = found.iter().flatten().map(<[u8]>::len).sum();
            assert!(bytes <= 1 << 20, "{name}: {bytes} bytes in a batch");
            row += found.len();
        }
        assert_eq!(row, ROWS);
    }
}

/// The texts in a column of lists with one item each, or of structs with one field.
fn innermost(column: &ArrayRef) -> BinaryViewArray {
    match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            innermost(&list.values().slice(list.value_offsets()[0].try_into().unwrap(), list.len()))
        }
        DataType::Struct(_) => innermost(column.as_struct().column(0)),
        _ => crate::source::cast::views(column).unwrap(),
    }
}

/// Values that take little space in a file, by delta encoding or as nulls, are limited by the memory they take.
#[test]
fn data_that_is_small_in_a_file_is_read_a_few_rows_at_a_time() {
    const ROWS: usize = 1_000;
    const NULLS: usize = 3_000;
    let folder = folder();
    let long = "a licence ".repeat(5_000);
    let same: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&long, ROWS)));
    let short: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n("a", ROWS)));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let nulls = Arc::new(Int64Array::new_null(ROWS * NULLS));
    let nulls: ArrayRef =
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([NULLS; ROWS]), nulls, None));
    let table = RecordBatch::try_from_iter([("same", same), ("text", short), ("nulls", nulls)]).unwrap();
    let properties = WriterProperties::builder()
        .set_column_dictionary_enabled("same".into(), false)
        .set_column_encoding("same".into(), Encoding::DELTA_BYTE_ARRAY)
        .build();
    let path = parquet_file(folder.path().join("t.parquet"), &table, properties);
    let read = |spec| batches(&*opened(&spec, ReadConfig::default()).unwrap()).unwrap();
    for batch in read(SourceSpec { column: Some("same".to_owned()), ..spec(&path) }) {
        let bytes: usize = batch.documents.data_buffers().iter().map(|buffer| buffer.len()).sum();
        assert!(bytes < 20_000_000, "{bytes} bytes behind a batch");
    }
    for batch in read(SourceSpec { columns: vec!["nulls".to_owned()], ..spec(&path) }) {
        let values = batch.columns.unwrap().column(0).as_list::<i32>().values().len();
        assert!(values < 300_000, "{values} values behind a batch");
    }
}

/// The reader does not support dictionaries of decimals, so they are read as plain decimals.
#[test]
fn decimals_that_a_dictionary_has_pass_through_as_decimals() {
    let folder = folder();
    let prices = Decimal128Array::from(vec![Some(1_995), None, Some(250), Some(1_995)]);
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(30, 2).unwrap());
    let keys = Int32Array::from(vec![Some(0), None, Some(2), Some(0)]);
    let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(&prices)));
    let field = |data_type: &DataType| Arc::new(Field::new("price", data_type.clone(), true));
    let structs = |array: &ArrayRef| -> ArrayRef {
        Arc::new(StructArray::new(vec![field(array.data_type())].into(), vec![Arc::clone(array)], None))
    };
    let lists = |array: &ArrayRef| -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths([1; 4]);
        Arc::new(ListArray::new(field(array.data_type()), offsets, Arc::clone(array), None))
    };
    let columns = |array: &ArrayRef| {
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b", "c", "d"]));
        let columns = [("text", text), ("flat", array.clone()), ("in", structs(array)), ("of", lists(array))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    };
    let path = folder.path().join("t.parquet");
    let path = parquet_file(path, &columns(&dictionary), WriterProperties::default());
    let passed: Vec<String> = ["flat", "in", "of"].map(str::to_owned).into();
    let source = opened(&SourceSpec { columns: passed, ..spec(&path) }, ReadConfig::default()).unwrap();
    let batches = batches(&*source).unwrap();
    let expected = columns(&prices).project(&[1, 2, 3]).unwrap();
    assert_eq!(source.columns().unwrap().fields(), expected.schema().fields());
    assert_eq!(batches[0].columns.as_ref().unwrap().columns(), expected.columns());
}

/// Batches stay within their limit; a row larger than that is a batch by itself.
#[test]
fn batches_are_limited_by_bytes_and_a_large_row_is_legal() {
    let folder = folder();
    let large = "x".repeat(3 << 20);
    let rows =
        (0..1_000).map(|row| if row == 500 { large.clone() } else { format!("row {row} of some text") });
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
    let table = RecordBatch::try_from_iter([("text", array)]).expect("one column");
    let path = parquet_file(folder.path().join("t.parquet"), &table, WriterProperties::default());
    let config = ReadConfig { batch_bytes: 4_000, ..SMALL };
    let batches = batches(&*opened(&spec(&path), config).unwrap()).unwrap();
    assert!(batches.iter().all(|batch| batch.text_bytes() <= 4_000 || batch.len() == 1));
    assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), 1_000);
}

/// The identity changes with the footer, and all row groups share it.
#[test]
fn a_parquet_file_is_identified_by_its_footer() {
    let folder = folder();
    let identity = |rows: &[&str]| {
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
        let table = RecordBatch::try_from_iter([("text", array)]).expect("one column");
        let path = parquet_file(folder.path().join("t.parquet"), &table, WriterProperties::default());
        opened(&spec(&path), SMALL).unwrap().identity(0).unwrap()
    };
    assert!(matches!(identity(&["a"]), Identity::Footer { .. }));
    assert_eq!(identity(&["a"]), identity(&["a"]));
    assert_ne!(identity(&["a"]), identity(&["b"]));
}

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn field(name: &str, data_type: &DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, data_type.clone(), nullable))
}

fn structs(fields: Vec<(FieldRef, ArrayRef)>) -> ArrayRef {
    array(StructArray::from(fields))
}

fn lists(item: FieldRef, items: &ArrayRef) -> ArrayRef {
    let offsets = ::arrow::buffer::OffsetBuffer::from_lengths([items.len()]);
    array(ListArray::new(item, offsets, Arc::clone(items), None))
}

fn large_lists(item: FieldRef, items: &ArrayRef) -> ArrayRef {
    let offsets = ::arrow::buffer::OffsetBuffer::from_lengths([items.len()]);
    array(LargeListArray::new(item, offsets, Arc::clone(items), None))
}

fn maps(names: [&str; 3]) -> ArrayRef {
    let [entry, key, value] = names.map(str::to_owned);
    let names = ::arrow::array::MapFieldNames { entry, key, value };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), Int64Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(7);
    maps.append(true).unwrap();
    array(maps.finish())
}

/// Pairs of columns of one row each that differ only in their encoding or in the width of numbers, and both rows in
/// the common type.
#[allow(clippy::too_many_lines)]
fn alike() -> Vec<(&'static str, [ArrayRef; 2], ArrayRef)> {
    let text = || array(StringArray::from(vec!["x"]));
    let large = || array(LargeStringArray::from(vec!["x"]));
    let dictionary = || array(DictionaryArray::<Int32Type>::from_iter(["x"]));
    let u = |nullable| field("u", &DataType::Utf8, nullable);
    let noted = {
        let metadata = [("note".to_owned(), "7".to_owned())];
        Arc::new(Field::clone(&u(true)).with_metadata(metadata))
    };
    let item = |name, of: &ArrayRef| field(name, of.data_type(), true);
    let at = |zone: &str| array(TimestampMicrosecondArray::from(vec![5]).with_timezone(zone));
    let is_one_document = |numbers: Vec<i64>| array(Int64Array::from(numbers));
    let decimal = |precision| {
        array(Decimal128Array::from(vec![Some(120)]).with_precision_and_scale(precision, 2).unwrap())
    };
    let fixed = {
        let mut lists = FixedSizeListBuilder::new(StringBuilder::new(), 1);
        lists.values().append_value("x");
        lists.append(true);
        array(lists.finish())
    };
    let two = |a: Option<&str>, b: Option<&str>| {
        let of = |value: Option<&str>| array(StringArray::from(vec![value]));
        structs(vec![(u(true), of(a)), (field("v", &DataType::Utf8, true), of(b))])
    };
    let only = |name, value| {
        structs(vec![(field(name, &DataType::Utf8, true), array(StringArray::from(vec![value])))])
    };
    let both =
        |arrays: [&ArrayRef; 2]| ::arrow::compute::concat(&arrays.map(|array| &**array)).expect("one type");
    let twice = |array: &ArrayRef| both([array, array]);
    let nothing = || array(NullArray::new(1));
    let no = |of: &ArrayRef| ::arrow::array::new_null_array(of.data_type(), 1);
    let nested = |inner: &ArrayRef| structs(vec![(item("u", inner), Arc::clone(inner))]);
    vec![
        ("nothing and text", [nothing(), text()], both([&no(&text()), &text()])),
        ("text and nothing", [text(), nothing()], both([&text(), &no(&text())])),
        (
            "nothing in a struct",
            [nested(&nothing()), nested(&text())],
            both([&nested(&no(&text())), &nested(&text())]),
        ),
        ("large text", [text(), large()], twice(&large())),
        ("views of text", [array(StringViewArray::from(vec!["x"])), text()], twice(&text())),
        ("a dictionary", [text(), dictionary()], twice(&text())),
        (
            "dictionaries",
            [array(DictionaryArray::<Int8Type>::from_iter(["x"])), dictionary()],
            twice(&text()),
        ),
        ("a dictionary of large text", [dictionary(), large()], twice(&large())),
        (
            "names of items",
            [lists(item("item", &text()), &text()), lists(item("element", &text()), &text())],
            twice(&lists(item("item", &text()), &text())),
        ),
        (
            "large lists",
            [lists(item("item", &text()), &text()), large_lists(item("element", &large()), &large())],
            twice(&large_lists(item("item", &large()), &large())),
        ),
        (
            "lists of fixed length",
            [fixed.clone(), lists(item("item", &text()), &text())],
            twice(&lists(item("item", &text()), &text())),
        ),
        (
            "nullable fields",
            [structs(vec![(u(false), text())]), structs(vec![(u(true), text())])],
            twice(&structs(vec![(u(true), text())])),
        ),
        (
            "what is noted of fields",
            [structs(vec![(noted, text())]), structs(vec![(u(true), text())])],
            twice(&structs(vec![(u(true), text())])),
        ),
        ("names of UTC", [at("UTC"), at("+00:00")], twice(&at("UTC"))),
        ("names of a zone", [at("+05:30"), at("+0530")], twice(&at("+05:30"))),
        (
            "units of time",
            [array(TimestampMillisecondArray::from(vec![5]).with_timezone("Z")), at("Etc/UTC")],
            both([
                &array(TimestampMicrosecondArray::from(vec![5_000]).with_timezone("Z")),
                &array(TimestampMicrosecondArray::from(vec![5]).with_timezone("Z")),
            ]),
        ),
        (
            "times of day",
            [array(Time32MillisecondArray::from(vec![5])), array(Time64MicrosecondArray::from(vec![5]))],
            array(Time64MicrosecondArray::from(vec![5_000, 5])),
        ),
        (
            "bytes of numbers",
            [array(Int8Array::from(vec![-1])), is_one_document(vec![1 << 40])],
            is_one_document(vec![-1, 1 << 40]),
        ),
        (
            "signs",
            [array(UInt32Array::from(vec![u32::MAX])), array(Int32Array::from(vec![-1]))],
            is_one_document(vec![i64::from(u32::MAX), -1]),
        ),
        (
            "numbers without signs",
            [array(UInt8Array::from(vec![1])), array(UInt64Array::from(vec![u64::MAX]))],
            array(UInt64Array::from(vec![1, u64::MAX])),
        ),
        (
            "whole numbers and others",
            [array(Int32Array::from(vec![i32::MAX])), array(Float32Array::from(vec![0.5]))],
            array(Float64Array::from(vec![f64::from(i32::MAX), 0.5])),
        ),
        ("digits", [decimal(9), decimal(12)], twice(&decimal(12))),
        (
            "dates",
            [array(Date32Array::from(vec![2])), array(Date64Array::from(vec![86_400_000]))],
            array(Date32Array::from(vec![2, 1])),
        ),
        (
            "order of fields",
            [
                two(Some("a"), Some("b")),
                structs(vec![
                    (field("v", &DataType::Utf8, true), array(StringArray::from(vec!["d"]))),
                    (u(true), array(StringArray::from(vec!["c"]))),
                ]),
            ],
            both([&two(Some("a"), Some("b")), &two(Some("c"), Some("d"))]),
        ),
        (
            "a field more",
            [only("u", "a"), two(Some("b"), Some("c"))],
            both([&two(Some("a"), None), &two(Some("b"), Some("c"))]),
        ),
        (
            "other fields",
            [only("u", "a"), only("v", "b")],
            both([&two(Some("a"), None), &two(None, Some("b"))]),
        ),
        (
            "names in maps",
            [maps(["entries", "keys", "values"]), maps(["key_value", "key", "value"])],
            twice(&maps(["entries", "keys", "values"])),
        ),
        (
            "numbers in lists",
            [
                array(ListArray::from_iter_primitive::<Int8Type, _, _>([Some([Some(1)])])),
                array(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(2)])])),
            ],
            array(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)]), Some([Some(2)])])),
        ),
    ]
}

fn two_columns(text: &str, column: &ArrayRef) -> RecordBatch {
    let columns = [("text", array(StringArray::from(vec![text]))), ("c", Arc::clone(column))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Writes one Parquet file per column.
fn in_parquet(folder: &Path, columns: &[ArrayRef]) {
    for (column, name) in columns.iter().zip(["a", "b", "c"]) {
        let path = folder.join(name).with_extension("parquet");
        parquet_file(path, &two_columns(name, column), WriterProperties::default());
    }
}

/// Writes one Arrow file per column.
fn in_arrow(folder: &Path, columns: &[ArrayRef]) {
    for (column, name) in columns.iter().zip(["a", "b", "c"]) {
        let table = two_columns(name, column);
        let mut file = ::arrow::ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
        file.write(&table).unwrap();
        written(folder, &format!("{name}.arrow"), file.into_inner().unwrap());
    }
}

fn with_columns(uri: &Path, columns: &[&str]) -> SourceSpec {
    SourceSpec { columns: columns.iter().map(|&name| name.to_owned()).collect(), ..spec(uri) }
}

/// The pass-through columns of a source, and the sentences about columns that files lack.
fn passed(spec: &SourceSpec) -> Result<(RecordBatch, Vec<String>)> {
    let context = OpenContext::new(&Silent);
    let source = open(spec, 0, &context)?;
    let parts: Vec<RecordBatch> = batches(&*source)?.into_iter().filter_map(|batch| batch.columns).collect();
    let all = ::arrow::compute::concat_batches(&parts[0].schema(), &parts).expect("one schema");
    let types = |schema: &::arrow::datatypes::Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    assert_eq!(types(&all.schema()), types(&source.columns().expect("columns were asked for")));
    Ok((all, context.skipped_rows.missing_columns()))
}

/// Such columns are combined in their common type, in both formats.
#[test]
fn columns_that_differ_in_what_is_not_kept_or_in_width_are_one() {
    for write in [in_parquet, in_arrow] {
        for (name, columns, expected) in alike() {
            let folder = folder();
            write(folder.path(), &columns);
            let (found, told) =
                passed(&with_columns(folder.path(), &["c"])).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(found.column(0), &expected, "{name}");
            assert!(told.is_empty(), "{name}: {told:?}");
        }
    }
}

/// Columns without a common type are an error that names both types.
#[test]
fn columns_without_a_common_type_are_errors_that_name_both_types() {
    let text = || array(StringArray::from(vec!["x"]));
    let at = |zone: &str| array(TimestampMicrosecondArray::from(vec![5]).with_timezone(zone));
    let cases = [
        [array(Int64Array::from(vec![1])), text()],
        [array(Int64Array::from(vec![1])), array(UInt64Array::from(vec![1]))],
        [array(Int64Array::from(vec![1])), array(Float64Array::from(vec![1.0]))],
        [at("Europe/Berlin"), at("UTC")],
        [at("UTC"), array(TimestampMicrosecondArray::from(vec![5]))],
        [text(), lists(field("item", &DataType::Utf8, true), &text())],
    ];
    for columns in cases {
        let folder = folder();
        in_parquet(folder.path(), &columns);
        let (kind, message) = failure(passed(&with_columns(folder.path(), &["c"])));
        assert_eq!(kind, ErrorKind::Usage);
        for column in columns {
            assert!(message.contains(&column.data_type().to_string()), "{message}");
        }
        assert!(message.contains("b.parquet"), "{message}");
    }
}

/// A column that only some files have is null in the others, which is reported.
#[test]
fn a_column_that_some_files_lack_is_null_there_and_reported() {
    let text = |text: &str| array(StringArray::from(vec![text]));
    let folder = folder();
    in_parquet(folder.path(), &[text("1"), text("2"), text("3")]);
    let without = two_columns("b", &text("2")).project(&[0]).unwrap();
    for name in ["b", "a"] {
        parquet_file(
            folder.path().join(name).with_extension("parquet"),
            &without,
            WriterProperties::default(),
        );
        let (found, told) = passed(&with_columns(folder.path(), &["c"])).unwrap();
        let expected = [(name == "b").then_some("1"), None, Some("3")];
        assert!(found.column(0).as_string::<i32>().iter().eq(expected));
        let told = told.join("; ");
        let files = if name == "b" { "1 file" } else { "2 files" };
        assert!(told.contains(&format!("\"c\" is null in {files} without it; the first is")), "{told}");
        assert!(told.ends_with(&format!("{name}.parquet")), "{told}");
    }
    let (kind, message) = failure(passed(&with_columns(folder.path(), &["c", "d"])));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(message.contains("\"d\""), "{message}");
}

/// A field that only some files have is null in the others, which is reported; one that none has is an error.
#[test]
fn a_field_that_some_files_lack_is_null_there_and_reported() {
    let folder = folder();
    written(folder.path(), "a.jsonl", "{\"text\": \"1\"}\n");
    written(folder.path(), "b.jsonl", "{\"text\": \"2\", \"c\": 5}\n{\"text\": \"3\"}\n");
    written(folder.path(), "c.jsonl.gz", gzip(b"{\"text\": \"4\"}\n"));
    let (found, told) = passed(&with_columns(folder.path(), &["c"])).unwrap();
    assert!(found.column(0).as_string_view().iter().eq([None, Some("5"), None, None]));
    assert!(told.len() == 1 && told[0].contains("2 files") && told[0].ends_with("a.jsonl"), "{told:?}");
    let (kind, message) = failure(passed(&with_columns(folder.path(), &["c", "d"])));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(message.contains("no field \"d\""), "{message}");
}

/// Folder names like `lang=fr` give values for files that lack the column, or fill its nulls.
#[test]
fn folders_named_for_a_column_give_its_values() {
    let column = array(StringArray::from(vec!["own"]));
    let own = two_columns("b", &column);
    let without = own.project(&[0]).unwrap();
    let path = |folder: &Path, name: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    let folder_of = |write: &dyn Fn(&Path)| {
        let folder = folder();
        write(folder.path());
        folder
    };
    let parquet = folder_of(&|folder| {
        parquet_file(path(folder, "c=fr/a.parquet"), &without, WriterProperties::default());
        parquet_file(path(folder, "c=other/b.parquet"), &own, WriterProperties::default());
        let nothing = path(folder, "c=__HIVE_DEFAULT_PARTITION__/c.parquet");
        parquet_file(nothing, &without, WriterProperties::default());
    });
    let jsonl = folder_of(&|folder| {
        written(folder, "c=fr/a.jsonl", "{\"text\": \"1\"}\n");
        written(folder, "c=other/b.jsonl", "{\"text\": \"2\", \"c\": \"own\"}\n");
        written(folder, "c=__HIVE_DEFAULT_PARTITION__/c.jsonl", "{\"text\": \"3\"}\n");
    });
    let text = folder_of(&|folder| {
        written(folder, "c=fr/a.txt", "1");
        written(folder, "c=own/b.txt", "2");
        written(folder, "c=__HIVE_DEFAULT_PARTITION__/c.txt", "3");
    });
    for folder in [parquet, jsonl, text] {
        let (found, told) = passed(&with_columns(folder.path(), &["c"])).unwrap();
        let found = crate::source::cast::views(found.column(0)).unwrap();
        // The files are in byte order of their paths.
        let expected: [Option<&[u8]>; 3] = [None, Some(b"fr"), Some(b"own")];
        assert!(found.iter().eq(expected), "{found:?}");
        assert!(told.is_empty(), "{told:?}");
    }
}

/// A name that two columns have is ambiguous.
#[test]
fn a_name_of_two_columns_is_refused() {
    let text = |text: &str| array(StringArray::from(vec![text]));
    let id = |id| array(Int64Array::from(vec![id]));
    let pair = |name: &str| {
        structs(vec![
            (field(name, &DataType::Utf8, true), text("a")),
            (field("u", &DataType::Utf8, true), text("b")),
        ])
    };
    let columns = [
        ("text", text("left")),
        ("text", text("right")),
        ("id", id(1)),
        ("id", id(2)),
        ("one", text("one")),
        ("two", pair("u")),
        ("s", pair("v")),
        ("s", pair("v")),
    ];
    let fields: Vec<FieldRef> =
        columns.iter().map(|(name, column)| field(name, column.data_type(), true)).collect();
    let arrays = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
    let table = RecordBatch::try_new(Arc::new(::arrow::datatypes::Schema::new(fields)), arrays).unwrap();
    let folder = folder();
    let parquet = parquet_file(folder.path().join("a.parquet"), &table, WriterProperties::default());
    let mut stream = ::arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    stream.write(&table).unwrap();
    let stream = written(folder.path(), "a.arrows", stream.into_inner().unwrap());
    for path in [parquet, stream] {
        for (column, passed, named) in
            [("text", None, "text"), ("one", Some("id"), "id"), ("two.u", None, "u"), ("s.v", None, "s")]
        {
            let columns = passed.map(str::to_owned).into_iter().collect();
            let spec = SourceSpec { column: Some(column.to_owned()), columns, ..spec(&path) };
            let (kind, message) = failure(read(&spec, ReadConfig::default()));
            assert_eq!(kind, ErrorKind::Usage);
            assert!(message.contains(&format!("{named:?} names two columns of")), "{message}");
        }
        let spec = SourceSpec { column: Some("one".to_owned()), ..spec(&path) };
        assert_eq!(read(&spec, ReadConfig::default()).unwrap(), texts(["one"]));
    }
}

/// The rows of [`table`] as JSON Lines.
const LINES: &str = r#"{"title":"T1","text":"one","tags":["a","b"],"messages":[{"role":"user","content":"hi"},{"role":"bot","content":"yo"}],"meta":{"lang":"fr","notes":["x",null,""]},"deep":[["p","q"],[],["r"]],"pair":["c","d"]}
{"title":null,"text":"two","tags":[],"messages":null,"meta":null,"deep":null,"pair":null}
{"title":"T3","text":null,"tags":null,"messages":[{"role":"user","content":null},{"content":"end"}],"meta":{"lang":null,"notes":null}}
{"text":null,"other":5}
"#;

fn field_of(name: &str, of: &ArrayRef) -> FieldRef {
    Arc::new(Field::new(name, of.data_type().clone(), true))
}

fn texts_of(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn list(lengths: &[usize], items: &ArrayRef, valid: &[bool]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(
        field_of("item", items),
        offsets,
        Arc::clone(items),
        Some(NullBuffer::from(valid.to_vec())),
    ))
}

fn structs_of(fields: &[(&str, ArrayRef)], valid: &[bool]) -> ArrayRef {
    let (fields, columns): (Vec<_>, Vec<_>) =
        fields.iter().map(|(name, column)| (field_of(name, column), Arc::clone(column))).unzip();
    Arc::new(StructArray::new(fields.into(), columns, Some(NullBuffer::from(valid.to_vec()))))
}

fn nested_table() -> RecordBatch {
    let messages = structs_of(
        &[
            ("role", texts_of(&[Some("user"), Some("bot"), Some("user"), None])),
            ("content", texts_of(&[Some("hi"), Some("yo"), None, Some("end")])),
        ],
        &[true; 4],
    );
    let notes = list(&[3, 0, 0, 0], &texts_of(&[Some("x"), None, Some("")]), &[true, true, false, true]);
    // Values that a null hides must not appear.
    let meta = structs_of(
        &[("notes", notes), ("lang", texts_of(&[Some("fr"), Some("hidden"), None, Some("hidden")]))],
        &[true, false, true, false],
    );
    let letters = Arc::new(LargeStringArray::from(vec!["p", "q", "r"]));
    let letters: ArrayRef = letters;
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let inner: ArrayRef =
        Arc::new(LargeListArray::new(field_of("element", &letters), offsets, letters, None));
    let pairs =
        texts_of(&[Some("c"), Some("d"), Some("h"), Some("h"), Some("h"), Some("h"), Some("h"), Some("h")]);
    let valid = NullBuffer::from(vec![true, false, false, false]);
    let pairs = FixedSizeListArray::new(field_of("item", &pairs), 2, pairs, Some(valid));
    let columns: [(&str, ArrayRef); 7] = [
        ("title", texts_of(&[Some("T1"), None, Some("T3"), None])),
        ("text", texts_of(&[Some("one"), Some("two"), None, None])),
        ("tags", list(&[2, 0, 0, 0], &texts_of(&[Some("a"), Some("b")]), &[true, true, false, false])),
        ("messages", list(&[2, 0, 2, 0], &messages, &[true, false, true, false])),
        ("meta", meta),
        ("deep", list(&[3, 0, 0, 0], &inner, &[true, false, false, false])),
        ("pair", Arc::new(pairs)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Files with the same rows in every format that has columns.
fn files(folder: &Path, table: &RecordBatch, lines: &str) -> Vec<std::path::PathBuf> {
    let mut file = ::arrow::ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = ::arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    file.write(table).unwrap();
    stream.write(table).unwrap();
    vec![
        parquet_file(folder.join("a.parquet"), table, WriterProperties::default()),
        written(folder, "a.arrow", file.into_inner().unwrap()),
        written(folder, "a.arrows", stream.into_inner().unwrap()),
        written(folder, "a.jsonl", lines),
    ]
}

/// Nested columns, lists and templates give the same text in every format.
#[test]
fn the_text_of_a_row_is_the_same_in_every_format() {
    type Rows = [Option<&'static str>; 4];
    let columns: [(&str, Option<&str>, Rows); 9] = [
        ("text", None, [Some("one"), Some("two"), None, None]),
        ("meta.lang", None, [Some("fr"), None, None, None]),
        ("tags[]", None, [Some("a\nb"), None, None, None]),
        ("tags[]", Some(", "), [Some("a, b"), None, None, None]),
        ("messages[].content", None, [Some("hi\nyo"), None, Some("end"), None]),
        ("messages[].role", Some(""), [Some("userbot"), None, Some("user"), None]),
        ("meta.notes[]", Some("|"), [Some("x|"), None, None, None]),
        ("deep[][]", Some(","), [Some("p,q,r"), None, None, None]),
        ("pair[]", None, [Some("c\nd"), None, None, None]),
    ];
    let templates: [(&str, Option<&str>, Rows); 4] = [
        ("{title}: {text}", None, [Some("T1: one"), Some(": two"), Some("T3: "), None]),
        ("{text}{text}", None, [Some("oneone"), Some("twotwo"), None, None]),
        ("{{{meta.lang}}} {messages[].content}", Some("/"), [Some("{fr} hi/yo"), None, Some("{} end"), None]),
        (
            "{messages[].role}\n{messages[].content}\n",
            Some(" "),
            [Some("user bot\nhi yo\n"), None, Some("user\nend\n"), None],
        ),
    ];
    let folder = folder();
    for path in files(folder.path(), &nested_table(), LINES) {
        let columns = columns.iter().map(|(column, join, rows)| (Some(*column), None, join, rows));
        let templates = templates.iter().map(|(template, join, rows)| (None, Some(*template), join, rows));
        for (column, template, join, rows) in columns.chain(templates) {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let spec = SourceSpec {
                column: owned(column),
                template: owned(template),
                join: owned(*join),
                ..spec(&path)
            };
            let expected: Texts = rows.iter().map(|row| row.map(|text| text.as_bytes().to_vec())).collect();
            for config in [SMALL, ReadConfig::default()] {
                let found = read(&spec, config).unwrap_or_else(|e| panic!("{path:?} {spec:?}: {e}"));
                assert_eq!(found, expected, "{path:?} {spec:?}");
            }
        }
    }
}

/// Nested pass-through fields are read beside any kind of text.
#[test]
fn fields_of_structs_pass_through_beside_any_text() {
    let folder = folder();
    for path in files(folder.path(), &nested_table(), LINES) {
        for column in ["text", "messages[].content", "meta.lang"] {
            let columns = ["meta.lang", "title"].map(str::to_owned).to_vec();
            let spec = SourceSpec { column: Some(column.to_owned()), columns, ..spec(&path) };
            for config in [SMALL, ReadConfig::default()] {
                let source = opened(&spec, config).unwrap();
                let schema = source.columns().unwrap();
                let parts: Vec<_> =
                    batches(&*source).unwrap().into_iter().map(|batch| batch.columns.unwrap()).collect();
                let found = ::arrow::compute::concat_batches(&parts[0].schema(), &parts).unwrap();
                let column = |name| crate::source::cast::views(found.column_by_name(name).unwrap()).unwrap();
                let bytes = |text: Option<&'static str>| text.map(str::as_bytes);
                assert!(column("meta.lang").iter().eq([bytes(Some("fr")), None, None, None]), "{path:?}");
                assert!(
                    column("title").iter().eq([bytes(Some("T1")), None, bytes(Some("T3")), None]),
                    "{path:?}"
                );
                for (one, other) in schema.fields().iter().zip(found.schema().fields()) {
                    assert_eq!((one.name(), one.data_type()), (other.name(), other.data_type()));
                }
            }
        }
    }
}

/// A name with a dot takes precedence over a nested path, in every format.
#[test]
fn a_dotted_name_means_the_same_for_text_and_columns_in_every_format() {
    let nested = structs_of(&[("b", texts_of(&[Some("nested"), Some("nested")]))], &[true; 2]);
    let both: [(&str, ArrayRef); 2] = [("a", nested), ("a.b", texts_of(&[Some("own"), Some("own")]))];
    let both =
        RecordBatch::try_from_iter_with_nullable(both.map(|(name, column)| (name, column, true))).unwrap();
    let lines = "{\"a\":{\"b\":\"nested\"},\"a.b\":\"own\"}\n{\"a.b\":\"own\",\"a\":{\"b\":\"nested\"}}\n";
    let only = both.project(&[0]).unwrap();
    let folder = folder();
    let cases = [
        (&both, lines, "own"),
        (&only, "{\"a\":{\"b\":\"nested\"}}\n{\"a\":{\"b\":\"other\",\"b\":\"nested\"}}\n", "nested"),
    ];
    for (table, lines, expected) in cases {
        for path in files(folder.path(), table, lines) {
            let (column, columns) = (Some("a.b".to_owned()), vec!["a.b".to_owned()]);
            let spec = SourceSpec { column, columns, ..spec(&path) };
            assert_eq!(read(&spec, ReadConfig::default()).unwrap(), texts([expected; 2]), "{path:?}");
            for batch in batches(&*opened(&spec, ReadConfig::default()).unwrap()).unwrap() {
                let columns = batch.columns.unwrap();
                let found = crate::source::cast::views(columns.column_by_name("a.b").unwrap()).unwrap();
                assert!(found.iter().all(|text| text == Some(expected.as_bytes())), "{path:?}");
            }
        }
    }
}

/// A request for a column that is not text is answered with the name that would work.
#[test]
fn what_is_no_text_says_how_it_is_one() {
    let folder = folder();
    for (number, path) in files(folder.path(), &nested_table(), LINES).iter().enumerate() {
        let is_jsonl = number == 3;
        for (column, says, says_of_lines) in [
            ("tags", "name its items, tags[]", "expected a string or null in \"tags\""),
            ("messages", "messages[].content", "expected a string or null"),
            ("messages[]", "Struct", "expected a string or null"),
            ("text[]", "no column \"text[]\"", "expected a list or null in \"text[]\""),
            ("messages[].nope", "no column \"messages[].nope\"", "no field \"messages[].nope\""),
            ("tags[]nope", "no column \"tags[]nope\"", "no field \"tags[]nope\""),
        ] {
            let spec = SourceSpec { column: Some(column.to_owned()), ..spec(path) };
            let says = if is_jsonl { says_of_lines } else { says };
            let (_, message) = failure(read(&spec, ReadConfig::default()));
            assert!(message.contains(says), "{path:?} {column}: {message}");
        }
        let spec = SourceSpec { template: Some("{title".to_owned()), ..spec(path) };
        let (kind, message) = failure(read(&spec, ReadConfig::default()));
        assert_eq!(kind, ErrorKind::Usage);
        assert!(message.contains("the template has a single \"{\""), "{message}");
    }
}

/// Composed texts occupy memory of their own, so they are composed a few rows at a time even if the file shares their
/// parts.
#[test]
fn long_texts_are_put_together_within_a_batch() {
    const ROWS: usize = 500;
    let long = "a licence ".repeat(10_000);
    let shared: ::arrow::array::DictionaryArray<::arrow::datatypes::Int32Type> =
        std::iter::repeat_n(&*long, ROWS).collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("text", Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| row.to_string())))),
        ("long", Arc::new(shared)),
    ];
    let table =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    let folder = folder();
    for path in files(folder.path(), &table, "").into_iter().take(3) {
        let spec = SourceSpec { template: Some("{long}{text}{long}".to_owned()), ..spec(&path) };
        let mut row = 0;
        for batch in opened(&spec, ReadConfig { batch_bytes: 1 << 20, ..ReadConfig::default() })
            .unwrap()
            .read(0)
            .unwrap()
        {
            let batch = batch.unwrap();
            assert!(
                batch.documents.data_buffers().iter().map(|buffer| buffer.len()).sum::<usize>() < 2 << 20
            );
            for text in batch.iter().flatten() {
                assert!(text == format!("{long}{row}{long}").as_bytes());
                row += 1;
            }
        }
        assert_eq!(row, ROWS);
    }
}

fn text_table() -> RecordBatch {
    let rows = (0..300).map(|row| format!("row {row} {}", "of some text ".repeat(row % 7)));
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
    RecordBatch::try_from_iter([("text", array)]).expect("one column")
}

/// A Parquet file with three row groups of several pages each.
fn parquet_bytes(compression: Compression) -> Vec<u8> {
    let folder = folder();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_compression(compression)
        .set_data_page_row_count_limit(30)
        .set_write_batch_size(10)
        .build();
    fs::read(parquet_file(folder.path().join("t.parquet"), &text_table(), properties)).expect("just written")
}

/// A truncated Parquet file is an error that names the file, wherever it ends.
#[test]
fn a_cut_file_is_an_error_at_every_length() {
    let bytes = parquet_bytes(Compression::SNAPPY);
    let folder = folder();
    let step = (bytes.len() / 200).max(1);
    for length in (0..bytes.len()).step_by(step).chain(bytes.len() - 20..bytes.len()) {
        let path = written(folder.path(), "cut.parquet", &bytes[..length]);
        let (kind, message) = failure(read(&spec(&path), ReadConfig::default()));
        assert_eq!(kind, ErrorKind::Failed, "{length} bytes");
        assert!(message.contains("cut.parquet"), "{message}");
    }
}

/// Truncated Arrow data is an error wherever it ends, except for a stream that ends between two messages, because the
/// marker at the end is optional.
#[test]
fn cut_arrow_data_is_an_error_at_every_length_but_between_messages() {
    use ::arrow::ipc::writer::{FileWriter, StreamWriter};

    let table = text_table();
    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut ends = vec![(stream.get_ref().len(), 0)];
    for at in [0, 100, 200] {
        file.write(&table.slice(at, 100)).unwrap();
        stream.write(&table.slice(at, 100)).unwrap();
        ends.push((stream.get_ref().len(), at + 100));
    }
    let folder = folder();
    let (file, stream) = (file.into_inner().unwrap(), stream.into_inner().unwrap());
    for (bytes, ends) in [(file, Vec::new()), (stream, ends)] {
        let near = ends.iter().flat_map(|(end, _)| end - 9..end + 9).chain(bytes.len() - 20..bytes.len());
        let lengths = (0..bytes.len()).step_by((bytes.len() / 200).max(1)).chain(near);
        for length in lengths.filter(|length| *length < bytes.len()) {
            let path = written(folder.path(), "cut.arrow", &bytes[..length]);
            let outcome = read(&spec(&path), ReadConfig::default());
            if let Some((_, rows)) = ends.iter().find(|(end, _)| *end == length) {
                assert_eq!(outcome.unwrap().len(), *rows, "{length} bytes");
                continue;
            }
            assert!(outcome.is_err(), "{length} bytes are read as if they were all");
            let (kind, message) = failure(outcome);
            assert_eq!(kind, ErrorKind::Failed, "{length} bytes");
            assert!(message.contains("cut.arrow"), "{message}");
        }
    }
}

/// Arrow data in big-endian byte order is rejected with the reason.
#[test]
fn arrow_data_in_the_other_byte_order_is_an_error() {
    use ::arrow::ipc::convert::IpcSchemaEncoder;
    use ::arrow::ipc::{Endianness, FooterBuilder, MessageBuilder, MessageHeader, SchemaBuilder};

    let folder = folder();
    for in_file in [false, true] {
        let mut made = IpcSchemaEncoder::new().schema_to_fb(&text_table().schema());
        made.reset();
        let mut schema = SchemaBuilder::new(&mut made);
        schema.add_endianness(Endianness::Big);
        let schema = schema.finish();
        if in_file {
            let mut footer = FooterBuilder::new(&mut made);
            footer.add_schema(schema);
            let footer = footer.finish();
            made.finish(footer, None);
        } else {
            let mut message = MessageBuilder::new(&mut made);
            message.add_header_type(MessageHeader::Schema);
            message.add_header(schema.as_union_value());
            let message = message.finish();
            made.finish(message, None);
        }
        let head = made.finished_data();
        let length = u32::try_from(head.len()).unwrap().to_le_bytes();
        let bytes = match in_file {
            true => [b"ARROW1\0\0", head, &length, b"ARROW1"].concat(),
            false => [&[0xFF; 4], length.as_slice(), head].concat(),
        };
        let path = written(folder.path(), "other.arrow", bytes);
        let refused = opened(&spec(&path), ReadConfig::default()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Failed);
        let told = format!("{refused:?}");
        assert!(told.contains("its byte order is not that of this machine"), "{told}");
    }
}

/// Feather V1 is rejected with the way to convert it.
#[test]
fn feather_version_1_is_an_error() {
    let folder = folder();
    let path = written(folder.path(), "old.feather", b"FEA1\0\0\0\0 some columns FEA1");
    let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
    let context = OpenContext::new(&Silent);
    assert!(open(&spec, 0, &context).unwrap().units().is_empty());
    let problem = context.skipped_rows.first().expect("a file that is left out");
    for said in ["old.feather", "Feather V1", "version=2"] {
        assert!(problem.contains(said), "{problem}");
    }
}

/// Text with the name of a Parquet file is recognized as text; other data is not.
#[test]
fn text_named_parquet_is_an_error_that_says_so() {
    let folder = folder();
    let path = written(folder.path(), "page.parquet", "Only some lines of text, schön.\n");
    let (kind, message) = failure(opened(&spec(&path), SMALL));
    assert_eq!(kind, ErrorKind::Failed);
    assert!(message.contains("page.parquet") && message.contains("looks like text"), "{message}");
    let path = written(folder.path(), "noise.parquet", b"\x00\x01\x02\xFF\xFE".repeat(9));
    assert!(!failure(opened(&spec(&path), SMALL)).1.contains("looks like text"));
}

proptest! {
    /// Flipped bits never cause a panic. The text is not compared: some flips hit it, and then it is different text.
    #[test]
    fn flipped_bytes_never_panic(
        at in any::<prop::sample::Index>(),
        tail in any::<bool>(),
        flip in 1_u8..,
        snappy in any::<bool>(),
    ) {
        let codec = if snappy { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
        let mut bytes = parquet_bytes(codec);
        let from = if tail { bytes.len().saturating_sub(400) } else { 0 };
        let at = from + at.index(bytes.len() - from);
        bytes[at] ^= flip;
        let folder = folder();
        let path = written(folder.path(), "flipped.parquet", bytes);
        let strict = read_loosely(&spec(&path));
        let skipping = read_loosely(&SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(&path) });
        if let Ok(rows) = strict {
            prop_assert_eq!(rows, 300);
        }
        prop_assert!(skipping.is_ok() || skipping.is_err_and(|error| error.kind() == ErrorKind::Usage));
    }

    /// Flipped bits in Arrow data never cause a panic.
    #[test]
    fn flipped_arrow_bytes_never_panic(at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut writer = ::arrow::ipc::writer::FileWriter::try_new(Vec::new(), &text_table().schema()).unwrap();
        writer.write(&text_table()).unwrap();
        let mut bytes = writer.into_inner().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let folder = folder();
        let path = written(folder.path(), "flipped.arrow", bytes);
        let _ = read_loosely(&spec(&path));
    }
}

/// Tables without text that take almost no space in a file, each with the name of its text column. A second column
/// can be passed through.
fn many_nulls() -> [(RecordBatch, &'static str); 3] {
    use ::arrow::array::{DictionaryArray, Int8Array, NullArray, StructArray};
    use ::arrow::datatypes::{DataType, Field, Int8Type};

    let nulls = |rows| -> ArrayRef { Arc::new(NullArray::new(rows)) };
    let table = |text: ArrayRef| {
        let id = nulls(text.len());
        RecordBatch::try_from_iter_with_nullable([("text", text, true), ("id", id, true)]).unwrap()
    };
    let field = Field::new("in", DataType::Null, true);
    let nested = StructArray::new(vec![field].into(), vec![nulls(3 << 16)], None);
    let shared = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1, 2]), nulls(1 << 33));
    [(table(nulls(1 << 33)), "text"), (table(Arc::new(nested)), "text.in"), (table(Arc::new(shared)), "text")]
}

/// The table in both Arrow formats.
fn as_file_and_stream(table: &RecordBatch) -> [Vec<u8>; 2] {
    use ::arrow::ipc::writer::{FileWriter, StreamWriter};

    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    file.write(table).unwrap();
    stream.write(table).unwrap();
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

/// Sizes that Arrow data declares are not trusted: memory for the declared decompressed sizes, or for as many
/// documents as untyped nulls can declare, could not be allocated.
#[test]
fn sizes_that_arrow_data_declares_are_not_believed() {
    use ::arrow::ipc::CompressionType;
    use ::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    let folder = folder();
    for (nulls, column) in many_nulls() {
        for bytes in as_file_and_stream(&nulls) {
            let path = written(folder.path(), "nulls.arrow", &bytes);
            let (column, columns) = (Some(column.to_owned()), vec!["id".to_owned()]);
            let source =
                opened(&SourceSpec { column, columns, ..spec(&path) }, ReadConfig::default()).unwrap();
            let mut rows = 0;
            for batch in source.read(0).unwrap().take(3).map(Result::unwrap) {
                assert_eq!(batch.first_row, rows);
                assert!((1..=1 << 16).contains(&batch.len()) && batch.documents.null_count() == batch.len());
                assert_eq!(batch.columns.as_ref().unwrap().num_rows(), batch.len());
                rows += crate::base::int::to_u64(batch.len());
            }
            assert_eq!(rows, crate::base::int::to_u64(nulls.num_rows()).min(3 << 16));
        }
    }
    let table = text_table();
    let length = table.column(0).to_data().buffers()[1].len();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = || IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &table.schema(), options()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options()).unwrap();
        file.write(&table).unwrap();
        stream.write(&table).unwrap();
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            let path = written(folder.path(), "whole.arrow", &bytes);
            assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap().len(), 300);
            let declared = crate::base::int::to_u64(length).to_le_bytes();
            let at = bytes.windows(8).position(|word| word == declared).expect("the size of the text");
            for size in [1_u64 << 60, i64::MAX.cast_unsigned()] {
                let mut lying = bytes.clone();
                lying[at..at + 8].copy_from_slice(&size.to_le_bytes());
                let path = written(folder.path(), "lying.arrow", lying);
                let (kind, message) = failure(read(&spec(&path), ReadConfig::default()));
                assert_eq!(kind, ErrorKind::Failed);
                assert!(message.contains("lying.arrow: record batch 0"), "{message}");
            }
        }
    }
}

/// Reads all units and counts the rows, without checks of the batches.
fn read_loosely(spec: &SourceSpec) -> Result<usize> {
    let source = opened(spec, ReadConfig::default())?;
    let mut rows = 0;
    for unit in 0..source.units().len() {
        for batch in source.read(unit)? {
            rows += batch?.len();
        }
    }
    Ok(rows)
}

/// Damaged files and row groups are skipped, counted with all their rows, and listed in order.
#[test]
fn bad_files_and_row_groups_are_left_out_and_listed() {
    let mut bytes = parquet_bytes(Compression::UNCOMPRESSED);
    // Overwrites pages of the second row group. The first precedes and the third follows them.
    let (from, to) = (bytes.len() / 3 + 200, bytes.len() / 3 + 600);
    bytes[from..to].fill(0xEE);
    let folder = folder();
    written(folder.path(), "a.parquet", &bytes);
    written(folder.path(), "b.parquet", b"PAR1 and nothing more");
    written(folder.path(), "c.parquet", parquet_bytes(Compression::UNCOMPRESSED));
    for on_bad_input in [OnBadInput::Skip, OnBadInput::Quarantine] {
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input, ..spec(folder.path()) };
        let source = open(&spec, 0, &context).unwrap();
        let rows: usize = in_order(vec![source], 2).map(|batch| batch.unwrap().len()).sum();
        assert!((500..600).contains(&rows), "{rows} rows");
        // One file, plus the rows of the row group that were not given out before the damage was found.
        assert_eq!(context.skipped_rows.count(), 1 + 600 - crate::base::int::to_u64(rows));
        assert!(context.skipped_rows.first().is_some_and(|first| first.contains("b.parquet")));
        let listed = context.skipped_rows.listed();
        if on_bad_input == OnBadInput::Skip {
            assert!(listed.is_empty());
        } else {
            assert!(listed[0].problem.contains("b.parquet"), "{listed:?}");
            assert!(listed[1].problem.contains("a.parquet: row group 1"), "{listed:?}");
            assert!(listed[1].problem.ends_with(&format!("; {} rows are lost", 600 - rows)), "{listed:?}");
        }
    }
    let (kind, message) = failure(read(&spec(&folder.path().join("a.parquet")), ReadConfig::default()));
    assert_eq!(kind, ErrorKind::Failed);
    assert!(message.contains("row group 1"), "{message}");
}

/// A file's footer lists the positions of record batches, so reading continues after a damaged one. A stream does
/// not.
#[test]
fn of_an_arrow_file_a_damaged_record_batch_alone_is_left_out() {
    use ::arrow::ipc::writer::{FileWriter, StreamWriter};

    let (folder, table) = (folder(), text_table());
    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    for part in [0, 100, 200].map(|from| table.slice(from, 100)) {
        file.write(&part).unwrap();
        stream.write(&part).unwrap();
    }
    for (mut bytes, rows, lost) in
        [(file.into_inner().unwrap(), 200, 100), (stream.into_inner().unwrap(), 100, 1)]
    {
        let at = bytes.windows(8).position(|word| word == b"row 100 ").expect("a row of the second batch");
        // Overwrites the offsets of its texts.
        bytes[at - 400..at].fill(0xFF);
        let path = written(folder.path(), "a.arrow", &bytes);
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
        let source = open(&spec, 0, &context).unwrap();
        let batches: Vec<Batch> = in_order(vec![source], 1).collect::<Result<_>>().unwrap();
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), rows);
        assert_eq!(context.skipped_rows.count(), lost);
        assert!(context.skipped_rows.listed()[0].problem.contains("a.arrow: record batch 1"));
        assert_eq!(batches.last().map(|last| last.first_row), Some(if rows == 200 { 200 } else { 0 }));
    }
}

/// Text before the damage in a compressed file is read; the rest is skipped and counted once.
#[test]
fn damaged_compression_keeps_what_came_before() {
    let text: String = (0..20_000).map(|line| format!("line {}\n", line * 7_919 % 10_007)).collect();
    let rows: String =
        (0..20_000).map(|line| format!("{{\"text\":\"{}\"}}\n", line * 7_919 % 10_007)).collect();
    let folder = folder();
    for (name, content) in [("t.txt.gz", &text), ("t.jsonl.gz", &rows)] {
        let is_one_document = gzip(content.as_bytes());
        let path = written(folder.path(), name, &is_one_document[..is_one_document.len() / 2]);
        for documents in [DocumentRule::Line, DocumentRule::File] {
            let strict = SourceSpec { documents: documents.clone(), ..spec(&path) };
            let (kind, message) = failure(read(&strict, SMALL));
            assert_eq!(kind, ErrorKind::Failed);
            assert!(message.contains(name), "{message}");

            let context = OpenContext { config: SMALL, ..OpenContext::new(&Silent) };
            let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..strict };
            let source = open(&skipping, 0, &context).unwrap();
            let unit = in_order(vec![source], 1).collect::<Result<Vec<Batch>>>().unwrap();
            assert!(unit.iter().map(Batch::len).sum::<usize>() > 1_000);
            assert!(!unit.last().expect("some batches").open);
            assert_eq!(context.skipped_rows.count(), 1);
        }
    }
}

/// Rows that are skipped while reading ahead count only when the consumer takes the next batch or reaches the end.
#[test]
fn what_is_read_ahead_and_not_taken_is_not_left_out() {
    let folder = folder();
    written(folder.path(), "a.jsonl", "{\"text\": \"good\"}\n".repeat(10));
    written(folder.path(), "b.jsonl", "bad\n".repeat(100));
    for threads in [0, 1, 4] {
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(folder.path()) };
        let source = open(&spec, 0, &context).unwrap();
        let mut documents = in_order(vec![Arc::clone(&source)], threads);
        assert_eq!(documents.next().expect("a batch").unwrap().len(), 10);
        while threads > 0 && source.skipped(1) < 100 {
            std::thread::yield_now();
        }
        assert_eq!(context.skipped_rows.count(), 0, "{threads} threads");
        assert!(documents.next().is_none());
        assert_eq!(context.skipped_rows.count(), 100);
        drop(documents);
        // An unfinished reading does not count if another one was started after it.
        let mut earlier = source.read(1).unwrap();
        let later = in_order(vec![source], 1).count();
        assert!(earlier.next().is_none());
        assert_eq!((later, context.skipped_rows.count()), (1, 100));
    }
}

/// Reads a file that pyarrow 26 wrote, with the columns id, text and body. The column text is encrypted, the footer
/// is not.
#[test]
fn encrypted_columns_are_errors_and_others_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encrypted_column.parquet");
    let (kind, message) = failure(opened(&spec(&path), ReadConfig::default()));
    assert_eq!(kind, ErrorKind::Failed);
    for part in ["encrypted_column.parquet", "column \"text\"", "is encrypted", "decrypt it first"] {
        assert!(message.contains(part), "{message}");
    }
    let body = SourceSpec { column: Some("body".to_owned()), ..spec(&path) };
    assert_eq!(read(&body, ReadConfig::default()).unwrap(), texts(["x", "y", "z"]));
    let passing = SourceSpec { columns: vec!["text".to_owned()], ..body };
    assert!(failure(opened(&passing, ReadConfig::default())).1.contains("column \"text\""));
}

/// The footer of the last file counts from that file's beginning, so positions in it would be taken from the first
/// file.
#[test]
fn parquet_files_laid_end_to_end_are_refused() {
    let folder = folder();
    let file = |rows: std::ops::Range<usize>, bloom| {
        let table = text_table().slice(rows.start, rows.len());
        let properties = WriterProperties::builder().set_bloom_filter_enabled(bloom).build();
        fs::read(parquet_file(folder.path().join("t.parquet"), &table, properties)).expect("just written")
    };
    let (one, two, bloom) = (file(0..100, false), file(100..300, false), file(0..100, true));
    for parts in [[&one, &one], [&one, &two], [&two, &one], [&bloom, &bloom], [&one, &bloom]] {
        let path = written(folder.path(), "both.parquet", parts.map(|part| &part[..]).concat());
        let error = opened(&spec(&path), ReadConfig::default()).err().expect("two files");
        assert!(format!("{error:?}").contains("several files joined into one"), "{error:?}");
    }
    for is_one_document in [&one, &two, &bloom] {
        let path = written(folder.path(), "one.parquet", is_one_document);
        assert!(read(&spec(&path), ReadConfig::default()).is_ok());
    }
}

/// Tests of files that change after they were listed, before or while they are read.
#[cfg(unix)]
mod changed {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use ::arrow::array::{ArrayRef, RecordBatch, StringArray};
    use ::arrow::ipc::writer::{FileWriter, StreamWriter};
    use ::parquet::file::properties::WriterProperties;

    use super::*;

    /// Rows of the tables in these tests.
    const ROWS: usize = 400;

    fn numbered_table() -> RecordBatch {
        let rows: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row}"))));
        RecordBatch::try_from_iter([("text", rows)]).expect("one column")
    }

    /// Writes Parquet with row groups of 100 rows. `rows` = 100 gives a file with only the first row group.
    fn parquet(folder: &Path, name: &str, rows: usize) -> PathBuf {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
        parquet_file(folder.join(name), &numbered_table().slice(0, rows), properties)
    }

    fn written_as(folder: &Path, name: &str) -> PathBuf {
        let table = numbered_table();
        let lines = |line: &dyn Fn(usize) -> String| (0..ROWS).map(line).collect::<String>();
        let jsonl = || lines(&|row| format!("{{\"text\": \"row {row}\"}}\n"));
        let bytes = match name {
            "a.parquet" => return parquet(folder, name, ROWS),
            "a.arrow" => {
                let mut file = FileWriter::try_new(Vec::new(), &table.schema()).expect("memory");
                (0..ROWS).step_by(100).for_each(|at| file.write(&table.slice(at, 100)).expect("memory"));
                file.into_inner().expect("memory")
            }
            "a.arrows" => {
                let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).expect("memory");
                (0..ROWS).step_by(100).for_each(|at| stream.write(&table.slice(at, 100)).expect("memory"));
                stream.into_inner().expect("memory")
            }
            "a.jsonl" => jsonl().into_bytes(),
            "a.jsonl.gz" => gzip(jsonl().as_bytes()),
            "a.txt.zst" => {
                zstd::encode_all(lines(&|row| format!("row {row}\n")).as_bytes(), 1).expect("memory")
            }
            _ => lines(&|row| format!("row {row}\n")).into_bytes(),
        };
        written(folder, name, bytes)
    }

    const CHANGES: [&str; 8] =
        ["emptied", "appended to", "cut", "replaced", "renamed over", "removed", "a pipe", "led elsewhere"];

    /// Changes the file that a link leads to, or the link itself.
    fn change(how: &str, file: &Path, link: &Path) {
        let is_one_document = fs::read(file).expect("a file");
        let other = file.with_file_name("other");
        match how {
            "emptied" => fs::write(file, b"").expect("a file"),
            "appended to" => fs::write(file, [&is_one_document[..], b"\n"].concat()).expect("a file"),
            // A Parquet file can only be shortened to a complete file at a row group.
            "cut" if file.extension().is_some_and(|extension| extension == "parquet") => {
                parquet(file.parent().expect("a folder"), "a.parquet", 100);
            }
            "cut" => fs::write(file, &is_one_document[..is_one_document.len() / 2]).expect("a file"),
            // The content has the same length, so only the modification time differs.
            "replaced" => fs::write(file, &is_one_document).expect("a file"),
            "renamed over" => {
                fs::write(&other, &is_one_document).expect("a file");
                fs::rename(&other, file).expect("the same folder");
            }
            "removed" => fs::remove_file(file).expect("a file"),
            "a pipe" => {
                fs::remove_file(file).expect("a file");
                assert!(std::process::Command::new("mkfifo").arg(file).status().expect("mkfifo").success());
            }
            _ => {
                fs::write(&other, &is_one_document).expect("a file");
                old(&other);
                fs::remove_file(link).expect("a link");
                std::os::unix::fs::symlink(&other, link).expect("a link");
            }
        }
    }

    /// Sets an old modification time, so that a change within the resolution of the clock gives another one.
    fn old(file: &Path) {
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::options()
            .append(true)
            .open(file)
            .and_then(|file| file.set_modified(long_ago))
            .expect("a file");
    }

    /// Reads all units. The file is changed before that if `at_first` is set, or after the first batch.
    fn read_changed(source: &dyn Source, at_first: bool, change: impl Fn()) -> Result<()> {
        let mut changed = false;
        let mut once = || {
            if !std::mem::replace(&mut changed, true) {
                change();
            }
        };
        if at_first {
            once();
        }
        for unit in 0..source.units().len() {
            for batch in source.read(unit)? {
                batch?;
                once();
            }
        }
        Ok(())
    }

    /// Every kind of change gives the error that the input changed, in every format.
    #[test]
    fn a_file_that_changes_after_it_was_listed_ends_the_run() {
        let names =
            ["a.parquet", "a.arrow", "a.arrows", "a.jsonl", "a.jsonl.gz", "a.txt", "a.txt.zst"].into_iter();
        for (name, how) in names.flat_map(|name| CHANGES.map(|how| (name, how))) {
            for (at_first, policy) in
                [(true, OnBadInput::Fail), (true, OnBadInput::Skip), (false, OnBadInput::Quarantine)]
            {
                let folder = folder();
                fs::create_dir(folder.path().join("there")).expect("a folder");
                let file = written_as(&folder.path().join("there"), name);
                old(&file);
                let link = folder.path().join(name);
                std::os::unix::fs::symlink(&file, &link).expect("a link");
                let rule = DocumentRule::Line;
                let spec = SourceSpec { documents: rule, on_bad_input: policy, ..spec(&link) };
                let source = opened(&spec, SMALL).expect("what was listed");
                assert_eq!(source.changed(), None);
                let outcome = read_changed(&*source, at_first, || change(how, &file, &link));
                let (kind, message) = failure(outcome);
                let case = format!("{name} {how}, at first {at_first}, {policy:?}: {message}");
                assert_eq!(kind, ErrorKind::InputChanged, "{case}");
                assert!(message.contains(name) && message.contains("changed while it was read"), "{case}");
                assert_eq!(failure(source.identity(0)).0, ErrorKind::InputChanged, "{case}");
                assert!(source.changed().is_some(), "{case}");
            }
        }
    }

    /// Files that do not change are read without an error.
    #[test]
    fn files_that_stay_are_read_to_their_end() {
        let folder = folder();
        for name in ["a.parquet", "a.arrow", "a.arrows", "a.jsonl", "a.jsonl.gz", "a.txt", "a.txt.zst"] {
            let spec = SourceSpec { documents: DocumentRule::Line, ..spec(&written_as(folder.path(), name)) };
            assert_eq!(read(&spec, SMALL).expect("the same file").len(), ROWS, "{name}");
        }
    }
}
