use rustc_hash::FxHashMap;

use super::replay::{Replayed, replay};
use super::scored::Learner;
use super::text::Text;
use super::{Merges, TokenSequences, TrainConfig};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::units::{Count, amount};

/// A merge of a list where a better pair existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// How many merges came before.
    pub merge: usize,
    /// The pair that the list merges, as training numbers tokens.
    pub chosen: (u32, u32),
    /// How often it occurred then.
    pub count: Count,
    /// The best pair and how often it occurred; `None` if there was none left to merge.
    pub better: Option<((u32, u32), Count)>,
}

/// Replays merges on sequences, and tells the first that was not the best at its step: whose score is
/// lower than the greatest of all pairs. Which one of equals is taken does not matter, and so the merges
/// of any program can be checked: [`Vocabulary::merge_list`](crate::Vocabulary::merge_list) gives those of a file.
///
/// Of `config` the score, the least frequency and the longest token say what could have been merged.
///
/// **Memory:** [`verify_memory_estimate`](super::verify_memory_estimate).
///
/// # Errors
/// The text has too many positions, which are its bytes and one more for each sequence: fewer than 2³² can be numbered
/// ([`ErrorKind::Memory`](crate::ErrorKind::Memory)); a count does not fit 64 bits; the observer wants to stop.
pub fn verify_merges(
    pieces: &PieceCounts,
    merges: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    verify_from(pieces, merges, 0, config, observer)
}

/// The same of those merges alone that come after the first `given`, which are carried out as they stand: they were learned
/// from other text, as those of a tokenizer that [was gone on from](super::extend_merges).
///
/// # Errors
/// As those of [`verify_merges`].
pub fn verify_from(
    pieces: &PieceCounts,
    merges: &Merges,
    given: usize,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    observer.started(Stage::Replay, Some(amount(merges.len())));
    let replayed = match given {
        0 => Replayed { text: Text::new(pieces)?, merges: Vec::new(), history: Vec::new() },
        _ => replay(pieces, &merges.first(given), config, Stage::Replay, observer)?,
    };
    verify(replayed, merges, config, observer)
}

/// The same of sequences that the first `given` merges have encoded already.
///
/// # Errors
/// As those of [`verify_merges`].
pub fn verify_sequences(
    sequences: TokenSequences,
    merges: &Merges,
    given: usize,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    observer.started(Stage::Replay, Some(amount(merges.len())));
    let replayed = Replayed::of_sequences(sequences, &merges.first(given))?;
    observer.advanced(Stage::Replay, amount(given));
    verify(replayed, merges, config, observer)
}

/// Checks the merges behind those that have been carried out.
fn verify(
    replayed: Replayed,
    merges: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Option<Deviation>> {
    let Replayed { text, merges: given, .. } = replayed;
    let first = given.len();
    let mut learner = Learner::new(text, given, Vec::new(), config);
    let mut numbers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut listed = 0;
    for (number, merge) in merges.iter().enumerate().skip(first) {
        observer.checkpoint()?;
        numbers.extend((listed..learner.known()).map(|pair| (learner.tokens(pair), pair)));
        listed = learner.known();
        let chosen = (merge.left, merge.right);
        match numbers.get(&chosen).copied().filter(|&pair| learner.is_best(pair)) {
            Some(pair) => learner.merge(pair),
            None => {
                let better = learner.best().map(|best| (learner.tokens(best), learner.count(best)));
                observer.finished(Stage::Replay);
                return Ok(Some(Deviation {
                    merge: number,
                    chosen,
                    count: learner.count_of(chosen),
                    better,
                }));
            }
        }
        observer.advanced(Stage::Replay, 1);
    }
    observer.finished(Stage::Replay);
    Ok(None)
}
