//! What every store can do.

use crate::{RangeRead, Result};

/// One file at one place, opened for reading. Several threads may read from it at the same time.
pub trait Store: Send + Sync {
    /// The storage element that serves the file, as it appears in reports: `local:<host>`, `memory`.
    fn name(&self) -> &str;

    /// The path or URL of the file, as the user gave it.
    fn path(&self) -> &str;

    /// The size of the file.
    fn size_bytes(&self) -> Result<u64>;

    /// Reads every range into its own buffer, each exactly filled, or fails: a range that reaches behind the end
    /// of the file is an error, never a shorter buffer, and sizes no allocation.
    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort>;
}

/// What a read cost at the store that did it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadEffort {
    /// System calls or requests.
    pub calls_count: u64,
    /// Bytes moved by them.
    pub read_bytes: u64,
}
