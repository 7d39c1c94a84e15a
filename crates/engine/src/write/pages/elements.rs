//! Reads the elements of a cluster in an input. Many pages are read at a time, in the order in which they are needed,
//! and nearby pages are coalesced.

use std::collections::HashMap;
use std::ops::Range;

use branchline_format::compress::Decompressor;
use branchline_format::error::FormatError;
use branchline_format::ntuple::encoding::{Encoding, Switch};
use branchline_format::ntuple::page_list::{Cluster, ColumnPages, Page};
use branchline_format::ntuple::write::elements::{decode, element_size, encode, reencoded, switches as switches_of};
use branchline_format::ntuple::write::page::{checked, unpacked};
use branchline_format::ntuple::write::walk::Elements;
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::write::pages::input::InputNtuple;
use crate::write::parallel::map_in_order;

type FormatResult<T> = std::result::Result<T, FormatError>;
/// Identifies a page by its column and its index in the column.
type PageId = (usize, usize);

/// Reads the elements of a cluster in an input.
pub(crate) struct ClusterReader<'a> {
    input: &'a InputNtuple,
    pages: Vec<Option<ColumnPages>>,
    /// The columns of each field that this cluster uses.
    pub(crate) active: HashMap<usize, Vec<usize>>,
    /// For each column, the number of zeros that precede its elements, because the column was added later.
    zeros: Vec<u64>,
    /// The decoded elements of pages.
    kept: HashMap<PageId, Vec<u8>>,
    /// Bundles of pages that are read together. A bundle is empty once it has been read.
    bundles: Vec<Vec<PageId>>,
    bundle_of: HashMap<PageId, usize>,
    /// The stored bytes of pages that were read but not needed yet.
    stored: HashMap<PageId, Bytes>,
    /// Whether all elements will be needed.
    is_whole: bool,
    decompressor: Decompressor,
    read_bytes: u64,
    /// The error from reading pages. It is kept here, because decoders can only return format errors.
    pub(crate) unread: Option<ReadError>,
}

impl<'a> ClusterReader<'a> {
    /// Creates a reader of a cluster. `is_whole` means that all elements will be needed. `bundle_bytes` is the number
    /// of bytes to read at a time, before compression.
    pub(crate) fn new(input: &'a InputNtuple, cluster: &Cluster, is_whole: bool, bundle_bytes: u64) -> Result<Self> {
        let pages = input.pages(cluster)?;
        let schema = &input.schema;
        let mut zeros = vec![0; schema.columns.len()];
        input.zeros_before(cluster, &pages)?.into_iter().for_each(|(column, count)| zeros[column] = count);
        let mut active = HashMap::new();
        for (number, field) in schema.fields.iter().enumerate() {
            if field.source.is_some() || field.columns.is_empty() {
                continue;
            }
            let Some(columns) = input.active(&field.columns, &pages) else {
                return Err(input.damaged(format!("field {} has no columns in a cluster", field.name)));
            };
            active.insert(number, columns.clone());
        }
        let mut own = Self {
            input,
            pages,
            active,
            zeros,
            kept: HashMap::new(),
            bundles: Vec::new(),
            bundle_of: HashMap::new(),
            stored: HashMap::new(),
            is_whole,
            decompressor: Decompressor::new(),
            read_bytes: 0,
            unread: None,
        };
        own.plan(bundle_bytes);
        Ok(own)
    }

    /// Splits the pages into bundles, in the order in which the pages are needed: all columns advance together.
    fn plan(&mut self, bundle_bytes: u64) {
        let mut wanted: Vec<(u64, PageId, u64)> = Vec::new();
        for column in self.active.values().flatten() {
            let Some(pages) = &self.pages[*column] else { continue };
            let encoding = self.input.schema.columns[*column].encoding.as_ref();
            let all = u128::from(pages.elements_count().max(1));
            for (number, page) in pages.pages.iter().enumerate() {
                let position = (u128::from(page.first_element) << 32) / all;
                let plain = encoding.map_or(0, |encoding| encoding.page_size(page.elements_count));
                wanted.push((position as u64, (*column, number), plain.max(page.stored().size)));
            }
        }
        wanted.sort_unstable();
        let mut bytes = u64::MAX;
        for (_, page, size) in wanted {
            bytes = bytes.saturating_add(size);
            if bytes > bundle_bytes {
                self.bundles.push(Vec::new());
                bytes = size;
            }
            let last = self.bundles.len() - 1;
            self.bundles[last].push(page);
            self.bundle_of.insert(page, last);
        }
    }

    /// Size of all elements before compression. Includes the zeros from before a column was added.
    pub(crate) fn plain_bytes(&self) -> u64 {
        let of = |(number, pages): (usize, &Option<ColumnPages>)| {
            let encoding = self.input.schema.columns[number].encoding.as_ref().ok()?;
            let stored = pages.as_ref().map_or(0, ColumnPages::elements_count);
            Some(encoding.page_size(stored + self.zeros[number]))
        };
        self.pages.iter().enumerate().filter_map(of).sum()
    }

    pub(crate) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    /// Drops the pages that are not needed any more once these elements have been taken.
    pub(crate) fn forget(&mut self, taken: &[Option<Range<u64>>]) {
        let (pages, zeros) = (&self.pages, &self.zeros);
        self.kept.retain(|(column, number), _| {
            let page = pages[*column].as_ref().and_then(|pages| pages.pages.get(*number));
            let end = page.map_or(0, |page| zeros[*column] + page.first_element + page.elements_count);
            taken[*column].as_ref().is_none_or(|taken| end >= taken.end)
        });
    }

    /// Returns elements of a column.
    pub(crate) fn elements(&mut self, column: usize, wanted: Range<u64>) -> FormatResult<Vec<u8>> {
        let encoding = self.input.schema.columns[column].encoding.clone().map_err(FormatError::unsupported)?;
        let size = element_size(&encoding);
        let zeros = self.zeros[column];
        let there = self.pages[column].as_ref().map_or(0, ColumnPages::elements_count);
        if wanted.start > wanted.end || wanted.end > zeros + there {
            let message = format!("elements {wanted:?} were requested, but there are only {}", zeros + there);
            return Err(FormatError::damaged(0, message));
        }
        let mut out = vec![0; size * (wanted.end.min(zeros).saturating_sub(wanted.start)) as usize];
        let (start, end) = (wanted.start.saturating_sub(zeros), wanted.end.saturating_sub(zeros));
        let pages = self.pages[column].as_ref().map_or(&[][..], |pages| &pages.pages);
        let first = pages.partition_point(|page| page.first_element + page.elements_count <= start);
        let last = pages.partition_point(|page| page.first_element < end).max(first);
        self.fetch(column, first..last)?;
        let pages = self.pages[column].as_ref().map_or(&[][..], |pages| &pages.pages);
        for (number, page) in pages.iter().enumerate().take(last).skip(first) {
            let from = start.max(page.first_element) - page.first_element;
            let to = end.min(page.first_element + page.elements_count) - page.first_element;
            let kept = &self.kept[&(column, number)];
            out.extend_from_slice(&kept[size * from as usize..size * to as usize]);
        }
        Ok(out)
    }

    /// Reads and decodes these pages of a column, except pages that are already decoded.
    fn fetch(&mut self, column: usize, wanted: Range<usize>) -> FormatResult<()> {
        let missing: Vec<PageId> =
            wanted.map(|number| (column, number)).filter(|page| !self.kept.contains_key(page)).collect();
        for page in &missing {
            if !self.stored.contains_key(page) {
                // If the page's bundle was read before and the page has been dropped since then, read the page alone.
                let mut bundle =
                    self.bundle_of.get(page).map_or(Vec::new(), |number| std::mem::take(&mut self.bundles[*number]));
                if !bundle.contains(page) {
                    bundle = vec![*page];
                }
                self.read(&bundle)?;
            }
        }
        for page in missing.into_iter().filter(|page| !self.kept.contains_key(page)).collect::<Vec<PageId>>() {
            let stored = self.stored.remove(&page).unwrap_or_default();
            let mut decompressor = std::mem::take(&mut self.decompressor);
            let elements = self.decoded(page, &stored, &mut decompressor);
            self.decompressor = decompressor;
            self.kept.insert(page, elements?);
        }
        Ok(())
    }

    /// Reads pages. If all elements will be needed, decodes the pages on all cores.
    fn read(&mut self, bundle: &[PageId]) -> FormatResult<()> {
        let pages: Vec<Page> = bundle.iter().filter_map(|page| self.page(*page)).collect();
        let stored = self.input.read_pages(&pages).map_err(|error| {
            let marker = FormatError::internal(&error.message);
            self.unread = Some(error);
            marker
        })?;
        self.read_bytes += stored.iter().map(|stored| stored.len() as u64).sum::<u64>();
        let both: Vec<(PageId, Bytes)> = bundle.iter().copied().zip(stored).collect();
        if !self.is_whole {
            self.stored.extend(both);
            return Ok(());
        }
        let decoded = map_in_order(&both, Decompressor::new, |decompressor, (page, stored)| {
            self.decoded(*page, stored, decompressor)
        });
        for ((page, stored), decoded) in both.into_iter().zip(decoded) {
            match decoded {
                Ok(elements) => drop(self.kept.insert(page, elements)),
                // When the page is needed, it is decoded again, and the error is reported with the name of the field.
                Err(_) => drop(self.stored.insert(page, stored)),
            }
        }
        Ok(())
    }

    fn page(&self, (column, number): PageId) -> Option<Page> {
        self.pages[column].as_ref()?.pages.get(number).copied()
    }

    /// Returns the elements of a page.
    fn decoded(&self, page: PageId, stored: &[u8], decompressor: &mut Decompressor) -> FormatResult<Vec<u8>> {
        let encoding = self.input.schema.columns[page.0].encoding.clone().map_err(FormatError::unsupported)?;
        let info = self.page(page).ok_or_else(|| FormatError::internal("a page does not belong to its column"))?;
        let plain = unpacked(checked(stored, &info)?, &info, &encoding, decompressor)?;
        let (mut elements, count) = (Vec::new(), info.elements_count as usize);
        decode(&encoding, &plain, count, 0..count, &mut elements)?;
        Ok(elements)
    }
}

impl Elements for ClusterReader<'_> {
    fn active(&self, field: usize) -> Option<&[usize]> {
        self.active.get(&field).map(Vec::as_slice)
    }

    fn end(&mut self, column: usize, element: u64) -> std::result::Result<u64, FormatError> {
        let raw = self.elements(column, element..element + 1)?;
        Ok(raw.first_chunk().map_or(0, |raw| u64::from_ne_bytes(*raw)))
    }

    fn switches(&mut self, column: usize, elements: Range<u64>) -> std::result::Result<Vec<Switch>, FormatError> {
        let raw = self.elements(column, elements)?;
        Ok(switches_of(&raw).collect())
    }
}

/// Converts elements to the representation of another encoding.
pub(crate) fn converted(own: &Encoding, new: &Encoding, elements: Vec<u8>) -> FormatResult<Vec<u8>> {
    if element_size(own) == element_size(new) && own.natural() == new.natural() {
        return Ok(elements);
    }
    // There is no direct conversion, so convert the encoded pages.
    let count = elements.len() / element_size(own);
    let plain = encode(own, &elements)?;
    let plain = reencoded(own, &plain, count, new)?;
    let mut converted = Vec::new();
    decode(new, &plain, count, 0..count, &mut converted)?;
    Ok(converted)
}
