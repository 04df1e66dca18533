//! Encoding with the lazy DFA, against the reference: whole and partial texts, full DFAs, and several
//! threads.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::base::test_support::one_case_in;
use crate::encode::backtrack::BacktrackScratch;
use crate::encode::backtrack::compatible::IncompatibleRange;
use crate::encode::backtrack::tests::{tables, vocabulary, with_texts};
use crate::encode::reference;
use crate::observer::Silent;
use crate::vocab::Vocabulary;

/// The tables with a lazy DFA for the usual number of early merges, and with one for all merges.
fn each_way(vocabulary: &Vocabulary) -> [BacktrackTables; 2] {
    [tables(vocabulary), all_early(vocabulary)]
}

/// The tables with a lazy DFA for all merges.
fn all_early(vocabulary: &Vocabulary) -> BacktrackTables {
    BacktrackTables { whole: EarlyTokens::new(vocabulary, usize::MAX), ..tables(vocabulary) }
}

/// The tokens that the lazy DFA finds.
fn tokens(tables: &BacktrackTables) -> &EarlyTokens {
    tables.whole.as_ref().expect("short tokens")
}

/// A new lazy DFA.
fn dfa(tables: &BacktrackTables) -> LazyDfa {
    LazyDfa::new(tokens(tables))
}

/// Encodes with this lazy DFA.
fn encoder<'a>(
    dfa: &'a LazyDfa,
    tables: &'a BacktrackTables,
    pending: &'a mut PendingPositions,
) -> DfaEncoder<'a> {
    DfaEncoder { dfa, tables, tokens: tokens(tables), pending }
}

/// Encodes a text from `start` to `end` with a lazy DFA, and returns the path.
fn path(dfa: &LazyDfa, tables: &BacktrackTables, text: &[u8], start: usize, end: usize) -> Path {
    // The path must not touch ids before its own.
    let mut path = Path::new(vec![TokenId::new(7)], start);
    let mut pending = PendingPositions::default();
    encoder(dfa, tables, &mut pending).extend_to(text, &mut path, end, &Silent).expect("nobody stops it");
    assert_eq!(path.ids[0], TokenId::new(7));
    path
}

proptest! {
    /// The result depends only on the given numbers that are in the set. Narrowing in two steps gives the same as
    /// at once.
    #[test]
    fn sets_among_numbers_are_told_by_what_they_have_of_them(
        numbers in btree_set(0..60_u32, 1..40),
        set in btree_set(0..60_u32, 0..60),
        others in btree_set(0..60_u32, 0..60),
        fewer in vec(any::<bool>(), 40),
    ) {
        let intervals = |set: &BTreeSet<u32>| {
            let set: Vec<u32> = set.iter().copied().collect();
            let apart = set.chunk_by(|one, next| one + 1 == *next);
            apart.map(|numbers| (numbers[0], numbers[numbers.len() - 1] + 1)).collect::<Vec<IncompatibleRange>>()
        };
        let among = |numbers: &[u32], set: &[IncompatibleRange]| {
            let mut found = Vec::new();
            states::among(numbers, set, &mut found);
            found
        };
        let all: Vec<u32> = numbers.iter().copied().collect();
        let found = among(&all, &intervals(&set));
        for &number in &numbers {
            prop_assert_eq!(states::contains(&found, number), set.contains(&number));
        }
        let same = |number: &u32| if numbers.contains(number) { set.contains(number) } else { others.contains(number) };
        prop_assert_eq!(&among(&all, &intervals(&(0..60).filter(same).collect())), &found);
        let fewer: Vec<u32> = all.iter().zip(fewer).filter_map(|(&number, is_there)| is_there.then_some(number)).collect();
        if !fewer.is_empty() {
            prop_assert_eq!(among(&fewer, &found), among(&fewer, &intervals(&set)));
        }
    }

    /// The search for a byte in a word gives its first position, or 8.
    #[test]
    fn the_first_position_of_a_byte_is_found(bytes in any::<[u8; 8]>(), few in vec(0..3u8, 8), byte in any::<u8>()) {
        for (bytes, byte) in [(bytes, byte), (few.try_into().expect("eight"), byte % 3)] {
            let first = bytes.iter().position(|&other| other == byte).unwrap_or(8);
            prop_assert_eq!(states::first_of(u64::from_le_bytes(bytes), byte), first);
        }
    }

    /// All bytes for one state and few for the others, in any order. Former bases stay valid for the transitions
    /// that they had, until other states take the positions.
    #[test]
    fn transitions_that_were_stored_are_found(order in Just((0..=u8::MAX).collect::<Vec<u8>>()).prop_shuffle(), few in 0..256usize) {
        let (transitions, mut steps) = (Transitions::new(), TransitionPlacer::default());
        (0..3).for_each(|set| steps.add_state(&transitions, 7 * set));
        let base = |state: u32| transitions.record(state).base;
        let step = |state: u32, byte: u8| Transition {
            next: base((state + u32::from(byte)) % 3),
            found: FoundToken::new(state, usize::from(byte)),
        };
        let (mut first, mut stale) = (None, 0);
        for (nth, &byte) in order.iter().enumerate() {
            let states = if nth < few { 0..3 } else { 1..2 };
            for state in states {
                let before = base(state);
                prop_assert!(transitions.step(before, byte).is_none());
                steps.put(&transitions, state, byte, step(state, byte));
                let known = order[..nth].iter().filter(|_| nth < few || state == 1);
                for &byte in known {
                    let found = transitions.step(base(state), byte).expect("was put").found;
                    prop_assert_eq!(found, FoundToken::new(state, usize::from(byte)));
                    if let Some(step) = transitions.step(before, byte).filter(|_| before != base(state)) {
                        prop_assert_eq!(step.found, found);
                        stale += 1;
                    }
                }
                if state == 1 {
                    first.get_or_insert(base(1));
                }
                prop_assert_eq!(transitions.state(before), state);
                prop_assert_eq!(transitions.state(base(state)), state);
                prop_assert_eq!(transitions.record(state).excluded, 7 * state);
            }
        }
        prop_assert!(!steps.full);
        // The state with all bytes must move if others share its block, and leaves transitions at its former
        // base.
        prop_assert!(few == 0 || first != Some(base(1)) && stale > 0);
        let by = (base(1), order[0]);
        let (old, new) = (transitions.step(by.0, by.1).expect("is there").next, base(2));
        for (old, now) in [(base(1), old), (old, new)] {
            transitions.redirect(by, old, new);
            prop_assert_eq!(transitions.step(by.0, by.1).expect("is there").next, now);
        }
    }

    /// Exclusive-or of a set of codes gives the set of the exclusive-ors.
    #[test]
    fn code_sets_are_shifted_by_exclusive_or(bytes in btree_set(any::<u8>(), 0..256), by in any::<u8>()) {
        prop_assert!(transitions::exclusive_or(&bytes, by).eq(&bytes.iter().map(|byte| byte ^ by).collect()));
    }
}

/// More texts than there are lanes, and fewer, each with its own length.
#[test]
fn short_texts_are_encoded_together() {
    let inputs = (with_texts(), vec(1..40usize, 1..4));
    one_case_in(4, &inputs, |((vocabulary, texts), cuts)| {
        for (tables, &cut) in
            each_way(&vocabulary).iter().flat_map(|tables| cuts.iter().map(move |cut| (tables, cut)))
        {
            let (dfa, mut pending) = (dfa(tables), PendingPositions::default());
            let texts: Vec<&[u8]> = texts.iter().flat_map(|text| text.chunks(cut)).collect();
            let (mut ids, mut ends) = (Vec::new(), Vec::new());
            encoder(&dfa, tables, &mut pending).encode(&texts, &mut ids, &mut ends);
            prop_assert!(ends.len() == texts.len() || dfa.is_full());
            let starts = [0].into_iter().chain(ends.iter().copied());
            for ((text, start), &end) in texts.iter().zip(starts).zip(&ends) {
                prop_assert_eq!(&ids[start..end], reference::encode_pretoken(&vocabulary, text));
            }
        }
        Ok(())
    });
}

/// Texts alone and concatenated, so that there are windows with several lanes, and both known and missing
/// transitions.
#[test]
fn whole_texts_are_encoded_exactly() {
    one_case_in(8, &with_texts(), |(vocabulary, texts)| {
        for tables in &each_way(&vocabulary) {
            let dfa = dfa(tables);
            for text in [&texts.concat()].into_iter().chain(&texts) {
                let path = path(&dfa, tables, text, 0, text.len());
                let whole = reference::encode_pretoken(&vocabulary, text);
                prop_assert!(whole.starts_with(&path.ids[1..]));
                prop_assert_eq!(path.last, path.ids[1..].last().map_or(NONE, |id| id.get()));
                if dfa.is_full() {
                    break;
                }
                let is_whole = (path.at, path.ids.len()) == (text.len(), 1 + whole.len());
                prop_assert!(is_whole || !tokens(tables).are_all() && text.len() - path.at > LONGEST_SEGMENT);
            }
        }
        Ok(())
    });
}

/// The tokens that a path takes over stay the same whatever text follows.
#[test]
fn tokens_are_certain_whatever_follows() {
    let inputs = (with_texts(), vec(any::<prop::sample::Index>(), 3));
    one_case_in(8, &inputs, |((vocabulary, texts), cuts)| {
        let (ways, text) = (each_way(&vocabulary), texts.concat());
        for (tables, cut) in ways.iter().flat_map(|tables| cuts.iter().map(move |cut| (tables, cut))) {
            let dfa = dfa(tables);
            let end = cut.index(text.len().max(1));
            let start = cut.index(end + 1);
            let path = path(&dfa, tables, &text, start, end);
            // Any text may follow.
            for after in [&text[end..], b"", b"a", b"ab c"] {
                let whole = reference::encode_pretoken(&vocabulary, &[&text[start..end], after].concat());
                prop_assert!(whole.starts_with(&path.ids[1..]));
            }
            let bytes: usize = path.ids[1..].iter().map(|id| tables.length(id.get())).sum();
            prop_assert_eq!(path.at, start + bytes);
        }
        Ok(())
    });
}

/// Tokens of 2, 4, 8 and so on up to 512 times one letter.
#[test]
fn long_runs_are_encoded_exactly() {
    let a = u32::from(b'a');
    let doubled = (256..264).map(|token| (token, token));
    let vocabulary = vocabulary([(a, a)].into_iter().chain(doubled));
    let tables = all_early(&vocabulary);
    let dfa = dfa(&tables);
    for length in [1, 255, 256, 2047, 2048, 2049, 20_000] {
        let text = &vec![b'a'; length];
        let path = path(&dfa, &tables, text, 0, length);
        assert!(path.ids[1..] == reference::encode_pretoken(&vocabulary, text), "{length} bytes");
    }
}

/// A vocabulary in which each byte twice is a token, so that each byte has its own state; and all pairs of 120
/// bytes.
fn many_steps() -> (Vocabulary, Vec<u8>) {
    let pairs = (0..120).flat_map(|one| (0..120).flat_map(move |other| [one, other]));
    (vocabulary((0..=u8::MAX).map(|byte| (byte.into(), byte.into()))), pairs.collect())
}

/// When it is full, a path ends early and the rest of a batch is not encoded.
#[test]
fn a_full_dfa_ends_a_path_and_leaves_short_texts_out() {
    let (vocabulary, text) = many_steps();
    let (tables, whole) = (all_early(&vocabulary), reference::encode_pretoken(&vocabulary, &text));
    let full = dfa(&tables);
    let path = path(&full, &tables, &text, 0, text.len());
    assert!(full.is_full() && path.at < text.len());
    assert!(whole.starts_with(&path.ids[1..]));

    let (texts, dfa, mut pending): (Vec<&[u8]>, _, _) =
        (text.chunks(100).collect(), dfa(&tables), PendingPositions::default());
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    encoder(&dfa, &tables, &mut pending).encode(&texts, &mut ids, &mut ends);
    assert!(dfa.is_full() && !ends.is_empty() && ends.len() < texts.len());
    let encoded = texts[..ends.len()].iter();
    let parts: Vec<TokenId> =
        encoded.flat_map(|text| reference::encode_pretoken(&vocabulary, text)).collect();
    assert_eq!((ids.len(), ids), (ends[ends.len() - 1], parts));
}

/// Eight threads at a time compute the same transitions and different ones.
#[test]
fn threads_that_share_a_dfa_encode_exactly() {
    let (vocabulary, text) = many_steps();
    let vocabulary = &vocabulary;
    let tables = &all_early(vocabulary);
    for part in text.chunks(3000) {
        let dfa = &dfa(tables);
        std::thread::scope(|scope| {
            for begin in 0..8 {
                scope.spawn(move || {
                    let text = [&part[100 * begin..], part].concat();
                    let path = path(dfa, tables, &text, 0, text.len());
                    assert!(reference::encode_pretoken(vocabulary, &text).starts_with(&path.ids[1..]));
                    assert!(path.at == text.len() || dfa.is_full());
                });
            }
        });
    }
}

/// From the start, each byte leads to its own state, in which the byte twice is a partial token.
#[test]
fn no_thread_waits_for_another_that_learns_where_only_the_byte_matters() {
    let (vocabulary, _) = many_steps();
    let tables = all_early(&vocabulary);
    let (dfa, tokens) = (dfa(&tables), tokens(&tables));
    for byte in 0..=u8::MAX {
        let mut lane = dfa.start();
        let learning = dfa.builder();
        assert_eq!(dfa.step(tokens, &mut lane, byte), FoundToken::new(byte.into(), 1));
        drop(learning);
        let twice = reference::encode_pretoken(&vocabulary, &[byte, byte]);
        assert_eq!([TokenId::new(dfa.step(tokens, &mut lane, byte).token())], twice[..]);
    }
}

/// Follows all transitions of a state, and then again from the bases that it had in the meantime.
#[test]
fn no_thread_waits_for_another_that_learns_where_a_state_has_moved() {
    let (vocabulary, _) = many_steps();
    let tables = all_early(&vocabulary);
    let (dfa, tokens) = (dfa(&tables), tokens(&tables));
    let after = |first: u8| {
        let mut lane = dfa.start();
        dfa.step(tokens, &mut lane, first);
        lane
    };
    let step = |mut lane: DfaLane, byte: u8| dfa.step(tokens, &mut lane, byte);
    let (mut lanes, mut steps) = (Vec::new(), Vec::new());
    for byte in 0..=u8::MAX {
        lanes.push(after(b'x'));
        steps.push((byte, step(after(b'x'), byte)));
        // The transition of another state takes a position. It must be computed under the lock.
        step(after(byte), byte);
    }
    let _learning = dfa.builder();
    let mut moved = 0;
    for lane in lanes {
        for &(byte, found) in &steps {
            let is_there = dfa.transitions.step(lane.base, tokens.prefixes.code(byte)).is_some();
            moved += usize::from(byte == b'x' && !is_there);
            assert_eq!(step(lane, byte), found);
        }
    }
    assert!(moved > 0);
}

/// Two threads get the same DFA and a third one another; a full one is not given out again.
#[test]
fn two_threads_share_a_dfa_until_it_is_full() {
    let tables = tables(&vocabulary([]));
    let (dfas, tokens) = (SharedDfas::default(), tokens(&tables));
    let [one, other, third] = [dfas.get(tokens), dfas.get(tokens), dfas.get(tokens)];
    assert!(Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &third));
    drop(other);
    assert!(Arc::ptr_eq(&one, &dfas.get(tokens)));
    dfas.forget(&one);
    assert!(!Arc::ptr_eq(&one, &dfas.get(tokens)));
}

/// The rest of a batch is encoded by backtracking.
#[test]
fn short_texts_that_a_full_dfa_leaves_are_encoded_without_it() {
    let (vocabulary, text) = many_steps();
    let tables = all_early(&vocabulary);
    let mut scratch = BacktrackScratch::expecting(1 << 20);
    scratch.encode(&tables, b"first", &mut Vec::new(), &Silent).expect("nobody stops it");
    assert!(scratch.has_dfa());
    let texts: Vec<&[u8]> = text.chunks(100).collect();
    scratch.encode_batch(&tables, &texts);
    assert!(!scratch.has_dfa());
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(scratch.ids(number), reference::encode_pretoken(&vocabulary, text));
    }
}

/// Texts that fill the DFA encode correctly, and it is not used for a while.
#[test]
fn texts_that_fill_the_dfa_are_encoded_without_it() {
    let (vocabulary, text) = many_steps();
    let (tables, whole) = (all_early(&vocabulary), reference::encode_pretoken(&vocabulary, &text));
    let mut scratch = BacktrackScratch::default();
    for _ in 0..4 {
        let mut ids = Vec::new();
        scratch.encode(&tables, &text, &mut ids, &Silent).expect("nobody stops it");
        assert_eq!(ids, whole);
    }
    // Used from the first text on, and again after twice as much text.
    assert!(!scratch.has_dfa());
    // Short texts may be collected before a long one that fills the DFA.
    let texts: Vec<&[u8]> = text.chunks(100).collect();
    scratch.encode_batch(&tables, &texts);
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(scratch.ids(number), reference::encode_pretoken(&vocabulary, text));
    }
}

/// Segments of all lengths, met for the first time and again: with few tokens, with as many as early tokens, and
/// long ones.
#[test]
fn late_merges_continue_from_early_tokens() {
    let [a, b, p, q] = [b'a', b'b', b'p', b'q'].map(u32::from);
    let early = (128..192).map(|byte| (byte, byte));
    let [ab, pq] = [256 + 64, 256 + 66];
    let vocabulary = vocabulary(early.chain([(a, b), (ab, ab), (p, q), (pq, q)]));
    let tables = tables(&vocabulary);
    let (dfa, mut pending) = (dfa(&tables), PendingPositions::default());
    let lengths = || (1..=10).chain([14, 15, 30, 31, 32, 61, 62, 63, 64, 65, 700]);
    let runs = lengths().flat_map(|length| [b"ab".repeat(length), b"q".repeat(length)]);
    let texts: Vec<Vec<u8>> = runs.map(|run| [b"\x80\x80", &run[..], b"\xa0\xa0\xa0pqqq"].concat()).collect();
    let texts: Vec<&[u8]> = texts.iter().chain(&texts).map(Vec::as_slice).collect();
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    encoder(&dfa, &tables, &mut pending).encode(&texts, &mut ids, &mut ends);
    let expected: Vec<TokenId> =
        texts.iter().flat_map(|text| reference::encode_pretoken(&vocabulary, text)).collect();
    assert_eq!((ends.len(), ids), (texts.len(), expected));
    // As parts of one text, in which some segments are too long.
    let scratch = &mut BacktrackScratch::expecting(1 << 20);
    let (text, mut ids) = (texts.concat(), Vec::new());
    scratch.encode(&tables, &text, &mut ids, &Silent).expect("nobody stops it");
    assert!(scratch.has_dfa());
    assert!(ids == reference::encode_pretoken(&vocabulary, &text));
}
