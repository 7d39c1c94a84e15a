//! The memory budget of a read. Stored bytes, values and scratch buffers are leased from the budget before they are
//! used, and dropping a lease returns its bytes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::LOOK_AGAIN;
use crate::memory::scratch::SharedScratch;

/// A memory budget, and the bytes leased from it.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    chunks_max: usize,
    scratch: Arc<SharedScratch>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    leased: u64,
    /// Bytes that decoders may use for decompression.
    scratch: u64,
    /// Minimum number of bytes that decoders need for decompression.
    scratch_least: u64,
    chunks: usize,
    tasks: usize,
    /// Whether the consumer is waiting for a chunk while it still holds the previous one.
    holds_one: bool,
    is_closed: bool,
}

/// Reasons for refusing a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The stream was closed.
    Closed,
    /// The request can never be satisfied.
    TooLarge,
}

/// The decision on a request for free bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    /// Wait until bytes are returned or [`Budget::wake`] is called.
    Wait,
    Refuse,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64, chunks_max: usize) -> Arc<Self> {
        let (scratch, state, changed) = (Arc::default(), Mutex::default(), Condvar::new());
        Arc::new(Self { bytes_max, chunks_max, scratch, state, changed })
    }

    /// The buffers into which decoders decompress large baskets.
    pub(crate) fn scratch(&self) -> &Arc<SharedScratch> {
        &self.scratch
    }

    /// Leases the memory for the values of a chunk. Waits until fewer than `chunks_max` chunks exist.
    pub(crate) fn lease_chunk(self: &Arc<Self>, bytes: u64) -> Result<Lease, Refusal> {
        let mut state = self.wait_for(bytes, 0, true)?;
        state.leased = state.leased.saturating_add(bytes);
        state.chunks += 1;
        Ok(Lease { budget: Arc::clone(self), bytes, chunks: 1 })
    }

    /// Leases bytes for the chunk that is being prepared.
    pub(crate) fn lease(self: &Arc<Self>, bytes: u64) -> Result<Lease, Refusal> {
        let mut state = self.wait_for(bytes, 1, false)?;
        state.leased = state.leased.saturating_add(bytes);
        Ok(Lease { budget: Arc::clone(self), bytes, chunks: 0 })
    }

    /// Leases bytes for a file before any basket of the file is decoded.
    pub(crate) fn lease_file(self: &Arc<Self>, bytes: u64) -> Result<Lease, Refusal> {
        self.lock().scratch_least = 0;
        let mut state = self.wait_for(bytes, 0, false)?;
        state.leased = state.leased.saturating_add(bytes);
        Ok(Lease { budget: Arc::clone(self), bytes, chunks: 0 })
    }

    /// Leases bytes if enough are free, without waiting.
    pub(crate) fn try_lease(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let mut state = self.lock();
        if state.leased.saturating_add(state.scratch).saturating_add(bytes) > self.bytes_max {
            return None;
        }
        state.leased += bytes;
        Some(Lease { budget: Arc::clone(self), bytes, chunks: 0 })
    }

    /// Leases bytes once `decide` accepts. `decide` is called with the number of free bytes, and again whenever that
    /// number may have changed. Returns None if `decide` refuses, or if the request exceeds the budget.
    pub(crate) fn lease_when(self: &Arc<Self>, bytes: u64, mut decide: impl FnMut(u64) -> Verdict) -> Option<Lease> {
        let mut state = self.lock();
        while bytes <= self.bytes_max && !state.is_closed {
            match decide(self.bytes_max.saturating_sub(state.leased.saturating_add(state.scratch))) {
                Verdict::Take => {
                    state.leased = state.leased.saturating_add(bytes);
                    return Some(Lease { budget: Arc::clone(self), bytes, chunks: 0 });
                }
                Verdict::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Verdict::Refuse => break,
            }
        }
        None
    }

    /// Wakes all threads that wait in `lease_when`, so that each calls its `decide` again.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Reserves scratch memory: at least `least` bytes and, if they are free, up to the larger of `wish` and the
    /// previous reservation. The previous reservation is kept because releasing and reserving memory again costs time,
    /// and allocators keep the memory anyway.
    pub(crate) fn set_scratch(&self, least: u64, wish: u64, own_chunks: usize) -> Result<(), Refusal> {
        let before = std::mem::take(&mut self.lock().scratch);
        let waited = self.wait_for(least, own_chunks, false);
        let (mut state, refusal) = match waited {
            Ok(state) => (state, None),
            Err(refusal) => (self.lock(), Some(refusal)),
        };
        state.scratch = before;
        if refusal.is_none() {
            state.scratch = wish.max(before).min(self.bytes_max.saturating_sub(state.leased)).max(least);
            state.scratch_least = least;
        }
        self.scratch.set_max(state.scratch);
        refusal.map_or(Ok(()), Err)
    }

    /// Waits until this many bytes are free. Returns `TooLarge` if waiting cannot free any bytes: no task is running,
    /// and the only chunks are the caller's chunks and the chunk that the consumer keeps until it gets the next one.
    fn wait_for(&self, bytes: u64, own_chunks: usize, is_chunk: bool) -> Result<MutexGuard<'_, State>, Refusal> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Err(Refusal::Closed);
            }
            let wanted = state.leased.saturating_add(state.scratch).saturating_add(bytes);
            if wanted <= self.bytes_max && !(is_chunk && state.chunks >= self.chunks_max) {
                return Ok(state);
            }
            if state.tasks == 0 && state.chunks == own_chunks + usize::from(state.holds_one) {
                if state.scratch <= state.scratch_least {
                    return Err(Refusal::TooLarge);
                }
                // No basket is being decoded, so the scratch memory can shrink to its minimum.
                state.scratch = state.scratch_least;
                self.scratch.set_max(state.scratch);
                continue;
            }
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a basket as being decoded, until the result is dropped.
    pub(crate) fn task(self: &Arc<Self>) -> TaskAtWork {
        self.lock().tasks += 1;
        TaskAtWork(Arc::clone(self))
    }

    /// Records whether the consumer is waiting for a chunk while it still holds the previous one.
    pub(crate) fn set_holds_one(&self, holds_one: bool) {
        self.lock().holds_one = holds_one;
        self.changed.notify_all();
    }

    /// Closes the budget, which ends all waits.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leased bytes. Dropping the lease returns them to the budget.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
    chunks: usize,
}

impl Lease {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Splits off a lease for some of these bytes.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: Arc::clone(&self.budget), bytes, chunks: 0 }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.leased = state.leased.saturating_sub(self.bytes);
        state.chunks = state.chunks.saturating_sub(self.chunks);
        drop(state);
        self.budget.changed.notify_all();
    }
}

/// A basket that is being decoded.
#[derive(Debug)]
pub(crate) struct TaskAtWork(Arc<Budget>);

impl Drop for TaskAtWork {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.tasks = state.tasks.saturating_sub(1);
        let is_last = state.tasks == 0;
        drop(state);
        if is_last {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Starts a lease in another thread, and checks that the thread is still waiting after a while.
    fn waiting(
        budget: &Arc<Budget>,
        lease: impl FnOnce(Arc<Budget>) -> Result<Lease, Refusal> + Send + 'static,
    ) -> std::thread::JoinHandle<Result<Lease, Refusal>> {
        let shared = Arc::clone(budget);
        let waiter = std::thread::spawn(move || lease(shared));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        waiter
    }

    #[test]
    fn what_is_leased_is_free_again_when_it_is_dropped() {
        let budget = Budget::new(10, 4);
        let chunk = budget.lease_chunk(7).unwrap();
        assert!(budget.try_lease(4).is_none());
        let waiter = waiting(&budget, |budget| budget.lease_chunk(4));
        drop(chunk);
        assert_eq!(waiter.join().unwrap().unwrap().bytes(), 4);
    }

    #[test]
    fn what_never_fits_is_refused() {
        let budget = Budget::new(10, 4);
        assert_eq!(budget.lease_chunk(11).unwrap_err(), Refusal::TooLarge);
        let _chunk = budget.lease_chunk(6).unwrap();
        assert_eq!(budget.lease(5).unwrap_err(), Refusal::TooLarge);
        assert_eq!(budget.set_scratch(5, 9, 1).unwrap_err(), Refusal::TooLarge);
    }

    #[test]
    fn scratch_keeps_what_it_has_until_others_need_it() {
        let budget = Budget::new(10, 4);
        budget.set_scratch(2, 9, 0).unwrap();
        assert_eq!(budget.lock().scratch, 9);
        let chunk = budget.lease_chunk(6).unwrap();
        assert_eq!(budget.lock().scratch, 2);
        assert_eq!(budget.lease(3).unwrap_err(), Refusal::TooLarge);
        drop(chunk);
        assert_eq!(budget.lease_file(10).unwrap().bytes(), 10);
    }

    #[test]
    fn a_task_may_give_back_what_does_not_fit_now() {
        let budget = Budget::new(10, 4);
        let chunk = budget.lease_chunk(6).unwrap();
        let (task, mut stored) = (budget.task(), budget.lease(4).unwrap());
        let rest = stored.split(1);
        drop(stored);
        let waiter = waiting(&budget, |budget| budget.lease(4));
        drop((rest, task));
        assert_eq!(waiter.join().unwrap().unwrap().bytes(), 4);
        drop(chunk);
    }

    #[test]
    fn a_waiting_consumer_keeps_its_chunk_until_it_gets_the_next_one() {
        let budget = Budget::new(10, 4);
        let before = budget.lease_chunk(6).unwrap();
        let waiter = waiting(&budget, |budget| budget.lease_chunk(8));
        budget.set_holds_one(true);
        assert_eq!(waiter.join().unwrap().unwrap_err(), Refusal::TooLarge);
        budget.set_holds_one(false);
        let waiter = waiting(&budget, |budget| budget.lease_chunk(8));
        drop(before);
        assert_eq!(waiter.join().unwrap().unwrap().bytes(), 8);
    }

    #[test]
    fn no_more_chunks_are_made_than_allowed() {
        let budget = Budget::new(10, 1);
        let chunk = budget.lease_chunk(1).unwrap();
        let waiter = waiting(&budget, |budget| budget.lease_chunk(1));
        drop(chunk);
        assert!(waiter.join().unwrap().is_ok());
    }

    #[test]
    fn closing_ends_a_wait() {
        let budget = Budget::new(10, 1);
        let _chunk = budget.lease_chunk(1).unwrap();
        let waiter = waiting(&budget, |budget| budget.lease_chunk(1));
        budget.close();
        assert_eq!(waiter.join().unwrap().unwrap_err(), Refusal::Closed);
    }
}
