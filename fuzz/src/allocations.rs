//! A global allocator that counts: how many bytes of Rust's heap are in use, and how many were at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted. Memory that codecs written in C take for themselves is not.
pub struct CountingAllocator;

fn grow(size: usize) {
    let used = USED.fetch_add(size, Ordering::Relaxed) + size;
    MOST.fetch_max(used, Ordering::Relaxed);
}

fn shrink(size: usize) {
    USED.fetch_sub(size, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came; counting touches nothing else.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps to the contract of GlobalAlloc, which is also that of System; so it is below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new memory may both be there while one is copied to the other.
        grow(size);
        // SAFETY: as above.
        let moved = unsafe { System.realloc(memory, layout, size) };
        shrink(layout.size());
        moved
    }
}

/// What `work` answers, and how many bytes more than before were in use at most while it worked.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let answer = work();
    (answer, MOST.load(Ordering::Relaxed).saturating_sub(before))
}
