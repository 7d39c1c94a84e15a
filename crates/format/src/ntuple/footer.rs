//! The footer: what was added to the schema, and the groups of clusters (section "Footer Envelope").

use crate::error::{FormatError, Result};

use super::envelope::{read_link, Envelope, Link};
use super::reader::Reader;
use super::schema::{Header, Schema};

/// Bytes of the smallest frame of a group of clusters.
const GROUP_SIZE_MIN: usize = 8 + 20 + 8 + 12;

/// A group of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterGroup {
    /// Smallest entry in it.
    pub first_entry: u64,
    /// Entries in it.
    pub entries_count: u64,
    /// Clusters in it.
    pub clusters_count: u32,
    /// The page list of its clusters.
    pub page_list: Link,
}

/// What header and footer say together.
#[derive(Debug, Clone)]
pub struct Footer {
    /// The schema of the header with all that was added to it.
    pub schema: Schema,
    /// The groups of clusters that have entries, in the order of these.
    pub groups: Vec<ClusterGroup>,
}

/// Reads the footer that belongs to this header, whose schema it extends.
///
/// Fails if it belongs to another header, if fields or columns refer to others that are not there, and if two groups
/// have the same entry.
pub fn read_footer(envelope: &Envelope, header: &Envelope, known: Header) -> Result<Footer> {
    let named = |error: FormatError| error.in_object("footer envelope");
    read_payload(&mut envelope.payload(), header.checksum, known.schema).map_err(named)
}

/// How many linked attribute sets it lists behind the groups, as later versions of the format do; 0 if it cannot be
/// read, which [`read_footer`] reports.
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
        return Err(FormatError::damaged(position, "it belongs to another header"));
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
            let message = format!("a group of {entries_count} entries from {first_entry} on");
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
            let message = format!("two groups of clusters have entry {}", pair[1].first_entry);
            Err(FormatError::damaged(position, message))
        }
    }
}
