//! The help of every command: its size, its examples, and the flags that it lists; the version; colours; numbers.

use super::*;

const COMMANDS: [&str; 20] = [
    "run",
    "train",
    "encode",
    "decode",
    "tokens",
    "plan",
    "inspect",
    "explore",
    "compare",
    "convert",
    "verify",
    "push",
    "verify-merges",
    "bench",
    "count",
    "merge-counts",
    "merge",
    "completions",
    "schema",
    "man",
];

/// Examples that are not run, each with the reason.
const NOT_RUN: [(&str, &str); 3] = [
    ("tokenmill tokens -t hf://openai-community/gpt2 \"How is this cut?\"", "it needs the network"),
    ("tokenmill push my-tokenizer hf://me/my-tokenizer", "it needs the network"),
    ("tokenmill push tokens hf://datasets/me/tokens --private --dry-run", "it needs the network"),
];

/// What a command prints in a terminal of 80 columns.
#[track_caller]
fn printed(folder: &TempDir, arguments: &[&str]) -> String {
    let output = tokenmill(folder).env("COLUMNS", "80").args(arguments).output().expect("a run");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The short help fits on a screen of 40 lines with 80 columns. The long help of a command with rare flags has more.
#[test]
fn short_help_fits_on_a_screen() {
    let folder = folder();
    let helps = COMMANDS.iter().map(|command| vec![*command, "-h"]).chain([vec!["-h"]]);
    let mut too_long = Vec::new();
    for arguments in helps {
        let help = printed(&folder, &arguments);
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if help.lines().count() > 40 || widest > 80 {
            too_long.push(format!("{arguments:?}: {} lines, {widest} columns\n{help}", help.lines().count()));
        }
    }
    assert!(too_long.is_empty(), "{}", too_long.concat());
    assert!(!printed(&folder, &["train", "-h"]).contains("--tie-break"));
    assert!(printed(&folder, &["train", "--help"]).contains("--tie-break"));
}

/// The program's help has every command once, the everyday ones first.
#[test]
fn commands_are_listed_in_groups() {
    let help = printed(&folder(), &["-h"]);
    let listed: Vec<&str> = help
        .lines()
        .filter_map(|line| {
            line.strip_prefix("  ").filter(|line| line.starts_with(|c: char| c.is_lowercase()))
        })
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(listed, [&COMMANDS[..], &["help"]].concat(), "{help}");
    assert!(help.contains("Everyday commands:\n  run "), "{help}");
}

/// Every command has an example, and each example runs.
#[test]
fn examples_run() {
    let mut not_run = Vec::new();
    for command in COMMANDS {
        let help = printed(&folder(), &[command, "-h"]);
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{command} has no example:\n{help}");
        for example in examples {
            assert!(example.starts_with(&format!("tokenmill {command}")), "{example}");
            if NOT_RUN.iter().any(|(known, _)| *known == example) {
                not_run.push(example);
                continue;
            }
            let folder = prepared();
            let (code, said) = shell(&folder, &example);
            assert_eq!(code, Some(0), "$ {example}\n{said}");
        }
    }
    assert_eq!(not_run.len(), NOT_RUN.len(), "{not_run:?}");
}

/// The examples at the end of a help. A line that ends with a backslash goes on in the next one.
fn examples(help: &str) -> Vec<String> {
    let after = help.split_once("Examples:\n").or_else(|| help.split_once("Example:\n"));
    let (_, examples) = after.unwrap_or(("", ""));
    let mut found: Vec<String> = Vec::new();
    for line in examples.lines().map(str::trim) {
        match found
            .last_mut()
            .and_then(|last| last.strip_suffix('\\').map(str::to_owned).map(|begun| (last, begun)))
        {
            Some((last, begun)) => *last = begun + line,
            None => found.push(line.to_owned()),
        }
    }
    found
}

/// A folder with everything that examples name as an input.
fn prepared() -> TempDir {
    let folder = folder();
    fs::create_dir(folder.path().join("corpus")).expect("a writable folder");
    write(&folder, "corpus/a.txt", TEXT.repeat(9));
    write(&folder, "texts.jsonl", "{\"text\": \"the cat sat on the mat\"}\n");
    let recipe =
        "source = { uri = \"corpus/*.txt\" }\ntrain = { vocab_size = 300 }\noutput = { dir = \"out\" }\n";
    write(&folder, "recipe.toml", recipe);
    for command in [
        "tokenmill train 'demo:verse?lines=1000' -o my-tokenizer --vocab-size 400 --eos '<end>'",
        "tokenmill train 'demo:verse?lines=1000' -o other-tokenizer --vocab-size 500",
        "tokenmill encode 'demo:verse?lines=1000' -t my-tokenizer -o tokens",
        "tokenmill encode 'demo:verse?lines=1000' -t my-tokenizer -o shards/1 --shard 1/2",
        "tokenmill encode 'demo:verse?lines=1000' -t my-tokenizer -o shards/2 --shard 2/2",
        "tokenmill count 'demo:verse?lines=1000' -o counts.parquet",
        "tokenmill count 'demo:verse?lines=1000&seed=2' -o more.parquet",
    ] {
        let (code, said) = shell(&folder, command);
        assert_eq!(code, Some(0), "$ {command}\n{said}");
    }
    folder
}

/// Runs a command in a shell, and returns its exit code and everything that it prints.
fn shell(folder: &TempDir, command: &str) -> (Option<i32>, String) {
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let programs = program.parent().expect("a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{command} 2>&1")]).current_dir(folder.path()).env("PATH", path);
    let output = shell.output().expect("a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command's help lists no global flag that has no effect on it. The flag is accepted all the same.
#[test]
fn global_flags_are_listed_where_they_apply() {
    let folder = folder();
    for (command, flag, is_listed) in [
        ("train", "--memory", true),
        ("tokens", "--memory", false),
        ("tokens", "--threads", false),
        ("tokens", "--json", true),
        ("verify", "--threads", true),
        ("verify", "--memory", false),
        ("merge-counts", "--memory", true),
        ("schema", "--json", false),
        ("schema", "--color", true),
    ] {
        let help = printed(&folder, &[command, "--help"]);
        assert_eq!(help.contains(&format!("      {flag}")), is_listed, "{command} {flag}\n{help}");
    }
    printed(&folder, &["schema", "--threads", "2"]);
    printed(&folder, &["--threads", "2", "schema"]);
}

/// `--version` is one line. With `--verbose` it also names the build and the CPU's instructions.
#[test]
fn the_version_tells_more_if_asked() {
    let folder = folder();
    let version = format!("tokenmill {}\n", env!("CARGO_PKG_VERSION"));
    for arguments in [&["--version"][..], &["-V"], &["train", "--version"]] {
        assert!(printed(&folder, arguments).ends_with(&version[10..]), "{arguments:?}");
    }
    for arguments in [&["--version", "--verbose"][..], &["-V", "-v"], &["-v", "-V"], &["-vV"]] {
        let told = printed(&folder, arguments);
        assert!(told.starts_with(&version), "{told}");
        for name in ["commit  ", "features  ", "instructions  "] {
            assert_eq!(told.lines().filter(|line| line.starts_with(name)).count(), 1, "{told}");
        }
        let hub = told.lines().any(|line| line.starts_with("features") && line.contains("hub"));
        assert_eq!(hub, cfg!(feature = "hub"), "{told}");
    }
}

/// Colours are printed where they are asked for: by `--color`, else by variables, else by a terminal.
#[test]
fn colours_can_be_chosen() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3", "-q"]).0, Some(0));
    let tokens = ["tokens", "-t", "made", "-q", "the"];
    let none: &[(&str, &str)] = &[];
    for (variables, flags, coloured) in [
        (none, &[][..], false),
        (none, &["--color", "always"], true),
        (none, &["--color=always"], true),
        (none, &["--color", "auto"], false),
        (&[("CLICOLOR_FORCE", "1")], &[], true),
        (&[("CLICOLOR_FORCE", "1")], &["--color", "never"], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[], false),
        (&[("NO_COLOR", "1")], &["--color", "always"], true),
    ] {
        for command in [&tokens[..], &["tokens", "-t", "missing", "the"], &["train", "--help"], &["tokens"]] {
            let output = tokenmill(&folder)
                .env_remove("CLICOLOR_FORCE")
                .envs(variables.iter().copied())
                .args([command, flags].concat())
                .output()
                .expect("a run");
            let all = [output.stdout, output.stderr].concat();
            assert_eq!(all.contains(&b'\x1b'), coloured, "{variables:?} {command:?} {flags:?}");
        }
    }
    refuses(&folder, &[&tokens[..], &["--color", "sometimes"]].concat(), 2, &["auto, always, never"]);
}

/// Counts may have underscores and the units k and M. A comma separates two sizes.
#[test]
fn counts_are_read_with_units() {
    let folder = folder();
    write(&folder, "a.txt", TEXT.repeat(50));
    let train = ["train", "a.txt", "-o", "made", "--json"];
    for (flags, tokens) in [(["--vocab-size", "2_6_5"], 265), (["--merges", "1_0"], 266)] {
        let output = tokenmill(&folder).args([&train[..], &flags].concat()).output().expect("a run");
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(made["vocab_size"], tokens, "{flags:?}");
    }
    write(
        &folder,
        "r.toml",
        "source = { uri = \"a.txt\" }\ntrain = { merges = 3 }\noutput = { dir = \"out\" }\n",
    );
    for flags in [
        &["--take", "1k"][..],
        &["--skip", "0_0"],
        &["--every", "1_0"],
        &["--shuffle-buffer", "2k"],
        &["--min-frequency", "1_0"],
        &["--max-token-bytes", "1M"],
        &["--history-every", "1k"],
        &["--model-max-length", "2k"],
        &["--threads", "0_2"],
    ] {
        let sample = ["train", "a.txt", "--documents", "line", "--vocab-size", "260,1k", "-q", "-o", "sizes"];
        let (code, said) = ended(&folder, &[&sample[..], flags].concat());
        assert!(code == Some(0) || said.contains("nothing to train on"), "{flags:?}: {said}");
    }
    assert!(printed(&folder, &["inspect", "made", "--merges", "1k"]).contains("261"));
    let counted = printed(&folder, &["count", "demo:verse?lines=1k", "-o", "c.parquet", "--json"]);
    assert!(counted.contains("\"documents\":1000"), "{counted}");
    let unit = "32k (k = 1000)";
    for flags in
        [["--vocab-size", "32,000"], ["--vocab-size", "k"], ["--merges", "32,000"], ["--take", "1e3"]]
    {
        let said = if flags == ["--vocab-size", "32,000"] { "32_000 or 32k" } else { unit };
        refuses(&folder, &[&["train", "a.txt", "-o", "out"], &flags[..]].concat(), 2, &[said]);
    }
    let two = ["train", "a.txt", "-o", "out", "--vocab-size", "32,768"];
    refuses(&folder, &two, 2, &["is 32, too small", "a comma separates two sizes"]);
    refuses(&folder, &["plan", "r.toml", "--threads", "0"], 2, &["range from 1 to"]);
}

/// If no pair is left because of the minimum frequency, a remark names the flag or the key that lowers it.
#[test]
fn the_minimum_frequency_is_named_where_it_ends_training() {
    let folder = folder();
    write(&folder, "a.txt", "the cat the cat on a mat");
    let train = ["train", "a.txt", "-o", "made", "--merges", "900"];
    let remark = "to merge also pairs that occur fewer than 2 times, use ";
    let (_, said) = ended(&folder, &train);
    assert!(said.contains(&format!("{remark}`--min-frequency 1`\n")), "{said}");
    let (_, said) = ended(&folder, &[&train[..], &["--min-frequency", "1"]].concat());
    assert!(said.contains("no pair is left") && !said.contains("to merge also"), "{said}");
    let (_, said) = ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "2"]);
    assert!(!said.contains("to merge also"), "{said}");
    write(
        &folder,
        "r.toml",
        "source = { uri = \"a.txt\" }\ntrain = { merges = 900 }\noutput = { dir = \"out\" }\n",
    );
    let (_, said) = ended(&folder, &["run", "r.toml"]);
    assert!(said.contains(&format!("{remark}`min_frequency = 1` in `[train]`\n")), "{said}");
}
