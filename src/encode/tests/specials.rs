//! Special tokens in texts under each policy, and around documents.

use super::*;
use crate::error::ErrorKind;

/// The 256 bytes and three special tokens that overlap.
fn vocabulary() -> Vocabulary {
    let parts = VocabularyParts {
        tokens: (0..=255).map(|byte: u8| (TokenId::new(byte.into()), Box::from([byte]))).collect(),
        added: [(300, "<|end|>"), (301, "<|end|>>"), (256, "|>a")]
            .map(|(id, text)| AddedToken::special(TokenId::new(id), text))
            .into(),
        ignore_merges: true,
        ..VocabularyParts::default()
    };
    Vocabulary::new(parts).expect("valid")
}

/// The ids of a text.
fn encode(config: EncodeConfig, text: &str) -> Result<Vec<u32>> {
    let encoder = Encoder::new(vocabulary(), config)?;
    let mut worker = encoder.worker();
    Ok(worker.encode(text.as_bytes())?.iter().map(|id| id.get()).collect())
}

/// The default configuration with another policy.
fn special(special: SpecialPolicy) -> EncodeConfig {
    EncodeConfig { special, ..EncodeConfig::default() }
}

/// As text, a special token is encoded byte by byte, even with `ignore_merges`.
#[test]
fn as_text_they_are_ordinary_even_as_a_whole_pretoken() {
    let ids = encode(special(SpecialPolicy::Text), "<|end|>").expect("encodes");
    assert_eq!(ids, b"<|end|>".map(u32::from));
}

/// Of overlapping special tokens, the leftmost is found, then the longest.
#[test]
fn where_they_overlap_the_leftmost_then_the_longest_is_found() {
    for (text, ids) in [
        ("<|end|>a", &[300, 97][..]),
        ("x<|end|>>y", &[120, 301, 121]),
        ("|>a<|end|><|end|>", &[256, 300, 300]),
        ("|>", &[124, 62]),
        ("", &[]),
    ] {
        assert_eq!(encode(special(SpecialPolicy::Allow), text).expect("encodes"), ids, "{text}");
    }
}

/// The error names the token and the byte offset at which it begins.
#[test]
fn forbidden_they_are_named_with_their_place() {
    let error = encode(special(SpecialPolicy::Forbid), "déjà <|end|>>").expect_err("forbidden");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.to_string(), r#"the text contains the special token "<|end|>>" at byte 7"#);
    assert!(error.help().is_some());
    assert!(encode(special(SpecialPolicy::Forbid), "<|end|").is_ok());
}

/// BOS and EOS surround every document, also an empty one, and must be tokens of the vocabulary.
#[test]
fn bos_and_eos_stand_around_every_document_and_must_exist() {
    let id = |id| Some(TokenId::new(id));
    let config = EncodeConfig { bos: id(301), eos: id(300), ..EncodeConfig::default() };
    assert_eq!(encode(config, "").expect("encodes"), [301, 300]);
    assert_eq!(encode(config, "a").expect("encodes"), [301, 97, 300]);
    for missing in [299, 302, u32::MAX] {
        let error = encode(EncodeConfig { eos: id(missing), ..EncodeConfig::default() }, "a");
        let error = error.expect_err("no such token");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(&missing.to_string()), "{error}");
    }
}
