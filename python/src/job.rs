//! Long work on a thread of its own, while the calling thread looks after signals and reports progress.

use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tokenmill::source::Stop;
use tokenmill::{Error, Observer, Result, Stage};

use crate::errors::{OrRaise, usage};
use crate::pool::{lock, pool_of_job};
use crate::process;

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
/// If one of them forks and the forked process comes back here, it gets an exception: it lacks the thread that works.
///
/// # Errors
/// That exception, or else the error of the work.
pub(crate) fn run<R: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    feed: impl FnOnce(Python<'_>, Look<'_>) -> PyResult<()>,
    work: impl FnOnce(&Watcher) -> Result<R> + Send + 'static,
) -> PyResult<R> {
    let (pool, watcher) = (pool_of_job(py, threads)?, Arc::new(Watcher::default()));
    let watched = Arc::clone(&watcher);
    let working = Working::start(move || pool.install(|| work(&watched))).or_raise(py)?;
    // Signal handlers and `progress` may fork.
    let watch = |py: Python<'_>| {
        py.check_signals()?;
        working.check_is_here(py)?;
        watcher.report(progress)?;
        working.check_is_here(py)
    };
    let mut last = Instant::now();
    let mut look = |py: Python<'_>| {
        working.check_is_here(py)?;
        if last.elapsed() < WHILE {
            return Ok(());
        }
        last = Instant::now();
        watch(py)
    };
    let mut stopped_by = feed(py, &mut look).err();
    loop {
        if working.is_left_behind() {
            mem::forget(working);
            return Err(stopped_by.unwrap_or_else(|| left_behind(py)));
        }
        if stopped_by.is_some() {
            watcher.stop();
        }
        match py.detach(|| lock(&working.result).recv_timeout(WHILE)) {
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
                stopped_by = watch(py).err();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match py.detach(|| working.thread.join()) {
                Ok(()) => return Err(Error::failed("the work has ended without a result")).or_raise(py),
                Err(panic) => resume_unwind(panic),
            },
        }
    }
}

/// The exception of a forked process that comes back to the work of its parent.
pub(crate) fn left_behind(py: Python<'_>) -> PyErr {
    let problem = "this process was forked while its parent worked, and does not take part in the work";
    usage(
        py,
        problem,
        "let a process that an iterator or progress=… forks end there, as multiprocessing does",
    )
}

/// Work on a thread. It is not a scoped one: the end of a scope would wait for it, in a forked process for ever.
struct Working<R> {
    /// The thread.
    thread: JoinHandle<()>,
    /// Receives the result.
    result: Mutex<Receiver<Result<R>>>,
    /// The process of the thread.
    process: u32,
}

impl<R: Send + 'static> Working<R> {
    /// Starts it.
    ///
    /// # Errors
    /// The system does not start a thread.
    fn start(work: impl FnOnce() -> Result<R> + Send + 'static) -> Result<Working<R>> {
        let (sender, receiver) = channel();
        let work = move || {
            // Nobody receives the result if the caller has panicked.
            let _ = sender.send(work());
        };
        let thread = thread::Builder::new().spawn(work);
        let thread = thread.map_err(|cause| Error::failed(format!("cannot start a thread: {cause}")))?;
        Ok(Working { thread, result: Mutex::new(receiver), process: process::id() })
    }

    /// Whether this process was forked since then, and so lacks the thread.
    fn is_left_behind(&self) -> bool {
        self.process != process::id()
    }

    /// Checks that this process has the thread.
    ///
    /// # Errors
    /// It was forked since then.
    fn check_is_here(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_left_behind() { Err(left_behind(py)) } else { Ok(()) }
    }
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
    pub(crate) fn stop(&self) {
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
