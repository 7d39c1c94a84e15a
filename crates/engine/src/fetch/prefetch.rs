//! Prefetching: threads read the ranges of the next chunks and open the next files before the fetcher needs them, so
//! that round trips overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, Choice, RangeRead};
use branchline_trace::{journal, panics, Counter};

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::fetch::file_order::FileOrder;
use crate::file::watch::{end_by, waiting_for_others, Watch};
use crate::file::File;
use crate::limits;
use crate::memory::budget::{Budget, Lease, Verdict};
use crate::memory::buffers::{buffer_bytes, read_of, share};

/// A range that a prefetch thread reads.
pub(crate) struct PendingRange {
    file: Arc<File>,
    range: ByteRange,
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
}

/// The outcome of a prefetch.
enum Answer {
    Read(Bytes),
    /// The storage failed, or the prefetch was cancelled, so nothing was read.
    NotRead,
    /// The prefetch thread panicked.
    Panicked(ReadError),
}

impl PendingRange {
    /// Sets the answer, unless the range already has one.
    fn answer(&self, answer: Answer) {
        lock(&self.answer).get_or_insert(answer);
        self.answered.notify_all();
    }

    /// Waits for the read, and returns a part of its bytes. Returns None if the storage failed: the caller then reads
    /// the range again, and gets the error if it persists. Returns an error if the prefetch panicked.
    pub(crate) fn wait(&self, range: ByteRange) -> Result<Option<Bytes>> {
        let answer = waiting_for_others(|| {
            let mut answer = lock(&self.answer);
            while answer.is_none() {
                answer = self.answered.wait(answer).unwrap_or_else(PoisonError::into_inner);
            }
            answer
        });
        match &*answer {
            Some(Answer::Read(bytes)) => Ok(self.part(bytes, range)),
            Some(Answer::Panicked(error)) => Err(error.clone()),
            Some(Answer::NotRead) | None => Ok(None),
        }
    }

    fn part(&self, bytes: &Bytes, range: ByteRange) -> Option<Bytes> {
        let start = usize::try_from(range.offset.checked_sub(self.range.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(range.length).ok()?).filter(|end| *end <= bytes.len())?;
        Some(bytes.slice(start..end))
    }

    fn holds(&self, range: ByteRange) -> bool {
        let end = |range: ByteRange| range.offset.saturating_add(range.length);
        self.range.offset <= range.offset && end(range) <= end(self.range)
    }
}

/// Work for a prefetch thread, and the number of bytes that are in flight while the work runs.
struct Job {
    bytes: u64,
    /// The time at which the job was queued, if a trace is recorded.
    queued: Option<Instant>,
    work: Box<dyn FnOnce() + Send>,
}

/// The prefetch threads and their work queue.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle_count: usize,
    bytes_in_flight: u64,
    bytes_in_flight_max: u64,
    threads_max: usize,
    /// Indices of the files that will be read whole and are waiting until fewer bytes are in flight.
    waiting_files: BTreeSet<usize>,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

impl Queue {
    /// Whether this many more bytes are within the limit for bytes in flight.
    fn has_room(&self, bytes: u64) -> bool {
        let sum = self.bytes_in_flight.saturating_add(bytes);
        bytes == 0 || self.bytes_in_flight == 0 || sum <= self.bytes_in_flight_max
    }
}

/// Counts bytes as in flight until dropped.
pub(crate) struct BytesInFlight {
    prefetcher: Arc<Prefetcher>,
    bytes: u64,
}

impl Drop for BytesInFlight {
    fn drop(&mut self) {
        lock(&self.prefetcher.queue).bytes_in_flight -= self.bytes;
        self.prefetcher.changed.notify_all();
    }
}

/// The ranges of a file that one prefetch job reads.
pub(crate) struct Batch {
    file: Arc<File>,
    ranges: Vec<ByteRange>,
}

impl Batch {
    /// Number of bytes to lease for the ranges.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| buffer_bytes(range.length)).sum()
    }
}

/// Pending ranges, keyed by the address of the file in memory, then by offset. Each range keeps its file alive, so that
/// the address is not reused.
type Pending = HashMap<usize, BTreeMap<u64, Arc<PendingRange>>>;

/// The prefetch threads of a stream, and the ranges that the threads read.
pub(crate) struct Prefetcher {
    budget: Arc<Budget>,
    queue: Mutex<Queue>,
    changed: Condvar,
    pending: Mutex<Pending>,
    file_order: Arc<FileOrder>,
    watch: Arc<Watch>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(file: &Arc<File>) -> usize {
    Arc::as_ptr(file) as usize
}

impl Prefetcher {
    /// Creates a prefetcher. Prefetched bytes take at most `bytes_max`, which is separate from the stream's other
    /// memory. `watch` watches the threads.
    pub(crate) fn new(bytes_max: u64, watch: &Arc<Watch>) -> Arc<Self> {
        let (budget, file_order) = (Budget::new(bytes_max, 0), Arc::default());
        let (queue, changed, pending) = (Mutex::default(), Condvar::new(), Mutex::default());
        Arc::new(Self { budget, queue, changed, pending, file_order, watch: Arc::clone(watch) })
    }

    /// The watch over the prefetch threads.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Leases this many bytes if they are free, without waiting.
    pub(crate) fn try_lease(&self, bytes: u64) -> Option<Lease> {
        self.budget.try_lease(bytes)
    }

    /// Leases this many bytes once `decide` accepts. Returns None if `decide` refuses.
    pub(crate) fn lease_when(&self, bytes: u64, decide: impl FnMut(u64) -> Verdict) -> Option<Lease> {
        self.budget.lease_when(bytes, decide)
    }

    /// Leases the memory for a file that is read whole, in file order. Returns None if the fetcher has to read the file
    /// instead.
    pub(crate) fn lease_file(&self, index: usize, bytes: u64) -> Option<Lease> {
        let threads_max = lock(&self.queue).threads_max;
        let _waiting = self.file_order.wait();
        self.budget.lease_when(bytes, |free| self.file_order.verdict(index, bytes, free, threads_max))
    }

    /// Tells the file order which file the fetcher is waiting for.
    pub(crate) fn want(&self, index: usize) {
        self.file_order.want(index);
        self.wake();
    }

    /// Wakes all threads that wait for memory, so that each checks again whether it may lease the memory.
    pub(crate) fn wake(&self) {
        self.budget.wake();
        self.changed.notify_all();
    }

    /// Runs `work` in one of up to `choice.requests_in_flight` threads, and counts this many bytes as in flight
    /// meanwhile.
    pub(crate) fn run(self: &Arc<Self>, choice: Choice, bytes: u64, work: Box<dyn FnOnce() + Send>) {
        let (mut queue, mut undone) = (lock(&self.queue), None);
        if queue.is_closed {
            return;
        }
        (queue.bytes_in_flight_max, queue.threads_max) = (choice.bytes_in_flight, choice.requests_in_flight);
        queue.jobs.push_back(Job { bytes, queued: journal::is_on().then(Instant::now), work });
        if queue.idle_count < queue.jobs.len() && queue.threads.len() < choice.requests_in_flight {
            let (own, activity) = (Arc::clone(self), self.watch.thread("prefetch"));
            let work = move || {
                activity.attach();
                own.work();
            };
            let thread = std::thread::Builder::new().name("branchline-prefetch".to_owned()).spawn(work);
            // If no thread can be started, the job is dropped, which tells the fetcher to do the work itself.
            match thread {
                Ok(thread) => queue.threads.push(thread),
                Err(_) if queue.threads.is_empty() => undone = queue.jobs.pop_back(),
                Err(_) => {}
            }
        }
        drop(queue);
        drop(undone);
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_closed {
                return;
            }
            let has_room = queue.jobs.front().is_some_and(|job| queue.has_room(job.bytes));
            if let Some(job) = has_room.then(|| queue.jobs.pop_front()).flatten() {
                queue.bytes_in_flight += job.bytes;
                drop(queue);
                let bytes = job.bytes;
                let _queued = journal::queued_since(job.queued);
                // The work reports its own panics, which must not end the thread.
                let _ = panics::guarded(job.work);
                queue = lock(&self.queue);
                queue.bytes_in_flight -= bytes;
                self.changed.notify_all();
                continue;
            }
            queue.idle_count += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_count -= 1;
        }
    }

    /// Waits until a file that is read whole may be requested: its bytes must be within the limit for bytes in flight,
    /// and no earlier file may be waiting, because parallel requests share the link and slow each other down. The bytes
    /// count as in flight until the result is dropped. While earlier files are still being opened, half of the limit is
    /// reserved for them.
    pub(crate) fn wait_for_link(self: &Arc<Self>, file_index: usize, bytes: u64) -> BytesInFlight {
        let mut queue = lock(&self.queue);
        queue.waiting_files.insert(file_index);
        let has_room = |queue: &Queue| {
            let kept = if self.file_order.earlier_count(file_index) > 0 { queue.bytes_in_flight_max / 2 } else { 0 };
            queue.has_room(bytes.saturating_add(kept))
        };
        while !queue.is_closed && (!has_room(&queue) || queue.waiting_files.first() != Some(&file_index)) {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.waiting_files.remove(&file_index);
        queue.bytes_in_flight += bytes;
        self.changed.notify_all();
        BytesInFlight { prefetcher: Arc::clone(self), bytes }
    }

    /// Returns the ranges that are not yet prefetched, coalesced and grouped into batches of bounded size.
    pub(crate) fn batches(&self, file: &Arc<File>, wanted: &[ByteRange]) -> Vec<Batch> {
        let new: Vec<ByteRange> = wanted.iter().filter(|range| self.find(file, **range).is_none()).copied().collect();
        let plan = coalesce(&new, file.choice().gap_bytes, MAX_JOINED_BYTES);
        let batches = batched(plan.ranges).into_iter().map(|ranges| Batch { file: Arc::clone(file), ranges }).collect();
        file.counters().add(Counter::GapBytes, plan.gap_bytes);
        batches
    }

    /// Prefetches as many of these ranges of a file as memory allows, and returns the started prefetches.
    pub(crate) fn prefetch(self: &Arc<Self>, file: &Arc<File>, wanted: &[ByteRange]) -> Vec<Arc<PendingRange>> {
        let mut started = Vec::new();
        for batch in self.batches(file, wanted) {
            let Some(lease) = self.try_lease(batch.leased_bytes()) else { break };
            started.extend(self.start(batch, lease));
        }
        started
    }

    /// Starts to prefetch a batch whose memory is leased.
    pub(crate) fn start(self: &Arc<Self>, batch: Batch, lease: Lease) -> Vec<Arc<PendingRange>> {
        let Batch { file, ranges } = batch;
        let choice = file.choice();
        let ranges_pending: Vec<Arc<PendingRange>> = ranges.iter().map(|range| pending(&file, *range)).collect();
        {
            let mut known = lock(&self.pending);
            let of_file = known.entry(key_of(&file)).or_default();
            ranges_pending.iter().for_each(|one| drop(of_file.insert(one.range.offset, Arc::clone(one))));
        }
        let reading = BatchRead { ranges: ranges_pending.clone(), lease };
        let bytes = ranges.iter().map(|range| range.length).sum();
        let own = Arc::clone(self);
        let read = move || {
            reading.run(file.path(), |reads| file.read_ranges(reads));
            // The link may have been measured during this read, so update the limit.
            lock(&own.queue).bytes_in_flight_max = file.choice().bytes_in_flight;
        };
        self.run(choice, bytes, Box::new(read));
        ranges_pending
    }

    /// Finds the prefetch that contains this range.
    pub(crate) fn find(&self, file: &Arc<File>, range: ByteRange) -> Option<Arc<PendingRange>> {
        let pending = lock(&self.pending);
        let before = pending.get(&key_of(file))?.range(..=range.offset).next_back()?.1;
        before.holds(range).then(|| Arc::clone(before))
    }

    /// Drops prefetches that are no longer needed.
    pub(crate) fn forget(&self, prefetches: &[Arc<PendingRange>]) {
        let mut pending = lock(&self.pending);
        for one in prefetches {
            let key = key_of(&one.file);
            let Some(of_file) = pending.get_mut(&key) else { continue };
            if of_file.get(&one.range.offset).is_some_and(|known| Arc::ptr_eq(known, one)) {
                of_file.remove(&one.range.offset);
            }
            if of_file.is_empty() {
                pending.remove(&key);
            }
        }
    }

    /// Stops prefetching. Waits for the threads, but not longer than `CLOSE_PATIENCE`.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let (threads, jobs) = (std::mem::take(&mut queue.threads), std::mem::take(&mut queue.jobs));
        drop(queue);
        drop(jobs);
        self.budget.close();
        self.changed.notify_all();
        let deadline = Instant::now() + limits::CLOSE_PATIENCE;
        threads.into_iter().for_each(|thread| end_by(deadline, thread));
    }
}

/// Groups ranges into batches that take bounded memory. A range that exceeds the bound forms its own batch.
pub(crate) fn batched(ranges: Vec<ByteRange>) -> Vec<Vec<ByteRange>> {
    let mut batches: Vec<Vec<ByteRange>> = Vec::new();
    let mut room = 0;
    for range in ranges {
        let bytes = buffer_bytes(range.length);
        match batches.last_mut() {
            Some(batch) if bytes <= room => batch.push(range),
            _ => {
                batches.push(vec![range]);
                room = MAX_JOINED_BYTES;
            }
        }
        room = room.saturating_sub(bytes);
    }
    batches
}

fn pending(file: &Arc<File>, range: ByteRange) -> Arc<PendingRange> {
    let (answer, answered) = (Mutex::default(), Condvar::new());
    Arc::new(PendingRange { file: Arc::clone(file), range, answer, answered })
}

/// Registers a file in the file order until the file's size is known, so that later files leave memory for it.
pub(crate) struct Turn {
    prefetcher: Arc<Prefetcher>,
    index: usize,
}

impl Turn {
    pub(crate) fn begin(prefetcher: &Arc<Prefetcher>, index: usize) -> Self {
        prefetcher.file_order.begin(index);
        Self { prefetcher: Arc::clone(prefetcher), index }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.prefetcher.file_order.end(self.index);
        self.prefetcher.wake();
    }
}

/// A batch that is being read. On drop, each range without an answer gets the answer `NotRead`.
struct BatchRead {
    ranges: Vec<Arc<PendingRange>>,
    lease: Lease,
}

impl BatchRead {
    /// Reads the batch with `read`. If `read` panics, the error becomes the answer of every range without an answer.
    fn run(mut self, path: &str, read: impl FnOnce(&mut [RangeRead]) -> Result<()>) {
        let ranges = self.ranges.clone();
        let done = guarded(path, || {
            let mut reads: Vec<RangeRead> = ranges.iter().map(|one| read_of(one.range)).collect();
            read(&mut reads)?;
            for (one, read) in ranges.iter().zip(reads) {
                let lease = self.lease.split(buffer_bytes(one.range.length));
                one.answer(Answer::Read(share(read, Some(lease))));
            }
            Ok(())
        });
        if let Err(error) = done {
            // Only internal errors are kept: errors of the storage will occur again in the next read.
            if error.kind == ReadErrorKind::Internal {
                ranges.iter().for_each(|one| one.answer(Answer::Panicked(error.clone())));
            }
        }
    }
}

impl Drop for BatchRead {
    fn drop(&mut self) {
        self.ranges.iter().for_each(|one| one.answer(Answer::NotRead));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::read::samples::events;

    fn prefetcher(bytes_in_flight: u64) -> Arc<Prefetcher> {
        let prefetcher = Prefetcher::new(1 << 30, &Arc::default());
        let choice = Choice { gap_bytes: 0, requests_in_flight: 1, bytes_in_flight };
        prefetcher.run(choice, 0, Box::new(|| {}));
        prefetcher
    }

    #[test]
    fn files_are_read_in_their_order_and_not_all_at_once() {
        let prefetcher = prefetcher(100);
        let first = prefetcher.wait_for_link(0, 60);
        let (sender, order) = std::sync::mpsc::channel();
        let wait = |index: usize, bytes: u64| {
            let (prefetcher, sender) = (Arc::clone(&prefetcher), sender.clone());
            std::thread::spawn(move || {
                let in_flight = prefetcher.wait_for_link(index, bytes);
                sender.send(index).unwrap();
                in_flight
            })
        };
        let third = wait(3, 30);
        while lock(&prefetcher.queue).bytes_in_flight != 90 {
            std::thread::yield_now();
        }
        let later = [wait(2, 50), wait(1, 200)];
        while lock(&prefetcher.queue).waiting_files.len() != 2 {
            std::thread::yield_now();
        }
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(3));
        drop((first, third.join().unwrap()));
        // A job larger than the limit for bytes in flight runs alone.
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(1));
        let [second, largest] = later;
        drop(largest.join().unwrap());
        assert_eq!(order.recv_timeout(Duration::from_secs(60)), Ok(2));
        drop(second.join().unwrap());
        assert_eq!(lock(&prefetcher.queue).bytes_in_flight, 0);
        prefetcher.close();
    }

    #[test]
    fn closing_ends_all_waits() {
        let prefetcher = prefetcher(10);
        let first = prefetcher.wait_for_link(0, 10);
        let other = Arc::clone(&prefetcher);
        let waits = std::thread::spawn(move || drop(other.wait_for_link(1, 10)));
        prefetcher.close();
        waits.join().unwrap();
        drop(first);
    }

    fn reading(prefetcher: &Arc<Prefetcher>) -> (Arc<PendingRange>, BatchRead) {
        let range = pending(events().file(), ByteRange::new(0, 4));
        let lease = prefetcher.try_lease(buffer_bytes(4)).unwrap();
        (Arc::clone(&range), BatchRead { ranges: vec![range], lease })
    }

    #[test]
    fn a_prefetch_that_panics_fails_the_read_that_waits_for_it() {
        let prefetcher = prefetcher(100);
        let (range, batch) = reading(&prefetcher);
        batch.run("file.root", |_| panic!("no such thread"));
        let error = range.wait(range.range).unwrap_err();
        assert_eq!((error.kind, error.path.as_str()), (ReadErrorKind::Internal, "file.root"));
        assert!(error.message.contains("no such thread"), "{error}");
        prefetcher.close();
    }

    #[test]
    fn what_the_storage_did_not_give_is_read_again() {
        let prefetcher = prefetcher(100);
        let (range, batch) = reading(&prefetcher);
        batch.run("file.root", |_| Err(ReadError::new(ReadErrorKind::Storage, "file.root", "it is away")));
        assert_eq!(range.wait(range.range), Ok(None));
        let (range, batch) = reading(&prefetcher);
        drop(batch);
        assert_eq!(range.wait(range.range), Ok(None));
        prefetcher.close();
    }
}
