//! Pages of zeros, for elements from before a column was added: of each input every size of them is written once, and
//! shown as often as is needed.

use std::collections::HashMap;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::ntuple::encoding::Encoding;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::{Page, PAGE_CHECKSUM_SIZE};
use branchline_format::ntuple::write::page::sealed;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::limits;
use crate::write::output::Output;
use crate::write::pages::metadata::{checksum_of, write_blob};

/// The pages of zeros of a file.
pub(crate) struct ZeroPages {
    setting: Setting,
    date: u32,
    compressor: Compressor,
    /// The pages by their size before compression.
    known: HashMap<u64, (Locator, u64)>,
    /// Digests of their stored bytes, in the same way.
    digests: HashMap<u64, u64>,
}

impl ZeroPages {
    /// None yet.
    pub(crate) fn new(setting: Setting, date: u32) -> Self {
        Self { setting, date, compressor: Compressor::new(), known: HashMap::new(), digests: HashMap::new() }
    }

    /// Pages of this many elements, with their checksums. Zeros are zeros in every encoding (section "Column
    /// Description"). Without an output it is left open where they lie.
    pub(crate) fn pages(
        &mut self,
        encoding: &Encoding,
        count: u64,
        output: &mut Option<&mut Output>,
    ) -> Result<Vec<(Page, u64)>> {
        let mut pages = Vec::new();
        let mut first_element = 0;
        for elements_count in page_counts(encoding, count) {
            let (locator, checksum) = match output {
                Some(output) => self.page(encoding.page_size(elements_count), output)?,
                None => (Locator { offset: 0, size: 0 }, 0),
            };
            pages.push((Page { first_element, elements_count, locator, has_checksum: true }, checksum));
            first_element += elements_count;
        }
        Ok(pages)
    }

    /// Of the pages of this many elements the elements and a digest of the stored bytes.
    pub(crate) fn digests(&mut self, encoding: &Encoding, count: u64) -> Vec<(u64, u64)> {
        let digest = |elements_count| {
            let size = encoding.page_size(elements_count);
            let known = self.digests.entry(size).or_insert_with(|| {
                let stored = sealed(&vec![0; size as usize], self.setting, &mut self.compressor);
                xxh3_64(&stored[..stored.len() - PAGE_CHECKSUM_SIZE as usize])
            });
            (elements_count, *known)
        };
        page_counts(encoding, count).map(digest).collect()
    }

    fn page(&mut self, size: u64, output: &mut Output) -> Result<(Locator, u64)> {
        if let Some(known) = self.known.get(&size) {
            return Ok(*known);
        }
        let stored = sealed(&vec![0; size as usize], self.setting, &mut self.compressor);
        let offset = write_blob(output, self.date, &[&stored])?;
        let locator = Locator { offset, size: stored.len() as u64 - PAGE_CHECKSUM_SIZE };
        let page = (locator, checksum_of(&stored));
        self.known.insert(size, page);
        Ok(page)
    }
}

/// How many elements each page has, of `count` in all.
fn page_counts(encoding: &Encoding, count: u64) -> impl Iterator<Item = u64> {
    let most = (limits::PAGE_BYTES * 8 / encoding.bits as u64).max(1);
    (0..count.div_ceil(most)).map(move |page| most.min(count - page * most))
}
