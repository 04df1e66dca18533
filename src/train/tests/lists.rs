//! Tests of training that continues from a list of merges, and of verification.

use super::super::score::tests::score;
use super::super::{
    Deviation, Merge, Merges, Score, TokenSequences, extend_merges, extend_sequences, verify_from,
    verify_merges, verify_sequences,
};
use super::*;
use crate::base::int::to_usize;

proptest! {
    #[test]
    fn going_on_is_having_learned_more(
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
    fn a_list_is_kept_on_other_sequences(
        (one, other) in (pretokens(), pretokens()),
        tie_break in proptest::sample::select(TIE_RULES.as_slice()),
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
    fn what_is_gone_on_with_is_learned_and_verified_from_tokens_too(
        (one, other) in (pretokens(), pretokens()),
        config in config(prop_oneof![Just(Score::Count), score()], Just(0)),
        (first, then) in (0..30usize, 0..30usize),
    ) {
        let base = learn_merges(one, &TrainConfig { merges: first, ..config.clone() }, &Silent).unwrap().merges;
        let given = base.len();
        let config = TrainConfig { merges: given + then, ..config };
        let learned = extend_merges(other.clone(), &base, &config, &Silent).unwrap();
        let sequences = carried_out(&other, &base);
        let from_tokens = extend_sequences(sequences.clone(), &base, &config, &Silent).unwrap();
        let new = |merges: &Merges| merges.iter().skip(given).copied().collect::<Vec<_>>();
        prop_assert_eq!(new(&from_tokens.merges), new(&learned.merges));
        prop_assert_eq!(from_tokens.history.last(), learned.history.last());
        let merges = &learned.merges;
        prop_assert_eq!(verify_from(&other, merges, given, &config, &Silent).unwrap(), None);
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
        let found = verify_from(&other, &lacking, given, &config, &Silent).unwrap();
        prop_assert_eq!(verify_sequences(sequences, &lacking, given, &config, &Silent).unwrap(), found);
    }

    #[test]
    fn what_was_learned_is_verified_whatever_the_ties(
        pretokens in pretokens(),
        score in prop_oneof![Just(Score::Count), score()],
        tie_break in proptest::sample::select(TIE_RULES.as_slice()),
        min_frequency in 0..4u64,
        max_token_bytes in prop_oneof![Just(None), (1..6usize).prop_map(Some)],
    ) {
        let config = TrainConfig {
            min_frequency: Count::new(min_frequency), max_token_bytes, tie_break, score, ..TrainConfig::new(60)
        };
        let learned = learn_merges(pretokens.clone(), &config, &Silent).unwrap();
        prop_assert_eq!(verify_merges(&pretokens, &learned.merges, &config, &Silent).unwrap(), None);
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
        let found = verify_merges(&pretokens, &Merges::new(merges[..=step].to_vec()), &config, &Silent).unwrap();
        if count == right_one.count {
            prop_assert_eq!(found, None);
        } else {
            let better = Some(((right_one.left, right_one.right), right_one.count));
            prop_assert_eq!(found, Some(Deviation { merge: step, chosen, count, better }));
        }
    }
}

#[test]
fn a_list_that_goes_on_when_nothing_is_left_is_wrong() {
    let pretokens: PretokenCounts = [(b"ab".as_slice(), Count::new(3))].into_iter().collect();
    let merge = |left, right| Merge { left, right, count: Count::ZERO };
    let merges = Merges::new(vec![merge(97, 98), merge(256, 99)]);
    let found = verify_merges(&pretokens, &merges, &TrainConfig::new(2), &Silent).unwrap();
    let expected = Deviation { merge: 1, chosen: (256, 99), count: Count::ZERO, better: None };
    assert_eq!(found, Some(expected));
}

/// Before the pair disappeared, it was as frequent as the best pair is now.
#[test]
fn a_pair_that_occurs_no_more_is_no_best_one() {
    let pretokens: PretokenCounts = [(b"abc".as_slice(), Count::new(3))].into_iter().collect();
    let merge = |left, right| Merge { left, right, count: Count::ZERO };
    let merges = Merges::new(vec![merge(97, 98), merge(98, 99)]);
    let found = verify_merges(&pretokens, &merges, &TrainConfig::new(2), &Silent).unwrap();
    let better = Some(((256, 99), Count::new(3)));
    assert_eq!(found, Some(Deviation { merge: 1, chosen: (98, 99), count: Count::ZERO, better }));
}

/// The sequences with merges applied in the obvious way.
fn carried_out(pretokens: &PretokenCounts, merges: &Merges) -> TokenSequences {
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
