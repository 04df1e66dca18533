//! Parity-aware training from recipes and flags.

use super::*;

/// Two languages with different amounts of text, and a development text for each.
fn texts() -> TempDir {
    let folder = folder();
    let en = "how much wood would a woodchuck chuck if a woodchuck could chuck wood\n";
    write(&folder, "en.txt", en.repeat(40));
    write(&folder, "el.txt", "τη γλώσσα μου έδωσαν ελληνική, το σπίτι φτωχικό\n".repeat(20));
    write(&folder, "en.dev.txt", "a woodchuck would chuck wood\n");
    write(&folder, "el.dev.txt", "η γλώσσα μου ελληνική\n");
    folder
}

fn report(folder: &TempDir, output: &str) -> serde_json::Value {
    let text = fs::read_to_string(folder.path().join(output).join("report.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

fn tokenizer(folder: &TempDir, output: &str) -> String {
    fs::read_to_string(folder.path().join(output).join("tokenizer.json")).expect("a tokenizer")
}

const RECIPE: &str = r#"
[[source]]
uri = "en.txt"

[[source]]
uri = "el.txt"

[train]
merges = 30
parity = { development = ["en.dev.txt", "el.dev.txt"], window = 10, alpha = 1.5, global_merges = 3 }

[output]
dir = "out"
"#;

#[test]
fn recipes_and_flags_train_the_same_tokenizer() {
    let folder = texts();
    write(&folder, "run.toml", RECIPE);
    tokenmill(&folder).args(["run", "run.toml"]).assert().success();
    let texts = ["--parity", "--development", "en.dev.txt", "--development", "el.dev.txt"];
    let flags =
        ["--merges", "30", "--window", "10", "--alpha", "1.5", "--global-merges", "3", "--threads", "1"];
    let args = ["train", "en.txt", "el.txt", "-o", "flags"];
    tokenmill(&folder).args(args).args(texts).args(flags).assert().success();
    assert_eq!(tokenizer(&folder, "out/tokenizer"), tokenizer(&folder, "flags"));
    let (recipe, flags) = (report(&folder, "out"), report(&folder, "flags"));
    assert_eq!(recipe["training"]["parity"], flags["training"]["parity"]);
    let parity = &recipe["training"]["parity"];
    assert_eq!(parity["sources"].as_array().map(Vec::len), Some(2));
    for figure in ["worst_to_best", "plain_worst_to_best"] {
        assert!(parity[figure].as_f64() >= Some(1.0), "{parity}");
    }
    let verify = ["verify-merges", "flags", "--on", "en.txt", "el.txt"];
    let said = tokenmill(&folder).args(verify).output().expect("a run");
    assert!(String::from_utf8_lossy(&said.stderr).contains("trained with parity"), "{said:?}");
    // A changed development text is another job.
    write(&folder, "el.dev.txt", "η γλώσσα\n");
    let said = tokenmill(&folder).args(["run", "run.toml"]).output().expect("a run");
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("the input"), "{said:?}");
}

#[test]
fn counts_files_are_balanced_as_their_texts_are() {
    let folder = texts();
    for name in ["en", "el"] {
        let counts = format!("{name}.parquet");
        tokenmill(&folder).args(["count", &format!("{name}.txt"), "-o", &counts]).assert().success();
    }
    let rules = ["--merges", "30", "--parity", "--ratio", "1,1.25"];
    tokenmill(&folder).args(["train", "en.txt", "el.txt", "-o", "text"]).args(rules).assert().success();
    let counts = ["train", "--from-counts", "en.parquet", "--from-counts", "el.parquet", "-o", "counts"];
    tokenmill(&folder).args(counts).args(rules).assert().success();
    assert_eq!(tokenizer(&folder, "text"), tokenizer(&folder, "counts"));
    let plain = ["--merges", "30", "--tie-break", "bytes-smallest"];
    tokenmill(&folder).args(["train", "en.txt", "el.txt", "-o", "plain"]).args(plain).assert().success();
    let global = ["--parity", "--global-merges", "30"];
    let args = ["train", "en.txt", "el.txt", "-o", "global"];
    tokenmill(&folder).args(args).args(plain).args(global).assert().success();
    assert_eq!(tokenizer(&folder, "plain"), tokenizer(&folder, "global"));
}

#[test]
fn parity_that_makes_no_sense_is_refused() {
    let folder = texts();
    write(&folder, "empty.txt", "");
    let two = ["en.txt", "el.txt"];
    for (inputs, flags, part) in [
        (&two[..1], &[][..], "needs two sources or more"),
        (&two, &["--score", "count-length"], "cannot be combined with the score count-length"),
        (&two, &["--tie-break", "first"], "the tie rule `first`"),
        (&two, &["--split", "none"], "needs a split"),
        (&two, &["--max-words", "2"], "cannot be combined with `--max-words`"),
        (&two, &["--take", "10"], "a sample of all sources"),
        (&two, &["--ratio", "1"], "`--ratio` has 1 values for 2 sources"),
        (&two, &["--development", "en.dev.txt"], "`--development` has 1 values for 2 sources"),
        (&two, &["--window", "0"], "`--window` cannot be 0"),
        (&two, &["--alpha", "2"], "`--alpha` has no effect without `--window`"),
        (&two, &["--window", "9", "--alpha", "0.5"], "`--alpha` is 0.5, but must be 1 or more"),
        (&["en.txt", "empty.txt"], &[], "empty.txt has no text"),
        (&two, &["--stage", "gpt4:300", "--stage", "superword:310"], "cannot be combined with `--stage`"),
    ] {
        let args = [&["train"], inputs, &["-o", "out", "--merges", "9", "--parity"], flags].concat();
        let run = tokenmill(&folder).args(args).output().expect("a run");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && said.contains(part), "{flags:?}: {said}");
    }
    assert!(!folder.path().join("out").exists());
}
