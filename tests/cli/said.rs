//! Messages and JSON of results and refusals: figures agree, things have their names, and refusals give
//! reasons.

use serde_json::{Value, json};

use super::*;

/// Runs a command with `--json` that must end with this code, and returns the JSON.
#[track_caller]
fn json_of(folder: &TempDir, arguments: &[&str], code: i32) -> Value {
    let (said, printed) = both(folder, &[arguments, &["--json"]].concat(), code);
    serde_json::from_str(&printed)
        .unwrap_or_else(|_| panic!("{arguments:?} printed {printed:?}, said {said}"))
}

fn content(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).expect(name)
}

/// Help, completions and the manual are printed on standard output.
#[test]
fn help_completions_and_the_manual_go_to_standard_output() {
    let folder = folder();
    for (arguments, expected) in [
        (&["--help"][..], "Usage: tokenmill"),
        (&["train", "--help"], "--tie-break"),
        (&["completions", "bash"], "_tokenmill"),
        (&["completions", "zsh"], "#compdef tokenmill"),
        (&["man"], ".TH tokenmill 1"),
        (&["--help"], "  4         verification found a difference, or ids are of another tokenizer\n"),
        (&["man"], "  4         verification found a difference, or ids are of another tokenizer\n"),
        (&["man"], ".SH \"EXIT STATUS\"\n  0         done\n"),
        (&["man"], ".SH EXAMPLES\n  tokenmill"),
        (&["man"], "Print more about what is done"),
    ] {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        assert!(output.status.success(), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(expected), "{arguments:?} printed\n{said}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
}

/// Messages, report, card and `inspect` give the same figures. They count documents, null rows and BOS/EOS
/// tokens in the same way.
#[test]
fn figures_of_an_encoding_agree() {
    let folder = folder();
    write(
        &folder,
        "a.jsonl",
        "{\"text\": \"abcd\"}\n{\"text\": null}\n{\"text\": \"abc\"}\n{\"text\": null}\n",
    );
    let train = ["train", "a.jsonl", "-o", "made", "--merges", "0", "--special-token", "<end>"];
    both(&folder, &train, 0);
    let encode = ["encode", "a.jsonl", "-t", "made"];
    // 7 bytes give 7 tokens, and 9 with the EOS token of each document.
    let (said, _) = both(&folder, &[&encode[..], &["-o", "ids", "--eos", "<end>"]].concat(), 0);
    let line =
        "encoded 2 documents and 2 null rows, 7 bytes, to 9 tokens (1.00 bytes per token without BOS/EOS)";
    assert!(said.lines().any(|said| said == line), "{said}");
    let (_, shown) = both(&folder, &["inspect", "ids"], 0);
    assert!(shown.contains("9, 1.00 bytes of text each without BOS/EOS"), "{shown}");
    let card = content(&folder, "ids/README.md");
    assert!(card.contains("4 rows with 7 bytes of text"), "{card}");
    assert!(card.contains("9 tokens (1.00 bytes per token without BOS/EOS)"), "{card}");
    // Four bytes for each of 9 ids, 4 offsets and 4 lengths.
    assert!(card.contains("\n    num_bytes: 68\n") && card.contains("\n  dataset_size: 68\n"), "{card}");
    both(&folder, &[&encode[..], &["-o", "flat", "--output-format", "bin"]].concat(), 0);
    assert!(content(&folder, "flat/README.md").contains("4 rows with 7 bytes of text"));
    let (said, _) = both(&folder, &[&encode[..], &["-o", "plain"]].concat(), 0);
    assert!(said.contains("to 7 tokens (1.00 bytes per token)"), "{said}");

    let report: Value = serde_json::from_str(&content(&folder, "ids/report.json")).expect("JSON");
    assert_eq!(report["encoding"]["documents"], 2);
    assert_eq!(json_of(&folder, &["bench", "a.jsonl", "-t", "made"], 0)["documents"], 2);
    let (said, _) = both(&folder, &["decode", "ids", "-t", "made", "--verify", "a.jsonl"], 0);
    assert!(said.contains("identical: 4 rows, 7 bytes"), "{said}");
    // Figures of steps that were not part of the run are null.
    let ratios = &report["ratios"];
    for name in ["bytes_per_character", "training_compression", "packing_utilisation"] {
        assert_eq!(ratios[name], Value::Null, "{ratios}");
    }
    assert_eq!(ratios["bytes_per_token"], 1.0);
}

/// `inspect --merges N` shows up to N merges.
#[test]
fn as_many_merges_are_shown_as_are_asked_for() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "5"], 0);
    for (more, shown) in [(&[][..], 5), (&["--merges", "2"], 2), (&["--merges", "9"], 5)] {
        let found = json_of(&folder, &[&["inspect", "made"], more].concat(), 0);
        assert_eq!(found["merges"].as_array().map(Vec::len), Some(shown), "{more:?}");
    }
}

/// `inspect` quotes a regular expression that starts with a space.
#[test]
fn a_split_is_shown_as_it_can_be_given_again() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (regex, shown) in [
        (r"\p{L}+|[^\p{L}]", r"split         \p{L}+|[^\p{L}]"),
        (r" ?\p{L}+|[^\p{L}]", r"split         ' ?\p{L}+|[^\p{L}]'"),
    ] {
        both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3", "--split-regex", regex], 0);
        let (_, inspected) = both(&folder, &["inspect", "made"], 0);
        assert!(inspected.lines().any(|line| line == shown), "{inspected}");
    }
}

/// With `--json`, a difference is printed as JSON, and the exit code is 4.
#[test]
fn that_two_things_differ_is_told_as_json_too() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "b.txt", TEXT.replace("sat", "set"));
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "5"], 0);
    both(&folder, &["encode", "a.txt", "-t", "made", "-o", "ids"], 0);
    let decode = ["decode", "ids", "-t", "made", "--verify"];
    for (input, identical) in [("a.txt", true), ("b.txt", false)] {
        let code = if identical { 0 } else { 4 };
        let found = json_of(&folder, &[&decode[..], &[input]].concat(), code);
        assert_eq!(found["identical"], identical, "{found}");
        assert_eq!(found["difference"].is_string(), !identical, "{found}");
    }
    assert_eq!(json_of(&folder, &["verify", "ids"], 0)["verified"], true);
    fs::remove_dir_all(folder.path().join("ids/data")).expect("it goes");
    let found = json_of(&folder, &["verify", "ids"], 4);
    assert_eq!(found["verified"], false);
    assert!(found["difference"].as_str().is_some_and(|said| said.contains("missing")), "{found}");
    // With `--html`, the JSON is printed as well.
    let tokens = json_of(&folder, &["tokens", "-t", "made", "--html", "page.html", "x"], 0);
    assert_eq!(tokens, json!([{ "id": 120, "text": "x" }]));
    assert!(both(&folder, &["tokens", "-t", "made", "--html", "page.html", "x"], 0).1.is_empty());
}

/// `verify-merges` says why a merge is not the best pair: score, length or frequency.
#[test]
fn a_merge_that_is_not_the_best_is_told_with_the_reason() {
    let folder = folder();
    write(&folder, "a.txt", "ab ab ab ab cde cde cde");
    let train = ["train", "a.txt", "-o", "made", "--split", "none", "--merges", "9", "--min-frequency", "1"];
    both(&folder, &train, 0);
    for (rules, reason, said) in [
        (&["--score", "count-length"][..], "score", "is not the best by count-length: "),
        (&["--max-token-bytes", "2"], "max_token_bytes", "makes a token of more than 2 bytes: "),
        (&["--min-frequency", "4"], "min_frequency", "occurs less often than 4 times: "),
    ] {
        let verify = [&["verify-merges", "made", "--on", "a.txt"], rules].concat();
        refuses(&folder, &verify, 4, &["of 9", said]);
        let found = json_of(&folder, &verify, 4);
        assert_eq!(found["deviation"]["reason"], reason, "{found}");
    }
    write(&folder, "none.txt", "");
    let nothing = ["verify-merges", "made", "--on", "none.txt"];
    refuses(&folder, &nothing, 1, &["nothing to replay merges on: the input has no text"]);
}

/// A message says that an output is incomplete, and names the tokenizer folder in it.
#[test]
fn an_output_that_is_not_complete_is_called_so() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "r.toml", RECIPE.replace("${WHERE}", "."));
    both(&folder, &["run", "r.toml"], 0);
    refuses_beside(
        &folder,
        &["tokens", "-t", "out", "x"],
        1,
        &["no tokenizer", "name out/tokenizer instead,"],
    );
    fs::remove_file(folder.path().join("out/manifest.json")).expect("it goes");
    refuses_beside(
        &folder,
        &["inspect", "out"],
        1,
        &["out is not complete", "same `run` or `encode` command again"],
    );
    refuses_beside(&folder, &["verify", "out"], 1, &["out is not complete", "as: tokenmill run r.toml"]);
    write(&folder, "other.toml", RECIPE.replace("${WHERE}", ".").replace("merges = 7", "merges = 5"));
    let told = ["unfinished result of another run", "the other run was started as: tokenmill run r.toml"];
    refuses_beside(&folder, &["run", "other.toml"], 2, &told);
    both(&folder, &["encode", "a.txt", "-t", "out/tokenizer", "-o", "ids"], 0);
    fs::remove_file(folder.path().join("ids/manifest.json")).expect("it goes");
    refuses_beside(&folder, &["inspect", "ids"], 1, &["encode a.txt -t out/tokenizer -o ids"]);
    refuses_beside(&folder, &["verify", "ou"], 1, &["cannot read ou", "name the output folder"]);

    let held = tokenmill::sink::OutputFolder::open(folder.path().join("out")).expect("a folder");
    let process = format!("out is being written by another process (process {}", std::process::id());
    for command in ["inspect", "verify"] {
        refuses_beside(&folder, &[command, "out"], 1, &[&process]);
    }
    assert!(both(&folder, &["plan", "r.toml"], 0).0.contains(&process));
    drop(held);
    assert!(!both(&folder, &["plan", "r.toml"], 0).0.contains("being written"));
}

/// `plan` says which files of a complete output `run` would write again, and refuses what `run` refuses.
#[test]
fn a_plan_says_what_the_run_would_do_about_files_that_are_missing() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "r.toml", RECIPE.replace("${WHERE}", "."));
    both(&folder, &["run", "r.toml"], 0);
    let data = folder.path().join("out/data");
    let file = fs::read_dir(&data).expect("a folder").next().expect("a file").expect("a file").path();
    fs::remove_file(&file).expect("it goes");
    let (_, shown) = both(&folder, &["plan", "r.toml"], 0);
    assert!(shown.contains("out: complete but for 1 file, missing or of another size"), "{shown}");
    assert_eq!(json_of(&folder, &["plan", "r.toml"], 0)["held"], "damaged");

    fs::remove_file(folder.path().join("out/manifest.json")).expect("it goes");
    let (said, _) = both(&folder, &["run", "r.toml"], 0);
    let name = file.file_name().expect("a name").to_string_lossy();
    let told = format!("data/{name} is missing or differs from its record: encoding it again");
    assert!(said.contains(&told), "{said}");

    fs::remove_file(folder.path().join("out/manifest.json")).expect("it goes");
    fs::remove_dir_all(folder.path().join("out/.tokenmill")).expect("it goes");
    for command in ["plan", "run"] {
        refuses_beside(&folder, &[command, "r.toml"], 2, &["out holds", "has no record of"]);
    }
}

/// Like [`refuses`], where an output exists already.
#[track_caller]
fn refuses_beside(folder: &TempDir, arguments: &[&str], code: i32, said: &[&str]) {
    let (message, printed) = both(folder, arguments, code);
    assert!(said.iter().all(|said| message.contains(said)) && printed.is_empty(), "{message}{printed}");
}

/// An output with only a tokenizer is shown and reported as a tokenizer, without figures of rows.
#[test]
fn a_tokenizer_alone_is_no_empty_data() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let recipe = "source = { uri = \"a.txt\" }\ntrain = { merges = 5 }\noutput = { dir = \"learned\" }\n";
    write(&folder, "r.toml", recipe);
    let first = json_of(&folder, &["run", "r.toml"], 0);
    let (_, shown) = both(&folder, &["inspect", "learned"], 0);
    assert!(shown.contains("vocabulary    261 tokens, 5 merges\n") && !shown.contains("rows"), "{shown}");
    assert_eq!(json_of(&folder, &["inspect", "learned"], 0)["vocab_size"], 261);
    let (said, _) = both(&folder, &["run", "r.toml"], 0);
    assert!(said.contains("already holds the result, a tokenizer with 261 tokens"), "{said}");
    // The second run reports all results of the first.
    let mut again = json_of(&folder, &["run", "r.toml"], 0);
    assert_eq!((&first["done_before"], &again["done_before"]), (&json!(false), &json!(true)));
    again["done_before"] = json!(false);
    assert_eq!(first, again);
}

/// The JSON of `train --extend` has the number of merges taken over from the old tokenizer.
#[test]
fn merges_taken_over_are_told_apart() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"], 0);
    let extend = ["train", "a.txt", "-o", "more", "--merges", "5", "--extend", "made"];
    let found = json_of(&folder, &extend, 0);
    assert_eq!((&found["merges"], &found["merges_taken_over"]), (&json!(5), &json!(3)));
}

/// A note says which of several sizes were not reached.
#[test]
fn a_size_that_is_not_reached_is_noted() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let (said, _) = both(&folder, &["train", "a.txt", "-o", "made", "--vocab-size", "258,400,500"], 0);
    assert!(said.contains("made/vocab-400 has the whole vocabulary"), "{said}");
    assert!(!said.contains("made/vocab-258 has"), "{said}");
}

/// Control characters in a manifest are escaped when they are shown.
#[test]
fn names_in_a_manifest_send_nothing_to_the_terminal() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "5"], 0);
    both(&folder, &["encode", "a.txt", "-t", "made", "-o", "ids"], 0);
    let mut manifest: Value = serde_json::from_str(&content(&folder, "ids/manifest.json")).expect("JSON");
    let wild = json!("\u{1b}[31m");
    manifest["tool_version"] = wild.clone();
    manifest["inputs"][0]["name"] = wild.clone();
    manifest["tokenizer"] = wild;
    write(&folder, "ids/manifest.json", manifest.to_string());
    let (_, shown) = both(&folder, &["inspect", "ids"], 0);
    assert!(shown.matches(r"\u{1b}[31m").count() == 3 && !shown.contains('\u{1b}'), "{shown:?}");
}

/// `-` and an empty name are refused as outputs.
#[test]
fn results_go_to_no_pipe_and_have_a_name() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    let commands: [&[&str]; 7] = [
        &["train", "a.txt", "--merges", "3", "-o"],
        &["count", "a.txt", "--split", "gpt2", "-o"],
        &["encode", "a.txt", "-t", "made", "-o"],
        &["convert", "made", "--to", "minbpe", "-o"],
        &["compare", "made", "--on", "a.txt", "--html"],
        &["compare", "made", "--on", "a.txt", "--csv"],
        &["compare", "made", "--on", "a.txt", "--markdown"],
    ];
    for command in commands {
        refuses(&folder, &[command, &["-"]].concat(), 2, &["standard output", "`./-`"]);
        refuses(&folder, &[command, &[""]].concat(), 2, &["it is empty"]);
    }
    assert!(!folder.path().join("-").exists());
}

/// A reader that closes standard output early is not an error.
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder();
    write(&folder, "a.txt", TEXT.repeat(100));
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let code = |arguments: &[&str]| {
        let mut child = std::process::Command::new(&program)
            .args(arguments)
            .current_dir(folder.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("a run");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("an end");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let whole = code(&["completions", "bash"]);
    assert_eq!(whole.0, Some(0), "{}", whole.1);
    // A closed pipe does not change the exit code either.
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    let verify = ["verify-merges", "made", "--on", "a.txt", "--min-frequency", "9999", "--json"];
    let differs = code(&verify);
    assert_eq!(differs.0, Some(4), "{}", differs.1);
}

/// `plan` shows the limits of sources and samples.
#[test]
fn a_plan_tells_what_is_taken() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let recipe = "source = { uri = \"a.txt\", take = 5 }\nsample = { every = 2, max_bytes = 9 }\n\
                  train = { merges = 3 }\noutput = { dir = \"out\" }\n";
    write(&folder, "r.toml", recipe);
    let (_, plan) = both(&folder, &["plan", "r.toml"], 0);
    for line in
        ["         of which 5 documents at most", "sample   one of 2 documents, 9 bytes of text at most"]
    {
        assert!(plan.lines().any(|told| told == line), "{plan}");
    }
}

/// A file is refused where an output folder is expected.
#[test]
fn a_file_is_no_folder_for_results() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"], 0);
    for command in [&["train", "a.txt", "--merges", "3"][..], &["encode", "a.txt", "-t", "made"]] {
        refuses(&folder, &[command, &["-o", "a.txt"]].concat(), 2, &["a.txt is a file", "name a folder"]);
    }
}

/// A note names flags and keys that have no effect.
#[test]
fn what_changes_nothing_is_noted() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write_parquet(&folder, "a.parquet", &[Some("the cat the cat")]);
    for (arguments, said) in [
        (&["a.parquet", "--documents", "line"][..], Some("`documents` has no effect")),
        (&["a.parquet", "--separator", "x"], Some("`documents` has no effect")),
        (&["a.txt", "--column", "text"], Some("`column` has no effect")),
        (&["a.txt", "--stream"], Some("`stream` has no effect")),
        (&["a.txt", "--seed", "3"], Some("`seed` has no effect")),
        (
            &["a.txt", "--special-token", "<e>", "--eos", "<e>", "--formats", "minbpe"],
            Some("`eos` of training: no effect"),
        ),
        (&["a.txt", "--special-token", "<e>", "--eos", "<e>", "--formats", "minbpe,hf"], None),
        (&["a.parquet", "a.txt", "--column", "text", "--documents", "line"], None),
        (&["a.txt", "--shuffle-buffer", "9", "--seed", "3"], None),
    ] {
        let train = [&["train", "-o", "made", "--merges", "1"], arguments].concat();
        let noted = both(&folder, &train, 0).0;
        assert_eq!(noted.contains(" no effect"), said.is_some(), "{arguments:?}: {noted}");
        assert!(said.is_none_or(|said| noted.contains(said)), "{arguments:?}: {noted}");
    }
    let recipe = "source = { uri = \"a.txt\" }\ntrain = { merges = 5 }\n[output]\ndir = \"out\"\n\
                  format = \"bin\"\nsplit_name = \"test\"\nfile_text_bytes = \"1MB\"\n";
    write(&folder, "r.toml", recipe);
    let (said, _) = both(&folder, &["run", "r.toml"], 0);
    for key in ["format", "split_name", "file_text_bytes"] {
        assert!(said.contains(&format!("`{key}` has no effect: nothing is encoded")), "{said}");
    }
}

/// Messages name the flag as it was given, the problem, and a remedy.
#[test]
fn refusals_name_what_was_given_and_what_helps() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "fake.txt.gz", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3", "--special-token", "cat"], 0);
    both(&folder, &["count", "a.txt", "-o", "c.parquet", "--special-token", "cat"], 0);
    let encode = ["encode", "a.txt", "-t", "made", "-o", "out"];
    let gpt2 = ["--formats", "gpt2", "--split-regex", "a|b"];
    for (arguments, code, said) in [
        (train("a.txt", &gpt2), 2, "`--formats` names a format that cannot be used"),
        (train("a.txt", &["--split-regex", "^a"]), 2, "`--split-regex` cannot be written: "),
        (train("a.txt", &["--weight", "1", "--weight", "2"]), 2, "`--weight` is given 2 times for 1 input"),
        (
            vec!["merge-counts", "c.parquet", "c.parquet", "-o", "d.parquet", "--weight", "1"],
            2,
            "`--weight` is given 1 time for 2 files",
        ),
        (
            vec!["count", "fake.txt.gz", "-o", "out"],
            1,
            "has the name of a compressed file, but is not compressed",
        ),
        ([&encode[..], &["--special", "forbid"]].concat(), 1, "`--special allow`"),
        ([&encode[..], &["--split-name", "all"]].concat(), 2, "\"all\" means all splits"),
        (vec!["count", "a.txt", "-o", "no/such/c.parquet"], 1, "No such file or directory"),
        (
            vec!["decode", "a.txt", "-t", "made"],
            1,
            "a.txt is not a Parquet file: it does not begin with PAR1",
        ),
        (vec!["decode", "a.txt", "-t", "made"], 1, "name a file of token ids"),
    ] {
        refuses(&folder, &arguments, code, &[said]);
    }
    let counts = ["train", "--from-counts", "c.parquet", "-o", "out", "--merges", "3", "--take", "3"];
    let (said, _) = both(&folder, &counts, 2);
    assert!(said.contains("--take <N>") && !said.contains("--every"), "{said}");
    let (said, _) = both(&folder, &["train", "a.txt", "-o", "made", "--merges", "1"], 0);
    let (again, _) = both(&folder, &["train", "a.txt", "-o", "made", "--merges", "2"], 0);
    assert!(said.contains("of 3 merges,") && again.contains("of 1 merge,"), "{said}{again}");
}

/// The message has the name of the final file, not that of the temporary file, which means nothing to the user.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_made_is_named() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"], 0);
    let (said, _) = both(&folder, &["convert", "made", "--to", "hf", "-o", "/proc/self"], 1);
    assert!(said.contains("/proc/self/tokenizer.json") && !said.contains(".tmp-"), "{said}");
}

/// File names can hold anything. Messages must not let them set colours or the window title, or fake another
/// line.
#[test]
fn names_of_files_send_nothing_to_the_terminal() {
    let folder = folder();
    let name = "a\u{1b}]0;pwned\u{7}\u{1b}[31m\u{9b}\u{202e}\nerror: all is lost.txt";
    let other = "b\u{1b}[32m\nwrote all";
    write(&folder, name, "the cat and the hat\n".repeat(9));
    write(&folder, "not.parquet\u{1b}[31m", "no Parquet");
    let quoted = |text: &str| serde_json::to_string(text).expect("a text").replace('\u{9b}', "\\u009b");
    write(
        &folder,
        "r.toml",
        format!(
            "[source]\nuri = {}\n[train]\nvocab_size = 260\n[output]\ndir = {}\n",
            quoted(name),
            quoted(other)
        ),
    );
    let bad = format!("{name}.gone");
    for (arguments, code) in [
        (&["plan", "r.toml"][..], 0),
        (&["plan", "r.toml", "--json"], 0),
        (&["-v", "run", "r.toml"], 0),
        (&["plan", "r.toml"], 0),
        (&["train", name, "-o", "t", "--vocab-size", "260"], 0),
        (&["encode", name, "-t", "t", "-o", other, "--force"], 0),
        (&["inspect", other], 0),
        (&["inspect", other, "--json"], 0),
        (&["verify", other], 0),
        (&["count", name, "-o", "c.parquet"], 0),
        (&["compare", "t", other, "--on", name], 1),
        (&["compare", "t", "t", "--on", name], 0),
        (&["count", &bad, "-o", "d.parquet"], 2),
        (&["inspect", &bad], 1),
        (&["count", "not.parquet\u{1b}[31m", "--format", "parquet", "-o", "e.parquet"], 1),
    ] {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        let (said, printed) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        let is_wild = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        for text in [&said, &printed] {
            assert!(!text.contains(is_wild), "{arguments:?} printed {text:?}");
        }
        for forged in ["\nerror: all is lost", "\nwrote all"] {
            assert!(
                !printed.contains(forged) && !said.contains(forged),
                "{arguments:?}: {printed:?} {said:?}"
            );
        }
        assert_eq!(output.status.code(), Some(code), "{arguments:?} said {said}");
    }
}

/// Passwords and signatures in a mistyped address appear in no message.
#[test]
fn mistyped_addresses_keep_their_secrets() {
    let folder = folder();
    for uri in [
        "https:/me:hidden@host.invalid/a.parquet?sig=hidden",
        "https//me:hidden@host.invalid/a.parquet?sig=hidden",
        "htps://me:hidden@host.invalid/a?b=hidden",
        "http:me:hidden@host.invalid/a",
        "me:hidden@host.invalid/a",
        "s4://key:hidden@bucket/a",
        "az://container/a?sv=1&sig=hidden",
    ] {
        let recipe = format!("[source]\nuri = \"{uri}\"\n[train]\nvocab_size = 300\n[output]\ndir = \"o\"\n");
        write(&folder, "r.toml", recipe);
        for arguments in
            [&["count", uri, "-o", "c.parquet"][..], &["run", "r.toml"], &["-v", "plan", "r.toml"]]
        {
            let output = tokenmill(&folder).args(arguments).output().expect("a run");
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(!text.contains("hidden"), "{arguments:?}: {text}");
            assert!(output.status.code().is_some_and(|code| code > 0), "{text}");
        }
    }
}

/// Only the first 100 mistakes of a recipe are shown, and a recipe of more than 16 MiB is refused.
#[test]
fn a_recipe_with_thousands_of_mistakes_tells_the_first() {
    let folder = folder();
    let keys: String = (0..40_000).map(|key| format!("k{key} = 1\n")).collect();
    let wrong = "1, ".repeat(40_000);
    for (name, recipe) in [
        ("keys", format!("[source]\nuri = \"demo:verse?lines=9\"\n[train]\n{keys}")),
        ("items", format!("[train]\nspecial_tokens = [{wrong}]\n")),
        ("sources", "[[source]]\nurl = \"a\"\n".repeat(20_000)),
        ("sections", (0..20_000).map(|number| format!("[s{number}]\n")).collect()),
    ] {
        write(&folder, name, recipe);
        let (said, _) = both(&folder, &["run", name], 2);
        assert_eq!(said.matches("error: ").count(), 100, "{name}: {}", &said[..2_000]);
        assert!(said.ends_with("more mistakes may be reported once these are fixed\n"), "{name}");
    }
    write(&folder, "long", "#".repeat(17 << 20));
    let (said, _) = both(&folder, &["plan", "long"], 2);
    assert!(said.contains("long is not a recipe: it has more than 16777216 bytes"), "{said}");
}

/// A limit on the stack of the process does not matter.
#[cfg(unix)]
#[test]
fn a_small_stack_is_enough() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let train = format!("ulimit -s 64; exec '{}' train a.txt -o t --merges 9", program.display());
    let output = std::process::Command::new("sh").args(["-c", &train]).current_dir(folder.path()).output();
    let output = output.expect("a shell");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Nobody writes to these pipes. A signal must end the wait for input.
#[cfg(unix)]
#[test]
fn a_pipe_that_nobody_writes_to_can_be_interrupted() {
    let folder = folder();
    let made =
        std::process::Command::new("mkfifo").args(["r.toml", "a.txt"]).current_dir(folder.path()).status();
    assert!(made.expect("mkfifo").success());
    for arguments in [&["run", "r.toml"][..], &["plan", "r.toml"], &["count", "a.txt", "-o", "c.parquet"]] {
        let program = assert_cmd::cargo::cargo_bin("tokenmill");
        let mut waiting = std::process::Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("a run");
        std::thread::sleep(std::time::Duration::from_millis(700));
        let killed = std::process::Command::new("kill").args(["-TERM", &waiting.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        assert_eq!(waiting.wait().expect("an end").code(), Some(143), "{arguments:?}");
    }
}

/// Lines of a log begin with the time in UTC. What a command has done does not, and neither do errors.
#[test]
fn lines_of_a_log_begin_with_the_time() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let (said, _) = both(&folder, &["train", "a.txt", "-o", "made", "--merges", "3", "--seed", "3"], 0);
    let after_time = |line: &'static str| {
        let line =
            said.lines().find(|said| said.contains(line)).unwrap_or_else(|| panic!("{line} in\n{said}"));
        let (time, rest) = line.split_once(' ').expect("words");
        let digits = time.replace(|c: char| c.is_ascii_digit(), "0");
        (digits == "0000-00-00T00:00:00Z").then(|| rest.to_owned())
    };
    assert!(after_time("count: ").is_some_and(|rest| rest.starts_with("count: 57 bytes in ")), "{said}");
    assert!(after_time("train: ").is_some_and(|rest| rest.starts_with("train: 3 merges in ")), "{said}");
    assert!(after_time("`seed` has no effect").is_some(), "{said}");
    assert_eq!(after_time("wrote made"), None);
}

/// With `--log-format json`, each line is an object. The guide names all its keys.
#[test]
fn a_log_in_json_has_an_object_on_each_line() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = ["train", "a.txt", "-o", "made", "--merges", "3", "--seed", "3", "--log-format", "json"];
    let (said, printed) = both(&folder, &train, 0);
    assert!(printed.is_empty(), "{printed}");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let stages: Vec<&str> = lines.iter().filter_map(|line| line["stage"].as_str()).collect();
    assert_eq!(stages, ["count", "prepare", "train"]);
    let trained = lines.iter().find(|line| line["stage"] == "train").expect("training");
    assert_eq!(
        (&trained["done"], &trained["total"], &trained["unit"]),
        (&json!(3), &json!(3), &json!("merges"))
    );
    assert_eq!((&trained["level"], &trained["state"]), (&json!("progress"), &json!("finished")));
    let with = |message: &str| lines.iter().find(|line| line["message"].as_str().unwrap().contains(message));
    assert!(with("`seed` has no effect").is_some_and(|line| line["level"] == "info"), "{said}");
    assert!(with("wrote made").is_some_and(|line| line["level"] == "info"), "{said}");
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide.md")).expect("the guide");
    let (_, section) = guide.split_once("### Messages for programs").expect("the section");
    for key in lines.iter().flat_map(|line| line.as_object().expect("an object").keys()) {
        assert!(section.contains(&format!("`{key}`")), "{key}");
    }
    // Nothing but errors is said with `--quiet`.
    assert_eq!(both(&folder, &[&train[..], &["--quiet"]].concat(), 0).0, "");
}

/// Runs a command that must fail, and returns the one object on standard error.
#[track_caller]
fn error_of(folder: &TempDir, arguments: &[&str], code: i32) -> Value {
    let (said, _) = both(folder, arguments, code);
    let error: Value =
        serde_json::from_str(said.trim_end()).unwrap_or_else(|_| panic!("{arguments:?}: {said}"));
    assert_eq!((&error["level"], &error["exit_code"]), (&json!("error"), &json!(code)), "{error}");
    error
}

/// With `--json`, errors are JSON as well: of an input, of flags, of a recipe, and of the command line itself.
#[test]
fn errors_are_json_with_json() {
    let folder = folder();
    let count = ["count", "missing.txt", "-o", "c.parquet"];
    for more in [&["--json"][..], &["--log-format", "json"], &["--log-format=json"], &["--json", "--quiet"]] {
        let error = error_of(&folder, &[&count[..], more].concat(), 1);
        assert_eq!((&error["kind"], &error["place"]), (&json!("failed"), &Value::Null), "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains("missing.txt")), "{error}");
    }
    write(&folder, "none.toml", "");
    let cause = error_of(&folder, &["run", "no.toml", "--json"], 1);
    assert!(cause["causes"][0].as_str().is_some_and(|cause| cause.contains("No such file")), "{cause}");

    write(
        &folder,
        "one.toml",
        "source = { uri = \"a\", colum = \"b\" }\ntrain = { merges = 3 }\noutput = { dir = \"o\" }\n",
    );
    let one = error_of(&folder, &["plan", "one.toml", "--json"], 2);
    assert_eq!(one["kind"], "usage");
    assert!(one["place"].as_str().is_some_and(|place| place.starts_with("one.toml:1:")), "{one}");
    assert!(one["help"].as_str().is_some_and(|help| help.contains("column")), "{one}");
    write(&folder, "two.toml", "wrong = 1\nnonsense = 2\n");
    let two = error_of(&folder, &["plan", "two.toml", "--json"], 2);
    let mistakes = two["mistakes"].as_array().expect("a list");
    assert!(mistakes.len() >= 2 && mistakes[0]["message"].is_string(), "{two}");
    assert_eq!(two["message"], format!("{} mistakes", mistakes.len()));

    let flag = error_of(&folder, &["count", "a.txt", "--wrong", "--json"], 2);
    assert_eq!(flag["message"], "unexpected argument '--wrong' found");
    assert!(flag["help"].as_str().is_some_and(|help| help.contains("Usage: ")), "{flag}");
    let (said, _) = both(&folder, &["count", "missing.txt", "-o", "c.parquet"], 1);
    assert!(said.starts_with("error: "), "{said}");
}
