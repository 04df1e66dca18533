//! Tests of pass-through columns that differ between the files of a source.

use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{FixedSizeListBuilder, Int64Builder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Date64Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int8Array, Int32Array, Int64Array, LargeListArray, LargeStringArray, ListArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray, Time32MillisecondArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, FieldRef};

use super::columnar::parquet_file;
use super::*;

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
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([items.len()]);
    array(ListArray::new(item, offsets, Arc::clone(items), None))
}

fn large_lists(item: FieldRef, items: &ArrayRef) -> ArrayRef {
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([items.len()]);
    array(LargeListArray::new(item, offsets, Arc::clone(items), None))
}

fn maps(names: [&str; 3]) -> ArrayRef {
    let [entry, key, value] = names.map(str::to_owned);
    let names = arrow_array::builder::MapFieldNames { entry, key, value };
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
    let whole = |numbers: Vec<i64>| array(Int64Array::from(numbers));
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
    let both = |arrays: [&ArrayRef; 2]| {
        arrow_select::concat::concat(&arrays.map(|array| &**array)).expect("one type")
    };
    let twice = |array: &ArrayRef| both([array, array]);
    let nothing = || array(NullArray::new(1));
    let no = |of: &ArrayRef| arrow_array::new_null_array(of.data_type(), 1);
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
            [array(Int8Array::from(vec![-1])), whole(vec![1 << 40])],
            whole(vec![-1, 1 << 40]),
        ),
        (
            "signs",
            [array(UInt32Array::from(vec![u32::MAX])), array(Int32Array::from(vec![-1]))],
            whole(vec![i64::from(u32::MAX), -1]),
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

fn table(text: &str, column: &ArrayRef) -> RecordBatch {
    let columns = [("text", array(StringArray::from(vec![text]))), ("c", Arc::clone(column))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Writes one Parquet file per column.
fn in_parquet(folder: &Path, columns: &[ArrayRef]) {
    for (column, name) in columns.iter().zip(["a", "b", "c"]) {
        let path = folder.join(name).with_extension("parquet");
        parquet_file(path, &table(name, column), WriterProperties::default());
    }
}

/// Writes one Arrow file per column.
fn in_arrow(folder: &Path, columns: &[ArrayRef]) {
    for (column, name) in columns.iter().zip(["a", "b", "c"]) {
        let table = table(name, column);
        let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
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
    let all = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).expect("one schema");
    let types = |schema: &arrow_schema::Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    assert_eq!(types(&all.schema()), types(&source.columns().expect("columns were asked for")));
    Ok((all, context.incidents.lacking()))
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
fn columns_of_other_values_are_told_with_both_types() {
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
fn a_column_that_some_files_lack_is_null_there_and_told() {
    let text = |text: &str| array(StringArray::from(vec![text]));
    let folder = folder();
    in_parquet(folder.path(), &[text("1"), text("2"), text("3")]);
    let without = table("b", &text("2")).project(&[0]).unwrap();
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
fn a_field_that_some_files_lack_is_null_there_and_told() {
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
    let own = table("b", &column);
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
    let table = RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays).unwrap();
    let folder = folder();
    let parquet = parquet_file(folder.path().join("a.parquet"), &table, WriterProperties::default());
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
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
