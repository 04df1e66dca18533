use super::learn::go_on;
use super::replay::replay;
use super::{Learned, Merges, Score, TrainConfig, learn_merges, scored};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::units::amount;

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
    let replayed = replay(&pieces, base, config, observer)?;
    let by_bytes = config.tie_break.looks_at_bytes();
    if config.score == Score::Count && !by_bytes {
        drop(pieces);
        return go_on(replayed, config, observer);
    }
    scored::go_on(&pieces, replayed, config, observer)
}
