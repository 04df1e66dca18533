//! Tests of Parquet and Arrow data: types of text, pass-through columns, and batches within their limit.

use std::fs::File;
use std::path::PathBuf;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Decimal128Array, DictionaryArray, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, ListArray, NullArray, RecordBatch, StringArray, StringViewArray,
    StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

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
fn table() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(10..16));
    let lists = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(
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
        let path = parquet_file(folder.path().join("t.parquet"), &table(), properties(encoding, codec));
        let columns = kinds().into_iter().map(|(name, _)| name).chain(["a.b.c"]);
        for column in columns {
            let spec = SourceSpec { column: Some(column.to_owned()), ..spec(&path) };
            for config in [ReadConfig::default(), SMALL] {
                assert_eq!(read(&spec, config).unwrap(), expected(), "{column} {encoding:?} {codec}");
            }
            let units = opened(&spec, SMALL).unwrap().units().to_vec();
            let ranges: Vec<_> = units.iter().map(|unit| (unit.range, unit.rows)).collect();
            assert_eq!(ranges, [(Range::RowGroups(0, 1), Some(4)), (Range::RowGroups(1, 2), Some(2))]);
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
    let table = table();
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
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
        let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
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
    let table = table();
    passes_columns(&parquet_file(
        folder.path().join("t.parquet"),
        &table,
        properties(None, Compression::UNCOMPRESSED),
    ));
}

/// Checks that columns follow their rows with their types, also if one of them is the column of the text.
fn passes_columns(path: &Path) {
    let table = table();
    for (column, passed) in [("string", vec!["id", "string"]), ("a.b.c", vec!["dictionary", "a", "lists"])] {
        let columns: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
        let spec = SourceSpec { column: Some(column.to_owned()), columns, ..spec(path) };
        let source = opened(&spec, SMALL).unwrap();
        let batches = batches(&*source).unwrap();
        let parts: Vec<RecordBatch> = batches.iter().filter_map(|batch| batch.columns.clone()).collect();
        let schema = source.columns().expect("columns were asked for");
        let all = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).expect("one schema");
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
    let path = parquet_file(folder.path().join("t.parquet"), &table(), WriterProperties::default());
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
fn what_takes_little_room_in_a_file_is_read_a_few_rows_at_a_time() {
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
