//! Vocabularies without tokens for some bytes, like most that were trained on UTF-8 alone, or with a token
//! without bytes.

use std::fs;

use tokenmill::vocab::{
    AddedToken, Format, LoadOptions, SpecialTokensAt, UnknownToken, Vocabulary, VocabularyParts,
    WriteOptions, byte_ranges, check, compatibility_notes, load, render,
};
use tokenmill::{ErrorKind, TokenId};

use crate::made::{Notes, load_plainly, parts, there_and_back, trained};

/// The bytes that never occur in UTF-8.
const NEVER: [u8; 13] = [0xC0, 0xC1, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF];

/// The parts of a vocabulary trained on "low low", without the tokens of some bytes, and with a special token.
fn lacking(bytes: &[u8]) -> VocabularyParts {
    let complete = trained(&[b"low low"], &["<end>"], SpecialTokensAt::End, "gpt2");
    let mut parts = parts(&complete);
    parts.tokens.retain(|(_, token)| !matches!(**token, [byte] if bytes.contains(&byte)));
    parts
}

fn made(parts: VocabularyParts) -> Vocabulary {
    Vocabulary::new(parts).expect("valid")
}

/// All formats except minbpe hold a vocabulary without tokens for some bytes. minbpe refuses it.
#[test]
fn bytes_without_a_token_stay_without_one_in_every_format_that_can_say_so() {
    let control: Vec<u8> = (0..9).collect();
    let spoken_of: Vec<u8> = (0xF1..=0xF4).chain(NEVER).collect();
    let mut fingerprints = Vec::new();
    for bytes in [&NEVER[..], &control, &spoken_of, b"x"] {
        let vocabulary = made(lacking(bytes));
        let mut sorted = bytes.to_vec();
        sorted.sort_unstable();
        assert_eq!(vocabulary.missing_bytes(), sorted);
        assert!(vocabulary.byte_id(bytes[0]).is_none() && vocabulary.byte_id(b'l').is_some());
        assert!(check(&vocabulary).shortcuts_hold());
        fingerprints.push(vocabulary.fingerprint());
        for format in [Format::Hf, Format::Tiktoken, Format::Gpt2] {
            assert_eq!(there_and_back(&vocabulary, format).expect("it is held"), vocabulary, "{format}");
        }
        let refused = there_and_back(&vocabulary, Format::Minbpe).expect_err("it begins with 256 bytes");
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(refused.to_string().contains(&format!("byte 0x{:02X} has no token", sorted[0])), "{refused}");
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 4);
}

/// Two tokens of a rank file that no merge makes. One of them has a byte without a token.
#[test]
fn ranks_with_tokens_of_bytes_without_a_token_are_read() {
    let mut parts = lacking(b"x");
    for (id, token) in [(300, "xy"), (301, "lowx")] {
        parts.tokens.push((TokenId::new(id), token.as_bytes().into()));
    }
    let files = render(&made(lacking(b"x")), Format::Tiktoken, &WriteOptions::default()).expect("held");
    let folder = tempfile::tempdir().expect("a folder");
    let ranks = String::from_utf8(files[0].1.clone()).expect("text");
    fs::write(folder.path().join(&files[0].0), format!("{ranks}eHk= 300\nbG93eA== 301\n")).expect("written");
    fs::write(folder.path().join(&files[1].0), &files[1].1).expect("written");
    let read = load_plainly(folder.path()).expect("it is supported");
    assert_eq!((read.missing_bytes(), read.ignore_merges()), (&b"x"[..], true));
    assert_eq!(read.id_of(b"lowx"), Some(TokenId::new(301)));
}

/// The unknown token is kept if some byte has no token. Only `tokenizer.json` can hold it.
#[test]
fn what_the_own_program_gives_for_missing_bytes_is_kept_where_it_matters() {
    let unknown = |id: Option<u32>, fuse| {
        Some(UnknownToken { text: "<end>".to_owned(), id: id.map(TokenId::new), fuse })
    };
    let end = parts(&made(lacking(&[]))).added[0].id.get();
    let with = |unknown, bytes: &[u8]| made(VocabularyParts { unknown, ..lacking(bytes) });
    let plain = with(None, &NEVER);
    for unknown in [unknown(Some(end), false), unknown(Some(end), true)] {
        let vocabulary = with(unknown.clone(), &NEVER);
        assert_eq!(vocabulary.unknown(), unknown.as_ref());
        assert_ne!(vocabulary.fingerprint(), plain.fingerprint());
        assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary);
        for format in [Format::Tiktoken, Format::Minbpe, Format::Gpt2] {
            let refused = there_and_back(&vocabulary, format).expect_err("they know no such token");
            assert!(
                refused.to_string().contains("it has an unk_token for bytes without a token"),
                "{refused}"
            );
        }
        assert_eq!(with(unknown, &[]), made(lacking(&[])));
    }
    // The unknown token is not in the vocabulary. Hugging Face's tokenizers then fails on a byte without a
    // token.
    let named = Some(UnknownToken { text: "<nope>".to_owned(), id: None, fuse: false });
    let vocabulary = with(named, &NEVER);
    assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary);
    let far = VocabularyParts { unknown: unknown(Some(9_999), false), ..lacking(&NEVER) };
    assert!(Vocabulary::new(far).expect_err("no such token").to_string().contains("9999"));
}

/// A note lists the bytes without a token, if UTF-8 text can contain them.
#[test]
fn text_that_cannot_be_encoded_is_told_beforehand() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bytes, said) in [(&NEVER[..], None), (&[0xF3, 0xC0, 1, 2], Some("the bytes 0x01–0x02, 0xF3;"))] {
        let vocabulary = made(lacking(bytes));
        for (name, content) in render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it")
        {
            fs::write(folder.path().join(name), content).expect("written");
        }
        let notes = Notes::default();
        load(folder.path(), &LoadOptions::default(), &notes).expect("it is supported");
        let notes: Vec<String> = notes.0.into_inner().expect("no panic");
        let noted = notes.iter().find(|note| note.contains("no token for the bytes"));
        assert_eq!(noted.is_some(), said.is_some(), "{notes:?}");
        assert!(noted.is_none_or(|note| note.contains(said.unwrap_or_default())), "{noted:?}");
        let warned = compatibility_notes(&vocabulary, Format::Tiktoken);
        assert_eq!(warned.iter().any(|warned| warned.contains("0x01–0x02, 0xF3")), said.is_some());
    }
    assert_eq!(byte_ranges(&[0, 1, 2, 9, 0xFE, 0xFF]), "0x00–0x02, 0x09, 0xFE–0xFF");
    assert_eq!(byte_ranges(&[]), "");
}

/// Whisper has an empty token between the last merge and the special tokens.
#[test]
fn a_token_without_bytes_keeps_its_id() {
    let mut parts = lacking(&[]);
    let id = parts.added[0].id;
    parts.added = vec![AddedToken::special(TokenId::new(id.get() + 1), "<end>")];
    let without = made(parts.clone());
    parts.tokens.push((id, Box::default()));
    let vocabulary = made(parts);
    assert_eq!(vocabulary.bytes(id), Some(&b""[..]));
    assert!(check(&vocabulary).shortcuts_hold());
    assert_ne!(vocabulary.fingerprint(), without.fingerprint());
    for format in [Format::Hf, Format::Tiktoken, Format::Gpt2] {
        assert_eq!(there_and_back(&vocabulary, format).expect("it is held"), vocabulary, "{format}");
    }
    let refused = there_and_back(&vocabulary, Format::Minbpe).expect_err("no merge makes it");
    assert!(refused.to_string().contains("no merge makes token"), "{refused}");
    // OpenAI's file has this line for the empty token: two words, which Python can read.
    let files = render(&vocabulary, Format::Tiktoken, &WriteOptions::default()).expect("held");
    assert!(String::from_utf8_lossy(&files[0].1).contains(&format!("\n= {id}\n")));
    let mut text = Vec::new();
    vocabulary.decode(&[id, TokenId::new(97), id], &mut text).expect("tokens");
    assert_eq!(text, b"a");
}

/// Hugging Face's tokenizers ignores an added token with an empty text, and its id.
#[test]
fn an_added_token_without_text_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let vocabulary = made(lacking(&NEVER));
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    let mut file: serde_json::Value = serde_json::from_slice(&files[0].1).expect("JSON");
    let added = file["added_tokens"].as_array_mut().expect("tokens");
    let mut empty = added[0].clone();
    (empty["content"], empty["id"]) = ("".into(), 9.into());
    added.insert(0, empty);
    fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("written");
    assert_eq!(load_plainly(folder.path()).expect("it is supported"), vocabulary);
}
