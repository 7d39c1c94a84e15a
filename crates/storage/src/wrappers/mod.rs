//! Stores around other stores: counted, read ahead, staged, in memory.

pub(crate) mod counted;
pub(crate) mod memory;
pub(crate) mod read_ahead;
pub(crate) mod stage;
