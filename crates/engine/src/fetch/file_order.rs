//! The order in which prefetched files lease memory. Files lease memory in the order in which they will be read, no
//! matter which sizes become known first. Otherwise a later file could hold the memory that an earlier file is waiting
//! for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::budget::Verdict;

#[derive(Debug, Default)]
struct State {
    /// Indices of the files whose size is not yet known.
    opening: BTreeSet<usize>,
    /// Index of the file that the fetcher is waiting for.
    wanted: usize,
    waiting_count: usize,
}

/// The prefetched files of a stream.
#[derive(Debug, Default)]
pub(crate) struct FileOrder(Mutex<State>);

impl FileOrder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of earlier files that may still need memory.
    pub(crate) fn earlier_count(&self, index: usize) -> u64 {
        self.lock().opening.range(..index).count() as u64
    }

    /// Registers a file that is about to be opened.
    pub(crate) fn begin(&self, index: usize) {
        self.lock().opening.insert(index);
    }

    pub(crate) fn end(&self, index: usize) {
        self.lock().opening.remove(&index);
    }

    pub(crate) fn want(&self, index: usize) {
        self.lock().wanted = index;
    }

    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.lock().waiting_count += 1;
        Waiting(Arc::clone(self))
    }

    /// Decides whether a file may lease this many of the free bytes. The file that the fetcher is waiting for never
    /// waits for memory held by later files. At most half of the prefetch threads wait, so that the remaining threads
    /// can read.
    pub(crate) fn verdict(&self, index: usize, bytes: u64, free: u64, threads_max: usize) -> Verdict {
        let state = self.lock();
        let earlier = state.opening.range(..index).count() as u64;
        if bytes.saturating_mul(earlier + 1) <= free {
            Verdict::Take
        } else if index <= state.wanted || state.waiting_count > threads_max / 2 {
            Verdict::Refuse
        } else {
            Verdict::Wait
        }
    }
}

/// Counts as a waiting thread until dropped.
pub(crate) struct Waiting(Arc<FileOrder>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting_count = state.waiting_count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_leaves_room_for_those_before_it() {
        let order = Arc::new(FileOrder::default());
        [3, 4, 5].into_iter().for_each(|index| order.begin(index));
        assert_eq!(order.verdict(5, 10, 29, 8), Verdict::Wait);
        assert_eq!(order.verdict(5, 10, 30, 8), Verdict::Take);
        assert_eq!(order.verdict(3, 10, 10, 8), Verdict::Take);
        order.end(3);
        assert_eq!(order.verdict(5, 10, 20, 8), Verdict::Take);
    }

    #[test]
    fn no_file_waits_for_later_ones_and_not_all_threads_wait() {
        let order = Arc::new(FileOrder::default());
        order.want(4);
        assert_eq!(order.verdict(4, 10, 9, 8), Verdict::Refuse);
        assert_eq!(order.verdict(5, 10, 9, 8), Verdict::Wait);
        let waiting: Vec<Waiting> = (0..5).map(|_| order.wait()).collect();
        assert_eq!(order.verdict(5, 10, 9, 8), Verdict::Refuse);
        drop(waiting);
        assert_eq!(order.verdict(5, 10, 9, 8), Verdict::Wait);
    }
}
