//! Tests of nested columns, lists and templates as text.

use ::parquet::file::properties::WriterProperties;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, LargeStringArray, ListArray, RecordBatch,
    StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{Field, FieldRef};

use super::columnar::parquet_file;
use super::*;

/// The rows of [`table`] as JSON Lines.
const LINES: &str = r#"{"title":"T1","text":"one","tags":["a","b"],"messages":[{"role":"user","content":"hi"},{"role":"bot","content":"yo"}],"meta":{"lang":"fr","notes":["x",null,""]},"deep":[["p","q"],[],["r"]],"pair":["c","d"]}
{"title":null,"text":"two","tags":[],"messages":null,"meta":null,"deep":null,"pair":null}
{"title":"T3","text":null,"tags":null,"messages":[{"role":"user","content":null},{"content":"end"}],"meta":{"lang":null,"notes":null}}
{"text":null,"other":5}
"#;

fn field(name: &str, of: &ArrayRef) -> FieldRef {
    Arc::new(Field::new(name, of.data_type().clone(), true))
}

fn texts_of(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn list(lengths: &[usize], items: &ArrayRef, valid: &[bool]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(
        field("item", items),
        offsets,
        Arc::clone(items),
        Some(NullBuffer::from(valid.to_vec())),
    ))
}

fn structs(fields: &[(&str, ArrayRef)], valid: &[bool]) -> ArrayRef {
    let (fields, columns): (Vec<_>, Vec<_>) =
        fields.iter().map(|(name, column)| (field(name, column), Arc::clone(column))).unzip();
    Arc::new(StructArray::new(fields.into(), columns, Some(NullBuffer::from(valid.to_vec()))))
}

fn table() -> RecordBatch {
    let messages = structs(
        &[
            ("role", texts_of(&[Some("user"), Some("bot"), Some("user"), None])),
            ("content", texts_of(&[Some("hi"), Some("yo"), None, Some("end")])),
        ],
        &[true; 4],
    );
    let notes = list(&[3, 0, 0, 0], &texts_of(&[Some("x"), None, Some("")]), &[true, true, false, true]);
    // Values that a null hides must not appear.
    let meta = structs(
        &[("notes", notes), ("lang", texts_of(&[Some("fr"), Some("hidden"), None, Some("hidden")]))],
        &[true, false, true, false],
    );
    let letters = Arc::new(LargeStringArray::from(vec!["p", "q", "r"]));
    let letters: ArrayRef = letters;
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let inner: ArrayRef = Arc::new(LargeListArray::new(field("element", &letters), offsets, letters, None));
    let pairs =
        texts_of(&[Some("c"), Some("d"), Some("h"), Some("h"), Some("h"), Some("h"), Some("h"), Some("h")]);
    let valid = NullBuffer::from(vec![true, false, false, false]);
    let pairs = FixedSizeListArray::new(field("item", &pairs), 2, pairs, Some(valid));
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
    let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
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
    for path in files(folder.path(), &table(), LINES) {
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
    for path in files(folder.path(), &table(), LINES) {
        for column in ["text", "messages[].content", "meta.lang"] {
            let columns = ["meta.lang", "title"].map(str::to_owned).to_vec();
            let spec = SourceSpec { column: Some(column.to_owned()), columns, ..spec(&path) };
            for config in [SMALL, ReadConfig::default()] {
                let source = opened(&spec, config).unwrap();
                let schema = source.columns().unwrap();
                let parts: Vec<_> =
                    batches(&*source).unwrap().into_iter().map(|batch| batch.columns.unwrap()).collect();
                let found = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
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
    let nested = structs(&[("b", texts_of(&[Some("nested"), Some("nested")]))], &[true; 2]);
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
    for (number, path) in files(folder.path(), &table(), LINES).iter().enumerate() {
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
    let shared: arrow_array::DictionaryArray<arrow_array::types::Int32Type> =
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
