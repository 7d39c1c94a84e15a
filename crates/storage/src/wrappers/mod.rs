//! Wrappers around stores (counting, read-ahead, staging), and a store in memory.

pub(crate) mod counted;
pub(crate) mod memory;
pub(crate) mod read_ahead;
pub(crate) mod stage;
