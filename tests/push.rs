//! The program pushes to a hub: the files that readers get, the requests, the refusals, and the rest of a killed push.

#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hub.rs"]
mod fake;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fake::{FakeHub, Fault, Part};
use serde_json::Value;

const DATASET: &str = "me/verse";
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers-venv/bin/python");

/// A command of the program, or of Python, that uses this hub, a cache below `home`, and no other network.
fn with_hub(program: impl AsRef<Path>, hub: &FakeHub, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(home).env("HF_ENDPOINT", &hub.endpoint).env("HF_HOME", home.join("hf"));
    command.env("HF_TOKEN", "secret-token").env("HF_HUB_DISABLE_TELEMETRY", "1");
    command.env("HF_HUB_DISABLE_XET", "1").env_remove("HF_HUB_OFFLINE");
    command
}

/// Runs the program and returns its exit code, its result and its messages.
fn tokenmill(hub: &FakeHub, home: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = with_hub(env!("CARGO_BIN_EXE_tokenmill"), hub, home).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(!text(&output.stderr).contains("secret-token"), "the token is in no message");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The same for a command that succeeds. Returns its result in JSON, and its messages.
fn done(hub: &FakeHub, home: &Path, arguments: &[&str]) -> (Value, String) {
    let (code, result, said) = tokenmill(hub, home, &[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    (serde_json::from_str(&result).unwrap_or_default(), said)
}

/// The same for a command that fails with this code and says these texts.
#[track_caller]
fn refused(hub: &FakeHub, home: &Path, arguments: &[&str], code: i32, texts: &[&str]) {
    let (ended, _, said) = tokenmill(hub, home, arguments);
    assert_eq!(ended, Some(code), "{arguments:?}: {said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is not in: {said}");
    }
}

/// A folder with a tokenizer in `made` and token ids in several files in `out`.
fn prepared(hub: &FakeHub) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let made = ["--merges", "90", "--special-token", "<end>", "--eos", "<end>", "-o", "made"];
    done(hub, home, &[&["train", "demo:verse?lines=400&seed=1"], &made[..]].concat());
    encode(hub, home, 6, "out");
    folder
}

/// Encodes this number of texts into as many data files.
fn encode(hub: &FakeHub, home: &Path, texts: u64, out: &str) {
    let mut names: Vec<String> = (0..texts).map(|number| format!("{number}.txt")).collect();
    for (number, name) in (0_u64..).zip(&names) {
        let line = |line: u64| format!("line {} of the sea, and {line}\n", line * (number + 7_919) % 4_001);
        fs::write(home.join(name), (0..700).map(line).collect::<String>()).unwrap();
    }
    names.extend(["-t", "made", "-o", out, "--file-text-bytes", "10kB"].map(str::to_owned));
    let encode = ["encode".to_owned()].into_iter().chain(names).collect::<Vec<_>>();
    done(hub, home, &encode.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The files below a folder that are neither state nor hidden.
fn local(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            match (name.starts_with('.'), path.is_dir()) {
                (true, _) => {}
                (false, true) => open.push(path),
                (false, false) => drop(files.insert(name, fs::read(path).unwrap())),
            }
        }
    }
    files
}

/// The files at the head of a branch.
fn remote(hub: &FakeHub, branch: &str) -> BTreeMap<String, Vec<u8>> {
    hub.files_of(branch).into_iter().map(|(path, bytes)| (path, Arc::unwrap_or_clone(bytes))).collect()
}

/// A dataset is published as one commit, and read back by the program. Nothing is sent a second time.
#[test]
fn a_dataset_is_published_as_one_commit() {
    let hub = FakeHub::without_repository(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    fs::write(home.join("out/notes.txt"), "of somebody else").unwrap();
    fs::write(home.join("out/README.md"), "# Edited").unwrap();
    let uri = format!("hf://datasets/{DATASET}");

    let (code, listed, _) = tokenmill(&hub, home, &["push", "out", &uri, "--dry-run"]);
    assert!(
        code == Some(0) && listed.contains("manifest.json") && listed.contains("would be created"),
        "{listed}"
    );
    assert_eq!((hub.commits().len(), hub.created_private()), (0, None));

    let (pushed, said) = done(&hub, home, &["push", "out", &uri, "--private", "--message", "First"]);
    assert!(said.contains("upload") && said.contains("a new repository"), "{said}");
    assert_eq!((hub.commits(), hub.created_private()), (vec!["First".to_owned()], Some(true)));
    let mut expected = local(&home.join("out"));
    expected.remove("notes.txt");
    assert!(remote(&hub, "main") == expected, "exactly the files of the output");
    assert_eq!((pushed["unchanged"].as_bool(), pushed["created"].as_bool()), (Some(false), Some(true)));
    assert_eq!(
        pushed["bytes_sent"].as_u64(),
        Some(expected.values().map(|bytes| u64::try_from(bytes.len()).unwrap()).sum())
    );
    let asked = hub.asked();
    assert!(asked.iter().all(|asked| asked.token != matches!(asked.part, Part::Store)), "{asked:?}");

    let (again, said) = done(&hub, home, &["push", "out", &uri]);
    assert!(said.contains("nothing to push"), "{said}");
    assert_eq!((again["commit"].clone(), again["bytes_sent"].as_u64()), (pushed["commit"].clone(), Some(0)));
    assert!(hub.asked().iter().all(|asked| asked.part == Part::Api));

    let text = |input: &str| {
        let (code, text, said) = tokenmill(&hub, home, &["decode", input, "-t", "made"]);
        assert_eq!(code, Some(0), "{said}");
        text
    };
    let back = home.join("back");
    for (path, bytes) in remote(&hub, "main") {
        fs::create_dir_all(back.join(&path).parent().unwrap()).unwrap();
        fs::write(back.join(path), bytes).unwrap();
    }
    assert_eq!(text("back"), text("out"));
    let (verified, _) = done(&hub, home, &["verify", "back"]);
    assert_eq!(verified["verified"], true);
}

/// A tokenizer is published with what belongs to it, and read by its address.
#[test]
fn a_tokenizer_is_published_and_read_by_its_address() {
    let hub = FakeHub::without_repository("me/tok");
    let folder = prepared(&hub);
    let home = folder.path();
    fs::write(home.join("made/notes.txt"), "of somebody else").unwrap();
    hub.take_in_parts(u64::MAX, 2_000);
    done(&hub, home, &["push", "made", "hf://me/tok"]);
    let mut expected = local(&home.join("made"));
    assert!(expected.remove("notes.txt").is_some());
    assert!(remote(&hub, "main") == expected);
    let ids = |tokenizer: &str| {
        let (code, ids, said) = tokenmill(&hub, home, &["tokens", "-t", tokenizer, "--ids", "of the sea"]);
        assert_eq!(code, Some(0), "{said}");
        ids
    };
    assert_eq!(ids("hf://me/tok"), ids("made"));
    if !Path::new(PYTHON).is_file() {
        let said = format!("SKIPPED for want of {PYTHON}\n");
        return std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    let script = "from huggingface_hub import snapshot_download\nprint(snapshot_download('me/tok'))";
    let output = with_hub(PYTHON, &hub, home).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshot = String::from_utf8(output.stdout).unwrap();
    assert!(local(Path::new(snapshot.trim())) == expected, "Python reads the same files");
}

/// A recipe, and the flag of a command, push the result once it is complete. The result does not depend on that.
#[test]
fn jobs_push_their_result() {
    let hub = FakeHub::without_repository(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    let input = "demo:verse?lines=300&seed=3";
    let uri = format!("hf://datasets/{DATASET}");
    let recipe = format!(
        "[source]\nuri = \"{input}\"\n[encode]\ntokenizer = \"made\"\n[output]\ndir = \"job\"\npush = \"{uri}\"\n"
    );
    fs::write(home.join("recipe.toml"), &recipe).unwrap();
    let (planned, _) = done(&hub, home, &["plan", "recipe.toml"]);
    assert_eq!(planned["push"], uri.as_str());
    let (outcome, said) = done(&hub, home, &["run", "recipe.toml"]);
    assert!(said.contains("pushed"), "{said}");
    assert!(remote(&hub, "main") == local(&home.join("job")));
    let commit = outcome["pushed"]["commit"].clone();
    let without: String =
        recipe.lines().filter(|line| !line.starts_with("push")).map(|line| line.to_owned() + "\n").collect();
    fs::write(home.join("without.toml"), without).unwrap();
    let (outcome, said) = done(&hub, home, &["run", "without.toml"]);
    assert!(
        outcome["done_before"] == true && outcome.get("pushed").is_none() && !said.contains("push"),
        "{said}"
    );
    let encode = ["encode", input, "-t", "made", "-o", "other", "--push", &uri];
    let (outcome, _) = done(&hub, home, &encode);
    let changed: Vec<&str> = outcome["pushed"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["state"] == "changed")
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert!(!changed.iter().any(|path| path.starts_with("data/")), "the data is the same: {changed:?}");
    assert_ne!(outcome["pushed"]["commit"], commit, "the report has another time");

    // The job is done even if the push fails.
    hub.fail(Part::Commit, Fault::Status(403, ""));
    let failing = ["encode", input, "-t", "made", "-o", "third", "--push", &uri, "--json"];
    let (code, result, said) = tokenmill(&hub, home, &failing);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert!(code == Some(6) && result["rows"] == 300 && result.get("pushed").is_none(), "{result} {said}");

    let wrong = recipe.replace("hf://datasets/", "hf://");
    fs::write(home.join("wrong.toml"), wrong).unwrap();
    refused(
        &hub,
        home,
        &["run", "wrong.toml"],
        2,
        &["`push` names a repository for a model", "hf://datasets/me/verse"],
    );
    let train = ["train", input, "--merges", "9", "-o", "new", "--push", "s3://bucket/x"];
    refused(&hub, home, &train, 2, &["`--push` does not name a repository", "hf://datasets/NAMESPACE/NAME"]);
}

/// Objects go in parts where the hub asks for that, and every temporary failure is overcome.
#[test]
fn failures_in_passing_are_overcome() {
    let hub = FakeHub::without_repository(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    let uri = format!("hf://datasets/{DATASET}");
    let expected = local(&home.join("out"));
    let retry = "Retry-After: 1\r\n";
    let faults = [
        (Part::Api, Fault::Status(503, "")),
        (Part::Create, Fault::Status(429, retry)),
        (Part::Preupload, Fault::Status(500, "")),
        (Part::Batch, Fault::Status(429, retry)),
        (Part::Batch, Fault::CutAfter(3)),
        (Part::Store, Fault::Drop(1_000)),
        (Part::Store, Fault::Right),
        (Part::Store, Fault::Status(403, "")),
        (Part::Store, Fault::Status(503, "")),
        (Part::Store, Fault::Stall(Duration::from_millis(300))),
        (Part::Commit, Fault::Drop(9)),
        (Part::Commit, Fault::Status(502, "")),
    ];
    hub.take_in_parts(3_000, 100_000);
    faults.into_iter().for_each(|(part, fault)| hub.fail(part, fault));
    let (_, said) = done(&hub, home, &["push", "out", &uri]);
    assert_eq!(hub.faults_left(), 0, "{said}");
    assert!(said.contains("trying again in 1 second"), "{said}");
    assert!(remote(&hub, "main") == expected && hub.commits().len() == 1);
}

/// If the answer to a commit is lost, the commit is found. One that somebody else overtakes is repeated once.
#[test]
fn a_commit_is_made_once() {
    let uri = format!("hf://datasets/{DATASET}");
    for (fault, said_text, commits) in [
        (Fault::CutAfter(0), "", 1),
        (Fault::Overtaken, "somebody else has committed to hf://datasets/me/verse meanwhile", 2),
    ] {
        let hub = FakeHub::without_repository(DATASET);
        let folder = prepared(&hub);
        let home = folder.path();
        hub.fail(Part::Commit, fault);
        let (pushed, said) = done(&hub, home, &["push", "out", &uri]);
        assert!(said.contains(said_text) && pushed["unchanged"] == false, "{said}");
        let mut head = remote(&hub, "main");
        assert_eq!(head.remove("of-others.txt").is_some(), commits == 2);
        assert!(head == local(&home.join("out")) && hub.commits().len() == commits);
    }
    let hub = FakeHub::without_repository(DATASET);
    let folder = prepared(&hub);
    hub.fail(Part::Commit, Fault::Overtaken);
    hub.fail(Part::Commit, Fault::Overtaken);
    let texts = ["somebody else commits to the branch", "run the same command again"];
    refused(&hub, folder.path(), &["push", "out", &uri], 5, &texts);
}

/// An output replaces an earlier one: data files that the new one lacks are removed in the same commit. Data files of
/// others are never removed.
#[test]
fn an_output_replaces_an_earlier_one_and_no_others() {
    let hub = FakeHub::without_repository(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    let uri = format!("hf://datasets/{DATASET}");
    done(&hub, home, &["push", "out", &uri]);
    encode(&hub, home, 4, "less");
    let (pushed, said) = done(&hub, home, &["push", "less", &uri]);
    assert!(said.contains("outdated file"), "{said}");
    assert!(pushed["files"].as_array().unwrap().iter().any(|file| file["state"] == "removed"));
    assert!(remote(&hub, "main") == local(&home.join("less")) && hub.commits().len() == 2);

    let other = FakeHub::start(DATASET);
    other.put(fake::COMMIT, "data/train-of-others.parquet", "theirs", true);
    let texts = ["1 data file of others", "data/train-of-others.parquet", "another branch"];
    refused(&other, home, &["push", "out", &uri], 2, &texts);
    assert!(other.commits().is_empty());
    other.add_branch("mine");
    done(&other, home, &["push", "made", &format!("{uri}@mine")]);
    assert!(remote(&other, "mine").contains_key("tokenizer.json"));
    assert!(!remote(&other, "main").contains_key("tokenizer.json"));
}

/// Each refusal has its exit code and its remedy.
#[test]
fn refusals_say_what_to_do() {
    let hub = FakeHub::start(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    let uri = format!("hf://datasets/{DATASET}");
    let push = ["push", "out", uri.as_str()];
    for (part, status, code, texts) in [
        (Part::Api, 401, 6, ["answers 401", "set HF_TOKEN to a valid token that may write"]),
        (Part::Preupload, 403, 6, ["answers 403", "set HF_TOKEN to a token that may write"]),
        (Part::Batch, 404, 6, ["answers 404", "check the name of the repository"]),
        (Part::Batch, 413, 5, ["answers 413", "--file-text-bytes"]),
        (Part::Store, 413, 5, ["answers 413", "--file-text-bytes"]),
        (Part::Commit, 401, 6, ["answers 401", "set HF_TOKEN"]),
        (Part::Commit, 422, 1, ["answers 422", "correct what the hub refuses"]),
        (Part::Api, 307, 1, ["answers 307", "renamed"]),
    ] {
        hub.fail(part, Fault::Status(status, ""));
        refused(&hub, home, &push, code, &[&texts[..], &["push to hf://datasets/me/verse"]].concat());
        hub.forgive();
    }
    hub.fail(Part::Commit, Fault::Status(429, "Retry-After: 4000\r\n"));
    refused(&hub, home, &push, 5, &["answers 429", "run the same command again in 4000 seconds"]);
    hub.refuse_objects(Some((403, "Private repository storage limit reached")));
    refused(&hub, home, &push, 6, &["data/train-", "storage limit reached", "free some space"]);
    hub.refuse_objects(None);
    refused(
        &hub,
        home,
        &["push", "out", &format!("{uri}@none")],
        1,
        &["no branch \"none\"", "create the branch"],
    );
    refused(
        &hub,
        home,
        &["push", "out", "hf://me/verse"],
        2,
        &["repository for a model", "hf://datasets/me/verse"],
    );
    refused(&hub, home, &["push", "out", "hf://datasets/me/verse/data"], 2, &["no path follows"]);
    assert!(hub.commits().is_empty(), "nothing was committed");

    let new = FakeHub::without_repository(DATASET);
    let push_to_branch = ["push", "out", &format!("{uri}@none")];
    refused(&new, home, &push_to_branch, 1, &["no branch \"none\""]);
    refused(&new, home, &[&push_to_branch[..], &["--dry-run"]].concat(), 1, &["no branch \"none\""]);
    assert_eq!(new.created_private(), None, "no repository is created for a branch that it would lack");
    let gone = FakeHub::without_repository("others/verse");
    refused(&gone, home, &push, 6, &["does not exist and cannot be created", "check the namespace"]);
    let mut without = with_hub(env!("CARGO_BIN_EXE_tokenmill"), &hub, home);
    let output = without.args(push).env_remove("HF_TOKEN").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(6) && said.contains("set HF_TOKEN to a token that may write"),
        "{said}"
    );
    let mut offline = with_hub(env!("CARGO_BIN_EXE_tokenmill"), &hub, home);
    let output = offline.args(push).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
}

/// Outputs that are incomplete or changed are not pushed.
#[test]
fn only_what_is_complete_and_unchanged_is_pushed() {
    let hub = FakeHub::start(DATASET);
    let folder = prepared(&hub);
    let home = folder.path();
    let uri = format!("hf://datasets/{DATASET}");
    let manifest = fs::read(home.join("out/manifest.json")).unwrap();
    fs::remove_file(home.join("out/manifest.json")).unwrap();
    let texts = ["not complete", "give the same `run` or `encode` command again"];
    refused(&hub, home, &["push", "out", &uri], 2, &texts);
    fs::write(home.join("out/manifest.json"), manifest).unwrap();
    let data = fs::read_dir(home.join("out/data")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&data).unwrap();
    bytes[100] ^= 1;
    fs::write(&data, bytes).unwrap();
    let name = data.file_name().unwrap().to_str().unwrap();
    refused(&hub, home, &["push", "out", &uri], 4, &[name, "the manifest says"]);
    fs::create_dir(home.join("empty")).unwrap();
    refused(&hub, home, &["push", "empty", &uri], 2, &["neither an output nor a tokenizer"]);
    refused(&hub, home, &["push", "missing", &uri], 1, &["missing"]);
    assert!(hub.asked().is_empty(), "the hub is asked nothing");
}

/// Pushes are killed at 30 moments. Each continues the one before it, readers see all files or none, and one commit is
/// made.
#[test]
fn a_killed_push_goes_on_and_readers_see_all_or_nothing() {
    let mut hub = slow_hub();
    let folder = prepared(&hub);
    let home = folder.path();
    let uri = format!("hf://datasets/{DATASET}");
    let expected = local(&home.join("out"));
    let large: usize = expected.keys().filter(|path| path.ends_with(".parquet")).count();
    assert!(large > 3, "{large} files");
    for round in 0..30_u64 {
        let mut command = with_hub(env!("CARGO_BIN_EXE_tokenmill"), &hub, home);
        let mut child = command.args(["push", "out", &uri, "-q"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + (round * 37) % 211));
        child.kill().unwrap();
        child.wait().unwrap();
        hub.wait_until_left();
        let seen = remote(&hub, "main");
        assert!(seen.is_empty() || seen == expected, "a reader sees a part after round {round}");
        if seen == expected {
            assert_eq!((hub.commits().len(), hub.sent_again()), (1, 0));
            hub = slow_hub();
        }
    }
    hub.slow_down(None);
    done(&hub, home, &["push", "out", &uri]);
    assert!(remote(&hub, "main") == expected);
    assert_eq!((hub.commits().len(), hub.sent_again()), (1, 0));
}

/// A hub that takes files slowly and in small parts.
fn slow_hub() -> FakeHub {
    let hub = FakeHub::without_repository(DATASET);
    hub.slow_down(Some(100_000));
    hub.take_in_parts(4_000, 100_000);
    hub
}

/// A push that waits for the hub ends when it is asked to, and says how to continue.
#[cfg(unix)]
#[test]
fn a_waiting_push_can_be_interrupted() {
    let hub = FakeHub::start(DATASET);
    let folder = prepared(&hub);
    let uri = format!("hf://datasets/{DATASET}");
    hub.asked();
    hub.fail(Part::Store, Fault::Stall(Duration::from_secs(600)));
    let mut command = with_hub(env!("CARGO_BIN_EXE_tokenmill"), &hub, folder.path());
    let child = command.args(["push", "out", &uri]).stderr(Stdio::piped()).spawn().unwrap();
    while !hub.asked().iter().any(|asked| asked.part == Part::Store) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("To continue from what is sent, give the same command again"), "{said}");
}
