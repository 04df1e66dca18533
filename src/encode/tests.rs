use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::cache::Cache;
use super::merge::Merger;
use super::pairs::Pairs;
use super::*;
use crate::base::int::{ByteCount, Count, TokenId, to_usize, truncate_to_u32};
use crate::base::test_support::{one_case_in, with_threads};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Silent};
use crate::split::{Named, SplitPattern, Splitter};
use crate::train::{self, TrainConfig};
use crate::vocab::{AddedToken, RankedMerge, SpecialTokensAt, Vocabulary, VocabularyParts};

mod batches;
mod missing;
mod prepared;
mod specials;
mod tokenizer;

/// Texts with occasional long runs of few letters, or of arbitrary bytes.
pub(super) fn text() -> impl Strategy<Value = Vec<u8>> {
    let letters = |most: usize| vec((0..most, prop_oneof![Just(1usize), 1..6usize]), 0..120);
    let spell = |runs: Vec<(usize, usize)>| -> Vec<u8> {
        runs.into_iter().flat_map(|(letter, run)| std::iter::repeat_n(b"ab c"[letter], run)).collect()
    };
    prop_oneof![
        (1..=4usize).prop_flat_map(letters).prop_map(spell),
        (0..4usize, 0..300usize).prop_map(move |(letter, run)| spell(vec![(letter, run)])),
        vec(any::<u8>(), 0..100),
    ]
}

/// A vocabulary with the merges that training learns from a text.
pub(super) fn trained(text: &[u8], split: SplitPattern) -> Vocabulary {
    trained_beside(&[], text, split)
}

/// The same, with special tokens.
pub(super) fn trained_beside(specials: &[String], text: &[u8], split: SplitPattern) -> Vocabulary {
    let mut pretokens = PretokenCounts::new();
    if !text.is_empty() {
        pretokens.push(text, Count::ONE);
    }
    let config = TrainConfig { min_frequency: Count::ONE, ..TrainConfig::new(40) };
    let learned = train::reference::learn_merges(&pretokens, &config);
    Vocabulary::from_merges(&learned.merges, specials, SpecialTokensAt::End, split)
        .expect("learned merges fit")
}

/// A merge to be generated: two tokens by their index among those that can merge, whether its result is a new
/// token even if one with the same bytes exists, and a rank.
type MergeToBe = (usize, usize, bool, u32);

/// Any valid merge list: ranks in any order and with ties, several merges that give one token, several tokens
/// with the same bytes, ids of bytes in any order.
fn arbitrary() -> impl Strategy<Value = VocabularyParts> {
    let rank = prop_oneof![Just(0u32), 0..3u32, 0..20u32];
    let drafts = vec((0..100usize, 0..100usize, proptest::bool::weighted(0.3), rank), 0..40);
    (drafts, 1..=4usize, any::<u8>(), any::<bool>()).prop_map(|(drafts, letters, mask, ignore_merges)| {
        let mut tokens: Vec<Box<[u8]>> = (0..=255).map(|id: u8| Box::from([id ^ mask])).collect();
        let mut merging: Vec<usize> =
            b"ab c"[..letters].iter().map(|byte| usize::from(byte ^ mask)).collect();
        let mut merges: Vec<RankedMerge> = Vec::new();
        for (left, right, own, rank) in drafts {
            add_draft(&mut tokens, &mut merging, &mut merges, (left, right, own, rank));
        }
        let tokens = tokens.into_iter().enumerate().map(|(id, bytes)| (TokenId::from_index(id), bytes));
        VocabularyParts { tokens: tokens.collect(), merges, ignore_merges, ..VocabularyParts::default() }
    })
}

/// Adds a generated merge, unless its result would be long or its pair merges already.
fn add_draft(
    tokens: &mut Vec<Box<[u8]>>,
    merging: &mut Vec<usize>,
    merges: &mut Vec<RankedMerge>,
    (left, right, own, rank): MergeToBe,
) {
    let (left, right) = (merging[left % merging.len()], merging[right % merging.len()]);
    let bytes = [&*tokens[left], &*tokens[right]].concat();
    let (left, right) = (TokenId::from_index(left), TokenId::from_index(right));
    if bytes.len() > 40 || merges.iter().any(|merge| (merge.left, merge.right) == (left, right)) {
        return;
    }
    let known = tokens.iter().position(|token| **token == *bytes).filter(|_| !own);
    let result = known.unwrap_or_else(|| {
        tokens.push(bytes.into());
        merging.push(tokens.len() - 1);
        tokens.len() - 1
    });
    merges.push(RankedMerge { left, right, result: TokenId::from_index(result), rank });
}

/// Any valid vocabulary, or one learned from a text.
fn vocabulary() -> impl Strategy<Value = Vocabulary> {
    prop_oneof![
        arbitrary().prop_map(|parts| Vocabulary::new(parts).expect("a valid merge list")),
        text().prop_map(|text| trained(&text, SplitPattern::None)),
    ]
}

/// Cuts after each space: the simplest pattern possible.
struct AfterSpaces;

impl Splitter for AfterSpaces {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        _observer: &dyn Observer,
    ) -> Result<()> {
        let inner = text.iter().enumerate().filter(|&(at, &byte)| byte == b' ' && at + 1 < text.len());
        ends.extend(inner.map(|(at, _)| truncate_to_u32(at + 1)));
        ends.extend((!text.is_empty()).then_some(truncate_to_u32(text.len())));
        Ok(())
    }
}

/// The ids that the definition gives for a sequence of pre-tokens.
fn expected(vocabulary: &Vocabulary, pretokens: &[&[u8]]) -> Vec<TokenId> {
    let pretokens = pretokens.iter().filter(|pretoken| !pretoken.is_empty());
    pretokens.flat_map(|pretoken| reference::encode_pretoken(vocabulary, pretoken)).collect()
}

/// The bytes of ids.
pub(super) fn decoded(vocabulary: &Vocabulary, ids: &[TokenId]) -> Vec<u8> {
    ids.iter().flat_map(|&id| vocabulary.bytes(id).expect("ids come from the vocabulary")).copied().collect()
}

/// An encoder that uses longest matches from the start, if the vocabulary allows them.
pub(super) fn prepared(vocabulary: &Vocabulary, config: EncodeConfig) -> Encoder {
    Encoder::new(vocabulary.clone(), config).expect("valid").prepared()
}

/// An encoder that splits after spaces and uses longest matches from the start, if the vocabulary allows them.
fn after_spaces(vocabulary: &Vocabulary, config: EncodeConfig) -> Encoder {
    let vocabulary = Arc::new(vocabulary.clone());
    Encoder::with_splitter(vocabulary, config, Some(Box::new(AfterSpaces))).expect("valid").prepared()
}

proptest! {
    /// Texts without a split encode as the reference does, and decode to themselves.
    #[test]
    fn unsplit_documents_equal_the_definition(vocabulary in vocabulary(), texts in vec(text(), 1..4)) {
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let mut worker = encoder.worker();
        for text in &texts {
            let ids = worker.encode(text).expect("any bytes encode");
            prop_assert_eq!(ids, expected(&vocabulary, &[text]));
            prop_assert_eq!(&decoded(&vocabulary, ids), text);
        }
    }

    /// The heap merger and the merger of short parts give what the reference gives.
    #[test]
    fn both_mergers_equal_the_definition_at_any_length(vocabulary in vocabulary(), text in text()) {
        let pairs = Pairs::new(&vocabulary);
        let expected = reference::merge_pretoken(&vocabulary, &text);
        let mut ids = Vec::new();
        long::Scratch::default().merge(&pairs, vocabulary.byte_ids(), &text, &mut ids, &Silent).expect("merged");
        prop_assert_eq!(&ids, &expected);
        ids.clear();
        Merger::default().merge(&pairs, vocabulary.byte_ids(), &text, &mut ids, &Silent).expect("merged");
        prop_assert_eq!(&ids, &expected);
    }

    /// Split texts encode pre-token by pre-token, with a large cache, with one of two lines, and with seeds.
    #[test]
    fn merges_stay_within_pretokens_and_the_cache_changes_nothing(
        vocabulary in vocabulary(),
        texts in vec(text(), 1..4),
    ) {
        let encoder = after_spaces(&vocabulary, EncodeConfig::default());
        let (mut warm, mut tiny) = (encoder.worker(), Worker::with_cache(&encoder, Cache::new(2)));
        let mut seeded = Worker::with_cache(&encoder, Cache::full(1 << 10, encoder.seeds()));
        for text in texts.iter().chain(&texts) {
            let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
            let expected = expected(&vocabulary, &pretokens);
            prop_assert_eq!(warm.encode(text).expect("any bytes encode"), &expected[..]);
            prop_assert_eq!(tiny.encode(text).expect("any bytes encode"), &expected[..]);
            prop_assert_eq!(seeded.encode(text).expect("any bytes encode"), &expected[..]);
        }
    }
}

/// Documents with cached pre-tokens before and after each text.
fn with_known(texts: &[Vec<u8>], known: usize) -> Vec<Vec<u8>> {
    texts.iter().map(|text| [b"ab ".repeat(known), text.clone(), b" ab ".repeat(known)].concat()).collect()
}

/// The tokens of pre-tokens that were encoded in a batch fill the right holes.
#[test]
fn new_pretokens_are_encoded_together_where_they_belong() {
    let inputs = (text(), vec(text(), 1..8), 0..400usize);
    one_case_in(4, &inputs, |(learned_from, texts, known)| {
        let vocabulary = trained(&learned_from, SplitPattern::None);
        let (bos, eos) = (TokenId::new(7), TokenId::new(9));
        let config = EncodeConfig { bos: Some(bos), eos: Some(eos), ..EncodeConfig::default() };
        let encoder = after_spaces(&vocabulary, config);
        let mut worker = encoder.worker();
        let texts = with_known(&texts, known);
        let mut draft = worker.draft(TokenIds::from_iter([eos]));
        for text in &texts {
            worker.document(text, &mut draft).expect("any bytes encode");
        }
        let (ids, ends) = worker.finish(draft);
        let mut all = vec![eos];
        let expected: Vec<usize> = texts
            .iter()
            .map(|text| {
                let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
                all.extend([vec![bos], expected(&vocabulary, &pretokens), vec![eos]].concat());
                all.len()
            })
            .collect();
        prop_assert_eq!((ids.into_wide(), ends), (all, expected));
        Ok(())
    });
}

/// Longest matches may start to be used at any time, even between the texts of one pending output.
#[test]
fn what_is_prepared_for_meanwhile_changes_nothing() {
    let inputs = (vocabulary(), vec(text(), 1..8), 0..300usize, 0..200usize);
    one_case_in(2, &inputs, |(vocabulary, texts, known, worth)| {
        let shared = Arc::new(vocabulary.clone());
        let splitters: [Option<Box<dyn Splitter>>; 2] = [None, Some(Box::new(AfterSpaces))];
        for splitter in splitters {
            let is_split = splitter.is_some();
            let encoder = Encoder::with_splitter(Arc::clone(&shared), EncodeConfig::default(), splitter);
            let encoder = encoder.expect("valid").worth(worth);
            let (mut worker, mut other) = (encoder.worker(), encoder.worker());
            let texts = with_known(&texts, if is_split { known } else { 0 });
            let mut draft = worker.draft(TokenIds::default());
            let mut all = Vec::new();
            for text in &texts {
                worker.document(text, &mut draft).expect("any bytes encode");
                let whole = [&text[..]];
                let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
                let expected = expected(&vocabulary, if is_split { &pretokens } else { &whole });
                prop_assert_eq!(other.encode(text).expect("any bytes encode"), &expected[..]);
                all.extend(expected);
            }
            prop_assert_eq!(worker.finish(draft).0.into_wide(), all);
        }
        Ok(())
    });
}

/// All workers wait for the one that prepares. Each runs on a thread of the pool that could otherwise have been
/// given part of that work.
#[test]
fn workers_that_prepare_at_once_wait_for_one() {
    let text = b"ab ca bc ab aab cab bca".repeat(50);
    let vocabulary = Arc::new(trained(&text, SplitPattern::None));
    let expected = reference::encode_pretoken(&vocabulary, &text);
    with_threads(4, || {
        for worth in [0, 2_000] {
            let encoder =
                Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default()).expect("valid").worth(worth);
            assert_eq!(encoder.method(), method::LITTLE_TEXT);
            (0..64).into_par_iter().for_each(|_| {
                let mut worker = encoder.worker();
                (0..3).for_each(|_| assert_eq!(worker.encode(&text).expect("any bytes encode"), expected));
            });
            assert_eq!(encoder.method(), Method::LongestMatches);
        }
    });
}

/// Longest matches are prepared from the documented amount of expected text on, and not below it.
#[test]
fn so_much_text_is_prepared_for_beforehand() {
    for (split, least) in [(SplitPattern::None, 16 * 256), (SplitPattern::Named(Named::Gpt2), 8 * 16 * 256)] {
        let vocabulary = Arc::new(trained(b"", split));
        for (bytes, method) in [(least - 1, method::LITTLE_TEXT), (least, Method::LongestMatches)] {
            let encoder = Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default()).expect("valid");
            let encoder = with_threads(1, || encoder.expecting(ByteCount(bytes)));
            assert_eq!(encoder.method(), method);
            let made_within = |threads| {
                let new = || Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default());
                with_threads(threads, new).expect("valid").threads
            };
            assert_eq!([1, 3].map(made_within), [1, 3]);
        }
    }
}

/// Rare new pre-tokens leave holes, which are filled when there are many tokens, a long pre-token, or many
/// documents.
#[test]
fn rare_new_pretokens_wait_for_others() {
    let vocabulary = trained(b"ab ab ab cab", SplitPattern::None);
    let encoder = after_spaces(&vocabulary, EncodeConfig::default());
    let [known, new, more] = [b"ab ".repeat(100), b"cab cab bca ".to_vec(), b"ab ".repeat(20_000)];
    let long = [b"ca ", &*b"z".repeat(20_000), b" ab "].concat();
    for ids in [TokenIds::from(Vec::<u16>::new()), TokenIds::from(Vec::<TokenId>::new())] {
        let mut worker = encoder.worker();
        let mut draft = worker.draft(ids);
        worker.document(&known, &mut draft).expect("any bytes encode");
        worker.document(&new, &mut draft).expect("any bytes encode");
        assert_eq!(draft.new_pretokens(), [&b"ab "[..], b"cab ", b"bca "]);
        worker.document(&more, &mut draft).expect("any bytes encode");
        assert!(
            draft.new_pretokens().is_empty() && !draft.ids.is_empty(),
            "so many tokens are not kept apart"
        );
        worker.document(&long, &mut draft).expect("any bytes encode");
        assert!(draft.new_pretokens().is_empty(), "gaps are closed for what there is no room for");
        (0..3_000).for_each(|_| worker.end(&mut draft));
        assert!(draft.ends.len() > 2_000, "nor are so many documents");
        let (ids, ends) = worker.finish(draft);
        let length = ids.len();
        assert_eq!(decoded(&vocabulary, &ids.into_wide()), [&*known, &new, &more, &long].concat());
        assert_eq!(ends[3..], [length; 3_001]);
    }
}

/// A vocabulary with merges given as the bytes of their parts, with their ranks. Results have the ids from 256
/// on.
fn merging(merges: &[(&str, &str, u32)]) -> Vocabulary {
    let mut tokens: Vec<Box<[u8]>> = (0..=255).map(|byte: u8| Box::from([byte])).collect();
    tokens.extend(merges.iter().map(|(left, right, _)| [left.as_bytes(), right.as_bytes()].concat().into()));
    let id = |bytes: &[u8]| {
        TokenId::from_index(tokens.iter().position(|token| **token == *bytes).expect("made by a merge"))
    };
    let ranked = |&(left, right, rank): &(&str, &str, u32)| RankedMerge {
        left: id(left.as_bytes()),
        right: id(right.as_bytes()),
        result: id(&[left.as_bytes(), right.as_bytes()].concat()),
        rank,
    };
    let merges = merges.iter().map(ranked).collect();
    let tokens = (0..).map(TokenId::new).zip(tokens).collect();
    Vocabulary::new(VocabularyParts { tokens, merges, ..VocabularyParts::default() })
        .expect("a valid merge list")
}

/// Merge lists in which a merge creates a pair of lower rank, or a pair loses a token to another merge.
#[test]
fn the_lowest_rank_goes_first_whenever_it_comes_up() {
    // `a`-`b` merges first if it is left of the other pair of rank 5, and so creates a pair of lower rank.
    let dropping = [("a", "b", 5), ("c", "ab", 1), ("b", "c", 5)];
    // `cde`-`f` becomes possible before `ab`-`cde` consumes its left token.
    let outrun = [("c", "d", 0), ("cd", "e", 1), ("a", "b", 2), ("ab", "cde", 3), ("cde", "f", 5)];
    for (merges, text, ids) in [
        (&dropping[..], "abcab", &[256, 257][..]),
        (&dropping, "bcab", &[258, 256]),
        (&dropping, "cabc", &[257, 99]),
        (&dropping, "ccab", &[99, 257]),
        (&outrun, "abcdef", &[259, 102]),
        (&outrun, "bcdef", &[98, 260]),
    ] {
        let vocabulary = merging(merges);
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let ids: Vec<TokenId> = ids.iter().map(|&id| TokenId::new(id)).collect();
        assert_eq!(encoder.worker().encode(text.as_bytes()).expect("any bytes encode"), ids, "{text}");
        let mut long = Vec::new();
        long::Scratch::default()
            .merge(&encoder.pairs, &encoder.byte_ids, text.as_bytes(), &mut long, &Silent)
            .expect("merged");
        assert_eq!(long, ids, "{text}");
    }
}

/// Long documents are split chunk by chunk, which must not change their tokens.
#[test]
fn a_long_document_encodes_as_its_pretokens_do() {
    let words = ["the ", " a", "\n\n", "don't", "  ", "12345 ", "é", "\u{3000}", "x", "!!", "\r\n "];
    let mut state = 7_usize;
    let text: String = (0..80_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            words[(state >> 33) % words.len()]
        })
        .collect();
    let text = text.as_bytes();
    for named in [Named::Gpt2, Named::Gpt4, Named::Cl100k, Named::O200k] {
        let vocabulary = trained(&text[..300], SplitPattern::Named(named));
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let mut ends = vec![0];
        let splitter = crate::split::splitter(vocabulary.split()).expect("a pattern with a name");
        splitter.pretoken_ends(text, &mut ends).expect("it needs no backtracking");
        let mut merger = Merger::default();
        let mut expected = Vec::new();
        for pretoken in ends.array_windows().map(|&[start, end]| &text[to_usize(start)..to_usize(end)]) {
            merger
                .merge(&encoder.pairs, &encoder.byte_ids, pretoken, &mut expected, &Silent)
                .expect("merged");
        }
        assert!(encoder.worker().encode(text).expect("any bytes encode") == expected, "{named:?}");
    }
}

/// Inputs that made other encoders crash or hang are encoded here, with and without a pattern.
#[test]
fn a_megabyte_of_anything_ends() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(state >> 33).expect("31 bits")
    };
    const SIZE: usize = 1_000_000;
    let letters: Vec<u8> = (0..SIZE).map(|_| b"etaoinshrdlu"[random() % 12]).collect();
    for text in [vec![b'a'; SIZE], vec![b' '; SIZE], b"ab c".repeat(SIZE / 4), letters] {
        for split in [SplitPattern::None, SplitPattern::Named(Named::Gpt2)] {
            let vocabulary = trained(&text[..2_000], split);
            let encoder = prepared(&vocabulary, EncodeConfig::default());
            let mut worker = encoder.worker();
            let ids = worker.encode(&text).expect("any bytes encode");
            assert!(ids.len() < SIZE);
            assert!(decoded(&vocabulary, ids) == text);
        }
    }
}
