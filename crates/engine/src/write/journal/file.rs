//! The file of a journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::write::journal::records::JournalHeader;

/// A journal file that is being written.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: File,
    /// Whether the file is kept when the merge fails.
    is_kept: bool,
}

impl JournalFile {
    /// Creates a journal, and syncs it to disk if `syncs` is set.
    pub(crate) fn begin(path: &Path, header: JournalHeader, syncs: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.try_lock().ok();
        let mut begun = Self { path: path.to_owned(), file, is_kept: false };
        begun.append(&header.bytes(), syncs)?;
        if syncs {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(begun)
    }

    /// Continues a journal after its first `end` bytes.
    pub(crate) fn resume(path: &Path, end: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.try_lock()?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok(Self { path: path.to_owned(), file, is_kept: true })
    }

    /// Appends records, and syncs them to disk if `syncs` is set.
    pub(crate) fn append(&mut self, records: &[u8], syncs: bool) -> io::Result<()> {
        self.file.write_all(records)?;
        if syncs {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Removes the journal after the merge is complete.
    pub(crate) fn remove(mut self) {
        self.is_kept = false;
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // If the journal cannot be removed, the next merge removes it, because the journal's output is missing.
            drop(fs::remove_file(&self.path));
        }
    }
}
