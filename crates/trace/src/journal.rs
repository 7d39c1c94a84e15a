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
    output: Mutex<Output>,
    is_ended: AtomicBool,
}

/// The file, and the buffer that was written last and is used again.
struct Output {
    file: File,
    spare: String,
}

#[derive(Default)]
struct Queue {
    lines: String,
    count: usize,
    names: HashMap<String, u64>,
    /// The file and the tree that were named last, which are mostly those that are named next.
    recent: [(String, u64); 2],
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
        output: Mutex::new(Output { file, spare: String::new() }),
        is_ended: AtomicBool::new(false),
    });
    journal.line('H', &[1, u64::from(process), start_ns], &mut locked(&journal.queue));
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

fn current() -> Option<Arc<Journal>> {
    if !is_on() {
        return None;
    }
    JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The journal of this process. After a fork the child begins one of its own: its reads come before all else that it
/// tells, and only they ask the system which process this is.
fn own() -> Option<Arc<Journal>> {
    let journal = current()?;
    if journal.process == std::process::id() {
        return Some(journal);
    }
    begin(&journal.folder).ok()?;
    current()
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Digits, without the machinery of formats: half of what telling would cost is this.
fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
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

    /// The same for a text that is often the one that had this place before.
    fn recent_name(queue: &mut Queue, place: usize, text: &str) -> u64 {
        if queue.recent[place].0 != text || text.is_empty() {
            queue.recent[place] = (text.to_owned(), Self::name(queue, text));
        }
        queue.recent[place].1
    }

    fn line(&self, letter: char, numbers: &[u64], queue: &mut Queue) {
        queue.lines.push(letter);
        for number in numbers {
            queue.lines.push('\t');
            push_number(&mut queue.lines, *number);
        }
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
        let mut output = locked(&self.output);
        let spare = std::mem::take(&mut output.spare);
        let mut lines = {
            let mut queue = locked(&self.queue);
            queue.count = 0;
            std::mem::replace(&mut queue.lines, spare)
        };
        let written = output.file.write_all(lines.as_bytes());
        lines.clear();
        output.spare = lines;
        written
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
    connection: u64,
    attempt: u32,
    queued: Instant,
    sent: Instant,
    first_byte: Option<Instant>,
    got_bytes: u64,
    outcome: String,
}

/// A request that is sent now, for bytes of a file at a store; None where nothing is told.
pub fn request(what: &'static str, file: &str, store: &str, spans: impl Iterator<Item = Span>) -> Option<Request> {
    let journal = own()?;
    let sent = Instant::now();
    Some(Request {
        journal,
        file: file.to_owned(),
        store: store.to_owned(),
        what,
        spans: spans.collect(),
        connection: 0,
        attempt: ATTEMPT.with(Cell::get) + 1,
        queued: QUEUED.with(Cell::get).map_or(sent, |since| since.min(sent)),
        sent,
        first_byte: None,
        got_bytes: 0,
        outcome: "failed".to_owned(),
    })
}

impl Request {
    /// Which connection carries it: a descriptor, a port of ours; 0 where that is not known.
    pub fn over(&mut self, connection: u64) {
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
            let (connection, attempt, got) = (self.connection, u64::from(self.attempt), self.got_bytes);
            let about = [number, file, store, what, outcome, wagon, thread, connection, attempt];
            let sizes = [offset, asked, got, queued, sent, first, last];
            journal.line('R', &[&about[..], &sizes].concat(), queue);
            if self.spans.len() > 1 {
                for (offset, length) in &self.spans {
                    journal.line('P', &[number, *offset, *length], queue);
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
        let (file, tree) = (Journal::recent_name(queue, 0, one.file), Journal::recent_name(queue, 1, one.tree));
        let branch = Journal::name(queue, one.branch);
        // No basket lies at 0, where the header is.
        let (offset, size) = one.place.unwrap_or_default();
        let (basket, first, behind) = (one.basket as u64, one.entries.start, one.entries.end);
        let (decompress, decode) = (one.decompress_ns, one.decode_ns);
        let numbers = [file, tree, branch, basket, first, behind, offset, size, thread, end, decompress, decode];
        journal.line('U', &numbers, queue);
    });
}

/// Tells that this thread did one thing since then: waited for a chunk, ran a wagon.
pub fn did(what: &str, wagon: &str, since: Instant) {
    let Some(journal) = current() else { return };
    let (begin, end) = (journal.ns(since), journal.ns(Instant::now()));
    let thread = THREAD.with(|own| *own);
    journal.tell(|queue| {
        let (what, wagon) = (Journal::name(queue, what), Journal::name(queue, wagon));
        journal.line('W', &[what, wagon, thread, begin, end], queue);
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
