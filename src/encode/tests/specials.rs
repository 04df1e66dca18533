use super::*;
use crate::error::ErrorKind;

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

fn encode(config: EncodeConfig, text: &str) -> Result<Vec<u32>> {
    let encoder = Encoder::new(vocabulary(), config)?;
    let mut worker = encoder.worker();
    Ok(worker.encode(text.as_bytes())?.iter().map(|id| id.get()).collect())
}

fn special(special: SpecialPolicy) -> EncodeConfig {
    EncodeConfig { special, ..EncodeConfig::default() }
}

#[test]
fn as_text_they_are_ordinary_even_as_a_whole_piece() {
    let ids = encode(special(SpecialPolicy::Text), "<|end|>").expect("encodes");
    assert_eq!(ids, b"<|end|>".map(u32::from));
}

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

#[test]
fn forbidden_they_are_named_with_their_place() {
    let error = encode(special(SpecialPolicy::Forbid), "déjà <|end|>>").expect_err("forbidden");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.to_string(), r#"the text holds the special token "<|end|>>" at byte 7"#);
    assert!(error.help().is_some());
    assert!(encode(special(SpecialPolicy::Forbid), "<|end|").is_ok());
}

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
