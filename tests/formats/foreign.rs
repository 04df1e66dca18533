//! Features that only tokenizers of other programs have. They are read from a `tokenizer.json`, kept, and
//! refused by all other formats.

use std::collections::HashSet;
use std::fs;

use serde_json::{Value, json};
use tokenmill::split::{NamedPattern, SplitPattern, SplitStep};
use tokenmill::vocab::{
    AddedToken, Format, LoadOptions, SpecialTokensAt, Vocabulary, WriteOptions, load, render,
};
use tokenmill::{ErrorKind, TokenId};

use crate::made::{Notes, load_plainly, there_and_back, trained};

/// A `tokenizer.json` with the merges `l o` and `lo w` (tokens 256 and 257) and the special token 258.
fn file() -> Value {
    let vocabulary = trained(&[b"low"], &["<|end|>"], SpecialTokensAt::End, "gpt2");
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    serde_json::from_slice(&files[0].1).expect("JSON")
}

fn read(file: &Value) -> Vocabulary {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    fs::write(&path, file.to_string()).expect("written");
    load_plainly(&path).expect("it is supported")
}

fn with(at: &str, value: Value) -> Value {
    let mut file = file();
    *file.pointer_mut(at).expect("a place of the file") = value;
    file
}

fn byte_level(add_prefix_space: bool, use_regex: bool) -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex })
}

fn split(regex: &str, behavior: &str, invert: bool) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": behavior, "invert": invert })
}

fn sequence(steps: &[Value]) -> Value {
    json!({ "type": "Sequence", "pretokenizers": steps })
}

fn step(pattern: SplitPattern, covers: bool) -> SplitStep {
    SplitStep::new(pattern, covers)
}

/// The pre-tokenizers of DeepSeek V3. `write` gives the JSON of each step.
fn deepseek(write: &dyn Fn(&str) -> Value) -> Vec<Value> {
    let steps = NamedPattern::DeepSeekV3.steps().iter().map(|step| write(step));
    steps.chain([byte_level(false, false)]).collect()
}

/// The pre-tokenizers of published files become the right split patterns, and are written back unchanged.
#[test]
fn splits_of_real_files_are_understood() {
    let custom = |regex: &str| SplitPattern::Custom(regex.to_owned());
    let gpt2 = SplitPattern::Named(NamedPattern::Gpt2);
    let number = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]";
    let digits = |individual| json!({ "type": "Digits", "individual_digits": individual });
    let llama3 = SplitPattern::Named(NamedPattern::Gpt4).regex().expect("one expression").to_owned();
    let cases = [
        // Llama 3, and OLMo 2, which keeps only the matches of a pattern that matches everything.
        (
            vec![split(&llama3, "Isolated", false), byte_level(false, false)],
            SplitPattern::Named(NamedPattern::Gpt4),
        ),
        (
            vec![split(&llama3, "Removed", true), byte_level(false, false)],
            SplitPattern::Named(NamedPattern::Gpt4),
        ),
        // StarCoder, and a variant that does not separate digits.
        (
            vec![digits(true), byte_level(false, true)],
            SplitPattern::Steps(vec![step(custom(number), false), step(gpt2.clone(), false)]),
        ),
        (
            vec![digits(false), byte_level(false, true)],
            SplitPattern::Steps(vec![step(custom(&format!("{number}+")), false), step(gpt2.clone(), false)]),
        ),
        // DeepSeek V2, shortened.
        (
            vec![
                split("[\r\n]", "Isolated", false),
                split(r"\s+$", "Isolated", false),
                digits(true),
                byte_level(false, false),
            ],
            SplitPattern::Steps(vec![
                step(custom("[\r\n]"), false),
                step(custom(r"\s+(?m:$)"), false),
                step(custom(number), false),
            ]),
        ),
        (
            vec![
                json!({ "type": "Split", "pattern": { "String": "a.b" }, "behavior": "Isolated", "invert": false }),
                byte_level(false, false),
            ],
            custom(r"a\.b"),
        ),
        (
            vec![split(r"\S+|\s", "Removed", true), byte_level(false, false)],
            SplitPattern::Steps(vec![step(custom(r"\S+|\s"), true)]),
        ),
        (deepseek(&|step| split(step, "Isolated", false)), SplitPattern::Named(NamedPattern::DeepSeekV3)),
        // The last step does not match characters other than letters, marks, punctuation, symbols and white
        // space. Here it removes them.
        (
            deepseek(&|step| match step == NamedPattern::DeepSeekV3.steps()[2] {
                true => split(step, "Removed", true),
                false => split(step, "Isolated", false),
            }),
            SplitPattern::Steps(
                NamedPattern::DeepSeekV3
                    .steps()
                    .iter()
                    .zip([false, false, true])
                    .map(|(regex, covers)| step(custom(regex), covers))
                    .collect(),
            ),
        ),
    ];
    let mut fingerprints = HashSet::new();
    for (steps, expected) in cases {
        let vocabulary = read(&with("/pre_tokenizer", sequence(&steps)));
        assert_eq!(vocabulary.split(), &expected, "{steps:?}");
        assert!(vocabulary.keeps_text());
        let again = there_and_back(&vocabulary, Format::Hf).expect("hf holds it");
        assert_eq!(again, vocabulary, "{steps:?}");
        fingerprints.insert(vocabulary.fingerprint());
    }
    assert_eq!(fingerprints.len(), 8, "all but the first two cut differently");
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({ "id": id, "content": content, "special": special, "normalized": false })
}

/// Normalizers, the space before text, and the flags of added tokens are kept in `tokenizer.json`, change the
/// fingerprint, and are refused by all other formats.
#[test]
fn what_happens_to_text_is_kept() {
    let flag = |name: &str| {
        let mut file = file();
        file["added_tokens"][0][name] = json!(true);
        file
    };
    let not_special = with("/added_tokens/0/special", json!(false));
    let files = [
        file(),
        with("/normalizer", json!({ "type": "NFC" })),
        with("/pre_tokenizer", byte_level(true, true)),
        with("/pre_tokenizer", byte_level(true, false)),
        flag("single_word"),
        flag("lstrip"),
        flag("rstrip"),
        not_special,
        with("/added_tokens", json!([added(258, "<|end|>", true), added(259, "<x>", false)])),
        with("/added_tokens", json!([added(256, "lo", true), added(258, "<|end|>", true)])),
        with("/added_tokens", json!([added(65, "A", false), added(258, "<|end|>", true)])),
    ];
    let mut fingerprints = HashSet::new();
    for (number, file) in files.iter().enumerate() {
        let vocabulary = read(file);
        let again = there_and_back(&vocabulary, Format::Hf).expect("hf holds it");
        assert_eq!(again, vocabulary, "{number}");
        assert!(fingerprints.insert(vocabulary.fingerprint()), "{number}");
        for format in [Format::Tiktoken, Format::Minbpe, Format::Gpt2] {
            let held = there_and_back(&vocabulary, format);
            assert_eq!(held.is_ok(), number == 0, "{number} {format}");
        }
        // The steps before and after the merges leave the merge list as it is.
        assert!(vocabulary.merge_list().is_ok(), "{number}");
        assert_eq!(vocabulary.keeps_text(), ![1, 2, 3, 5, 6].contains(&number), "{number}");
    }
    let mut plain = file();
    plain["normalizer"] = json!({ "type": "Sequence", "normalizers": [] });
    plain["added_tokens"][0]["normalized"] = json!(true);
    plain["model"]["unk_token"] = json!("<unk>");
    assert_eq!(read(&plain), read(&file()), "none of these makes a difference");
}

/// An added token is also an ordinary token if merges, or a whole pre-token, can produce it.
#[test]
fn an_added_token_merges_if_it_could_come_about_without_being_found() {
    let tokens = json!([added(256, "lo", false), added(258, "<|end|>", false), added(259, "low ", false)]);
    let mut file = with("/added_tokens", tokens);
    let ordinary = |file: &Value| -> Vec<u32> {
        let vocabulary = read(file);
        let ids = vocabulary.ordinary().map(|(id, _)| id.get()).filter(|&id| id > 255);
        ids.collect()
    };
    assert_eq!(ordinary(&file), [256, 257]);
    // With `ignore_merges`, a whole pre-token is looked up in the vocabulary. The last token's text is no key
    // there.
    file["model"]["ignore_merges"] = json!(true);
    assert_eq!(ordinary(&file), [256, 257, 258]);
    let vocabulary = read(&file);
    assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary);
    let special = AddedToken::special(TokenId::new(258), "<|end|>");
    assert_eq!(vocabulary.added()[1], AddedToken { special: false, ..special });
    file["added_tokens"][1]["special"] = json!(true);
    assert_eq!(ordinary(&file), [256, 257], "no text may name a control token");
}

/// A template for BOS and EOS tokens is kept in the file, but not applied. A note says so.
#[test]
fn what_stands_around_a_text_is_told_and_kept_but_left_out() {
    let template = |name: &str, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
    let special = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
    let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
    let llama3 = json!({
        "type": "TemplateProcessing",
        "single": [special("<s>"), text],
        "pair": [],
        "special_tokens": { "<s>": template("<s>", 259) },
    });
    let sequence = json!({ "type": "Sequence", "processors": [byte_level(true, true), llama3] });
    let roberta = json!({
        "type": "RobertaProcessing", "sep": ["<|end|>", 258], "cls": ["<s>", 259],
        "trim_offsets": true, "add_prefix_space": false,
    });
    let plain = read(&with("/added_tokens", json!([added(258, "<|end|>", true), added(259, "<s>", true)])));
    for (post_processor, before, after, said) in [
        (byte_level(true, true), vec![], vec![], None),
        (
            sequence,
            vec![259],
            vec![],
            Some(r#"TemplateProcessing, which adds "<s>" before a text, is ignored"#),
        ),
        (roberta, vec![259], vec![258], Some(r#"adds "<s>" before and "<|end|>" after a text, is ignored"#)),
    ] {
        let mut file = with("/added_tokens", json!([added(258, "<|end|>", true), added(259, "<s>", true)]));
        file["post_processor"] = post_processor;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, file.to_string()).expect("written");
        let notes = Notes::default();
        let vocabulary = load(&path, &LoadOptions::default(), &notes).expect("it is supported");
        let ids = |ids: &[TokenId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
        assert_eq!(
            (ids(&vocabulary.bos_eos_template().before), ids(&vocabulary.bos_eos_template().after)),
            (before, after)
        );
        assert_eq!(vocabulary.fingerprint(), plain.fingerprint(), "it does not concern encoding");
        assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary);
        let notes = notes.0.into_inner().expect("no panic");
        match said {
            Some(said) => assert!(notes.len() == 1 && notes[0].contains(said), "{notes:?}"),
            None => assert!(notes.is_empty(), "{notes:?}"),
        }
    }
}

/// The settings for truncation and padding in a `tokenizer.json` are ignored with a note.
#[test]
fn how_transformers_last_used_it_is_left_out() {
    let truncation =
        json!({ "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 });
    let padding = json!({ "strategy": "BatchLongest", "direction": "Right", "pad_id": 0, "pad_token": "!" });
    for (at, value) in [("/truncation", truncation), ("/padding", padding)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, with(at, value).to_string()).expect("written");
        let notes = Notes::default();
        let vocabulary = load(&path, &LoadOptions::default(), &notes).expect("it is supported");
        assert_eq!(vocabulary, read(&with("/version", json!("1.0"))));
        let notes = notes.0.into_inner().expect("no panic");
        assert!(notes.len() == 1 && notes[0].contains(&format!("its {} is ignored", &at[1..])), "{notes:?}");
    }
}

/// A format that cannot hold a feature refuses the vocabulary and names the feature.
#[test]
fn formats_that_cannot_say_it_name_it() {
    for (file, said) in [
        (with("/normalizer", json!({ "type": "NFC" })), "it normalizes text to NFC"),
        (with("/pre_tokenizer", byte_level(true, true)), "it adds a space before text"),
        (
            with(
                "/pre_tokenizer",
                sequence(&[json!({ "type": "Digits", "individual_digits": true }), byte_level(false, true)]),
            ),
            "it splits text in several steps",
        ),
        (
            with("/added_tokens/0/lstrip", json!(true)),
            r#"added token "<|end|>" is not special, or has matching rules of its own"#,
        ),
    ] {
        let vocabulary = read(&file);
        for format in [Format::Tiktoken, Format::Minbpe, Format::Gpt2] {
            let refused = there_and_back(&vocabulary, format).expect_err(said);
            assert!(refused.to_string().contains(said), "{refused}");
            assert_eq!(refused.kind(), ErrorKind::Usage);
        }
        assert!(vocabulary.merge_list().is_ok(), "{said}");
    }
}
