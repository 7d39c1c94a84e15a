//! Processes many items in parallel and returns the results in the order of the items.

pub(crate) mod pool;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use branchline_trace::panics::{guarded, Panic};
use crossbeam_channel::{bounded, unbounded};

/// Maximum number of results per thread that are computed before the next result in order is available. Threads can
/// therefore continue while one item takes longer.
const AHEAD_PER_THREAD: usize = 3;

/// Processes all items on all cores. Each thread has its own state.
pub(crate) fn map_in_order<T: Sync, S, R: Send>(
    items: &[T],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let mut results = Vec::with_capacity(items.len());
    let taken: Result<(), ()> = stream_in_order(items, Some(items.len()), state, work, |_, result| {
        results.push(result);
        Ok(())
    });
    debug_assert!(taken.is_ok());
    results
}

/// Like `map_in_order`, but passes each result to `take` on the calling thread as soon as all previous results have
/// been passed. Only a few results per core are in memory at a time. If `take` returns an error, the work stops.
pub(crate) fn each_in_order<T: Sync, S, R: Send, E>(
    items: &[T],
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
    take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    stream_in_order(items, None, state, work, take)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn stream_in_order<T: Sync, S, R: Send, E>(
    items: &[T],
    ahead: Option<usize>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    // Querying the number of cores takes longer than processing a small item.
    let cores = if items.len() > 1 { cores() } else { 1 };
    let (threads, ahead) = (cores.min(items.len()), ahead.unwrap_or(AHEAD_PER_THREAD * cores));
    if threads <= 1 {
        let mut state = state();
        return items.iter().try_for_each(|item| take(item, work(&mut state, item)));
    }
    let next = AtomicUsize::new(0);
    // A thread needs a permit to start an item, and taking a result returns a permit.
    let (permits, permitted) = bounded::<()>(ahead.max(threads));
    let (results, done) = unbounded();
    (0..ahead.max(threads)).for_each(|_| _ = permits.try_send(()));
    thread::scope(|scope| {
        for _ in 0..threads {
            let (permitted, results) = (permitted.clone(), results.clone());
            let (next, state, work) = (&next, &state, &work);
            scope.spawn(move || {
                let mut own = state();
                for () in permitted {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = guarded(|| work(&mut own, item));
                    let is_last = result.is_err();
                    if results.send((index, result)).is_err() || is_last {
                        return;
                    }
                }
            });
        }
        drop(results);
        let mut early = BTreeMap::new();
        let mut result_of = |wanted: usize| loop {
            if let Some(result) = early.remove(&wanted) {
                return Ok(result);
            }
            match done.recv() {
                Ok((index, Ok(result))) => drop(early.insert(index, result)),
                Ok((_, Err(panic))) => return Err(panic),
                Err(_) => return Err(Panic::unseen()),
            }
        };
        let mut taken = Ok(Ok(()));
        for (index, item) in items.iter().enumerate() {
            taken = result_of(index).map(|result| take(item, result));
            if !matches!(taken, Ok(Ok(()))) {
                break;
            }
            _ = permits.try_send(());
        }
        // Dropping the permits stops the threads.
        drop(permits);
        while permitted.try_recv().is_ok() {}
        taken.unwrap_or_else(|panic| resume_unwind(Box::new(panic.to_string())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let doubled = map_in_order(
            &items,
            || 0u64,
            |count, item| {
                *count += 1;
                item * 2
            },
        );
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<u64>>());
        assert!(map_in_order(&[] as &[u64], || (), |(), item| *item).is_empty());
    }

    #[test]
    fn few_results_wait_while_one_is_taken() {
        let items: Vec<usize> = (0..200).collect();
        let begun = AtomicUsize::new(0);
        let work = |(): &mut (), item: &usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            *item
        };
        let mut taken = 0;
        let ended = each_in_order(
            &items,
            || (),
            work,
            |_, item| {
                assert_eq!(item, taken);
                assert!(begun.load(Ordering::SeqCst) <= taken + 1 + AHEAD_PER_THREAD * cores());
                taken += 1;
                if taken == 150 {
                    Err("enough")
                } else {
                    Ok(())
                }
            },
        );
        assert_eq!((ended, taken), (Err("enough"), 150));
    }

    #[test]
    fn a_panic_of_a_thread_reaches_the_caller() {
        let items: Vec<usize> = (0..200).collect();
        let work = |(): &mut (), item: &usize| assert!(*item != 77, "item 77");
        let panic = guarded(|| each_in_order(&items, || (), work, |_, ()| Ok::<(), ()>(())));
        assert!(panic.is_err_and(|panic| panic.to_string().contains("item 77")));
    }
}
