//! Encoding against the reference, for every vocabulary and text; the options of encoding; and encoding of batches: the
//! same ids and facts whatever the batches, threads and chunks, and errors with their place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch};
use proptest::collection::vec;
use proptest::prelude::*;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::batch::encode_in_chunks;
use super::cache::PretokenCache;
use super::merge::{MergeTable, Merger};
use super::*;
use crate::base::int::{ByteCount, Count, TokenId, to_u64, to_usize, truncate_to_u32};
use crate::base::test_support::{one_case_in, with_threads};
use crate::count::PretokenCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent, Stage};
use crate::source::Batch;
use crate::split::{NamedPattern, SplitPattern, Splitter};
use crate::train::{self, Merges, TrainConfig};
use crate::vocab::{AddedToken, RankedMerge, SpecialTokensAt, Vocabulary, VocabularyParts};

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
    trained_with_specials(&[], text, split)
}

/// The same, with special tokens.
pub(super) fn trained_with_specials(specials: &[String], text: &[u8], split: SplitPattern) -> Vocabulary {
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
            add_merge(&mut tokens, &mut merging, &mut merges, (left, right, own, rank));
        }
        let tokens = tokens.into_iter().enumerate().map(|(id, bytes)| (TokenId::from_index(id), bytes));
        VocabularyParts { tokens: tokens.collect(), merges, ignore_merges, ..VocabularyParts::default() }
    })
}

/// Adds a generated merge, unless its result would be long or its pair merges already.
fn add_merge(
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
pub(super) fn vocabulary() -> impl Strategy<Value = Vocabulary> {
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

/// An encoder that uses backtracking from the start, if the vocabulary allows it.
pub(super) fn prepared(vocabulary: &Vocabulary, config: EncodeConfig) -> Encoder {
    Encoder::new(vocabulary.clone(), config).expect("valid").prepared()
}

/// An encoder that splits after spaces and uses backtracking from the start, if the vocabulary allows it.
pub(super) fn after_spaces(vocabulary: &Vocabulary, config: EncodeConfig) -> Encoder {
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

    /// The steps of a text end with its ids. They begin with its bytes, and each carries out one merge.
    #[test]
    fn steps_lead_from_the_bytes_to_the_ids(vocabulary in vocabulary(), text in text()) {
        let config = EncodeConfig { bos: Some(TokenId::new(7)), ..EncodeConfig::default() };
        for encoder in [prepared(&vocabulary, EncodeConfig::default()), after_spaces(&vocabulary, config)] {
            let steps = encoder.steps(&text).expect("a short text");
            let last: Vec<TokenId> = steps.iter().filter_map(|steps| steps.last()).flatten().copied().collect();
            let mut worker = encoder.worker();
            prop_assert_eq!(&last, worker.encode(&text).expect("any bytes encode"));
            for steps in &steps {
                prop_assert!(steps[0].iter().all(|&id| vocabulary.bytes(id).is_some_and(|bytes| bytes.len() == 1)));
                for pair in steps.windows(2) {
                    prop_assert_eq!(decoded(&vocabulary, &pair[0]), decoded(&vocabulary, &pair[1]));
                    prop_assert!(pair[0].len() == pair[1].len() + 1 || vocabulary.ignore_merges());
                }
            }
        }
    }

    /// The heap merger and the merger of short parts give what the reference gives.
    #[test]
    fn both_mergers_equal_the_definition_at_any_length(vocabulary in vocabulary(), text in text()) {
        let pairs = MergeTable::new(&vocabulary);
        let expected = reference::merge_pretoken(&vocabulary, &text);
        let mut ids = Vec::new();
        merge::HeapMerger::default().merge(&pairs, vocabulary.byte_ids(), &text, &mut ids, &Silent).expect("merged");
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
        let (mut warm, mut tiny) = (encoder.worker(), Worker::with_cache(&encoder, PretokenCache::new(2)));
        let mut seeded = Worker::with_cache(&encoder, PretokenCache::full(1 << 10, encoder.seeds()));
        for text in texts.iter().chain(&texts) {
            let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
            let expected = expected(&vocabulary, &pretokens);
            prop_assert_eq!(warm.encode(text).expect("any bytes encode"), &expected[..]);
            prop_assert_eq!(tiny.encode(text).expect("any bytes encode"), &expected[..]);
            prop_assert_eq!(seeded.encode(text).expect("any bytes encode"), &expected[..]);
        }
    }
}

/// Steps are refused for long texts and for texts that cannot be encoded. A special token is a step of its own.
#[test]
fn steps_are_for_short_texts_that_encode() {
    let specials = ["<end>".to_owned()];
    let vocabulary = trained_with_specials(&specials, b"abab ab", SplitPattern::None);
    let end = vocabulary.specials().next().expect("it has one").id;
    let steps = |special: SpecialPolicy, text: &[u8]| {
        prepared(&vocabulary, EncodeConfig { special, ..EncodeConfig::default() }).steps(text)
    };
    let found = steps(SpecialPolicy::Allow, b"ab<end>a").expect("a short text");
    let lengths: Vec<Vec<usize>> = found.iter().map(|steps| steps.iter().map(Vec::len).collect()).collect();
    assert_eq!(lengths, [vec![2, 1], vec![1], vec![1]]);
    assert_eq!(found[1], [[end]]);
    assert!(steps(SpecialPolicy::Forbid, b"ab<end>a").is_err());
    let longest = vec![b'c'; Encoder::MAX_STEPS_BYTES];
    assert_eq!(steps(SpecialPolicy::Text, &longest).expect("of the greatest length").len(), 1);
    let error = steps(SpecialPolicy::Text, &[&longest[..], b"c"].concat()).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("at most 1000 bytes"), "{error}");
}

/// Documents with cached pre-tokens before and after each text.
fn with_known(texts: &[Vec<u8>], known: usize) -> Vec<Vec<u8>> {
    texts.iter().map(|text| [b"ab ".repeat(known), text.clone(), b" ab ".repeat(known)].concat()).collect()
}

/// The tokens of pre-tokens that were encoded in a batch fill the right holes.
#[test]
fn batched_pretokens_fill_their_holes() {
    let inputs = (text(), vec(text(), 1..8), 0..400usize);
    one_case_in(4, &inputs, |(learned_from, texts, known)| {
        let vocabulary = trained(&learned_from, SplitPattern::None);
        let (bos, eos) = (TokenId::new(7), TokenId::new(9));
        let config = EncodeConfig { bos: Some(bos), eos: Some(eos), ..EncodeConfig::default() };
        let encoder = after_spaces(&vocabulary, config);
        let mut worker = encoder.worker();
        let texts = with_known(&texts, known);
        let mut output = worker.output(TokenIds::from_iter([eos]));
        for text in &texts {
            worker.document(text, &mut output).expect("any bytes encode");
        }
        let (ids, ends) = worker.finish(output);
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

/// Backtracking may start to be used at any time, even between the texts of one pending output.
#[test]
fn building_the_tables_meanwhile_changes_nothing() {
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
            let mut output = worker.output(TokenIds::default());
            let mut all = Vec::new();
            for text in &texts {
                worker.document(text, &mut output).expect("any bytes encode");
                let whole = [&text[..]];
                let pretokens: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b' ').collect();
                let expected = expected(&vocabulary, if is_split { &pretokens } else { &whole });
                prop_assert_eq!(other.encode(text).expect("any bytes encode"), &expected[..]);
                all.extend(expected);
            }
            prop_assert_eq!(worker.finish(output).0.into_wide(), all);
        }
        Ok(())
    });
}

/// All workers wait for the one that prepares. Each runs on a thread of the pool that could otherwise have been
/// given part of that work.
#[test]
fn workers_that_need_the_tables_wait_for_one_to_build_them() {
    let text = b"ab ca bc ab aab cab bca".repeat(50);
    let vocabulary = Arc::new(trained(&text, SplitPattern::None));
    let expected = reference::encode_pretoken(&vocabulary, &text);
    with_threads(4, || {
        for worth in [0, 2_000] {
            let encoder =
                Encoder::new(Arc::clone(&vocabulary), EncodeConfig::default()).expect("valid").worth(worth);
            assert_eq!(encoder.method(), encoder::LITTLE_TEXT);
            (0..64).into_par_iter().for_each(|_| {
                let mut worker = encoder.worker();
                (0..3).for_each(|_| assert_eq!(worker.encode(&text).expect("any bytes encode"), expected));
            });
            assert_eq!(encoder.method(), Method::Backtracking);
        }
    });
}

/// Backtracking is prepared from the documented amount of expected text on, and not below it.
#[test]
fn tables_for_much_text_are_built_beforehand() {
    for (split, least) in
        [(SplitPattern::None, 16 * 256), (SplitPattern::Named(NamedPattern::Gpt2), 8 * 16 * 256)]
    {
        let vocabulary = Arc::new(trained(b"", split));
        for (bytes, method) in [(least - 1, encoder::LITTLE_TEXT), (least, Method::Backtracking)] {
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
fn rare_new_pretokens_are_batched() {
    let vocabulary = trained(b"ab ab ab cab", SplitPattern::None);
    let encoder = after_spaces(&vocabulary, EncodeConfig::default());
    let [known, new, more] = [b"ab ".repeat(100), b"cab cab bca ".to_vec(), b"ab ".repeat(20_000)];
    let long = [b"ca ", &*b"z".repeat(20_000), b" ab "].concat();
    for ids in [TokenIds::from(Vec::<u16>::new()), TokenIds::from(Vec::<TokenId>::new())] {
        let mut worker = encoder.worker();
        let mut output = worker.output(ids);
        worker.document(&known, &mut output).expect("any bytes encode");
        worker.document(&new, &mut output).expect("any bytes encode");
        assert_eq!(output.new_pretokens, [&b"ab "[..], b"cab ", b"bca "]);
        worker.document(&more, &mut output).expect("any bytes encode");
        assert!(
            output.new_pretokens.is_empty() && !output.ids.is_empty(),
            "pending tokens are copied to the result"
        );
        worker.document(&long, &mut output).expect("any bytes encode");
        assert!(output.new_pretokens.is_empty(), "holes are filled before tokens that do not fit");
        (0..3_000).for_each(|_| worker.end(&mut output));
        assert!(output.ends.len() > 2_000, "and so are the ends of documents");
        let (ids, ends) = worker.finish(output);
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
        merge::HeapMerger::default()
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
    for named in [NamedPattern::Gpt2, NamedPattern::Gpt4, NamedPattern::Cl100k, NamedPattern::O200k] {
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
        for split in [SplitPattern::None, SplitPattern::Named(NamedPattern::Gpt2)] {
            let vocabulary = trained(&text[..2_000], split);
            let encoder = prepared(&vocabulary, EncodeConfig::default());
            let mut worker = encoder.worker();
            let ids = worker.encode(&text).expect("any bytes encode");
            assert!(ids.len() < SIZE);
            assert!(decoded(&vocabulary, ids) == text);
        }
    }
}

/// Vocabularies without tokens for some bytes, or with a token that has no bytes.
mod missing_bytes {
    use super::*;
    use crate::encode::missing_bytes::MissingByteTable;
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
            let batch = tokenizer.encode_in_chunks(texts, 7).ok();
            let flat = tokenizer.encode_flat_in_chunks(texts, 7, 0, &Silent).ok();
            assert_eq!(flat.map(FlatIds::into_rows), batch);
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
                    let fails =
                        missing_bytes == MissingBytes::Error && reference::lacks_token(&vocabulary, text);
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
            let missing = MissingByteTable::new(&vocabulary, MissingBytes::Error).expect("valid");
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
            split: SplitPattern::Named(NamedPattern::Gpt2),
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

    /// The error names the byte, its position and its character, and the help says what the program from which the
    /// tokenizer comes does.
    #[test]
    fn the_error_of_a_byte_without_a_token_says_where_it_is() {
        let vocabulary = without(&trained(b"", SplitPattern::None), &[0xC0, 0xF3], Some(false));
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        for (text, said) in [
            (
                "ab\u{E0067}".as_bytes(),
                "no token for byte 0xF3, which the text contains at byte 2 in U+E0067",
            ),
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
        let lacking =
            VocabularyParts { tokens: tokens.clone(), unknown: unknown(None), ..Default::default() };
        let uncached_bytes =
            VocabularyParts { tokens, merges, unknown: unknown(Some(1)), ..Default::default() };
        for (parts, said) in [(lacking, "lacks its unk_token"), (uncached_bytes, "merges use the unk_token")]
        {
            let vocabulary = Vocabulary::new(parts).expect("valid");
            Encoder::new(vocabulary.clone(), EncodeConfig::default())
                .expect("texts without such bytes encode");
            let error = Encoder::new(vocabulary, config).expect_err("it cannot be followed");
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}

/// Preparation of texts: added tokens, normalizers and the space before a text.
mod preprocess {
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
    fn tokens_in_normalized_text_have_no_position() {
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
            assert_eq!(
                decoded(&vocabulary, encoder.worker().encode(text).expect("any bytes encode")),
                normal
            );
        }
    }

    /// With `prefix_space`, a space is put before a text, and before the text after each added token.
    #[test]
    fn a_space_is_put_before_what_begins_with_none() {
        let rules = rules(false, true);
        let vocabulary = vocabulary(vec![added(300, "<m>", |token| token.lstrip = true)], rules);
        for (text, expected) in [
            ("", ""),
            ("a", " a"),
            (" a", " a"),
            ("\na", " \na"),
            ("a <m>b<m> c<m>", " a[300] b[300] c[300]"),
        ] {
            assert_eq!(shown(&vocabulary, SpecialPolicy::Text, text.as_bytes()), expected);
        }
    }

    /// [`Preprocessor::leaves_unchanged`](crate::encode::preprocess::Preprocessor::leaves_unchanged) is right about texts that change and
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
                assert_eq!(
                    preparation.leaves_unchanged(text.as_bytes()),
                    left,
                    "{text:?}, {nfc}, {prefix_space}"
                );
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
        let uncached_bytes = AddedToken { id: TokenId::new(256), text: "ab".to_owned(), ..apart.clone() };
        let parts = VocabularyParts {
            tokens,
            added: vec![uncached_bytes, apart],
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
    fn normalized_texts_are_encoded_in_chunks_as_whole() {
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
                    let in_chunks = tokenizer.encode_in_chunks(&[&text], 16).expect("it is encoded");
                    assert_eq!(in_chunks, [&*encoded]);
                    let preparation = tokenizer.encoder().preparation.as_ref().expect("rules");
                    let leaves_unchanged = preparation.leaves_unchanged(text.as_bytes());
                    assert_eq!(
                        leaves_unchanged,
                        tokenizer.decode(&encoded).expect("bytes") == text.as_bytes(),
                        "{text:?}"
                    );
                    changed |= !leaves_unchanged;
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
}

/// Special tokens in texts under each policy, and around documents.
mod special_tokens {
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
}

/// [`Tokenizer`] and [`DecodeStream`](crate::encode::DecodeStream): the same results as their parts.
mod tokenizer {
    use super::*;
    use crate::base::test_support::with_threads;
    use crate::error::ErrorKind;
    use crate::vocab::{Format, write};

    /// A tokenizer with the default configuration.
    fn tokenizer(vocabulary: Vocabulary) -> Tokenizer {
        Tokenizer::new(vocabulary, EncodeConfig::default()).expect("a vocabulary that encodes")
    }

    /// A tokenizer of single bytes and the special token `<end>`.
    fn with_specials() -> Tokenizer {
        let learned = train::reference::learn_merges(&PretokenCounts::new(), &TrainConfig::new(0));
        let specials = ["<end>".to_owned()];
        let split = SplitPattern::Named(NamedPattern::Gpt4);
        let vocabulary = Vocabulary::from_merges(&learned.merges, &specials, SpecialTokensAt::End, split);
        tokenizer(vocabulary.expect("legal"))
    }

    /// Number of bytes at the end of a text that begin a character which more bytes can complete.
    fn open_bytes(text: &[u8]) -> usize {
        let begins = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        };
        (1..=text.len().min(3)).find(|&bytes| begins(&text[text.len() - bytes..])).unwrap_or(0)
    }

    proptest! {
        /// Single texts, batches and chunks give the ids of a worker, and decode to the texts.
        #[test]
        fn a_tokenizer_encodes_as_its_worker(
            vocabulary in vocabulary(),
            texts in vec(text(), 0..12),
            threads in 1usize..4,
            chunk_bytes in 1usize..20,
            ends in any::<[bool; 2]>(),
            at_once in any::<bool>(),
        ) {
            let [bos, eos] = ends.map(|put| put.then(|| vocabulary.byte_ids()[0]));
            let config = EncodeConfig { bos, eos, ..EncodeConfig::default() };
            let tokenizer = Tokenizer::new(vocabulary, config).expect("a vocabulary that encodes");
            let tokenizer = if at_once { tokenizer.prepared() } else { tokenizer };
            let mut worker = tokenizer.encoder().worker();
            let one_by_one: Vec<Vec<u32>> =
                texts.iter().map(|text| worker.encode(text).expect("encodes").iter().map(|id| id.get()).collect()).collect();
            let batch = with_threads(threads, || tokenizer.clone().encode_batch(&texts)).expect("encodes");
            prop_assert_eq!(&batch, &one_by_one);
            let in_chunks = with_threads(threads, || tokenizer.encode_in_chunks(&texts, chunk_bytes)).expect("encodes");
            prop_assert_eq!(&in_chunks, &one_by_one);
            let flat = || tokenizer.encode_flat_in_chunks(&texts, chunk_bytes, 0, &Silent);
            let flat = with_threads(threads, flat).expect("encodes");
            prop_assert_eq!(flat.iter().collect::<Vec<_>>(), one_by_one.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for (text, ids) in texts.iter().zip(&one_by_one) {
                prop_assert_eq!(&tokenizer.encode(text).expect("encodes"), ids);
                prop_assert_eq!(tokenizer.count(text).expect("encodes"), ids.len());
                let [before, behind] = ends.map(|put| &[0_u8][..usize::from(put)]);
                prop_assert_eq!(tokenizer.decode(ids).expect("its own ids"), [before, text, behind].concat());
            }
        }

        /// The ids are those of the definition, and the offsets cut the text into their tokens without a gap.
        #[test]
        fn tokens_cut_out_by_their_offsets_are_the_text(
            vocabulary in vocabulary(),
            text in text(),
            ends in any::<[bool; 2]>(),
        ) {
            let [bos, eos] = ends.map(|put| put.then(|| vocabulary.byte_ids()[0]));
            let config = EncodeConfig { bos, eos, ..EncodeConfig::default() };
            let inner = expected(&vocabulary, &[&text]);
            let tokenizer = Tokenizer::new(vocabulary, config).expect("a vocabulary that encodes");
            let found = tokenizer.encode_with_offsets(&text).expect("encodes");
            let ids: Vec<TokenId> = found.iter().map(|(id, _)| TokenId::new(*id)).collect();
            prop_assert_eq!(&ids, &bos.into_iter().chain(inner).chain(eos).collect::<Vec<_>>());
            let mut end = 0;
            for (place, (id, range)) in found.iter().enumerate() {
                prop_assert_eq!(range.start, end);
                end = range.end;
                let is_added = ends[0] && place == 0 || ends[1] && place + 1 == found.len();
                let token = if is_added { Some(&b""[..]) } else { tokenizer.token(*id) };
                prop_assert_eq!(Some(&text[range.clone()]), token);
            }
            prop_assert_eq!(end, text.len());
        }

        /// Each token is found by its bytes: under its own id, or a lower one with the same bytes.
        #[test]
        fn tokens_are_found_by_their_bytes(vocabulary in vocabulary(), unknown in vec(any::<u8>(), 0..50)) {
            let tokenizer = tokenizer(vocabulary.clone());
            for (_, bytes) in vocabulary.tokens() {
                prop_assert_eq!(tokenizer.id(bytes), vocabulary.id_of(bytes).map(TokenId::get));
                prop_assert_eq!(tokenizer.token(tokenizer.id(bytes).expect("a token")), Some(bytes));
            }
            prop_assert_eq!(tokenizer.id(&unknown), vocabulary.id_of(&unknown).map(TokenId::get));
            prop_assert_eq!(tokenizer.token(truncate_to_u32(tokenizer.vocab_size())), None);
        }

        /// At each id, the stream has returned all of the text but an incomplete character.
        #[test]
        fn a_stream_gives_the_whole_text_and_whole_characters(
            characters in "\\PC{0,20}",
            bytes in vec(prop_oneof![any::<u8>(), 0xC0_u8.., Just(0xE2), Just(0x82)], 0..40),
            more in vec(any::<u16>(), 0..20),
            uncached_bytes in any::<bool>(),
        ) {
            // If `uncached_bytes`, tokens have arbitrary bytes; otherwise the tokens are the bytes of the characters,
            // followed by others.
            let learned_from = if uncached_bytes { [characters.as_bytes(), &bytes].concat() } else { Vec::new() };
            let tokenizer = tokenizer(trained(&learned_from, SplitPattern::None));
            let mut ids = tokenizer.encode([characters.as_bytes(), &bytes].concat()).expect("encodes");
            let limit = truncate_to_u32(tokenizer.vocabulary().id_limit());
            ids.extend(more.iter().map(|&id| u32::from(id) % limit));
            let mut stream = tokenizer.decode_stream();
            let mut text = String::new();
            for (number, &id) in ids.iter().enumerate() {
                text.push_str(stream.push(id).expect("a token"));
                let so_far = tokenizer.decode(&ids[..=number]).expect("tokens");
                prop_assert_eq!(&text, &String::from_utf8_lossy(&so_far[..so_far.len() - open_bytes(&so_far)]));
            }
            text.push_str(stream.finish());
            let whole = tokenizer.decode(&ids).expect("tokens");
            prop_assert_eq!(&text, &String::from_utf8_lossy(&whole));
            prop_assert_eq!(tokenizer.decode_to_string(&ids).expect("tokens"), text);
            prop_assert_eq!(stream.finish(), "");
        }
    }

    /// A tokenizer is `Send`, `Sync` and `Clone`, and gives the same ids on all threads.
    #[test]
    fn one_tokenizer_serves_many_threads() {
        fn shareable<T: Send + Sync + Clone>(_: &T) {}
        let tokenizer =
            tokenizer(trained(b"the cat sat on the mat, the cat ate the rat", SplitPattern::None));
        shareable(&tokenizer);
        let expected = tokenizer.encode("the cat ate").expect("encodes");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (tokenizer, expected) = (tokenizer.clone(), &expected);
                scope.spawn(move || {
                    (0..50).for_each(|_| {
                        assert_eq!(tokenizer.encode("the cat ate").expect("encodes"), *expected)
                    });
                });
            }
        });
    }

    /// Each policy has its effect, and a batch's error names the text.
    #[test]
    fn special_tokens_are_dealt_with_as_asked() {
        let text = with_specials();
        let end = text.special_token("<end>").expect("it has one");
        assert_eq!((text.special_token("<start>"), text.count("a<end>").expect("encodes")), (None, 6));
        let allowing = text.with_special(SpecialPolicy::Allow).expect("a tokenizer");
        assert_eq!(allowing.encode("a<end>").expect("encodes"), [97, end]);
        assert_eq!(allowing.decode(&[97, end]).expect("tokens"), b"a<end>");
        let forbidding = text.with_special(SpecialPolicy::Forbid).expect("a tokenizer");
        let error = forbidding.encode_batch(&["a", "b", "<end>", "<end>"]).expect_err("forbidden");
        assert!(error.to_string().starts_with("the batch: row 2: "), "{error}");
        assert_eq!(forbidding.encode("a").expect("a worker that failed goes on"), [97]);
        let error = forbidding.encode_flat(&["a", "b", "<end>", "<end>"], &Silent).expect_err("forbidden");
        assert!(error.to_string().starts_with("the batch: row 2: "), "{error}");
    }

    /// Asks to stop at the second question.
    #[derive(Default)]
    struct StopsSoon(AtomicU64);

    impl Observer for StopsSoon {
        fn stopping(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 0
        }
    }

    /// The observer is asked between the chunks of a long text, and between long texts.
    #[test]
    fn encoding_to_one_list_stops_if_asked_to() {
        let tokenizer = with_specials();
        let texts = ["a b c ".repeat(10), "a b c ".repeat(10)];
        for texts in [&texts[..1], &texts] {
            let outcome = tokenizer.encode_flat_in_chunks(texts, 16, 0, &StopsSoon::default());
            assert_eq!(outcome.expect_err("it stops").kind(), ErrorKind::Interrupted);
            assert!(tokenizer.encode_flat_in_chunks(texts, 16, 0, &Silent).is_ok());
        }
    }

    /// A failed id leaves a stream unchanged.
    #[test]
    fn ids_that_are_not_in_use_are_errors() {
        let tokenizer = with_specials();
        assert!(tokenizer.decode(&[97, 257]).is_err() && tokenizer.decode(&[u32::MAX]).is_err());
        let mut stream = tokenizer.decode_stream();
        assert_eq!(stream.push(0xC3).expect("a byte"), "");
        stream.push(257).expect_err("no token");
        assert_eq!(stream.push(0xA9).expect("a byte"), "é");
    }

    /// A text that encoding changes has no offsets, and the error says from where on. Other texts have them.
    #[test]
    fn changed_text_has_no_offsets() {
        let plain = with_specials().vocabulary().clone();
        let tokens = plain.ordinary().map(|(id, bytes)| (id, Box::from(bytes))).collect();
        let rules = crate::vocab::TextRules { prefix_space: true, ..Default::default() };
        let parts = VocabularyParts { tokens, rules, ..VocabularyParts::default() };
        let spaced = tokenizer(Vocabulary::new(parts).expect("valid"));
        assert_eq!(spaced.encode_with_offsets(" a").expect("unchanged"), [(32, 0..1), (97, 1..2)]);
        let error = spaced.encode_with_offsets("a").expect_err("a space is put before it");
        assert!(
            error.to_string().starts_with("byte 0 of the text: the tokenizer changes the text"),
            "{error}"
        );
    }

    /// The token that ends documents is that of the configuration, or else that of the files, and is saved with them.
    #[test]
    fn the_end_of_documents_is_configured_or_named_by_the_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = with_specials();
        assert_eq!(plain.eos(), None);
        let end = plain.special_token("<end>");
        let config = EncodeConfig { eos: end.map(TokenId::new), ..EncodeConfig::default() };
        let ending = plain.with_config(config).expect("a tokenizer");
        assert_eq!(ending.eos(), end);
        ending.save(folder.path(), Format::Hf).expect("saved");
        let read = Tokenizer::from_file(folder.path()).expect("a tokenizer");
        assert_eq!((read.eos(), read.encode("a").expect("encodes")), (end, vec![97]));
    }

    /// A tokenizer is saved in every format, and settings for transformers that this crate does not know are kept.
    /// Another tokenizer is not replaced.
    #[test]
    fn tokenizers_are_saved_and_replace_no_other() {
        let place = tempfile::tempdir().expect("a folder");
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        // All formats hold a tokenizer with GPT-2's split and without special tokens.
        let gpt2 = SplitPattern::Named(NamedPattern::Gpt2);
        let made = tokenizer(trained(b"the cat sat on the mat, the cat ate the rat", gpt2.clone()));
        for format in Format::ALL {
            let folder = place.path().join(format.name());
            made.save(&folder, format).expect("saved");
            let read = Tokenizer::from_file(&folder).expect("a tokenizer");
            assert_eq!(read.vocabulary(), made.vocabulary(), "{format}");
        }
        made.save(&from, Format::Hf).expect("saved");
        let config = from.join("tokenizer_config.json");
        std::fs::write(&config, r#"{"model_max_length": 77, "padding_side": "left"}"#).expect("written");
        Tokenizer::from_file(&from).expect("a tokenizer").save(&to, Format::Hf).expect("saved");
        let kept = std::fs::read_to_string(to.join("tokenizer_config.json")).expect("a file");
        assert!(kept.contains("77") && kept.contains("left"), "{kept}");
        let before = std::fs::read(to.join("tokenizer.json")).expect("a file");
        let error =
            tokenizer(trained(b"another", gpt2)).save(&to, Format::Hf).expect_err("another tokenizer");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert_eq!(std::fs::read(to.join("tokenizer.json")).expect("a file"), before);
    }

    /// Each format is read from its file and from its folder.
    #[test]
    fn tokenizers_are_read_from_files_of_every_format() {
        let made =
            trained(b"the cat sat on the mat, the cat ate the rat", SplitPattern::Named(NamedPattern::Gpt2));
        let expected = tokenizer(made.clone()).encode("the rat").expect("encodes");
        for format in Format::ALL {
            let folder = tempfile::tempdir().expect("a folder");
            let paths = write(&made, format, folder.path(), &Default::default()).expect("written");
            for path in [folder.path(), &paths[0]] {
                let read = Tokenizer::from_file(path).expect("a tokenizer");
                assert_eq!(read.encode("the rat").expect("encodes"), expected, "{format}");
            }
        }
        let missing = Tokenizer::from_file("no/such/tokenizer.json").map(|_| ()).expect_err("not there");
        assert_eq!(missing.kind(), ErrorKind::Failed);
    }
}

type Row = Option<Vec<u8>>;

/// A batch of these rows, with their numbers as a column that passes through.
fn batch(rows: &[Row], first_row: u64) -> Batch {
    let numbers: Int64Array =
        (0..).take(rows.len()).map(|row| i64::try_from(first_row).expect("few") + row).collect();
    let numbers: ArrayRef = Arc::new(numbers);
    Batch {
        source: 3,
        unit: 5,
        first_row,
        documents: BinaryViewArray::from_iter(rows.iter().map(Option::as_deref)),
        columns: Some(RecordBatch::try_from_iter([("row", numbers)]).expect("one column")),
        continued: false,
        open: false,
    }
}

/// Rows in batches of `size`.
fn documents(rows: &[Row], size: usize) -> Vec<Batch> {
    rows.chunks(size).enumerate().map(|(number, rows)| batch(rows, to_u64(number * size))).collect()
}

/// Encodes batches on a number of threads, and collects the results.
fn encode(
    threads: usize,
    batches: Vec<Batch>,
    encoder: &Encoder,
    observer: &dyn Observer,
) -> Result<(EncodeFacts, Vec<TokenBatch>)> {
    let mut taken = Vec::new();
    let facts = with_threads(threads, || {
        let documents = Box::new(batches.into_iter().map(Ok));
        let name = |source, unit| format!("source {source} unit {unit}");
        encode_batches(documents, encoder, name, observer, |batch| {
            taken.push(batch);
            Ok(())
        })
    })?;
    Ok((facts, taken))
}

/// The ids of all rows; `None` for null rows.
fn rows(batches: &[TokenBatch]) -> Vec<Option<Vec<TokenId>>> {
    batches.iter().flat_map(|batch| batch.iter().map(|row| row.map(std::borrow::Cow::into_owned))).collect()
}

/// Checks that batches are consecutive and that their columns and lengths match their rows.
fn check_places(batches: &[TokenBatch]) {
    let mut row = 0;
    for batch in batches {
        assert_eq!((batch.source, batch.unit, batch.first_row), (3, 5, row));
        let columns = batch.columns.as_ref().expect("they pass through");
        assert_eq!(columns.num_rows(), batch.len());
        assert_eq!(batch.text_lengths.iter().sum::<u64>(), batch.text_bytes);
        row += to_u64(batch.len());
    }
}

/// Any sizes of batches and numbers of threads give the ids of single documents, and the same facts.
#[test]
fn batches_and_threads_change_nothing() {
    let inputs = (vec(proptest::option::weighted(0.8, text()), 1..30), 1..12usize);
    one_case_in(8, &inputs, |(texts, size)| {
        let vocabulary =
            trained(&texts.iter().flatten().flatten().copied().collect::<Vec<u8>>(), SplitPattern::None);
        let eos = Some(TokenId::new(7));
        let encoder = prepared(&vocabulary, EncodeConfig { eos, ..EncodeConfig::default() });
        let mut worker = encoder.worker();
        let encode_alone: Vec<_> = texts
            .iter()
            .map(|text| text.as_ref().map(|text| worker.encode(text).expect("any bytes encode").to_vec()))
            .collect();
        for (threads, size) in [(1, size), (2, size), (7, size), (2, texts.len())] {
            let (facts, taken) =
                encode(threads, documents(&texts, size), &encoder, &Silent).expect("encodes");
            prop_assert_eq!(&rows(&taken), &encode_alone);
            check_places(&taken);
            let present = texts.iter().flatten();
            let facts_alone = EncodeFacts {
                documents: to_u64(texts.len()),
                null_documents: to_u64(texts.iter().filter(|text| text.is_none()).count()),
                empty_documents: to_u64(present.clone().filter(|text| text.is_empty()).count()),
                text_bytes: to_u64(present.map(Vec::len).sum()),
                tokens: to_u64(encode_alone.iter().flatten().map(Vec::len).sum()),
                specials: 0,
            };
            prop_assert_eq!(facts, facts_alone);
        }
        Ok(())
    });
}

/// Ids above 2¹⁶ are not truncated.
#[test]
fn ids_of_more_than_two_bytes_are_kept() {
    let eos = TokenId::new(70_000);
    let vocabulary = Vocabulary::new(VocabularyParts {
        tokens: (0..=255).map(|byte: u8| (TokenId::new(byte.into()), Box::from([byte]))).collect(),
        added: vec![AddedToken::special(eos, "<|end|>")],
        ..VocabularyParts::default()
    });
    let config = EncodeConfig { eos: Some(eos), ..EncodeConfig::default() };
    let encoder = prepared(&vocabulary.expect("valid"), config);
    let texts = [Some(b"ab".to_vec()), None, Some(Vec::new())];
    let (_, taken) = encode(2, documents(&texts, 2), &encoder, &Silent).expect("encodes");
    let ids = |ids: &[u32]| Some(ids.iter().copied().map(TokenId::new).collect());
    assert_eq!(rows(&taken), [ids(&[97, 98, 70_000]), None, ids(&[70_000])]);
}

/// Memory for ids is reserved by the number of ids per byte of the batch before.
#[test]
fn rows_without_text_make_no_room_for_those_after_them() {
    let eos = Some(TokenId::new(256));
    let special = ["<|end|>".to_owned()];
    let vocabulary = trained_with_specials(&special, b"", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig { eos, ..EncodeConfig::default() });
    let mut texts = vec![Some(Vec::new()); 1 << 20];
    texts[0] = Some(b"a".to_vec());
    let batches = [batch(&texts, 0), batch(&[Some(vec![b'b'; 1 << 20])], 1 << 20)];
    let (facts, _) = encode(1, batches.into(), &encoder, &Silent).expect("encodes");
    assert_eq!(facts.tokens, 1 + (1 << 20) + (1 << 20) + 1);
}

/// Documents that are cut into chunks of any size encode as whole ones.
#[test]
fn chunks_of_long_documents_change_nothing() {
    let inputs = (
        vec(proptest::option::weighted(0.9, text()), 1..8),
        1..40usize,
        any::<bool>(),
        proptest::sample::select(vec![SplitPattern::None, SplitPattern::Named(NamedPattern::Gpt2)]),
        any::<bool>(),
    );
    one_case_in(4, &inputs, |(mut texts, chunk_bytes, bos, split, found)| {
        let learned_from = texts.iter().flatten().flatten().copied().collect::<Vec<u8>>();
        let vocabulary = trained_with_specials(&["<s>".to_owned()], &learned_from, split);
        // Some texts have none of the tokens that are searched for, and some have one.
        for text in texts.iter_mut().flatten().step_by(2) {
            text.splice(text.len() / 2..text.len() / 2, *b"<s>");
        }
        let config = EncodeConfig {
            special: if found { SpecialPolicy::Allow } else { SpecialPolicy::Text },
            bos: bos.then_some(TokenId::new(7)),
            eos: Some(TokenId::new(8)),
            ..EncodeConfig::default()
        };
        let encoder = prepared(&vocabulary, config);
        let (facts, taken) = encode(2, documents(&texts, 1), &encoder, &Silent).expect("encodes");
        for threads in [1, 3] {
            let mut cut = Vec::new();
            let facts_cut = with_threads(threads, || {
                let documents = Box::new(documents(&texts, 1).into_iter().map(Ok));
                encode_in_chunks(
                    documents,
                    &encoder,
                    chunk_bytes,
                    |_, _| String::new(),
                    &Silent,
                    |batch| {
                        cut.push(batch);
                        Ok(())
                    },
                )
            });
            prop_assert_eq!(facts_cut.expect("encodes"), facts);
            prop_assert_eq!(rows(&cut), rows(&taken));
            check_places(&cut);
        }
        Ok(())
    });
}

/// With dropout, the ids of a document depend on its number and not on threads, batches and chunks.
#[test]
fn dropout_depends_on_the_number_of_the_document() {
    let inputs = (
        vec(proptest::option::weighted(0.9, text()), 1..12),
        1..40usize,
        proptest::sample::select(vec![SplitPattern::None, SplitPattern::Named(NamedPattern::Gpt2)]),
    );
    one_case_in(4, &inputs, |(texts, chunk_bytes, split)| {
        let learned_from = texts.iter().flatten().flatten().copied().collect::<Vec<u8>>();
        let vocabulary = trained(&learned_from, split);
        let dropout = Dropout { probability: Probability::try_from(0.3).expect("a probability"), seed: 9 };
        let config = EncodeConfig { dropout: Some(dropout), ..EncodeConfig::default() };
        let encoder = prepared(&vocabulary, config);
        // Units 0 to 2 of source 3 are in other shards.
        let whole = Encoder::new(vocabulary.clone(), config).expect("it encodes");
        let encoder = encoder.numbering_units_from(vec![0, 0, 0, 3]);
        let mut worker = whole.worker();
        let mut alone = Vec::new();
        for (text, row) in texts.iter().zip(0..) {
            worker.set_document(3, 8, row);
            let ids = text.as_ref().map(|text| worker.encode(text).expect("any bytes encode").to_vec());
            alone.push(ids);
        }
        for (threads, size) in [(1, 1), (3, 2), (2, texts.len())] {
            let (_, taken) = encode(threads, documents(&texts, size), &encoder, &Silent).expect("encodes");
            prop_assert_eq!(&rows(&taken), &alone);
            let mut cut = Vec::new();
            let facts = with_threads(threads, || {
                let documents = Box::new(documents(&texts, 1).into_iter().map(Ok));
                let name = |_, _| String::new();
                encode_in_chunks(documents, &encoder, chunk_bytes, name, &Silent, |batch| {
                    cut.push(batch);
                    Ok(())
                })
            });
            facts.expect("encodes");
            prop_assert_eq!(&rows(&cut), &alone);
        }
        let tokenizer = Tokenizer::new(vocabulary, config).expect("it encodes");
        let texts: Vec<Vec<u8>> = texts.into_iter().flatten().collect();
        let of_batch = tokenizer.encode_batch(&texts).expect("any bytes encode");
        prop_assert_eq!(tokenizer.encode_in_chunks(&texts, chunk_bytes).expect("any bytes encode"), of_batch);
        Ok(())
    });
}

/// If ids take two bytes, a long pre-token is encoded chunk by chunk, and the following tokens are appended to
/// its chunks.
#[test]
fn a_long_pretoken_encodes_as_its_merges_do() {
    let inputs = (vec((0..3usize, prop_oneof![Just(1usize), 1..40usize]), 1_000..2_000), any::<bool>());
    one_case_in(4, &inputs, |(runs, split)| {
        let pretoken: Vec<u8> =
            runs.iter().flat_map(|&(letter, run)| std::iter::repeat_n(b"abc"[letter], run)).collect();
        let split = if split { SplitPattern::Named(NamedPattern::Gpt2) } else { SplitPattern::None };
        let vocabulary = trained(&pretoken[..500], split);
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let mut expected = Vec::new();
        Merger::default()
            .merge(&encoder.pairs, &encoder.byte_ids, &pretoken, &mut expected, &Silent)
            .expect("merged");
        let texts = [Some(pretoken.clone()), Some(b"a".to_vec()), Some(pretoken)];
        let (_, taken) = encode(1, documents(&texts, 3), &encoder, &Silent).expect("encodes");
        let all = rows(&taken);
        prop_assert!(all[0].as_deref() == Some(&expected) && all[2] == all[0]);
        prop_assert_eq!(all[1].as_deref(), Some(&[TokenId::new(b'a'.into())][..]));
        Ok(())
    });
}

/// Chunks end at safe split points, and a chunk without one continues to the next.
#[test]
fn chunks_end_at_safe_split_points() {
    let text = b"ab cd efghijklmn op";
    let vocabulary = trained(text, SplitPattern::Named(NamedPattern::Gpt2));
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    assert_eq!(encoder.chunks(text, 4), [0..2, 2..5, 5..16, 16..19]);
}

/// Work items have at most 4 MiB of text, or one row.
#[test]
fn large_batches_are_cut_between_rows() {
    let three: [Row; 3] = [Some(vec![b'x'; 1_500_000]), None, Some(vec![b'y'; 5_000_000])];
    let texts: Vec<Row> = three.iter().cycle().take(9).cloned().collect();
    let vocabulary = trained(b"xxyy", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    let (facts, taken) = encode(2, documents(&texts, 9), &encoder, &Silent).expect("encodes");
    assert!(taken.iter().all(|batch| batch.text_bytes <= 4 << 20 || batch.len() == 1));
    assert!(taken.len() > 3);
    check_places(&taken);
    assert_eq!((facts.documents, facts.text_bytes), (9, 19_500_000));
    assert_eq!(rows(&taken).len(), 9);
}

/// A batch with part of a document is an error that names the row.
#[test]
fn partial_documents_are_refused_by_their_row() {
    let vocabulary = trained(b"xy", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    let texts: Vec<Row> = ["a", "b", "c"].map(|text| Some(text.into())).into();
    for (continued, open, row) in [(true, false, 0), (false, true, 2)] {
        let mut batches = documents(&texts, 3);
        (batches[0].continued, batches[0].open) = (continued, open);
        let refused = encode(2, batches, &encoder, &Silent).expect_err("a part of a document");
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(
            refused.to_string().ends_with(&format!("row {row}: the batch holds only a part of the document")),
            "{refused}"
        );
    }
}

/// The error names the unit, the row and the position.
#[test]
fn a_forbidden_special_token_is_named_with_its_unit_and_row() {
    let specials = [String::from("<|end|>")];
    let (none, at) = (Merges::default(), SpecialTokensAt::End);
    let vocabulary = Vocabulary::from_merges(&none, &specials, at, SplitPattern::None);
    let config = EncodeConfig { special: SpecialPolicy::Forbid, ..EncodeConfig::default() };
    let encoder = prepared(&vocabulary.expect("valid"), config);
    let texts: Vec<Row> = ["a", "b", "c", "d", "e <|end|>", "<|end|>"].map(|text| Some(text.into())).into();
    let error = encode(3, documents(&texts, 2), &encoder, &Silent).expect_err("forbidden");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(
        error.to_string(),
        r#"source 3 unit 5: row 4: the text contains the special token "<|end|>" at byte 2"#
    );
    assert!(error.help().is_some());
}

/// Counts the bytes that are reported, and stops the run at a number of them.
struct Stops {
    bytes: AtomicU64,
    at: u64,
}

impl Observer for Stops {
    fn advanced(&self, stage: Stage, amount: u64) {
        assert_eq!(stage, Stage::Encode);
        self.bytes.fetch_add(amount, Ordering::Relaxed);
    }

    fn stopping(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.at
    }
}

/// All bytes are reported to the observer, and no batch is taken after it has asked to stop.
#[test]
fn the_observer_hears_every_byte_and_can_stop_the_run() {
    let texts: Vec<Row> = vec![Some(b"some text".to_vec()); 100];
    let encoder = prepared(&trained(b"", SplitPattern::None), EncodeConfig::default());
    let run = |at| {
        let observer = Stops { bytes: AtomicU64::new(0), at };
        let outcome = encode(2, documents(&texts, 3), &encoder, &observer);
        (observer.bytes.into_inner(), outcome.map(|(facts, _)| facts.documents).map_err(|error| error.kind()))
    };
    assert_eq!(run(u64::MAX), (900, Ok(100)));
    assert_eq!(run(54), (54, Err(ErrorKind::Interrupted)));
}

/// The batches before the error are still taken.
#[test]
fn an_error_of_the_source_ends_it() {
    let encoder = prepared(&trained(b"", SplitPattern::None), EncodeConfig::default());
    let good = batch(&[Some(b"a".to_vec())], 0);
    let documents = Box::new([Ok(good), Err(Error::interrupted())].into_iter());
    let mut taken = 0;
    let outcome = encode_batches(
        documents,
        &encoder,
        |_, _| String::new(),
        &Silent,
        |batch| {
            taken += batch.len();
            Ok(())
        },
    );
    assert!(outcome.is_err());
    assert_eq!(taken, 1);
}

/// Stops the run at the second check.
struct StopsOnceUnderWay(AtomicU64);

impl Observer for StopsOnceUnderWay {
    fn stopping(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 0
    }
}

/// The observer can stop a worker within a document, by either method, and the worker can be used afterwards.
#[test]
fn a_worker_stops_within_a_long_document_and_works_on() {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { b'a' } else { b'b' }
    };
    let text: Vec<u8> = (0..900_000).map(|_| letter()).collect();
    for split in [SplitPattern::None, SplitPattern::Named(NamedPattern::Gpt2)] {
        let vocabulary = trained(&text[..2_000], split.clone());
        let by_longest_matches = prepared(&vocabulary, EncodeConfig::default());
        let merging = Encoder::new(vocabulary, EncodeConfig::default()).expect("valid").worth(usize::MAX);
        let text: &[u8] = if split == SplitPattern::None { &text } else { &b"ab c ".repeat(100_000) };
        for encoder in [by_longest_matches, merging] {
            let observer = StopsOnceUnderWay(AtomicU64::new(0));
            let mut worker = encoder.observed_worker(&observer);
            let error =
                worker.encode(text).map(<[_]>::len).expect_err("it is asked in the midst of the text");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{split}");
            let mut ids = Vec::new();
            observer.0.store(0, Ordering::Relaxed);
            worker.append(&text[..200], &mut ids).expect("it is asked once at most");
            assert_eq!(encoder.worker().encode(&text[..200]).expect("any bytes encode"), ids, "{split}");
        }
    }
}

/// Texts, and what exceeds the limit in them: pre-tokens of 1 MiB and documents of 2 million tokens never do.
#[test]
fn documents_beyond_the_memory_limit_are_refused_by_their_row() {
    use crate::base::int::ByteCount;

    let long = "a".repeat((1 << 20) + 1);
    let short = "a".repeat(1 << 20);
    let words = "a b ".repeat(1_300_000);
    for (split, text, fits, said) in [
        ("gpt4", &short, true, ""),
        ("gpt4", &long, false, "a pre-token has 1048577 bytes"),
        ("none", &long, true, ""),
        ("gpt4", &words, false, "more than 2097152 tokens"),
        ("none", &words, false, "more than 2097152 tokens"),
    ] {
        let split: SplitPattern = split.parse().expect("a name");
        let vocabulary =
            Vocabulary::from_merges(&Default::default(), &[], SpecialTokensAt::End, split.clone())
                .expect("bytes");
        let encode = |limit: Option<u64>| {
            let encoder = Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("a vocabulary");
            let encoder = match limit {
                Some(limit) => encoder.within(ByteCount(limit)),
                None => encoder,
            };
            let texts = crate::source::texts(["one", text.as_str()]);
            let mut ids = Vec::new();
            encode_batches(
                texts,
                &encoder,
                |_, _| "a.txt".to_owned(),
                &Silent,
                |batch| {
                    ids.extend(batch.ids.iter().collect::<Vec<_>>());
                    Ok(())
                },
            )
            .map(|_| ids)
        };
        let all = encode(None).expect("no limit");
        assert_eq!(encode(Some(1 << 40)).expect("room"), all, "{split}");
        match encode(Some(0)) {
            Ok(ids) => assert!(fits && ids == all, "{split}, {}", text.len()),
            Err(error) => {
                assert!(!fits && error.kind() == ErrorKind::Memory, "{split}, {}: {error}", text.len());
                assert!(error.to_string().starts_with("a.txt: row 1: "), "{error}");
                assert!(error.to_string().contains(said), "{error}");
            }
        }
    }
}
