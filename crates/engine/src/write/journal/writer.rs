//! A thread that writes checkpoints while the merge continues. For each checkpoint, it first syncs the output and then
//! writes the journal.

use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use branchline_storage::IoCause;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::write::journal::file::JournalFile;
use crate::write::journal::records::JournalHeader;
use crate::write::output::Written;

/// Path of a file whose content is different after each boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The path of a journal, and the merge to which the journal belongs.
#[derive(Debug, Clone)]
pub(crate) struct JournalPlace {
    /// The path of the output, for error messages.
    pub(crate) output: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) header: JournalHeader,
    /// Whether the output is synced to disk before a record refers to it. If not, the journal is only valid until the
    /// machine restarts.
    pub(crate) syncs: bool,
}

/// Writes the journal of a merge.
pub(crate) struct JournalWriter {
    place: JournalPlace,
    file: Option<JournalFile>,
    busy: Option<JoinHandle<Result<JournalFile>>>,
}

impl JournalWriter {
    /// Creates a writer that continues `file`. Without a file, the journal is created together with its first records.
    pub(crate) fn new(place: JournalPlace, file: Option<JournalFile>) -> Self {
        Self { place, file, busy: None }
    }

    /// Records what has been written to the output. Waits until the previous records have been written.
    pub(crate) fn write(&mut self, written: Written, records: Vec<u8>) -> Result<()> {
        self.settle()?;
        let (file, place) = (self.file.take(), self.place.clone());
        let work = move || {
            let JournalPlace { output, journal, header, syncs } = place;
            if syncs {
                written.sync()?;
            }
            let file = file.map_or_else(|| JournalFile::begin(&journal, header, syncs), Ok);
            let recorded = file.and_then(|mut file| file.append(&records, syncs).map(|()| file));
            recorded.map_err(|error| failed(&output, &error))
        };
        let path = self.place.output.display().to_string();
        let begun = thread::Builder::new().name("branchline-journal".to_owned()).spawn(move || guarded(&path, work));
        self.busy = Some(begun.map_err(|error| failed(&self.place.output, &error))?);
        Ok(())
    }

    /// Waits until all records have been written.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Some(busy) = self.busy.take() {
            self.file = Some(busy.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(())
    }

    /// Removes the journal after the merge is complete.
    pub(crate) fn remove(mut self) {
        drop(self.settle());
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        // Wait for the thread, because the file can be removed or kept only after the thread has ended.
        drop(self.settle());
    }
}

/// Creates the error for a journal that cannot be read or written.
pub(crate) fn failed(output: &Path, error: &io::Error) -> ReadError {
    let message = format!("cannot write the journal of the merge: {error}");
    let failed = ReadError::new(ReadErrorKind::Output, &output.display().to_string(), message);
    failed.caused_by(IoCause::from(error))
}

/// Returns a digest that identifies this boot of the machine; never 0. Returns None if the system does not provide an
/// ID of the boot.
pub(crate) fn machine_start() -> Option<u128> {
    fs::read(BOOT_ID).ok().map(|id| xxh3_128(&id).max(1))
}
