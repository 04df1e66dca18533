//! Normalizers of a `tokenizer.json`: read, applied as Hugging Face's tokenizers does, and written again.

use serde::Deserialize;
use serde_json::{Value, json};
use tokenmill::vocab::{Format, SpecialTokensAt, Vocabulary, WriteOptions, render};
use tokenmill::{ErrorKind, Tokenizer};

use crate::made::{there_and_back, trained, with_component};

fn read(normalizer: &Value) -> tokenmill::Result<Vocabulary> {
    with_component("normalizer", normalizer)
}

/// Known answers of `normalizer.normalize_str` of `tokenizers` 0.23.3: each normalizer with its result for
/// every text.
#[derive(Deserialize)]
struct Known {
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    normalizer: Value,
    normal: Vec<String>,
}

/// Every normalizer gives the same text as in `tokenizers`, and is written back unchanged.
#[test]
fn texts_are_normalized_as_in_hugging_face_s_tokenizers() {
    let known: Known =
        serde_json::from_str(include_str!("../data/tokenizers/normalizers.json")).expect("the cases");
    for Case { normalizer, normal } in known.cases {
        let vocabulary = read(&normalizer).expect("it is supported");
        assert!(!vocabulary.keeps_text(), "{normalizer}");
        let again = there_and_back(&vocabulary, Format::Hf).expect("hf holds it");
        assert_eq!((&again, again.fingerprint()), (&vocabulary, vocabulary.fingerprint()), "{normalizer}");
        let tokenizer = Tokenizer::new(vocabulary, Default::default()).expect("valid");
        for (text, normal) in known.texts.iter().zip(normal) {
            let ids = tokenizer.encode(text).expect("it is encoded");
            let made = String::from_utf8(tokenizer.decode(&ids).expect("its ids")).expect("UTF-8");
            assert_eq!(made, normal, "{normalizer} of {text:?}");
        }
    }
}

/// Unsupported or invalid normalizers are refused by name.
#[test]
fn normalizers_that_are_not_known_are_refused_by_name() {
    let replace = |pattern: Value| json!({ "type": "Replace", "pattern": pattern, "content": "x" });
    for (normalizer, said) in [
        (json!({ "type": "BertNormalizer" }), "normalizer BertNormalizer is not supported"),
        (json!({ "type": "Nmt" }), "normalizer Nmt is not supported"),
        (json!({ "type": "Precompiled", "precompiled_charsmap": "" }), "normalizer Precompiled"),
        (json!({ "type": "ByteLevel" }), "normalizer ByteLevel is not supported"),
        (
            json!({ "type": "Sequence", "normalizers": [{ "type": "NFC" }, { "type": "Nmt" }] }),
            "normalizer Nmt",
        ),
        (json!({ "type": "Sequence" }), "normalizer Sequence without normalizers"),
        (replace(json!({ "String": "" })), "Replace of an empty string"),
        (replace(json!({ "Regex": "a*" })), "can match the empty text"),
        (replace(json!({ "Regex": r"\w" })), "has a different meaning in"),
        (replace(json!({ "Regex": "(" })), "is not a regular expression"),
        (json!({ "type": "Prepend" }), "not the JSON expected"),
        (
            json!({ "type": "Strip", "strip_left": true, "strip_right": false, "x": 1 }),
            "not the JSON expected",
        ),
    ] {
        let refused = read(&normalizer).expect_err(said);
        assert!(refused.to_string().contains(said), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Failed);
    }
}

/// Formats without normalizers refuse such a vocabulary and name the first normalizer.
#[test]
fn formats_that_have_no_normalizers_name_the_first() {
    for (normalizer, said) in [
        (json!({ "type": "Lowercase" }), "it changes text with the normalizer Lowercase"),
        (json!({ "type": "Prepend", "prepend": "▁" }), r#"it changes text with the normalizer Prepend "▁""#),
    ] {
        let vocabulary = read(&normalizer).expect("it is supported");
        for format in [Format::Tiktoken, Format::Minbpe, Format::Gpt2] {
            let refused = there_and_back(&vocabulary, format).expect_err(said);
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }
}

/// An added token with the flag `normalized` is searched for in its normalized spelling.
#[test]
fn added_tokens_are_normalized_as_texts_are() {
    let vocabulary = trained(&[b"low"], &["<|END|>"], SpecialTokensAt::End, "gpt2");
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    let mut file: Value = serde_json::from_slice(&files[0].1).expect("JSON");
    file["normalizer"] = json!({ "type": "Lowercase" });
    for (normalized, text, found) in [
        (true, "x<|end|>", true),
        (true, "x<|END|>", true),
        (false, "x<|end|>", false),
        (false, "x<|END|>", true),
    ] {
        file["added_tokens"][0]["normalized"] = json!(normalized);
        file["added_tokens"][0]["special"] = json!(false);
        let tokenizer = Tokenizer::from_json(file.to_string()).expect("it is supported");
        let ids = tokenizer.encode(text).expect("it is encoded");
        assert_eq!(ids.len() == 2, found, "{normalized} {text}");
    }
}
