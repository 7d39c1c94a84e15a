//! Schedules prefetches for the next chunks of a source, in order, as memory becomes available. The scheduler runs in a
//! separate thread, so that it never has to wait for the fetcher.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{guarded, ReadError, Result};
use crate::fetch::prefetch::{Batch, PendingRange, Prefetcher};
use crate::limits;
use crate::memory::budget::{Lease, Verdict};
use crate::tree::Tree;

/// The next chunk, with the prefetches that were started for it.
pub(crate) struct Upcoming {
    pub(crate) entries: Range<u64>,
    pub(crate) prefetches: Vec<Arc<PendingRange>>,
}

/// A chunk that the fetcher has not taken yet.
struct Expected {
    chunk: Upcoming,
    /// Batches that have not been started yet. None until the ranges of the chunk have been looked up.
    batches: Option<VecDeque<Batch>>,
}

type Chunks = Box<dyn Iterator<Item = Range<u64>> + Send>;

/// The chunks of a source, and the settings for prefetching them.
pub(crate) struct Schedule {
    pub(crate) tree: Arc<Tree>,
    pub(crate) columns: Vec<usize>,
    /// The entry ranges of the chunks.
    pub(crate) chunks: Chunks,
    /// Prefetches of the first chunk that have already been started.
    pub(crate) first_prefetches: Vec<Arc<PendingRange>>,
    /// Whether prefetching is enabled.
    pub(crate) is_prefetching: bool,
}

struct State {
    /// Chunks whose ranges have not been looked up yet.
    later: Chunks,
    expected: VecDeque<Expected>,
    /// The error that stopped the scheduler, if any.
    failure: Option<ReadError>,
}

struct Shared {
    tree: Arc<Tree>,
    columns: Vec<usize>,
    prefetcher: Arc<Prefetcher>,
    state: Mutex<State>,
    changed: Condvar,
    /// Number of chunks that the fetcher has taken, which is also the index of the first expected chunk.
    taken_count: AtomicU64,
    is_closed: AtomicBool,
}

/// The chunks of a source, in order. Dropping the scheduler drops the prefetches of all chunks that were not taken.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The next step of the scheduler.
enum Step {
    /// Look up the ranges of this chunk.
    LookUp { number: u64, entries: Range<u64> },
    /// Start a batch of this size for this chunk.
    Start { number: u64, bytes: u64 },
    /// Wait until a chunk is taken.
    Wait,
    /// Stop.
    Done,
}

impl Scheduler {
    /// Starts as many prefetches as memory allows, and a thread that starts the remaining ones.
    pub(crate) fn start(prefetcher: &Arc<Prefetcher>, schedule: Schedule) -> Self {
        let Schedule { tree, columns, chunks: mut later, first_prefetches, is_prefetching } = schedule;
        let mut expected = VecDeque::new();
        if let Some(entries) = later.next() {
            let chunk = Upcoming { entries, prefetches: first_prefetches };
            expected.push_back(Expected { chunk, batches: None });
        }
        let shared = Arc::new(Shared {
            tree,
            columns,
            prefetcher: Arc::clone(prefetcher),
            state: Mutex::new(State { later, expected, failure: None }),
            changed: Condvar::new(),
            taken_count: AtomicU64::new(0),
            is_closed: AtomicBool::new(!is_prefetching),
        });
        let is_done = !is_prefetching || shared.start_what_fits();
        let (own, name) = (Arc::clone(&shared), "branchline-schedule".to_owned());
        let start = || {
            let activity = own.prefetcher.watch().thread("schedule");
            let run = move || {
                activity.attach();
                own.run();
            };
            std::thread::Builder::new().name(name).spawn(run).ok()
        };
        let thread = if is_done { None } else { start() };
        Self { shared, thread }
    }

    /// Returns the next chunk, and ends its prefetching. Returns None after the last chunk, and an error if the
    /// scheduler panicked.
    pub(crate) fn next(&self) -> Result<Option<Upcoming>> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        let next = match state.expected.pop_front() {
            Some(expected) => Some(expected.chunk),
            None => state.later.next().map(|entries| Upcoming { entries, prefetches: Vec::new() }),
        };
        shared.taken_count.fetch_add(1, Ordering::AcqRel);
        drop(state);
        shared.wake();
        Ok(next)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let left = std::mem::take(&mut self.shared.lock().expected);
        left.iter().for_each(|one| self.shared.prefetcher.forget(&one.chunk.prefetches));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all threads that are waiting for memory or for a chunk to be taken.
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
        self.prefetcher.wake();
    }

    /// The body of the scheduler's thread. If it panics, the fetcher gets the error instead of the next chunk.
    fn run(&self) {
        let path = self.tree.file().path();
        if let Err(error) = guarded(path, || {
            self.prefetch_all();
            Ok(())
        }) {
            self.lock().failure = Some(error);
        }
    }

    fn prefetch_all(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            let step = self.next_step();
            match step {
                Step::LookUp { number, entries } => self.look_up(number, &entries),
                Step::Start { number, bytes } => {
                    let verdict = |free| {
                        let is_of_use = self.taken_count.load(Ordering::Acquire) <= number;
                        match is_of_use && !self.is_closed.load(Ordering::Acquire) {
                            true if bytes <= free => Verdict::Take,
                            true => Verdict::Wait,
                            false => Verdict::Refuse,
                        }
                    };
                    match self.prefetcher.lease_when(bytes, verdict) {
                        Some(lease) => self.start(number, lease),
                        // The chunk was taken, the stream was closed, or the batch exceeds the budget.
                        None => self.give_up(number),
                    }
                }
                Step::Wait => {
                    let is_full = |state: &mut State| {
                        state.expected.len() >= limits::CHUNKS_PREFETCHED_MAX && !self.is_closed.load(Ordering::Acquire)
                    };
                    drop(self.changed.wait_while(self.lock(), is_full));
                }
                Step::Done => return,
            }
        }
    }

    /// Starts as many prefetches as memory allows. Returns whether all have been started.
    fn start_what_fits(&self) -> bool {
        loop {
            match self.next_step() {
                Step::LookUp { number, entries } => self.look_up(number, &entries),
                Step::Start { number, bytes } => match self.prefetcher.try_lease(bytes) {
                    Some(lease) => self.start(number, lease),
                    None => return false,
                },
                Step::Wait => return false,
                Step::Done => return true,
            }
        }
    }

    fn next_step(&self) -> Step {
        let mut state = self.lock();
        let first = self.taken_count.load(Ordering::Acquire);
        for position in 0..limits::CHUNKS_PREFETCHED_MAX {
            if position == state.expected.len() {
                let Some(entries) = state.later.next() else { return Step::Done };
                let chunk = Upcoming { entries, prefetches: Vec::new() };
                state.expected.push_back(Expected { chunk, batches: None });
            }
            let number = first + position as u64;
            match &state.expected[position] {
                Expected { batches: None, chunk } => return Step::LookUp { number, entries: chunk.entries.clone() },
                Expected { batches: Some(batches), .. } => {
                    if let Some(batch) = batches.front() {
                        return Step::Start { number, bytes: batch.leased_bytes() };
                    }
                }
            }
        }
        Step::Wait
    }

    /// Looks up the ranges of a chunk. For an RNTuple, this may read page lists.
    fn look_up(&self, number: u64, entries: &Range<u64>) {
        // If this fails, the fetcher will look up the ranges again for the chunk itself, and report the error.
        let by_file = self.tree.ranges_to_fetch(&self.columns, entries).unwrap_or_default();
        let batches = by_file.iter().flat_map(|one| self.prefetcher.batches(&one.file, &one.ranges)).collect();
        self.change(number, |expected| expected.batches = Some(batches));
    }

    /// Starts the next batch of a chunk.
    fn start(&self, number: u64, lease: Lease) {
        self.change(number, |expected| {
            if let Some(batch) = expected.batches.as_mut().and_then(VecDeque::pop_front) {
                expected.chunk.prefetches.extend(self.prefetcher.start(batch, lease));
            }
        });
    }

    /// Cancels the remaining prefetches of a chunk.
    fn give_up(&self, number: u64) {
        self.change(number, |expected| expected.batches = Some(VecDeque::new()));
    }

    /// Applies `act` to an expected chunk, unless the chunk has been taken.
    fn change(&self, number: u64, act: impl FnOnce(&mut Expected)) {
        let mut state = self.lock();
        let position = number.checked_sub(self.taken_count.load(Ordering::Acquire));
        let expected = position.and_then(|position| state.expected.get_mut(usize::try_from(position).ok()?));
        if let Some(expected) = expected {
            act(expected);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use branchline_storage::{Access, AccessMode};

    use super::*;
    use crate::error::ReadErrorKind;
    use crate::file::File;
    use crate::read::samples::events;

    #[test]
    fn a_scheduler_that_panics_fails_the_source() {
        // Use a file with no loaded bytes, and leave no memory for prefetching.
        let access = Access { mode: AccessMode::Plain, ..Access::default() };
        let tree = File::open(events().file().path(), &access).unwrap().tree(Some("events")).unwrap();
        let prefetcher = Prefetcher::new(0, &Arc::default());
        let first = 0..tree.entries_count();
        let chunks = Box::new(std::iter::once(first).chain(std::iter::from_fn(|| panic!("no second chunk"))));
        let columns = tree.readable().collect();
        let schedule = Schedule { tree, columns, chunks, first_prefetches: Vec::new(), is_prefetching: true };
        let scheduler = Scheduler::start(&prefetcher, schedule);
        while scheduler.shared.lock().failure.is_none() {
            std::thread::yield_now();
        }
        let error = scheduler.next().err().unwrap();
        assert_eq!(error.kind, ReadErrorKind::Internal);
        assert!(error.message.contains("no second chunk") && error.path == scheduler.shared.tree.file().path());
        prefetcher.close();
    }
}
