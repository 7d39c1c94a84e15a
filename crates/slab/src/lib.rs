//! Output buffers, and the allocator for large buffers. Several threads can fill an output buffer in parallel, and its
//! memory is reused once its arrays are dropped.
//!
//! This is a separate crate because Miri runs its tests (`make miri`): it must not depend on any C code.
//!
//! ```
//! use branchline_slab::{OpenSlab, Pool};
//!
//! let pool = Pool::new(1 << 20);
//! let mut slab = OpenSlab::new(3, &pool);
//! slab.bytes_mut().copy_from_slice(b"abc");
//! assert_eq!(slab.close().bytes(), b"abc");
//! ```

#[cfg(target_os = "linux")]
mod kept_mappings;
pub mod limits;
#[cfg(target_os = "linux")]
pub mod mapped;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The memory of one output buffer, aligned for any numeric type.
#[derive(Debug, Default)]
struct Memory(Vec<u64>);

/// Keeps the buffers of dropped arrays for reuse: touching new pages costs as much as decoding into them.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Free>,
    bytes_max: AtomicUsize,
}

/// Free buffers, keyed by their size in 64-bit words.
#[derive(Debug, Default)]
struct Free {
    by_capacity: BTreeMap<usize, Vec<Memory>>,
    bytes: usize,
}

impl Free {
    fn pop(&mut self, capacity: usize) -> Option<Memory> {
        let same = self.by_capacity.get_mut(&capacity)?;
        let memory = same.pop();
        if same.is_empty() {
            self.by_capacity.remove(&capacity);
        }
        self.bytes -= 8 * capacity;
        memory
    }
}

impl Pool {
    /// Returns the pool shared by all streams of the process, and sets its limit to `bytes_max` bytes. Consecutive
    /// streams of a script reuse each other's buffers.
    pub fn shared(bytes_max: usize) -> Arc<Self> {
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        let pool = SHARED.get_or_init(|| Self::new(bytes_max));
        pool.bytes_max.store(bytes_max, Ordering::Relaxed);
        Arc::clone(pool)
    }

    /// Creates a pool that keeps at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), bytes_max: AtomicUsize::new(bytes_max) })
    }

    fn take(&self, words: usize) -> Memory {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // Choose the smallest buffer that fits, unless it is much too large.
        let best = free.by_capacity.range(words..=2 * words).next().map(|(capacity, _)| *capacity);
        let memory = best.and_then(|capacity| free.pop(capacity));
        drop(free);
        // Allocate some extra space, so that a slightly larger chunk can reuse the buffer.
        memory.unwrap_or_else(|| Memory(vec![0; words + words / 8]))
    }

    fn give_back(&self, memory: Memory) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let capacity = memory.0.len();
        if 8 * capacity < limits::POOLED_BYTES_MIN || 8 * capacity > bytes_max {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while free.bytes + 8 * capacity > bytes_max {
            let Some(largest) = free.by_capacity.keys().next_back().copied() else { break };
            free.pop(largest);
        }
        free.bytes += 8 * capacity;
        free.by_capacity.entry(capacity).or_default().push(memory);
    }
}

/// A finished, read-only buffer. Dropping it returns its memory to the pool.
#[derive(Debug)]
pub struct Slab {
    memory: Memory,
    size: usize,
    pool: Option<Arc<Pool>>,
}

impl Slab {
    /// Returns the contents as bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.memory.0)[..self.size]
    }

    /// Returns the contents as 64-bit integers.
    pub fn numbers(&self) -> &[i64] {
        bytemuck::cast_slice(&self.memory.0)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.memory));
        }
    }
}

/// Finished values of a column, either decoded in place or joined from pieces.
#[derive(Debug)]
pub enum Buffer {
    /// A buffer from the pool.
    Slab(Slab),
    /// Native bytes of numbers or strings.
    Bytes(Vec<u8>),
    /// 64-bit offsets.
    Numbers(Vec<i64>),
}

impl Buffer {
    /// Returns the contents as bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Slab(slab) => slab.bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Numbers(numbers) => bytemuck::cast_slice(numbers),
        }
    }
}

/// A buffer that is being filled by one writer.
#[derive(Debug)]
pub struct OpenSlab {
    memory: Memory,
    size: usize,
    pool: Arc<Pool>,
}

impl OpenSlab {
    /// Allocates a buffer of `size` bytes with unspecified contents.
    pub fn new(size: usize, pool: &Arc<Pool>) -> Self {
        Self { memory: pool.take(size.div_ceil(8)), size, pool: Arc::clone(pool) }
    }

    /// Returns the contents as writable bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.memory.0)[..self.size]
    }

    /// Makes the buffer readable.
    pub fn close(self) -> Slab {
        Slab { memory: self.memory, size: self.size, pool: Some(self.pool) }
    }

    /// Splits the buffer so that several threads can fill its parts.
    pub fn share(mut self) -> (SharedSlab, Parts) {
        let start = self.bytes_mut().as_mut_ptr();
        let memory = Arc::new(self.memory);
        let parts = Parts { memory: Arc::clone(&memory), start, size: self.size, used: 0 };
        (SharedSlab { memory, size: self.size, pool: self.pool }, parts)
    }
}

/// A buffer that several threads are filling through its parts. The handle itself gives no access to the bytes.
#[derive(Debug)]
pub struct SharedSlab {
    memory: Arc<Memory>,
    size: usize,
    pool: Arc<Pool>,
}

impl SharedSlab {
    /// Makes the buffer readable. Returns None while its [`Parts`] or any [`Part`] still exists.
    pub fn close(self) -> Option<Slab> {
        let memory = Arc::into_inner(self.memory)?;
        Some(Slab { memory, size: self.size, pool: Some(self.pool) })
    }
}

/// Cuts a buffer into parts that do not overlap. Each buffer has exactly one `Parts`.
#[derive(Debug)]
pub struct Parts {
    memory: Arc<Memory>,
    start: *mut u8,
    size: usize,
    used: usize,
}

impl Parts {
    /// Cuts off the next `size` bytes. Returns None if fewer bytes remain.
    pub fn cut(&mut self, size: usize) -> Option<Part> {
        let used = self.used.checked_add(size).filter(|used| *used <= self.size)?;
        // SAFETY: `self.used <= used <= self.size`, so the pointer stays within the buffer or at its end.
        let start = unsafe { self.start.add(self.used) };
        self.used = used;
        Some(Part { _memory: Arc::clone(&self.memory), start, size })
    }

    /// Returns whether the whole buffer has been cut into parts.
    pub fn is_used_up(&self) -> bool {
        self.used == self.size
    }
}

/// A part of a buffer, to which its owner has exclusive access.
#[derive(Debug)]
pub struct Part {
    /// Keeps the memory alive, and prevents `SharedSlab::close` from succeeding.
    _memory: Arc<Memory>,
    start: *mut u8,
    size: usize,
}

// SAFETY: a part has exclusive access to its bytes. A buffer has one `Parts`, which cuts without overlap; a part cannot
// be cloned; and the buffer is readable only after `SharedSlab::close` has found no remaining part.
unsafe impl Send for Part {}

impl Part {
    /// Returns the part's contents as writable bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialized and lives as long as `_memory`; nothing else accesses these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_a_buffer_without_overlap() {
        let (slab, mut parts) = OpenSlab::new(10, &Pool::new(1 << 20)).share();
        let mut first = parts.cut(4).expect("4 of 10 are there");
        let mut second = parts.cut(6).expect("6 more are there");
        assert!(parts.cut(1).is_none() && parts.is_used_up());
        first.bytes_mut().fill(1);
        second.bytes_mut().fill(2);
        drop((first, second, parts));
        assert_eq!(slab.close().expect("no part is left").bytes(), [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_buffer_is_not_read_while_a_part_is_left_and_outlived_by_none() {
        let (slab, mut parts) = OpenSlab::new(8, &Pool::new(1 << 20)).share();
        let mut part = parts.cut(8).expect("8 of 8 are there");
        drop(parts);
        assert!(slab.close().is_none());
        part.bytes_mut().fill(1);
        assert_eq!(part.bytes_mut(), [1; 8]);
    }

    #[test]
    fn threads_fill_their_parts_while_the_buffer_moves() {
        let (slab, mut parts) = OpenSlab::new(64, &Pool::new(1 << 20)).share();
        let kept = std::thread::scope(|scope| {
            for byte in 0..8 {
                let mut part = parts.cut(8).expect("8 of 64 are there");
                scope.spawn(move || part.bytes_mut().fill(byte));
            }
            Box::new(slab)
        });
        drop(parts);
        let expected: Vec<u8> = (0..8).flat_map(|byte| [byte; 8]).collect();
        assert_eq!(kept.close().expect("no part is left").bytes(), expected);
    }

    fn filled(size: usize, pool: &Arc<Pool>) -> Slab {
        let mut slab = OpenSlab::new(size, pool);
        slab.bytes_mut().fill(1);
        slab.close()
    }

    #[test]
    fn dropped_buffers_are_used_again() {
        let pool = Pool::new(1 << 20);
        let slab = filled(8192, &pool);
        let address = slab.bytes().as_ptr();
        drop(slab);
        assert_eq!(filled(8000, &pool).bytes().as_ptr(), address);
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::new(10_000);
        drop([filled(8192, &pool), filled(8192, &pool)]);
        let kept = pool.free.lock().expect("no writer panicked").bytes;
        assert!((8192..=10_000).contains(&kept), "{kept} bytes are kept");
    }
}
