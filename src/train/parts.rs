use std::iter::once;
use std::mem;
use std::ops::Range;

use super::corpus::{Cell, Corpus, SEPARATOR, Weight};
use super::pairs::{PairId, Pairs};
use crate::units::place;

/// A part of the text has at least so many occurrences of a pair: with fewer it would be merged before the thread that
/// merges it has begun.
const LEAST: usize = if cfg!(test) { 2 } else { 1 << 12 };

/// So many occurrences are looked at for a place to cut.
const LOOKED_AT: usize = 1 << 8;

/// Where a part of the text ends and the next begins.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    position: usize,
    /// How many occurrences of the pair are listed before it.
    occurrences: usize,
}

/// A part of the text.
pub(super) struct Stretch<'a> {
    /// Where it begins.
    pub(super) start: usize,
    pub(super) cells: &'a mut [Cell],
    /// Which of the pair's occurrences lie in it.
    pub(super) occurrences: Range<usize>,
}

impl<'a> Stretch<'a> {
    /// The whole text.
    pub(super) fn whole(cells: &'a mut [Cell]) -> Stretch<'a> {
        Stretch { start: 0, cells, occurrences: 0..usize::MAX }
    }
}

/// Whether merging a pair is worth sharing.
pub(super) fn is_long<W: Weight + Default>(pair: PairId, pairs: &Pairs<W>) -> bool {
    pairs.listed(pair) >= 2 * LEAST
}

/// Cuts the text into parts, in which threads merge a pair side by side: between two occurrences whose neighbours are
/// different tokens, so that each cell is looked at in one part alone. `most` parts, fewer if that is not worth it.
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

/// A place to cut between two of these occurrences.
fn cut<W: Weight + Default>(
    pair: PairId,
    occurrences: Range<usize>,
    corpus: &Corpus<W>,
    pairs: &Pairs<W>,
) -> Option<Cut> {
    let span = |token: u32| place(corpus.spans[place(token)]);
    let parts = pairs.pair(pair);
    let length = span(parts.left) + span(parts.right);
    let mut after = usize::MAX;
    for (number, occurrence) in occurrences.clone().zip(pairs.listed_in(pair, occurrences).flatten()) {
        let position = place(occurrence.position);
        // What stands before one that is not live any more may be stale.
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

/// The parts between cuts.
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
