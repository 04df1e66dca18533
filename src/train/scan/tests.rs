use proptest::collection::vec;
use proptest::prelude::*;

use super::Scanner;
use super::simd::ScanEngine;
use super::text::MAX_CODES;
use super::{MIN_BYTES, NEVER, ScanTuning, Scanned, is_suitable, merges_by_scanning};
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::base::test_support::{one_case_in, with_threads};
use crate::count::PretokenCounts;
use crate::observer::Silent;
use crate::train::corpus::{SCAN_SEPARATOR, UnitWeight};
use crate::train::learn::learn_with_lists;
use crate::train::{HistoryPoint, Learned, Merges, TieBreak, TrainConfig, learn_merges, reference};

/// Random sequences: over alphabets of one to four symbols with long runs, over all bytes, or many blocks long.
fn sequence() -> impl Strategy<Value = Vec<u8>> {
    let runs = |symbols: &'static [u8], longest: usize| {
        vec((proptest::sample::select(symbols), 1..longest), 1..14)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, length)| vec![byte; length]).collect())
    };
    prop_oneof![
        runs(b"a", 90),
        runs(b"ab", 40),
        runs(b"a !", 6),
        runs(b"abc\xff", 6),
        vec(any::<u8>(), 1..40),
        vec(proptest::sample::select(b"abcd".as_slice()), 1..200),
        vec(proptest::sample::select(b"abcdefghijklmnop".as_slice()), 1..600),
        Just((0..=255).collect()),
    ]
}

/// Random distinct sequences, some of which occur several times.
fn pretokens() -> impl Strategy<Value = PretokenCounts> {
    vec((sequence(), prop_oneof![3 => Just(1u64), 1 => 1..4u64]), 1..6).prop_map(|sequences| {
        let mut seen = std::collections::HashSet::new();
        let distinct = sequences.iter().filter(|(sequence, _)| seen.insert(sequence));
        distinct.map(|(sequence, count)| (&**sequence, Count::new(*count))).collect()
    })
}

/// Random parameters, with small chunks and few codes so that short texts reach all limits.
fn tuning() -> impl Strategy<Value = ScanTuning> {
    let chunk = prop_oneof![1..9usize, 60..140usize, Just(1 << 18)];
    let rare_share = prop_oneof![Just(1), 2..40u64, Just(2_500)];
    let narrow_merges = prop_oneof![0..6usize, Just(256)];
    let max_codes = prop_oneof![Just(MAX_CODES), 258..340usize];
    (chunk, rare_share, narrow_merges, max_codes, proptest::sample::select(ScanEngine::available())).prop_map(
        |(chunk, rare_share, narrow_merges, max_codes, engine)| ScanTuning {
            chunk,
            rare_share,
            narrow_merges,
            max_codes,
            codes_per_merge: NEVER,
            ..ScanTuning::new(engine, 0)
        },
    )
}

/// Scans on a number of threads.
fn scan<'a>(
    pretokens: &PretokenCounts,
    config: &'a TrainConfig,
    tuning: ScanTuning,
    threads: usize,
) -> Scanned<'a> {
    with_threads(threads, || {
        Scanner::new(pretokens.clone(), config, tuning, &Silent)
            .and_then(Scanner::run)
            .expect("nothing stops it")
    })
}

/// The text that the merges leave of the sequences, computed in the obvious way.
fn replayed(pretokens: &PretokenCounts, learned: &Learned) -> Vec<u16> {
    let mut text: Vec<u16> = Vec::new();
    for (pretoken, count) in pretokens.iter() {
        for _ in 0..count.get() {
            text.extend(pretoken.iter().map(|&byte| u16::from(byte)));
            text.push(SCAN_SEPARATOR);
        }
    }
    text.pop();
    for (merge, number) in learned.merges.iter().zip(256..) {
        let mut rest = text.as_slice();
        let mut merged = Vec::new();
        while let [first, after @ ..] = rest {
            let found = u32::from(*first) == merge.left
                && after.first().is_some_and(|&next| u32::from(next) == merge.right);
            merged.push(if found { number } else { *first });
            rest = &after[usize::from(found)..];
        }
        text = merged;
    }
    text
}

#[test]
fn scanning_learns_what_the_reference_learns() {
    let inputs = (
        pretokens(),
        tuning(),
        proptest::sample::select(vec![TieBreak::Ids, TieBreak::Hf]),
        0..4u64,
        prop_oneof![Just(None), (1..6usize).prop_map(Some)],
        0..90usize,
        1..7usize,
        proptest::sample::select(vec![1usize, 2, 7]),
    );
    one_case_in(
        2,
        &inputs,
        |(pretokens, tuning, tie_break, min_frequency, max_token_bytes, merges, history_every, threads)| {
            let config = TrainConfig {
                min_frequency: Count::new(min_frequency),
                max_token_bytes,
                tie_break,
                history_every,
                ..TrainConfig::new(merges)
            };
            let scanned = scan(&pretokens, &config, tuning, threads);
            let mut expected = reference::learn_merges(&pretokens, &config);
            let learned = scanned.log.merges.len();
            prop_assert!(scanned.text.is_some() || learned == expected.merges.len());
            prop_assert!(scanned.text.is_none() || learned < merges);
            expected.merges = expected.merges.first(learned);
            let text = replayed(&pretokens, &expected);
            let is_recorded = |point: &HistoryPoint| {
                point.merges <= to_u64(learned) && point.merges.is_multiple_of(to_u64(history_every))
            };
            expected.history.retain(is_recorded);
            prop_assert_eq!(&scanned.log.history, &expected.history);
            let tokens = text.iter().filter(|&&token| token != SCAN_SEPARATOR).count();
            prop_assert_eq!(scanned.tokens, to_u64(tokens));
            prop_assert_eq!(scanned.text.as_ref().unwrap_or(&text), &text);
            prop_assert_eq!(scanned.log.merges, expected.merges.iter().copied().collect::<Vec<_>>());

            Ok(())
        },
    );
}

/// Text of some hundred made-up words, the same in each run.
fn prose(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    let mut text = String::new();
    while text.len() < bytes {
        let mut word = next(30) * next(30) + 1;
        while word > 0 {
            text.push_str(["ka", "to", "ri", "een", "sha", "lu", "mo"][u64_to_usize(word % 7)]);
            word /= 7;
        }
        text.push_str(if next(20) == 0 { ".      " } else { " " });
        if next(300) == 0 {
            text.push_str("\u{e9}\u{2026}");
        }
    }
    text.into_bytes()
}

#[test]
fn every_engine_chunk_size_and_thread_count_learns_the_same_merges() {
    let text = prose(60_000);
    let pretokens: PretokenCounts = [(&*text, Count::ONE)].into_iter().collect();
    let config = TrainConfig::new(120);
    let expected = reference::learn_merges(&pretokens, &config).merges;
    for engine in ScanEngine::available() {
        for (chunk, threads, narrow_merges) in
            [(1 << 18, 1, 256), (7_000, 2, 256), (9_999, 7, 40), (1 << 18, 2, 0)]
        {
            let tuning = ScanTuning {
                chunk,
                narrow_merges,
                codes_per_merge: NEVER,
                ..ScanTuning::new(engine, text.len())
            };
            let scanned = scan(&pretokens, &config, tuning, threads);
            assert_eq!(Merges::new(scanned.log.merges), expected, "{tuning:?}, {threads} threads");
        }
    }
}

/// All bytes except `!` are too frequent to share a code. The pair with `!` is as frequent as `!` itself, and
/// comes first among equals.
#[test]
fn a_pair_with_a_rare_byte_is_not_overtaken() {
    let words: [(&[u8], u64); 4] = [(b"!s", 3), (b"uv", 3), (b"us", 2), (b"vu", 1)];
    let pretokens: PretokenCounts =
        words.into_iter().map(|(word, count)| (word, Count::new(count))).collect();
    let config = TrainConfig::new(2);
    let tuning =
        ScanTuning { rare_share: 5, codes_per_merge: NEVER, ..ScanTuning::new(ScanEngine::Portable, 0) };
    let scanned = scan(&pretokens, &config, tuning, 1);
    assert_eq!(Merges::new(scanned.log.merges), reference::learn_merges(&pretokens, &config).merges);
}

#[test]
fn lists_continue_where_scanning_stops() {
    let text = prose(u64_to_usize(MIN_BYTES) + 100);
    let halves = text.split_at(text.len() / 3);
    let pretokens: PretokenCounts = [(halves.0, Count::ONE), (halves.1, Count::ONE)].into_iter().collect();
    let config = TrainConfig { min_frequency: Count::new(9), history_every: 50, ..TrainConfig::new(1_500) };
    assert!(is_suitable(&pretokens, &config));
    let scanned =
        scan(&pretokens, &config, ScanTuning::new(ScanEngine::best(), text.len()), 1).log.merges.len();
    assert!((1..1_500).contains(&scanned), "{scanned} merges");
    let learned = learn_merges(pretokens.clone(), &config, &Silent).expect("nothing stops it");
    let by_lists =
        learn_with_lists::<UnitWeight>(pretokens.clone(), &config, &Silent).expect("nothing stops it");
    assert_eq!(learned, by_lists);
    let few = TrainConfig { merges: 400, ..config };
    let scanned =
        merges_by_scanning(pretokens, &few, ScanEngine::Portable, &Silent).expect("nothing stops it");
    assert_eq!(scanned, Merges::new(by_lists.merges.iter().take(400).copied().collect()));
}

#[test]
fn scanning_is_suitable_for_long_texts_with_few_repeats() {
    let text = prose(u64_to_usize(MIN_BYTES));
    let pretokens = |count| -> PretokenCounts { [(&*text, Count::new(count))].into_iter().collect() };
    let config = TrainConfig::new(1_000);
    assert!(is_suitable(&pretokens(1), &config));
    assert!(!is_suitable(&pretokens(2), &config), "it would take twice the memory");
    assert!(!is_suitable(&pretokens(u64::MAX), &config));
    let (once, often) = (Count::ONE, Count::new(1 << 62));
    let together = [(&*text, once), (b"a", often), (b"b", often)].into_iter().collect();
    assert!(!is_suitable(&together, &config), "each takes less than 64 bits can count");
    assert!(!is_suitable(&[(b"short".as_slice(), Count::ONE)].into_iter().collect(), &config));
    assert!(!is_suitable(&pretokens(1), &TrainConfig { tie_break: TieBreak::First, ..config }));
}

#[test]
fn a_scan_can_be_stopped() {
    struct Stop;
    impl crate::Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    let text = prose(u64_to_usize(MIN_BYTES));
    let pretokens: PretokenCounts = [(&*text, Count::ONE)].into_iter().collect();
    let stopped = learn_merges(pretokens, &TrainConfig::new(10), &Stop).unwrap_err();
    assert_eq!(stopped.kind(), crate::ErrorKind::Interrupted);
}
