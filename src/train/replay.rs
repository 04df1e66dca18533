//! Applies a list of merges to byte sequences.

use rustc_hash::FxHashMap;

use super::text::Text;
use super::{HistoryPoint, Merge, Merges, TrainConfig};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

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
