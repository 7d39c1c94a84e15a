//! Memory of pages and baskets that is used again: fresh memory costs more than filling it.

use std::sync::{Mutex, PoisonError};

/// Bytes that are kept at most: those of the pages that are compressed at a time, and most of a cluster.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Empty buffers, for all threads.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// An empty buffer, with room if one is there.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = kept.buffers.pop().unwrap_or_default();
        kept.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer that is not needed any more, if there is room.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.capacity() > 0 && kept.bytes + buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
        }
    }

    /// Keeps several.
    pub(crate) fn give_all(&self, buffers: Vec<Vec<u8>>) {
        buffers.into_iter().for_each(|buffer| self.give(buffer));
    }
}

impl Clone for Spare {
    /// A copy has buffers of its own.
    fn clone(&self) -> Self {
        Self::default()
    }
}
