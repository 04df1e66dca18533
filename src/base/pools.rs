//! Work on all cores: results in order, pools for short tasks, and separate pools.
//!
//! Results do not depend on the number of threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, thread};

use crate::error::{Error, Result};

/// Maps the items of an iterator on as many threads as the current rayon pool has, and passes the results to
/// `take` in the order of the items. `take` runs on the calling thread, which maps items too when it would
/// otherwise wait.
///
/// `state` makes the state that a thread keeps from item to item. At most `ahead` items have been drawn from
/// the iterator and not yet been taken, so memory is bounded however slow `take` is. The additional threads do
/// not belong to the pool, because they wait for each other, and the threads of a pool must not block. If the
/// system starts fewer threads, those do all the work.
///
/// # Errors
/// The first error in the order of the items, from an item itself, from `map` or from `take`. Nothing after it
/// is taken.
///
/// # Panics
/// If `items`, `state` or `map` panics, unless an earlier item gave an error.
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
    let (items, results) = (&Mutex::new(items.enumerate()), &ResultQueue::new(others, ahead.max(1)));
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
                NextAction::Take(result) => {
                    take(result.unwrap_or_else(|panic| resume_unwind(panic))?)?;
                    results.permit();
                }
                NextAction::Make => make(items, results, &mut state, map),
                NextAction::End => return Ok(()),
            }
        }
    })
}

/// Starts `threads` threads, or as many as the system allows.
///
/// # Errors
/// The system does not start even one.
pub(crate) fn spawn_up_to<T>(
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

/// The error if the system starts no thread.
pub(crate) fn no_threads(cause: impl fmt::Display) -> Error {
    Error::failed(format!("cannot start a thread: {cause}")).with_help(
        "use fewer threads (--threads), or allow more processes and memory (ulimit -u, ulimit -v, the cgroup)",
    )
}

/// Runs work that repeatedly splits into tasks that take less time than waking a thread. The other threads of
/// the pool poll for such tasks without sleeping. `work` gets the number of threads, which is that of the
/// current pool; if it is 1 or the system starts no pool, `work` runs on the calling thread.
///
/// The pool is a separate one, so that a thread that waits for tasks does not get unrelated ones, which might
/// in turn wait for it.
pub(crate) fn in_busy_pool<R: Send>(work: impl FnOnce(usize) -> R + Send) -> R {
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
        let _end = EndSignal(ended);
        work(threads)
    })
}

/// Runs work in a separate rayon pool of `threads` threads. The calling thread blocks and takes no other work
/// meanwhile, so that other threads may wait for this work without a deadlock.
///
/// # Errors
/// The system does not start the threads.
///
/// # Panics
/// If the work panics.
pub(crate) fn in_isolated_pool<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(no_threads)?;
    // A thread of a rayon pool would look for other work in its pool while it waits, so a plain thread waits.
    thread::scope(|scope| {
        let started =
            thread::Builder::new().spawn_scoped(scope, || pool.install(work)).map_err(no_threads)?;
        Ok(started.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Signals an end when it is dropped, also by a panic.
struct EndSignal<'a>(&'a AtomicBool);

impl Drop for EndSignal<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The result for an item, or the panic of its mapping.
type Outcome<R> = thread::Result<Result<R>>;

/// Draws the next item and maps it. Stops the drawing of further items if none is left or if the mapping
/// panics.
fn make<T, S, R>(
    items: &Mutex<impl Iterator<Item = (usize, Result<T>)>>,
    results: &ResultQueue<R>,
    state: &mut S,
    map: &impl Fn(&mut S, T) -> Result<R>,
) {
    let next = lock(items).next();
    let Some((place, item)) = next else { return results.draw_no_more() };
    // A panic is passed on as a result. Otherwise the taking thread would wait for a result that never comes.
    let result = catch_unwind(AssertUnwindSafe(|| item.and_then(|item| map(state, item))));
    if result.is_err() {
        results.draw_no_more();
    }
    results.put(place, result);
}

/// The next action of the thread that takes results.
enum NextAction<R> {
    /// Take this result.
    Take(Outcome<R>),
    /// Map an item itself, because the next result is not ready.
    Make,
    /// Nothing: all results have been taken.
    End,
}

/// Passes results from the threads that make them to the thread that takes them in order.
///
/// crossbeam's channels yield a few times before they sleep. If all cores are busy, this delays the taking
/// thread by milliseconds, and the other threads sleep meanwhile, because they may not continue without it. So a
/// mutex and condition variables are used here.
struct ResultQueue<R> {
    queue: Mutex<Queue<R>>,
    /// Signalled when the next result is ready, or when a thread stops making results.
    ready: Condvar,
    /// Signalled when another item may be drawn, or when no more items are to be drawn.
    may_draw: Condvar,
}

/// What the threads share under the lock. At any time, at most `ahead` items are drawn and not taken: each permit
/// stands for one more.
struct Queue<R> {
    /// Results that cannot be taken yet, by the number of their item.
    waiting: BTreeMap<usize, Outcome<R>>,
    /// Number of the item with the next result to take.
    next: usize,
    /// Number of items that may still be drawn.
    permits: usize,
    /// Number of threads that make results.
    makers: usize,
    /// No more items are to be drawn: none are left, or nobody takes their results.
    ended: bool,
}

/// Counts as a maker of results as long as it lives.
struct Maker<'a, R>(&'a ResultQueue<R>);

impl<R> Drop for Maker<'_, R> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.draw_no_more();
        }
        lock(&self.0.queue).makers -= 1;
        self.0.ready.notify_one();
    }
}

/// Counts as the taker of results as long as it lives. When it is dropped, the makers stop.
struct Taker<'a, R>(&'a ResultQueue<R>);

impl<R> Drop for Taker<'_, R> {
    fn drop(&mut self) {
        self.0.draw_no_more();
    }
}

impl<R> ResultQueue<R> {
    /// No results yet; `makers` threads make them, and `permits` items may be drawn.
    fn new(makers: usize, permits: usize) -> ResultQueue<R> {
        let queue = Queue { waiting: BTreeMap::new(), next: 0, permits, makers, ended: false };
        ResultQueue { queue: Mutex::new(queue), ready: Condvar::new(), may_draw: Condvar::new() }
    }

    /// Waits until another item may be drawn. Returns `false` if no more items are to be drawn.
    fn may_go_on(&self) -> bool {
        let mut queue = lock(&self.queue);
        while queue.permits == 0 && !queue.ended {
            queue = wait(&self.may_draw, queue);
        }
        queue.permits -= usize::from(!queue.ended);
        !queue.ended
    }

    /// Hands over the result for the item with number `place`.
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

    /// Waits for the next result in order, unless an item can be mapped meanwhile.
    fn next(&self) -> NextAction<R> {
        let mut queue = lock(&self.queue);
        loop {
            let next = queue.next;
            if let Some(result) = queue.waiting.remove(&next) {
                queue.next += 1;
                return NextAction::Take(result);
            }
            if queue.permits > 0 && !queue.ended {
                queue.permits -= 1;
                return NextAction::Make;
            }
            if queue.makers == 0 {
                return NextAction::End;
            }
            queue = wait(&self.ready, queue);
        }
    }

    /// Allows one more item to be drawn.
    fn permit(&self) {
        lock(&self.queue).permits += 1;
        self.may_draw.notify_one();
    }

    /// Ends the drawing of items.
    fn draw_no_more(&self) {
        lock(&self.queue).ended = true;
        self.may_draw.notify_all();
    }
}

/// Locks a mutex, also if a thread has panicked while it held it: that panic is passed on separately.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition variable, also if a thread panics meanwhile while it holds the mutex.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::base::test_support::with_threads;

    #[test]
    fn fewer_threads_do_but_none_is_an_error() {
        let given = |most: usize| {
            move |number| if number < most { Ok(number) } else { Err(io::Error::other("no more")) }
        };
        assert_eq!(spawn_up_to(4, given(4)).expect("all"), [0, 1, 2, 3]);
        assert_eq!(spawn_up_to(4, given(2)).expect("two"), [0, 1]);
        let refused = spawn_up_to(4, given(0)).expect_err("none");
        assert!(refused.to_string().contains("no more") && refused.help().is_some(), "{refused}");
    }

    #[test]
    fn work_is_done_apart_by_as_many_threads_as_are_asked_for() {
        for threads in [1, 3] {
            let of_pool = with_threads(2, || in_isolated_pool(threads, rayon::current_num_threads));
            assert_eq!(of_pool.expect("threads"), threads);
        }
        let panic = catch_unwind(|| in_isolated_pool::<()>(1, || resume_unwind(Box::new("the work's own"))));
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
            // The other panics may reach the caller as the panic of a thread that had no result in which to
            // pass it on.
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
