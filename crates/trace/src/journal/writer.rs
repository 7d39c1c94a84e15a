//! The journal of a process: one file, a buffer for each thread, and a thread that writes the buffers now and then.

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

/// The environment variable with the folder of the journal.
pub const FOLDER_VARIABLE: &str = "BRANCHLINE_TRACE";
/// The extension of the file that says why a journal lacks records.
const INCOMPLETE: &str = "incomplete";
/// What was logged is written at the latest after this time.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// The number of the journal that is written, which no other of this process has; 0 where there is none.
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
    /// The buffers of all threads that have logged something.
    pub(super) buffers: Mutex<Vec<Arc<Mutex<Buffer>>>>,
    output: Mutex<Output>,
    /// Why not all records could be written.
    failure: Mutex<Option<io::Error>>,
    sleep: Mutex<()>,
    woken: Condvar,
    is_ended: AtomicBool,
}

/// The file, and two buffers for its next bytes, which are reused by every write.
struct Output {
    file: File,
    bytes: Vec<u8>,
    /// Blocks that are written after the texts that they name.
    blocks: Vec<u8>,
}

/// The part of the journal that belongs to one thread: its buffer, and the numbers of texts that it has logged.
pub(super) struct ThreadLog {
    pub(super) journal: Arc<Journal>,
    pub(super) buffer: Arc<Mutex<Buffer>>,
    known: Known,
}

/// Whether requests are logged.
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

/// Starts a journal if the environment asks for one and none is written.
pub fn begin_from_environment() -> io::Result<()> {
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !is_on() && !folder.is_empty() => begin(Path::new(&folder)),
        _ => Ok(()),
    }
}

/// Ends the journal. All that was logged is in the file, or the first error of writing it is returned.
pub fn end() -> io::Result<()> {
    CURRENT.store(0, Ordering::Release);
    let journal = JOURNAL.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(journal) = journal else { return Ok(()) };
    journal.is_ended.store(true, Ordering::Release);
    drop(locked(&journal.sleep));
    journal.woken.notify_all();
    let written = journal.write_all();
    let first = locked(&journal.failure).take();
    first.map_or(written, Err)
}

/// Writes all that was logged until now, as far as that is possible.
pub fn flush() {
    if let Some(journal) = current() {
        // The end of the journal reports the error.
        let _ = journal.write_all();
    }
}

pub(super) fn current() -> Option<Arc<Journal>> {
    if !is_on() || forks::IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    JOURNAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Calls `act` with the log of this thread; None where no journal is written.
pub(super) fn with_log<T>(act: impl FnOnce(&mut ThreadLog) -> T) -> Option<T> {
    if !is_on() {
        return None;
    }
    if forks::IS_CHILD.load(Ordering::Relaxed) {
        begin_in_child();
    }
    let number = CURRENT.load(Ordering::Acquire);
    // A thread that ends may have dropped its log already.
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
        // The child logs nothing where that cannot be written.
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

    /// The number of a text. Most texts are the same as the last one of their kind.
    pub(super) fn name(&mut self, kind: Kind, text: &str) -> u32 {
        self.known.number(kind, text, &self.journal.names)
    }

    /// Puts a record into the buffer, and writes the buffer when it is full.
    pub(super) fn log(&mut self, put: impl FnOnce(&mut Buffer)) {
        let mut buffer = locked(&self.buffer);
        put(&mut buffer);
        if buffer.bytes_count() >= BUFFER_MAX {
            drop(buffer);
            // The end of the journal reports the error.
            let _ = self.journal.write(std::slice::from_ref(&self.buffer));
        }
    }
}

impl Journal {
    pub(super) fn ns(&self, at: Instant) -> u64 {
        self.start_ns + at.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Writes what is in these buffers, after the texts that it names.
    fn write(&self, buffers: &[Arc<Mutex<Buffer>>]) -> io::Result<()> {
        let mut output = locked(&self.output);
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

    /// Ends the journal, not the job, because a block that was written in part must be its last. A file next to it
    /// says that records are missing: this process may end without reporting it.
    fn fail(&self, error: &io::Error) {
        let _ = CURRENT.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Relaxed);
        let mut failure = locked(&self.failure);
        if failure.is_none() {
            let _ = std::fs::write(self.path.with_extension(INCOMPLETE), error.to_string());
            *failure = Some(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error));
        }
    }

    /// Writes the buffers of all threads, and forgets those of threads that ended.
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
