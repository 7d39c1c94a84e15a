//! Copies whole files to a local disk before they are read, and removes each copy after its last reader.
//!
//! Jobs that read the same file at the same time share the copy. Every reader holds a shared lock on `.lock`. A job
//! that removes the copy holds an exclusive lock on `.lock`, and a job that makes the copy holds a lock on `.making`.
//! When a process ends for any reason, the operating system releases its locks. A copy without a lock is therefore a
//! leftover, which is removed before the next copy is made.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{flock, FlockOperation};

use branchline_trace::panics::guarded;

use crate::limits::{STAGE_LOOK_PAUSE, STAGE_PATIENCE, STAGE_RANGE_BYTES, STAGE_THREADS, STAGE_WRITE_BYTES};
use crate::progress::Progress;
use crate::room::reserve;
use crate::{Around, ByteRange, LocalFile, LocalMode, RangeRead, ReadEffort, Result, StorageError, Store};

const OWN_FOLDER: &str = "branchline-stage-1";

/// A file that is read from a copy on a local disk, or from its original location if no copy could be made.
pub struct Staged {
    inner: Arc<dyn Store>,
    copy: std::result::Result<Copy, String>,
    /// Effort of copying the file; zero once a read has reported the effort.
    effort: Mutex<ReadEffort>,
}

/// An open copy, with the lock that keeps other jobs from removing it.
struct Copy {
    // Declared first, so that the file is closed before the lock is released.
    file: LocalFile,
    _hold: Hold,
}

/// Paths of a copy, and the shared lock of one of its readers.
struct Hold {
    paths: Paths,
    lock: File,
}

struct Paths {
    lock: PathBuf,
    making: PathBuf,
    part: PathBuf,
    whole: PathBuf,
}

/// Reason why a copy could not be made.
enum NoCopy {
    /// The original file cannot be read.
    Read(StorageError),
    /// The local disk cannot take the copy, so the file is read from its original location.
    Disk(String),
}

impl From<io::Error> for NoCopy {
    fn from(error: io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

impl Staged {
    /// Copies the file into a folder with at most `requests_max` parallel requests, or waits until another job has made
    /// the copy. If the local disk is full, the file is read from its original location.
    pub fn copy(inner: Arc<dyn Store>, folder: &Path, requests_max: usize) -> Result<Self> {
        match Copy::of(&*inner, folder, requests_max) {
            Ok((copy, effort)) => Ok(Self { inner, copy: Ok(copy), effort: Mutex::new(effort) }),
            Err(NoCopy::Read(error)) => Err(error),
            Err(NoCopy::Disk(why)) => {
                let why = format!("not staged: {}: {why}", folder.display());
                Ok(Self { inner, copy: Err(why), effort: Mutex::default() })
            }
        }
    }
}

impl Around for Staged {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn gap_bytes(&self) -> u64 {
        self.copy.as_ref().map_or_else(|_| self.inner.gap_bytes(), |copy| copy.file.gap_bytes())
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let Ok(copy) = &self.copy else { return self.inner.read_ranges(reads) };
        let local = copy.file.read_ranges(reads)?;
        let staging = std::mem::take(&mut *self.effort.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(ReadEffort { cached_bytes: local.read_bytes, ..staging })
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.inner.read_again(reads)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.inner.remarks();
        remarks.extend(self.copy.as_ref().err().cloned());
        remarks
    }
}

/// Returns the user's own subfolder of `folder`, which may be shared with other users. Fails if the subfolder belongs
/// to another user.
fn own_folder(folder: &Path) -> std::result::Result<PathBuf, NoCopy> {
    let user = rustix::process::geteuid().as_raw();
    let root = std::path::absolute(folder)?.join(format!("{OWN_FOLDER}-{user}"));
    DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
    let found = fs::symlink_metadata(&root)?;
    if !found.is_dir() || found.uid() != user {
        return Err(NoCopy::Disk(format!("{} is not a folder of your own", root.display())));
    }
    Ok(root)
}

impl Copy {
    fn of(inner: &dyn Store, folder: &Path, requests_max: usize) -> std::result::Result<(Self, ReadEffort), NoCopy> {
        let size_bytes = inner.size_bytes().map_err(NoCopy::Read)?;
        let root = own_folder(folder)?;
        sweep(&root);
        // A file without an identity may change between two copies, so each reader makes its own copy.
        let own = || format!("{} {:?}", std::process::id(), Instant::now());
        let key = format!("{}\n{size_bytes}\n{}", inner.path(), inner.identity().unwrap_or_else(own));
        let hold = Hold::take(Paths::of(&root, &key))?;
        let effort = hold.make(inner, size_bytes, requests_max)?;
        let file = LocalFile::open(inner.path(), &hold.paths.whole, LocalMode::default())
            .map_err(|error| NoCopy::Disk(error.message))?;
        Ok((Self { file, _hold: hold }, effort))
    }
}

impl Paths {
    fn of(root: &Path, key: &str) -> Self {
        Self::named(&root.join(crate::cache::name_of(key)))
    }

    fn named(base: &Path) -> Self {
        let [lock, making, part, whole] = ["lock", "making", "part", "whole"].map(|what| base.with_extension(what));
        Self { lock, making, part, whole }
    }

    /// Removes the copy. The caller must hold the exclusive lock. The lock file is removed last, because it marks that
    /// the other files may exist.
    fn remove(&self) {
        for path in [&self.whole, &self.part, &self.making, &self.lock] {
            let _ = fs::remove_file(path);
        }
    }
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Returns whether `path` still refers to this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(|(one, other)| same(one, other))
}

/// Removes all copies in `root` on which no process holds a lock.
fn sweep(root: &Path) {
    let Ok(found) = fs::read_dir(root) else { return };
    for path in found.filter_map(|one| one.ok().map(|one| one.path())) {
        if path.extension().is_none_or(|what| what != "lock") {
            continue;
        }
        let Ok(lock) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&lock, &path) {
            Paths::named(&path).remove();
        }
    }
}

impl Hold {
    /// Takes a shared lock on a copy, after waiting for jobs that are removing the copy.
    fn take(paths: Paths) -> std::result::Result<Self, NoCopy> {
        let end = Instant::now() + STAGE_PATIENCE;
        while Instant::now() < end {
            let lock = opened(&paths.lock)?;
            if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() && is_at(&lock, &paths.lock) {
                return Ok(Self { paths, lock });
            }
            // Another job is removing the copy.
            std::thread::sleep(STAGE_LOOK_PAUSE);
        }
        Err(NoCopy::Disk(format!("{} is locked by another job", paths.lock.display())))
    }

    /// Makes the copy, or waits for another job to make the copy, as long as that job makes progress.
    fn make(&self, inner: &dyn Store, size_bytes: u64, requests_max: usize) -> std::result::Result<ReadEffort, NoCopy> {
        let is_there = || fs::metadata(&self.paths.whole).is_ok_and(|about| about.len() == size_bytes);
        let mut seen = None;
        let mut last = Instant::now();
        let progress = Progress::of_this_thread();
        loop {
            if is_there() {
                return Ok(ReadEffort::default());
            }
            let making = opened(&self.paths.making)?;
            if flock(&making, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&making, &self.paths.making) {
                let fetch = || self.fetch(inner, size_bytes, requests_max);
                return if is_there() { Ok(ReadEffort::default()) } else { fetch() };
            }
            let now = fs::metadata(&self.paths.part).ok().and_then(|about| about.modified().ok());
            if now != seen {
                (seen, last) = (now, Instant::now());
                progress.sign();
            }
            if last.elapsed() > STAGE_PATIENCE {
                return Err(NoCopy::Disk("another job is copying the same file without progress".to_owned()));
            }
            std::thread::sleep(STAGE_LOOK_PAUSE);
        }
    }

    fn fetch(
        &self,
        inner: &dyn Store,
        size_bytes: u64,
        requests_max: usize,
    ) -> std::result::Result<ReadEffort, NoCopy> {
        let part = OpenOptions::new().write(true).create(true).truncate(true).open(&self.paths.part)?;
        reserve(&part, size_bytes).map_err(|free| {
            let _ = fs::remove_file(&self.paths.part);
            NoCopy::Disk(format!("the file has {size_bytes} bytes, but only {free} are free"))
        })?;
        let result = copy_all(inner, &part, size_bytes, requests_max);
        if result.is_ok() {
            fs::rename(&self.paths.part, &self.paths.whole)?;
        } else {
            let _ = fs::remove_file(&self.paths.part);
        }
        result
    }
}

impl Drop for Hold {
    /// Removes the copy if no other reader is left.
    fn drop(&mut self) {
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&self.lock, &self.paths.lock) {
            self.paths.remove();
        }
    }
}

/// Copies the file in pieces with several threads, to keep the network and the disk busy at the same time.
fn copy_all(
    inner: &dyn Store,
    part: &File,
    size_bytes: u64,
    requests_max: usize,
) -> std::result::Result<ReadEffort, NoCopy> {
    let pieces = usize::try_from(size_bytes.div_ceil(STAGE_RANGE_BYTES)).unwrap_or(usize::MAX);
    let threads = STAGE_THREADS.min(requests_max).min(pieces);
    let copying = Copying { inner, part, size_bytes, next: AtomicU64::new(0), progress: Progress::of_this_thread() };
    let copy = || {
        let result = guarded(|| copying.copy_pieces())
            .unwrap_or_else(|panic| Err(NoCopy::Read(StorageError::panicked(inner.path(), &panic))));
        if result.is_err() {
            copying.next.store(size_bytes, Ordering::Relaxed);
        }
        result
    };
    std::thread::scope(|scope| {
        // The calling thread copies too, on its own if no other thread can be started.
        let start = |_| std::thread::Builder::new().name("branchline-stage".to_owned()).spawn_scoped(scope, copy).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let own = copy();
        let all = others.into_iter().map(|copied| copied.join().unwrap_or_else(|panic| resume_unwind(panic)));
        all.chain([own]).try_fold(ReadEffort::default(), |sum, copied| copied.map(|effort| sum + effort))
    })
}

/// Writes bytes to a file in pieces of [`STAGE_WRITE_BYTES`].
fn write_in_pieces(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut at = offset;
    for piece in bytes.chunks(STAGE_WRITE_BYTES) {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// State of a file that several threads are copying.
struct Copying<'a> {
    inner: &'a dyn Store,
    part: &'a File,
    size_bytes: u64,
    /// Offset of the next piece that a thread will copy.
    next: AtomicU64,
    progress: Progress,
}

impl Copying<'_> {
    /// Copies pieces until none are left, reusing one buffer.
    fn copy_pieces(&self) -> std::result::Result<ReadEffort, NoCopy> {
        let mut sum = ReadEffort::default();
        let mut buffer = Vec::new();
        loop {
            let start = self.next.fetch_add(STAGE_RANGE_BYTES, Ordering::Relaxed);
            if start >= self.size_bytes {
                return Ok(sum);
            }
            let range = ByteRange::new(start, STAGE_RANGE_BYTES.min(self.size_bytes - start));
            let mut read = RangeRead::reusing(range, buffer);
            sum = sum + self.inner.read_ranges(std::slice::from_mut(&mut read)).map_err(NoCopy::Read)?;
            write_in_pieces(self.part, read.bytes(), start)?;
            buffer = read.into_buffer().0;
            self.progress.sign();
        }
    }
}
