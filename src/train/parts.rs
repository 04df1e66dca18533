//! Divides the text into segments in which threads merge a pair independently.

use std::iter::once;
use std::mem;
use std::ops::Range;

use super::corpus::{Cell, Corpus, SEPARATOR, Weight};
use super::pairs::{PairId, Pairs};
use crate::base::int::to_usize;

/// Minimum occurrences of a pair in a segment. A shorter segment would be merged before another thread has even
/// started on it.
const LEAST: usize = if cfg!(test) { 2 } else { 1 << 12 };

/// Occurrences that are searched for one cut.
const LOOKED_AT: usize = 1 << 8;

/// Where one segment of the text ends and the next begins.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Position of the first cell after the cut.
    position: usize,
    /// Number of listed occurrences of the pair before the cut.
    occurrences: usize,
}

/// A segment of the text, which one thread merges.
pub(super) struct Stretch<'a> {
    /// Position of the first cell.
    pub(super) start: usize,
    pub(super) cells: &'a mut [Cell],
    /// Indices of the pair's listed occurrences in the segment.
    pub(super) occurrences: Range<usize>,
}

impl<'a> Stretch<'a> {
    /// The whole text as one segment.
    pub(super) fn whole(cells: &'a mut [Cell]) -> Stretch<'a> {
        Stretch { start: 0, cells, occurrences: 0..usize::MAX }
    }
}

/// Whether merging a pair is worth sharing between threads.
pub(super) fn is_long<W: Weight + Default>(pair: PairId, pairs: &Pairs<W>) -> bool {
    pairs.listed(pair) >= 2 * LEAST
}

/// Finds cuts between segments of the text, in which threads can merge a pair independently. Each cut is
/// between two occurrences whose neighbours are different tokens, so that every cell is read and written in one
/// segment alone. Gives at most `most` segments, fewer if more are not worth it.
pub(super) fn cuts<W: Weight + Default>(
    pair: PairId,
    corpus: &Corpus<W>,
    pairs: &Pairs<W>,
    most: usize,
) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    if most == 1 {
        return cuts;
    }
    let listed = pairs.listed(pair);
    let parts = most.min(listed / LEAST);
    for part in 1..parts {
        let first = cuts.last().map_or(0, |cut| cut.occurrences).max(listed * part / parts);
        cuts.extend(cut(pair, first..listed.min(first + LOOKED_AT), corpus, pairs));
    }
    cuts
}

/// A cut between two of these occurrences, if one is found.
fn cut<W: Weight + Default>(
    pair: PairId,
    occurrences: Range<usize>,
    corpus: &Corpus<W>,
    pairs: &Pairs<W>,
) -> Option<Cut> {
    let span = |token: u32| to_usize(corpus.spans[to_usize(token)]);
    let parts = pairs.pair(pair);
    let length = span(parts.left) + span(parts.right);
    let mut after = usize::MAX;
    for (number, occurrence) in occurrences.clone().zip(pairs.listed_in(pair, occurrences).flatten()) {
        let position = to_usize(occurrence.position);
        // The cell before an occurrence that is no longer live may be stale.
        if corpus.cells[position].pair == pair {
            let before = corpus.cells[position - 1].token;
            let start = position - if before == SEPARATOR { 1 } else { span(before) };
            if after < start {
                return Some(Cut { position: start, occurrences: number });
            }
        }
        after = position + length;
    }
    None
}

/// Divides the text at the cuts.
pub(super) fn stretches<'a>(cells: &'a mut [Cell], cuts: &[Cut]) -> impl Iterator<Item = Stretch<'a>> {
    let end = Cut { position: cells.len(), occurrences: usize::MAX };
    let (mut rest, mut last) = (cells, Cut { position: 0, occurrences: 0 });
    cuts.iter().copied().chain(once(end)).map(move |cut| {
        let (cells, behind) = mem::take(&mut rest).split_at_mut(cut.position - last.position);
        let stretch = Stretch { start: last.position, cells, occurrences: last.occurrences..cut.occurrences };
        (rest, last) = (behind, cut);
        stretch
    })
}
