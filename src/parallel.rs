use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, ErrorKind, Result};

/// Maps the items of an iterator on as many threads as the current rayon pool has, and hands the
/// results to `take` in the order of the items, on the calling thread, which maps items too while it would wait.
///
/// `state` makes what a thread keeps from item to item. At most `ahead` items are between being
/// drawn and being taken, so memory is bounded whatever the pace of `take`. The other threads are not the
/// pool's own, because they wait for each other, and a pool's threads must not. Where the system gives fewer, these
/// do the work.
///
/// # Errors
/// The first error in the order of the items, whether an item, its mapping, or `take` gave it;
/// nothing after it is taken.
///
/// # Panics
/// Where `items`, `state` or `map` panics, unless an item before it gave an error.
pub(crate) fn ordered<T, S, R>(
    items: impl Iterator<Item = Result<T>> + Send,
    ahead: usize,
    state: impl Fn() -> S + Sync,
    map: impl Fn(&mut S, T) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()>
where
    R: Send,
{
    let others = rayon::current_num_threads() - 1;
    let (items, results) = (&Mutex::new(items.enumerate()), &Results::new(others, ahead.max(1)));
    let (state, map) = (&state, &map);
    thread::scope(|scope| {
        let _taker = Taker(results);
        let start = |_| {
            thread::Builder::new().spawn_scoped(scope, move || {
                let _maker = Maker(results);
                let mut state = state();
                while results.may_go_on() {
                    make(items, results, &mut state, map);
                }
            })
        };
        let started = (0..others).map_while(|number| start(number).ok()).count();
        (started..others).for_each(|_| drop(Maker(results)));
        let mut state = state();
        loop {
            match results.next() {
                Next::Take(result) => {
                    take(result.unwrap_or_else(|panic| resume_unwind(panic))?)?;
                    results.permit();
                }
                Next::Make => make(items, results, &mut state, map),
                Next::End => return Ok(()),
            }
        }
    })
}

/// Starts so many threads, or as many as the system gives.
///
/// # Errors
/// It gives none.
pub(crate) fn as_many_as_there_are<T>(
    threads: usize,
    mut start: impl FnMut(usize) -> io::Result<T>,
) -> Result<Vec<T>> {
    let mut started = Vec::new();
    for number in 0..threads {
        match start(number) {
            Ok(thread) => started.push(thread),
            Err(cause) if number == 0 => return Err(no_threads(cause)),
            Err(_) => break,
        }
    }
    Ok(started)
}

/// The error where the system gives no thread.
pub(crate) fn no_threads(cause: impl fmt::Display) -> Error {
    #[derive(Debug, thiserror::Error)]
    #[error("no thread can be started: {0}")]
    struct NoThreads(String);
    Error::new(ErrorKind::Failed, NoThreads(cause.to_string())).with_help(
        "use fewer (--threads), or allow more processes and memory (ulimit -u, ulimit -v, the cgroup)",
    )
}

/// Runs work that is cut up again and again into tasks of less time than it takes to wake a thread, in a pool whose other
/// threads look for such tasks all the time. The work is told how many threads the pool has: as many as the current one.
///
/// The pool is of its own, so that a thread that waits for tasks is given no others, which might in turn wait for it.
pub(crate) fn attended<R: Send>(work: impl FnOnce(usize) -> R + Send) -> R {
    let threads = rayon::current_num_threads();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let Some(pool) = pool.ok().filter(|_| threads > 1) else { return work(1) };
    let ended = &AtomicBool::new(false);
    pool.scope(|scope| {
        let worker = rayon::current_thread_index();
        let look = move |_: &rayon::Scope<'_>| {
            while !ended.load(Relaxed) && rayon::current_thread_index() != worker {
                if rayon::yield_now() != Some(rayon::Yield::Executed) {
                    thread::yield_now();
                }
            }
        };
        (1..threads).for_each(|_| scope.spawn(look));
        let _end = End(ended);
        work(threads)
    })
}

/// Runs work that is shared by so many threads, those of a rayon pool of its own. The calling thread waits, and is given
/// no other work meanwhile, so that other threads may wait for this work.
///
/// # Errors
/// The system gives no threads.
///
/// # Panics
/// Where the work does.
pub(crate) fn apart<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(no_threads)?;
    // A thread of a pool would look for other work in it while it waits.
    thread::scope(|scope| {
        let started =
            thread::Builder::new().spawn_scoped(scope, || pool.install(work)).map_err(no_threads)?;
        Ok(started.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Tells that something has ended once it is dropped, be it by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What came of an item: a result, or a panic.
type Outcome<R> = thread::Result<Result<R>>;

/// Makes the next result. If there is none, or making it panics, no more are to be made.
fn make<T, S, R>(
    items: &Mutex<impl Iterator<Item = (usize, Result<T>)>>,
    results: &Results<R>,
    state: &mut S,
    map: &impl Fn(&mut S, T) -> Result<R>,
) {
    let next = lock(items).next();
    let Some((place, item)) = next else { return results.draw_no_more() };
    // Passed on, because the one that takes would wait for a place that never comes.
    let result = catch_unwind(AssertUnwindSafe(|| item.and_then(|item| map(state, item))));
    if result.is_err() {
        results.draw_no_more();
    }
    results.put(place, result);
}

/// What the thread that takes results does next.
enum Next<R> {
    /// Takes this one.
    Take(Outcome<R>),
    /// Makes one itself, as the next one is not there.
    Make,
    /// Nothing: there are no more.
    End,
}

/// Results on their way from the threads that make them to the one that takes them in order.
///
/// Not crossbeam's channels: these let other threads run a few times before they sleep. Where all cores are busy, the one
/// that takes is then put off for milliseconds, and the others, which may not go on without it, sleep meanwhile.
struct Results<R> {
    queue: Mutex<Queue<R>>,
    /// The next result is there, or nobody makes one any more.
    ready: Condvar,
    /// An item may be drawn, or none shall be any more.
    may_draw: Condvar,
}

struct Queue<R> {
    waiting: BTreeMap<usize, Outcome<R>>,
    /// The place of the result that is taken next.
    next: usize,
    /// How many items may still be drawn.
    permits: usize,
    /// How many threads make results.
    makers: usize,
    /// No more items shall be drawn: there are none, or nobody wants what comes of them.
    ended: bool,
}

/// Makes results as long as it lives.
struct Maker<'a, R>(&'a Results<R>);

impl<R> Drop for Maker<'_, R> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.draw_no_more();
        }
        lock(&self.0.queue).makers -= 1;
        self.0.ready.notify_one();
    }
}

/// Takes results as long as it lives.
struct Taker<'a, R>(&'a Results<R>);

impl<R> Drop for Taker<'_, R> {
    fn drop(&mut self) {
        self.0.draw_no_more();
    }
}

impl<R> Results<R> {
    fn new(makers: usize, permits: usize) -> Results<R> {
        let queue = Queue { waiting: BTreeMap::new(), next: 0, permits, makers, ended: false };
        Results { queue: Mutex::new(queue), ready: Condvar::new(), may_draw: Condvar::new() }
    }

    /// Waits until one more item may be drawn, or tells that none shall be.
    fn may_go_on(&self) -> bool {
        let mut queue = lock(&self.queue);
        while queue.permits == 0 && !queue.ended {
            queue = wait(&self.may_draw, queue);
        }
        queue.permits -= usize::from(!queue.ended);
        !queue.ended
    }

    fn put(&self, place: usize, result: Outcome<R>) {
        let is_next = {
            let mut queue = lock(&self.queue);
            queue.waiting.insert(place, result);
            place == queue.next
        };
        if is_next {
            self.ready.notify_one();
        }
    }

    /// What comes next in order, unless something is to be made meanwhile.
    fn next(&self) -> Next<R> {
        let mut queue = lock(&self.queue);
        loop {
            let next = queue.next;
            if let Some(result) = queue.waiting.remove(&next) {
                queue.next += 1;
                return Next::Take(result);
            }
            if queue.permits > 0 && !queue.ended {
                queue.permits -= 1;
                return Next::Make;
            }
            if queue.makers == 0 {
                return Next::End;
            }
            queue = wait(&self.ready, queue);
        }
    }

    /// Lets one more item be drawn.
    fn permit(&self) {
        lock(&self.queue).permits += 1;
        self.may_draw.notify_one();
    }

    fn draw_no_more(&self) {
        lock(&self.queue).ended = true;
        self.may_draw.notify_all();
    }
}

/// What a mutex guards, also where a thread panicked while it had it: the panic is passed on by itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until others say that what a mutex guards has changed, also where one of them panicked meanwhile.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::costly::with_threads;

    #[test]
    fn fewer_threads_do_but_none_is_an_error() {
        let given = |most: usize| {
            move |number| if number < most { Ok(number) } else { Err(io::Error::other("no more")) }
        };
        assert_eq!(as_many_as_there_are(4, given(4)).expect("all"), [0, 1, 2, 3]);
        assert_eq!(as_many_as_there_are(4, given(2)).expect("two"), [0, 1]);
        let refused = as_many_as_there_are(4, given(0)).expect_err("none");
        assert!(refused.to_string().contains("no more") && refused.help().is_some(), "{refused}");
    }

    #[test]
    fn work_is_done_apart_by_as_many_threads_as_are_asked_for() {
        for threads in [1, 3] {
            let of_pool = with_threads(2, || apart(threads, rayon::current_num_threads));
            assert_eq!(of_pool.expect("threads"), threads);
        }
        let panic = catch_unwind(|| apart::<()>(1, || resume_unwind(Box::new("the work's own"))));
        assert_eq!(panic.expect_err("it is passed on").downcast_ref(), Some(&"the work's own"));
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for (threads, ahead) in [(1, 1), (2, 1), (7, 3), (3, 100)] {
            let mut taken = Vec::new();
            let outcome = with_threads(threads, || {
                let slow_when_even = |(): &mut (), n: u64| {
                    std::thread::sleep(std::time::Duration::from_micros((n + 1) % 2 * 300));
                    Ok(n * n)
                };
                ordered(
                    (0..200).map(Ok),
                    ahead,
                    || (),
                    slow_when_even,
                    |n| {
                        taken.push(n);
                        Ok(())
                    },
                )
            });
            assert!(outcome.is_ok());
            assert_eq!(taken, (0..200).map(|n| n * n).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn a_panic_on_one_thread_ends_all() {
        for (panicking, threads, ahead) in [("map", 2, 4), ("map", 1, 1), ("item", 2, 1), ("state", 3, 1)] {
            let fail = |at: &str, n: u64| if at == panicking && n == 5 { panic!("at the fifth") } else { n };
            let states = AtomicU64::new(4);
            let state = || fail("state", states.fetch_add(1, Ordering::Relaxed));
            let items = (0..1_000).map(|n| Ok(fail("item", n)));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                with_threads(threads, || ordered(items, ahead, state, |_, n| Ok(fail("map", n)), |_| Ok(())))
            }));
            let told = outcome.expect_err(panicking).downcast_ref::<&str>().copied();
            // The others' may be that of a thread that had no result to pass it on with.
            assert!(told == Some("at the fifth") || panicking != "map", "{panicking}: {told:?}");
        }
    }

    #[test]
    fn the_first_error_in_order_ends_it() {
        for failing in ["item", "map", "take"] {
            let mut taken = 0;
            let fail =
                |at: &str, n: u64| if at == failing && n == 5 { Err(Error::interrupted()) } else { Ok(n) };
            let outcome = with_threads(3, || {
                let map = |(): &mut (), n| fail("map", n);
                ordered(
                    (0..1_000).map(|n| fail("item", n)),
                    4,
                    || (),
                    map,
                    |n| {
                        fail("take", n)?;
                        taken += 1;
                        Ok(())
                    },
                )
            });
            assert!(outcome.is_err(), "{failing}");
            assert_eq!(taken, 5, "{failing}");
        }
    }
}
