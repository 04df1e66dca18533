//! Vocabularies without tokens for some bytes, or with a token that has no bytes.

use super::*;
use crate::encode::missing::Missing;
use crate::error::ErrorKind;
use crate::vocab::UnknownToken;

/// The result of bytes without a token: nothing (`None`), or a token for each one or for each run of them.
fn unknown() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![Just(None), any::<bool>().prop_map(Some)]
}

/// Removes the tokens of some bytes and the merges that need them; tokens of several bytes stay. Then adds a
/// token without bytes, and `<unk>`.
fn without(vocabulary: &Vocabulary, lacking: &[u8], unknown: Option<bool>) -> Vocabulary {
    let gone: Vec<TokenId> = lacking.iter().filter_map(|&byte| vocabulary.byte_id(byte)).collect();
    let stays = |merge: &&RankedMerge| !gone.contains(&merge.left) && !gone.contains(&merge.right);
    let mut tokens: Vec<(TokenId, Box<[u8]>)> = vocabulary
        .ordinary()
        .filter(|(id, _)| !gone.contains(id))
        .map(|(id, bytes)| (id, bytes.into()))
        .collect();
    let next = |more: usize| TokenId::from_index(vocabulary.id_limit() + more);
    tokens.push((next(0), Box::default()));
    let added = vec![AddedToken::special(next(1), "<unk>")];
    let unknown = unknown.map(|fuse| UnknownToken { text: "<unk>".to_owned(), id: Some(next(1)), fuse });
    Vocabulary::new(VocabularyParts {
        tokens,
        added,
        merges: vocabulary.merges().iter().filter(stays).copied().collect(),
        split: vocabulary.split().clone(),
        ignore_merges: vocabulary.ignore_merges(),
        unknown,
        ..VocabularyParts::default()
    })
    .expect("valid")
}

/// Encodes texts with a worker, as a batch, in chunks, and as documents; all must agree. `None` for a text that
/// fails.
fn encoded(encoder: &Encoder, vocabulary: &Vocabulary, texts: &[Vec<u8>]) -> Vec<Option<Vec<TokenId>>> {
    let mut worker = encoder.worker();
    let one = |text: &Vec<u8>| {
        let outcome = worker.encode(text).map(<[TokenId]>::to_vec);
        if let Err(error) = &outcome {
            assert_eq!(error.kind(), ErrorKind::Failed);
            assert!(error.to_string().contains("has no token for byte 0x"), "{error}");
        }
        outcome.ok()
    };
    let alone: Vec<_> = texts.iter().map(one).collect();
    let tokenizer = Tokenizer::new(vocabulary.clone(), encoder.config()).expect("valid");
    for tokenizer in [tokenizer.clone(), tokenizer.prepared()] {
        let batch = tokenizer.encode_in_stretches(texts, 7).ok();
        let expected: Option<Vec<Vec<u32>>> =
            alone.iter().map(|ids| Some(ids.as_ref()?.iter().map(|id| id.get()).collect())).collect();
        assert_eq!(batch, expected);
    }
    alone
}

/// Each case prepares six vocabularies.
#[test]
fn what_bytes_without_a_token_become_is_the_same_however_it_is_encoded() {
    let lacking = vec(prop_oneof![proptest::sample::select(b"ab c".to_vec()), any::<u8>()], 0..6);
    let inputs = (vocabulary(), lacking, unknown(), vec(text(), 0..6), any::<bool>());
    one_case_in(10, &inputs, |(vocabulary, lacking, unknown, texts, at_once)| {
        let vocabulary = without(&vocabulary, &lacking, unknown);
        for missing_bytes in [MissingBytes::Error, MissingBytes::Hf] {
            let config = EncodeConfig { missing_bytes, ..EncodeConfig::default() };
            let encoder = Encoder::new(vocabulary.clone(), config).expect("valid");
            let encoder = if at_once { encoder.prepared() } else { encoder };
            for (text, ids) in texts.iter().zip(encoded(&encoder, &vocabulary, &texts)) {
                let fails = missing_bytes == MissingBytes::Error && reference::lacks_token(&vocabulary, text);
                prop_assert_eq!(ids, (!fails).then(|| expected(&vocabulary, &[text])));
            }
            let split = after_spaces(&vocabulary, config);
            for text in &texts {
                let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
                let lacks = |pretoken: &&[u8]| reference::lacks_token(&vocabulary, pretoken);
                let fails = missing_bytes == MissingBytes::Error && pretokens.iter().any(lacks);
                let ids = split.worker().encode(text).map(<[TokenId]>::to_vec).ok();
                prop_assert_eq!(ids, (!fails).then(|| expected(&vocabulary, &pretokens)));
            }
        }
        Ok(())
    });
}

proptest! {
    /// The search, which compares ranges or looks up a table, finds the first missing byte at any position.
    #[test]
    fn missing_bytes_are_found_where_they_are(
        lacking in vec(any::<u8>(), 0..60),
        text in vec(any::<u8>(), 0..50),
        before in 0..9_000usize,
    ) {
        let vocabulary = without(&trained(b"", SplitPattern::None), &lacking, None);
        let present = (0..=u8::MAX).find(|byte| !lacking.contains(byte)).expect("196 at least");
        let text = [vec![present; before], text].concat();
        let missing = Missing::new(&vocabulary, MissingBytes::Error).expect("valid");
        prop_assert_eq!(missing.is_none(), lacking.is_empty());
        let found = missing.and_then(|missing| missing.first_in(&text));
        prop_assert_eq!(found, text.iter().position(|byte| lacking.contains(byte)));
    }
}

/// The results of tokenizers 0.23.3 for a vocabulary of `a`, `b`, `Ġ`, `ab`, `ba` and `<unk>` with GPT-2's split.
#[test]
fn bytes_without_a_token_become_what_tokenizers_makes_of_them() {
    let tokens = ["a", "b", "ab", "<unk>", " ", "ba"].iter().zip(0..);
    let tokens: Vec<(TokenId, Box<[u8]>)> =
        tokens.map(|(bytes, id)| (TokenId::new(id), bytes.as_bytes().into())).collect();
    let merge = |left, right, result, rank| {
        let [left, right, result] = [left, right, result].map(TokenId::new);
        RankedMerge { left, right, result, rank }
    };
    let parts = |unknown: Option<bool>| VocabularyParts {
        tokens: tokens.clone(),
        merges: vec![merge(0, 1, 2, 0), merge(1, 0, 5, 1)],
        split: SplitPattern::Named(Named::Gpt2),
        unknown: unknown.map(|fuse| UnknownToken {
            text: "<unk>".to_owned(),
            id: Some(TokenId::new(3)),
            fuse,
        }),
        ..VocabularyParts::default()
    };
    let encode = |parts: VocabularyParts, text: &str| {
        let config = EncodeConfig { missing_bytes: MissingBytes::Hf, ..EncodeConfig::default() };
        let encoder = prepared(&Vocabulary::new(parts).expect("valid"), config);
        encoder.worker().encode(text.as_bytes()).expect("encodes").iter().map(|id| id.get()).collect()
    };
    let cases: [(&str, [&[u32]; 3]); 7] = [
        ("axb", [&[2], &[0, 3, 1], &[0, 3, 1]]),
        ("axxb", [&[2], &[0, 3, 3, 1], &[0, 3, 1]]),
        ("xx ab", [&[4, 2], &[3, 3, 4, 2], &[3, 4, 2]]),
        ("ax xb", [&[0, 4, 1], &[0, 3, 4, 3, 1], &[0, 3, 4, 3, 1]]),
        ("éa", [&[0], &[3, 3, 0], &[3, 0]]),
        ("x", [&[], &[3], &[3]]),
        ("abx", [&[2], &[2, 3], &[2, 3]]),
    ];
    for (text, expected) in cases {
        for (unknown, expected) in [None, Some(false), Some(true)].into_iter().zip(expected) {
            let ids: Vec<u32> = encode(parts(unknown), text);
            assert_eq!(ids, expected, "{text} {unknown:?}");
        }
    }
    // A pre-token that is a token as a whole gives that token, even if one of its bytes has no token.
    let mut whole = VocabularyParts { ignore_merges: true, ..parts(None) };
    whole.tokens.push((TokenId::new(6), Box::from(*b"axb")));
    assert_eq!(encode(whole.clone(), "axb"), [6]);
    assert_eq!(encode(VocabularyParts { ignore_merges: false, ..whole }, "axb"), [2]);
}

/// The error names the byte, its position and its character, and the help says what the tokenizer's own program
/// does.
#[test]
fn the_error_of_a_byte_without_a_token_says_where_it_is() {
    let vocabulary = without(&trained(b"", SplitPattern::None), &[0xC0, 0xF3], Some(false));
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    for (text, said) in [
        ("ab\u{E0067}".as_bytes(), "no token for byte 0xF3, which the text contains at byte 2 in U+E0067"),
        (b"ab\xC0", "no token for byte 0xC0, which the text contains at byte 2"),
    ] {
        let error = encoder.worker().encode(text).map(drop).expect_err("no token");
        assert!(error.to_string().ends_with(said), "{error}");
        assert!(
            error.help().is_some_and(|help| help.contains("replaces the byte by <unk>")),
            "{:?}",
            error.help()
        );
    }
}

/// A vocabulary without its `unk_token`, or with merges of it, cannot use [`MissingBytes::Hf`].
#[test]
fn what_tokenizers_makes_of_missing_bytes_is_refused_where_it_fails_or_merges() {
    let config = EncodeConfig { missing_bytes: MissingBytes::Hf, ..EncodeConfig::default() };
    let unknown = |id: Option<u32>| {
        Some(UnknownToken { text: "<unk>".to_owned(), id: id.map(TokenId::new), fuse: false })
    };
    let tokens = [(0, "a"), (1, "<unk>"), (2, "<unk>a")];
    let tokens: Vec<(TokenId, Box<[u8]>)> =
        tokens.map(|(id, bytes)| (TokenId::new(id), bytes.as_bytes().into())).into();
    let [left, right, result] = [1, 0, 2].map(TokenId::new);
    let merges = vec![RankedMerge { left, right, result, rank: 0 }];
    let lacking = VocabularyParts { tokens: tokens.clone(), unknown: unknown(None), ..Default::default() };
    let merged = VocabularyParts { tokens, merges, unknown: unknown(Some(1)), ..Default::default() };
    for (parts, said) in [(lacking, "lacks its unk_token"), (merged, "merges use the unk_token")] {
        let vocabulary = Vocabulary::new(parts).expect("valid");
        Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("texts without such bytes encode");
        let error = Encoder::new(vocabulary, config).expect_err("it cannot be followed");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(said), "{error}");
    }
}
