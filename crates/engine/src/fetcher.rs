//! The thread that runs ahead of the decoders: opens files, cuts them into chunks, fetches and hands out baskets.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::assemble::assemble;
use crate::basket_source::Carried;
use crate::budget::{Budget, Lease, Refusal};
use crate::chunk::{Chunk, Reporter};
use crate::error::{ReadError, ReadErrorKind, Result};
use crate::extents::BasketBytes;
use crate::fetch::{fetch_carrying, groups, needed_baskets, Group, Room};
use crate::file::File;
use crate::guard::{guarded, MISTAKE};
use crate::limits;
use crate::memory_plan::{too_large, too_many_entries, MemoryLimit, MemoryPlan, Shares};
use crate::read_buffers::buffer_bytes;
use crate::records::Records;
use crate::slab::Pool;
use crate::stream::{Options, Selection, Source, SourceTree};
use crate::tree::Tree;
use crate::worker::Task;

/// What the fetcher tells the consumer, in the order of the sources.
#[derive(Debug)]
pub(crate) enum Item {
    /// A chunk that is being decoded, and what it takes.
    Chunk(Arc<Chunk>, ChunkLease),
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
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) shares: Shares,
    pub(crate) records: Arc<Records>,
    pub(crate) pool: Arc<Pool>,
}

/// Nobody wants more chunks.
struct Stopped;

/// How the making of a chunk ended.
enum Made {
    /// All its baskets were handed out.
    Whole,
    /// It could not be read; nothing more of its source is.
    Failed,
    /// Nobody wants more.
    Stopped,
}

/// What a chunk takes until the consumer has got the next one.
#[derive(Debug)]
pub(crate) struct ChunkLease {
    _values: Lease,
    /// Its file is in memory until its last chunk is used up.
    _file: Option<Arc<Lease>>,
}

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
        let (tree, file_lease) = match &source.tree {
            SourceTree::Open(tree) => {
                self.records.add_file(source_index, tree.file());
                (Arc::clone(tree), None)
            }
            SourceTree::Path(path, tree) => {
                let (mut lease, whole_file) = match self.budget.lease_file(self.shares.whole_file) {
                    Ok(lease) => (lease, self.shares.whole_file),
                    Err(Refusal::Closed) => return Ok(Err(Stopped)),
                    // Beside a chunk of many entries there may be room for parts of the file.
                    Err(Refusal::TooLarge) => (self.budget.lease_nothing(), 0),
                };
                let file = File::open_within(path, whole_file, &self.options.access)?;
                self.records.add_file(source_index, &file);
                drop(lease.split(lease.bytes().saturating_sub(file.whole_bytes())));
                (file.tree(tree.as_deref())?, Some(Arc::new(lease)))
            }
        };
        tree.other_files().into_iter().for_each(|file| self.records.add_other_file(source_index, file));
        let columns = select(&tree, &self.options)?;
        if columns.is_empty() {
            tree.check_entries_count()?;
        }
        let file_bytes = file_lease.as_ref().map_or(0, |lease: &Arc<Lease>| lease.bytes());
        let mut plan = MemoryPlan::new(&tree, &columns, file_bytes, self.memory_limit)?;
        let stop = source.entry_stop.unwrap_or(u64::MAX).min(tree.entries_count());
        let entries = source.entry_start.min(stop)..stop;
        let mut carried = Carried::new(&self.budget, plan.carried_bytes);
        for entries in cut(&tree, &columns, entries, &plan, &self.options) {
            if self.failed_source.load(Ordering::Acquire) == source_index {
                break;
            }
            let chunk = Arc::new(Chunk::new(Arc::clone(&tree), source_index, entries, columns.clone(), &self.pool));
            match self.run_chunk(&chunk, &mut plan, file_lease.as_ref(), &mut carried)? {
                Made::Whole => {}
                Made::Failed => break,
                Made::Stopped => return Ok(Err(Stopped)),
            }
        }
        Ok(Ok(()))
    }

    /// Makes a chunk: its values get their room, it is announced, its baskets are fetched and handed out.
    fn run_chunk(
        &self,
        chunk: &Arc<Chunk>,
        plan: &mut MemoryPlan,
        file_lease: Option<&Arc<Lease>>,
        carried: &mut Carried,
    ) -> Result<Made> {
        let entries_count = chunk.entries_count() as u64;
        let values_bytes = self.values_bytes(plan, entries_count);
        let leased = self.set_scratch(plan.scratch_bytes, 0).and_then(|()| self.budget.lease_chunk(values_bytes));
        let values = match leased {
            Ok(lease) => lease,
            Err(Refusal::Closed) => return Ok(Made::Stopped),
            Err(Refusal::TooLarge) => {
                return Err(too_many_entries(&chunk.tree, entries_count, values_bytes, 0, plan, self.memory_limit))
            }
        };
        // From here on whatever goes wrong is told with the chunk, and with it how many entries are lost.
        let own = Reporter::new(chunk);
        let lease = ChunkLease { _values: values, _file: file_lease.cloned() };
        if self.items.send(Item::Chunk(Arc::clone(chunk), lease)).is_err() {
            return Ok(Made::Stopped);
        }
        let before = carried.take();
        let made = self.fill(chunk, plan, &before, carried);
        let made = made.unwrap_or_else(|(order, error)| {
            chunk.put_error(order, error);
            Made::Failed
        });
        own.done();
        Ok(made)
    }

    /// Fetches the baskets of a chunk, no more at a time than there is room for, and hands them out. An error comes
    /// with its place among those of the baskets.
    fn fill(
        &self,
        chunk: &Arc<Chunk>,
        plan: &mut MemoryPlan,
        before: &Carried,
        carried: &mut Carried,
    ) -> std::result::Result<Made, ((usize, usize), ReadError)> {
        let needed = needed_baskets(chunk).map_err(|error| ((0, 0), error))?;
        let mut groups = groups(chunk, &needed, before, plan.group_bytes);
        groups.reverse();
        while let Some(group) = groups.pop() {
            let no_room = |prepared: &Result<Vec<Task>>| {
                prepared.as_ref().is_err_and(|error| error.kind == ReadErrorKind::MemoryLimit)
            };
            let mut prepared = self.prepare(chunk, &group, plan, before, carried);
            // What is kept for the next chunk can be fetched again for it.
            if no_room(&prepared) && carried.clear() {
                prepared = self.prepare(chunk, &group, plan, before, carried);
            }
            if self.stop.load(Ordering::Acquire) {
                return Ok(Made::Stopped);
            }
            if let (true, Some([first, second])) = (no_room(&prepared), group.halves()) {
                groups.extend([second, first]);
                continue;
            }
            let tasks = prepared.map_err(|error| ((group.columns.start, 0), error))?;
            if !self.hand_out(tasks) {
                return Ok(Made::Stopped);
            }
        }
        Ok(Made::Whole)
    }

    fn prepare(
        &self,
        chunk: &Arc<Chunk>,
        group: &Group<'_>,
        plan: &mut MemoryPlan,
        before: &Carried,
        carried: &mut Carried,
    ) -> Result<Vec<Task>> {
        let (known, entries_count) = (*plan, chunk.entries_count() as u64);
        let values_bytes = self.values_bytes(&known, entries_count);
        let no_room = |stored_bytes| {
            too_many_entries(&chunk.tree, entries_count, values_bytes, stored_bytes, &known, self.memory_limit)
        };
        let room = Room::Leased(&self.budget, &no_room);
        let sources = fetch_carrying(chunk, group.needed, before, carried, room)?;
        let mut tasks = assemble(chunk, group.columns.clone(), group.needed, sources, room)?;
        // Until now only the average of its branch was known.
        let most = plan.scratch_bytes.max(self.shares.own_scratch);
        let largest = tasks.iter().filter(|task| task.scratch.sum() > most).max_by_key(|task| task.scratch.sum());
        if let Some(largest) = largest {
            let (branch, stored) = (chunk.columns[largest.column], largest.source.stored_bytes() as u64);
            let basket = BasketBytes { stored: buffer_bytes(stored), scratch: largest.scratch.sum() };
            let fits = plan.set_scratch(basket.scratch, self.memory_limit);
            if !fits || self.set_scratch(basket.scratch, 1).is_err() {
                tasks.into_iter().for_each(Task::cancel);
                return Err(too_large(&chunk.tree, branch, basket, plan.largest, self.memory_limit));
            }
        }
        tasks.iter_mut().for_each(|task| task.at_work = Some(self.budget.task()));
        Ok(tasks)
    }

    /// What the values of so many entries take of the memory limit.
    fn values_bytes(&self, plan: &MemoryPlan, entries_count: u64) -> u64 {
        if self.options.keeps_values {
            0
        } else {
            plan.values_bytes(entries_count)
        }
    }

    /// Sets aside what decompressing a basket takes that needs so many bytes, and if there is room what all decoders
    /// would take with such ones.
    fn set_scratch(&self, bytes: u64, own_chunks: usize) -> std::result::Result<(), Refusal> {
        let all = bytes.saturating_mul(self.options.threads.max(1) as u64);
        let wish = all.min(self.shares.leased / limits::SCRATCH_MEMORY_SHARE);
        self.budget.set_scratch(bytes, wish, own_chunks)
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

fn select(tree: &Tree, options: &Options) -> Result<Vec<usize>> {
    let names = match &options.selection {
        Selection::All => return Ok(tree.readable().collect()),
        Selection::Named(names) => names,
    };
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        match tree.find(name).and_then(|index| tree.check_readable(index).map(|()| index)) {
            Ok(index) => columns.push(index),
            // Whoever wants it there is told then.
            Err(error) if options.optional.contains(name) && is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(columns)
}

fn is_absence(error: &ReadError) -> bool {
    matches!(error.kind, ReadErrorKind::NoSuchKey | ReadErrorKind::Unsupported)
}

/// Cuts a range of entries into chunks: at the boundaries that the baskets of all columns share where there are any.
fn cut(
    tree: &Tree,
    columns: &[usize],
    entries: Range<u64>,
    plan: &MemoryPlan,
    options: &Options,
) -> impl Iterator<Item = Range<u64>> {
    let (stored, plain) = tree.bytes_per_entry(columns);
    let by_memory = if options.keeps_values {
        tree.entries_fetched_within(columns, &entries, plan.group_bytes)
    } else {
        plan.entries_of_chunk(stored)
    };
    let by_bytes = ((options.step_bytes as f64 / plain.max(1e-9)) as u64).min(by_memory);
    // A step of so many entries is kept to, or refused: the borders of a job's chunks are not to depend on which columns
    // one of its streams reads.
    let step = options.step_entries.unwrap_or(by_bytes).max(limits::CHUNK_ENTRIES_MIN);
    let boundaries = if options.step_entries.is_none() { tree.common_boundaries(columns) } else { Vec::new() };
    let ends = match plan.ends_at_baskets_above {
        Some(bytes) if options.step_entries.is_none() => tree.large_basket_starts(columns, bytes),
        _ => Vec::new(),
    };
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
        let next_end = ends.get(ends.partition_point(|end| *end <= start));
        let chunk = start..next_end.map_or(stop, |end| stop.min(*end));
        start = chunk.end;
        Some(chunk)
    })
}
