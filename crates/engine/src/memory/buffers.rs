//! Buffers for stored bytes. A buffer is reused once its last share is dropped, because touching new pages costs as
//! much as a read.
//!
//! ```no_run
//! use branchline_engine::memory::buffers::read_ranges;
//! use branchline_storage::{open, Access, ByteRange};
//!
//! let store = open("data.root", &Access::default())?;
//! let (pieces, effort) = read_ranges(&*store, vec![ByteRange { offset: 0, length: 100 }])?;
//! # Ok::<(), branchline_storage::StorageError>(())
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_slab::limits::POOLED_BYTES_MIN;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{ByteRange, RangeRead, ReadEffort, Result, Store};
use bytes::Bytes;

use crate::limits;
use crate::memory::budget::Lease;

/// Free buffers that the next read of any file can use.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// Maximum total size of the free buffers.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(limits::READ_BUFFERS_BYTES);

fn free() -> MutexGuard<'static, Vec<Vec<u8>>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prepares a read of this range into the smallest free buffer that is large enough, or into a new buffer.
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

/// Reads these ranges from a store.
pub fn read_ranges(store: &dyn Store, ranges: Vec<ByteRange>) -> Result<(Vec<Bytes>, ReadEffort)> {
    let mut reads: Vec<RangeRead> = ranges.into_iter().map(read_of).collect();
    let effort = store.read_ranges(&mut reads)?;
    Ok((reads.into_iter().map(|read| share(read, None)).collect(), effort))
}

/// Returns the size of the buffer for a read of this many bytes. The buffer is slightly larger than the read, so that
/// the next, slightly larger read can reuse it. Coalesced reads have a maximum size, beyond which no spare capacity is
/// needed.
pub(crate) fn buffer_bytes(length: u64) -> u64 {
    match length {
        ..=MAX_JOINED_BYTES => (length + length / 4).min(MAX_JOINED_BYTES) + POOLED_BYTES_MIN as u64,
        _ => length,
    }
}

/// Returns the bytes of a read. When the last share is dropped, the buffer becomes free again and the lease ends.
pub(crate) fn share(read: RangeRead, lease: Option<Lease>) -> Bytes {
    let (buffer, place) = read.into_buffer();
    Bytes::from_owner(Shared(buffer, lease)).slice(place)
}

/// Sets the maximum total size of free buffers.
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
