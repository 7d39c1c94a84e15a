//! Pages that are written together under one key.

use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::PAGE_CHECKSUM_SIZE;

use crate::error::Result;
use crate::write::output::Output;
use crate::write::pages::metadata::{next_blob, write_blob};
use crate::write::spare::Spare;

/// Pages that wait until they are written together under one key.
pub(crate) struct OpenBlob<'o> {
    output: &'o mut Output,
    date: u32,
    /// Maximum number of bytes under one key.
    bytes_max: usize,
    /// Receives the buffers of written pages for reuse.
    spare: &'o Spare,
    start: u64,
    pages: Vec<Vec<u8>>,
    size: usize,
}

impl<'o> OpenBlob<'o> {
    /// Creates an empty blob.
    pub(crate) fn new(output: &'o mut Output, date: u32, bytes_max: usize, spare: &'o Spare) -> Self {
        let start = next_blob(output);
        Self { output, date, bytes_max, spare, start, pages: Vec::new(), size: 0 }
    }

    /// Adds a page, including its checksum. Returns the location that the page will have in the file.
    pub(crate) fn add(&mut self, page: Vec<u8>) -> Result<Locator> {
        if self.size > 0 && self.size + page.len() > self.bytes_max {
            self.write()?;
        }
        let (offset, size) = (self.start + self.size as u64, page.len() as u64 - PAGE_CHECKSUM_SIZE);
        self.size += page.len();
        self.pages.push(page);
        Ok(Locator { offset, size })
    }

    /// Writes the waiting pages, if there are any. The pages that follow get a new key.
    pub(crate) fn write(&mut self) -> Result<()> {
        if self.size > 0 {
            write_blob(self.output, self.date, &self.pages)?;
        }
        self.spare.give_all(std::mem::take(&mut self.pages));
        (self.start, self.size) = (next_blob(self.output), 0);
        Ok(())
    }
}
