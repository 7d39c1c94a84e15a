//! Brings what was written to the disk and notes how far it is, in a thread of its own, while more is written.

use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{guarded, ReadError, ReadErrorKind, Result};
use crate::write::journal::{Journal, Merging};
use crate::write::output::Written;

/// Tells one start of the machine from another.
const START: &str = "/proc/sys/kernel/random/boot_id";

/// The journal of a merge, and who writes it.
pub(crate) struct Noting {
    /// Where the output is to be, of which errors speak.
    output: String,
    path: PathBuf,
    merging: Merging,
    /// Whether what is noted is on the disk first. If not, it is only good as long as the machine runs.
    waits: bool,
    journal: Option<Journal>,
    busy: Option<JoinHandle<Result<Journal>>>,
}

impl Noting {
    /// Writes a journal at `path`, or goes on with one.
    pub(crate) fn new(
        output: &str,
        path: PathBuf,
        (merging, waits): (Merging, bool),
        journal: Option<Journal>,
    ) -> Self {
        Self { output: output.to_owned(), path, merging, waits, journal, busy: None }
    }

    /// Notes records of what was written until now, when those before are noted.
    pub(crate) fn note(&mut self, written: Written, records: Vec<u8>) -> Result<()> {
        self.settle()?;
        let (journal, path, merging, waits) = (self.journal.take(), self.path.clone(), self.merging, self.waits);
        let output = self.output.clone();
        let work = move || {
            if waits {
                written.sync()?;
            }
            let journal = journal.map_or_else(|| Journal::begin(&path, merging, waits), Ok);
            let noted = journal.and_then(|mut journal| journal.append(&records, waits).map(|()| journal));
            noted.map_err(|error| told(&output, &error))
        };
        let path = self.output.clone();
        let begun = thread::Builder::new().name("branchline-noting".to_owned()).spawn(move || guarded(&path, work));
        self.busy = Some(begun.map_err(|error| told(&self.output, &error))?);
        Ok(())
    }

    /// Waits until all is noted.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Some(busy) = self.busy.take() {
            self.journal = Some(busy.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(())
    }

    /// Removes the journal: the merge is whole.
    pub(crate) fn end(mut self) {
        drop(self.settle());
        if let Some(journal) = self.journal.take() {
            journal.end();
        }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        // The journal goes, or stays, when nobody writes it any more.
        drop(self.settle());
    }
}

/// It could not be noted how far it is.
pub(crate) fn told(output: &str, error: &io::Error) -> ReadError {
    ReadError::new(ReadErrorKind::Output, output, format!("cannot note how far the merge is: {error}"))
}

/// What tells this start of the machine from others, where somebody knows; never 0.
pub(crate) fn start_of_machine() -> Option<u128> {
    fs::read(START).ok().map(|id| xxh3_128(&id).max(1))
}
