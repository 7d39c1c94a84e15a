//! Writes the metadata of an RNTuple after its pages: the header, the page lists, the footer and the anchor.

use std::collections::HashMap;
use std::io::IoSlice;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::error::FormatError;
use branchline_format::ntuple::anchor::Anchor;
use branchline_format::ntuple::envelope::{Link, Locator};
use branchline_format::ntuple::footer::ClusterGroup;
use branchline_format::ntuple::page_list::ColumnPages;
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::anchor::write_anchor;
use branchline_format::ntuple::write::envelope::NewEnvelope;
use branchline_format::ntuple::write::page_list::{write_page_list, NewCluster, NewColumn};
use branchline_format::ntuple::write::schema::{write_footer, write_header};
use branchline_format::write::NewKey;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::write::output::Output;

/// The class name in keys of pages and envelopes.
const BLOB_CLASS: &str = "RBlob";
/// Version of the RNTuple format. No features of later versions are used.
const VERSION: [u16; 4] = [1, 0, 0, 0];
/// Maximum size of a key (RNTupleWriteOptions::fMaxKeySize), as stated in the anchor. Pages are written under smaller
/// keys, and larger metadata are refused.
const MAX_KEY_SIZE: u64 = 1 << 30;

/// Properties that all metadata records of an RNTuple share.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    /// The name.
    pub(crate) name: String,
    /// The description.
    pub(crate) description: String,
    /// The creation time, packed as a TDatime.
    pub(crate) date: u32,
    /// The compression of the header, the footer and the page lists.
    pub(crate) setting: Setting,
}

/// A cluster whose pages have been written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenCluster {
    pub(crate) entries_count: u64,
    /// The pages of the columns that existed when the cluster was written. Columns that were added later are
    /// suppressed.
    pub(crate) columns: Vec<ColumnPages>,
    /// The checksum of each page.
    pub(crate) checksums: Vec<Vec<u64>>,
}

/// Returns the checksum at the end of a stored page.
pub(crate) fn checksum_of(stored: &[u8]) -> u64 {
    stored.last_chunk().map_or(0, |raw| u64::from_le_bytes(*raw))
}

/// Writes these parts under a new key. Returns the offset of the parts in the file.
pub(crate) fn write_blob(output: &mut Output, date: u32, parts: &[impl AsRef<[u8]>]) -> Result<u64> {
    let size = parts.iter().map(|part| part.as_ref().len() as u64).sum();
    let key = blob_key(output, date, size);
    let head = key.bytes().map_err(|error| ReadError::from_format(&output.path().display().to_string(), &error))?;
    let offset = output.end() + head.len() as u64;
    let all = std::iter::once(&*head).chain(parts.iter().map(AsRef::as_ref));
    output.write_all_of(&mut all.map(IoSlice::new).collect::<Vec<_>>())?;
    Ok(offset)
}

/// Returns the offset that the content of the next blob will have.
pub(crate) fn next_blob(output: &Output) -> u64 {
    output.end() + blob_key(output, 0, 0).size()
}

fn blob_key(output: &Output, date: u32, size: u64) -> NewKey<'static> {
    NewKey {
        class_name: BLOB_CLASS,
        name: b"",
        title: b"",
        object_size: size,
        stored_size: size,
        date,
        seek: output.end(),
        seek_directory: branchline_format::write::file::BEGIN,
        cycle: 1,
    }
}

/// Writes the header, page lists and footer for these clusters, and returns the bytes of the anchor. The header comes
/// after the pages, because only then the representations of all fields are known.
pub(crate) fn write_metadata(
    output: &mut Output,
    labels: &Labels,
    schema: &Schema,
    made: &[WrittenCluster],
) -> Result<Vec<u8>> {
    let path = output.path().display().to_string();
    let named = |error: FormatError| ReadError::from_format(&path, &error.in_object(&labels.name));
    let mut compressor = Compressor::new();
    let header = write_header(&labels.name, &labels.description, schema).map_err(named)?;
    let header_link = write_envelope(output, labels, &header, &mut compressor)?;
    let mut groups = Vec::new();
    let mut waiting: Vec<NewCluster> = Vec::new();
    let (mut size, mut counting) = (0, Counting::new(schema));
    for (index, one) in made.iter().enumerate() {
        waiting.push(counting.cluster(one));
        size += waiting.last().map_or(0, NewCluster::listed_size);
        if size > limits::PAGE_LIST_BYTES || index + 1 == made.len() {
            let list = write_page_list(header.checksum, &waiting).map_err(named)?;
            groups.push(ClusterGroup {
                first_entry: waiting[0].entries.start,
                entries_count: counting.entries - waiting[0].entries.start,
                clusters_count: waiting.len() as u32, // limited by the size of a page list
                page_list: write_envelope(output, labels, &list, &mut compressor)?,
            });
            waiting.clear();
            size = 0;
        }
    }
    let footer = write_footer(&header, &groups).map_err(named)?;
    let footer = write_envelope(output, labels, &footer, &mut compressor)?;
    let anchor = Anchor { version: VERSION, header: header_link, footer, max_key_size: MAX_KEY_SIZE };
    Ok(write_anchor(&anchor))
}

/// Number of entries, and number of elements in each slot, in the previous clusters.
struct Counting {
    entries: u64,
    /// For each column, the index of its slot. The corresponding columns of all representations share a slot.
    slots: Vec<usize>,
    elements: Vec<u64>,
}

impl Counting {
    fn new(schema: &Schema) -> Self {
        let slots = slots(schema);
        Self { entries: 0, elements: vec![0; slots.iter().max().map_or(0, |last| last + 1)], slots }
    }

    fn cluster(&mut self, made: &WrittenCluster) -> NewCluster {
        let start = self.entries;
        self.entries += made.entries_count;
        let suppressed = ColumnPages { is_suppressed: true, ..ColumnPages::default() };
        let pages = |number: usize| made.columns.get(number).unwrap_or(&suppressed).clone();
        let before = self.slots.iter().map(|slot| self.elements[*slot]);
        let column = |(number, first_element)| NewColumn { first_element, pages: pages(number) };
        let columns = before.enumerate().map(column).collect();
        for (slot, pages) in self.slots.iter().zip(&made.columns) {
            self.elements[*slot] += pages.elements_count(); // suppressed columns have no elements
        }
        NewCluster { entries: start..self.entries, columns }
    }
}

fn write_envelope(
    output: &mut Output,
    labels: &Labels,
    envelope: &NewEnvelope,
    compressor: &mut Compressor,
) -> Result<Link> {
    let stored = envelope.stored(labels.setting, compressor);
    if stored.len() as u64 > MAX_KEY_SIZE {
        let message = format!("its metadata of {} bytes exceeds the size limit of a key", stored.len());
        return Err(ReadError::from_format(&output.path().display().to_string(), &FormatError::unsupported(message)));
    }
    let offset = write_blob(output, labels.date, &[&stored])?;
    Ok(envelope.link(Locator { offset, size: stored.len() as u64 }))
}

/// Assigns a slot to each column. Columns at the same position in different representations of a field share a slot,
/// because a cluster stores the elements of the field in only one of them.
fn slots(schema: &Schema) -> Vec<usize> {
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    let slot = |(number, column): (usize, &branchline_format::ntuple::schema::Column)| {
        let representation = schema.fields[column.field].columns.get(usize::from(column.representation));
        let place = representation.and_then(|all| all.iter().position(|one| *one == number)).unwrap_or(number);
        let count = known.len();
        *known.entry((column.field, place)).or_insert(count)
    };
    schema.columns.iter().enumerate().map(slot).collect()
}
