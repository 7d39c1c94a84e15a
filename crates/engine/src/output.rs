//! A file that is made: under another name until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{ReadError, ReadErrorKind, Result};

/// A file that is being written, and goes if it is not published.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    end: u64,
    /// Whether it stays under the name that it has.
    is_kept: bool,
}

impl Output {
    /// Begins a file. One of this name that is there is replaced at the end, or refused now; one of the inputs is never
    /// replaced.
    pub(crate) fn create(path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        Self::create_as(std::process::id(), path, replace, inputs)
    }

    /// The same, with this number in the name that it has until it is whole.
    pub(crate) fn create_as(number: u32, path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        check_free(path, replace, inputs)?;
        clean_up(path);
        let temporary = temporary_of(path, number);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&temporary);
        let file = file.map_err(|error| told(path, &error))?;
        // Others that find it can tell that somebody still writes it.
        file.try_lock().ok();
        Ok(Self { path: path.to_owned(), temporary, file, end: 0, is_kept: false })
    }

    /// Begins a file over what somebody who was killed left of it, which stays if it is not published.
    pub(crate) fn go_over(number: u32, path: &Path, replace: bool, inputs: &[String]) -> Result<Self> {
        check_free(path, replace, inputs)?;
        let temporary = temporary_of(path, number);
        let file = OpenOptions::new().read(true).write(true).open(&temporary).map_err(|error| told(path, &error))?;
        if file.try_lock().is_err() {
            let message = "somebody else is writing this output";
            return Err(ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message));
        }
        Ok(Self { path: path.to_owned(), temporary, file, end: 0, is_kept: true })
    }

    /// Where it is to be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is now.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Where the next bytes come to lie.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| told(&self.path, &error))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Leaves bytes that are there as they are.
    pub(crate) fn pass(&mut self, count: u64) -> Result<()> {
        self.end += count;
        let passed = io::Seek::seek(&mut &self.file, io::SeekFrom::Start(self.end));
        passed.map(|_| ()).map_err(|error| told(&self.path, &error))
    }

    /// Writes over bytes that are there.
    pub(crate) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| told(&self.path, &error))
    }

    /// Goes on at another place: takes back what lies behind it, or leaves a hole up to it.
    pub(crate) fn cut(&mut self, end: u64) -> Result<()> {
        let cut = || {
            self.file.set_len(end)?;
            io::Seek::seek(&mut &self.file, io::SeekFrom::Start(end))
        };
        cut().map_err(|error| told(&self.path, &error))?;
        self.end = end;
        Ok(())
    }

    /// Returns when all of it is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| told(&self.path, &error))
    }

    /// Returns when its bytes are on the disk.
    pub(crate) fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| told(&self.path, &error))
    }

    /// Gives the file its name.
    pub(crate) fn publish(&mut self) -> Result<()> {
        let publish = || {
            fs::rename(&self.temporary, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            // So that the name is on the disk, too.
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        publish().map_err(|error| told(&self.path, &error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_kept {
            // If it cannot go, its name still says that it is not whole.
            drop(fs::remove_file(&self.temporary));
        }
    }
}

const PART: &str = ".part";
const JOURNAL: &str = ".journal";

/// The name of a file while it is written, by the process with this number.
pub(crate) fn temporary_of(path: &Path, number: u32) -> PathBuf {
    path.with_file_name(format!("{}{number}{PART}", prefix(path)))
}

/// Where it is noted how far a file is that has this name while it is written.
pub(crate) fn journal_of(temporary: &Path) -> PathBuf {
    temporary.with_file_name(format!("{}{JOURNAL}", temporary.file_name().unwrap_or_default().to_string_lossy()))
}

/// The number of the process that was killed when it wrote this file and had noted how far it was; of several the last.
pub(crate) fn left_of(path: &Path) -> Option<u32> {
    let numbers =
        leftovers(path).into_iter().filter(|(found, _)| found.extension().is_some_and(|end| end == "journal"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|about| about.modified()).ok();
    numbers.max_by_key(|(found, _)| age(found)).map(|(_, number)| number)
}

/// What the names of a file begin with while it is written.
fn prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes what others that were killed left of this file.
fn clean_up(path: &Path) {
    for (found, _) in leftovers(path) {
        drop(fs::remove_file(found));
    }
}

/// What others that were killed left of this file, with their numbers.
fn leftovers(path: &Path) -> Vec<(PathBuf, u32)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = prefix(path);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(JOURNAL).unwrap_or(&name);
        let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(PART));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            found.push((entry.path(), number));
        }
    }
    found
}

/// Refuses a place where there is a file already, or one of the inputs.
fn check_free(path: &Path, replace: bool, inputs: &[String]) -> Result<()> {
    let Ok(whole) = path.canonicalize() else { return Ok(()) };
    let name = path.display().to_string();
    let is_input = |input: &String| Path::new(input).canonicalize().is_ok_and(|input| input == whole);
    if inputs.iter().any(is_input) {
        return Err(ReadError::new(ReadErrorKind::Output, &name, "the output is one of the inputs"));
    }
    if !replace {
        let error = ReadError::new(ReadErrorKind::Output, &name, "there is a file of this name already");
        return Err(error.with_hint("--force replaces it"));
    }
    Ok(())
}

fn told(path: &Path, error: &io::Error) -> ReadError {
    let message = format!("cannot write: {error}");
    let told = ReadError::new(ReadErrorKind::Output, &path.display().to_string(), message);
    if error.kind() == io::ErrorKind::StorageFull {
        return told.with_hint("make room on the disk; nothing has the name of this output");
    }
    told
}
