//! Annotations of columns beyond their physical type, such as UUID or JSON: the output keeps them, or a note
//! says that it does not.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{
    BinaryArray, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int32Array, StringViewArray,
};
use arrow::datatypes::{Field, Fields, Int32Type, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::LogicalType;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

const SAID: &str = "message m {
    required binary text (STRING);
    optional fixed_len_byte_array(16) uuid (UUID);
    required fixed_len_byte_array(16) needed (UUID);
    optional binary json (JSON);
    optional int32 utc_ms (TIME(MILLIS,true));
    required int64 utc_us (TIME(MICROS,true));
    optional int64 utc_ns (TIME(NANOS,true));
    optional int64 local (TIME(MICROS,false));
    optional group list (LIST) {
        repeated group list { optional fixed_len_byte_array(16) element (UUID); }
    }
    optional group struct {
        optional binary json (JSON);
        required group within { optional int64 utc (TIME(MICROS,true)); }
    }
    optional group map (MAP) {
        repeated group key_value { required binary key (STRING); optional binary value (JSON); }
    }
}";

const COLUMNS: &str = "uuid,needed,json,utc_ms,utc_us,utc_ns,local,list,struct,map";

/// The same columns without the annotations.
fn unsaid() -> String {
    SAID.replace(" (UUID)", "").replace("(JSON)", "(STRING)").replace(",true)", ",false)")
}

/// Writes a Parquet file of one row without an embedded Arrow schema.
fn parquet(folder: &TempDir, name: &str, message: &str) {
    let schema = Arc::new(parse_message_type(message).expect("a schema"));
    let file = fs::File::create(folder.path().join(name)).expect("a file");
    let mut file = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let levels: Vec<(i16, i16)> = file
        .schema_descr()
        .columns()
        .iter()
        .map(|column| (column.max_def_level(), column.max_rep_level()))
        .collect();
    let mut group = file.next_row_group().expect("a row group");
    for (most, repeated) in levels {
        let mut column = group.next_column().expect("a writer").expect("a column");
        let (defined, repeated) = ((most > 0).then_some([most]), (repeated > 0).then_some([0]));
        let (defined, repeated) = (defined.as_ref().map(|l| &l[..]), repeated.as_ref().map(|l| &l[..]));
        let written = match column.untyped() {
            ColumnWriter::Int32ColumnWriter(column) => column.write_batch(&[7], defined, repeated),
            ColumnWriter::Int64ColumnWriter(column) => column.write_batch(&[7], defined, repeated),
            ColumnWriter::ByteArrayColumnWriter(column) => {
                column.write_batch(&[ByteArray::from("{}")], defined, repeated)
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(column) => {
                let bytes = FixedLenByteArray::from(vec![7; 16]);
                column.write_batch(&[bytes], defined, repeated)
            }
            _ => panic!("another column"),
        };
        written.expect("a value");
        column.close().expect("a column");
    }
    group.close().expect("a row group");
    file.close().expect("a file");
}

/// The logical types of the leaf columns of a file, except those of the text and the token ids.
fn said(path: &Path) -> BTreeMap<String, Option<LogicalType>> {
    let file = SerializedFileReader::new(fs::File::open(path).expect("a file")).expect("Parquet");
    let columns = file.metadata().file_metadata().schema_descr().columns();
    let said = columns.iter().map(|column| (column.path().string(), column.logical_type_ref().cloned()));
    said.filter(|(name, _)| !["text", "length", "input_ids.list.element"].contains(&name.as_str())).collect()
}

/// Encodes files and copies the columns. Returns the messages and the path of the only data file.
fn encoded(folder: &TempDir, inputs: &[&str], columns: &str) -> (String, std::path::PathBuf) {
    let encode = ["-t", "made", "-o", "out", "--columns", columns, "--force"];
    let (code, told) = ended(folder, &[&["encode"][..], inputs, &encode].concat());
    assert_eq!(code, Some(0), "{told}");
    let (code, again) = ended(folder, &[&["encode"][..], inputs, &encode[..6]].concat());
    assert!(code == Some(0) && again.contains("nothing to do"), "{again}");
    assert_eq!(ended(folder, &["verify", "out"]).0, Some(0));
    let data = files(&folder.path().join("out/data")).pop().expect("a file");
    (told, data.into())
}

fn with_tokenizer() -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "2"]).0, Some(0));
    folder
}

/// Logical types of copied columns are kept, nested ones too. A note names the columns that `datasets` cannot
/// read.
#[test]
fn what_parquet_says_of_columns_is_kept() {
    let folder = with_tokenizer();
    parquet(&folder, "a.parquet", SAID);
    let (told, data) = encoded(&folder, &["a.parquet"], COLUMNS);
    let (before, after) = (said(&folder.path().join("a.parquet")), said(&data));
    assert_eq!(before.len(), 12);
    assert_eq!(after, before);
    assert!(!told.contains("written without"), "{told}");
    for (column, what) in [("uuid", "arrow.uuid"), ("list", "arrow.uuid"), ("map", "maps")] {
        assert!(told.contains(&format!("cannot read column {column:?}, which has")), "{told}");
        assert!(told.contains(what), "{told}");
    }
    for column in ["json", "utc_us", "local", "struct"] {
        assert!(!told.contains(&format!("cannot read column {column:?}")), "{told}");
    }
    // Another split with the same columns is accepted in the same output.
    let split =
        ["encode", "a.parquet", "-t", "made", "-o", "out", "--columns", COLUMNS, "--split-name", "dev"];
    let (code, told) = ended(&folder, &split);
    assert_eq!(code, Some(0), "{told}");
    // Fields of a struct can be selected.
    fs::remove_dir_all(folder.path().join("out")).expect("a folder");
    let (_, data) = encoded(&folder, &["a.parquet"], "struct.json,struct.within.utc");
    assert!(said(&data).values().eq([&before["struct.json"], &before["struct.within.utc"]]));
}

/// The text column may have the logical type JSON.
#[test]
fn the_text_may_be_json() {
    let folder = with_tokenizer();
    parquet(&folder, "a.parquet", SAID);
    let encode = ["encode", "a.parquet", "--column", "json", "-t", "made", "-o", "out", "--columns", "json"];
    let (code, told) = ended(&folder, &encode);
    assert_eq!(code, Some(0), "{told}");
    let decoded = tokenmill(&folder).args(["decode", "out", "-t", "made"]).output().expect("a run");
    assert_eq!(String::from_utf8_lossy(&decoded.stdout).trim_end(), "{}");
    let data = folder.path().join("out/data/train-00000-of-00001.parquet");
    assert_eq!(said(&data)["json"], Some(LogicalType::Json));
}

/// An annotation that only some input files have is dropped with a note.
#[test]
fn what_only_some_files_say_is_told_and_left_out() {
    for (first, second) in [(SAID.to_owned(), unsaid()), (unsaid(), SAID.to_owned())] {
        let folder = with_tokenizer();
        parquet(&folder, "a.parquet", &first);
        parquet(&folder, "b.parquet", &second);
        parquet(&folder, "unsaid.parquet", &unsaid());
        for inputs in [&["[ab].parquet"][..], &["a.parquet", "b.parquet"]] {
            let (told, data) = encoded(&folder, inputs, COLUMNS);
            assert_eq!(said(&data), said(&folder.path().join("unsaid.parquet")));
            for (column, what) in [
                ("uuid", "arrow.uuid"),
                ("needed", "arrow.uuid"),
                ("json", "arrow.json"),
                ("utc_ms", "isAdjustedToUTC"),
                ("utc_us", "isAdjustedToUTC"),
                ("utc_ns", "isAdjustedToUTC"),
                ("list", "arrow.uuid"),
                ("struct", "arrow.json"),
                ("struct", "isAdjustedToUTC"),
                ("map", "arrow.json"),
            ] {
                let note = format!("column {column:?} is written without {what}, which only some");
                assert!(told.contains(&note), "{inputs:?}, {note}: {told}");
            }
            assert!(!told.contains("\"local\""), "{told}");
            assert!(!told.contains("cannot read column \"uuid\""), "{told}");
        }
    }
}

/// A file without the column, or with only nulls in it, does not affect the annotation.
#[test]
fn a_column_that_a_file_lacks_keeps_what_the_others_say() {
    let folder = with_tokenizer();
    parquet(&folder, "a.parquet", SAID);
    parquet(&folder, "b.parquet", "message m { required binary text (STRING); }");
    parquet(
        &folder,
        "c.parquet",
        "message m { required binary text (STRING); optional binary uuid (UNKNOWN); optional binary json (UNKNOWN); }",
    );
    let (told, data) = encoded(&folder, &["[abc].parquet"], "uuid,json");
    assert!(told.contains("is null in 1 file without it") && !told.contains("written without"), "{told}");
    let kept = said(&data);
    assert_eq!((&kept["uuid"], &kept["json"]), (&Some(LogicalType::Uuid), &Some(LogicalType::Json)));
}

/// A note names logical types that the output cannot have.
#[test]
fn what_no_output_says_is_told() {
    let folder = with_tokenizer();
    let message = "message m {
        required binary text (STRING);
        optional binary kind (ENUM);
        optional binary bson (BSON);
        optional group within { optional binary kind (ENUM); optional binary json (JSON); }
    }";
    parquet(&folder, "a.parquet", message);
    let (told, data) = encoded(&folder, &["a.parquet"], "kind,bson,within");
    for (column, what) in [("kind", "ENUM"), ("bson", "BSON"), ("within", "ENUM")] {
        let note = format!("column {column:?} is written without {what}; its values are kept");
        assert!(told.contains(&note), "{note}: {told}");
    }
    assert_eq!(said(&data)["within.json"], Some(LogicalType::Json));
}

/// An Arrow field with an extension type.
fn extended(name: &str, column: &ArrayRef, extension: &str, parameters: &str) -> Field {
    let said = [("ARROW:extension:name", extension), ("ARROW:extension:metadata", parameters)];
    let said: HashMap<String, String> =
        said.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Field::new(name, column.data_type().clone(), true).with_metadata(said)
}

/// Extension types of Arrow are kept if the column's storage type allows them.
#[test]
fn extension_types_of_arrow_are_kept_where_they_fit() {
    let folder = with_tokenizer();
    let array = |array: FixedSizeBinaryArray| -> ArrayRef { Arc::new(array) };
    let bytes = array(FixedSizeBinaryArray::try_from_iter([[7_u8; 16]].into_iter()).expect("bytes"));
    let view: ArrayRef = Arc::new(StringViewArray::from(vec!["{}"]));
    let small: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let binary: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"x"]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter(["x"]));
    let opaque = r#"{"type_name":"geometry","vendor_name":"PostGIS"}"#;
    let columns = [
        ("uuid", &bytes, "arrow.uuid", "", true),
        ("json", &view, "arrow.json", "", true),
        ("bool8", &small, "arrow.bool8", "", true),
        ("opaque", &binary, "arrow.opaque", opaque, true),
        ("other", &binary, "acme.points", "{\"crs\":4326}", true),
        ("not", &number, "arrow.uuid", "", false),
        ("dictionary", &dictionary, "acme.kind", "", false),
    ];
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a cat"]));
    let mut fields = vec![Field::new("text", text.data_type().clone(), true)];
    let mut arrays = vec![text];
    for (name, column, extension, parameters, _) in &columns {
        fields.push(extended(name, column, extension, parameters));
        arrays.push(Arc::clone(column));
    }
    let within = Fields::from(fields[1..4].to_vec());
    let within: ArrayRef = Arc::new(arrow::array::StructArray::new(within, arrays[1..4].to_vec(), None));
    fields.push(Field::new("within", within.data_type().clone(), true));
    arrays.push(within);
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a table");
    let mut file = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).expect("a writer");
    file.write(&table).expect("a table");
    write(&folder, "a.arrow", file.into_inner().expect("a file"));
    let file = fs::File::create(folder.path().join("a.parquet")).expect("a file");
    let mut writer = ArrowWriter::try_new(file, table.schema(), None::<WriterProperties>).expect("a writer");
    writer.write(&table).expect("a table");
    writer.close().expect("a file");
    for input in ["a.arrow", "a.parquet"] {
        let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).chain(["within"]).collect();
        let (told, data) = encoded(&folder, &[input], &names.join(","));
        let output = fs::File::open(&data).expect("a file");
        let output = ParquetRecordBatchReaderBuilder::try_new(output).expect("Parquet");
        for (name, _, extension, parameters, is_kept) in &columns {
            let field = output.schema().field_with_name(name).expect(name);
            let expected = is_kept.then_some((*extension, *parameters));
            let found = field.extension_type_name().zip(field.extension_type_metadata());
            assert_eq!(found, expected, "{input}: {name}");
            let note = format!("column {name:?} is written without {extension}; its values are kept");
            assert_eq!(told.contains(&note), !is_kept, "{input}: {note}: {told}");
            let by_card =
                format!("reads column {name:?}, which has values of {extension}, only with the dataset card");
            let is_unread = *is_kept && extension.starts_with("arrow.") && *name != "json";
            assert_eq!(told.contains(&by_card), is_unread, "{input}: {by_card}: {told}");
        }
        let arrow::datatypes::DataType::Struct(fields) =
            output.schema().field_with_name("within").expect("a struct").data_type()
        else {
            panic!("a struct")
        };
        let names: Vec<_> = fields.iter().filter_map(|field| field.extension_type_name()).collect();
        assert_eq!(names, ["arrow.uuid", "arrow.json", "arrow.bool8"], "{input}");
        let kept = said(&data);
        assert_eq!(kept["uuid"], Some(LogicalType::Uuid));
        assert_eq!(kept["within.json"], Some(LogicalType::Json));
    }
}
