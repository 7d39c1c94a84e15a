//! A file that is written under a temporary name until it is complete.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use branchline_engine::write::output::Output;
//!
//! let mut output = Output::create(Path::new("new.root"), false, &[])?;
//! output.sync()?;
//! // Until now the file had a temporary name.
//! output.publish()?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

pub(crate) mod leftovers;
mod room;
mod system;
mod write_back;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use branchline_storage::{local_paths, IoCause};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::output::leftovers::{each_leftover, folder_of, temporary_of};
use crate::write::output::room::Room;
use crate::write::output::write_back::WriteBack;

/// A file that is written under a temporary name until it is published. A file that is never published is removed. A
/// published file can still be written to.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    end: u64,
    /// The last bytes, which are not in the file yet, because small records are written together.
    pending: Vec<u8>,
    pending_max: usize,
    /// Whether publishing may replace an existing file.
    replaces: bool,
    /// Whether the file is kept on drop.
    is_kept: bool,
    /// Whether the file has both its final and its temporary name.
    has_both_names: bool,
    /// The offset up to which write-back to disk has been started.
    begun: u64,
    write_back: Option<WriteBack>,
    room: Room,
    /// Whether the file is synced to disk before it gets its final name.
    syncs: bool,
    /// Whether the file has been published.
    is_published: bool,
    /// The ID of the process that writes the file. A forked child process does not remove it.
    owner: u32,
}

/// A handle for syncing all bytes written so far to disk in another thread.
#[derive(Debug)]
pub(crate) struct Written {
    path: PathBuf,
    file: File,
}

impl Written {
    /// Syncs the bytes to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed(&self.path, &error))
    }
}

impl Output {
    /// Creates a file. If a file with this name exists, it is replaced on publication if `replace` is set; otherwise an
    /// error is returned. A file in `inputs` is never replaced.
    pub fn create(path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        Self::create_as(std::process::id(), path, replace, inputs)
    }

    /// Like `create`, but with the given process ID in the temporary name.
    pub(crate) fn create_as(number: u32, path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        let temporary = temporary_of(path, number);
        check_free(path, replace, inputs)?;
        clean_up(path)?;
        let file = begin(path, &temporary)?;
        Ok(Self::of_file(file, path, temporary, replace, false))
    }

    /// Continues the temporary file that a killed process left. The file is kept on drop even if it is not published.
    pub(crate) fn resume(number: u32, path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        let temporary = temporary_of(path, number);
        take_back(path, &temporary)?;
        check_free(path, replace, inputs)?;
        let file = OpenOptions::new().read(true).write(true).open(&temporary).map_err(|error| failed(path, &error))?;
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(taken(path));
        }
        Ok(Self::of_file(file, path, temporary, replace, true))
    }

    fn of_file(file: File, path: &Path, temporary: PathBuf, replaces: bool, is_kept: bool) -> Self {
        let (path, room) = (path.to_owned(), Room::of(&file));
        Self {
            path,
            temporary,
            file,
            end: 0,
            pending: Vec::new(),
            pending_max: 0,
            replaces,
            is_kept,
            has_both_names: false,
            begun: 0,
            write_back: None,
            room,
            syncs: true,
            is_published: false,
            owner: std::process::id(),
        }
    }

    /// Starts the output with a copy of another file. The copy shares the bytes if the file system supports that.
    pub(crate) fn begin_as_copy_of(&mut self, other: &Path) -> Result<()> {
        let copied = File::open(other).and_then(|mut other| io::copy(&mut other, &mut &self.file));
        self.end = copied.map_err(|error| failed(&self.path, &error))?;
        Ok(())
    }

    /// Reads back written bytes.
    pub(crate) fn read_at(&mut self, offset: u64, count: usize) -> Result<Vec<u8>> {
        self.flush()?;
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| failed(&self.path, &error))?;
        Ok(bytes)
    }

    /// The final path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The temporary path.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// The offset at which the next bytes will be written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Enables buffering of small records, so that many of them are written together.
    pub(crate) fn write_together(&mut self) {
        self.pending_max = limits::WRITTEN_TOGETHER_BYTES;
    }

    /// Disables syncs. The file may be damaged if the machine crashes.
    pub(crate) fn skip_sync(&mut self) {
        self.syncs = false;
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all_of(&mut [IoSlice::new(bytes)])
    }

    /// Removes any bytes that a failed append wrote, and returns the error for it.
    fn failed_to_add(&mut self, error: &io::Error) -> ReadError {
        let failed = failed(&self.path, error);
        self.cut(self.end).err().unwrap_or(failed)
    }

    /// Appends the bytes of several slices.
    pub(crate) fn write_all_of(&mut self, parts: &mut [IoSlice<'_>]) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if self.pending.len() + bytes > self.pending_max {
            self.flush()?;
        }
        let end = self.end + bytes as u64;
        if bytes <= self.pending_max {
            parts.iter().for_each(|part| self.pending.extend_from_slice(part));
            self.end = end;
            return Ok(());
        }
        self.room.make(&self.file, self.end, end);
        let mut rest = parts;
        IoSlice::advance_slices(&mut rest, 0); // skip empty slices at the front
        while !rest.is_empty() {
            let count = match self.file.write_vectored(rest) {
                Ok(0) => Err(io::Error::from(io::ErrorKind::WriteZero)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                written => written,
            };
            let count = match count {
                Ok(count) => count,
                Err(error) => return Err(self.failed_to_add(&error)),
            };
            IoSlice::advance_slices(&mut rest, count);
        }
        self.end = end;
        self.begin_writing_back();
        Ok(())
    }

    /// Writes the pending bytes.
    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.room.make(&self.file, self.in_file(), self.end);
        if let Err(error) = self.file.write_all(&self.pending) {
            let failed = failed(&self.path, &error);
            return Err(self.shorten(self.in_file()).err().unwrap_or(failed));
        }
        self.pending.clear();
        self.begin_writing_back();
        Ok(())
    }

    /// The end offset of the bytes that are already in the file.
    fn in_file(&self) -> u64 {
        self.end - self.pending.len() as u64
    }

    /// Starts write-back of written bytes to disk, if enough have accumulated, while more bytes follow.
    fn begin_writing_back(&mut self) {
        if self.syncs && self.end.saturating_sub(self.begun) >= limits::WRITTEN_BACK_AT_ONCE_BYTES {
            // If the thread cannot be started, only the final sync takes longer.
            self.write_back = self.write_back.take().or_else(|| WriteBack::of(&self.file).ok());
            if let Some(write_back) = &self.write_back {
                write_back.begin(self.begun..self.end);
            }
            self.begun = self.end;
        }
    }

    /// Continues after bytes that a killed process wrote.
    pub(crate) fn skip_written(&mut self, count: u64) -> Result<()> {
        self.flush()?;
        self.end += count;
        self.seek(self.end)
    }

    /// Overwrites existing bytes.
    pub(crate) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        // The overwritten bytes may refer to pending bytes, so write these first.
        self.flush()?;
        self.file.write_all_at(bytes, offset).map_err(|error| failed(&self.path, &error))
    }

    /// Truncates the output at this offset, so that the next bytes are written there.
    pub(crate) fn cut(&mut self, end: u64) -> Result<()> {
        let in_file = self.in_file();
        self.pending.truncate(end.saturating_sub(in_file) as usize);
        self.end = in_file + self.pending.len() as u64;
        // A failed write may have written only some of its bytes.
        self.seek(in_file)?;
        self.flush()?;
        self.shorten(end)?;
        self.end = end;
        self.room.forget();
        Ok(())
    }

    /// Truncates the file on disk at this offset, so that the next bytes are written there.
    fn shorten(&mut self, end: u64) -> Result<()> {
        self.file.set_len(end).map_err(|error| failed(&self.path, &error))?;
        self.seek(end)
    }

    fn seek(&mut self, offset: u64) -> Result<()> {
        let passed = io::Seek::seek(&mut &self.file, io::SeekFrom::Start(offset));
        passed.map(|_| ()).map_err(|error| failed(&self.path, &error))
    }

    /// Finishes writing, and syncs the file to disk unless syncs are disabled.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.room.give_back(&self.file, self.end).map_err(|error| failed(&self.path, &error))?;
        // End the thread now, because a merge may have hundreds of finished outputs waiting for publication.
        self.write_back = None;
        if !self.syncs {
            return Ok(());
        }
        self.file.sync_all().map_err(|error| failed(&self.path, &error))
    }

    /// Returns a handle for syncing the bytes that have been written so far.
    pub(crate) fn written(&mut self) -> Result<Written> {
        self.flush()?;
        let file = self.file.try_clone().map_err(|error| failed(&self.path, &error))?;
        Ok(Written { path: self.path.clone(), file })
    }

    /// Whether the file has been published.
    pub(crate) fn is_published(&self) -> bool {
        self.is_published
    }

    /// Whether publishing now would replace an existing file.
    pub(crate) fn replaces_now(&self) -> bool {
        self.replaces && self.path.exists()
    }

    /// Publishes the file under its final name. If another program has created a file with this name in the meantime,
    /// it is only replaced if replacing is allowed.
    pub fn publish(&mut self) -> Result<()> {
        self.take_name()?;
        self.is_published = true;
        self.settle_name()
    }

    /// Gives the file its final name, but keeps the temporary name too, until all outputs of a merge have their final
    /// names. If the merge is killed, the resumed merge can therefore still find the file.
    pub(crate) fn take_name(&mut self) -> Result<()> {
        if self.replaces {
            return fs::rename(&self.temporary, &self.path).map_err(|error| failed(&self.path, &error));
        }
        match fs::hard_link(&self.temporary, &self.path) {
            Ok(()) => {
                self.has_both_names = true;
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Without hard links, no system call renames a file without possibly replacing another file.
            Err(_) if fs::symlink_metadata(&self.path).is_err() => {
                return fs::rename(&self.temporary, &self.path).map_err(|error| failed(&self.path, &error));
            }
            Err(_) => {}
        }
        Err(refused(&self.path, "another program has created this file in the meantime")
            .with_hint("use --force to replace it"))
    }

    /// Removes the temporary name, and syncs the final name to disk.
    pub(crate) fn settle_name(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_both_names) {
            fs::remove_file(&self.temporary).map_err(|error| failed(&self.path, &error))?;
        }
        self.is_kept = true;
        if !self.syncs {
            return Ok(());
        }
        let synced = File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(&self.path, &error))
    }

    /// Removes the final name again, because another output of the same merge could not be published.
    pub(crate) fn withdraw(self) {
        if !self.replaces {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes the final name of an output whose merge was killed before all its outputs were published.
fn take_back(path: &Path, temporary: &Path) -> Result<()> {
    let inode_of = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|known| (known.dev(), known.ino()));
    let Ok(file) = File::open(temporary) else { return Ok(()) };
    let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    let (one, other) = (inode_of(fs::symlink_metadata(path)), inode_of(file.metadata()));
    if is_locked || one.is_none() || one != other {
        return Ok(());
    }
    fs::remove_file(path).map_err(|error| failed(path, &error))
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child process does not have the write-back thread, and must not wait for it.
            std::mem::forget(self.write_back.take());
            return;
        }
        if !self.is_kept {
            // If the file cannot be removed, its temporary name still shows that the file is incomplete.
            drop(fs::remove_file(&self.temporary));
        }
        // Unlock explicitly: otherwise the file would stay locked as long as a forked child process has it open.
        drop(self.file.unlock());
    }
}

/// Removes everything that killed processes left for this output. Returns an error if another process is writing the
/// output.
fn clean_up(path: &Path) -> Result<()> {
    let of_a_file = |name: &Path| name.extension().is_some_and(|end| end == "part");
    each_leftover(path, |leftover| {
        if leftover.is_locked && of_a_file(&leftover.path) {
            return Err(taken(path));
        }
        if !leftover.is_locked {
            drop(fs::remove_file(&leftover.path));
        }
        Ok(())
    })
}

/// Creates the temporary file. Ensures that no other thread or process writes it, not even one with the same process ID
/// on another machine.
fn begin(path: &Path, temporary: &Path) -> Result<File> {
    for _ in 0..limits::OUTPUT_BEGINNINGS_COUNT {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(temporary);
        let file = file.map_err(|error| failed(path, &error))?;
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let inode_of = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|known| (known.dev(), known.ino()));
            // Before the file was locked, another process may have removed it as a leftover.
            if inode_of(file.metadata()) == inode_of(fs::symlink_metadata(temporary)) {
                file.set_len(0).map_err(|error| failed(path, &error))?;
                return Ok(file);
            }
        }
        std::thread::sleep(limits::OUTPUT_BEGINNING_PAUSE);
    }
    Err(taken(path))
}

/// Returns an error if the output path must not be written: it is an input, it is not a regular file, or it is an
/// existing file that must not be replaced.
fn check_free(path: &Path, replace: bool, inputs: &[String]) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    if let Ok(there) = fs::metadata(path) {
        if there.is_dir() {
            return Err(refused(path, "this is a directory").with_hint("give the path of a file in it"));
        }
        if !there.is_file() {
            return Err(refused(path, "this is a pipe or a device, not a file"));
        }
    }
    let is_input = |whole: &PathBuf| {
        let mut files = inputs.iter().flat_map(|input| local_paths(input));
        files.any(|input| input.canonicalize().is_ok_and(|input| input == *whole))
    };
    if path.canonicalize().is_ok_and(|whole| is_input(&whole)) {
        return Err(refused(path, "the output is one of the inputs"));
    }
    if !replace {
        return Err(refused(path, "the file already exists").with_hint("use --force to replace it"));
    }
    // A published file that is still being written is locked by its writer.
    if matches!(File::open(path).map(|file| file.try_lock_shared()), Ok(Err(TryLockError::WouldBlock))) {
        return Err(taken(path));
    }
    Ok(())
}

fn refused(path: &Path, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message)
}

fn taken(path: &Path) -> ReadError {
    refused(path, "another program is writing this file").with_hint("wait until it is closed, or choose another path")
}

fn failed(path: &Path, error: &io::Error) -> ReadError {
    let message = format!("cannot write: {error}");
    let failed = ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message);
    let failed = failed.caused_by(IoCause::from(error));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            return failed.with_hint("free space on the disk");
        }
        io::ErrorKind::FileTooLarge => {
            return failed.with_hint(
                "the file system or `ulimit -f` limits the file size; use --max-size to write several files",
            );
        }
        io::ErrorKind::PermissionDenied => return failed.with_hint("choose a folder with write permission"),
        _ => {}
    }
    let first = path.components().next();
    let is_scheme = |part: Component<'_>| part.as_os_str().to_string_lossy().ends_with(':');
    if error.kind() == io::ErrorKind::NotFound && first.is_some_and(is_scheme) {
        return failed.with_hint("outputs must be local files: write to a local path, then copy the file");
    }
    if error.kind() == io::ErrorKind::NotFound {
        return failed.with_hint("create its folder first");
    }
    failed
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_merge_that_resumes_takes_a_name_back() {
        let folder = std::env::temp_dir().join(format!("branchline-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.root");
        // Simulate that a process with this ID was killed while its output had both names.
        fs::write(&path, "whole").unwrap();
        fs::hard_link(&path, temporary_of(&path, 7)).unwrap();
        let error = Output::create_as(7, &path, false, &[]).unwrap_err();
        assert!(error.message.contains("already"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        Output::resume(7, &path, false, &[]).unwrap();
        assert!(fs::symlink_metadata(&path).is_err());
        assert_eq!(fs::read_to_string(temporary_of(&path, 7)).unwrap(), "whole");
        fs::remove_dir_all(folder).unwrap();
    }
}
