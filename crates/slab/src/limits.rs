//! The limit of this crate, with its reason.

/// Buffers smaller than this are not worth keeping.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
