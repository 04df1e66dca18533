use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};

use super::facts::FactFinder;
use super::fault::TooLongForMemory;
use super::parts::{Part, Parts};
use super::prepare::{Prepare, Prepared, check_growth, place_of};
use super::runs::Runs;
use super::table::PieceTable;
use super::{CountConfig, MemoryLimit};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::parallel::{as_many_as_there_are, lock};
use crate::split::{Segment, SpecialFinder, Splitter};
use crate::units::{Count, amount, place, place64};

/// Text is split in windows of about this size, so that the places of its pieces stay in the cache.
const WINDOW: usize = 8 << 10;

/// After so many pieces it is asked again whether the table is full; more than a window mostly has.
const PIECES_A_CHECK: usize = 4 << 10;

/// With less memory than this a table would be written out after every few windows of text.
const LEAST_SHARE: usize = if cfg!(test) { 0 } else { 2 << 20 };

/// A table of fewer bytes, the least of which are empty, would be written out after every few pieces.
const LEAST_TABLE: usize = if cfg!(test) { 1 } else { 2 << 20 };

/// What all threads have counted.
pub(super) struct Counted {
    /// The tables, one a thread; empty where there are runs.
    pub(super) tables: Vec<PieceTable>,
    /// What did not fit the tables, sorted by bytes, one file a thread.
    pub(super) runs: Vec<Runs>,
    pub(super) facts: FactFinder,
}

/// Counts all parts on as many threads as the current rayon pool has, if the limit of memory is enough for
/// so many. If one of their tables passes its share of the limit, all that was counted goes to disk.
///
/// The threads are not the pool's own, because they wait for each other while one of them reads.
pub(super) fn count<'a>(
    parts: Parts<'a>,
    splitter: &'a dyn Splitter,
    config: &'a CountConfig,
    observer: &dyn Observer,
) -> Result<Counted> {
    let threads = threads(config.limit.as_ref(), LEAST_SHARE);
    let queue = Mutex::new(Queue { parts, taken: 0 });
    let work = || {
        let mut shard = Shard::new(splitter, config, threads);
        shard.run(&queue, observer).map(|()| shard)
    };
    let outcomes = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work);
        // If the system gives none, this one does all of it.
        let Ok(threads) = as_many_as_there_are(threads, start) else { return vec![work()] };
        let outcome =
            |thread: thread::ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(outcome).collect()
    });
    let mut facts = queue.into_inner().unwrap_or_else(PoisonError::into_inner).parts.facts;
    let (mut shards, mut failures) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(shard) => {
                facts.add(&shard.facts);
                shards.push(shard);
            }
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(earliest) = failures.into_iter().min_by_key(|failure| failure.part) {
        return Err(earliest.error);
    }
    if shards.iter().any(|shard| shard.runs.is_some()) {
        shards.par_iter_mut().try_for_each(Shard::spill)?;
    }
    let (tables, runs): (Vec<_>, Vec<_>) = shards.into_iter().map(|shard| (shard.table, shard.runs)).unzip();
    Ok(Counted { tables, runs: runs.into_iter().flatten().collect(), facts })
}

/// How many threads count: as many as the current rayon pool has, unless less memory than `least` is left for each.
fn threads(limit: Option<&MemoryLimit>, least: usize) -> usize {
    let shares = limit.and_then(|limit| place64(limit.tables.0).checked_div(least));
    let most = shares.unwrap_or(usize::MAX);
    rayon::current_num_threads().min(most).max(1)
}

/// Hands parts to threads, in order, until there are no more or one of them could not be had.
struct Queue<'a> {
    parts: Parts<'a>,
    taken: u64,
}

/// What stopped a thread, and at which part. Of several the earliest is told, which is the same one
/// for any number of threads, since all parts before it were counted.
struct Failure {
    part: u64,
    error: Error,
}

impl Queue<'_> {
    fn take(&mut self) -> (u64, Option<Result<Part>>) {
        self.taken += 1;
        let part = self.parts.next();
        if let Some(Err(_)) = part {
            self.parts.stop();
        }
        (self.taken, part)
    }
}

/// What one thread counts.
struct Shard<'a> {
    splitter: &'a dyn Splitter,
    config: &'a CountConfig,
    specials: &'a SpecialFinder,
    prepare: Option<&'a dyn Prepare>,
    /// The source of the text that is counted, and its unit and row.
    document: (usize, (usize, u64)),
    /// The most bytes that the table should have, and where its pieces go then.
    limit: Option<(usize, &'a Path)>,
    table: PieceTable,
    runs: Option<Runs>,
    facts: FactFinder,
    ends: Vec<u32>,
}

impl<'a> Shard<'a> {
    fn new(splitter: &'a dyn Splitter, config: &'a CountConfig, threads: usize) -> Shard<'a> {
        let share =
            |limit: &'a MemoryLimit| ((place64(limit.tables.0) / threads).max(LEAST_TABLE), &*limit.scratch);
        Shard {
            splitter,
            config,
            specials: &config.specials,
            prepare: config.prepare.as_deref(),
            document: (0, (0, 0)),
            limit: config.limit.as_ref().map(share),
            table: PieceTable::new(),
            runs: None,
            facts: FactFinder::default(),
            ends: Vec::new(),
        }
    }

    /// Writes the table as a sorted run, if there is a limit.
    fn spill(&mut self) -> Result<()> {
        let Some((most, scratch)) = self.limit else { return Ok(()) };
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(Runs::create(scratch)?),
        };
        self.table.spill(runs, most)
    }

    fn run(&mut self, queue: &Mutex<Queue<'_>>, observer: &dyn Observer) -> Result<(), Failure> {
        loop {
            // Only while taking a part is the lock held: this ends the statement, and the guard with it.
            let taken = lock(queue).take();
            let (number, Some(part)) = taken else { return Ok(()) };
            let counted = part.and_then(|part| self.count_part(&part, observer));
            if let Err(error) = counted {
                lock(queue).parts.stop();
                return Err(Failure { part: number, error });
            }
        }
    }

    fn count_part(&mut self, part: &Part, observer: &dyn Observer) -> Result<()> {
        observer.checkpoint()?;
        let mut place = part.place;
        part.whole_documents().for_each(|document| self.facts.saw_document(part.source, document));
        for (number, text) in part.texts().enumerate() {
            self.document = (part.source, part.row(number));
            if let Some(prepare) = self.prepare {
                self.count_prepared(prepare, text, part.weight, place, observer)?;
                place += amount(text.len());
                continue;
            }
            for segment in self.specials.segments(text) {
                match segment {
                    Segment::Text(range) if part.weight > 0 => {
                        let place = place + amount(range.start);
                        self.count_text(&text[range], Count::new(part.weight), place, observer)?;
                    }
                    Segment::Text(range) => self.facts.saw_text(&text[range]),
                    Segment::Special(_, range) => {
                        self.facts.saw_text(&text[range.clone()]);
                        self.facts.saw_special(&text[range]);
                    }
                }
            }
            place += amount(text.len());
        }
        observer.advanced(Stage::Count, place - part.place);
        Ok(())
    }

    /// Counts the parts of a whole text that is prepared first.
    fn count_prepared(
        &mut self,
        prepare: &dyn Prepare,
        text: &[u8],
        weight: u64,
        place: u64,
        observer: &dyn Observer,
    ) -> Result<()> {
        let before = self.facts.characters();
        let (start, mut prepared) = (place_of(place), 0);
        prepare.each(text, &mut |part| {
            match part {
                Prepared::Text(part) => {
                    let place = start + prepared;
                    prepared += amount(part.len());
                    check_growth(prepared, text)?;
                    if weight > 0 {
                        self.count_text(part, Count::new(weight), place, observer)?;
                    }
                }
                Prepared::Token(token) => self.facts.saw_special(token),
            }
            Ok(())
        })?;
        self.facts.saw_prepared(before, text);
        Ok(())
    }

    fn count_text(
        &mut self,
        mut text: &[u8],
        weight: Count,
        mut place: u64,
        observer: &dyn Observer,
    ) -> Result<()> {
        while !text.is_empty() {
            let length = self.splitter.first_part(text, WINDOW);
            self.count_window(text, length, weight, place, observer)?;
            place += amount(length);
            text = &text[length..];
        }
        Ok(())
    }

    /// Counts the first bytes of a text, whose end is a cut.
    fn count_window(
        &mut self,
        text: &[u8],
        length: usize,
        weight: Count,
        place: u64,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut ends = mem::take(&mut self.ends);
        ends.clear();
        self.facts.saw_text(&text[..length]);
        self.splitter.piece_ends_observed(&text[..length], &mut ends, observer)?;
        let longest = self.config.longest_piece();
        if length > longest && longest_piece(&ends) > longest {
            let (source, place) = self.document;
            return Err(TooLongForMemory::of_piece(source, place, self.config).into());
        }
        let mut start = 0;
        // Where a pattern has no certain cuts a window may be a whole document, and have any number of pieces.
        for ends in ends.chunks(PIECES_A_CHECK) {
            if self.limit.is_some_and(|(most, _)| self.table.is_full(most)) {
                self.spill()?;
            }
            self.table.count(text, start, ends, weight, place)?;
            start = ends.last().copied().unwrap_or(start);
        }
        self.ends = ends;
        Ok(())
    }
}

/// The most bytes of pieces that end at these places, the first from 0 on.
fn longest_piece(ends: &[u32]) -> usize {
    let starts = std::iter::once(&0).chain(ends);
    place(starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::costly::with_threads;
    use crate::units::ByteCount;

    #[test]
    fn as_many_threads_count_as_have_their_share() {
        let limited = |tables, least| {
            let limit = MemoryLimit { tables: ByteCount(tables), scratch: PathBuf::new() };
            with_threads(4, || threads(Some(&limit), least))
        };
        assert_eq!([0, 9, 10, 25, 1000].map(|tables| limited(tables, 10)), [1, 1, 1, 2, 4]);
        assert_eq!(limited(0, 0), 4);
        assert_eq!(with_threads(4, || threads(None, 10)), 4);
    }
}
