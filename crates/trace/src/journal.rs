//! Every request told one by one, for who wants to see them: off unless it is begun, and then some hundred nanoseconds
//! for each. Each thread puts what it tells into a buffer of its own, of bounded length; who fills it writes it, and a
//! thread of the journal's own writes what the others have every now and then, so that a process that is killed leaves
//! what it told up to a moment before.
//!
//! `records` says what the file looks like. Times in it are nanoseconds since 1970.

mod alike;
mod forks;
mod names;
mod records;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use alike::Branches;
use names::{Known, Names};
use records::{Buffer, BUFFER_MAX};

/// A process that finds a folder here tells its requests there.
pub const FOLDER_VARIABLE: &str = "BRANCHLINE_TRACE";
/// What is told is written at the latest after this time.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes of a file from an offset on.
pub type Span = (u64, u64);

/// The number of the journal that is told to, which no other of this process has; 0 where nothing is told.
static CURRENT: AtomicU64 = AtomicU64::new(0);
static NEXT_JOURNAL: AtomicU64 = AtomicU64::new(1);
static JOURNAL: RwLock<Option<Arc<Journal>>> = RwLock::new(None);
static NEXT_REQUEST: AtomicU32 = AtomicU32::new(0);
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static THREAD: u32 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    static ATTEMPT: Cell<u32> = const { Cell::new(0) };
    static QUEUED: Cell<Option<Instant>> = const { Cell::new(None) };
    static WAGON: RefCell<String> = const { RefCell::new(String::new()) };
    /// Requests of this thread that are not told yet, each with its journal and ranges, while something slows it.
    static HELD: RefCell<Option<Vec<Held>>> = const { RefCell::new(None) };
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

struct Held {
    journal: u64,
    told: records::Request,
    span: Span,
    more: Vec<Span>,
}

struct Journal {
    number: u64,
    folder: PathBuf,
    start: Instant,
    start_ns: u64,
    names: Mutex<Names>,
    /// Branches of trees that were told of, those of the last tree first.
    branches: Mutex<VecDeque<Branches>>,
    /// Those of all threads that told something.
    buffers: Mutex<Vec<Arc<Mutex<Buffer>>>>,
    output: Mutex<Output>,
    sleep: Mutex<()>,
    woken: Condvar,
    is_ended: AtomicBool,
}

/// The file, and memory for what is on its way there, which is not asked for anew each time.
struct Output {
    file: File,
    bytes: Vec<u8>,
    behind: Vec<u8>,
}

/// What a thread has of a journal: its buffer, and the numbers of texts that it told before.
struct Own {
    journal: Arc<Journal>,
    buffer: Arc<Mutex<Buffer>>,
    known: Known,
}

/// Whether requests are told.
#[inline]
pub fn is_on() -> bool {
    CURRENT.load(Ordering::Relaxed) != 0
}

/// Begins to tell requests, in a file of this process in the folder.
pub fn begin(folder: &Path) -> io::Result<()> {
    forks::watch();
    let process = std::process::id();
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut file = File::create(folder.join(format!("{process}.{start_ns}.journal")))?;
    file.write_all(&records::head(process, start_ns))?;
    let journal = Arc::new(Journal {
        number: NEXT_JOURNAL.fetch_add(1, Ordering::Relaxed),
        folder: folder.to_owned(),
        start: Instant::now(),
        start_ns,
        names: Mutex::default(),
        branches: Mutex::default(),
        buffers: Mutex::default(),
        output: Mutex::new(Output { file, bytes: Vec::new(), behind: Vec::new() }),
        sleep: Mutex::default(),
        woken: Condvar::new(),
        is_ended: AtomicBool::new(false),
    });
    let own = Arc::clone(&journal);
    std::thread::Builder::new().name("branchline-journal".to_owned()).spawn(move || own.write_along())?;
    let number = journal.number;
    *JOURNAL.write().unwrap_or_else(PoisonError::into_inner) = Some(journal);
    forks::IS_CHILD.store(false, Ordering::Relaxed);
    CURRENT.store(number, Ordering::Release);
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
    CURRENT.store(0, Ordering::Release);
    let journal = JOURNAL.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(journal) = journal else { return Ok(()) };
    journal.is_ended.store(true, Ordering::Release);
    drop(locked(&journal.sleep));
    journal.woken.notify_all();
    journal.write_all()
}

/// All that was told until now is in the file, as far as that can be written.
pub fn flush() {
    if let Some(journal) = current() {
        // There is nobody to tell here; the end of the journal tells it.
        let _ = journal.write_all();
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

/// The requests that this thread makes say when they were decided, until this is dropped.
#[must_use]
pub struct Decided(Option<Instant>);

/// What this thread reads from now on was decided at that moment, or now, unless it was earlier already.
pub fn decided(since: Option<Instant>) -> Decided {
    let before = decided_at();
    if before.is_none() && is_on() {
        QUEUED.with(|own| own.set(since.or_else(|| Some(Instant::now()))));
    }
    Decided(before)
}

/// When what this thread reads was decided, for others that read a part of it.
pub fn decided_at() -> Option<Instant> {
    QUEUED.with(Cell::get)
}

impl Drop for Decided {
    fn drop(&mut self) {
        let _ = QUEUED.try_with(|own| own.set(self.0));
    }
}

fn current() -> Option<Arc<Journal>> {
    if !is_on() || forks::IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Does something with what this thread has of the journal; None where nothing is told.
fn with_own<T>(act: impl FnOnce(&mut Own) -> T) -> Option<T> {
    if !is_on() {
        return None;
    }
    if forks::IS_CHILD.load(Ordering::Relaxed) {
        begin_in_child();
    }
    let number = CURRENT.load(Ordering::Acquire);
    // A thread that ends may have given up its part already.
    let done = OWN.try_with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        if own.as_ref().is_none_or(|own| own.journal.number != number) {
            *own = Some(Own::of(current()?));
        }
        own.as_mut().map(act)
    });
    done.ok().flatten()
}

fn begin_in_child() {
    let folder = JOURNAL.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|journal| journal.folder.clone());
    if folder.is_none_or(|folder| begin(&folder).is_err()) {
        // The child tells nothing where that cannot be written.
        CURRENT.store(0, Ordering::Release);
        forks::IS_CHILD.store(false, Ordering::Relaxed);
    }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Own {
    fn of(journal: Arc<Journal>) -> Self {
        let buffer = Arc::new(Mutex::new(Buffer::of(THREAD.try_with(|own| *own).unwrap_or(0))));
        locked(&journal.buffers).push(Arc::clone(&buffer));
        Self { journal, buffer, known: Known::default() }
    }

    /// The number of a text; `place` is that of its kind, whose last text is mostly the next one, too.
    fn name(&mut self, place: usize, text: &str) -> u32 {
        self.known.number(place, text, &self.journal.names)
    }

    /// The number of the path of a branch.
    fn branch(&mut self, (branches, index): (&Branches, usize)) -> u32 {
        branches.number(index, &self.journal)
    }

    /// Tells something; who fills the buffer writes it.
    fn tell(&mut self, put: impl FnOnce(&mut Buffer)) {
        let mut buffer = locked(&self.buffer);
        put(&mut buffer);
        if buffer.bytes_count() >= BUFFER_MAX {
            drop(buffer);
            let _ = self.journal.write(std::slice::from_ref(&self.buffer));
        }
    }
}

impl Journal {
    fn ns(&self, at: Instant) -> u64 {
        self.start_ns + at.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Writes what is in some buffers, behind the texts that it names: these were there before it.
    fn write(&self, buffers: &[Arc<Mutex<Buffer>>]) -> io::Result<()> {
        let mut output = locked(&self.output);
        let Output { file, bytes, behind } = &mut *output;
        bytes.clear();
        buffers.iter().for_each(|buffer| locked(buffer).take(behind));
        locked(&self.names).take(bytes);
        bytes.append(behind);
        if bytes.is_empty() {
            return Ok(());
        }
        file.write_all(bytes)
    }

    /// Writes what all threads told, and forgets those that ended.
    fn write_all(&self) -> io::Result<()> {
        let buffers = {
            let mut buffers = locked(&self.buffers);
            buffers.retain(|buffer| Arc::strong_count(buffer) > 1 || !locked(buffer).is_empty());
            buffers.clone()
        };
        self.write(&buffers)
    }

    fn write_along(&self) {
        while !self.is_ended.load(Ordering::Acquire) {
            drop(self.woken.wait_timeout(locked(&self.sleep), FLUSH_INTERVAL));
            if self.write_all().is_err() {
                // A full disk ends the telling, not the job.
                let _ = CURRENT.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Places of kinds of texts.
const FILE: usize = 0;
const STORE: usize = 1;
const WHAT: usize = 2;
const OUTCOME: usize = 3;
const WAGON_NAME: usize = 4;
const TREE: usize = 5;
const KINDS: usize = 6;
/// What becomes of a request of which nothing is told.
const FAILED: &str = "failed";

/// A request on its way; what becomes of it is told when it is dropped. Texts are numbers in the journal.
pub struct Request {
    journal: u64,
    file: u32,
    store: u32,
    what: u32,
    wagon: u32,
    outcome: Cow<'static, str>,
    /// The first range, and the others.
    span: Span,
    more: Vec<Span>,
    connection: u32,
    attempt: u32,
    queued: Instant,
    sent: Instant,
    first_byte: Option<Instant>,
    got_bytes: u64,
}

/// A request that is sent now, for bytes of a file at a store; None where nothing is told.
pub fn request(what: &'static str, file: &str, store: &str, mut spans: impl Iterator<Item = Span>) -> Option<Request> {
    with_own(|own| {
        let sent = Instant::now();
        Request {
            journal: own.journal.number,
            file: own.name(FILE, file),
            store: own.name(STORE, store),
            what: own.name(WHAT, what),
            wagon: WAGON.with(|wagon| own.name(WAGON_NAME, &wagon.borrow())),
            outcome: Cow::Borrowed(FAILED),
            span: spans.next().unwrap_or_default(),
            more: spans.collect(),
            connection: 0,
            attempt: ATTEMPT.with(Cell::get) + 1,
            queued: decided_at().map_or(sent, |since| since.min(sent)),
            sent,
            first_byte: None,
            got_bytes: 0,
        }
    })
}

impl Request {
    /// Which connection carries it: a descriptor, a port of ours; 0 where that is not known.
    pub fn over(&mut self, connection: u64) {
        self.connection = connection as u32;
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
    pub fn ended(&mut self, outcome: impl Into<Cow<'static, str>>) {
        self.outcome = outcome.into();
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let last = Instant::now();
        with_own(|own| {
            // One that was begun for another journal has its texts there.
            if own.journal.number != self.journal {
                return;
            }
            let outcome = own.name(OUTCOME, &self.outcome);
            let journal = &*own.journal;
            let asked = self.more.iter().fold(self.span.1, |sum, (_, length)| sum.saturating_add(*length));
            let told = records::Request {
                number: NEXT_REQUEST.fetch_add(1, Ordering::Relaxed),
                texts: [self.file, self.store, self.what, outcome, self.wagon],
                connection: self.connection,
                attempt: self.attempt,
                offset: self.span.0,
                asked,
                got: self.got_bytes,
                times: [self.queued, self.sent, self.first_byte.unwrap_or(journal.start), last]
                    .map(|at| journal.ns(at)),
                has_first: self.first_byte.is_some(),
            };
            let held = Held { journal: self.journal, told, span: self.span, more: std::mem::take(&mut self.more) };
            if let Some(held) = hold(held) {
                own.tell(|buffer| buffer.put_request(&held.told, held.span, &held.more));
            }
        });
    }
}

/// Keeps a request until what slows this thread is over; gives it back where nothing does.
fn hold(one: Held) -> Option<Held> {
    let kept = HELD.try_with(|held| match held.borrow_mut().as_mut() {
        Some(several) => {
            several.push(one);
            None
        }
        None => Some(one),
    });
    kept.ok().flatten()
}

/// What makes a storage slower than it is: requests of this thread begin with it and take until it is dropped.
pub struct Slowed {
    since: Instant,
}

/// From now on; None where nothing is told, or where it is slowed already.
pub fn slowed() -> Option<Slowed> {
    let is_first = is_on() && HELD.with(|held| held.borrow().is_none());
    is_first.then(|| {
        HELD.with(|held| *held.borrow_mut() = Some(Vec::new()));
        Slowed { since: Instant::now() }
    })
}

impl Drop for Slowed {
    fn drop(&mut self) {
        let last = Instant::now();
        let held = HELD.try_with(|held| held.borrow_mut().take()).ok().flatten().unwrap_or_default();
        with_own(|own| {
            let (since, last) = (own.journal.ns(self.since), own.journal.ns(last));
            let journal = own.journal.number;
            for mut one in held.into_iter().filter(|one| one.journal == journal) {
                let [queued, sent, first, _] = one.told.times;
                one.told.times = [queued.min(since), sent.min(since), first, last];
                own.tell(|buffer| buffer.put_request(&one.told, one.span, &one.more));
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
    /// The branches of the tree, and which of them it is.
    pub branch: (&'a Branches, usize),
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
    with_own(|own| {
        let end = own.journal.ns(Instant::now());
        // No basket lies at 0, where the header is.
        let (offset, size) = one.place.unwrap_or_default();
        let texts = [own.name(FILE, one.file), own.name(TREE, one.tree), own.branch(one.branch)];
        let basket = one.basket as u32;
        let numbers = [one.entries.start, one.entries.end, offset, size, end, one.decompress_ns, one.decode_ns];
        own.tell(|buffer| buffer.put_used(texts, basket, numbers));
    });
}

/// A page of an RNTuple that was unpacked until now.
pub struct UsedPage<'a> {
    /// The file.
    pub file: &'a str,
    /// The tree.
    pub tree: &'a str,
    /// The fields of the tree, and which of them it is.
    pub branch: (&'a Branches, usize),
    /// The column that it is of.
    pub column: usize,
    /// The cluster.
    pub cluster: usize,
    /// The entries of the cluster.
    pub entries: std::ops::Range<u64>,
    /// Where it lies.
    pub place: Span,
}

/// Tells that a page was used; asks for it only where that is told.
pub fn used_page(one: &UsedPage<'_>) {
    with_own(|own| {
        let end = own.journal.ns(Instant::now());
        let texts = [own.name(FILE, one.file), own.name(TREE, one.tree), own.branch(one.branch)];
        let numbers = [one.entries.start, one.entries.end, one.place.0, one.place.1, end];
        own.tell(|buffer| buffer.put_page(texts, one.column as u32, one.cluster as u32, numbers));
    });
}

/// Tells that this thread did one thing since then: waited for a chunk, ran a wagon.
pub fn did(what: &str, wagon: &str, since: Instant) {
    with_own(|own| {
        let times = [own.journal.ns(since), own.journal.ns(Instant::now())];
        let texts = [own.name(WHAT, what), own.name(WAGON_NAME, wagon)];
        own.tell(|buffer| buffer.put_span(texts, times));
    });
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
