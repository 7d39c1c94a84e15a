//! The footer: extensions of the schema and the cluster groups (section "Footer Envelope").
//!
//! ```
//! # use branchline_format::compress::Decompressor;
//! # use branchline_format::file::loaded_bytes::LoadedBytes;
//! # use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Locator};
//! use branchline_format::ntuple::footer::read_footer;
//! # use branchline_format::ntuple::schema::read_header;
//! # use branchline_format::ntuple::schema::Schema;
//! # use branchline_format::ntuple::write::schema::{write_footer, write_header};
//!
//! # let new_header = write_header("events", "", &Schema::default())?;
//! # let new_footer = write_footer(&new_header, &[])?;
//! # let bytes = [new_header.plain.clone(), new_footer.plain.clone()].concat();
//! # let header_size = new_header.plain.len() as u64;
//! # let loaded = LoadedBytes::whole(bytes.into());
//! # let header_link = new_header.link(Locator { offset: 0, size: header_size });
//! # let footer_link = new_footer.link(Locator { offset: header_size, size: loaded.file_size() - header_size });
//! let mut decompressor = Decompressor::default();
//! let header = read_envelope(&loaded, &header_link, EnvelopeKind::Header, 0, &mut decompressor).unwrap();
//! let footer = read_envelope(&loaded, &footer_link, EnvelopeKind::Footer, 0, &mut decompressor).unwrap();
//! let footer = read_footer(&footer, &header, read_header(&header)?)?;
//! assert!(footer.groups.is_empty());
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::error::{FormatError, Result};

use super::envelope::{read_link, Envelope, Link};
use super::reader::Reader;
use super::schema::{Header, Schema};

/// Minimum size of a cluster group's frame.
const GROUP_SIZE_MIN: usize = 8 + 20 + 8 + 12;

/// A cluster group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterGroup {
    /// Index of the first entry.
    pub first_entry: u64,
    /// Number of entries.
    pub entries_count: u64,
    /// Number of clusters.
    pub clusters_count: u32,
    /// Location of the page list with the clusters.
    pub page_list: Link,
}

/// The combined contents of the header and the footer.
#[derive(Debug, Clone)]
pub struct Footer {
    /// The schema in the header, with all extensions in the footer.
    pub schema: Schema,
    /// The non-empty cluster groups, sorted by entry.
    pub groups: Vec<ClusterGroup>,
}

/// Read the footer that belongs to this header, and extend the header's schema.
///
/// Fails if the footer belongs to a different header, if fields or columns refer to nonexistent fields or columns, or
/// if two groups contain the same entry.
pub fn read_footer(envelope: &Envelope, header: &Envelope, known: Header) -> Result<Footer> {
    let named = |error: FormatError| error.in_object("footer envelope");
    read_payload(&mut envelope.payload(), header.checksum, known.schema).map_err(named)
}

/// Number of linked attribute sets, which later format versions list after the groups. 0 if the footer is unreadable;
/// [`read_footer`] reports that error.
pub fn linked_sets_count(envelope: &Envelope) -> usize {
    let mut reader = envelope.payload();
    let mut count = || -> Result<usize> {
        reader.feature_flags()?;
        reader.skip(8)?;
        reader.record()?;
        reader.list(GROUP_SIZE_MIN)?;
        Ok(if reader.remaining() > 0 { reader.list(0)?.1 } else { 0 })
    };
    count().unwrap_or(0)
}

fn read_payload(reader: &mut Reader<'_>, header_checksum: u64, mut schema: Schema) -> Result<Footer> {
    reader.feature_flags()?;
    let position = reader.position() as u64;
    if reader.u64()? != header_checksum {
        return Err(FormatError::damaged(position, "the footer belongs to a different header"));
    }
    let mut extension = reader.record()?;
    if extension.remaining() > 0 {
        schema.extend(&mut extension).map_err(|error| error.in_object("schema extension"))?;
    }
    let (mut frames, count) = reader.list(GROUP_SIZE_MIN)?;
    let mut groups = Vec::with_capacity(count);
    for _ in 0..count {
        let mut group = frames.record()?;
        let (first_entry, entries_count, clusters_count) = (group.u64()?, group.u64()?, group.u32()?);
        if first_entry.checked_add(entries_count).is_none_or(|end| end > i64::MAX as u64) {
            let message = format!("invalid cluster group: {entries_count} entries from {first_entry} on");
            return Err(FormatError::damaged(group.position() as u64, message));
        }
        groups.push(ClusterGroup { first_entry, entries_count, clusters_count, page_list: read_link(&mut group)? });
    }
    schema.connect()?;
    groups.retain(|group: &ClusterGroup| group.entries_count > 0);
    groups.sort_by_key(|group| group.first_entry);
    match groups.windows(2).find(|pair| pair[0].first_entry + pair[0].entries_count > pair[1].first_entry) {
        None => Ok(Footer { schema, groups }),
        Some(pair) => {
            let message = format!("two cluster groups contain entry {}", pair[1].first_entry);
            Err(FormatError::damaged(position, message))
        }
    }
}
