//! The tokenizer that a training extends: how it prepares text, how its merges encode text, and how it was trained.

use std::path::Path;
use std::sync::Arc;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;
use serde_json::{Value, json};

use super::lists::{record_of, to_extend};
use super::plan::TrainPlan;
use crate::base::int::{Count, to_u64};
use crate::count::{Prepare, Prepared, PretokenCounts};
use crate::encode::{Part, Preparation, SpecialPolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::train::{Learned, Merge, Merges, TokenSequences, extend_merges, extend_sequences};
use crate::vocab::{GivenMerges, Vocabulary};

/// The tokenizer that a training extends.
pub(super) struct Base {
    pub(super) vocabulary: Vocabulary,
    pub(super) given: GivenMerges,
    /// The stages in which it was trained, as far as they are recorded; see [`stages`].
    stages: Vec<Value>,
}

/// The key in a record's settings for the stages of a training that extended another. Each stage holds the number of
/// merges before it, and the rules by which its own merges were learned.
pub(super) const STAGES: &str = "stages";

/// The key in a stage for the number of merges before it.
pub(super) const MERGES_BEFORE: &str = "merges_before";

impl Base {
    /// Loads the tokenizer that a plan extends; `None` if it extends none.
    ///
    /// # Errors
    /// The tokenizer or its record cannot be read, its files do not say how text is split, or the special tokens of
    /// the plan cannot be added to it.
    pub(super) fn load(train: &TrainPlan, observer: &dyn Observer) -> Result<Option<Base>> {
        let Some(path) = train.extend_at.as_ref().or(train.extend.as_ref()) else { return Ok(None) };
        let before = to_extend(path, Some(&train.split), observer)?;
        let stages = stages(path, &before)?;
        let vocabulary = before.with_special_tokens(&train.specials)?;
        let given = vocabulary.given_merges(vocabulary.merges().len())?;
        Ok(Some(Base { vocabulary, given, stages }))
    }

    /// Learns further merges after those of the tokenizer, from pre-tokens with their counts.
    ///
    /// # Errors
    /// - Errors of learning, for example if the observer asks to stop.
    /// - The text has more bytes than 64 bits can count.
    pub(super) fn learn(
        &self,
        pretokens: PretokenCounts,
        train: &TrainPlan,
        observer: &dyn Observer,
    ) -> Result<Learned> {
        let pretokens = of_known_bytes(pretokens, &self.vocabulary);
        let Some((sequences, counts)) = encoded(&pretokens, &self.given, observer)? else {
            return extend_merges(pretokens, self.given.merges(), &train.config, observer);
        };
        drop(pretokens);
        let counted = |(merge, count): (&Merge, u64)| Merge { count: Count::new(count), ..*merge };
        let merges = Merges::new(self.given.merges().iter().zip(counts).map(counted).collect());
        extend_sequences(sequences, &merges, &train.config, observer)
    }

    /// The stages of the tokenizer, followed by the stage that a plan describes.
    pub(super) fn stages(&self, train: &TrainPlan) -> Vec<Value> {
        let mut stages = self.stages.clone();
        stages.push(json!({
            MERGES_BEFORE: self.vocabulary.merges().len(),
            "boundary": train.boundary,
            "min_frequency": train.config.min_frequency,
            "max_token_bytes": train.config.max_token_bytes,
            "tie_break": train.config.tie_break,
            "score": train.config.score,
        }));
        stages
    }
}

/// The stages in which a tokenizer was trained. A tokenizer without a record, or with a record without stages, has
/// one stage with all merges.
///
/// # Errors
/// The record is damaged.
pub(super) fn stages(path: &Path, vocabulary: &Vocabulary) -> Result<Vec<Value>> {
    let Some(record) = record_of(path, vocabulary)? else { return Ok(vec![json!({ MERGES_BEFORE: 0 })]) };
    if let Some(stages) = record.settings[STAGES].as_array() {
        return Ok(stages.clone());
    }
    let mut only = json!({ MERGES_BEFORE: 0 });
    for rule in ["boundary", "min_frequency", "max_token_bytes", "tie_break", "score"] {
        if let Some(value) = record.settings.get(rule) {
            only[rule] = value.clone();
        }
    }
    Ok(vec![only])
}

/// How a tokenizer prepares text before it is split, if it does more than find special tokens the way training does.
///
/// # Errors
/// The tokenizer has more added tokens than can be searched for.
pub(super) fn preparation(vocabulary: &Vocabulary) -> Result<Option<Arc<dyn Prepare>>> {
    if !vocabulary.prepares_text() {
        return Ok(None);
    }
    let preparation = Preparation::new(vocabulary, SpecialPolicy::Allow)?;
    Ok(preparation.map(|preparation| -> Arc<dyn Prepare> { Arc::new(AsEncoded(preparation)) }))
}

/// Prepares text for counting as encoding does.
struct AsEncoded(Preparation);

impl std::fmt::Debug for AsEncoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsEncoded").finish_non_exhaustive()
    }
}

impl Prepare for AsEncoded {
    fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()> {
        self.0.each(text, &mut |part| match part {
            Part::Text(text) => take(Prepared::Text(text)),
            Part::Token(token) => take(Prepared::Token(token.text.as_bytes())),
        })
    }
}

/// Cuts pre-tokens at the bytes for which a tokenizer has no token: no merge contains them.
pub(super) fn of_known_bytes(pretokens: PretokenCounts, vocabulary: &Vocabulary) -> PretokenCounts {
    let missing = vocabulary.missing_bytes();
    if missing.is_empty() {
        return pretokens;
    }
    let parts = |(pretoken, count): (&[u8], Count)| {
        let parts = pretoken.split(|byte| missing.contains(byte)).map(<[u8]>::to_vec);
        parts.map(move |part| (part, count)).collect::<Vec<_>>()
    };
    let mut known = PretokenCounts::new();
    pretokens.iter().flat_map(parts).for_each(|(part, count)| known.push(&part, count));
    known
}

/// Encodes pre-tokens by given merges. Returns the sequences, and how often each given merge was applied. `None` if
/// the merges form a plain list, which can be applied merge by merge instead.
///
/// The work is divided among the threads of the current pool.
///
/// # Errors
/// - The observer asks to stop.
/// - The text has more bytes than 64 bits can count.
pub(super) fn encoded(
    pretokens: &PretokenCounts,
    given: &GivenMerges,
    observer: &dyn Observer,
) -> Result<Option<(TokenSequences, Vec<u64>)>> {
    /// Number of pre-tokens between two checks whether the observer asks to stop.
    const PIECES_A_CHECK: usize = 1 << 10;
    if given.encoder().is_none() {
        return Ok(None);
    }
    let all: Vec<(&[u8], Count)> = pretokens.iter().collect();
    let share = all.len().div_ceil(rayon::current_num_threads()).max(1);
    let encode = |pretokens: &[(&[u8], Count)]| -> Result<(TokenSequences, Vec<u64>)> {
        let mut sequences = TokenSequences::default();
        let Some(mut encoder) = given.encoder() else { return Ok((sequences, Vec::new())) };
        for (number, &(pretoken, count)) in pretokens.iter().enumerate() {
            if number % PIECES_A_CHECK == 0 {
                observer.checkpoint()?;
            }
            let bytes = count.get().checked_mul(to_u64(pretoken.len()));
            let sum = bytes.and_then(|bytes| sequences.bytes.checked_add(bytes));
            sequences.bytes =
                sum.ok_or_else(|| Error::new(ErrorKind::Failed, super::fault::Fault::TooMuchText))?;
            if encoder.append(pretoken, count, &mut sequences.tokens) {
                sequences.ends.push(sequences.tokens.len());
                sequences.counts.push(count);
            } else {
                sequences.alone += count.get();
            }
        }
        Ok((sequences, encoder.into_counts()))
    };
    let shares: Vec<_> = all.par_chunks(share).map(encode).collect();
    let (mut sequences, mut counts) = (TokenSequences::default(), vec![0; given.given()]);
    for encoded in shares {
        let (part, merged) = encoded?;
        let start = sequences.tokens.len();
        sequences.tokens.extend(part.tokens);
        sequences.ends.extend(part.ends.iter().map(|end| start + end));
        sequences.counts.extend(part.counts);
        sequences.alone = sequences.alone.saturating_add(part.alone);
        sequences.bytes = sequences.bytes.saturating_add(part.bytes);
        counts
            .iter_mut()
            .zip(merged)
            .for_each(|(sum, merged): (&mut u64, u64)| *sum = sum.saturating_add(merged));
    }
    Ok(Some((sequences, counts)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::{TokenId, to_usize};
    use crate::encode::reference::encode_pretoken;
    use crate::observer::Silent;
    use crate::vocab::{RankedMerge, VocabularyParts};

    /// A vocabulary of the bytes and these texts as tokens, in order. Every way to join two tokens into one is a
    /// merge. Each merge has its own rank, or all merges that make one token share a rank.
    fn vocabulary(texts: &[String], one_rank: bool, ignore_merges: bool) -> Vocabulary {
        let mut tokens: Vec<Box<[u8]>> = (0..=255).map(|byte| Box::from([byte])).collect();
        for text in texts {
            if !tokens.iter().any(|token| **token == *text.as_bytes()) {
                tokens.push(text.as_bytes().into());
            }
        }
        let find = |bytes: &[u8]| tokens.iter().position(|token| **token == *bytes);
        let mut merges = Vec::new();
        for (number, token) in tokens.iter().enumerate() {
            for middle in 1..token.len() {
                let (left, right) = token.split_at(middle);
                if let (Some(left), Some(right)) = (find(left), find(right)) {
                    let [left, right, result] = [left, right, number].map(TokenId::from_index);
                    let rank =
                        if one_rank { result.get() } else { u32::try_from(merges.len()).expect("few") };
                    merges.push(RankedMerge { left, right, result, rank });
                }
            }
        }
        let tokens = (0..).map(TokenId::from_index).zip(tokens).collect();
        Vocabulary::new(VocabularyParts { tokens, merges, ignore_merges, ..VocabularyParts::default() })
            .expect("tokens of parts that are there")
    }

    /// A pre-token after all merges, applied one after another.
    fn carried_out(given: &GivenMerges, pretoken: &[u8]) -> Vec<TokenId> {
        let mut tokens: Vec<u32> = pretoken.iter().map(|&byte| u32::from(byte)).collect();
        for (merge, token) in given.merges().iter().zip(256..) {
            let mut at = 0;
            while at + 1 < tokens.len() {
                if (tokens[at], tokens[at + 1]) == (merge.left, merge.right) {
                    tokens.splice(at..at + 2, [token]);
                }
                at += 1;
            }
        }
        tokens.into_iter().map(|token| given.ids()[to_usize(token)]).collect()
    }

    proptest! {
        #[test]
        fn given_merges_make_of_a_text_what_the_tokenizer_does(
            texts in vec("[abc]{2,6}", 0..14),
            pretokens in vec("[abc]{1,12}", 1..6),
            one_rank in any::<bool>(),
            ignore_merges in any::<bool>(),
        ) {
            let vocabulary = vocabulary(&texts, one_rank, ignore_merges);
            let all = vocabulary.merges().len();
            let given = vocabulary.given_merges(all).expect("nothing is checked");
            let pretokens: PretokenCounts = pretokens.iter().map(|pretoken| (pretoken.as_bytes(), Count::new(3))).collect();
            let Some((sequences, counts)) = encoded(&pretokens, &given, &Silent).expect("few") else {
                for (pretoken, _) in pretokens.iter() {
                    prop_assert_eq!(carried_out(&given, pretoken), encode_pretoken(&vocabulary, pretoken));
                }
                return Ok(());
            };
            // Tokens are longer than their parts, and some tokens are made by no merge.
            let mut made: HashSet<TokenId> = (0..=255).map(TokenId::new).collect();
            for _ in 0..6 {
                for merge in vocabulary.merges() {
                    if made.contains(&merge.left) && made.contains(&merge.right) {
                        made.insert(merge.result);
                    }
                }
            }
            let mut start = 0;
            let mut alone = 0;
            let mut ends = sequences.ends.iter();
            for (pretoken, _) in pretokens.iter() {
                let expected = encode_pretoken(&vocabulary, pretoken);
                if expected.len() == 1 && !made.contains(&expected[0]) {
                    alone += 3;
                    continue;
                }
                let &end = ends.next().expect("a sequence");
                let found: Vec<TokenId> = sequences.tokens[start..end].iter().map(|&token| {
                    given.ids()[to_usize(token)]
                }).collect();
                prop_assert_eq!(found, expected);
                start = end;
            }
            prop_assert_eq!(sequences.alone, alone);
            let tokens = to_u64(sequences.tokens.len()) * 3 + alone;
            let whole = if ignore_merges { u64::MAX } else { counts.iter().sum::<u64>() };
            prop_assert!(whole == u64::MAX || sequences.bytes - tokens == whole, "each merge takes a token away");
            // New merges get the last ranks, and text without them is encoded as before.
            let more = given.merges().iter().copied();
            let more = Merges::new(more.chain([Merge { left: 100, right: 101, count: Count::ONE }]).collect());
            let grown = vocabulary.extended(&more).expect("its own come first");
            for (pretoken, _) in pretokens.iter() {
                prop_assert_eq!(encode_pretoken(&grown, pretoken), encode_pretoken(&vocabulary, pretoken));
            }
            prop_assert_eq!(encode_pretoken(&grown, b"de"), [TokenId::from_index(vocabulary.id_limit())]);
        }
    }
}
