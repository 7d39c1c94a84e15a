//! Files that only Python libraries can read. The bindings register the function that opens them, the bridge.

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

/// Which library is to read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// fsspec, for whatever it knows.
    Fsspec,
    /// The `hdfs-native` package: a client of HDFS without Java.
    HdfsPackage,
    /// The `xrootd` package: the client of XRootD itself.
    XrootdPackage,
}

/// A range that a library is to read, with the memory for its bytes: they are appended there as they come.
pub struct WantedRange {
    read: RangeRead,
    came: usize,
}

impl WantedRange {
    /// Takes the memory of a read, so that a call which is given up keeps no memory of its caller's.
    fn of(read: &mut RangeRead) -> Result<Self> {
        let range = read.range;
        let mut read = std::mem::replace(read, RangeRead::new(range));
        read.room_for(range.length).ok_or_else(Fault::no_memory)?;
        Ok(Self { read, came: 0 })
    }

    /// Where the bytes lie in the file.
    pub fn range(&self) -> ByteRange {
        self.read.range
    }

    /// Adds bytes behind those that came before. If these are more than were requested they are only counted, and the
    /// read fails.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.came.saturating_add(bytes.len());
        if let Some(place) = self.read.room().get_mut(self.came..end) {
            place.copy_from_slice(bytes);
        }
        self.came = end;
    }
}

/// What a library read of a file.
pub struct RangesRead {
    /// The ranges that it was given, in their order, with their bytes.
    pub ranges: Vec<WantedRange>,
    /// Requests that they took.
    pub calls_count: u64,
}

/// Reads ranges of one file.
pub type Reader = dyn Fn(Vec<WantedRange>, Duration) -> std::result::Result<RangesRead, LibraryFailure> + Send + Sync;

/// A file that a Python library has opened.
pub struct LibraryFile {
    /// The storage element.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Differs between versions of the file; None if nothing does.
    pub identity: Option<String>,
    /// Reads its ranges within a time, as far as the library knows of time.
    pub reader: Arc<Reader>,
}

/// An error of a Python library.
#[derive(Debug, Clone)]
pub struct LibraryFailure {
    /// Its kind.
    pub kind: StorageErrorKind,
    /// The library's words.
    pub reason: String,
    /// Whether the same may succeed when it is tried again.
    pub retry_may_help: bool,
}

/// Opens a file with a Python library, within a time.
pub type Bridge = fn(&str, Library, Duration) -> std::result::Result<LibraryFile, LibraryFailure>;

static BRIDGE: OnceLock<Bridge> = OnceLock::new();

/// Registers the bridge. The first registration stays.
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

/// A file that a Python library reads.
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
                let reason = "the library that could read it is one of Python's, and no Python is here";
                Fault::new(StorageErrorKind::UnsupportedScheme, reason)
            })?;
            let (url, time_limit) = (path.to_owned(), settings.time_limit(0));
            within(time_limit, move || bridge(&url, library, time_limit))
        };
        let file = with_retries(&settings, |_| open()).map_err(|fault| fault.at(path, None))?;
        Ok(Self { path: without_secrets(path), file, settings })
    }

    /// Fills these reads by one call.
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
            return Err(Fault::protocol(&self.file.name, "more bytes than were requested"));
        }
        if found.len() != group.len() || !found.iter().zip(&ranges).all(is_right) {
            return Err(Fault::protocol(&self.file.name, "other bytes than were requested"));
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

/// Does `work` in a thread of its own and gives up waiting for it at the end of its time: a library may know no
/// deadline. The thread ends when the library does.
fn within<T: Send + 'static>(
    time_limit: Duration,
    work: impl FnOnce() -> std::result::Result<T, LibraryFailure> + Send + 'static,
) -> Result<T> {
    match deadline::within(time_limit, work) {
        Ok(done) => done.map_err(Fault::from),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = format!("the library that reads it did not answer within {} s", time_limit.as_secs());
            // A library that hangs once hangs again, and each try would leave a thread behind.
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
