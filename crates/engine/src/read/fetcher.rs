//! The thread that runs ahead of the decoders: opens files, cuts them into chunks, fetches and hands out baskets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use branchline_slab::Pool;
use crossbeam_channel::Sender;

use branchline_storage::{link_expected, link_to, Choice};

use crate::basket_ranges::BytesPerEntry;
use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::read::basket_source::Carried;
use crate::read::budget::{Budget, Lease, Refusal};
use crate::read::chunk::{Chunk, Reporter};
use crate::read::fetch::fetch_carrying;
use crate::read::memory_plan::{too_large, too_many_entries, MemoryPlan};
use crate::read::needed::{groups, needed_baskets, Group};
use crate::read::opening::{Claim, FileRoom, Opened, Opening, Prepared, Slot};
use crate::read::prefetch::{Prefetcher, Turn};
use crate::read::records::Records;
use crate::read::room::Room;
use crate::read::scheduler::{Asking, Upcoming};
use crate::read::source::{Options, Source, SourceTree};
use crate::read::stages::tasks_of;
use crate::read::task::Task;
use crate::read::watch::{watched, Doing};
use crate::read_buffers::buffer_bytes;
use crate::tree::content::BasketBytes;
use crate::tree::Tree;

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
    pub(crate) opening: Opening,
    pub(crate) ahead: Arc<Prefetcher>,
    /// Where the last file was, and the gap there.
    pub(crate) last_store: RefCell<Option<(String, u64)>>,
    /// The bytes of the last file that was opened, if it is in memory as a whole, or 0.
    pub(crate) last_whole_bytes: Cell<Option<u64>>,
    pub(crate) items: Sender<Item>,
    pub(crate) tasks: Sender<Vec<Task>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) records: Arc<Records>,
    pub(crate) pool: Arc<Pool>,
}

/// Nobody wants more chunks.
struct Stopped;

/// How the making of a chunk ended.
enum Made {
    /// All its baskets were handed out, or its bytes are in doubt.
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
        let mut slots: VecDeque<(usize, Arc<Slot>)> = VecDeque::new();
        let mut next = 0;
        for (source_index, source) in self.sources.iter().enumerate() {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            let done = guarded(source.path(), || {
                let ahead = self.opened_ahead(source_index, source, &mut next, &mut slots);
                self.run_source(source_index, source, ahead)
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
        self.ahead.close();
    }

    /// The current source, if it was opened ahead, while more are opened behind it.
    fn opened_ahead(
        &self,
        current: usize,
        source: &Source,
        next: &mut usize,
        slots: &mut VecDeque<(usize, Arc<Slot>)>,
    ) -> Option<Opened> {
        self.open_ahead(current, next, slots);
        let (_, slot) = slots.front().filter(|(index, _)| *index == current)?;
        let slot = Arc::clone(slot);
        slots.pop_front();
        watched(Doing::Opening { path: source.path().to_owned() }, || loop {
            // What the way is like may be known before the first file is open.
            match slot.take_within(limits::LOOK_AGAIN) {
                Some(outcome) => return outcome,
                None => {
                    self.open_ahead(current, next, slots);
                    // Files before it had time to give back what they took.
                    self.ahead.want(current);
                }
            }
        })
    }

    /// Has the sources behind this one opened, as many as hide a round trip; and the very first with them.
    fn open_ahead(&self, current: usize, next: &mut usize, slots: &mut VecDeque<(usize, Arc<Slot>)>) {
        let is_first = self.last_store.borrow().is_none() && self.opening.strategy.prefetches_chunks();
        *next = (*next).max(if is_first { current } else { current + 1 });
        let Some(choice) = self.choice() else { return };
        self.open_refused(choice, slots);
        while *next < self.sources.len() && *next - current <= choice.requests_in_flight.min(self.files_ahead_max()) {
            if matches!(self.sources[*next].tree, SourceTree::Path(..)) {
                slots.push_back((*next, self.start_opening(*next, choice, None)));
            }
            *next += 1;
        }
    }

    /// Has those opened now for which there was no room when more were opened than it turned out to hold.
    fn open_refused(&self, choice: Choice, slots: &mut VecDeque<(usize, Arc<Slot>)>) {
        let Some(bytes) = self.last_whole_bytes.get().filter(|bytes| *bytes > 0) else { return };
        for (index, slot) in slots.iter_mut().filter(|(_, slot)| slot.is_refused()) {
            let Some(room) = self.ahead.try_lease(bytes) else { return };
            *slot = self.start_opening(*index, choice, Some(room));
        }
    }

    /// Has a source opened ahead; `room` is kept for it if there was none before.
    fn start_opening(&self, index: usize, choice: Choice, room: Option<Lease>) -> Arc<Slot> {
        let (slot, filler) = Slot::new(room.is_some());
        let claim = room.map_or_else(|| Claim::Turn(Turn::begin(&self.ahead, index)), Claim::Kept);
        let (source, opening, ahead) = (self.sources[index].clone(), self.opening.clone(), Arc::clone(&self.ahead));
        let open = move || {
            let mut opened = opening.open(&source, &FileRoom::Ahead(&ahead, index, Cell::new(claim))).ok();
            if let Some(Opened { prepared: Ok(prepared), .. }) = &mut opened {
                ask_first(prepared, &opening.options, &ahead);
            }
            filler.fill(opened);
        };
        self.ahead.run(choice, 0, Box::new(open));
        slot
    }

    /// How many files there is room for ahead, if they are like the last one.
    fn files_ahead_max(&self) -> usize {
        match self.last_whole_bytes.get() {
            None => limits::UNKNOWN_FILES_AHEAD,
            Some(0) => usize::MAX,
            Some(bytes) => (self.opening.shares.ahead / bytes).max(1) as usize,
        }
    }

    /// What is asked for at a time where the last file was; None where nothing is gained by asking early.
    fn choice(&self) -> Option<Choice> {
        let (link, gap_bytes) = match &*self.last_store.borrow() {
            Some((name, gap_bytes)) => (link_to(name), *gap_bytes),
            None => (self.sources.first().and_then(|source| link_expected(source.path())), 0),
        };
        self.opening.strategy.choice(&self.opening.options.access, link, gap_bytes)
    }

    fn run_source(
        &self,
        source_index: usize,
        source: &Source,
        ahead: Option<Opened>,
    ) -> Result<std::result::Result<(), Stopped>> {
        let opened = match ahead.map_or_else(|| self.opening.open(source, &FileRoom::Waiting(&self.budget)), Ok) {
            Ok(opened) => opened,
            Err(_) => return Ok(Err(Stopped)),
        };
        if let Some(file) = &opened.file {
            self.records.add_file(source_index, file);
            self.last_whole_bytes.set(Some(file.whole_bytes()));
            *self.last_store.borrow_mut() = Some((file.store_name().to_owned(), file.gap_bytes()));
        }
        let Prepared { tree, file_lease, columns, mut plan, entries, asked } = opened.prepared?;
        tree.other_files().into_iter().for_each(|file| self.records.add_other_file(source_index, file));
        let mut carried = Carried::new(&self.budget, plan.carried_bytes);
        let chunks = cut(&tree, &columns, entries, &plan, &self.opening.options);
        let asking = Asking::begin(&self.ahead, (&tree, &columns), chunks, asked, asks_ahead(&tree));
        while let Some(Upcoming { entries, asked }) = asking.next() {
            if self.failed_source.load(Ordering::Acquire) == source_index {
                self.ahead.forget(&asked);
                break;
            }
            let chunk = Arc::new(Chunk::new(Arc::clone(&tree), source_index, entries, columns.clone(), &self.pool));
            let made = self.run_chunk(&chunk, &mut plan, file_lease.as_ref(), &mut carried);
            self.ahead.forget(&asked);
            match made? {
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
        // From here on whatever goes wrong is told with the chunk, and with it how many entries are lost.
        let own = Reporter::new(chunk);
        let lease = ChunkLease { _values: values, _file: file_lease.cloned() };
        if self.items.send(Item::Chunk(Arc::clone(chunk), lease)).is_err() {
            return Ok(Made::Stopped);
        }
        let before = carried.take();
        let made = self.fill(chunk, plan, &before, carried);
        let made = made.unwrap_or_else(|(order, error)| {
            // Wrong bytes may be right when the consumer reads them anew; if not, it says so.
            let made = if error.kind == ReadErrorKind::BadFile { Made::Whole } else { Made::Failed };
            chunk.put_error(order, error);
            made
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
            too_many_entries(&chunk.tree, entries_count, values_bytes, stored_bytes, &known, self.opening.memory_limit)
        };
        let room = Room::Leased(&self.budget, &no_room, &self.ahead);
        let sources = fetch_carrying(chunk, group.needed, before, carried, room)?;
        let mut tasks = tasks_of(chunk, group.columns.clone(), group.needed, sources, room)?;
        // Until now only the average of its branch was known.
        let most = plan.scratch_bytes.max(self.opening.shares.own_scratch);
        let largest = tasks.iter().filter(|task| task.scratch.sum() > most).max_by_key(|task| task.scratch.sum());
        if let Some(largest) = largest {
            let (branch, stored) = (chunk.columns[largest.column], largest.source.stored_bytes() as u64);
            let basket = BasketBytes { stored: buffer_bytes(stored), scratch: largest.scratch.sum() };
            let fits = plan.set_scratch(basket.scratch, self.opening.memory_limit);
            if !fits || self.set_scratch(basket.scratch, 1).is_err() {
                tasks.into_iter().for_each(Task::cancel);
                return Err(too_large(&chunk.tree, branch, basket, plan.largest, self.opening.memory_limit));
            }
        }
        tasks.iter_mut().for_each(|task| task.at_work = Some(self.budget.task()));
        Ok(tasks)
    }

    /// What the values of so many entries take of the memory limit.
    fn values_bytes(&self, plan: &MemoryPlan, entries_count: u64) -> u64 {
        if self.opening.options.keeps_values {
            0
        } else {
            plan.values_bytes(entries_count)
        }
    }

    /// Sets aside what decompressing a basket takes that needs so many bytes, and if there is room what all decoders
    /// would take with such ones.
    fn set_scratch(&self, bytes: u64, own_chunks: usize) -> std::result::Result<(), Refusal> {
        let all = bytes.saturating_mul(self.opening.options.threads.max(1) as u64);
        let wish = all.min(self.opening.shares.leased / limits::SCRATCH_MEMORY_SHARE);
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

/// Whether anything is asked for ahead of a tree's chunks.
fn asks_ahead(tree: &Tree) -> bool {
    let file = tree.file();
    file.strategy().prefetches_chunks() && file.choice().requests_in_flight > 0 && file.whole_bytes() == 0
}

/// Asks for the first chunk of a tree that was opened ahead.
fn ask_first(prepared: &mut Prepared, options: &Options, ahead: &Arc<Prefetcher>) {
    let Prepared { tree, columns, plan, entries, asked, .. } = prepared;
    if asks_ahead(tree) {
        if let Some(entries) = cut(tree, columns, entries.clone(), plan, options).next() {
            // Whatever is wrong is told when the chunk is made.
            let by_file = tree.ranges_to_fetch(columns, &entries).unwrap_or_default();
            by_file.iter().for_each(|one| ahead.ask(&one.file, &one.ranges, asked));
        }
    }
}

/// Cuts a range of entries into chunks: at the boundaries that the baskets of all columns share where there are any.
fn cut(
    tree: &Tree,
    columns: &[usize],
    entries: Range<u64>,
    plan: &MemoryPlan,
    options: &Options,
) -> impl Iterator<Item = Range<u64>> {
    let BytesPerEntry { stored, plain } = tree.bytes_per_entry(columns);
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
