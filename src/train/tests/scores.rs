//! Tests of training by scores.

use super::super::score::tests::score;
use super::super::{Score, scored};
use super::*;

proptest! {
    #[test]
    fn every_score_learns_what_the_reference_learns(
        pretokens in pretokens(),
        config in config(score(), 0..60usize),
    ) {
        let expected = reference::learn_merges(&pretokens, &config);
        prop_assert_eq!(scored::learn(pretokens.clone(), &config, &Silent).unwrap(), expected.clone());
        prop_assert_eq!(learn_merges(pretokens, &config, &Silent).unwrap(), expected);
    }
}

#[test]
fn tokens_that_overflow_are_refused_by_name_whatever_the_score() {
    let config = TrainConfig { score: Score::CountLength, ..TrainConfig::new(1) };
    for pretokens in too_many_tokens() {
        let error = learn_merges(pretokens, &config, &Silent).unwrap_err();
        assert!(error.to_string().contains("too often"), "{error}");
    }
}
