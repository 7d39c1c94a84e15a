//! The limits of this crate, with their reasons.

/// Smaller buffers are not kept: allocating one rarely touches a new page of memory.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
/// Buffers from this size on are mapped. Mapping one and touching its pages takes a tenth of the time of decompressing
/// into it, and the engine uses its buffers again; smaller ones, freed by many threads, add up to little.
pub const MAPPED_BYTES_MIN: usize = 1 << 20;
