//! Memory for reading: leased within a limit, and used again.

pub(crate) mod budget;
pub mod buffers;
pub(crate) mod scratch;
