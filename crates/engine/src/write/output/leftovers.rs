//! The temporary names of outputs and journals, and the files that killed processes left under such names.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Result;

const PART: &str = ".part";
const JOURNAL: &str = ".journal";

/// Returns the temporary name of an output that the process with this ID writes.
pub(crate) fn temporary_of(path: &Path, number: u32) -> PathBuf {
    path.with_file_name(format!("{}{number}{PART}", prefix(path)))
}

/// Returns the path of the journal that belongs to a file with this temporary name.
pub(crate) fn journal_of(temporary: &Path) -> PathBuf {
    temporary.with_file_name(format!("{}{JOURNAL}", temporary.file_name().unwrap_or_default().to_string_lossy()))
}

/// Returns the ID of the killed process that left a journal for this output. If there are several, returns the ID of
/// the latest.
pub(crate) fn left_of(path: &Path) -> Option<u32> {
    let numbers =
        leftovers(path).into_iter().filter(|found| found.path.extension().is_some_and(|end| end == "journal"));
    let age = |found: &Leftover| fs::metadata(&found.path).and_then(|metadata| metadata.modified()).ok();
    numbers.max_by_key(age).map(|found| found.number)
}

/// Returns the common prefix of all temporary names of an output.
fn prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Returns all files and journals that killed processes left for this output.
fn leftovers(path: &Path) -> Vec<Leftover> {
    let mut found = Vec::new();
    let seen = each_leftover(path, |leftover| {
        if !leftover.is_locked {
            found.push(leftover);
        }
        Ok(())
    });
    drop(seen);
    found
}

/// A file or journal with the temporary name of an output.
pub(crate) struct Leftover {
    pub(crate) path: PathBuf,
    /// The ID of the process that wrote the file.
    pub(crate) number: u32,
    /// Whether a process is still writing the file.
    pub(crate) is_locked: bool,
}

/// Calls `visit` for each file that killed processes left for this output. A file that no process is writing is locked
/// during the call, so that no process starts writing it.
pub(crate) fn each_leftover(path: &Path, mut visit: impl FnMut(Leftover) -> Result<()>) -> Result<()> {
    let prefix = prefix(path);
    for entry in fs::read_dir(folder_of(path)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(JOURNAL).unwrap_or(&name);
        let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(PART));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
        // Only regular files: opening a pipe would block.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Network file systems can only lock files that are opened for writing.
        let writable = File::options().read(true).write(true).open(entry.path());
        let Ok(file) = writable.or_else(|_| File::open(entry.path())) else { continue };
        match file.try_lock() {
            Ok(()) => visit(Leftover { path: entry.path(), number, is_locked: false })?,
            Err(TryLockError::WouldBlock) => visit(Leftover { path: entry.path(), number, is_locked: true })?,
            // If the file system has no locks, another process may still be writing the file, so keep the file.
            Err(TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

/// Returns the folder that contains a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the path of the output with this index. ROOT numbers files in the same way (TTree::ChangeFile): `name.root`,
/// `name_1.root`.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}_{number}{ending}"))
}
