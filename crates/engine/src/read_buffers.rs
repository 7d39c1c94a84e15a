//! Buffers of stored bytes, used again when their last share is dropped: touching new pages costs as much as a read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_storage::{ByteRange, RangeRead};
use bytes::Bytes;

use crate::limits;

/// Buffers that wait for the next read, of any file.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Vec<u8>>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A read of this range into the smallest buffer that is free and large enough, or a new one.
pub(crate) fn read_of(range: ByteRange) -> RangeRead {
    let size = usize::try_from(range.length).unwrap_or(usize::MAX);
    let mut free = free();
    let fits = |index: &usize| free[*index].capacity() > size && free[*index].capacity() / 4 <= size;
    let best = (0..free.len()).filter(fits).min_by_key(|index| free[*index].capacity());
    match best {
        Some(index) => RangeRead::reusing(range, free.swap_remove(index)),
        // A little room beyond lets the next file, a little larger, use it too.
        None if size < limits::READ_BUFFERS_BYTES => RangeRead::reusing(range, Vec::with_capacity(size + size / 4)),
        None => RangeRead::new(range),
    }
}

/// The bytes of a read, given back with their last share.
pub(crate) fn share(read: RangeRead) -> Bytes {
    let (buffer, start) = read.into_buffer();
    Bytes::from_owner(Shared(buffer)).slice(start..)
}

struct Shared(Vec<u8>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.capacity() < limits::POOLED_BYTES_MIN || bytes.capacity() > limits::READ_BUFFERS_BYTES {
            return;
        }
        let mut free = free();
        free.push(bytes);
        let mut total: usize = free.iter().map(Vec::capacity).sum();
        while total > limits::READ_BUFFERS_BYTES {
            total -= free.remove(0).capacity();
        }
    }
}
