//! How much may be in the making at once: bytes and chunks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A waiter looks at least this often whether the stream was closed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The bytes and chunks that are in the making or in use.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    chunks_max: usize,
    taken: Mutex<Taken>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    chunks: usize,
    /// Of all bytes, those that chunks may not take.
    reserved: u64,
    is_closed: bool,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64, chunks_max: usize) -> Self {
        Self { bytes_max, chunks_max, taken: Mutex::default(), released: Condvar::new() }
    }

    /// Keeps so many bytes, but not more than half of all, from the chunks from now on, unless more are kept already.
    pub(crate) fn reserve(&self, bytes: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.reserved = taken.reserved.max(bytes.min(self.bytes_max / 2));
    }

    /// Bytes that chunks may take together, reserved ones included.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Waits until a chunk of so many bytes may be made; one that is larger than the whole budget is made alone.
    /// Answers false when the stream was closed instead.
    pub(crate) fn acquire(&self, bytes: u64) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if taken.is_closed {
                return false;
            }
            let wanted = taken.bytes.saturating_add(taken.reserved).saturating_add(bytes);
            let fits = wanted <= self.bytes_max && taken.chunks < self.chunks_max;
            if taken.chunks == 0 || fits {
                taken.bytes = taken.bytes.saturating_add(bytes);
                taken.chunks += 1;
                return true;
            }
            let waited = self.released.wait_timeout(taken, LOOK_AGAIN);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A chunk of so many bytes is no longer in use.
    pub(crate) fn release(&self, bytes: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.bytes = taken.bytes.saturating_sub(bytes);
        taken.chunks = taken.chunks.saturating_sub(1);
        drop(taken);
        self.released.notify_all();
    }

    /// Nobody waits any longer.
    pub(crate) fn close(&self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_larger_than_the_budget_is_made_alone() {
        let budget = Budget::new(10, 4);
        assert!(budget.acquire(50));
        budget.release(50);
        assert!(budget.acquire(5) && budget.acquire(5));
    }

    #[test]
    fn reserved_bytes_are_kept_from_chunks() {
        let budget = std::sync::Arc::new(Budget::new(10, 4));
        budget.reserve(3);
        budget.reserve(1);
        assert!(budget.acquire(7));
        let waiting = std::sync::Arc::clone(&budget);
        let waiter = std::thread::spawn(move || waiting.acquire(1));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        budget.release(7);
        assert!(waiter.join().expect("the waiter ends"));
    }

    #[test]
    fn closing_ends_a_wait() {
        let budget = std::sync::Arc::new(Budget::new(10, 1));
        assert!(budget.acquire(1));
        let waiting = std::sync::Arc::clone(&budget);
        let waiter = std::thread::spawn(move || waiting.acquire(1));
        budget.close();
        assert!(!waiter.join().expect("the waiter ends"));
    }
}
