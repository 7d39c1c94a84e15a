//! Memory that decoders decompress large baskets into: shared by all of them, so that few large baskets or many small
//! ones are decompressed at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Buffers for decompressed baskets, which take no more than a number of bytes together.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes_max: u64,
    /// Of buffers in use and of free ones.
    bytes: u64,
    in_use: usize,
    free: Vec<Vec<u8>>,
}

impl State {
    /// The smallest free buffer for so many bytes.
    fn pop(&mut self, bytes: u64) -> Option<Vec<u8>> {
        let fits = |index: &usize| self.free[*index].capacity() as u64 >= bytes;
        let best = (0..self.free.len()).filter(fits).min_by_key(|index| self.free[*index].capacity())?;
        Some(self.free.swap_remove(best))
    }

    /// Lets go of free buffers until so many more bytes have room.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.bytes.saturating_add(bytes) > self.bytes_max {
            let Some(dropped) = self.free.pop() else { return false };
            self.bytes -= dropped.capacity() as u64;
        }
        true
    }
}

impl Scratch {
    /// The buffers may take so many bytes from now on.
    pub(crate) fn set_max(&self, bytes_max: u64) {
        let mut state = self.lock();
        state.bytes_max = bytes_max;
        state.make_room(0);
        drop(state);
        self.given_back.notify_all();
    }

    /// Waits for a buffer with room for so many bytes. One that is larger than all is given when no other is in use.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> ScratchBuffer {
        let mut state = self.lock();
        loop {
            if let Some(buffer) = state.pop(bytes) {
                state.in_use += 1;
                return ScratchBuffer { accounted: buffer.capacity() as u64, buffer, scratch: Arc::clone(self) };
            }
            if state.make_room(bytes) || state.in_use == 0 {
                state.bytes = state.bytes.saturating_add(bytes);
                state.in_use += 1;
                return ScratchBuffer { accounted: bytes, buffer: Vec::new(), scratch: Arc::clone(self) };
            }
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ScratchBuffer {
    buffer: Vec<u8>,
    /// Bytes that it counts for until it is given back.
    accounted: u64,
    scratch: Arc<Scratch>,
}

impl Deref for ScratchBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.buffer
    }
}

impl DerefMut for ScratchBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut state = self.scratch.lock();
        state.in_use -= 1;
        state.bytes = state.bytes.saturating_sub(self.accounted).saturating_add(buffer.capacity() as u64);
        state.free.push(buffer);
        state.make_room(0);
        drop(state);
        self.scratch.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(scratch: &Arc<Scratch>, bytes: usize) -> ScratchBuffer {
        let mut buffer = scratch.take(bytes as u64);
        buffer.reserve_exact(bytes);
        buffer
    }

    #[test]
    fn buffers_are_used_again() {
        let scratch = Arc::new(Scratch::default());
        scratch.set_max(100);
        let first = filled(&scratch, 60);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(filled(&scratch, 50).as_ptr(), address);
    }

    #[test]
    fn no_more_are_given_than_there_is_room_for() {
        let scratch = Arc::new(Scratch::default());
        scratch.set_max(100);
        let first = filled(&scratch, 60);
        let (_small, other) = (filled(&scratch, 30), Arc::clone(&scratch));
        let waiter = std::thread::spawn(move || filled(&other, 40).capacity());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(first);
        assert!(waiter.join().unwrap() >= 40);
    }

    #[test]
    fn one_that_is_too_large_is_given_alone_and_not_kept() {
        let scratch = Arc::new(Scratch::default());
        scratch.set_max(100);
        drop(filled(&scratch, 500));
        assert_eq!(scratch.lock().bytes, 0);
    }
}
