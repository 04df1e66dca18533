use std::collections::{BTreeMap, HashMap};
use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use tokenmill::observer::Silent;
use tokenmill::split::{NamedPattern, SplitPattern, SplitStep};
use tokenmill::vocab::{
    Format, LoadOptions, RankedMerge, SpecialTokensAt, TextRules, TrainingRecord, Vocabulary,
    VocabularyParts, WriteOptions, check, compatibility_notes, from_json, load, render, write,
};
use tokenmill::{ErrorKind, FORMAT_VERSION, TokenId};

use crate::made::{Notes, encode, learned, load_plainly, parts, renumbered, there_and_back, trained};

const TEXTS: [&[u8]; 3] =
    [b"the cat sat on the mat, the end", "naïve café \u{1F600}".as_bytes(), b"\xFF\xFE\0\0 \n\n  x"];

/// Writing and reading a vocabulary gives an equal one, or the format refuses it.
#[test]
fn every_format_gives_back_what_it_holds() {
    use Format::{Gpt2, Hf, Minbpe, Tiktoken};
    use SpecialTokensAt::{End, Start};
    const ALL: &[Format] = &[Hf, Tiktoken, Minbpe, Gpt2];
    let cases: [(&str, &[&str], SpecialTokensAt, &[Format]); 10] = [
        ("gpt2", &[], End, ALL),
        ("gpt2", &["<|endoftext|>", "<|pad|>"], End, ALL),
        ("gpt2", &["<|endoftext|>"], Start, &[Hf, Tiktoken, Gpt2]),
        ("none", &["<|end of text|>"], End, &[Hf, Tiktoken]),
        ("none", &["<｜fin→｜>"], End, &[Hf, Tiktoken, Minbpe]),
        ("gpt4", &["<s>"], End, &[Hf, Tiktoken, Minbpe]),
        ("cl100k", &[], End, &[Hf, Tiktoken, Minbpe]),
        ("o200k", &[], End, &[Hf, Tiktoken, Minbpe]),
        (r"\p{L}+|\P{L}", &[], End, &[Hf, Tiktoken, Minbpe]),
        (r" \p{L}+|\P{L}", &[], End, &[Hf, Tiktoken]),
    ];
    for (split, specials, at, formats) in cases {
        let vocabulary = trained(&TEXTS, specials, at, split);
        for format in Format::ALL {
            let case = format!("{split} {specials:?} {at:?} {format}");
            match there_and_back(&vocabulary, format) {
                Ok(back) => {
                    assert!(formats.contains(&format), "{case} should be refused");
                    assert_eq!(back, vocabulary, "{case}");
                    assert_eq!(back.fingerprint(), vocabulary.fingerprint(), "{case}");
                }
                Err(refused) => {
                    assert!(!formats.contains(&format), "{case}: {refused}");
                    assert_eq!(refused.kind(), ErrorKind::Usage, "{case}");
                }
            }
        }
    }
}

/// Merges of tokens that start with `#version` are kept.
#[test]
fn merges_that_look_like_a_header_are_merges() {
    let texts: [&[u8]; 3] = [b"#version 330 core", b"#version 330 core", b"#versions"];
    let vocabulary = trained(&texts, &[], SpecialTokensAt::End, "none");
    assert_eq!(there_and_back(&vocabulary, Format::Hf).expect("hf holds it"), vocabulary);
    // In the old form, one string per merge, tokenizers skips merges that look like a version line.
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    let mut file: serde_json::Value = serde_json::from_slice(&files[0].1).expect("JSON");
    let merges = file["model"]["merges"].as_array_mut().expect("merges");
    let is_header =
        |pair: &serde_json::Value| pair[0].as_str().is_some_and(|left| left.starts_with("#version"));
    let seen = merges.iter().filter(|pair| !is_header(pair)).count();
    assert!(seen < merges.len(), "{seen} of {}", merges.len());
    merges.iter_mut().for_each(|pair| {
        *pair = json!(format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
    });
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("a writable folder");
    assert_eq!(load_plainly(folder.path()).expect("a tokenizer").merges().len(), seen);
}

/// Byte tokens may have any ids, except in minbpe.
#[test]
fn bytes_may_have_any_ids() {
    let vocabulary = trained(&TEXTS, &["<|end|>"], SpecialTokensAt::End, "gpt2");
    // Byte tokens get ids in the order of GPT-2's alphabet, printable bytes first. All other ids stay.
    let mut order: Vec<u32> = (33..=126).chain(161..=172).chain(174..=255).collect();
    order.extend((0..256).filter(|byte| !order.contains(byte)).collect::<Vec<_>>());
    let id = |old: TokenId| match order.iter().zip(0..).find(|(byte, _)| **byte == old.get()) {
        Some((_, new)) => TokenId::new(new),
        None => old,
    };
    let gpt2_like = Vocabulary::new(renumbered(&vocabulary, id)).expect("only the ids differ");
    assert_eq!(gpt2_like.byte_id(b'!'), Some(TokenId::new(0)));
    for format in [Format::Hf, Format::Tiktoken, Format::Gpt2] {
        assert_eq!(there_and_back(&gpt2_like, format).expect("any ids will do"), gpt2_like, "{format}");
    }
    let refused =
        there_and_back(&gpt2_like, Format::Minbpe).expect_err("minbpe knows its bytes by their ids");
    assert!(refused.to_string().contains("byte 0x00 is token 188; it must be token 0"), "{refused}");
}

/// Gaps between ids are kept, with a note.
#[test]
fn unused_ids_are_kept_and_told() {
    let vocabulary = trained(&TEXTS, &["<|end|>"], SpecialTokensAt::End, "gpt4");
    let apart = |id: TokenId| TokenId::new(if id.get() < 256 { id.get() } else { id.get() * 2 });
    let vocabulary = Vocabulary::new(renumbered(&vocabulary, apart)).expect("holes are legal");
    for format in [Format::Hf, Format::Tiktoken] {
        let folder = tempfile::tempdir().expect("a folder");
        write(&vocabulary, format, folder.path(), &WriteOptions::default()).expect("holes can be held");
        let notes = Notes::default();
        assert_eq!(load(folder.path(), &LoadOptions::default(), &notes).expect("written"), vocabulary);
        let notes = notes.0.into_inner().expect("no panic");
        assert!(notes.len() == 1 && notes[0].contains("have no token"), "{notes:?}");
    }
}

/// `tokenizer.json` and `tokenizer_config.json` have the structure that Hugging Face's programs expect.
#[test]
fn the_json_is_what_hugging_face_expects() {
    let folder = tempfile::tempdir().expect("a folder");
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(folder.path().join(name)).expect("written")).expect("JSON")
    };
    let options = WriteOptions { eos: Some("<|end|>".to_owned()), ..WriteOptions::default() };
    let unsplit = trained(&[b"low low"], &["<|end|>"], SpecialTokensAt::Start, "none");
    write(&unsplit, Format::Hf, folder.path(), &options).expect("written");
    let written = read("tokenizer.json");
    assert_eq!(written["pre_tokenizer"], byte_level);
    assert_eq!(written["decoder"], byte_level);
    assert_eq!(written["model"]["merges"], json!(["l o", "lo w", "Ġ low", "low Ġlow"]));
    assert_eq!(written["model"]["vocab"]["<|end|>"], 0);
    assert_eq!(written["model"]["vocab"]["Ġ"], 33);
    assert_eq!(written["added_tokens"][0]["content"], "<|end|>");
    assert_eq!(
        read("tokenizer_config.json"),
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false, "eos_token": "<|end|>",
        })
    );
    let split = trained(&[b"low low"], &[], SpecialTokensAt::End, "cl100k");
    write(&split, Format::Hf, folder.path(), &options).expect("written");
    let steps = &read("tokenizer.json")["pre_tokenizer"]["pretokenizers"];
    assert_eq!(steps[1], byte_level);
    assert_eq!(steps[0]["behavior"], "Isolated");
    assert!(!steps[0].to_string().contains("3}+"), "a possessive count means something else in Oniguruma");
}

/// `tokenizers` 1.0 has no engine for regular expressions. It recognizes published patterns by their text.
#[test]
fn a_note_says_which_splits_tokenizers_1_0_does_not_open() {
    let byte_level = |splits| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": splits});
    let caution_of = |vocabulary: &Vocabulary| compatibility_notes(vocabulary, Format::Hf).concat();
    for (split, said) in [
        ("none", ""),
        ("gpt2", ""),
        ("gpt4", ""),
        ("cl100k", "does not open a tokenizer that has the split cl100k"),
        ("o200k", ""),
        ("nanochat", "splits numbers differently from the split nanochat"),
        ("qwen2", ""),
        ("deepseek-v3", ""),
        ("gpt4-digits-rtl", "does not open a tokenizer that has the split gpt4-digits-rtl"),
        ("o200k-digits-rtl", "does not open a tokenizer that has the split o200k-digits-rtl"),
        ("o200k-digit", "does not open a tokenizer that has the split o200k-digit"),
        ("superword", "does not open a tokenizer that has the split superword"),
    ] {
        let noted = caution_of(&trained(&TEXTS, &[], SpecialTokensAt::End, split));
        assert!(noted.contains(said) && said.is_empty() == noted.is_empty(), "{split}: {noted}");
    }
    let gpt2 = trained(&TEXTS, &[], SpecialTokensAt::End, "gpt2");
    let with = |split: SplitPattern, prefix_space| {
        let rules = TextRules { prefix_space, ..TextRules::default() };
        Vocabulary::new(VocabularyParts { split, rules, ..parts(&gpt2) }).expect("the same parts")
    };
    let mistral = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    );
    let custom = |regex: &str| SplitPattern::from_oniguruma(regex).expect(regex);
    let digits = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]";
    let step = |pattern| SplitStep::new(pattern, false);
    let two =
        |first| SplitPattern::from_steps(vec![step(first), step(SplitPattern::Named(NamedPattern::Gpt2))]);
    for (split, prefix_space, said) in [
        (custom(mistral), false, ""),
        (custom(r"\p{L}+"), false, "does not open a tokenizer that has a custom split"),
        (two(custom(digits)), false, ""),
        (two(custom(r"\p{L}+")), false, "does not open a tokenizer that has a custom split"),
        (
            SplitPattern::Named(NamedPattern::Gpt2),
            true,
            "does not open a tokenizer that adds a space before text",
        ),
    ] {
        let noted = caution_of(&with(split.clone(), prefix_space));
        assert!(noted.contains(said) && said.is_empty() == noted.is_empty(), "{split}: {noted}");
    }
    let written = |split| {
        let files = render(&with(split, false), Format::Hf, &WriteOptions::default()).expect("hf holds it");
        serde_json::from_slice::<serde_json::Value>(&files[0].1).expect("JSON")["pre_tokenizer"].take()
    };
    assert_eq!(written(SplitPattern::Named(NamedPattern::Gpt2)), byte_level(true));
    let starcoder = written(two(custom(digits)));
    let individual = json!({"type": "Digits", "individual_digits": true});
    assert_eq!(starcoder["pretokenizers"], json!([individual, byte_level(true)]));
}

/// Files of earlier versions spell the expression out, in another form than the published one.
#[test]
fn a_gpt2_split_that_is_spelled_out_is_read_as_before() {
    let vocabulary = trained(&TEXTS, &["<|end|>"], SpecialTokensAt::End, "gpt2");
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    let mut file: serde_json::Value = serde_json::from_slice(&files[0].1).expect("JSON");
    for regex in [
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ] {
        let split =
            json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [split, byte_level]});
        let read = from_json(file.to_string().as_bytes(), &Silent).expect("it is supported");
        assert_eq!(read, vocabulary);
        assert_eq!(read.fingerprint(), vocabulary.fingerprint());
    }
}

/// Named split patterns are recognized when a file is read.
#[test]
fn every_pattern_with_a_name_is_read_back_from_every_format_that_holds_one() {
    for named in NamedPattern::ALL {
        let vocabulary = trained(&TEXTS, &[], SpecialTokensAt::End, named.name());
        for format in [Format::Hf, Format::Minbpe] {
            let again = there_and_back(&vocabulary, format).expect("byte ids in order");
            assert_eq!(again.split(), &SplitPattern::Named(named), "{format:?}");
        }
    }
}

/// Other spellings of the pre-tokenizer, and merges as pairs, are read as the same vocabulary.
#[test]
fn split_steps_as_others_write_them_are_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    let vocabulary = trained(&TEXTS, &[], SpecialTokensAt::End, "none");
    write(&vocabulary, Format::Hf, folder.path(), &WriteOptions::default()).expect("written");
    let file: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    let byte_level = |regex| json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": regex});
    let cases = [
        (json!(null), "none"),
        (byte_level(true), "gpt2"),
        (json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}), "gpt2"),
        (json!({"type": "Sequence", "pretokenizers": [byte_level(true)]}), "gpt2"),
        (json!({"type": "Sequence", "pretokenizers": [byte_level(false)]}), "none"),
    ];
    for (pre_tokenizer, split) in cases {
        let mut file = file.clone();
        file["pre_tokenizer"] = pre_tokenizer;
        file["post_processor"] = byte_level(true);
        let pairs = file["model"]["merges"].as_array().expect("merges").iter();
        let pairs = pairs.map(|pair| pair.as_str().expect("a string").split(' ').collect::<Vec<_>>());
        file["model"]["merges"] = pairs.collect();
        fs::write(&path, file.to_string()).expect("written");
        let mut expected = parts(&vocabulary);
        expected.split = split.parse().expect("a name");
        assert_eq!(load_plainly(&path).expect(split), Vocabulary::new(expected).expect("the same parts"));
    }
}

/// Special tokens may be listed as added tokens only, as in Llama 3's file.
#[test]
fn special_tokens_may_stand_outside_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    let vocabulary = trained(&TEXTS, &["<|begin|>", "<|end|>"], SpecialTokensAt::End, "gpt4");
    write(&vocabulary, Format::Hf, folder.path(), &WriteOptions::default()).expect("written");
    let mut file: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    let tokens = file["model"]["vocab"].as_object_mut().expect("tokens");
    tokens.retain(|key, _| !key.starts_with("<|"));
    fs::write(&path, file.to_string()).expect("written");
    assert_eq!(load_plainly(&path).expect("as Llama 3 has it"), vocabulary);
}

/// A rank file without its sidecar needs a split from the caller. With a sidecar, the given split must agree.
#[test]
fn ranks_on_their_own_need_a_split() {
    let folder = tempfile::tempdir().expect("a folder");
    let vocabulary = trained(&TEXTS, &[], SpecialTokensAt::End, "gpt4");
    let paths =
        write(&vocabulary, Format::Tiktoken, folder.path(), &WriteOptions::default()).expect("written");
    let asked = |split: &str| {
        let options = LoadOptions { split: Some(split.parse().expect("a name")), ..LoadOptions::default() };
        load(&paths[0], &options, &Silent)
    };
    assert_eq!(asked("gpt4").expect("as the sidecar says"), vocabulary);
    assert_eq!(asked("gpt2").expect_err("the sidecar says otherwise").kind(), ErrorKind::Usage);
    fs::remove_file(&paths[1]).expect("the sidecar");
    assert_eq!(asked("gpt4").expect("the split is named"), vocabulary);
    let refused = load_plainly(&paths[0]).expect_err("nothing says the split");
    assert_eq!(refused.kind(), ErrorKind::Usage);
    assert!(refused.help().is_some_and(|help| help.contains("name its split pattern")));
}

/// A training record is read as it was written.
#[test]
fn a_training_record_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(TrainingRecord::read(folder.path()).expect("nothing is no error"), None);
    let record = TrainingRecord {
        format_version: FORMAT_VERSION,
        tool_version: "0.1.0".to_owned(),
        vocabulary: trained(&TEXTS, &[], SpecialTokensAt::End, "none").fingerprint(),
        settings: json!({"split": "none", "merges": 3}),
        counts: vec![10, 4, u64::MAX],
        replaced: vec![10, 3, u64::MAX],
        history: vec![tokenmill::train::HistoryPoint { merges: 0, tokens: 99 }],
    };
    record.write(folder.path()).expect("written");
    assert_eq!(TrainingRecord::read(folder.path()).expect("just written"), Some(record));
}

/// A training record of an unknown format version is refused.
#[test]
fn a_training_record_of_a_later_version_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (record, said) in [
        (r#"{"format_version": 2, "what": "is not known yet"}"#, "training.json: format version 2"),
        (r#"{"what": "is not known"}"#, "not the JSON expected"),
    ] {
        fs::write(TrainingRecord::path(folder.path()), record).expect("written");
        let refused = TrainingRecord::read(folder.path()).expect_err("it is not this program's");
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

/// Encodes as tiktoken does. A pre-token that is a token stays whole. Otherwise the two neighbours with the
/// lowest rank, looked up by their joined bytes, are merged first.
fn encode_by_ranks(ranks: &HashMap<Vec<u8>, u32>, pretoken: &[u8]) -> Vec<u32> {
    if let Some(&rank) = ranks.get(pretoken) {
        return vec![rank];
    }
    let mut tokens: Vec<Vec<u8>> = pretoken.iter().map(|&byte| vec![byte]).collect();
    loop {
        let rank = |pair: &[Vec<u8>]| ranks.get(&pair.concat()).copied();
        let found = tokens.windows(2).enumerate().filter_map(|(at, pair)| Some((rank(pair)?, at)));
        let Some((_, at)) = found.min() else { break };
        let joined = tokens[at..at + 2].concat();
        tokens.splice(at..at + 2, [joined]);
    }
    tokens.iter().map(|token| ranks[token]).collect()
}

fn few_letters() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"aabc".to_vec()), 0..24)
}

/// Merge lists that training would not give: of any tokens, with any ranks, or each merge of tokens made before
/// and into a new token.
fn arbitrary() -> impl Strategy<Value = Vocabulary> {
    let pairs = vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u16>()), 0..12);
    (pairs, any::<bool>(), any::<bool>()).prop_map(|(pairs, in_order, ignore_merges)| {
        let mut ids: BTreeMap<Vec<u8>, TokenId> =
            (0..=255u8).zip(0..).map(|(byte, id)| (vec![byte], TokenId::new(id))).collect();
        let mut usable: Vec<Vec<u8>> = [b"a", b"b", b"c"].map(|byte| byte.to_vec()).into();
        let mut merges = BTreeMap::new();
        for ((left, right, rank), nth) in pairs.into_iter().zip(0..) {
            let (left, right) = (left.get(&usable).clone(), right.get(&usable).clone());
            let joined = [&*left, &*right].concat();
            if in_order && ids.contains_key(&joined) {
                continue;
            }
            let next = TokenId::from_index(ids.len());
            let result = *ids.entry(joined.clone()).or_insert(next);
            usable.push(joined);
            merges.insert((ids[&left], ids[&right]), (result, if in_order { nth } else { u32::from(rank) }));
        }
        let merges = merges.into_iter();
        Vocabulary::new(VocabularyParts {
            tokens: ids.into_iter().map(|(bytes, id)| (id, bytes.into_boxed_slice())).collect(),
            merges: merges
                .map(|((left, right), (result, rank))| RankedMerge { left, right, result, rank })
                .collect(),
            split: "gpt2".parse().expect("a name"),
            ignore_merges,
            ..VocabularyParts::default()
        })
        .expect("merges of tokens there are")
    })
}

proptest! {
    /// Learned vocabularies pass all checks, and every format holds them.
    #[test]
    fn learned_vocabularies_allow_every_shortcut(texts in vec(few_letters(), 1..6), merges in 0..40usize) {
        let texts: Vec<&[u8]> = texts.iter().map(|text| &**text).collect();
        let merges = learned(&texts, merges);
        let vocabulary = Vocabulary::from_merges(&merges, &[], SpecialTokensAt::End, "gpt2".parse().expect("a name"))
            .expect("no special tokens");
        let checks = check(&vocabulary);
        prop_assert!(checks.shortcuts_hold() && checks.ids_in_rank_order, "{checks:?}");
        for format in Format::ALL {
            prop_assert_eq!(&there_and_back(&vocabulary, format).expect("every format holds it"), &vocabulary);
        }
    }

    /// A format that accepts a vocabulary preserves its encoding.
    #[test]
    fn what_a_format_accepts_encodes_alike(vocabulary in arbitrary(), texts in vec(few_letters(), 20)) {
        for format in Format::ALL {
            let Ok(back) = there_and_back(&vocabulary, format) else { continue };
            for text in &texts {
                prop_assert_eq!(encode(&back, text), encode(&vocabulary, text), "{} {:?}", format, text);
            }
        }
    }

    /// A vocabulary that the tiktoken format accepts encodes as tiktoken would.
    #[test]
    fn tiktoken_gives_the_same_ids(vocabulary in arbitrary(), texts in vec(few_letters(), 20)) {
        let ranks = vocabulary.ordinary().map(|(id, bytes)| (bytes.to_vec(), id.get())).collect();
        if render(&vocabulary, Format::Tiktoken, &WriteOptions::default()).is_ok() {
            for text in &texts {
                let ids: Vec<u32> = encode(&vocabulary, text).iter().map(|id| id.get()).collect();
                prop_assert_eq!(ids, encode_by_ranks(&ranks, text), "{:?}", text);
            }
        }
    }

    /// A vocabulary read from ranks encodes as tiktoken would.
    #[test]
    fn ranks_are_read_as_tiktoken_means_them(vocabulary in arbitrary(), texts in vec(few_letters(), 20)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ranks.tiktoken");
        let line = |(id, bytes)| {
            use base64::Engine;
            format!("{} {id}\n", base64::engine::general_purpose::STANDARD.encode(bytes))
        };
        fs::write(&path, vocabulary.ordinary().map(line).collect::<String>()).expect("a file");
        let options = LoadOptions { split: Some("none".parse().expect("a name")), ..LoadOptions::default() };
        let read = load(&path, &options, &Silent).expect("every byte has a rank");
        let ranks = vocabulary.ordinary().map(|(id, bytes)| (bytes.to_vec(), id.get())).collect();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let ids: Vec<u32> = encode(&read, text).iter().map(|id| id.get()).collect();
            prop_assert_eq!(ids, encode_by_ranks(&ranks, text), "{:?}", text);
        }
        // A vocabulary that was read from a rank file can always be written as one again.
        prop_assert_eq!(there_and_back(&read, Format::Tiktoken).expect("ranks again"), read);
    }

    /// `check` counts the tokens that do not encode to themselves.
    #[test]
    fn checks_tell_self_encoding_from_the_rest(vocabulary in arbitrary()) {
        let plain = Vocabulary::new(VocabularyParts { ignore_merges: false, ..parts(&vocabulary) }).expect("the same");
        let failing = plain.ordinary().filter(|(id, bytes)| encode(&plain, bytes) != [*id]).count();
        prop_assert_eq!(check(&vocabulary).not_self_encoding, failing);
    }
}
