//! Merges all units of all sources into one ordered stream, which is read ahead by several threads or read directly
//! by the consumers.
//!
//! Each reading thread takes the next unit and decodes it to its end, so several units are in progress at once. Their
//! batches wait until the consumer reaches them. Two limits keep that bounded: the number of units ahead of the
//! current one, and the bytes that wait. The current unit has a limit of its own, so that later units can never block
//! it: without that, readers that are full of later batches and a consumer that waits for the current unit would
//! deadlock. Both limits start low and grow only if the consumer has to wait while a reader is blocked.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{mem, thread, vec};

use super::error::damaged;
use super::{Batch, Documents, Source, error};
use crate::base::int::to_u64;
use crate::base::pools::{lock, spawn_up_to, wait};
use crate::error::{Error, Result, catch_panic};

/// Bytes per thread that may wait for the consumer at first (1 MiB). More would only evict the next batches from the
/// cache, and touch fresh memory.
const WAITING_BYTES: u64 = 1 << 20;

/// Factor by which the waiting bytes may grow (to 16 MiB per thread) if the readers turn out to be slower than the
/// consumer.
const GROWTH: u64 = 16;

/// Factor by which the waiting bytes of the current unit may grow (to 4 MiB per thread).
const GROWTH_OF_CURRENT: u64 = 4;

/// Maximum number of units per reading thread that may be started before the first of them is used up.
const UNITS_AHEAD: usize = 4;

/// The documents of all sources in order: source by source, unit by unit, row by row. Each source must have been
/// opened with its index in `sources` as number. Long documents are split over several batches; see
/// [`collected_documents`](super::collected_documents).
///
/// `threads` threads read and decode units ahead of the consumer. The order does not depend on them. They end when
/// the stream is used up, gives an error, or is dropped, as soon as each has finished its current batch. A panic
/// while reading becomes an error at its position in the order.
///
/// With 0 threads, the thread that takes a batch reads it. This is faster if several threads take from the stream in
/// turn and the sources are [plain](Source::is_plain): no thread must be woken, and the text is in the cache of the
/// core that uses it.
///
/// **Memory:** per thread, 1 MiB of text and pass-through columns waits for the consumer, plus 1 MiB of the current
/// unit. If the consumer has to wait while readers are blocked, these limits grow up to 16 MiB and 4 MiB. In addition
/// each thread holds one batch, and one batch of the current unit may wait whatever its size.
///
/// # Errors
/// Items of the iterator are errors if a unit cannot be read, or if no thread could be started. After an error the
/// stream ends.
pub fn in_order(sources: Vec<Arc<dyn Source>>, threads: usize) -> Documents<'static> {
    in_order_from(sources, (0, 0), threads)
}

/// Like [`in_order`], but starts at the unit `from`, a pair of source index and unit index. Earlier units are not
/// read.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{self, OpenContext, SourceSpec};
///
/// let open = |seed: u64, number: usize| {
///     let spec = SourceSpec { uri: format!("demo:verse?lines=10&seed={seed}"), ..SourceSpec::default() };
///     source::open(&spec, number, &OpenContext::new(&Silent))
/// };
/// let sources = vec![open(1, 0)?, open(2, 1)?];
/// let batch = source::in_order_from(sources, (1, 0), 1).next().expect("a batch")?;
/// assert_eq!((batch.source, batch.unit, batch.first_row), (1, 0, 0));
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn in_order_from(
    sources: Vec<Arc<dyn Source>>,
    from: (usize, usize),
    threads: usize,
) -> Documents<'static> {
    let positions: Vec<(usize, usize)> = sources
        .iter()
        .enumerate()
        .flat_map(|(source, units)| (0..units.units().len()).map(move |unit| (source, unit)))
        .filter(|position| *position >= from)
        .collect();
    if threads == 0 {
        return Box::new(DirectStream { sources, positions: positions.into_iter(), unit: None });
    }
    let min_bytes = WAITING_BYTES.saturating_mul(to_u64(threads));
    let threads = threads.clamp(1, positions.len().max(1));
    let ahead = threads * UNITS_AHEAD;
    let shared = Arc::new(ReadAhead {
        sources,
        positions,
        ahead,
        min_bytes,
        state: Mutex::new(ReadAheadState { max_bytes: min_bytes, ..ReadAheadState::default() }),
        space: Condvar::new(),
        arrived: Condvar::new(),
    });
    let started = spawn_up_to(threads, |number| {
        let shared = Arc::clone(&shared);
        thread::Builder::new().name(format!("read-{number}")).spawn(move || shared.read_units())
    });
    // Without any thread there is no stream.
    Box::new(OrderedStream { shared, failed: started.err() })
}

/// The state that the readers and the consumer share.
struct ReadAhead {
    /// The sources, in order.
    sources: Vec<Arc<dyn Source>>,
    /// Source and unit of each position in the order.
    positions: Vec<(usize, usize)>,
    /// Maximum number of units that are started but not used up.
    ahead: usize,
    /// Initial value of [`ReadAheadState::max_bytes`].
    min_bytes: u64,
    /// What changes while units are read.
    state: Mutex<ReadAheadState>,
    /// Notified when readers may find work or room.
    space: Condvar,
    /// Notified when the consumer may find a batch or the end of a unit.
    arrived: Condvar,
}

/// The part of the state that changes, behind a lock.
#[derive(Default)]
struct ReadAheadState {
    /// Position of the unit that the consumer takes from.
    first: usize,
    /// Position of the next unit to start reading.
    next: usize,
    /// The units from `first` up to `next`, with the batches that have been read of them.
    units: VecDeque<UnitQueue>,
    /// Bytes in `units`: text and pass-through columns.
    bytes: u64,
    /// Maximum of `bytes`.
    max_bytes: u64,
    /// Whether a reader had to wait for room since `max_bytes` was last adjusted.
    reader_waited: bool,
    /// Whether the stream has ended: it gave an error, or was dropped.
    stopped: bool,
}

/// A unit that has been started, and its batches that wait for the consumer.
#[derive(Default)]
struct UnitQueue {
    /// The batches that wait, each with the number of rows of the unit that had been skipped by then.
    batches: VecDeque<(Result<Batch>, u64)>,
    /// Bytes in `batches`.
    bytes: u64,
    /// The number of skipped rows, once the whole unit is read.
    ended: Option<u64>,
}

/// Bytes that count against the limits. An error counts as nothing, so that it is never held back.
fn bytes_of(batch: &Result<Batch>) -> u64 {
    batch.as_ref().map_or(0, Batch::bytes)
}

impl ReadAhead {
    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, ReadAheadState> {
        lock(&self.state)
    }

    /// The work of a reading thread: reads units until none is left or the stream ends.
    fn read_units(&self) {
        while let Some(position) = self.begin() {
            let (source, unit) = self.positions[position];
            let outcome = catch_panic(|| self.read_unit(position, source, unit));
            if let Err(error) =
                outcome.unwrap_or_else(|message| Err(panicked(&*self.sources[source], unit, message)))
            {
                self.push(position, Err(error));
            }
            self.end(position);
        }
    }

    /// Waits for a unit that may be started and returns its position; `None` if none is left.
    fn begin(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if state.stopped || state.next == self.positions.len() {
                return None;
            }
            if state.next < state.first + self.ahead {
                let position = state.next;
                state.next += 1;
                state.units.push_back(UnitQueue::default());
                return Some(position);
            }
            state = wait(&self.space, state);
        }
    }

    /// Reads a unit and hands over its batches one by one.
    ///
    /// # Errors
    /// The unit cannot be opened.
    fn read_unit(&self, position: usize, source: usize, unit: usize) -> Result<()> {
        for batch in self.sources[source].read(unit)? {
            if !self.push(position, batch) {
                break;
            }
        }
        Ok(())
    }

    /// Hands over a batch once it has room; returns `false` if the stream has ended.
    ///
    /// The current unit has room whenever none of its batches wait, so the stream always makes progress.
    fn push(&self, position: usize, batch: Result<Batch>) -> bool {
        let (bytes, skipped) = (bytes_of(&batch), self.skipped(position));
        let mut state = self.state();
        loop {
            if state.stopped {
                return false;
            }
            // The consumer leaves a position only after its reader has ended it, so `position` is at least `first`.
            let at = position - state.first;
            let unit = &state.units[at];
            let has_space = match at {
                0 => unit.batches.is_empty() || unit.bytes + bytes <= self.max_of_current(state.max_bytes),
                _ => state.bytes + bytes <= state.max_bytes,
            };
            if has_space {
                state.bytes += bytes;
                state.units[at].bytes += bytes;
                state.units[at].batches.push_back((batch, skipped));
                drop(state);
                self.arrived.notify_one();
                return true;
            }
            state.reader_waited = true;
            state = wait(&self.space, state);
        }
    }

    /// Marks a unit as read completely.
    fn end(&self, position: usize) {
        let skipped = self.skipped(position);
        let mut state = self.state();
        let at = position - state.first;
        if let Some(unit) = state.units.get_mut(at) {
            unit.ended = Some(skipped);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Takes the next batch, waiting for it if necessary; `None` at the end.
    fn take(&self) -> Option<Result<Batch>> {
        let mut state = self.state();
        loop {
            if state.stopped || state.first == self.positions.len() {
                return None;
            }
            let unit = state.units.front_mut();
            let (batch, ended) = unit.map_or((None, None), |unit| (unit.batches.pop_front(), unit.ended));
            if let Some((batch, skipped)) = batch {
                self.taken(state.first, skipped);
                let bytes = bytes_of(&batch);
                state.bytes -= bytes;
                state.units[0].bytes -= bytes;
                state.stopped = batch.is_err();
                drop(state);
                self.space.notify_all();
                return Some(batch);
            }
            if let Some(skipped) = ended {
                self.taken(state.first, skipped);
                state.units.pop_front();
                state.first += 1;
                self.space.notify_all();
                continue;
            }
            if mem::take(&mut state.reader_waited) {
                state.max_bytes = (state.max_bytes + self.min_bytes).min(self.min_bytes * GROWTH);
                self.space.notify_all();
            }
            state = wait(&self.arrived, state);
        }
    }

    /// The number of rows that have been skipped so far in the unit at this position.
    fn skipped(&self, position: usize) -> u64 {
        let (source, unit) = self.positions[position];
        self.sources[source].skipped(unit)
    }

    /// Reports to the source how many rows had been skipped before what the consumer has taken.
    fn taken(&self, position: usize, skipped: u64) {
        let (source, unit) = self.positions[position];
        self.sources[source].taken(unit, skipped);
    }

    /// Maximum waiting bytes of the current unit, given the maximum of all units.
    fn max_of_current(&self, max_bytes: u64) -> u64 {
        max_bytes.min(self.min_bytes * GROWTH_OF_CURRENT)
    }
}

/// The error for a panic with this message while reading a unit.
fn panicked(source: &dyn Source, unit: usize, message: String) -> Error {
    damaged(&source.units()[unit].name, "a part of it", error::panicked(&message))
}

/// The stream without reading threads: a batch is read when it is taken.
struct DirectStream {
    /// The sources, in order.
    sources: Vec<Arc<dyn Source>>,
    /// The units that have not been started.
    positions: vec::IntoIter<(usize, usize)>,
    /// The rest of the current unit, and its source and unit.
    unit: Option<(Documents<'static>, (usize, usize))>,
}

impl DirectStream {
    /// Starts reading the next unit; returns `false` if none is left.
    ///
    /// # Errors
    /// The unit cannot be opened, or opening it panics.
    fn open(&mut self) -> Result<bool> {
        let Some((source, unit)) = self.positions.next() else { return Ok(false) };
        let documents = catch_panic(|| self.sources[source].read(unit));
        let documents =
            documents.unwrap_or_else(|message| Err(panicked(&*self.sources[source], unit, message)))?;
        self.unit = Some((documents, (source, unit)));
        Ok(true)
    }

    /// Reads the next batch; `None` at the end.
    ///
    /// # Errors
    /// A unit cannot be opened or read, or reading it panics.
    fn take(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some((documents, (source, unit))) = &mut self.unit {
                let batch = catch_panic(|| documents.next());
                let batch = batch
                    .unwrap_or_else(|message| Some(Err(panicked(&*self.sources[*source], *unit, message))));
                let source = &self.sources[*source];
                source.taken(*unit, source.skipped(*unit));
                if let Some(batch) = batch {
                    return batch.map(Some);
                }
            }
            self.unit = None;
            if !self.open()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for DirectStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let batch = self.take();
        if batch.is_err() {
            (self.unit, self.positions) = (None, Vec::new().into_iter());
        }
        batch.transpose()
    }
}

/// The consumer's end of the stream with reading threads. Dropping it does not wait for the threads, since one of
/// them may be waiting for standard input.
struct OrderedStream {
    /// What the reading threads share with the consumer.
    shared: Arc<ReadAhead>,
    /// The error if no thread could be started.
    failed: Option<Error>,
}

impl Iterator for OrderedStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        match self.failed.take() {
            Some(error) => {
                self.shared.state().stopped = true;
                Some(Err(error))
            }
            None => self.shared.take(),
        }
    }
}

impl Drop for OrderedStream {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.space.notify_all();
    }
}
