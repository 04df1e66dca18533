//! Tokenizers of other programs, used through the command line.

use serde_json::{Value, json};

use super::{folder, tokenmill, write};

/// `inspect` lists the normalizer, the post-processor and the flags of added tokens. `decode --verify` compares
/// with the normalized text.
#[test]
fn a_tokenizer_that_changes_text_says_so_where_it_is_shown_and_compared() {
    let folder = folder();
    write(&folder, "a.txt", "the cafe\u{301} at the cafe\n<think> a\u{323}\u{301}\n");
    let train = ["train", "a.txt", "-o", "foreign", "--vocab-size", "260", "--special-token", "<s>"];
    tokenmill(&folder).args(train).assert().success();
    let path = folder.path().join("foreign/tokenizer.json");
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).expect("written")).expect("JSON");
    let next = file["model"]["vocab"].as_object().expect("tokens").len();
    file["normalizer"] = json!({ "type": "NFC" });
    let mask = json!({ "id": next, "content": "<think>", "rstrip": true, "normalized": true });
    file["added_tokens"].as_array_mut().expect("tokens").push(mask);
    let start = file["added_tokens"][0]["id"].clone();
    file["post_processor"] =
        json!({ "type": "BertProcessing", "cls": ["<s>", start], "sep": ["<think>", next] });
    std::fs::write(&path, file.to_string()).expect("written");

    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (shown, noted) = run(&["inspect", "foreign"]);
    for line in [
        "normalizer    NFC",
        "post-processor <s> before a text; here only the option `bos` adds this",
        "post-processor <think> after a text; here only the option `eos` adds this",
        "<think>  rstrip  normalized",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(
        noted.contains(r#"BertProcessing, which adds "<s>" before and "<think>" after a text, is ignored"#)
    );

    run(&["encode", "a.txt", "--documents", "line", "-t", "foreign", "-o", "ids"]);
    let (decoded, _) = run(&["decode", "ids", "-t", "foreign"]);
    assert_eq!(decoded, "the caf\u{e9} at the cafe\n<think>\u{1ea1}\u{301}\n");
    let verify = ["decode", "ids", "-t", "foreign", "--verify", "a.txt", "--documents", "line"];
    let (_, said) = run(&verify);
    assert!(said.contains("identical to the texts as this tokenizer changes them"), "{said}");
    let (facts, _) = run(&[&verify[..], &["--json"]].concat());
    assert!(facts.contains(r#""text_kept":false"#), "{facts}");
}

/// A note warns if programs that read the format drop text that the split pattern does not match.
#[test]
fn a_format_whose_programs_drop_what_the_pattern_does_not_match_is_written_with_a_word_of_it() {
    let folder = folder();
    write(&folder, "a.txt", "the cat, the hat\n");
    let train = ["train", "a.txt", "-o", "words", "--vocab-size", "260", "--split-regex", "[a-z]+"];
    tokenmill(&folder).args(train).assert().success();
    for (format, warned) in [("tiktoken", true), ("minbpe", true), ("hf", false)] {
        let output = tokenmill(&folder).args(["convert", "words", "--to", format, "-o", format]).output();
        let said = String::from_utf8(output.expect("a run").stderr).expect("text");
        assert_eq!(
            said.contains("drops text that the split pattern does not match"),
            warned,
            "{format}: {said}"
        );
    }
}

/// A rank file alone has neither a split nor special tokens. Every command that takes a tokenizer refuses it
/// without flags for them, and accepts it with them.
#[test]
fn what_a_rank_file_does_not_say_can_be_said_to_every_command() {
    let folder = folder();
    write(&folder, "a.txt", "the cat<s>the hat\n");
    let train =
        ["train", "a.txt", "-o", "made", "--vocab-size", "260", "--split", "gpt4", "--formats", "tiktoken"];
    tokenmill(&folder).args(train).assert().success();
    let ranks = folder.path().join("made/tokenizer.tiktoken");
    std::fs::rename(ranks, folder.path().join("own.model")).expect("renamed");
    let said = ["--split", "llama3", "--special-token", "<s>=300"];
    let run = |arguments: &[&str], more: &[&str]| {
        let output = tokenmill(&folder).args(arguments).args(more).output().expect("a run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let commands: [&[&str]; 7] = [
        &["tokens", "-t", "own.model", "--special", "allow", "--ids", "a<s>"],
        &["inspect", "own.model"],
        &["encode", "a.txt", "-t", "own.model", "-o", "ids", "--special", "allow", "--eos", "<s>"],
        &["decode", "ids", "-t", "own.model"],
        &["compare", "own.model", "--on", "a.txt"],
        &["convert", "own.model", "--to", "tiktoken", "-o", "told"],
        &["bench", "a.txt", "-t", "own.model"],
    ];
    for command in commands {
        let (code, _, told) = run(command, &[]);
        assert_eq!(code, Some(2), "{command:?}: {told}");
        for way in ["`--split NAME`", "`--special-token TEXT=ID`", "`convert --split NAME --to tiktoken`"] {
            assert!(told.contains(way), "{command:?}: {told}");
        }
        let (code, _, told) = run(command, &said);
        assert_eq!(code, Some(0), "{command:?}: {told}");
    }
    assert_eq!(run(commands[0], &said).1, "97 300\n");
    assert_eq!(run(commands[3], &said).1, "the cat<s>the hat\n\n");
    // The converted file itself has the split and the special tokens.
    let told = ["tokens", "-t", "told", "--special", "allow", "--ids", "a<s>"];
    assert_eq!(run(&told, &[]).1, "97 300\n");

    write(
        &folder,
        "r.toml",
        "[source]\nuri = \"a.txt\"\n[encode]\ntokenizer = \"own.model\"\nsplit = \"llama3\"\n\
         special_tokens = [\"<s>=300\"]\neos = \"<s>\"\n[output]\ndir = \"out\"\n",
    );
    assert_eq!(run(&["run", "r.toml"], &[]).0, Some(0), "{:?}", run(&["run", "r.toml"], &[]));
    assert_eq!(run(&["decode", "out", "-t", "told"], &[]).1, "the cat<s>the hat\n\n");
}
