//! Training with options beyond the default ones.

use arrow::array::IntervalYearMonthArray;
use arrow::ipc::writer::FileWriter;

use super::*;

/// A setting that `training.json` records.
fn setting(folder: &TempDir, tokenizer: &str, name: &str) -> serde_json::Value {
    let text = fs::read_to_string(folder.path().join(tokenizer).join("training.json")).expect("the record");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["settings"][name].clone()
}

/// Tokens that grow too long for the memory limit end training before anything is written. `--max-token-bytes`
/// avoids this.
#[test]
fn tokens_too_long_for_the_memory_are_refused_before_they_are_written() {
    let folder = folder();
    // Once every pair occurs only once, each merge adds a byte to the first token of the text.
    let letter = |n: u32| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0] % 26);
    let text: String = (0..20_000).map(|n: u32| letter(n * n)).collect();
    write(&folder, "a.txt", &text);
    let train = ["train", "a.txt", "-o", "out", "--split", "none", "--merges", "100000"];
    let first = ["--tie-break", "first", "--min-frequency", "1", "--memory", "100MB"];
    let refused = tokenmill(&folder).args(train).args(first).output().expect("a run");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(8), "{said}");
    assert!(said.contains("--max-token-bytes"), "{said}");
    assert!(!folder.path().join("out").exists());
    tokenmill(&folder).args(train).args(first).args(["--max-token-bytes", "20"]).assert().success();
}

/// What no file format can hold is refused before training. The message names the flag at fault.
#[test]
fn what_cannot_be_written_is_refused_before_training() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let said = ["`--special-token` cannot be used", "several characters"];
    for more in [&["--special-token", "é"][..], &["--special-token", "é", "--split", "o200k"]] {
        refuses(&folder, &train("a.txt", more), 2, &said);
    }
    refuses(&folder, &train("a.txt", &["--split-regex", "("]), 2, &["`--split-regex` cannot be used"]);
}

/// A `.json` file is read as records, or as text with `--format text`.
#[test]
fn what_is_called_json_is_records_unless_it_is_said() {
    let folder = folder();
    write(&folder, "a.json", "{\"text\": \"a b\"}\n{\"text\": \"a b\"}\n");
    let count = |format| {
        let count = ["count", "a.json", "-o", format, "--split", "gpt2", "--json", "--format", format];
        let output = tokenmill(&folder).args(count).output().expect("a run");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        said["text_bytes"].as_u64()
    };
    assert_eq!(["json", "jsonl", "text"].map(count), [Some(6), Some(6), Some(32)]);
}

/// `--score` selects the score of pairs, and `training.json` records it.
#[test]
fn a_score_can_be_chosen_and_is_recorded() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (score, recorded) in [
        ("count", serde_json::json!("count")),
        ("count-length", serde_json::json!("count-length")),
        ("conditional:2,1,0", serde_json::json!({ "conditional": { "p": 2, "q": 1, "r": 0 } })),
    ] {
        let train = ["train", "a.txt", "-o", "made", "--merges", "5", "--score", score];
        assert_eq!(ended(&folder, &train).0, Some(0), "{score}");
        assert_eq!(setting(&folder, "made", "score"), recorded);
    }
    refuses(&folder, &train("a.txt", &["--score", "conditional:4,1,1"]), 2, &["conditional:4,1,1", "0 to 3"]);
}

#[track_caller]
pub(super) fn does(folder: &TempDir, arguments: &[&str]) -> String {
    let (code, said) = ended(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?} said\n{said}");
    said
}

/// Training over another tokenizer replaces it and says so. The same tokenizer is replaced silently.
#[test]
fn another_tokenizer_in_the_folder_is_replaced_and_told_of() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (merges, replaced) in
        [("5", None), ("5", None), ("3", Some("of 5 merges")), ("4", Some("of 3 merges"))]
    {
        let said = does(&folder, &["train", "a.txt", "-o", "made", "--merges", merges]);
        let told = said.lines().find(|line| line.contains("made held another tokenizer"));
        assert_eq!(told.is_some(), replaced.is_some(), "{said}");
        assert!(replaced.is_none_or(|of| told.is_some_and(|told| told.contains(of))), "{said}");
    }
}

pub(super) fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).expect(name)
}

const SPECIAL: [&str; 2] = ["--special-token", "<end>"];

/// `--extend` accepts every format and gives the same files as training at once. Merges of no use in the new
/// text are kept.
#[test]
fn training_goes_on_from_a_tokenizer_of_any_format() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let formats = ["--formats", "hf,tiktoken,minbpe,gpt2", "--split", "gpt2"];
    for (output, merges) in [("start", "4"), ("all", "9")] {
        does(&folder, &[&["train", "a.txt", "-o", output, "--merges", merges][..], &formats].concat());
    }
    for from in ["start", "start/tokenizer.json", "start/tokenizer.tiktoken", "start/tokenizer.model"] {
        let go_on = ["train", "a.txt", "-o", "more", "--vocab-size", "265", "--formats", "hf,minbpe"];
        let said = does(&folder, &[&go_on[..], &["--extend", from]].concat());
        assert!(
            said.contains("learned 3 merges of 5: no pair is left that is frequent enough; with the 4 that"),
            "{said}"
        );
        for file in ["tokenizer.json", "tokenizer.model"] {
            let (more, all) = (format!("more/{file}"), format!("all/{file}"));
            assert_eq!(read(&folder, &more), read(&folder, &all), "{file} from {from}");
        }
    }
    write(&folder, "b.txt", "xyz xyz xyz");
    does(&folder, &["train", "b.txt", "-o", "other", "--merges", "6", "--extend", "start"]);
    let inspected = tokenmill(&folder).args(["inspect", "other", "--json"]).output().expect("a run");
    let inspected: serde_json::Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    assert_eq!(inspected["merges"][0]["count"], 0, "a merge that is of no use here is kept");
    assert_eq!(inspected["merges"][4]["count"], 3, "{}", inspected["merges"]);
}

/// A rank file does not say how text is split. With the split as a flag, extending it gives the same tokenizer
/// as training at once.
#[test]
fn a_rank_file_alone_is_gone_on_from_with_the_split_that_is_named() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let start =
        ["train", "a.txt", "-o", "start", "--merges", "4", "--formats", "tiktoken", "--split", "gpt2"];
    does(&folder, &start);
    fs::rename(folder.path().join("start/tokenizer.tiktoken"), folder.path().join("alone.tiktoken"))
        .expect("a file");
    let go_on = ["train", "a.txt", "-o", "more", "--merges", "9", "--extend", "alone.tiktoken"];
    refuses(&folder, &go_on, 2, &["the file does not say how text is split"]);
    does(&folder, &[&go_on[..], &["--split", "gpt2"]].concat());
    does(&folder, &["train", "a.txt", "-o", "all", "--merges", "9", "--split", "gpt2"]);
    assert_eq!(read(&folder, "more/tokenizer.json"), read(&folder, "all/tokenizer.json"));
}

/// `--eos` names a special token of the vocabulary in `tokenizer_config.json`.
#[test]
fn special_tokens_are_named_for_other_programs() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = ["train", "a.txt", "-o", "made", "--merges", "4", "--eos", "<end>"];
    does(&folder, &[&train[..], &SPECIAL].concat());
    let config: serde_json::Value =
        serde_json::from_str(&read(&folder, "made/tokenizer_config.json")).expect("JSON");
    assert_eq!((&config["eos_token"], config.get("bos_token")), (&serde_json::json!("<end>"), None));
}

/// `--extend` and `convert` keep the BOS and EOS tokens of `tokenizer_config.json`, except those that the
/// vocabulary lacks.
#[test]
fn what_a_tokenizer_names_the_end_of_documents_it_still_is_in_another_one() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = ["train", "a.txt", "-o", "made", "--merges", "4", "--eos", "<end>"];
    does(&folder, &[&train[..], &SPECIAL].concat());
    does(&folder, &["train", "a.txt", "-o", "more", "--merges", "9", "--extend", "made"]);
    // A configuration in the form of older files, with a token that the vocabulary lacks.
    write(
        &folder,
        "made/tokenizer_config.json",
        r#"{"eos_token": {"content": "<end>", "lstrip": false}, "bos_token": "<s>"}"#,
    );
    does(&folder, &["convert", "made", "--to", "hf", "-o", "again"]);
    does(&folder, &["convert", "made/tokenizer.json", "--to", "tiktoken", "-o", "ranks"]);
    for made in ["more", "again"] {
        let config = read(&folder, &format!("{made}/tokenizer_config.json"));
        let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
        assert_eq!(
            (&config["eos_token"], config.get("bos_token")),
            (&serde_json::json!("<end>"), None),
            "{made}"
        );
    }
    let plainly =
        ["train", "a.txt", "-o", "plain", "--merges", "9", "--extend", "made", "--formats", "tiktoken"];
    assert!(!does(&folder, &plainly).contains("no effect"), "nobody asked for it");
    write(&folder, "made/tokenizer_config.json", "{");
    refuses(&folder, &["convert", "made", "--to", "hf", "-o", "third"], 1, &["tokenizer_config.json"]);
    does(&folder, &["convert", "made", "--to", "tiktoken", "-o", "fourth"]);
}

/// Models that were trained with the smaller tokenizer depend on the meaning of each id.
#[test]
fn tokens_that_are_gone_on_from_keep_their_ids() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let formats = ["--formats", "hf,tiktoken,gpt2", "--split", "gpt2"];
    let start = ["train", "a.txt", "-o", "start", "--merges", "4"];
    does(&folder, &[&start[..], &SPECIAL, &formats].concat());
    let ids = |tokenizer: &str| -> serde_json::Map<String, serde_json::Value> {
        let file: serde_json::Value =
            serde_json::from_str(&read(&folder, &format!("{tokenizer}/tokenizer.json"))).expect("JSON");
        file["model"]["vocab"].as_object().expect("keys").clone()
    };
    let before = ids("start");
    assert_eq!(before["<end>"], 260);
    for from in ["start", "start/tokenizer.tiktoken"] {
        let more = ["train", "a.txt", "-o", "more", "--vocab-size", "262,264", "--formats", "hf,tiktoken"];
        does(&folder, &[&more[..], &["--extend", from]].concat());
        for (tokenizer, tokens) in [("more", 264), ("more/vocab-262", 262)] {
            let after = ids(tokenizer);
            assert!(before.iter().all(|(key, id)| after[key] == *id), "{tokenizer} from {from}");
            assert_eq!(u64::try_from(after.len()), Ok(tokens), "{tokenizer} from {from}");
            let mut new: Vec<u64> =
                after.values().filter_map(|id| id.as_u64()).filter(|id| *id > 260).collect();
            new.sort_unstable();
            assert!(new.into_iter().eq(261..tokens), "{tokenizer} from {from}");
        }
    }
    // minbpe numbers tokens in the order of merges, with all special tokens at the end.
    let minbpe =
        ["train", "a.txt", "-o", "out", "--vocab-size", "264", "--formats", "minbpe", "--extend", "start"];
    refuses(&folder, &minbpe, 2, &["`--formats`", "minbpe", "merge 5", "write it in the format hf"]);
    assert!(!folder.path().join("out").exists());
}

/// `--extend` continues with the recorded rules of the first training, unless a flag changes them.
#[test]
fn training_goes_on_by_the_rules_that_it_began_with() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = |folder: &TempDir, more: &[&str]| does(folder, &[&["train", "a.txt"][..], more].concat());
    let rules = ["--split", "gpt2", "--boundary", "join", "--tie-break", "hf", "--score", "count-length"];
    let rules = [&rules[..], &["--max-token-bytes", "3", "--min-frequency", "1"]].concat();
    train(&folder, &[&["-o", "start", "--merges", "3"][..], &rules].concat());
    train(&folder, &[&["-o", "all", "--merges", "9"][..], &rules].concat());
    train(&folder, &["-o", "more", "--merges", "9", "--extend", "start"]);
    assert_eq!(read(&folder, "more/tokenizer.json"), read(&folder, "all/tokenizer.json"));
    for rule in ["boundary", "tie_break", "score", "max_token_bytes", "min_frequency"] {
        assert_eq!(setting(&folder, "more", rule), setting(&folder, "all", rule), "{rule}");
    }
    train(&folder, &["-o", "other", "--merges", "9", "--extend", "start", "--max-token-bytes", "9"]);
    assert_ne!(read(&folder, "other/tokenizer.json"), read(&folder, "all/tokenizer.json"));
}

/// The recorded rule `first` needs the order of first appearance, which these counts lack.
#[test]
fn counts_without_an_order_are_gone_on_with_whatever_rule_is_recorded() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let split = ["--split", "gpt2"];
    does(
        &folder,
        &[&["train", "a.txt", "-o", "start", "--merges", "3", "--tie-break", "first"][..], &split].concat(),
    );
    does(&folder, &[&["count", "a.txt", "-o", "counts.parquet"][..], &split].concat());
    does(
        &folder,
        &["train", "--from-counts", "counts.parquet", "-o", "more", "--merges", "5", "--extend", "start"],
    );
    assert_eq!(
        [setting(&folder, "start", "tie_break"), setting(&folder, "more", "tie_break")],
        ["first", "ids"]
    );
}

/// Flags that contradict the extended tokenizer are refused, and so is a size that adds no token.
#[test]
fn what_is_gone_on_from_cannot_be_contradicted() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    does(&folder, &[&["train", "a.txt", "-o", "start", "--merges", "4"][..], &SPECIAL].concat());
    let extend = ["train", "a.txt", "-o", "out", "--extend", "start", "--vocab-size", "300"];
    let refused = |more: &[&str], said: &[&str]| refuses(&folder, &[&extend[..], more].concat(), 2, said);
    refused(&["--split", "gpt2"], &["`--split`", "start", "gpt4"]);
    refused(&["--special-token", "<s>"], &["`--special-token`", "<end>"]);
    refused(&["--special-tokens-at", "start"], &["`--special-tokens-at`", "at the end"]);
    let less = ["train", "a.txt", "-o", "out", "--extend", "start", "--vocab-size", "260"];
    refuses(&folder, &less, 2, &["`--vocab-size`", "261", "start"]);
    let less = ["train", "a.txt", "-o", "out", "--extend", "start", "--merges", "2"];
    refuses(&folder, &less, 2, &["`--merges`", "merges that start has", "old and new"]);
    refuses(&folder, &["train", "a.txt", "-o", "out", "--extend", "none", "--merges", "9"], 1, &["none"]);
    write(
        &folder,
        "ranks.tiktoken",
        (0..=255u8).map(|byte| format!("{} {byte}\n", base64_of(&[byte]))).collect::<String>() + "YWJj 256\n",
    );
    let glued = ["train", "a.txt", "-o", "out", "--extend", "ranks.tiktoken", "--merges", "9"];
    let code = tokenmill(&folder).args(glued).output().expect("a run").status.code();
    assert_ne!(code, Some(0), "a token that no list of merges makes");
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// `verify-merges` confirms merges on their training text by each rule, and names the first merge that was not
/// the best pair.
#[test]
fn merges_are_verified_on_data() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "b.txt", "xyz xyz xyz");
    for (number, more) in [
        &["--tie-break", "first"][..],
        &["--tie-break", "bytes-greatest", "--split", "none"],
        &["--score", "count-length", "--min-frequency", "1"],
        &["--max-token-bytes", "3", "--boundary", "join"],
    ]
    .iter()
    .enumerate()
    {
        let made = format!("made{number}");
        does(&folder, &[&["train", "a.txt", "-o", &made, "--merges", "20"][..], more].concat());
        let said = does(&folder, &["verify-merges", &made, "--on", "a.txt"]);
        assert!(said.contains("are the best pairs"), "{said}");
        refuses(
            &folder,
            &["verify-merges", &made, "--on", "b.txt"],
            4,
            &["merge 1 of", "'x' + 'y'", "3 times"],
        );
    }
    let mut merges: serde_json::Value =
        serde_json::from_str(&read(&folder, "made0/tokenizer.json")).expect("JSON");
    let list = merges["model"]["merges"].as_array_mut().expect("a list");
    // Move the last merge of two single bytes to the front.
    let of_bytes = |merge: &serde_json::Value| merge.as_str().is_some_and(|merge| merge.chars().count() == 3);
    let last = list.iter().rposition(of_bytes).filter(|last| *last > 0).expect("several merges of bytes");
    let early = list.remove(last);
    list.insert(0, early);
    write(&folder, "early.json", merges.to_string());
    let early = ["verify-merges", "early.json", "--on", "a.txt", "--json"];
    let output = tokenmill(&folder).args(early).output().expect("a run");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&found["verified"], &found["deviation"]["merge"]), (&false.into(), &1.into()), "{found}");
}

/// Memory that does not suffice to replay merges is not called that of training.
#[test]
fn verification_that_needs_more_memory_than_allowed_says_so() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    does(&folder, &["train", "a.txt", "-o", "made", "--merges", "20", "--split", "none"]);
    write(&folder, "long.txt", "how much wood would a woodchuck chuck? ".repeat(10_000));
    refuses(
        &folder,
        &["verify-merges", "made", "--on", "long.txt", "--memory", "1MB"],
        8,
        &["replaying the merges needs about", "the limit is 1.0 MB"],
    );
}

/// The refusal comes before training, which can take hours.
#[test]
fn columns_that_cannot_pass_through_are_told_before_anything_is_learned() {
    let folder = folder();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["the cat", "the mat"]));
    let since: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![1, 2]));
    let table = RecordBatch::try_from_iter([("text", text), ("since", since)]).expect("two columns");
    let file = fs::File::create(folder.path().join("a.arrow")).expect("a file");
    let mut writer = FileWriter::try_new(file, &table.schema()).expect("a writer");
    writer.write(&table).and_then(|()| writer.finish()).expect("written");
    let recipe = "source = { uri = \"a.arrow\" }\ntrain = { merges = 3 }\noutput = { dir = \"out\" }\n\
                  [encode]\ncolumns = [\"since\"]\n";
    write(&folder, "job.toml", recipe);
    for command in ["plan", "run"] {
        refuses(&folder, &[command, "job.toml"], 2, &["\"since\"", "cannot be passed through"]);
    }
}
