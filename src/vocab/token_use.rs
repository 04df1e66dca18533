//! How often tokens are used: as they are, or only as parts of others. Tokens that are hardly ever used as they are
//! (residue) were needed on the way to longer tokens, and take up rows of a model's embedding that are hardly trained.

use std::cmp::Reverse;

use serde::Serialize;

use super::derivation::parts_of_tokens;
use super::vocabulary::Vocabulary;
use crate::base::int::{TokenId, ratio};

/// How often a token is made in a text, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TokenUse {
    /// The token's id.
    pub id: TokenId,
    /// How often it is in the encoded text.
    pub whole: u64,
    /// How often it is made and becomes part of another token.
    pub part: u64,
    /// The token that it becomes part of most often, with the lowest rank among equals. `None` if it becomes part of
    /// none.
    pub made_for: Option<TokenId>,
}

impl TokenUse {
    /// The share of the times that the token is made in which it stays in the text, from 0 to 1. 0 for a token that is
    /// never made.
    pub fn share(&self) -> f64 {
        ratio(self.whole, self.whole.saturating_add(self.part))
    }
}

/// Returns the use of every token that merges make, in ascending order of ids. `replaced` says how many pairs each
/// merge replaced, in order of rank, as [`Learned::replaced`](crate::train::Learned::replaced) and
/// `TrainingRecord::replaced` do.
///
/// O(number of merges and ids) in time and memory.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::{LearnConfig, learn};
/// use tokenmill::source;
/// use tokenmill::vocab::token_uses;
///
/// let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// let (vocabulary, learned) = learn(texts, &LearnConfig::new(300, &[]), &Silent)?;
/// let uses = token_uses(&vocabulary, &learned.replaced);
/// let ch = vocabulary.id_of(b"ch").expect("a learned token");
/// let ch = uses.iter().find(|one| one.id == ch).expect("a merge makes it");
/// assert_eq!((ch.whole, ch.part), (1, 2)); // in "much", and twice in "chuck"
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn token_uses(vocabulary: &Vocabulary, replaced: &[u64]) -> Vec<TokenUse> {
    let merges = vocabulary.merges().iter().zip(replaced);
    let steps = merges.map(|(merge, &count)| (merge.result, [merge.left, merge.right], count));
    uses_in_steps(vocabulary, steps)
}

/// Returns the use of every token that merges make in a text, in ascending order of ids. `counts` says for each id how
/// often it is in the encoded text.
///
/// A token is always made of the same two tokens, so the counts determine how often each token was made. Tokens that
/// are looked up without merging have no parts. O(n log n) in the length of each token.
pub fn token_uses_in(vocabulary: &Vocabulary, counts: &[u64]) -> Vec<TokenUse> {
    let parts = parts_of_tokens(vocabulary);
    let mut made = counts.to_vec();
    made.resize(vocabulary.id_limit(), 0);
    let length = |id: &TokenId| vocabulary.bytes(*id).map_or(0, <[u8]>::len);
    let mut steps: Vec<(TokenId, [TokenId; 2], u64)> = Vec::new();
    let tokens = parts.iter().enumerate().map(|(id, parts)| (TokenId::from_index(id), parts));
    steps.extend(tokens.filter_map(|(id, parts)| Some((id, (*parts)?, 0))));
    // A token is shorter than the tokens that it is a part of, so these come first.
    steps.sort_by_key(|(id, ..)| Reverse(length(id)));
    for (id, parts, count) in &mut steps {
        *count = made[id.index()];
        for part in parts {
            let made = &mut made[part.index()];
            *made = made.saturating_add(*count);
        }
    }
    steps.sort_by_key(|(id, ..)| *id);
    uses_in_steps(vocabulary, steps.into_iter())
}

/// Returns the uses of the tokens that these steps make. A step has a token, the parts of which it is made, and how
/// often that happens.
fn uses_in_steps(
    vocabulary: &Vocabulary,
    steps: impl Iterator<Item = (TokenId, [TokenId; 2], u64)>,
) -> Vec<TokenUse> {
    let unused = |id| TokenUse { id: TokenId::from_index(id), whole: 0, part: 0, made_for: None };
    let mut uses: Vec<TokenUse> = (0..vocabulary.id_limit()).map(unused).collect();
    let mut is_made = vec![false; uses.len()];
    let mut most = vec![0; uses.len()];
    for (result, parts, count) in steps {
        is_made[result.index()] = true;
        // All times that the token is made, until its use as a part is known.
        let made = &mut uses[result.index()].whole;
        *made = made.saturating_add(count);
        for part in parts.map(TokenId::index) {
            uses[part].part = uses[part].part.saturating_add(count);
            if count > most[part] {
                most[part] = count;
                uses[part].made_for = Some(result);
            }
        }
    }
    for one in &mut uses {
        one.whole = one.whole.saturating_sub(one.part);
    }
    uses.into_iter().zip(is_made).filter(|(_, is_made)| *is_made).map(|(one, _)| one).collect()
}

/// The tokens of a vocabulary that a text hardly uses as they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residue {
    /// The [share](TokenUse::share) below which a token is listed.
    pub floor: f64,
    /// The number of tokens that merges make in the text.
    pub of: usize,
    /// The tokens below the floor, by ascending share, and then by ids.
    pub tokens: Vec<TokenUse>,
}

impl Residue {
    /// The share (0.01) below which tokens are listed unless another floor is asked for.
    pub const DEFAULT_FLOOR: f64 = 0.01;
}

impl Residue {
    /// Returns the tokens whose [share](TokenUse::share) is below `floor`. Tokens that are not made at all are left
    /// out: in a short text, most are not.
    ///
    /// The measure is R = F1 / (F1 + F2) of arXiv 2602.04706: F1 is the number of uses in the encoded text, and F2 that
    /// as a part of other tokens.
    pub fn new(uses: Vec<TokenUse>, floor: f64) -> Residue {
        let made: Vec<TokenUse> = uses.into_iter().filter(|one| one.whole > 0 || one.part > 0).collect();
        let of = made.len();
        let mut tokens: Vec<TokenUse> = made.into_iter().filter(|one| one.share() < floor).collect();
        tokens.sort_by(|one, other| one.share().total_cmp(&other.share()).then(one.id.cmp(&other.id)));
        Residue { floor, of, tokens }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::{Count, to_u64};
    use crate::count::PretokenCounts;
    use crate::encode::reference;
    use crate::observer::Silent;
    use crate::split::SplitPattern;
    use crate::train::{Score, TieBreak, TrainConfig, learn_merges};
    use crate::vocab::SpecialTokensAt;

    proptest! {
        /// The uses after training are those in the encoding of the training text, also of pairs that overlap. They are
        /// the same for all ways to train.
        #[test]
        fn uses_are_those_of_the_encoded_text(
            words in vec(("[ab]{1,12}", 1..9u64), 1..8), merges in 0..12usize, by_score in any::<bool>(),
        ) {
            let pretokens: PretokenCounts =
                words.iter().map(|(word, count)| (word.as_bytes(), Count::new(*count))).collect();
            let score = if by_score { Score::CountLength } else { Score::Count };
            let tie_break = if by_score { TieBreak::BytesGreatest } else { TieBreak::Ids };
            let config = TrainConfig { score, tie_break, ..TrainConfig::new(merges) };
            let learned = learn_merges(pretokens.clone(), &config, &Silent).expect("a few words");
            let expected = crate::train::reference::learn_merges(&pretokens, &config);
            prop_assert_eq!(&learned.replaced, &expected.replaced);
            let vocabulary =
                Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, SplitPattern::None);
            let vocabulary = vocabulary.expect("learned merges");
            let mut counts = vec![0; vocabulary.id_limit()];
            for (word, count) in pretokens.iter() {
                reference::encode_pretoken(&vocabulary, word).iter().for_each(|id| counts[id.index()] += count.get());
            }
            let uses = token_uses(&vocabulary, &learned.replaced);
            prop_assert_eq!(uses.len(), learned.merges.len());
            for one in &uses {
                prop_assert_eq!(one.whole, counts[one.id.index()], "token {}", one.id);
            }
            let again = token_uses_in(&vocabulary, &counts);
            let figures = |one: &TokenUse| (one.id, one.whole, one.part);
            prop_assert_eq!(again.iter().map(figures).collect::<Vec<_>>(), uses.iter().map(figures).collect::<Vec<_>>());
            let residue = Residue::new(uses.clone(), 0.5);
            let below = uses.iter().filter(|one| one.whole < one.part).count();
            prop_assert_eq!(to_u64(residue.tokens.len()), to_u64(below));
        }
    }
}
