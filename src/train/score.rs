//! Scores of pairs, and their exact comparison.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// The quantity that training maximises: at each step the pair with the greatest score is merged.
///
/// As text a score is `count`, `count-length` or `conditional:p,q,r`. The tie rule decides between equal
/// scores, and [`min_frequency`](super::TrainConfig::min_frequency) limits the count whatever the score. Scores
/// are compared exactly, as integers that are as wide as needed.
///
/// ```
/// use tokenmill::train::{Powers, Score};
///
/// let score: Score = "conditional:2,1,1".parse()?;
/// assert_eq!(Some(score), Powers::new(2, 1, 1).map(Score::Conditional));
/// # Ok::<(), tokenmill::train::NotScore>(())
/// ```
///
/// Bytes per token on the training text after 2 000 merges, with a minimum frequency of 2:
///
/// | score | Swann's Way, no split | `gpt2` | taylorswift.txt, no split | `gpt2` |
/// | --- | --- | --- | --- | --- |
/// | `count` | 3.553 | 3.268 | 4.232 | 3.405 |
/// | `count-length` | 3.440 | 3.187 | 3.319 | 3.287 |
/// | `conditional:3,1,1` | 3.428 | 3.136 | 3.779 | 3.254 |
/// | `conditional:2,1,0` | 3.277 | 2.930 | 3.667 | 2.810 |
/// | `conditional:2,1,1` | 2.915 | 2.883 | 3.104 | 2.594 |
/// | `conditional:3,2,2` | 1.935 | 1.918 | 2.083 | 2.030 |
/// | `conditional:1,1,1` | 1.030 | 1.080 | 1.313 | 1.519 |
///
/// So merging the most frequent pair at each step also compresses best in the end. `count-length` prefers long
/// repeated passages. Conditional scores prefer rare tokens that seldom occur apart; with (1, 1, 1) they merge
/// tokens that occur twice, always together. Each figure is `training.tokens_before` divided by
/// `training.tokens_after`, as `out/report.json` has them after a command like
///
/// ```text
/// tokenmill train swanns-way.txt -o out --merges 2000 --split none --score count-length
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Score {
    /// How often the pair occurs. This is standard byte-pair encoding.
    #[default]
    Count,
    /// How often the pair occurs, times the length of its token in bytes minus one. These are the bytes that
    /// the merge would save if each byte of the pair were a token of its own.
    CountLength,
    /// How often the pair occurs in proportion to its tokens: count(lr)^p / (count(l)^q × count(r)^r), with the
    /// counts of the tokens in the current text.
    Conditional(Powers),
}

/// The powers p, q and r of [`Score::Conditional`], each from 0 to 3. (1, 0, 0) orders pairs as
/// [`Score::Count`] does, and (1, 1, 1) is the likelihood score of WordPretoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedPowers")]
pub struct Powers {
    /// Power of the pair's count.
    p: u8,
    /// Power of the left token's count.
    q: u8,
    /// Power of the right token's count.
    r: u8,
}

/// The greatest power.
const MOST: u8 = 3;

/// Maximum number of factors in a product that is compared: three powers of at most three.
const FACTORS: usize = 9;

/// Powers as they are deserialized, before the check against [`MOST`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedPowers {
    p: u8,
    q: u8,
    r: u8,
}

/// The error for text that is not a score, and for powers above 3.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a score; the scores are count, count-length and conditional:p,q,r with p, q and r from 0 to {MOST}"
)]
pub struct NotScore {
    text: String,
}

impl From<NotScore> for Error {
    fn from(wrong: NotScore) -> Error {
        Error::new(ErrorKind::Usage, wrong)
    }
}

impl Powers {
    /// The powers of the pair's count, of the left token's count and of the right token's. `None` if one is
    /// above 3.
    pub fn new(p: u8, q: u8, r: u8) -> Option<Powers> {
        [p, q, r].iter().all(|power| *power <= MOST).then_some(Powers { p, q, r })
    }
}

impl TryFrom<UncheckedPowers> for Powers {
    type Error = NotScore;

    fn try_from(UncheckedPowers { p, q, r }: UncheckedPowers) -> Result<Powers, NotScore> {
        Powers::new(p, q, r).ok_or_else(|| NotScore { text: format!("conditional:{p},{q},{r}") })
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Score::Count => f.write_str("count"),
            Score::CountLength => f.write_str("count-length"),
            Score::Conditional(Powers { p, q, r }) => write!(f, "conditional:{p},{q},{r}"),
        }
    }
}

impl FromStr for Score {
    type Err = NotScore;

    fn from_str(text: &str) -> Result<Score, NotScore> {
        let conditional = || {
            let powers = text.strip_prefix("conditional:")?.split(',');
            let powers: Vec<u8> = powers.map(|power| power.trim().parse().ok()).collect::<Option<_>>()?;
            let [p, q, r] = powers[..] else { return None };
            Powers::new(p, q, r).map(Score::Conditional)
        };
        match text {
            "count" => Ok(Score::Count),
            "count-length" => Ok(Score::CountLength),
            _ => conditional().ok_or_else(|| NotScore { text: text.to_owned() }),
        }
    }
}

/// The quantities from which scores are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measures {
    /// How often the pair occurs.
    pub(super) count: u64,
    /// How often its left token occurs in the text.
    pub(super) left: u64,
    /// How often its right token occurs in the text.
    pub(super) right: u64,
    /// Length in bytes of the token that it would make.
    pub(super) bytes: u64,
}

impl Score {
    /// Compares the scores of two pairs exactly: [`Ordering::Greater`] if `one` has the greater score.
    pub(super) fn compare(self, one: &Measures, two: &Measures) -> Ordering {
        let saved = |pair: &Measures| u128::from(pair.count) * u128::from(pair.bytes - 1);
        match self {
            Score::Count => one.count.cmp(&two.count),
            Score::CountLength => saved(one).cmp(&saved(two)),
            // Instead of dividing, each side is multiplied by the other's denominator.
            Score::Conditional(powers) => {
                compare_products(&powers.factors(one.count, two), &powers.factors(two.count, one))
            }
        }
    }

    /// Whether the score of a pair depends on the count of its left token, and on that of its right token.
    pub(super) fn depends_on_tokens(self) -> (bool, bool) {
        match self {
            Score::Count | Score::CountLength => (false, false),
            Score::Conditional(Powers { q, r, .. }) => (q > 0, r > 0),
        }
    }
}

impl Powers {
    /// The powers p, q and r.
    pub(super) fn values(self) -> [u8; 3] {
        [self.p, self.q, self.r]
    }

    /// The factors on a pair's side of the comparison: its count, and the counts of the other pair's tokens.
    /// Unused factors are 1.
    fn factors(self, count: u64, other: &Measures) -> [u64; FACTORS] {
        let mut factors = [1; FACTORS];
        let powers = [(count, self.p), (other.left, self.q), (other.right, self.r)];
        let all = powers.iter().flat_map(|&(number, power)| std::iter::repeat_n(number, usize::from(power)));
        factors.iter_mut().zip(all).for_each(|(factor, number)| *factor = number);
        factors
    }
}

/// Compares the products of two lists of factors.
fn compare_products(one: &[u64; FACTORS], two: &[u64; FACTORS]) -> Ordering {
    match (narrow_product(one), narrow_product(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => wide_product(one).iter().rev().cmp(wide_product(two).iter().rev()),
    }
}

/// The product if it fits 128 bits, as it does for most texts.
fn narrow_product(factors: &[u64; FACTORS]) -> Option<u128> {
    factors.iter().try_fold(1_u128, |product, &factor| product.checked_mul(u128::from(factor)))
}

/// The product as limbs of 64 bits, lowest first. It fits, because each factor has 64 bits.
fn wide_product(factors: &[u64; FACTORS]) -> [u64; FACTORS] {
    let mut product = [0_u64; FACTORS];
    product[0] = 1;
    for &factor in factors {
        let mut carry = 0;
        for limb in &mut product {
            (*limb, carry) = limb.carrying_mul(factor, carry);
        }
        debug_assert!(carry == 0, "nine factors of 64 bits fit nine limbs");
    }
    product
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::train::reference;

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
    pub(in crate::train) fn score() -> impl Strategy<Value = Score> {
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
        for text in
            ["", "Count", "conditional", "conditional:1,1", "conditional:1,1,4", "conditional:1,1,1,1"]
        {
            assert!(text.parse::<Score>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Score>(r#"{"conditional":{"p":1,"q":4,"r":1}}"#).is_err());
    }
}
