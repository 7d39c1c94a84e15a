//! An open file: its store, the bytes that are at hand, its keys, streamer infos and trees.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use branchline_format::compress::Decompressor;
use branchline_format::directory::{Directories, Entry};
use branchline_format::error::FormatError;
use branchline_format::file::{read_header, read_key_at, read_object, FileHeader, TKey};
use branchline_format::held::{Held, Need};
use branchline_format::ntuple::envelope::Locator;
use branchline_format::objects::Classes;
use branchline_format::recover::Recovery;
use branchline_format::streamer::ClassInfos;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{
    coalesce, link_to, note_wrong_bytes, Access, ByteRange, Choice, Counted, RangeRead, Remarks, Store,
};
use branchline_trace::{Counter, Counters, Stopwatch};

use crate::cache_learning::Learned;
use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::read::budget::Lease;
use crate::read::strategy::Strategy;
use crate::read::watch::{watched, Doing, Watched};
use crate::read_buffers;
use crate::reread::Anew;

/// A file whose header and keys were read.
pub struct File {
    path: String,
    store: Arc<dyn Store>,
    access: Access,
    strategy: Strategy,
    counters: Arc<Counters>,
    remarks: Remarks,
    held: Mutex<Held>,
    header: FileHeader,
    directories: Mutex<Directories>,
    class_infos: Arc<ClassInfos>,
    classes: Arc<Classes>,
    whole_classes: OnceLock<Arc<Classes>>,
    learned: Learned,
    /// Keys that were found again; 0 for a file that was closed.
    recovered_count: usize,
    /// If its bytes were in doubt.
    anew: Option<Arc<Anew>>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What is known of a file before its first byte.
struct About<'a> {
    remarks: Remarks,
    access: &'a Access,
    counters: &'a Arc<Counters>,
    watch: &'a Stopwatch,
}

impl File {
    /// Opens a file by path or URL.
    pub fn open(path: &str, access: &Access) -> Result<Arc<Self>> {
        let strategy = Strategy::of(access);
        Self::open_as(path, access, &mut |_, size| Ok(usual_extent(strategy, size))).map(|(file, _)| file)
    }

    /// Opens a file, of which `extent` says how much is read at once, asked with the name of the storage element and the
    /// size. What was leased for it comes with it.
    pub(crate) fn open_as(
        path: &str,
        access: &Access,
        extent: &mut ExtentOf<'_>,
    ) -> Result<(Arc<Self>, Option<Lease>)> {
        let counters = Arc::new(Counters::new());
        let watch = Stopwatch::start();
        let first_bytes = if Strategy::of(access).reads_records_alone() { 0 } else { limits::HEAD_BYTES };
        let opening = Access { first_bytes, ..access.clone() };
        let store = watched(Doing::Opening { path: path.to_owned() }, || branchline_storage::open(path, &opening));
        let store = store.map_err(|error| ReadError::from_storage(&error))?;
        let counted = Counted::new(store, Arc::clone(&counters));
        let about = About { remarks: counted.remarked(), access, counters: &counters, watch: &watch };
        let store: Arc<dyn Store> = Arc::new(Watched(Arc::new(counted)));
        match Self::over(Arc::clone(&store), &about, extent) {
            Err(error) if error.kind == ReadErrorKind::BadFile => {
                let anew = Anew::new(&store);
                let opened = Self::over(anew.clone(), &about, extent).map_err(|_| error)?;
                anew.settle();
                note_wrong_bytes(store.name());
                Ok(opened)
            }
            done => done,
        }
    }

    /// Opens a file that is to be copied, all of it or a part: where reads cost next to nothing its baskets are read when
    /// they are written, by the thread that writes them, in whose processor's cache they are then.
    pub(crate) fn open_to_copy(path: &str, access: &Access, is_all: bool) -> Result<Arc<Self>> {
        let strategy = Strategy::of(access);
        let mut extent = |store: &dyn Store, size: u64| {
            let is_near = store.is_near() && strategy.reads_when_writing();
            let tail = match usual_extent(strategy, size) {
                Extent::Whole(None) if size > limits::COPIED_WHOLE_BYTES && is_near => {
                    (size / limits::COPIED_TAIL_SHARE).clamp(limits::COPIED_WHOLE_BYTES / 2, limits::TAIL_BYTES)
                }
                Extent::Ends { tail, .. } => tail,
                usual => return Ok(usual),
            };
            Ok(if is_near && is_all { Extent::EndsFirst { tail } } else { Extent::Ends { tail, reads: 0 } })
        };
        Self::open_as(path, access, &mut extent).map(|(file, _)| file)
    }

    /// Whether a merge reads its baskets only when it writes them.
    pub(crate) fn is_read_when_writing(&self) -> bool {
        self.store.is_near() && self.strategy.reads_when_writing()
    }

    /// The same file with all its bytes read anew.
    pub(crate) fn anew(&self) -> Result<Arc<Self>> {
        let (anew, watch) = (Anew::new(&self.store), Stopwatch::start());
        let remarks = self.remarks.clone();
        let about = About { remarks, access: &self.access, counters: &self.counters, watch: &watch };
        let (mut file, _) = Self::over(anew.clone(), &about, &mut |_, size| Ok(usual_extent(self.strategy, size)))?;
        if let Some(file) = Arc::get_mut(&mut file) {
            file.anew = Some(anew);
        }
        Ok(file)
    }

    /// Whether nothing that was read before is used.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew.as_ref().is_some_and(|anew| !anew.is_settled())
    }

    /// Its bytes are right: what is read from now on is read as usual.
    pub(crate) fn settle(&self) {
        if let Some(anew) = &self.anew {
            anew.settle();
        }
    }

    /// The file in a store whose reads are counted.
    fn over(store: Arc<dyn Store>, about: &About<'_>, extent: &mut ExtentOf<'_>) -> Result<(Arc<Self>, Option<Lease>)> {
        let About { remarks, access, counters, watch } = about;
        // A URL may hold secrets; the store says what may be shown of it.
        let path = store.path().to_owned();
        let path = path.as_str();
        let fetch_before = counters.snapshot().get(Counter::FetchNs);
        let size = store.size_bytes().map_err(|error| ReadError::from_storage(&error))?;
        let mut reader = MetadataReader { path, store: &*store, held: Held::new(size), pieces_count: 0 };
        let strategy = Strategy::of(access);
        let extent = extent(&*store, size)?;
        match extent {
            Extent::Ends { reads, .. } => store.expect_reads(reads),
            Extent::EndsFirst { .. } => store.expect_all(),
            Extent::Whole(_) => {}
        }
        reader.read_first(size, &extent, strategy.reads_records_alone())?;
        let lease = match extent {
            Extent::Whole(lease) => lease,
            Extent::Ends { .. } | Extent::EndsFirst { .. } => None,
        };
        let header = reader.until_known(read_header)?;
        let mut directories = Directories::new(&header, size);
        let keys = reader.until_known(|held| directories.keys_in("", held))?;
        if !strategy.reads_records_alone() {
            reader.read_beside(&header, &keys)?;
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
        let (held, directories) = (Mutex::new(reader.held), Mutex::new(directories));
        add_open_time(counters, watch, fetch_before);
        let path = path.to_string();
        let (whole_classes, learned) = (OnceLock::new(), Learned::default());
        let file = Arc::new(Self {
            path,
            store,
            access: (*access).clone(),
            strategy,
            counters: Arc::clone(counters),
            remarks: remarks.clone(),
            held,
            header,
            directories,
            class_infos,
            classes,
            whole_classes,
            learned,
            recovered_count,
            anew: None,
        });
        Ok((file, lease))
    }

    /// The path or URL as it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The settings of its reading.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// How it is read.
    pub(crate) fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What its place says to tell it from other versions of it.
    pub(crate) fn identity(&self) -> Option<String> {
        self.store.identity()
    }

    /// The storage element that serves it.
    pub fn store_name(&self) -> &str {
        self.store.name()
    }

    /// The gap up to which two of its ranges are read as one.
    pub(crate) fn gap_bytes(&self) -> u64 {
        self.choice().gap_bytes
    }

    /// How much of it to ask for at a time.
    pub(crate) fn choice(&self) -> Choice {
        Choice::of(&self.access, link_to(self.store.name()), self.store.gap_bytes())
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.lock_held().file_size()
    }

    /// Its bytes that are in memory, if it was read whole.
    pub(crate) fn whole_bytes(&self) -> u64 {
        let size = self.size_bytes();
        self.held(0, size).map_or(0, |_| size)
    }

    /// What its storage had to remark.
    pub fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// How many of its keys had to be found again, as it was never closed; 0 for a file that was.
    pub fn recovered_count(&self) -> usize {
        self.recovered_count
    }

    /// What reading it has cost so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// All keys below a directory (the top one is `""`), those in subdirectories too, which are all read for it.
    pub fn entries_below(&self, path: &str) -> Result<Vec<Entry>> {
        let mut directories = self.lock_directories();
        let mut reader = self.metadata_reader();
        let named = |error: FormatError| ReadError::from_format(&self.path, &error);
        loop {
            let missing = directories.read_below(path, &reader.held).map_err(named)?;
            if missing.is_empty() {
                return directories.entries_below(path, &reader.held).map_err(named);
            }
            let ranges: Vec<ByteRange> = missing.iter().map(|(offset, size)| ByteRange::new(*offset, *size)).collect();
            for some in ranges.chunks(limits::METADATA_RANGES_MAX) {
                reader.read(coalesce(some, self.gap_bytes(), MAX_JOINED_BYTES).ranges)?;
            }
        }
    }

    /// The keys right in a directory (the top one is `""`).
    pub fn keys_in(&self, path: &str) -> Result<Vec<TKey>> {
        let mut directories = self.lock_directories();
        self.metadata_reader().until_known(|held| directories.keys_in(path, held))
    }

    /// The keys with this path, one for each cycle. Only the directories that lead there are read.
    pub fn find(&self, path: &str) -> Result<Vec<TKey>> {
        let mut directories = self.lock_directories();
        self.metadata_reader().until_known(|held| directories.find(path, held))
    }

    /// Its header.
    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The classes that it describes, as programs.
    pub(crate) fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// The classes that it describes.
    pub(crate) fn class_infos(&self) -> &Arc<ClassInfos> {
        &self.class_infos
    }

    /// Version of ROOT that wrote it, e.g. 62206.
    pub fn root_version(&self) -> i32 {
        self.header.version
    }

    /// Its compression setting, 100 * algorithm + level.
    pub(crate) fn compress(&self) -> i32 {
        self.header.compress
    }

    /// The classes that it describes, for objects that are wanted with all that is stored of them.
    pub(crate) fn whole_classes(&self) -> &Arc<Classes> {
        self.whole_classes.get_or_init(|| Arc::new(Classes::whole(Arc::clone(&self.class_infos))))
    }

    /// A class, and behind it all that it inherits from, as the file says.
    pub fn lineage(&self, class_name: &str) -> Vec<String> {
        self.class_infos.lineage(class_name).into_iter().map(str::to_string).collect()
    }

    /// A decoder's way to the bytes of its metadata.
    pub(crate) fn metadata_reader(&self) -> MetadataReader<'_> {
        MetadataReader { path: &self.path, store: &*self.store, held: self.lock_held().clone(), pieces_count: 0 }
    }

    /// A range that is at hand already, as all of a small file is.
    pub(crate) fn held(&self, offset: u64, size: u64) -> Option<Bytes> {
        if self.strategy.reads_records_alone() {
            return None;
        }
        self.lock_held().share(offset, size)
    }

    /// Reads ranges from the store.
    pub(crate) fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<()> {
        self.store.read_ranges(reads).map(|_| ()).map_err(|error| ReadError::from_storage(&error))
    }

    fn lock_directories(&self) -> std::sync::MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its access `cache` keeps of the first entries.
    pub(crate) fn learned(&self) -> &Learned {
        &self.learned
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of a file is read when it is opened.
pub(crate) enum Extent {
    /// All of it, into memory that may be leased for it.
    Whole(Option<Lease>),
    /// Where its metadata are in general: its head, and so much of its end.
    Ends {
        /// Bytes at its end.
        tail: u64,
        /// Reads of the rest that will come at a time.
        reads: usize,
    },
    /// The same, and soon after all the rest of it.
    EndsFirst {
        /// Bytes at its end.
        tail: u64,
    },
}

/// Decides how much of a file is read at first, from its store and its size.
pub(crate) type ExtentOf<'a> = dyn FnMut(&dyn Store, u64) -> Result<Extent> + 'a;

/// What is read of a file that is opened by itself.
fn usual_extent(strategy: Strategy, size: u64) -> Extent {
    if strategy.reads_whole(size) {
        Extent::Whole(None)
    } else {
        Extent::Ends { tail: limits::TAIL_BYTES, reads: 0 }
    }
}

/// The first of many names, and how many there are more.
pub(crate) fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(limits::NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(limits::NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Time of opening without the time in the store, which is counted there.
pub(crate) fn add_open_time(counters: &Counters, watch: &Stopwatch, fetch_before: u64) {
    let fetched = counters.snapshot().get(Counter::FetchNs) - fetch_before;
    counters.add(Counter::OpenNs, watch.elapsed_ns().saturating_sub(fetched));
}

/// Answers decoders of metadata with the bytes that they miss.
pub(crate) struct MetadataReader<'a> {
    pub(crate) path: &'a str,
    store: &'a dyn Store,
    held: Held,
    pieces_count: usize,
}

impl MetadataReader<'_> {
    /// The whole of a small file, head and tail of a large one, in one request; or the head `alone`.
    fn read_first(&mut self, size: u64, extent: &Extent, alone: bool) -> Result<()> {
        let head = ByteRange::new(0, limits::HEAD_BYTES.min(size));
        self.read(match extent {
            _ if alone => vec![head],
            Extent::Ends { tail, .. } | Extent::EndsFirst { tail } if size > head.length + tail => {
                vec![head, ByteRange::new(size - tail, *tail)]
            }
            _ => vec![ByteRange::new(0, size)],
        })
    }

    /// The trees' records with the streamer infos in one request, where these are not held: both will be wanted, and each
    /// request takes a round trip. What is wrong with them is told by who decodes them.
    fn read_beside(&mut self, header: &FileHeader, keys: &[TKey]) -> Result<()> {
        let infos = ByteRange::new(header.seek_info, header.info_size);
        let trees = keys.iter().filter(|key| matches!(key.class_name.as_str(), "TTree" | "TNtuple" | "TNtupleD"));
        let mut wanted: Vec<ByteRange> = std::iter::once(infos)
            .chain(trees.map(|key| ByteRange::new(key.seek, key.size)))
            .filter(|range| range.length > 0 && range.end().is_some_and(|end| end <= self.held.file_size()))
            .filter(|range| self.held.share(range.offset, range.length).is_none())
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

    fn read(&mut self, ranges: Vec<ByteRange>) -> Result<()> {
        let mut reads: Vec<RangeRead> =
            ranges.into_iter().filter(|range| range.length > 0).map(read_buffers::read_of).collect();
        self.store.read_ranges(&mut reads).map_err(|error| ReadError::from_storage(&error))?;
        for read in reads {
            self.held.add(read.range.offset, read_buffers::share(read, None));
        }
        Ok(())
    }

    /// Fetches those of these ranges that are not held yet, in one request; what lies outside the file is left to the
    /// decoder to complain about.
    pub(crate) fn fetch(&mut self, ranges: impl IntoIterator<Item = Locator>) -> Result<()> {
        let size = self.held.file_size();
        let is_missing = |range: &Locator| {
            let is_inside = range.offset.checked_add(range.size).is_some_and(|end| end <= size);
            is_inside && self.held.share(range.offset, range.size).is_none()
        };
        let missing = ranges.into_iter().filter(is_missing).map(|range| ByteRange::new(range.offset, range.size));
        let mut missing: Vec<ByteRange> = missing.collect();
        missing.sort_by_key(|range| (range.offset, range.length));
        missing.dedup();
        if missing.iter().map(|range| range.length).fold(0, u64::saturating_add) > size {
            let first = missing.first().map_or(0, |range| range.offset);
            let message = format!("parts of its metadata lie in each other (from offset {first} on)");
            return Err(ReadError::new(ReadErrorKind::BadFile, self.path, message));
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.read(missing)
    }

    /// Asks a decoder again and again until it needs no more bytes.
    pub(crate) fn until_known<T>(
        &mut self,
        mut decoder: impl FnMut(&Held) -> std::result::Result<T, Need>,
    ) -> Result<T> {
        loop {
            match decoder(&self.held) {
                Ok(known) => return Ok(known),
                Err(Need::Nothing(error)) => return Err(ReadError::from_format(self.path, &error)),
                Err(Need::Bytes { offset, size }) => {
                    self.pieces_count += 1;
                    if self.pieces_count > limits::METADATA_PIECES_MAX {
                        let message = format!("its directories do not end (offset {offset})");
                        return Err(ReadError::new(ReadErrorKind::BadFile, self.path, message));
                    }
                    let rest = self.held.file_size().saturating_sub(offset);
                    let size = size.max(limits::METADATA_PIECE_BYTES).min(rest);
                    self.read(vec![ByteRange::new(offset, size)])?;
                }
            }
        }
    }

    /// Walks through all records of a file without keys. Of what is read nothing is kept but the keys.
    fn recover(&mut self, header: &FileHeader) -> Result<Recovery> {
        let mut recovery = Recovery::new(header);
        let size = self.held.file_size();
        let mut window = self.held.clone();
        loop {
            match recovery.walk(&window) {
                Ok(()) => return Ok(recovery),
                Err(Need::Nothing(error)) => return Err(ReadError::from_format(self.path, &error)),
                Err(Need::Bytes { offset, .. }) => {
                    let length = limits::RECOVERY_PIECE_BYTES.min(size.saturating_sub(offset));
                    let mut reads = [RangeRead::new(ByteRange::new(offset, length))];
                    self.store.read_ranges(&mut reads).map_err(|error| ReadError::from_storage(&error))?;
                    window = Held::new(size);
                    for read in reads {
                        window.add(offset, read_buffers::share(read, None));
                    }
                }
            }
        }
    }

    fn class_infos(&mut self, offset: u64) -> Result<Arc<ClassInfos>> {
        if offset == 0 {
            return Ok(Arc::new(ClassInfos::default()));
        }
        let path = self.path;
        let key = self.until_known(|held| read_key_at(held, offset))?;
        let record = self.until_known(|held| held.get(key.seek, key.size).map(<[u8]>::to_vec))?;
        let stored = record.get(key.key_size as usize..).unwrap_or_default();
        if let Some(known) = KnownClassInfos::find(stored) {
            return Ok(known);
        }
        let mut decompressor = Decompressor::new();
        let plain = self.until_known(|held| read_object(held, &key, &mut decompressor))?;
        let infos = ClassInfos::read(&plain, key.key_size)
            .map_err(|error| ReadError::from_format(path, &error.in_object("streamer infos")))?;
        Ok(KnownClassInfos::keep(stored, infos))
    }
}

/// Streamer infos by the stored bytes that they were read from: the files of a data set carry the same ones.
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
        let mut known = KNOWN_CLASS_INFOS.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= limits::CLASS_INFOS_KEPT {
            known.remove(0);
        }
        known.push(Self { stored: stored.to_vec(), infos: Arc::clone(&infos) });
        infos
    }
}
