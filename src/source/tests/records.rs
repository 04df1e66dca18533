//! Tests of JSON in any layout and of tables, which behave like JSON Lines.

use arrow_array::cast::AsArray;

use super::*;

/// The texts, and the values of the pass-through column `id`.
type Rows = Vec<(Option<String>, Option<String>)>;

fn rows(spec: &SourceSpec, config: ReadConfig) -> Result<Rows> {
    let mut rows = Vec::new();
    for batch in batches(&*opened(spec, config)?)? {
        let columns = batch.columns.as_ref().expect("a column was asked for");
        let ids = columns.column(0).as_string_view().iter().map(|value| value.map(str::to_owned));
        let text = |text: Option<&[u8]>| text.map(|text| String::from_utf8_lossy(text).into_owned());
        rows.extend(batch.iter().map(text).zip(ids));
    }
    Ok(rows)
}

fn with_id(path: &Path) -> SourceSpec {
    SourceSpec { columns: vec!["id".to_owned()], ..spec(path) }
}

fn row(text: &str, id: &str) -> (Option<String>, Option<String>) {
    (Some(text.to_owned()), Some(id.to_owned()))
}

const WHOLE: ReadConfig = portions(4 << 20, 64 << 20);

/// Arrays, sequences of objects and JSON Lines give the same rows, with any sizes of blocks and units.
#[test]
fn json_is_read_however_it_is_laid_out() {
    let cases = [
        r#"[{"text": "a", "id": 1}, {"text": "b,]\"}[\n", "id": 2}]"#,
        "[\n  {\n    \"text\": \"a\",\n    \"id\": 1\n  },\n  {\n    \"id\": 2, \"text\": \"b,]\\\"}[\\n\"\n  }\n]\n",
        "\u{feff}[{\"text\":\"a\",\"id\":1},\r\n{\"text\":\"b,]\\\"}[\\n\",\"id\":2}\r\n]",
        "{\n\"text\": \"a\", \"id\": 1}\n\n{\"text\": \"b,]\\\"}[\\n\",\n\"id\": 2\n}",
        r#"{"text":"a","id":1}{"text":"b,]\"}[\n","id":2}"#,
        "{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b,]\\\"}[\\n\", \"id\": 2}\n",
        "\u{feff}{\"text\": \"a\", \"id\": 1}\r\n{\"text\": \"b,]\\\"}[\\n\", \"id\": 2}",
        "[{\"text\": \"a\", \"id\": 1}]\n[{\"text\": \"b,]\\\"}[\\n\", \"id\": 2}]",
        "[]\n[ ] [{\"text\": \"a\", \"id\": 1},\n{\"text\": \"b,]\\\"}[\\n\", \"id\": 2}, ]",
    ];
    let expected: Rows = vec![row("a", "1"), row("b,]\"}[\n", "2")];
    let folder = folder();
    for json in cases {
        for (name, bytes) in [("a.json", json.as_bytes().to_vec()), ("a.json.gz", gzip(json.as_bytes()))] {
            let path = written(folder.path(), name, &bytes);
            for config in [portions(1, 1), SMALL, portions(7, 30), WHOLE] {
                assert_eq!(rows(&with_id(&path), config).unwrap(), expected, "{json}");
            }
        }
    }
    for nothing in ["", " \n", "[]", "[\n]\n"] {
        let path = written(folder.path(), "a.json", nothing);
        assert_eq!(read(&spec(&path), SMALL).unwrap(), Texts::new(), "{nothing:?}");
    }
    // JSON Lines are divided into units whatever the file's name; other layouts are a single unit.
    let lines = "{\"text\": \"a\"}\n".repeat(50);
    let path = written(folder.path(), "a.json", &lines);
    assert!(opened(&spec(&path), SMALL).unwrap().units().len() > 20);
    let path = written(folder.path(), "a.json", lines.replace(": ", ":\n"));
    let source = opened(&spec(&path), SMALL).unwrap();
    assert_eq!((source.units().len(), batches(&*source).unwrap().len() > 20), (1, true));
}

/// Records that cannot be read are numbered in messages, and can be skipped.
#[test]
fn records_of_json_that_cannot_be_read_are_named_and_left_out() {
    let cases = [
        (r#"[{"text": "a"}, {"text": 5}, {"text": "b"}]"#, 2, "record 2: ", "a string or null"),
        (r#"[{"text": "a"}, [1, 2], {"text": "b"}]"#, 2, "record 2: ", "a JSON object"),
        (r#"[{"text": "a"}, {"text": "x" "y"}, {"text": "b"}]"#, 2, "record 2: ", "expected"),
        (
            "[{\"text\": \"a\"}, {\"text\": \"x\ny\"}, {\"text\": \"b\"}]",
            2,
            "record 2: ",
            "control character",
        ),
        ("{\"text\":\n\"a\"} null {\"text\": \"b\"}", 1, "record 2: ", "a JSON object"),
        (r#"[{"text": "a"}, {"text": "b"}, {"text": "c"#, 2, "after record 2", "a value is not closed"),
        (r#"[{"text": "a"}, {"text": "b"},"#, 2, "after record 2", "an array is not closed"),
        (r#"[{"text": "a"}, {"text": "b"}"#, 1, "after record 1", "an array is not closed"),
        ("{\"text\":\n\"a\"}{\"text\": \"b\"} {", 2, "after record 2", "a value is not closed"),
        (r#"[{"text": "a"}, {"text": "b"}] and more"#, 2, "record 3: ", "expected"),
    ];
    let folder = folder();
    for (json, left, place, problem) in cases {
        let path = written(folder.path(), "a.json", json);
        for config in [SMALL, WHOLE] {
            let error = read(&spec(&path), config).expect_err(json);
            let told = format!("{error:?}");
            assert!(error.kind() == ErrorKind::Failed && told.contains("a.json"), "{told}");
            assert!(told.contains(place) && told.contains(problem), "{json}: {told}");
            let context = OpenContext { config, ..OpenContext::new(&Silent) };
            let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(&path) };
            let source = open(&skipping, 0, &context).unwrap();
            assert_eq!(documents(in_order(vec![source], 1)).unwrap().len(), left, "{json}");
            assert_eq!(context.incidents.count(), 1, "{json}");
        }
    }
    for layout in ["[{\"text\": \"a\"}]", "[\n{\"text\": \"a\"}]", "{\n\"text\": \"a\"}"] {
        let path = written(folder.path(), "a.jsonl", layout);
        let (_, message) = failure(read(&spec(&path), WHOLE));
        assert!(message.contains("line 1") && message.contains("--format json"), "{message}");
    }
}

/// Fields are matched by the names in the header, with quotes, delimiters and line breaks in them.
#[test]
fn tables_are_read_by_the_names_of_their_header() {
    let plain: Rows = vec![row("a", "1"), row("b", "2")];
    let quoted: Rows = vec![row("a, \"b\"\r\nc\td", "1"), row("", "2"), row("5\" disk", "")];
    let cases = [
        ("csv", "id,text\n1,a\n2,b\n", &plain),
        ("csv", "id,text\r\n1,a\r\n2,b", &plain),
        ("csv", "\u{feff}id,text\n1,a\n\n\r\n2,b\n\n", &plain),
        ("csv", "\"text\",\"other\",\"id\"\n\"a\",\"\",\"1\"\n\"b\",,2\n", &plain),
        ("tsv", "id\ttext\n1\ta\n2\tb\n", &plain),
        ("csv", "text,id\n\"a, \"\"b\"\"\r\nc\td\",1\n,2\n5\" disk,\n", &quoted),
        ("tsv", "text\tid\n\"a, \"\"b\"\"\r\nc\td\"\t1\n\t2\n5\" disk\t\n", &quoted),
    ];
    let folder = folder();
    for (ending, table, expected) in cases {
        for (name, bytes) in [
            (format!("a.{ending}"), table.as_bytes().to_vec()),
            (format!("a.{ending}.gz"), gzip(table.as_bytes())),
        ] {
            let path = written(folder.path(), &name, &bytes);
            for config in [portions(1, 1), SMALL, WHOLE] {
                assert_eq!(&rows(&with_id(&path), config).unwrap(), expected, "{table}");
            }
        }
    }
    for nothing in ["", "\n", "text,id\n", "text,id"] {
        let path = written(folder.path(), "a.csv", nothing);
        assert_eq!(read(&spec(&path), SMALL).unwrap(), Texts::new(), "{nothing:?}");
    }
    let path = written(folder.path(), "a.csv", "id;text\n1;a\n");
    let (kind, message) = failure(read(&spec(&path), WHOLE));
    assert!(kind == ErrorKind::Usage && message.contains("id;text"), "{message}");
    // Fields may be longer than a block and contain anything.
    let long = "x\"\\\u{1}é\n".repeat(20_000);
    let path =
        written(folder.path(), "a.csv", format!("id,text\n1,\"{}\"\n2,b\n", long.replace('"', "\"\"")));
    assert_eq!(rows(&with_id(&path), WHOLE).unwrap(), [row(&long, "1"), row("b", "2")]);
}

/// Records with wrong quotes or a wrong number of fields are numbered in messages, and can be skipped.
#[test]
fn records_of_tables_that_cannot_be_read_are_named_and_left_out() {
    let cases = [
        ("id,text\n1,a\n2\n3,c\n", 2, "record 2: it has 1 fields, and the header has 2"),
        ("id,text\n1,a\n2,b,c\n3,c\n", 2, "record 2: it has 3 fields, and the header has 2"),
        ("id,text\n1,a\n2,\"b\" c\n3,c\n", 2, "record 2: something follows the quote that closes a field"),
        // A quote that opens a field by mistake includes everything up to the next quote.
        ("id,text\n1,\"a\n2,say \"hi\" now\n3,c\n", 1, "record 1: something follows the quote"),
        ("id,text\n1,a\n2,\"b\n3,c\n", 1, "record 2: a quote that opens a field is not closed"),
        ("id,text\n1,a\n2,\"b", 1, "record 2: a quote that opens a field is not closed"),
    ];
    let folder = folder();
    for (table, left, told) in cases {
        let path = written(folder.path(), "a.csv", table);
        for config in [SMALL, WHOLE] {
            let (kind, message) = failure(read(&spec(&path), config));
            assert!(kind == ErrorKind::Failed && message.contains("a.csv"), "{message}");
            assert!(message.contains(told), "{table}: {message}");
            let context = OpenContext { config, ..OpenContext::new(&Silent) };
            let skipping = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
            let source = open(&skipping, 0, &context).unwrap();
            assert_eq!(documents(in_order(vec![source], 1)).unwrap().len(), left, "{table}");
            assert_eq!(context.incidents.count(), 1, "{table}");
            assert!(context.incidents.listed()[0].problem.contains(told));
        }
    }
    let path = written(folder.path(), "a.csv", b"text\ncaf\xe9\nb\n");
    let (_, message) = failure(read(&spec(&path), WHOLE));
    assert!(message.contains("record 1: ") && message.contains("not UTF-8"), "{message}");
    let replacing = SourceSpec { on_bad_input: OnBadInput::Replace, ..spec(&path) };
    assert_eq!(read(&replacing, WHOLE).unwrap(), texts(["caf\u{fffd}", "b"]));
    for (table, told) in [("te\"xt,\"a\" b\n1,2\n", "its header"), ("\"text\n1\n", "its header")] {
        let path = written(folder.path(), "a.csv", table);
        let error = read(&spec(&path), WHOLE).expect_err(table);
        assert!(format!("{error:?}").contains(told), "{error:?}");
    }
    let path = written(folder.path(), "a.csv", "id,text\n1,a\n2,b,c\n");
    let cut = gzip(&fs::read(path).unwrap());
    let path = written(folder.path(), "a.csv.gz", &cut[..cut.len() - 4]);
    assert!(read(&spec(&path), WHOLE).is_err());
}

/// Tables and JSON in a folder are read only if it has no other data, because notes beside data have such names too.
#[test]
fn tables_and_json_count_in_folders_where_they_are_alone() {
    let folder = folder();
    written(folder.path(), "a.csv", "text\na\n");
    written(folder.path(), "sub/b.csv.gz", gzip(b"text\nb\n"));
    written(folder.path(), "dataset_info.json", "{}");
    written(folder.path(), "notes.md", "notes");
    assert_eq!(read(&spec(folder.path()), SMALL).unwrap(), texts(["a", "b"]));
    written(folder.path(), "a.jsonl", "{\"text\": \"c\"}");
    assert_eq!(read(&spec(folder.path()), SMALL).unwrap(), texts(["c"]));
    fs::remove_file(folder.path().join("a.jsonl")).unwrap();
    written(folder.path(), "c.json", "[{\"text\": \"c\"}]");
    assert!(failure(opened(&spec(folder.path()), SMALL)).1.contains("several formats"));
}

/// Records are read from a pipe like from a file.
#[test]
fn records_come_from_pipes_too() {
    let cases = [
        (Format::Json, "[{\"text\": \"a\"}, {\"text\": \"b\"}]"),
        (Format::Json, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"),
        (Format::Csv, "id,text\n1,a\n2,\"b\"\n"),
        (Format::Tsv, "id\ttext\n1\ta\n2\tb\n"),
    ];
    for (format, text) in cases {
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
            let context = OpenContext::new(&Silent);
            *context.stdin.lock().unwrap() = Some(Box::new(std::io::Cursor::new(bytes)));
            let spec = SourceSpec { uri: "-".to_owned(), format: Some(format), ..SourceSpec::default() };
            let source = open(&spec, 0, &context).unwrap();
            assert_eq!(documents(source.read(0).unwrap()).unwrap(), texts(["a", "b"]), "{format}");
        }
    }
}
