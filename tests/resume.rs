//! Runs of the program that are killed, and how the next run resumes them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod output;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use output::files;
use tokenmill::base::int::{to_u64, with_unit};

/// About 32 million tokens, which give several row groups in each of three files. One line of `some.jsonl` is
/// invalid.
const RECIPE: &str = r#"
[[source]]
uri = "some.jsonl"
on_bad_input = "quarantine"
[[source]]
uri = "demo:verse?lines=1040000&seed=3"
column = "line"
[sample]
take = 500
[train]
vocab_size = 280
special_tokens = ["<|endoftext|>"]
[encode]
documents = "all"
eos = "<|endoftext|>"
[output]
dir = "out"
file_text_bytes = 12_000_000
[run]
threads = 2
"#;

fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
    command.args(["run", "recipe.toml"]).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn folder_with_recipe() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recipe.toml"), RECIPE).unwrap();
    let lines = "{\"text\": \"one\"}\n{\"text\": 2}\n{\"text\": null}\n";
    std::fs::write(folder.path().join("some.jsonl"), lines).unwrap();
    folder
}

/// Runs to the end and returns the messages. The exit code is 3, because the invalid line is skipped.
fn finish(folder: &Path) -> String {
    let output = program(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    said
}

/// Starts one run after the other and kills each as soon as its journal has the given number of lines. Starts
/// over, up to five times, if a run ended before it was killed.
fn kill_at(folder: &Path, moments: &[(&str, usize)]) {
    for _ in 0..5 {
        if moments.iter().all(|&(journal, least)| is_killed_at(folder, journal, least)) {
            return;
        }
        std::fs::remove_dir_all(folder.join("out")).unwrap();
    }
    panic!("five times a run ended before it could be killed");
}

/// Kills a run once its journal has `least` lines. Returns whether the kill came before the run ended by
/// itself.
fn is_killed_at(folder: &Path, journal: &str, least: usize) -> bool {
    let mut child = program(folder).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() && lines(&state(folder, journal)) < least {
        assert!(begin.elapsed() < Duration::from_secs(120), "{least} lines of {journal} do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

fn state(folder: &Path, name: &str) -> PathBuf {
    folder.join("out/.tokenmill").join(name)
}

fn lines(path: &Path) -> usize {
    std::fs::read(path).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
}

/// The message with which the next run must report how much it resumes: data files or row groups, depending on
/// when the kill came.
fn left(folder: &Path) -> String {
    let journal = |name: &str| lines(&state(folder, name));
    let (files, groups) = (journal("files.journal"), journal("row-groups.journal"));
    assert!(files + groups > 0, "the kill came too early");
    // Once a file is finished, the journal of the unfinished file may still list row groups of the finished
    // one.
    let there = if files == 0 {
        with_unit(to_u64(groups), "row group")
    } else {
        with_unit(to_u64(files), "data file")
    };
    format!("continuing an earlier run: it completed {there}")
}

/// The report without times.
fn report(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("out/report.json")).unwrap();
    let mut report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["stages"].take();
    report["training"]["train_s"].take();
    // It is the hash of all else, times included.
    report["sha256"].take();
    report
}

/// Inserts a line before a section of the recipe, kills a run of it, and checks that the next run resumes.
fn is_gone_on_with(line: &str, before: &str) {
    recipe_is_gone_on_with(&RECIPE.replace(before, &format!("{line}\n{before}")));
}

/// Kills a run of a recipe, and checks that the next run resumes.
fn recipe_is_gone_on_with(recipe: &str) {
    let with_recipe = || {
        let folder = folder_with_recipe();
        std::fs::write(folder.path().join("recipe.toml"), recipe).unwrap();
        folder
    };
    are_gone_on_with(&with_recipe(), &with_recipe());
}

/// Runs the recipe undisturbed in `whole`. Kills a run of it in `folder` and resumes. Files and reports must be
/// equal.
fn are_gone_on_with(whole: &tempfile::TempDir, folder: &tempfile::TempDir) {
    finish(whole.path());
    kill_at(folder.path(), &[("row-groups.journal", 1)]);
    let left = left(folder.path());
    let said = finish(folder.path());
    assert!(said.contains(&left), "{left}: {said}");
    assert!(files(&whole.path().join("out")) == files(&folder.path().join("out")));
    assert_eq!(report(whole.path()), report(folder.path()));
}

/// Flat files of ids are resumed.
#[test]
fn files_of_nothing_but_ids_are_gone_on_with() {
    is_gone_on_with("format = \"bin\"", "[run]");
}

/// Packed files are resumed, with either packing rule.
#[test]
fn packed_files_are_gone_on_with() {
    for rule in ["concat", "best-fit"] {
        is_gone_on_with(&format!("pack = {rule:?}\nlength = 1000"), "[output]");
    }
}

/// The draws of dropout do not depend on where a run was killed.
#[test]
fn dropout_is_gone_on_with() {
    is_gone_on_with("dropout = 0.1\ndropout_seed = 7", "[output]");
}

/// What was learned in stages or with parity is kept, with all that the report says of it.
#[test]
fn training_in_stages_and_with_parity_is_gone_on_with() {
    let stages =
        r#"stages = [{ split = "gpt4", vocab_size = 270 }, { split = "superword", vocab_size = 280 }]"#;
    recipe_is_gone_on_with(&RECIPE.replace("vocab_size = 280", stages));
    // Parity balances whole sources, so there is no sample of all of them together.
    let parity = RECIPE.replace("[sample]\ntake = 500\n", "").replace("[encode]", "parity = true\n[encode]");
    recipe_is_gone_on_with(&parity);
}

/// CSV files and JSON arrays are not divided into units. A resumed run reads them from the start to where the
/// killed run was.
#[test]
fn tables_and_json_arrays_are_gone_on_with() {
    let row =
        |number: u32| format!("row {number}, {} and {}", number.wrapping_mul(2_654_435_761), number % 997);
    let table = |rows: u32| -> String {
        let rows = (0..rows).map(|number| format!("{number},\"{}\"\n", row(number)));
        format!("id,line\n{}", rows.collect::<String>())
    };
    let array = |rows: u32| -> String {
        let rows: Vec<String> =
            (0..rows).map(|number| format!("{{\"line\": \"{}\"}}", row(number))).collect();
        format!("[{}]", rows.join(",\n"))
    };
    for (name, text) in [("lines.csv", table(1_000_000)), ("lines.json", array(1_000_000))] {
        let with_file = || {
            let folder = folder_with_recipe();
            let recipe = RECIPE.replace("demo:verse?lines=1040000&seed=3", name);
            std::fs::write(folder.path().join("recipe.toml"), recipe).unwrap();
            std::fs::write(folder.path().join(name), &text).unwrap();
            folder
        };
        are_gone_on_with(&with_file(), &with_file());
    }
}

/// A run that is killed several times, after training and while it writes, gives the files of an undisturbed
/// run.
#[test]
fn a_killed_run_is_gone_on_with() {
    let whole = folder_with_recipe();
    finish(whole.path());
    let folder = folder_with_recipe();
    let moments =
        [("learned.journal", 1), ("row-groups.journal", 1), ("row-groups.journal", 2), ("files.journal", 1)];
    kill_at(folder.path(), &moments);
    let left = left(folder.path());
    let said = finish(folder.path());
    assert!(said.contains("using the tokenizer of an earlier run"), "{said}");
    assert!(said.contains(&left), "{left}: {said}");
    let (expected, found) = (files(&whole.path().join("out")), files(&folder.path().join("out")));
    assert!(expected.keys().eq(found.keys()), "{:?}", found.keys());
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name} differs");
    }
    assert_eq!(report(whole.path()), report(folder.path()));
}

/// A folder as an interrupted run leaves it after training: with a tokenizer and a report, but without the
/// manifest.
fn folder_with_learned() -> tempfile::TempDir {
    let folder = folder_with_recipe();
    let (start, rest) = RECIPE.split_once("[encode]").unwrap();
    let (_, output) = rest.split_once("[output]").unwrap();
    std::fs::write(folder.path().join("recipe.toml"), format!("{start}[output]{output}")).unwrap();
    finish(folder.path());
    std::fs::remove_file(folder.path().join("out/manifest.json")).unwrap();
    folder
}

/// A resumed run reports the rows that training skipped.
#[test]
fn what_training_left_out_is_told_by_the_run_that_goes_on() {
    let folder = folder_with_learned();
    let before = report(folder.path());
    assert_eq!(before["skipped_inputs"], 1);
    std::fs::remove_file(folder.path().join("out/report.json")).unwrap();
    let said = finish(folder.path());
    assert!(said.contains("using the tokenizer of an earlier run"), "{said}");
    assert_eq!(report(folder.path()), before);
}

/// The tokenizer of an interrupted run of another recipe is replaced only with `--force`.
#[test]
fn what_another_job_learned_is_replaced_only_with_force() {
    let folder = folder_with_learned();
    let recipe = folder.path().join("recipe.toml");
    let changed = std::fs::read_to_string(&recipe).unwrap().replace("vocab_size = 280", "vocab_size = 270");
    std::fs::write(&recipe, changed).unwrap();
    let refused = program(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("--force"), "{said}");
    let forced = program(folder.path()).arg("--force").output().unwrap();
    assert_eq!(forced.status.code(), Some(3), "{}", String::from_utf8_lossy(&forced.stderr));
    assert_eq!(report(folder.path())["training"]["merges_learned"], 13);
}
