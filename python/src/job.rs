//! Long work on a thread of its own, while the calling thread looks after signals and reports progress.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tokenmill::source::Stop;
use tokenmill::{Error, Observer, Result, Stage};

use crate::errors::OrRaise;
use crate::pool::{lock, pool};

/// Time between two looks at signals and two reports of progress (100 ms).
const WHILE: Duration = Duration::from_millis(100);

/// Looks after signals and reports progress, if the last look was long enough ago. Its exception must be passed on.
pub(crate) type Look<'a> = &'a mut dyn FnMut(Python<'_>) -> PyResult<()>;

/// Does `work` on a thread of its own, within a pool of this process, and meanwhile `feed` on this thread. `feed` must
/// call the function that it gets from time to time.
///
/// `progress` is called on this thread with the name of the stage, the amount that is done, and the expected amount or
/// `None`. An exception of `feed`, `progress` or a signal handler (`KeyboardInterrupt`) stops the work.
///
/// # Errors
/// That exception, or else the error of the work.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    feed: impl FnOnce(Python<'_>, Look<'_>) -> PyResult<()>,
    work: impl FnOnce(&Watcher) -> Result<R> + Send,
) -> PyResult<R> {
    let (pool, watcher) = (pool(py, threads)?, &Watcher::default());
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let work = move || {
            // The receiver lives as long as the scope.
            let _ = sender.send(pool.install(|| work(watcher)));
        };
        let started = thread::Builder::new().spawn_scoped(scope, work);
        started.map_err(|cause| Error::failed(format!("cannot start a thread: {cause}"))).or_raise(py)?;
        let mut last = Instant::now();
        let mut look = |py: Python<'_>| {
            if last.elapsed() < WHILE {
                return Ok(());
            }
            last = Instant::now();
            py.check_signals().and_then(|()| watcher.report(progress))
        };
        let mut stopped_by = feed(py, &mut look).err();
        loop {
            if stopped_by.is_some() {
                watcher.stop();
            }
            match py.detach(|| lock(&receiver).recv_timeout(WHILE)) {
                Ok(result) => {
                    return match stopped_by {
                        Some(exception) => Err(exception),
                        None => {
                            watcher.report(progress)?;
                            result.or_raise(py)
                        }
                    };
                }
                Err(RecvTimeoutError::Timeout) if stopped_by.is_none() => {
                    stopped_by = py.check_signals().and_then(|()| watcher.report(progress)).err();
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The work has panicked; leaving the scope passes the panic on.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::failed("the work has ended without a result")).or_raise(py);
                }
            }
        }
    })
}

/// What the calling thread knows of the work.
#[derive(Default)]
pub(crate) struct Watcher {
    /// Whether the work should stop. Sources that outlive the work's observer share it.
    stopping: Arc<AtomicBool>,
    /// The stage that began last, with its expected amount.
    stage: Mutex<Option<(Stage, Option<u64>)>>,
    /// The amount of it that is done.
    done: AtomicU64,
}

impl Watcher {
    /// Asks the work to stop.
    fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Says whether the work should stop, for sources.
    pub(crate) fn stop_callback(&self) -> Stop {
        let stopping = Arc::clone(&self.stopping);
        Arc::new(move || stopping.load(Relaxed))
    }

    /// Calls `progress`, if a stage has begun.
    ///
    /// # Errors
    /// The exception of the call.
    fn report(&self, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (Some(progress), Some((stage, total))) = (progress, *lock(&self.stage)) else { return Ok(()) };
        progress.call1((stage.name(), self.done.load(Relaxed), total)).map(drop)
    }
}

impl Observer for Watcher {
    fn started(&self, stage: Stage, total: Option<u64>) {
        *lock(&self.stage) = Some((stage, total));
        self.done.store(0, Relaxed);
    }

    fn advanced(&self, stage: Stage, amount: u64) {
        if lock(&self.stage).is_some_and(|(current, _)| current == stage) {
            self.done.fetch_add(amount, Relaxed);
        }
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}
