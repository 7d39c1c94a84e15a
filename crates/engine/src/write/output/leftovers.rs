//! The names of outputs and journals while they are written, and what killed processes left under such names.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Result;

const PART: &str = ".part";
const JOURNAL: &str = ".journal";

/// The name of a file while it is written, by the process with this number.
pub(crate) fn temporary_of(path: &Path, number: u32) -> PathBuf {
    path.with_file_name(format!("{}{number}{PART}", prefix(path)))
}

/// The journal of a file that has this name while it is written.
pub(crate) fn journal_of(temporary: &Path) -> PathBuf {
    temporary.with_file_name(format!("{}{JOURNAL}", temporary.file_name().unwrap_or_default().to_string_lossy()))
}

/// The number of the killed process that left a journal of this file; the latest if there are several.
pub(crate) fn left_of(path: &Path) -> Option<u32> {
    let numbers =
        leftovers(path).into_iter().filter(|found| found.path.extension().is_some_and(|end| end == "journal"));
    let age = |found: &Leftover| fs::metadata(&found.path).and_then(|metadata| metadata.modified()).ok();
    numbers.max_by_key(age).map(|found| found.number)
}

/// What the names of a file begin with while it is written.
fn prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// What killed processes left of this file.
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

/// A file or journal with the name of an output that is not whole.
pub(crate) struct Leftover {
    pub(crate) path: PathBuf,
    /// The number of the process that wrote it.
    pub(crate) number: u32,
    /// Whether a process writes it still.
    pub(crate) is_locked: bool,
}

/// Gives each leftover of this file to `visit`. It is locked meanwhile, so that no process begins to write it.
pub(crate) fn each_leftover(path: &Path, mut visit: impl FnMut(Leftover) -> Result<()>) -> Result<()> {
    let prefix = prefix(path);
    for entry in fs::read_dir(folder_of(path)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(JOURNAL).unwrap_or(&name);
        let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(PART));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
        // To open a pipe would wait for its other end.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Network file systems lock only files that are open for writing.
        let writable = File::options().read(true).write(true).open(entry.path());
        let Ok(file) = writable.or_else(|_| File::open(entry.path())) else { continue };
        match file.try_lock() {
            Ok(()) => visit(Leftover { path: entry.path(), number, is_locked: false })?,
            Err(TryLockError::WouldBlock) => visit(Leftover { path: entry.path(), number, is_locked: true })?,
            // Without locks it is not known whether a process writes it.
            Err(TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of the output with this number, as ROOT counts them (TTree::ChangeFile): `name.root`, `name_1.root`.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}_{number}{ending}"))
}
