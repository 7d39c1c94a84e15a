//! The list of where the pages of some clusters lie (section "Page List Envelope").

use std::ops::Range;

use crate::error::{FormatError, Result};

use super::super::envelope::EnvelopeKind;
use super::super::page_list::{ColumnPages, Page};
use super::envelope::{push_locator, NewEnvelope};
use super::wire::Wire;

/// Bytes that a page and a column without any take in the list.
const PAGE_SIZE: usize = 16;
const COLUMN_SIZE: usize = 12 + 8 + 4;

/// A cluster whose pages were written.
#[derive(Debug, Clone)]
pub struct NewCluster {
    /// Its entries.
    pub entries: Range<u64>,
    /// Its columns, in the order of the schema.
    pub columns: Vec<NewColumn>,
}

/// A column of a cluster whose pages were written.
#[derive(Debug, Clone)]
pub struct NewColumn {
    /// Elements of the column in all clusters before this one.
    pub first_element: u64,
    /// Its pages in this cluster.
    pub pages: ColumnPages,
}

impl NewCluster {
    /// Bytes that it takes in a page list, roughly: large locators take more.
    pub fn listed_size(&self) -> usize {
        self.columns.iter().map(|column| COLUMN_SIZE + PAGE_SIZE * column.pages.pages.len()).sum()
    }
}

/// The page list of these clusters.
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
    let count = count.map_err(|_| FormatError::unsupported(format!("a page of {} elements", page.elements_count)))?;
    wire.i32(if page.has_checksum { -count } else { count });
    push_locator(wire, page.locator);
    Ok(())
}
