//! The file that is made: under another name until it is whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{ReadError, ReadErrorKind, Result};

use super::MergeOptions;

/// A file that is being written, and goes if it is not finished.
pub(crate) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    end: u64,
    is_finished: bool,
}

impl Output {
    /// Begins a file.
    pub(crate) fn create(options: &MergeOptions) -> Result<Self> {
        let path = options.output.clone();
        check_free(&path, options)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary);
        let file = file.map_err(|error| told(&path, &error))?;
        Ok(Self { path, temporary, file, end: 0, is_finished: false })
    }

    /// Where the next bytes come to lie.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Leaves room for what is known at the end.
    pub(crate) fn write_placeholder(&mut self, size: u64) -> Result<()> {
        self.write(&vec![0; size as usize])
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| told(&self.path, &error))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes the first bytes, and gives the file its name once it is on the disk.
    pub(crate) fn finish(mut self, head: &[u8]) -> Result<()> {
        let written = self.finish_file(head);
        written.map_err(|error| told(&self.path, &error))?;
        self.is_finished = true;
        Ok(())
    }

    fn finish_file(&mut self, head: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(head)?;
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // So that the name is on the disk, too.
        fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_finished {
            // If it cannot go, its name still says that it is not whole.
            drop(fs::remove_file(&self.temporary));
        }
    }
}

/// Refuses a place where there is a file already, or one of the inputs.
fn check_free(path: &Path, options: &MergeOptions) -> Result<()> {
    let Ok(whole) = path.canonicalize() else { return Ok(()) };
    let name = path.display().to_string();
    let is_input = |input: &String| Path::new(input).canonicalize().is_ok_and(|input| input == whole);
    if options.inputs.iter().any(is_input) {
        return Err(ReadError::new(ReadErrorKind::Storage, &name, "the output is one of the inputs"));
    }
    if !options.replace {
        let error = ReadError::new(ReadErrorKind::Storage, &name, "there is a file of this name already");
        return Err(error.with_hint("--force replaces it"));
    }
    Ok(())
}

fn told(path: &Path, error: &io::Error) -> ReadError {
    let mut told =
        ReadError::new(ReadErrorKind::Storage, &path.display().to_string(), format!("cannot write: {error}"));
    if error.kind() == io::ErrorKind::StorageFull {
        told = told.with_hint("make room on the disk; nothing is left of this output");
    }
    told
}
