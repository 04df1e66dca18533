use proptest::prelude::*;

use super::*;

/// The reference: tries every token at every offset, the longest first.
fn obvious(tokens: &[Vec<u8>], text: &[u8]) -> Vec<Segment> {
    let (mut segments, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let here = tokens.iter().enumerate().filter(|(_, token)| text[at..].starts_with(token));
        // Among equal tokens the first one counts.
        let Some((number, token)) = here.rev().max_by_key(|(_, token)| token.len()) else {
            at += 1;
            continue;
        };
        if at > start {
            segments.push(Segment::Text(start..at));
        }
        segments.push(Segment::Special(number, at..at + token.len()));
        at += token.len();
        start = at;
    }
    if text.len() > start {
        segments.push(Segment::Text(start..text.len()));
    }
    segments
}

proptest! {
    #[test]
    fn leftmost_then_longest(
        tokens in prop::collection::vec(prop::collection::vec(b'a'..b'd', 1..4), 0..5),
        text in prop::collection::vec(b'a'..b'e', 0..40),
    ) {
        let mut tokens = tokens;
        tokens.sort();
        tokens.dedup();
        for most in [usize::MAX, 0] {
            let finder = SpecialFinder::of(&tokens, most).expect("no token is empty");
            prop_assert_eq!(finder.segments(&text).collect::<Vec<_>>(), obvious(&tokens, &text));
        }
    }
}

#[test]
fn an_empty_token_is_refused() {
    assert!(SpecialFinder::new(&["<s>", ""]).is_err());
}
