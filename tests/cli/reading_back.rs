//! Outputs that are inspected, verified or decoded.

use super::*;

/// Runs a command that must succeed and returns its standard output.
#[track_caller]
fn printed(folder: &TempDir, arguments: &[&str]) -> String {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    assert!(output.status.success(), "{arguments:?} said\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// `verify` also checks the tokenizer files of an output, in every format.
#[test]
fn the_tokenizer_is_verified_with_the_data() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let learn = "source = { uri = \"a.txt\" }\ntrain = { merges = 5, formats = [\"hf\", \"minbpe\"] }\n";
    write(&folder, "learn.toml", format!("{learn}output = {{ dir = \"learned\" }}\n"));
    write(&folder, "both.toml", format!("{learn}encode = {{}}\noutput = {{ dir = \"both\" }}\n"));
    let train = ["train", "a.txt", "-o", "other", "--merges", "4", "--formats", "minbpe"];
    assert_eq!(ended(&folder, &train).0, Some(0));
    for (name, holds) in
        [("learned", "manifest: the tokenizer (hf, minbpe)"), ("both", "1 file with 1 row and")]
    {
        let recipe = if name == "learned" { "learn.toml" } else { "both.toml" };
        assert_eq!(ended(&folder, &["run", recipe]).0, Some(0));
        let (code, said) = ended(&folder, &["verify", name]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(holds) && said.contains("the tokenizer (hf, minbpe)"), "{said}");
        let found: serde_json::Value =
            serde_json::from_str(&printed(&folder, &["verify", name, "--json"])).expect("JSON");
        assert_eq!(found["tokenizer"], serde_json::json!(["hf", "minbpe"]));

        let tokenizer = folder.path().join(name).join("tokenizer");
        let other = folder.path().join("other/tokenizer.model");
        fs::copy(other, tokenizer.join("tokenizer.model")).expect("a copy");
        refuses(&folder, &["verify", name], 4, &["tokenizer.model", "the manifest"]);
        write(&folder, &format!("{name}/tokenizer/tokenizer.json"), "{}");
        refuses(&folder, &["verify", name], 4, &["tokenizer.json"]);
        fs::remove_dir_all(tokenizer).expect("it goes");
        refuses(&folder, &["verify", name], 4, &["tokenizer", "missing"]);
    }
}

/// `decode --json` prints one object per document: text, null, or bytes that are not UTF-8.
#[test]
fn documents_are_read_back_as_objects() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    write(&folder, "a.jsonl", "{\"text\": \"the cat\\nand \\u00e9\"}\n{\"text\": null}\n{\"text\": \"\"}\n");
    write(&folder, "bytes.txt", b"the \xFF");
    for (input, lines) in [
        ("a.jsonl", "{\"text\":\"the cat\\nand é\"}\n{\"text\":null}\n{\"text\":\"\"}\n"),
        ("bytes.txt", "{\"bytes\":[116,104,101,32,255]}\n"),
    ] {
        let ids = format!("ids-{input}");
        assert_eq!(ended(&folder, &["encode", input, "-t", "made", "-o", &ids]).0, Some(0));
        for files in [ids.clone(), format!("{ids}/data")] {
            assert_eq!(printed(&folder, &["decode", &files, "-t", "made", "--json"]), lines);
        }
    }
}

/// The report of a training from counts has no figures of documents.
#[test]
fn a_report_tells_nothing_of_documents_that_only_counts_tell_of() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["count", "a.txt", "-o", "c.parquet"]).0, Some(0));
    for (name, input) in [("text", &["a.txt"][..]), ("counts", &["--from-counts", "c.parquet"])] {
        let train = [&["train"], input, &["-o", name, "--merges", "3"]].concat();
        assert_eq!(ended(&folder, &train).0, Some(0));
        let file = |file: &str| fs::read_to_string(folder.path().join(name).join(file)).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&file("report.json")).expect("JSON");
        let known = name == "text";
        assert_eq!(report["corpus"]["documents"].is_u64(), known);
        assert_eq!(report["corpus"]["document_lengths"].is_array(), known);
        assert_eq!(file("report.html").contains("corpus.documents"), known);
    }
}

/// The report lists skipped rows with file, line and reason.
#[test]
fn what_is_left_out_is_listed_by_place_and_reason() {
    let folder = folder();
    write(&folder, "a.jsonl", "{\"text\": \"the cat\"}\n{\n{\"text\": \"the mat\"}\n");
    let train = ["train", "a.jsonl", "-o", "made", "--merges", "3", "--on-bad-input", "quarantine"];
    assert_eq!(ended(&folder, &train).0, Some(3));
    let report = fs::read_to_string(folder.path().join("made/report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let skipped = &report["skipped"][0];
    let reason = skipped["reason"].as_str().expect("a reason");
    assert_eq!(skipped["place"], "a.jsonl");
    assert!(reason.starts_with("line 2"), "{reason}");
}

/// Only commands that count have the flag `--weight`.
#[test]
fn weights_are_offered_where_something_is_counted() {
    let folder = folder();
    for (command, counts) in [
        ("train", true),
        ("count", true),
        ("verify-merges", true),
        ("encode", false),
        ("decode", false),
        ("compare", false),
        ("bench", false),
    ] {
        assert_eq!(printed(&folder, &[command, "--help"]).contains("--weight"), counts, "{command}");
    }
}

/// `decode` says that an output is not complete, and still reads its finished files.
#[test]
fn documents_of_an_output_that_is_not_complete_are_told_to_be_a_part() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    assert_eq!(ended(&folder, &["encode", "a.txt", "-t", "made", "-o", "ids"]).0, Some(0));
    let told = |arguments: &[&str]| {
        let (code, said) = ended(&folder, &[&["decode", "ids", "-t", "made"][..], arguments].concat());
        assert_eq!(code, Some(0), "{said}");
        said.contains("ids is not complete: only its finished files are read")
    };
    assert!(!told(&[]));
    fs::remove_file(folder.path().join("ids/manifest.json")).expect("it goes");
    assert!(told(&[]) && told(&["--verify", "a.txt"]));
}
