//! Encoding of page lists, which locate the pages of clusters (section "Page List Envelope").
//!
//! ```
//! use branchline_format::ntuple::page_list::ColumnPages;
//! use branchline_format::ntuple::write::page_list::{write_page_list, NewCluster, NewColumn};
//!
//! let column = NewColumn { first_element: 0, pages: ColumnPages::default() };
//! let cluster = NewCluster { entries: 0..10, columns: vec![column] };
//! let envelope = write_page_list(7, &[cluster])?;
//! assert_eq!(envelope.plain[8..16], 7u64.to_le_bytes(), "the checksum of the header");
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::ops::Range;

use crate::error::{FormatError, Result};

use super::super::envelope::EnvelopeKind;
use super::super::page_list::{ColumnPages, Page};
use super::envelope::{push_locator, NewEnvelope};
use super::wire::Wire;

/// Size of one page's item in a page list.
const PAGE_SIZE: usize = 16;
/// Size of a column without pages in a page list.
const COLUMN_SIZE: usize = 12 + 8 + 4;

/// A cluster whose pages have been written.
#[derive(Debug, Clone)]
pub struct NewCluster {
    /// Range of entries.
    pub entries: Range<u64>,
    /// The columns, in schema order.
    pub columns: Vec<NewColumn>,
}

/// A column in a cluster whose pages have been written.
#[derive(Debug, Clone)]
pub struct NewColumn {
    /// Number of the column's elements in all earlier clusters.
    pub first_element: u64,
    /// The column's pages in this cluster.
    pub pages: ColumnPages,
}

impl NewCluster {
    /// Approximate size of the column in a page list. Large locators, which take more bytes, are not considered.
    pub fn listed_size(&self) -> usize {
        self.columns.iter().map(|column| COLUMN_SIZE + PAGE_SIZE * column.pages.pages.len()).sum()
    }
}

/// Encode the page list of these clusters.
pub fn write_page_list(header_checksum: u64, clusters: &[NewCluster]) -> Result<NewEnvelope> {
    let mut wire = Wire::default();
    wire.u64(header_checksum);
    wire.list(clusters.iter(), |wire, cluster| {
        wire.record(|wire| {
            wire.u64(cluster.entries.start);
            wire.u64(cluster.entries.end - cluster.entries.start);
            Ok(())
        })
    })?;
    wire.list(clusters.iter(), |wire, cluster| wire.list(cluster.columns.iter(), push_column))?;
    Ok(NewEnvelope::new(EnvelopeKind::PageList, &wire))
}

fn push_column(wire: &mut Wire, column: &NewColumn) -> Result<()> {
    let pages = &column.pages;
    wire.list_with(pages.pages.len(), |wire| {
        for page in &pages.pages {
            push_page(wire, page)?;
        }
        if pages.is_suppressed {
            wire.i64(i64::MIN);
        } else {
            wire.u64(column.first_element);
            wire.u32(pages.compression.unwrap_or(0));
        }
        Ok(())
    })
}

fn push_page(wire: &mut Wire, page: &Page) -> Result<()> {
    let count = i32::try_from(page.elements_count);
    let count = count.map_err(|_| {
        FormatError::unsupported(format!("a page of {} elements exceeds the limit of the format", page.elements_count))
    })?;
    wire.i32(if page.has_checksum { -count } else { count });
    push_locator(wire, page.locator);
    Ok(())
}
