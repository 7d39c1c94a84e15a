//! Counts progress within long calls, so that another thread can detect stalls.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

thread_local! {
    static SIGNS: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// Makes all later calls in this thread add their progress to `count`.
pub fn count_progress_in(count: Arc<AtomicU64>) {
    SIGNS.with(|signs| *signs.borrow_mut() = Some(count));
}

/// Progress counter of a call. Several threads may make progress on behalf of the caller.
#[derive(Clone)]
pub(crate) struct Progress(Option<Arc<AtomicU64>>);

impl Progress {
    /// Returns the progress counter of this thread.
    pub(crate) fn of_this_thread() -> Self {
        Self(SIGNS.with(|signs| signs.borrow().clone()))
    }

    /// Adds one to the progress counter.
    pub(crate) fn sign(&self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_counted_for_the_thread_that_called() {
        let count = Arc::new(AtomicU64::new(0));
        Progress::of_this_thread().sign();
        count_progress_in(Arc::clone(&count));
        let progress = Progress::of_this_thread();
        progress.sign();
        std::thread::scope(|scope| drop(scope.spawn(|| progress.sign())));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
