//! Training that continues from existing merges, which are applied to the text first.

use rustc_hash::FxHashMap;

use super::corpus::{CompactWeight, Corpus, NOT_KEPT, PairId, TokenSequences, positions};
use super::progress::{PassProgress, TrainProgress};
use super::scores::ScoreTrainer;
use super::{Learned, Merge, MergeLog, Merges, Score, TrainConfig, learn, learn_merges};
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
/// **Memory:** while `base` is applied, 12 bytes per byte of the sequences and 4 per occurrence of a pair that
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
    let planned = (Stage::Train, config.merges.max(base.len()));
    let (corpus, log) = replay(&pretokens, base, config, planned, observer)?;
    drop(pretokens);
    continue_training(corpus, log, observer)
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
///
/// # Examples
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TokenSequences, TrainConfig, extend_sequences, learn_merges};
///
/// let words: PretokenCounts = [(&b"abcabc"[..], Count::ONE)].into_iter().collect();
/// let base = learn_merges(words, &TrainConfig::new(1), &Silent)?.merges;
/// // The word as tokens: `ab` is token 256.
/// let sequences = TokenSequences {
///     tokens: vec![256, 99, 256, 99],
///     ends: vec![4],
///     counts: vec![Count::ONE],
///     bytes: 6,
///     alone: 0,
/// };
/// let longer = extend_sequences(sequences, &base, &TrainConfig::new(2), &Silent)?.merges;
/// let last = longer.iter().last().unwrap();
/// assert_eq!((last.left, last.right, last.count.get()), (256, 99, 2));
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn extend_sequences(
    sequences: TokenSequences,
    base: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    let planned = (Stage::Train, config.merges.max(base.len()));
    let (corpus, log) = replayed(sequences, base, config, planned, observer)?;
    continue_training(corpus, log, observer)
}

/// Continues with lists of occurrences where the score and the tie rule allow it, otherwise by scores.
fn continue_training(
    corpus: Corpus<CompactWeight>,
    log: MergeLog<'_>,
    observer: &dyn Observer,
) -> Result<Learned> {
    if log.config.score == Score::Count && !log.config.tie_break.compares_bytes() {
        learn::continue_with_lists(corpus, log, &[], observer)
    } else {
        ScoreTrainer::new(corpus, log, observer)?.run(observer)
    }
}

/// The state after `base`, for sequences that already consist of its tokens.
///
/// `planned` is the stage for which progress is reported, and its total.
///
/// # Errors
/// The same as [`Corpus::of_sequences`].
pub(super) fn replayed<'a>(
    sequences: TokenSequences,
    base: &Merges,
    config: &'a TrainConfig,
    (stage, merges): (Stage, usize),
    observer: &dyn Observer,
) -> Result<(Corpus<CompactWeight>, MergeLog<'a>)> {
    // The text is laid out, its pairs are counted, and their occurrences are listed.
    const PASSES: usize = 3;
    let positions = sequences.tokens.len() + sequences.ends.len() + 1;
    observer.started(Stage::Prepare, Some(to_u64(PASSES * positions)));
    let bytes = sequences.bytes;
    let corpus = Corpus::of_sequences(sequences, base, observer)?.with_word_rule(config, base);
    let mut log = MergeLog::new(config, bytes, TrainProgress::new(stage, merges, config, corpus.mergeable()));
    if !base.is_empty() {
        log.merges.extend(base);
        // An encoding counts only the pairs that it replaces.
        log.replaced.extend(base.iter().map(|merge| merge.count.get()));
        log.tokens = corpus.tokens;
        log.progress.work.took_over(base.len());
        log.record(corpus.tokens);
    }
    Ok((corpus, log))
}

/// Applies merges to sequences of bytes one after the other, whether or not a better pair exists. Returns the
/// text after them, with every token at one position, and the merges with the counts that their pairs had in
/// this text.
///
/// The id of a pair is the number of its merge, counted from 1. A merge creates only pairs that come later in
/// the list, so one walk through the numbers is enough.
///
/// `planned` is the stage for which progress is reported, and its total.
///
/// **Memory:** 12 bytes per byte of the sequences, and 4 per listed occurrence of a pair that `base` merges.
///
/// # Errors
/// The same as [`Corpus::new`], or the observer asks to stop.
pub(super) fn replay<'a>(
    pretokens: &PretokenCounts,
    base: &Merges,
    config: &'a TrainConfig,
    (stage, merges): (Stage, usize),
    observer: &dyn Observer,
) -> Result<(Corpus<CompactWeight>, MergeLog<'a>)> {
    observer.started(Stage::Prepare, Some(to_u64(2 * positions(pretokens))));
    let mut corpus = Corpus::new(pretokens, observer)?.with_word_rule(config, []);
    let sequences = corpus.sequence_numbers();
    let progress = TrainProgress::new(stage, merges, config, corpus.mergeable());
    let mut log = MergeLog::new(config, corpus.tokens, progress);
    let mut occurrences = MergeOccurrences::new(base);
    let mut pass = PassProgress::new(observer);
    for position in 0..corpus.cells.len() {
        occurrences.add(&mut corpus, position);
        pass.reached(position)?;
    }
    pass.ended(corpus.cells.len());
    log.progress.prepared(0, observer);
    for (merge, id) in base.iter().zip(1..) {
        observer.checkpoint()?;
        let token = corpus.add_token(merge.left, merge.right);
        let mut positions = std::mem::take(&mut occurrences.lists[to_usize(id)]);
        positions.sort_unstable();
        positions.dedup();
        let is_live = |corpus: &Corpus<_>, position| corpus.cells[to_usize(position)].pair == id;
        let weight = |corpus: &Corpus<_>, position| corpus.weight(sequences[to_usize(position)]);
        positions.retain(|&position| is_live(&corpus, position));
        // Overlapping occurrences count each, so they are counted before any of them is replaced.
        let count = positions.iter().map(|&position| weight(&corpus, position)).sum();
        let live = positions.len();
        positions.retain(|&position| {
            let live = is_live(&corpus, position);
            if live {
                corpus.replace(to_usize(position), merge.left, token);
                corpus.tokens -= weight(&corpus, position);
            }
            live
        });
        for position in positions.into_iter().map(to_usize) {
            if let Some(before) = corpus.before(position) {
                occurrences.add(&mut corpus, before);
            }
            occurrences.add(&mut corpus, position);
        }
        log.push(Merge { count: Count::new(count), ..*merge }, live, corpus.tokens);
        log.report(observer);
    }
    corpus.compact();
    Ok((corpus, log))
}

/// Where the pairs occur that a list of merges merges.
struct MergeOccurrences {
    /// Id of each pair.
    ids: FxHashMap<(u32, u32), PairId>,
    /// Positions by pair id. A position is live as long as the text has the id there.
    lists: Vec<Vec<u32>>,
}

impl MergeOccurrences {
    /// No occurrence so far, for the pairs that `merges` merges.
    fn new(merges: &Merges) -> MergeOccurrences {
        let ids = merges.iter().map(|merge| (merge.left, merge.right)).zip(1..).collect();
        MergeOccurrences { ids, lists: vec![Vec::new(); merges.len() + 1] }
    }

    /// Adds the pair that begins at `position`, if the list merges it.
    fn add(&mut self, corpus: &mut Corpus<CompactWeight>, position: usize) {
        let id = corpus.pair_at(position).and_then(|pair| self.ids.get(&pair)).copied();
        if let Some(id) = id {
            self.lists[to_usize(id)].push(truncate_to_u32(position));
        }
        corpus.cells[position].pair = id.unwrap_or(NOT_KEPT);
    }
}
