use std::fs;

use super::*;
use crate::error::ErrorKind;
use crate::observer::{Observer, Silent};
use crate::sink::{Manifest, OutputFile};

fn output(folder: &Path) -> Manifest {
    for name in ["data", "tokenizer"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    fs::write(folder.join("tokenizer/tokenizer.json"), "{}").expect("a file");
    let (bytes, facts) = write([batch(&some_rows(500))], None, Compression::Default, 1);
    fs::write(folder.join("data/train-00000.parquet"), bytes).expect("a file");
    let file = OutputFile {
        name: "data/train-00000.parquet".to_owned(),
        rows: facts.rows,
        tokens: facts.tokens,
        text_bytes: 1,
        bytes: facts.bytes,
        sha256: facts.sha256,
        index: None,
        units: Vec::new(),
    };
    Manifest {
        format_version: 1,
        tool_version: "0".to_owned(),
        job: "j".to_owned(),
        tokenizer: "t".to_owned(),
        declaration: None,
        inputs: Vec::new(),
        files: vec![file],
        tokenizer_files: vec!["tokenizer/tokenizer.json".to_owned()],
        other_files: Vec::new(),
        reports: Vec::new(),
        splits: Vec::new(),
    }
}

#[test]
fn reads_what_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(Manifest::read(folder.path()).expect("nothing there"), None);
    let manifest = output(folder.path());
    manifest.write(folder.path()).expect("written");
    assert_eq!(Manifest::read(folder.path()).expect("there"), Some(manifest));
}

#[test]
fn any_change_to_a_file_is_noticed() {
    type Change = fn(&Path);
    let truncate: Change = |path| {
        let bytes = fs::read(path).expect("a file");
        fs::write(path, &bytes[..bytes.len() - 1]).expect("a file");
    };
    let flip: Change = |path| {
        let mut bytes = fs::read(path).expect("a file");
        bytes[100] ^= 1;
        fs::write(path, bytes).expect("a file");
    };
    let remove: Change = |path| fs::remove_file(path).expect("removed");
    let another: Change = |path| fs::write(path.with_file_name("stray.parquet"), "x").expect("a file");
    let tokenizer: Change = |path| {
        let output = path.ancestors().nth(2).expect("the output folder");
        fs::remove_file(output.join("tokenizer/tokenizer.json")).expect("removed");
    };
    for (change, says) in [
        (truncate, "train-00000.parquet: the size"),
        (flip, "train-00000.parquet: the SHA-256"),
        (remove, "train-00000.parquet: listed in the manifest, but missing"),
        (another, "stray.parquet"),
        (tokenizer, "tokenizer.json: listed in the manifest, but missing"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = output(folder.path());
        manifest.verify(folder.path(), &Silent).expect("unchanged");
        change(&folder.path().join("data/train-00000.parquet"));
        let error = manifest.verify(folder.path(), &Silent).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(says), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut manifest = output(folder.path());
    manifest.files[0].rows += 1;
    let error = manifest.verify(folder.path(), &Silent).expect_err("rows");
    assert!(error.to_string().contains("rows is 500"), "{error}");
}

#[test]
fn verifying_stops_when_asked() {
    struct Stop;
    impl Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let error = output(folder.path()).verify(folder.path(), &Stop).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn hostile_manifests_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = serde_json::to_string(&output(folder.path())).expect("JSON");
    let file = |name: &str| good.replace("data/train-00000.parquet", name);
    let twice = good.replace("\"files\":[", "\"files\":[{\"name\":\"data/train-00000.parquet\",\"rows\":0,\"tokens\":0,\"text_bytes\":0,\"bytes\":0,\"sha256\":\"\",\"units\":[]},");
    let tokenizer = good.replace("tokenizer/tokenizer.json", "../tokenizer.json");
    let other = twice.replacen("data/train-00000.parquet", "other", 1);
    let sum = |of: &str| other.replacen(&format!("\"{of}\":0"), &format!("\"{of}\":{}", u64::MAX), 1);
    for (text, says) in [
        (String::new(), "not a manifest"),
        ("[".repeat(100_000), "not a manifest"),
        (good.replace("\"rows\":500", "\"rows\":-1"), "not a manifest"),
        (good.replace("\"format_version\":1", "\"format_version\":2"), "format version 2"),
        ("{\"format_version\":9}".to_owned(), "format version 9"),
        (file("../x.parquet"), "outside"),
        (file("/etc/passwd"), "outside"),
        (file(""), "outside"),
        (tokenizer, "outside"),
        (twice, "twice"),
        (sum("rows"), "64 bits"),
        (sum("tokens"), "64 bits"),
        (sum("text_bytes"), "64 bits"),
        (sum("bytes"), "64 bits"),
    ] {
        fs::write(folder.path().join("manifest.json"), &text).expect("a file");
        let error = Manifest::read(folder.path()).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(error.to_string().contains("manifest.json"), "{error}");
    }
}
