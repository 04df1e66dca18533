//! Tests of plain text and JSON Lines, of recognizing other data, and of listing files.

use proptest::prelude::*;

use super::*;
use crate::base::test_support::one_case_in;

/// The rules as documented, applied from left to right without blocks and units.
fn plainly(text: &[u8], rule: &DocumentRule) -> Vec<Vec<u8>> {
    let separator: &[u8] = match rule {
        DocumentRule::File => return vec![text.to_vec()],
        DocumentRule::Line => b"\n",
        DocumentRule::Paragraph => b"\n\n",
        DocumentRule::Separator(separator) => separator.as_bytes(),
    };
    let (mut documents, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        let document = &rest[..at];
        let carriage_return = *rule == DocumentRule::Line && document.ends_with(b"\r");
        documents.push(document[..at - usize::from(carriage_return)].to_vec());
        rest = &rest[at + separator.len()..];
    }
    documents.push(rest.to_vec());
    documents.retain(|document| !document.is_empty());
    documents
}

/// Examples of every rule, with empty documents and unusual separators.
#[test]
fn documents_of_plain_text() {
    let separator = || DocumentRule::Separator("--".to_owned());
    let cases: [(&str, DocumentRule, &[&str]); 12] = [
        ("a\nb", DocumentRule::File, &["a\nb"]),
        ("", DocumentRule::File, &[""]),
        ("a\nb\r\n\nc\r", DocumentRule::Line, &["a", "b", "c\r"]),
        ("\r\n\r\r\n", DocumentRule::Line, &["\r"]),
        ("", DocumentRule::Line, &[]),
        ("a\n\n\nb", DocumentRule::Paragraph, &["a", "\nb"]),
        ("a\n\n\n\nb\n", DocumentRule::Paragraph, &["a", "b\n"]),
        ("\n\na\r\n\r\nb", DocumentRule::Paragraph, &["a\r\n\r\nb"]),
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

    let whole = batches(&*opened(&spec(&path), SMALL).unwrap()).unwrap();
    assert!(whole.len() > 100);
    assert!(whole.iter().all(|batch| batch.iter().flatten().all(|part| std::str::from_utf8(part).is_ok())));
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
fn what_is_no_text_is_told_by_its_beginning() {
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
        ("{\"text\": \"a\"", "EOF"),
        ("[1]", "a JSON object"),
        ("{\"text\": \"\\ud800\"}", "half of a surrogate pair"),
        ("{\"text\": \"a\"} x", "trailing characters"),
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
                assert_eq!(context.incidents.count(), 1, "reading again counts nothing twice");
            }
            assert!(context.incidents.listed()[0].problem.contains("line 11"));
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
        source.taken(unit, source.left_out(unit));
        if let Range::Bytes(from, _) = source.units()[unit].range {
            // The bytes before are no longer lines. Size and modification time of the file do not show this.
            let before = "x".repeat(crate::base::int::u64_to_usize(from));
            fs::write(&path, before.clone() + &bad(40)[before.len()..]).unwrap();
            fs::File::options().append(true).open(&path).unwrap().set_modified(listed_at).unwrap();
        }
    }
    let listed = context.incidents.listed();
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
        let batches = crate::source::documents(&held).collect::<Result<Vec<Batch>>>().expect("short enough");
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
