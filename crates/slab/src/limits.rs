//! The limits of this crate, with their reasons.
//!
//! ```
//! use branchline_slab::limits::{KEPT_MAPPINGS_BYTES_MAX, KEPT_MAPPING_BYTES_MAX};
//!
//! assert!(KEPT_MAPPING_BYTES_MAX <= KEPT_MAPPINGS_BYTES_MAX);
//! ```

/// Minimum size of a buffer that is kept for reuse: allocating a smaller one rarely touches a new page of memory.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
/// Minimum size of a buffer that gets its own mapping. glibc has the same threshold, so memory is returned to the
/// system as often as with glibc. Smaller buffers freed by many threads add up to little memory.
pub const MAPPED_BYTES_MIN: usize = 128 << 10;
/// Maximum total size of the mappings kept for reuse: enough for the baskets and columns of a few MB of events. The
/// user's memory limit does not include these mappings. They must be small, because the smallest useful memory
/// limit is only slightly larger than this size.
pub const KEPT_MAPPINGS_BYTES_MAX: usize = 16 << 20;
/// Maximum size of each mapping kept for reuse. Keeping the memory of a basket of 15 MB would take a large part of a
/// small memory limit.
pub const KEPT_MAPPING_BYTES_MAX: usize = KEPT_MAPPINGS_BYTES_MAX / 4;
/// Maximum number of mappings kept for reuse. Searching this number of mappings is faster than requesting a new mapping
/// from the kernel.
pub const KEPT_MAPPINGS_COUNT_MAX: usize = 64;
