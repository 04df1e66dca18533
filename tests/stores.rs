//! The program with files in object stores.

#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hub.rs"]
mod fake;
#[path = "support/bucket.rs"]
mod bucket;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bucket::{BUCKET, Bucket};
use fake::Fault;

const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

/// A command of the program that uses this store for all three providers, and no other network.
fn tokenmill(store: &Bucket, home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
    command.current_dir(home).env("AWS_ENDPOINT", &store.endpoint).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "somebody").env("AWS_SECRET_ACCESS_KEY", "a secret");
    command.env("GOOGLE_BASE_URL", &store.endpoint).env("GOOGLE_SKIP_SIGNATURE", "true");
    command.env("AZURE_ENDPOINT", &store.endpoint).env("AZURE_SKIP_SIGNATURE", "true");
    command.env("AZURE_STORAGE_ACCOUNT_NAME", "somebody");
    command
}

fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    said
}

/// Puts two Parquet files, a text file, and objects that must not be read into the store. Writes the same
/// Parquet files to the folder `local`, and the text to `verse.txt`.
fn fill(store: &Bucket, home: &Path) {
    fs::create_dir(home.join("local")).unwrap();
    for seed in ["1", "2"] {
        let file = home.join(format!("local/{seed}.parquet"));
        write_verse(&file, seed);
        store.put(&format!("data/verse/{seed}.parquet"), fs::read(file).unwrap());
    }
    store.put("data/verse/.hidden.parquet", "no Parquet");
    let text = "one line\nanother line\n".repeat(50);
    fs::write(home.join("verse.txt"), &text).unwrap();
    store.put("data/verse.txt", text);
    store.put("other.parquet", "no Parquet");
}

fn write_verse(file: &Path, seed: &str) {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;

    let lines: Vec<String> = (0..3000_u32)
        .map(|line| format!("{seed} goes {} and {}", line * 7 % 301, line * line % 97))
        .collect();
    let column: ArrayRef = Arc::new(StringArray::from(lines));
    let batch = RecordBatch::try_from_iter([("line", column)]).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(file).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn trained(mut command: Command, input: &str, home: &Path) -> Vec<u8> {
    let column = if input.ends_with(".txt") { ["--documents", "line"] } else { ["--column", "line"] };
    command.args(["train", input, "--merges", "200", "-o", "out"]).args(column);
    well(&command.output().unwrap());
    fs::read(home.join("out/tokenizer.json")).unwrap()
}

/// Objects in each store give the same tokenizer as local files, and no other object is requested.
#[test]
fn objects_are_read_as_local_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let (store, home) = (Bucket::start(), folder.path());
    fill(&store, home);
    let expected = trained(tokenmill(&store, home), "local", home);
    for scheme in SCHEMES {
        for path in ["data/verse", "data/verse/", "data/*/[12].parquet"] {
            let uri = format!("{scheme}://{BUCKET}/{path}");
            assert!(trained(tokenmill(&store, home), &uri, home) == expected, "{uri}");
        }
        let asked = store.asked();
        assert!(asked.iter().all(|line| !line.contains("other") && !line.contains("hidden")), "{asked:?}");
        let text = trained(tokenmill(&store, home), &format!("{scheme}://{BUCKET}/data/verse.txt"), home);
        assert!(text == trained(tokenmill(&store, home), "verse.txt", home), "{scheme}");
    }
}

/// A temporary error and a response that ends early are retried.
#[test]
fn what_fails_in_passing_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, home) = (Bucket::start(), folder.path());
    fill(&store, home);
    let expected = trained(tokenmill(&store, home), "local", home);
    for fault in [Fault::Status(503, ""), Fault::CutAfter(10)] {
        store.fail(fault);
        let uri = format!("s3://{BUCKET}/data/verse");
        assert!(trained(tokenmill(&store, home), &uri, home) == expected);
        assert_eq!(store.faults_left(), 0);
    }
}

/// The client library panics on an entity tag that is not a valid header value. The program must report an
/// error instead.
#[test]
fn a_tag_that_cannot_be_asked_for_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (store, home) = (Bucket::start(), folder.path());
    let listing = "<ListBucketResult><Contents><Key>a.parquet</Key><Size>99</Size><ETag>\"a\u{1}b\"</ETag>\
                   <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>";
    store.fail(Fault::Raw(format!("HTTP/1.1 200 x\r\nConnection: close\r\n\r\n{listing}").into_bytes()));
    let output = tokenmill(&store, home).args(["count", "s3://words", "-o", "c.parquet"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("s3://words/a.parquet") && !said.contains("panicked"), "{said}");
}

/// Each refusal of a store ends with its code and a remedy.
#[test]
fn refusals_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (store, home) = (Bucket::start(), folder.path());
    fill(&store, home);
    let refused = |uri: &str| {
        let output =
            tokenmill(&store, home).args(["count", uri, "--column", "line", "-o", "c.parquet"]).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let object = format!("s3://{BUCKET}/data/verse/1.parquet");
    for (uri, fault, code, says) in [
        (object.as_str(), Some(Fault::Status(403, "")), 6, "AWS_SKIP_SIGNATURE"),
        (object.as_str(), Some(Fault::Etag("changed")), 5, "has changed since it was listed"),
        ("s3://words/nothing", None, 1, "has no files"),
        ("s3://nowhere/data", None, 5, "check the bucket"),
        ("s3://", None, 2, "s3://BUCKET/PATH"),
    ] {
        if let Some(fault) = fault {
            store.fail(fault);
        }
        let (exit, said) = refused(uri);
        assert_eq!(exit, Some(code), "{uri} {said}");
        assert!(said.contains(says), "{uri} {said}");
        assert!(!home.join("c.parquet").exists());
    }
}
