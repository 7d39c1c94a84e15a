//! Predicts the requests for reading a file from the layout of its baskets and the read settings. The prediction is a
//! pure function, so that it also works for hypothetical layouts. It uses the fetcher's functions for coalescing,
//! splitting and grouping. Where timing matters, the ideal case is assumed: memory for prefetching is free, and the
//! baskets of a chunk are looked up before the previous chunks are dropped.
//!
//! ```
//! use branchline_engine::read::plan::planning::{plan_reads, PlanSettings, PlannedFile, PlannedOpening, Purpose};
//! use branchline_storage::Access;
//!
//! let settings = PlanSettings {
//!     access: Access::default(),
//!     link: None,
//!     step_bytes: 1 << 20,
//!     step_entries: None,
//!     has_even_steps: false,
//!     memory_limit_bytes: 1 << 30,
//!     threads: 1,
//!     is_named: true,
//!     seen: None,
//!     entries: None,
//!     opening: PlannedOpening::Apart,
//! };
//! let empty = PlannedFile { size_bytes: 1000, ..PlannedFile::default() };
//! let plan = plan_reads(&empty, &settings).unwrap();
//! assert!(plan.calls.iter().all(|call| call.purpose == Purpose::Opening), "there are no baskets");
//! ```

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use branchline_storage::limits::{MAX_JOINED_BYTES, STAGE_RANGE_BYTES};
use branchline_storage::{coalesce, Access, AccessMode, ByteRange, Choice, Link};

use crate::fetch::prefetch::batched;
use crate::fetch::ranges::portions;
use crate::file::strategy::{Strategy, WholeFiles};
use crate::limits::{self, HEAD_BYTES, METADATA_PIECE_BYTES, TAIL_BYTES};
use crate::memory::buffers::buffer_bytes;
use crate::read::plan::cutting::{even_step, step_of, Cutting};
use crate::read::plan::memory_plan::{MemoryPlan, Shares};
use crate::read::plan::needed::grouped;
use crate::read::plan::tail_size::{FilePlace, TailSizes};
use crate::tree::content::BasketBytes;
use crate::tree::extents::Extent;

/// The actual or hypothetical layout of a file in its storage.
#[derive(Debug, Clone, Default)]
pub struct PlannedFile {
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Whether the file is on a server, rather than on a local disk or a mounted file system.
    pub is_at_a_server: bool,
    /// Whether the file is on a local disk, rather than on a mounted file system.
    pub is_near: bool,
    /// Maximum gap across which the file's store coalesces ranges.
    pub store_gap_bytes: u64,
    /// The records that are needed to open the tree, apart from the head of the file: one list for each request that is
    /// made if every record is read separately.
    pub metadata: Vec<Vec<ByteRange>>,
    /// The range of the streamer info record.
    pub infos: Option<ByteRange>,
    /// Whether the tree is an RNTuple. In an RNTuple, the location of each metadata record is only known from the
    /// previous record.
    pub is_ntuple: bool,
    /// Number of entries in the tree.
    pub entries_count: u64,
    /// For each wanted branch, the extents of its baskets in entry order. A TTree basket has one extent; a cluster of
    /// an RNTuple field has one extent per page.
    pub branches: Vec<Vec<Extent>>,
    /// The ranges of the baskets of all other branches that begin within the first entries, see
    /// `limits::LEARN_ENTRIES`.
    pub unwanted_first: Vec<ByteRange>,
    /// Stored bytes per entry of the wanted branches.
    pub stored_per_entry: f64,
    /// Bytes per entry of the wanted branches after decompression.
    pub plain_per_entry: f64,
    /// Bytes per entry of the wanted branches' values in memory.
    pub values_per_entry: f64,
    /// Memory for decompressing the largest basket, in bytes.
    pub scratch_bytes: u64,
}

/// How the tree of a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlannedOpening {
    /// The stream opens the tree and decides how much is read first.
    #[default]
    InStream,
    /// The tree is opened separately, before a stream reads it.
    Apart,
    /// The tree is already open: opening makes no calls, and the metadata are loaded.
    Before,
}

/// The settings for reading a file.
#[derive(Debug, Clone)]
pub struct PlanSettings {
    /// The access settings.
    pub access: Access,
    /// The link to the file's storage, if it has been measured.
    pub link: Option<Link>,
    /// Size of a chunk in bytes after decompression. Ignored if `step_entries` is set.
    pub step_bytes: u64,
    /// Size of a chunk in entries.
    pub step_entries: Option<u64>,
    /// Whether the entries are split into chunks of equal length.
    pub has_even_steps: bool,
    /// Maximum memory for reading, in bytes.
    pub memory_limit_bytes: u64,
    /// Number of decoding threads.
    pub threads: usize,
    /// Whether branches are selected by name, instead of reading all branches.
    pub is_named: bool,
    /// Observations from the previous file: the size of the metadata at its end, and the fraction of its bytes that was
    /// wanted.
    pub seen: Option<(u64, f64)>,
    /// The entry range to read; None to read all entries.
    pub entries: Option<Range<u64>>,
    /// How the tree is opened.
    pub opening: PlannedOpening,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Opening the file.
    Opening,
    /// Reading baskets when a chunk needs them.
    Baskets,
    /// Reading baskets before a chunk needs them.
    Prefetch,
    /// Copying the file to a local disk.
    Staging,
}

/// Ranges that are requested together and take one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCall {
    /// The purpose of the call.
    pub purpose: Purpose,
    /// The requested ranges, after coalescing.
    pub ranges: Vec<ByteRange>,
    /// Index of the chunk that needs the ranges; 0 for reads before the first chunk.
    pub chunk: u64,
}

/// The predicted calls for reading a file, in order.
#[derive(Debug, Clone, Default)]
pub struct PlannedReads {
    /// The calls.
    pub calls: Vec<PlannedCall>,
    /// Number of chunks.
    pub chunks_count: u64,
    /// Maximum number of calls in flight; 1 if nothing is prefetched.
    pub calls_in_flight: usize,
    /// Maximum number of bytes in flight.
    pub bytes_in_flight: u64,
    /// Whether the file is read whole when it is opened.
    pub is_whole: bool,
    /// Whether the next files are opened in advance.
    pub opens_ahead: bool,
    /// The observations to pass to the plan for the next file, see `PlanSettings::seen`.
    pub seen: Option<(u64, f64)>,
}

/// Returns the calls for reading the wanted branches of a file. Returns None if the memory limit is too small.
pub fn plan_reads(file: &PlannedFile, settings: &PlanSettings) -> Option<PlannedReads> {
    let mut planning = Planning::new(file, settings);
    let is_staged = settings.access.mode == AccessMode::Stage;
    if is_staged {
        planning.stage();
    } else {
        planning.open();
    }
    if settings.opening == PlannedOpening::Before {
        planning.calls.clear();
    }
    if !is_staged {
        planning.chunks()?;
    }
    Some(planning.done())
}

struct Planning<'a> {
    file: &'a PlannedFile,
    settings: &'a PlanSettings,
    strategy: Strategy,
    choice: Choice,
    shares: Shares,
    loaded: Vec<ByteRange>,
    calls: Vec<PlannedCall>,
    chunks_count: u64,
    is_whole: bool,
    /// The offsets of the baskets in a learning cache; None before the first entries are read.
    learned: Option<HashSet<u64>>,
    /// The prefetched ranges of each chunk.
    pending: VecDeque<Vec<ByteRange>>,
    prefetches: bool,
}

/// A basket, or the pages of a cluster, that a chunk needs.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    column: usize,
    range: ByteRange,
    entry_start: u64,
    reaches_beyond: bool,
}

impl<'a> Planning<'a> {
    fn new(file: &'a PlannedFile, settings: &'a PlanSettings) -> Self {
        let strategy = Strategy::of(&settings.access);
        Self {
            file,
            settings,
            strategy,
            choice: Choice::of(&settings.access, settings.link, file.store_gap_bytes),
            shares: Shares::of(settings.memory_limit_bytes, settings.threads),
            loaded: Vec::new(),
            calls: Vec::new(),
            chunks_count: 0,
            is_whole: false,
            learned: None,
            pending: VecDeque::new(),
            prefetches: false,
        }
    }

    fn call(&mut self, purpose: Purpose, ranges: Vec<ByteRange>) {
        if !ranges.is_empty() {
            self.calls.push(PlannedCall { purpose, ranges, chunk: self.chunks_count.saturating_sub(1) });
        }
    }

    /// Whether the bytes of a basket were already loaded by another request, and need not be read again. Always false
    /// if records are read alone.
    fn is_loaded(&self, range: ByteRange) -> bool {
        !self.strategy.reads_records_alone() && self.is_in_memory(range)
    }

    fn is_in_memory(&self, range: ByteRange) -> bool {
        self.loaded.iter().any(|one| holds(*one, range))
    }

    fn stage(&mut self) {
        let size = self.file.size_bytes;
        for start in (0..size).step_by(STAGE_RANGE_BYTES as usize) {
            self.call(Purpose::Staging, vec![ByteRange::new(start, STAGE_RANGE_BYTES.min(size - start))]);
        }
    }

    /// Returns the number of bytes that are read from the end of the file. Returns None if the file is read whole.
    fn tail_bytes(&self) -> Option<u64> {
        let size = self.file.size_bytes;
        if self.settings.opening != PlannedOpening::InStream {
            return self.strategy.tail_bytes(size, self.place() == FilePlace::Disk);
        }
        match self.strategy.whole_files {
            WholeFiles::Never => Some(TAIL_BYTES),
            WholeFiles::Always if size > self.shares.prefetched => Some(TAIL_BYTES),
            WholeFiles::Always => None,
            WholeFiles::Small if size > self.shares.whole_file => Some(TAIL_BYTES),
            WholeFiles::Small if !self.settings.is_named => None,
            WholeFiles::Small => {
                let seen = self.settings.seen.map(|(tail, share)| TailSizes::having_seen(tail, share));
                seen.unwrap_or_default().tail_bytes(self.place(), self.settings.link, size)
            }
        }
    }

    /// The place of the file, as the store sees it: a file with simulated delays or faults is never on a local disk.
    fn place(&self) -> FilePlace {
        let Access { throttle, fault, .. } = &self.settings.access;
        if self.file.is_at_a_server {
            FilePlace::Server
        } else if self.file.is_near && throttle.is_none() && fault.is_none() {
            FilePlace::Disk
        } else {
            FilePlace::Mount
        }
    }

    fn open(&mut self) {
        let size = self.file.size_bytes;
        let head = ByteRange::new(0, HEAD_BYTES.min(size));
        let alone = self.strategy.reads_records_alone();
        let first = match self.tail_bytes() {
            _ if alone => vec![head],
            Some(tail) if size > head.length + tail => vec![head, ByteRange::new(size - tail, tail)],
            _ => vec![ByteRange::new(0, size)],
        };
        self.is_whole = first == [ByteRange::new(0, size)];
        self.loaded.clone_from(&first);
        self.call(Purpose::Opening, first);
        if self.is_whole {
            return;
        }
        let file = self.file;
        if alone {
            // Each of the recorded requests is one call, because they were recorded while the records were read alone.
            for request in &file.metadata {
                self.call(Purpose::Opening, request.clone());
            }
            return;
        }
        // If records are read alone, the request for the streamer infos is a few bytes longer than the record, so use
        // the exact range here.
        let exact = |record: &ByteRange| match file.infos {
            Some(infos) if infos.offset == record.offset => infos,
            _ => *record,
        };
        let missing = self.missing(file.metadata.iter().flatten().map(exact));
        let bytes = missing.iter().map(|record| record.length).fold(0, u64::saturating_add);
        if !file.is_ntuple && missing.len() > 1 && bytes <= TAIL_BYTES {
            self.loaded.extend(&missing);
            self.call(Purpose::Opening, missing);
            return;
        }
        for request in &file.metadata {
            let mut missing = self.missing(request.iter().copied());
            if let ([record], [_]) = (missing.as_mut_slice(), request.as_slice()) {
                let rest = size.saturating_sub(record.offset);
                record.length = record.length.max(METADATA_PIECE_BYTES).min(rest);
            }
            if !missing.is_empty() {
                self.loaded.extend(&missing);
                self.call(Purpose::Opening, missing);
            }
        }
    }

    fn missing(&self, records: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
        records.filter(|record| !self.is_in_memory(*record)).collect()
    }

    fn memory_plan(&self) -> Option<MemoryPlan> {
        let extents = self.file.branches.iter().flatten();
        let largest = if self.is_whole {
            self.file.size_bytes
        } else {
            extents.map(|extent| buffer_bytes(extent.size)).max().unwrap_or(0)
        };
        let largest = BasketBytes { stored: largest, scratch: self.file.scratch_bytes };
        MemoryPlan::within(self.shares.leased, largest, self.is_whole, self.file.values_per_entry)
    }

    /// Returns the entries at which all branches begin a basket, followed by the end of the tree.
    fn boundaries(&self) -> Vec<u64> {
        let mut common: Option<Vec<u64>> = None;
        for extents in &self.file.branches {
            let mut own: Vec<u64> = extents.iter().map(|extent| extent.entries.start).collect();
            own.dedup();
            common = Some(match common {
                None => own,
                Some(before) => before.into_iter().filter(|entry| own.binary_search(entry).is_ok()).collect(),
            });
        }
        let mut boundaries = common.unwrap_or_default();
        boundaries.push(self.file.entries_count);
        boundaries
    }

    fn chunks(&mut self) -> Option<()> {
        let plan = self.memory_plan()?;
        let PlanSettings { step_entries, step_bytes, .. } = *self.settings;
        let by_memory = plan.entries_of_chunk(self.file.stored_per_entry);
        let all = 0..self.file.entries_count;
        let read = self.settings.entries.clone().unwrap_or(all);
        let mut step = step_of(step_entries, step_bytes, self.file.plain_per_entry, by_memory);
        if self.settings.has_even_steps {
            step = even_step(step, read.end.saturating_sub(read.start));
        }
        let boundaries = if step_entries.is_none() { self.boundaries() } else { Vec::new() };
        let ends = match plan.ends_at_baskets_above {
            Some(bytes) if step_entries.is_none() => self.large_starts(bytes),
            _ => Vec::new(),
        };
        self.prefetches = self.strategy.prefetches_chunks() && self.choice.requests_in_flight > 0 && !self.is_whole;
        let mut carried = HashSet::new();
        for entries in (Cutting { step, boundaries, ends }).chunks(read) {
            self.chunks_count += 1;
            if self.is_whole {
                continue;
            }
            let wanted = self.wanted(&entries);
            if self.prefetches {
                self.prefetch(&wanted);
            }
            self.fetch(&wanted, &carried, plan.group_bytes);
            carried = self.carried(&wanted, plan.carried_bytes);
        }
        Some(())
    }

    fn large_starts(&self, bytes: u64) -> Vec<u64> {
        let is_large = |extents: &&Vec<Extent>| extents.iter().any(|extent| buffer_bytes(extent.size) > bytes);
        let large = self.file.branches.iter().filter(is_large).flatten();
        let mut starts: Vec<u64> = large.map(|extent| extent.entries.start).collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Returns the baskets and pages that a chunk needs, column by column. Baskets and pages without bytes are left
    /// out.
    fn wanted(&self, entries: &Range<u64>) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (column, extents) in self.file.branches.iter().enumerate() {
            let first = extents.partition_point(|extent| extent.entries.end <= entries.start);
            let overlapping = extents[first..].iter().take_while(|extent| extent.entries.start < entries.end);
            wanted.extend(overlapping.filter(|extent| extent.size > 0).map(|extent| Wanted {
                column,
                range: ByteRange::new(extent.offset, extent.size),
                entry_start: extent.entries.start,
                reaches_beyond: extent.entries.end > entries.end,
            }));
        }
        wanted
    }

    /// Prefetches the ranges of a chunk, except ranges that are already loaded or prefetched.
    fn prefetch(&mut self, wanted: &[Wanted]) {
        let mut new: Vec<ByteRange> = wanted
            .iter()
            .map(|one| one.range)
            .filter(|range| !self.is_loaded(*range) && !self.is_pending(*range))
            .collect();
        new.sort_unstable_by_key(|range| (range.offset, range.length));
        new.dedup();
        let joined = coalesce(&new, self.choice.gap_bytes, MAX_JOINED_BYTES).ranges;
        let mut started = Vec::new();
        for batch in batched(joined) {
            let leased: u64 = batch.iter().map(|range| buffer_bytes(range.length)).sum();
            // A batch that exceeds the memory for prefetching is not prefetched, but read when it is needed.
            if leased > self.shares.prefetched {
                break;
            }
            started.extend(&batch);
            self.call(Purpose::Prefetch, batch);
        }
        self.pending.push_back(started);
        if self.pending.len() > limits::CHUNKS_PREFETCHED_MAX {
            self.pending.pop_front();
        }
    }

    fn is_pending(&self, range: ByteRange) -> bool {
        self.pending.iter().flatten().any(|one| holds(*one, range))
    }

    /// Reads the baskets and pages that a chunk needs, one group of columns at a time.
    fn fetch(&mut self, wanted: &[Wanted], carried: &HashSet<u64>, group_bytes: u64) {
        let fresh = |one: &&Wanted| !carried.contains(&one.range.offset) && !self.is_loaded(one.range);
        let fresh: Vec<Wanted> = wanted.iter().filter(fresh).copied().collect();
        let mut bytes = vec![0u64; self.file.branches.len()];
        fresh.iter().for_each(|one| bytes[one.column] += one.range.length);
        for columns in grouped(&bytes, group_bytes) {
            let mut own: Vec<Wanted> = fresh.iter().filter(|one| columns.contains(&one.column)).copied().collect();
            if self.strategy.reads_records_alone() {
                own.sort_by_key(|one| one.entry_start);
            }
            let first_count = self.learn(&own);
            let ranges: Vec<ByteRange> = own[first_count..].iter().map(|one| one.range).collect();
            self.read_joined(&ranges);
        }
    }

    /// Reads the baskets that belong to a learning cache, and returns their number.
    fn learn(&mut self, own: &[Wanted]) -> usize {
        let Some(cache_bytes) = self.strategy.learning_cache_bytes() else { return 0 };
        let first_count = own.partition_point(|one| one.entry_start < limits::LEARN_ENTRIES);
        if first_count == 0 {
            self.learned = Some(HashSet::new());
            return 0;
        }
        let wanted: Vec<ByteRange> = own[..first_count].iter().map(|one| one.range).collect();
        if self.learned.is_none() {
            let mut all = wanted.clone();
            all.extend(&self.file.unwanted_first);
            if all.iter().map(|range| range.length).fold(0, u64::saturating_add) <= cache_bytes {
                self.learned = Some(all.iter().map(|range| range.offset).collect());
                self.read_joined(&all);
            }
        }
        let is_held = |range: &ByteRange| self.learned.as_ref().is_some_and(|held| held.contains(&range.offset));
        let alone: Vec<ByteRange> = wanted.into_iter().filter(|range| !is_held(range)).collect();
        alone.into_iter().for_each(|range| self.call(Purpose::Baskets, vec![range]));
        first_count
    }

    fn read_joined(&mut self, wanted: &[ByteRange]) {
        let Some(bytes_max) = self.strategy.bytes_together() else {
            let missing: Vec<ByteRange> = wanted.iter().filter(|range| !self.is_pending(**range)).copied().collect();
            return self.read_together(&missing);
        };
        portions(wanted, bytes_max).into_iter().for_each(|some| self.read_together(some));
    }

    fn read_together(&mut self, wanted: &[ByteRange]) {
        let joined = coalesce(wanted, self.choice.gap_bytes, MAX_JOINED_BYTES).ranges;
        self.call(Purpose::Baskets, joined);
    }

    /// Returns the baskets that are kept for the next chunk. Baskets are only kept while there is room for their stored
    /// and decompressed bytes.
    fn carried(&self, wanted: &[Wanted], mut room: u64) -> HashSet<u64> {
        let factor = (self.file.plain_per_entry / self.file.stored_per_entry.max(1e-9)).max(1.0);
        let mut kept = HashSet::new();
        for one in wanted.iter().filter(|one| one.reaches_beyond && !self.is_loaded(one.range)) {
            let Some(left) = room.checked_sub(one.range.length) else { continue };
            kept.insert(one.range.offset);
            room = left.checked_sub((one.range.length as f64 * factor) as u64).unwrap_or(left);
        }
        kept
    }

    fn done(self) -> PlannedReads {
        let file = self.file;
        let first = file.metadata.iter().flatten().map(|record| record.offset).min().unwrap_or(file.size_bytes);
        let wanted = file.stored_per_entry * file.entries_count as f64;
        let ahead = self.strategy.choice(&self.settings.access, self.settings.link, file.store_gap_bytes);
        PlannedReads {
            calls: self.calls,
            chunks_count: self.chunks_count,
            calls_in_flight: ahead.map_or(1, |choice| choice.requests_in_flight.max(1)),
            bytes_in_flight: self.choice.bytes_in_flight,
            is_whole: self.is_whole,
            opens_ahead: ahead.is_some(),
            // RNTuples give no observations.
            seen: (!file.is_ntuple)
                .then(|| (file.size_bytes.saturating_sub(first), wanted / file.size_bytes.max(1) as f64)),
        }
    }
}

fn holds(whole: ByteRange, part: ByteRange) -> bool {
    let end = |range: ByteRange| range.offset.saturating_add(range.length);
    whole.offset <= part.offset && end(part) <= end(whole)
}
