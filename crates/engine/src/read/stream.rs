//! A stream of chunks over many files: the fetcher opens files and fetches baskets, decoders decode them, and the
//! consumer takes the chunks in order.
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
//! while let Next::Chunk(chunk) | Next::Failed { chunk: Some(chunk), .. } = stream.next(Duration::from_secs(60)) {
//!     println!("{} entries", chunk.entries_count());
//! }
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use branchline_slab::Pool;
use crossbeam_channel::{bounded, unbounded, Receiver, RecvTimeoutError};

use branchline_trace::journal;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::fetch::prefetch::Prefetcher;
use crate::file::strategy::Strategy;
use crate::file::watch::{end_by, watched, Activity, BasketName, Doing, LazyBasketName, Watch};
use crate::limits;
use crate::memory::budget::Budget;
use crate::memory::buffers;
use crate::read::decode::chunk::Chunk;
use crate::read::decode::task::Task;
use crate::read::decode::worker::Worker;
use crate::read::fetcher::{ChunkLease, Fetcher, Item};
use crate::read::opening::Opening;
use crate::read::plan::memory_plan::MemoryLimit;
use crate::read::read_now::read_again;
use crate::read::records::{Busy, Records};
use crate::read::source::{Options, Source};

/// The next item of a stream.
#[derive(Debug)]
pub enum Next {
    /// A finished chunk whose columns can be taken.
    Chunk(Arc<Chunk>),
    /// A source that cannot be read at all, or only in part.
    Failed {
        /// Index of the source.
        source_index: usize,
        /// The error.
        error: ReadError,
        /// The failed chunk, if there was one.
        chunk: Option<Arc<Chunk>>,
    },
    /// Nothing arrived within the timeout.
    NotYet,
    /// All sources have been read.
    End,
}

/// A stream of chunks.
pub struct Stream {
    items: Option<Receiver<Item>>,
    /// The chunk that the consumer is waiting for.
    pending: Option<(Arc<Chunk>, ChunkLease)>,
    /// The lease of the chunk that the consumer holds.
    in_use: Option<ChunkLease>,
    waiting_since: Option<(Instant, Busy)>,
    /// Index of the last source that failed. The rest of this source is skipped.
    failed_source: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
    watch: Arc<Watch>,
    stop: Arc<AtomicBool>,
    budget: Arc<Budget>,
    prefetcher: Arc<Prefetcher>,
    records: Arc<Records>,
    pool: Arc<Pool>,
}

impl Stream {
    /// Starts reading.
    pub fn start(sources: Vec<Source>, options: Options) -> Result<Self> {
        let threads_count = options.threads.max(1);
        let stop = Arc::new(AtomicBool::new(false));
        let chunks_max = limits::CHUNKS_AHEAD + threads_count;
        let parts = options.memory_parts.max(1);
        let memory_limit = MemoryLimit { bytes: options.memory_limit_bytes / parts, parts, threads: threads_count };
        let shares = memory_limit.shares();
        let budget = Budget::new(shares.leased, chunks_max);
        let watch = Arc::new(Watch::default());
        let prefetcher = Prefetcher::new(shares.prefetched, &watch);
        let records = Arc::new(Records::new(threads_count));
        let pool = Pool::shared(shares.pool as usize);
        buffers::keep_at_most(shares.read_buffers as usize);
        let (items_in, items) = unbounded::<Item>();
        let (tasks_in, tasks) = bounded::<Vec<Task>>(limits::BUNDLES_WAITING);
        let mut threads = Vec::new();
        for index in 0..threads_count {
            let tasks = tasks.clone();
            let records = Arc::clone(&records);
            let stop = Arc::clone(&stop);
            let worker = Worker::new(shares.own_scratch, budget.scratch());
            let name = format!("decode-{index}");
            let activity = watch.thread(&name);
            threads.push(spawn(&name, activity, move || decode_all(worker, &tasks, &records, &stop))?);
        }
        let strategy = Strategy::of(&options.access);
        let failed_source = Arc::new(AtomicUsize::new(usize::MAX));
        let fetcher = Fetcher {
            sources,
            failed_source: Arc::clone(&failed_source),
            opening: Opening {
                strategy,
                options: Arc::new(options),
                memory_limit,
                shares,
                tail_sizes: Arc::default(),
                columns_before: Arc::default(),
            },
            prefetcher: Arc::clone(&prefetcher),
            last_store: RefCell::default(),
            last_whole_bytes: Cell::default(),
            items: items_in,
            tasks: tasks_in,
            stop: Arc::clone(&stop),
            budget: Arc::clone(&budget),
            records: Arc::clone(&records),
            pool: Arc::clone(&pool),
        };
        threads.push(spawn("fetch", watch.thread("fetch"), move || fetcher.run())?);
        let items = Some(items);
        let (pending, in_use, waiting_since) = (None, None, None);
        Ok(Self {
            items,
            pending,
            in_use,
            waiting_since,
            failed_source,
            threads,
            watch,
            stop,
            budget,
            prefetcher,
            records,
            pool,
        })
    }

    /// Returns the next item, waiting at most `timeout`. This releases the previous chunk. A source that has failed
    /// yields no further items.
    pub fn next(&mut self, timeout: Duration) -> Next {
        self.budget.set_holds_one(self.in_use.is_some());
        let (since, busy) = *self.waiting_since.get_or_insert_with(|| (Instant::now(), self.records.busy()));
        let started = Instant::now();
        let mut next = self.next_within(timeout);
        if matches!(next, Next::NotYet)
            && let Some(error) = self.watch.waited(started.elapsed().min(limits::AWAKE_MAX))
        {
            next = self.give_up(error);
        }
        if !matches!(next, Next::NotYet) {
            self.budget.set_holds_one(false);
            self.waiting_since = None;
            self.records.add_wait(since.elapsed(), &busy);
            journal::did("wait", "", since);
        }
        next
    }

    fn next_within(&mut self, timeout: Duration) -> Next {
        let deadline = Instant::now() + timeout;
        if self.pending.is_none() {
            let Some(items) = &self.items else { return Next::End };
            match items.recv_timeout(timeout) {
                Ok(Item::Chunk(chunk, lease)) => self.pending = Some((chunk, lease)),
                Ok(Item::Failed { source_index, error }) => {
                    let is_new = self.fails(source_index);
                    return if is_new { Next::Failed { source_index, error, chunk: None } } else { Next::NotYet };
                }
                Err(RecvTimeoutError::Timeout) => return Next::NotYet,
                Err(RecvTimeoutError::Disconnected) => return Next::End,
            }
        }
        let Some((chunk, lease)) = self.pending.take() else { return Next::NotYet };
        if !chunk.wait(deadline.saturating_duration_since(Instant::now())) {
            self.pending = Some((chunk, lease));
            return Next::NotYet;
        }
        // From here on, `in_use` is the lease of the new chunk, and the previous chunk is about to be released.
        self.budget.set_holds_one(false);
        self.in_use = Some(lease);
        let source_index = chunk.source_index;
        if self.failed_source.load(Ordering::Acquire) == source_index {
            return Next::NotYet;
        }
        let chunk = if chunk.failed() { read_again(&chunk, &self.pool).unwrap_or(chunk) } else { chunk };
        self.records.add_chunk(&chunk);
        match chunk.error() {
            Some(error) => {
                self.fails(source_index);
                Next::Failed { source_index, error, chunk: Some(chunk) }
            }
            None => Next::Chunk(chunk),
        }
    }

    /// Stops the other threads after one thread got stuck. The stream then yields no further items.
    fn give_up(&mut self, error: ReadError) -> Next {
        let source_index = self.pending.as_ref().map_or(0, |(chunk, _)| chunk.source_index);
        self.end();
        self.threads.clear();
        Next::Failed { source_index, error, chunk: None }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.budget.close();
        self.prefetcher.close();
        self.items = None;
        self.pending = None;
    }

    /// Records that a source failed. Returns whether this is the first failure of the source.
    fn fails(&self, source_index: usize) -> bool {
        self.failed_source.swap(source_index, Ordering::AcqRel) != source_index
    }

    /// The current statistics.
    pub fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// The buffer pool of the stream's chunks.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Stops reading and waits for the threads, but not longer than `CLOSE_PATIENCE`, because a thread may be stuck.
    pub fn close(&mut self) {
        self.end();
        let deadline = Instant::now() + limits::CLOSE_PATIENCE;
        self.threads.drain(..).for_each(|thread| end_by(deadline, thread));
        journal::flush();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}

fn spawn(name: &str, activity: Arc<Activity>, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        activity.attach();
        work();
    };
    std::thread::Builder::new().name(format!("branchline-{name}")).spawn(run).map_err(|error| {
        ReadError::new(ReadErrorKind::Refused, "", format!("cannot start a thread: {error}"))
            .with_hint("use fewer workers")
    })
}

/// Returns a function that formats the name of a task's basket.
fn naming(task: &Task) -> LazyBasketName {
    let (chunk, column, basket) = (Arc::clone(&task.chunk), task.column, task.basket);
    LazyBasketName(Box::new(move || {
        let (tree, branch) = (&chunk.tree, chunk.columns[column]);
        let name =
            format!("tree {}, branch {}: {}", tree.path(), tree.branch_path(branch), tree.basket_name(branch, basket));
        BasketName { path: tree.file().path().to_owned(), basket: name }
    }))
}

fn decode_all(mut worker: Worker, tasks: &Receiver<Vec<Task>>, records: &Records, stop: &AtomicBool) {
    for bundle in tasks {
        let _at_work = records.decoder_at_work();
        worker.begin();
        for task in bundle {
            if stop.load(Ordering::Acquire) {
                return; // the stream was closed
            }
            let doing = Doing::Decoding(naming(&task));
            let spent = |decompress_ns, decode_ns| records.add_busy(decompress_ns, decode_ns);
            watched(doing, || worker.run(task, spent));
        }
    }
}
