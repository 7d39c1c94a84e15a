//! The thread that runs ahead of the decoders: opens files, cuts them into chunks, fetches and hands out baskets.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::assemble::assemble;
use crate::basket_source::Carried;
use crate::budget::Budget;
use crate::chunk::Chunk;
use crate::error::{ReadError, ReadErrorKind, Result};
use crate::fetch::{fetch_carrying, needed_baskets};
use crate::file::File;
use crate::guard::{guarded, MISTAKE};
use crate::limits;
use crate::read_now::read_counts;
use crate::records::Records;
use crate::slab::Pool;
use crate::stream::{Options, Selection, Source, SourceTree};
use crate::tree::Tree;
use crate::worker::Task;

/// What the fetcher tells the consumer, in the order of the sources.
#[derive(Debug)]
pub(crate) enum Item {
    /// A chunk that is being decoded.
    Chunk(Arc<Chunk>),
    /// A source that cannot be read, or not further.
    Failed { source_index: usize, error: ReadError },
}

pub(crate) struct Fetcher {
    pub(crate) sources: Vec<Source>,
    /// The source of which the consumer wants nothing more.
    pub(crate) failed_source: Arc<AtomicUsize>,
    pub(crate) options: Options,
    pub(crate) items: Sender<Item>,
    pub(crate) tasks: Sender<Vec<Task>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) records: Arc<Records>,
    pub(crate) pool: Arc<Pool>,
}

/// Nobody wants more chunks.
struct Stopped;

impl Fetcher {
    pub(crate) fn run(self) {
        for (source_index, source) in self.sources.iter().enumerate() {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let mistake = || ReadError::new(ReadErrorKind::Internal, source.path(), MISTAKE);
            match guarded(|| self.run_source(source_index, source)).unwrap_or_else(|| Err(mistake())) {
                Ok(Ok(())) => {}
                Ok(Err(Stopped)) => return,
                Err(error) => {
                    if self.items.send(Item::Failed { source_index, error }).is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn run_source(&self, source_index: usize, source: &Source) -> Result<std::result::Result<(), Stopped>> {
        let tree = match &source.tree {
            SourceTree::Open(tree) => {
                self.records.add_file(source_index, tree.file());
                Arc::clone(tree)
            }
            SourceTree::Path(path, tree) => {
                let file = File::open(path)?;
                self.records.add_file(source_index, &file);
                file.tree(tree.as_deref())?
            }
        };
        let columns = select(&tree, &self.options.selection)?;
        if columns.is_empty() {
            tree.check_entries_count()?;
        }
        let stop = source.entry_stop.unwrap_or(u64::MAX).min(tree.entries_count());
        let entries = source.entry_start.min(stop)..stop;
        let scratch = tree.largest_basket_bytes(&columns).saturating_mul(self.options.threads.max(1) as u64);
        self.budget.reserve(scratch); // the decoders' own
                                      // Whatever is reserved: where a file is cut may not depend on the files before it or on the number of threads.
        let bytes_max = self.budget.bytes_max() / limits::CHUNK_MEMORY_SHARE;
        let mut carried = Carried::new(bytes_max);
        for entries in cut(&tree, &columns, entries, bytes_max, &self.options) {
            if self.failed_source.load(Ordering::Acquire) == source_index {
                break;
            }
            if !self.run_chunk(source_index, &tree, &columns, entries, &mut carried)? {
                return Ok(Err(Stopped));
            }
            self.budget.reserve(scratch.saturating_add(carried.kept_bytes()));
        }
        Ok(Ok(()))
    }

    /// Answers false when nobody wants more.
    fn run_chunk(
        &self,
        source_index: usize,
        tree: &Arc<Tree>,
        columns: &[usize],
        entries: Range<u64>,
        carried: &mut Carried,
    ) -> Result<bool> {
        let planned = (tree.memory_per_entry(columns) * (entries.end - entries.start) as f64) as u64;
        if !self.budget.acquire(planned) {
            return Ok(false);
        }
        let columns = columns.to_vec();
        let chunk = Arc::new(Chunk::new(Arc::clone(tree), source_index, entries, columns, planned, &self.pool));
        let prepared = needed_baskets(&chunk).and_then(|needed| {
            let sources = fetch_carrying(&chunk, &needed, carried)?;
            assemble(&chunk, &needed, sources, &read_counts)
        });
        let tasks = match prepared {
            Ok(tasks) => tasks,
            Err(error) => {
                self.budget.release(planned);
                return Err(error);
            }
        };
        if self.items.send(Item::Chunk(Arc::clone(&chunk))).is_err() {
            return Ok(false);
        }
        Ok(self.hand_out(tasks))
    }

    /// Gives the decoders bundles of baskets, in the order of the file so that memory is walked through once.
    fn hand_out(&self, mut tasks: Vec<Task>) -> bool {
        tasks.sort_by_key(|task| task.source.address());
        let mut bundle = Vec::new();
        let mut bundle_bytes = 0;
        for task in tasks {
            bundle_bytes += task.source.stored_bytes();
            bundle.push(task);
            if bundle_bytes >= limits::BUNDLE_BYTES {
                bundle_bytes = 0;
                if self.tasks.send(std::mem::take(&mut bundle)).is_err() {
                    return false;
                }
            }
        }
        bundle.is_empty() || self.tasks.send(bundle).is_ok()
    }
}

fn select(tree: &Tree, selection: &Selection) -> Result<Vec<usize>> {
    match selection {
        Selection::All => Ok(tree.readable().collect()),
        Selection::Named(names) => names
            .iter()
            .map(|name| {
                let index = tree.find(name)?;
                tree.check_readable(index).map(|()| index)
            })
            .collect(),
    }
}

/// Cuts a range of entries into chunks: at the boundaries that the baskets of all columns share where there are any.
fn cut(
    tree: &Tree,
    columns: &[usize],
    entries: Range<u64>,
    bytes_max: u64,
    options: &Options,
) -> impl Iterator<Item = Range<u64>> {
    let (_, plain) = tree.bytes_per_entry(columns);
    let by_memory = (bytes_max as f64 / tree.memory_per_entry(columns).max(1e-9)) as u64;
    let by_bytes = ((options.step_bytes as f64 / plain.max(1e-9)) as u64).min(by_memory);
    // A step of so many entries is kept to, whatever it takes: the borders of a job's chunks are not to depend on which
    // columns one of its streams reads.
    let step = options.step_entries.unwrap_or(by_bytes).max(limits::CHUNK_ENTRIES_MIN);
    let boundaries = if options.step_entries.is_none() { tree.common_boundaries(columns) } else { Vec::new() };
    let mut start = entries.start;
    // One by one: what a file says of its entries is not to size a list.
    std::iter::from_fn(move || {
        if start >= entries.end {
            return None;
        }
        let furthest = start.saturating_add(step).min(entries.end);
        let last = boundaries.partition_point(|boundary| *boundary <= furthest);
        let stop = match boundaries[..last].last() {
            Some(boundary) if *boundary > start && furthest < entries.end => *boundary,
            _ => furthest,
        };
        let chunk = start..stop;
        start = stop;
        Some(chunk)
    })
}
