//! Prefetch: threads that read the ranges of the next chunks, and open the next files, before the fetcher needs them, so
//! that round trips overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, Choice, RangeRead};
use branchline_trace::panics::guarded;
use branchline_trace::{journal, Counter};

use crate::file::File;
use crate::limits;
use crate::read::budget::{Budget, Lease, Verdict};
use crate::read::file_order::Order;
use crate::read::watch::{end_by, watched, Doing};
use crate::read_buffers::{buffer_bytes, read_of, share};

/// A range that a prefetch thread reads.
pub(crate) struct PendingRange {
    file: Arc<File>,
    range: ByteRange,
    /// None until it is read; then its bytes, or None if reading failed.
    answer: Mutex<Option<Option<Bytes>>>,
    answered: Condvar,
}

impl PendingRange {
    fn answer(&self, bytes: Option<Bytes>) {
        *lock(&self.answer) = Some(bytes);
        self.answered.notify_all();
    }

    /// Waits until it is read and returns a part of it. None if reading failed: the caller reads again and sees why.
    pub(crate) fn wait(&self, range: ByteRange) -> Option<Bytes> {
        let store = self.file.store_name().to_owned();
        let doing = Doing::Reading {
            path: self.file.path().to_owned(),
            store,
            bytes: self.range.length,
            offset: self.range.offset,
        };
        let answer = watched(doing, || {
            let mut answer = lock(&self.answer);
            while answer.is_none() {
                answer = self.answered.wait(answer).unwrap_or_else(PoisonError::into_inner);
            }
            answer
        });
        let start = usize::try_from(range.offset.checked_sub(self.range.offset)?).ok()?;
        let bytes = answer.as_ref()?.as_ref()?;
        let end = start.checked_add(usize::try_from(range.length).ok()?).filter(|end| *end <= bytes.len())?;
        Some(bytes.slice(start..end))
    }

    fn holds(&self, range: ByteRange) -> bool {
        let end = |range: ByteRange| range.offset.saturating_add(range.length);
        self.range.offset <= range.offset && end(range) <= end(self.range)
    }
}

/// Work for a prefetch thread, and how many bytes are in flight while it lasts.
struct Job {
    bytes: u64,
    /// When it was decided to read it, if a trace is recorded.
    since: Option<Instant>,
    work: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Lanes {
    queue: VecDeque<Job>,
    idle_count: usize,
    due_bytes: u64,
    bytes_max: u64,
    threads_max: usize,
    /// The numbers of the files that wait to be read whole until less is in flight.
    waiting: BTreeSet<usize>,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

impl Lanes {
    /// Whether so many more bytes may be in flight.
    fn has_room(&self, bytes: u64) -> bool {
        bytes == 0 || self.due_bytes == 0 || self.due_bytes.saturating_add(bytes) <= self.bytes_max
    }
}

/// Bytes in flight, until this is dropped.
pub(crate) struct DueBytes {
    ahead: Arc<Prefetcher>,
    bytes: u64,
}

impl Drop for DueBytes {
    fn drop(&mut self) {
        lock(&self.ahead.lanes).due_bytes -= self.bytes;
        self.ahead.changed.notify_all();
    }
}

/// Ranges of a file that one prefetch reads.
pub(crate) struct Batch {
    file: Arc<File>,
    ranges: Vec<ByteRange>,
}

impl Batch {
    /// Bytes that they take in memory.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| buffer_bytes(range.length)).sum()
    }
}

/// By the address of its file, which each range keeps alive, and its offset.
type Pieces = HashMap<usize, BTreeMap<u64, Arc<PendingRange>>>;

/// The prefetch threads of one stream, and what they read.
pub(crate) struct Prefetcher {
    budget: Arc<Budget>,
    lanes: Mutex<Lanes>,
    changed: Condvar,
    pieces: Mutex<Pieces>,
    order: Arc<Order>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(file: &Arc<File>) -> usize {
    Arc::as_ptr(file) as usize
}

impl Prefetcher {
    /// Prefetched bytes take at most `bytes_max`, which nothing else of the stream uses.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        let (budget, order) = (Budget::new(bytes_max, 0), Arc::default());
        Arc::new(Self { budget, lanes: Mutex::default(), changed: Condvar::new(), pieces: Mutex::default(), order })
    }

    /// Leases so many bytes if they are free.
    pub(crate) fn try_lease(&self, bytes: u64) -> Option<Lease> {
        self.budget.try_lease(bytes)
    }

    /// Leases so many bytes when `decide` takes them; None if it refuses.
    pub(crate) fn lease_when(&self, bytes: u64, decide: impl FnMut(u64) -> Verdict) -> Option<Lease> {
        self.budget.lease_when(bytes, decide)
    }

    /// Leases the bytes of a file that is read whole, in the order of the files; None if the fetcher is to read it.
    pub(crate) fn lease_file(&self, index: usize, bytes: u64) -> Option<Lease> {
        let lanes = lock(&self.lanes).threads_max;
        let _waiting = self.order.wait();
        self.budget.lease_when(bytes, |free| self.order.verdict(index, bytes, free, lanes))
    }

    /// The fetcher waits for this file.
    pub(crate) fn want(&self, index: usize) {
        self.order.want(index);
        self.look_again();
    }

    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    /// Wakes all that wait for memory.
    pub(crate) fn look_again(&self) {
        self.budget.look_again();
        self.changed.notify_all();
    }

    /// Runs some work, during which so many bytes are in flight, in one of the chosen number of threads.
    pub(crate) fn run(self: &Arc<Self>, choice: Choice, bytes: u64, work: Box<dyn FnOnce() + Send>) {
        let (mut lanes, mut undone) = (lock(&self.lanes), None);
        if lanes.is_closed {
            return;
        }
        (lanes.bytes_max, lanes.threads_max) = (choice.bytes_in_flight, choice.requests_in_flight);
        lanes.queue.push_back(Job { bytes, since: journal::is_on().then(Instant::now), work });
        if lanes.idle_count < lanes.queue.len() && lanes.threads.len() < choice.requests_in_flight {
            let own = Arc::clone(self);
            let lane = std::thread::Builder::new().name("branchline-ahead".to_owned()).spawn(move || own.work());
            // If no thread can be started, the fetcher does the work itself.
            match lane {
                Ok(thread) => lanes.threads.push(thread),
                Err(_) if lanes.threads.is_empty() => undone = lanes.queue.pop_back(),
                Err(_) => {}
            }
        }
        drop(lanes);
        drop(undone);
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut lanes = lock(&self.lanes);
        loop {
            if lanes.is_closed {
                return;
            }
            let has_room = lanes.queue.front().is_some_and(|job| lanes.has_room(job.bytes));
            if let Some(job) = has_room.then(|| lanes.queue.pop_front()).flatten() {
                lanes.due_bytes += job.bytes;
                drop(lanes);
                let bytes = job.bytes;
                let _decided = journal::decided(job.since);
                // If it panics, what it drops wakes those that wait for it.
                let _ = guarded(job.work);
                lanes = lock(&self.lanes);
                lanes.due_bytes -= bytes;
                self.changed.notify_all();
                continue;
            }
            lanes.idle_count += 1;
            lanes = self.changed.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            lanes.idle_count -= 1;
        }
    }

    /// Waits until fewer bytes are in flight and no earlier file waits: requests that share the link are slower. From then
    /// on so many bytes are in flight until the result is dropped. Half of the bytes that may be in flight are kept for
    /// earlier files that are still being opened.
    pub(crate) fn wait_until_due(self: &Arc<Self>, file_index: usize, bytes: u64) -> DueBytes {
        let mut lanes = lock(&self.lanes);
        lanes.waiting.insert(file_index);
        let has_room = |lanes: &Lanes| {
            let kept = if self.order.earlier_count(file_index) > 0 { lanes.bytes_max / 2 } else { 0 };
            lanes.has_room(bytes.saturating_add(kept))
        };
        while !lanes.is_closed && (!has_room(&lanes) || lanes.waiting.first() != Some(&file_index)) {
            lanes = self.changed.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
        lanes.waiting.remove(&file_index);
        lanes.due_bytes += bytes;
        self.changed.notify_all();
        DueBytes { ahead: Arc::clone(self), bytes }
    }

    /// Those of these ranges of a file that are not prefetched yet, near ones joined, in batches of a bounded size.
    pub(crate) fn portions(&self, file: &Arc<File>, wanted: &[ByteRange]) -> Vec<Batch> {
        let new: Vec<ByteRange> = wanted.iter().filter(|range| self.find(file, **range).is_none()).copied().collect();
        let plan = coalesce(&new, file.choice().gap_bytes, MAX_JOINED_BYTES);
        let mut portions: Vec<Batch> = Vec::new();
        let mut room = 0;
        for range in plan.ranges {
            let bytes = buffer_bytes(range.length);
            match portions.last_mut() {
                Some(portion) if bytes <= room => portion.ranges.push(range),
                _ => {
                    portions.push(Batch { file: Arc::clone(file), ranges: vec![range] });
                    room = MAX_JOINED_BYTES;
                }
            }
            room = room.saturating_sub(bytes);
        }
        file.counters().add(Counter::GapBytes, plan.gap_bytes);
        portions
    }

    /// Prefetches these ranges of a file as far as there is memory; `asked` gets what it started.
    pub(crate) fn ask(self: &Arc<Self>, file: &Arc<File>, wanted: &[ByteRange], asked: &mut Vec<Arc<PendingRange>>) {
        for portion in self.portions(file, wanted) {
            let Some(lease) = self.try_lease(portion.leased_bytes()) else { return };
            asked.extend(self.ask_for(portion, lease));
        }
    }

    /// Prefetches a batch, whose memory is leased.
    pub(crate) fn ask_for(self: &Arc<Self>, portion: Batch, lease: Lease) -> Vec<Arc<PendingRange>> {
        let Batch { file, ranges } = portion;
        let choice = file.choice();
        let piece = |range: &ByteRange| {
            let (answer, answered) = (Mutex::default(), Condvar::new());
            Arc::new(PendingRange { file: Arc::clone(&file), range: *range, answer, answered })
        };
        let pieces: Vec<Arc<PendingRange>> = ranges.iter().map(piece).collect();
        {
            let mut known = lock(&self.pieces);
            let of_file = known.entry(key_of(&file)).or_default();
            pieces.iter().for_each(|piece| drop(of_file.insert(piece.range.offset, Arc::clone(piece))));
        }
        let due = Due { pieces: pieces.clone(), lease };
        let bytes = ranges.iter().map(|range| range.length).sum();
        let own = Arc::clone(self);
        let read = move || {
            due.read();
            // The link was measured meanwhile.
            lock(&own.lanes).bytes_max = file.choice().bytes_in_flight;
        };
        self.run(choice, bytes, Box::new(read));
        pieces
    }

    /// The prefetch that holds this range.
    pub(crate) fn find(&self, file: &Arc<File>, range: ByteRange) -> Option<Arc<PendingRange>> {
        let pieces = lock(&self.pieces);
        let before = pieces.get(&key_of(file))?.range(..=range.offset).next_back()?.1;
        before.holds(range).then(|| Arc::clone(before))
    }

    /// Drops prefetches that nobody needs any more.
    pub(crate) fn forget(&self, asked: &[Arc<PendingRange>]) {
        let mut pieces = lock(&self.pieces);
        for one in asked {
            let key = key_of(&one.file);
            let Some(of_file) = pieces.get_mut(&key) else { continue };
            if of_file.get(&one.range.offset).is_some_and(|known| Arc::ptr_eq(known, one)) {
                of_file.remove(&one.range.offset);
            }
            if of_file.is_empty() {
                pieces.remove(&key);
            }
        }
    }

    /// Ends prefetching. Waits for the threads, for at most `CLOSE_PATIENCE`.
    pub(crate) fn close(&self) {
        let mut lanes = lock(&self.lanes);
        lanes.is_closed = true;
        let (threads, queue) = (std::mem::take(&mut lanes.threads), std::mem::take(&mut lanes.queue));
        drop(lanes);
        drop(queue);
        self.budget.close();
        self.changed.notify_all();
        let deadline = Instant::now() + limits::CLOSE_PATIENCE;
        threads.into_iter().for_each(|thread| end_by(deadline, thread));
    }
}

/// The turn of a file among those that are opened, until it is known how much memory it takes.
pub(crate) struct Turn {
    ahead: Arc<Prefetcher>,
    index: usize,
}

impl Turn {
    pub(crate) fn begin(ahead: &Arc<Prefetcher>, index: usize) -> Self {
        ahead.order().begin(index);
        Self { ahead: Arc::clone(ahead), index }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ahead.order().end(self.index);
        self.ahead.look_again();
    }
}

/// Ranges to be read. When it is dropped, also by a panic, each of them has an answer.
struct Due {
    pieces: Vec<Arc<PendingRange>>,
    lease: Lease,
}

impl Due {
    fn read(mut self) {
        let Some(first) = self.pieces.first() else { return };
        let file = Arc::clone(&first.file);
        let mut reads: Vec<RangeRead> = self.pieces.iter().map(|piece| read_of(piece.range)).collect();
        if file.read_ranges(&mut reads).is_err() {
            return;
        }
        for (piece, read) in self.pieces.iter().zip(reads) {
            let lease = self.lease.split(buffer_bytes(piece.range.length));
            piece.answer(Some(share(read, Some(lease))));
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        for piece in &self.pieces {
            let mut answer = lock(&piece.answer);
            if answer.is_none() {
                *answer = Some(None);
                piece.answered.notify_all();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ahead(bytes_in_flight: u64) -> Arc<Prefetcher> {
        let ahead = Prefetcher::new(1 << 30);
        let choice = Choice { gap_bytes: 0, requests_in_flight: 1, bytes_in_flight };
        ahead.run(choice, 0, Box::new(|| {}));
        ahead
    }

    #[test]
    fn files_are_due_in_their_order_and_not_all_at_once() {
        let ahead = ahead(100);
        let first = ahead.wait_until_due(0, 60);
        let (told, order) = std::sync::mpsc::channel();
        let wait = |index: usize, bytes: u64| {
            let (ahead, told) = (Arc::clone(&ahead), told.clone());
            std::thread::spawn(move || {
                let due = ahead.wait_until_due(index, bytes);
                told.send(index).unwrap();
                due
            })
        };
        let third = wait(3, 30);
        while lock(&ahead.lanes).due_bytes != 90 {
            std::thread::yield_now();
        }
        let later = [wait(2, 50), wait(1, 200)];
        while lock(&ahead.lanes).waiting.len() != 2 {
            std::thread::yield_now();
        }
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(3));
        drop((first, third.join().unwrap()));
        // What is larger than all that may be due comes alone.
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(1));
        let [second, largest] = later;
        drop(largest.join().unwrap());
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(2));
        drop(second.join().unwrap());
        assert_eq!(lock(&ahead.lanes).due_bytes, 0);
        ahead.close();
    }

    #[test]
    fn nobody_waits_any_more_once_all_is_closed() {
        let ahead = ahead(10);
        let first = ahead.wait_until_due(0, 10);
        let other = Arc::clone(&ahead);
        let waits = std::thread::spawn(move || drop(other.wait_until_due(1, 10)));
        ahead.close();
        waits.join().unwrap();
        drop(first);
    }
}
