//! `convert` with `--vocab-size`, `--drop-tokens` and `--ids`, and what `inspect` says about wasted tokens.

use serde_json::{Value, json};

use super::learning::{does, read};
use super::*;

/// A folder with the tokenizer `made`: `<|end|>` with id 0, bytes, and 7 merges that make tokens from id 257 on.
fn with_tokenizer() -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let specials = ["--special-token", "<|end|>", "--special-tokens-at", "start", "--eos", "<|end|>"];
    does(&folder, &[&["train", "a.txt", "-o", "made", "--merges", "7", "--quiet"][..], &specials].concat());
    folder
}

/// The `model` of a tokenizer.json.
fn model(folder: &TempDir, tokenizer: &str) -> Value {
    let file: Value =
        serde_json::from_str(&read(folder, &format!("{tokenizer}/tokenizer.json"))).expect("JSON");
    file["model"].clone()
}

fn inspected(folder: &TempDir, arguments: &[&str]) -> Value {
    let output = tokenmill(folder).arg("inspect").args(arguments).arg("--json").output().expect("a run");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A shortened tokenizer has the first merges, and is the one that training for its size gives.
#[test]
fn a_shortened_tokenizer_has_the_first_merges() {
    let folder = with_tokenizer();
    let said = does(&folder, &["convert", "made", "--to", "hf", "-o", "short", "--vocab-size", "260"]);
    assert!(said.contains("260 tokens are left with their ids, and no id below 260 is unused"), "{said}");
    let (whole, short) = (model(&folder, "made"), model(&folder, "short"));
    assert_eq!(
        short["merges"].as_array().expect("a list"),
        &whole["merges"].as_array().expect("a list")[..3]
    );
    let specials = ["--special-token", "<|end|>", "--special-tokens-at", "start"];
    does(
        &folder,
        &[&["train", "a.txt", "-o", "small", "--vocab-size", "260", "--quiet"][..], &specials].concat(),
    );
    let fingerprint = |tokenizer| inspected(&folder, &[tokenizer])["fingerprint"].clone();
    assert_eq!(fingerprint("short"), fingerprint("small"));
    for (size, said) in [("256", "256 tokens are too few: 257 must stay"), ("265", "has only 264 tokens")] {
        let arguments = ["convert", "made", "--to", "hf", "-o", "out", "--vocab-size", size];
        refuses(&folder, &arguments, 2, &[said]);
    }
}

/// Special tokens at the end keep their ids, or move with `--ids dense`, and new ones count for the size.
#[test]
fn ids_are_kept_or_dense() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    does(
        &folder,
        &["train", "a.txt", "-o", "made", "--merges", "7", "--special-token", "<|end|>", "--quiet"],
    );
    let shorter = ["convert", "made", "--to", "hf", "--vocab-size", "260", "--add-special-token", "<|pad|>"];
    let said = does(&folder, &[&shorter[..], &["-o", "kept"]].concat());
    assert!(said.contains("260 tokens are left with their ids, and 5 ids below 265 are unused"), "{said}");
    let vocab = model(&folder, "kept")["vocab"].clone();
    assert_eq!((&vocab["<|end|>"], &vocab["<|pad|>"]), (&json!(263), &json!(264)));
    let said = does(&folder, &[&shorter[..], &["-o", "dense", "--ids", "dense"]].concat());
    for line in [
        r#"special tokens with new ids: "<|end|>" 258 (before 263)"#,
        r#"special token "<|pad|>" is added with id 259"#,
        "260 tokens are left, 2 of them with new ids",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let vocab = model(&folder, "dense")["vocab"].clone();
    assert_eq!((&vocab["<|end|>"], &vocab["<|pad|>"]), (&json!(258), &json!(259)));
    does(&folder, &["convert", "made", "--to", "minbpe", "-o", "ranks", "--vocab-size", "260"]);
    assert!(read(&folder, "ranks/tokenizer.model").contains("<|end|> 263"));
}

/// Listed tokens go with all that is made of them, and programs get the ids.
#[test]
fn listed_tokens_go_with_all_that_is_made_of_them() {
    let folder = with_tokenizer();
    let all = model(&folder, "made");
    let id = |token: &str| all["vocab"][token].as_u64().unwrap_or_else(|| panic!("{token}: {all}"));
    write(&folder, "drop.txt", "\r\nat\n\"at\"\n");
    let arguments = ["convert", "made", "--to", "hf", "-o", "less", "--drop-tokens", "drop.txt", "--json"];
    let output = tokenmill(&folder).args(arguments).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["removed_tokens"]["listed"], json!([id("at")]), "{said}");
    let less = model(&folder, "less");
    let gone = result["removed_tokens"]["made_of_listed"].as_array().expect("a list");
    assert!(!gone.is_empty(), "{result} {all}");
    let number = |model: &Value| model["vocab"].as_object().expect("tokens").len();
    assert_eq!(number(&less) + gone.len() + 1, number(&all));
    let merges = less["merges"].as_array().expect("a list");
    assert!(merges.iter().all(|merge| !merge.as_str().expect("a merge").contains("at")), "{less}");
    assert!(said.contains("1 listed token removed"), "{said}");
    assert!(said.contains("removed that were made of listed ones: "), "{said}");
    let arguments = ["convert", "made", "--to", "minbpe", "-o", "out", "--drop-tokens", "drop.txt"];
    refuses(&folder, &arguments, 2, &["minbpe cannot hold this vocabulary"]);
}

/// A line that names no token, and a token that must stay, are refused with the line and the reason.
#[test]
fn tokens_that_cannot_go_are_named_with_the_reason() {
    let folder = with_tokenizer();
    write(&folder, "drop.txt", "at\n98\n999\n\"x\nnever\n\u{120}\n<|end|>\n");
    let arguments = ["convert", "made", "--to", "hf", "-o", "out", "--drop-tokens", "drop.txt"];
    let said = [
        "drop.txt: line 2: token 98 (\"a\") cannot be removed: it is byte 0x61, and text with this byte needs it",
        "line 3: no token has id 999",
        "line 4: \"\\\"x\" is not a JSON string",
        "line 5: no token has the text \"never\"",
        "line 6: no token has the text \"\u{120}\" (if it is in the byte alphabet of GPT-2, write \" \")",
    ];
    refuses(&folder, &arguments, 2, &said);
    write(&folder, "drop.txt", "<|end|>\n");
    refuses(
        &folder,
        &arguments,
        2,
        &["token 0 (\"<|end|>\") cannot be removed: it is eos_token in tokenizer_config.json"],
    );
    does(&folder, &["convert", "made", "--to", "tiktoken", "-o", "ranks", "--drop-tokens", "drop.txt"]);
    assert!(!read(&folder, "ranks/tokenizer.tiktoken.json").contains("<|end|>"));
    let missing = ["convert", "made", "--to", "hf", "-o", "out", "--drop-tokens", "none.txt"];
    refuses(&folder, &missing, 1, &["none.txt"]);
}

/// `inspect` lists tokens that no text is encoded to, and tokens that are used as parts only.
#[test]
fn inspect_lists_wasted_tokens() {
    let folder = folder();
    write(&folder, "a.txt", "abcd abcd abcd abcx");
    does(&folder, &["train", "a.txt", "-o", "made", "--merges", "3", "--split", "none", "--quiet"]);
    let waste = inspected(&folder, &["made", "--residue", "0.5"]);
    assert_eq!(waste["unreachable"], json!([]));
    let tokens = waste["residue"]["tokens"].as_array().expect("a list");
    assert_eq!(tokens[0], json!({ "id": 256, "whole": 0, "part": 4, "made_for": 257 }));
    let output = tokenmill(&folder).args(["inspect", "made"]).output().expect("a run");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("'ab'  whole 0, part 4, most often of 'abc'"), "{shown}");
    write(&folder, "ranks.tiktoken", "YQ== 0\nYg== 1\nIA== 2\nYSBi 3\nYWE= 4\nYWFi 5\n");
    let waste = inspected(&folder, &["ranks.tiktoken", "--split", "gpt2"]);
    assert_eq!(waste["unreachable"], json!([{ "id": 3, "reason": "split" }]));
    assert_eq!(waste["residue"], Value::Null);
    write(&folder, "aab.txt", "aab aab");
    let waste = inspected(&folder, &["ranks.tiktoken", "--split", "gpt2", "--text", "aab.txt"]);
    assert_eq!(waste["residue"]["tokens"], json!([{ "id": 4, "whole": 0, "part": 2, "made_for": 5 }]));
    let output = tokenmill(&folder).args(["inspect", "ranks.tiktoken", "--split", "gpt2"]).output();
    let output = output.expect("a run");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("'a b' is cut by the split"), "{shown}");
    assert!(
        shown.contains("unknown without a record of the training (--text FILE counts in a file)"),
        "{shown}"
    );
}
