use super::{Score, TieBreak, TrainConfig, scan};
use crate::units::{ByteCount, Count, amount};

/// The text, and pairs with lists that grow by doubling: 21 bytes on prose, 26 on many short pieces.
const A_SCORED_POSITION: u64 = 32;

/// About the most memory that training on so many bytes of distinct sequences takes, the sequences
/// themselves included. `weighted` says whether some count more than once.
///
/// A text that does not shrink as prose does when its most frequent pairs are merged may take up to twice
/// as much.
pub fn memory_estimate(config: &TrainConfig, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    /// What is kept of each merge: the list of them, its counts, and the token in the files while they are made.
    const A_MERGE: u64 = 250;
    // Each merge takes away as many positions as its pair occurs in sequences that count once.
    let taken_away = if weighted { 1 } else { config.min_frequency.get().max(1) };
    let merges = amount(config.merges).min(bytes / taken_away);
    let learning = learning_estimate(config, bytes, sequences, weighted);
    ByteCount(learning.0.saturating_add(merges.saturating_mul(A_MERGE)))
}

fn learning_estimate(config: &TrainConfig, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    let a_position = match config.score {
        Score::Count if !weighted && scan::keeps_lists_short(config, bytes) => {
            return scanning(config, positions);
        }
        // Cells and first lists; later lists seldom reach half of their bound.
        Score::Count if !weighted => 8 + 4 + 4,
        // To go on from a list by these rules takes what scores do, and the tokens' bytes.
        Score::Count if matches!(config.tie_break, TieBreak::BytesGreatest | TieBreak::BytesSmallest) => {
            A_SCORED_POSITION + 9
        }
        Score::Count => 8 + 8 + 8,
        // Pairs that there have been are kept: where one that occurs once is merged, each merge makes new ones.
        _ if config.min_frequency <= Count::ONE => 2 * A_SCORED_POSITION,
        _ => A_SCORED_POSITION,
    };
    with_sequences(positions.saturating_mul(a_position), bytes, sequences)
}

/// About the most memory that [`verify_merges`](super::verify_merges) takes, the sequences themselves
/// included.
pub fn verify_memory_estimate(bytes: u64, sequences: u64) -> ByteCount {
    let positions = bytes.saturating_add(sequences).saturating_add(1);
    with_sequences(positions.saturating_mul(A_SCORED_POSITION), bytes, sequences)
}

fn with_sequences(learning: u64, bytes: u64, sequences: u64) -> ByteCount {
    ByteCount(learning.saturating_add(bytes).saturating_add(sequences.saturating_mul(16)))
}

/// Few merges are all learned by scanning: one byte for the text, two for each token at the end, and one
/// more once there are more than 256; 2.7 in all on English. For more there are cells and lists of a text
/// half as long: 7.4.
fn scanning(config: &TrainConfig, positions: u64) -> ByteCount {
    const FEW: u64 = 256;
    let a_position = if amount(config.merges) <= FEW { 4 } else { 8 };
    ByteCount(positions.saturating_mul(a_position))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn scores_and_rules_by_bytes_take_more() {
        let config = TrainConfig::new(1000);
        let need = |config, weighted| learning_estimate(config, 1_000_000, 1, weighted).0 / 1_000_000;
        let by_bytes = TrainConfig { tie_break: TieBreak::BytesSmallest, ..config.clone() };
        assert_eq!([need(&by_bytes, false), need(&by_bytes, true)], [17, 42], "to go on is another loop");
        let scored = TrainConfig { score: Score::CountLength, ..config };
        let once = TrainConfig { min_frequency: Count::ZERO, ..scored.clone() };
        assert_eq!([need(&scored, false), need(&once, false)], [33, 65]);
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
        // There cannot be more than the text has room for.
        assert_eq!(more(&merges(1 << 40, 1)), 8_000_000 * 250);
        assert_eq!(more(&merges(1 << 40, 0)), 8_000_000 * 250);
        assert_eq!(more(&merges(1 << 40, 4)), 2_000_000 * 250);
    }
}
