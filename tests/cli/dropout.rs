//! BPE-dropout of data sets: the same ids for any threads, shards and interruptions.

use tokenmill::sink::TokenReader;

use super::*;

/// Runs a command. Returns its exit code, standard output and standard error.
fn run(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
fn does(folder: &TempDir, arguments: &[&str]) -> String {
    let (code, printed, said) = run(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?} said\n{said}");
    printed
}

/// A folder with a tokenizer and `texts/` with five files.
fn corpus() -> TempDir {
    let folder = folder();
    fs::create_dir(folder.path().join("texts")).expect("a writable folder");
    for number in 1..6 {
        let line = |line: usize| format!("the cat and the rat sat on the mat {}\n", line % 7);
        write(&folder, &format!("texts/{number}.txt"), (0..100 * number).map(line).collect::<String>());
    }
    does(&folder, &["train", "texts", "-o", "tokenizer", "--vocab-size", "300"]);
    folder
}

/// The bytes of the data files of an output, by name.
fn data(folder: &TempDir, out: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder.path().join(out).join("data")).expect("data files");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a file").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// The ids of each row of an output.
fn ids(folder: &TempDir, out: &str) -> Vec<Vec<tokenmill::TokenId>> {
    let reader = TokenReader::open(&folder.path().join(out)).expect("an output");
    let rows = |batch: tokenmill::encode::TokenBatch| -> Vec<Vec<tokenmill::TokenId>> {
        batch.spans().map(|span| batch.ids.slice(span.unwrap_or(0..0)).to_vec()).collect()
    };
    reader.flat_map(|batch| rows(batch.expect("a batch"))).collect()
}

#[test]
fn dropout_depends_on_the_seed_and_not_on_threads_or_shards() {
    let folder = corpus();
    let dropout = |out: &str, more: &[&str]| {
        let words =
            ["encode", "texts", "-t", "tokenizer", "-o", out, "--documents", "line", "--dropout", "0.1"];
        does(&folder, &[&words[..], more].concat());
    };
    let seed = ["--dropout-seed", "7"];
    dropout("one", &[&seed[..], &["--threads", "1"]].concat());
    dropout("three", &[&seed[..], &["--threads", "3"]].concat());
    assert!(data(&folder, "one") == data(&folder, "three"), "threads change nothing");
    dropout("other", &["--dropout-seed", "8"]);
    assert!(data(&folder, "one") != data(&folder, "other"), "another seed gives other ids");
    does(&folder, &["encode", "texts", "-t", "tokenizer", "-o", "plain", "--documents", "line"]);
    let zero = ["encode", "texts", "-t", "tokenizer", "-o", "zero", "--documents", "line", "--dropout", "0"];
    does(&folder, &zero);
    assert_eq!(data(&folder, "zero"), data(&folder, "plain"));
    assert!(data(&folder, "one") != data(&folder, "plain"));

    for shard in ["1/3", "2/3", "3/3"] {
        let out = format!("shards/{}", &shard[..1]);
        dropout(&out, &[&seed[..], &["--shard", shard]].concat());
    }
    does(&folder, &["merge", "shards/1", "shards/2", "shards/3", "-o", "merged"]);
    assert_eq!(ids(&folder, "merged"), ids(&folder, "one"));

    does(&folder, &["decode", "one", "-t", "tokenizer", "--verify", "texts", "--documents", "line"]);
    let manifest = fs::read_to_string(folder.path().join("one/manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["declaration"]["dropout"], serde_json::json!({ "probability": 0.1, "seed": 7 }));
    let card = fs::read_to_string(folder.path().join("one/README.md")).expect("a card");
    assert!(card.contains("left out with probability 0.1 (BPE-dropout, seed 7)"), "{card}");
}

#[test]
fn dropout_that_makes_no_sense_is_refused() {
    let folder = corpus();
    let encode = ["encode", "texts", "-t", "tokenizer", "-o", "out"];
    for (flags, expected) in [
        (&["--dropout-seed", "7"][..], "has no effect without dropout"),
        (&["--dropout", "1.5"], "a number from 0 to 1"),
        (&["--dropout", "nan"], "a number from 0 to 1"),
    ] {
        let (code, _, said) = run(&folder, &[&encode[..], flags].concat());
        assert!(code == Some(2) && said.contains(expected), "{flags:?}: {said}");
    }
    let recipe = "[source]\nuri = \"texts\"\n[encode]\ntokenizer = \"tokenizer\"\ndropout = 2\n[output]\ndir = \"out\"\n";
    write(&folder, "run.toml", recipe);
    let (code, _, said) = run(&folder, &["run", "run.toml"]);
    assert!(code == Some(2) && said.contains("a number from 0 to 1, for example 0.1"), "{said}");
}
