use super::learn::go_on;
use super::replay::{Replayed, replay};
use super::text::Text;
use super::{HistoryPoint, Learned, Merges, Score, TrainConfig, learn_merges, scored};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::units::{Count, amount};

/// Learns merges that go on from a list: all of its merges first, whatever they are worth on these
/// sequences, then new ones, [`TrainConfig::merges`] together.
///
/// On the sequences that the list was learned from this gives what a longer training would have given.
///
/// **Memory:** while the list is applied 8 bytes for each byte of the sequences and 4 for each pair that
/// it merges; then that of learning from what is left.
///
/// # Errors
/// As those of [`learn_merges`].
pub fn extend_merges(
    pieces: PieceCounts,
    base: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    if base.is_empty() {
        return learn_merges(pieces, config, observer);
    }
    observer.started(Stage::Train, Some(amount(config.merges.max(base.len()))));
    let replayed = replay(&pieces, base, config, Stage::Train, observer)?;
    drop(pieces);
    learn_on(replayed, config, observer)
}

/// Sequences of tokens, weighted, in order of first appearance in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSequences {
    /// The tokens of all sequences, one after the other, as training numbers them.
    pub tokens: Vec<u32>,
    /// Where each sequence ends.
    pub ends: Vec<usize>,
    /// How often each occurs.
    pub counts: Vec<Count>,
    /// Bytes of all sequences by their counts.
    pub bytes: u64,
    /// Tokens of the corpus besides, which stand alone and take no part in any merge.
    pub alone: u64,
}

/// Learns merges that go on from sequences which a vocabulary has encoded: its merges first, as they stand, then new ones,
/// [`TrainConfig::merges`] together. This serves vocabularies whose merges cannot be carried out one after the other.
///
/// `base` has a merge for each of the vocabulary's, of parts that are bytes or come earlier in it.
///
/// **Memory:** 16 bytes for each token of the sequences; then that of learning.
///
/// # Errors
/// As those of [`learn_merges`].
pub fn extend_sequences(
    sequences: TokenSequences,
    base: &Merges,
    config: &TrainConfig,
    observer: &dyn Observer,
) -> Result<Learned> {
    observer.started(Stage::Train, Some(amount(config.merges.max(base.len()))));
    let replayed = Replayed::of_sequences(sequences, base)?;
    observer.advanced(Stage::Train, amount(base.len()));
    learn_on(replayed, config, observer)
}

impl Replayed {
    /// Sequences that a vocabulary has encoded, of tokens that `base` makes.
    pub(super) fn of_sequences(sequences: TokenSequences, base: &Merges) -> Result<Replayed> {
        let bytes = sequences.bytes;
        let text = Text::of_sequences(sequences, base)?;
        let mut history = vec![HistoryPoint { merges: 0, tokens: bytes }];
        if !base.is_empty() {
            history.push(HistoryPoint { merges: amount(base.len()), tokens: text.total });
        }
        Ok(Replayed { text, merges: base.iter().copied().collect(), history })
    }
}

fn learn_on(replayed: Replayed, config: &TrainConfig, observer: &dyn Observer) -> Result<Learned> {
    match config.score {
        Score::Count if !config.tie_break.looks_at_bytes() => go_on(replayed, config, observer),
        _ => scored::go_on(replayed, config, observer),
    }
}
