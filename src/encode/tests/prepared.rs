//! Preparation of texts: added tokens, normalizers and the space before a text.

use super::*;
use crate::vocab::{Normalizer, ReplacePattern, TextRules};

/// An added token that is not special, with changes to its other properties.
fn added(id: u32, text: &str, change: impl Fn(&mut AddedToken)) -> AddedToken {
    let mut token = AddedToken { special: false, ..AddedToken::special(TokenId::new(id), text) };
    change(&mut token);
    token
}

/// Rules with or without normalization form C, and with or without a space before texts.
fn rules(nfc: bool, prefix_space: bool) -> TextRules {
    TextRules { normalizers: nfc.then_some(Normalizer::Nfc).into_iter().collect(), prefix_space }
}

/// A token for each byte, with the byte as its id.
fn bytes() -> Vec<(TokenId, Box<[u8]>)> {
    (0..=255).map(|byte: u8| (TokenId::new(byte.into()), Box::from([byte]))).collect()
}

/// A vocabulary of the 256 bytes, added tokens and rules.
fn vocabulary(added: Vec<AddedToken>, rules: TextRules) -> Vocabulary {
    Vocabulary::new(VocabularyParts { tokens: bytes(), added, rules, ..VocabularyParts::default() })
        .expect("valid")
}

/// The encoding of a text: the ids of added tokens in brackets, and the bytes between them.
fn shown(vocabulary: &Vocabulary, special: SpecialPolicy, text: &[u8]) -> String {
    let encoder = prepared(vocabulary, EncodeConfig { special, ..EncodeConfig::default() });
    let mut worker = encoder.worker();
    let ids = worker.encode(text).expect("nothing is forbidden").to_vec();
    let show = |id: &TokenId| match u8::try_from(id.get()) {
        Ok(byte) => vec![byte],
        Err(_) => format!("[{id}]").into_bytes(),
    };
    let bytes: Vec<u8> = ids.iter().flat_map(show).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `lstrip`, `rstrip` and `single_word` have the effect that they have in Hugging Face's tokenizers.
#[test]
fn the_flags_of_added_tokens_say_where_they_are_found() {
    let tokens = vec![
        added(300, "<l>", |token| token.lstrip = true),
        added(301, "<r>", |token| token.rstrip = true),
        added(302, "word", |token| token.single_word = true),
        added(303, "<s>", |token| token.special = true),
        added(304, "\n", |_| ()),
        added(305, "s>!", |_| ()),
    ];
    let vocabulary = vocabulary(tokens, TextRules::default());
    assert!(!vocabulary.keeps_text());
    for (text, text_policy, allowed) in [
        ("a \u{3000}<l> b", "a[300] b", None),
        ("a <r> \u{a0}b", "a [301]b", None),
        ("<r> <l>", "[301][300]", None),
        ("<r> \n<l>", "[301][304][300]", None),
        // The token within the white space is found, although the token before has already taken that white
        // space.
        ("<r> \n x", "[301][304] x", None),
        ("word words sword word_ wordé 'word'", "[302] words sword word_ wordé '[302]'", None),
        ("a<s>b", "a<s>b", Some("a[303]b")),
        // A special token that is treated as text still hides tokens that overlap it.
        ("<s>! s>!", "<s>! [305]", Some("[303]! [305]")),
    ] {
        assert_eq!(shown(&vocabulary, SpecialPolicy::Text, text.as_bytes()), text_policy, "{text}");
        let allowed = allowed.unwrap_or(text_policy);
        assert_eq!(shown(&vocabulary, SpecialPolicy::Allow, text.as_bytes()), allowed, "{text}");
    }
    assert_eq!(
        shown(&vocabulary, SpecialPolicy::Text, b"\xE3\x80<l>\xFFword\xFF"),
        "\u{FFFD}[300]\u{FFFD}[302]\u{FFFD}"
    );
}

/// Of two added tokens that could take the same white space, the first one takes it.
#[test]
fn white_space_that_a_token_has_taken_is_no_token_that_takes_what_is_before_it() {
    let tokens = vec![
        added(300, "<r>", |token| token.rstrip = true),
        added(301, " ", |token| token.lstrip = true),
        added(302, "\n", |token| (token.lstrip, token.rstrip) = (true, true)),
    ];
    let vocabulary = vocabulary(tokens, TextRules::default());
    for (text, expected) in [
        ("<r> x", "[300]x"),
        ("<r>  \n x", "[300]x"),
        ("\n\n\n", "[302]"),
        ("a \n\n b", "a[301][302]b"),
        ("a\t\nb", "a[302]b"),
    ] {
        assert_eq!(shown(&vocabulary, SpecialPolicy::Text, text.as_bytes()), expected, "{text:?}");
    }
}

/// Tokens that are not normalized are found in the original text, before all others.
#[test]
fn tokens_that_are_not_normalized_are_looked_for_first() {
    let tokens = || {
        vec![
            added(300, "bc", |_| ()),
            added(301, "abc", |token| token.normalized = true),
            added(302, "e\u{301}", |token| token.normalized = true),
            added(303, "o\u{308}", |_| ()),
        ]
    };
    let plain = vocabulary(tokens(), TextRules::default());
    assert_eq!(shown(&plain, SpecialPolicy::Text, b"abc"), "a[300]");
    assert_eq!(shown(&plain, SpecialPolicy::Text, "é e\u{301}".as_bytes()), "é [302]");
    let nfc = vocabulary(tokens(), rules(true, false));
    assert_eq!(shown(&nfc, SpecialPolicy::Text, "é e\u{301}".as_bytes()), "[302] [302]");
    assert_eq!(shown(&nfc, SpecialPolicy::Text, "ö o\u{308}".as_bytes()), "ö [303]");
}

/// A position in normalized text is not one in the original text, so none is reported.
#[test]
fn of_a_token_in_normalized_text_no_place_is_told() {
    let forbid = EncodeConfig { special: SpecialPolicy::Forbid, ..EncodeConfig::default() };
    for (normalized, nfc, said) in [
        (true, true, r#"the normalized text contains the special token "<s>""#),
        (false, true, r#"the text contains the special token "<s>" at byte 9"#),
        (true, false, r#"the text contains the special token "<s>" at byte 9"#),
    ] {
        let special = added(300, "<s>", |token| (token.special, token.normalized) = (true, normalized));
        let encoder = prepared(&vocabulary(vec![special], rules(nfc, false)), forbid);
        let refused = encoder.worker().encode("e\u{301}e\u{301}e\u{301}<s>".as_bytes()).map(drop);
        assert_eq!(refused.expect_err("forbidden").to_string(), said);
    }
}

/// Invalid bytes stay, and separate the texts that are normalized.
#[test]
fn text_is_normalized_between_what_is_not_utf8() {
    let vocabulary = vocabulary(Vec::new(), rules(true, false));
    assert!(!vocabulary.keeps_text());
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    for (text, normal) in [
        (&b""[..], &b""[..]),
        (b"plain", b"plain"),
        ("e\u{301}".as_bytes(), "é".as_bytes()),
        ("\u{212B}\u{1100}\u{1161}\u{11A8}".as_bytes(), "Å각".as_bytes()),
        ("a\u{301}\u{323}".as_bytes(), "ạ\u{301}".as_bytes()),
        (b"e\xFF\xCC\x81e\xCC\x81\xE3\x80", b"e\xFF\xCC\x81\xC3\xA9\xE3\x80"),
        // A combining mark from Unicode 10 keeps its position.
        ("a\u{1DF6}\u{323}".as_bytes(), "a\u{1DF6}\u{323}".as_bytes()),
    ] {
        assert_eq!(decoded(&vocabulary, encoder.worker().encode(text).expect("any bytes encode")), normal);
    }
}

/// With `prefix_space`, a space is put before a text, and before the text after each added token.
#[test]
fn a_space_is_put_before_what_begins_with_none() {
    let rules = rules(false, true);
    let vocabulary = vocabulary(vec![added(300, "<m>", |token| token.lstrip = true)], rules);
    for (text, expected) in
        [("", ""), ("a", " a"), (" a", " a"), ("\na", " \na"), ("a <m>b<m> c<m>", " a[300] b[300] c[300]")]
    {
        assert_eq!(shown(&vocabulary, SpecialPolicy::Text, text.as_bytes()), expected);
    }
}

/// [`Preparation::leaves`](crate::encode::prepare::Preparation::leaves) is right about texts that change and
/// texts that do not.
#[test]
fn text_is_left_where_nothing_is_changed_or_found() {
    let vocabulary = |nfc, prefix_space| {
        let tokens = vec![added(300, "<m>", |_| ()), added(301, "ö", |token| token.normalized = true)];
        vocabulary(tokens, rules(nfc, prefix_space))
    };
    for (text, left) in [
        ("abc", [true, true, false, false]),
        (" é", [true, true, true, true]),
        (" e\u{301}", [true, false, true, false]),
        (" o\u{308}", [true, false, true, false]),
        (" a ö", [false, false, false, false]),
        (" a <m>", [false, false, false, false]),
    ] {
        for ((nfc, prefix_space), left) in
            [(false, false), (true, false), (false, true), (true, true)].into_iter().zip(left)
        {
            let encoder = prepared(&vocabulary(nfc, prefix_space), EncodeConfig::default());
            let preparation = encoder.preparation.as_ref().expect("rules and tokens");
            assert_eq!(preparation.leaves(text.as_bytes()), left, "{text:?}, {nfc}, {prefix_space}");
            let unchanged = encoder.worker().encode(text.as_bytes()).expect("any bytes encode")
                == text.bytes().map(|byte| TokenId::new(byte.into())).collect::<Vec<_>>();
            assert_eq!(unchanged, left, "{text:?}, {nfc}, {prefix_space}");
        }
    }
}

/// With `ignore_merges`, a pre-token that equals an added token gives that token only if it is also an ordinary
/// one.
#[test]
fn whole_pretokens_become_added_tokens_only_where_these_merge_too() {
    let mut tokens = bytes();
    tokens.push((TokenId::new(256), Box::from(*b"ab")));
    let apart = added(257, "cd", |token| token.single_word = true);
    let merged = AddedToken { id: TokenId::new(256), text: "ab".to_owned(), ..apart.clone() };
    let parts = VocabularyParts {
        tokens,
        added: vec![merged, apart],
        ignore_merges: true,
        ..VocabularyParts::default()
    };
    let vocabulary = Vocabulary::new(parts).expect("valid");
    assert_eq!(shown(&vocabulary, SpecialPolicy::Text, b"ab"), "[256]");
    assert_eq!(shown(&vocabulary, SpecialPolicy::Text, b"cd"), "[257]");
    assert_eq!(shown(&vocabulary, SpecialPolicy::Text, b"abcd"), "abcd");
}

/// Added tokens that are not special are not counted.
#[test]
fn of_the_tokens_that_are_found_the_special_ones_are_counted() {
    let vocabulary = vocabulary(
        vec![added(300, "<a>", |_| ()), added(301, "<s>", |token| token.special = true)],
        TextRules::default(),
    );
    let config = EncodeConfig { special: SpecialPolicy::Allow, ..EncodeConfig::default() };
    let encoder = prepared(&vocabulary, config);
    let mut worker = encoder.worker();
    worker.encode(b"<a><s><a>").expect("nothing is forbidden");
    assert_eq!(worker.specials(), 1);
}

/// A normalizer that replaces a string.
fn replaced(text: &str, content: &str) -> Normalizer {
    Normalizer::Replace { pattern: ReplacePattern::String(text.to_owned()), content: content.to_owned() }
}

/// Whether a normalizer leaves a text unchanged decides whether a long text is cut into chunks.
#[test]
fn normalized_texts_are_encoded_in_stretches_as_whole() {
    let strip = |strip_left, strip_right| Normalizer::Strip { strip_left, strip_right };
    let matched = |regex: &str| Normalizer::Replace {
        pattern: ReplacePattern::Regex(regex.to_owned()),
        content: "_".to_owned(),
    };
    let cases = [
        vec![Normalizer::Nfd],
        vec![Normalizer::Nfkc],
        vec![Normalizer::Nfkd, Normalizer::StripAccents],
        vec![Normalizer::Lowercase],
        vec![strip(true, false)],
        vec![strip(false, true), Normalizer::Lowercase],
        vec![Normalizer::Prepend { prepend: "▁".to_owned() }],
        vec![replaced(" ", "▁")],
        vec![matched(r"\p{L}+\s"), replaced("_", "")],
    ];
    let lines = ["plain words, ", "é e\u{301} ﬁ ", "UPPER \u{130} ", " \u{3000}", "\n"];
    for normalizers in cases {
        let split = SplitPattern::from_regex("[a-z]+|[^a-z]+");
        let rules = TextRules { normalizers, prefix_space: false };
        let parts = VocabularyParts { tokens: bytes(), rules, split, ..VocabularyParts::default() };
        let vocabulary = Vocabulary::new(parts).expect("valid");
        assert!(!vocabulary.keeps_text());
        let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default()).expect("valid");
        let mut changed = false;
        for (start, line) in lines.iter().enumerate() {
            for more in ["", "plain"] {
                let text = [&line.repeat(20), more, lines[start]].concat();
                let encoded = tokenizer.encode(&text).expect("it is encoded");
                let in_stretches = tokenizer.encode_in_stretches(&[&text], 16).expect("it is encoded");
                assert_eq!(in_stretches, [&*encoded]);
                let preparation = tokenizer.encoder().preparation.as_ref().expect("rules");
                let leaves = preparation.leaves(text.as_bytes());
                assert_eq!(leaves, tokenizer.decode(&encoded).expect("bytes") == text.as_bytes(), "{text:?}");
                changed |= !leaves;
            }
        }
        assert!(changed, "no text is changed");
    }
}

/// Normalizers that double a text 40 times are stopped by the limit.
#[test]
fn strings_that_grow_without_end_are_an_error() {
    let normalizers = (0..40).map(|_| replaced("a", "aa")).collect();
    let vocabulary = vocabulary(Vec::new(), TextRules { normalizers, prefix_space: false });
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    let refused = encoder.worker().encode(b"abc").map(drop).expect_err("it would have 2^40 bytes");
    assert!(refused.to_string().contains("normalizing a text of"), "{refused}");
    assert!(encoder.worker().encode(b"bcd").is_ok());
}
