//! Reads files through Python libraries. The bindings register the bridge, a function that opens such files.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchline_trace::journal;

use crate::limits::{BRIDGE_CALL_BYTES, REMOTE_GAP_BYTES};
use crate::secrets::{quoted, without_secrets};
use crate::servers::deadline;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::settings::Settings;
use crate::{ByteRange, RangeRead, ReadEffort, StorageError, StorageErrorKind, Store};

/// Python library that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// fsspec, for all schemes without a dedicated client.
    Fsspec,
    /// The `hdfs-native` package: an HDFS client without Java.
    HdfsPackage,
    /// The `xrootd` package: the official XRootD client.
    XrootdPackage,
}

/// A range for a library to read, with the buffer to which the received bytes are appended.
pub struct WantedRange {
    read: RangeRead,
    came: usize,
}

impl WantedRange {
    /// Moves the buffer out of `read`, because the library may still hold the buffer after a timeout. By then, a buffer
    /// borrowed from the caller might no longer exist.
    fn of(read: &mut RangeRead) -> Result<Self> {
        let range = read.range;
        let mut read = std::mem::replace(read, RangeRead::new(range));
        read.room_for(range.length).ok_or_else(Fault::no_memory)?;
        Ok(Self { read, came: 0 })
    }

    /// Returns the requested range of the file.
    pub fn range(&self) -> ByteRange {
        self.read.range
    }

    /// Appends bytes to the buffer. If a library returns more bytes than requested, the excess is only counted, and the
    /// read fails.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.came.saturating_add(bytes.len());
        if let Some(place) = self.read.room().get_mut(self.came..end) {
            place.copy_from_slice(bytes);
        }
        self.came = end;
    }
}

/// Result of a library's read.
pub struct RangesRead {
    /// The requested ranges with their bytes, in the requested order.
    pub ranges: Vec<WantedRange>,
    /// Number of requests that the library sent.
    pub calls_count: u64,
}

/// Function that reads ranges of one file within a time limit.
pub type Reader = dyn Fn(Vec<WantedRange>, Duration) -> std::result::Result<RangesRead, LibraryFailure> + Send + Sync;

/// A file that a Python library has opened.
pub struct LibraryFile {
    /// Name of the storage element.
    pub name: String,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Identity of this version of the file; None if the library reports nothing that changes with the contents.
    pub identity: Option<String>,
    /// Function that reads ranges. Its time limit is advisory, since not every library supports timeouts.
    pub reader: Arc<Reader>,
}

/// A failure that a Python library reported.
#[derive(Debug, Clone)]
pub struct LibraryFailure {
    /// Kind of error.
    pub kind: StorageErrorKind,
    /// The library's error message.
    pub reason: String,
    /// Whether a retry may succeed.
    pub retry_may_help: bool,
}

/// Function that opens a file with a Python library within a time limit.
pub type Bridge = fn(&str, Library, Duration) -> std::result::Result<LibraryFile, LibraryFailure>;

static BRIDGE: OnceLock<Bridge> = OnceLock::new();

/// Registers the bridge. Later registrations are ignored.
pub fn register_bridge(bridge: Bridge) {
    let _ = BRIDGE.set(bridge);
}

pub(crate) fn is_registered() -> bool {
    BRIDGE.get().is_some()
}

impl From<LibraryFailure> for Fault {
    fn from(failure: LibraryFailure) -> Self {
        let fault = Self::new(failure.kind, quoted(failure.reason.as_bytes()));
        if failure.retry_may_help {
            fault
        } else {
            fault.final_for_now()
        }
    }
}

/// A file that is read through a Python library.
pub(crate) struct BridgedFile {
    path: String,
    file: LibraryFile,
    settings: Settings,
}

impl BridgedFile {
    pub(crate) fn open(path: &str, library: Library, settings: &Settings) -> crate::Result<Self> {
        let settings = settings.clone();
        let open = || {
            let bridge = *BRIDGE.get().ok_or_else(|| {
                let reason = "reading it needs a Python library, but Branchline runs without Python";
                Fault::new(StorageErrorKind::UnsupportedScheme, reason)
            })?;
            let (url, time_limit) = (path.to_owned(), settings.time_limit(0));
            within(time_limit, move || bridge(&url, library, time_limit))
        };
        let file = with_retries(&settings, |_| open()).map_err(|fault| fault.at(path, None))?;
        Ok(Self { path: without_secrets(path), file, settings })
    }

    /// Fills a group of reads with one call of the library.
    fn fill(&self, group: &mut [&mut RangeRead]) -> Result<ReadEffort> {
        let ranges: Vec<ByteRange> = group.iter().map(|read| read.range).collect();
        let bytes = ranges.iter().map(|range| range.length).fold(0, u64::saturating_add);
        let (reader, time_limit) = (Arc::clone(&self.file.reader), self.settings.time_limit(bytes));
        let spans = ranges.iter().map(|range| (range.offset, range.length));
        let mut traced = journal::request("bridge", &self.path, &self.file.name, spans);
        let wanted = group.iter_mut().map(|read| WantedRange::of(read)).collect::<Result<Vec<_>>>()?;
        let RangesRead { ranges: found, calls_count } = within(time_limit, move || reader(wanted, time_limit))?;
        let is_right =
            |(one, range): (&WantedRange, &ByteRange)| one.range() == *range && one.came as u64 == range.length;
        if found.iter().any(|one| one.came as u64 > one.range().length) {
            return Err(Fault::protocol(&self.file.name, "more bytes than requested"));
        }
        if found.len() != group.len() || !found.iter().zip(&ranges).all(is_right) {
            return Err(Fault::protocol(&self.file.name, "other bytes than requested"));
        }
        for (read, one) in group.iter_mut().zip(found) {
            **read = one.read;
        }
        if let Some(traced) = &mut traced {
            traced.got(bytes);
            traced.ended("ok");
        }
        Ok(ReadEffort { calls_count, read_bytes: bytes, ..ReadEffort::default() })
    }
}

/// Runs `work` in its own thread and stops waiting after `time_limit`, because a library may not support timeouts.
/// After a timeout, the thread keeps running until the library returns.
fn within<T: Send + 'static>(
    time_limit: Duration,
    work: impl FnOnce() -> std::result::Result<T, LibraryFailure> + Send + 'static,
) -> Result<T> {
    match deadline::within(time_limit, work) {
        Ok(done) => done.map_err(Fault::from),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = format!("the library that reads it did not answer within {} s", time_limit.as_secs());
            // A library that hung once is likely to hang again, and every retry would leak a thread.
            Err(Fault::new(StorageErrorKind::Timeout, reason).final_for_now())
        }
        Err(error) => Err(Fault::io(&error).final_for_now()),
    }
}

impl Store for BridgedFile {
    fn name(&self) -> &str {
        &self.file.name
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size_bytes(&self) -> crate::Result<u64> {
        Ok(self.file.size_bytes)
    }

    fn identity(&self) -> Option<String> {
        self.file.identity.clone()
    }

    fn gap_bytes(&self) -> u64 {
        REMOTE_GAP_BYTES
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> crate::Result<ReadEffort> {
        let mut group = Vec::new();
        let (mut effort, mut bytes) = (ReadEffort::default(), 0);
        for read in reads {
            if read.range.end().is_none_or(|end| end > self.file.size_bytes) {
                return Err(StorageError::truncated(&self.path, read.range, self.file.size_bytes));
            }
            if read.range.length == 0 {
                read.room_for(0);
                continue;
            }
            if read.range.length > BRIDGE_CALL_BYTES.saturating_sub(bytes) && !group.is_empty() {
                effort = effort + self.fill_group(&mut group)?;
                bytes = 0;
            }
            bytes = bytes.saturating_add(read.range.length);
            group.push(read);
        }
        if group.is_empty() {
            return Ok(effort);
        }
        self.fill_group(&mut group).map(|last| effort + last)
    }
}

impl BridgedFile {
    fn fill_group(&self, group: &mut Vec<&mut RangeRead>) -> crate::Result<ReadEffort> {
        let filled = with_retries(&self.settings, |_| self.fill(group));
        let filled = filled.map_err(|fault| fault.at(&self.path, group.first().map(|read| read.range)));
        group.clear();
        filled
    }
}
