//! Page lists: the entries of clusters and the page locations of their columns (section "Page List Envelope").
//!
//! A page list with thousands of columns and clusters is large. Only its bytes are kept, and the pages of a column are
//! parsed on demand.
//!
//! ```
//! use branchline_format::ntuple::envelope::Locator;
//! use branchline_format::ntuple::page_list::{ColumnPages, Page};
//!
//! let page = |first_element| Page {
//!     first_element,
//!     elements_count: 100,
//!     locator: Locator { offset: 1000 + first_element, size: 80 },
//!     has_checksum: true,
//! };
//! let column = ColumnPages { pages: vec![page(0), page(100)], is_suppressed: false, compression: Some(505) };
//! assert_eq!(column.elements_count(), 200);
//! assert_eq!(column.pages[0].stored().size, 88);
//! ```

use std::ops::Range;
use std::sync::Arc;

use crate::error::{FormatError, Result};

use super::encoding::Encoding;
use super::envelope::{read_locator, Envelope, Locator};
use super::footer::ClusterGroup;
use super::reader::Reader;

/// Minimum frame size of a cluster summary.
const SUMMARY_SIZE_MIN: usize = 8 + 16;
/// Minimum size of the list frame with a cluster's columns.
const COLUMNS_SIZE_MIN: usize = 12;
/// Minimum size of the list frame with a column's pages.
const PAGES_SIZE_MIN: usize = 12 + 8;
/// Minimum size of a page's item in a page list.
const PAGE_SIZE_MIN: usize = 4 + 12;
/// Number of bits of a cluster's entry count. The remaining high byte has flags.
const ENTRIES_BITS: u32 = 56;
/// Flag that is reserved for sharded clusters.
const SHARDED: u64 = 1;

/// Algorithm code of LZMA in a compression setting.
const LZMA: u32 = 2;

/// Size of the checksum that follows a page.
pub const PAGE_CHECKSUM_SIZE: u64 = 8;

/// A page of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Index of the page's first element in the cluster.
    pub first_element: u64,
    /// Number of elements.
    pub elements_count: u64,
    /// Location of the compressed bytes.
    pub locator: Locator,
    /// Whether a checksum follows the compressed bytes.
    pub has_checksum: bool,
}

impl Page {
    /// Location of the page in the file, including the checksum.
    pub fn stored(&self) -> Locator {
        let checksum = if self.has_checksum { PAGE_CHECKSUM_SIZE } else { 0 };
        Locator { offset: self.locator.offset, size: self.locator.size.saturating_add(checksum) }
    }
}

/// A column's pages in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnPages {
    /// The pages, sorted by element.
    pub pages: Vec<Page>,
    /// Whether the cluster stores another representation of the field instead.
    pub is_suppressed: bool,
    /// Compression setting of the pages, 100 * algorithm + level.
    pub compression: Option<u32>,
}

impl ColumnPages {
    /// Temporary memory for decoding a page, in bytes: the decompressed page, the LZMA dictionary, and a second buffer
    /// if elements must be reassembled.
    pub fn scratch_size(&self, encoding: &Encoding, page: &Page) -> u64 {
        let size = encoding.page_size(page.elements_count);
        let has_dictionary = self.compression.is_some_and(|setting| setting / 100 == LZMA);
        size.saturating_mul(1 + u64::from(has_dictionary) + u64::from(encoding.is_staged()))
    }

    /// Total number of elements in all pages.
    pub fn elements_count(&self) -> u64 {
        self.pages.last().map_or(0, |page| page.first_element + page.elements_count)
    }
}

/// A cluster: its entry range, and the positions of its columns in the page list.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Range of entries.
    pub entries: Range<u64>,
    list: Arc<Envelope>,
    /// For each column, the position of its page frame in the page list.
    columns: Vec<u32>,
}

/// Read the clusters of a cluster group.
pub fn read_page_list(envelope: Envelope, group: &ClusterGroup, header_checksum: u64) -> Result<Vec<Cluster>> {
    let named = |error: FormatError| error.in_object("page list envelope");
    let list = Arc::new(envelope);
    read_clusters(&list, group, header_checksum).map_err(named)
}

fn read_clusters(list: &Arc<Envelope>, group: &ClusterGroup, header_checksum: u64) -> Result<Vec<Cluster>> {
    let mut reader = list.payload();
    let position = reader.position() as u64;
    if reader.u64()? != header_checksum {
        return Err(FormatError::damaged(position, "the page list belongs to a different header"));
    }
    let (mut summaries, count) = reader.list(SUMMARY_SIZE_MIN)?;
    let (mut clusters, places_count) = reader.list(COLUMNS_SIZE_MIN)?;
    if count != places_count || count != group.clusters_count as usize {
        let said = group.clusters_count;
        let message =
            format!("it has {count} clusters and the pages of {places_count}, but the footer records {said} clusters");
        return Err(FormatError::damaged(position, message));
    }
    let mut read = Vec::with_capacity(count);
    for _ in 0..count {
        let entries = read_summary(&mut summaries.record()?, group)?;
        let (mut columns, columns_count) = clusters.list(PAGES_SIZE_MIN)?;
        let mut starts = Vec::with_capacity(columns_count);
        for _ in 0..columns_count {
            let start = u32::try_from(columns.position());
            starts.push(start.map_err(|_| FormatError::unsupported("page lists larger than 4 GiB are not supported"))?);
            columns.list(0)?;
        }
        read.push(Cluster { entries, list: Arc::clone(list), columns: starts });
    }
    Ok(read)
}

fn read_summary(reader: &mut Reader<'_>, group: &ClusterGroup) -> Result<Range<u64>> {
    let position = reader.position() as u64;
    let (first, packed) = (reader.u64()?, reader.u64()?);
    let (flags, count) = (packed >> ENTRIES_BITS, packed & ((1 << ENTRIES_BITS) - 1));
    if flags & SHARDED != 0 {
        return Err(FormatError::unsupported("sharded clusters are not supported"));
    }
    let end = first.checked_add(count);
    match end.filter(|end| first >= group.first_entry && *end <= group.first_entry + group.entries_count) {
        Some(end) => Ok(first..end),
        None => {
            let message = format!("a cluster of {count} entries from {first} on is not in its group");
            Err(FormatError::damaged(position, message))
        }
    }
}

impl Cluster {
    /// Number of entries.
    pub fn entries_count(&self) -> u64 {
        self.entries.end - self.entries.start
    }

    /// Number of columns that existed when the cluster was written.
    pub fn columns_count(&self) -> usize {
        self.columns.len()
    }

    /// The pages of a column; None if the column was added to the schema later. Fails if the column's page frame is
    /// damaged.
    pub fn pages(&self, column: usize) -> Result<Option<ColumnPages>> {
        let Some(start) = self.columns.get(column) else { return Ok(None) };
        let mut list = Reader::at(self.list.bytes(), *start as usize);
        let (mut reader, count) = list.list(PAGE_SIZE_MIN)?;
        let mut pages = Vec::with_capacity(count);
        let mut first_element = 0u64;
        for _ in 0..count {
            let signed = reader.i32()?;
            let elements_count = u64::from(signed.unsigned_abs());
            let locator = read_locator(&mut reader)?;
            pages.push(Page { first_element, elements_count, locator, has_checksum: signed < 0 });
            first_element += elements_count; // no overflow: fewer than 2^32 pages of at most 2^31 elements
        }
        let is_suppressed = reader.i64()? < 0;
        let compression = if is_suppressed { None } else { Some(reader.u32()?) };
        Ok(Some(ColumnPages { pages, is_suppressed, compression }))
    }
}
