//! Buffers into which decoders decompress large baskets. All decoders share these buffers, so that either a few large
//! baskets or many small ones are decompressed at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use branchline_format::ntuple::cluster::Scratch;

use crate::limits;

/// Buffers for decompressed baskets, with a maximum total size.
#[derive(Debug)]
pub(crate) struct SharedScratch {
    state: Mutex<State>,
    given_back: Condvar,
    /// Provides buffers of earlier streams, and receives the buffers of this stream when it ends.
    spare: &'static SpareBuffers,
}

#[derive(Debug, Default)]
struct State {
    bytes_max: u64,
    /// Total size of the buffers in use and of the free buffers.
    bytes: u64,
    in_use: usize,
    free: Vec<Scratch>,
}

impl State {
    /// Takes the smallest free buffer of at least this size.
    fn pop(&mut self, bytes: u64) -> Option<Scratch> {
        let fits = |index: &usize| self.free[*index].bytes() as u64 >= bytes;
        let best = (0..self.free.len()).filter(fits).min_by_key(|index| self.free[*index].bytes())?;
        Some(self.free.swap_remove(best))
    }

    /// Takes a buffer of `kept` bytes, and returns it with the number of bytes charged for it. Returns None if there is
    /// no room and other buffers are in use.
    fn take(&mut self, kept: u64, passing: u64, spare: &SpareBuffers) -> Option<(Scratch, u64)> {
        let again = self.pop(kept).or_else(|| self.adopt(kept, spare));
        let there = again.as_ref().map_or(0, Scratch::bytes) as u64;
        let more = if again.is_some() { passing } else { kept.saturating_add(passing) };
        if self.make_room(more) || self.in_use == 0 {
            self.bytes = self.bytes.saturating_add(more);
            self.in_use += 1;
            return Some((again.unwrap_or_default(), there.saturating_add(more)));
        }
        self.free.extend(again);
        None
    }

    /// Takes a spare buffer of at least this size from an earlier stream.
    fn adopt(&mut self, bytes: u64, spare: &SpareBuffers) -> Option<Scratch> {
        let room = self.bytes_max.saturating_sub(self.bytes);
        let adopted = spare.take_smallest(bytes, room)?;
        self.bytes += adopted.bytes() as u64;
        Some(adopted)
    }

    /// Drops free buffers until this many more bytes fit. Returns whether they fit.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.bytes.saturating_add(bytes) > self.bytes_max {
            let Some(dropped) = self.free.pop() else { return false };
            self.bytes -= dropped.bytes() as u64;
        }
        true
    }
}

impl Default for SharedScratch {
    fn default() -> Self {
        Self::with_spare(&SPARE)
    }
}

impl SharedScratch {
    fn with_spare(spare: &'static SpareBuffers) -> Self {
        Self { state: Mutex::default(), given_back: Condvar::new(), spare }
    }

    /// Sets the maximum total size of the buffers.
    pub(crate) fn set_max(&self, bytes_max: u64) {
        let mut state = self.lock();
        state.bytes_max = bytes_max;
        state.make_room(0);
        drop(state);
        self.given_back.notify_all();
    }

    /// Waits for a buffer of `kept` bytes, and for room for the `passing` bytes that the codec uses temporarily. If the
    /// request exceeds the maximum, it is granted when no other buffer is in use.
    pub(crate) fn take(self: &Arc<Self>, kept: u64, passing: u64) -> ScratchBuffer {
        let mut state = self.lock();
        loop {
            if let Some((buffer, accounted)) = state.take(kept, passing, self.spare) {
                return ScratchBuffer { accounted, buffer, scratch: Arc::clone(self) };
            }
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedScratch {
    fn drop(&mut self) {
        let spare = self.spare;
        self.lock().free.drain(..).for_each(|buffer| spare.give(buffer));
    }
}

/// Buffers of finished streams, kept for later streams: a train reads each part of a file with a separate stream, and
/// touching new pages costs more than searching for a kept buffer.
///
/// No method blocks: if another thread has the lock, no buffer is kept or found. Hence a process forked while another
/// thread holds the lock does not deadlock.
#[derive(Debug)]
pub(crate) struct SpareBuffers(Mutex<Vec<Scratch>>);

/// The spare buffers of this process.
pub(crate) static SPARE: SpareBuffers = SpareBuffers::new();

impl SpareBuffers {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Keeps a buffer for later streams, unless a limit is reached.
    pub(crate) fn give(&self, buffer: Scratch) {
        let Ok(mut spare) = self.0.try_lock() else { return };
        let bytes: usize = spare.iter().map(Scratch::bytes).sum();
        let has_room =
            bytes + buffer.bytes() <= limits::SPARE_SCRATCH_BYTES && spare.len() < limits::SPARE_SCRATCH_COUNT;
        if has_room && buffer.bytes() > 0 {
            spare.push(buffer);
        }
    }

    /// Takes the smallest buffer with a size between `least` and `most`.
    fn take_smallest(&self, least: u64, most: u64) -> Option<Scratch> {
        let mut spare = self.0.try_lock().ok()?;
        let fits = |index: &usize| (least..=most).contains(&(spare[*index].bytes() as u64));
        let smallest = (0..spare.len()).filter(fits).min_by_key(|index| spare[*index].bytes())?;
        Some(spare.swap_remove(smallest))
    }

    /// Takes the largest buffer of at most this size.
    pub(crate) fn take_largest(&self, most: u64) -> Option<Scratch> {
        let mut spare = self.0.try_lock().ok()?;
        let fits = |index: &usize| spare[*index].bytes() as u64 <= most;
        let largest = (0..spare.len()).filter(fits).max_by_key(|index| spare[*index].bytes())?;
        Some(spare.swap_remove(largest))
    }
}

/// A buffer that is returned to the shared buffers on drop.
#[derive(Debug)]
pub(crate) struct ScratchBuffer {
    buffer: Scratch,
    /// Number of bytes charged for the buffer until it is returned.
    accounted: u64,
    scratch: Arc<SharedScratch>,
}

impl Deref for ScratchBuffer {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.buffer
    }
}

impl DerefMut for ScratchBuffer {
    fn deref_mut(&mut self) -> &mut Scratch {
        &mut self.buffer
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut state = self.scratch.lock();
        state.in_use -= 1;
        state.bytes = state.bytes.saturating_sub(self.accounted).saturating_add(buffer.bytes() as u64);
        state.free.push(buffer);
        state.make_room(0);
        drop(state);
        self.scratch.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(scratch: &Arc<SharedScratch>, bytes: usize) -> ScratchBuffer {
        let mut buffer = scratch.take(bytes as u64, 0);
        buffer.plain.reserve_exact(bytes);
        buffer
    }

    fn buffer(bytes: usize) -> Scratch {
        Scratch { plain: Vec::with_capacity(bytes), ..Scratch::default() }
    }

    /// Returns buffers that no other test shares.
    fn alone() -> Arc<SharedScratch> {
        Arc::new(SharedScratch::with_spare(Box::leak(Box::new(SpareBuffers::new()))))
    }

    #[test]
    fn spare_buffers_fit_those_who_take_them() {
        let spare = SpareBuffers::new();
        for bytes in [10, 30, 20, 0] {
            spare.give(buffer(bytes));
        }
        assert_eq!(spare.take_smallest(11, 100).map(|one| one.bytes()), Some(20));
        assert!(spare.take_smallest(11, 29).is_none());
        assert_eq!(spare.take_largest(29).map(|one| one.bytes()), Some(10));
        assert!(spare.take_largest(29).is_none());
        assert_eq!(spare.take_largest(u64::MAX).map(|one| one.bytes()), Some(30));
        assert!(spare.take_largest(u64::MAX).is_none());
    }

    #[test]
    fn no_more_is_spare_than_the_limits_say() {
        let spare = SpareBuffers::new();
        (0..limits::SPARE_SCRATCH_COUNT + 1).for_each(|_| spare.give(buffer(1)));
        spare.give(buffer(limits::SPARE_SCRATCH_BYTES + 1));
        assert_eq!(spare.0.lock().unwrap().len(), limits::SPARE_SCRATCH_COUNT);
        let spare = SpareBuffers::new();
        (0..3).for_each(|_| spare.give(buffer(limits::SPARE_SCRATCH_BYTES / 2)));
        assert_eq!(spare.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn nobody_waits_for_spare_buffers() {
        let spare = SpareBuffers::new();
        spare.give(buffer(10));
        let held = spare.0.lock().unwrap();
        spare.give(buffer(20));
        assert!(spare.take_smallest(0, 100).is_none());
        assert!(spare.take_largest(100).is_none());
        drop(held);
        assert_eq!(spare.take_largest(100).map(|one| one.bytes()), Some(10));
    }

    #[test]
    fn buffers_are_used_again() {
        let scratch = alone();
        scratch.set_max(100);
        let first = filled(&scratch, 60);
        let address = first.plain.as_ptr();
        drop(first);
        assert_eq!(filled(&scratch, 50).plain.as_ptr(), address);
    }

    #[test]
    fn no_more_are_given_than_there_is_room_for() {
        let scratch = alone();
        scratch.set_max(100);
        let first = filled(&scratch, 60);
        let (_small, other) = (filled(&scratch, 30), Arc::clone(&scratch));
        let waiter = std::thread::spawn(move || filled(&other, 40).bytes());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(first);
        assert!(waiter.join().unwrap() >= 40);
    }

    #[test]
    fn what_passes_is_not_kept() {
        let scratch = alone();
        scratch.set_max(100);
        let mut first = scratch.take(40, 30);
        first.plain.reserve_exact(40);
        assert_eq!(scratch.lock().bytes, 70);
        drop(first);
        assert_eq!(scratch.lock().bytes, 40);
        let again = scratch.take(40, 50);
        assert_eq!((scratch.lock().bytes, again.bytes()), (90, 40));
    }

    #[test]
    fn one_that_is_too_large_is_given_alone_and_not_kept() {
        let scratch = alone();
        scratch.set_max(100);
        drop(filled(&scratch, 500));
        assert_eq!(scratch.lock().bytes, 0);
    }
}
