//! Tests of the program as a process: standard output, standard error, exit codes, and files.

#[path = "cli/annotations.rs"]
mod annotations;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/changed_bits.rs"]
mod changed_bits;
#[path = "cli/cluster.rs"]
mod cluster;
#[path = "cli/counts.rs"]
mod counts;
#[path = "cli/explore.rs"]
mod explore;
#[path = "cli/foreign.rs"]
mod foreign;
#[path = "cli/editing.rs"]
mod editing;
#[path = "cli/extending.rs"]
mod extending;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/incomplete.rs"]
mod incomplete;
#[path = "cli/instead.rs"]
mod instead;
#[path = "cli/learning.rs"]
mod learning;
#[path = "cli/dropout.rs"]
mod dropout;
#[path = "cli/packing.rs"]
mod packing;
#[path = "cli/parity.rs"]
mod parity;
#[path = "cli/compare.rs"]
mod compare;
#[path = "cli/reading_back.rs"]
mod reading_back;
#[path = "cli/replacing.rs"]
mod replacing;
#[path = "cli/room_on_disk.rs"]
mod room_on_disk;
#[path = "cli/shards.rs"]
mod shards;
#[path = "cli/splits.rs"]
mod splits;
#[path = "cli/said.rs"]
mod said;
#[path = "cli/listing.rs"]
mod listing;
#[path = "cli/tokens.rs"]
mod tokens;
#[path = "cli/transformers.rs"]
mod transformers;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use assert_cmd::Command;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

fn tokenmill(folder: &TempDir) -> Command {
    let mut command = Command::cargo_bin("tokenmill").expect("the program");
    command.current_dir(folder.path()).env_remove("NO_COLOR");
    command
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder for the test")
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.path().join(name), content).expect("a writable folder");
}

/// The paths of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

const TEXT: &str = "the cat sat on the mat\nthe cat ate the rat\n\nthat is that\n";

/// Runs a command that must fail with this code, print a message with all of `said`, and leave nothing in
/// `out`.
#[track_caller]
fn refuses(folder: &TempDir, arguments: &[&str], code: i32, said: &[&str]) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?} said\n{message}");
    for expected in said {
        assert!(message.contains(expected), "{arguments:?} did not say {expected:?} but\n{message}");
    }
    assert!(!message.contains("panicked"), "{message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed to standard output");
    let finals: Vec<String> =
        files(&folder.path().join("out")).into_iter().filter(|file| !file.contains("/.tokenmill/")).collect();
    assert!(finals.is_empty(), "{arguments:?} left {finals:?}");
}

const TRAIN: [&str; 5] = ["-o", "out", "--vocab-size", "263", "--quiet"];

fn train<'a>(input: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", input], &TRAIN[..], more].concat()
}

/// The message names an input file that does not exist.
#[test]
fn a_missing_file_is_named() {
    refuses(&folder(), &train("missing.txt", &[]), 1, &["missing.txt"]);
}

/// A Parquet file with a string column `text` (null where `None`) and an integer column `id`.
fn write_parquet(folder: &TempDir, name: &str, texts: &[Option<&str>]) {
    let ids = 0..i64::try_from(texts.len()).expect("few rows");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let batch = RecordBatch::try_from_iter_with_nullable([("text", texts, true), ("id", ids, false)]);
    let batch = batch.expect("columns of equal length");
    let file = fs::File::create(folder.path().join(name)).expect("a writable folder");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a Parquet writer");
    writer.write(&batch).expect("a batch");
    writer.close().expect("a footer");
}

/// `--column` must name an existing column of strings. A refusal lists the columns or names the wrong type.
#[test]
fn a_column_must_be_there_and_hold_text() {
    let folder = folder();
    write_parquet(&folder, "a.parquet", &[Some("the cat the cat")]);
    refuses(&folder, &train("a.parquet", &["--column", "body"]), 2, &["a.parquet", "body", "text", "id"]);
    refuses(&folder, &train("a.parquet", &["--column", "id"]), 2, &["a.parquet", "id", "Int64"]);
    let template = ["--template", "{text}{body}"];
    refuses(&folder, &train("a.parquet", &template), 2, &["a.parquet", "body", "the template may name only"]);
    write_parquet(&folder, "null.parquet", &[None, None]);
    refuses(&folder, &train("null.parquet", &[]), 1, &["nothing to train on"]);
}

/// Training on an empty text is an error.
#[test]
fn an_empty_corpus_is_nothing_to_train_on() {
    let folder = folder();
    write(&folder, "a.txt", "");
    refuses(&folder, &train("a.txt", &[]), 1, &["nothing to train on"]);
}

/// `--vocab-size` must be at least 256 plus the number of special tokens.
#[test]
fn a_vocabulary_must_hold_bytes_and_special_tokens() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let arguments = ["train", "a.txt", "-o", "out", "--vocab-size", "256", "--special-token", "<end>"];
    refuses(&folder, &arguments, 2, &["`--vocab-size`", "257"]);
}

/// One message names all invalid flags.
#[test]
fn flags_are_checked_all_at_once() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let arguments = [
        "train",
        "a.txt",
        "-o",
        "out",
        "--every",
        "0",
        "--special-token",
        "",
        "--weight",
        "1",
        "--weight",
        "2",
    ];
    refuses(&folder, &arguments, 2, &["`--every`", "`--special-token`", "`--weight`", "`--vocab-size`"]);
    refuses(&folder, &train("a.txt", &["--tie-break", "idz"]), 2, &["idz", "ids"]);
    refuses(&folder, &train("a.txt", &["--split-regex", "(a"]), 2, &["`--split-regex`", "(a"]);
}

/// An argument that is not UTF-8 ends with code 2.
#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf8_is_a_mistake_of_usage() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for flag in ["--special-token", "-o"] {
        let output = tokenmill(&folder)
            .args(["train", "a.txt", "--vocab-size", "270", flag])
            .arg(OsStr::from_bytes(b"<\xff>"))
            .output()
            .expect("a run");
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("UTF-8"), "{flag}");
    }
}

/// The message names an output that cannot be created.
#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "file", "");
    let arguments = ["train", "a.txt", "-o", "file/out", "--vocab-size", "270"];
    refuses(&folder, &arguments, 1, &["file/out"]);
}

/// `run` and `plan` report all mistakes of a recipe with their lines, and suggest the key that was probably
/// meant.
#[test]
fn a_recipe_with_three_mistakes_names_each_with_its_line() {
    let folder = folder();
    let recipe = include_str!("data/recipes/three-mistakes.toml");
    write(&folder, "three.toml", recipe);
    for command in ["run", "plan"] {
        let places = ["three.toml:3:", "three.toml:7:", "three.toml:11:", "did you mean `tie_break`?"];
        refuses(&folder, &[command, "three.toml"], 2, &places);
    }
    refuses(&folder, &["run", "missing.toml"], 1, &["missing.toml"]);
    write(&folder, "latin.toml", b"uri = \"\xe9\"");
    refuses(&folder, &["run", "latin.toml"], 2, &["latin.toml", "UTF-8"]);
}

/// A text given as a recipe is refused with its first ten errors and the number of further ones.
#[test]
fn a_text_is_no_recipe_and_that_is_soon_told() {
    let folder = folder();
    write(&folder, "text.txt", "this is no recipe\n".repeat(500));
    refuses(
        &folder,
        &["run", "text.txt"],
        2,
        &["text.txt:1:", "text.txt:10:", "invalid TOML in 490 more places"],
    );
}

/// `plan` names a tokenizer file that does not exist.
#[test]
fn a_plan_names_a_tokenizer_that_is_missing() {
    let folder = folder();
    write(&folder, "in.txt", TEXT);
    let recipe =
        "[source]\nuri = \"in.txt\"\n[encode]\ntokenizer = \"missing.json\"\n[output]\ndir = \"out\"\n";
    write(&folder, "r.toml", recipe);
    refuses(&folder, &["plan", "r.toml"], 1, &["missing.json"]);
}

/// The basic path through `train`, `inspect`, `convert` and `tokens`.
#[test]
fn a_tokenizer_is_learned_shown_and_converted() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let output = tokenmill(&folder).args(train("a.txt", &["--json"])).output().expect("a run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["vocab_size"], 263, "{said}");

    let inspected = tokenmill(&folder).args(["inspect", "out"]).output().expect("a run");
    let text = String::from_utf8_lossy(&inspected.stdout).into_owned();
    assert!(text.contains("'a' + 't' → 'at'  8"), "{text}");

    let converted = tokenmill(&folder)
        .args(["convert", "out", "--to", "tiktoken", "-o", "other"])
        .output()
        .expect("a run");
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let mut ids = Vec::new();
    for tokenizer in ["out", "other"] {
        let output = tokenmill(&folder)
            .args(["tokens", "-t", tokenizer, "--ids", "-q", "the cat\nsat"])
            .output()
            .expect("a run");
        ids.push(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    assert_eq!(ids[0], ids[1]);

    let mut pretokens = tokenmill(&folder);
    pretokens.args(["tokens", "-t", "out", "-"]).write_stdin(&b"the \xff\nthe"[..]);
    let output = pretokens.output().expect("a run");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.replace('|', "") == "the \\xFF\\n\nthe\n", "{shown}");
}

/// The basic path through `encode`, `decode`, `verify`, `inspect` and `bench`. `decode --verify` names the row
/// and the byte of the first difference.
#[test]
fn what_is_encoded_can_be_decoded_verified_and_timed() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).arg("--quiet").output().expect("a run");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let trained =
        run(&["train", "a.txt", "-o", "tokenizer", "--vocab-size", "270", "--special-token", "<end>"]);
    assert_eq!(trained.0, Some(0), "{}", trained.2);
    let encoded =
        run(&["encode", "a.txt", "-t", "tokenizer", "-o", "ids", "--documents", "line", "--eos", "<end>"]);
    assert_eq!(encoded.0, Some(0), "{}", encoded.2);
    let decoded = run(&["decode", "ids", "-t", "tokenizer"]);
    assert_eq!(decoded.0, Some(0), "{}", decoded.2);
    assert_eq!(decoded.1, TEXT.replace("\n\n", "\n").as_bytes());

    // These flags choose the input to compare with. Without `--verify` they would have no effect, so they are
    // refused.
    for flag in
        [["--take", "1"], ["--skip", "1"], ["--column", "text"], ["--documents", "line"], ["--seed", "1"]]
    {
        refuses(
            &folder,
            &[&["decode", "ids", "-t", "tokenizer"], &flag[..]].concat(),
            2,
            &["--verify <INPUT>"],
        );
    }

    let verify = ["decode", "ids", "-t", "tokenizer", "--verify"];
    assert_eq!(run(&[&verify[..], &["a.txt", "--documents", "line"]].concat()).0, Some(0));
    write(&folder, "b.txt", "more\n");
    let two = ["encode", "a.txt", "b.txt", "-t", "tokenizer", "-o", "two", "--documents", "line"];
    assert_eq!(run(&two).0, Some(0));
    let verify_two = ["decode", "two", "-t", "tokenizer", "--documents", "line", "--verify", "a.txt"];
    assert_eq!(run(&[&verify_two[..], &["--verify", "b.txt"]].concat()).0, Some(0));
    assert_eq!(run(&verify_two).0, Some(4));
    let changed = "row 0 decodes to a text that differs from changed: row 0, from byte 9 on";
    let longer = "the files have 3 rows, but the input continues with longer: row 3";
    let shorter = "the input ends before row 2";
    let first_two = TEXT.split_inclusive('\n').filter(|line| *line != "\n").take(2).collect();
    for (name, text, place) in [
        ("changed", TEXT.replace("sat", "set"), changed),
        ("longer", format!("{TEXT}more\n"), longer),
        ("shorter", first_two, shorter),
    ] {
        write(&folder, name, text);
        let (code, _, said) =
            run(&[&verify[..], &[name, "--documents", "line", "--format", "text"]].concat());
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(place), "{said}");
    }

    assert_eq!(run(&["verify", "ids"]).0, Some(0));
    let (code, shown, said) = run(&["inspect", "ids"]);
    assert_eq!(code, Some(0), "{said}");
    let shown = String::from_utf8_lossy(&shown);
    for line in
        ["output        complete", "rows          3,", "eos           <end> (", "  a.txt", "  data/train-"]
    {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "no {line:?} in {shown}");
    }
    let data = files(&folder.path().join("ids/data"));
    let mut bytes = fs::read(&data[0]).expect("a data file");
    bytes[100] ^= 1;
    fs::write(&data[0], bytes).expect("a writable file");
    let (code, _, said) = run(&["verify", "ids"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("data/train-"), "{said}");

    let (code, printed, said) = run(&["bench", "a.txt", "-t", "tokenizer", "--json", "--threads", "2"]);
    assert_eq!(code, Some(0), "{said}");
    let measured: serde_json::Value = serde_json::from_slice(&printed).expect("JSON");
    assert_eq!(measured["text_bytes"], TEXT.len());
    for key in ["tokens", "load_s", "encode_s", "encode_cpu_s", "ids_sha256"] {
        assert!(!measured[key].is_null(), "{key} in {measured}");
    }
}

/// Runs a command that must end with this code. Returns standard error and standard output.
#[track_caller]
fn both(folder: &TempDir, arguments: &[&str], code: i32) -> (String, String) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(code), "{arguments:?} said\n{said}");
    (said.into_owned(), printed.into_owned())
}

/// Runs a command. Returns its exit code and standard error.
fn ended(folder: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const RECIPE: &str = r#"
[source]
uri = "${WHERE}/a.txt"
documents = "line"

[train]
merges = 7
special_tokens = ["<end>"]

[encode]
eos = "<end>"

[output]
dir = "out"
"#;

/// A second `run` of a recipe does nothing, restores missing or foreign files of the result, and replaces the
/// result of another recipe only with `--force`.
#[test]
fn a_recipe_is_done_once_and_known_to_be_done() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "r.toml", RECIPE);
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).env("WHERE", ".").args(arguments).output().expect("a run");
        let (said, printed) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        (output.status.code(), format!("{said}{printed}"))
    };
    assert_eq!(ended(&folder, &["run", "r.toml"]).0, Some(2), "WHERE is not set");
    assert!(run(&["plan", "r.toml"]).1.contains("no complete result yet"));
    assert!(!folder.path().join("out").exists(), "a plan leaves nothing");
    let (code, said) = run(&["run", "r.toml"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("learned 7 merges") && said.contains("encoded 3 documents"), "{said}");
    for file in ["manifest.json", "report.html", "report.json", "README.md", "tokenizer/tokenizer.json"] {
        assert!(folder.path().join("out").join(file).exists(), "{file}");
    }
    for file in [
        "report.html",
        "report.json",
        "README.md",
        "tokenizer/training.json",
        "tokenizer/tokenizer_config.json",
    ] {
        let file = folder.path().join("out").join(file);
        fs::remove_file(&file).expect("it was written");
        let (code, said) = run(&["run", "r.toml"]);
        assert!(code == Some(0) && said.contains("doing it again") && file.exists(), "{file:?}: {said}");
    }
    let other = ["train", "a.txt", "-o", "out/tokenizer", "--merges", "3", "--split", "none", "-q"];
    let (code, said) = ended(&folder, &other);
    assert!(code == Some(2) && said.contains("out holds the result of a run"), "{said}");
    let (code, said) = ended(
        &folder,
        &other.map(|word| if word == "out/tokenizer" { "out/tokenizer/vocab-259" } else { word }),
    );
    assert!(code == Some(2) && said.contains("out holds the result of a run"), "{said}");
    assert_eq!(
        ended(&folder, &other.map(|word| if word == "out/tokenizer" { "other" } else { word })).0,
        Some(0)
    );
    for file in ["tokenizer.json", "training.json"] {
        let [from, to] = ["other", "out/tokenizer"].map(|made| folder.path().join(made).join(file));
        fs::copy(from, to).expect("a file");
    }
    let (code, said) = run(&["run", "r.toml"]);
    assert!(code == Some(0) && said.contains("tokenizer.json") && said.contains("doing it again"), "{said}");
    assert!(run(&["plan", "r.toml"]).1.contains("run only checks it"));
    let (code, said) = run(&["run", "r.toml"]);
    assert!(code == Some(0) && said.contains("nothing to do"), "{said}");

    write(&folder, "r.toml", RECIPE.replace("merges = 7", "merges = 5"));
    let (code, said) = run(&["run", "r.toml"]);
    assert!(code == Some(2) && said.contains("the recipe changed since (`vocab_size`)"), "{said}");
    assert!(said.contains("--force"), "{said}");
    let (code, said) = run(&["run", "r.toml", "--force"]);
    assert!(code == Some(0) && said.contains("learned 5 merges"), "{said}");
}

/// SIGINT and SIGTERM end a run soon, with a message that gives the command to repeat.
#[cfg(unix)]
#[test]
fn a_signal_stops_a_run_and_tells_how_to_go_on() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let folder = folder();
        let program = assert_cmd::cargo::cargo_bin("tokenmill");
        let input = "demo:verse?lines=100000000&seed=1";
        let child = std::process::Command::new(program)
            .args(["train", input, "-o", "out", "--merges", "5", "--column", "line"])
            .current_dir(folder.path())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("a run");
        std::thread::sleep(std::time::Duration::from_millis(700));
        let process = child.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &process]).status();
        assert!(sent.expect("kill").success());
        let start = std::time::Instant::now();
        let output = child.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(start.elapsed() < std::time::Duration::from_secs(5));
        assert!(said.contains("interrupted"), "{said}");
        assert!(said.contains("'demo:verse?lines=100000000&seed=1'"), "{said}");
        assert!(!folder.path().join("out").exists());
    }
}

/// A refused `encode` does not create its output folder.
#[test]
fn a_refused_encode_leaves_no_folder() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    tokenmill(&folder).args(train("a.txt", &[])).assert().success();
    let encode = ["encode", "a.txt", "-t", "out", "-o", "tokens", "--eos", "<|nowhere|>"];
    let output = tokenmill(&folder).args(encode).output().expect("a run");
    assert_eq!(output.status.code(), Some(2));
    assert!(!folder.path().join("tokens").exists());
}

/// Standard input stays open but silent. A signal must still end the program.
#[cfg(unix)]
#[test]
fn waiting_for_input_can_be_interrupted() {
    use std::process::{Command, Stdio};
    let folder = folder();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("tokenmill"))
        .args(["train", "-", "-o", "out", "--vocab-size", "300"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    let open = child.stdin.take();
    let output = child.wait_with_output().expect("its end");
    drop(open);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("tokenmill train - -o out --vocab-size 300"), "{said}");
}

/// A named pipe can be read only once, as standard input can.
#[cfg(unix)]
#[test]
fn a_named_pipe_is_read_once() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    tokenmill(&folder).args(train("a.txt", &[])).assert().success();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, TEXT.repeat(10_000))
    });
    let encode = ["encode", "pipe", "-t", "out", "-o", "tokens", "-q"];
    tokenmill(&folder).args(encode).timeout(std::time::Duration::from_secs(60)).assert().success();
    writer.join().expect("a writer").expect("all is read");
    tokenmill(&folder).args(["verify", "tokens"]).assert().success();
}
