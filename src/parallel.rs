use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::error::Result;

/// Maps the items of an iterator on as many threads as the current rayon pool has, and hands the
/// results to `take` in the order of the items, on the calling thread.
///
/// `state` makes what a thread keeps from item to item. At most `ahead` items are between being
/// drawn and being taken, so memory is bounded whatever the pace of `take`. The threads are not the
/// pool's own, because they wait for each other, and a pool's threads must not.
///
/// # Errors
/// The first error in the order of the items, whether an item, its mapping, or `take` gave it;
/// nothing after it is taken.
///
/// # Panics
/// Where `map` panics.
pub fn ordered<T, S, R>(
    items: impl Iterator<Item = Result<T>> + Send,
    ahead: usize,
    state: impl Fn() -> S + Sync,
    map: impl Fn(&mut S, T) -> Result<R> + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()>
where
    R: Send,
{
    let threads = rayon::current_num_threads();
    // Each thread uses up one permit to find that there are no more items.
    let ahead = ahead.max(threads);
    let items = &Mutex::new(items.enumerate());
    let (state, map) = (&state, &map);
    thread::scope(move |scope| {
        let (give_back, permits) = bounded(ahead);
        let (done, results) = unbounded();
        for _ in 0..threads {
            let (done, permits) = (done.clone(), permits.clone());
            scope.spawn(move || work(items, &permits, &done, state(), map));
        }
        drop((done, permits));
        in_order(results, give_back, ahead, &mut take)
    })
}

/// A place in the order, and what came of the item there: a result, or a panic.
type Numbered<R> = (usize, thread::Result<Result<R>>);

fn work<T, S, R>(
    items: &Mutex<impl Iterator<Item = (usize, Result<T>)>>,
    permits: &Receiver<()>,
    done: &Sender<Numbered<R>>,
    mut state: S,
    map: &impl Fn(&mut S, T) -> Result<R>,
) {
    while permits.recv().is_ok() {
        let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((place, item)) = next else { return };
        // Sent on, because the others would wait for a place that never comes.
        let result = catch_unwind(AssertUnwindSafe(|| item.and_then(|item| map(&mut state, item))));
        let panicked = result.is_err();
        if done.send((place, result)).is_err() || panicked {
            return;
        }
    }
}

/// Takes results by their place. Owns its ends of the channels: returning drops them, which ends the
/// threads also where an error comes first.
fn in_order<R>(
    results: Receiver<Numbered<R>>,
    give_back: Sender<()>,
    ahead: usize,
    take: &mut impl FnMut(R) -> Result<()>,
) -> Result<()> {
    // A failed send would mean that the threads are gone, and then nobody needs the permit.
    for _ in 0..ahead {
        let _ = give_back.send(());
    }
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (place, result) in results {
        waiting.insert(place, result.unwrap_or_else(|panic| resume_unwind(panic)));
        while let Some(result) = waiting.remove(&next) {
            take(result?)?;
            next += 1;
            let _ = give_back.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a small pool").install(work)
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
    #[should_panic(expected = "at the fifth")]
    fn a_panic_on_one_thread_ends_all() {
        let panics_once = |(): &mut (), n: u64| if n == 5 { panic!("at the fifth") } else { Ok(n) };
        let outcome = with_threads(2, || ordered((0..1_000).map(Ok), 4, || (), panics_once, |_| Ok(())));
        outcome.expect("no error");
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
