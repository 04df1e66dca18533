//! Tokenizer files as other programs write them: in other spellings, under other names, and of other kinds.

use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine};
use serde_json::{Value, json};
use tokenmill::encode::{EncodeConfig, Encoder, SpecialPolicy};
use tokenmill::observer::Silent;
use tokenmill::split::{NamedPattern, SplitPattern};
use tokenmill::vocab::{
    AddedToken, Format, LoadOptions, RankedMerge, SpecialToken, SpecialTokensAt, Vocabulary, VocabularyParts,
    WriteOptions, compatibility_notes, load, read_transformers_settings, render,
};
use tokenmill::{Error, ErrorKind, Result, TokenId};

use crate::made::{Notes, load_plainly, there_and_back, trained};

/// The 256 single-byte tokens, followed by these.
fn ranks(longer: &[&str]) -> Vec<Vec<u8>> {
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    bytes.chain(longer.iter().map(|token| token.as_bytes().to_vec())).collect()
}

fn rank_file(tokens: &[Vec<u8>]) -> String {
    tokens.iter().enumerate().map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token))).collect()
}

fn load_ranks(path: &Path) -> Result<Vocabulary> {
    let options =
        LoadOptions { split: Some(SplitPattern::Named(NamedPattern::Gpt4)), ..LoadOptions::default() };
    load(path, &options, &Silent)
}

fn help(error: &Error) -> String {
    error.help().unwrap_or_default().to_owned()
}

/// Two lines of a rank file in other spellings, and whether `tiktoken.load.load_tiktoken_bpe` of tiktoken 0.14
/// reads the same tokens from them or fails.
#[test]
fn lines_of_rank_files_are_taken_as_tiktoken_takes_them() {
    let tokens = ranks(&["lo", "low"]);
    let plain = rank_file(&tokens);
    let (first, rest) = plain.split_at(plain.match_indices('\n').nth(1).expect("many lines").0 + 1);
    assert_eq!(first, "AA== 0\nAQ== 1\n");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.tiktoken");
    fs::write(&path, &plain).expect("written");
    let expected = load_ranks(&path).expect("ranks");
    for (first, read) in [
        ("AA== 0 \nAQ== 1 \n", true),
        (" AA== 0\n  AQ== 1\n", true),
        ("AA==\t0\nAQ==\t1\n", true),
        ("AA==  0\nAQ==  1\n", true),
        ("AA==\x0b0\nAQ==\x0c1\n", true),
        ("AA== 0\r\nAQ== 1\r\n", true),
        ("AA== 0\rAQ== 1\r", true),
        ("AA== 0\r\r\nAQ== 1\r\r\n", true),
        ("AA== 0\rAQ== 1\n", true),
        ("\n\nAA== 0\n\nAQ== 1\n\n", true),
        ("\u{feff}AA== 0\nAQ== 1\n", true),
        ("AA== 00\nAQ== +1\n", true),
        // Unused bits in the last Base64 digit.
        ("AB== 0\nAf== 1\n", true),
        ("AA== 0\n  \nAQ== 1\n", false),
        ("AA==\nAQ== 1\n", false),
        (" 0\nAQ== 1\n", false),
        ("AA== 0 x\nAQ== 1\n", false),
        ("AA==\u{a0}0\nAQ== 1\n", false),
        ("AA 0\nAQ== 1\n", false),
        ("AA== 0x0\nAQ== 1\n", false),
        ("AA== 0.0\nAQ== 1\n", false),
        ("AA== 0\u{2028}AQ== 1\n", false),
        ("AA== 0\u{85}AQ== 1\n", false),
        ("AA== 0\x1cAQ== 1\n", false),
        ("AA== 0 AQ== 1\n", false),
    ] {
        fs::write(&path, format!("{first}{rest}")).expect("written");
        match load_ranks(&path) {
            Ok(vocabulary) => assert!(read && vocabulary == expected, "{first:?}"),
            Err(refused) => {
                assert!(!read, "{first:?}: {refused}");
                assert!(refused.to_string().contains("a token in base64 and its rank expected"), "{refused}");
            }
        }
    }
}

/// Line numbers in messages count a line break of any kind once.
#[test]
fn the_line_that_is_wrong_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.tiktoken");
    for text in ["AA== 0\n\nAQ==\n", "AA== 0\r\n\r\nAQ==\r\n", "AA== 0\r\rAQ==\r"] {
        fs::write(&path, text).expect("written");
        let refused = load_ranks(&path).expect_err("a rank lacks").to_string();
        assert!(refused.contains("line 3: "), "{text:?}: {refused}");
    }
}

/// A byte order mark at the start of a tokenizer file is ignored.
#[test]
fn a_byte_order_mark_changes_nothing() {
    let vocabulary = trained(&[b"low low"], &["<|end|>"], SpecialTokensAt::End, "gpt2");
    for format in Format::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in render(&vocabulary, format, &WriteOptions::default()).expect("it is held") {
            let marked = [b"\xef\xbb\xbf".to_vec(), bytes].concat();
            fs::write(folder.path().join(name), marked).expect("written");
        }
        assert_eq!(load_plainly(folder.path()).expect("read"), vocabulary, "{format}");
    }
}

/// Rank files are recognized by their content. Llama 3 calls its ranks `tokenizer.model`, and caches name files by
/// hashes. Which of these tiktoken uses for the files of OpenAI is known, so this hash is another one.
#[test]
fn ranks_are_known_by_what_they_hold() {
    let text = rank_file(&ranks(&["lo", "low"]));
    for name in ["tokenizer.model", "0123456789abcdef0123456789abcdef01234567", "mine.bpe"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, &text).expect("written");
        let vocabulary = load_ranks(&path).expect("ranks");
        assert_eq!(vocabulary.id_of(b"low").map(|id| id.get()), Some(257), "{name}");
        if name.ends_with(".model") {
            assert_eq!(load_ranks(folder.path()).expect("the one of the folder"), vocabulary);
        }
        let refused = load_plainly(&path).expect_err("nothing says how text is split");
        assert!(refused.to_string().contains("the file does not say how text is split"), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Usage);
    }
}

/// The first entries of a SentencePiece model: `<unk>` of type 2, and a token with a score.
const SENTENCE_PIECE: &[u8] =
    b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x05\xe2\x96\x81lo\x15\0\0\x80\xbf";

/// Files that are no supported tokenizer are refused by their kind, with a remedy.
#[test]
fn files_of_another_kind_say_what_they_are() {
    let pickle = b"\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\x04text\x94.";
    let safetensors = b"\x08\0\0\0\0\0\0\0{\"a\":1} ";
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234567\n";
    let cases: [(&str, &[u8], &str, &str); 22] = [
        ("tokenizer.json", pointer, "a Git LFS pointer", "git lfs pull"),
        ("x.tiktoken", pointer, "a Git LFS pointer", "git lfs pull"),
        ("tokenizer.model", pointer, "a Git LFS pointer", "git lfs pull"),
        ("vocab.json", pointer, "a Git LFS pointer", "git lfs pull"),
        ("merges.txt", pointer, "a Git LFS pointer", "git lfs pull"),
        ("tokenizer.json", b"<!DOCTYPE html><html></html>", "a web page", "raw"),
        ("x.tiktoken", b"\n  <!doctype HTML>\n", "a web page", "resolve"),
        ("tokenizer.model", b"<html lang=en>", "a web page", "resolve"),
        ("tokenizer.json", b"<?xml version=\"1.0\"?><Error/>", "a web page", "resolve"),
        ("tokenizer.json", b"Entry not found", "an error message from a server", "resolve"),
        (
            "tokenizer.json",
            b"{\"error\":\"Repository not found\"}",
            "an error message from a server",
            "token",
        ),
        ("tokenizer.model", SENTENCE_PIECE, "a SentencePiece model", "only byte-level BPE"),
        ("x.spm", SENTENCE_PIECE, "a SentencePiece model", "only byte-level BPE"),
        ("tokenizer.json", b"\x1f\x8b\x08\0", "compressed with gzip", "unpack"),
        ("x.tiktoken", b"\xff\xfeA\0A\0", "UTF-16", "iconv"),
        ("tokenizer.json", b"PK\x03\x04", "a zip archive", "unpack"),
        ("tokenizer.pkl", pickle, "a pickled Python object", ".tiktoken"),
        ("model.safetensors", safetensors, "the weights of a model", "tokenizer.json"),
        ("vocab.txt", b"[PAD]\n[unused0]\n[UNK]\nthe\n", "the token list of a WordPiece model", "byte-level"),
        (
            "tokenizer.json",
            br#"{"pat_str": "a", "bpe_ranks": "! 0 AA=="}"#,
            "tiktoken for JavaScript",
            ".tiktoken",
        ),
        (
            "tokenizer.json",
            br#"{"tokenizer_class": "GPT2Tokenizer"}"#,
            "settings of transformers",
            "the folder",
        ),
        ("tokenizer.json", br#"{"a": 0, "b": 1}"#, "tokens with their ids, without merges", "merges.txt"),
    ];
    for (name, bytes, said, remedy) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        // `merges.txt` needs a vocabulary beside it.
        fs::write(folder.path().join("vocab.json"), b"{\"!\": 0}").expect("written");
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        let refused = load_ranks(&path).expect_err(said);
        let text = refused.to_string();
        assert!(text.contains(name) && text.contains(said), "{name}: {text}");
        assert!(help(&refused).contains(remedy), "{name}: {text}: {}", help(&refused));
        assert_eq!(refused.kind(), ErrorKind::Failed, "{text}");
    }
}

/// A folder without a supported tokenizer, but with a file of an unsupported kind.
#[test]
fn what_a_folder_has_instead_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("vocab.txt"), "[PAD]\n[UNK]\nthe\n").expect("written");
    let refused = load_plainly(folder.path()).expect_err("no tokenizer").to_string();
    assert!(refused.contains("vocab.txt") && refused.contains("WordPiece"), "{refused}");
}

/// Old files do not name the type of their model.
#[test]
fn models_without_a_type_are_refused_by_name() {
    for (model, kind) in [
        (
            json!({ "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                    "vocab": { "[UNK]": 0 } }),
            "model WordPiece is not supported",
        ),
        (json!({ "unk_id": 0, "vocab": [["<unk>", 0.0]] }), "model Unigram is not supported"),
        (json!({ "unk_token": "[UNK]", "vocab": { "[UNK]": 0 } }), "model WordLevel is not supported"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokenizer.json");
        let file = json!({ "version": "1.0", "normalizer": null, "pre_tokenizer": null, "model": model });
        fs::write(&path, file.to_string()).expect("written");
        let refused = load_plainly(&path).expect_err(kind).to_string();
        assert!(refused.contains(kind), "{refused}");
    }
}

/// Files of Qwen and others have a template with nothing but the text. It needs no note.
#[test]
fn a_template_that_puts_nothing_is_not_told() {
    let vocabulary = trained(&[b"low"], &["<|end|>"], SpecialTokensAt::End, "gpt2");
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    let mut file: Value = serde_json::from_slice(&files[0].1).expect("JSON");
    let text = |name: &str| json!({ "Sequence": { "id": name, "type_id": 0 } });
    file["post_processor"] = json!({
        "type": "TemplateProcessing", "single": [text("A")], "pair": [text("A"), text("B")], "special_tokens": {},
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    fs::write(&path, file.to_string()).expect("written");
    let notes = Notes::default();
    assert_eq!(load(&path, &LoadOptions::default(), &notes).expect("it is supported"), vocabulary);
    let notes = notes.0.into_inner().expect("no panic");
    assert!(notes.is_empty(), "{notes:?}");
}

fn ids(vocabulary: &Vocabulary, text: &str) -> Vec<u32> {
    let config = EncodeConfig { special: SpecialPolicy::Allow, ..EncodeConfig::default() };
    let encoder = Encoder::new(vocabulary.clone(), config).expect("no token is named");
    let mut worker = encoder.worker();
    worker.encode(text.as_bytes()).expect("it is allowed").iter().map(|id| id.get()).collect()
}

/// The merges are those that `TikTokenConverter` of transformers 5.23 lists for the ranks. The ids are those of
/// tiktoken 0.14.
#[test]
fn ranks_of_many_cuts_become_what_transformers_makes_of_them() {
    let regex = r" ?\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+";
    let split = Some(SplitPattern::from_regex(regex));
    type Texts = &'static [(&'static str, &'static [u32])];
    let cases: [(&[&str], &[&str], Texts); 2] = [
        (
            &["ab", "bc", "abc", "xyz"],
            &["a b", "b c", "a bc", "ab c"],
            &[
                ("abcaabcaab", &[258, 97, 258, 97, 256]),
                ("cababab caa", &[99, 256, 256, 256, 32, 99, 97, 97]),
            ],
        ),
        (
            &["aa", "aaa", "aaaa", "ab", "abab", "ca", "bca", "abca", "xyz"],
            &[
                "a a", "a aa", "aa a", "a aaa", "aa aa", "aaa a", "a b", "ab ab", "c a", "b ca", "a bca",
                "ab ca",
            ],
            &[
                ("aaaaaaa", &[258, 257]),
                ("abcaabcaab", &[259, 99, 256, 98, 99, 256, 98]),
                ("cababab caa", &[99, 260, 259, 32, 99, 256]),
                ("xyz xyz", &[264, 32, 120, 121, 122]),
            ],
        ),
    ];
    for (longer, merges, texts) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.tiktoken");
        let ranks = rank_file(&ranks(longer));
        fs::write(&path, &ranks).expect("written");
        let options = LoadOptions { split: split.clone(), ..LoadOptions::default() };
        let vocabulary = load(&path, &options, &Silent).expect("ranks");
        let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
        let file: Value = serde_json::from_slice(&files[0].1).expect("JSON");
        assert_eq!(file["model"]["merges"], json!(merges));
        assert_eq!(file["model"]["ignore_merges"], true);
        let again = there_and_back(&vocabulary, Format::Hf).expect("hf holds it");
        assert_eq!(again.fingerprint(), vocabulary.fingerprint());
        for (text, expected) in texts {
            assert_eq!(ids(&vocabulary, text), *expected, "{text}");
            assert_eq!(ids(&again, text), *expected, "{text}");
        }
        let back = render(&again, Format::Tiktoken, &WriteOptions::default()).expect("they are ranks");
        assert_eq!(back[0].1, ranks.as_bytes());
    }
}

/// Writes GPT-2's two files under these names, with the merges `l o`, `lo w`, `e r`, ` lo` and ` low` (tokens
/// 256 to 260).
fn gpt2_files(folder: &Path, [vocabulary, merges]: [&str; 2], more: Value) {
    let mut tokens: Vec<Vec<u8>> = ranks(&[]);
    let mut ranked = Vec::new();
    for (rank, (left, right)) in (0..).zip([("l", "o"), ("lo", "w"), ("e", "r"), (" ", "lo"), (" lo", "w")]) {
        let id = |token: &str| {
            TokenId::from_index(
                tokens.iter().position(|known| known == token.as_bytes()).expect("it is there"),
            )
        };
        let (left_id, right_id, result) = (id(left), id(right), TokenId::from_index(tokens.len()));
        ranked.push(RankedMerge { left: left_id, right: right_id, result, rank });
        tokens.push([left, right].concat().into_bytes());
    }
    let parts = VocabularyParts {
        tokens: tokens
            .into_iter()
            .enumerate()
            .map(|(id, token)| (TokenId::from_index(id), token.into()))
            .collect(),
        merges: ranked,
        split: SplitPattern::Named(NamedPattern::Gpt2),
        ..VocabularyParts::default()
    };
    let plain = Vocabulary::new(parts).expect("merges of tokens there are");
    let files = render(&plain, Format::Gpt2, &WriteOptions::default()).expect("it is GPT-2's split");
    let mut keys: Value = serde_json::from_slice(&files[0].1).expect("JSON");
    for (key, id) in more.as_object().expect("an object") {
        keys[key] = id.clone();
    }
    fs::write(folder.join(vocabulary), keys.to_string()).expect("written");
    fs::write(folder.join(merges), &files[1].1).expect("written");
}

const USUAL: [&str; 2] = ["vocab.json", "merges.txt"];

fn beside(folder: &Path, files: &[(&str, Value)]) {
    for (name, value) in files {
        fs::write(folder.join(name), value.to_string()).expect("written");
    }
}

/// An entry of `added_tokens_decoder`.
fn flagged(content: &str, lstrip: bool, special: bool) -> Value {
    json!({ "content": content, "lstrip": lstrip, "normalized": false, "rstrip": false, "single_word": false,
            "special": special })
}

/// The expected ids are those of `AutoTokenizer` of transformers 5.23 for the same folders.
#[test]
fn what_lies_beside_a_vocabulary_is_read_as_transformers_reads_it() {
    let class =
        |class: &str| ("tokenizer_config.json", json!({ "tokenizer_class": class, "eos_token": "<end>" }));
    let added = ("added_tokens.json", json!({ "<verse>": 261, "<end>": 262 }));
    let map = ("special_tokens_map.json", json!({ "eos_token": "<end>" }));
    let object = json!({ "eos_token": { "content": "<end>", "lstrip": false, "normalized": true, "rstrip": false,
                         "single_word": false } });
    let decoder = json!({ "tokenizer_class": "GPT2Tokenizer", "eos_token": "<end>", "added_tokens_decoder": {
        "261": flagged("<verse>", true, false), "262": flagged("<end>", false, true) } });
    let mut spaced = class("GPT2Tokenizer");
    spaced.1["add_prefix_space"] = json!(true);
    let text = "<verse>low<end>";
    let plain: &[u32] = &[261, 257, 262];
    for (name, files, text, expected) in [
        ("all", vec![added.clone(), map.clone(), class("GPT2Tokenizer")], text, plain),
        ("no configuration", vec![added.clone(), map.clone()], text, plain),
        ("no map", vec![added.clone(), class("GPT2TokenizerFast")], text, plain),
        ("a map of objects", vec![added.clone(), ("special_tokens_map.json", object)], text, plain),
        (
            "flags",
            vec![("tokenizer_config.json", decoder.clone())],
            "low <verse>low<end>",
            &[257, 261, 257, 262],
        ),
        // If a configuration lists added tokens, `added_tokens.json` is not read.
        (
            "two lists",
            vec![("added_tokens.json", json!({ "<x>": 261 })), ("tokenizer_config.json", decoder)],
            text,
            plain,
        ),
        ("a space before", vec![added.clone(), map, spaced], text, &[261, 32, 257, 262]),
        (
            "Qwen's split",
            vec![added, class("Qwen2Tokenizer")],
            "low low\n\n12",
            &[257, 32, 257, 10, 10, 49, 50],
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        gpt2_files(folder.path(), USUAL, json!({}));
        beside(folder.path(), &files);
        let notes = Notes::default();
        let vocabulary = load(folder.path(), &LoadOptions::default(), &notes).expect(name);
        assert_eq!(ids(&vocabulary, text), expected, "{name}");
        let special: Vec<&str> = vocabulary.specials().map(|token| &*token.text).collect();
        assert_eq!(special, ["<end>"], "{name}");
        assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary, "{name}");
        let named = read_transformers_settings(folder.path(), &vocabulary, &notes).expect("read").eos;
        assert_eq!(named.as_deref(), Some("<end>"), "{name}");
        let notes = notes.0.into_inner().expect("no panic");
        assert!(notes.is_empty(), "{name}: {notes:?}");
        let qwen = vocabulary.split() == &SplitPattern::Named(NamedPattern::Qwen2)
            && !vocabulary.rules().normalizers.is_empty();
        assert_eq!(qwen, name == "Qwen's split");
    }
}

/// `special_tokens_map.json` can mark tokens of the vocabulary as special.
#[test]
fn tokens_of_the_vocabulary_are_named_special_too() {
    let folder = tempfile::tempdir().expect("a folder");
    gpt2_files(folder.path(), USUAL, json!({ "<s>": 261, "<mask>": 262 }));
    let mask = json!({ "content": "<mask>", "lstrip": true, "normalized": false, "rstrip": false, "single_word": false });
    beside(
        folder.path(),
        &[("special_tokens_map.json", json!({ "bos_token": "<s>", "mask_token": mask, "pad_token": null }))],
    );
    let vocabulary = load_plainly(folder.path()).expect("as RoBERTa has it");
    let plain = |id, text| AddedToken::special(TokenId::new(id), text);
    assert_eq!(vocabulary.added(), [plain(261, "<s>"), AddedToken { lstrip: true, ..plain(262, "<mask>") }]);
}

/// The split of a known class is not overridden. A vocabulary without a class, or of an unknown one, takes any split.
#[test]
fn the_split_of_a_known_class_may_not_be_contradicted() {
    let split = |wanted: Option<&str>, class: Option<&str>| {
        let folder = tempfile::tempdir().expect("a folder");
        gpt2_files(folder.path(), USUAL, json!({}));
        if let Some(class) = class {
            beside(folder.path(), &[("tokenizer_config.json", json!({ "tokenizer_class": class }))]);
        }
        let split = wanted.map(|name| name.parse().expect("a split"));
        let options = LoadOptions { split, ..LoadOptions::default() };
        load(folder.path(), &options, &Silent).map(|vocabulary| vocabulary.split().to_string())
    };
    for (wanted, class, expected) in [
        (None, Some("Qwen2Tokenizer"), "qwen2"),
        (Some("qwen2"), Some("Qwen2TokenizerFast"), "qwen2"),
        (Some("gpt4"), Some("MineTokenizer"), "gpt4"),
        (Some("gpt4"), None, "gpt4"),
        (None, None, "gpt2"),
    ] {
        assert_eq!(split(wanted, class).expect("a tokenizer"), expected, "{wanted:?} {class:?}");
    }
    for class in ["Qwen2Tokenizer", "GPT2Tokenizer"] {
        let error = split(Some("gpt4"), Some(class)).expect_err("another split");
        assert_eq!(error.kind(), ErrorKind::Usage);
        let said = "tokenizer_config.json: the requested split is not the one that the file names";
        assert!(error.to_string().ends_with(said), "{error}");
    }
}

/// Settings beside a vocabulary that cannot be kept give a note. Contradictions are errors.
#[test]
fn what_cannot_be_kept_of_the_files_beside_is_told_or_refused() {
    for (files, more, said) in [
        (
            vec![("special_tokens_map.json", json!({ "eos_token": "<end>", "pad_token": "<end>" }))],
            json!({}),
            Ok(r#"special token "<end>" is left out, because no file gives it an id"#),
        ),
        (
            vec![("tokenizer_config.json", json!({ "tokenizer_class": "MineTokenizer" }))],
            json!({}),
            Ok("the split of MineTokenizer is unknown"),
        ),
        (
            vec![(
                "tokenizer_config.json",
                json!({ "add_bos_token": true, "bos_token": "<s>", "tokenizer_class": "GPT2Tokenizer" }),
            )],
            json!({ "<s>": 261 }),
            Ok(r#"add_bos_token, which adds "<s>" to a text, is ignored; set bos and eos instead"#),
        ),
        (
            vec![("tokenizer_config.json", json!({ "tokenizer_class": "CLIPTokenizer" }))],
            json!({}),
            Err("tokenizer_class CLIPTokenizer is not supported"),
        ),
        (vec![("added_tokens.json", json!({ "<x>": 5 }))], json!({}), Err("two tokens have id 5")),
        (
            vec![("added_tokens.json", json!({ "<x>": 261, "<y>": 261 }))],
            json!({}),
            Err("two tokens have id 261"),
        ),
        (
            vec![("added_tokens.json", json!({ "<s>": 262 }))],
            json!({ "<s>": 261 }),
            Err(r#"added token "<s>" has id 262, but the vocabulary gives it id 261"#),
        ),
        (
            vec![("added_tokens.json", json!(["<x>"]))],
            json!({}),
            Err("added_tokens.json: not the JSON expected"),
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        gpt2_files(folder.path(), USUAL, more);
        beside(folder.path(), &files);
        let notes = Notes::default();
        let read = load(folder.path(), &LoadOptions::default(), &notes);
        let notes = notes.0.into_inner().expect("no panic");
        match (read, said) {
            (Ok(_), Ok(said)) => assert!(notes.len() == 1 && notes[0].contains(said), "{said}: {notes:?}"),
            (Err(refused), Err(said)) => assert!(refused.to_string().contains(said), "{said}: {refused}"),
            (read, said) => panic!("{said:?}: {:?}", read.map(|_| notes)),
        }
    }
}

/// OpenAI published GPT-2 under these file names.
#[test]
fn the_first_names_of_gpt2s_files_are_known() {
    let names = ["encoder.json", "vocab.bpe"];
    let folder = tempfile::tempdir().expect("a folder");
    gpt2_files(folder.path(), names, json!({ "<|endoftext|>": 261 }));
    for path in [folder.path().to_owned(), folder.path().join(names[0]), folder.path().join(names[1])] {
        let vocabulary = load_plainly(&path).expect("GPT-2's files");
        assert_eq!(
            ids(&vocabulary, "low lower<|endoftext|>"),
            [257, 32, 257, 258, 261],
            "{}",
            path.display()
        );
    }
}

/// Special tokens, and whether `Tokenizer.decode` of tokenizers 0.23 turns them into other characters.
#[test]
fn special_tokens_that_hugging_faces_decoder_garbles_are_told() {
    for (text, garbled) in [
        ("<é>", true),
        ("<Ġ>", true),
        ("café", true),
        ("<é >", false),
        ("<→>", false),
        ("<é→>", false),
        ("<end>", false),
        ("<\u{a0}>", false),
        ("<｜end▁of▁sentence｜>", false),
    ] {
        let vocabulary = trained(&[b"low low"], &[text], SpecialTokensAt::End, "gpt2");
        let told = compatibility_notes(&vocabulary, Format::Hf).concat();
        assert_eq!(
            told.contains(&format!("added token {text:?} correctly but decodes it")),
            garbled,
            "{text}: {told}"
        );
        assert!(compatibility_notes(&vocabulary, Format::Tiktoken).is_empty(), "{text}");
    }
}

/// Special tokens without ids are numbered after the ranks, in order, as `tiktoken.Encoding` and Llama 3's
/// program do.
#[test]
fn special_tokens_of_files_that_do_not_say_them_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.model");
    fs::write(&path, rank_file(&ranks(&["lo", "low"]))).expect("written");
    let options = |named: &[&str]| LoadOptions {
        split: Some(SplitPattern::Named(NamedPattern::Gpt4)),
        special_tokens: named.iter().map(|text| SpecialToken::from(*text)).collect(),
        ..LoadOptions::default()
    };
    let added = |named: &[&str]| {
        let vocabulary = load(&path, &options(named), &Silent).map_err(|refused| refused.to_string())?;
        Ok(vocabulary.added().iter().map(|token| (token.id.get(), token.text.clone())).collect::<Vec<_>>())
    };
    let expected = |tokens: &[(u32, &str)]| -> std::result::Result<Vec<(u32, String)>, String> {
        Ok(tokens.iter().map(|(id, text)| (*id, (*text).to_owned())).collect())
    };
    for (named, tokens) in [
        (&["<s>", "</s>"][..], &[(258, "<s>"), (259, "</s>")][..]),
        (&["<s>=300", "</s>"], &[(300, "<s>"), (301, "</s>")]),
        (&["</s>", "<s>=270"], &[(258, "</s>"), (270, "<s>")]),
        (&["a=b"], &[(258, "a=b")]),
        (&["a=+1"], &[(258, "a=+1")]),
        (&["x=1=260"], &[(260, "x=1")]),
    ] {
        assert_eq!(added(named), expected(tokens), "{named:?}");
    }
    for (named, said) in [
        (&["<s>=257"][..], "two tokens have id 257"),
        (&["<s>=258", "</s>=258"], "two tokens have id 258"),
        (&["low"], "is also ordinary token 257"),
        (&["=258"], "an added token is empty"),
        (&["<s>", "<s>"], "is listed twice"),
    ] {
        let refused = added(named).expect_err(said);
        assert!(refused.contains(said), "{named:?}: {refused}");
    }
}

/// Special tokens given by the caller neither change nor extend those that a file lists.
#[test]
fn special_tokens_that_contradict_a_file_are_refused() {
    let vocabulary = trained(&[b"low low"], &["<|end|>"], SpecialTokensAt::End, "gpt2");
    let id = vocabulary.specials().next().expect("one").id.get();
    for format in Format::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in render(&vocabulary, format, &WriteOptions::default()).expect("it is held") {
            fs::write(folder.path().join(name), bytes).expect("written");
        }
        let read = |named: String| {
            let special_tokens = vec![SpecialToken::from(&*named)];
            load(folder.path(), &LoadOptions { special_tokens, ..LoadOptions::default() }, &Silent)
        };
        for same in ["<|end|>".to_owned(), format!("<|end|>={id}")] {
            assert_eq!(read(same).expect("as the file says"), vocabulary, "{format}");
        }
        let mut others = vec!["<|end|>=999"];
        // GPT-2's files cannot list special tokens outside their vocabulary, so another one is no
        // contradiction.
        if format != Format::Gpt2 {
            others.push("<|other|>");
        }
        for other in others {
            let refused = read(other.to_owned()).expect_err("the file says otherwise");
            assert!(refused.to_string().contains("not among those of the file"), "{format}: {refused}");
            assert_eq!(refused.kind(), ErrorKind::Usage);
        }
    }
}
