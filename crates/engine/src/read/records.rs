//! The statistics of a stream: bytes and costs by file and by branch, and the waiting times of the consumer.
//!
//! ```no_run
//! use std::collections::HashSet;
//! use std::time::Duration;
//!
//! use branchline_engine::read::source::{Options, Selection, Source, SourceTree};
//! use branchline_engine::read::stream::{Next, Stream};
//! use branchline_storage::Access;
//!
//! let tree = SourceTree::Path { file: "data.root".to_string(), tree: Some("events".to_string()) };
//! let options = Options {
//!     selection: Selection::Named(vec!["pt".to_string()]),
//!     optional: HashSet::new(),
//!     step_bytes: 16 << 20,
//!     step_entries: None,
//!     has_even_steps: false,
//!     threads: 2,
//!     memory_limit_bytes: 1 << 30,
//!     memory_parts: 1,
//!     access: Access::default(),
//!     keeps_values: false,
//! };
//! let mut stream = Stream::start(vec![Source { tree, entry_start: 0, entry_stop: None }], options)?;
//! stream.next(Duration::from_secs(60));
//! for file in stream.records().files() {
//!     println!("{} from {}", file.path, file.store);
//! }
//! println!("waited {:.3} s for data", stream.records().wait().fetch_s);
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use branchline_format::compress::Codec;
use branchline_storage::Remarks;
use branchline_trace::Counters;

use crate::file::File;
use crate::read::decode::chunk::Chunk;

/// The time that the decoding threads have spent working.
#[derive(Debug, Clone, Copy, Default)]
pub struct Busy {
    /// Time during which at least one decoding thread was busy.
    any: Duration,
    decompress_ns: u64,
    decode_ns: u64,
}

/// The waiting time of the consumer by cause, in seconds. The other fields add up to `whole_s`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait {
    /// The total waiting time.
    pub whole_s: f64,
    /// Time spent waiting for data while all decoders were idle.
    pub fetch_s: f64,
    /// Time spent waiting for decompression.
    pub decompress_s: f64,
    /// Time spent waiting for decoding.
    pub decode_s: f64,
}

/// A branch that was read.
#[derive(Debug, Clone)]
pub struct BranchRecord {
    /// The path of the branch: the names of its ancestors, followed by its own name.
    pub path: String,
    /// The total cost over all files.
    pub cost: BranchCost,
}

/// The cost of a branch, summed over all files.
#[derive(Debug, Clone, Default)]
pub struct BranchCost {
    /// Number of decoded baskets.
    pub baskets: u64,
    /// Number of bytes in the files.
    pub compressed_bytes: u64,
    /// Number of bytes after decompression.
    pub plain_bytes: u64,
    /// Time that threads spent in the codec, in nanoseconds.
    pub decompress_ns: u64,
    /// Time that threads spent decoding, in nanoseconds.
    pub decode_ns: u64,
    /// The codec of the last decoded basket.
    pub codec: Option<Codec>,
}

/// A file that was opened.
#[derive(Debug, Clone)]
pub struct FileRecord {
    /// Index of the source for which the file was opened.
    pub source_index: usize,
    /// Path or URL of the file.
    pub path: String,
    /// The storage element that serves the file.
    pub store: String,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// The identity from the storage, which distinguishes versions of the file.
    pub identity: Option<String>,
    /// Counters of the reads. They outlive the file, which may already be closed, with its bytes released.
    pub counters: Arc<Counters>,
    /// Notes from the storage to the user.
    pub remarks: Remarks,
    /// Number of entries of the file that were delivered to the consumer.
    pub entries: u64,
    /// The codec of the last decoded basket.
    pub codec: Option<Codec>,
}

impl FileRecord {
    fn new(source_index: usize, file: &Arc<File>) -> Self {
        Self {
            source_index,
            path: file.path().to_string(),
            store: file.store_name().to_string(),
            size_bytes: file.size_bytes(),
            identity: file.identity(),
            counters: Arc::clone(file.counters()),
            remarks: file.remarks().clone(),
            entries: 0,
            codec: None,
        }
    }
}

/// Number of decoders that are busy, and the time during which at least one was busy.
#[derive(Debug, Default)]
struct AtWork {
    count: usize,
    since: Option<Instant>,
    before: Duration,
}

impl AtWork {
    fn begin(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.count -= 1;
        if self.count == 0 {
            self.before += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }

    fn any(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Counts a decoder as busy until it is dropped.
pub(crate) struct DecoderAtWork<'a>(&'a Records);

impl Drop for DecoderAtWork<'_> {
    fn drop(&mut self) {
        lock(&self.0.at_work).end();
    }
}

/// The statistics of a stream.
#[derive(Debug)]
pub struct Records {
    threads_count: usize,
    at_work: Mutex<AtWork>,
    decompress_ns: AtomicU64,
    decode_ns: AtomicU64,
    wait: Mutex<Wait>,
    files: Mutex<Vec<FileRecord>>,
    branches: Mutex<HashMap<String, BranchCost>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Records {
    pub(crate) fn new(threads_count: usize) -> Self {
        Self {
            threads_count,
            at_work: Mutex::default(),
            decompress_ns: AtomicU64::new(0),
            decode_ns: AtomicU64::new(0),
            wait: Mutex::default(),
            files: Mutex::default(),
            branches: Mutex::default(),
        }
    }

    pub(crate) fn add_busy(&self, decompress_ns: u64, decode_ns: u64) {
        self.decompress_ns.fetch_add(decompress_ns, Ordering::Relaxed);
        self.decode_ns.fetch_add(decode_ns, Ordering::Relaxed);
    }

    pub(crate) fn busy(&self) -> Busy {
        Busy {
            any: lock(&self.at_work).any(),
            decompress_ns: self.decompress_ns.load(Ordering::Relaxed),
            decode_ns: self.decode_ns.load(Ordering::Relaxed),
        }
    }

    /// Counts a decoder as busy until the result is dropped.
    pub(crate) fn decoder_at_work(&self) -> DecoderAtWork<'_> {
        lock(&self.at_work).begin();
        DecoderAtWork(self)
    }

    /// Divides a waiting time by cause. The part in which a decoder was busy is divided between decompressing and
    /// decoding, in proportion to the times that the decoders spent on each. The remainder was spent waiting for data.
    pub(crate) fn add_wait(&self, waited: Duration, before: &Busy) {
        let now = self.busy();
        let whole_s = waited.as_secs_f64();
        let busy_s = (now.any - before.any).as_secs_f64().min(whole_s);
        let decompress_ns = (now.decompress_ns - before.decompress_ns) as f64;
        let decode_ns = (now.decode_ns - before.decode_ns) as f64;
        let decode_share = decode_ns / (decompress_ns + decode_ns).max(1.0);
        let mut wait = lock(&self.wait);
        wait.whole_s += whole_s;
        wait.decompress_s += busy_s * (1.0 - decode_share);
        wait.decode_s += busy_s * decode_share;
        wait.fetch_s += whole_s - busy_s;
    }

    /// Adds a late read, which the consumer performed itself.
    pub fn add_late_read(&self, chunk: &Chunk, waited: Duration) {
        let sum = |of: fn(&crate::read::decode::effort::ColumnCost) -> &AtomicU64| -> f64 {
            chunk.costs.iter().map(|cost| of(cost).load(Ordering::Relaxed) as f64 * 1e-9).sum()
        };
        let whole_s = waited.as_secs_f64();
        let decompress_s = sum(|cost| &cost.decompress_ns).min(whole_s);
        let decode_s = sum(|cost| &cost.decode_ns).min(whole_s - decompress_s);
        {
            let mut wait = lock(&self.wait);
            wait.whole_s += whole_s;
            wait.decompress_s += decompress_s;
            wait.decode_s += decode_s;
            wait.fetch_s += whole_s - decompress_s - decode_s;
        }
        self.add_costs(chunk);
    }

    pub(crate) fn add_file(&self, source_index: usize, file: &Arc<File>) {
        lock(&self.files).push(FileRecord::new(source_index, file));
    }

    /// Adds another file that holds a part of the last file's tree. Entries are still counted for the last file.
    pub(crate) fn add_other_file(&self, source_index: usize, file: &Arc<File>) {
        let mut files = lock(&self.files);
        let last = files.len().saturating_sub(1);
        files.insert(last, FileRecord::new(source_index, file));
    }

    pub(crate) fn add_chunk(&self, chunk: &Chunk) {
        let codec = self.add_costs(chunk);
        let mut files = lock(&self.files);
        if let Some(record) = files.iter_mut().rev().find(|record| record.source_index == chunk.source_index) {
            if !chunk.failed() {
                record.entries += chunk.entries.end - chunk.entries.start;
            }
            record.codec = codec.or(record.codec);
        }
    }

    fn add_costs(&self, chunk: &Chunk) -> Option<Codec> {
        let mut branches = lock(&self.branches);
        let mut last_codec = None;
        for (column, cost) in chunk.columns.iter().zip(&chunk.costs) {
            let name = chunk.tree.branch_path(*column);
            let total = match branches.get_mut(name) {
                Some(known) => known,
                None => branches.entry(name.to_string()).or_default(),
            };
            total.baskets += cost.baskets.load(Ordering::Relaxed);
            total.compressed_bytes += cost.compressed_bytes.load(Ordering::Relaxed);
            total.plain_bytes += cost.plain_bytes.load(Ordering::Relaxed);
            total.decompress_ns += cost.decompress_ns.load(Ordering::Relaxed);
            total.decode_ns += cost.decode_ns.load(Ordering::Relaxed);
            total.codec = cost.codec().or(total.codec);
            last_codec = cost.codec().or(last_codec);
        }
        last_codec
    }

    /// The total waiting time of the consumer.
    pub fn wait(&self) -> Wait {
        *lock(&self.wait)
    }

    /// The files that have been opened.
    pub fn files(&self) -> Vec<FileRecord> {
        lock(&self.files).clone()
    }

    /// The branches that have been read, sorted by path.
    pub fn branches(&self) -> Vec<BranchRecord> {
        let branches = lock(&self.branches);
        let record = |(path, cost): (&String, &BranchCost)| BranchRecord { path: path.clone(), cost: cost.clone() };
        let mut all: Vec<BranchRecord> = branches.iter().map(record).collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }

    /// Number of decoding threads.
    pub fn threads_count(&self) -> usize {
        self.threads_count
    }
}
