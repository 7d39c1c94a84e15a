//! A file that the operating system can open by its path.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use branchline_trace::journal;
use rustix::buffer::spare_capacity;
use rustix::io::{pread, Errno};

use crate::limits::LOCAL_GAP_BYTES;
use crate::{ByteRange, RangeRead, ReadEffort, Result, StorageError, Store};

/// A local file, opened once and read at positions, so that threads share it without a lock.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    name: String,
    path: String,
    /// At the time of opening. Bytes that a writer appends later are not seen.
    size_bytes: u64,
    identity: String,
}

impl LocalFile {
    /// Opens the file at `location`; messages call it `path`, as the user did.
    pub fn open(path: &str, location: &Path) -> Result<Self> {
        let not_opened = |error: io::Error| StorageError::not_opened(path, &error);
        // Looked at first, because opening a pipe would wait for a writer.
        let metadata = std::fs::metadata(location).map_err(not_opened)?;
        if metadata.is_dir() {
            return Err(StorageError::not_a_file(path, "a directory"));
        }
        if !metadata.is_file() {
            return Err(StorageError::not_a_file(path, "a pipe or a device"));
        }
        let file = File::open(location).map_err(not_opened)?;
        let about = file.metadata().map_err(not_opened)?;
        let size_bytes = about.len();
        let (device, inode) = (about.dev(), about.ino());
        let identity = format!("{size_bytes} {device}:{inode} {}.{:09}", about.mtime(), about.mtime_nsec());
        let host = rustix::system::uname();
        let name = format!("local:{}", host.nodename().to_string_lossy());
        Ok(Self { file, name, path: path.to_owned(), size_bytes, identity })
    }

    /// The length of a range that lies inside the file: only such a length may size a buffer.
    fn checked_length(&self, range: ByteRange) -> Result<usize> {
        if range.end().is_none_or(|end| end > self.size_bytes) {
            return Err(StorageError::truncated(&self.path, range, self.size_bytes));
        }
        usize::try_from(range.length).map_err(|_| StorageError::no_memory(&self.path, range))
    }

    /// Reads exactly the bytes of the range and returns the number of system calls. Nothing is zeroed before it is
    /// read, but the part by which a buffer grows within the capacity it had.
    fn fill(&self, read: &mut RangeRead) -> Result<u64> {
        let range = read.range;
        let length = self.checked_length(range)?;
        let reused = read.prepare(length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        let mut filled = 0;
        let mut calls_count = 0;
        while filled < length {
            let at = range.offset + filled as u64;
            calls_count += 1;
            let left = length - filled;
            let told = journal::request("pread64", &self.path, &self.name, std::iter::once((at, left as u64)));
            let result = if reused {
                pread(&self.file, &mut read.room()[filled..], at)
            } else {
                pread(&self.file, spare_capacity(read.buffer_mut()), at)
            };
            self.tell(told, result);
            match result {
                Ok(0) => return Err(StorageError::truncated(&self.path, range, at)),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(StorageError::not_read(&self.path, range, &error.into())),
            }
        }
        // The buffer has a little more capacity than was asked for, and then more is read.
        read.truncate(length);
        Ok(calls_count)
    }
}

impl LocalFile {
    fn tell(&self, told: Option<journal::Request>, result: std::result::Result<usize, Errno>) {
        let Some(mut told) = told else { return };
        told.over(i64::from(self.file.as_raw_fd()));
        match result {
            Ok(count) => {
                told.got(count as u64);
                told.ended(if count > 0 { "ok" } else { "end of file" });
            }
            Err(error) => told.ended(&error.to_string()),
        }
    }
}

impl Store for LocalFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn size_bytes(&self) -> Result<u64> {
        Ok(self.size_bytes)
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn gap_bytes(&self) -> u64 {
        LOCAL_GAP_BYTES
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let mut effort = ReadEffort::default();
        for read in reads {
            effort.calls_count += self.fill(read)?;
            effort.read_bytes += read.range.length;
        }
        Ok(effort)
    }
}
