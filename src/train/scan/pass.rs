//! One pass over the text: applies a batch of rules, and updates the counts of pairs.
//!
//! The engine finds the sites in a span of blocks and compacts these (see [`simd`]). The worker then writes
//! the new codes and counts their neighbours, while the sites are still in the L1 cache.

use std::mem::replace;

use rayon::prelude::*;

use super::batch::{Rule, Rules};
use super::simd::{self, Engine, LANES, Planes, SPAN, Sites};
use super::text::{Code, PairCounts, Text};
use crate::base::int::{to_u64, to_usize};
use crate::error::Result;
use crate::observer::Observer;

/// Applies the rules to the whole text and updates the counts.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn apply(
    rules: &Rules,
    text: &mut Text,
    counts: &mut PairCounts,
    engine: Engine,
    observer: &dyn Observer,
) -> Result<()> {
    let ends = text.ends(rules);
    let side = counts.side();
    let mut tally = text
        .chunks(&ends)
        .into_par_iter()
        .try_fold(
            || Worker::new(rules, side),
            |mut worker, chunk| {
                observer.checkpoint()?;
                worker.merge(chunk, engine);
                Ok(worker)
            },
        )
        .map(|worker: Result<Worker<'_>>| worker.map(|worker| worker.tally))
        .try_reduce_with(|sum, more| Ok(sum.add(more)))
        .unwrap_or_else(|| Ok(Tally::new(rules, side)))?;
    for (left, right) in text.edges() {
        tally.see_edge(rules, left, right);
    }
    tally.settle();
    tally.bring_up_to_date(rules, counts);
    Ok(())
}

/// What merging does at the ends of a chunk.
///
/// It is decided before the pass for all chunks in order, so that threads can then merge them independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The first code is removed, because it is merged with the last code of the chunk before.
    pub(super) first_goes: bool,
    /// The rule that merges the last code with the first code of the chunk after.
    pub(super) last_merges: Option<usize>,
}

/// A chunk for a thread to work on.
pub(super) struct Chunk<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Number of codes in the chunk, which merging lowers.
    pub(super) length: &'a mut usize,
    /// What happens at its two ends.
    pub(super) ends: Ends,
}

impl Text {
    /// What merging by these rules does at the ends of each chunk.
    pub(super) fn ends(&self, rules: &Rules) -> Vec<Ends> {
        let mut ends = vec![Ends::default(); self.lengths.len()];
        let filled: Vec<usize> = self.filled().collect();
        for pair in filled.windows(2) {
            let (chunk, next) = (pair[0], pair[1]);
            let last = self.code(chunk, self.lengths[chunk] - 1);
            let Some(rule) = rules.find(last, self.code(next, 0)) else { continue };
            let twice = rules.list[rule].left == rules.list[rule].right;
            if !twice || self.ends_unpaired(chunk, ends[chunk].first_goes) {
                ends[chunk].last_merges = Some(rule);
                ends[next].first_goes = true;
            }
        }
        ends
    }

    /// Whether the last code of a chunk is at an odd place (first, third, fifth …) in its run of equal codes,
    /// so that it is not the right code of a pair. A run that reaches back to the start of the chunk continues
    /// one of the chunk before; the number of its codes there is odd exactly if the first code is merged with
    /// that chunk's last.
    fn ends_unpaired(&self, chunk: usize, first_goes: bool) -> bool {
        let length = self.lengths[chunk];
        let last = self.code(chunk, length - 1);
        let run = (0..length).rev().take_while(|&at| self.code(chunk, at) == last).count();
        (run - usize::from(first_goes && run == length)) % 2 == 1
    }

    /// All chunks, with what happens at their ends.
    pub(super) fn chunks<'a>(&'a mut self, ends: &'a [Ends]) -> Vec<Chunk<'a>> {
        let mut high = self.high.chunks_mut(self.room);
        let low = self.low.chunks_mut(self.room).zip(&mut self.lengths).zip(ends);
        low.map(|((low, length), &ends)| Chunk {
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
struct Tally {
    /// Number of codes that the tables have space for.
    side: usize,
    /// 64-bit counts by rule and left neighbour.
    left: Vec<u64>,
    /// 64-bit counts by rule and right neighbour.
    right: Vec<u64>,
    /// 32-bit counts since the last call of [`settle`](Self::settle), by rule and left neighbour.
    left_now: Vec<u32>,
    /// The same by right neighbour.
    right_now: Vec<u32>,
    /// Upper bound of the sites in the 32-bit counts: below 2³², so that they cannot overflow.
    sites: u64,
}

impl Tally {
    /// Empty counts, for codes below `side`.
    fn new(rules: &Rules, side: usize) -> Tally {
        let size = rules.list.len() * side;
        Tally {
            side,
            left: vec![0; size],
            right: vec![0; size],
            left_now: vec![0; size],
            right_now: vec![0; size],
            sites: 0,
        }
    }

    /// Makes sure that `sites` more sites can be counted without overflow.
    fn expect(&mut self, sites: usize) {
        if self.sites + to_u64(sites) > u64::from(u32::MAX) {
            self.settle();
        }
        self.sites += to_u64(sites);
    }

    /// Adds the 32-bit counts to the 64-bit ones and clears them.
    fn settle(&mut self) {
        let both = self
            .left
            .iter_mut()
            .zip(&mut self.left_now)
            .chain(self.right.iter_mut().zip(&mut self.right_now));
        for (sum, now) in both {
            *sum += u64::from(replace(now, 0));
        }
        self.sites = 0;
    }

    /// The sum of two tallies.
    fn add(mut self, mut other: Tally) -> Tally {
        self.settle();
        other.settle();
        let both = self.left.iter_mut().zip(&other.left).chain(self.right.iter_mut().zip(&other.right));
        both.for_each(|(sum, more)| *sum += more);
        self
    }

    /// Counts two neighbours in different chunks, given as they are after the pass.
    fn see_edge(&mut self, rules: &Rules, left: Code, right: Code) {
        let rule_that_made = |code| rules.list.iter().position(|rule| rule.made == code);
        let was = match rule_that_made(right) {
            Some(rule) => {
                self.left[rule * self.side + usize::from(left)] += 1;
                rules.list[rule].left
            }
            None => right,
        };
        if let Some(rule) = rule_that_made(left) {
            self.right[rule * self.side + usize::from(was)] += 1;
        }
    }

    /// Adds the new pairs to the table, and subtracts the old pairs that they replace.
    ///
    /// A new token that is the left neighbour of another one is counted twice: at its own right side with the
    /// old left token, and at the other's left side as it is now. Only the latter count is kept.
    fn bring_up_to_date(mut self, rules: &Rules, counts: &mut PairCounts) {
        let side = self.side;
        let codes = || (0..side).map(|code| Code::try_from(code).expect("tables are small"));
        for (number, rule) in rules.list.iter().enumerate() {
            for neighbour in codes() {
                let seen = self.left[number * side + usize::from(neighbour)];
                if seen == 0 {
                    continue;
                }
                let mut was = neighbour;
                if let Some(other) = rules.list.iter().position(|other| other.made == neighbour) {
                    was = rules.list[other].right;
                    self.right[other * side + usize::from(rule.left)] -= seen;
                }
                *counts.get_mut(neighbour, rule.made) += seen;
                *counts.get_mut(was, rule.left) -= seen;
            }
        }
        for (number, rule) in rules.list.iter().enumerate() {
            for neighbour in codes() {
                let seen = self.right[number * side + usize::from(neighbour)];
                *counts.get_mut(rule.made, neighbour) += seen;
                *counts.get_mut(rule.right, neighbour) -= seen;
            }
        }
        for rule in &rules.list {
            *counts.get_mut(rule.left, rule.right) = 0;
        }
    }
}

/// State of a thread that works on chunks.
struct Worker<'a> {
    /// The rules of the pass.
    rules: &'a Rules,
    /// The sites of the current span, and one that waits for its right neighbour.
    sites: Sites,
    /// The neighbours counted so far in all chunks of this thread.
    tally: Tally,
}

impl Worker<'_> {
    fn new(rules: &Rules, side: usize) -> Worker<'_> {
        Worker { rules, sites: Sites::new(), tally: Tally::new(rules, side) }
    }

    /// Applies the rules to a chunk.
    fn merge(&mut self, chunk: Chunk<'_>, engine: Engine) {
        let codes = chunk.low.len();
        let Some(last) = codes.checked_sub(1) else { return };
        self.tally.expect(codes);
        let mut planes = Planes { low: chunk.low, high: chunk.high, out: 0, gone: chunk.ends.first_goes };
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
        let Tally { side, left_now, right_now, .. } = &mut self.tally;
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
            let (number, &Rule { made, .. }) =
                self.rules.rule(code(low, high, at), Code::from_le_bytes(right));
            if at > 0 {
                left_now[number * *side + usize::from(code(low, high, at - 1))] += 1;
            }
            if at + 1 < low.len() {
                right_now[number * *side + usize::from(code(low, high, at + 1))] += 1;
            }
            let [made_low, made_high] = made.to_le_bytes();
            low[at] = made_low;
            if WIDE {
                high[at] = made_high;
            }
        }
        sites.count = 0;
    }

    /// Merges the last code with the first code of the next chunk, which that chunk removes.
    fn write_last(&mut self, planes: &mut Planes<'_>, rule: usize) {
        let [low, high] = self.rules.list[rule].made.to_le_bytes();
        let last = planes.out - 1;
        planes.low[last] = low;
        if let Some(place) = planes.high.get_mut(last) {
            *place = high;
        }
        if let Some(before) = last.checked_sub(1) {
            let before = [planes.low[before], planes.high.get(before).copied().unwrap_or(0)];
            let neighbour = usize::from(Code::from_le_bytes(before));
            self.tally.left_now[rule * self.tally.side + neighbour] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_tallied_beyond_32_bits() {
        let rules = Rules::new(vec![Rule { left: 0, right: 1, made: 2, count: 1 }]);
        let mut tally = Tally::new(&rules, 3);
        // The state after four billion sites.
        (tally.left_now[0], tally.right_now[1]) = (u32::MAX, u32::MAX);
        tally.sites = u64::from(u32::MAX);
        tally.expect(1);
        tally.left_now[0] += 1;
        tally.right_now[1] += 1;
        let sum = tally.add(Tally::new(&rules, 3));
        assert_eq!((sum.left[0], sum.right[1]), (1 << 32, 1 << 32));
    }
}
