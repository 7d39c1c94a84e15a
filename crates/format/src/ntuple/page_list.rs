//! Page lists: which entries a cluster has, and where the pages of its columns lie (section "Page List Envelope").
//!
//! A page list of thousands of columns and clusters is long, so its bytes are kept, and the pages of a column are
//! parsed when a read needs them.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{FormatError, Result};

use super::encoding::Encoding;
use super::envelope::{read_locator, Envelope, Locator};
use super::footer::ClusterGroup;
use super::reader::Reader;

/// Bytes of the smallest frames and of a page.
const SUMMARY_SIZE_MIN: usize = 8 + 16;
const COLUMNS_SIZE_MIN: usize = 12;
const PAGES_SIZE_MIN: usize = 12 + 8;
const PAGE_SIZE_MIN: usize = 4 + 12;
/// The highest byte of a number of entries has the cluster's flags; the first of them is reserved for sharded clusters.
const ENTRIES_BITS: u32 = 56;
const SHARDED: u64 = 1;

/// The number of LZMA in a compression setting.
const LZMA: u32 = 2;

/// Bytes of the checksum behind a page.
pub const PAGE_CHECKSUM_SIZE: u64 = 8;

/// A page of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Elements in the column's cluster before it.
    pub first_element: u64,
    /// Elements in it.
    pub elements_count: u64,
    /// Its compressed bytes.
    pub locator: Locator,
    /// Whether a checksum follows them.
    pub has_checksum: bool,
}

impl Page {
    /// Its bytes in the file, with the checksum.
    pub fn stored(&self) -> Locator {
        let checksum = if self.has_checksum { PAGE_CHECKSUM_SIZE } else { 0 };
        Locator { offset: self.locator.offset, size: self.locator.size.saturating_add(checksum) }
    }
}

/// The pages of a column in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnPages {
    /// Its pages in the order of its elements.
    pub pages: Vec<Page>,
    /// Whether another representation of its field is there instead.
    pub is_suppressed: bool,
    /// Setting that its pages were compressed with, 100 * algorithm + level.
    pub compression: Option<u32>,
}

impl ColumnPages {
    /// Bytes of memory that decoding a page needs for a while: the decompressed page, the dictionary of LZMA, and a
    /// second buffer where elements are assembled in one.
    pub fn scratch_size(&self, encoding: &Encoding, page: &Page) -> u64 {
        let size = encoding.page_size(page.elements_count);
        let has_dictionary = self.compression.is_some_and(|setting| setting / 100 == LZMA);
        size.saturating_mul(1 + u64::from(has_dictionary) + u64::from(encoding.is_staged()))
    }

    /// Elements in all its pages.
    pub fn elements_count(&self) -> u64 {
        self.pages.last().map_or(0, |page| page.first_element + page.elements_count)
    }
}

/// A cluster: its entries, and the frames of its columns in the page list of its group.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Its entries.
    pub entries: Range<u64>,
    list: Arc<Envelope>,
    /// Where the frame of pages of each column begins.
    columns: Vec<u32>,
}

/// Reads the clusters of a group.
pub fn read_page_list(envelope: Envelope, group: &ClusterGroup, header_checksum: u64) -> Result<Vec<Cluster>> {
    let named = |error: FormatError| error.in_object("page list envelope");
    let list = Arc::new(envelope);
    read_clusters(&list, group, header_checksum).map_err(named)
}

fn read_clusters(list: &Arc<Envelope>, group: &ClusterGroup, header_checksum: u64) -> Result<Vec<Cluster>> {
    let mut reader = list.payload();
    let position = reader.position() as u64;
    if reader.u64()? != header_checksum {
        return Err(FormatError::damaged(position, "it belongs to another header"));
    }
    let (mut summaries, count) = reader.list(SUMMARY_SIZE_MIN)?;
    let (mut clusters, places_count) = reader.list(COLUMNS_SIZE_MIN)?;
    if count != places_count || count != group.clusters_count as usize {
        let said = group.clusters_count;
        let message =
            format!("it has {count} clusters and pages of {places_count}, where the footer says {said} clusters");
        return Err(FormatError::damaged(position, message));
    }
    let mut read = Vec::with_capacity(count);
    for _ in 0..count {
        let entries = read_summary(&mut summaries.record()?, group)?;
        let (mut columns, columns_count) = clusters.list(PAGES_SIZE_MIN)?;
        let mut starts = Vec::with_capacity(columns_count);
        for _ in 0..columns_count {
            let start = u32::try_from(columns.position());
            starts.push(start.map_err(|_| FormatError::unsupported("a page list of more than 4 GiB"))?);
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
        return Err(FormatError::unsupported("sharded clusters"));
    }
    let end = first.checked_add(count);
    match end.filter(|end| first >= group.first_entry && *end <= group.first_entry + group.entries_count) {
        Some(end) => Ok(first..end),
        None => {
            let message = format!("a cluster of {count} entries from {first} on, which are not in its group");
            Err(FormatError::damaged(position, message))
        }
    }
}

impl Cluster {
    /// Entries in it.
    pub fn entries_count(&self) -> u64 {
        self.entries.end - self.entries.start
    }

    /// Columns that were known when it was written.
    pub fn columns_count(&self) -> usize {
        self.columns.len()
    }

    /// The pages of a column; None if it was added to the schema later. Fails if its list is damaged.
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
            first_element += elements_count; // of fewer than 2^32 pages of at most 2^31 elements
        }
        let is_suppressed = reader.i64()? < 0;
        let compression = if is_suppressed { None } else { Some(reader.u32()?) };
        Ok(Some(ColumnPages { pages, is_suppressed, compression }))
    }
}
