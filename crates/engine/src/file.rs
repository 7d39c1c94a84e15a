//! An open file, with its store, the bytes in memory, its keys and its streamer infos.
//!
//! ```
//! use branchline_engine::error::ReadErrorKind;
//! use branchline_engine::file::File;
//! use branchline_storage::Access;
//!
//! let missing = File::open("/no/such.root", &Access::default()).err();
//! assert_eq!(missing.map(|error| error.kind), Some(ReadErrorKind::Missing));
//! ```

pub(crate) mod cache_learning;
pub(crate) mod external;
pub(crate) mod key_path;
pub(crate) mod metadata_reader;
pub(crate) mod reread;
pub(crate) mod rntuple_metadata;
pub(crate) mod strategy;
pub(crate) mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::error::FormatError;
use branchline_format::file::directory::{Directories, Entry};
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::file::{read_header, FileHeader, TKey};
use branchline_format::objects::{Classes, Program};
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{
    coalesce, link_to, note_wrong_bytes, Access, ByteRange, Choice, Counted, RangeRead, Remarks, Store,
};
use branchline_trace::{Counter, Counters, Stopwatch};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::memory::budget::Lease;
use cache_learning::Learned;
use metadata_reader::{FirstRead, MetadataReader, MetadataRequests};
use reread::Reread;
use strategy::Strategy;
use watch::{watched, Doing, Watched};

/// A file whose header and keys have been read.
pub struct File {
    path: String,
    store: Arc<dyn Store>,
    /// The store without counters; None if the file was reread because its bytes were wrong.
    uncounted: Option<Arc<dyn Store>>,
    access: Access,
    strategy: Strategy,
    counters: Arc<Counters>,
    remarks: Remarks,
    loaded: Mutex<LoadedBytes>,
    metadata_requests: MetadataRequests,
    header: FileHeader,
    directories: Mutex<Directories>,
    class_infos: Arc<ClassInfos>,
    classes: Arc<Classes>,
    whole_classes: OnceLock<Arc<Classes>>,
    /// Decoding programs for single objects, by class name.
    programs: Mutex<HashMap<String, Program>>,
    /// The piece of the file around the last object that was read, with the offset of the piece: the next object is
    /// likely to be in the same piece.
    last_piece: Mutex<Option<(u64, Bytes)>>,
    learned: Arc<Learned>,
    /// Number of recovered keys; 0 for a file that was closed properly.
    recovered_count: usize,
    /// Set if the bytes were wrong on the first read and the file was reread.
    reread: Option<Arc<Reread>>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An opened file, and the memory leased for the file if it was read whole.
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<File>,
    pub(crate) lease: Option<Lease>,
}

/// The parameters for opening a file, apart from its store.
struct OpenContext<'a> {
    remarks: Remarks,
    uncounted: Option<Arc<dyn Store>>,
    access: &'a Access,
    counters: &'a Arc<Counters>,
    watch: &'a Stopwatch,
}

impl File {
    /// Opens a file by path or URL.
    pub fn open(path: &str, access: &Access) -> Result<Arc<Self>> {
        let strategy = Strategy::of(access);
        let mut choose = |store: &dyn Store, size| Ok(usual_first_read(strategy, store.is_near(), size));
        Self::open_as(path, access, &mut choose).map(|opened| opened.file)
    }

    /// Opens a file. `choose` decides how much of the file is read first.
    pub(crate) fn open_as(path: &str, access: &Access, choose: &mut ChooseFirstRead<'_>) -> Result<OpenedFile> {
        limits::decoder_stuck_after().map_err(|error| ReadError::from_storage(&error))?;
        let counters = Arc::new(Counters::new());
        let watch = Stopwatch::start();
        let first_bytes = if Strategy::of(access).reads_records_alone() { 0 } else { limits::HEAD_BYTES };
        let opening = Access { first_bytes, ..access.clone() };
        let store = watched(Doing::Opening { path: path.to_owned(), waits: access.waits }, || {
            branchline_storage::open(path, &opening)
        });
        let store = store.map_err(|error| ReadError::from_storage(&error))?;
        let counted = Counted::new(Arc::clone(&store), Arc::clone(&counters));
        let context = OpenContext {
            remarks: counted.remarked(),
            uncounted: Some(store),
            access,
            counters: &counters,
            watch: &watch,
        };
        let store: Arc<dyn Store> = Arc::new(Watched { store: Arc::new(counted), waits: access.waits });
        match Self::over(Arc::clone(&store), &context, choose) {
            Err(error) if error.kind == ReadErrorKind::BadFile => {
                let reread = Reread::new(&store);
                let opened = Self::over(reread.clone(), &context, choose).map_err(|_| error)?;
                reread.trust();
                note_wrong_bytes(store.name());
                Ok(opened)
            }
            done => done,
        }
    }

    /// Opens a file to copy all or part of it. The baskets of a local file are read by the thread that writes them, so
    /// that they are in the cache of the thread's CPU core.
    pub(crate) fn open_to_copy(path: &str, access: &Access, is_all: bool) -> Result<Arc<Self>> {
        let strategy = Strategy::of(access);
        let mut choose = |store: &dyn Store, size: u64| {
            let is_read_when_writing = store.is_near() && strategy.reads_when_writing();
            Ok(match usual_first_read(strategy, is_read_when_writing, size) {
                FirstRead::Ends { tail, .. } if is_read_when_writing && is_all => FirstRead::EndsFirst { tail },
                usual => usual,
            })
        };
        Self::open_as(path, access, &mut choose).map(|opened| opened.file)
    }

    /// Whether a merge reads the baskets only when it writes them.
    pub(crate) fn is_read_when_writing(&self) -> bool {
        self.store.is_near() && self.strategy.reads_when_writing()
    }

    /// Opens the same file again, and rereads all bytes.
    pub(crate) fn reread(&self) -> Result<Arc<Self>> {
        let (reread, watch) = (Reread::new(&self.store), Stopwatch::start());
        let remarks = self.remarks.clone();
        let context =
            OpenContext { remarks, uncounted: None, access: &self.access, counters: &self.counters, watch: &watch };
        let mut choose = |store: &dyn Store, size: u64| Ok(usual_first_read(self.strategy, store.is_near(), size));
        let OpenedFile { mut file, .. } = Self::over(reread.clone(), &context, &mut choose)?;
        if let Some(file) = Arc::get_mut(&mut file) {
            file.reread = Some(reread);
        }
        Ok(file)
    }

    /// Returns a handle on the same file with separate counters, without reading anything again. Returns None if keys
    /// had to be recovered, or if the file was reread because its bytes were wrong.
    pub(crate) fn again(&self) -> Option<Arc<Self>> {
        let uncounted = self.uncounted.as_ref().filter(|_| self.recovered_count == 0 && self.reread.is_none())?;
        let (counters, loaded) = (Arc::new(Counters::new()), self.lock_loaded().clone());
        let counted = Counted::new(Arc::clone(uncounted), Arc::clone(&counters));
        Some(Arc::new(Self {
            path: self.path.clone(),
            remarks: counted.remarked(),
            store: Arc::new(Watched { store: Arc::new(counted), waits: self.access.waits }),
            uncounted: Some(Arc::clone(uncounted)),
            access: self.access.clone(),
            strategy: self.strategy,
            counters,
            // Directories are looked up in the loaded bytes.
            directories: Mutex::new(Directories::new(&self.header, loaded.file_size())),
            loaded: Mutex::new(loaded),
            metadata_requests: MetadataRequests::default(),
            header: self.header.clone(),
            class_infos: Arc::clone(&self.class_infos),
            classes: Arc::clone(&self.classes),
            whole_classes: OnceLock::new(),
            programs: Mutex::default(),
            last_piece: Mutex::default(),
            learned: Arc::clone(&self.learned),
            recovered_count: 0,
            reread: None,
        }))
    }

    /// Whether all bytes are reread, bypassing all caches.
    pub(crate) fn is_reread(&self) -> bool {
        self.reread.as_ref().is_some_and(|reread| !reread.is_trusted())
    }

    /// Marks the metadata as correct: from now on the file is read as usual.
    pub(crate) fn trust(&self) {
        if let Some(reread) = &self.reread {
            reread.trust();
        }
    }

    /// Opens the file in a store that counts its reads.
    fn over(store: Arc<dyn Store>, context: &OpenContext<'_>, choose: &mut ChooseFirstRead<'_>) -> Result<OpenedFile> {
        let OpenContext { remarks, uncounted, access, counters, watch } = context;
        // The user's URL may contain secrets; the store's path has none.
        let path = store.path().to_owned();
        let path = path.as_str();
        let fetch_before = counters.snapshot().get(Counter::FetchNs);
        let size = store.size_bytes().map_err(|error| ReadError::from_storage(&error))?;
        let metadata_requests = MetadataRequests::default();
        let mut reader = MetadataReader::new(path, &*store, LoadedBytes::new(size), &metadata_requests);
        let strategy = Strategy::of(access);
        let first_read = choose(&*store, size)?;
        match first_read {
            FirstRead::Ends { reads_expected, .. } => store.expect_reads(reads_expected),
            FirstRead::EndsFirst { .. } => store.expect_all(),
            FirstRead::Whole(_) => {}
        }
        reader.read_first(size, &first_read, strategy.reads_records_alone())?;
        let lease = match first_read {
            FirstRead::Whole(lease) => lease,
            FirstRead::Ends { .. } | FirstRead::EndsFirst { .. } => None,
        };
        let header = reader.until_known(read_header)?;
        let mut directories = Directories::new(&header, size);
        let keys = reader.until_known(|loaded| directories.keys_in("", loaded))?;
        if !strategy.reads_records_alone() {
            reader.read_trees_and_infos(&header, &keys)?;
        }
        let mut recovered_count = 0;
        let mut infos_at = if header.info_size == 0 { 0 } else { header.seek_info };
        if keys.is_empty() {
            let recovery = reader.recover(&header)?;
            if !recovery.keys.is_empty() {
                recovered_count = recovery.keys.len();
                infos_at = recovery.streamer_infos.map_or(infos_at, |key| key.seek);
                directories = Directories::recovered(recovery.keys, size);
            }
        }
        let class_infos = reader.class_infos(infos_at)?;
        let classes = Arc::new(Classes::new(Arc::clone(&class_infos)));
        let (loaded, directories) = (Mutex::new(reader.loaded), Mutex::new(directories));
        add_open_time(counters, watch, fetch_before);
        let path = path.to_string();
        let (whole_classes, learned) = (OnceLock::new(), Arc::new(Learned::default()));
        let file = Arc::new(Self {
            path,
            store,
            uncounted: uncounted.clone(),
            access: (*access).clone(),
            strategy,
            counters: Arc::clone(counters),
            remarks: remarks.clone(),
            loaded,
            metadata_requests,
            header,
            directories,
            class_infos,
            classes,
            whole_classes,
            programs: Mutex::default(),
            last_piece: Mutex::default(),
            learned,
            recovered_count,
            reread: None,
        });
        Ok(OpenedFile { file, lease })
    }

    /// The path or URL, without secrets.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The settings for reading the file.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The strategy for reading the file.
    pub(crate) fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The identity from the storage, which distinguishes versions of the file.
    pub(crate) fn identity(&self) -> Option<String> {
        self.store.identity()
    }

    /// The storage element that serves the file.
    pub fn store_name(&self) -> &str {
        self.store.name()
    }

    /// Maximum gap across which two ranges are coalesced.
    pub(crate) fn gap_bytes(&self) -> u64 {
        self.choice().gap_bytes
    }

    /// The maximum numbers of requests and bytes of the file in flight.
    pub(crate) fn choice(&self) -> Choice {
        let link = link_to(self.store.name(), self.access.throttle.as_deref());
        Choice::of(&self.access, link, self.store.gap_bytes())
    }

    /// The size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.lock_loaded().file_size()
    }

    /// The ranges of all past metadata requests, including requests for trees.
    pub fn metadata_requests(&self) -> Vec<Vec<ByteRange>> {
        self.metadata_requests.so_far()
    }

    /// The range of the streamer info record, if there is one.
    pub fn infos_range(&self) -> Option<ByteRange> {
        let FileHeader { seek_info, info_size, .. } = self.header;
        (info_size > 0).then(|| ByteRange::new(seek_info, info_size))
    }

    /// Maximum gap across which the store itself coalesces ranges.
    pub fn store_gap_bytes(&self) -> u64 {
        self.store.gap_bytes()
    }

    /// Whether a read costs little more than copying its bytes, as it does on a local disk.
    pub fn is_near(&self) -> bool {
        self.store.is_near()
    }

    /// The size of the file if the whole file is in memory, else 0.
    pub(crate) fn whole_bytes(&self) -> u64 {
        let size = self.size_bytes();
        self.loaded(0, size).map_or(0, |_| size)
    }

    /// Notes from the storage to the user.
    pub fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Number of keys recovered because the file was never closed; 0 for a file that was closed properly.
    pub fn recovered_count(&self) -> usize {
        self.recovered_count
    }

    /// Counters of the reads.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns all keys in a directory and its subdirectories, all of which are read. The path of the top directory is
    /// `""`.
    pub fn entries_below(&self, path: &str) -> Result<Vec<Entry>> {
        let mut directories = self.lock_directories();
        let mut reader = self.metadata_reader();
        let named = |error: FormatError| ReadError::from_format(&self.path, &error);
        loop {
            let missing = directories.read_below(path, &reader.loaded).map_err(named)?;
            if missing.is_empty() {
                return directories.entries_below(path, &reader.loaded).map_err(named);
            }
            let ranges: Vec<ByteRange> = missing.iter().map(|range| ByteRange::new(range.offset, range.size)).collect();
            for some in ranges.chunks(limits::METADATA_RANGES_MAX) {
                reader.read(coalesce(some, self.gap_bytes(), MAX_JOINED_BYTES).ranges)?;
            }
        }
    }

    /// Returns the keys directly in a directory. The path of the top directory is `""`.
    pub fn keys_in(&self, path: &str) -> Result<Vec<TKey>> {
        let mut directories = self.lock_directories();
        self.metadata_reader().until_known(|loaded| directories.keys_in(path, loaded))
    }

    /// Returns the keys with this path, one for each cycle, newest first. Reads only the directories along the path.
    pub fn find(&self, path: &str) -> Result<Vec<TKey>> {
        let mut directories = self.lock_directories();
        self.metadata_reader().until_known(|loaded| directories.find(path, loaded))
    }

    /// The file header.
    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The compiled programs for the classes in the streamer infos.
    pub(crate) fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// The classes in the streamer infos.
    pub(crate) fn class_infos(&self) -> &Arc<ClassInfos> {
        &self.class_infos
    }

    /// The UUID that ROOT gave the file; all zeros if the file has none.
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// The version of ROOT that wrote the file, e.g. 62206 for 6.22/06.
    pub fn root_version(&self) -> i32 {
        self.header.version
    }

    /// The compression setting of the file, 100 * algorithm + level.
    pub fn compress(&self) -> i32 {
        self.header.compress
    }

    /// The classes of the file, for objects that are read with all their stored members.
    pub(crate) fn whole_classes(&self) -> &Arc<Classes> {
        self.whole_classes.get_or_init(|| Arc::new(Classes::whole(Arc::clone(&self.class_infos))))
    }

    /// Returns a class followed by all its base classes, as described in the file.
    pub fn lineage(&self, class_name: &str) -> Vec<String> {
        self.class_infos.lineage(class_name).into_iter().map(str::to_string).collect()
    }

    /// Returns a reader of metadata, for the decoders.
    pub(crate) fn metadata_reader(&self) -> MetadataReader<'_> {
        self.load_rest();
        MetadataReader::new(&self.path, &*self.store, self.lock_loaded().clone(), &self.metadata_requests)
    }

    /// Reads the rest of a small local file at once after many of its metadata ranges have been read. Such a file has
    /// many trees or directories, and the pieces read around their records would keep overlapping.
    fn load_rest(&self) {
        let size = self.size_bytes();
        let has_ends = self.store.is_near() && self.strategy.reads_ends_of_near(size) && self.whole_bytes() == 0;
        if !has_ends || self.metadata_requests.ranges_count() < limits::NEAR_METADATA_RANGES {
            return;
        }
        let loaded = self.lock_loaded().clone();
        let mut reader = MetadataReader::new(&self.path, &*self.store, loaded, &self.metadata_requests);
        // If this read fails, metadata are read piece by piece as before, and any error is reported for the piece that
        // is needed.
        if reader.read(vec![ByteRange::new(0, size)]).is_ok() {
            *self.lock_loaded() = reader.loaded;
        }
    }

    /// Returns the bytes of a range if they are in memory, as they always are for a small file.
    pub(crate) fn loaded(&self, offset: u64, size: u64) -> Option<Bytes> {
        if self.strategy.reads_records_alone() {
            return None;
        }
        self.lock_loaded().share(offset, size)
    }

    /// Reads ranges from the store.
    pub(crate) fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<()> {
        self.store.read_ranges(reads).map(|_| ()).map_err(|error| ReadError::from_storage(&error))
    }

    /// The piece of the file around the last object that was read, with the offset of the piece.
    pub(crate) fn lock_last_piece(&self) -> std::sync::MutexGuard<'_, Option<(u64, Bytes)>> {
        self.last_piece.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decoding programs for single objects, by class name.
    pub(crate) fn lock_programs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Program>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_directories(&self) -> std::sync::MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The learning cache, which holds the baskets of the first entries.
    pub(crate) fn learned(&self) -> &Learned {
        &self.learned
    }

    fn lock_loaded(&self) -> std::sync::MutexGuard<'_, LoadedBytes> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides, from the store and the file size, how much of a file is read first.
pub(crate) type ChooseFirstRead<'a> = dyn FnMut(&dyn Store, u64) -> Result<FirstRead> + 'a;

/// Returns the default first read of a file that is opened outside a stream.
fn usual_first_read(strategy: Strategy, is_near: bool, size: u64) -> FirstRead {
    strategy
        .tail_bytes(size, is_near)
        .map_or(FirstRead::Whole(None), |tail| FirstRead::Ends { tail, reads_expected: 0 })
}

/// Joins the first names, and states the number of remaining names.
pub(crate) fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(limits::NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(limits::NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Adds the time for opening a file to the counters, without the time spent in the store, which is counted separately.
pub(crate) fn add_open_time(counters: &Counters, watch: &Stopwatch, fetch_before: u64) {
    let fetched = counters.snapshot().get(Counter::FetchNs) - fetch_before;
    counters.add(Counter::OpenNs, watch.elapsed_ns().saturating_sub(fetched));
}
