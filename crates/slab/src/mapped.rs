//! Allocates large buffers directly from the system. A few MB of freed buffers are kept for reuse by all threads.
//!
//! glibc would keep more: after a thread has freed a buffer of 15 MB, glibc may keep up to 30 MB per thread, which do
//! not count towards the memory limit. Only Rust buffers use this allocator; Python and NumPy keep the default one.
//!
//! ```standalone_crate
//! use branchline_slab::mapped::LargeMapped;
//!
//! #[global_allocator]
//! static ALLOCATOR: LargeMapped = LargeMapped;
//!
//! assert_eq!(vec![7_u8; 1 << 20].len(), 1 << 20);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};

use libc::{mmap, mremap, munmap, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE};

use crate::kept_mappings::{KeptMappings, Mapping};
use crate::limits::MAPPED_BYTES_MIN;

/// Minimum alignment of mappings.
const ALIGNMENT: usize = 4096;
/// Number of mapping sizes between two powers of two. The fewer sizes there are, the more requests fit a freed mapping.
/// The unused end of a mapping is never touched and takes no memory.
const SIZE_STEPS: usize = 4;

static KEPT: KeptMappings = KeptMappings::new();

/// An allocator that maps large blocks and forwards requests for smaller blocks to the system's allocator.
#[derive(Debug)]
pub struct LargeMapped;

fn is_mapped(layout: &Layout) -> bool {
    layout.size() >= MAPPED_BYTES_MIN && layout.align() <= ALIGNMENT
}

/// Returns the size of the mapping for a block of this size.
fn mapped_bytes(size: usize) -> usize {
    let step = ((1 << size.ilog2()) / SIZE_STEPS).max(ALIGNMENT);
    // A layout has at most `isize::MAX` bytes, and a step is at most a quarter of that.
    size.next_multiple_of(step)
}

/// Maps new pages, which are zeroed.
fn map(bytes: usize) -> *mut u8 {
    // SAFETY: a new private mapping at an address chosen by the kernel overlaps nothing.
    let mapped = unsafe { mmap(ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    or_null(mapped)
}

/// Like [`map`], but if mapping fails, retries after unmapping all kept mappings.
fn map_or_make_room(bytes: usize) -> *mut u8 {
    let block = map(bytes);
    if !block.is_null() {
        return block;
    }
    KEPT.clear(unmap);
    map(bytes)
}

fn unmap(mapping: Mapping) {
    // SAFETY: `map` created this mapping with this size, and nothing uses the mapping any more.
    unsafe { munmap(mapping.block.cast(), mapping.bytes) };
}

fn or_null(mapped: *mut libc::c_void) -> *mut u8 {
    if mapped == MAP_FAILED {
        ptr::null_mut()
    } else {
        mapped.cast()
    }
}

// SAFETY: whether a block is mapped depends only on its layout, both on allocation and on deallocation; `realloc` moves
// a block from one kind to the other if its size crosses the threshold. The system's allocator handles all blocks that
// are not mapped.
unsafe impl GlobalAlloc for LargeMapped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(&layout) {
            let bytes = mapped_bytes(layout.size());
            return KEPT.take(bytes).unwrap_or_else(|| map_or_make_room(bytes));
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(&layout) {
            return map_or_make_room(mapped_bytes(layout.size()));
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(&layout) {
            KEPT.give(Mapping { block, bytes: mapped_bytes(layout.size()) }, unmap);
        } else {
            // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`, and `alloc` got the block from the
            // system's allocator.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_mapped(&layout), is_mapped(&new)) {
            // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`, and `alloc` got the block from the
            // system's allocator.
            (false, false) => unsafe { System.realloc(block, layout, new_size) },
            (true, true) => {
                let (before, after) = (mapped_bytes(layout.size()), mapped_bytes(new_size));
                if before == after {
                    return block;
                }
                // Move the block to a kept mapping only if the block at least doubles. Copying its bytes then takes
                // less time than enlarging its own mapping, for which the kernel has to clear the new pages.
                let kept = if before <= after / 2 { KEPT.take(after) } else { None };
                if let Some(kept) = kept {
                    // SAFETY: both blocks have `before` bytes and do not overlap: one was kept, the other in use.
                    unsafe { ptr::copy_nonoverlapping(block, kept, before) };
                    KEPT.give(Mapping { block, bytes: before }, unmap);
                    return kept;
                }
                // SAFETY: `alloc` mapped this block with this size, and only the caller uses it.
                let moved = unsafe { mremap(block.cast(), before, after, MREMAP_MAYMOVE) };
                or_null(moved)
            }
            _ => {
                // SAFETY: the layout is valid, as explained above.
                let Some(made) = NonNull::new(unsafe { self.alloc(new) }) else { return ptr::null_mut() };
                let kept = layout.size().min(new_size);
                // SAFETY: both blocks have at least `kept` bytes and do not overlap; the old block is freed with its
                // layout.
                unsafe {
                    ptr::copy_nonoverlapping(block, made.as_ptr(), kept);
                    self.dealloc(block, layout);
                }
                made.as_ptr()
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    const SMALL: usize = 1000;
    const LARGE: usize = 3 * MAPPED_BYTES_MIN + 5;

    /// Serializes tests, because they share `KeptMappings`: while one thread holds the lock of `KeptMappings`, other
    /// threads neither keep nor reuse mappings.
    fn alone() -> MutexGuard<'static, ()> {
        static RUNNING: Mutex<()> = Mutex::new(());
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// Yields the offset of one byte per page and of the last byte, because Miri would take an hour to check all bytes.
    fn probes(size: usize) -> impl Iterator<Item = usize> {
        (0..size).step_by(ALIGNMENT).chain([size - 1])
    }

    #[test]
    fn bytes_stay_while_a_block_grows_and_shrinks_over_the_bound() {
        let _alone = alone();
        let sizes = [SMALL, 2 * SMALL, LARGE, 2 * LARGE, LARGE, SMALL];
        // SAFETY: each block is freed once, with its current layout; only bytes inside the block are accessed.
        unsafe {
            let mut block = LargeMapped.alloc(layout(sizes[0], 8));
            probes(SMALL).for_each(|at| block.add(at).write(7));
            for pair in sizes.windows(2) {
                block = LargeMapped.realloc(block, layout(pair[0], 8), pair[1]);
                assert!(!block.is_null());
                assert!(probes(pair[0].min(pair[1])).all(|at| block.add(at).read() == 7));
                probes(pair[1]).for_each(|at| block.add(at).write(7));
            }
            LargeMapped.dealloc(block, layout(SMALL, 8));
        }
    }

    #[test]
    fn zeroed_blocks_are_zero_and_aligned_as_asked() {
        let _alone = alone();
        for (size, align) in [(SMALL, 64), (LARGE, 64), (LARGE, 4096), (LARGE, 1 << 16)] {
            // SAFETY: the block is freed once, with its layout; only bytes inside the block are accessed.
            unsafe {
                let block = LargeMapped.alloc_zeroed(layout(size, align));
                assert_eq!(block as usize % align, 0);
                assert!(probes(size).all(|at| block.add(at).read() == 0));
                LargeMapped.dealloc(block, layout(size, align));
            }
        }
    }

    #[test]
    fn a_block_that_was_freed_is_used_again_and_a_zeroed_one_is_zero() {
        let _alone = alone();
        let size = 5 * MAPPED_BYTES_MIN;
        // SAFETY: each block is freed once, with its layout; only bytes inside the block are accessed.
        unsafe {
            let first = LargeMapped.alloc(layout(size, 8));
            first.write(7);
            LargeMapped.dealloc(first, layout(size, 8));
            let zeroed = LargeMapped.alloc_zeroed(layout(size, 8));
            assert_eq!(zeroed.read(), 0);
            let second = LargeMapped.alloc(layout(size - 100, 8));
            assert_eq!((second, second.read()), (first, 7));
            LargeMapped.dealloc(second, layout(size - 100, 8));
            LargeMapped.dealloc(zeroed, layout(size, 8));
        }
    }

    #[test]
    fn a_block_that_grows_takes_a_kept_one() {
        let _alone = alone();
        let (small, large) = (2 * MAPPED_BYTES_MIN, 6 * MAPPED_BYTES_MIN);
        // SAFETY: each block is freed once, with its current layout; only bytes inside the block are accessed.
        unsafe {
            let kept = LargeMapped.alloc(layout(large, 8));
            LargeMapped.dealloc(kept, layout(large, 8));
            let block = LargeMapped.alloc(layout(small, 8));
            probes(small).for_each(|at| block.add(at).write(7));
            let grown = LargeMapped.realloc(block, layout(small, 8), large);
            assert_eq!(grown, kept);
            assert!(probes(small).all(|at| grown.add(at).read() == 7));
            LargeMapped.dealloc(grown, layout(large, 8));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends at such a request")]
    fn memory_that_is_not_there_is_a_null_pointer() {
        // SAFETY: the allocation fails, so there is no block that could be misused.
        assert!(unsafe { LargeMapped.alloc(layout(isize::MAX as usize - 4096, 1)) }.is_null());
    }
}
