//! Encoding by backtracking, in a batch, interleaved and in chunks, against the reference.

use proptest::collection::vec;
use proptest::prelude::*;

use super::batched::Interleaved;
use super::path::{Backtracker, DeadEnds};
use super::*;
use crate::base::int::{ByteCount, Count, TokenId};
use crate::base::test_support::one_case_in;
use crate::count::PretokenCounts;
use crate::encode::encoder::TOO_MUCH;
use crate::encode::tests::{decoded, prepared, text};
use crate::encode::{EncodeConfig, Method, TokenIds, reference};
use crate::observer::Silent;
use crate::split::SplitPattern;
use crate::train::{self, Merge, Merges, TieBreak, TrainConfig};
use crate::vocab::SpecialTokensAt;

/// Vocabularies of all sizes, learned from several texts by any tie rule. Some extend the merges of another one.
fn learned() -> impl Strategy<Value = Vocabulary> {
    learned_from(text())
}

/// Vocabularies that are learned from texts of this kind.
fn learned_from(text: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vocabulary> {
    let size = prop_oneof![0..20usize, 20..100usize, 100..400usize];
    let longest = prop_oneof![Just(None), (2..12usize).prop_map(Some)];
    let ties = proptest::sample::select(TieBreak::ALL.as_slice());
    (vec(text, 1..5), size, longest, ties, 0..=1usize).prop_map(|(texts, size, longest, ties, base)| {
        let config = TrainConfig {
            min_frequency: Count::ONE,
            max_token_bytes: longest,
            tie_break: ties,
            ..TrainConfig::new(size)
        };
        let texts: Vec<&Vec<u8>> = texts.iter().filter(|text| !text.is_empty()).collect();
        let counts = |texts: &[&Vec<u8>]| {
            texts.iter().map(|text| (text.as_slice(), Count::ONE)).collect::<PretokenCounts>()
        };
        let (first, rest) = texts.split_at(texts.len() * base / 2);
        let short = TrainConfig { merges: size / 2, ..config.clone() };
        let list = train::reference::learn_merges(&counts(first), &short).merges;
        let learned = train::reference::extend_merges(&counts(rest), &list, &config);
        Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, SplitPattern::None)
            .expect("learned merges fit")
    })
}

/// Texts that consist of a vocabulary's tokens, texts that repeat its tokens many times, and texts of any kind.
fn texts(vocabulary: &Vocabulary) -> impl Strategy<Value = Vec<u8>> + use<> {
    let tokens: Vec<Vec<u8>> = vocabulary.tokens().map(|(_, bytes)| bytes.to_vec()).collect();
    let made = tokens[255..].to_vec();
    let spelled = |tokens: Vec<Vec<u8>>| vec(proptest::sample::select(tokens), 0..60);
    let runs = vec((proptest::sample::select(tokens.clone()), 1..40usize), 0..6);
    let run = |(token, times): (Vec<u8>, usize)| token.repeat(times);
    prop_oneof![
        text(),
        spelled(made).prop_map(|tokens| tokens.concat()),
        spelled(tokens).prop_map(|tokens| tokens.concat()),
        runs.prop_map(move |runs| runs.into_iter().flat_map(run).collect()),
    ]
}

/// Texts of few characters of one to four bytes that share bytes, with bytes between them that are not UTF-8.
fn characters() -> impl Strategy<Value = Vec<u8>> {
    const SPELLED: [&[u8]; 20] = [
        b"a",
        b" ",
        "é".as_bytes(),
        "©".as_bytes(),
        "д".as_bytes(),
        "ա".as_bytes(),
        "\u{800}".as_bytes(),
        "中".as_bytes(),
        "丮".as_bytes(),
        "阭".as_bytes(),
        "国".as_bytes(),
        "\u{ffff}".as_bytes(),
        "가".as_bytes(),
        "😀".as_bytes(),
        b"\x80",
        b"\xad",
        b"\xe4",
        b"\xe4\xb8",
        b"\xe0\x80\x80",
        b"\xc1\x81",
    ];
    // Usually only a few of them, so that pairs occur repeatedly.
    let few = vec(0..SPELLED.len(), 1..6).prop_flat_map(|few| vec(proptest::sample::select(few), 0..60));
    few.prop_map(|text| text.into_iter().flat_map(|number| SPELLED[number]).copied().collect())
}

/// A vocabulary, and texts for it.
pub(super) fn with_texts() -> impl Strategy<Value = (Vocabulary, Vec<Vec<u8>>)> {
    learned().prop_flat_map(|vocabulary| {
        let texts = vec(texts(&vocabulary), 1..4);
        (Just(vocabulary), texts)
    })
}

/// The tables of a vocabulary for whole texts.
pub(super) fn tables(vocabulary: &Vocabulary) -> BacktrackTables {
    BacktrackTables::new(vocabulary, true).expect("not too large")
}

/// The vocabulary of these merges.
pub(super) fn vocabulary(pairs: impl IntoIterator<Item = (u32, u32)>) -> Vocabulary {
    let merges = pairs.into_iter().map(|(left, right)| Merge { left, right, count: Count::ONE });
    let merges = Merges::new(merges.collect());
    Vocabulary::from_merges(&merges, &[], SpecialTokensAt::End, SplitPattern::None).expect("they fit")
}

/// The longest token that a text begins with, found by trying all.
fn longest(vocabulary: &Vocabulary, text: &[u8]) -> (usize, u32) {
    let begins = vocabulary.tokens().filter(|(_, bytes)| text.starts_with(bytes));
    begins.map(|(id, bytes)| (bytes.len(), id.get())).max().expect("every byte is a token")
}

/// Each of the 3 025 tokens that end with byte 200 makes as many tokens incompatible that begin with pairs of
/// other bytes.
#[test]
fn vocabularies_that_take_too_long_to_prepare_are_merged() {
    let end = 200;
    let pairs = (0..55).flat_map(|one| (0..55).map(move |other| (one, other)));
    let numbers = 256..256 + 55 * 55;
    let ahead = numbers.clone().map(|pair| (end, pair));
    let behind = numbers.map(|pair| (pair, end));
    let vocabulary = vocabulary(pairs.chain(ahead).chain(behind));
    assert_eq!(Method::of(&crate::vocab::check(&vocabulary)), Method::Backtracking);
    assert!(BacktrackTables::new(&vocabulary, true).is_none());
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    assert_eq!(encoder.method(), TOO_MUCH);
    let text = [1, 2, 200, 3, 4, 200, 200, 54, 54, 55, 54];
    let ids = encoder.worker().encode(&text).expect("any bytes encode").to_vec();
    assert_eq!(ids, reference::encode_pretoken(&vocabulary, &text));
}

/// First a vocabulary of tokens that continue after a run of one byte, then one of ever longer runs. Tokens of
/// the second kind are found at once.
#[test]
fn vocabularies_for_which_too_much_is_looked_at_are_merged() {
    let ends_of_runs =
        |most: u32| vocabulary((0..most).map(|number| (0, if number == 0 { 1 } else { 255 + number })));
    assert!(BacktrackTables::new(&ends_of_runs(100), false).is_some());
    let slow = ends_of_runs(400);
    assert_eq!(Method::of(&crate::vocab::check(&slow)), Method::Backtracking);
    assert!(BacktrackTables::new(&slow, false).is_none());
    let runs = vocabulary((0..400).map(|number| (0, if number == 0 { 0 } else { 255 + number })));
    assert!(BacktrackTables::new(&runs, false).is_some());
}

proptest! {
    /// Two tokens are compatible in the matrix exactly if their bytes together encode to the two.
    #[test]
    fn tokens_are_compatible_if_they_encode_to_themselves(
        vocabulary in learned(),
        pairs in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 60),
    ) {
        let tables = tables(&vocabulary);
        // From the letters on, since most bytes are in no merge.
        let letters = b"ab c".iter().map(|&letter| TokenId::from_index(usize::from(letter)));
        let ids: Vec<TokenId> =
            letters.chain(vocabulary.merges().iter().map(|merge| merge.result)).collect();
        let token = |index: prop::sample::Index| *index.get(&ids);
        for (left, right) in pairs {
            let (left, right) = (token(left), token(right));
            let bytes = |id| vocabulary.bytes(id).expect("in use");
            let alone = reference::merge_pretoken(&vocabulary, &[bytes(left), bytes(right)].concat()) == [left, right];
            prop_assert_eq!(tables.are_compatible(left.get(), right.get()), alone, "{} {}", left, right);
        }
    }

    /// Cutting pre-tokens into characters does not change their tokens.
    #[test]
    fn pretokens_are_taken_apart_into_characters_exactly(
        (vocabulary, texts) in learned_from(characters()).prop_flat_map(|vocabulary| (Just(vocabulary), vec(characters(), 1..4))),
        begin in 0..4usize,
    ) {
        let tables = tables(&vocabulary);
        let (mut characters, mut dead) = (CharacterCache::default(), DeadEnds::default());
        for text in texts.iter().chain(&texts).filter(|text| text.len() > begin) {
            let mut ids = vec![TokenId::new(7)];
            characters.encode(&tables, &text[begin..], &mut dead, &mut ids);
            prop_assert_eq!(&ids[1..], reference::encode_pretoken(&vocabulary, &text[begin..]));
        }
    }

    /// The byte classes of followers exclude no compatible token.
    #[test]
    fn followers_of_no_class_are_never_compatible(vocabulary in learned()) {
        let tables = tables(&vocabulary);
        let ids: Vec<u32> = vocabulary.tokens().map(|(id, _)| id.get()).filter(|id| id % 7 == 0 || *id > 255).collect();
        for (&left, &right) in ids.iter().flat_map(|left| ids.iter().map(move |right| (left, right))) {
            let first = vocabulary.bytes(TokenId::new(right)).expect("in use")[0];
            prop_assert!(!tables.are_compatible(left, right) || tables.can_follow(left, first), "{} {}", left, right);
        }
    }
}

/// Pre-tokens in a batch encode as they do alone.
#[test]
fn batched_pretokens_are_encoded_as_each_alone() {
    let inputs = (with_texts(), 1..20usize);
    one_case_in(4, &inputs, |((vocabulary, texts), cut)| {
        let (tables, mut batched) = (tables(&vocabulary), BatchedBacktrack::default());
        // Few pre-tokens after many, and many after few.
        for cut in [cut, 300, cut] {
            let pretokens: Vec<&[u8]> = texts.iter().flat_map(|text| text.chunks(cut)).collect();
            batched.encode(&tables, &pretokens);
            for (number, pretoken) in pretokens.iter().enumerate() {
                prop_assert_eq!(batched.ids(number), reference::encode_pretoken(&vocabulary, pretoken));
            }
        }
        Ok(())
    });
}

/// The trie finds the longest token at every position.
#[test]
fn the_longest_token_is_found() {
    let inputs = with_texts();
    one_case_in(4, &inputs, |(vocabulary, texts)| {
        let tables = tables(&vocabulary);
        for (text, at) in texts.iter().flat_map(|text| (0..text.len()).map(move |at| (text, at))) {
            let text = &text[at..];
            let (length, token) = longest(&vocabulary, text);
            prop_assert_eq!(tables.longest(text), (token, length));
        }
        Ok(())
    });
}

/// More texts than are encoded at a time, and fewer, each with its own length.
#[test]
fn interleaved_texts_are_encoded_as_each_alone() {
    let inputs = (with_texts(), vec(1..40usize, 1..4));
    one_case_in(4, &inputs, |((vocabulary, texts), cuts)| {
        let tables = tables(&vocabulary);
        let mut interleaved = Interleaved::default();
        for cut in cuts {
            let texts: Vec<&[u8]> = texts.iter().flat_map(|text| text.chunks(cut)).collect();
            interleaved.encode(&tables, &texts);
            for (nth, text) in texts.iter().enumerate() {
                let whole = reference::encode_pretoken(&vocabulary, text);
                prop_assert!(interleaved.ids(nth).is_none_or(|ids| ids == whole));
                // The patience suffices for all candidates of a text of three bytes.
                prop_assert!(interleaved.ids(nth).is_some() || text.len() > 3);
            }
        }
        Ok(())
    });
}

/// Chunks of any length, encoded separately and stitched, give the encoding of the whole text.
#[test]
fn encodings_of_chunks_are_stitched_exactly() {
    let inputs = (with_texts(), 1..40usize);
    one_case_in(4, &inputs, |((vocabulary, texts), length)| {
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let ends: Vec<usize> = (length..text.len()).step_by(length).chain([text.len()]).collect();
            prop_assert_eq!(
                in_chunks(&vocabulary, text, &ends),
                reference::encode_pretoken(&vocabulary, text)
            );
        }
        Ok(())
    });
}

/// The expected amount of text decides only when a lazy DFA is first used.
#[test]
fn text_that_is_expected_changes_no_ids() {
    let inputs = (with_texts(), 0..2000u64);
    one_case_in(4, &inputs, |((vocabulary, texts), expected)| {
        let config = EncodeConfig::default();
        let encoder = prepared(&vocabulary, config).expecting(ByteCount(expected));
        let mut worker = encoder.worker();
        for text in &texts {
            let ids = worker.encode(text).expect("any bytes encode");
            prop_assert_eq!(ids, reference::encode_pretoken(&vocabulary, text));
        }
        Ok(())
    });
}

/// Every learned vocabulary allows backtracking, and they give what the reference gives.
#[test]
fn learned_vocabularies_are_encoded_by_backtracking() {
    one_case_in(4, &with_texts(), |(vocabulary, texts)| {
        prop_assert_eq!(Method::of(&crate::vocab::check(&vocabulary)), Method::Backtracking);
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let mut worker = encoder.worker();
        for text in texts.iter().chain(&texts) {
            let ids = worker.encode(text).expect("any bytes encode");
            prop_assert_eq!(ids, reference::encode_pretoken(&vocabulary, text));
            prop_assert_eq!(&decoded(&vocabulary, ids), text);
        }
        Ok(())
    });
}

/// A path that continues with interleaved chunks is the encoding of the text so far.
#[test]
fn a_path_is_extended_by_interleaved_chunks() {
    let inputs = (with_texts(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    one_case_in(8, &inputs, |((vocabulary, texts), start, end)| {
        let (tables, mut interleaved, mut dead) =
            (tables(&vocabulary), Interleaved::default(), DeadEnds::default());
        let text = texts.concat().repeat(4);
        let mut backtracker = Backtracker { tables: &tables, text: &text, dead: &mut dead };
        // The path must not touch ids before its own.
        let mut path = Path::new(vec![TokenId::new(7)], 0);
        backtracker.extend_to(&mut path, start.index(text.len() + 1).min(40));
        let end = end.index(text.len() + 1);
        interleaved.extend_to(&mut backtracker, &mut path, end);
        prop_assert!(path.at >= end);
        let so_far = reference::encode_pretoken(&vocabulary, &text[..path.at]);
        prop_assert_eq!(&path.ids[1..], &so_far[..]);
        prop_assert_eq!(path.last, so_far.last().map_or(NONE, |id| id.get()));
        Ok(())
    });
}

/// All of an easy text is encoded interleaved.
#[test]
fn easy_text_is_interleaved() {
    let vocabulary = vocabulary([(97, 98), (256, 97)]);
    let (tables, mut interleaved, mut dead) =
        (tables(&vocabulary), Interleaved::default(), DeadEnds::default());
    let text = b"abab cab ".repeat(30);
    let mut backtracker = Backtracker { tables: &tables, text: &text, dead: &mut dead };
    let mut path = Path::new(Vec::new(), 0);
    for windows in 1..=2 {
        assert!(interleaved.extend_by_chunks(&mut backtracker, &mut path, 20));
        assert!(path.at >= windows * 6 * 20);
        assert_eq!(path.ids, reference::encode_pretoken(&vocabulary, &text[..path.at]));
    }
}

/// Encodes the chunks of a text, which end at `ends`, separately, and stitches them.
fn in_chunks(vocabulary: &Vocabulary, text: &[u8], ends: &[usize]) -> Vec<TokenId> {
    let (tables, mut scratch) = (tables(vocabulary), BacktrackScratch::default());
    // The path must not touch ids before its own.
    let before = TokenId::new(7);
    let mut stitcher = Stitcher::new(TokenIds::from_iter([before]));
    let mut start = 0;
    for &end in ends {
        let mut path = Path::new(vec![before], start);
        scratch.extend_to(&tables, text, &mut path, end, &Silent).expect("nobody stops it");
        let chunk = EncodedChunk::Overlapping(ChunkTokens::new(&path, TokenIds::default()));
        stitcher.push(Some(&tables), text, start, chunk);
        start = end;
    }
    let mut ids = stitcher.into_ids().into_wide();
    assert_eq!(ids[0], before);
    ids.split_off(1)
}

/// In this vocabulary, each token depends on the text after it, up to the end.
#[test]
fn more_tokens_than_were_looked_at_are_given_back() {
    let letters = u32::from(b'a')..u32::from(b'z');
    let pairs = letters.clone().rev().map(|letter| (letter, letter + 1));
    // The pair that begins with the next letter.
    let pair = |letter| 256 + u32::from(b'z') - 2 - letter;
    let longer = letters.rev().skip(1).map(|letter| (letter, pair(letter)));
    let vocabulary = vocabulary(pairs.chain(longer));
    for length in 5..=26 {
        let text = &b"abcdefghijklmnopqrstuvwxyz"[..length];
        for ends in
            (1..length).flat_map(|end| [vec![end, length], vec![end, (end + length).div_ceil(2), length]])
        {
            assert_eq!(
                in_chunks(&vocabulary, text, &ends),
                reference::encode_pretoken(&vocabulary, text),
                "{ends:?}"
            );
        }
    }
}

/// Backtracking continues into a run that began in another chunk.
#[test]
fn a_run_that_began_in_another_chunk_is_backtracked_through() {
    let [a, b, c, d] = [b'a', b'b', b'c', b'd'].map(u32::from);
    let aa = 256;
    let vocabulary = vocabulary([(a, a), (b, aa), (c, d), (aa, c)]);
    // By then the second chunk is `aa aa aa`. Its last token was tried before the longer `aac`, as part of a run.
    // After stitching, `baa` comes before it and the path shows no run. Yet `aac` must be tried, to continue with `c`.
    let text = b"baaaaaac";
    assert_eq!(in_chunks(&vocabulary, text, &[1, 7, 8]), reference::encode_pretoken(&vocabulary, text));
    for (first, second) in (1..8).flat_map(|first| (first..8).map(move |second| (first, second))) {
        let ends = [first, second, 8];
        assert_eq!(
            in_chunks(&vocabulary, text, &ends),
            reference::encode_pretoken(&vocabulary, text),
            "{ends:?}"
        );
    }
}

/// A lazy DFA is used from the first text on if enough text is expected.
#[test]
fn the_dfa_is_used_at_once_if_much_text_is_expected() {
    let vocabulary = vocabulary([(97, 98), (256, 97)]);
    let (tables, text) = (tables(&vocabulary), b"abab");
    for (expected, begins) in [(0, false), (1 << 20, true)] {
        let (mut scratch, mut ids) = (BacktrackScratch::expecting(expected), Vec::new());
        scratch.encode(&tables, text, &mut ids, &Silent).expect("nobody stops it");
        assert_eq!(scratch.has_dfa(), begins);
        assert_eq!(ids, reference::encode_pretoken(&vocabulary, text));
    }
}
