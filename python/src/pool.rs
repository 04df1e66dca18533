//! The threads of this process. Everything that works in parallel passes through [`on_threads`].
//!
//! The threads of a pool do not survive a fork, so a forked process that used the pool of its parent would wait for
//! ever. Pools therefore belong to a process, and another process makes its own. The pool of the parent is left as it
//! is: ending it would wait for its threads.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokenmill::Error;

use crate::errors::{OrRaise, usage};
use crate::process;

/// The most threads that a call may ask for.
const MAX_THREADS: usize = 1024;

/// The pools of one process, by their number of threads.
struct Pools {
    /// The process that made them.
    process: u32,
    /// The number of threads of calls that name none.
    default: usize,
    /// The pools made so far.
    made: HashMap<usize, Arc<ThreadPool>>,
}

/// The pools of this process, or those of its parent until the first call.
///
/// Only a thread that holds Python's global lock locks it, and keeps the global lock meanwhile, so it must not run code
/// of Python either. A thread that forks holds the global lock, so no other thread has locked the pools then.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// The process that imported the module first; 0 before.
static FIRST_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes that this process imports the module, if none did before. A forked process keeps the note of its parent.
pub(crate) fn note_first_process() {
    // If there is a note, it stays.
    let _ = FIRST_PROCESS.compare_exchange(0, process::id(), Relaxed, Relaxed);
}

/// Locks a mutex, also after a panic of another thread: the values here are whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work on a pool of this process, without Python's global lock. Parallel code within the work uses the pool.
///
/// `threads` is their number. By default it is the number of processors, and 1 in a process that was forked or that
/// `multiprocessing` started: other processes use the other processors.
///
/// # Errors
/// The number of threads is out of range, or the system does not start them.
pub(crate) fn on_threads<R: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let pool = pool(py, threads)?;
    Ok(py.detach(|| pool.install(work)))
}

/// A pool of this process.
///
/// # Errors
/// The number of threads is out of range, or the system does not start them.
pub(crate) fn pool(py: Python<'_>, threads: Option<usize>) -> PyResult<Arc<ThreadPool>> {
    if threads.is_some_and(|threads| threads == 0 || threads > MAX_THREADS) {
        let help = "leave it out for one thread per processor";
        return Err(usage(py, &format!("threads must be from 1 to {MAX_THREADS}"), help));
    }
    let default = default_of_new_process(py)?;
    of_this_process(threads, default).or_raise(py)
}

/// A new pool for one job.
///
/// A job keeps one of its threads waiting for texts, so it must not use the pool of other calls: an iterator or `progress`
/// may make such calls, and would wait for ever if the pool had no other thread.
///
/// # Errors
/// Those of [`pool`].
pub(crate) fn pool_of_job(py: Python<'_>, threads: Option<usize>) -> PyResult<ThreadPool> {
    started(pool(py, threads)?.current_num_threads()).or_raise(py)
}

/// A pool of this process, which may be new. `default` is the number of threads of calls that name none, for a process
/// without pools.
///
/// It runs no code of Python, so that the global lock is held from the beginning to the end.
///
/// # Errors
/// The system does not start the threads.
fn of_this_process(threads: Option<usize>, default: Option<usize>) -> tokenmill::Result<Arc<ThreadPool>> {
    let process = process::id();
    let mut pools = lock(&POOLS);
    if pools.as_ref().is_none_or(|pools| pools.process != process) {
        let new = Pools { process, default: default.unwrap_or(1), made: HashMap::new() };
        mem::forget(pools.replace(new));
    }
    let Some(Pools { default, made, .. }) = pools.as_mut() else { return started(1).map(Arc::new) };
    let threads = threads.unwrap_or(*default);
    if let Some(pool) = made.get(&threads) {
        return Ok(Arc::clone(pool));
    }
    let pool = Arc::new(started(threads)?);
    made.insert(threads, Arc::clone(&pool));
    Ok(pool)
}

/// The default number of threads for a process that has no pools yet; `None` if it has.
fn default_of_new_process(py: Python<'_>) -> PyResult<Option<usize>> {
    let known = lock(&POOLS).as_ref().is_some_and(|pools| pools.process == process::id());
    if known { Ok(None) } else { Ok(Some(default_threads(py)?)) }
}

/// The default number of threads of this process.
fn default_threads(py: Python<'_>) -> PyResult<usize> {
    let is_forked = FIRST_PROCESS.load(Relaxed) != process::id();
    let is_child = is_forked || is_started_by_multiprocessing(py)?;
    Ok(if is_child {
        1
    } else {
        available_parallelism().map_or(1, |processors| processors.get().min(MAX_THREADS))
    })
}

/// Whether Python's `multiprocessing` started this process. A process that it started has loaded the module already, so
/// this function never loads it.
fn is_started_by_multiprocessing(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?;
    let module = modules.call_method1("get", ("multiprocessing.process",))?;
    Ok(!module.is_none() && !module.call_method0("parent_process")?.is_none())
}

/// Starts a pool.
fn started(threads: usize) -> tokenmill::Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|cause| {
        Error::failed(format!("cannot start {threads} threads: {cause}")).with_help(
            "use fewer threads (threads=…), or allow more processes and memory (ulimit -u, ulimit -v)",
        )
    })
}
