//! A file that the operating system can open by its path.

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

/// A local file, opened once and read at positions, so that threads share it without a lock.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    /// The same past the kernel's cache, if it is read so.
    direct: Option<File>,
    mode: LocalMode,
    is_on_network: bool,
    name: String,
    path: String,
    /// At the time of opening. Bytes that a writer appends later are not seen.
    size_bytes: u64,
    identity: String,
    /// Why it is not read in the mode that the user chose.
    fallback: OnceLock<String>,
}

/// Differs between local files, and for one file before and after it was written to.
fn identity_of(metadata: &Metadata) -> String {
    let (device, inode) = (metadata.dev(), metadata.ino());
    format!("{} {device}:{inode} {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Whether the file at this path is still the one that had this identity, but was written to since. One that another
/// file took the place of is as it was for those who have it open.
pub fn was_written_to(path: &Path, identity: &str) -> bool {
    let file = |identity: &str| identity.split(' ').nth(1).map(str::to_owned);
    let Ok(now) = std::fs::metadata(path).map(|metadata| identity_of(&metadata)) else { return false };
    now != identity && file(&now) == file(identity)
}

impl LocalFile {
    /// Opens the file at `location`; messages call it `path`, as the user did.
    pub fn open(path: &str, location: &Path, mode: LocalMode) -> Result<Self> {
        let not_opened = |error: io::Error| StorageError::not_opened(path, &error);
        // The metadata are read first, because opening a pipe would wait for a writer.
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

    /// Opens it once more past the kernel's cache, where its file system does that.
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

    /// The length of a range that lies inside the file: only such a length may size a buffer.
    fn checked_length(&self, range: ByteRange) -> Result<usize> {
        if range.end().is_none_or(|end| end > self.size_bytes) {
            return Err(StorageError::truncated(&self.path, range, self.size_bytes));
        }
        usize::try_from(range.length).map_err(|_| StorageError::no_memory(&self.path, range))
    }

    /// The error of a range that the file does not have any more.
    fn cut_short(&self, range: ByteRange) -> StorageError {
        let size_bytes = self.file.metadata().map_or(range.offset, |metadata| metadata.len());
        StorageError::truncated(&self.path, range, size_bytes)
    }

    /// Reads exactly the bytes of the range and returns the number of system calls. Nothing is zeroed before it is
    /// read.
    fn fill(&self, read: &mut RangeRead) -> Result<u64> {
        let range = read.range;
        let length = self.checked_length(range)?;
        let reused = read.prepare(length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        self.fill_from(read, 0, reused)
    }

    /// Reads the rest of a range, whose first bytes are there already.
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

    /// Reads one range after the other. Where the kernel's cache does not have the first, the others are announced to
    /// it, which is faster then: it does not wait for one read before it begins the next. On a network mount they are
    /// read side by side.
    fn fill_in_order(&self, reads: &mut [RangeRead]) -> Result<u64> {
        // A single range the kernel reads ahead by itself.
        let [first, _, ..] = reads else {
            return reads.iter_mut().try_fold(0, |sum, read| self.fill(read).map(|calls| sum + calls));
        };
        let range = first.range;
        let length = self.checked_length(range)?;
        let room = first.room_for(range.length).ok_or_else(|| StorageError::no_memory(&self.path, range))?;
        let traced = READ_CACHED_CALL.and_then(|call| self.journal(call, range.offset, length));
        let cached = read_cached(&self.file, room, range.offset);
        end_traced_try(traced, &self.file, cached);
        let mut calls_count = u64::from(cached > 0);
        let mut adviser = (cached < length).then(|| Adviser::new(&self.file, reads));
        if adviser.is_some() && self.is_on_network {
            return self.fill_by_threads(reads).map(|calls| calls_count + calls);
        }
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

    /// Reads with several threads, the calling one among them.
    fn fill_by_threads(&self, reads: &mut [RangeRead]) -> Result<u64> {
        let threads = reads.len().min(LOCAL_THREADS);
        let queue = Mutex::new(reads.iter_mut().collect::<Vec<_>>().into_iter());
        let since = journal::queued_at();
        let read = || {
            let _queued = journal::queued_since(since);
            guarded(|| self.read_queued(&queue)).unwrap_or_else(|panic| Err(StorageError::panicked(&self.path, &panic)))
        };
        std::thread::scope(|scope| {
            // Where no more threads are to be had, those that there are read everything.
            let start =
                |_| std::thread::Builder::new().name("branchline-read".to_owned()).spawn_scoped(scope, read).ok();
            let others: Vec<_> = (1..threads).map_while(start).collect();
            let own = self.read_queued(&queue);
            let all = others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            all.chain([own]).try_fold(0, |sum, done| done.map(|calls| sum + calls))
        })
    }

    /// Reads ranges until there are none. After an error the other threads find the queue empty.
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

    /// Reads all ranges through io_uring; None where that fails before anything of the file does.
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
        if let (Some(direct), LocalMode::Uring) = (&self.direct, self.mode) {
            if let Some(calls_count) = self.fill_by_uring(direct, reads)? {
                return Ok(calls_count);
            }
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

/// Ends the request of a read that only the kernel's cache was asked for: it is no failure where nothing was there.
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
