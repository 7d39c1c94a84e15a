//! Memory of pages and baskets that is used again, in one file and from file to file: fresh memory costs more than
//! filling it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a file keeps at most: those of the pages that are compressed at a time, and most of a cluster.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes that the process keeps at most for the next file: a file of some MB needs no fresh memory then.
const SHARED_BYTES_MAX: usize = 32 << 20;
/// Rooms that the process keeps for the next file, and the bytes of each, at most: more than pages and baskets of the
/// usual sizes take.
const ROOMS_COUNT_MAX: usize = 8;
const ROOM_BYTES_MAX: usize = 8 << 20;

/// What files that were closed left.
static SHARED: Mutex<Kept> = Mutex::new(Kept { buffers: Vec::new(), bytes: 0 });

/// Buffers of a file that nobody uses, for all threads. What it has in the end is left to the next file.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Kept {
    /// The smallest buffer that has room for these bytes, or else the largest.
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

/// What a lock protects, also where a thread panicked that had it.
pub(crate) fn locked<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    /// An empty buffer, with room for these bytes if one is there that has it.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.take_used(bytes);
        buffer.clear();
        buffer
    }

    /// The same with whatever is in it, for what is not to be cleared only to be written over.
    pub(crate) fn take_used(&self, bytes: usize) -> Vec<u8> {
        let own = locked(&self.0).take(bytes);
        own.or_else(|| locked(&SHARED).take(bytes)).unwrap_or_default()
    }

    /// Keeps a buffer that is not needed any more, if there is room.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        locked(&self.0).give(buffer, KEPT_BYTES_MAX);
    }

    /// Keeps several.
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
    /// A copy has buffers of its own.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Buffers and contexts that a thread works with.
pub(crate) trait Room: Default {
    /// Bytes of memory that it keeps.
    fn bytes(&self) -> usize;
}

/// Rooms that are lent to threads, and kept for the next file.
pub(crate) struct Rooms<R>(Mutex<Vec<R>>);

/// A room that is given back when the thread ends.
pub(crate) struct Lent<R: Room + 'static> {
    room: R,
    owner: &'static Rooms<R>,
}

impl<R: Room> Rooms<R> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// One that is there, or a new one.
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
