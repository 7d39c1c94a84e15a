//! Large buffers straight from the system, and back to it as soon as they are freed.
//!
//! glibc keeps what is freed: after one buffer of 15 MB every thread may keep twice as much, which no limit of ours
//! sees. Only buffers of Rust come from here; those of Python and NumPy stay with the usual allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};

use libc::{mmap, mremap, munmap, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MREMAP_MAYMOVE, PROT_READ, PROT_WRITE};

use crate::limits::MAPPED_BYTES_MIN;

/// No mapping is aligned to less.
const ALIGNMENT: usize = 4096;

/// An allocator that maps large blocks, and takes all others from the system's allocator.
#[derive(Debug)]
pub struct LargeMapped;

fn is_mapped(layout: &Layout) -> bool {
    layout.size() >= MAPPED_BYTES_MIN && layout.align() <= ALIGNMENT
}

/// What the kernel maps for a block of this size, at least.
fn mapped_bytes(size: usize) -> usize {
    size.next_multiple_of(ALIGNMENT)
}

fn map(size: usize) -> *mut u8 {
    let size = mapped_bytes(size);
    // SAFETY: a new private mapping at an address that the kernel chooses overlaps nothing.
    let mapped = unsafe { mmap(ptr::null_mut(), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    or_null(mapped)
}

fn or_null(mapped: *mut libc::c_void) -> *mut u8 {
    if mapped == MAP_FAILED {
        ptr::null_mut()
    } else {
        mapped.cast()
    }
}

// SAFETY: a block is mapped if its layout says so, when it is made and when it is freed; `realloc` moves a block from
// one kind to the other where its size crosses the bound. All other blocks go to the system's allocator unchanged.
unsafe impl GlobalAlloc for LargeMapped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(&layout) {
            return map(layout.size());
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(&layout) {
            // New pages are zero.
            return map(layout.size());
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(&layout) {
            // SAFETY: `alloc` mapped this block with this size, and nobody uses it any more.
            unsafe { munmap(block.cast(), mapped_bytes(layout.size())) };
        } else {
            // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`, and `alloc` got it from there.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_mapped(&layout), is_mapped(&new)) {
            // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`, and `alloc` got it from there.
            (false, false) => unsafe { System.realloc(block, layout, new_size) },
            (true, true) => {
                let (before, after) = (mapped_bytes(layout.size()), mapped_bytes(new_size));
                // SAFETY: `alloc` mapped this block with this size; only the caller uses it.
                let moved = unsafe { mremap(block.cast(), before, after, MREMAP_MAYMOVE) };
                or_null(moved)
            }
            _ => {
                // SAFETY: the layout is valid, see above.
                let Some(made) = NonNull::new(unsafe { self.alloc(new) }) else { return ptr::null_mut() };
                let kept = layout.size().min(new_size);
                // SAFETY: both blocks have `kept` bytes and do not overlap; the old one is freed as it was made.
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
    use super::*;

    const SMALL: usize = 1000;
    const LARGE: usize = 3 * MAPPED_BYTES_MIN + 5;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// A byte of each page, and the last one: Miri would take an hour for all of them.
    fn probes(size: usize) -> impl Iterator<Item = usize> {
        (0..size).step_by(ALIGNMENT).chain([size - 1])
    }

    #[test]
    fn bytes_stay_while_a_block_grows_and_shrinks_over_the_bound() {
        let sizes = [SMALL, 2 * SMALL, LARGE, 2 * LARGE, LARGE, SMALL];
        // SAFETY: each block is freed once, with the layout that it has then; only bytes inside it are used.
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
        for (size, align) in [(SMALL, 64), (LARGE, 64), (LARGE, 4096), (LARGE, 1 << 16)] {
            // SAFETY: the block is freed once, with its layout; only bytes inside it are used.
            unsafe {
                let block = LargeMapped.alloc_zeroed(layout(size, align));
                assert_eq!(block as usize % align, 0);
                assert!(probes(size).all(|at| block.add(at).read() == 0));
                LargeMapped.dealloc(block, layout(size, align));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends at such a request")]
    fn memory_that_is_not_there_is_a_null_pointer() {
        // SAFETY: nothing was made that could be used.
        assert!(unsafe { LargeMapped.alloc(layout(isize::MAX as usize - 4096, 1)) }.is_null());
    }
}
