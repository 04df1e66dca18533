//! Tokenizers that have no token for some bytes, used through the command line.

use serde_json::{Value, json};

use super::{folder, tokenmill, write};

/// A tokenizer as trained without an initial alphabet. It lacks the control characters except tab, line feed
/// and carriage return, the bytes that UTF-8 uses only for planes 4 to 15, and those that it never uses. Byte
/// tokens have ids in the order of bytes. Then come `lo`, `low`, `er`, ` lo` and ` low`, made by merges, and
/// `<end>`.
fn tokenizer() -> Value {
    let spelled = |byte: u8| match byte {
        9 => 'ĉ',
        10 => 'Ċ',
        13 => 'č',
        b' ' => 'Ġ',
        33..=126 => char::from(byte),
        0x7F..=0xA0 => char::from_u32(u32::from(byte) - 0x7F + 0x121).expect("a letter"),
        0xAD => 'Ń',
        _ => char::from(byte),
    };
    let bytes = [9, 10, 13].into_iter().chain(32..=0xBF).chain(0xC2..=0xF0).chain([0xF4]);
    let keys = bytes.map(|byte| spelled(byte).to_string());
    let merged = ["lo", "low", "er", "Ġlo", "Ġlow"].map(str::to_owned);
    let vocab: serde_json::Map<String, Value> =
        keys.chain(merged).zip(0..).map(|(key, id): (String, u32)| (key, json!(id))).collect();
    let next = vocab.len();
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    json!({
        "version": "1.0",
        "added_tokens": [{ "id": next, "content": "<end>", "special": true }],
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": { "type": "BPE", "vocab": vocab, "merges": ["l o", "lo w", "e r", "Ġ lo", "Ġlo w"] },
    })
}

/// Texts and the ids that Hugging Face's tokenizers 0.23.3 gives for them.
const TEXTS: [(&str, &[u32]); 4] = [
    ("low lower <end> slow", &[212, 3, 212, 213, 3, 216, 3, 86, 212]),
    ("café 日本 😀", &[70, 68, 73, 164, 140, 3, 199, 122, 136, 199, 127, 143, 3, 209, 130, 123, 99]),
    (
        "  two  spaces\n\n1234, ok?!",
        &[3, 3, 87, 90, 82, 3, 3, 86, 83, 68, 70, 72, 86, 1, 1, 20, 21, 22, 23, 15, 3, 82, 78, 34, 4],
    ),
    ("\u{fffd} \u{301} \u{ad}", &[208, 162, 160, 3, 173, 100, 3, 163, 144]),
];

/// Texts with bytes that have no token, and the ids of the rest, as Hugging Face's tokenizers gives them.
const INCOMPLETE: [(&str, &[u32]); 3] = [
    ("low\u{1}lower \u{1}\u{1} slow", &[212, 212, 213, 3, 3, 86, 212]),
    ("café \u{E0067}\u{E007F} z", &[70, 68, 73, 164, 140, 3, 131, 100, 138, 131, 100, 162, 3, 93]),
    ("lo\u{1}w", &[211, 90]),
];

fn lines<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(|text| format!("{}\n", json!({ "text": text }))).collect()
}

/// Ids equal those of Hugging Face's tokenizers. A document with a byte without a token is an error, unless
/// `--missing-bytes hf` drops the byte as tokenizers does.
#[test]
fn documents_are_encoded_and_those_with_a_byte_that_has_no_token_are_told() {
    let folder = folder();
    write(&folder, "tokenizer.json", tokenizer().to_string());
    write(&folder, "whole.jsonl", lines(TEXTS.map(|(text, _)| text)));
    write(&folder, "all.jsonl", lines(TEXTS.iter().chain(&INCOMPLETE).map(|(text, _)| *text)));
    let run = |arguments: &[&str]| {
        let output = tokenmill(&folder).args(arguments).output().expect("a run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let ids = |arguments: &[&str], text: &str| -> Vec<u32> {
        let command = ["tokens", "-t", "tokenizer.json", "--ids", "--special", "allow"];
        let (code, shown, said) = run(&[&command[..], arguments, &[text]].concat());
        assert_eq!(code, Some(0), "{said}");
        shown.split_whitespace().map(|id| id.parse().expect("an id")).collect()
    };
    for (text, expected) in TEXTS {
        assert_eq!(ids(&[], text), expected, "{text}");
    }
    let encode = ["encode", "whole.jsonl", "-t", "tokenizer.json", "--special", "allow", "-o", "whole"];
    let (code, _, said) = run(&encode);
    assert_eq!(code, Some(0), "{said}");
    let (code, _, said) = run(&["decode", "whole", "-t", "tokenizer.json", "--verify", "whole.jsonl"]);
    assert_eq!((code, said.contains("identical: 4 rows")), (Some(0), true), "{said}");

    let encode = ["encode", "all.jsonl", "-t", "tokenizer.json", "--special", "allow", "-o", "all"];
    let (code, _, said) = run(&encode);
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "all.jsonl: row 4: ",
        "no token for byte 0x01",
        "which the text contains in U+0001",
        "--missing-bytes hf",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, _, said) = run(&[&encode[..], &["--missing-bytes", "hf"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let verify = ["decode", "all", "-t", "tokenizer.json", "--verify", "all.jsonl"];
    let (code, _, said) = run(&verify);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("identical to the texts as this tokenizer changes them"), "{said}");
    let card = std::fs::read_to_string(folder.path().join("all/README.md")).expect("a card");
    assert!(card.contains("bytes without a token: `hf`"), "{card}");

    for (text, expected) in INCOMPLETE {
        assert_eq!(ids(&["--missing-bytes", "hf"], text), expected, "{text}");
        assert_eq!(run(&["tokens", "-t", "tokenizer.json", text]).0, Some(1));
    }
    let compare = ["compare", "tokenizer.json", "--on", "all.jsonl"];
    let (code, _, said) = run(&compare);
    assert!(code == Some(1) && said.contains("all.jsonl: row 4: "), "{said}");
    assert_eq!(run(&[&compare[..], &["--missing-bytes", "hf"]].concat()).0, Some(0));
    let (_, shown, _) = run(&["inspect", "tokenizer.json"]);
    let named = "0x00–0x08, 0x0B–0x0C, 0x0E–0x1F, 0xC0–0xC1, 0xF1–0xF3, 0xF5–0xFF have no token";
    assert!(shown.contains(named) && shown.contains("its own library drops them"), "{shown}");
    let (_, shown, _) = run(&["inspect", "tokenizer.json", "--json"]);
    let facts: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(facts["missing_bytes"].as_array().expect("bytes").len(), 45);
}

/// Extending keeps all ids and makes no token with a byte that has no token.
#[test]
fn a_tokenizer_is_extended_without_bytes_that_have_no_token() {
    let folder = folder();
    write(&folder, "base.json", tokenizer().to_string());
    write(&folder, "a.jsonl", lines(["ab\u{1}ab", "ab\u{1}ab lower", "\u{1}\u{1}"]));
    let extend =
        ["train", "a.jsonl", "--extend", "base.json", "--merges", "7", "--min-frequency", "2", "-o", "grown"];
    let output = tokenmill(&folder).args(extend).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let file = std::fs::read(folder.path().join("grown/tokenizer.json")).expect("written");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let before = tokenizer();
    let (vocab, old) = (&file["model"]["vocab"], before["model"]["vocab"].as_object().expect("tokens"));
    assert!(old.iter().all(|(key, id)| vocab[key] == *id));
    assert_eq!(vocab["ab"], 217);
    assert!(vocab.get("ā").is_none());
}
