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
use crate::error::Result;
use crate::parallel::as_many_as_there_are;

/// What comes of a row group, with what it holds.
pub(super) type Encoded = Result<(Contents, EncodedGroup), ParquetError>;

/// A row group as it will stand in its file.
pub(super) enum EncodedGroup {
    Columns(Columns),
    Flat(FlatGroup),
}

/// Threads that encode row groups, shared by all files of an output.
///
/// Threads of their own, since the one that writes waits for them, and may be the only one of a pool.
pub struct Encoders {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Encoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoders").field("threads", &self.threads).finish_non_exhaustive()
    }
}

struct Job {
    group: RowGroup,
    shape: Arc<FileShape>,
    /// What encodes the columns of a Parquet file.
    writers: Option<Arc<ArrowRowGroupWriterFactory>>,
    reply: Sender<Encoded>,
}

impl Encoders {
    /// Starts this many threads, at least one; fewer if the system gives no more.
    ///
    /// # Errors
    /// The system gives none.
    pub fn start(threads: usize) -> Result<Arc<Encoders>> {
        let (jobs, queue) = unbounded::<Job>();
        let threads = as_many_as_there_are(threads.max(1), |_| {
            let queue = queue.clone();
            thread::Builder::new().spawn(move || work(&queue))
        })?;
        Ok(Arc::new(Encoders { jobs: Some(jobs), threads }))
    }

    /// How many row groups can usefully be under way at once: one a thread, and one that waits.
    pub(super) fn ahead(&self) -> usize {
        self.threads.len() + 1
    }

    /// Hands a row group over. The receiver gets what comes of it, or is cut off if a thread panics.
    pub(super) fn encode(
        &self,
        group: RowGroup,
        shape: &Arc<FileShape>,
        writers: Option<&Arc<ArrowRowGroupWriterFactory>>,
    ) -> Receiver<Encoded> {
        let (reply, result) = bounded(1);
        let job = Job { group, shape: Arc::clone(shape), writers: writers.cloned(), reply };
        // If no thread is left the job is dropped with its sender, and the receiver says so.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
        result
    }
}

fn work(queue: &Receiver<Job>) {
    for Job { group, shape, writers, reply } in queue {
        // Nobody listens any more where the run has failed elsewhere.
        let _ = reply.send(encode(group, &shape, writers.as_deref()));
    }
}

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
            // A panic has been told by the cut-off receiver.
            let _ = thread.join();
        }
    }
}
