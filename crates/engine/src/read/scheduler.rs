//! Schedules the prefetch of a source's next chunks, in their order, as soon as there is memory for more. It has a thread
//! of its own, so that it does not wait for the fetcher.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::limits;
use crate::read::budget::{Lease, Verdict};
use crate::read::prefetch::{Batch, PendingRange, Prefetcher};
use crate::tree::Tree;
use branchline_trace::panics::guarded;

/// A chunk that comes next, and its prefetches.
pub(crate) struct Upcoming {
    pub(crate) entries: Range<u64>,
    pub(crate) asked: Vec<Arc<PendingRange>>,
}

/// A chunk that is still to come.
struct Expected {
    chunk: Upcoming,
    /// Its batches that are not started yet; None until they are looked up.
    left: Option<VecDeque<Batch>>,
}

type Chunks = Box<dyn Iterator<Item = Range<u64>> + Send>;

struct State {
    still_to_come: Chunks,
    expected: VecDeque<Expected>,
}

struct Shared {
    tree: Arc<Tree>,
    columns: Vec<usize>,
    ahead: Arc<Prefetcher>,
    state: Mutex<State>,
    changed: Condvar,
    /// Chunks that the fetcher took: the number of the first that is expected.
    taken_count: AtomicU64,
    is_closed: AtomicBool,
}

/// The chunks of a source in their order. When it is dropped, prefetches that nobody took are dropped too.
pub(crate) struct Asking {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The next step of the scheduler.
enum Next {
    /// Look up which ranges this chunk needs.
    LookUp(u64, Range<u64>),
    /// Start a batch of so many bytes of this chunk.
    Ask(u64, u64),
    /// Nothing until a chunk is taken.
    Wait,
    /// Nothing more.
    Done,
}

impl Asking {
    /// `asked` are prefetches of the first chunk that are started already. Without `asks` nothing is prefetched.
    pub(crate) fn begin(
        ahead: &Arc<Prefetcher>,
        (tree, columns): (&Arc<Tree>, &[usize]),
        chunks: impl Iterator<Item = Range<u64>> + Send + 'static,
        asked: Vec<Arc<PendingRange>>,
        asks: bool,
    ) -> Self {
        let mut still_to_come: Chunks = Box::new(chunks);
        let mut expected = VecDeque::new();
        if let Some(entries) = still_to_come.next() {
            expected.push_back(Expected { chunk: Upcoming { entries, asked }, left: None });
        }
        let shared = Arc::new(Shared {
            tree: Arc::clone(tree),
            columns: columns.to_vec(),
            ahead: Arc::clone(ahead),
            state: Mutex::new(State { still_to_come, expected }),
            changed: Condvar::new(),
            taken_count: AtomicU64::new(0),
            is_closed: AtomicBool::new(!asks),
        });
        let is_done = !asks || shared.ask_what_there_is_room_for();
        let (own, name) = (Arc::clone(&shared), "branchline-ask".to_owned());
        let work = move || {
            // If it fails, the fetcher reads what was not prefetched.
            let _ = guarded(|| own.ask_all());
        };
        let thread = (!is_done).then(|| std::thread::Builder::new().name(name).spawn(work).ok()).flatten();
        Self { shared, thread }
    }

    /// The next chunk. Nothing more of it is prefetched.
    pub(crate) fn next(&self) -> Option<Upcoming> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let next = match state.expected.pop_front() {
            Some(expected) => Some(expected.chunk),
            None => state.still_to_come.next().map(|entries| Upcoming { entries, asked: Vec::new() }),
        };
        shared.taken_count.fetch_add(1, Ordering::AcqRel);
        drop(state);
        shared.wake();
        next
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let left = std::mem::take(&mut self.shared.lock().expected);
        left.iter().for_each(|one| self.shared.ahead.forget(&one.chunk.asked));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait for memory, or for a chunk to be taken.
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
        self.ahead.look_again();
    }

    fn ask_all(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            let next = self.next();
            match next {
                Next::LookUp(number, entries) => self.look_up(number, &entries),
                Next::Ask(number, bytes) => {
                    let verdict = |free| {
                        let is_of_use = self.taken_count.load(Ordering::Acquire) <= number;
                        match is_of_use && !self.is_closed.load(Ordering::Acquire) {
                            true if bytes <= free => Verdict::Take,
                            true => Verdict::Wait,
                            false => Verdict::Refuse,
                        }
                    };
                    match self.ahead.lease_when(bytes, verdict) {
                        Some(lease) => self.ask(number, lease),
                        // Its chunk is taken, the stream is closed, or the batch is larger than all memory.
                        None => self.leave(number),
                    }
                }
                Next::Wait => {
                    let is_full = |state: &mut State| {
                        state.expected.len() >= limits::CHUNKS_ASKED_MAX && !self.is_closed.load(Ordering::Acquire)
                    };
                    drop(self.changed.wait_while(self.lock(), is_full));
                }
                Next::Done => return,
            }
        }
    }

    /// Starts what there is memory for now; returns whether nothing is left.
    fn ask_what_there_is_room_for(&self) -> bool {
        loop {
            match self.next() {
                Next::LookUp(number, entries) => self.look_up(number, &entries),
                Next::Ask(number, bytes) => match self.ahead.try_lease(bytes) {
                    Some(lease) => self.ask(number, lease),
                    None => return false,
                },
                Next::Wait => return false,
                Next::Done => return true,
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.lock();
        let first = self.taken_count.load(Ordering::Acquire);
        for position in 0..limits::CHUNKS_ASKED_MAX {
            if position == state.expected.len() {
                let Some(entries) = state.still_to_come.next() else { return Next::Done };
                state.expected.push_back(Expected { chunk: Upcoming { entries, asked: Vec::new() }, left: None });
            }
            let number = first + position as u64;
            match &state.expected[position] {
                Expected { left: None, chunk } => return Next::LookUp(number, chunk.entries.clone()),
                Expected { left: Some(left), .. } => {
                    if let Some(portion) = left.front() {
                        return Next::Ask(number, portion.leased_bytes());
                    }
                }
            }
        }
        Next::Wait
    }

    /// Looks up which ranges a chunk needs; for an RNTuple this may read page lists.
    fn look_up(&self, number: u64, entries: &Range<u64>) {
        // An error is reported when the chunk itself is made.
        let by_file = self.tree.ranges_to_fetch(&self.columns, entries).unwrap_or_default();
        let portions = by_file.iter().flat_map(|one| self.ahead.portions(&one.file, &one.ranges)).collect();
        self.of(number, |expected| expected.left = Some(portions));
    }

    fn ask(&self, number: u64, lease: Lease) {
        self.of(number, |expected| {
            if let Some(portion) = expected.left.as_mut().and_then(VecDeque::pop_front) {
                expected.chunk.asked.extend(self.ahead.ask_for(portion, lease));
            }
        });
    }

    /// Prefetches nothing more of a chunk.
    fn leave(&self, number: u64) {
        self.of(number, |expected| expected.left = Some(VecDeque::new()));
    }

    /// Changes an expected chunk, unless it was taken meanwhile.
    fn of(&self, number: u64, act: impl FnOnce(&mut Expected)) {
        let mut state = self.lock();
        let position = number.checked_sub(self.taken_count.load(Ordering::Acquire));
        let expected = position.and_then(|position| state.expected.get_mut(usize::try_from(position).ok()?));
        if let Some(expected) = expected {
            act(expected);
        }
    }
}
