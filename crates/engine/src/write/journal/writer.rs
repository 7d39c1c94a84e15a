//! A thread that writes checkpoints while the merge continues: it syncs the output first, and writes the journal then.

use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::write::journal::file::JournalFile;
use crate::write::journal::records::JournalHeader;
use crate::write::output::Written;

/// Has another text after each start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The path of a journal, and the merge that it describes.
#[derive(Debug, Clone)]
pub(crate) struct JournalPlace {
    /// The output, which errors name.
    pub(crate) output: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) header: JournalHeader,
    /// Whether the output is on the disk before it is recorded. If not, a record counts only as long as the machine
    /// runs.
    pub(crate) syncs: bool,
}

/// Writes the journal of a merge.
pub(crate) struct JournalWriter {
    place: JournalPlace,
    file: Option<JournalFile>,
    busy: Option<JoinHandle<Result<JournalFile>>>,
}

impl JournalWriter {
    /// Writes a journal, or continues one. It is made with the first records.
    pub(crate) fn new(place: JournalPlace, file: Option<JournalFile>) -> Self {
        Self { place, file, busy: None }
    }

    /// Records what was written until now. Waits until the records before are written.
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

    /// Waits until all records are written.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Some(busy) = self.busy.take() {
            self.file = Some(busy.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(())
    }

    /// Removes the journal: the merge is whole.
    pub(crate) fn remove(mut self) {
        drop(self.settle());
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        // The file is removed, or stays, when the thread has ended.
        drop(self.settle());
    }
}

/// The journal could not be read or written.
pub(crate) fn failed(output: &Path, error: &io::Error) -> ReadError {
    let message = format!("cannot write the journal of the merge: {error}");
    ReadError::new(ReadErrorKind::Output, &output.display().to_string(), message)
}

/// A digest that identifies this start of the machine, where the system has one; never 0.
pub(crate) fn machine_start() -> Option<u128> {
    fs::read(BOOT_ID).ok().map(|id| xxh3_128(&id).max(1))
}
