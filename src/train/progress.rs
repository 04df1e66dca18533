//! How far training is: the work done, and an estimate of the work that is left.
//!
//! The first merges replace millions of occurrences and the last ones a few hundred, so the number of merges says
//! nothing about the time left. Work is measured in occurrences instead: merging one of them takes about the same time
//! everywhere. How many are left is estimated from those of the merges so far, which fall about like a power of the
//! number of merges ([`PowerLaw`]).

use super::TrainConfig;
use crate::base::int::{to_f64, to_u64};
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Positions between two reports of a pass over the text, and checks whether to stop: some tens of milliseconds.
const POSITIONS_PER_REPORT: usize = 1 << 22;

/// Reports how far a pass over the text is, as [`Stage::Prepare`].
pub(super) struct PassProgress<'a> {
    observer: &'a dyn Observer,
    /// Position up to which the pass was reported.
    reported: usize,
}

impl<'a> PassProgress<'a> {
    /// A pass from the start of the text.
    pub(super) fn new(observer: &'a dyn Observer) -> PassProgress<'a> {
        PassProgress { observer, reported: 0 }
    }

    /// The pass has come to `position`. Most calls only compare two numbers.
    ///
    /// # Errors
    /// The observer asks to stop.
    #[inline]
    pub(super) fn reached(&mut self, position: usize) -> Result<()> {
        if position - self.reported < POSITIONS_PER_REPORT {
            return Ok(());
        }
        self.ended(position);
        self.observer.checkpoint()
    }

    /// The pass ends at `position`.
    pub(super) fn ended(&mut self, position: usize) {
        self.observer.advanced(Stage::Prepare, to_u64(position - self.reported));
        self.reported = position;
    }
}

/// What observers learn of training: its preparation, its merges, and its work.
pub(super) struct TrainProgress {
    /// The stage of the merges: [`Stage::Train`] or [`Stage::Replay`].
    stage: Stage,
    /// Maximum number of merges, which is the total of the stage.
    merges: u64,
    /// Whether [`Stage::Prepare`] runs.
    is_preparing: bool,
    /// Whether the stage of the merges has started.
    is_started: bool,
    /// Number of merges that were reported.
    reported: u64,
    /// The work of the merges.
    pub(super) work: MergeWork,
}

impl TrainProgress {
    /// No merge of at most `merges`, while [`Stage::Prepare`] runs. `mergeable` is the maximum number of occurrences that
    /// all merges together can replace.
    pub(super) fn new(stage: Stage, merges: usize, config: &TrainConfig, mergeable: usize) -> TrainProgress {
        let work = MergeWork::new(merges, config.min_count(), mergeable);
        TrainProgress {
            stage,
            merges: to_u64(merges),
            is_preparing: true,
            is_started: false,
            reported: 0,
            work,
        }
    }

    /// Preparing begins, unless it has begun already. `amount` is the number of positions of all its passes together.
    pub(super) fn prepare(&mut self, amount: usize, observer: &dyn Observer) {
        if !self.is_preparing {
            observer.started(Stage::Prepare, Some(to_u64(amount)));
            self.is_preparing = true;
        }
    }

    /// Preparing `positions` positions has ended. The first time, the stage of the merges starts.
    pub(super) fn prepared(&mut self, positions: usize, observer: &dyn Observer) {
        self.is_preparing = false;
        if self.is_started {
            self.work.prepared(positions);
            observer.estimated(self.stage, self.work.done, self.work.left);
        }
        observer.finished(Stage::Prepare);
        if !self.is_started {
            observer.started(self.stage, Some(self.merges));
            self.is_started = true;
        }
    }

    /// Reports that there are `merges` merges now.
    pub(super) fn report(&mut self, merges: usize, observer: &dyn Observer) {
        let merges = to_u64(merges);
        observer.advanced(self.stage, merges - self.reported);
        self.reported = merges;
        observer.estimated(self.stage, self.work.done, self.work.left);
    }

    /// Training has ended without an error, with `merges` merges.
    pub(super) fn finished(&mut self, merges: usize, observer: &dyn Observer) {
        if self.is_preparing {
            self.prepared(0, observer);
        }
        self.work.left = 0.0;
        self.report(merges, observer);
        observer.finished(self.stage);
    }
}

/// Work per merge besides that for its occurrences: taking the pair from the queue, and filing the new pairs.
const PER_MERGE: f64 = 50.0;

/// Work of preparing a position for merging with lists: it is laid out, counted and listed in new memory.
const PER_POSITION: f64 = 2.0;

/// Codes that are scanned in the time of merging one occurrence with lists.
const CODES_PER_OCCURRENCE: f64 = 75.0;

/// Share of the mergeable occurrences that are merged at most. Even large vocabularies leave some tokens per word.
const MERGED_SHARE: f64 = 0.85;

/// The work of merging so far, and an estimate of the work that is left. The unit is the work of merging one
/// occurrence with lists. A merge takes a few float operations.
pub(super) struct MergeWork {
    /// The work done.
    done: f64,
    /// The work that is left, as estimated at the end of the last block, less the work since.
    left: f64,
    /// Number of merges so far.
    made: f64,
    /// Maximum number of merges.
    merges: f64,
    /// Minimum count at which a pair is merged.
    min_count: f64,
    /// Maximum number of occurrences that further merges can replace.
    mergeable: f64,
    /// Counts of the merged pairs, which decide when no pair is left.
    counts: PowerLaw,
    /// Occurrences of the merged pairs, without the weights of their sequences.
    occurrences: PowerLaw,
    /// Work per merge while the text is scanned instead of using lists.
    scans: PowerLaw,
    /// The scan, if the text is being scanned.
    scan: Option<Scan>,
    /// Count of the last merge.
    count: f64,
    /// Where the count last changed: the number of merges, and the mean of the two counts.
    change: (f64, f64),
    /// The merges since the last estimate.
    block: Block,
}

/// Work of merging by scanning.
#[derive(Clone, Copy)]
struct Scan {
    /// Work of each merge of the last pass.
    per_merge: f64,
    /// Number of merges after which the scan ends at the latest.
    limit: f64,
    /// Work of preparing the lists when the scan ends.
    preparing: f64,
}

/// Sums over the merges since the last estimate. Averages of many merges are smooth.
#[derive(Default)]
struct Block {
    merges: f64,
    occurrences: f64,
    scan: f64,
}

/// A block has this share of the merges before it, so that all are equally long on a logarithmic scale.
const BLOCK_SHARE: f64 = 0.2;

impl MergeWork {
    fn new(merges: usize, min_count: u64, mergeable: usize) -> MergeWork {
        MergeWork {
            done: 0.0,
            left: 0.0,
            made: 0.0,
            merges: to_f64(to_u64(merges)),
            min_count: to_f64(min_count),
            mergeable: to_f64(to_u64(mergeable)),
            counts: PowerLaw::default(),
            occurrences: PowerLaw::default(),
            scans: PowerLaw::default(),
            scan: None,
            count: 0.0,
            change: (0.0, 0.0),
            block: Block::default(),
        }
    }

    /// A pass over the text merges `merges` pairs and reads `codes` codes. Scanning ends after `limit` merges at the
    /// latest.
    pub(super) fn scanned(&mut self, merges: usize, codes: u64, limit: usize) {
        let per_merge = to_f64(codes) / CODES_PER_OCCURRENCE / to_f64(to_u64(merges));
        let preparing = PER_POSITION * to_f64(codes);
        self.scan = Some(Scan { per_merge, limit: to_f64(to_u64(limit)), preparing });
    }

    /// Lists of occurrences were prepared for `positions` positions, and are used from now on.
    fn prepared(&mut self, positions: usize) {
        self.done += PER_POSITION * to_f64(to_u64(positions));
        self.scan = None;
        self.left = self.estimate();
    }

    /// Adds merges of an earlier training, whose work is unknown.
    pub(super) fn took_over(&mut self, merges: usize) {
        self.made += to_f64(to_u64(merges));
    }

    /// A pair was merged that occurred `count` times by weight, and at `occurrences` positions.
    #[inline]
    pub(super) fn merged(&mut self, count: u64, occurrences: usize) {
        let (count, occurrences) = (to_f64(count), to_f64(to_u64(occurrences)));
        let scan = self.scan.map(|scan| scan.per_merge);
        let work = scan.unwrap_or(PER_MERGE + occurrences);
        self.done += work;
        self.left = (self.left - work).max(0.0);
        self.made += 1.0;
        self.mergeable -= occurrences;
        if count != self.count {
            let before = if self.count == 0.0 { count } else { self.count };
            self.change = (self.made, 0.5 * (before + count));
            self.count = count;
        }
        self.block.merges += 1.0;
        self.block.occurrences += occurrences;
        self.block.scan += scan.unwrap_or_default();
        if self.block.merges >= BLOCK_SHARE * self.made || self.occurrences.level.is_none() {
            self.end_block();
        }
    }

    /// Estimates again, from the merges since the last time.
    #[cold]
    fn end_block(&mut self) {
        let Block { merges, occurrences, scan } = std::mem::take(&mut self.block);
        let place = self.made.ln();
        // At the end of training, thousands of merges have the same small count. Their counts say nothing about how
        // fast the law falls, but the places where the counts change do.
        let (changed, mean) = self.change;
        self.counts.follow(changed.ln(), mean);
        self.occurrences.follow(place, occurrences / merges);
        if scan > 0.0 {
            self.scans.follow(place, scan / merges);
        }
        self.left = self.estimate();
    }

    /// Estimates the work that is left.
    fn estimate(&self) -> f64 {
        // The last pairs of the minimum count are where the law falls to half less.
        let end = self.counts.reaches(self.min_count - 0.5).min(self.merges).max(self.made);
        let Some(Scan { limit, preparing, .. }) = self.scan else { return self.with_lists(self.made, end) };
        let scan_end = self.scans.meets(&self.occurrences).min(limit).clamp(self.made, end);
        let scanning = self.scans.sum(self.made, scan_end);
        if scan_end < end { scanning + preparing + self.with_lists(scan_end, end) } else { scanning }
    }

    /// Estimates the work of merging with lists after `from` merges, until there are `end`.
    fn with_lists(&self, from: f64, end: f64) -> f64 {
        let mergeable = MERGED_SHARE * self.mergeable - self.occurrences.sum(self.made, from);
        self.occurrences.sum(from, end).min(mergeable.max(0.0)) + PER_MERGE * (end - from)
    }
}

/// Exponent of most texts, from which the estimates start.
const USUAL_EXPONENT: f64 = 1.1;

/// Logarithmic distance over which a law forgets most of the levels before.
const LEVEL_MEMORY: f64 = 0.35;

/// Logarithmic distance over which a law follows a change of the exponent.
const EXPONENT_MEMORY: f64 = 0.7;

/// A quantity of merges that falls about like `merges ^ -exponent`. Level and exponent follow the last merges by Holt's
/// method (double exponential smoothing) on logarithmic scales, because neither is the same for a whole training.
struct PowerLaw {
    /// Logarithm of the number of merges at which `level` holds.
    place: f64,
    /// Logarithm of the quantity; `None` before the first merge.
    level: Option<f64>,
    exponent: f64,
}

impl Default for PowerLaw {
    fn default() -> PowerLaw {
        PowerLaw { place: 0.0, level: None, exponent: USUAL_EXPONENT }
    }
}

impl PowerLaw {
    /// Takes the mean of the quantity since the last call. `place` is the logarithm of the number of merges; nothing
    /// happens if it is no greater than before.
    fn follow(&mut self, place: f64, mean: f64) {
        // Also a merge without occurrences has a logarithm.
        let seen = mean.max(0.5).ln();
        let Some(level) = self.level else {
            (self.place, self.level) = (place, Some(seen));
            return;
        };
        let distance = place - self.place;
        if distance <= 0.0 {
            return;
        }
        let expected = level - self.exponent * distance;
        let error = seen - expected;
        let weight = -(-distance / LEVEL_MEMORY).exp_m1();
        self.level = Some(expected + weight * error);
        self.exponent -= weight / EXPONENT_MEMORY * error;
        self.place = place;
    }

    /// Sum of the quantity over the merges from number `from` to number `to`; 0 before the first merge.
    fn sum(&self, from: f64, to: f64) -> f64 {
        let Some(level) = self.level.filter(|_| from < to) else { return 0.0 };
        let first = (level - self.exponent * (from.ln() - self.place)).exp() * from;
        let distance = (to / from).ln();
        let growth = (1.0 - self.exponent) * distance;
        let slope = if growth.abs() < 1e-9 { 1.0 } else { growth.exp_m1() / growth };
        first * distance * slope
    }

    /// Number of merges at which the quantity falls to `value`; infinite if it does not fall.
    fn reaches(&self, value: f64) -> f64 {
        match self.level {
            Some(level) if self.exponent > 0.0 => (self.place + (level - value.ln()) / self.exponent).exp(),
            _ => f64::INFINITY,
        }
    }

    /// Number of merges at which this quantity is no longer less than `other`, which falls faster; infinite if it
    /// always is.
    fn meets(&self, other: &PowerLaw) -> f64 {
        let (Some(level), Some(other_level)) = (self.level, other.level) else { return f64::INFINITY };
        // The two are followed at the same places.
        let approach = other.exponent - self.exponent;
        match other_level - level {
            ahead if ahead <= 0.0 => 0.0,
            ahead if approach > 0.0 => (self.place + ahead / approach).exp(),
            _ => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::{truncate_to_u64, u64_to_usize};

    /// A merge: count, and number of occurrences.
    type Merged = (u64, usize);

    /// Checks that from a quarter of the work on, the estimate of the rest is within a factor of two, nearly to the
    /// end. `occurrences` is the sum over all merges.
    #[track_caller]
    fn check(what: &str, sequence: &[Merged], planned: usize, mergeable: usize) {
        let mut work = MergeWork::new(planned, 2, mergeable);
        let estimates: Vec<(f64, f64)> = sequence
            .iter()
            .map(|&(count, occurrences)| {
                work.merged(count, occurrences);
                (work.done, work.left)
            })
            .collect();
        let whole = work.done;
        let judged = estimates.iter().filter(|(done, _)| (0.25..0.95).contains(&(done / whole)));
        let factors: Vec<f64> = judged.map(|(done, left)| left / (whole - done)).collect();
        let (least, most) = factors.iter().fold((1.0_f64, 1.0_f64), |(a, b), &f| (a.min(f), b.max(f)));
        assert!(factors.len() > 10 && least > 0.5 && most < 2.0, "{what}: {least:.2} to {most:.2}");
    }

    /// Counts that fall from `first` with this power of (merges + `offset`), until less than 2 or `planned` merges.
    fn counts(first: f64, exponent: f64, offset: f64, planned: u32) -> Vec<u64> {
        let count =
            |merges| first * (f64::from(merges) / (1.0 + offset) + offset / (1.0 + offset)).powf(-exponent);
        (1..=planned)
            .map(|merges| truncate_to_u64(count(merges).round()))
            .take_while(|&count| count >= 2)
            .collect()
    }

    /// Text without a split: every occurrence has weight 1.
    fn unweighted(counts: &[u64]) -> Vec<Merged> {
        counts.iter().map(|&count| (count, u64_to_usize(count))).collect()
    }

    fn sum(sequence: &[Merged]) -> usize {
        sequence.iter().map(|(_, occurrences)| occurrences).sum()
    }

    /// Counts of texts fall with an exponent near 1.
    #[test]
    fn the_rest_is_estimated_for_any_exponent() {
        for exponent in [0.6, 0.8, 1.0, 1.2, 1.5] {
            for offset in [0.0, 20.0] {
                let sequence = unweighted(&counts(5e6, exponent, offset, 32_000));
                check(&format!("{exponent}, {offset}"), &sequence, 32_000, sum(&sequence) * 5 / 4);
            }
        }
    }

    /// A small corpus has no pairs left long before the planned number of merges.
    #[test]
    fn a_corpus_that_runs_out_of_pairs_is_noticed_early() {
        for (first, exponent) in [(50_000.0, 1.2), (300_000.0, 1.1), (5_000.0, 1.0)] {
            let sequence = unweighted(&counts(first, exponent, 0.0, 500_000));
            assert!(sequence.len() < 250_000);
            check(&format!("{first}, {exponent}"), &sequence, 500_000, sum(&sequence) * 5 / 4);
        }
    }

    /// With a split, pairs occur at fewer positions than their counts say, by a factor that changes.
    #[test]
    fn work_is_that_of_positions() {
        let counts = counts(2e7, 1.1, 5.0, 32_000);
        let positions = |count: u64| (to_f64(count).powf(0.7) * 9.0).round();
        let sequence: Vec<Merged> =
            counts.iter().map(|&count| (count, u64_to_usize(truncate_to_u64(positions(count))))).collect();
        check("weights", &sequence, 32_000, sum(&sequence) * 2);
    }

    /// While the text is scanned, the work of the lists after it is part of the estimate.
    #[test]
    fn what_follows_the_scan_is_estimated_during_the_scan() {
        let counts = counts(8e6, 1.1, 10.0, 32_000);
        let tokens = sum(&unweighted(&counts)) * 5 / 4;
        let mut work = MergeWork::new(32_000, 2, tokens);
        let (mut estimates, mut left) = (Vec::new(), to_u64(tokens));
        let mut merges = counts.iter();
        // Passes merge more and more pairs, until lists are cheaper.
        for pass in 0..70 {
            let batch = 1 + pass / 8;
            work.scanned(batch, left, 1_000);
            for &count in merges.by_ref().take(batch) {
                work.merged(count, u64_to_usize(count));
                left -= count;
            }
            estimates.push((work.done, work.left));
        }
        work.prepared(u64_to_usize(left));
        merges.for_each(|&count| work.merged(count, u64_to_usize(count)));
        let whole = work.done;
        for (done, left) in estimates.into_iter().filter(|(done, _)| *done > 0.25 * whole) {
            let factor = left / (whole - done);
            assert!((0.5..2.0).contains(&factor), "at {:.2}: {factor:.2}", done / whole);
        }
    }

    /// Passes are reported completely, in few calls.
    #[test]
    fn a_pass_is_reported_whole() {
        #[derive(Default)]
        struct Sum(std::sync::Mutex<Vec<u64>>);
        impl Observer for Sum {
            fn advanced(&self, stage: Stage, amount: u64) {
                assert_eq!(stage, Stage::Prepare);
                self.0.lock().expect("no panic").push(amount);
            }
        }
        let heard = Sum::default();
        let mut pass = PassProgress::new(&heard);
        (0..10_000_000).try_for_each(|position| pass.reached(position)).expect("nothing stops it");
        pass.ended(10_000_000);
        let heard = heard.0.into_inner().expect("no panic");
        assert_eq!((heard.len(), heard.iter().sum::<u64>()), (3, 10_000_000));
    }
}
