//! The fetcher thread, which feeds the decoders: it opens files, splits their entries into chunks, fetches baskets and
//! queues them for decoding.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use branchline_slab::Pool;
use crossbeam_channel::Sender;

use branchline_storage::{link_expected, Choice};

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::fetch::basket_source::Carried;
use crate::fetch::prefetch::{Prefetcher, Turn};
use crate::fetch::room::{LeasedRoom, Room};
use crate::limits;
use crate::memory::budget::{Budget, Lease, Refusal};
use crate::memory::buffers::buffer_bytes;
use crate::read::decode::chunk::{BasketOrder, Chunk, Reporter};
use crate::read::decode::task::Task;
use crate::read::opening::{Claim, FileRoom, Opened, Opening, Outcome, Prepared, Slot};
use crate::read::plan::cutting::{even_step, step_of, Cutting};
use crate::read::plan::fetch::fetch_carrying;
use crate::read::plan::memory_plan::{basket_too_large, too_many_entries, MemoryPlan};
use crate::read::plan::needed::{groups, needed_baskets, Group};
use crate::read::records::Records;
use crate::read::scheduler::{Schedule, Scheduler, Upcoming};
use crate::read::source::{Options, Source, SourceTree};
use crate::read::stages::tasks_of;
use crate::tree::basket_ranges::BytesPerEntry;
use crate::tree::content::BasketBytes;
use crate::tree::Tree;

/// An item sent to the consumer. Items are in the order of the sources.
#[derive(Debug)]
pub(crate) enum Item {
    /// A chunk that is being decoded, with the lease of its memory.
    Chunk(Arc<Chunk>, ChunkLease),
    /// A source that could not be read completely.
    Failed { source_index: usize, error: ReadError },
}

pub(crate) struct Fetcher {
    pub(crate) sources: Vec<Source>,
    /// Index of the source that the consumer skipped after a failure.
    pub(crate) failed_source: Arc<AtomicUsize>,
    pub(crate) opening: Opening,
    pub(crate) prefetcher: Arc<Prefetcher>,
    /// The storage of the last file.
    pub(crate) last_store: RefCell<Option<LastStore>>,
    /// Size of the last opened file if the whole file is in memory, else 0.
    pub(crate) last_whole_bytes: Cell<Option<u64>>,
    pub(crate) items: Sender<Item>,
    pub(crate) tasks: Sender<Vec<Task>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) records: Arc<Records>,
    pub(crate) pool: Arc<Pool>,
}

/// The storage element of a file, and the maximum gap across which ranges of the file are coalesced.
pub(crate) struct LastStore {
    name: String,
    gap_bytes: u64,
}

/// Returned when the consumer needs no more chunks.
struct Stopped;

/// The outcome of fetching a chunk.
enum Fetched {
    /// All baskets were queued; or the file's bytes may be wrong, and the consumer will reread the chunk.
    Whole,
    /// The chunk could not be read. The rest of its source is skipped.
    Failed,
    /// The consumer needs no more chunks.
    Stopped,
}

/// An error in a chunk, and its position in the basket order.
struct ChunkError {
    order: BasketOrder,
    error: ReadError,
}

/// The memory of a chunk, leased until the consumer has received the next chunk.
#[derive(Debug)]
pub(crate) struct ChunkLease {
    _values: Lease,
    /// The memory of a file that was read whole. It is kept until the file's last chunk has been consumed.
    _file: Option<Arc<Lease>>,
}

impl Fetcher {
    pub(crate) fn run(self) {
        let mut slots: VecDeque<(usize, Arc<Slot>)> = VecDeque::new();
        let mut next = 0;
        for (source_index, source) in self.sources.iter().enumerate() {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            let done = guarded(source.path(), || {
                let prefetched = self.prefetched_source(source_index, &mut next, &mut slots);
                self.run_source(source_index, source, prefetched)
            });
            match done {
                Ok(Ok(())) => {}
                Ok(Err(Stopped)) => break,
                Err(error) => {
                    if self.items.send(Item::Failed { source_index, error }).is_err() {
                        break;
                    }
                }
            }
        }
        self.prefetcher.close();
    }

    /// Returns the current source if a prefetch thread opened it. Also starts opening the next sources.
    fn prefetched_source(
        &self,
        current: usize,
        next: &mut usize,
        slots: &mut VecDeque<(usize, Arc<Slot>)>,
    ) -> Option<Opened> {
        self.prefetch_sources(current, next, slots);
        let (_, slot) = slots.front().filter(|(index, _)| *index == current)?;
        let slot = Arc::clone(slot);
        slots.pop_front();
        loop {
            // Check regularly, because the link may be measured before the first file is open, and then more sources
            // can be opened.
            match slot.take_within(limits::LOOK_AGAIN) {
                Some(Outcome::Opened(opened)) => return Some(opened),
                Some(Outcome::NotOpened) => return None,
                None => {
                    self.prefetch_sources(current, next, slots);
                    // Request this file only now, because earlier files have had time to return their memory.
                    self.prefetcher.want(current);
                }
            }
        }
    }

    /// Starts opening enough of the next sources to hide a round trip. At the start of a stream, this includes the
    /// first source.
    fn prefetch_sources(&self, current: usize, next: &mut usize, slots: &mut VecDeque<(usize, Arc<Slot>)>) {
        let is_first = self.last_store.borrow().is_none() && self.opening.strategy.prefetches_chunks();
        *next = (*next).max(if is_first { current } else { current + 1 });
        let Some(choice) = self.prefetch_choice() else { return };
        self.retry_refused(choice, slots);
        while *next < self.sources.len()
            && *next - current <= choice.requests_in_flight.min(self.files_prefetched_max())
        {
            if matches!(self.sources[*next].tree, SourceTree::Path { .. }) {
                slots.push_back((*next, self.start_opening(*next, choice, None)));
            }
            *next += 1;
        }
    }

    /// Retries opening sources for which there was no memory at the first attempt, when their size was still unknown.
    fn retry_refused(&self, choice: Choice, slots: &mut VecDeque<(usize, Arc<Slot>)>) {
        let Some(bytes) = self.last_whole_bytes.get().filter(|bytes| *bytes > 0) else { return };
        for (index, slot) in slots.iter_mut().filter(|(_, slot)| slot.is_refused()) {
            let Some(room) = self.prefetcher.try_lease(bytes) else { return };
            *slot = self.start_opening(*index, choice, Some(room));
        }
    }

    /// Lets a prefetch thread open a source. For a retry, `lease` is the memory for the source.
    fn start_opening(&self, index: usize, choice: Choice, lease: Option<Lease>) -> Arc<Slot> {
        let (slot, filler) = Slot::new(lease.is_some());
        let claim = lease.map_or_else(|| Claim::Turn(Turn::begin(&self.prefetcher, index)), Claim::Leased);
        let (source, opening) = (self.sources[index].clone(), self.opening.clone());
        let prefetcher = Arc::clone(&self.prefetcher);
        let open = move || {
            let room = FileRoom::Prefetched { prefetcher: &prefetcher, index, claim: Cell::new(claim) };
            let mut opened = opening.open(&source, &room).ok();
            if let Some(Opened { prepared: Ok(prepared), .. }) = &mut opened {
                prefetch_first_chunk(prepared, &opening.options, &prefetcher);
            }
            opened
        };
        let path = self.sources[index].path().to_owned();
        self.prefetcher.run(choice, 0, Box::new(move || filler.fill(&path, open)));
        slot
    }

    /// Returns how many files may be prefetched, assuming that each is as large as the last opened file.
    fn files_prefetched_max(&self) -> usize {
        match self.last_whole_bytes.get() {
            None => limits::UNKNOWN_FILES_PREFETCHED,
            Some(0) => usize::MAX,
            Some(bytes) => (self.opening.shares.prefetched / bytes).max(1) as usize,
        }
    }

    /// Returns how much to prefetch at a time from the storage of the last file. Returns None if nothing is prefetched.
    fn prefetch_choice(&self) -> Option<Choice> {
        let (link, gap_bytes) = match &*self.last_store.borrow() {
            Some(LastStore { name, gap_bytes }) => (self.opening.link_to(name), *gap_bytes),
            None => {
                let access = &self.opening.options.access;
                (self.sources.first().and_then(|source| link_expected(source.path(), access)), 0)
            }
        };
        self.opening.strategy.choice(&self.opening.options.access, link, gap_bytes)
    }

    fn run_source(
        &self,
        source_index: usize,
        source: &Source,
        prefetched: Option<Opened>,
    ) -> Result<std::result::Result<(), Stopped>> {
        let open = || self.opening.open(source, &FileRoom::Stream(&self.budget));
        let opened = match prefetched.map_or_else(open, Ok) {
            Ok(opened) => opened,
            Err(_) => return Ok(Err(Stopped)),
        };
        if let Some(file) = &opened.file {
            self.records.add_file(source_index, file);
            self.last_whole_bytes.set(Some(file.whole_bytes()));
            *self.last_store.borrow_mut() =
                Some(LastStore { name: file.store_name().to_owned(), gap_bytes: file.gap_bytes() });
        }
        let Prepared { tree, file_lease, columns, mut plan, entries, prefetches } = opened.prepared?;
        tree.other_files().into_iter().for_each(|file| self.records.add_other_file(source_index, file));
        let mut carried = Carried::new(&self.budget, plan.carried_bytes);
        let chunks = cut(&tree, &columns, entries, &plan, &self.opening.options);
        let schedule = Schedule {
            tree: Arc::clone(&tree),
            columns: columns.clone(),
            chunks: Box::new(chunks),
            first_prefetches: prefetches,
            is_prefetching: is_prefetched(&tree),
        };
        let scheduler = Scheduler::start(&self.prefetcher, schedule);
        while let Some(Upcoming { entries, prefetches }) = scheduler.next()? {
            if self.failed_source.load(Ordering::Acquire) == source_index {
                self.prefetcher.forget(&prefetches);
                break;
            }
            let chunk = Arc::new(Chunk::new(Arc::clone(&tree), source_index, entries, columns.clone(), &self.pool));
            let fetched = self.run_chunk(&chunk, &mut plan, file_lease.as_ref(), &mut carried);
            self.prefetcher.forget(&prefetches);
            match fetched? {
                Fetched::Whole => {}
                Fetched::Failed => break,
                Fetched::Stopped => return Ok(Err(Stopped)),
            }
        }
        Ok(Ok(()))
    }

    /// Processes a chunk: leases memory for its values, sends it to the consumer, fetches its baskets and queues them
    /// for decoding.
    fn run_chunk(
        &self,
        chunk: &Arc<Chunk>,
        plan: &mut MemoryPlan,
        file_lease: Option<&Arc<Lease>>,
        carried: &mut Carried,
    ) -> Result<Fetched> {
        let entries_count = chunk.entries_count() as u64;
        let values_bytes = self.values_bytes(plan, entries_count);
        let leased = self.set_scratch(plan.scratch_bytes, 0).and_then(|()| self.budget.lease_chunk(values_bytes));
        let values = match leased {
            Ok(lease) => lease,
            Err(Refusal::Closed) => return Ok(Fetched::Stopped),
            Err(Refusal::TooLarge) => {
                return Err(too_many_entries(
                    &chunk.tree,
                    entries_count,
                    values_bytes,
                    0,
                    plan,
                    self.opening.memory_limit,
                ))
            }
        };
        // From here on, errors are stored in the chunk, so that the consumer knows which entries are lost.
        let own = Reporter::new(chunk);
        let lease = ChunkLease { _values: values, _file: file_lease.cloned() };
        if self.items.send(Item::Chunk(Arc::clone(chunk), lease)).is_err() {
            return Ok(Fetched::Stopped);
        }
        let before = carried.take();
        let fetched = self.fill(chunk, plan, &before, carried);
        let fetched = fetched.unwrap_or_else(|ChunkError { order, error }| {
            // If the bytes are wrong, the consumer reads the chunk again, and reports the error if the bytes are wrong
            // again.
            let fetched = if error.kind == ReadErrorKind::BadFile { Fetched::Whole } else { Fetched::Failed };
            chunk.put_error(order, error);
            fetched
        });
        own.done();
        Ok(fetched)
    }

    /// Fetches the baskets of a chunk in groups that fit in memory, and queues them for decoding.
    fn fill(
        &self,
        chunk: &Arc<Chunk>,
        plan: &mut MemoryPlan,
        before: &Carried,
        carried: &mut Carried,
    ) -> std::result::Result<Fetched, ChunkError> {
        let needed = needed_baskets(chunk).map_err(|error| ChunkError { order: BasketOrder::default(), error })?;
        let mut groups = groups(chunk, &needed, before, plan.group_bytes);
        groups.reverse();
        while let Some(group) = groups.pop() {
            let no_room = |prepared: &Result<Vec<Task>>| {
                prepared.as_ref().is_err_and(|error| error.kind == ReadErrorKind::MemoryLimit)
            };
            let mut prepared = self.prepare(chunk, &group, plan, before, carried);
            // Drop the baskets kept for the next chunk, because they can be fetched again.
            if no_room(&prepared) && carried.clear() {
                prepared = self.prepare(chunk, &group, plan, before, carried);
            }
            if self.stop.load(Ordering::Acquire) {
                return Ok(Fetched::Stopped);
            }
            if let (true, Some([first, second])) = (no_room(&prepared), group.halves()) {
                groups.extend([second, first]);
                continue;
            }
            let tasks = prepared.map_err(|error| {
                let order = BasketOrder { column: group.columns.start, basket: 0 };
                ChunkError { order, error }
            })?;
            if !self.hand_out(tasks) {
                return Ok(Fetched::Stopped);
            }
        }
        Ok(Fetched::Whole)
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
        let too_large = |stored_bytes| {
            too_many_entries(&chunk.tree, entries_count, values_bytes, stored_bytes, &known, self.opening.memory_limit)
        };
        let (budget, prefetcher) = (&self.budget, &self.prefetcher);
        let room = Room::Leased(LeasedRoom { budget, too_large: &too_large, prefetcher });
        let sources = fetch_carrying(chunk, group.needed, before, carried, room)?;
        let decoders = self.opening.options.threads;
        let mut tasks = tasks_of(chunk, group.columns.clone(), group.needed, sources, room, decoders)?;
        // The plan only knew the average basket size of each branch, so check the actual sizes.
        let most = plan.scratch_bytes.max(self.opening.shares.own_scratch);
        let largest = tasks.iter().filter(|task| task.scratch.sum() > most).max_by_key(|task| task.scratch.sum());
        if let Some(largest) = largest {
            let (branch, stored) = (chunk.columns[largest.column], largest.source.stored_bytes() as u64);
            let basket = BasketBytes { stored: buffer_bytes(stored), scratch: largest.scratch.sum() };
            let fits = plan.set_scratch(basket.scratch, self.opening.memory_limit);
            if !fits || self.set_scratch(basket.scratch, 1).is_err() {
                tasks.into_iter().for_each(Task::cancel);
                return Err(basket_too_large(&chunk.tree, branch, basket, plan.largest, self.opening.memory_limit));
            }
        }
        tasks.iter_mut().for_each(|task| task.at_work = Some(self.budget.task()));
        Ok(tasks)
    }

    /// Returns the number of bytes that the values of this many entries take from the memory limit. This is 0 if the
    /// caller keeps the values.
    fn values_bytes(&self, plan: &MemoryPlan, entries_count: u64) -> u64 {
        if self.opening.options.keeps_values {
            0
        } else {
            plan.values_bytes(entries_count)
        }
    }

    /// Reserves memory for decompressing one basket of this size, or one such basket per decoder if enough memory is
    /// free.
    fn set_scratch(&self, bytes: u64, own_chunks: usize) -> std::result::Result<(), Refusal> {
        let all = bytes.saturating_mul(self.opening.options.threads.max(1) as u64);
        let wish = all.min(self.opening.shares.leased / limits::SCRATCH_MEMORY_DIVISOR);
        self.budget.set_scratch(bytes, wish, own_chunks)
    }

    /// Queues baskets for the decoders in bundles. The baskets are sorted by address, so that memory is traversed only
    /// once. Returns false if the decoders have stopped.
    fn hand_out(&self, mut tasks: Vec<Task>) -> bool {
        tasks.sort_by_key(|task| task.source.address());
        let mut bundle = Vec::new();
        let mut bundle_bytes = 0;
        for task in tasks {
            bundle_bytes += task.stored_bytes();
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

/// Whether the chunks of a tree are prefetched.
fn is_prefetched(tree: &Tree) -> bool {
    let file = tree.file();
    file.strategy().prefetches_chunks() && file.choice().requests_in_flight > 0 && file.whole_bytes() == 0
}

/// Prefetches the first chunk of a tree that a prefetch thread opened.
fn prefetch_first_chunk(prepared: &mut Prepared, options: &Options, prefetcher: &Arc<Prefetcher>) {
    let Prepared { tree, columns, plan, entries, prefetches, .. } = prepared;
    if is_prefetched(tree)
        && let Some(entries) = cut(tree, columns, entries.clone(), plan, options).next()
    {
        // If the ranges cannot be determined, the fetcher will look them up again and report the error.
        let by_file = tree.ranges_to_fetch(columns, &entries).unwrap_or_default();
        prefetches.extend(by_file.iter().flat_map(|one| prefetcher.prefetch(&one.file, &one.ranges)));
    }
}

/// Splits an entry range into chunks. If all columns share basket boundaries, the chunks end at such boundaries.
fn cut(
    tree: &Tree,
    columns: &[usize],
    entries: Range<u64>,
    plan: &MemoryPlan,
    options: &Options,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let BytesPerEntry { stored, plain } = tree.bytes_per_entry(columns);
    let by_memory = if options.keeps_values {
        tree.entries_fetched_within(columns, &entries, plan.group_bytes)
    } else {
        plan.entries_of_chunk(stored)
    };
    let is_by_bytes = options.step_entries.is_none();
    let boundaries = if is_by_bytes { tree.common_boundaries(columns) } else { Vec::new() };
    let ends = match plan.ends_at_baskets_above {
        Some(bytes) if is_by_bytes => tree.large_basket_starts(columns, bytes),
        _ => Vec::new(),
    };
    let mut step = step_of(options.step_entries, options.step_bytes, plain, by_memory);
    if options.has_even_steps {
        step = even_step(step, entries.end.saturating_sub(entries.start));
    }
    Cutting { step, boundaries, ends }.chunks(entries)
}
