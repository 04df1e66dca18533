//! One bit of one file of a finished output changes.

use super::*;

/// The text of a run's input, which gives several rows.
const LINES: &str = "the cat sat on the mat\nthe cat ate the rat\nthat is that\na rat and a bat\n";

/// A finished output in the folder `out`: a tokenizer in two formats, a smaller one, and the data of `train`; with a second
/// split if it is asked for.
fn finished(output: &str, encode: &str, two_splits: bool) -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", LINES);
    write(&folder, "b.txt", "the end of that\n");
    let recipe = format!(
        "source = {{ uri = \"a.txt\", documents = \"line\" }}\n\
         train = {{ merges = 6, formats = [\"hf\", \"tiktoken\"], special_tokens = [\"<e>\"] }}\n\
         encode = {{ eos = \"<e>\"{encode} }}\noutput = {{ dir = \"out\"{output} }}\n"
    );
    write(&folder, "r.toml", recipe);
    done(&folder, &["run", "r.toml"]);
    if two_splits {
        let encode = ["encode", "b.txt", "-t", "out/tokenizer", "-o", "out", "--split-name", "validation"];
        done(&folder, &[&encode[..], &["--documents", "line", "--eos", "<e>"]].concat());
    }
    folder
}

#[track_caller]
fn done(folder: &TempDir, arguments: &[&str]) -> String {
    let (code, said) = ended(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?} said\n{said}");
    said
}

/// The files of an output by their paths in it, with their content.
fn content(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let out = folder.path().join("out");
    let below = |path: &String| {
        let name = Path::new(path).strip_prefix(&out).expect("a file of the output");
        name.display().to_string()
    };
    let mut found: Vec<_> =
        files(&out).iter().map(|path| (below(path), fs::read(path).expect("a file"))).collect();
    found.sort();
    found
}

const OUTPUTS: [(&str, &str, bool); 4] = [
    ("", "", true),
    (", format = \"bin\"", "", false),
    (", format = \"megatron\"", "", false),
    ("", ", pack = \"concat\", length = 8", false),
];

/// Bits of a file: in its first and last bytes, and between them.
fn bits(bytes: usize) -> Vec<usize> {
    let mut bits =
        vec![0, 8 * (bytes / 4) + 1, 8 * (bytes / 2) + 2, 8 * (bytes * 3 / 4), 8 * (bytes - 1) + 1];
    bits.retain(|bit| bit / 8 < bytes);
    bits
}

#[test]
fn every_bit_of_an_output_is_covered_or_said_not_to_be() {
    for (output, encode, two_splits) in OUTPUTS {
        let folder = finished(output, encode, two_splits);
        let all = content(&folder);
        let mut compared = 0;
        for (name, bytes) in all.iter().filter(|(name, _)| !name.starts_with(".tokenmill")) {
            for bit in bits(bytes.len()) {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                write(&folder, &format!("out/{name}"), changed);
                let (code, said) = ended(&folder, &["verify", "out"]);
                let place = format!("{output}{encode}: bit {bit} of {name}: {said}");
                match name.as_str() {
                    "README.md" => assert!(code == Some(0) && said.contains("README.md"), "{place}"),
                    // One that cannot be read any more ends with 1.
                    "manifest.json" => {
                        assert!(matches!(code, Some(1 | 4)) && said.contains("manifest.json"), "{place}");
                    }
                    _ => assert!(code == Some(4) && said.contains(name.as_str()), "{place}"),
                }
                compared += 1;
            }
            write(&folder, &format!("out/{name}"), bytes);
        }
        assert!(compared >= 40, "{compared}");
        assert!(done(&folder, &["verify", "out"]).contains("matches the manifest"));
        assert!(done(&folder, &["run", "r.toml"]).contains("nothing to do"));
        let results = |all: Vec<(String, Vec<u8>)>| -> Vec<_> {
            all.into_iter().filter(|(name, _)| !name.starts_with(".tokenmill")).collect()
        };
        assert!(results(all) == results(content(&folder)), "nothing was changed");
    }
}

#[test]
fn the_run_mends_what_a_changed_bit_has_broken() {
    let folder = finished("", "", false);
    let all = content(&folder);
    let without_times = |(name, _): &&(String, Vec<u8>)| !name.starts_with(".tokenmill");
    for (name, bytes) in all.iter().filter(without_times).filter(|(name, _)| name != "README.md") {
        let mut changed = bytes.clone();
        let digit = |byte: &u8| byte.is_ascii_digit();
        let at = changed.iter().rposition(digit).unwrap_or(bytes.len() / 2);
        changed[at] ^= 1;
        write(&folder, &format!("out/{name}"), changed);
        let said = done(&folder, &["run", "r.toml"]);
        assert!(said.contains("doing it again"), "{name}: {said}");
        done(&folder, &["verify", "out"]);
        if !name.starts_with("report") {
            assert!(fs::read(folder.path().join("out").join(name)).expect("a file") == *bytes, "{name}");
        }
    }
    assert!(done(&folder, &["run", "r.toml"]).contains("nothing to do"));
}

/// What lies in `.tokenmill` decides how much of an interrupted run is used, never what comes of it.
#[test]
fn a_changed_bit_of_the_state_changes_no_result() {
    let folder = finished("", "", false);
    let all = content(&folder);
    let own = |name: &str| !name.starts_with(".tokenmill") && !name.starts_with("report");
    let results = |folder: &TempDir| -> Vec<(String, Vec<u8>)> {
        content(folder).into_iter().filter(|(name, _)| own(name)).collect()
    };
    let before = results(&folder);
    let states: Vec<&(String, Vec<u8>)> = all
        .iter()
        .filter(|(name, bytes)| name.starts_with(".tokenmill") && !bytes.is_empty() && !name.contains("lock"))
        .collect();
    assert!(states.len() >= 3, "{states:?}");
    for with_manifest in [true, false] {
        for (name, bytes) in &states {
            for bit in bits(bytes.len()) {
                if !with_manifest {
                    fs::remove_file(folder.path().join("out/manifest.json")).expect("a manifest");
                }
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                write(&folder, &format!("out/{name}"), changed);
                let (code, said) = ended(&folder, &["run", "r.toml"]);
                let (code, said) = match code {
                    Some(2) if said.contains("--force") => ended(&folder, &["run", "r.toml", "--force"]),
                    _ => (code, said),
                };
                if code == Some(2) && !with_manifest && said.contains("has no record of") {
                    // Nothing vouches for the data any more, so nothing is replaced.
                    all.iter().for_each(|(name, bytes)| write(&folder, &format!("out/{name}"), bytes));
                    continue;
                }
                assert_eq!(code, Some(0), "bit {bit} of {name}: {said}");
                assert!(before == results(&folder), "bit {bit} of {name}: {said}");
                done(&folder, &["verify", "out"]);
            }
        }
    }
}

/// A killed run whose record names another split goes on with its own: the reports keep their names, which the manifest
/// lists.
#[test]
fn another_split_in_the_record_of_a_job_changes_no_result() {
    let folder = finished("", "", false);
    let path = |name: &str| folder.path().join("out").join(name);
    let manifest = fs::read(path("manifest.json")).expect("a manifest");
    let record = fs::read_to_string(path(".tokenmill/job.json")).expect("a record");
    for split in ["", "validation", "../../up"] {
        let mut changed: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        changed["split"] = split.into();
        write(&folder, "out/.tokenmill/job.json", changed.to_string());
        fs::remove_file(path("manifest.json")).expect("a manifest");
        done(&folder, &["run", "r.toml"]);
        assert!(fs::read(path("manifest.json")).expect("a manifest") == manifest, "{split:?}");
    }
}

#[test]
fn an_output_of_an_earlier_version_is_verified_by_what_it_says() {
    let folder = finished("", "", false);
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).expect(name);
    let mut manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).expect("JSON");
    let keys = manifest.as_object_mut().expect("an object");
    for key in ["other_files", "reports", "sha256"] {
        assert!(keys.remove(key).is_some(), "{key}");
    }
    write(&folder, "out/manifest.json", serde_json::to_string_pretty(&manifest).expect("JSON") + "\n");
    let mut report: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert!(report.as_object_mut().expect("an object").remove("sha256").is_some());
    write(&folder, "out/report.json", report.to_string());
    assert!(done(&folder, &["verify", "out"]).contains("matches the manifest"));
    assert!(done(&folder, &["run", "r.toml"]).contains("nothing to do"));
    // A split that is added leaves the first one's report as it is.
    let encode = ["encode", "b.txt", "-t", "out/tokenizer", "-o", "out", "--split-name", "validation"];
    done(&folder, &[&encode[..], &["--documents", "line", "--eos", "<e>"]].concat());
    done(&folder, &["verify", "out"]);
}

#[test]
fn what_people_change_and_remove_is_told() {
    let folder = finished("", "", false);
    let card = fs::read_to_string(folder.path().join("out/README.md")).expect("a card");
    write(&folder, "out/README.md", format!("{card}\nCollected by hand.\n"));
    let said = done(&folder, &["verify", "out"]);
    assert!(said.contains("README.md was edited after it was written, which is allowed"), "{said}");
    let output = tokenmill(&folder).args(["verify", "out", "--json"]).output().expect("a run");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["edited"], serde_json::json!(["README.md"]));
    assert!(done(&folder, &["run", "r.toml"]).contains("nothing to do"), "the edited card stays");
    fs::remove_file(folder.path().join("out/report.html")).expect("a report");
    done(&folder, &["verify", "out"]);

    // A split that is added must not vouch for a manifest that was changed.
    let manifest = fs::read_to_string(folder.path().join("out/manifest.json")).expect("a manifest");
    write(&folder, "out/manifest.json", manifest.replacen("\"rows\": 4", "\"rows\": 5", 1));
    let encode = ["encode", "b.txt", "-t", "out/tokenizer", "-o", "out", "--split-name", "validation"];
    let (code, said) = ended(&folder, &[&encode[..], &["--documents", "line", "--eos", "<e>"]].concat());
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("manifest.json") && said.contains("remove it"), "{said}");
}
