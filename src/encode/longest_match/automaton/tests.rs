use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::encode::longest_match::Scratch;
use crate::encode::longest_match::tests::{matches, vocabulary, with_texts};
use crate::encode::reference;
use crate::observer::Silent;
use crate::vocab::Vocabulary;

/// Goes on through a text with an automaton up to `end`, and gives the path.
fn path(automaton: &mut Automaton, matches: &Matches, text: &[u8], start: usize, end: usize) -> Path {
    // What stands before a path is none of its own.
    let mut path = Path::new(vec![TokenId::new(7)], start);
    let tokens = matches.for_whole_texts().expect("short tokens");
    automaton.go_on(tokens, text, &mut path, end, &Silent).expect("nobody stops it");
    assert_eq!(path.ids[0], TokenId::new(7));
    path
}

proptest! {
    /// By themselves and in a row, so that there are windows with lanes, and steps that are known and ones that are not.
    #[test]
    fn whole_texts_are_encoded_exactly((vocabulary, texts) in with_texts()) {
        let matches = matches(&vocabulary);
        let mut automaton = Automaton::new();
        for text in [&texts.concat()].into_iter().chain(&texts) {
            let path = path(&mut automaton, &matches, text, 0, text.len());
            let whole = reference::encode_piece(&vocabulary, text);
            prop_assert!(whole.starts_with(&path.ids[1..]));
            prop_assert_eq!(path.last, path.ids[1..].last().map_or(NONE, |id| id.get()));
            if automaton.has_been_full() {
                break;
            }
            prop_assert_eq!((path.at, path.ids.len()), (text.len(), 1 + whole.len()));
        }
    }

    #[test]
    fn tokens_are_certain_whatever_follows(
        (vocabulary, texts) in with_texts(),
        cuts in vec(any::<prop::sample::Index>(), 3),
    ) {
        let matches = matches(&vocabulary);
        let mut automaton = Automaton::new();
        let text = texts.concat();
        for cut in cuts {
            let end = cut.index(text.len().max(1));
            let start = cut.index(end + 1);
            let path = path(&mut automaton, &matches, &text, start, end);
            // What follows may be anything.
            for after in [&text[end..], b"", b"a", b"ab c"] {
                let whole = reference::encode_piece(&vocabulary, &[&text[start..end], after].concat());
                prop_assert!(whole.starts_with(&path.ids[1..]));
            }
            let bytes: usize = path.ids[1..].iter().map(|id| matches.length(id.get())).sum();
            prop_assert_eq!(path.at, start + bytes);
        }
    }

    /// More texts than there are lanes, and fewer, each of its own length.
    #[test]
    fn short_texts_are_encoded_together((vocabulary, texts) in with_texts(), cuts in vec(1..40usize, 1..4)) {
        let matches = matches(&vocabulary);
        let mut automaton = Automaton::new();
        let tokens = matches.for_whole_texts().expect("short tokens");
        for cut in cuts {
            let texts: Vec<&[u8]> = texts.iter().flat_map(|text| text.chunks(cut)).collect();
            let (mut ids, mut ends) = (Vec::new(), Vec::new());
            automaton.encode(tokens, &texts, &mut ids, &mut ends);
            prop_assert_eq!(ends.len(), texts.len());
            let starts = [0].into_iter().chain(ends.iter().copied());
            for ((text, start), &end) in texts.iter().zip(starts).zip(&ends) {
                prop_assert_eq!(&ids[start..end], reference::encode_piece(&vocabulary, text));
            }
        }
    }

    #[test]
    fn a_byte_is_found_where_it_first_stands(bytes in any::<[u8; 8]>(), few in vec(0..3u8, 8), byte in any::<u8>()) {
        for (bytes, byte) in [(bytes, byte), (few.try_into().expect("eight"), byte % 3)] {
            let first = bytes.iter().position(|&other| other == byte).unwrap_or(8);
            prop_assert_eq!(prefixes::first_of(u64::from_le_bytes(bytes), byte), first);
        }
    }

    /// All bytes of some states and few of others, in any order; bases from before stay good for what they had until
    /// other states take the places.
    #[test]
    fn steps_that_were_put_are_found(order in Just((0..=u8::MAX).collect::<Vec<u8>>()).prop_shuffle(), few in 0..256usize) {
        let mut steps = Steps::new();
        (0..3).for_each(|_| steps.add_state());
        let step = |state: u32, byte: u8, steps: &Steps| Step {
            next: steps.base((state + u32::from(byte)) % 3),
            found: Found::new(state, usize::from(byte)),
        };
        let first = steps.base(0);
        for (nth, &byte) in order.iter().enumerate() {
            let states = if nth < few { 0..3 } else { 1..2 };
            for state in states {
                let before = steps.base(state);
                prop_assert!(steps.step(before, byte).is_none());
                steps.put(state, byte, step(state, byte, &steps));
                let known = order[..nth].iter().filter(|_| nth < few || state == 1);
                for &byte in known {
                    let found = steps.step(steps.base(state), byte).expect("was put").found;
                    prop_assert_eq!(found, Found::new(state, usize::from(byte)));
                    if let Some(step) = steps.step(before, byte) {
                        prop_assert_eq!(step.found, found);
                    }
                }
                prop_assert_eq!(steps.state(before), state);
                prop_assert_eq!(steps.state(steps.base(state)), state);
            }
        }
        prop_assert!(!steps.are_full());
        prop_assert!(few == 0 || first != steps.base(0));
        let by = (steps.base(1), order[0]);
        let (old, new) = (steps.step(by.0, by.1).expect("is there").next, steps.base(2));
        for (old, now) in [(steps.base(1), old), (old, new)] {
            steps.redirect(by, old, new);
            prop_assert_eq!(steps.step(by.0, by.1).expect("is there").next, now);
        }
    }

    #[test]
    fn bytes_are_found_at_their_exclusive_or(bytes in proptest::collection::btree_set(any::<u8>(), 0..256), by in any::<u8>()) {
        prop_assert!(steps::exclusive_or(&bytes, by).eq(&bytes.iter().map(|byte| byte ^ by).collect()));
    }
}

/// Tokens of 2, 4, 8 and so on to 512 times one letter.
#[test]
fn long_runs_are_encoded_exactly() {
    let a = u32::from(b'a');
    let doubled = (256..264).map(|token| (token, token));
    let vocabulary = vocabulary([(a, a)].into_iter().chain(doubled));
    let matches = matches(&vocabulary);
    let mut automaton = Automaton::new();
    for length in [1, 255, 256, 2047, 2048, 2049, 20_000] {
        let text = &vec![b'a'; length];
        let path = path(&mut automaton, &matches, text, 0, length);
        assert!(path.ids[1..] == reference::encode_piece(&vocabulary, text), "{length} bytes");
    }
}

/// A vocabulary in which each byte twice is a token, so that each has a state of its own, and all pairs of 120 bytes.
fn many_steps() -> (Vocabulary, Vec<u8>) {
    let pairs = (0..120).flat_map(|one| (0..120).flat_map(move |other| [one, other]));
    (vocabulary((0..=u8::MAX).map(|byte| (byte.into(), byte.into()))), pairs.collect())
}

#[test]
fn a_full_automaton_ends_a_path_and_is_begun_anew_for_short_texts() {
    let (vocabulary, text) = many_steps();
    let (matches, whole) = (matches(&vocabulary), reference::encode_piece(&vocabulary, &text));
    let mut full = Automaton::new();
    let path = path(&mut full, &matches, &text, 0, text.len());
    assert!(full.has_been_full() && path.at < text.len(), "{} places", full.steps.places.len());
    assert!(whole.starts_with(&path.ids[1..]));

    let (texts, mut automaton): (Vec<&[u8]>, _) = (text.chunks(100).collect(), Automaton::new());
    let tokens = matches.for_whole_texts().expect("short tokens");
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    automaton.encode(tokens, &texts, &mut ids, &mut ends);
    assert!(automaton.has_been_full());
    let parts: Vec<TokenId> =
        texts.iter().flat_map(|text| reference::encode_piece(&vocabulary, text)).collect();
    assert_eq!((ids, ends.len()), (parts, texts.len()));
}

#[test]
fn texts_that_fill_it_are_encoded_without_it() {
    let (vocabulary, text) = many_steps();
    let (matches, whole) = (matches(&vocabulary), reference::encode_piece(&vocabulary, &text));
    let mut scratch = Scratch::default();
    for _ in 0..4 {
        let mut ids = Vec::new();
        scratch.encode(&matches, &text, &mut ids, &Silent).expect("nobody stops it");
        assert_eq!(ids, whole);
    }
    // Begun with the first text, and again when there was twice as much.
    assert!(!scratch.is_for_together(b"short"));
    // Short texts may have been put aside before a long one that fills it.
    let texts: Vec<&[u8]> = text.chunks(100).collect();
    scratch.encode_together(&matches, &texts);
    for (number, text) in texts.iter().enumerate() {
        assert_eq!(scratch.ids(number), reference::encode_piece(&vocabulary, text));
    }
}
