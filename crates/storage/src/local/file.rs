//! Files on local and mounted file systems, opened by path.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::vec::IntoIter;

use branchline_trace::journal;
use branchline_trace::panics::guarded;
use rustix::io::{pread, Errno};

use super::advice::{expect_first, Adviser};
use super::append::append_from;
use super::direct::{pieces, read_piece, Piece, PiecesRead, Sectors};
use super::system::{is_on_network, open_direct, read_cached, READ_CACHED_CALL};
use super::uring;
use crate::limits::{LOCAL_GAP_BYTES, LOCAL_THREADS};
use crate::settings::local_mode::LocalMode;
use crate::{ByteRange, RangeRead, ReadEffort, Result, StorageError, Store};

/// A local file that is opened once and read with `pread`, so that several threads can read it without a lock.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    /// The file opened with O_DIRECT; None if reads use the kernel's cache.
    direct: Option<File>,
    mode: LocalMode,
    is_on_network: bool,
    name: String,
    path: String,
    /// Size of the file when it was opened. Bytes that are appended later are ignored.
    size_bytes: u64,
    identity: String,
    /// Reason why the file is not read in the mode that the user chose, if any.
    fallback: OnceLock<String>,
}

/// Returns an identity that differs between files, and changes when a file is written to.
fn identity_of(metadata: &Metadata) -> String {
    let (device, inode) = (metadata.dev(), metadata.ino());
    format!("{} {device}:{inode} {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Returns whether the file with this identity is still at this path, but has been modified in place. Returns false if
/// the file was replaced by another file, since readers that have the old file open are not affected.
pub fn was_written_to(path: &Path, identity: &str) -> bool {
    let file = |identity: &str| identity.split(' ').nth(1).map(str::to_owned);
    let Ok(now) = std::fs::metadata(path).map(|metadata| identity_of(&metadata)) else { return false };
    now != identity && file(&now) == file(identity)
}

impl LocalFile {
    /// Opens the file at `location`; messages call it `path`, the name given by the user.
    pub fn open(path: &str, location: &Path, mode: LocalMode) -> Result<Self> {
        let not_opened = |error: io::Error| StorageError::not_opened(path, &error);
        // The metadata is checked first, because opening a pipe would wait for a writer.
        let metadata = std::fs::metadata(location).map_err(not_opened)?;
        if metadata.is_dir() {
            return Err(StorageError::not_a_file(path, "a directory"));
        }
        if !metadata.is_file() {
            return Err(StorageError::not_a_file(path, "a pipe or a device"));
        }
        let file = File::open(location).map_err(not_opened)?;
        let metadata = file.metadata().map_err(not_opened)?;
        let size_bytes = metadata.len();
        let (device, inode) = (metadata.dev(), metadata.ino());
        let identity = identity_of(&metadata);
        let host = rustix::system::uname();
        let mut opened = Self {
            is_on_network: is_on_network(&file),
            file,
            direct: None,
            mode,
            name: format!("local:{}", host.nodename().to_string_lossy()),
            path: path.to_owned(),
            size_bytes,
            identity,
            fallback: OnceLock::new(),
        };
        if matches!(mode, LocalMode::Direct | LocalMode::Uring) {
            opened.open_direct(location, (device, inode));
        }
        Ok(opened)
    }

    /// Opens the file a second time with O_DIRECT. If the file system does not support O_DIRECT, reads use the kernel's
    /// cache.
    fn open_direct(&mut self, location: &Path, file: (u64, u64)) {
        let opened = open_direct(location).and_then(|direct| Ok((direct.metadata()?, direct)));
        match opened {
            Ok((metadata, direct)) if (metadata.dev(), metadata.ino()) == file => self.direct = Some(direct),
            Ok(_) => {}
            Err(error) => self.fall_back(format!("read through the kernel's cache, as O_DIRECT was refused: {error}")),
        }
        if self.mode == LocalMode::Uring && self.direct.is_some() && !uring::is_allowed() {
            self.mode = LocalMode::Direct;
            self.fall_back("read by threads, as io_uring is not allowed here".to_owned());
        }
    }

    fn fall_back(&self, why: String) {
        let _ = self.fallback.set(why);
    }

    /// Returns the length of a range, or an error if the range is not inside the file. Only a checked length may be
    /// used to allocate a buffer.
    fn checked_length(&self, range: ByteRange) -> Result<usize> {
        if range.end().is_none_or(|end| end > self.size_bytes) {
            return Err(StorageError::truncated(&self.path, range, self.size_bytes));
        }
        usize::try_from(range.length).map_err(|_| StorageError::no_memory(&self.path, range))
    }

    /// Builds the error for a range that extends past the end of a file that was shortened after opening.
    fn cut_short(&self, range: ByteRange) -> StorageError {
        let size_bytes = self.file.metadata().map_or(range.offset, |metadata| metadata.len());
        StorageError::truncated(&self.path, range, size_bytes)
    }

    /// Reads a range, and returns the number of system calls. The buffer is not zeroed first.
    fn fill(&self, read: &mut RangeRead) -> Result<u64> {
        let range = read.range;
        let length = self.checked_length(range)?;
        let reused = read.prepare(length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        self.fill_from(read, 0, reused)
    }

    /// Reads the rest of a range whose first `filled` bytes have been read, and returns the number of system calls.
    fn fill_from(&self, read: &mut RangeRead, filled: usize, reused: bool) -> Result<u64> {
        let range = read.range;
        let length = self.checked_length(range)?;
        let mut filled = filled;
        let mut calls_count = 0;
        while filled < length {
            let at = range.offset + filled as u64;
            calls_count += 1;
            let traced = self.journal("pread64", at, length - filled);
            let result = if reused {
                pread(&self.file, &mut read.room()[filled..], at)
            } else {
                append_from(&self.file, read.buffer_mut(), length - filled, at)
            };
            self.end_traced(traced, &self.file, result);
            match result {
                Ok(0) => return Err(self.cut_short(range)),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(StorageError::not_read(&self.path, range, &error.into())),
            }
        }
        Ok(calls_count)
    }

    /// Reads through the kernel's cache, and returns the number of system calls.
    ///
    /// - If the first range is cached, all ranges are read in order, because that is fastest: 2.9 GB/s, compared with
    ///   1.6 GB/s by threads and 0.5 GB/s with O_DIRECT (on a busy machine).
    /// - If the first range is not cached, the other ranges are probably not cached either, and threads read them in
    ///   parallel: 521 MB/s from a disk, compared with 418 MB/s with readahead advice (`python -m benches
    ///   local-disk`). O_DIRECT reached 636 MB/s, but leaves nothing in the cache for the next run.
    /// - If the file system cannot report what is cached, ranges are read in order with readahead advice, because
    ///   threads would be slower for cached ranges.
    ///
    /// If the first range is not cached, network mounts are always read by threads. Other file systems are read with
    /// readahead advice in all modes except `Auto`.
    fn fill_in_order(&self, reads: &mut [RangeRead]) -> Result<u64> {
        // A single range needs no advice or threads, because the kernel's own readahead is enough.
        let [first, _, ..] = reads else {
            return reads.iter_mut().try_fold(0, |sum, read| self.fill(read).map(|calls| sum + calls));
        };
        let range = first.range;
        let length = self.checked_length(range)?;
        let room = first.room_for(range.length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        let traced = READ_CACHED_CALL.and_then(|call| self.journal(call, range.offset, length));
        let found = read_cached(&self.file, room, range.offset);
        let cached = found.unwrap_or(0);
        end_traced_try(traced, &self.file, cached);
        let mut calls_count = u64::from(cached > 0);
        let is_missing = cached < length;
        if is_missing && (self.is_on_network || (self.mode == LocalMode::Auto && found.is_some())) {
            return self.fill_by_threads(reads).map(|calls| calls_count + calls);
        }
        let mut adviser = is_missing.then(|| Adviser::new(&self.file, reads));
        for (index, read) in reads.iter_mut().enumerate() {
            if let Some(adviser) = &mut adviser {
                adviser.before(index);
            }
            calls_count += if index == 0 { self.fill_from(read, cached, true)? } else { self.fill(read)? };
            if let Some(adviser) = &mut adviser {
                adviser.after(index);
            }
        }
        Ok(calls_count)
    }

    /// Reads with several threads, including the calling thread.
    fn fill_by_threads(&self, reads: &mut [RangeRead]) -> Result<u64> {
        let threads = reads.len().min(LOCAL_THREADS);
        let queue = Mutex::new(reads.iter_mut().collect::<Vec<_>>().into_iter());
        let since = journal::queued_at();
        let read = || {
            let _queued = journal::queued_since(since);
            guarded(|| self.read_queued(&queue)).unwrap_or_else(|panic| Err(StorageError::panicked(&self.path, &panic)))
        };
        std::thread::scope(|scope| {
            // If no more threads can be started, the existing threads read everything.
            let start =
                |_| std::thread::Builder::new().name("branchline-read".to_owned()).spawn_scoped(scope, read).ok();
            let others: Vec<_> = (1..threads).map_while(start).collect();
            let own = self.read_queued(&queue);
            let all = others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            all.chain([own]).try_fold(0, |sum, done| done.map(|calls| sum + calls))
        })
    }

    /// Reads ranges from the queue until the queue is empty. After an error, the queue is emptied to stop the other
    /// threads.
    fn read_queued(&self, queue: &Mutex<IntoIter<&mut RangeRead>>) -> Result<u64> {
        let mut calls_count = 0;
        let mut sectors = None;
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(read) = next else { return Ok(calls_count) };
            let filled = match &self.direct {
                Some(direct) => self.fill_direct(direct, read, sectors.get_or_insert_with(|| Sectors::new(0))),
                None => self.fill(read),
            };
            match filled {
                Ok(calls) => calls_count += calls,
                Err(error) => {
                    queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                    return Err(error);
                }
            }
        }
    }

    fn fill_direct(&self, direct: &File, read: &mut RangeRead, sectors: &mut Sectors) -> Result<u64> {
        let range = read.range;
        self.checked_length(range)?;
        let room = read.room_for(range.length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        let (mut calls_count, mut filled) = (0, 0);
        for piece in pieces(range) {
            let traced = self.journal("pread64", piece.start, piece.sectors_bytes);
            let done = read_piece(direct, &piece, sectors);
            let got = done.as_ref().map(|calls| if calls.is_some() { piece.sectors_bytes } else { 0 });
            self.end_traced(traced, direct, got.map_err(|error| Errno::from_io_error(error).unwrap_or(Errno::IO)));
            let calls = done.map_err(|error| StorageError::not_read(&self.path, range, &error))?;
            calls_count += calls.ok_or_else(|| self.cut_short(range))?;
            room[filled..filled + piece.length].copy_from_slice(sectors.of(&piece));
            filled += piece.length;
        }
        Ok(calls_count)
    }

    /// Reads all ranges through io_uring, and returns the number of system calls; returns None if io_uring fails.
    fn fill_by_uring(&self, direct: &File, reads: &mut [RangeRead]) -> Result<Option<u64>> {
        let mut places = Vec::new();
        let mut all: Vec<Piece> = Vec::new();
        for (index, read) in reads.iter_mut().enumerate() {
            let range = read.range;
            self.checked_length(range)?;
            read.room_for(range.length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
            let mut filled = 0;
            for piece in pieces(range) {
                places.push((index, filled));
                filled += piece.length;
                all.push(piece);
            }
        }
        let spans = all.iter().map(|piece| (piece.start, piece.sectors_bytes as u64));
        let traced = journal::request("io_uring", &self.path, &self.name, spans);
        let done = uring::read_pieces(direct, &all, |number, bytes| {
            let (index, filled) = places[number];
            reads[index].room()[filled..filled + bytes.len()].copy_from_slice(bytes);
        });
        let bytes = all.iter().map(|piece| piece.sectors_bytes).sum();
        self.end_traced(
            traced,
            direct,
            if matches!(done, Ok(PiecesRead::All { .. })) { Ok(bytes) } else { Err(Errno::IO) },
        );
        match done {
            Ok(PiecesRead::All { calls_count }) => Ok(Some(calls_count)),
            Ok(PiecesRead::CutAt { number }) => {
                let (index, _) = places[number];
                Err(self.cut_short(reads[index].range))
            }
            Err(error) => {
                self.fall_back(format!("read by threads, as io_uring failed: {error}"));
                Ok(None)
            }
        }
    }

    fn read_all(&self, reads: &mut [RangeRead]) -> Result<u64> {
        if let (Some(direct), LocalMode::Uring) = (&self.direct, self.mode)
            && let Some(calls_count) = self.fill_by_uring(direct, reads)?
        {
            return Ok(calls_count);
        }
        if self.direct.is_some() || (self.mode == LocalMode::Threads && reads.len() > 1) {
            return self.fill_by_threads(reads);
        }
        self.fill_in_order(reads)
    }
}

impl LocalFile {
    fn journal(&self, call: &'static str, offset: u64, length: usize) -> Option<journal::Request> {
        journal::request(call, &self.path, &self.name, std::iter::once((offset, length as u64)))
    }

    fn end_traced(&self, traced: Option<journal::Request>, file: &File, result: std::result::Result<usize, Errno>) {
        let Some(mut traced) = traced else { return };
        traced.over(file.as_raw_fd().unsigned_abs().into());
        match result {
            Ok(count) => {
                traced.got(count as u64);
                traced.ended(if count > 0 { "ok" } else { "end of file" });
            }
            Err(error) => traced.ended(error.to_string()),
        }
    }
}

/// Ends the trace entry of a read that takes bytes only from the kernel's cache. Finding no cached bytes is not a
/// failure.
fn end_traced_try(traced: Option<journal::Request>, file: &File, cached: usize) {
    let Some(mut traced) = traced else { return };
    traced.over(file.as_raw_fd().unsigned_abs().into());
    traced.got(cached as u64);
    traced.ended(if cached > 0 { "ok" } else { "not in the page cache" });
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

    fn is_near(&self) -> bool {
        true
    }

    fn gap_bytes(&self) -> u64 {
        LOCAL_GAP_BYTES
    }

    fn expect_all(&self) {
        if self.direct.is_none() {
            expect_first(&self.file);
        }
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let calls_count = self.read_all(reads)?;
        let read_bytes = reads.iter().map(|read| read.range.length).sum();
        Ok(ReadEffort { calls_count, read_bytes, ..ReadEffort::default() })
    }

    fn remarks(&self) -> Vec<String> {
        self.fallback.get().map(|why| format!("{}: {why}", self.path)).into_iter().collect()
    }
}
