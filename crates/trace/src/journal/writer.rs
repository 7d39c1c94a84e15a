//! The journal of a process: one file, a buffer per thread, and a background thread that regularly writes the buffers.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::forks;
use super::lock::locked;
use super::names::{Kind, Known, Names};
use super::records::{self, Buffer, BUFFER_MAX};
use crate::environment::TRACE;

/// Extension of the file that says why a journal is incomplete.
const INCOMPLETE: &str = "incomplete";
/// Maximum time until a record is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// ID of the current journal, unique in this process; 0 for none.
static CURRENT: AtomicU64 = AtomicU64::new(0);
static NEXT_JOURNAL: AtomicU64 = AtomicU64::new(1);
static JOURNAL: RwLock<Option<Arc<Journal>>> = RwLock::new(None);
static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static THREAD: u32 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    static OWN: RefCell<Option<ThreadLog>> = const { RefCell::new(None) };
}

pub(super) struct Journal {
    pub(super) number: u64,
    path: PathBuf,
    pub(super) start: Instant,
    start_ns: u64,
    pub(super) names: Mutex<Names>,
    /// Buffers of all threads that have logged something.
    pub(super) buffers: Mutex<Vec<Arc<Mutex<Buffer>>>>,
    output: Mutex<Output>,
    /// Why some records could not be written.
    failure: Mutex<Option<io::Error>>,
    sleep: Mutex<()>,
    woken: Condvar,
    is_ended: AtomicBool,
}

/// The journal file, and the buffers in which each write assembles its bytes.
struct Output {
    file: File,
    bytes: Vec<u8>,
    /// Blocks of records, written after the strings to which they refer.
    blocks: Vec<u8>,
}

/// One thread's part of the journal: a buffer and a cache of string IDs.
pub(super) struct ThreadLog {
    pub(super) journal: Arc<Journal>,
    pub(super) buffer: Arc<Mutex<Buffer>>,
    known: Known,
}

/// Returns whether requests are logged.
#[inline]
pub fn is_on() -> bool {
    CURRENT.load(Ordering::Relaxed) != 0
}

/// Starts a journal: a file of this process in the folder.
pub fn begin(folder: &Path) -> io::Result<()> {
    forks::watch();
    let process = std::process::id();
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let path = folder.join(format!("{process}.{start_ns}.journal"));
    let mut file = File::create(&path)?;
    file.write_all(&records::head(process, start_ns))?;
    let journal = Arc::new(Journal {
        number: NEXT_JOURNAL.fetch_add(1, Ordering::Relaxed),
        path,
        start: Instant::now(),
        start_ns,
        names: Mutex::default(),
        buffers: Mutex::default(),
        output: Mutex::new(Output { file, bytes: Vec::new(), blocks: Vec::new() }),
        failure: Mutex::default(),
        sleep: Mutex::default(),
        woken: Condvar::new(),
        is_ended: AtomicBool::new(false),
    });
    let own = Arc::clone(&journal);
    std::thread::Builder::new().name("branchline-journal".to_owned()).spawn(move || own.write_regularly())?;
    let number = journal.number;
    *JOURNAL.write().unwrap_or_else(PoisonError::into_inner) = Some(journal);
    forks::IS_CHILD.store(false, Ordering::Relaxed);
    CURRENT.store(number, Ordering::Release);
    Ok(())
}

/// Starts a journal if the environment requests one and none is active.
pub fn begin_from_environment() -> io::Result<()> {
    match std::env::var_os(TRACE) {
        Some(folder) if !is_on() && !folder.is_empty() => begin(Path::new(&folder)),
        _ => Ok(()),
    }
}

/// Ends the journal. Returns the first write error, if any; otherwise all records are in the file.
pub fn end() -> io::Result<()> {
    CURRENT.store(0, Ordering::Release);
    let journal = JOURNAL.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(journal) = journal else { return Ok(()) };
    journal.is_ended.store(true, Ordering::Release);
    drop(locked(&journal.sleep));
    journal.woken.notify_all();
    let written = journal.write_all();
    let first = locked(&journal.failure).as_ref().map(copied);
    first.map_or(written, Err)
}

/// Writes all records logged until now, if possible.
pub fn flush() {
    if let Some(journal) = current() {
        // The error is reported when the journal ends.
        let _ = journal.write_all();
    }
}

pub(super) fn current() -> Option<Arc<Journal>> {
    if !is_on() || forks::IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Calls `act` with the log of this thread; None without a journal.
pub(super) fn with_log<T>(act: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    if !is_on() {
        return None;
    }
    if forks::IS_CHILD.load(Ordering::Relaxed) {
        begin_in_child();
    }
    let number = CURRENT.load(Ordering::Acquire);
    // The log of a thread that is ending may already have been dropped.
    let done = OWN.try_with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        if own.as_ref().is_none_or(|own| own.journal.number != number) {
            *own = Some(ThreadLog::of(current()?));
        }
        own.as_mut().map(act)
    });
    done.ok().flatten()
}

fn begin_in_child() {
    let folder = JOURNAL.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|journal| journal.path.clone());
    let folder = folder.as_deref().and_then(Path::parent);
    if folder.is_none_or(|folder| begin(folder).is_err()) {
        // If the journal cannot be written, the child logs nothing.
        CURRENT.store(0, Ordering::Release);
        forks::IS_CHILD.store(false, Ordering::Relaxed);
    }
}

impl ThreadLog {
    fn of(journal: Arc<Journal>) -> Self {
        let buffer = Arc::new(Mutex::new(Buffer::of(THREAD.try_with(|own| *own).unwrap_or(0))));
        locked(&journal.buffers).push(Arc::clone(&buffer));
        Self { journal, buffer, known: Known::default() }
    }

    /// Returns the ID of a string. Compares it first with the previous string of its kind, because most strings are
    /// repeated.
    pub(super) fn name(&mut self, kind: Kind, text: &str) -> u32 {
        self.known.number(kind, text, &self.journal.names)
    }

    /// Adds a record to the buffer, and writes the buffer when it is full.
    pub(super) fn log(&mut self, put: impl FnOnce(&mut Buffer)) {
        let mut buffer = locked(&self.buffer);
        put(&mut buffer);
        if buffer.bytes_count() >= BUFFER_MAX {
            drop(buffer);
            // The error is reported when the journal ends.
            let _ = self.journal.write(std::slice::from_ref(&self.buffer));
        }
    }
}

impl Journal {
    pub(super) fn ns(&self, at: Instant) -> u64 {
        self.start_ns + at.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Writes the contents of these buffers, after the strings to which they refer.
    fn write(&self, buffers: &[Arc<Mutex<Buffer>>]) -> io::Result<()> {
        let mut output = locked(&self.output);
        if locked(&self.failure).is_some() {
            return Ok(());
        }
        let Output { file, bytes, blocks } = &mut *output;
        bytes.clear();
        buffers.iter().for_each(|buffer| locked(buffer).take(blocks));
        locked(&self.names).take(bytes);
        bytes.append(blocks);
        if bytes.is_empty() {
            return Ok(());
        }
        file.write_all(bytes).inspect_err(|error| self.fail(error))
    }

    /// Ends the journal after a failed write, because no block may follow a partially written one; the job continues. A
    /// file next to the journal marks it as incomplete, since this process may end without reporting the error.
    fn fail(&self, error: &io::Error) {
        let _ = CURRENT.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Relaxed);
        let mut failure = locked(&self.failure);
        if failure.is_none() {
            let _ = std::fs::write(self.path.with_extension(INCOMPLETE), error.to_string());
            *failure = Some(copied(error));
        }
    }

    /// Writes the buffers of all threads, and drops the buffers of ended threads.
    fn write_all(&self) -> io::Result<()> {
        let buffers = {
            let mut buffers = locked(&self.buffers);
            buffers.retain(|buffer| Arc::strong_count(buffer) > 1 || !locked(buffer).is_empty());
            buffers.clone()
        };
        self.write(&buffers)
    }

    fn write_regularly(&self) {
        while !self.is_ended.load(Ordering::Acquire) {
            drop(self.woken.wait_timeout(locked(&self.sleep), FLUSH_INTERVAL));
            if self.write_all().is_err() {
                return;
            }
        }
    }
}

fn copied(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
