//! A pool of threads that encode row groups.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::errors::ParquetError;

use super::chunk::{self, Columns};
use super::contents::Contents;
use super::flat_file::FlatGroup;
use super::pack::pack;
use super::row_group::RowGroup;
use super::schema::FileShape;
use crate::base::pools::as_many_as_there_are;
use crate::error::Result;

/// An encoded row group with its contents.
pub(super) type Encoded = Result<(Contents, EncodedGroup), ParquetError>;

/// A row group as it is written to its file.
pub(super) enum EncodedGroup {
    Columns(Columns),
    Flat(FlatGroup),
}

/// Threads that encode row groups. All files of an output share them.
///
/// They are separate from the rayon pool of the caller: the writing thread waits for them, and may be the only one of its pool.
pub struct Encoders {
    /// The queue of row groups; `None` while the threads are being ended.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Encoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoders").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// A row group to encode, and the channel for the result.
struct Job {
    group: RowGroup,
    shape: Arc<FileShape>,
    /// Makes the column writers of a Parquet file; `None` for other formats.
    writers: Option<Arc<ArrowRowGroupWriterFactory>>,
    reply: Sender<Encoded>,
}

impl Encoders {
    /// Starts this number of threads, but at least one. Starts fewer if the system refuses some.
    ///
    /// # Errors
    /// The system refuses all of them.
    pub fn start(threads: usize) -> Result<Arc<Encoders>> {
        let (jobs, queue) = unbounded::<Job>();
        let threads = as_many_as_there_are(threads.max(1), |_| {
            let queue = queue.clone();
            thread::Builder::new().spawn(move || work(&queue))
        })?;
        Ok(Arc::new(Encoders { jobs: Some(jobs), threads }))
    }

    /// Number of row groups that can usefully be in progress: one per thread, and one that waits.
    pub(super) fn ahead(&self) -> usize {
        self.threads.len() + 1
    }

    /// Submits a row group. The receiver gets the result, or is disconnected if the thread panics.
    pub(super) fn encode(
        &self,
        group: RowGroup,
        shape: &Arc<FileShape>,
        writers: Option<&Arc<ArrowRowGroupWriterFactory>>,
    ) -> Receiver<Encoded> {
        let (reply, result) = bounded(1);
        let job = Job { group, shape: Arc::clone(shape), writers: writers.cloned(), reply };
        // If no thread is left, the job is dropped with its sender, and the receiver is disconnected.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
        result
    }
}

/// Encodes row groups until the queue is closed. Each thread runs this.
fn work(queue: &Receiver<Job>) {
    for Job { group, shape, writers, reply } in queue {
        // Nobody listens if the run has failed elsewhere.
        let _ = reply.send(encode(group, &shape, writers.as_deref()));
    }
}

/// Encodes a row group for its file. If the shape has a packing, packs it first.
fn encode(group: RowGroup, shape: &FileShape, writers: Option<&ArrowRowGroupWriterFactory>) -> Encoded {
    let group = match &shape.packing {
        Some(packing) => pack(group, packing),
        None => group,
    };
    let contents = group.contents().clone();
    let encoded = match (shape.flat, writers) {
        (Some((_, width)), _) => EncodedGroup::Flat(FlatGroup::new(&group, width)),
        (None, Some(writers)) => EncodedGroup::Columns(chunk::encode(group, shape, writers)?),
        (None, None) => unreachable!("a Parquet file comes with its writers"),
    };
    Ok((contents, encoded))
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // The disconnected receiver has reported the panic.
            let _ = thread.join();
        }
    }
}
