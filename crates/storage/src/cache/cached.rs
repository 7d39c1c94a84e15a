//! A wrapper around a store that serves ranges from the local cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::SystemTime;
use std::{fs, io, process};

use super::content::{Content, Part};
use super::folder::{entries, make, Folder};
use super::segment::{Record, Scan, Segment, SegmentWriter};
use crate::limits::{CACHE_FILE_BYTES, CACHE_SEGMENT_BYTES, MAX_JOINED_BYTES};
use crate::{coalesce, Around, ByteRange, RangeRead, ReadEffort, Result, StorageError, Store};

/// A store with a cache on the local disk.
pub struct Cached {
    inner: Arc<dyn Store>,
    size_bytes: u64,
    file: std::result::Result<Arc<CachedFile>, String>,
}

/// The cached parts of one version of a file, shared by all stores of this process that read it.
struct CachedFile {
    folder: Arc<Folder>,
    path: PathBuf,
    key: String,
    known: Mutex<Known>,
    writer: Mutex<Writer>,
}

#[derive(Default)]
struct Known {
    content: Content,
    /// Scan position in each segment, by the segment's path.
    scans: HashMap<PathBuf, Scan>,
}

#[derive(Default)]
struct Writer {
    segment: Option<SegmentWriter>,
    /// Why caching was stopped; None while caching works.
    stopped: Option<String>,
}

impl Cached {
    /// Wraps a store in a cache of at most `limit_bytes` in `folder`. If the file cannot be cached, all reads use the
    /// store directly, and a remark gives the reason.
    pub fn around(inner: Arc<dyn Store>, folder: &Path, limit_bytes: u64) -> Result<Self> {
        let size_bytes = inner.size_bytes()?;
        let file = match inner.identity() {
            Some(identity) => {
                let key = format!("{}\n{size_bytes}\n{identity}", inner.path());
                let found = Folder::at(folder, limit_bytes);
                found.map(|found| CachedFile::of(found, key)).map_err(|error| format!("{}: {error}", folder.display()))
            }
            None => Err("its server sends nothing that identifies the version of the file".to_owned()),
        };
        Ok(Self { inner, size_bytes, file })
    }

    /// Reads ranges from the inner store and caches them.
    fn fetch(&self, file: &CachedFile, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let effort = self.inner.read_ranges(reads)?;
        file.keep(reads);
        Ok(effort)
    }

    /// Fetches the missing parts with coalesced reads and copies them into the buffers of `reads`.
    fn fetch_missing(&self, file: &CachedFile, reads: &mut [RangeRead], parts: &[Vec<Part>]) -> Result<ReadEffort> {
        let missing: Vec<ByteRange> =
            parts.iter().flatten().filter(|part| part.record.is_none()).map(|part| part.range).collect();
        if missing.is_empty() {
            return Ok(ReadEffort::default());
        }
        let plan = coalesce(&missing, self.inner.gap_bytes(), MAX_JOINED_BYTES);
        let mut fetched: Vec<RangeRead> = plan.ranges.iter().copied().map(RangeRead::new).collect();
        let effort = self.fetch(file, &mut fetched)?;
        let mut places = plan.placements.iter();
        for (read, parts) in reads.iter_mut().zip(parts) {
            let start = read.range.offset;
            for part in parts.iter().filter(|part| part.record.is_none()) {
                let Some(place) = places.next() else { continue };
                let from = place.offset as usize;
                let bytes = &fetched[place.range].bytes()[from..from + place.length as usize];
                let at = (part.range.offset - start) as usize;
                read.room()[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(effort)
    }
}

impl Around for Cached {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let is_inside = |read: &RangeRead| read.range.end().is_some_and(|end| end <= self.size_bytes);
        let Ok(file) = &self.file else { return self.inner.read_ranges(reads) };
        if !reads.iter().all(is_inside) {
            return self.inner.read_ranges(reads);
        }
        let mut parts: Vec<Vec<Part>> = file.look_up(reads);
        if parts.iter().flatten().all(|part| part.record.is_none()) {
            return self.fetch(file, reads);
        }
        let mut cached_bytes = 0;
        for (read, parts) in reads.iter_mut().zip(&mut parts) {
            let range = read.range;
            let no_memory = || StorageError::no_memory(self.path(), range);
            let room = read.room_for(range.length).ok_or_else(no_memory)?;
            cached_bytes += file.fill(range, room, parts);
        }
        let mut effort = self.fetch_missing(file, reads, &parts)?;
        effort.cached_bytes += cached_bytes;
        Ok(effort)
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let effort = self.inner.read_again(reads)?;
        if let Ok(file) = &self.file {
            file.replace(reads);
        }
        Ok(effort)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.inner.remarks();
        match &self.file {
            Ok(file) => remarks.extend(file.writer().stopped.iter().map(|why| format!("no longer cached: {why}"))),
            Err(why) => remarks.push(format!("not cached: {why}")),
        }
        remarks
    }
}

impl CachedFile {
    fn of(folder: Arc<Folder>, key: String) -> Arc<Self> {
        static OPEN: OnceLock<Mutex<HashMap<PathBuf, Weak<CachedFile>>>> = OnceLock::new();
        let path = folder.of_file(&key);
        let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, file| file.strong_count() > 0);
        if let Some(known) = open.get(&path).and_then(Weak::upgrade)
            && known.key == key
            && known.folder.limit_bytes == folder.limit_bytes
        {
            return known;
        }
        let file = Arc::new(Self { folder, path, key, known: Mutex::default(), writer: Mutex::default() });
        open.insert(file.path.clone(), Arc::downgrade(&file));
        file
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Splits all reads into cached and missing parts. If a part is missing, first scans for new records of other
    /// processes.
    fn look_up(&self, reads: &[RangeRead]) -> Vec<Vec<Part>> {
        let mut known = self.known();
        let all = |content: &Content| reads.iter().map(|read| content.parts_of(read.range)).collect::<Vec<_>>();
        let parts = all(&known.content);
        if parts.iter().flatten().all(|part| part.record.is_some()) || !known.refresh(&self.path, &self.key) {
            return parts;
        }
        all(&known.content)
    }

    /// Copies the cached parts of a range into `room`, and returns the number of bytes copied. A part that cannot be
    /// read is marked as missing.
    fn fill(&self, range: ByteRange, room: &mut [u8], parts: &mut [Part]) -> u64 {
        let mut filled = 0;
        for part in parts {
            let Some(record) = &part.record else { continue };
            let at = (part.range.offset - range.offset) as usize;
            match record.read(part.range.offset, &mut room[at..at + part.range.length as usize]) {
                Ok(()) => filled += part.range.length,
                Err(error) => {
                    self.give_up(&record.segment, &error);
                    part.record = None;
                }
            }
        }
        filled
    }

    /// Drops a segment that was removed or is damaged, and deletes a damaged segment from the disk.
    fn give_up(&self, segment: &Arc<Segment>, error: &io::Error) {
        self.known().content.forget(segment);
        if error.kind() == io::ErrorKind::InvalidData {
            let _ = fs::remove_file(&segment.path);
        }
    }

    /// Drops all segments with records of these ranges, because the records contain wrong bytes, and caches the newly
    /// read bytes.
    fn replace(&self, reads: &[RangeRead]) {
        let known = self.known();
        let parts: Vec<Part> = reads.iter().flat_map(|read| known.content.parts_of(read.range)).collect();
        drop(known);
        for record in parts.into_iter().filter_map(|part| part.record) {
            self.give_up(&record.segment, &io::ErrorKind::InvalidData.into());
        }
        self.keep(reads);
    }

    /// Caches the bytes of `reads`. After a failed write, no more bytes are cached.
    fn keep(&self, reads: &[RangeRead]) {
        let mut writer = self.writer();
        if writer.stopped.is_some() {
            return;
        }
        let mut records = Vec::new();
        for read in reads.iter().filter(|read| read.range.length > 0) {
            if !self.folder.has_room(read.range.length + CACHE_FILE_BYTES) {
                continue;
            }
            match self.write(&mut writer.segment, read) {
                Ok(record) => records.push(record),
                Err(error) => {
                    writer.segment = None;
                    writer.stopped = Some(format!("{}: {error}", self.path.display()));
                    break;
                }
            }
        }
        drop(writer);
        let mut known = self.known();
        records.into_iter().for_each(|record| known.content.add(record));
    }

    fn write(&self, writer: &mut Option<SegmentWriter>, read: &RangeRead) -> io::Result<Record> {
        let bytes_max = CACHE_SEGMENT_BYTES.min(self.folder.limit_bytes / 8);
        let goes_on = |one: &SegmentWriter| one.size_bytes + read.range.length <= bytes_max && one.is_usable();
        if !writer.as_ref().is_some_and(goes_on) {
            *writer = None;
        }
        let new = || self.new_segment();
        let one = match writer {
            Some(one) => one,
            None => writer.insert(new()?),
        };
        one.add(read.range.offset, read.bytes())
    }

    fn new_segment(&self) -> io::Result<SegmentWriter> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{now:x}-{}-{number}", process::id()));
        make(&self.path)?;
        SegmentWriter::create(&path, &self.key).or_else(|_| {
            // Another process has removed the empty folder in the meantime.
            make(&self.path)?;
            SegmentWriter::create(&path, &self.key)
        })
    }
}

impl Known {
    /// Adds records that other processes have written to the folder; returns whether any were added.
    fn refresh(&mut self, folder: &Path, key: &str) -> bool {
        let mut is_new = false;
        for path in entries(folder) {
            let scan = self.scans.entry(path.clone()).or_insert_with(|| Scan::new(&path));
            match scan.go_on(key) {
                Ok(records) => {
                    is_new |= !records.is_empty();
                    records.into_iter().for_each(|record| self.content.add(record));
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let _ = fs::remove_file(&path);
                }
                Err(_) => {}
            }
        }
        is_new
    }
}
