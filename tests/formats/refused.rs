use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine};
use serde::Deserialize;
use tokenmill::observer::Silent;
use tokenmill::split::SplitPattern;
use tokenmill::vocab::{
    AddedToken, Format, LoadOptions, RankedMerge, SpecialTokensAt, Vocabulary, VocabularyParts, WriteOptions,
    load, write,
};
use tokenmill::{ErrorKind, TokenId};

use crate::made::{learned, load_plainly, parts, trained};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    at: Option<String>,
    value: Option<String>,
    file: Option<String>,
    text: Option<String>,
    error: String,
}

/// The valid tokenizer that the cases damage: tokens 256 `lo` and 257 `low`, special token 258.
fn good() -> Vocabulary {
    let merges = learned(&[b"low"], 2);
    Vocabulary::from_merges(
        &merges,
        &["<|end|>".to_owned()],
        SpecialTokensAt::End,
        "gpt2".parse().expect("a name"),
    )
    .expect("one special token")
}

fn good_files(folder: &Path) {
    for format in Format::ALL {
        write(&good(), format, folder, &WriteOptions::default()).expect("every format holds it");
    }
}

/// Sets the value at a JSON pointer. The last step may be a new key.
fn put(file: &mut serde_json::Value, at: &str, value: serde_json::Value) {
    let (parent, key) = at.rsplit_once('/').expect("a pointer");
    match file.pointer_mut(parent).expect("a place of the good file") {
        serde_json::Value::Array(items) => items[key.parse::<usize>().expect("a place")] = value,
        object => object[key] = value,
    }
}

/// Each case of `refused.toml` is refused with its message.
#[test]
fn damaged_and_unsupported_files_are_refused_by_name() {
    let cases: Cases = toml::from_str(include_str!("../data/tokenizers/refused.toml")).expect("the cases");
    for case in cases.case {
        let folder = tempfile::tempdir().expect("a folder");
        good_files(folder.path());
        let name = case.file.clone().unwrap_or_else(|| "tokenizer.json".to_owned());
        let path = folder.path().join(&name);
        let text = match (&case.at, &case.value, case.text) {
            (Some(at), Some(value), None) => {
                let mut file = serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
                put(&mut file, at, serde_json::from_str(value).expect(&case.name));
                file.to_string()
            }
            (None, None, Some(text)) => text,
            _ => panic!("{}: either `at` and `value`, or `text`", case.name),
        };
        fs::write(&path, text).expect("written");
        let given = if name.ends_with(".tiktoken.json") { path.with_extension("") } else { path };
        match load_plainly(&given) {
            Ok(_) => panic!("{}: was read", case.name),
            Err(refused) => {
                assert!(refused.to_string().contains(&case.error), "{}: {refused}", case.name);
                assert_eq!(refused.kind(), ErrorKind::Failed, "{}", case.name);
            }
        }
    }
}

/// A JSON file cut at any length is refused. A list of ranks or merges may be read as a smaller tokenizer.
#[test]
fn a_file_cut_short_anywhere_is_an_error_or_a_smaller_tokenizer() {
    let folder = tempfile::tempdir().expect("a folder");
    good_files(folder.path());
    for name in
        ["tokenizer.json", "tokenizer.tiktoken", "tokenizer.tiktoken.json", "tokenizer.model", "vocab.json"]
    {
        let path = folder.path().join(name);
        let whole = fs::read(&path).expect("written");
        let given = if name.ends_with(".tiktoken.json") { path.with_extension("") } else { path.clone() };
        for end in (0..whole.len() - 1).step_by(7) {
            fs::write(&path, &whole[..end]).expect("written");
            let read = load_plainly(&given);
            assert!(read.is_err() || !name.ends_with(".json"), "{name} cut at {end} was read");
        }
        fs::write(&path, &whole).expect("written");
    }
}

/// Ranks that would give too many merges are refused.
#[test]
fn ranks_that_are_cut_in_too_many_ways_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.tiktoken");
    // No merge makes the last token. Then every division of a token into two tokens becomes a merge.
    let tokens = (0..=255).map(|byte| vec![byte]).chain((2..2_000).map(|length| vec![b'a'; length]));
    let line = |(rank, token): (usize, Vec<u8>)| format!("{} {rank}\n", STANDARD.encode(token));
    let text: String = tokens.chain([b"bcd".to_vec()]).enumerate().map(line).collect();
    fs::write(&path, text).expect("written");
    let options = LoadOptions { split: Some(SplitPattern::None), ..LoadOptions::default() };
    let refused = load(&path, &options, &Silent).expect_err("too much work").to_string();
    assert!(refused.contains("x.tiktoken") && refused.contains("in too many ways"), "{refused}");
}

/// Deeply nested JSON is an error, not a stack overflow.
#[test]
fn nesting_does_not_overflow_the_stack() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    for text in [
        "[".repeat(1 << 20),
        r#"{"pre_tokenizer":"#.repeat(1 << 16),
        r#"{"normalizer":{"a":"#.repeat(1 << 16),
    ] {
        fs::write(&path, text).expect("written");
        assert!(load_plainly(&path).is_err());
    }
}

/// A file that is not UTF-8 is refused in every format.
#[test]
fn text_that_is_not_utf8_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["tokenizer.json", "x.tiktoken", "x.model", "vocab.json"] {
        let path = folder.path().join(name);
        fs::write(&path, b"\"\xFF\xFE\"").expect("written");
        assert!(load_plainly(&path).is_err(), "{name}");
    }
}

/// A missing tokenizer, a missing format, and a choice between several files are each explained.
#[test]
fn what_is_not_there_or_not_clear_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |path: &Path, format| {
        let options = LoadOptions { format, ..LoadOptions::default() };
        let refused = load(path, &options, &Silent).expect_err("no tokenizer");
        (refused.to_string(), refused.help().map(str::to_owned))
    };
    let (message, _) = refused(&folder.path().join("gone.json"), None);
    assert!(message.contains("cannot read") && message.contains("gone.json"), "{message}");
    let (message, help) = refused(folder.path(), None);
    assert!(message.contains("no tokenizer of a known format"), "{message}");
    assert!(help.is_some_and(|help| help.contains("tokenizer.json")));
    let (message, _) = refused(folder.path(), Some(Format::Minbpe));
    assert!(message.contains("no tokenizer of format minbpe"), "{message}");
    for name in ["a.model", "b.model"] {
        fs::write(folder.path().join(name), "").expect("written");
    }
    let (message, _) = refused(folder.path(), None);
    assert!(message.contains("a.model, b.model"), "{message}");
}

/// Special tokens must be distinct, non-empty, and different from ordinary tokens.
#[test]
fn special_tokens_of_a_new_vocabulary_are_checked() {
    let merges = learned(&[b"low"], 2);
    for (specials, message) in [
        (vec![""], "an added token is empty"),
        (vec!["<s>", "<s>"], r#"added token "<s>" is listed twice"#),
        (vec!["a"], r#"special token "a" is also ordinary token 97"#),
        (vec!["low"], r#"special token "low" is also ordinary token 257"#),
    ] {
        let specials: Vec<String> = specials.into_iter().map(str::to_owned).collect();
        let split = "none".parse().expect("a name");
        let refused = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, split);
        let refused = refused.expect_err(message);
        assert_eq!((refused.to_string(), refused.kind()), (message.to_owned(), ErrorKind::Usage));
    }
}

/// The valid vocabulary with one more token, and with merges that make it.
fn with(token: (u32, &[u8]), merges: &[(u32, u32)]) -> VocabularyParts {
    let mut parts = parts(&good());
    parts.tokens.push((TokenId::new(token.0), token.1.into()));
    let made = merges.iter().zip(100..).map(|(&(left, right), rank)| RankedMerge {
        left: TokenId::new(left),
        right: TokenId::new(right),
        result: TokenId::new(token.0),
        rank,
    });
    parts.merges.extend(made);
    parts
}

/// [`Vocabulary::new`] checks that ids, bytes and merges agree.
#[test]
fn broken_parts_make_no_vocabulary() {
    let special = |id, text: &str| {
        let mut parts = parts(&good());
        parts.added.push(AddedToken::special(TokenId::new(id), text));
        parts
    };
    for (parts, message) in [
        (
            with((300, b"slow"), &[(97, 257)]),
            "merge 3 makes token 300, whose bytes are not those of 97 followed by those of 257",
        ),
        (with((300, b"slow"), &[(115, 999)]), "merge 3 uses token 999, which does not exist"),
        (
            with((300, b"slow"), &[(115, 257), (115, 257)]),
            "merge 4 joins 115 and 257, which an earlier merge already joins",
        ),
        (
            with((300, b"low<|end|>"), &[(257, 258)]),
            "merge 3 uses token 258 (\"<|end|>\"), which is only an added token",
        ),
        (with((300, b"a"), &[]), "byte 0x61 has two tokens, 97 and 300"),
        (
            VocabularyParts {
                tokens: [with((300, b""), &[]).tokens, vec![(TokenId::new(301), Box::from(*b"low"))]]
                    .concat(),
                ..with((301, b"low"), &[(257, 300)])
            },
            "merge 3 uses token 300, which has no bytes",
        ),
        (with((258, b"x1"), &[]), "two tokens have id 258"),
        (special(300, "<|end|>"), "is listed twice"),
        (special(257, "<x>"), "two tokens have id 257"),
    ] {
        let refused = Vocabulary::new(parts).expect_err(message).to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

/// Each format refuses vocabularies that it cannot hold, says why, and writes nothing.
#[test]
fn formats_refuse_what_they_cannot_say() {
    use Format::{Gpt2, Hf, Minbpe, Tiktoken};
    let made = |parts| Vocabulary::new(parts).expect("a vocabulary");
    let twice = made(with((300, b"low"), &[]));
    let two_ways = made(VocabularyParts { ignore_merges: false, ..with((300, b"lowlo"), &[(257, 256)]) });
    let mut ignoring = parts(&two_ways);
    ignoring.merges.truncate(2);
    ignoring.ignore_merges = true;
    let mut tied = parts(&good());
    tied.merges.iter_mut().for_each(|merge| merge.rank = 0);
    let spelled = |text| trained(&[b"low low"], &[text], SpecialTokensAt::End, "gpt2");
    let cases = [
        (twice.clone(), Hf, "tokens 257 and 300 have equal bytes"),
        (twice.clone(), Tiktoken, "tokens 257 and 300 have equal bytes"),
        (spelled("Ġ"), Hf, "would be spelled like token 32"),
        (spelled("Ġ"), Gpt2, "would be spelled like token 32"),
        (spelled("a b"), Minbpe, r#"special token "a b" contains white space"#),
        (made(tied), Hf, "several merges have equal rank"),
        (made(ignoring.clone()), Tiktoken, "do not follow from the order of its token ids"),
        (made(ignoring.clone()), Minbpe, "no merge makes token 300"),
        (made(ignoring), Gpt2, "merging alone would not make some tokens"),
        (two_ways, Minbpe, "merge 3 makes token 300; it must make token 258"),
        (trained(&[b"low"], &[], SpecialTokensAt::End, "gpt4"), Gpt2, "does not split text as GPT-2 does"),
        (
            trained(&[b"low"], &["<s>"], SpecialTokensAt::Start, "gpt4"),
            Minbpe,
            "byte 0x00 is token 1; it must be token 0",
        ),
    ];
    for (vocabulary, format, message) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = write(&vocabulary, format, folder.path(), &WriteOptions::default()).expect_err(message);
        assert!(refused.to_string().contains(message), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{message}");
    }
}

/// Decoding an unknown id is an error that names the id.
#[test]
fn decoding_names_an_id_that_is_not_there() {
    let vocabulary = good();
    let mut text = Vec::new();
    let ids = [108, 257, 258, 259].map(TokenId::new);
    vocabulary.decode(&ids[..3], &mut text).expect("ids in use");
    assert_eq!(text, b"llow<|end|>");
    let refused = vocabulary.decode(&ids, &mut text).expect_err("259 is not in use");
    assert_eq!(refused.to_string(), "token id 259 is not in the vocabulary");
}
