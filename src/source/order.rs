//! All units of all sources as one stream, read ahead by several threads, or by those that take from it.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::vec;

use super::fault::{Fault, Panicked};
use super::{Batch, Documents, Source};
use crate::error::{Error, Result};
use crate::panics::catching;
use crate::parallel::{as_many_as_there_are, lock, wait};
use crate::units::amount;

/// How many bytes may wait to be taken at first, per thread: more than is needed would only push what comes next out of
/// the cache, and take memory that was not touched before.
const WAITING_BYTES: u64 = 1 << 20;

/// So many times as much may wait in the end, where the readers turn out to be slower than the consumer.
const GROWTH: u64 = 16;

/// And so many times as much of the unit that is being taken.
const GROWTH_OF_FIRST: u64 = 4;

/// How many units may be begun before the first of them is used up, per reading thread.
const UNITS_AHEAD: usize = 4;

/// The documents of all sources in order: source by source, unit by unit, row by row. Each source must have been opened
/// by the number of its place here. Documents come in batches, which long ones are cut by: see
/// [`whole_documents`](super::whole_documents).
///
/// `threads` threads read and decode units ahead of the consumer; the order does not depend on them.
/// They end when the stream is used up, gives an error, or is dropped, each as soon as it has finished
/// the batch that it is at. A panic while reading is an error at its place in the order.
///
/// With 0 threads whoever takes a batch reads it. Where several threads take from the stream in turn, and the sources
/// are [plain](Source::is_plain), that is faster: no thread has to be woken, and the text is where it is needed.
///
/// **Memory:** for each thread 1 MiB of text, and of what passes through, waits to be taken, and as much of the unit that is
/// being taken. Once the consumer was found waiting while readers were stopped, up to 16 MiB for each thread, and 4 of the
/// unit. Each thread holds a batch more, and a batch of the unit that is being taken may wait whatever its size.
pub fn in_order(sources: Vec<Arc<dyn Source>>, threads: usize) -> Documents<'static> {
    in_order_from(sources, (0, 0), threads)
}

/// As [`in_order`], from a source's unit on: what comes before it is not read.
pub fn in_order_from(
    sources: Vec<Arc<dyn Source>>,
    from: (usize, usize),
    threads: usize,
) -> Documents<'static> {
    let places: Vec<(usize, usize)> = sources
        .iter()
        .enumerate()
        .flat_map(|(source, units)| (0..units.units().len()).map(move |unit| (source, unit)))
        .filter(|place| *place >= from)
        .collect();
    if threads == 0 {
        return Box::new(Unread { sources, places: places.into_iter(), unit: None });
    }
    let least_bytes = WAITING_BYTES.saturating_mul(amount(threads));
    let threads = threads.clamp(1, places.len().max(1));
    let ahead = threads * UNITS_AHEAD;
    let shared = Arc::new(Shared {
        sources,
        places,
        ahead,
        least_bytes,
        state: Mutex::new(State { most_bytes: least_bytes, ..State::default() }),
        room: Condvar::new(),
        arrived: Condvar::new(),
    });
    let started = as_many_as_there_are(threads, |number| {
        let shared = Arc::clone(&shared);
        thread::Builder::new().name(format!("read-{number}")).spawn(move || shared.read_units())
    });
    // Without any thread there is no stream.
    Box::new(Ordered { shared, failed: started.err() })
}

struct Shared {
    sources: Vec<Arc<dyn Source>>,
    /// Source and unit of each place in the order.
    places: Vec<(usize, usize)>,
    ahead: usize,
    /// What `most_bytes` of the state begin with.
    least_bytes: u64,
    state: Mutex<State>,
    /// Told when readers may find something to do.
    room: Condvar,
    /// Told when the consumer may.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// The place that is being taken.
    first: usize,
    /// The next place for a reader to begin.
    next: usize,
    /// What has been read of the places from `first` up to `next`.
    units: VecDeque<Waiting>,
    /// Bytes in `units`, of text and of what passes through.
    bytes: u64,
    /// So many may be.
    most_bytes: u64,
    /// Whether a reader had to wait for room since that was settled.
    crowded: bool,
    stopped: bool,
}

#[derive(Default)]
struct Waiting {
    /// With the number of rows of the unit that had been left out by then.
    batches: VecDeque<(Result<Batch>, u64)>,
    /// Bytes in them.
    bytes: u64,
    /// How many rows of it were left out, once all of it is read.
    ended: Option<u64>,
}

fn bytes_of(batch: &Result<Batch>) -> u64 {
    batch.as_ref().map_or(0, Batch::bytes)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn read_units(&self) {
        while let Some(place) = self.begin() {
            let (source, unit) = self.places[place];
            let outcome = catching(|| self.read_unit(place, source, unit));
            if let Err(error) =
                outcome.unwrap_or_else(|said| Err(panicked(&*self.sources[source], unit, said)))
            {
                self.give(place, Err(error));
            }
            self.end(place);
        }
    }

    /// Waits for a unit that may be begun; `None` when there are no more.
    fn begin(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if state.stopped || state.next == self.places.len() {
                return None;
            }
            if state.next < state.first + self.ahead {
                let place = state.next;
                state.next += 1;
                state.units.push_back(Waiting::default());
                return Some(place);
            }
            state = wait(&self.room, state);
        }
    }

    fn read_unit(&self, place: usize, source: usize, unit: usize) -> Result<()> {
        for batch in self.sources[source].read(unit)? {
            if !self.give(place, batch) {
                break;
            }
        }
        Ok(())
    }

    /// Adds a batch once there is room for it; `false` if nobody wants it any more.
    ///
    /// The unit that is being taken has room whenever nothing of it waits, so it always gets on.
    fn give(&self, place: usize, batch: Result<Batch>) -> bool {
        let (bytes, left_out) = (bytes_of(&batch), self.left_out(place));
        let mut state = self.state();
        loop {
            if state.stopped {
                return false;
            }
            // A place is left only after its reader has ended it, so it is not before the first.
            let at = place - state.first;
            let unit = &state.units[at];
            let has_room = match at {
                0 => unit.batches.is_empty() || unit.bytes + bytes <= self.most_of_first(state.most_bytes),
                _ => state.bytes + bytes <= state.most_bytes,
            };
            if has_room {
                state.bytes += bytes;
                state.units[at].bytes += bytes;
                state.units[at].batches.push_back((batch, left_out));
                drop(state);
                self.arrived.notify_one();
                return true;
            }
            state.crowded = true;
            state = wait(&self.room, state);
        }
    }

    fn end(&self, place: usize) {
        let left_out = self.left_out(place);
        let mut state = self.state();
        let at = place - state.first;
        if let Some(unit) = state.units.get_mut(at) {
            unit.ended = Some(left_out);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Takes the next batch, or waits for it; `None` at the end.
    fn take(&self) -> Option<Result<Batch>> {
        let mut state = self.state();
        loop {
            if state.stopped || state.first == self.places.len() {
                return None;
            }
            let unit = state.units.front_mut();
            let (batch, ended) = unit.map_or((None, None), |unit| (unit.batches.pop_front(), unit.ended));
            if let Some((batch, left_out)) = batch {
                self.taken(state.first, left_out);
                let bytes = bytes_of(&batch);
                state.bytes -= bytes;
                state.units[0].bytes -= bytes;
                state.stopped = batch.is_err();
                drop(state);
                self.room.notify_all();
                return Some(batch);
            }
            if let Some(left_out) = ended {
                self.taken(state.first, left_out);
                state.units.pop_front();
                state.first += 1;
                self.room.notify_all();
                continue;
            }
            if mem::take(&mut state.crowded) {
                state.most_bytes = (state.most_bytes + self.least_bytes).min(self.least_bytes * GROWTH);
                self.room.notify_all();
            }
            state = wait(&self.arrived, state);
        }
    }

    /// How many rows of the unit of a place have been left out so far.
    fn left_out(&self, place: usize) -> u64 {
        let (source, unit) = self.places[place];
        self.sources[source].left_out(unit)
    }

    fn taken(&self, place: usize, left_out: u64) {
        let (source, unit) = self.places[place];
        self.sources[source].taken(unit, left_out);
    }

    /// How much of the unit that is being taken may wait, if so much may in all.
    fn most_of_first(&self, most_bytes: u64) -> u64 {
        most_bytes.min(self.least_bytes * GROWTH_OF_FIRST)
    }
}

/// What a panic while reading a unit said, as an error.
fn panicked(source: &dyn Source, unit: usize, said: String) -> Error {
    Fault::damaged(&source.units()[unit].name, "a part of it", Panicked(said))
}

/// Documents that are read when they are taken.
struct Unread {
    sources: Vec<Arc<dyn Source>>,
    places: vec::IntoIter<(usize, usize)>,
    /// What is left of the unit that is being taken, and its place.
    unit: Option<(Documents<'static>, (usize, usize))>,
}

impl Unread {
    /// Goes on to the next unit; `false` if there is none.
    fn open(&mut self) -> Result<bool> {
        let Some((source, unit)) = self.places.next() else { return Ok(false) };
        let documents = catching(|| self.sources[source].read(unit));
        let documents = documents.unwrap_or_else(|said| Err(panicked(&*self.sources[source], unit, said)))?;
        self.unit = Some((documents, (source, unit)));
        Ok(true)
    }

    fn take(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some((documents, (source, unit))) = &mut self.unit {
                let batch = catching(|| documents.next());
                let batch =
                    batch.unwrap_or_else(|said| Some(Err(panicked(&*self.sources[*source], *unit, said))));
                let source = &self.sources[*source];
                source.taken(*unit, source.left_out(*unit));
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

impl Iterator for Unread {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let batch = self.take();
        if batch.is_err() {
            (self.unit, self.places) = (None, Vec::new().into_iter());
        }
        batch.transpose()
    }
}

/// The consumer's end. Its threads are not waited for: one of them may be waiting for standard input.
struct Ordered {
    shared: Arc<Shared>,
    failed: Option<Error>,
}

impl Iterator for Ordered {
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

impl Drop for Ordered {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.room.notify_all();
    }
}
