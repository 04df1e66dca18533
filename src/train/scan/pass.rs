//! One pass over the text: applies a batch of rules, and updates the counts of pairs.
//!
//! The engine finds the sites in a span of blocks and compacts these (see [`simd`]). The worker then writes
//! the new codes and counts their neighbours, while the sites are still in the L1 cache.

use rayon::prelude::*;

use super::batch::{BatchRule, BatchRules};
use super::simd::{self, LANES, Planes, SPAN, ScanEngine, Sites};
use super::text::{Code, CodeText, Counters, PairCounts};
use crate::base::int::to_usize;
use crate::error::Result;
use crate::observer::Observer;

/// Applies the rules to the whole text and updates the counts.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn apply(
    rules: &BatchRules,
    text: &mut CodeText,
    counts: &mut PairCounts,
    engine: ScanEngine,
    observer: &dyn Observer,
) -> Result<()> {
    let ends = text.ends(rules);
    let side = counts.side;
    let mut neighbours = text
        .chunks(&ends)
        .into_par_iter()
        .try_fold(
            || PassWorker::new(rules, side),
            |mut worker, chunk| {
                observer.checkpoint()?;
                worker.merge(chunk, engine);
                Ok(worker)
            },
        )
        .map(|worker: Result<PassWorker<'_>>| worker.map(|worker| worker.neighbours))
        .try_reduce_with(|sum, more| Ok(sum.add(more)))
        .unwrap_or_else(|| Ok(NeighbourCounts::new(rules, side)))?;
    for (left, right) in text.chunk_borders() {
        neighbours.count_border(rules, left, right);
    }
    neighbours.update(rules, counts);
    Ok(())
}

/// What merging does at the ends of a chunk.
///
/// It is decided before the pass for all chunks in order, so that threads can then merge them independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkEnds {
    /// The first code is removed, because it is merged with the last code of the chunk before.
    pub(super) first_removed: bool,
    /// The rule that merges the last code with the first code of the chunk after.
    pub(super) last_merges: Option<usize>,
}

/// A chunk for a thread to work on.
pub(super) struct CodeChunk<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Number of codes in the chunk, which merging lowers.
    pub(super) length: &'a mut usize,
    /// What happens at its two ends.
    pub(super) ends: ChunkEnds,
}

impl CodeText {
    /// What merging by these rules does at the ends of each chunk.
    pub(super) fn ends(&self, rules: &BatchRules) -> Vec<ChunkEnds> {
        let mut ends = vec![ChunkEnds::default(); self.lengths.len()];
        let chunks: Vec<usize> = self.nonempty_chunks().collect();
        for pair in chunks.windows(2) {
            let (chunk, next) = (pair[0], pair[1]);
            let last = self.code(chunk, self.lengths[chunk] - 1);
            let Some(rule) = rules.find(last, self.code(next, 0)) else { continue };
            let twice = rules.list[rule].left == rules.list[rule].right;
            if !twice || self.ends_unpaired(chunk, ends[chunk].first_removed) {
                ends[chunk].last_merges = Some(rule);
                ends[next].first_removed = true;
            }
        }
        ends
    }

    /// Whether the last code of a chunk is at an odd place (first, third, fifth …) in its run of equal codes,
    /// so that it is not the right code of a pair. A run that reaches back to the start of the chunk continues
    /// one of the chunk before; the number of its codes there is odd exactly if the first code is merged with
    /// that chunk's last.
    fn ends_unpaired(&self, chunk: usize, first_removed: bool) -> bool {
        let length = self.lengths[chunk];
        let last = self.code(chunk, length - 1);
        let run = (0..length).rev().take_while(|&at| self.code(chunk, at) == last).count();
        (run - usize::from(first_removed && run == length)) % 2 == 1
    }

    /// All chunks, with what happens at their ends.
    pub(super) fn chunks<'a>(&'a mut self, ends: &'a [ChunkEnds]) -> Vec<CodeChunk<'a>> {
        let mut high = self.high.chunks_mut(self.chunk_capacity);
        let low = self.low.chunks_mut(self.chunk_capacity).zip(&mut self.lengths).zip(ends);
        low.map(|((low, length), &ends)| CodeChunk {
            low: &mut low[..*length],
            high: high.next().map_or(&mut [], |high| &mut high[..*length]),
            length,
            ends,
        })
        .collect()
    }
}

/// Counts of the neighbours of the codes that a pass makes.
///
/// A left neighbour is counted as it is after the pass. A right neighbour is counted before it is merged
/// itself. If it is merged, it is the left code of its rule at that time, and the other side counts the pair as
/// it is after the pass.
struct NeighbourCounts {
    /// Number of codes that the tables have space for.
    side: usize,
    /// Counts by rule × `side` + left neighbour.
    left: Counters,
    /// Counts by rule × `side` + right neighbour.
    right: Counters,
}

impl NeighbourCounts {
    /// Empty counts, for codes below `side`.
    fn new(rules: &BatchRules, side: usize) -> NeighbourCounts {
        let counters = || Counters::new(rules.list.len() * side);
        NeighbourCounts { side, left: counters(), right: counters() }
    }

    /// Makes sure that `sites` more sites can be counted without overflow.
    fn reserve(&mut self, sites: usize) {
        self.left.reserve(sites);
        self.right.reserve(sites);
    }

    /// The sum of two sets of counts.
    fn add(self, other: NeighbourCounts) -> NeighbourCounts {
        NeighbourCounts {
            side: self.side,
            left: self.left.add(other.left),
            right: self.right.add(other.right),
        }
    }

    /// Counts two neighbours in different chunks, given as they are after the pass.
    fn count_border(&mut self, rules: &BatchRules, left: Code, right: Code) {
        self.reserve(1);
        let rule_with_code = |code| rules.list.iter().position(|rule| rule.new_code == code);
        let old = match rule_with_code(right) {
            Some(rule) => {
                self.left.recent[rule * self.side + usize::from(left)] += 1;
                rules.list[rule].left
            }
            None => right,
        };
        if let Some(rule) = rule_with_code(left) {
            self.right.recent[rule * self.side + usize::from(old)] += 1;
        }
    }

    /// Adds the new pairs to the table, and subtracts the old pairs that they replace.
    ///
    /// A new token that is the left neighbour of another one is counted twice: at its own right side with the
    /// old left token, and at the other's left side as it is now. Only the latter count is kept.
    fn update(self, rules: &BatchRules, counts: &mut PairCounts) {
        let side = self.side;
        let (left, mut right) = (self.left.into_sums(), self.right.into_sums());
        let codes = || (0..side).map(|code| Code::try_from(code).expect("tables are small"));
        for (number, rule) in rules.list.iter().enumerate() {
            for neighbour in codes() {
                let seen = left[number * side + usize::from(neighbour)];
                if seen == 0 {
                    continue;
                }
                let mut old = neighbour;
                if let Some(other) = rules.list.iter().position(|other| other.new_code == neighbour) {
                    old = rules.list[other].right;
                    right[other * side + usize::from(rule.left)] -= seen;
                }
                *counts.get_mut(neighbour, rule.new_code) += seen;
                *counts.get_mut(old, rule.left) -= seen;
            }
        }
        for (number, rule) in rules.list.iter().enumerate() {
            for neighbour in codes() {
                let seen = right[number * side + usize::from(neighbour)];
                *counts.get_mut(rule.new_code, neighbour) += seen;
                *counts.get_mut(rule.right, neighbour) -= seen;
            }
        }
        for rule in &rules.list {
            *counts.get_mut(rule.left, rule.right) = 0;
        }
    }
}

/// State of a thread that works on chunks.
struct PassWorker<'a> {
    /// The rules of the pass.
    rules: &'a BatchRules,
    /// The sites of the current span, and one that waits for its right neighbour.
    sites: Sites,
    /// The neighbours counted so far in all chunks of this thread.
    neighbours: NeighbourCounts,
}

impl PassWorker<'_> {
    fn new(rules: &BatchRules, side: usize) -> PassWorker<'_> {
        PassWorker { rules, sites: Sites::new(), neighbours: NeighbourCounts::new(rules, side) }
    }

    /// Applies the rules to a chunk.
    fn merge(&mut self, chunk: CodeChunk<'_>, engine: ScanEngine) {
        let codes = chunk.low.len();
        let Some(last) = codes.checked_sub(1) else { return };
        self.neighbours.reserve(codes);
        let mut planes =
            Planes { low: chunk.low, high: chunk.high, out: 0, removed: chunk.ends.first_removed };
        let whole = last / LANES * LANES;
        for from in (0..whole).step_by(SPAN) {
            engine.close_gaps(&mut planes, from..whole.min(from + SPAN), self.rules, &mut self.sites);
            self.write(&mut planes, false);
        }
        simd::close_gaps(&mut planes, whole..codes, self.rules, &mut self.sites);
        self.write(&mut planes, true);
        if let Some(rule) = chunk.ends.last_merges {
            self.write_last(&mut planes, rule);
        }
        *chunk.length = planes.out;
    }

    /// Calls [`write_sites`](Self::write_sites) for the width of the codes.
    fn write(&mut self, planes: &mut Planes<'_>, finished: bool) {
        if planes.high.is_empty() {
            self.write_sites::<false>(planes, finished);
        } else {
            self.write_sites::<true>(planes, finished);
        }
    }

    /// Writes the new codes at the sites and counts their neighbours. A site at the end, with a right neighbour
    /// that has not been read yet, waits for the next call unless the chunk is `finished`.
    fn write_sites<const WIDE: bool>(&mut self, planes: &mut Planes<'_>, finished: bool) {
        let Planes { low, high, out, .. } = planes;
        let (low, high) = (&mut low[..*out], &mut **high);
        let code = |low: &[u8], high: &[u8], at: usize| {
            Code::from_le_bytes([low[at], if WIDE { high[at] } else { 0 }])
        };
        let NeighbourCounts { side, left, right } = &mut self.neighbours;
        let (left_counts, right_counts) = (&mut left.recent, &mut right.recent);
        let sites = &mut self.sites;
        for site in 0..sites.count {
            let at = to_usize(sites.places[site]);
            if at + 1 == low.len() && !finished {
                sites.places[0] = sites.places[site];
                sites.rights_low[0] = sites.rights_low[site];
                sites.rights_high[0] = sites.rights_high[site];
                sites.count = 1;
                return;
            }
            let right = [sites.rights_low[site], if WIDE { sites.rights_high[site] } else { 0 }];
            let (number, &BatchRule { new_code, .. }) =
                self.rules.rule(code(low, high, at), Code::from_le_bytes(right));
            if at > 0 {
                left_counts[number * *side + usize::from(code(low, high, at - 1))] += 1;
            }
            if at + 1 < low.len() {
                right_counts[number * *side + usize::from(code(low, high, at + 1))] += 1;
            }
            let [new_low, new_high] = new_code.to_le_bytes();
            low[at] = new_low;
            if WIDE {
                high[at] = new_high;
            }
        }
        sites.count = 0;
    }

    /// Merges the last code with the first code of the next chunk, which that chunk removes.
    fn write_last(&mut self, planes: &mut Planes<'_>, rule: usize) {
        let [low, high] = self.rules.list[rule].new_code.to_le_bytes();
        let last = planes.out - 1;
        planes.low[last] = low;
        if let Some(place) = planes.high.get_mut(last) {
            *place = high;
        }
        if let Some(before) = last.checked_sub(1) {
            let before = [planes.low[before], planes.high.get(before).copied().unwrap_or(0)];
            let neighbour = usize::from(Code::from_le_bytes(before));
            self.neighbours.left.recent[rule * self.neighbours.side + neighbour] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_counted_beyond_32_bits() {
        let rules = BatchRules::new(vec![BatchRule { left: 0, right: 1, new_code: 2, count: 1 }]);
        let mut neighbours = NeighbourCounts::new(&rules, 3);
        // The state after four billion sites.
        neighbours.reserve(to_usize(u32::MAX));
        (neighbours.left.recent[0], neighbours.right.recent[1]) = (u32::MAX, u32::MAX);
        neighbours.reserve(1);
        neighbours.left.recent[0] += 1;
        neighbours.right.recent[1] += 1;
        let NeighbourCounts { left, right, .. } = neighbours.add(NeighbourCounts::new(&rules, 3));
        assert_eq!((left.into_sums()[0], right.into_sums()[1]), (1 << 32, 1 << 32));
    }
}
