//! Tests of training: every loop against the reference, continuing, and verifying.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;

use super::apply::cuts;
use super::corpus::{Corpus, UnitWeight};
use super::occurrences::{find, find_in_chunks};
use super::pairs::{KeepRule, KeptPairs};
use super::scores::{self, Measures};
use super::{
    Deviation, Merge, Merges, Powers, Score, TieBreak, TokenSequences, TrainConfig, extend_merges,
    extend_sequences, learn_merges, reference, verify_merges, verify_sequences,
};
use crate::base::int::{Count, to_u64, to_usize};
use crate::base::test_support::{one_case_in, with_threads};
use crate::count::PretokenCounts;
use crate::observer::{Silent, Stage};

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
        runs(b"ab :"),
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
    let max_words = prop_oneof![2 => Just(None), 1 => (0..4usize).prop_map(Some)];
    let tie_break = proptest::sample::select(TieBreak::ALL.as_slice());
    let history = (1..7usize, vec(0..60usize, 0..3));
    let limits = (max_token_bytes, max_words);
    (score, merges, tie_break, 0..4u64, limits, history).prop_map(
        |(score, merges, tie_break, min_frequency, limits, (history_every, history_at))| {
            let (max_token_bytes, max_words) = limits;
            TrainConfig {
                merges,
                min_frequency: Count::new(min_frequency),
                max_token_bytes,
                max_words,
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
struct MergeCounter(AtomicU64);

impl crate::Observer for MergeCounter {
    fn advanced(&self, stage: crate::Stage, amount: u64) {
        if stage == crate::Stage::Train {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

proptest! {
    #[test]
    fn the_loop_learns_what_the_reference_learns(
        pretokens in pretokens(),
        config in config(Just(Score::Count), 0..60usize),
    ) {
        let heard = MergeCounter::default();
        let learned = learn_merges(pretokens.clone(), &config, &heard).unwrap();
        prop_assert_eq!(heard.0.into_inner(), to_u64(learned.merges.len()));
        prop_assert_eq!(learned, reference::learn_merges(&pretokens, &config));
    }
}

/// What an observer hears of each stage, in order, without the amounts.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<(&'static str, Stage)>>,
    /// Totals and amounts of preparing.
    prepared: [AtomicU64; 2],
    /// The work done and left after each report.
    work: Mutex<Vec<(f64, f64)>>,
}

impl crate::Observer for Recorder {
    fn started(&self, stage: Stage, total: Option<u64>) {
        self.calls.lock().unwrap().push(("started", stage));
        if stage == Stage::Prepare {
            self.prepared[0].fetch_add(total.expect("it is known"), Ordering::Relaxed);
        }
    }

    fn advanced(&self, stage: Stage, amount: u64) {
        if stage == Stage::Prepare {
            self.prepared[1].fetch_add(amount, Ordering::Relaxed);
        }
    }

    fn estimated(&self, _stage: Stage, done: f64, left: f64) {
        self.work.lock().unwrap().push((done, left));
    }

    fn finished(&self, stage: Stage) {
        self.calls.lock().unwrap().push(("finished", stage));
    }
}

/// Preparing is a stage before merging, whatever the loop, and is reported as a whole. Work only grows, and none is
/// left at the end.
#[test]
fn preparing_is_reported_before_merging() {
    let words: [(&[u8], _); 3] =
        [(b"lower", Count::new(5)), (b"lowest", Count::new(3)), (b"newer", Count::ONE)];
    let words = PretokenCounts::from_iter(words);
    let long: Vec<u8> =
        (0..400_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0] % 7).collect();
    let long = PretokenCounts::from_iter([(&*long, Count::ONE)]);
    let few = learn_merges(words.clone(), &TrainConfig::new(2), &Silent).unwrap().merges;
    let by_length = TrainConfig { score: Score::CountLength, ..TrainConfig::new(5) };
    let learn = |pretokens: &PretokenCounts, config: &TrainConfig| {
        let heard = Recorder::default();
        learn_merges(pretokens.clone(), config, &heard).unwrap();
        heard
    };
    let extended = Recorder::default();
    extend_merges(words.clone(), &few, &TrainConfig::new(4), &extended).unwrap();
    for (what, heard) in [
        ("lists", learn(&words, &TrainConfig::new(5))),
        ("no merges", learn(&words, &TrainConfig::new(0))),
        ("too few pairs", learn(&words, &TrainConfig::new(500))),
        ("scores", learn(&words, &by_length)),
        ("scanning", learn(&long, &TrainConfig::new(3))),
        ("extending", extended),
    ] {
        let calls = heard.calls.into_inner().unwrap();
        let first = [("started", Stage::Prepare), ("finished", Stage::Prepare), ("started", Stage::Train)];
        assert_eq!(calls[..3], first, "{what}: {calls:?}");
        assert_eq!(calls.last(), Some(&("finished", Stage::Train)), "{what}: {calls:?}");
        assert_eq!(calls.iter().filter(|call| call.1 == Stage::Train).count(), 2, "{what}: {calls:?}");
        let ends =
            calls[3..calls.len() - 1].chunks(2).all(|pair| pair[0].0 == "started" && pair[1].0 == "finished");
        assert!(ends, "{what}: {calls:?}");
        let [total, done] = heard.prepared.map(AtomicU64::into_inner);
        // Text without rare bytes needs no pass for them, and no merges need no lists.
        assert!(
            done <= total && (done == total || ["scanning", "no merges"].contains(&what)),
            "{what}: {done} of {total}"
        );
        let work = heard.work.into_inner().unwrap();
        assert!(work.is_sorted_by(|one, two| one.0 <= two.0), "{what}: {work:?}");
        assert_eq!(work.last().map(|(_, left)| *left), Some(0.0), "{what}");
    }
}

/// Left token, right token, count, positions.
type FoundPair = (u32, u32, u64, Vec<u32>);

/// The kept pairs, and the pair ids at all positions.
fn found(corpus: &Corpus<UnitWeight>, pairs: &KeptPairs<UnitWeight>) -> (Vec<FoundPair>, Vec<u32>) {
    let of = |id| {
        let pair = pairs.pair(id);
        let positions = pairs.occurrences(id).flatten().map(|occurrence| occurrence.position).collect();
        (pair.left, pair.right, pairs.count(id), positions)
    };
    (pairs.ids().map(of).collect(), corpus.cells.iter().map(|cell| cell.pair).collect())
}

#[test]
fn any_number_of_threads_learns_the_same_merges() {
    let inputs = (vec((sequence(), 1..4u64), 1..40), proptest::sample::select(TieBreak::ALL.as_slice()));
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
fn counting_in_chunks_finds_the_same_pairs() {
    let inputs = (vec(sequence(), 1..12), 1..4u64, 1..4usize, 0..40usize);
    one_case_in(4, &inputs, |(sequences, threshold, longest, merges)| {
        let pretokens: PretokenCounts = sequences.iter().map(|sequence| (&**sequence, Count::ONE)).collect();
        let keep = KeepRule { threshold, longest };
        let mut corpus = Corpus::<UnitWeight>::new(&pretokens, &Silent).unwrap();
        let pairs = find(&mut corpus, keep, merges, &Silent).unwrap();
        let mut chunked = Corpus::<UnitWeight>::new(&pretokens, &Silent).unwrap();
        let in_chunks = find_in_chunks(&mut chunked, keep, merges, &Silent).unwrap();
        prop_assert_eq!(found(&corpus, &pairs), found(&chunked, &in_chunks));
        Ok(())
    });
}

#[test]
fn segments_are_cut_where_neighbours_differ() {
    let cut = |text: &str, most| {
        let pretokens: PretokenCounts = [(text.as_bytes(), Count::ONE)].into_iter().collect();
        let mut corpus = Corpus::<UnitWeight>::new(&pretokens, &Silent).unwrap();
        let keep = KeepRule { threshold: 2, longest: 9 };
        let pairs = find(&mut corpus, keep, 0, &Silent).unwrap();
        let is_ab = |id: &u32| (pairs.pair(*id).left, pairs.pair(*id).right) == (97, 98);
        cuts(pairs.ids().find(is_ab).unwrap(), &corpus, &pairs, most).len()
    };
    assert_eq!([1, 2, 3].map(|most| cut(&"abxyz".repeat(20), most)), [0, 1, 2]);
    assert_eq!(cut(&"abx".repeat(20), 3), 0, "one letter is the neighbour of both");
}

#[test]
fn the_first_round_skips_pairs_too_rare_to_be_merged() {
    let keep = KeepRule { threshold: 2, longest: 9 };
    let threshold = |merges| keep.for_merges(merges, [4, 100, 8, 20].into_iter()).threshold;
    assert_eq!([0, 1, 2, 3, 4, 5].map(threshold), [2, 25, 5, 2, 2, 2]);
}

/// The queue has a level for each count below 2¹², and occurrences carry weights below 2³¹ themselves.
#[test]
fn counts_at_the_limits_of_their_encodings_are_compared_exactly() {
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
fn segments_are_not_cut_inside_a_token() {
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
fn the_overflow_error_names_the_sequence() {
    for pretokens in too_many_tokens() {
        let error = learn_merges(pretokens, &TrainConfig::new(1), &Silent).unwrap_err();
        assert!(error.to_string().contains("too often"), "{error}");
    }
}

#[test]
fn training_can_be_stopped() {
    struct Stop;
    impl crate::Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    #[derive(Default)]
    struct StopAfterThree(MergeCounter);
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

fn measures() -> impl Strategy<Value = Measures> {
    let number = || prop_oneof![1..5u64, 1..1_000_000u64, 1..=u64::MAX, Just(u64::MAX)];
    (number(), number(), number(), 2..1u64 << 32).prop_map(|(count, left, right, bytes)| Measures {
        count,
        left,
        right,
        bytes,
    })
}

/// Any score.
fn score() -> impl Strategy<Value = Score> {
    let powers = (0..4u8, 0..4u8, 0..4u8);
    prop_oneof![
        Just(Score::Count),
        Just(Score::CountLength),
        powers.prop_map(|(p, q, r)| Score::Conditional(Powers::new(p, q, r).expect("0 to 3"))),
    ]
}

proptest! {
    #[test]
    fn scores_are_compared_as_the_reference_does(
        one in measures(), two in measures(), alike: bool, score in score(),
    ) {
        let two = if alike { Measures { count: one.count.wrapping_add(1).max(1), ..one } } else { two };
        let expected = reference::compare_scores(score, &one, &two);
        prop_assert_eq!(score.compare(&one, &two), expected);
    }
}

#[test]
fn scores_are_read_as_they_are_written() {
    for text in ["count", "count-length", "conditional:1,0,0", "conditional:3,2,1"] {
        let score: Score = text.parse().expect(text);
        assert_eq!(score.to_string(), text);
        let json = serde_json::to_string(&score).expect("plain data");
        assert_eq!(serde_json::from_str::<Score>(&json).expect("as written"), score, "{json}");
    }
    for text in ["", "Count", "conditional", "conditional:1,1", "conditional:1,1,4", "conditional:1,1,1,1"] {
        assert!(text.parse::<Score>().is_err(), "{text}");
    }
    assert!(serde_json::from_str::<Score>(r#"{"conditional":{"p":1,"q":4,"r":1}}"#).is_err());
}

proptest! {
    #[test]
    fn every_score_learns_what_the_reference_learns(
        pretokens in pretokens(),
        config in config(score(), 0..60usize),
    ) {
        let expected = reference::learn_merges(&pretokens, &config);
        prop_assert_eq!(scores::learn(pretokens.clone(), &config, &Silent).unwrap(), expected.clone());
        prop_assert_eq!(learn_merges(pretokens, &config, &Silent).unwrap(), expected);
    }
}

#[test]
fn the_overflow_error_names_the_sequence_with_other_scores() {
    let config = TrainConfig { score: Score::CountLength, ..TrainConfig::new(1) };
    for pretokens in too_many_tokens() {
        let error = learn_merges(pretokens, &config, &Silent).unwrap_err();
        assert!(error.to_string().contains("too often"), "{error}");
    }
}

proptest! {
    #[test]
    fn extending_equals_one_longer_training(
        pretokens in pretokens(),
        config in config(prop_oneof![Just(Score::Count), score()], Just(0)),
        (first, then) in (0..30usize, 0..30usize),
    ) {
        let config = TrainConfig { merges: first + then, ..config };
        let all = learn_merges(pretokens.clone(), &config, &Silent).unwrap();
        let base = all.merges.first(first);
        prop_assert_eq!(extend_merges(pretokens, &base, &config, &Silent).unwrap(), all);
    }

    #[test]
    fn extending_keeps_the_given_merges_on_other_text(
        (one, other) in (pretokens(), pretokens()),
        tie_break in proptest::sample::select(TieBreak::ALL.as_slice()),
        (first, then) in (0..30usize, 0..30usize),
    ) {
        let config = TrainConfig { tie_break, history_every: 1, ..TrainConfig::new(first) };
        let base = learn_merges(one, &config, &Silent).unwrap().merges;
        let config = TrainConfig { merges: base.len() + then, ..config };
        let learned = extend_merges(other.clone(), &base, &config, &Silent).unwrap();
        let expected = reference::extend_merges(&other, &base, &config);
        prop_assert_eq!(learned, expected);
    }

    /// Either the given merges are applied here, or the text is given as their tokens.
    #[test]
    fn extending_and_verifying_accept_encoded_sequences(
        (one, other) in (pretokens(), pretokens()),
        config in config(prop_oneof![Just(Score::Count), score()], Just(0)),
        (first, then) in (0..30usize, 0..30usize),
    ) {
        let base = learn_merges(one, &TrainConfig { merges: first, ..config.clone() }, &Silent).unwrap().merges;
        let given = base.len();
        let config = TrainConfig { merges: given + then, ..config };
        let learned = extend_merges(other.clone(), &base, &config, &Silent).unwrap();
        let sequences = apply_merges(&other, &base);
        let from_tokens = extend_sequences(sequences.clone(), &base, &config, &Silent).unwrap();
        let new = |merges: &Merges| merges.iter().skip(given).copied().collect::<Vec<_>>();
        prop_assert_eq!(new(&from_tokens.merges), new(&learned.merges));
        prop_assert_eq!(from_tokens.history.last(), learned.history.last());
        let merges = &learned.merges;
        prop_assert_eq!(verify_merges(&other, merges, given, &config, &Silent).unwrap(), None);
        prop_assert_eq!(verify_sequences(sequences.clone(), merges, given, &config, &Silent).unwrap(), None);
        // With the last but one of the new merges left out, both report the same deviation.
        if merges.len() < given + 2 {
            return Ok(());
        }
        let mut lacking: Vec<Merge> = merges.iter().copied().collect();
        let gap = merges.len() - 2;
        lacking.remove(gap);
        let missing = 256 + u32::try_from(gap).unwrap();
        if [lacking[gap].left, lacking[gap].right].contains(&missing) {
            return Ok(());
        }
        let lacking = Merges::new(lacking);
        let found = verify_merges(&other, &lacking, given, &config, &Silent).unwrap();
        prop_assert_eq!(verify_sequences(sequences, &lacking, given, &config, &Silent).unwrap(), found);
    }

    #[test]
    fn learned_merges_pass_verification_with_every_tie_rule(
        pretokens in pretokens(),
        score in prop_oneof![Just(Score::Count), score()],
        tie_break in proptest::sample::select(TieBreak::ALL.as_slice()),
        min_frequency in 0..4u64,
        max_token_bytes in prop_oneof![Just(None), (1..6usize).prop_map(Some)],
    ) {
        let config = TrainConfig {
            min_frequency: Count::new(min_frequency), max_token_bytes, tie_break, score, ..TrainConfig::new(60)
        };
        let learned = learn_merges(pretokens.clone(), &config, &Silent).unwrap();
        prop_assert_eq!(verify_merges(&pretokens, &learned.merges, 0, &config, &Silent).unwrap(), None);
    }

    #[test]
    fn the_first_wrong_merge_is_found(
        mut pretokens in pretokens(),
        at in any::<prop::sample::Index>(),
        (left, right) in (0..300u32, 0..300u32),
    ) {
        // With this sequence, any input has at least one pair to merge.
        pretokens.push(b"ab", Count::ONE);
        let config = TrainConfig { min_frequency: Count::ONE, ..TrainConfig::new(40) };
        let learned = learn_merges(pretokens.clone(), &config, &Silent).unwrap();
        let step = at.index(learned.merges.len());
        let mut merges: Vec<Merge> = learned.merges.iter().copied().collect();
        let known = 256 + u32::try_from(step).unwrap();
        let later = merges[step..].iter().map(|merge| (merge.left, merge.right));
        let mut existing = later.filter(|pair| pair.0 < known && pair.1 < known);
        let chosen = existing.nth(to_usize(left) % 4).unwrap_or((left % known, right % known));
        // An earlier merge hardly ever has the same pair, so this rejects few cases.
        prop_assume!(merges[..step].iter().all(|merge| (merge.left, merge.right) != chosen));
        let right_one = merges[step];
        // The count that the pair would have in the place of the right one.
        let mut swapped = learned.merges.first(step).iter().copied().collect::<Vec<_>>();
        swapped.push(Merge { left: chosen.0, right: chosen.1, count: Count::ZERO });
        let only_it = TrainConfig { merges: step + 1, ..config.clone() };
        let count = extend_merges(pretokens.clone(), &Merges::new(swapped.clone()), &only_it, &Silent)
            .unwrap().merges.iter().last().unwrap().count;
        merges[step] = swapped[step];
        let found = verify_merges(&pretokens, &Merges::new(merges[..=step].to_vec()), 0, &config, &Silent).unwrap();
        if count == right_one.count {
            prop_assert_eq!(found, None);
        } else {
            let better = Some(((right_one.left, right_one.right), right_one.count));
            prop_assert_eq!(found, Some(Deviation { merge: step, chosen, count, better }));
        }
    }
}

#[test]
fn a_merge_of_a_pair_that_does_not_occur_is_a_deviation() {
    let pretokens: PretokenCounts = [(b"ab".as_slice(), Count::new(3))].into_iter().collect();
    let merge = |left, right| Merge { left, right, count: Count::ZERO };
    let merges = Merges::new(vec![merge(97, 98), merge(256, 99)]);
    let found = verify_merges(&pretokens, &merges, 0, &TrainConfig::new(2), &Silent).unwrap();
    let expected = Deviation { merge: 1, chosen: (256, 99), count: Count::ZERO, better: None };
    assert_eq!(found, Some(expected));
}

/// Before the pair disappeared, it was as frequent as the best pair is now.
#[test]
fn a_pair_that_disappeared_is_a_deviation() {
    let pretokens: PretokenCounts = [(b"abc".as_slice(), Count::new(3))].into_iter().collect();
    let merge = |left, right| Merge { left, right, count: Count::ZERO };
    let merges = Merges::new(vec![merge(97, 98), merge(98, 99)]);
    let found = verify_merges(&pretokens, &merges, 0, &TrainConfig::new(2), &Silent).unwrap();
    let better = Some(((256, 99), Count::new(3)));
    assert_eq!(found, Some(Deviation { merge: 1, chosen: (98, 99), count: Count::ZERO, better }));
}

/// The sequences with merges applied in the obvious way.
fn apply_merges(pretokens: &PretokenCounts, merges: &Merges) -> TokenSequences {
    let mut sequences = TokenSequences::default();
    for (pretoken, count) in pretokens.iter() {
        let mut tokens: Vec<u32> = pretoken.iter().map(|&byte| u32::from(byte)).collect();
        sequences.bytes += to_u64(pretoken.len()) * count.get();
        for (merge, token) in merges.iter().zip(256..) {
            let mut at = 0;
            while at + 1 < tokens.len() {
                if (tokens[at], tokens[at + 1]) == (merge.left, merge.right) {
                    tokens.splice(at..at + 2, [token]);
                }
                at += 1;
            }
        }
        sequences.tokens.extend(tokens);
        sequences.ends.push(sequences.tokens.len());
        sequences.counts.push(count);
    }
    sequences
}
