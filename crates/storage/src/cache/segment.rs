//! Segments of the cache. A segment contains ranges of a file with their checksums, in the order of fetching.
//!
//! ```text
//! header:  magic [8], length of the key u64, crc32c of the key u32, crc32c of the previous 20 bytes u32; then the key
//! record:  magic [8], offset u64, length u64, crc32c of the checksums u32, crc32c of the previous 28 bytes u32;
//!          then the checksums (a crc32c u32 for each piece of 64 KiB), then the bytes
//! ```
//! All numbers are little-endian. A segment may end anywhere, for example if its writer was killed; the complete
//! records remain valid.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crc32c::crc32c;

use crate::limits::{CACHE_PIECE_BYTES, CACHE_RECORD_BYTES_MAX, CACHE_TOUCH_PAUSE};
use crate::ByteRange;

const MAGIC: [u8; 8] = *b"BLCACHE1";
const RECORD_MAGIC: [u8; 8] = *b"BLRECORD";
const HEAD_BYTES: usize = 24;
const RECORD_BYTES: usize = 32;
/// Maximum length of a key. A key consists of a path and a few numbers.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// A file of cached ranges.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    touched_s: AtomicU64,
}

/// A cached range of the file, and where its bytes are in the segment.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) range: ByteRange,
    pub(super) segment: Arc<Segment>,
    position: u64,
    /// Checksums of the range, one for each piece of 64 KiB.
    sums: Vec<u32>,
}

impl Segment {
    fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), touched_s: AtomicU64::new(0) })
    }

    /// Updates the time of the segment's last use, which decides the order of eviction. Updates at most once per
    /// `CACHE_TOUCH_PAUSE`.
    fn touch(&self, file: &File) {
        let now = SystemTime::now();
        let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        if now_s.abs_diff(self.touched_s.load(Ordering::Relaxed)) >= CACHE_TOUCH_PAUSE.as_secs() {
            self.touched_s.store(now_s, Ordering::Relaxed);
            // Errors are ignored: another user's cache can be read although its timestamp cannot be changed.
            let _ = file.set_modified(now);
        }
    }
}

/// A segment, and how far it has been scanned for records.
#[derive(Debug)]
pub(super) struct Scan {
    segment: Arc<Segment>,
    at: u64,
}

impl Scan {
    pub(super) fn new(path: &Path) -> Self {
        Self { segment: Segment::new(path), at: 0 }
    }

    /// Returns the records that were added since the last call. An incomplete record is left for the next call.
    pub(super) fn go_on(&mut self, key: &str) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        if std::fs::metadata(&self.segment.path)?.len() <= self.at {
            return Ok(records);
        }
        let file = File::open(&self.segment.path)?;
        let size = file.metadata()?.len();
        if self.at == 0 {
            match check_head(&file, size, key)? {
                Some(end) => self.at = end,
                None => return Ok(records),
            }
        }
        while let Some(record) = record_at(&file, self.at, size, &self.segment)? {
            self.at = record.position + record.range.length;
            records.push(record);
        }
        Ok(records)
    }
}

/// Returns the offset of the first record, or None if the header is still incomplete.
fn check_head(file: &File, size: u64, key: &str) -> io::Result<Option<u64>> {
    if size < HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    read_at(file, &mut head, 0)?;
    let key_bytes = number64(&head[8..]);
    if head[..8] != MAGIC || crc32c(&head[..20]) != number32(&head[20..]) || key_bytes > KEY_BYTES_MAX {
        return Err(damaged());
    }
    let end = HEAD_BYTES as u64 + key_bytes;
    if size < end {
        return Ok(None);
    }
    let mut found = vec![0; key_bytes as usize];
    read_at(file, &mut found, HEAD_BYTES as u64)?;
    if crc32c(&found) != number32(&head[16..]) || found != key.as_bytes() {
        return Err(damaged());
    }
    Ok(Some(end))
}

fn record_at(file: &File, at: u64, size: u64, segment: &Arc<Segment>) -> io::Result<Option<Record>> {
    let sums_at = at + RECORD_BYTES as u64;
    if size < sums_at {
        return Ok(None);
    }
    let mut head = [0; RECORD_BYTES];
    read_at(file, &mut head, at)?;
    let range = ByteRange::new(number64(&head[8..]), number64(&head[16..]));
    let is_right = head[..8] == RECORD_MAGIC && crc32c(&head[..28]) == number32(&head[28..]);
    if !is_right || range.end().is_none() || range.length > CACHE_RECORD_BYTES_MAX {
        return Err(damaged());
    }
    let sums_bytes = range.length.div_ceil(CACHE_PIECE_BYTES) * 4;
    let position = sums_at + sums_bytes;
    if size < position + range.length {
        return Ok(None);
    }
    let mut sums = vec![0; sums_bytes as usize];
    read_at(file, &mut sums, sums_at)?;
    if crc32c(&sums) != number32(&head[24..]) {
        return Err(damaged());
    }
    let sums = sums.chunks_exact(4).map(number32).collect();
    Ok(Some(Record { range, segment: Arc::clone(segment), position, sums }))
}

impl Record {
    /// Fills `into` with bytes of the record. `offset` is the offset in the cached file. All requested bytes must lie
    /// within the record. Fails on a checksum mismatch.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let file = File::open(&self.segment.path)?;
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

/// Writes records to a new segment.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    file: File,
    segment: Arc<Segment>,
    process: u32,
    pub(super) size_bytes: u64,
}

impl SegmentWriter {
    pub(super) fn create(path: &Path, key: &str) -> io::Result<Self> {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut head = MAGIC.to_vec();
        head.extend((key.len() as u64).to_le_bytes());
        head.extend(crc32c(key.as_bytes()).to_le_bytes());
        head.extend(crc32c(&head).to_le_bytes());
        head.extend(key.as_bytes());
        file.write_all_at(&head, 0)?;
        let (process, size_bytes) = (std::process::id(), head.len() as u64);
        Ok(Self { file, segment: Segment::new(path), process, size_bytes })
    }

    /// Returns whether the segment still exists and belongs to this process. After a fork, only the parent writes to
    /// the segment.
    pub(super) fn is_usable(&self) -> bool {
        self.process == std::process::id() && self.file.metadata().is_ok_and(|about| about.nlink() > 0)
    }

    /// Appends a record with `bytes`, which start at `offset` in the file.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<Record> {
        let range = ByteRange::new(offset, bytes.len() as u64);
        let sums: Vec<u32> = bytes.chunks(CACHE_PIECE_BYTES as usize).map(crc32c).collect();
        let table: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let mut head = RECORD_MAGIC.to_vec();
        head.extend(range.offset.to_le_bytes());
        head.extend(range.length.to_le_bytes());
        head.extend(crc32c(&table).to_le_bytes());
        head.extend(crc32c(&head).to_le_bytes());
        head.extend(table);
        let position = self.size_bytes + head.len() as u64;
        self.file.write_all_at(&head, self.size_bytes)?;
        self.file.write_all_at(bytes, position)?;
        self.size_bytes = position + range.length;
        Ok(Record { range, segment: Arc::clone(&self.segment), position, sums })
    }
}

fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    let cut = |error: io::Error| if error.kind() == io::ErrorKind::UnexpectedEof { damaged() } else { error };
    file.read_exact_at(into, at).map_err(cut)
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
