//! Pure functions that plan a read: chunk boundaries, needed extents, memory.

pub(crate) mod cutting;
pub(crate) mod fetch;
pub(crate) mod memory_plan;
pub(crate) mod needed;
pub mod planning;
pub(crate) mod tail_size;
