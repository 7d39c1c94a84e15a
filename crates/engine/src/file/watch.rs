//! Tracks the activity of each thread of a stream, so that a stuck thread is detected and named in an error instead of
//! blocking the stream forever.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use branchline_storage::{count_progress_in, longest_wait, Around, RangeRead, ReadEffort, Store, Waits};

use crate::error::{ReadError, ReadErrorKind};
use crate::limits::decoder_stuck_after;

/// Work that may take too long.
#[derive(Debug)]
pub(crate) enum Doing {
    /// Opening a file.
    Opening { path: String, waits: Waits },
    /// Reading this many bytes from a store, starting at this offset.
    Reading { path: String, store: String, bytes: u64, offset: u64, waits: Waits },
    /// Decoding a basket.
    Decoding(LazyBasketName),
}

/// A function that formats the name of a basket only when the name is needed: formatting takes longer than decoding a
/// small basket.
pub(crate) struct LazyBasketName(pub(crate) Box<dyn Fn() -> BasketName + Send>);

/// The file of a basket, and the name of the basket in error messages.
#[derive(Debug)]
pub(crate) struct BasketName {
    pub(crate) path: String,
    pub(crate) basket: String,
}

impl std::fmt::Debug for LazyBasketName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LazyBasketName").field(&(self.0)()).finish()
    }
}

impl Doing {
    /// Returns the timeout for this work. It is longer than the timeouts of stores. The wait for an S3
    /// `credential_process` is not included: it happens only once, and including it would delay the detection of every
    /// other stuck read by a minute.
    fn limit(&self) -> Duration {
        match self {
            Self::Opening { waits, .. } => longest_wait(*waits, 0),
            Self::Reading { bytes, waits, .. } => longest_wait(*waits, *bytes),
            // If the setting is invalid, opening the file has already reported the error.
            Self::Decoding(_) => decoder_stuck_after().unwrap_or(Duration::MAX),
        }
    }

    fn error(&self, thread: &str, waited: Duration) -> ReadError {
        let (path, what) = match self {
            Self::Opening { path, .. } => (path.clone(), "opening it".to_owned()),
            Self::Reading { path, store, bytes, offset, .. } => {
                (path.clone(), format!("reading {bytes} bytes at offset {offset} from {store}"))
            }
            Self::Decoding(LazyBasketName(name)) => {
                let BasketName { path, basket } = name();
                (path, format!("decoding {basket}"))
            }
        };
        let path = branchline_storage::without_secrets(&path);
        let message = format!(
            "{what} has made no progress for {:.0} s; the thread branchline-{thread} was abandoned",
            waited.as_secs_f64()
        );
        let mut error = ReadError::new(ReadErrorKind::Stuck, &path, message);
        error.retry_may_help = !matches!(self, Self::Decoding(_));
        error
    }
}

/// The current activity of a thread.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    thread: String,
    /// Incremented whenever work begins, ends or makes progress.
    beat: Arc<AtomicU64>,
    doing: Mutex<Option<Doing>>,
}

thread_local! {
    static ACTIVITY: RefCell<Option<Arc<Activity>>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Activity {
    fn set(&self, doing: Option<Doing>) -> Option<Doing> {
        self.beat.fetch_add(1, Ordering::Relaxed);
        std::mem::replace(&mut *lock(&self.doing), doing)
    }

    /// Makes this the activity of the current thread from now on.
    pub(crate) fn attach(self: Arc<Self>) {
        count_progress_in(Arc::clone(&self.beat));
        ACTIVITY.with(|activity| *activity.borrow_mut() = Some(self));
    }
}

/// Restores the thread's previous activity when dropped.
struct Done(Arc<Activity>, Option<Doing>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.set(self.1.take());
    }
}

/// Runs `work` with `doing` as the activity of the current thread.
pub(crate) fn watched<T>(doing: Doing, work: impl FnOnce() -> T) -> T {
    seen_as(Some(doing), work)
}

/// Runs `work`, which waits for other threads for any length of time. The wait has no timeout, because the other
/// threads are watched themselves.
pub(crate) fn waiting_for_others<T>(work: impl FnOnce() -> T) -> T {
    seen_as(None, work)
}

fn seen_as<T>(doing: Option<Doing>, work: impl FnOnce() -> T) -> T {
    let activity = ACTIVITY.with(|activity| activity.borrow().clone());
    let _done = activity.map(|activity| {
        let before = activity.set(doing);
        Done(activity, before)
    });
    work()
}

/// Waits until a thread ends, but not beyond `deadline`. After that, the thread is stuck and is abandoned.
pub(crate) fn end_by(deadline: Instant, thread: JoinHandle<()>) {
    let mut pause = Duration::from_micros(20);
    while !thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    if thread.is_finished() {
        // If the thread panicked, its chunk has already reported the panic.
        drop(thread.join());
    }
}

/// A store whose reads are watched.
pub(crate) struct Watched {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) waits: Waits,
}

impl Watched {
    fn reading(&self, reads: &[RangeRead]) -> Doing {
        Doing::Reading {
            path: self.store.path().to_owned(),
            store: self.store.name().to_owned(),
            bytes: reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.range.length)),
            offset: reads.first().map_or(0, |read| read.range.offset),
            waits: self.waits,
        }
    }
}

impl Around for Watched {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> branchline_storage::Result<ReadEffort> {
        watched(self.reading(reads), || self.store.read_ranges(reads))
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> branchline_storage::Result<ReadEffort> {
        watched(self.reading(reads), || self.store.read_again(reads))
    }

    fn remarks(&self) -> Vec<String> {
        self.store.remarks()
    }
}

/// A watched thread of a stream.
#[derive(Debug)]
struct WatchedThread {
    activity: Arc<Activity>,
    /// The value of the beat when it was last checked.
    seen: u64,
    /// How long the consumer has waited since the beat last changed.
    waited: Duration,
}

/// The threads of a stream. For each thread, records how long the consumer has waited without progress in the thread.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    threads: Mutex<Vec<WatchedThread>>,
}

impl Watch {
    /// Registers a thread, and returns the thread's activity. The thread drops the activity when it ends.
    pub(crate) fn thread(&self, thread: &str) -> Arc<Activity> {
        let activity = Arc::new(Activity { thread: thread.to_owned(), ..Activity::default() });
        let watched = WatchedThread { activity: Arc::clone(&activity), seen: 0, waited: Duration::ZERO };
        lock(&self.threads).push(watched);
        activity
    }

    /// Adds to the time that the consumer has waited. Returns an error if a thread is stuck.
    pub(crate) fn waited(&self, time: Duration) -> Option<ReadError> {
        let mut threads = lock(&self.threads);
        threads.retain(|thread| Arc::strong_count(&thread.activity) > 1);
        for WatchedThread { activity, seen, waited } in threads.iter_mut() {
            let beat = activity.beat.load(Ordering::Relaxed);
            if beat != *seen {
                (*seen, *waited) = (beat, Duration::ZERO);
                continue;
            }
            let doing = lock(&activity.doing);
            let Some(doing) = doing.as_ref() else { continue };
            *waited += time;
            if *waited > doing.limit() {
                return Some(doing.error(&activity.thread, *waited));
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_the_same_for_too_long_is_stuck_and_named() {
        let watch = Watch::default();
        let (activity, other) = (watch.thread("fetch"), watch.thread("decode-0"));
        let reading = || Doing::Reading {
            path: "root://h//f?authz=x".into(),
            store: "root://h".into(),
            bytes: 7,
            offset: 9,
            waits: Waits::default(),
        };
        activity.set(Some(reading()));
        let limit = reading().limit();
        assert_eq!(watch.waited(limit), None, "it has just begun");
        other.set(None);
        assert_eq!(watch.waited(limit), None);
        let error = watch.waited(Duration::from_secs(1)).unwrap();
        assert_eq!((error.kind, error.path.as_str()), (ReadErrorKind::Stuck, "root://h//f?authz=***"));
        let message = "reading 7 bytes at offset 9 from root://h has made no progress";
        assert!(error.message.starts_with(message) && error.message.contains("branchline-fetch"), "{error}");
        activity.set(Some(reading()));
        assert_eq!(watch.waited(limit * 2), None, "it has begun something else");
        activity.set(None);
        assert_eq!((watch.waited(limit * 2), watch.waited(limit * 2)), (None, None), "it has nothing to do");
    }

    #[test]
    fn the_watch_sees_what_a_thread_does_and_did_before() {
        let watch = Watch::default();
        let activity = watch.thread("fetch");
        Arc::clone(&activity).attach();
        let at = |activity: &Activity| lock(&activity.doing).as_ref().map(|doing| format!("{doing:?}"));
        let opening = |path: &str| Doing::Opening { path: path.to_owned(), waits: Waits::default() };
        watched(opening("outer"), || {
            watched(opening("inner"), || assert!(at(&activity).unwrap().contains("inner")));
            assert!(at(&activity).unwrap().contains("outer"));
            waiting_for_others(|| assert_eq!(at(&activity), None));
            assert!(at(&activity).unwrap().contains("outer"));
        });
        assert_eq!(at(&activity), None);
    }

    #[test]
    fn a_thread_that_gets_on_is_not_stuck_and_one_that_has_ended_is_not_watched() {
        let watch = Watch::default();
        let activity = watch.thread("prefetch");
        activity.set(Some(Doing::Opening { path: "f".to_owned(), waits: Waits::default() }));
        let limit = Doing::Opening { path: String::new(), waits: Waits::default() }.limit();
        for _ in 0..3 {
            activity.beat.fetch_add(1, Ordering::Relaxed);
            assert_eq!((watch.waited(limit), watch.waited(limit)), (None, None));
        }
        drop(activity);
        assert_eq!((watch.waited(limit), lock(&watch.threads).len()), (None, 0));
    }
}
