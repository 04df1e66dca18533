//! Tests of plain text, JSON Lines, JSON and tables, also compressed; of recognizing other data; and of listing files.

use ::arrow::array::AsArray;
use proptest::prelude::*;

use super::*;
use crate::base::test_support::one_case_in;

/// The rules as documented, applied from left to right without blocks and units.
fn plainly(text: &[u8], rule: &DocumentRule) -> Vec<Vec<u8>> {
    let own: [&[u8]; 1];
    let ends: &[&[u8]] = match rule {
        DocumentRule::File => return vec![text.to_vec()],
        DocumentRule::Line => &[b"\r\n", b"\n"],
        DocumentRule::Paragraph => &[b"\r\n\r\n", b"\r\n\n", b"\n\r\n", b"\n\n"],
        DocumentRule::Separator(separator) => {
            own = [separator.as_bytes()];
            &own
        }
    };
    let end_at =
        |rest: &[u8], at: usize| ends.iter().find(|end| rest[at..].starts_with(end)).map(|end| end.len());
    let (mut documents, mut rest) = (Vec::new(), text);
    while let Some((at, length)) = (0..rest.len()).find_map(|at| end_at(rest, at).map(|length| (at, length)))
    {
        documents.push(rest[..at].to_vec());
        rest = &rest[at + length..];
    }
    documents.push(rest.to_vec());
    documents.retain(|document| !document.is_empty());
    documents
}

/// Examples of every rule, with empty documents and unusual separators.
#[test]
fn documents_of_plain_text() {
    let separator = || DocumentRule::Separator("--".to_owned());
    let cases: [(&str, DocumentRule, &[&str]); 13] = [
        ("a\nb", DocumentRule::File, &["a\nb"]),
        ("", DocumentRule::File, &[""]),
        ("a\nb\r\n\nc\r", DocumentRule::Line, &["a", "b", "c\r"]),
        ("\r\n\r\r\n", DocumentRule::Line, &["\r"]),
        ("", DocumentRule::Line, &[]),
        ("a\n\n\nb", DocumentRule::Paragraph, &["a", "\nb"]),
        ("a\n\n\n\nb\n", DocumentRule::Paragraph, &["a", "b\n"]),
        ("\n\na\r\n\r\nb", DocumentRule::Paragraph, &["a", "b"]),
        ("a\r\n\nb\n\r\n\r\nc\r\n", DocumentRule::Paragraph, &["a", "b", "\r\nc\r\n"]),
        ("a--b---c--", separator(), &["a", "b", "-c"]),
        ("----", separator(), &[]),
        ("-", separator(), &["-"]),
        ("åßc — d", DocumentRule::File, &["åßc — d"]),
    ];
    let folder = folder();
    for (text, rule, expected) in cases {
        let path = written(folder.path(), "case.txt", text);
        let spec = SourceSpec { documents: rule.clone(), ..spec(&path) };
        for config in [ReadConfig::default(), SMALL, portions(1, 1)] {
            assert_eq!(read(&spec, config).unwrap(), texts(expected), "{text:?} by {rule:?}");
        }
        assert_eq!(
            plainly(text.as_bytes(), &rule),
            texts(expected).into_iter().flatten().collect::<Vec<_>>()
        );
    }
}

/// Any rule, including separators that overlap themselves or contain line breaks.
fn any_rule() -> impl Strategy<Value = DocumentRule> {
    prop_oneof![
        Just(DocumentRule::File),
        Just(DocumentRule::Line),
        Just(DocumentRule::Paragraph),
        "[a\n\r|]{1,5}".prop_map(DocumentRule::Separator),
    ]
}

proptest! {
    #[test]
    fn ranges_and_blocks_change_nothing(
        text in "[a\n\r|é]{0,200}",
        rule in any_rule(),
        range_bytes in 1_u64..50,
        batch_bytes in 1_u64..50,
    ) {
        let folder = folder();
        let path = written(folder.path(), "case.txt", &text);
        let spec = SourceSpec { documents: rule.clone(), ..spec(&path) };
        let config = portions(batch_bytes, range_bytes);
        prop_assert_eq!(read(&spec, config).unwrap(), texts(plainly(text.as_bytes(), &rule)));
    }

    #[test]
    fn jsonl_ranges_change_nothing(
        rows in prop::collection::vec(prop::option::of("[a\"\\\\\n\u{e9}\u{1F600}]{0,9}"), 0..30),
        range_bytes in 1_u64..90,
        batch_bytes in 1_u64..90,
        mark in any::<bool>(),
    ) {
        let row = |row| serde_json::json!({"id": [1, {"text": 2}], "text": row}).to_string() + "\n";
        let mark = (mark && !rows.is_empty()).then(|| "\u{feff}".to_owned());
        let lines: String = mark.into_iter().chain(rows.iter().map(row)).collect();
        let folder = folder();
        let path = written(folder.path(), "case.jsonl", lines);
        let expected: Texts = rows.into_iter().map(|row| row.map(String::into_bytes)).collect();
        prop_assert_eq!(read(&spec(&path), portions(batch_bytes, range_bytes)).unwrap(), expected);
    }
}

/// A long text is divided into units; parts of a document end between characters.
#[test]
fn a_long_text_is_many_units_and_parts_end_between_characters() {
    let folder = folder();
    let path = written(folder.path(), "long.txt", "Grün ist schön\n".repeat(100));
    let lines = SourceSpec { documents: DocumentRule::Line, ..spec(&path) };
    let source = opened(&lines, SMALL).unwrap();
    assert!(source.units().len() > 40, "{} units", source.units().len());
    assert_eq!(source.units().iter().filter_map(|unit| unit.text_bytes).sum::<u64>(), 1_700);
    let identities: Vec<_> = (0..2).map(|unit| source.identity(unit).unwrap()).collect();
    assert_eq!(identities[0], identities[1], "both units are the same two lines");

    let is_one_document = batches(&*opened(&spec(&path), SMALL).unwrap()).unwrap();
    assert!(is_one_document.len() > 100);
    assert!(
        is_one_document
            .iter()
            .all(|batch| batch.iter().flatten().all(|part| std::str::from_utf8(part).is_ok()))
    );
}

/// Text is the same after compression, also with several members and padding.
#[test]
fn compressed_text_reads_as_what_it_holds() {
    let (first, second) = ("eins\nzwei\n", "drei\n");
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("memory to write to");
    let json = "{\"text\":\"a\"}\n{\"other\":1}\n";
    let lines = texts(["eins", "zwei", "drei"]);
    let padded = [gzip(first.as_bytes()), vec![0; 70_000], gzip(second.as_bytes()), vec![0; 9]].concat();
    let cases = [
        ("padded.txt.gz", padded, lines.clone()),
        ("empty.txt.gz", Vec::new(), Texts::new()),
        ("empty.jsonl.gz", Vec::new(), Texts::new()),
        ("members.txt.gz", [gzip(first.as_bytes()), gzip(second.as_bytes())].concat(), lines.clone()),
        ("frames.txt.zst", [zstd(first), zstd(second)].concat(), lines),
        ("rows.jsonl.gz", gzip(json.as_bytes()), vec![Some(b"a".to_vec()), None]),
        ("rows.ndjson.zst", zstd(json), vec![Some(b"a".to_vec()), None]),
    ];
    let folder = folder();
    for (name, bytes, expected) in cases {
        let path = written(folder.path(), name, bytes);
        let spec = SourceSpec { documents: DocumentRule::Line, ..spec(&path) };
        assert_eq!(read(&spec, SMALL).unwrap(), expected, "{name}");
        assert_eq!(opened(&spec, SMALL).unwrap().units().len(), 1);
    }
    let member = gzip(first.as_bytes());
    for bytes in [vec![0; 9], [&member, &b"\0\0x"[..]].concat(), [&member, &member[..5]].concat()] {
        let path = written(folder.path(), "no_member.txt.gz", bytes);
        let (kind, message) = failure(read(&spec(&path), SMALL));
        assert!(kind == ErrorKind::Failed && message.contains("no_member.txt.gz"), "{message}");
    }
}

/// Files and pipes that begin with magic bytes are rejected with the way to read them.
#[test]
fn other_formats_are_recognized_by_their_magic_bytes() {
    let zstd = zstd::encode_all(&b"eins"[..], 1).expect("memory to write to");
    let cases = [
        ("packed.txt", gzip(&[b'a'; 300]), ".gz"),
        ("packed.jsonl", zstd.clone(), ".zst"),
        ("packed.txt.gz", zstd, ".zst"),
        ("packed", b"\xfd7zXZ\0...".to_vec(), "xz"),
        ("packed.bz", b"BZh11AY&SY...".to_vec(), "bzip2"),
        ("packed.dat", b"PK\x03\x04...".to_vec(), "zip"),
        ("rows", b"PAR1\x15...".to_vec(), "Parquet"),
        ("rows.bin", b"ARROW1\0\0...".to_vec(), "Arrow"),
        ("packed.lz", b"\x04\x22\x4d\x18...".to_vec(), "LZ4"),
        ("windows.txt", b"\xff\xfed\0o\0".to_vec(), "UTF-16"),
        ("other.txt", b"\xfe\xff\0d\0o".to_vec(), "UTF-16"),
        ("wide.txt", b"\xff\xfe\0\0d\0\0\0".to_vec(), "UTF-32"),
        ("other_wide.txt", b"\0\0\xfe\xff\0\0\0d".to_vec(), "UTF-32"),
        ("page.txt", b"%PDF-1.7\n".to_vec(), "PDF"),
        ("picture.txt", b"\x89PNG\r\n\x1a\n...".to_vec(), "PNG"),
        ("photograph.jsonl", b"\xff\xd8\xff\xe0...".to_vec(), "JPEG"),
        ("program", b"\x7fELF\x02\x01\x01".to_vec(), "program"),
        ("data.db", b"SQLite format 3\0...".to_vec(), "SQLite"),
        ("data.h5", b"\x89HDF\r\n\x1a\n...".to_vec(), "HDF5"),
        ("rows.orc", b"ORC\n\x06\x12\x04\x08\x03P\0".to_vec(), "ORC"),
        ("film.mp4", b"\0\0\0\x20ftypisom".to_vec(), "MP4"),
        ("speech.wav", b"RIFF\x24\x08\0\0WAVEfmt ".to_vec(), "WAV"),
        ("model.gguf", b"GGUF\x03\0\0\0".to_vec(), "GGUF"),
        ("letter.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), "Office"),
        ("packed.rar", b"Rar!\x1a\x07\x01".to_vec(), "RAR"),
        ("crawl.warc", b"WARC/1.1\r\nWARC-Type: warcinfo\r\n".to_vec(), "WARC"),
        ("data.npy", b"\x93NUMPY\x01\0".to_vec(), "NumPy"),
    ];
    let folder = folder();
    for (name, bytes, said) in cases {
        let path = written(folder.path(), name, bytes);
        let (kind, message) = failure(opened(&spec(&path), SMALL));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains(name) && message.contains(said), "{message}");
        let skipped =
            SourceSpec { on_bad_input: OnBadInput::Skip, documents: DocumentRule::Line, ..spec(&path) };
        assert_eq!(read(&skipped, SMALL).unwrap(), Texts::new(), "no part of it is read");
    }
    for name in ["plain.txt.gz", "plain.jsonl.zst", "short.gz"] {
        let path = written(folder.path(), name, &"{\"text\": \"schön\"}\n"[..name.len()]);
        let (kind, message) = failure(opened(&spec(&path), SMALL));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains(name) && message.contains("not compressed"), "{message}");
        assert!(message.contains("a name without that ending"), "{message}");
    }
    for text in
        ["PAR1", "ARROW1", "BZh", "BZh9", "BZh91AY&S", "PK", "(", "%PDF", "\u{feff}text", "SQLite format 3"]
    {
        let path = written(folder.path(), "text", text);
        assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), texts([text]));
    }
}

/// An error names the line in the file, whatever units and blocks it was read in; lines before it are read.
#[test]
fn a_bad_line_is_named_by_its_number_in_the_file() {
    let cases = [
        ("{\"text\": 5}", "a string or null in \"text\""),
        ("{\"text\": \"a\"", "it ends within an object (at the end of the line)"),
        ("[1]", "a JSON object"),
        ("{\"text\": \"\\ud800\"}", "half of a surrogate pair"),
        ("{\"text\": \"a\"} x", "more text follows the end of the value"),
    ];
    let folder = folder();
    for (line, problem) in cases {
        let good = "{\"text\": \"good\"}\n".repeat(9);
        let path = written(folder.path(), "rows.jsonl", format!("{good}\n{line}\n{good}"));
        for config in [SMALL, ReadConfig::default()] {
            let (kind, message) = failure(read(&spec(&path), config));
            assert_eq!(kind, ErrorKind::Failed);
            assert!(message.contains("line 11") && message.contains(problem), "{message}");
            let source = open(&spec(&path), 0, &OpenContext { config, ..OpenContext::new(&Silent) }).unwrap();
            let before =
                in_order(vec![source], 2).map_while(Result::ok).map(|batch| batch.len()).sum::<usize>();
            assert_eq!(before, 9, "what stands before it comes first");

            let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
            let context = OpenContext { config, ..OpenContext::new(&Silent) };
            let source = open(&spec, 0, &context).unwrap();
            for _ in 0..2 {
                assert_eq!(documents(in_order(vec![Arc::clone(&source)], 2)).unwrap().len(), 18);
                assert_eq!(context.skipped_rows.count(), 1, "reading again counts nothing twice");
            }
            assert!(context.skipped_rows.listed()[0].problem.contains("line 11"));
        }
    }
}

/// Numbering the lines of all units counts each line of the file only once.
#[test]
fn lines_are_counted_once_to_number_those_of_all_units() {
    let folder = folder();
    let bad = |lines: usize| "bad\n".repeat(lines);
    let path = written(folder.path(), "rows.jsonl", bad(40));
    let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
    let context = OpenContext { config: SMALL, ..OpenContext::new(&Silent) };
    let source = open(&spec, 0, &context).unwrap();
    let listed_at = fs::metadata(&path).unwrap().modified().unwrap();
    let units = source.units().len();
    assert!(units > 5, "{units} units");
    for unit in 0..units {
        assert_eq!(source.read(unit).unwrap().count(), 0);
        source.taken(unit, source.skipped(unit));
        if let RowRange::Bytes(from, _) = source.units()[unit].range {
            // The bytes before are no longer lines. Size and modification time of the file do not show this.
            let before = "x".repeat(crate::base::int::u64_to_usize(from));
            fs::write(&path, before.clone() + &bad(40)[before.len()..]).unwrap();
            fs::File::options().append(true).open(&path).unwrap().set_modified(listed_at).unwrap();
        }
    }
    let listed = context.skipped_rows.listed();
    assert_eq!(listed.len(), 40);
    for (incident, line) in listed.iter().zip(1..) {
        assert!(incident.problem.contains(&format!("line {line}:")), "{incident:?}");
    }
}

/// A nested field is found, and precedence among fields of similar names is as documented.
#[test]
fn a_field_may_be_in_an_object() {
    let cases = [
        (r#"{"a": {"b": "x", "c": {}}}"#, Some("x")),
        (r#"{"a.b": "x", "a": {"c": "y"}, "a": null}"#, Some("x")),
        (r#"{"a": {"b": "x"}, "a": {"c": {"b": "y"}}}"#, Some("x")),
        // A field with the whole name takes precedence, like a column.
        (r#"{"a.b": "x", "a": {"b": null}}"#, Some("x")),
        (r#"{"a": {"b": "x"}, "a.b": null}"#, None),
        (
            r#"{"a.b": "x", "a": null, "a": [{"b": "y"}], "a": -5, "a": 0.5, "a": 7, "a": true, "a": "z"}"#,
            Some("x"),
        ),
        (r#"{"a": {"b": "y"}, "a.b": "x"}"#, Some("x")),
        (r#"{"a": {"b": "y"}, "a": {"b": "x"}}"#, Some("x")),
        (r#"{"a": {"b": null}}"#, None),
        (r#"{"a": null, "b": "x"}"#, None),
        (r#"{"ab": "x", "a.": "x", "a": {}}"#, None),
        (r#"{"": {"a": {"b": "x"}}}"#, None),
    ];
    let folder = folder();
    let lines: Vec<&str> = cases.iter().map(|(line, _)| *line).collect();
    let path = written(folder.path(), "rows.jsonl", lines.join("\n"));
    let nested = SourceSpec { column: Some("a.b".to_owned()), ..spec(&path) };
    let expected: Texts = cases.iter().map(|(_, text)| text.map(|text| text.as_bytes().to_vec())).collect();
    assert_eq!(read(&nested, SMALL).unwrap(), expected);
    written(folder.path(), "rows.jsonl", r#"{"a": {"b": ["x"]}}"#);
    let (_, message) = failure(read(&nested, SMALL));
    assert!(message.contains("a string or null") && message.contains("line 1"), "{message}");
}

/// A field that no line of the first block has is a wrong request.
#[test]
fn a_field_that_none_of_the_first_lines_has_is_a_wrong_request() {
    let folder = folder();
    let lines = "\n{\"txt\": \"a\", \"id\": 1}\n{\"txt\": \"b\"}\n";
    for (lines, says) in [(lines, "the fields of the first are txt, id"), ("{}\n", "\"text\"")] {
        let path = written(folder.path(), "rows.jsonl", lines);
        for on_bad_input in [OnBadInput::Fail, OnBadInput::Skip] {
            let (kind, message) =
                failure(read(&SourceSpec { on_bad_input, ..spec(&path) }, ReadConfig::default()));
            assert_eq!(kind, ErrorKind::Usage, "{message}");
            assert!(message.contains("rows.jsonl") && message.contains(says), "{message}");
        }
    }
    // Lines that cannot be read are not evidence for or against the field.
    for (last, rows) in [("{\"txt\": \"c\"}", None), ("{\"text\": \"c\"}", Some(3))] {
        let path = written(folder.path(), "rows.jsonl", format!("{lines}{{\n[]\n{last}\n"));
        let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(&path) };
        let read = read(&skipping, ReadConfig::default());
        assert_eq!(read.map(|rows| rows.len()).ok(), rows);
    }
    // One line that has the field suffices, even with null; so does a file without lines.
    for (lines, rows) in [(format!("{lines}{{\"text\": null}}\n"), 3), ("\n".to_owned(), 0)] {
        let path = written(folder.path(), "rows.jsonl", lines);
        assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), vec![None; rows]);
    }
}

/// Standard input gives its documents once; a second reading is an error.
#[test]
fn standard_input_is_read_once() {
    let stdin = |bytes: &[u8]| {
        let context = OpenContext::new(&Silent);
        *context.stdin.lock().unwrap() = Some(Box::new(std::io::Cursor::new(bytes.to_vec())));
        context
    };
    let spec = SourceSpec { uri: "-".to_owned(), documents: DocumentRule::Line, ..SourceSpec::default() };
    let context = stdin(b"a\nb\n");
    let source = open(&spec, 0, &context).unwrap();
    assert_eq!(failure(open(&spec, 1, &context)).0, ErrorKind::Usage);
    assert_eq!(documents(source.read(0).unwrap()).unwrap(), texts(["a", "b"]));
    assert!(failure(source.read(0)).1.contains("only once"));

    let jsonl = SourceSpec { format: Some(Format::Jsonl), ..spec.clone() };
    let source = open(&jsonl, 0, &stdin(b"{\"text\":\"a\"}")).unwrap();
    assert_eq!(documents(source.read(0).unwrap()).unwrap(), texts(["a"]));

    for packed in [gzip(b"a\nb\n"), zstd::encode_all(&b"a\nb\n"[..], 1).expect("memory to write to")] {
        let source = open(&spec, 0, &stdin(&packed)).unwrap();
        assert_eq!(documents(source.read(0).unwrap()).unwrap(), texts(["a", "b"]));
    }
    for (bytes, remedy) in [(b"PK\x03\x04...", "unpack"), (b"PAR1\x15..", "to a file first")] {
        let source = open(&spec, 0, &stdin(bytes)).unwrap();
        assert!(failure(source.read(0)).1.contains(remedy));
        let skip = SourceSpec { on_bad_input: OnBadInput::Skip, ..spec.clone() };
        let source = open(&skip, 0, &stdin(bytes)).unwrap();
        assert_eq!(documents(source.read(0).unwrap()).unwrap(), Texts::new());
    }

    let parquet = SourceSpec { format: Some(Format::Parquet), ..spec };
    assert_eq!(failure(open(&parquet, 0, &stdin(b""))).0, ErrorKind::Usage);
}

/// Folders, globs and hidden files follow the documented rules.
#[test]
fn folders_and_patterns_list_in_byte_order() {
    let folder = folder();
    for name in ["b.txt", "a/z.txt", "a/Z.txt", "a.txt", ".hidden.txt", ".git/c.txt", "a/notes.md"] {
        written(folder.path(), name, name);
    }
    let names = |uri: &Path, format| {
        let spec = SourceSpec { format, ..spec(uri) };
        read(&spec, ReadConfig::default()).unwrap()
    };
    let root = folder.path();
    assert_eq!(names(root, None), texts(["a.txt", "a/Z.txt", "a/z.txt", "b.txt"]));
    let all = names(root, Some(Format::Text));
    assert_eq!(all, texts(["a.txt", "a/Z.txt", "a/notes.md", "a/z.txt", "b.txt"]));
    assert_eq!(names(&root.join("**/[zb]*"), None), texts(["a/z.txt", "b.txt"]));
    assert_eq!(names(&root.join("a/notes.md"), None), texts(["a/notes.md"]));
    for (pattern, found) in [
        ("*", vec!["a.txt", "b.txt"]),
        ("**", vec!["a.txt", "a/Z.txt", "a/notes.md", "a/z.txt", "b.txt"]),
        ("**/**/*.md", vec!["a/notes.md"]),
        ("?/*.txt", vec!["a/Z.txt", "a/z.txt"]),
        ("a/../[!b].txt", vec!["a.txt"]),
        (".[hg]*", vec![".hidden.txt"]),
        ("none/*/x*", vec![]),
        ("b.txt/*", vec![]),
    ] {
        let found_all = read(&spec(&root.join(pattern)), ReadConfig::default());
        assert_eq!(found_all.unwrap_or_default(), texts(found), "{pattern}");
    }
}

/// Files are found and read even if their names are not UTF-8.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_no_trouble() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = folder();
    written(folder.path(), "a.txt", "a");
    for (name, text) in [(&b"b\xE9.txt"[..], "b"), (b"c\xE9.bak", "c"), (b"d\xE9/e.txt", "e")] {
        let path = folder.path().join(OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for (pattern, found) in
        [("*.txt", vec!["a", "b"]), ("**/*.txt", vec!["a", "b", "e"]), ("", vec!["a", "b", "e"])]
    {
        assert_eq!(read(&spec(&folder.path().join(pattern)), SMALL).unwrap(), texts(found), "{pattern}");
    }
}

/// A dangling link is an error, not a missing file.
#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_not_passed_over() {
    let folder = folder();
    written(folder.path(), "a.txt", "a");
    std::os::unix::fs::symlink("gone.txt", folder.path().join("b.txt")).unwrap();
    for uri in [folder.path().to_owned(), folder.path().join("*.txt")] {
        let (kind, message) = failure(read(&spec(&uri), ReadConfig::default()));
        assert_eq!(kind, ErrorKind::Failed);
        assert!(message.contains("b.txt"), "{message}");
    }
}

/// Each wrong request is an error of the right kind that names the problem.
#[test]
fn wrong_requests_say_what_is_wrong() {
    let folder = folder();
    let root = folder.path();
    written(root, "mixed/a.txt", "a");
    written(root, "mixed/b.jsonl", "{}");
    std::fs::create_dir(root.join("empty")).unwrap();
    let plain = |uri: std::path::PathBuf| spec(&uri);
    let cases = [
        (plain(root.join("none.txt")), ErrorKind::Failed, "none.txt"),
        (plain(root.join("*.none")), ErrorKind::Failed, "no file matches"),
        (plain(root.join("[")), ErrorKind::Usage, "not a valid pattern"),
        (plain(root.join("empty")), ErrorKind::Failed, "no files to read"),
        (plain(root.join("mixed")), ErrorKind::Usage, "several formats"),
        (plain("ftp://host/file".into()), ErrorKind::Usage, "hf://datasets"),
        (plain("demo:prose".into()), ErrorKind::Usage, "no generator"),
        (plain("demo:verse?rows=1".into()), ErrorKind::Usage, "has no parameter \"rows\""),
        (plain("demo:verse?lines=x".into()), ErrorKind::Usage, "whole number"),
        (plain("hf://datasets/one".into()), ErrorKind::Usage, "does not name a dataset"),
        (
            SourceSpec { columns: vec!["id".to_owned()], ..plain(root.join("mixed/a.txt")) },
            ErrorKind::Usage,
            "pass through",
        ),
        (
            SourceSpec {
                documents: DocumentRule::Separator(String::new()),
                ..plain(root.join("mixed/a.txt"))
            },
            ErrorKind::Usage,
            "separator",
        ),
    ];
    for (spec, kind, says) in cases {
        let (found, message) = failure(opened(&spec, ReadConfig::default()));
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(says), "{message}");
    }
}

/// Only large uncompressed local text counts as plain.
#[test]
fn large_plain_texts_are_known_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let large = vec![b'a'; 1 << 20];
    let is_plain = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        opened(&spec(&path), ReadConfig::default()).unwrap().is_plain()
    };
    assert!(is_plain("large.txt", &large));
    assert!(!is_plain("small.txt", &large[1..]));
    assert!(!is_plain("packed.txt.gz", &gzip(&large)));
    assert!(!is_plain("large.jsonl", &large));
}

/// Short texts, empty ones and ones that fill a batch come whole, in order and in bounded batches.
#[test]
fn texts_in_memory_come_whole_and_in_order() {
    let inputs = prop::collection::vec(prop_oneof![0..20usize, Just(3 << 20)], 0..12);
    one_case_in(16, &inputs, |lengths| {
        let held: Vec<Vec<u8>> =
            lengths.iter().zip(b'a'..).map(|(&length, letter)| vec![letter; length]).collect();
        let batches = crate::source::texts(&held).collect::<Result<Vec<Batch>>>().expect("short enough");
        prop_assert!(batches.iter().all(|batch| !batch.is_empty() && batch.text_bytes() < 7 << 20));
        let mut row = 0;
        for batch in &batches {
            prop_assert_eq!(batch.first_row, row);
            row += crate::base::int::to_u64(batch.len());
        }
        prop_assert!(documents(batches.into_iter().map(Ok)).expect("whole") == texts(&held));
        Ok(())
    });
}

type Compressor = fn(&[u8]) -> Vec<u8>;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).expect("memory to write to")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

/// The lines `eins` and `zwei`, compressed by `xz -0`.
const XZ_TWO_LINES: &[u8] = b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x0c\x00\x00\x00\x8f\x98\x41\x9c\x01\x00\x09\x65\x69\x6e\x73\x0a\x7a\x77\x65\x69\x0a\x00\x00\x00\xa4\x35\x96\x3e\x7b\xf6\xc8\xbe\x00\x01\x22\x0a\x15\x1a\xe1\x67\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";

fn xz(bytes: &[u8]) -> Vec<u8> {
    use lzma_rust2::{XzOptions, XzWriter};
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("a writer");
    writer.write_all(bytes).expect("memory to write to");
    writer.finish().expect("memory to write to")
}

/// Extensions, and the functions that compress accordingly.
const KINDS: [(&str, Compressor); 5] =
    [("gz", gzip), ("zst", zstd), ("bz2", bzip2), ("xz", xz), ("lz4", lz4)];

/// A skippable frame of zstd and LZ4 with this content.
fn skippable(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
    [&[0x5a, 0x2a, 0x4d, 0x18], &length[..], bytes].concat()
}

fn lines(path: &Path) -> SourceSpec {
    SourceSpec { documents: DocumentRule::Line, ..spec(path) }
}

/// Reads standard input that consists of these bytes.
fn piped(spec: &SourceSpec, bytes: &[u8]) -> Result<Texts> {
    let context = OpenContext::new(&Silent);
    *context.stdin.lock().unwrap() = Some(Box::new(std::io::Cursor::new(bytes.to_vec())));
    let source = open(&SourceSpec { uri: "-".to_owned(), ..spec.clone() }, 0, &context)?;
    documents(source.read(0)?)
}

#[test]
fn a_pipe_without_fields_has_no_columns_to_pass_through() {
    for (format, problem) in [
        (Format::Text, "has no columns to pass through"),
        (Format::Arrow, "can be passed through only from a file"),
    ] {
        let spec =
            SourceSpec { format: Some(format), columns: vec!["lang".to_owned()], ..SourceSpec::default() };
        let error = piped(&spec, b"eins\n").unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// Text is the same after compression in every format, also with several members or frames.
#[test]
fn every_compression_reads_as_what_it_holds() {
    let folder = folder();
    let expected = texts(["eins", "zwei", "drei"]);
    for (ending, compress) in KINDS {
        let parts = [compress(b"eins\nzwei\n"), compress(b""), compress(b"drei\n")].concat();
        for (name, bytes, rows) in [
            ("whole", compress(b"eins\nzwei\ndrei\n"), expected.clone()),
            ("parts", parts.clone(), expected.clone()),
            ("nothing", compress(b""), Texts::new()),
            ("empty", Vec::new(), Texts::new()),
        ] {
            let path = written(folder.path(), &format!("{name}.txt.{ending}"), &bytes);
            assert_eq!(read(&lines(&path), SMALL).unwrap(), rows, "{}", path.display());
            assert_eq!(piped(&lines(&path), &bytes).unwrap(), rows, "{} from a pipe", path.display());
        }
        let rows = compress(b"{\"text\":\"a\"}\n{\"other\":1}\n");
        let path = written(folder.path(), &format!("rows.jsonl.{ending}"), rows);
        assert_eq!(read(&spec(&path), SMALL).unwrap(), [Some(b"a".to_vec()), None]);
        let path = written(folder.path(), &format!("{ending}.txt"), parts);
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains("compressed with") && message.contains(&format!(".{ending}")), "{message}");
        let path = written(folder.path(), &format!("plain.txt.{ending}"), "some text\n");
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains("not compressed"), "{message}");
    }
    let path = written(folder.path(), "made.txt.xz", XZ_TWO_LINES);
    assert_eq!(read(&lines(&path), SMALL).unwrap(), texts(["eins", "zwei"]));
}

/// A truncated file is an error wherever it ends, except between two frames.
#[test]
fn cut_compressed_text_is_an_error_at_every_length() {
    let folder = folder();
    let text: String = (0..400).map(|line| format!("line {}\n", line * 7_919 % 10_007)).collect();
    for (ending, compress) in KINDS {
        // In the second case, the truncated frame follows a complete one.
        for is_one_document in
            [compress(text.as_bytes()), [compress(b"eins\n"), compress(text.as_bytes())].concat()]
        {
            let ends = [0, compress(b"eins\n").len(), is_one_document.len()];
            let near = is_one_document.len() - 40..is_one_document.len();
            for length in
                (1..is_one_document.len()).step_by(23).chain(near).filter(|length| !ends.contains(length))
            {
                let path = written(folder.path(), &format!("cut.txt.{ending}"), &is_one_document[..length]);
                assert!(
                    read(&lines(&path), SMALL).is_err(),
                    "{ending}: {length} of {} bytes",
                    is_one_document.len()
                );
            }
        }
    }
}

/// Skippable frames before, between and after frames with data have no effect.
#[test]
fn frames_without_data_are_passed_over() {
    let folder = folder();
    let long = skippable(&[b'x'; 5_000]);
    let with_frames: [(&str, Compressor); 2] = [("zst", zstd), ("lz4", lz4)];
    for (ending, compress) in with_frames {
        let frame = compress(b"eins\n");
        for bytes in [
            [skippable(b"abcd"), frame.clone()].concat(),
            [skippable(b""), skippable(b"x"), frame.clone()].concat(),
            [long.clone(), frame.clone()].concat(),
            [frame.clone(), skippable(b"a table of contents")].concat(),
            [frame.clone(), skippable(b"x"), skippable(b"")].concat(),
        ] {
            let path = written(folder.path(), &format!("a.txt.{ending}"), &bytes);
            assert_eq!(read(&lines(&path), SMALL).unwrap(), texts(["eins"]), "{ending}");
            assert_eq!(piped(&lines(&path), &bytes).unwrap(), texts(["eins"]), "{ending} from a pipe");
            let path = written(folder.path(), "data", &bytes);
            assert!(failure(opened(&spec(&path), SMALL)).1.contains("compressed with"));
        }
        let cut = &long[..600];
        let path = written(folder.path(), &format!("cut.txt.{ending}"), cut);
        assert!(read(&lines(&path), SMALL).is_err() && piped(&lines(&path), cut).is_err());
    }
}

/// The content is recognized after decompression too, from files and pipes, in every format.
#[test]
fn other_formats_are_recognized_inside_compressed_files() {
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut tar = vec![0; 1_024];
    tar[..5].copy_from_slice(b"a.txt");
    tar[257..262].copy_from_slice(b"ustar");
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 12345\n", 7);
    let cases = [
        (tar, "a tar archive"),
        (b"PK\x03\x04...".to_vec(), "a zip archive"),
        (b"%PDF-1.7\n".to_vec(), "a PDF file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), "a PNG image"),
        (b"GIF89a\x01\0".to_vec(), "a GIF image"),
        (b"\0\0\0\x20ftypisom".to_vec(), "a video"),
        (b"PAR1\x15\x04".to_vec(), "a Parquet file"),
        (b"ARROW1\0\0\xff\xff\xff\xff".to_vec(), "an Arrow file"),
        (gzip(b"some text\n"), "compressed with gzip"),
        (zstd(b"some text\n"), "compressed with zstd"),
        ([b"\xff\xfe".to_vec(), utf_16("some text\n")].concat(), "UTF-16"),
        (utf_16("some text\n"), "UTF-16"),
        (utf_16("кот и пёс\n"), "UTF-16"),
        (b"WARC/1.0\r\nWARC-Type: warcinfo\r\n".to_vec(), "a web archive"),
        (pointer.into_bytes(), "a Git LFS pointer"),
    ];
    let folder = folder();
    for (ending, compress) in KINDS {
        for (inside, what) in &cases {
            let bytes = compress(inside);
            for name in ["a.txt", "a.jsonl"] {
                let path = written(folder.path(), &format!("{name}.{ending}"), &bytes);
                let (kind, message) = failure(opened(&spec(&path), SMALL));
                assert_eq!(kind, ErrorKind::Failed);
                assert!(message.contains(&format!("decompressed it is {what}")), "{message}");
                let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..lines(&path) };
                assert_eq!(read(&skipping, SMALL).unwrap(), Texts::new());
                let format = Some(if name == "a.txt" { Format::Text } else { Format::Jsonl });
                let (_, message) = failure(piped(&SourceSpec { format, ..spec(&path) }, &bytes));
                assert!(message.contains(&format!("decompressed it is {what}")), "{message}");
            }
        }
    }
    // It is recognized without compression as well.
    for (bytes, what) in cases.iter().filter(|(_, what)| !what.starts_with("compressed")) {
        let path = written(folder.path(), "a.txt", bytes);
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains(&format!("it is {what}")), "{message}");
        assert!(failure(piped(&spec(&path), bytes)).1.contains(&format!("it is {what}")));
    }
}

/// Text is not mistaken for another format that it resembles.
#[test]
fn text_that_is_like_something_else_is_text() {
    let folder = folder();
    let about = "version https://git-lfs.github.com/spec/v1 is the first line of a pointer\n";
    let long =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:7\nsize 1\n{}", "x".repeat(2_000));
    for text in [
        about,
        &long,
        "a\0b\0",
        "GIF8",
        "RIFF and WAVE",
        "WARC/1.0 is a format\n",
        "/annex/objects/\nand more\n",
    ] {
        let path = written(folder.path(), "a.txt", text);
        assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), texts([text]));
        for (ending, compress) in KINDS {
            let path = written(folder.path(), &format!("a.txt.{ending}"), compress(text.as_bytes()));
            assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), texts([text]), "{ending}");
        }
    }
}

/// Pointers of Git LFS and git-annex are reported with the way to fetch the data.
#[test]
fn pointers_to_files_that_were_not_fetched_are_errors() {
    let folder = folder();
    let lfs = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 12345\n", 7);
    let old = format!("version https://hawser.github.com/spec/v1\noid sha256:{:064}\nsize 1\n", 7);
    let extended = format!(
        "version https://git-lfs.github.com/spec/v1\next-0-foo sha256:{:064}\noid sha256:{:064}\nsize 1\n",
        1, 7
    );
    let annex = "/annex/objects/SHA256E-s12345--0a1b2c.parquet\n".to_owned();
    let cases =
        [(lfs, "git lfs pull"), (old, "git lfs pull"), (extended, "git lfs pull"), (annex, "git annex get")];
    for (pointer, remedy) in cases {
        for name in [
            "a.txt",
            "a",
            "a.md",
            "a.jsonl",
            "a.parquet",
            "a.arrow",
            "a.arrows",
            "a.feather",
            "a.txt.gz",
            "a.jsonl.gz",
            "a.jsonl.zst",
            "a.txt.bz2",
            "a.txt.xz",
            "a.txt.lz4",
        ] {
            let path = written(folder.path(), name, &pointer);
            let (kind, message) = failure(opened(&spec(&path), SMALL));
            assert_eq!(kind, ErrorKind::Failed);
            assert!(
                message.contains(name) && message.contains("pointer") && message.contains(remedy),
                "{message}"
            );
        }
        for format in [Format::Text, Format::Jsonl, Format::Arrow] {
            let (_, message) = failure(piped(
                &SourceSpec { format: Some(format), ..SourceSpec::default() },
                pointer.as_bytes(),
            ));
            assert!(message.contains("pointer") && message.contains(remedy), "{format}: {message}");
        }
    }
}

/// A frame declares the size of its window. If that exceeds the limit, the frame is rejected before memory is
/// allocated.
#[test]
fn long_windows_are_read_within_a_limit() {
    let folder = folder();
    let compressed = |log: u32| {
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(log).expect("a window");
        encoder.long_distance_matching(true).expect("a window");
        encoder.write_all(b"eins\nzwei\n").expect("memory to write to");
        encoder.finish().expect("memory to write to")
    };
    let gigabytes = |gigabytes: u64| ReadConfig { window_bytes: gigabytes << 30, readers: 2, ..SMALL };
    for (log, limit, fits) in
        [(27, 0, true), (28, 0, false), (28, 1, true), (30, 1, true), (31, 1, false), (31, 2, true)]
    {
        let bytes = compressed(log);
        let path = written(folder.path(), "a.txt.zst", &bytes);
        let outcome = read(&lines(&path), gigabytes(limit));
        if fits {
            assert_eq!(outcome.unwrap(), texts(["eins", "zwei"]), "window of 2^{log}, {limit} GB");
            continue;
        }
        let (kind, message) = failure(outcome);
        assert_eq!(kind, ErrorKind::Memory);
        for part in ["a.txt.zst", "a window of", "the limit is", "--memory", "zstd -dc --long=31"] {
            assert!(message.contains(part), "{message}");
        }
        // This is an error of memory, not bad input, so it is not skipped.
        let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..lines(&path) };
        assert_eq!(failure(read(&skipping, gigabytes(limit))).0, ErrorKind::Memory);
        // The frame is recognized after one with a small window too.
        let path = written(folder.path(), "b.txt.zst", [zstd(b"null\n"), bytes].concat());
        let (kind, message) = failure(read(&lines(&path), gigabytes(limit)));
        assert!(kind == ErrorKind::Memory && message.contains("b.txt.zst"), "{message}");
    }
    // Two files that are read at once have half of the limit each.
    written(folder.path(), "a.txt.zst", compressed(31));
    written(folder.path(), "b.txt.zst", zstd(b"null\n"));
    assert_eq!(failure(read(&lines(folder.path()), gigabytes(2))).0, ErrorKind::Memory);
    assert_eq!(read(&lines(folder.path()), gigabytes(4)).unwrap(), texts(["eins", "zwei", "null"]));
}

/// Concatenated Arrow streams with equal schemas are read as one; concatenated Arrow files are rejected.
#[test]
fn streams_of_arrow_data_laid_end_to_end_are_read_whole() {
    use ::arrow::array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
    use ::arrow::ipc::writer::{FileWriter, StreamWriter};

    let table = |texts: &[&str]| {
        let column: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let words: DictionaryArray<::arrow::datatypes::Int32Type> = texts.iter().copied().collect();
        let words: ArrayRef = Arc::new(words);
        RecordBatch::try_from_iter([("text", column), ("word", words)]).unwrap()
    };
    let stream = |table: &RecordBatch| {
        let mut writer = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
        writer.write(table).unwrap();
        writer.into_inner().unwrap()
    };
    let file = |table: &RecordBatch| {
        let mut writer = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
        writer.write(table).unwrap();
        writer.into_inner().unwrap()
    };
    let (one, two) = (table(&["a", "b", "c"]), table(&["d", "e", "a"]));
    let all = texts(["a", "b", "c", "d", "e", "a"]);
    let folder = folder();
    let arrow = |column: &str| SourceSpec {
        column: Some(column.to_owned()),
        format: Some(Format::Arrow),
        ..SourceSpec::default()
    };
    let both = [stream(&one), stream(&two)].concat();
    // The marker at the end of a stream may be missing.
    let without_mark = [&stream(&one)[..stream(&one).len() - 8], &stream(&two)].concat();
    for bytes in [both.clone(), without_mark, [both.clone(), vec![0; 64]].concat()] {
        let path = written(folder.path(), "a.arrows", &bytes);
        for column in ["text", "word"] {
            let from_file = SourceSpec { uri: path.display().to_string(), ..arrow(column) };
            assert_eq!(read(&from_file, ReadConfig::default()).unwrap(), all, "{column}");
            assert_eq!(piped(&arrow(column), &bytes).unwrap(), all, "{column} from a pipe");
        }
    }
    let other: ArrayRef = Arc::new(StringArray::from(vec!["d"]));
    let other = RecordBatch::try_from_iter([("other", other)]).unwrap();
    for (after, says) in
        [(stream(&other), "other columns"), (b"some text that follows".to_vec(), "is not a stream")]
    {
        let path = written(folder.path(), "a.arrows", [stream(&one), after].concat());
        let error = read(&spec(&path), ReadConfig::default()).unwrap_err();
        assert!(format!("{error:?}").contains(says), "{error:?}");
    }
    // The footer of the last file counts from that file's beginning, so positions in it would be taken from the first
    // file.
    for (a, b) in [(&one, &two), (&one, &one), (&two, &table(&["some", "longer", "texts", "than", "before"]))]
    {
        let path = written(folder.path(), "a.arrow", [file(a), file(b)].concat());
        let error = read(&spec(&path), ReadConfig::default()).unwrap_err();
        assert!(format!("{error:?}").contains("several files joined into one"), "{error:?}");
    }
    let (_, message) = failure(piped(&arrow("text"), &file(&one)));
    assert!(message.contains("an Arrow file") && message.contains("to a file first"), "{message}");
}

/// The texts, and the values of the pass-through column.
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
    assert_eq!(schema.field(0).data_type(), &::arrow::datatypes::DataType::Utf8View);
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
        (r#"{"text":NaN}"#, "found NaN or Infinity, expected a string or null in \"text\""),
        (r#"{"text":"a","meta":nan}"#, "a word is neither true, false nor null"),
        (r#"{"text":"a","meta":NaNs}"#, "no value begins here"),
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
    let told = context.skipped_rows.replaced();
    assert!(told.len() == 1 && told[0].contains("U+FFFD") && told[0].contains("rows.jsonl"), "{told:?}");
    assert_eq!(context.skipped_rows.count(), 0);
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
        (
            r#"[{"text": "a"}, {"text": "x" "y"}, {"text": "b"}]"#,
            2,
            "record 2: ",
            "should follow the field of an object (column 15)",
        ),
        (
            "[{\"text\": \"a\"}, {\"text\": \"x\ny\"}, {\"text\": \"b\"}]",
            2,
            "record 2: ",
            "control character that is not escaped (column 13)",
        ),
        ("{\"text\":\n\"a\"} null {\"text\": \"b\"}", 1, "record 2: ", "a JSON object"),
        (r#"[{"text": "a"}, {"text": "b"}, {"text": "c"#, 2, "after record 2", "a value is not closed"),
        (r#"[{"text": "a"}, {"text": "b"},"#, 2, "after record 2", "an array is not closed"),
        (r#"[{"text": "a"}, {"text": "b"}"#, 1, "after record 1", "an array is not closed"),
        ("{\"text\":\n\"a\"}{\"text\": \"b\"} {", 2, "after record 2", "a value is not closed"),
        (r#"[{"text": "a"}, {"text": "b"}] and more"#, 2, "record 3: ", "no value begins here"),
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
            assert_eq!(context.skipped_rows.count(), 1, "{json}");
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
            assert_eq!(context.skipped_rows.count(), 1, "{table}");
            assert!(context.skipped_rows.listed()[0].problem.contains(told));
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
