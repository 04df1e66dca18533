//! Training that continues from existing merges.

use super::learn::go_on;
use super::replay::{Replayed, replay};
use super::text::Text;
use super::{HistoryPoint, Learned, Merges, Score, TrainConfig, learn_merges, scored};
use crate::base::int::{Count, to_u64};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Continues training from a list of merges: applies all merges of `base` first, however frequent they are in
/// these sequences, then learns new ones, up to [`TrainConfig::merges`] in total. If `base` is at least that
/// long, nothing new is learned.
///
/// On the sequences from which `base` was learned, the result is that of one longer training.
///
/// **Memory:** while `base` is applied, 8 bytes per byte of the sequences and 4 per occurrence of a pair that
/// it merges; after that, the memory for learning from the merged text.
/// [`extend_memory_estimate`](super::extend_memory_estimate) estimates the maximum.
///
/// # Errors
/// The same as [`learn_merges`].
///
/// # Examples
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TrainConfig, extend_merges, learn_merges};
///
/// let words: [(&[u8], _); 2] = [(b"low", Count::new(5)), (b"lower", Count::new(2))];
/// let words = PretokenCounts::from_iter(words);
/// let base = learn_merges(words.clone(), &TrainConfig::new(1), &Silent)?.merges;
/// let longer = extend_merges(words.clone(), &base, &TrainConfig::new(2), &Silent)?;
/// assert_eq!(longer, learn_merges(words, &TrainConfig::new(2), &Silent)?);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn extend_merges(
    pretokens: PretokenCounts,
    base: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    if base.is_empty() {
        return learn_merges(pretokens, config, observer);
    }
    observer.started(Stage::Train, Some(to_u64(config.merges.max(base.len()))));
    let replayed = replay(&pretokens, base, config, Stage::Train, observer)?;
    drop(pretokens);
    learn_on(replayed, config, observer)
}

/// Weighted sequences of tokens, in the order in which they first appear in the corpus: pre-tokens or documents
/// that a vocabulary has encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSequences {
    /// The tokens of all sequences, one sequence after the other, with the ids of training.
    pub tokens: Vec<u32>,
    /// End of each sequence in `tokens`.
    pub ends: Vec<usize>,
    /// Weight of each sequence: how often it occurs.
    pub counts: Vec<Count>,
    /// Number of bytes in the corpus: the sum over sequences of weight × length in bytes.
    pub bytes: u64,
    /// Number of further tokens in the corpus that are whole sequences by themselves. They are not in `tokens`,
    /// because no merge applies to them.
    pub alone: u64,
}

/// Continues training from sequences that a vocabulary has encoded: the merges of `base` come first, as given,
/// then new ones, up to [`TrainConfig::merges`] in total. This serves vocabularies with merges that cannot be
/// applied one after the other.
///
/// `base` has one merge for each of the vocabulary's own, with tokens that are bytes or made by an earlier
/// merge.
///
/// **Memory:** 16 bytes per token of the sequences; after that, the memory for learning.
///
/// # Errors
/// The same as [`learn_merges`].
pub fn extend_sequences(
    sequences: TokenSequences,
    base: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    observer.started(Stage::Train, Some(to_u64(config.merges.max(base.len()))));
    let replayed = Replayed::of_sequences(sequences, base)?;
    observer.advanced(Stage::Train, to_u64(base.len()));
    learn_on(replayed, config, observer)
}

impl Replayed {
    /// The state after `base`, for sequences that already consist of its tokens.
    pub(super) fn of_sequences(sequences: TokenSequences, base: &Merges) -> Result<Replayed> {
        let bytes = sequences.bytes;
        let text = Text::of_sequences(sequences, base)?;
        let mut history = vec![HistoryPoint { merges: 0, tokens: bytes }];
        if !base.is_empty() {
            history.push(HistoryPoint { merges: to_u64(base.len()), tokens: text.total });
        }
        Ok(Replayed { text, merges: base.iter().copied().collect(), history })
    }
}

/// Continues with lists of occurrences where the score and the tie rule allow it, otherwise by scores.
fn learn_on(replayed: Replayed, config: &TrainConfig, observer: &dyn Observer) -> Result<Learned> {
    match config.score {
        Score::Count if !config.tie_break.looks_at_bytes() => go_on(replayed, config, observer),
        _ => scored::go_on(replayed, config, observer),
    }
}
