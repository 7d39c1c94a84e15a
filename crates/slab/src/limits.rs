//! The limit of this crate, with its reason.

/// Smaller buffers are not kept: allocating one rarely touches a new page of memory.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
