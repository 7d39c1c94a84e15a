//! A segment: ranges of a file as they were fetched, behind them a table that says which, and checksums of all.
//!
//! ```text
//! bytes of record 1, of record 2, ...
//! table:   per record: offset u64, length u64, position u64, crc32c u32 of each piece of 64 KiB;  then the key
//! trailer: magic [8], size of the table u64, records u64, crc32c of the table u32, of the 28 bytes before u32
//! ```
//! All numbers are little-endian.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crc32c::crc32c;
use rustix::fs::{flock, FlockOperation};
use rustix::io::{pread, pwrite};

use crate::limits::{CACHE_PIECE_BYTES, CACHE_TABLE_BYTES_MAX, CACHE_TOUCH_PAUSE};
use crate::ByteRange;

const MAGIC: [u8; 8] = *b"BLCACHE1";
const TRAILER_BYTES: usize = 32;
const RECORD_BYTES: usize = 24;

/// A file of the cache, or one that is to become one.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    /// While it is being written, when it has another name yet.
    writing: Mutex<Option<Arc<File>>>,
    touched_s: AtomicU64,
}

/// A range of the file that was cached, and where its bytes lie.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) range: ByteRange,
    pub(super) segment: Arc<Segment>,
    position: u64,
    /// Of each piece of the range.
    sums: Vec<u32>,
}

impl Segment {
    fn new(path: PathBuf, writing: Option<Arc<File>>) -> Arc<Self> {
        Arc::new(Self { path, writing: Mutex::new(writing), touched_s: AtomicU64::new(0) })
    }

    /// The records of a segment that is whole and belongs to this key.
    pub(super) fn open(path: &Path, key: &str) -> io::Result<Vec<Record>> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let table_end = size.checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
        let mut trailer = [0; TRAILER_BYTES];
        read_at(&file, &mut trailer, table_end)?;
        if trailer[..8] != MAGIC || crc32c(&trailer[..28]) != number32(&trailer[28..]) {
            return Err(damaged());
        }
        let table_bytes = number64(&trailer[8..]);
        if table_bytes > CACHE_TABLE_BYTES_MAX {
            return Err(damaged());
        }
        let data_end = table_end.checked_sub(table_bytes).ok_or_else(damaged)?;
        let mut table = vec![0; table_bytes as usize];
        read_at(&file, &mut table, data_end)?;
        if crc32c(&table) != number32(&trailer[24..]) {
            return Err(damaged());
        }
        let segment = Self::new(path.to_owned(), None);
        parse(&table, number64(&trailer[16..]), data_end, key, &segment).ok_or_else(damaged)
    }

    fn file(&self) -> io::Result<Arc<File>> {
        match &*self.writing.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => Ok(Arc::clone(file)),
            None => File::open(&self.path).map(Arc::new),
        }
    }

    /// Notes that the segment was of use, for those who look for the one that was not for longest. Not each time.
    fn touch(&self, file: &File) {
        let now = SystemTime::now();
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        if now_s.abs_diff(self.touched_s.load(Ordering::Relaxed)) >= CACHE_TOUCH_PAUSE.as_secs() {
            self.touched_s.store(now_s, Ordering::Relaxed);
            // Another user's cache cannot be touched, and serves all the same.
            let _ = file.set_modified(now);
        }
    }
}

impl Record {
    /// Fills `into` with the bytes from `offset` on, which must lie in the record. Bytes that are not those that were
    /// cached are an error.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let file = self.segment.file()?;
        let start = offset.checked_sub(self.range.offset).ok_or_else(damaged)?;
        let end = start + into.len() as u64;
        if end > self.range.length {
            return Err(damaged());
        }
        let mut scratch = Vec::new();
        let (mut at, mut filled) = (start, 0);
        while at < end {
            let piece = at / CACHE_PIECE_BYTES;
            let first = piece * CACHE_PIECE_BYTES;
            let last = (first + CACHE_PIECE_BYTES).min(self.range.length);
            let stop = last.min(end);
            let wanted = &mut into[filled..filled + (stop - at) as usize];
            let sum = *self.sums.get(piece as usize).ok_or_else(damaged)?;
            let is_whole = at == first && stop == last;
            let whole: &mut [u8] = if is_whole {
                &mut *wanted
            } else {
                scratch.resize((last - first) as usize, 0);
                &mut scratch
            };
            read_at(&file, whole, self.position + first)?;
            if crc32c(whole) != sum {
                return Err(damaged());
            }
            if !is_whole {
                let from = (at - first) as usize;
                wanted.copy_from_slice(&scratch[from..from + (stop - at) as usize]);
            }
            filled += (stop - at) as usize;
            at = stop;
        }
        self.segment.touch(&file);
        Ok(())
    }
}

/// Writes a segment under another name, which it loses when it is whole.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    file: Arc<File>,
    segment: Arc<Segment>,
    temporary: PathBuf,
    process: u32,
    pub(super) size_bytes: u64,
    table: Vec<u8>,
    records_count: u64,
}

impl SegmentWriter {
    /// A new segment in a folder, where this ending marks it as not whole.
    pub(super) fn create(folder: &Path, name: &str, ending: &str) -> io::Result<Self> {
        let path = folder.join(name);
        let temporary = folder.join(format!("{name}{ending}"));
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&temporary)?;
        // As long as this process lives, nobody takes it for one that was left behind.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let file = Arc::new(file);
        let segment = Segment::new(path, Some(Arc::clone(&file)));
        let process = std::process::id();
        Ok(Self { file, segment, temporary, process, size_bytes: 0, table: Vec::new(), records_count: 0 })
    }

    /// Whether this process began it: a child that came by fork must not go on with what its parent writes.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Adds the bytes at `offset` of the file.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<Record> {
        let position = self.size_bytes;
        let mut rest = bytes;
        let mut at = position;
        while !rest.is_empty() {
            match pwrite(&*self.file, rest, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    at += count as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.size_bytes = at;
        let sums: Vec<u32> = bytes.chunks(CACHE_PIECE_BYTES as usize).map(crc32c).collect();
        let range = ByteRange::new(offset, bytes.len() as u64);
        for number in [range.offset, range.length, position] {
            self.table.extend(number.to_le_bytes());
        }
        for sum in &sums {
            self.table.extend(sum.to_le_bytes());
        }
        self.records_count += 1;
        Ok(Record { range, segment: Arc::clone(&self.segment), position, sums })
    }

    /// Whether its table is as long as it may be.
    pub(super) fn is_full(&self) -> bool {
        self.table.len() as u64 > CACHE_TABLE_BYTES_MAX / 2
    }

    /// Writes the table, and gives the segment its name.
    pub(super) fn finish(self, key: &str) -> io::Result<()> {
        if self.records_count == 0 {
            return std::fs::remove_file(&self.temporary);
        }
        let mut end = self.table.clone();
        end.extend(key.as_bytes());
        let sum = crc32c(&end);
        let mut trailer = MAGIC.to_vec();
        trailer.extend((end.len() as u64).to_le_bytes());
        trailer.extend(self.records_count.to_le_bytes());
        trailer.extend(sum.to_le_bytes());
        trailer.extend(crc32c(&trailer).to_le_bytes());
        end.extend(trailer);
        let mut at = self.size_bytes;
        let mut rest = end.as_slice();
        while !rest.is_empty() {
            let count = pwrite(&*self.file, rest, at)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += count as u64;
            rest = &rest[count..];
        }
        std::fs::rename(&self.temporary, &self.segment.path)?;
        *self.segment.writing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Removes what was written. Records in it that are held fail to be read, and are fetched again.
    pub(super) fn abandon(self) {
        *self.segment.writing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = std::fs::remove_file(&self.temporary);
    }
}

fn parse(table: &[u8], count: u64, data_end: u64, key: &str, segment: &Arc<Segment>) -> Option<Vec<Record>> {
    let mut rest = table;
    let mut records = Vec::new();
    for _ in 0..count {
        let (numbers, after) = rest.split_at_checked(RECORD_BYTES)?;
        let range = ByteRange::new(number64(numbers), number64(&numbers[8..]));
        let position = number64(&numbers[16..]);
        let end = position.checked_add(range.length)?;
        if end > data_end || range.end().is_none() || range.length == 0 {
            return None;
        }
        let sums_bytes = usize::try_from(range.length.div_ceil(CACHE_PIECE_BYTES)).ok()?.checked_mul(4)?;
        let (sums, after) = after.split_at_checked(sums_bytes)?;
        let sums = sums.chunks_exact(4).map(number32).collect();
        records.push(Record { range, segment: Arc::clone(segment), position, sums });
        rest = after;
    }
    (rest == key.as_bytes()).then_some(records)
}

fn read_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match pread(file, &mut *into, at) {
            Ok(0) => return Err(damaged()),
            Ok(count) => {
                at += count as u64;
                into = &mut into[count..];
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn number32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

fn number64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}
