//! Checks that every merge of a list was the best at its step.

use rustc_hash::FxHashMap;

use super::corpus::{CompactWeight, Corpus, TokenSequences};
use super::extend::{replay, replayed};
use super::scores::ScoreTrainer;
use super::{MergeLog, Merges, TrainConfig};
use crate::base::int::Count;
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// A merge in a list at which a better pair existed.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, learn_merges, verify_merges};
///
/// let words = |word: &[u8]| -> PretokenCounts { [(word, Count::new(5))].into_iter().collect() };
/// let config = TrainConfig::new(1);
/// let merges = learn_merges(words(b"xy"), &config, &Silent)?.merges;
/// let deviation = verify_merges(&words(b"ababxy"), &merges, 0, &config, &Silent)?.unwrap();
/// assert_eq!((deviation.merge, deviation.count.get()), (0, 5));
/// assert_eq!(deviation.better, Some(((97, 98), Count::new(10))));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Index of the merge in the list.
    pub merge: usize,
    /// The pair that the list merges, with the ids of training.
    pub chosen: (u32, u32),
    /// How often that pair occurred at this step.
    pub count: Count,
    /// The best pair and how often it occurred; `None` if no pair was left to merge.
    pub better: Option<((u32, u32), Count)>,
}

/// Replays merges on sequences and returns the first merge that was not the best at its step: a pair with a
/// greater score existed. It does not matter which of several pairs with equal scores the list takes, so the
/// merges of any program can be checked. [`Vocabulary::merge_list`](crate::Vocabulary::merge_list) gives the
/// merges of a tokenizer file.
///
/// The first `given` merges are applied without a check: they were learned from other text, as those of a tokenizer
/// that was [extended](super::extend_merges).
///
/// Of `config`, the score, the minimum frequency and the maximum token length decide which pairs could have
/// been merged.
///
/// **Memory:** [`verify_memory_estimate`](super::verify_memory_estimate).
///
/// # Errors
/// The same as [`learn_merges`](super::learn_merges).
///
/// # Examples
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, learn_merges, verify_merges};
///
/// let words: [(&[u8], _); 2] = [(b"low", Count::new(5)), (b"lower", Count::new(2))];
/// let words = PretokenCounts::from_iter(words);
/// let config = TrainConfig::new(3);
/// let learned = learn_merges(words.clone(), &config, &Silent)?;
/// assert_eq!(verify_merges(&words, &learned.merges, 0, &config, &Silent)?, None);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn verify_merges(
    pretokens: &PretokenCounts,
    merges: &Merges,
    given: usize,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    let planned = (Stage::Replay, merges.len());
    let (corpus, log) = replay(pretokens, &merges.first(given), config, planned, observer)?;
    verify(corpus, log, merges, observer)
}

/// Like [`verify_merges`], for sequences that the first `given` merges have already encoded.
///
/// # Errors
/// The same as [`verify_merges`].
pub fn verify_sequences(
    sequences: TokenSequences,
    merges: &Merges,
    given: usize,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    let planned = (Stage::Replay, merges.len());
    let (corpus, log) = replayed(sequences, &merges.first(given), config, planned, observer)?;
    verify(corpus, log, merges, observer)
}

/// Checks the merges after those that have been applied.
fn verify(
    corpus: Corpus<CompactWeight>,
    log: MergeLog<'_>,
    merges: &Merges,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    let first = log.merges.len();
    let mut trainer = ScoreTrainer::new(corpus, log, observer)?;
    let mut numbers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut listed = 0;
    for (number, merge) in merges.iter().enumerate().skip(first) {
        observer.checkpoint()?;
        numbers.extend((listed..trainer.pair_count()).map(|pair| (trainer.tokens(pair), pair)));
        listed = trainer.pair_count();
        let chosen = (merge.left, merge.right);
        match numbers.get(&chosen).copied().filter(|&pair| trainer.is_best(pair)) {
            Some(pair) => trainer.merge(pair),
            None => {
                let better = trainer.best().map(|best| (trainer.tokens(best), trainer.count(best)));
                trainer.finished(observer);
                return Ok(Some(Deviation {
                    merge: number,
                    chosen,
                    count: trainer.count_of(chosen),
                    better,
                }));
            }
        }
        trainer.report(observer);
    }
    trainer.finished(observer);
    Ok(None)
}
