//! A file that is written, under a temporary name until it is whole.

pub(crate) mod leftovers;
mod room;
mod system;
mod write_back;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use branchline_storage::local_paths;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::output::leftovers::{each_leftover, folder_of, temporary_of};
use crate::write::output::room::Room;
use crate::write::output::write_back::WriteBack;

/// A file that is being written under a temporary name until it is published, and is removed if it is not. It can be
/// written to after that.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    end: u64,
    /// The last bytes, which are not in the file yet: small records are written together.
    pending: Vec<u8>,
    pending_max: usize,
    /// Whether it replaces a file of its name.
    replaces: bool,
    /// Whether it stays under the name that it has.
    is_kept: bool,
    /// Whether it has its name and its temporary name.
    has_both_names: bool,
    /// The end of what was handed to the kernel for writing to the disk.
    begun: u64,
    write_back: Option<WriteBack>,
    room: Room,
    /// Whether it gets its name only when it is on the disk.
    syncs: bool,
    /// Whether it has its name.
    is_published: bool,
    /// The process that writes it. In a child that was forked it is not removed.
    owner: u32,
}

/// The bytes that were written so far, for another thread to sync.
#[derive(Debug)]
pub(crate) struct Written {
    path: PathBuf,
    file: File,
}

impl Written {
    /// Returns when its bytes are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed(&self.path, &error))
    }
}

impl Output {
    /// Begins a file. An existing file of this name is replaced at the end, or refused now; one of the inputs is never
    /// replaced.
    pub fn create(path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        Self::create_as(std::process::id(), path, replace, inputs)
    }

    /// Like `create`, with the number of another process in the temporary name.
    pub(crate) fn create_as(number: u32, path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        let temporary = temporary_of(path, number);
        check_free(path, replace, inputs)?;
        clean_up(path)?;
        let file = begin(path, &temporary)?;
        Ok(Self::of_file(file, path, temporary, replace, false))
    }

    /// Continues the temporary file that a killed process left. It is kept if it is not published.
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

    /// Begins with the bytes of another file. File systems that can share them do.
    pub(crate) fn begin_as_copy_of(&mut self, other: &Path) -> Result<()> {
        let copied = File::open(other).and_then(|mut other| io::copy(&mut other, &mut &self.file));
        self.end = copied.map_err(|error| failed(&self.path, &error))?;
        Ok(())
    }

    /// Bytes that were written.
    pub(crate) fn read_at(&mut self, offset: u64, count: usize) -> Result<Vec<u8>> {
        self.flush()?;
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| failed(&self.path, &error))?;
        Ok(bytes)
    }

    /// The path that it gets when it is published.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its temporary path.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// The offset of the next bytes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Keeps small records in memory, to write many of them together.
    pub(crate) fn write_together(&mut self) {
        self.pending_max = limits::WRITTEN_TOGETHER_BYTES;
    }

    /// Does not wait for the disk. The file may be damaged if the machine stops.
    pub(crate) fn skip_sync(&mut self) {
        self.syncs = false;
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all_of(&mut [IoSlice::new(bytes)])
    }

    /// The error of a write that may have added some of its bytes, which are removed.
    fn failed_to_add(&mut self, error: &io::Error) -> ReadError {
        let failed = failed(&self.path, error);
        self.cut(self.end).err().unwrap_or(failed)
    }

    /// Adds the bytes of several slices.
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
        IoSlice::advance_slices(&mut rest, 0); // without those in front that are empty
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

    /// Writes what is pending.
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

    /// The end of what is in the file.
    fn in_file(&self) -> u64 {
        self.end - self.pending.len() as u64
    }

    /// Starts writing to the disk while more bytes follow.
    fn begin_writing_back(&mut self) {
        if self.syncs && self.end.saturating_sub(self.begun) >= limits::WRITTEN_BACK_AT_ONCE_BYTES {
            // Without the thread the last sync takes longer.
            self.write_back = self.write_back.take().or_else(|| WriteBack::of(&self.file).ok());
            if let Some(write_back) = &self.write_back {
                write_back.begin(self.begun..self.end);
            }
            self.begun = self.end;
        }
    }

    /// Continues behind bytes that a killed process wrote.
    pub(crate) fn skip_written(&mut self, count: u64) -> Result<()> {
        self.flush()?;
        self.end += count;
        self.seek(self.end)
    }

    /// Writes over bytes that are there.
    pub(crate) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        // What is written over may refer to the last bytes.
        self.flush()?;
        self.file.write_all_at(bytes, offset).map_err(|error| failed(&self.path, &error))
    }

    /// Continues at another offset. Bytes behind it are removed.
    pub(crate) fn cut(&mut self, end: u64) -> Result<()> {
        let in_file = self.in_file();
        self.pending.truncate(end.saturating_sub(in_file) as usize);
        self.end = in_file + self.pending.len() as u64;
        // A write that failed may have written a part.
        self.seek(in_file)?;
        self.flush()?;
        self.shorten(end)?;
        self.end = end;
        self.room.forget();
        Ok(())
    }

    /// Removes what the file has behind this offset, and continues there.
    fn shorten(&mut self, end: u64) -> Result<()> {
        self.file.set_len(end).map_err(|error| failed(&self.path, &error))?;
        self.seek(end)
    }

    fn seek(&mut self, offset: u64) -> Result<()> {
        let passed = io::Seek::seek(&mut &self.file, io::SeekFrom::Start(offset));
        passed.map(|_| ()).map_err(|error| failed(&self.path, &error))
    }

    /// Ends the writing. Returns when the file is on the disk, unless syncs are skipped.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.room.give_back(&self.file, self.end).map_err(|error| failed(&self.path, &error))?;
        // A merge may have hundreds of outputs that wait for their names.
        self.write_back = None;
        if !self.syncs {
            return Ok(());
        }
        self.file.sync_all().map_err(|error| failed(&self.path, &error))
    }

    /// A handle to sync what is written so far.
    pub(crate) fn written(&mut self) -> Result<Written> {
        self.flush()?;
        let file = self.file.try_clone().map_err(|error| failed(&self.path, &error))?;
        Ok(Written { path: self.path.clone(), file })
    }

    /// Whether it has its name.
    pub(crate) fn is_published(&self) -> bool {
        self.is_published
    }

    /// Whether it will replace a file that is there.
    pub(crate) fn replaces_now(&self) -> bool {
        self.replaces && self.path.exists()
    }

    /// Gives the file its name. A file that was made there meanwhile is replaced only if that is allowed.
    pub fn publish(&mut self) -> Result<()> {
        self.take_name()?;
        self.is_published = true;
        self.settle_name()
    }

    /// The same, but it keeps its temporary name, too, until the other outputs of a merge have theirs: so a merge that
    /// is resumed after a kill knows it.
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
            // Without hard links there is no call that gives a name only if it is free.
            Err(_) if fs::symlink_metadata(&self.path).is_err() => {
                return fs::rename(&self.temporary, &self.path).map_err(|error| failed(&self.path, &error));
            }
            Err(_) => {}
        }
        Err(refused(&self.path, "somebody else made a file of this name meanwhile").with_hint("--force replaces it"))
    }

    /// Removes its temporary name, and waits until its new one is on the disk.
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

    /// Takes back the name of an output, as another output of the merge could not have its own.
    pub(crate) fn withdraw(self) {
        if !self.replaces {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Takes back the name of an output whose merge was killed before its other outputs had theirs.
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
            // Its thread was not forked, and must not be waited for.
            std::mem::forget(self.write_back.take());
            return;
        }
        if !self.is_kept {
            // If it cannot be removed, its name still shows that it is not whole.
            drop(fs::remove_file(&self.temporary));
        }
        // Otherwise it stays locked as long as a child that was forked has it open.
        drop(self.file.unlock());
    }
}

/// Removes what killed processes left of this file. Refuses a file that another process writes now.
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

/// A new file that no other process writes, on this machine or on another with the same number, and no other thread.
fn begin(path: &Path, temporary: &Path) -> Result<File> {
    for _ in 0..limits::OUTPUT_BEGINNINGS_COUNT {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(temporary);
        let file = file.map_err(|error| failed(path, &error))?;
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let inode_of = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|known| (known.dev(), known.ino()));
            // Another process may have removed it as a leftover before it was locked.
            if inode_of(file.metadata()) == inode_of(fs::symlink_metadata(temporary)) {
                file.set_len(0).map_err(|error| failed(path, &error))?;
                return Ok(file);
            }
        }
        std::thread::sleep(limits::OUTPUT_BEGINNING_PAUSE);
    }
    Err(taken(path))
}

/// Refuses a place where there is a file already, or one of the inputs, or anything that no file may replace.
fn check_free(path: &Path, replace: bool, inputs: &[String]) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    if let Ok(there) = fs::metadata(path) {
        if there.is_dir() {
            return Err(refused(path, "this is a directory").with_hint("name the file to make in it"));
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
        return Err(refused(path, "there is a file of this name already").with_hint("--force replaces it"));
    }
    // A file that is published and still written to is locked.
    if matches!(File::open(path).map(|file| file.try_lock_shared()), Ok(Err(TryLockError::WouldBlock))) {
        return Err(taken(path));
    }
    Ok(())
}

fn refused(path: &Path, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message)
}

fn taken(path: &Path) -> ReadError {
    refused(path, "another program is writing this file").with_hint("wait until it is closed, or name another file")
}

fn failed(path: &Path, error: &io::Error) -> ReadError {
    let message = format!("cannot write: {error}");
    let failed = ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            return failed.with_hint("free space on the disk");
        }
        io::ErrorKind::FileTooLarge => {
            return failed.with_hint("the file system or `ulimit -f` allows no larger file; --max-size writes several");
        }
        io::ErrorKind::PermissionDenied => return failed.with_hint("name a file in a folder that you may write to"),
        _ => {}
    }
    let first = path.components().next();
    let is_scheme = |part: Component<'_>| part.as_os_str().to_string_lossy().ends_with(':');
    if error.kind() == io::ErrorKind::NotFound && first.is_some_and(is_scheme) {
        return failed.with_hint("an output is a local file; copy it there when it is whole");
    }
    if error.kind() == io::ErrorKind::NotFound {
        return failed.with_hint("make its folder first");
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
        // A process with this number was killed when its output had both names.
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
