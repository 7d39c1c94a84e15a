//! Pages of zeros for elements from before a column was added. For each input, a page of each size is written once, and
//! referenced as often as needed.

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
    /// The location and checksum of each written page, keyed by the size before compression.
    known: HashMap<u64, (Locator, u64)>,
    /// Digests of the stored bytes of pages, keyed by the size before compression.
    digests: HashMap<u64, u64>,
}

impl ZeroPages {
    /// Creates an empty set.
    pub(crate) fn new(setting: Setting, date: u32) -> Self {
        Self { setting, date, compressor: Compressor::new(), known: HashMap::new(), digests: HashMap::new() }
    }

    /// Returns pages that have this many elements in total, with their checksums. Zero bytes mean 0 in every encoding
    /// used here (section "Column Description" of the RNTuple specification). Without an output, the locations of the
    /// pages are not set.
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

    /// Splits this many elements into pages. Returns the number of elements in each page and a digest of the page's
    /// stored bytes.
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

/// Splits `count` elements into pages, and returns the number of elements in each.
fn page_counts(encoding: &Encoding, count: u64) -> impl Iterator<Item = u64> + use<> {
    let most = (limits::PAGE_BYTES * 8 / encoding.bits as u64).max(1);
    (0..count.div_ceil(most)).map(move |page| most.min(count - page * most))
}
