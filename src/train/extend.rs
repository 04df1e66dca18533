//! Training that continues from existing merges, which are applied to the text first.

use rustc_hash::FxHashMap;

use super::corpus::Text;
use super::learn::go_on;
use super::{HistoryPoint, Learned, Merge, Merges, Score, TrainConfig, learn_merges, scores};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
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
        _ => scores::go_on(replayed, config, observer),
    }
}

/// A text to which merges have been applied, as the state from which training continues.
///
/// Training by count continues with [`Corpus::of_text`](super::corpus::Corpus::of_text), training by scores and
/// verification with the text itself.
pub(super) struct Replayed {
    /// The merged text, with every token at one position.
    pub(super) text: Text,
    /// The applied merges, with the counts that their pairs had in this text.
    pub(super) merges: Vec<Merge>,
    /// History points before the first merge and where [`TrainConfig`] asks for them.
    pub(super) history: Vec<HistoryPoint>,
}

/// Applies merges to sequences of bytes one after the other, whether or not a better pair exists.
///
/// The occurrences of each pair that the list merges are noted under the number of the merge. A merge creates
/// only pairs that come later in the list, so one walk through the numbers is enough.
///
/// Progress is reported for `stage`.
///
/// **Memory:** 8 bytes per byte of the sequences, and at most 4 per noted occurrence.
///
/// # Errors
/// The same as [`Text::new`], or the observer asks to stop.
pub(super) fn replay(
    pretokens: &PretokenCounts,
    base: &Merges,
    config: &TrainConfig,
    stage: Stage,
    observer: &dyn Observer,
) -> Result<Replayed> {
    let mut text = Text::new(pretokens)?;
    let numbers: FxHashMap<(u32, u32), usize> =
        base.iter().enumerate().map(|(number, merge)| ((merge.left, merge.right), number)).collect();
    let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); base.len()];
    for position in 0..text.tokens.len() {
        wait(&text, position, &numbers, &mut waiting);
    }
    let mut history = vec![HistoryPoint { merges: 0, tokens: text.total }];
    let mut merges = Vec::with_capacity(base.len());
    for (number, merge) in base.iter().enumerate() {
        observer.checkpoint()?;
        let pair = (merge.left, merge.right);
        let token = text.add_token(merge.left, merge.right);
        let mut positions = std::mem::take(&mut waiting[number]);
        positions.sort_unstable();
        positions.dedup();
        positions.retain(|&position| text.stands(pair, to_usize(position)));
        // Overlapping occurrences count each, so they are counted before any of them is replaced.
        let count = positions.iter().map(|&position| text.weight(to_usize(position))).sum();
        merges.push(Merge { count: Count::new(count), ..*merge });
        positions.retain(|&position| {
            let stands = text.stands(pair, to_usize(position));
            if stands {
                text.replace(to_usize(position), pair, token);
            }
            stands
        });
        for position in positions.into_iter().map(to_usize) {
            text.before(position).into_iter().for_each(|before| wait(&text, before, &numbers, &mut waiting));
            wait(&text, position, &numbers, &mut waiting);
        }
        if config.records_after(merges.len()) {
            history.push(HistoryPoint { merges: to_u64(merges.len()), tokens: text.total });
        }
        observer.advanced(stage, 1);
    }
    Ok(Replayed { text: text.compacted(), merges, history })
}

/// Notes the pair that begins at `position`, if the list merges it.
fn wait(text: &Text, position: usize, numbers: &FxHashMap<(u32, u32), usize>, waiting: &mut [Vec<u32>]) {
    let number = text.pair_at(position).and_then(|pair| numbers.get(&pair));
    number.into_iter().for_each(|&number| waiting[number].push(truncate_to_u32(position)));
}
