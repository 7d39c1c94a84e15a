//! The trait of all stores.

use crate::{RangeRead, Result};

/// One file on one storage system, opened for reading. Several threads may read from a store concurrently.
///
/// Calls block, because reading threads have nothing else to do. A store requests all ranges of a call at once where
/// the storage system allows that, bounds every wait by a deadline, and retries requests after temporary failures.
pub trait Store: Send + Sync {
    /// Returns the storage element's name in reports, such as `local:<host>` or `memory`.
    fn name(&self) -> &str;

    /// Returns the path or URL of the file, as given by the user.
    fn path(&self) -> &str;

    /// Returns the size of the file.
    fn size_bytes(&self) -> Result<u64>;

    /// Returns the identity of this version of the file; None if the storage system provides no identity. Files with
    /// the same identity have the same bytes.
    fn identity(&self) -> Option<String>;

    /// Returns the available checksums of the whole file with their kinds, such as `adler32:a1b2c3`. The call has no
    /// time limit.
    fn checksums(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the largest gap across which two ranges of the file should be read as one.
    fn gap_bytes(&self) -> u64;

    /// Reads every range completely into its own buffer, or fails. A range beyond the end of the file is an error:
    /// buffers are never shortened, and memory is never allocated according to an invalid length.
    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort>;

    /// Returns whether a read costs little more than copying bytes, because the file is on a local disk or in memory.
    fn is_near(&self) -> bool {
        false
    }

    /// Returns how many bytes the next read transfers in addition to the requested ranges. This is the size of the
    /// whole file if the storage system does not support ranges.
    fn due_bytes(&self) -> u64 {
        0
    }

    /// Hints that the given number of parallel reads will follow soon, so that connections can be prepared in the
    /// background.
    fn expect_reads(&self, _count: usize) {}

    /// Hints that the whole file will be read soon, so that a disk can start reading in the background.
    fn expect_all(&self) {}

    /// Returns notes for the user about reads that succeeded, such as a cache that could not be written. Each note is a
    /// sentence without a full stop.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what has been read from each replica of the file; empty if the file has only one location.
    fn replicas(&self) -> Vec<ReplicaRead> {
        Vec::new()
    }

    /// Rereads ranges whose bytes were wrong, bypassing all caches, and from another replica if available.
    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.read_ranges(reads)
    }
}

/// A wrapper around a store, which overrides some of the store's methods and forwards the others.
pub trait Around: Send + Sync {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::read_ranges`].
    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort>;

    /// See [`Store::read_again`]. A wrapper that caches bytes forwards this to the wrapped store.
    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.read_ranges(reads)
    }

    /// See [`Store::gap_bytes`].
    fn gap_bytes(&self) -> u64 {
        self.inner().gap_bytes()
    }

    /// See [`Store::is_near`]. A wrapper that slows down reads or injects faults returns false.
    fn is_near(&self) -> bool {
        self.inner().is_near()
    }

    /// See [`Store::remarks`].
    fn remarks(&self) -> Vec<String> {
        self.inner().remarks()
    }

    /// See [`Store::replicas`].
    fn replicas(&self) -> Vec<ReplicaRead> {
        self.inner().replicas()
    }
}

impl<T: Around> Store for T {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn path(&self) -> &str {
        self.inner().path()
    }

    fn size_bytes(&self) -> Result<u64> {
        self.inner().size_bytes()
    }

    fn identity(&self) -> Option<String> {
        self.inner().identity()
    }

    fn checksums(&self) -> Vec<String> {
        self.inner().checksums()
    }

    fn gap_bytes(&self) -> u64 {
        Around::gap_bytes(self)
    }

    fn is_near(&self) -> bool {
        Around::is_near(self)
    }

    fn due_bytes(&self) -> u64 {
        self.inner().due_bytes()
    }

    fn expect_reads(&self, count: usize) {
        self.inner().expect_reads(count);
    }

    fn expect_all(&self) {
        self.inner().expect_all();
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        Around::read_ranges(self, reads)
    }

    fn remarks(&self) -> Vec<String> {
        Around::remarks(self)
    }

    fn replicas(&self) -> Vec<ReplicaRead> {
        Around::replicas(self)
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        Around::read_again(self, reads)
    }
}

/// Statistics of the reads from one replica of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaRead {
    /// Location of the replica, without secrets.
    pub path: String,
    /// Number of bytes read from the replica.
    pub read_bytes: u64,
    /// Number of times that reading switched to another replica because this replica failed.
    pub failures_count: u64,
    /// Message of the replica's last failure; empty if the replica never failed.
    pub error: String,
}

/// Cost of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadEffort {
    /// Number of system calls or requests.
    pub calls_count: u64,
    /// Number of bytes transferred by these calls or requests.
    pub read_bytes: u64,
    /// Number of bytes served from a local copy, not included in `calls_count` and `read_bytes`.
    pub cached_bytes: u64,
}

impl std::ops::Add for ReadEffort {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            calls_count: self.calls_count + other.calls_count,
            read_bytes: self.read_bytes + other.read_bytes,
            cached_bytes: self.cached_bytes + other.cached_bytes,
        }
    }
}
