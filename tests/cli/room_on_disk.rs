//! The room that an output takes, estimated before it is written.

use std::io::Write;

use super::*;

#[track_caller]
fn printed(folder: &TempDir, arguments: &[&str]) -> serde_json::Value {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    assert!(output.status.success(), "{arguments:?} said\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Bytes of the data files in `out`, with their indexes.
fn written(folder: &TempDir) -> u64 {
    let data = files(&folder.path().join("out/data"));
    data.iter().map(|path| fs::metadata(path).expect("a file").len()).sum()
}

/// What `plan` says of the output of a recipe, and what a run of it writes.
fn estimated_and_written(folder: &TempDir, recipe: &str) -> (u64, u64) {
    write(folder, "r.toml", recipe);
    let plan = printed(folder, &["plan", "r.toml", "--json"]);
    assert_eq!(plan["disk_measured"], true, "{recipe}: {plan}");
    let (code, said) = ended(folder, &["run", "r.toml"]);
    assert_eq!(code, Some(0), "{recipe}: {said}");
    let found = (plan["disk_bytes"].as_u64().expect("a number"), written(folder));
    fs::remove_dir_all(folder.path().join("out")).expect("an output");
    found
}

#[track_caller]
fn is_close((estimated, written): (u64, u64), of: &str) {
    let (low, high) = (written - written * 15 / 100, written + written * 15 / 100);
    assert!((low..=high).contains(&estimated), "{of}: {estimated} of {written}");
}

#[test]
fn estimates_are_close_to_what_is_written() {
    let folder = folder();
    let words = ["the cat", "sat on", "über den", "Bäumen", "日本語の", "文章", "and then", "it was told"];
    let line = |n: usize| -> String {
        let word = |k: usize| words[(n * n / 7 + k * k + n * k) % words.len()];
        (0..4 + n % 9).map(word).collect::<Vec<_>>().join(" ")
    };
    let text: String = (0..3000).map(|n| line(n) + "\n").collect();
    write(&folder, "a.txt", &text);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).expect("memory");
    write(&folder, "a.txt.gz", packed.finish().expect("memory"));
    let rows: String = text
        .lines()
        .map(|line| serde_json::json!({ "text": line, "id": line.len() }).to_string() + "\n")
        .collect();
    write(&folder, "a.jsonl", rows);
    let lines: Vec<Option<&str>> = text.lines().map(Some).collect();
    write_parquet(&folder, "a.parquet", &lines);
    let demo = "uri = \"demo:verse?lines=5000\", column = \"line\"";
    let plain = "uri = \"a.txt\", documents = \"line\"";
    for (source, train, encode, format) in [
        (plain, "merges = 60", "", "parquet"),
        (plain, "merges = 60, special_tokens = [\"<e>\"]", "eos = \"<e>\"", "bin"),
        (plain, "merges = 20, split = \"none\"", "", "megatron"),
        (plain, "merges = 60", "pack = \"best-fit\", length = 64", "parquet"),
        ("uri = \"a.txt\"", "merges = 60", "", "bin"),
        ("uri = \"a.txt.gz\", documents = \"line\"", "merges = 60", "", "parquet"),
        ("uri = \"a.txt.gz\"", "merges = 60", "", "bin"),
        ("uri = \"a.jsonl\"", "merges = 60", "columns = [\"id\"]", "parquet"),
        ("uri = \"a.parquet\"", "merges = 60", "columns = [\"id\"]", "parquet"),
        (demo, "merges = 300", "columns = [\"gutenberg_id\"]", "parquet"),
        (demo, "merges = 300", "", "bin"),
    ] {
        let recipe = format!(
            "source = {{ {source} }}\ntrain = {{ {train} }}\nencode = {{ {encode} }}\n\
             output = {{ dir = \"out\", format = \"{format}\" }}\n"
        );
        is_close(estimated_and_written(&folder, &recipe), &recipe);
    }
}

/// More text than is looked at, with a tokenizer that is given and with one that is yet to be learned; and text that changes
/// in the middle, of which the beginning alone would tell the wrong.
#[test]
fn estimates_of_parts_are_close_to_what_is_written() {
    let folder = folder();
    let line = |n: usize| {
        if n < 60_000 {
            format!("{n} and {}: the cat sat\n", n * 7919)
        } else {
            "日本語の文章を書く猫\n".repeat(4)
        }
    };
    let text: String = (0..120_000).map(line).collect();
    assert!(text.len() > 8 << 20, "{}", text.len());
    write(&folder, "a.txt", &text);
    let source = "source = { uri = \"a.txt\", documents = \"line\" }\n";
    let output = "output = { dir = \"out\", format = \"bin\" }\n";
    let recipe = format!("{source}train = {{ merges = 200 }}\nencode = {{}}\n{output}");
    is_close(estimated_and_written(&folder, &recipe), &recipe);
    let train =
        ["train", "a.txt", "-o", "made", "--merges", "30", "--max-bytes", "200000", "--documents", "line"];
    assert_eq!(ended(&folder, &train).0, Some(0));
    let recipe = format!("{source}encode = {{ tokenizer = \"made\" }}\n{output}");
    is_close(estimated_and_written(&folder, &recipe), &recipe);
}

#[test]
fn what_cannot_fit_is_refused_before_the_first_byte() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "1"]).0, Some(0));
    let source = "source = { uri = \"demo:verse?lines=17179869184\", column = \"line\" }\n";
    let recipe = format!(
        "{source}encode = {{ tokenizer = \"made\" }}\noutput = {{ dir = \"out\", format = \"bin\" }}\n"
    );
    write(&folder, "r.toml", recipe);
    let plan = printed(&folder, &["plan", "r.toml", "--json"]);
    let (need, free) = (&plan["disk_bytes"], &plan["disk_free_bytes"]);
    let (Some(need), Some(free)) = (need.as_u64(), free.as_u64()) else { panic!("{plan}") };
    let most = 2 * 43 * (1 << 34) + 8 * (1 << 34);
    assert!(
        (most - most / 7..most + most / 7).contains(&need),
        "a token for each byte, and documents: {need}"
    );
    if need / 2 <= free {
        return; // Here it may fit.
    }
    let output = tokenmill(&folder).args(["plan", "r.toml"]).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(" TB on disk, more than the") && said.contains("that are free"), "{said}");
    refuses(
        &folder,
        &["run", "r.toml"],
        7,
        &["out: the token ids need about", "are free", "free some space"],
    );
    let encode = ["encode", "demo:verse?lines=17179869184", "--column", "line", "-t", "made", "-o", "out"];
    refuses(
        &folder,
        &[&encode[..], &["--output-format", "bin"]].concat(),
        7,
        &["out: the token ids need about"],
    );
}

/// If there is no room for the rest of the ids, the message says how much is missing.
#[cfg(unix)]
#[test]
fn what_is_missing_for_the_rest_is_told() {
    let folder = folder();
    write(&folder, "a.txt", TEXT.repeat(4_000));
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "0"]).0, Some(0));
    let script = "ulimit -f 100; exec \"$0\" encode a.txt -t made -o ids --output-format bin --quiet";
    let limited = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_tokenmill")])
        .current_dir(folder.path())
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(7), "{said}");
    for part in ["the token ids need about", "more than is written: raise the limit on file size"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
