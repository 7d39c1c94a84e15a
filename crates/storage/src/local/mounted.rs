//! Files on mounted file systems, which may stop responding. All waits for such a file system have a deadline.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{FOLDER_KNOWN, MOUNT_BYTES_PER_SECOND_MIN};
use crate::local::is_on_this_machine;
use crate::servers::deadline::within;
use crate::servers::failure::Fault;
use crate::settings::Settings;
use crate::{Around, ByteRange, LocalFile, LocalMode, RangeRead, ReadEffort, Result, StorageErrorKind, Store};

/// Folders that are known to be on local disks, with the time of the last check.
static FOLDERS: Mutex<Option<HashMap<PathBuf, Instant>>> = Mutex::new(None);

fn is_known_here(folder: &Path) -> bool {
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = folders.as_ref().and_then(|folders| folders.get(folder));
    seen.is_some_and(|seen| seen.elapsed() < FOLDER_KNOWN)
}

/// Returns whether a file that was just opened is known to be on a local disk.
pub(crate) fn is_here(location: &Path) -> bool {
    is_known_here(folder_of(location))
}

fn folder_of(location: &Path) -> &Path {
    location.parent().unwrap_or(Path::new("."))
}

fn remember(folder: &Path) {
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let folders = folders.get_or_insert_default();
    folders.retain(|_, seen| seen.elapsed() < FOLDER_KNOWN);
    folders.insert(folder.to_owned(), Instant::now());
}

/// Opens the file at `location`; messages call it `path`. A separate thread opens the file if its folder is not known
/// to be on a local disk, because opening might block forever.
pub(crate) fn open(path: &str, location: &Path, mode: LocalMode, settings: &Settings) -> Result<Arc<dyn Store>> {
    let folder = folder_of(location);
    if is_known_here(folder) {
        return Ok(Arc::new(LocalFile::open(path, location, mode)?));
    }
    let (shown, place) = (path.to_owned(), location.to_owned());
    let opened = within(settings.silence, move || {
        let file = LocalFile::open(&shown, &place, mode)?;
        let is_here = is_on_this_machine(&place);
        Ok((Arc::new(file), is_here))
    });
    let opened: Result<(Arc<LocalFile>, bool)> = opened.unwrap_or_else(|error| {
        let fault = no_answer(&error, settings.silence, "its file system");
        Err(fault.at(path, None))
    });
    let (file, is_here) = opened?;
    if is_here {
        remember(folder);
        return Ok(file);
    }
    Ok(Arc::new(Mounted { file, settings: settings.clone() }))
}

fn no_answer(error: &std::io::Error, waited: Duration, who: &str) -> Fault {
    if error.kind() == std::io::ErrorKind::TimedOut {
        let reason = format!("{who} did not answer within {:.0} s; is its server down?", waited.as_secs_f64());
        return Fault::new(StorageErrorKind::Timeout, reason).final_for_now();
    }
    Fault::io(error)
}

/// A file on a mounted file system. Reads run in a separate thread and have a deadline.
struct Mounted {
    file: Arc<LocalFile>,
    settings: Settings,
}

impl Around for Mounted {
    fn inner(&self) -> &dyn Store {
        &*self.file
    }

    fn is_near(&self) -> bool {
        false
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let bytes: u64 = reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.range.length));
        let limit = self.settings.silence + Duration::from_secs(bytes / MOUNT_BYTES_PER_SECOND_MIN);
        let file: Arc<dyn Store> = self.file.clone();
        read_within(limit, &file, reads).unwrap_or_else(|error| {
            let first: Option<ByteRange> = reads.first().map(|read| read.range);
            let fault = no_answer(&error, limit, "its file system");
            Err(fault.at(self.path(), first))
        })
    }
}

/// Reads from a store in a separate thread, which is abandoned when the time limit is exceeded.
pub(crate) fn read_within(
    limit: Duration,
    store: &Arc<dyn Store>,
    reads: &mut [RangeRead],
) -> std::io::Result<Result<ReadEffort>> {
    let given = |read: &mut RangeRead| {
        let range = read.range;
        std::mem::replace(read, RangeRead::new(range))
    };
    let (mut own, store): (Vec<RangeRead>, _) = (reads.iter_mut().map(given).collect(), Arc::clone(store));
    let (result, own) = within(limit, move || {
        let result = store.read_ranges(&mut own);
        (result, own)
    })?;
    reads.iter_mut().zip(own).for_each(|(read, own)| *read = own);
    Ok(result)
}
