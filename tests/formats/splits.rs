//! Pre-tokenizers of a `tokenizer.json` that do more than split at matches: read, and written again.

use serde::Deserialize;
use serde_json::{Value, json};
use tokenmill::Tokenizer;
use tokenmill::base::int::to_usize;
use tokenmill::observer::Silent;
use tokenmill::split::splitter;
use tokenmill::vocab::{Format, Vocabulary, from_json};

use crate::made::{hf_file, there_and_back, with_component};

fn read(pre_tokenizer: &Value) -> Vocabulary {
    with_component("pre_tokenizer", pre_tokenizer).expect("it is supported")
}

/// Known answers of `pre_tokenizer.pre_tokenize_str` of `tokenizers` 0.23.3: the lengths in bytes of the
/// pre-tokens of each text.
#[derive(Deserialize)]
struct Known {
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    pre_tokenizer: Value,
    lengths: Vec<Vec<usize>>,
}

/// Every pre-tokenizer splits as in `tokenizers`, or is refused where `tokenizers` drops a part of the text.
#[test]
fn texts_are_cut_as_in_hugging_face_s_tokenizers() {
    let known: Known =
        serde_json::from_str(include_str!("../data/tokenizers/splits.json")).expect("the cases");
    let mut dropped = 0;
    for Case { pre_tokenizer, lengths } in known.cases {
        let vocabulary = read(&pre_tokenizer);
        let again = there_and_back(&vocabulary, Format::Hf).expect("hf holds it");
        assert_eq!((&again, again.fingerprint()), (&vocabulary, vocabulary.fingerprint()), "{pre_tokenizer}");
        let json = serde_json::to_string(vocabulary.split()).expect("patterns serialise");
        assert_eq!(serde_json::from_str(&json).ok().as_ref(), Some(vocabulary.split()), "{json}");
        let splitter = splitter(vocabulary.split()).expect("regular expressions");
        for (text, lengths) in known.texts.iter().zip(lengths) {
            let spaced = vocabulary.rules().prefix_space && !text.is_empty() && !text.starts_with(' ');
            let text = if spaced { format!(" {text}") } else { text.clone() };
            let mut ends = Vec::new();
            let outcome = splitter.pretoken_ends(text.as_bytes(), &mut ends);
            if lengths.iter().sum::<usize>() < text.len() {
                let refused = outcome.expect_err("some of the text is dropped there").to_string();
                assert!(refused.contains("does not match"), "{refused}");
                dropped += 1;
                continue;
            }
            outcome.expect("it is cut");
            let starts = [0].into_iter().chain(ends.iter().copied());
            let found: Vec<usize> =
                ends.iter().zip(starts).map(|(end, start)| to_usize(end - start)).collect();
            assert_eq!(found, lengths, "{pre_tokenizer} of {text:?}");
        }
    }
    assert!(dropped > 5, "only {dropped} texts are dropped in part");
}

fn byte_level() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false })
}

/// All characters that `Punctuation` of `tokenizers` 0.23.3 splits off, as ranges. They were found by trying
/// each character.
#[test]
fn punctuation_is_that_of_hugging_face_s_tokenizers() {
    let ranges = include_str!("../data/tokenizers/punctuation.txt").split_whitespace();
    let code = |text: &str| u32::from_str_radix(text, 16).expect("hexadecimal digits");
    let ranges: Vec<_> =
        ranges.filter_map(|range| range.split_once('-')).map(|(a, b)| code(a)..=code(b)).collect();
    let steps = json!([{ "type": "Punctuation", "behavior": "Isolated" }, byte_level()]);
    let vocabulary = read(&json!({ "type": "Sequence", "pretokenizers": steps }));
    let splitter = splitter(vocabulary.split()).expect("a class");
    for character in '\0'..=char::MAX {
        let mut ends = Vec::new();
        splitter.pretoken_ends(format!("a{character}a").as_bytes(), &mut ends).expect("a short text");
        let expected = ranges.iter().any(|range| range.contains(&u32::from(character)));
        assert_eq!(ends.len() == 3, expected, "U+{:04X}", u32::from(character));
    }
}

/// Settings without effect are accepted: a fused decoder, `fuse_unk`, and `byte_fallback` where every byte has
/// a token.
#[test]
fn what_makes_no_difference_is_read() {
    let plain = read(&byte_level());
    for (at, value) in [
        (
            "/decoder",
            json!({ "type": "Sequence", "decoders": [{ "type": "ByteLevel" }, { "type": "Fuse" }] }),
        ),
        ("/model/fuse_unk", json!(true)),
        ("/model/byte_fallback", json!(true)),
    ] {
        let mut file = hf_file();
        file["pre_tokenizer"] = byte_level();
        *file.pointer_mut(at).expect("a place of the file") = value;
        let vocabulary = from_json(file.to_string().as_bytes(), &Silent).expect(at);
        assert_eq!(vocabulary, plain, "{at}");
    }
    let mut lacking = hf_file();
    lacking["model"]["byte_fallback"] = json!(true);
    lacking["model"]["vocab"].as_object_mut().expect("tokens").remove("Ā");
    let refused = from_json(lacking.to_string().as_bytes(), &Silent).expect_err("a byte has no token");
    assert!(refused.to_string().contains("byte_fallback is not supported"), "{refused}");
}

/// Falcon's pre-tokenizers as a whole. With the merges `l o` and `lo w`, `tokenizers` 0.23.3 gives these ids.
#[test]
fn falcon_s_structure_encodes_as_in_hugging_face_s_tokenizers() {
    let mut file = hf_file();
    let gpt2 =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    file["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Punctuation", "behavior": "Contiguous" },
        gpt2,
        { "type": "Digits", "individual_digits": false },
        { "type": "Split", "pattern": { "Regex": "[0-9][0-9][0-9]" }, "behavior": "Isolated", "invert": false },
    ]});
    let tokenizer = Tokenizer::from_json(file.to_string()).expect("it is supported");
    let ids = tokenizer.encode("low 1234lo!").expect("it is encoded");
    assert_eq!(ids, [257, 32, 49, 50, 51, 52, 256, 33]);
}
