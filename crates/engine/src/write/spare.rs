//! Pools of buffers for pages and baskets. Buffers are reused within a file and by the next file, because allocating
//! fresh memory costs more than filling it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum total size of the unused buffers that a file keeps: enough for the pages that are compressed at a time, and
/// for most of a cluster.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Maximum total size of the buffers that the process keeps for the next file. A file of a few MB then needs no fresh
/// memory.
const SHARED_BYTES_MAX: usize = 32 << 20;
/// Maximum number of rooms that the process keeps for the next file. `ROOM_BYTES_MAX` is the maximum size of each room:
/// more than pages and baskets of usual sizes need.
const ROOMS_COUNT_MAX: usize = 8;
const ROOM_BYTES_MAX: usize = 8 << 20;

/// Buffers of closed files, which are available to the next file.
static SHARED: Mutex<Kept> = Mutex::new(Kept { buffers: Vec::new(), bytes: 0 });

/// The unused buffers of a file, which its threads share. On drop, they become available to the next file.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Kept {
    /// Takes the smallest buffer with at least this capacity, or else the largest buffer.
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let capacities = || self.buffers.iter().map(Vec::capacity).enumerate();
        let fitting = capacities().filter(|(_, capacity)| *capacity >= bytes).min_by_key(|(_, capacity)| *capacity);
        let (index, capacity) = fitting.or_else(|| capacities().max_by_key(|(_, capacity)| *capacity))?;
        self.bytes -= capacity;
        Some(self.buffers.swap_remove(index))
    }

    fn give(&mut self, buffer: Vec<u8>, bytes_max: usize) {
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= bytes_max {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// Locks a mutex, even if a thread panicked while holding it.
pub(crate) fn locked<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    /// Returns an empty buffer. It has at least this capacity if such a buffer is available.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.take_used(bytes);
        buffer.clear();
        buffer
    }

    /// Like `take`, but does not clear the buffer, for callers that overwrite its contents.
    pub(crate) fn take_used(&self, bytes: usize) -> Vec<u8> {
        let own = locked(&self.0).take(bytes);
        own.or_else(|| locked(&SHARED).take(bytes)).unwrap_or_default()
    }

    /// Returns a buffer to the pool. The buffer is dropped if the pool is full.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        locked(&self.0).give(buffer, KEPT_BYTES_MAX);
    }

    /// Returns several buffers to the pool.
    pub(crate) fn give_all(&self, buffers: Vec<Vec<u8>>) {
        buffers.into_iter().for_each(|buffer| self.give(buffer));
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let own = std::mem::take(&mut locked(&self.0).buffers);
        let mut shared = locked(&SHARED);
        own.into_iter().for_each(|buffer| shared.give(buffer, SHARED_BYTES_MAX));
    }
}

impl Clone for Spare {
    /// A clone does not share the buffers, but starts with an empty pool.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The reusable buffers and codec contexts of a thread.
pub(crate) trait Room: Default {
    /// Size in bytes of the memory that these buffers and contexts occupy.
    fn bytes(&self) -> usize;
}

/// A pool of rooms, which are lent to threads and kept for the next file.
pub(crate) struct Rooms<R>(Mutex<Vec<R>>);

/// A borrowed room, which returns to its pool on drop.
pub(crate) struct Lent<R: Room + 'static> {
    room: R,
    owner: &'static Rooms<R>,
}

impl<R: Room> Rooms<R> {
    /// Creates an empty pool.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Lends an available room, or a new room if there is none.
    pub(crate) fn lend(&'static self) -> Lent<R> {
        let room = locked(&self.0).pop().unwrap_or_default();
        Lent { room, owner: self }
    }
}

impl<R: Room> Deref for Lent<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.room
    }
}

impl<R: Room> DerefMut for Lent<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.room
    }
}

impl<R: Room> Drop for Lent<R> {
    fn drop(&mut self) {
        let room = std::mem::take(&mut self.room);
        let mut kept = locked(&self.owner.0);
        if kept.len() < ROOMS_COUNT_MAX && room.bytes() <= ROOM_BYTES_MAX {
            kept.push(room);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_that_fits_best_is_taken() {
        let mut kept = Kept::default();
        for bytes in [100, 300, 200] {
            kept.give(Vec::with_capacity(bytes), 650);
        }
        kept.give(Vec::with_capacity(100), 650);
        assert_eq!(kept.bytes, 600);
        let taken: Vec<usize> = [150, 1000, 50, 1].map(|bytes| kept.take(bytes).map_or(0, |one| one.capacity())).into();
        assert_eq!(taken, [200, 300, 100, 0]);
        assert_eq!(kept.bytes, 0);
    }

    #[test]
    fn a_large_room_is_not_kept() {
        #[derive(Default)]
        struct Bytes(usize);
        impl Room for Bytes {
            fn bytes(&self) -> usize {
                self.0
            }
        }
        static ROOMS: Rooms<Bytes> = Rooms::new();
        ROOMS.lend().0 = ROOM_BYTES_MAX;
        let mut again = ROOMS.lend();
        assert_eq!(again.0, ROOM_BYTES_MAX);
        again.0 += 1;
        drop(again);
        assert_eq!(ROOMS.lend().0, 0);
    }
}
