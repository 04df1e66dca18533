//! BPE-dropout (Provilkov et al., 2020): encoding that leaves out merges at random, so that a model sees the same text
//! cut in several ways.
//!
//! **Definition.** A pre-token is first its bytes. At each step, each possible merge, which is an adjacent pair of
//! tokens in the merge list, is left out with probability p, independently of all others and of earlier steps. Of
//! those that remain, the merge of lowest rank is carried out, the leftmost if several have it. The pre-token ends when
//! none remains. With p = 0 this is plain encoding, and with p = 1 each byte is a token.
//!
//! A merge that would not be chosen anyway need not be drawn. So the possible merges are drawn in order, until one
//! stays: this has the same distribution.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::merge::{HeapMerger, MergeTable, SHORT, ShortPart};
use crate::base::int::TokenId;
use crate::base::random::{SeededRandom, mix};
use crate::error::{Error, Result};
use crate::observer::Observer;

/// A probability from 0 to 1.
///
/// ```
/// use tokenmill::encode::Probability;
///
/// let probability: Probability = "0.1".parse()?;
/// assert_eq!(probability.get(), 0.1);
/// assert!("1.5".parse::<Probability>().is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Probability(f64);

/// A probability is a number, so it is equal to itself.
impl Eq for Probability {}

impl Probability {
    /// The probability as a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Probability {
    type Error = Error;

    /// # Errors
    /// The number is not from 0 to 1.
    fn try_from(number: f64) -> Result<Probability> {
        if (0.0..=1.0).contains(&number) {
            return Ok(Probability(number + 0.0)); // −0 becomes 0
        }
        Err(Error::usage(format!("{number} is not a probability: it must be a number from 0 to 1")))
    }
}

impl From<Probability> for f64 {
    fn from(probability: Probability) -> f64 {
        probability.0
    }
}

impl FromStr for Probability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Probability> {
        let number = text.parse::<f64>().map_err(|_| {
            Error::usage(format!("{text:?} is not a probability: it must be a number from 0 to 1"))
        })?;
        Probability::try_from(number)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How merges are left out at random: BPE-dropout.
///
/// At each step, each possible merge of a pre-token is left out with [`probability`](Dropout::probability),
/// independently of the others. Of those that remain, the merge of lowest rank is carried out, the leftmost first. The
/// pre-token ends when none remains. Probability 0 is plain encoding, and 1 leaves single bytes.
///
/// The draws depend on the seed, on the number of the document, and on the offset of the pre-token in it. So the ids
/// do not depend on threads, and equal words of a text are cut differently.
/// [`ignore_merges`](crate::vocab::Vocabulary::ignore_merges) has no effect, as in Hugging Face's tokenizers.
///
/// ```
/// use tokenmill::Tokenizer;
/// use tokenmill::encode::{Dropout, EncodeConfig};
/// # use tokenmill::{count::PretokenCounts, Count, observer::Silent, split::SplitPattern};
/// # use tokenmill::{train::{TrainConfig, learn_merges}, vocab::{SpecialTokensAt, Vocabulary}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let counts: PretokenCounts = [(&b"woodchuck"[..], Count::new(2))].into_iter().collect();
/// # let merges = learn_merges(counts, &TrainConfig::new(8), &Silent)?.merges;
/// # let vocabulary = Vocabulary::from_merges(&merges, &[], SpecialTokensAt::End, SplitPattern::None)?;
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// assert_eq!(tokenizer.encode("woodchuck")?.len(), 1);
///
/// let dropout = |seed| Dropout { probability: 0.3.try_into().expect("a probability"), seed };
/// let ids = tokenizer.encode_with_dropout("woodchuck", dropout(1))?;
/// assert_eq!(ids, tokenizer.encode_with_dropout("woodchuck", dropout(1))?);
/// assert_eq!(tokenizer.decode(&ids)?, b"woodchuck");
/// let distinct: std::collections::HashSet<Vec<u32>> =
///     (0..100).map(|seed| tokenizer.encode_with_dropout("woodchuck", dropout(seed))).collect::<Result<_, _>>()?;
/// assert!(distinct.len() > 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropout {
    /// The probability that a possible merge is left out.
    pub probability: Probability,
    /// Determines the draws. Another seed gives other ids, for example for each epoch.
    pub seed: u64,
}

impl Dropout {
    /// The number of a document as the start of its random numbers: of its source, its unit in the source, and its row
    /// in the unit.
    pub(super) fn document(self, source: u64, unit: u64, row: u64) -> DocumentDropout {
        let key = [source, unit, row].into_iter().fold(mix(self.seed), |key, number| mix(key ^ number));
        DocumentDropout { key, probability: self.probability.get() }
    }
}

/// The dropout of one document.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentDropout {
    /// Depends on the seed and on the number of the document.
    key: u64,
    /// The probability that a possible merge is left out.
    probability: f64,
}

impl DocumentDropout {
    /// The draws of the pre-token at this offset in the document.
    pub(super) fn draws(self, offset: u64) -> Draws {
        Draws { random: SeededRandom::of(mix(self.key ^ offset)), probability: self.probability }
    }
}

/// The draws of one pre-token, one for each possible merge that is looked at.
#[derive(Clone)]
pub(super) struct Draws {
    random: SeededRandom,
    probability: f64,
}

impl Draws {
    /// Draws whether the next merge is left out.
    pub(super) fn leaves_out(&mut self) -> bool {
        self.random.fraction() < self.probability
    }

    /// How many of the next merges stay until one is left out, of at most `most`.
    pub(super) fn stay(mut self, most: usize) -> usize {
        (0..most).take_while(|_| !self.leaves_out()).count()
    }

    /// Whether every merge is left out.
    fn leaves_out_all(&self) -> bool {
        self.probability >= 1.0
    }
}

/// Possible merges between two checks of the observer: some tens of milliseconds.
const MERGES_A_CHECK: u32 = 1 << 16;

/// Encodes pre-tokens by merging with dropout.
///
/// A heap holds all possible merges of a pre-token of more than [`SHORT`] bytes. Those that are left out at a step are put
/// aside until a merge is carried out, and then go back. A step takes 1 / (1 − p) draws on average, until the last one.
///
/// **Memory:** 4 bytes per byte of the longest pre-token so far, and at worst 16 for the heap and the merges that are put
/// aside.
#[derive(Debug, Default)]
pub(super) struct DropoutMerger {
    /// The tokens of the pre-token. Its heap has all possible merges, not only those before their neighbours.
    merger: HeapMerger,
    /// Heap entries of the merges that are left out at this step.
    left_out: Vec<Reverse<u64>>,
}

impl DropoutMerger {
    /// Appends the tokens of a pre-token, which has fewer than [`LIMIT`](super::merge::LIMIT) bytes, to `ids`.
    ///
    /// The pre-token is merged as a whole: it ends at a step at which no merge remains, so parts that no merge crosses
    /// depend on each other.
    ///
    /// # Errors
    /// The observer asks to stop; `ids` is then unchanged.
    pub(super) fn merge(
        &mut self,
        pairs: &MergeTable,
        byte_ids: &[TokenId; 256],
        pretoken: &[u8],
        mut draws: Draws,
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        if draws.leaves_out_all() {
            ids.extend(pretoken.iter().map(|&byte| byte_ids[usize::from(byte)]));
            return Ok(());
        }
        if pretoken.len() <= SHORT {
            short(pairs, byte_ids, pretoken, draws, ids);
            return Ok(());
        }
        self.left_out.clear();
        self.merger.fill_with_all(pairs, byte_ids, pretoken);
        let (mut until_check, mut tokens) = (MERGES_A_CHECK, pretoken.len());
        while let Some((entry, step, at)) = self.merger.next(pairs) {
            until_check -= 1;
            if until_check == 0 {
                observer.checkpoint()?;
                until_check = MERGES_A_CHECK;
            }
            if draws.leaves_out() {
                self.left_out.push(entry);
                continue;
            }
            self.merger.join(at, step.result);
            tokens -= 1;
            self.merger.push_around(pairs, at, self.left_out.drain(..));
        }
        self.merger.append_tokens(tokens, ids);
        Ok(())
    }
}

/// Merges a pre-token of at most [`SHORT`] bytes with dropout. It looks at all possible merges for each draw, which is
/// faster than a heap while they are few.
fn short(
    pairs: &MergeTable,
    byte_ids: &[TokenId; 256],
    pretoken: &[u8],
    mut draws: Draws,
    ids: &mut Vec<TokenId>,
) {
    let (mut part, mut from) = (ShortPart::new(pairs, byte_ids, pretoken), 0);
    while let Some((entry, at)) = part.first_from(from) {
        from = if draws.leaves_out() {
            entry + 1
        } else {
            part.join(pairs, at);
            0
        };
    }
    part.append_tokens(ids);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::base::int::{to_f64, to_u64};
    use crate::encode::tests::{after_spaces, text, trained, vocabulary};
    use crate::encode::{EncodeConfig, Encoder, Tokenizer, reference};
    use crate::observer::Silent;
    use crate::split::{NamedPattern, SplitPattern};
    use crate::vocab::Vocabulary;

    fn dropout(probability: f64, seed: u64) -> Dropout {
        Dropout { probability: Probability::try_from(probability).expect("a probability"), seed }
    }

    fn encoder(vocabulary: Vocabulary, dropout: Dropout) -> Encoder {
        let config = EncodeConfig { dropout: Some(dropout), ..EncodeConfig::default() };
        Encoder::new(vocabulary, config).expect("any vocabulary encodes")
    }

    proptest! {
        /// The heap draws for the same merges in the same order as the definition.
        #[test]
        fn the_heap_gives_what_the_definition_gives(
            text in text(), vocabulary in vocabulary(), probability in 0.0..=1.0, seed in any::<u64>(),
        ) {
            let dropout = dropout(probability, seed);
            let mut draws = dropout.document(0, 0, 0).draws(0);
            let expected = reference::merge_with_dropout(&vocabulary, &text, || draws.leaves_out());
            let encoder = encoder(vocabulary, dropout);
            let mut ids = Vec::new();
            let draws = dropout.document(0, 0, 0).draws(0);
            DropoutMerger::default()
                .merge(&encoder.pairs, &encoder.byte_ids, &text, draws, &mut ids, &Silent)
                .expect("nobody stops it");
            prop_assert_eq!(ids, expected);
        }

        /// The worker takes the tokens of plain encoding, which it may know, where no merge is left out.
        #[test]
        fn pre_tokens_are_encoded_by_the_definition(
            text in text(), vocabulary in vocabulary(), probability in 0.0..0.5, seed in any::<u64>(),
        ) {
            let (dropout, mut start) = (dropout(probability, seed), 0);
            let mut expected = Vec::new();
            for pretoken in text.split_inclusive(|&byte| byte == b' ') {
                let mut draws = dropout.document(0, 0, 0).draws(start);
                start += to_u64(pretoken.len());
                expected.extend(reference::merge_with_dropout(&vocabulary, pretoken, || draws.leaves_out()));
            }
            let config = EncodeConfig { dropout: Some(dropout), ..EncodeConfig::default() };
            let encoder = after_spaces(&vocabulary, config);
            let mut worker = encoder.worker();
            for _ in 0..2 {
                prop_assert_eq!(worker.encode(&text).expect("any bytes encode"), &*expected);
            }
        }

        #[test]
        fn probability_0_is_plain_encoding_and_1_leaves_bytes(text in text(), vocabulary in vocabulary()) {
            let plain = Tokenizer::new(vocabulary.clone(), EncodeConfig::default()).expect("it encodes");
            prop_assert_eq!(
                plain.encode_with_dropout(&text, dropout(0.0, 3)).expect("it encodes"),
                plain.encode(&text).expect("it encodes")
            );
            let none = encoder(vocabulary.clone(), dropout(0.0, 3));
            prop_assert_eq!(none.config().dropout, None);
            let bytes: Vec<u32> = text.iter().filter_map(|&byte| vocabulary.byte_id(byte)).map(TokenId::get).collect();
            prop_assert_eq!(plain.encode_with_dropout(&text, dropout(1.0, 3)).expect("it encodes"), bytes);
        }
    }

    /// The distribution of the tokens after `ids` by the definition: each set of merges that may be left out at a step,
    /// with its probability.
    fn distribution(vocabulary: &Vocabulary, ids: &[TokenId], p: f64) -> BTreeMap<Vec<TokenId>, f64> {
        let merge_at = |at: usize| {
            let is_pair = |pair: [TokenId; 2]| pair == [ids[at], ids[at + 1]];
            vocabulary.merges().iter().find(|merge| is_pair([merge.left, merge.right]))
        };
        let possible: Vec<_> = (0..ids.len() - 1)
            .filter_map(|at| Some((merge_at(at)?.rank, at, merge_at(at)?.result)))
            .collect();
        let mut outcomes = BTreeMap::new();
        for left_out in 0..1_u32 << possible.len() {
            let is_left_out = |number: usize| left_out >> number & 1 == 1;
            let chance: f64 =
                (0..possible.len()).map(|number| if is_left_out(number) { p } else { 1.0 - p }).product();
            let remaining = possible.iter().enumerate().filter(|(number, _)| !is_left_out(*number));
            match remaining.map(|(_, merge)| *merge).min() {
                None => *outcomes.entry(ids.to_vec()).or_default() += chance,
                Some((_, at, result)) => {
                    let merged = [&ids[..at], &[result], &ids[at + 2..]].concat();
                    for (outcome, further) in distribution(vocabulary, &merged, p) {
                        *outcomes.entry(outcome).or_default() += chance * further;
                    }
                }
            }
        }
        outcomes
    }

    /// The value that χ² with `freedom` degrees of freedom exceeds once in about 10 000 times (Wilson and Hilferty).
    fn critical(freedom: usize) -> f64 {
        let d = to_f64(to_u64(freedom));
        d * (1.0 - 2.0 / (9.0 * d) + 3.719 * (2.0 / (9.0 * d)).sqrt()).powi(3)
    }

    #[test]
    fn the_distribution_is_that_of_the_definition() {
        const DRAWN: u32 = 100_000;
        let vocabulary = trained(b"abcabdabc abcab ababab aaaaaa", SplitPattern::None);
        let mut distinct = 0;
        for (text, probability) in [("abcab", 0.1), ("ababab", 0.5), ("aaaaa", 0.3), ("abab ab", 0.9)] {
            let bytes: Vec<TokenId> =
                text.bytes().map(|byte| vocabulary.byte_id(byte).expect("every byte has one")).collect();
            let expected = distribution(&vocabulary, &bytes, probability);
            assert!((expected.values().sum::<f64>() - 1.0).abs() < 1e-9);
            let encoder = encoder(vocabulary.clone(), dropout(probability, 20));
            let mut worker = encoder.worker();
            let mut drawn: BTreeMap<Vec<TokenId>, u64> = BTreeMap::new();
            for number in 0..DRAWN {
                worker.set_document(0, 0, number.into());
                *drawn.entry(worker.encode(text.as_bytes()).expect("it encodes").to_vec()).or_default() += 1;
            }
            assert!(drawn.keys().all(|ids| expected.contains_key(ids)), "{text}: only possible tokens");
            // Rare outcomes count together.
            let (mut rare, mut statistic, mut cells) = ((0.0, 0.0), 0.0, 0);
            let mut add = |seen: f64, expected: f64| {
                statistic += (seen - expected).powi(2) / expected;
                cells += 1;
            };
            for (ids, chance) in &expected {
                let (seen, expected) =
                    (to_f64(drawn.get(ids).copied().unwrap_or(0)), chance * f64::from(DRAWN));
                if expected < 10.0 {
                    rare = (rare.0 + seen, rare.1 + expected);
                } else {
                    add(seen, expected);
                }
            }
            if rare.1 >= 10.0 {
                add(rare.0, rare.1);
            }
            let limit = critical(cells - 1);
            assert!(statistic < limit, "{text} at {probability}: χ² is {statistic}, the limit {limit}");
            distinct += cells;
        }
        assert!(distinct > 20, "{distinct} outcomes were compared");
    }

    /// Equal words in one text, equal texts in one batch, and one text with several seeds are cut differently.
    #[test]
    fn draws_differ_by_place_document_and_seed() {
        let vocabulary = trained(b"woodchuck woodchuck", SplitPattern::Named(NamedPattern::Gpt2));
        let tokenizer = |seed| {
            let config = EncodeConfig { dropout: Some(dropout(0.3, seed)), ..EncodeConfig::default() };
            Tokenizer::new(vocabulary.clone(), config).expect("it encodes")
        };
        let text = " woodchuck".repeat(50);
        let ids = tokenizer(1).encode(&text).expect("it encodes");
        assert_eq!(ids, tokenizer(1).encode(&text).expect("it encodes"));
        assert_ne!(ids, tokenizer(2).encode(&text).expect("it encodes"));
        let (first, second) = ids.split_at(ids.len() / 2);
        assert_ne!(first, second);
        let batch = tokenizer(1).encode_batch(&[&text, &text]).expect("it encodes");
        assert_eq!(batch[0], ids);
        assert_ne!(batch[1], ids);
        let plain = Tokenizer::new(vocabulary.clone(), EncodeConfig::default()).expect("it encodes");
        assert!((plain.count(&text).expect("it encodes") + 1..10 * 50).contains(&ids.len()), "{}", ids.len());
    }
}
