//! Reads a file's metadata on behalf of decoders, which do no I/O themselves.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::Decompressor;
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::file::recover::Recovery;
use branchline_format::file::{read_key_at, read_object, FileHeader, TKey};
use branchline_format::ntuple::envelope::Locator;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, RangeRead, Store};
use bytes::Bytes;

use crate::error::{ReadError, ReadErrorKind, Result, COPY_AGAIN};
use crate::limits;
use crate::memory::budget::Lease;
use crate::memory::buffers;

thread_local! {
    /// A decompressor per thread, which is reused because creating a codec context takes longer than decompressing a
    /// small object.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::default();
}

/// How much of a file is read when the file is opened.
pub(crate) enum FirstRead {
    /// The whole file, with the memory leased for it, if any.
    Whole(Option<Lease>),
    /// The head and the tail, which usually contain all metadata.
    Ends {
        /// Number of bytes to read from the end.
        tail: u64,
        /// Expected number of concurrent reads of the rest of the file.
        reads_expected: usize,
    },
    /// First the head and the tail, and soon after all of the rest.
    EndsFirst {
        /// Number of bytes to read from the end.
        tail: u64,
    },
}

/// The ranges of each metadata request for a file.
#[derive(Debug, Default)]
pub(crate) struct MetadataRequests(Mutex<Vec<Vec<ByteRange>>>);

impl MetadataRequests {
    fn add(&self, ranges: Vec<ByteRange>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ranges);
    }

    /// Total number of ranges in all requests.
    pub(crate) fn ranges_count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Vec::len).sum()
    }

    /// The ranges of all requests so far.
    pub(crate) fn so_far(&self) -> Vec<Vec<ByteRange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the bytes that metadata decoders are missing, and runs the decoders again.
pub(crate) struct MetadataReader<'a> {
    pub(crate) path: &'a str,
    pub(crate) store: &'a dyn Store,
    pub(crate) loaded: LoadedBytes,
    /// Records the ranges of each request.
    requests: &'a MetadataRequests,
    pieces_count: usize,
    /// The last piece that was read because a decoder was missing its bytes, with the offset of the piece.
    pub(crate) last_piece: Option<(u64, Bytes)>,
}

impl<'a> MetadataReader<'a> {
    pub(crate) fn new(
        path: &'a str,
        store: &'a dyn Store,
        loaded: LoadedBytes,
        requests: &'a MetadataRequests,
    ) -> Self {
        Self { path, store, loaded, requests, pieces_count: 0, last_piece: None }
    }

    /// Reads the ranges of `first_read` in one request. If `alone` is set, reads only the head, because each record is
    /// then read by a separate request.
    pub(crate) fn read_first(&mut self, size: u64, first_read: &FirstRead, alone: bool) -> Result<()> {
        let head = ByteRange::new(0, limits::HEAD_BYTES.min(size));
        self.read(match first_read {
            _ if alone => vec![head],
            FirstRead::Ends { tail, .. } | FirstRead::EndsFirst { tail } if size > head.length + tail => {
                vec![head, ByteRange::new(size - tail, *tail)]
            }
            _ => vec![ByteRange::new(0, size)],
        })
    }

    /// Reads the records of the trees and of the streamer infos in one request, unless they are loaded: both will be
    /// needed, and each request takes a round trip. Errors in a record are left to the record's decoder.
    pub(crate) fn read_trees_and_infos(&mut self, header: &FileHeader, keys: &[TKey]) -> Result<()> {
        let infos = ByteRange::new(header.seek_info, header.info_size);
        let trees = keys.iter().filter(|key| matches!(key.class_name.as_str(), "TTree" | "TNtuple" | "TNtupleD"));
        let mut wanted: Vec<ByteRange> = std::iter::once(infos)
            .chain(trees.map(|key| ByteRange::new(key.seek, key.size)))
            .filter(|range| range.length > 0 && range.end().is_some_and(|end| end <= self.loaded.file_size()))
            .filter(|range| self.loaded.share(range.offset, range.length).is_none())
            .collect();
        if wanted.first() != Some(&infos) || wanted.len() < 2 {
            return Ok(());
        }
        wanted.sort_unstable_by_key(|range| (range.offset, range.length));
        wanted.dedup();
        let is_apart = wanted.windows(2).all(|pair| pair[0].end() <= Some(pair[1].offset));
        let bytes = wanted.iter().map(|range| range.length).fold(0, u64::saturating_add);
        if is_apart && bytes <= limits::TAIL_BYTES {
            self.read(wanted)?;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, ranges: Vec<ByteRange>) -> Result<()> {
        let mut reads: Vec<RangeRead> =
            ranges.into_iter().filter(|range| range.length > 0).map(buffers::read_of).collect();
        self.store.read_ranges(&mut reads).map_err(|error| ReadError::from_storage(&error))?;
        self.requests.add(reads.iter().map(|read| read.range).collect());
        for read in reads {
            self.loaded.add(read.range.offset, buffers::share(read, None));
        }
        Ok(())
    }

    /// Fetches the ranges that are not yet loaded, in one request. If a range is outside the file, its decoder reports
    /// the error.
    pub(crate) fn fetch(&mut self, ranges: impl IntoIterator<Item = Locator>) -> Result<()> {
        let missing = self.missing(ranges)?;
        if missing.is_empty() {
            return Ok(());
        }
        self.read(missing)
    }

    /// Like `fetch`, but coalesces nearby ranges, and reads the gaps between them too.
    pub(crate) fn fetch_joined(&mut self, ranges: impl IntoIterator<Item = Locator>) -> Result<()> {
        let missing = self.missing(ranges)?;
        if missing.is_empty() {
            return Ok(());
        }
        self.read(coalesce(&missing, self.store.gap_bytes(), MAX_JOINED_BYTES).ranges)
    }

    /// Returns the ranges that are inside the file and not yet loaded.
    fn missing(&self, ranges: impl IntoIterator<Item = Locator>) -> Result<Vec<ByteRange>> {
        let size = self.loaded.file_size();
        let is_missing = |range: &Locator| {
            let is_inside = range.offset.checked_add(range.size).is_some_and(|end| end <= size);
            is_inside && self.loaded.share(range.offset, range.size).is_none()
        };
        let missing = ranges.into_iter().filter(is_missing).map(|range| ByteRange::new(range.offset, range.size));
        let mut missing: Vec<ByteRange> = missing.collect();
        missing.sort_by_key(|range| (range.offset, range.length));
        missing.dedup();
        if missing.iter().map(|range| range.length).fold(0, u64::saturating_add) > size {
            let first = missing.first().map_or(0, |range| range.offset);
            let message = format!("parts of its metadata overlap (first at offset {first})");
            return Err(ReadError::new(ReadErrorKind::BadFile, self.path, message).with_hint(COPY_AGAIN));
        }
        Ok(missing)
    }

    /// Runs a decoder until it succeeds, and reads the missing bytes before each further attempt.
    pub(crate) fn until_known<T>(
        &mut self,
        mut decoder: impl FnMut(&LoadedBytes) -> std::result::Result<T, DecodeError>,
    ) -> Result<T> {
        loop {
            match decoder(&self.loaded) {
                Ok(known) => return Ok(known),
                Err(DecodeError::Format(error)) => return Err(ReadError::from_format(self.path, &error)),
                Err(DecodeError::MissingBytes { offset, size }) => {
                    self.pieces_count += 1;
                    if self.pieces_count > limits::METADATA_PIECES_MAX {
                        let message = format!("its directories take too many reads (at offset {offset})");
                        return Err(ReadError::new(ReadErrorKind::BadFile, self.path, message).with_hint(COPY_AGAIN));
                    }
                    let rest = self.loaded.file_size().saturating_sub(offset);
                    let size = size.max(limits::METADATA_PIECE_BYTES).min(rest);
                    self.read(vec![ByteRange::new(offset, size)])?;
                    self.last_piece = self.loaded.share(offset, size).map(|piece| (offset, piece));
                }
            }
        }
    }

    /// Reads the object of a key and returns its decompressed bytes.
    pub(crate) fn object(&mut self, key: &TKey) -> Result<Vec<u8>> {
        self.until_known(|loaded| DECOMPRESSOR.with_borrow_mut(|decompressor| read_object(loaded, key, decompressor)))
    }

    /// Scans all records of a file that has no list of keys, and keeps only the keys of the records.
    pub(crate) fn recover(&mut self, header: &FileHeader) -> Result<Recovery> {
        let mut recovery = Recovery::new(header);
        let size = self.loaded.file_size();
        let mut window = self.loaded.clone();
        let piece_bytes =
            if self.store.is_near() { limits::RECOVERY_PIECE_BYTES } else { limits::FAR_RECOVERY_PIECE_BYTES };
        loop {
            match recovery.walk(&window) {
                Ok(()) => return Ok(recovery),
                Err(DecodeError::Format(error)) => return Err(ReadError::from_format(self.path, &error)),
                Err(DecodeError::MissingBytes { offset, .. }) => {
                    let length = piece_bytes.min(size.saturating_sub(offset));
                    let mut reads = [RangeRead::new(ByteRange::new(offset, length))];
                    self.store.read_ranges(&mut reads).map_err(|error| ReadError::from_storage(&error))?;
                    window = LoadedBytes::new(size);
                    for read in reads {
                        window.add(offset, buffers::share(read, None));
                    }
                }
            }
        }
    }

    pub(crate) fn class_infos(&mut self, offset: u64) -> Result<Arc<ClassInfos>> {
        if offset == 0 {
            return Ok(Arc::new(ClassInfos::default()));
        }
        let path = self.path;
        let key = self.until_known(|loaded| read_key_at(loaded, offset))?;
        let record = self.until_known(|loaded| loaded.get(key.seek, key.size).map(<[u8]>::to_vec))?;
        let stored = record.get(key.key_size as usize..).unwrap_or_default();
        if let Some(known) = KnownClassInfos::find(stored) {
            return Ok(known);
        }
        let plain = self.object(&key)?;
        let infos = ClassInfos::read(&plain, key.key_size)
            .map_err(|error| ReadError::from_format(path, &error.in_object("streamer infos")))?;
        Ok(KnownClassInfos::keep(stored, infos))
    }
}

/// Parsed streamer infos with the stored bytes from which they were parsed: all files of a dataset usually contain the
/// same streamer infos.
struct KnownClassInfos {
    stored: Vec<u8>,
    infos: Arc<ClassInfos>,
}

static KNOWN_CLASS_INFOS: Mutex<Vec<KnownClassInfos>> = Mutex::new(Vec::new());

impl KnownClassInfos {
    fn find(stored: &[u8]) -> Option<Arc<ClassInfos>> {
        let known = KNOWN_CLASS_INFOS.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|one| one.stored == stored).map(|one| Arc::clone(&one.infos))
    }

    fn keep(stored: &[u8], infos: ClassInfos) -> Arc<ClassInfos> {
        let infos = Arc::new(infos);
        if stored.len() > limits::CLASS_INFOS_KEPT_BYTES {
            return infos;
        }
        let mut known = KNOWN_CLASS_INFOS.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= limits::CLASS_INFOS_KEPT {
            known.remove(0);
        }
        known.push(Self { stored: stored.to_vec(), infos: Arc::clone(&infos) });
        infos
    }
}
