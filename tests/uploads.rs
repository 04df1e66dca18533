//! The program with outputs in object stores: the destination gets the files of a local run, whatever happens on the
//! way.

#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hub.rs"]
mod fake;
#[path = "support/bucket.rs"]
mod bucket;
mod output;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bucket::{BUCKET, Bucket};
use fake::Fault;

/// Several data files. Those of bare ids are uploaded in parts.
const RECIPE: &str = r#"
[source]
uri = "demo:verse?lines=420000&seed=3"
column = "line"
[sample]
take = 500
[train]
vocab_size = 257
special_tokens = ["<end>"]
[encode]
documents = "all"
eos = "<end>"
[output]
dir = "DIR"
file_text_bytes = 5_000_000
[run]
threads = 2
"#;

/// A folder to work in, with a store and recipes.
struct Place {
    store: Bucket,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { store: Bucket::start(), home: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// The program, with this store for all three providers, and a cache of its own.
    fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
        command.current_dir(self.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("XDG_CACHE_HOME", self.path().join("cache"));
        command.env("AWS_ENDPOINT", &self.store.endpoint).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", "somebody").env("AWS_SECRET_ACCESS_KEY", "a secret");
        // Uploads in parts need a key for Google, also where nobody looks at it.
        let key = format!(
            r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
            self.store.endpoint
        );
        command.env("GOOGLE_SERVICE_ACCOUNT_KEY", key);
        command.env("AZURE_ENDPOINT", &self.store.endpoint).env("AZURE_SKIP_SIGNATURE", "true");
        command.env("AZURE_STORAGE_ACCOUNT_NAME", "somebody");
        command
    }

    /// A run of a recipe with this output, which `change` may change further.
    fn run(&self, dir: &str, change: impl Fn(String) -> String) -> Command {
        fs::write(self.path().join("recipe.toml"), change(RECIPE.replace("DIR", dir))).unwrap();
        let mut command = self.program();
        command.args(["run", "recipe.toml"]);
        command
    }

    /// The files that a local run of the recipe writes, without the reports.
    fn expected(&self, change: impl Fn(String) -> String) -> BTreeMap<String, Vec<u8>> {
        well(&mut self.run("local", change));
        self.local()
    }

    /// The files in the folder `local`, without the reports.
    fn local(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = output::files(&self.path().join("local"));
        files.retain(|name, _| !name.starts_with("report"));
        files
    }

    /// The objects below `out`, without the reports. Checks that the reports of the first split exist.
    fn there(&self) -> BTreeMap<String, Vec<u8>> {
        let mut there = self.store.objects("out");
        for name in ["report.json", "report.html"] {
            assert!(there.get(name).is_some_and(|report| !report.is_empty()), "{name}");
        }
        there.retain(|name, _| !name.starts_with("report"));
        there
    }

    /// The staging folder of the only destination.
    fn staging(&self) -> PathBuf {
        let folders = fs::read_dir(self.path().join("cache/tokenmill/staging")).unwrap();
        let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders.remove(0)
    }
}

/// Runs to the end and returns the messages.
fn well(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Runs to an error. Returns the code and the messages.
fn badly(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Changes the text of a recipe.
type Change = fn(String) -> String;

/// Does something to the object of this name.
type Disturbance<'a> = &'a dyn Fn(&str);

fn as_it_is(recipe: String) -> String {
    recipe
}

fn as_bin(recipe: String) -> String {
    recipe.replace("[run]", "format = \"bin\"\n[run]")
}

fn assert_same(expected: &BTreeMap<String, Vec<u8>>, found: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert!(expected.keys().eq(found.keys()), "{what}: {:?} {:?}", expected.keys(), found.keys());
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "{what}: {name} differs");
    }
}

/// Every provider gets the bytes of a local run, the manifest last. The staging folder keeps no data file, and a second
/// run uploads nothing.
#[test]
fn a_destination_gets_what_a_local_run_writes() {
    let cases: [(&str, Change); 4] = [("s3", as_it_is), ("s3", as_bin), ("gs", as_bin), ("az", as_bin)];
    for (scheme, change) in cases {
        let place = Place::new();
        let expected = place.expected(change);
        let dir = format!("{scheme}://{BUCKET}/out");
        let said = well(&mut place.run(&dir, change));
        assert!(said.contains(&format!("wrote {dir}")), "{said}");
        assert_same(&expected, &place.there(), scheme);
        assert_eq!(place.store.unfinished(), usize::from(scheme == "az"), "{scheme}: the probe alone");
        let changes = place.store.changes();
        assert_eq!(changes.last().map(String::as_str), Some("PUT out/manifest.json"), "{changes:?}");
        assert_eq!(changes.iter().filter(|line| line.ends_with("manifest.json")).count(), 1, "{changes:?}");
        let left = output::files(&place.staging());
        assert!(left.keys().all(|name| !name.starts_with("data/")), "{:?}", left.keys());
        let said = well(&mut place.run(&dir, change));
        assert!(said.contains("nothing to do"), "{said}");
        assert_eq!(place.store.changes(), Vec::<String>::new());
    }
}

/// Waits until the store has had this many requests, and kills the program. Returns whether it was still running.
fn is_killed_at(place: &Place, command: &mut Command, requests: usize) -> bool {
    place.store.asked();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (begin, mut seen) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() && seen < requests {
        assert!(begin.elapsed() < Duration::from_secs(120), "{requests} requests do not come");
        std::thread::sleep(Duration::from_millis(1));
        seen += place.store.asked().len();
    }
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

/// Runs that are killed after 30 different numbers of requests, with other work in between, end with the bytes of an
/// undisturbed run. An upload that was begun just before a kill may stay, but without parts, so that it takes no space.
#[test]
fn killed_runs_are_gone_on_with() {
    let place = Place::new();
    let expected = place.expected(as_bin);
    let dir = format!("s3://{BUCKET}/out");
    place.store.put("out/notes.txt", "mine");
    place.store.set_delay(Duration::from_millis(4));
    let data = expected.keys().filter(|name| name.ends_with(".bin")).nth(1).unwrap();
    let mut kills = 0;
    for round in 0..30 {
        if is_killed_at(&place, &mut place.run(&dir, as_bin), 1 + round * 11 % 37) {
            kills += 1;
        } else {
            // It was complete. The next run has a data file to write again.
            place.store.remove("out/manifest.json");
            place.store.remove(&format!("out/{data}"));
        }
        let objects = place.store.objects("out");
        let whole =
            |(name, bytes): (&String, &Vec<u8>)| expected.get(name).is_none_or(|known| known == bytes);
        assert!(objects.iter().all(whole), "something half is under a final name");
        let is_complete = expected.keys().all(|name| objects.contains_key(name));
        assert!(is_complete || !objects.contains_key("manifest.json"), "{:?}", objects.keys());
    }
    assert!(kills >= 15, "{kills}");
    place.store.set_delay(Duration::ZERO);
    well(&mut place.run(&dir, as_bin));
    let mut there = place.there();
    assert_eq!(there.remove("notes.txt").as_deref(), Some("mine".as_bytes()));
    assert_same(&expected, &there, "killed");
    assert_eq!(place.store.unfinished_parts(), 0);
}

/// An object that is lost or replaced at the destination is written again, and no other data file is.
#[test]
fn objects_that_were_lost_or_changed_are_written_again() {
    let place = Place::new();
    let expected = place.expected(as_it_is);
    let dir = format!("s3://{BUCKET}/out");
    well(&mut place.run(&dir, as_it_is));
    let data: Vec<&String> = expected.keys().filter(|name| name.starts_with("data/")).collect();
    let lose = |name: &str| place.store.remove(&format!("out/{name}"));
    let change = |name: &str| {
        // Of the same size, as only the entity tag tells.
        let mut bytes = expected[name].clone();
        bytes[7] ^= 1;
        place.store.put(&format!("out/{name}"), bytes);
    };
    let cases: [(Disturbance<'_>, &str); 5] = [
        (&lose, data[0].as_str()),
        (&change, data[1]),
        (&lose, "tokenizer/tokenizer.json"),
        (&change, "tokenizer/tokenizer.json"),
        (&lose, "manifest.json"),
    ];
    for (disturb, name) in cases {
        place.store.changes();
        disturb(name);
        well(&mut place.run(&dir, as_it_is));
        assert_same(&expected, &place.there(), name);
        let changes = place.store.changes();
        assert_eq!(changes.last().map(String::as_str), Some("PUT out/manifest.json"), "{changes:?}");
        let written = |of: &str| changes.contains(&format!("PUT out/{of}"));
        assert!(written(name) && data.iter().all(|other| *other == name || !written(other)), "{changes:?}");
    }
}

/// A later job replaces the result of an earlier one only with `--force`. Its manifest goes first, and its data files
/// go; objects of others stay.
#[test]
fn another_job_replaces_the_result_with_force_alone() {
    let place = Place::new();
    let dir = format!("s3://{BUCKET}/out");
    let change = |recipe: String| recipe.replace("lines=420000", "lines=300000");
    let expected = place.expected(change);
    well(&mut place.run(&dir, as_it_is));
    for name in ["out/notes.txt", "out/data/notes.txt", "out2/data/a.parquet"] {
        place.store.put(name, "mine");
    }
    let before = place.store.objects("out");
    let (code, said) = badly(&mut place.run(&dir, change));
    assert!(code == Some(2) && said.contains("--force") && said.contains(&dir), "{said}");
    assert_same(&before, &place.store.objects("out"), "refused");
    place.store.changes();
    well(place.run(&dir, change).arg("--force"));
    let changes = place.store.changes();
    assert_eq!(changes.first().map(String::as_str), Some("DELETE out/manifest.json"), "{changes:?}");
    let mut there = place.there();
    for name in ["notes.txt", "data/notes.txt"] {
        assert_eq!(there.remove(name).as_deref(), Some("mine".as_bytes()), "{name}");
    }
    assert_same(&expected, &there, "forced");
    assert!(place.store.objects("out2").contains_key("data/a.parquet"));
}

/// Without its staging folder, a result is that of an unknown run, and objects without a manifest are those of others.
#[test]
fn what_no_record_knows_is_not_touched() {
    let place = Place::new();
    let dir = format!("s3://{BUCKET}/out");
    place.store.put("out/data/x.parquet", "mine");
    let (code, said) = badly(&mut place.run(&dir, as_it_is));
    assert!(code == Some(2) && said.contains("data/x.parquet"), "{said}");
    let (code, said) = badly(place.run(&dir, as_it_is).arg("--force"));
    assert!(code == Some(2) && said.contains("data/x.parquet"), "{said}");
    assert_eq!(place.store.changes(), Vec::<String>::new());
    place.store.remove("out/data/x.parquet");
    let expected = place.expected(as_it_is);
    well(&mut place.run(&dir, as_it_is));
    fs::remove_dir_all(place.staging()).unwrap();
    place.store.changes();
    let (code, said) = badly(&mut place.run(&dir, as_it_is));
    assert!(code == Some(2) && said.contains("--staging") && said.contains("--force"), "{said}");
    assert_eq!(place.store.changes(), Vec::<String>::new());
    well(place.run(&dir, as_it_is).arg("--force"));
    assert_same(&expected, &place.there(), "forced");
}

/// What fails for a moment is repeated. What fails for good is an error with its code and a remedy, the upload is ended
/// at the store, and the next run completes the output.
#[test]
fn failures_of_the_store_lose_nothing() {
    let place = Place::new();
    let expected = place.expected(as_bin);
    let dir = format!("s3://{BUCKET}/out");
    place.store.fail_at("partNumber=2", Fault::Status(503, ""));
    place.store.fail_at("PUT /words/out/README.md", Fault::Status(500, ""));
    // The object is complete, but the answer is lost.
    place.store.fail_at(".bin?uploadId", Fault::Stall(Duration::ZERO));
    let second = expected.keys().filter(|name| name.ends_with(".bin")).nth(1).unwrap();
    place.store.fail_at(&format!("{second}?partNumber=1"), Fault::Status(403, ""));
    let (code, said) = badly(&mut place.run(&dir, as_bin));
    assert!(code == Some(6) && said.contains("may list, read, write and remove"), "{said}");
    assert_eq!(place.store.unfinished(), 0);
    assert!(!place.store.objects("out").contains_key("manifest.json"));
    well(&mut place.run(&dir, as_bin));
    assert_eq!(place.store.faults_left(), 0);
    assert_same(&expected, &place.there(), "failed");
    assert_eq!(place.store.unfinished(), 0);
}

/// A signal ends an upload that waits for the store, and the next run completes it.
#[cfg(unix)]
#[test]
fn an_interrupted_upload_is_gone_on_with() {
    let place = Place::new();
    let expected = place.expected(as_bin);
    let dir = format!("s3://{BUCKET}/out");
    place.store.fail_at("partNumber=2", Fault::Stall(Duration::from_secs(100)));
    let mut child = place.run(&dir, as_bin).spawn().unwrap();
    while place.store.faults_left() > 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.store.objects("out").contains_key("manifest.json"));
    well(&mut place.run(&dir, as_bin));
    assert_same(&expected, &place.there(), "interrupted");
    assert_eq!(place.store.unfinished(), 0);
}

/// Wrong keys, missing buckets and wrong addresses are found before any work.
#[test]
fn what_cannot_be_written_is_found_before_any_work() {
    let place = Place::new();
    let dir = format!("s3://{BUCKET}/out");
    place.store.fail_at("GET", Fault::Status(403, ""));
    let (code, said) = badly(&mut place.run(&dir, as_it_is));
    assert!(code == Some(6) && said.contains("AWS_"), "{said}");
    place.store.set_read_only(true);
    for scheme in ["s3", "gs", "az"] {
        let (code, said) = badly(&mut place.run(&format!("{scheme}://{BUCKET}/out"), as_it_is));
        assert!(code == Some(6) && said.contains("may list"), "{said}");
        assert!(!said.contains("learned"), "{said}");
    }
    place.store.set_read_only(false);
    for (dir, code, says) in [
        ("s3://nowhere/out", 1, "bucket"),
        ("s3://", 2, "s3://BUCKET/PATH"),
        ("s3://words/*", 2, "wildcards"),
        ("s3://words/a//b", 2, "s3://BUCKET/PATH"),
        ("s3://words/../b", 2, "s3://BUCKET/PATH"),
    ] {
        let (found, said) = badly(&mut place.run(dir, as_it_is));
        assert!(found == Some(code) && said.contains(says), "{dir}: {found:?} {said}");
    }
    assert!(place.store.objects("out").is_empty());
    let with_source = |recipe: String| recipe.replace("demo:verse?lines=420000&seed=3", &dir);
    let (code, said) = badly(&mut place.run(&format!("{dir}/results"), with_source));
    assert!(code == Some(2) && said.contains("in one place"), "{said}");
    let in_folder = |recipe: String| recipe.replace("[run]", "staging = \"here\"\n[run]");
    let (code, said) = badly(&mut place.run("local", in_folder));
    assert!(code == Some(2) && said.contains("object store"), "{said}");
}

/// A journal with a damaged line proves nothing of later objects, which are uploaded again, but still names them.
#[test]
fn a_damaged_journal_loses_no_object() {
    let place = Place::new();
    let expected = place.expected(as_it_is);
    let dir = format!("s3://{BUCKET}/out");
    well(&mut place.run(&dir, as_it_is));
    let state = fs::read_dir(place.staging().join(".tokenmill")).unwrap();
    let is_journal = |path: &PathBuf| path.to_string_lossy().contains("uploads-");
    let journal = state.map(|entry| entry.unwrap().path()).find(is_journal).unwrap();
    let mut text = fs::read(&journal).unwrap();
    text[0] ^= 1;
    fs::write(&journal, text).unwrap();
    place.store.changes();
    well(&mut place.run(&dir, as_it_is));
    assert_same(&expected, &place.there(), "damaged");
    let changes = place.store.changes();
    let data = expected.keys().filter(|name| name.starts_with("data/"));
    let written = data.map(|name| format!("PUT out/{name}")).all(|line| changes.contains(&line));
    assert!(
        written && changes.first().map(String::as_str) == Some("DELETE out/manifest.json"),
        "{changes:?}"
    );
    assert_eq!(changes.last().map(String::as_str), Some("PUT out/manifest.json"), "{changes:?}");
}

/// The data files of a local output do not leave it because somebody names it as staging folder.
#[test]
fn a_local_output_is_no_staging_folder() {
    let place = Place::new();
    let expected = place.expected(as_it_is);
    let in_local = |recipe: String| recipe.replace("[run]", "staging = \"local\"\n[run]");
    let (code, said) = badly(&mut place.run(&format!("s3://{BUCKET}/out"), in_local));
    assert!(code == Some(2) && said.contains("would move"), "{said}");
    assert_same(&expected, &place.local(), "refused");
    assert!(place.store.changes().is_empty());
}

/// Commands that read outputs say that they must be copied, and `train` that it writes to folders.
#[test]
fn outputs_are_read_from_folders() {
    let place = Place::new();
    let dir = format!("s3://{BUCKET}/out");
    for arguments in [vec!["verify", &dir], vec!["inspect", &dir], vec!["decode", &dir, "-t", "tok"]] {
        let (code, said) = badly(place.program().args(&arguments));
        assert!(code == Some(2) && said.contains("aws s3 cp"), "{arguments:?}: {said}");
    }
    let train = ["train", "demo:verse?lines=9", "--column", "line", "--merges", "5", "-o", &dir];
    let (code, said) = badly(place.program().args(train));
    assert!(code == Some(2) && said.contains("must be a folder"), "{said}");
    assert_eq!(place.store.asked(), Vec::<String>::new());
}

/// Flags do what recipes do, two splits share a destination, and `plan` shows where everything goes.
#[test]
fn splits_share_a_destination() {
    let place = Place::new();
    well(place.program().args([
        "train",
        "demo:verse?lines=900",
        "--column",
        "line",
        "--merges",
        "50",
        "-o",
        "tok",
    ]));
    let dir = format!("s3://{BUCKET}/out");
    let encode = |lines: &str, split: &str, to: &str| {
        let mut command = place.program();
        command.args(["encode", lines, "--column", "line", "-t", "tok", "--split-name", split, "-o", to]);
        command
    };
    let (train, test) = ("demo:verse?lines=900", "demo:verse?lines=300&seed=9");
    for to in ["local", dir.as_str()] {
        well(&mut encode(train, "train", to));
        well(&mut encode(test, "test", to));
    }
    assert_same(&place.local(), &place.there(), "splits");
    assert!(place.store.objects("out").contains_key("report-test.html"));
    let (code, said) = badly(encode(test, "dev", &dir).args(["--pack", "concat", "--length", "9"]));
    assert!(code == Some(2) && said.contains("holds the split"), "{said}");
    let output = encode(test, "test", &dir).args(["--dry-run", "--staging", "here"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("staging  here") && shown.contains(&format!("output   {dir}")), "{shown}");
}
