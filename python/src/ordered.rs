//! Work on the threads of a pool whose results the calling thread takes in order.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{mem, thread};

use pyo3::prelude::*;
use rayon::ThreadPool;

use crate::job::{Watcher, left_behind};
use crate::pool::{lock, pool};
use crate::process;

/// Results for each thread that may wait to be taken, so that no thread waits for the next item.
const AHEAD: usize = 4;

/// Time between two looks at signals while no result is ready (50 ms).
const WHILE: Duration = Duration::from_millis(50);

/// Does `work` on items on the threads of a pool of this process, and gives the results to `take` on this thread, in the
/// order of the items.
///
/// The threads work while this thread, with Python's global lock, draws items and takes results. It looks at signals
/// after each result and while it waits. Few items are drawn ahead, so memory is bounded.
///
/// If drawing an item forks and the forked process comes back here, it gets an exception: it lacks the threads.
///
/// # Errors
/// The first error in the order of the items, from an item itself or from `take`, or the exception of a signal handler.
/// The watcher that `work` gets then asks to stop.
pub(crate) fn in_order<T: Send + 'static, R: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    items: impl Iterator<Item = PyResult<T>>,
    work: impl Fn(T, &Watcher) -> R + Send + Sync + 'static,
    mut take: impl FnMut(R) -> PyResult<()>,
) -> PyResult<()> {
    let pool = pool(py, threads)?;
    let (ahead, shared) = (AHEAD * pool.current_num_threads(), Arc::new((work, Watcher::default())));
    let (mut tasks, mut items, mut failed) = (Tasks::new(pool), items.fuse(), None);
    let mut run = || {
        loop {
            while failed.is_none()
                && tasks.waiting.len() < ahead
                && let Some(item) = items.next()
            {
                let shared = Arc::clone(&shared);
                match item {
                    Ok(item) => tasks.start(py, move || (shared.0)(item, &shared.1))?,
                    Err(error) => failed = Some(error),
                }
            }
            let Some(result) = tasks.next(py)? else { return failed.take().map_or(Ok(()), Err) };
            take(result)?;
            py.check_signals()?;
        }
    };
    let outcome = run();
    shared.1.stop();
    tasks.end(py);
    outcome
}

/// Tasks on the threads of a pool. They are not those of a scope, whose end would wait for them, in a forked process for
/// ever.
struct Tasks<R> {
    /// The pool.
    pool: Arc<ThreadPool>,
    /// The process of its threads.
    process: u32,
    /// Cloned for each task.
    sender: Sender<(usize, thread::Result<R>)>,
    /// The results with the numbers of their tasks, as they become ready.
    receiver: Mutex<Receiver<(usize, thread::Result<R>)>>,
    /// The results from the next one to take to that of the last task; `None` if not received.
    waiting: VecDeque<Option<thread::Result<R>>>,
    /// Number of tasks that were started.
    started: usize,
    /// Number of results that were received.
    received: usize,
}

impl<R: Send + 'static> Tasks<R> {
    /// No tasks.
    fn new(pool: Arc<ThreadPool>) -> Tasks<R> {
        let (sender, receiver) = channel();
        Tasks {
            pool,
            process: process::id(),
            sender,
            receiver: Mutex::new(receiver),
            waiting: VecDeque::new(),
            started: 0,
            received: 0,
        }
    }

    /// Whether this process was forked since then, and so lacks the threads.
    fn is_left_behind(&self) -> bool {
        self.process != process::id()
    }

    /// Starts a task.
    ///
    /// # Errors
    /// This process lacks the threads.
    fn start(&mut self, py: Python<'_>, task: impl FnOnce() -> R + Send + 'static) -> PyResult<()> {
        if self.is_left_behind() {
            return Err(left_behind(py));
        }
        let (number, sender) = (self.started, self.sender.clone());
        self.pool.spawn_fifo(move || {
            // A panic is passed on as a result: otherwise the calling thread would wait for ever.
            let result = catch_unwind(AssertUnwindSafe(task));
            // Nobody wants it if the calling thread has panicked.
            let _ = sender.send((number, result));
        });
        self.started += 1;
        self.waiting.push_back(None);
        Ok(())
    }

    /// Waits for the next result; `None` if all were taken.
    ///
    /// # Errors
    /// The exception of a signal handler, or this process lacks the threads.
    ///
    /// # Panics
    /// If the task panicked.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<R>> {
        while let Some(None) = self.waiting.front() {
            if self.is_left_behind() {
                return Err(left_behind(py));
            }
            match py.detach(|| lock(&self.receiver).recv_timeout(WHILE)) {
                Ok((number, result)) => {
                    let taken = self.started - self.waiting.len();
                    self.waiting[number - taken] = Some(result);
                    self.received += 1;
                }
                Err(_) => py.check_signals()?,
            }
        }
        let result = self.waiting.pop_front().flatten();
        Ok(result.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))))
    }

    /// Waits until all tasks have ended, so that none of them uses what the caller lends.
    fn end(self, py: Python<'_>) {
        if self.is_left_behind() {
            // A thread of the parent may have been sending when this process was forked.
            mem::forget(self);
            return;
        }
        let rest = self.started - self.received;
        let rest: Vec<_> = py.detach(|| (0..rest).map(|_| lock(&self.receiver).recv()).collect());
        // Their objects of Python are released here, with the global lock.
        drop(rest);
    }
}
