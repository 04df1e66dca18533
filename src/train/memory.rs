//! Estimates of the memory that training takes, with which a job can be refused before it starts.

use super::{Score, TrainConfig, scan};
use crate::base::int::{ByteCount, Count, to_u64};

/// Bytes per position in training by other scores than the count: the text, and pairs with lists that grow by
/// doubling. Measured: 21 on prose, 26 on many short pre-tokens.
const A_SCORED_POSITION: u64 = 32;

/// Bytes per position with weights: cells, and lists of occurrences with weights.
const A_WEIGHTED_POSITION: u64 = 8 + 8 + 8;

/// Bytes per merge: its entry in the list, its counts, and its token in the files while these are written.
const A_MERGE: u64 = 250;

/// Bytes that the new pairs of one merge take, on text in which all pairs are about equally frequent, as in
/// random bytes.
const PAIRS_OF_A_MERGE: u64 = 16_000;

/// About the maximum memory that [`learn_merges`](super::learn_merges) takes for `sequences` distinct sequences
/// with `bytes` bytes in all, the sequences themselves included. `weighted` says whether any sequence has a
/// weight above 1.
///
/// Text that shrinks less than prose when its most frequent pairs are merged may take up to twice as much.
///
/// ```
/// use tokenmill::train::{TrainConfig, memory_estimate};
///
/// let config = TrainConfig::new(32_000);
/// let [few, many] = [1_000_000, 100_000_000].map(|bytes| memory_estimate(&config, bytes, 1_000, true));
/// assert!(few < many);
/// ```
pub fn memory_estimate(config: &TrainConfig, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    // Without weights, each merge removes at least `min_frequency` positions, which limits the number of
    // merges.
    let taken_away = if weighted { 1 } else { config.min_frequency.get().max(1) };
    let merges = to_u64(config.merges).min(bytes / taken_away);
    let learning = learning_estimate(config, bytes, sequences, weighted);
    ByteCount(learning.0.saturating_add(merges.saturating_mul(A_MERGE)))
}

/// The same estimate for [`extend_merges`](super::extend_merges), which lays out the text as if sequences had
/// weights.
pub fn extend_memory_estimate(config: &TrainConfig, bytes: u64, sequences: u64) -> ByteCount {
    // Tie rules by bytes use the loop for scores here, and hold the bytes of the text: 1 byte and an offset of
    // 8 per position.
    let by_bytes = config.tie_break.compares_bytes();
    let more = if config.score == Score::Count && by_bytes {
        A_SCORED_POSITION + 9 - A_WEIGHTED_POSITION
    } else {
        0
    };
    let estimate = memory_estimate(config, bytes, sequences, true);
    ByteCount(estimate.0.saturating_add(bytes.saturating_add(sequences).saturating_mul(more)))
}

/// The same estimate for [`learn_parity_merges`](super::learn_parity_merges): `sources` texts, and their development
/// texts, have `sequences` distinct sequences with `bytes` bytes, all together.
///
/// It is at most `sources` times the memory of learning from one text with all these sequences.
pub fn parity_memory_estimate(config: &TrainConfig, bytes: u64, sequences: u64, sources: usize) -> ByteCount {
    /// Bytes per position: the text, the sequence, and lists of occurrences.
    const A_POSITION: u64 = 8 + 4 + 8;
    /// Kept pairs per position (1 / 8); each has a count for each source.
    const POSITIONS_PER_PAIR: u64 = 8;
    let by_bytes = u64::from(config.tie_break.compares_bytes());
    let counts = to_u64(sources).saturating_mul(8) / POSITIONS_PER_PAIR;
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    let learning = positions.saturating_mul(A_POSITION + by_bytes + counts);
    let merges = to_u64(config.merges).min(bytes).saturating_mul(A_MERGE);
    ByteCount(with_sequences(learning, bytes, sequences).0.saturating_add(merges))
}

/// The memory for the text, the pairs and the sequences, without that for the list of merges.
fn learning_estimate(config: &TrainConfig, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    let a_position = match config.score {
        Score::Count if !weighted && scan::shortens_lists(config, bytes) => {
            return scanning(config, positions);
        }
        // Cells, then first lists; later lists seldom reach half of their bound.
        Score::Count if !weighted => 8 + 4 + 4,
        Score::Count => A_WEIGHTED_POSITION,
        _ => A_SCORED_POSITION,
    };
    // The loop for scores keeps all pairs that it has created. If pairs that occur once are merged, each merge
    // creates many.
    let once = config.score != Score::Count && config.min_frequency <= Count::ONE;
    let made = to_u64(config.merges).saturating_mul(PAIRS_OF_A_MERGE).min(positions.saturating_mul(16));
    let learning = positions.saturating_mul(a_position).saturating_add(if once { made } else { 0 });
    with_sequences(learning, bytes, sequences)
}

/// About the maximum memory that [`verify_merges`](super::verify_merges) takes for `sequences` sequences with
/// `bytes` bytes in all, the sequences themselves included.
pub fn verify_memory_estimate(bytes: u64, sequences: u64) -> ByteCount {
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    with_sequences(positions.saturating_mul(A_SCORED_POSITION), bytes, sequences)
}

/// Adds the memory of the sequences: their bytes, and 16 bytes for each.
pub(crate) fn with_sequences(learning: u64, bytes: u64, sequences: u64) -> ByteCount {
    ByteCount(learning.saturating_add(bytes).saturating_add(sequences.saturating_mul(16)))
}

/// Memory for training that begins with scanning. A small number of merges is all learned by scanning: 1 byte
/// per byte of the text, 2 per token at the end, and 1 more once more than 256 codes are needed; 2.7 bytes per
/// position in all on English. For more merges, the cells and lists of a text half as long are added: 7.4.
fn scanning(config: &TrainConfig, positions: u64) -> ByteCount {
    const FEW: u64 = 256;
    let a_position = if to_u64(config.merges) <= FEW { 4 } else { 8 };
    ByteCount(positions.saturating_mul(a_position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::TieBreak;

    #[test]
    fn scanning_takes_half_as_much_as_lists() {
        let few = TrainConfig::new(256);
        let many = TrainConfig::new(32_000);
        let lists = TrainConfig { tie_break: TieBreak::First, ..many.clone() };
        let need = |config, weighted| learning_estimate(config, 300_000_000, 1, weighted).0;
        assert_eq!(need(&few, false), 4 * 300_000_002);
        assert_eq!(need(&many, false), 2 * need(&few, false));
        assert!(need(&lists, false) > 2 * need(&many, false));
        let short = |config| memory_estimate(config, 8_000_000, 1, false);
        assert_eq!(short(&many), short(&lists), "lists are made soon");
        assert!(need(&many, true) > need(&lists, false));
        assert_eq!(memory_estimate(&many, u64::MAX, 1, true).0, u64::MAX);
    }

    #[test]
    fn scores_and_extending_by_bytes_take_more() {
        let config = TrainConfig::new(1000);
        let by_bytes = TrainConfig { tie_break: TieBreak::BytesSmallest, ..config.clone() };
        let fresh = |config| memory_estimate(config, 1_000_000, 1, true).0;
        let going_on = |config| extend_memory_estimate(config, 1_000_000, 1).0;
        assert_eq!([fresh(&by_bytes), going_on(&config)], [fresh(&config); 2]);
        assert_eq!(going_on(&by_bytes) - fresh(&by_bytes), 17 * 1_000_001);
        let scored = TrainConfig { score: Score::CountLength, ..config };
        let once = |merges| TrainConfig { min_frequency: Count::ZERO, merges, ..scored.clone() };
        let more = |merges| {
            let need = |config: &TrainConfig| learning_estimate(config, 1_000_000, 1, false).0;
            need(&once(merges)) - need(&scored)
        };
        assert_eq!(more(3), 3 * PAIRS_OF_A_MERGE);
        assert_eq!(more(1 << 40), 16 * 1_000_002, "the text holds no more pairs");
    }

    #[test]
    fn parity_takes_at_most_the_memory_of_plain_training_times_the_sources() {
        let config = TrainConfig::new(32_000);
        for sources in [2, 3, 10, 50] {
            let texts = to_u64(sources);
            let plain = memory_estimate(&config, 20_000_000, 2_000_000, true).0;
            let need = parity_memory_estimate(&config, 20_000_000, 2_000_000, sources).0;
            assert!(need <= texts * plain, "{sources} sources with equal words in all: {need}");
        }
    }

    #[test]
    fn many_merges_need_memory_of_their_own() {
        let merges = |merges, min_frequency| {
            let min_frequency = Count::new(min_frequency);
            TrainConfig { min_frequency, ..TrainConfig::new(merges) }
        };
        let more = |config: &TrainConfig| {
            memory_estimate(config, 8_000_000, 1, false).0 - learning_estimate(config, 8_000_000, 1, false).0
        };
        assert_eq!(more(&merges(1000, 2)), 250_000);
        // A text can hold no more merges than this.
        assert_eq!(more(&merges(1 << 40, 1)), 8_000_000 * 250);
        assert_eq!(more(&merges(1 << 40, 0)), 8_000_000 * 250);
        assert_eq!(more(&merges(1 << 40, 4)), 2_000_000 * 250);
    }
}
