//! Tests of fields of JSON that are passed through as columns.

use arrow_array::cast::AsArray;

use super::*;

type Rows = Vec<(Option<String>, Option<String>)>;

/// The texts, and the one pass-through column beside them.
fn rows(spec: &SourceSpec, config: ReadConfig) -> Result<Rows> {
    let mut rows = Vec::new();
    for batch in batches(&*opened(spec, config)?)? {
        let columns = batch.columns.as_ref().expect("a column was asked for");
        let column = columns.column(0).as_string_view();
        let text = |text: Option<&[u8]>| text.map(|text| String::from_utf8_lossy(text).into_owned());
        rows.extend(batch.iter().map(text).zip(column.iter().map(|value| value.map(str::to_owned))));
    }
    Ok(rows)
}

fn with_meta(path: &Path) -> SourceSpec {
    SourceSpec { columns: vec!["meta".to_owned()], on_bad_input: OnBadInput::Skip, ..spec(path) }
}

/// Strings pass through as they are, other values as their JSON.
#[test]
fn fields_of_jsonl_pass_through_as_text() {
    let cases = [
        (r#""meta": "as it is""#, Some("as it is")),
        (
            r#""meta": "a \"quoted\" \u00e9\n, and longer than a view""#,
            Some("a \"quoted\" é\n, and longer than a view"),
        ),
        (r#""meta": 10000000000000000000001"#, Some("10000000000000000000001")),
        (r#""meta": 1.50e400"#, Some("1.50e400")),
        (r#""meta": true"#, Some("true")),
        (r#""meta": {"a":  [1, "b"]}"#, Some(r#"{"a":  [1, "b"]}"#)),
        (r#""meta": null"#, None),
        (r#""meta.data": 1"#, None),
        (r#""meta": 1, "meta": "the last""#, Some("the last")),
    ];
    let folder = folder();
    let line = |(nth, (field, _)): (usize, &(&str, _))| format!("{{\"text\": \"{nth}\", {field}}}\n");
    let lines: String = cases.iter().enumerate().map(line).collect();
    let row =
        |(nth, (_, value)): (usize, (&str, Option<&str>))| (Some(nth.to_string()), value.map(str::to_owned));
    let expected: Rows = cases.into_iter().enumerate().map(row).collect();
    for (name, bytes) in
        [("rows.jsonl", lines.clone().into_bytes()), ("rows.jsonl.gz", gzip(lines.as_bytes()))]
    {
        let path = written(folder.path(), name, bytes);
        for config in [SMALL, ReadConfig::default()] {
            assert_eq!(rows(&with_meta(&path), config).unwrap(), expected, "{name}");
        }
    }
    let source = opened(&with_meta(&folder.path().join("rows.jsonl")), SMALL).unwrap();
    let schema = source.columns().expect("a column was asked for");
    assert_eq!(schema.field(0).data_type(), &arrow_schema::DataType::Utf8View);
}

/// A line with an invalid field adds neither a text nor a value.
#[test]
fn a_line_whose_field_is_no_text_leaves_nothing_behind() {
    let folder = folder();
    let lines = [
        r#"{"text": "a", "meta": "x"}"#,
        r#"{"text": "b", "meta": "\ud800"}"#,
        r#"{"meta": 5, "text": null}"#,
        "{\"text\": \"c\", \"meta\": \"\u{1}\"}",
        "",
        r#"{"text": "d"}"#,
    ];
    let path = written(folder.path(), "rows.jsonl", lines.join("\n"));
    let some = |text: &str| Some(text.to_owned());
    let expected = [(some("a"), some("x")), (None, some("5")), (some("d"), None)];
    for config in [SMALL, ReadConfig::default()] {
        assert_eq!(rows(&with_meta(&path), config).unwrap(), expected);
        let failing = SourceSpec { on_bad_input: OnBadInput::Fail, ..with_meta(&path) };
        let (kind, message) = failure(rows(&failing, config));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains("line 2") && message.contains("half of a surrogate pair"), "{message}");
    }
}

/// A pass-through field that no line has is a wrong request, like a missing text field.
#[test]
fn a_field_to_pass_that_none_of_the_first_lines_has_is_a_wrong_request() {
    let folder = folder();
    let path = written(folder.path(), "rows.jsonl", "{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b\"}\n");
    let (kind, message) = failure(rows(&with_meta(&path), ReadConfig::default()));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(message.contains("no field \"meta\"") && message.contains("are text, id"), "{message}");
    // All lines of the first block are searched, except for those that cannot be read.
    written(folder.path(), "rows.jsonl", "{\"text\": \"a\"}\n[]\n{\"text\": \"b\", \"meta\": 1}\n");
    assert_eq!(rows(&with_meta(&path), ReadConfig::default()).unwrap().len(), 2);
    let path = written(folder.path(), "plain.txt", "a");
    let (kind, message) = failure(opened(&with_meta(&path), SMALL));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(message.contains("only Parquet, Arrow, JSON, CSV and TSV"), "{message}");
}

/// `NaN` and infinities are read as Python's `json` reads them.
#[test]
fn numbers_that_are_not_finite_are_read_beside_the_text() {
    let folder = folder();
    let lines = [
        r#"{"text":"one","meta":NaN}"#,
        r#"{"meta":[1.5,-Infinity, "NaN"],"text":"NaN, two"}"#,
        r#"{"text":"three","other":Infinity}"#,
        r#"{"text":"four","meta":{"a":NaN}}"#,
        r#"{"text":null,"meta":"-Infinity"}"#,
    ];
    let path = written(folder.path(), "rows.jsonl", lines.join("\n"));
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        (some("one"), some("NaN")),
        (some("NaN, two"), some(r#"[1.5,-Infinity, "NaN"]"#)),
        (some("three"), None),
        (some("four"), some(r#"{"a":NaN}"#)),
        (None, some("-Infinity")),
    ];
    for config in [SMALL, ReadConfig::default()] {
        let spec = SourceSpec { on_bad_input: OnBadInput::Fail, ..with_meta(&path) };
        assert_eq!(rows(&spec, config).unwrap(), expected);
    }
    for (wrong, says) in [
        (r#"{"text":NaN}"#, "invalid type: NaN or Infinity, expected a string or null in \"text\""),
        (r#"{"text":"a","meta":nan}"#, "expected"),
        (r#"{"text":"a","meta":NaNs}"#, "expected value"),
    ] {
        let path = written(folder.path(), "rows.jsonl", wrong);
        let (kind, message) = failure(read(&spec(&path), ReadConfig::default()));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains("line 1") && message.contains(says), "{message}");
    }
}

/// Invalid characters are replaced like Python's `json.loads(line).encode("utf-16", "surrogatepass").decode("utf-16",
/// "replace")` does.
#[test]
fn what_is_no_character_in_json_is_replaced_if_that_is_said() {
    let folder = folder();
    let lines: [&[u8]; 5] = [
        br#"{"text":"a\ud800b","meta":"\udc00"}"#,
        br#"{"text":"\ud83d\ude00 \uD83D\n","meta":NaN}"#,
        b"{\"text\":\"caf\xE9\",\"meta\":\"x\"}",
        br#"{"text":"whole","meta":{"in":"\ud800"}}"#,
        br#"{"text":"\\ud800","meta":null}"#,
    ];
    let path = written(folder.path(), "rows.jsonl", lines.join(&b'\n'));
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        (some("a\u{fffd}b"), some("\u{fffd}")),
        (some("\u{1f600} \u{fffd}\n"), some("NaN")),
        (some("caf\u{fffd}"), some("x")),
        (some("whole"), some(r#"{"in":"\ud800"}"#)),
        (some(r"\ud800"), None),
    ];
    let replacing = SourceSpec { on_bad_input: OnBadInput::Replace, ..with_meta(&path) };
    for config in [SMALL, ReadConfig::default()] {
        assert_eq!(rows(&replacing, config).unwrap(), expected);
    }
    let context = OpenContext::new(&Silent);
    batches(&*open(&replacing, 0, &context).unwrap()).unwrap();
    let told = context.incidents.replaced();
    assert!(told.len() == 1 && told[0].contains("U+FFFD") && told[0].contains("rows.jsonl"), "{told:?}");
    assert_eq!(context.incidents.count(), 0);
    // Other errors still end the run, and without the policy the message names it.
    for (line, policy, says) in [
        ("{\"text\":5}", OnBadInput::Replace, "expected a string or null"),
        ("{\"text\":\"\\ud800\"}", OnBadInput::Fail, "--on-bad-input replace"),
    ] {
        let path = written(folder.path(), "rows.jsonl", line);
        let (kind, message) = failure(read(&SourceSpec { on_bad_input: policy, ..spec(&path) }, SMALL));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains(says), "{message}");
    }
}
