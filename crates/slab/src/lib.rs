//! Output buffers: shared by threads that each fill a part of their own, and used again when arrays are dropped. And
//! the allocator of large buffers.
//!
//! A crate of its own, because Miri runs its tests (`make miri`): it must not depend on anything written in C.

#[cfg(target_os = "linux")]
mod kept_mappings;
pub mod limits;
#[cfg(target_os = "linux")]
pub mod mapped;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Memory of one output buffer, aligned for any number.
#[derive(Debug, Default)]
struct Memory(Vec<u64>);

/// Keeps buffers whose arrays were dropped: touching new pages costs as much as decoding into them.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Free>,
    bytes_max: AtomicUsize,
}

/// Free buffers by their size in words.
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
    /// The pool that all streams of the process share. From now on it keeps at most `bytes_max` bytes. So the second
    /// stream of a script reuses the buffers of the first.
    pub fn shared(bytes_max: usize) -> Arc<Self> {
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        let pool = SHARED.get_or_init(|| Self::new(bytes_max));
        pool.bytes_max.store(bytes_max, Ordering::Relaxed);
        Arc::clone(pool)
    }

    /// A new pool that keeps at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), bytes_max: AtomicUsize::new(bytes_max) })
    }

    fn take(&self, words: usize) -> Memory {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that fits, unless it is much too large.
        let best = free.by_capacity.range(words..=2 * words).next().map(|(capacity, _)| *capacity);
        let memory = best.and_then(|capacity| free.pop(capacity));
        drop(free);
        // Some room is added so that the next chunk, a little larger, can use it too.
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

/// A finished buffer, which is only read. It is given back to its pool when it is dropped.
#[derive(Debug)]
pub struct Slab {
    memory: Memory,
    size: usize,
    pool: Option<Arc<Pool>>,
}

impl Slab {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.memory.0)[..self.size]
    }

    /// Its bytes as 64-bit numbers.
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

/// Finished values of a column: decoded in place, or collected piece by piece.
#[derive(Debug)]
pub enum Buffer {
    /// From the pool.
    Slab(Slab),
    /// Native bytes of numbers, or of strings.
    Bytes(Vec<u8>),
    /// Offsets.
    Numbers(Vec<i64>),
}

impl Buffer {
    /// Its bytes.
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
    /// Room for `size` bytes of unspecified content.
    pub fn new(size: usize, pool: &Arc<Pool>) -> Self {
        Self { memory: pool.take(size.div_ceil(8)), size, pool: Arc::clone(pool) }
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.memory.0)[..self.size]
    }

    /// Makes it readable.
    pub fn close(self) -> Slab {
        Slab { memory: self.memory, size: self.size, pool: Some(self.pool) }
    }

    /// Splits it so that several threads can fill parts of it.
    pub fn share(mut self) -> (SharedSlab, Parts) {
        let start = self.bytes_mut().as_mut_ptr();
        let memory = Arc::new(self.memory);
        let parts = Parts { memory: Arc::clone(&memory), start, size: self.size, used: 0 };
        (SharedSlab { memory, size: self.size, pool: self.pool }, parts)
    }
}

/// A buffer that several threads fill. None of its bytes can be reached through it.
#[derive(Debug)]
pub struct SharedSlab {
    memory: Arc<Memory>,
    size: usize,
    pool: Arc<Pool>,
}

impl SharedSlab {
    /// Makes it readable; None while its [`Parts`] or a [`Part`] exists.
    pub fn close(self) -> Option<Slab> {
        let memory = Arc::into_inner(self.memory)?;
        Some(Slab { memory, size: self.size, pool: Some(self.pool) })
    }
}

/// Cuts a buffer into parts that do not overlap. There is one for each buffer.
#[derive(Debug)]
pub struct Parts {
    memory: Arc<Memory>,
    start: *mut u8,
    size: usize,
    used: usize,
}

impl Parts {
    /// The next `size` bytes, or None if fewer are left.
    pub fn cut(&mut self, size: usize) -> Option<Part> {
        let used = self.used.checked_add(size).filter(|used| *used <= self.size)?;
        // SAFETY: `self.used <= used <= self.size`, so the pointer stays within the buffer or at its end.
        let start = unsafe { self.start.add(self.used) };
        self.used = used;
        Some(Part { _memory: Arc::clone(&self.memory), start, size })
    }

    /// Whether the whole buffer was cut.
    pub fn is_used_up(&self) -> bool {
        self.used == self.size
    }
}

/// A part of a buffer, which its owner alone can reach.
#[derive(Debug)]
pub struct Part {
    /// Keeps the memory alive, and `SharedSlab::close` from succeeding.
    _memory: Arc<Memory>,
    start: *mut u8,
    size: usize,
}

// SAFETY: a part is the only way to its bytes. A buffer has one `Parts`, which cuts without overlap; a part cannot be
// cloned; and the buffer can be read only after `SharedSlab::close` has found no part left.
unsafe impl Send for Part {}

impl Part {
    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialised and is there as long as `_memory`; nothing else reaches these bytes.
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
