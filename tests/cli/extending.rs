//! Training that extends tokenizers of other programs, and the check of the merges that it adds.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::learning::{does, read};
use super::{ended, folder, refuses, write};

/// The text that the extended tokenizer was trained on.
const FIRST: &str = "low lower lowest, slow slower slowest: low and slow, lower and slower\n";

/// Writes a tokenizer of six merges to a folder: one that was trained here, changed to look like one of another
/// program.
fn foreign(folder: &TempDir, name: &str, change: impl FnOnce(&mut Value)) {
    if !folder.path().join("plain").exists() {
        write(folder, "first.txt", FIRST);
        let train = ["train", "first.txt", "-o", "plain", "--merges", "6", "--split", "gpt2"];
        does(folder, &[&train[..], &["--special-token", "<end>"]].concat());
    }
    let mut file: Value = serde_json::from_str(&read(folder, "plain/tokenizer.json")).expect("JSON");
    change(&mut file);
    std::fs::create_dir(folder.path().join(name)).expect("a new folder");
    write(folder, &format!("{name}/tokenizer.json"), file.to_string());
}

fn tokenizer(folder: &TempDir, name: &str) -> Value {
    serde_json::from_str(&read(folder, &format!("{name}/tokenizer.json"))).expect("JSON")
}

fn merges(file: &Value) -> Vec<Value> {
    file["model"]["merges"].as_array().expect("a list").clone()
}

/// Adds a token that no merge makes, with these flags.
fn add(file: &mut Value, text: &str, flags: &[&str]) {
    let id = file["model"]["vocab"].as_object().expect("keys").len() + 5;
    file["model"]["vocab"][text] = json!(id);
    let mut token = json!({ "id": id, "content": text });
    flags.iter().for_each(|&flag| token[flag] = json!(true));
    file["added_tokens"].as_array_mut().expect("a list").push(token);
}

/// Training uses the text as the tokenizer changes it before merging: normalized, and without added tokens. The
/// result keeps these rules.
#[test]
fn what_happens_to_text_before_it_is_merged_is_done_to_the_corpus_and_kept() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str, &[&str]); 10] = [
        (
            "nfc",
            |file| file["normalizer"] = json!({ "type": "NFC" }),
            "cafe\u{301}s cafe\u{301}s, a\u{323}\u{301} cafe\u{301} of cafe\u{301}s",
            &["caf\u{e9}s caf\u{e9}s, \u{1ea1}\u{301} caf\u{e9} of caf\u{e9}s"],
        ),
        (
            "prefix-space",
            |file| {
                file["pre_tokenizer"] =
                    json!({ "type": "ByteLevel", "add_prefix_space": true, "use_regex": true });
            },
            "tall tales\ntall towers\ntall tales\ntall tales",
            &[" tall tales", " tall towers", " tall tales", " tall tales"],
        ),
        (
            "lstrip",
            |file| add(file, "<mask>", &["special", "lstrip"]),
            "tall <mask> tales  <mask>tall tales tall",
            &["tall", " tales", "tall tales tall"],
        ),
        (
            "rstrip",
            |file| add(file, "<mask>", &["special", "rstrip"]),
            "tall <mask>  tales <mask>tall tales tall",
            &["tall ", "tales ", "tall tales tall"],
        ),
        (
            "not-special",
            |file| add(file, "<tool>", &[]),
            "tall<tool>tales tall tales tall<tool>",
            &["tall", "tales tall tales tall"],
        ),
        (
            "single-word",
            |file| add(file, "tall", &["single_word"]),
            "tall taller tales, tall tales taller tales",
            &[" taller tales, ", " tales taller tales"],
        ),
        (
            "normalized-spaces",
            |file| add(file, "  ", &["normalized"]),
            "tall  tales   tall  tales tall",
            &["tall", "tales", " tall", "tales tall"],
        ),
        (
            "both",
            |file| {
                file["normalizer"] = json!({ "type": "NFC" });
                add(file, "<caf\u{e9}>", &["normalized", "special"]);
            },
            "te\u{301}l<cafe\u{301}>te\u{301}l te\u{301}l",
            &["t\u{e9}l", "t\u{e9}l t\u{e9}l"],
        ),
        (
            "special-of-bytes",
            |file| {
                let token = json!({ "id": file["model"]["vocab"]["low"], "content": "low", "special": true });
                file["added_tokens"].as_array_mut().expect("a list").insert(0, token);
            },
            "tall low tales slow tall tales",
            &["tall ", " tales s", " tall tales"],
        ),
        (
            "ignore-merges",
            |file| file["model"]["ignore_merges"] = json!(true),
            "tall tales tall tales low",
            &["tall tales tall tales low"],
        ),
    ];
    let folder = folder();
    for (name, change, text, prepared) in cases {
        foreign(&folder, name, change);
        let texts: String = text.lines().map(|line| json!({ "text": line }).to_string() + "\n").collect();
        write(&folder, "raw.jsonl", texts);
        let prepared: String =
            prepared.iter().map(|text| json!({ "text": text }).to_string() + "\n").collect();
        write(&folder, "prepared.jsonl", prepared);
        let grown = format!("{name}-grown");
        let train = |input: &str, from: &str, output: &str| {
            let rules = ["--merges", "14", "--min-frequency", "1", "--extend", from, "--memory", "200MB"];
            does(&folder, &[&["train", input, "-o", output][..], &rules].concat())
        };
        train("raw.jsonl", name, &grown);
        let right = format!("{name}-right");
        train("prepared.jsonl", "plain", &right);
        let (before, after) = (tokenizer(&folder, name), tokenizer(&folder, &grown));
        assert_eq!(merges(&after), merges(&tokenizer(&folder, &right)), "{name}");
        assert!(merges(&after).len() > merges(&before).len() && merges(&after).starts_with(&merges(&before)));
        for (key, id) in before["model"]["vocab"].as_object().expect("keys") {
            assert_eq!(after["model"]["vocab"][key], *id, "{name}: {key}");
        }
        assert_eq!(after["normalizer"], before["normalizer"], "{name}");
        assert_eq!(after["model"]["ignore_merges"], before["model"]["ignore_merges"], "{name}");
        let flags = |file: &Value| -> Vec<(Value, Value, Value)> {
            let tokens = file["added_tokens"].as_array().expect("a list").iter();
            let flag = |token: &Value, flag: &str| token[flag].as_bool().unwrap_or(false);
            let flags = ["special", "single_word", "lstrip", "rstrip", "normalized"];
            tokens
                .map(|token| {
                    let set: Vec<&str> = flags.into_iter().filter(|&name| flag(token, name)).collect();
                    (token["id"].clone(), token["content"].clone(), json!(set))
                })
                .collect()
        };
        assert_eq!(flags(&after), flags(&before), "{name}");
        let said = does(&folder, &["verify-merges", &grown, "--on", "raw.jsonl"]);
        assert!(said.contains("merges 7 to "), "{name}: {said}");
        // The report counts the text as given, not as the tokenizer changes it.
        let report: Value =
            serde_json::from_str(&read(&folder, &format!("{grown}/report.json"))).expect("JSON");
        let bytes: usize = text.lines().map(str::len).sum();
        assert_eq!(report["corpus"]["text_bytes"], json!(bytes), "{name}");
        let characters: usize = text.lines().map(|line| line.chars().count()).sum();
        assert_eq!(report["corpus"]["characters"], json!(characters), "{name}: of the text as it was");
    }
}

/// Such lists come from converted rank files: they have every pair of tokens that gives another token.
#[test]
fn lists_that_are_no_plain_ones_are_gone_on_from() {
    let folder = folder();
    foreign(&folder, "plain-copy", |_| ());
    let all_ways = |file: &mut Value| {
        // With this token, `low` is the result of two merges. One of them needs the token of a later merge.
        file["model"]["vocab"]["ow"] = json!(263);
        let keys = file["model"]["vocab"].as_object().expect("keys").clone();
        let mut all = Vec::new();
        let mut by_id: Vec<(&String, u64)> =
            keys.iter().map(|(key, id)| (key, id.as_u64().expect("an id"))).collect();
        by_id.sort_by_key(|(_, id)| *id);
        for (key, _) in by_id {
            for (middle, _) in key.char_indices().skip(1) {
                let (left, right) = key.split_at(middle);
                if keys.contains_key(left) && keys.contains_key(right) {
                    all.push(json!(format!("{left} {right}")));
                }
            }
        }
        file["model"]["merges"] = json!(all);
    };
    foreign(&folder, "all-ways", all_ways);
    foreign(&folder, "llama", |file| {
        all_ways(file);
        file["model"]["ignore_merges"] = json!(true);
        // A token that no merge makes and that occurs in the text as a pre-token.
        file["model"]["vocab"]["tales"] = json!(300);
    });
    write(&folder, "more.txt", "tall tales tell tall tales, slowest tales tell low tall\n".repeat(9));
    let grow = |from: &str, tokens: &str| {
        let grown = format!("{from}-grown");
        let train = ["train", "more.txt", "-o", &grown, "--extend", from, "--vocab-size", tokens];
        let said = does(&folder, &train);
        (said, tokenizer(&folder, &grown), grown)
    };
    let (_, plain, _) = grow("plain", "275");
    let new = |file: &Value, tokens: &Value| merges(file)[merges(tokens).len()..].to_vec();
    let expected = new(&plain, &tokenizer(&folder, "plain"));
    assert!(expected.len() > 5, "{expected:?}");
    let (_, all_ways, name) = grow("all-ways", "276");
    assert_eq!(new(&all_ways, &tokenizer(&folder, "all-ways")), expected);
    let verify = ["verify-merges", &name, "--on", "more.txt"];
    assert!(does(&folder, &verify).contains("are the best pairs"), "the new ones");
    refuses(
        &folder,
        &[&verify[..], &["--skip-merges", "0"]].concat(),
        1,
        &["not a plain list", "--skip-merges"],
    );
    let record: Value = serde_json::from_str(&read(&folder, "all-ways-grown/training.json")).expect("JSON");
    let counts = record["counts"].as_array().expect("a list");
    assert_eq!(counts.len(), merges(&all_ways).len(), "one for each merge");
    assert_eq!(counts[0], json!(18), "how often the first was carried out");
    // Training ignores the pre-tokens that are tokens as a whole.
    let (_, llama, name) = grow("llama", "277");
    assert_eq!(llama["model"]["ignore_merges"], json!(true));
    assert_eq!(llama["model"]["vocab"]["tales"], json!(300));
    does(&folder, &["verify-merges", &name, "--on", "more.txt"]);
}

/// Each stage of training is recorded, and is verified by itself on its own text.
#[test]
fn each_stage_of_training_is_verified_on_its_own_text() {
    let folder = folder();
    write(&folder, "a.txt", "aab aab aab aabc\n".repeat(5));
    write(&folder, "b.txt", "xyz xyz xyz xyzz\n".repeat(7));
    write(&folder, "c.txt", "uvw uvw uvwa\n".repeat(4));
    does(&folder, &["train", "a.txt", "-o", "a", "--merges", "3", "--split", "gpt2"]);
    let on = |input: &'static str, from: &'static str, more: &[&'static str]| {
        let train = ["train", input, "-o", more[0], "--extend", from];
        does(&folder, &[&train[..], &more[1..]].concat());
    };
    on("b.txt", "a", &["b", "--merges", "6", "--max-token-bytes", "4"]);
    on("c.txt", "b", &["c", "--merges", "8"]);
    let said = |arguments: &[&str]| does(&folder, &[&["verify-merges"], arguments].concat());
    assert!(said(&["a", "--on", "a.txt"]).contains("all 3 merges are the best pairs"));
    let last = said(&["c", "--on", "c.txt"]);
    assert!(last.contains("merges 7 to 8 of 8 are the best pairs"), "{last}");
    assert!(last.contains("6 merges before, learned in earlier stages, were applied unchecked"), "{last}");
    let second = said(&["c", "--on", "b.txt", "--stage", "2"]);
    assert!(second.contains("merges 4 to 6 of 8") && second.contains("2 merges of later stages"), "{second}");
    assert!(said(&["c", "--on", "a.txt", "--stage", "1"]).contains("merges 1 to 3 of 8"));
    assert!(said(&["c", "--on", "c.txt", "--skip-merges", "6"]).contains("merges 7 to 8 of 8"));
    let refused = |arguments: &[&str], code, said: &[&str]| {
        refuses(&folder, &[&["verify-merges"], arguments].concat(), code, said);
    };
    refused(&["c", "--on", "c.txt", "--skip-merges", "0"], 4, &["merge 1 of 8"]);
    refused(&["c", "--on", "b.txt"], 4, &["merge 7 of 8"]);
    refused(&["c", "--on", "a.txt", "--stage", "2"], 4, &["merge 4 of 8"]);
    refused(&["c", "--on", "a.txt", "--stage", "4"], 2, &["no stage 4", "3 stages", "--skip-merges"]);
    refused(&["a", "--on", "a.txt", "--stage", "0"], 2, &["no stage 0"]);
    let record: Value = serde_json::from_str(&read(&folder, "c/training.json")).expect("JSON");
    let before: Vec<&Value> = record["settings"]["stages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|stage| &stage["merges_before"])
        .collect();
    assert_eq!(before, [0, 3, 6]);
    assert_eq!(record["settings"]["stages"][1]["max_token_bytes"], json!(4));
    // Without the record, nothing shows where stages begin.
    std::fs::remove_file(folder.path().join("c/training.json")).expect("the record");
    refused(&["c", "--on", "c.txt"], 4, &["merge 1 of 8"]);
    refused(&["c", "--on", "c.txt", "--stage", "2"], 2, &["no stage 2", "one stage"]);
    assert!(said(&["c", "--on", "c.txt", "--skip-merges", "6"]).contains("merges 7 to 8 of 8"));
}

/// The refusal comes before anything is read.
#[test]
fn what_cannot_go_with_a_tokenizer_that_changes_text_is_refused() {
    let folder = folder();
    foreign(&folder, "nfc", |file| file["normalizer"] = json!({ "type": "NFC" }));
    let extend = ["-o", "out", "--extend", "nfc", "--merges", "9"];
    let train = ["train", "first.txt", "--boundary", "join"];
    refuses(
        &folder,
        &[&train[..], &extend].concat(),
        2,
        &["`--boundary` join", "in each document separately"],
    );
    does(
        &folder,
        &["count", "first.txt", "-o", "counts.parquet", "--split", "gpt2", "--special-token", "<end>"],
    );
    let counts = ["train", "--from-counts", "counts.parquet"];
    refuses(&folder, &[&counts[..], &extend].concat(), 2, &["`--from-counts`", "give the text itself"]);
    let (code, _) = ended(
        &folder,
        &["train", "first.txt", "-o", "out", "--extend", "nfc", "--merges", "9", "--formats", "tiktoken"],
    );
    assert_eq!(code, Some(2), "no other format has a place for it");
    assert!(!folder.path().join("out").exists());
}

/// No merge is learned across a byte that has no token.
#[test]
fn pretokens_are_cut_at_bytes_without_a_token() {
    let folder = folder();
    foreign(&folder, "lacking", |file| {
        let vocabulary = file["model"]["vocab"].as_object_mut().expect("keys");
        vocabulary.remove("q").expect("a byte");
    });
    write(&folder, "more.txt", "taqle taqle taqle table table\n");
    let train =
        ["train", "more.txt", "-o", "grown", "--extend", "lacking", "--merges", "20", "--min-frequency", "1"];
    does(&folder, &train);
    let grown = tokenizer(&folder, "grown");
    assert!(grown["model"]["vocab"].as_object().expect("keys").keys().all(|key| !key.contains('q')));
    assert!(
        merges(&grown).iter().any(|merge| *merge == json!(["t", "a"]) || *merge == json!("t a")),
        "{grown}"
    );
    does(&folder, &["verify-merges", "grown", "--on", "more.txt"]);
}

/// A tokenizer of two stages is the same as one that extends the first merges of another with superwords. Its stages can
/// be checked one by one.
#[test]
fn superwords_are_learned_in_stages_or_by_extending() {
    let folder = folder();
    let text: String = (0..400)
        .map(|n| {
            format!("out of the {} and into the sea: one of the {n}\n", ["boat", "sky", "old house"][n % 3])
        })
        .collect();
    write(&folder, "text.txt", text);
    let train = |output, more: &[&str]| {
        let input = ["train", "text.txt", "--documents", "line", "-o", output];
        does(&folder, &[&input[..], more].concat());
    };
    train("both", &["--stage", "gpt4:276", "--stage", "superword:300:3"]);
    train("first", &["--vocab-size", "284", "--split", "gpt4"]);
    let extend = ["--extend", "first", "--keep-merges", "20", "--split", "superword", "--max-words", "3"];
    train("second", &[&extend[..], &["--vocab-size", "300"]].concat());
    assert_eq!(tokenizer(&folder, "both"), tokenizer(&folder, "second"));
    for (output, limits) in [("one", ["--threads", "1"]), ("little", ["--memory", "64MB"])] {
        train(output, &[&["--stage", "gpt4:276", "--stage", "superword:300:3"][..], &limits].concat());
        assert_eq!(tokenizer(&folder, "both"), tokenizer(&folder, output), "{limits:?}");
    }
    let file = tokenizer(&folder, "both");
    let tokens = file["model"]["vocab"].as_object().expect("keys");
    assert!(tokens.contains_key("\u{120}of\u{120}the"), "{tokens:?}");
    let words = |token: &str| token.split('\u{120}').filter(|word| !word.is_empty()).count();
    assert!(tokens.keys().all(|token| words(token) <= 3 && !token.contains(":\u{120}")), "{tokens:?}");
    for stage in ["1", "2"] {
        let check = ["verify-merges", "both", "--on", "text.txt", "--documents", "line", "--stage", stage];
        does(&folder, &check);
    }
    let record: Value = serde_json::from_str(&read(&folder, "both/training.json")).expect("JSON");
    assert_eq!(record["settings"]["stages"][1]["split"], "superword");
    assert_eq!(record["settings"]["stages"][1]["merges_before"], json!(20));
    write(&folder, "empty.txt", "");
    let onto = |input| ["train", input, "-o", "none", "--extend", "first", "--split", "superword"];
    refuses(
        &folder,
        &[&onto("empty.txt")[..], &["--vocab-size", "300"]].concat(),
        1,
        &["nothing to train on"],
    );
    let stages = ["--stage", "gpt4:276", "--stage", "superword:300"];
    let piped = ["train", "-", "--format", "text", "-o", "none"];
    for more in [&[][..], &["--dry-run"]] {
        let piped = [&piped[..], &stages, more].concat();
        refuses(&folder, &piped, 2, &["training in stages reads its input twice"]);
    }
    refuses(&folder, &["train", "text.txt", "-o", "none", "--stage", "gpt4:6x"], 2, &["SPLIT:VOCAB_SIZE"]);
    refuses(
        &folder,
        &[&["train", "text.txt", "-o", "none", "--extend", "first"], &stages[..]].concat(),
        2,
        &["`--stage` cannot be combined with `--extend`"],
    );
    let too_many = ["--extend", "first", "--keep-merges", "90", "--vocab-size", "400"];
    let more = [&["train", "text.txt", "-o", "new"][..], &too_many].concat();
    refuses(&folder, &more, 2, &["`--keep-merges` is 90, but first has 28 merges"]);
    let other = ["--extend", "first", "--split", "o200k", "--vocab-size", "400"];
    refuses(
        &folder,
        &[&["train", "text.txt", "-o", "new"][..], &other].concat(),
        2,
        &["first has the split gpt4"],
    );
}
