mod lists;
mod scores;

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;

use super::chunks::find_in_chunks;
use super::corpus::{Corpus, Once};
use super::find::find;
use super::pairs::{Keep, Pairs};
use super::parts::cuts;
use super::{Score, TieBreak, TrainConfig, learn_merges, reference};
use crate::base::int::{Count, to_u64};
use crate::base::test_support::{one_case_in, with_threads};
use crate::count::PretokenCounts;
use crate::observer::Silent;

const TIE_RULES: [TieBreak; 5] =
    [TieBreak::Ids, TieBreak::Hf, TieBreak::First, TieBreak::BytesGreatest, TieBreak::BytesSmallest];

/// Random sequences: over alphabets of one to four symbols with long runs, or over all bytes.
fn sequence() -> impl Strategy<Value = Vec<u8>> {
    let runs = |symbols: &'static [u8]| {
        vec((proptest::sample::select(symbols), 1..6usize), 1..14)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, length)| vec![byte; length]).collect())
    };
    prop_oneof![
        runs(b"a"),
        runs(b"ab"),
        runs(b"a !"),
        runs(b"abc\xff"),
        vec(any::<u8>(), 1..40),
        vec(proptest::sample::select(b"abcd".as_slice()), 1..60),
    ]
}

/// Random sequences in order of first appearance, with or without weights. They are distinct, or contain what a
/// program may pass: empty sequences, equal ones, and sequences of weight 0.
fn pretokens() -> impl Strategy<Value = PretokenCounts> {
    let weight = prop_oneof![Just(1u64), 0..5u64, Just(70_000), 1..200_000u64, Just(3_000_000_000)];
    let any_sequence = || prop_oneof![20 => sequence(), 1 => Just(Vec::new())];
    let weighted = vec((any_sequence(), weight), 0..12);
    let unweighted = vec((any_sequence(), Just(1u64)), 0..12);
    (prop_oneof![weighted, unweighted], any::<bool>()).prop_map(|(sequences, distinct)| {
        let mut seen = std::collections::HashSet::new();
        let kept = |(sequence, _): &&(Vec<u8>, u64)| !distinct || seen.insert(sequence.clone());
        sequences.iter().filter(kept).map(|(sequence, weight)| (&**sequence, Count::new(*weight))).collect()
    })
}

/// Random settings of all kinds, with the given score and number of merges.
fn config(
    score: impl Strategy<Value = Score>,
    merges: impl Strategy<Value = usize>,
) -> impl Strategy<Value = TrainConfig> {
    let max_token_bytes = prop_oneof![Just(None), (1..6usize).prop_map(Some)];
    let tie_break = proptest::sample::select(TIE_RULES.as_slice());
    let history = (1..7usize, vec(0..60usize, 0..3));
    (score, merges, tie_break, 0..4u64, max_token_bytes, history).prop_map(
        |(score, merges, tie_break, min_frequency, max_token_bytes, (history_every, history_at))| {
            TrainConfig {
                merges,
                min_frequency: Count::new(min_frequency),
                max_token_bytes,
                tie_break,
                score,
                history_every,
                history_at,
            }
        },
    )
}

/// An observer that counts merges.
#[derive(Default)]
struct Heard(AtomicU64);

impl crate::Observer for Heard {
    fn advanced(&self, _stage: crate::Stage, merges: u64) {
        self.0.fetch_add(merges, Ordering::Relaxed);
    }
}

proptest! {
    #[test]
    fn the_loop_learns_what_the_reference_learns(
        pretokens in pretokens(),
        config in config(Just(Score::Count), 0..60usize),
    ) {
        let heard = Heard::default();
        let learned = learn_merges(pretokens.clone(), &config, &heard).unwrap();
        prop_assert_eq!(heard.0.into_inner(), to_u64(learned.merges.len()));
        prop_assert_eq!(learned, reference::learn_merges(&pretokens, &config));
    }
}

/// Left token, right token, count, positions.
type FoundPair = (u32, u32, u64, Vec<u32>);

/// The kept pairs, and the pair ids at all positions.
fn found(corpus: &Corpus<Once>, pairs: &Pairs<Once>) -> (Vec<FoundPair>, Vec<u32>) {
    let of = |id| {
        let pair = pairs.pair(id);
        let positions = pairs.occurrences(id).flatten().map(|occurrence| occurrence.position).collect();
        (pair.left, pair.right, pairs.count(id), positions)
    };
    (pairs.ids().map(of).collect(), corpus.cells.iter().map(|cell| cell.pair).collect())
}

#[test]
fn parts_that_threads_merge_side_by_side_meet_exactly() {
    let inputs = (vec((sequence(), 1..4u64), 1..40), proptest::sample::select(TIE_RULES.as_slice()));
    one_case_in(2, &inputs, |(sequences, tie_break)| {
        let weighted = |(sequence, weight): &(Vec<u8>, u64)| (sequence.clone(), Count::new(*weight));
        let sequences: Vec<_> = sequences.iter().map(weighted).collect();
        let pretokens: PretokenCounts =
            sequences.iter().map(|(sequence, count)| (&**sequence, *count)).collect();
        let config = TrainConfig { tie_break, ..TrainConfig::new(40) };
        let [one, three] = [1, 3].map(|threads| {
            with_threads(threads, || learn_merges(pretokens.clone(), &config, &Silent).unwrap())
        });
        prop_assert_eq!(&one, &reference::learn_merges(&pretokens, &config));
        prop_assert_eq!(one, three);
        Ok(())
    });
}

#[test]
fn chunks_find_the_pairs_that_one_walk_finds() {
    let inputs = (vec(sequence(), 1..12), 1..4u64, 1..4usize, 0..40usize);
    one_case_in(4, &inputs, |(sequences, threshold, longest, merges)| {
        let pretokens: PretokenCounts = sequences.iter().map(|sequence| (&**sequence, Count::ONE)).collect();
        let (lengths, keep) = ([1; 256], Keep { threshold, longest });
        let mut corpus = Corpus::<Once>::new(&pretokens).unwrap();
        let pairs = find(&mut corpus, &lengths, keep, merges, &Silent).unwrap();
        let mut chunked = Corpus::<Once>::new(&pretokens).unwrap();
        let in_chunks = find_in_chunks(&mut chunked, &lengths, keep, merges, &Silent).unwrap();
        prop_assert_eq!(found(&corpus, &pairs), found(&chunked, &in_chunks));
        Ok(())
    });
}

#[test]
fn a_long_text_is_cut_between_neighbours_that_do_not_meet() {
    let cut = |text: &str, most| {
        let pretokens: PretokenCounts = [(text.as_bytes(), Count::ONE)].into_iter().collect();
        let mut corpus = Corpus::<Once>::new(&pretokens).unwrap();
        let keep = Keep { threshold: 2, longest: 9 };
        let pairs = find(&mut corpus, &[1; 256], keep, 0, &Silent).unwrap();
        let is_ab = |id: &u32| (pairs.pair(*id).left, pairs.pair(*id).right) == (97, 98);
        cuts(pairs.ids().find(is_ab).unwrap(), &corpus, &pairs, most).len()
    };
    assert_eq!([1, 2, 3].map(|most| cut(&"abxyz".repeat(20), most)), [0, 1, 2]);
    assert_eq!(cut(&"abx".repeat(20), 3), 0, "one letter is the neighbour of both");
}

#[test]
fn pairs_far_rarer_than_the_last_to_be_merged_are_not_kept_at_first() {
    let keep = Keep { threshold: 2, longest: 9 };
    let threshold = |merges| keep.for_merges(merges, [4, 100, 8, 20].into_iter()).threshold;
    assert_eq!([0, 1, 2, 3, 4, 5].map(threshold), [2, 25, 5, 2, 2, 2]);
}

/// The queue has a level for each count below 2¹², and occurrences carry weights below 2³¹ themselves.
#[test]
fn counts_at_the_borders_of_how_they_are_kept_are_told_apart() {
    for border in [1_u64 << 12, 1 << 31] {
        let words: [(&[u8], u64); 4] =
            [(b"ab", border), (b"cd", border + 1), (b"ef", border - 1), (b"gh", border + 2)];
        let pretokens: PretokenCounts =
            words.into_iter().map(|(word, count)| (word, Count::new(count))).collect();
        let config = TrainConfig::new(4);
        let expected = reference::learn_merges(&pretokens, &config);
        assert_eq!(learn_merges(pretokens, &config, &Silent).unwrap(), expected, "around {border}");
    }
}

/// The text has tokens `bcda`, made of `bc` and `da`. The last letter of such a token began an occurrence of
/// `aa` before it became part of the token. The position two bytes before that letter, where a `da` that
/// ends there would begin, is inside the token, so no cut may be there.
#[test]
fn a_long_text_is_not_cut_within_a_token_in_which_the_pair_stood() {
    let word = |number: u32| if number.is_multiple_of(4) { "bcdaaa" } else { "bcda" };
    let apart = |number: u32| char::from_u32(u32::from('A') + number % 26).unwrap();
    let text: String = (0..40).map(|number| format!("{}{}", word(number), apart(number))).collect();
    let pretokens: PretokenCounts = [(text.as_bytes(), Count::ONE)].into_iter().collect();
    let config = TrainConfig::new(6);
    let expected = reference::learn_merges(&pretokens, &config);
    let learned = with_threads(3, || learn_merges(pretokens.clone(), &config, &Silent).unwrap());
    assert_eq!(learned, expected);
}

/// Sequences with too many tokens to count: one sequence by itself, or the last of several.
fn too_many_tokens() -> [PretokenCounts; 2] {
    let (one, all) = (Count::ONE, u64::MAX);
    let alone = [(b"fine".as_slice(), one), (b"too often", Count::new(all / 2))];
    let together = [(b"fine".as_slice(), Count::new(all / 4)), (b"too often", one)];
    [alone, together].map(|pretokens| pretokens.into_iter().collect())
}

#[test]
fn a_corpus_whose_tokens_overflow_is_refused_by_name() {
    for pretokens in too_many_tokens() {
        let error = learn_merges(pretokens, &TrainConfig::new(1), &Silent).unwrap_err();
        assert!(error.to_string().contains("too often"), "{error}");
    }
}

#[test]
fn a_run_can_be_stopped() {
    struct Stop;
    impl crate::Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    #[derive(Default)]
    struct StopAfterThree(Heard);
    impl crate::Observer for StopAfterThree {
        fn advanced(&self, stage: crate::Stage, merges: u64) {
            self.0.advanced(stage, merges);
        }

        fn stopping(&self) -> bool {
            self.0.0.load(Ordering::Relaxed) >= 3
        }
    }
    let text: Vec<u8> =
        (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0] % 7).collect();
    let pretokens: PretokenCounts = [(&*text, Count::ONE)].into_iter().collect();
    let later = StopAfterThree::default();
    let observers: [&dyn crate::Observer; 2] = [&Stop, &later];
    for observer in observers {
        let error = learn_merges(pretokens.clone(), &TrainConfig::new(10_000), observer).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Interrupted);
    }
    assert_eq!(later.0.0.into_inner(), 3, "a merge can take long: after each a run can be stopped");
}
