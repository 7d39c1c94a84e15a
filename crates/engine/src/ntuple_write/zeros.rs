//! Pages of zeros, for elements from before a column was added: of each input every size of them is written once, and
//! shown as often as is needed.

use std::collections::HashMap;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::ntuple::encoding::Encoding;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::{Page, PAGE_CHECKSUM_SIZE};
use branchline_format::ntuple::write::page::sealed;

use crate::error::Result;
use crate::limits;
use crate::output::Output;

use super::sink::write_blob;

/// The pages of zeros of a file.
pub(super) struct Zeros {
    setting: Setting,
    date: u32,
    compressor: Compressor,
    /// Where the pages of so many bytes lie.
    known: HashMap<u64, Locator>,
}

impl Zeros {
    /// None yet.
    pub(super) fn new(setting: Setting, date: u32) -> Self {
        Self { setting, date, compressor: Compressor::new(), known: HashMap::new() }
    }

    /// Pages of so many elements. Zeros are zeros in every encoding (section "Column Description").
    pub(super) fn pages(&mut self, encoding: &Encoding, count: u64, output: &mut Output) -> Result<Vec<Page>> {
        let most = (limits::PAGE_BYTES * 8 / encoding.bits as u64).max(1);
        let mut pages = Vec::new();
        let mut first_element = 0;
        while first_element < count {
            let elements_count = most.min(count - first_element);
            let locator = self.page(encoding.page_size(elements_count), output)?;
            pages.push(Page { first_element, elements_count, locator, has_checksum: true });
            first_element += elements_count;
        }
        Ok(pages)
    }

    fn page(&mut self, size: u64, output: &mut Output) -> Result<Locator> {
        if let Some(known) = self.known.get(&size) {
            return Ok(*known);
        }
        let stored = sealed(&vec![0; size as usize], self.setting, &mut self.compressor);
        let offset = write_blob(output, self.date, &stored)?;
        let locator = Locator { offset, size: stored.len() as u64 - PAGE_CHECKSUM_SIZE };
        self.known.insert(size, locator);
        Ok(locator)
    }
}
