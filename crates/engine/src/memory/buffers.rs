//! Buffers of stored bytes, used again when their last share is dropped: touching new pages costs as much as a read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_slab::limits::POOLED_BYTES_MIN;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{ByteRange, RangeRead, ReadEffort, Result, Store};
use bytes::Bytes;

use crate::limits;
use crate::memory::budget::Lease;

/// Buffers that wait for the next read, of any file.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// What they may take.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(limits::READ_BUFFERS_BYTES);

fn free() -> MutexGuard<'static, Vec<Vec<u8>>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A read of this range into the smallest buffer that is free and large enough, or a new one.
pub(crate) fn read_of(range: ByteRange) -> RangeRead {
    let size = usize::try_from(range.length).unwrap_or(usize::MAX);
    let room = buffer_bytes(range.length) as usize;
    let mut free = free();
    let fits = |index: &usize| (size + 1..=room).contains(&free[*index].capacity());
    let best = (0..free.len()).filter(fits).min_by_key(|index| free[*index].capacity());
    match best {
        Some(index) => RangeRead::reusing(range, free.swap_remove(index)),
        None if room > size && room <= BYTES_MAX.load(Ordering::Relaxed) => {
            RangeRead::reusing(range, Vec::with_capacity(room))
        }
        None => RangeRead::new(range),
    }
}

/// The bytes of these ranges of a store.
pub fn read_ranges(store: &dyn Store, ranges: Vec<ByteRange>) -> Result<(Vec<Bytes>, ReadEffort)> {
    let mut reads: Vec<RangeRead> = ranges.into_iter().map(read_of).collect();
    let effort = store.read_ranges(&mut reads)?;
    Ok((reads.into_iter().map(|read| share(read, None)).collect(), effort))
}

/// What the buffer of a read of this many bytes takes: a little more, so that a slightly larger read can use it next.
/// Joined reads have a largest size, and no room for larger ones.
pub(crate) fn buffer_bytes(length: u64) -> u64 {
    match length {
        ..=MAX_JOINED_BYTES => (length + length / 4).min(MAX_JOINED_BYTES) + POOLED_BYTES_MIN as u64,
        _ => length,
    }
}

/// The bytes of a read. The last share gives back the buffer and the lease.
pub(crate) fn share(read: RangeRead, lease: Option<Lease>) -> Bytes {
    let (buffer, place) = read.into_buffer();
    Bytes::from_owner(Shared(buffer, lease)).slice(place)
}

/// Free buffers take at most this many bytes from now on.
pub(crate) fn keep_at_most(bytes: usize) {
    BYTES_MAX.store(bytes.min(limits::READ_BUFFERS_BYTES), Ordering::Relaxed);
    shrink(&mut free());
}

fn shrink(free: &mut Vec<Vec<u8>>) {
    let mut total: usize = free.iter().map(Vec::capacity).sum();
    while total > BYTES_MAX.load(Ordering::Relaxed) {
        total -= free.remove(0).capacity();
    }
}

struct Shared(Vec<u8>, #[expect(dead_code, reason = "given back when it is dropped")] Option<Lease>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        let bytes_max = BYTES_MAX.load(Ordering::Relaxed);
        if bytes.capacity() < POOLED_BYTES_MIN || bytes.capacity() > bytes_max {
            return;
        }
        let mut free = free();
        free.push(bytes);
        shrink(&mut free);
    }
}
