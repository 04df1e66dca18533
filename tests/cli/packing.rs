use super::*;

/// Runs a command. Returns its exit code, standard output and standard error.
fn run(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn trained() -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train =
        ["train", "a.txt", "-o", "tokenizer", "--vocab-size", "270", "--special-token", "<end>", "--quiet"];
    assert_eq!(run(&folder, &train).0, Some(0));
    folder
}

const ENCODE: [&str; 10] =
    ["encode", "a.txt", "-t", "tokenizer", "-o", "out", "--documents", "line", "--eos", "<end>"];

/// A packed output is described in messages and card, verified, and decoded row by row. It cannot be compared
/// with the input.
#[test]
fn packed_rows_are_told_verified_and_decoded_row_by_row() {
    let folder = trained();
    let (code, _, said) = run(&folder, &[&ENCODE[..], &["--pack", "concat", "--length", "8"]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("packed by concat into") && said.contains("rows of 8 tokens"), "{said}");
    let card = fs::read_to_string(folder.path().join("out/README.md")).expect("a card");
    assert!(card.contains("rows of up to 8 tokens, packed from 3 rows of the input"), "{card}");
    assert!(card.contains(r#"{"name":"seq_lengths","sequence":"int32"}"#), "{card}");
    assert!(
        !card.contains("num_bytes") && !card.contains("dataset_size"),
        "of other columns it is not known: {card}"
    );
    assert_eq!(run(&folder, &["verify", "out"]).0, Some(0));
    let (code, facts, said) = run(&folder, &["inspect", "out", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let facts: serde_json::Value = serde_json::from_str(&facts).expect("JSON");
    assert_eq!(facts["vocab_size"], 264, "fewer merges than asked for were learned");
    assert_eq!(facts["manifest"]["declaration"], facts["declaration"], "the files and the manifest agree");
    assert_eq!(facts["declaration"]["pack"]["length"], 8);
    let (code, text, said) = run(&folder, &["decode", "out", "-t", "tokenizer"]);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<&str> = TEXT.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(text.replace('\n', ""), format!("{}<end>", lines.join("<end>")));
    let compare = ["decode", "out", "-t", "tokenizer", "--verify", "a.txt", "--documents", "line"];
    let (code, _, said) = run(&folder, &compare);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("packed"), "{said}");
}

/// Many small files are remarked on, once, and a few are not.
#[test]
fn many_small_files_are_remarked_on() {
    let folder = trained();
    let encode = |rows: usize, out: &str| {
        write(&folder, "rows.jsonl", "{\"text\": \"the cat\"}\n".repeat(rows));
        let small = ["--file-text-bytes", "1", "--pack", "concat", "--length", "8"];
        let (code, _, said) =
            run(&folder, &[&["encode", "rows.jsonl", "-t", "tokenizer", "-o", out][..], &small].concat());
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let remark = "more than 1000 data files of about 1 byte of text each";
    assert_eq!(encode(1_010, "many").matches(remark).count(), 1);
    assert!(!encode(20, "few").contains(remark));
}

/// Packing is refused without a length, for flat formats, and with source columns.
#[test]
fn what_cannot_be_packed_is_named() {
    let folder = trained();
    let refused = |more: &[&str], said: &[&str]| refuses(&folder, &[&ENCODE[..], more].concat(), 2, said);
    refused(&["--pack", "best-fit"], &["--length", "2048"]);
    refused(&["--length", "8"], &["--length", "--pack"]);
    let pack = ["--pack", "concat", "--length", "8"];
    refused(
        &[&pack[..], &["--output-format", "bin"]].concat(),
        &["--pack", "Parquet", "leave out `--output-format`"],
    );
    refused(&[&pack[..], &["--columns", "id"]].concat(), &["--columns", "packed rows", "leave out `--pack`"]);
}

/// An error gives the row number within the file, or within the sample if there is one.
#[test]
fn rows_of_a_sample_are_not_named_as_rows_of_a_file() {
    let folder = trained();
    write(&folder, "a.txt", "a\nb\nc\n");
    write(&folder, "b.txt", "d\n<end>\n");
    let encode = |more: &[&str]| {
        let given = ["encode", "a.txt", "b.txt", "-t", "tokenizer", "--documents", "line", "-o", "out"];
        run(&folder, &[&given[..], &["--special", "forbid"], more].concat())
    };
    let (code, _, told) = encode(&[]);
    assert!(code == Some(1) && told.contains("b.txt: row 1"), "{told}");
    let (code, _, told) = encode(&["--skip", "1"]);
    assert!(code == Some(1) && told.contains("the sample (b.txt): row 3"), "{told}");
}

/// Flat formats cannot distinguish null documents from empty ones, so verification treats both as equal.
#[test]
fn null_documents_are_empty_ones_where_files_cannot_tell_them() {
    let folder = trained();
    write_parquet(&folder, "nulls.parquet", &[Some("the cat"), None, Some(""), Some("the mat")]);
    for (format, differs) in [("parquet", true), ("bin", false), ("megatron", false)] {
        let encode = ["encode", "nulls.parquet", "-t", "tokenizer", "-o", format, "--output-format", format];
        assert_eq!(run(&folder, &encode).0, Some(0));
        let compare = ["decode", format, "-t", "tokenizer", "--verify", "nulls.parquet"];
        let (code, _, said) = run(&folder, &compare);
        assert!(code == Some(0) && said.contains("4 rows"), "{format}: {said}");
        write_parquet(&folder, "empty.parquet", &[Some("the cat"), Some(""), None, Some("the mat")]);
        let compare = ["decode", format, "-t", "tokenizer", "--verify", "empty.parquet"];
        assert_eq!(run(&folder, &compare).0, Some(if differs { 4 } else { 0 }), "{format}");
    }
}
