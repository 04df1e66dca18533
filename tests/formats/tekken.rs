//! Mistral's `tekken.json`.

use std::fs;

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine};
use serde_json::{Value, json};
use tokenmill::Tokenizer;
use tokenmill::observer::Silent;
use tokenmill::vocab::read_transformers_settings;

use crate::made::load_plainly;

const PATTERN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// The tokens after the bytes. The size of the vocabulary leaves out the last one.
const TOKENS: [&str; 17] = [
    "th", " th", "the", " the", "  ", "in", "ing", "é", "caf", "café", "12", "\n\n", "日", "<s", "ca", "er",
    "unused",
];

/// Texts and the ids from `Tekkenizer.encode(text, bos=False, eos=False)` of mistral_common 1.x with this file.
const KNOWN: [(&str, &[u32]); 7] = [
    ("the cat in the café", &[283, 57, 295, 141, 57, 286, 284, 57, 290]),
    (
        "  The 1234 things\n\n x  ",
        &[57, 57, 109, 129, 126, 57, 74, 75, 76, 77, 282, 287, 140, 292, 57, 145, 285],
    ),
    (
        "日本語の<s>[INST] there",
        &[
            255, 176, 190, 255, 181, 197, 257, 195, 183, 252, 154, 199, 294, 87, 116, 98, 103, 108, 109, 118,
            284, 139, 126,
        ],
    ),
    ("", &[]),
    (
        "café's HTTPServer they're",
        &[290, 64, 140, 57, 97, 109, 109, 105, 108, 296, 143, 296, 284, 146, 64, 139, 126],
    ),
    ("\n \n  caféing ", &[35, 57, 35, 57, 57, 290, 287, 57]),
    (
        "👩\u{200d}👩 é e\u{301} thething",
        &[265, 184, 170, 194, 251, 153, 166, 265, 184, 170, 194, 57, 288, 57, 126, 229, 154, 284, 281, 287],
    ),
];

fn file() -> Value {
    let bytes = (0..=255u8).map(|byte| vec![byte]);
    let tokens = bytes.chain(TOKENS.map(|token| token.as_bytes().to_vec()));
    let vocab: Vec<Value> = tokens
        .enumerate()
        .map(
            |(rank, bytes)| json!({ "rank": rank, "token_bytes": STANDARD.encode(bytes), "token_str": null }),
        )
        .collect();
    let config = json!({
        "pattern": PATTERN, "num_vocab_tokens": 273, "default_vocab_size": 297, "default_num_special_tokens": 25,
        "version": "v3",
    });
    json!({ "config": config, "vocab": vocab, "image": { "image_patch_size": 16 } })
}

/// Ids equal those of mistral_common, with listed special tokens or without.
#[test]
fn ids_are_those_of_mistral_s_own_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tekken.json");
    for (listed, fourth, fifth) in [(false, "[INST]", "[/INST]"), (true, "[X]", "<SPECIAL_4>")] {
        let mut file = file();
        if listed {
            let special = |(rank, text)| json!({ "rank": rank, "token_str": text, "is_control": true });
            file["special_tokens"] = (0..).zip(["<unk>", "<s>", "</s>", "[X]"]).map(special).collect();
        }
        fs::write(&path, file.to_string()).expect("written");
        let vocabulary = load_plainly(folder.path()).expect("found in the folder");
        assert_eq!(vocabulary, load_plainly(&path).expect("and by its name"));
        assert_eq!(vocabulary.id_limit(), 297);
        let specials: Vec<&str> = vocabulary.specials().map(|token| &*token.text).collect();
        assert_eq!((specials.len(), specials[1], specials[3], specials[4]), (25, "<s>", fourth, fifth));
        assert_eq!(
            read_transformers_settings(&path, &vocabulary, &Silent).expect("nothing is beside it").bos,
            None
        );
        let tokenizer = Tokenizer::new(vocabulary, Default::default()).expect("valid");
        for (text, ids) in KNOWN {
            assert_eq!(tokenizer.encode(text).expect("it is encoded"), ids, "{text:?}");
        }
    }
}

/// Inconsistent sizes, ranks and tokens are refused.
#[test]
fn files_that_contradict_themselves_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tekken.json");
    let special = |rank| json!([{ "rank": rank, "token_str": "<s>", "is_control": true }]);
    for (at, value, said) in [
        (
            "/config/default_vocab_size",
            json!(299),
            "299 tokens, 25 of them special, where 273 others are listed",
        ),
        ("/config/default_vocab_size", json!(3), "3 tokens, 25 of them special"),
        (
            "/config/default_num_special_tokens",
            json!(4_000_000_000_u32),
            "297 tokens, 4000000000 of them special",
        ),
        ("/vocab/3/rank", json!(7), "rank 7 where 3 is expected"),
        ("/vocab/3/token_bytes", json!("="), "a token that is not base64"),
        ("/vocab/260/token_bytes", json!(STANDARD.encode("th")), "\"th\" is listed twice"),
        ("/special_tokens", special(25), "special token \"<s>\" with rank 25"),
        ("/special_tokens", special(7), "two tokens have id 7"),
        ("/config/pattern", json!("("), "is not a regular expression"),
    ] {
        let mut file = file();
        file["special_tokens"] = json!(null);
        *file.pointer_mut(at).expect("a place of the file") = value;
        fs::write(&path, file.to_string()).expect("written");
        let refused = load_plainly(&path).expect_err(said);
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
