//! Every request told one by one, for who wants to see them: off unless it is begun, and then a few hundred nanoseconds
//! for each. What is told is held in a queue of bounded length and written by a thread of its own, so that a process
//! that is killed leaves what it told up to a moment before.
//!
//! The file has a line for each thing, numbers with tabs between them, behind a letter: `N` gives a text a number, `R`
//! is a request, `P` each range of a request for several, `U` a basket that was used, `W` a wait, `H` the head. Times are
//! nanoseconds since 1970.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A process that finds a folder here tells its requests there.
pub const FOLDER_VARIABLE: &str = "BRANCHLINE_TRACE";
/// What is told is written at the latest after this time.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// The writing thread is woken when so much waits, and who tells more than the second number writes it itself: at
/// 100 bytes each, that bounds the memory.
const WAKE_AT: usize = 4096;
const QUEUE_MAX: usize = 32_768;

/// Bytes of a file from an offset on.
pub type Span = (u64, u64);

static IS_ON: AtomicBool = AtomicBool::new(false);
static JOURNAL: RwLock<Option<Arc<Journal>>> = RwLock::new(None);
static NEXT_REQUEST: AtomicU64 = AtomicU64::new(0);
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    static ATTEMPT: Cell<u32> = const { Cell::new(0) };
    static QUEUED: Cell<Option<Instant>> = const { Cell::new(None) };
    static WAGON: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Journal {
    folder: PathBuf,
    process: u32,
    start: Instant,
    start_ns: u64,
    queue: Mutex<Queue>,
    woken: Condvar,
    file: Mutex<File>,
    is_ended: AtomicBool,
}

#[derive(Default)]
struct Queue {
    lines: String,
    count: usize,
    names: HashMap<String, u64>,
}

/// Whether requests are told.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Begins to tell requests, in a file of this process in the folder.
pub fn begin(folder: &Path) -> io::Result<()> {
    let process = std::process::id();
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let file = File::create(folder.join(format!("{process}.{start_ns}.journal")))?;
    let journal = Arc::new(Journal {
        folder: folder.to_owned(),
        process,
        start: Instant::now(),
        start_ns,
        queue: Mutex::default(),
        woken: Condvar::new(),
        file: Mutex::new(file),
        is_ended: AtomicBool::new(false),
    });
    journal.line(format_args!("H\t1\t{process}\t{start_ns}"), &mut locked(&journal.queue));
    journal.write()?;
    let own = Arc::clone(&journal);
    std::thread::Builder::new().name("branchline-journal".to_owned()).spawn(move || own.write_along())?;
    *JOURNAL.write().unwrap_or_else(PoisonError::into_inner) = Some(journal);
    IS_ON.store(true, Ordering::Release);
    Ok(())
}

/// Begins where the environment says so and nothing was begun; a folder that cannot be written to is told by the caller.
pub fn begin_as_environment_says() -> io::Result<()> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !is_on() && !folder.is_empty() => begin(Path::new(&folder)),
        _ => Ok(()),
    }
}

/// Tells no more; all that was told is in the file.
pub fn end() -> io::Result<()> {
    IS_ON.store(false, Ordering::Release);
    let journal = JOURNAL.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(journal) = journal else { return Ok(()) };
    journal.is_ended.store(true, Ordering::Release);
    journal.woken.notify_all();
    journal.write()
}

/// All that was told until now is in the file, as far as that can be written.
pub fn flush() {
    if let Some(journal) = current() {
        // There is nobody to tell here; the end of the journal tells it.
        let _ = journal.write();
    }
}

/// Which try the requests of this thread are from now on, from 0.
pub fn set_attempt(attempt: u32) {
    if is_on() {
        ATTEMPT.with(|own| own.set(attempt));
    }
}

/// For whom this thread works from now on: the name of a wagon, or nothing.
pub fn set_wagon(name: &str) {
    WAGON.with(|own| name.clone_into(&mut own.borrow_mut()));
}

/// When the requests that this thread makes next were decided, if that was not just before.
pub fn set_queued(since: Option<Instant>) {
    QUEUED.with(|own| own.set(since));
}

/// The journal of this process. After a fork the child begins one of its own.
fn current() -> Option<Arc<Journal>> {
    if !is_on() {
        return None;
    }
    let journal = JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    if journal.process == std::process::id() {
        return Some(journal);
    }
    begin(&journal.folder).ok()?;
    JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    fn ns(&self, at: Instant) -> u64 {
        self.start_ns + at.saturating_duration_since(self.start).as_nanos() as u64
    }

    fn name(queue: &mut Queue, text: &str) -> u64 {
        if let Some(number) = queue.names.get(text) {
            return *number;
        }
        let number = queue.names.len() as u64;
        queue.names.insert(text.to_owned(), number);
        let plain = text.replace(['\t', '\n', '\r'], " ");
        let _ = writeln!(queue.lines, "N\t{number}\t{plain}");
        number
    }

    fn line(&self, line: std::fmt::Arguments<'_>, queue: &mut Queue) {
        let _ = queue.lines.write_fmt(line);
        queue.lines.push('\n');
        queue.count += 1;
        if queue.count == WAKE_AT {
            self.woken.notify_one();
        }
    }

    /// Tells something; who finds the queue full writes it.
    fn tell(&self, lines: impl FnOnce(&mut Queue)) {
        let mut queue = locked(&self.queue);
        lines(&mut queue);
        if queue.count >= QUEUE_MAX {
            drop(queue);
            let _ = self.write();
        }
    }

    /// Writes what is queued. Two that write do so one after the other, each what it took first.
    fn write(&self) -> io::Result<()> {
        let mut file = locked(&self.file);
        let lines = {
            let mut queue = locked(&self.queue);
            queue.count = 0;
            std::mem::take(&mut queue.lines)
        };
        file.write_all(lines.as_bytes())
    }

    fn write_along(&self) {
        while !self.is_ended.load(Ordering::Acquire) {
            let queue = locked(&self.queue);
            let waited = self.woken.wait_timeout(queue, FLUSH_INTERVAL);
            drop(waited);
            if self.write().is_err() {
                // A full disk ends the telling, not the job.
                IS_ON.store(false, Ordering::Release);
                return;
            }
        }
    }
}

/// A request on its way; what becomes of it is told when it is dropped.
pub struct Request {
    journal: Arc<Journal>,
    file: String,
    store: String,
    what: &'static str,
    spans: Vec<Span>,
    connection: i64,
    attempt: u32,
    queued: Instant,
    sent: Instant,
    first_byte: Option<Instant>,
    got_bytes: u64,
    outcome: String,
}

/// A request that is sent now, for bytes of a file at a store; None where nothing is told.
pub fn request(what: &'static str, file: &str, store: &str, spans: impl Iterator<Item = Span>) -> Option<Request> {
    let journal = current()?;
    let sent = Instant::now();
    Some(Request {
        journal,
        file: file.to_owned(),
        store: store.to_owned(),
        what,
        spans: spans.collect(),
        connection: -1,
        attempt: ATTEMPT.with(Cell::get) + 1,
        queued: QUEUED.with(Cell::get).map_or(sent, |since| since.min(sent)),
        sent,
        first_byte: None,
        got_bytes: 0,
        outcome: "failed".to_owned(),
    })
}

impl Request {
    /// Which connection carries it: a descriptor, a port of ours.
    pub fn over(&mut self, connection: i64) {
        self.connection = connection;
    }

    /// The first byte of the answer is there.
    pub fn first_byte(&mut self) {
        self.first_byte.get_or_insert_with(Instant::now);
    }

    /// Some bytes of what was asked for have come.
    pub fn got(&mut self, bytes: u64) {
        self.got_bytes += bytes;
    }

    /// What became of it, other than "failed".
    pub fn ended(&mut self, outcome: &str) {
        outcome.clone_into(&mut self.outcome);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let last = Instant::now();
        let journal = Arc::clone(&self.journal);
        let asked = self.spans.iter().fold(0, |sum: u64, (_, length)| sum.saturating_add(*length));
        let number = NEXT_REQUEST.fetch_add(1, Ordering::Relaxed);
        let thread = THREAD.with(|own| *own);
        let first = self.first_byte.map_or(0, |at| journal.ns(at));
        journal.tell(|queue| {
            let [file, store, what, outcome] =
                [self.file.as_str(), &self.store, self.what, &self.outcome].map(|text| Journal::name(queue, text));
            let wagon = WAGON.with(|own| Journal::name(queue, &own.borrow()));
            let offset = self.spans.first().map_or(0, |span| span.0);
            let (queued, sent, last) = (journal.ns(self.queued), journal.ns(self.sent), journal.ns(last));
            let (connection, attempt, got) = (self.connection, self.attempt, self.got_bytes);
            journal.line(
                format_args!(
                    "R\t{number}\t{file}\t{store}\t{what}\t{outcome}\t{wagon}\t{thread}\t{connection}\t{attempt}\t\
                     {offset}\t{asked}\t{got}\t{queued}\t{sent}\t{first}\t{last}"
                ),
                queue,
            );
            if self.spans.len() > 1 {
                for (offset, length) in &self.spans {
                    journal.line(format_args!("P\t{number}\t{offset}\t{length}"), queue);
                }
            }
        });
    }
}

/// A basket, or a cluster of a field, that was decompressed and decoded until now.
pub struct Used<'a> {
    /// The file.
    pub file: &'a str,
    /// The tree.
    pub tree: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// The number of the basket in its branch.
    pub basket: usize,
    /// Its entries.
    pub entries: std::ops::Range<u64>,
    /// Where it lies, if that is one place.
    pub place: Option<Span>,
    /// Time that decompressing and decoding took.
    pub decompress_ns: u64,
    /// Time that decoding took.
    pub decode_ns: u64,
}

/// Tells that a basket was used; asks for it only where that is told.
pub fn used(one: &Used<'_>) {
    let Some(journal) = current() else { return };
    let end = journal.ns(Instant::now());
    let thread = THREAD.with(|own| *own);
    journal.tell(|queue| {
        let [file, tree, branch] = [one.file, one.tree, one.branch].map(|text| Journal::name(queue, text));
        let (offset, size) = one.place.map_or((-1, -1), |(offset, size)| (offset as i64, size as i64));
        let (basket, first, behind) = (one.basket, one.entries.start, one.entries.end);
        let (decompress, decode) = (one.decompress_ns, one.decode_ns);
        journal.line(
            format_args!(
                "U\t{file}\t{tree}\t{branch}\t{basket}\t{first}\t{behind}\t{offset}\t{size}\t{thread}\t{end}\t\
                 {decompress}\t{decode}"
            ),
            queue,
        );
    });
}

/// Tells that this thread did one thing since then: waited for a chunk, ran a wagon.
pub fn did(what: &str, wagon: &str, since: Instant) {
    let Some(journal) = current() else { return };
    let (begin, end) = (journal.ns(since), journal.ns(Instant::now()));
    let thread = THREAD.with(|own| *own);
    journal.tell(|queue| {
        let (what, wagon) = (Journal::name(queue, what), Journal::name(queue, wagon));
        journal.line(format_args!("W\t{what}\t{wagon}\t{thread}\t{begin}\t{end}"), queue);
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn text_in(folder: &Path) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            text += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
        }
        text
    }

    /// One test for all, as there is one journal in a process.
    #[test]
    fn what_is_told_is_in_the_file_and_memory_stays_bounded() {
        let folder = std::env::temp_dir().join(format!("branchline-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(request("read", "a.root", "local", [(0, 5)].into_iter()).is_none());
        begin(&folder).unwrap();
        let mut one = request("read", "a\tb.root", "local", [(7, 5), (20, 6)].into_iter()).unwrap();
        one.got(11);
        one.ended("ok");
        drop(one);
        // Without an end it failed.
        drop(request("read", "a\tb.root", "local", [(1, 1)].into_iter()));
        did("wait", "", Instant::now());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for at in 0..QUEUE_MAX as u64 {
                        drop(request("read", "c.root", "local", [(at, 1)].into_iter()));
                        let journal = current().unwrap();
                        assert!(locked(&journal.queue).count <= QUEUE_MAX + 8);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        end().unwrap();
        assert!(request("read", "a.root", "local", [(0, 5)].into_iter()).is_none());
        let text = text_in(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with('R')).count(), 2 + 4 * QUEUE_MAX);
        assert_eq!(text.lines().filter(|line| line.starts_with('P')).count(), 2);
        assert!(text.starts_with("H\t1\t"));
        assert!(text.contains("\ta b.root\n"));
        assert!(text.lines().all(|line| !line.is_empty()));
    }
}
