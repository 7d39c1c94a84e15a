//! Counts the progress of calls that may take long, for the thread that watches the caller.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

thread_local! {
    static SIGNS: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// Every sign of progress of this thread's calls is added to this count from now on.
pub fn count_progress_in(count: Arc<AtomicU64>) {
    SIGNS.with(|signs| *signs.borrow_mut() = Some(count));
}

/// The progress of a call, which several threads may make for the one that called.
#[derive(Clone)]
pub(crate) struct Progress(Option<Arc<AtomicU64>>);

impl Progress {
    /// Of a call of this thread.
    pub(crate) fn of_this_thread() -> Self {
        Self(SIGNS.with(|signs| signs.borrow().clone()))
    }

    /// Counts a step of progress.
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
