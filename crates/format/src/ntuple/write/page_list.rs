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
    /// Of each column the elements in all clusters before this one, and its pages.
    pub columns: Vec<(u64, ColumnPages)>,
}

impl NewCluster {
    /// About how many bytes it takes in a page list.
    pub fn listed_size(&self) -> usize {
        self.columns.iter().map(|(_, pages)| COLUMN_SIZE + PAGE_SIZE * pages.pages.len()).sum()
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
    wire.list(clusters.iter(), |wire, cluster| {
        wire.list(cluster.columns.iter(), |wire, (before, pages)| push_pages(wire, *before, pages))
    })?;
    Ok(NewEnvelope::new(EnvelopeKind::PageList, &wire))
}

fn push_pages(wire: &mut Wire, before: u64, pages: &ColumnPages) -> Result<()> {
    wire.list_with(pages.pages.len(), |wire| {
        for page in &pages.pages {
            push_page(wire, page)?;
        }
        if pages.is_suppressed {
            wire.i64(i64::MIN);
        } else {
            wire.u64(before);
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
