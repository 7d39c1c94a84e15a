//! The trait of all stores.

use crate::{RangeRead, Result};

/// One file at one place, opened for reading. Several threads may read from it at the same time.
///
/// Calls wait until they are done, because reading threads have nothing else to do. A store requests all ranges of a
/// call at once as far as its place allows, ends every wait at a deadline, and repeats a request whose failure may
/// pass.
pub trait Store: Send + Sync {
    /// The storage element that serves the file, as it appears in reports: `local:<host>`, `memory`.
    fn name(&self) -> &str;

    /// The path or URL of the file, as the user gave it.
    fn path(&self) -> &str;

    /// The size of the file.
    fn size_bytes(&self) -> Result<u64>;

    /// The identity of this version of the file; None if the place has none. A file with the same identity as before
    /// has the same bytes.
    fn identity(&self) -> Option<String>;

    /// Checksums of the whole file and their kinds, as `adler32:a1b2c3`, those that the place has. This takes as long
    /// as the place likes.
    fn checksums(&self) -> Vec<String> {
        Vec::new()
    }

    /// The gap up to which two ranges of the file are better read as one.
    fn gap_bytes(&self) -> u64;

    /// Reads every range into its own buffer, each exactly filled, or fails: a range that reaches beyond the end
    /// of the file is an error, never a shorter buffer, and sizes no allocation.
    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort>;

    /// Whether a read costs hardly more than copying its bytes: the file is on a disk of this machine, or in its
    /// memory.
    fn is_near(&self) -> bool {
        false
    }

    /// Bytes that the next read moves besides those of its ranges: the whole file, where its place sends no parts.
    fn due_bytes(&self) -> u64 {
        0
    }

    /// Reads come soon, this many at a time: what takes round trips before the first of them may begin now, and is not
    /// waited for.
    fn expect_reads(&self, _count: usize) {}

    /// All of the file is read soon: a disk may begin to, and is not waited for.
    fn expect_all(&self) {}

    /// Remarks for the user on reads that went well, in sentences without a full stop: a cache that could not be
    /// written, for instance.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was read of each replica of the file so far; empty for a file that is at one place only.
    fn replicas(&self) -> Vec<ReplicaRead> {
        Vec::new()
    }

    /// Reads ranges again whose bytes were wrong: past all caches, and from another replica if there is one.
    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.read_ranges(reads)
    }
}

/// A wrapper around a store: it changes some of the calls and passes on the others.
pub trait Around: Send + Sync {
    /// The store inside.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::read_ranges`].
    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort>;

    /// See [`Store::read_again`]. One that caches bytes passes this on to the inner store.
    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.read_ranges(reads)
    }

    /// See [`Store::gap_bytes`].
    fn gap_bytes(&self) -> u64 {
        self.inner().gap_bytes()
    }

    /// See [`Store::is_near`]. One that makes reads slow or unreliable is not.
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

/// What was read of one replica of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaRead {
    /// Its location, as it may be shown.
    pub path: String,
    /// Bytes that came from it.
    pub read_bytes: u64,
    /// How often it was left since something failed there.
    pub failures_count: u64,
    /// The last of these failures; empty if there was none.
    pub error: String,
}

/// The cost of a read at the store that did it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadEffort {
    /// System calls or requests.
    pub calls_count: u64,
    /// Bytes moved by them.
    pub read_bytes: u64,
    /// Bytes that came from a copy on this machine instead, which the calls and bytes above are without.
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
