//! The limits of this crate, with their reasons.

/// Smaller buffers are not kept: allocating one rarely touches a new page of memory.
pub const POOLED_BYTES_MIN: usize = 4 << 10;
/// Buffers from this size on are mapped. glibc itself maps from here on, and gives memory back to the system as often;
/// smaller ones, freed by many threads, add up to little.
pub const MAPPED_BYTES_MIN: usize = 128 << 10;
/// Bytes of mappings that are kept for the next buffers: what the baskets and columns of some MB of events need. They
/// come on top of the memory limit, whose smallest useful values are not much more.
pub const KEPT_MAPPINGS_BYTES_MAX: usize = 16 << 20;
/// Bytes of a mapping that is kept: two baskets of 15 MB would take most of a small memory limit.
pub const KEPT_MAPPING_BYTES_MAX: usize = KEPT_MAPPINGS_BYTES_MAX / 4;
/// Mappings that are kept: looking through them takes less time than asking the kernel for one.
pub const KEPT_MAPPINGS_COUNT_MAX: usize = 64;
