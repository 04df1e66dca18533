//! `--dry-run`, `--print-recipe`, and the commands that `plan` shows: what a job would do, and its other spelling.

use serde_json::Value;

use super::*;

/// A folder with texts, a chat template and a tokenizer.
fn prepared() -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT.repeat(3));
    write(&folder, "b.txt", "hickory dickory dock\nthe mouse ran up the clock\n");
    write(&folder, "chat.jinja", "{{ messages }}");
    both(&folder, &["train", "a.txt", "-o", "made", "--vocab-size", "270", "--special-token", "<end>"], 0);
    folder
}

/// The files below a folder, by their paths within it, without those that contain times.
fn contents(folder: &TempDir, name: &str) -> Vec<(String, Vec<u8>)> {
    let root = folder.path().join(name);
    let mut found: Vec<(String, Vec<u8>)> = files(&root)
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).expect("a file");
            (path[root.display().to_string().len()..].to_owned(), bytes)
        })
        .filter(|(name, _)| {
            !name.contains("report.") && !name.contains(".tokenmill") && name != "/manifest.json"
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{name} has files");
    found
}

/// Checks that the recipe which flags print writes nothing when it is printed, and then the same files as the flags do.
/// The recipe's are in the folder `made`.
#[track_caller]
fn same_by_printed_recipe(folder: &TempDir, flags: &[&str], made: &str) {
    let (_, recipe) = both(folder, &[flags, &["--print-recipe"]].concat(), 0);
    assert!(!folder.path().join("out").exists(), "nothing is written");
    write(folder, "printed.toml", &recipe);
    both(folder, flags, 0);
    let by_flags = contents(folder, "out");
    fs::remove_dir_all(folder.path().join("out")).expect("it goes");
    both(folder, &["run", "printed.toml"], 0);
    assert_eq!(contents(folder, made), by_flags, "{recipe}");
    fs::remove_dir_all(folder.path().join("out")).expect("it goes");
}

/// The printed recipe of `encode` writes the same bytes as the flags.
#[test]
fn a_printed_recipe_encodes_as_its_flags() {
    let folder = prepared();
    for flags in [
        &["--eos", "<end>", "--documents", "line", "--seed", "3", "--shuffle-buffer", "9", "--skip", "1"][..],
        &["--separator", "\nth", "--split-name", "test", "--pack", "best-fit", "--length", "16"],
        &["--output-format", "bin", "--one-file", "--special", "forbid", "--threads", "2", "--memory", "1GB"],
        &[
            "--file-text-bytes",
            "12345",
            "--compression",
            "fast",
            "--on-bad-input",
            "skip",
            "--max-bytes",
            "1MB",
        ],
    ] {
        let inputs = ["encode", "a.txt", "b.txt", "-t", "made", "-o", "out"];
        let flags = [&inputs, flags].concat();
        same_by_printed_recipe(&folder, &flags, "out");
    }
}

/// The printed recipe of `train` writes the same tokenizer, and flags that no recipe has are refused.
#[test]
fn a_printed_recipe_trains_as_its_flags() {
    let folder = prepared();
    let regex = r#"\p{L}+|"[^"]*"|\s|[^\s\p{L}]"#;
    for flags in [
        &[
            "--vocab-size",
            "265,270",
            "--special-token",
            "<end>",
            "--eos",
            "<end>",
            "--formats",
            "hf,tiktoken",
        ][..],
        &["--merges", "9", "--split-regex", regex, "--score", "conditional:1,0,2", "--min-frequency", "1"],
        &["--merges", "9", "--weight", "2", "--weight", "0.25", "--tie-break", "hf", "--boundary", "join"],
        &["--merges", "4", "--chat-template", "chat.jinja", "--pad", "<pad>", "--model-max-length", "64"],
    ] {
        let flags = [&["train", "a.txt", "b.txt", "-o", "out"], flags].concat();
        same_by_printed_recipe(&folder, &flags, "out/tokenizer");
    }
    both(&folder, &["count", "a.txt", "-o", "counts.parquet"], 0);
    for (flags, said) in [
        (&["--from-counts", "counts.parquet"][..], "`--from-counts` has no key in recipes"),
        (&["a.txt", "--extend", "made"], "`--extend` has no key in recipes"),
        (&["${HOME}/a.txt"], "which a recipe takes for a variable"),
    ] {
        let flags = [&["train", "-o", "out", "--merges", "9", "--print-recipe"], flags].concat();
        refuses(&folder, &flags, 2, &[said]);
    }
}

/// Mistakes in flags are found before a recipe is printed. With `--json` it is a text.
#[test]
fn only_recipes_without_mistakes_are_printed() {
    let folder = prepared();
    let encode = ["encode", "a.txt", "-t", "made", "-o", "out", "--print-recipe"];
    let (_, printed) = both(&folder, &[&encode[..], &["--json"]].concat(), 0);
    let json: Value = serde_json::from_str(&printed).expect("JSON");
    let expected = "[source]\nuri = \"a.txt\"\n\n[encode]\ntokenizer = \"made\"\n\n[output]\ndir = \"out\"\n";
    assert_eq!(json["recipe"], expected);
    refuses(&folder, &[&encode[..], &["--pack", "concat"]].concat(), 2, &["--length"]);
    refuses(&folder, &[&encode[..], &["--dry-run"]].concat(), 2, &["cannot be used with"]);
}

/// A dry run shows what the job would do, writes nothing, and ends as the checks of the job would.
#[test]
fn a_dry_run_writes_nothing_and_ends_as_the_job_would() {
    let folder = prepared();
    let before = files(folder.path());
    let encode = ["encode", "a.txt", "-t", "made", "-o", "out"];
    let (_, shown) = both(&folder, &[&encode[..], &["--dry-run"]].concat(), 0);
    for line in
        ["source   a.txt: 1 part", "encode   with made, 1 file", "output   out: no complete result yet"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    let train = ["train", "a.txt", "--merges", "5", "--dry-run", "-o"];
    let (_, shown) = both(&folder, &[&train[..], &["new"]].concat(), 0);
    assert!(shown.contains("train    5 merges by count, split gpt4"), "{shown}");
    let (_, shown) = both(&folder, &[&train[..], &["made"]].concat(), 0);
    assert!(shown.contains("output   made: holds a tokenizer, which is replaced"), "{shown}");
    let (_, shown) = both(&folder, &["count", "a.txt", "-o", "c.parquet", "--dry-run"], 0);
    assert!(shown.contains("output   c.parquet: no counts yet"), "{shown}");
    for (arguments, said) in [
        (&["encode", "gone.txt", "-t", "made", "-o", "out"][..], "gone.txt"),
        (&["encode", "a.txt", "-t", "gone", "-o", "out"], "gone"),
        (&["encode", "a.txt", "-t", "made", "-o", "a.txt"], "a.txt is a file"),
        (&["encode", "a.txt", "-t", "made", "-o", "made"], "holds a tokenizer"),
        (&["train", "a.txt", "--merges", "5", "-o", "a.txt"], "a.txt is a file"),
        (&["count", "a.txt", "-o", "b.txt"], "b.txt"),
    ] {
        let [job, dry] = [&[][..], &["--dry-run"]].map(|more| {
            let output = tokenmill(&folder).args(arguments).args(more).output().expect("a run");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        });
        assert_ne!(job.0, Some(0), "{arguments:?}");
        assert_eq!(dry, job, "the same refusal");
        assert!(dry.1.contains(said), "{}", dry.1);
    }
    assert_eq!(files(folder.path()), before);

    both(&folder, &encode, 0);
    let (_, shown) = both(&folder, &[&encode[..], &["--dry-run"]].concat(), 0);
    assert!(shown.contains("output   out: the result is complete"), "{shown}");
    let other = ["encode", "b.txt", "-t", "made", "-o", "out"];
    let (told, _) = both(&folder, &other, 2);
    let (dry, shown) = both(&folder, &[&other[..], &["--dry-run"]].concat(), 2);
    assert_eq!(dry, told, "the same refusal");
    assert!(shown.contains("holds the result of another run"), "{shown}");
    both(&folder, &[&other[..], &["--dry-run", "--force"]].concat(), 0);
}

/// The commands that `plan` shows write the tokenizer and the ids that the recipe writes.
#[test]
fn the_commands_of_a_plan_do_what_the_recipe_does() {
    for recipe in [
        "[[source]]\nuri = \"a.txt\"\nweight = 2\n[[source]]\nuri = \"b.txt\"\n\
         [train]\nvocab_size = 270\nspecial_tokens = [\"<end>\", \"-x\"]\nchat_template = \"chat.jinja\"\n\
         [encode]\neos = \"<end>\"\ndocuments = \"all\"\n[sample]\ntake = 1\n[output]\ndir = \"out\"\n",
        "[source]\nuri = \"a.txt\"\ndocuments = { separator = \" the \" }\n[encode]\ntokenizer = \"made\"\nbos = false\n\
         special = \"allow\"\n[output]\ndir = \"out\"\nformat = \"megatron\"\n[run]\nthreads = 1\n",
        "[source]\nuri = \"*.txt\"\ndocuments = \"line\"\n[train]\nmerges = 12\nsplit = { regex = '\\p{L}+|\\P{L}' }\n\
         score = { conditional = { p = 1, q = 0, r = 1 } }\nformats = [\"hf\", \"minbpe\"]\n[output]\ndir = \"out\"\n",
    ] {
        let [by_recipe, by_flags] = [prepared(), prepared()];
        write(&by_recipe, "r.toml", recipe);
        both(&by_recipe, &["run", "r.toml"], 0);
        write(&by_flags, "r.toml", recipe);
        let (_, printed) = both(&by_flags, &["plan", "r.toml", "--json"], 0);
        let plan: Value = serde_json::from_str(&printed).expect("JSON");
        let (_, shown) = both(&by_flags, &["plan", "r.toml"], 0);
        for command in plan["commands"].as_array().expect("commands") {
            let line = command.as_str().expect("a line");
            assert!(shown.contains(line), "{shown}");
            let program = assert_cmd::cargo::cargo_bin("tokenmill");
            let line = line.replacen("tokenmill", &format!("'{}'", program.display()), 1);
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", &line]).current_dir(by_flags.path()).output().expect("a shell");
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        if recipe.contains("[train]") {
            let tokenizers = [&by_recipe, &by_flags].map(|folder| {
                let all = contents(folder, "out/tokenizer").into_iter();
                // The record names the recipe.
                all.filter(|(name, _)| name != "/training.json").collect::<Vec<_>>()
            });
            assert_eq!(tokenizers[0], tokenizers[1], "{shown}");
        }
        if recipe.contains("[encode]") {
            let tokens = [&by_recipe, &by_flags].map(|folder| {
                let tokenizer = if recipe.contains("[train]") { "out/tokenizer" } else { "made" };
                let facts = both(folder, &["inspect", "out", "--json"], 0).1;
                let facts: Value = serde_json::from_str(&facts).expect("JSON");
                let totals = ["rows", "tokens", "text_bytes", "bytes"].map(|key| facts[key].clone());
                (totals, both(folder, &["decode", "out", "-t", tokenizer], 0).1)
            });
            assert_eq!(tokens[0], tokens[1], "{shown}");
        }
    }
}

/// A recipe with keys that no flag sets is said to have no commands, and the keys are named.
#[test]
fn keys_without_a_flag_are_named() {
    let folder = prepared();
    for (sources, said) in [
        (
            "[source]\nuri = \"a.txt\"\ntake = 1\n",
            "flags    none do the same: no flag sets `take` of a source",
        ),
        (
            "[[source]]\nuri = \"a.txt\"\ndocuments = \"line\"\n[[source]]\nuri = \"b.txt\"\nmax_bytes = 9\n",
            "no flag sets `documents`, which sources have differently, nor `max_bytes` of a source",
        ),
    ] {
        write(&folder, "r.toml", format!("{sources}[train]\nmerges = 3\n[output]\ndir = \"out\"\n"));
        let (_, shown) = both(&folder, &["plan", "r.toml"], 0);
        assert!(shown.contains(said), "{shown}");
        let (_, printed) = both(&folder, &["plan", "r.toml", "--json"], 0);
        let plan: Value = serde_json::from_str(&printed).expect("JSON");
        assert!(plan["commands"].is_null() && plan["without_flag"].is_array(), "{plan}");
    }
}
