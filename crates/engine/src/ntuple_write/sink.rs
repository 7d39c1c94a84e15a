//! An RNTuple as it comes to lie in a file: header first, then pages, page lists between them, footer and anchor last.

use std::collections::HashMap;

use branchline_format::compress::{Compressor, Setting};
use branchline_format::error::FormatError;
use branchline_format::ntuple::anchor::{Anchor, CLASS_NAME};
use branchline_format::ntuple::envelope::{Link, Locator};
use branchline_format::ntuple::footer::ClusterGroup;
use branchline_format::ntuple::page_list::ColumnPages;
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::anchor::write_anchor;
use branchline_format::ntuple::write::envelope::NewEnvelope;
use branchline_format::ntuple::write::page_list::{write_page_list, NewCluster};
use branchline_format::ntuple::write::schema::{write_footer, write_header};
use branchline_format::write::file::BEGIN;
use branchline_format::write::NewKey;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::merge::output::Output;

/// The class of keys around pages and envelopes.
const BLOB_CLASS: &str = "RBlob";
/// Version of the format: none of what came after the first one is written.
const VERSION: [u16; 4] = [1, 0, 0, 0];
/// ROOT's own limit of what a key holds (RNTupleWriteOptions::fMaxKeySize); none of ours comes near it.
const MAX_KEY_SIZE: u64 = 1 << 30;

/// What is the same for all parts of an RNTuple.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// Its name.
    pub(crate) name: String,
    /// What its author says about it.
    pub(crate) description: String,
    /// When it was made, as TDatime packs it.
    pub(crate) date: u32,
    /// How header, footer and page lists are compressed.
    pub(crate) setting: Setting,
}

/// An RNTuple that is being written.
pub(crate) struct Sink {
    about: About,
    header: NewEnvelope,
    header_link: Link,
    /// For each column the number of its field and its place in the representation, which others share.
    slots: Vec<usize>,
    /// Elements so far, by slot.
    elements: Vec<u64>,
    waiting: Vec<NewCluster>,
    waiting_size: usize,
    groups: Vec<ClusterGroup>,
    entries_count: u64,
    compressor: Compressor,
}

/// Writes bytes behind a key of their own and tells where they lie.
pub(crate) fn write_blob(output: &mut Output, date: u32, bytes: &[u8]) -> Result<u64> {
    let key = blob_key(output, date, bytes.len() as u64);
    let head = key.bytes().map_err(|error| ReadError::from_format(&output.name(), &error))?;
    output.write(&head)?;
    let offset = output.end();
    output.write(bytes)?;
    Ok(offset)
}

/// Where the bytes of the next blob come to lie.
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
        seek_directory: BEGIN,
    }
}

impl Sink {
    /// Writes the header.
    pub(crate) fn begin(output: &mut Output, about: About, schema: &Schema) -> Result<Self> {
        let header = write_header(&about.name, &about.description, schema)
            .map_err(|error| ReadError::from_format(&output.name(), &error))?;
        let mut compressor = Compressor::new();
        let header_link = write_envelope(output, &about, &header, &mut compressor)?;
        let slots = slots(schema);
        Ok(Self {
            about,
            header,
            header_link,
            elements: vec![0; slots.iter().max().map_or(0, |last| last + 1)],
            slots,
            waiting: Vec::new(),
            waiting_size: 0,
            groups: Vec::new(),
            entries_count: 0,
            compressor,
        })
    }

    /// Entries so far.
    pub(crate) fn entries_count(&self) -> u64 {
        self.entries_count
    }

    /// When it was made.
    pub(crate) fn date(&self) -> u32 {
        self.about.date
    }

    /// Adds a cluster whose pages were written. Of the representations of a field all but one are suppressed.
    pub(crate) fn add(&mut self, output: &mut Output, entries_count: u64, columns: Vec<ColumnPages>) -> Result<()> {
        let end = self.entries_count + entries_count;
        let counts: Vec<u64> = columns.iter().map(ColumnPages::elements_count).collect();
        let before = self.slots.iter().map(|slot| self.elements[*slot]);
        let cluster =
            NewCluster { entries: self.entries_count..end, columns: before.zip(columns).collect() };
        for (slot, count) in self.slots.iter().zip(counts) {
            self.elements[*slot] += count; // suppressed columns have none
        }
        self.entries_count = end;
        self.waiting_size += cluster.listed_size();
        self.waiting.push(cluster);
        if self.waiting_size > limits::PAGE_LIST_BYTES {
            self.close_group(output)?;
        }
        Ok(())
    }

    fn close_group(&mut self, output: &mut Output) -> Result<()> {
        let clusters = std::mem::take(&mut self.waiting);
        self.waiting_size = 0;
        let Some((first, last)) = clusters.first().zip(clusters.last()) else { return Ok(()) };
        let named = |error: FormatError| ReadError::from_format(&output.name(), &error);
        let list = write_page_list(self.header.checksum, &clusters).map_err(named)?;
        let group = ClusterGroup {
            first_entry: first.entries.start,
            entries_count: last.entries.end - first.entries.start,
            clusters_count: clusters.len() as u32, // bounded by the bytes of a page list
            page_list: write_envelope(output, &self.about, &list, &mut self.compressor)?,
        };
        self.groups.push(group);
        Ok(())
    }

    /// Writes what comes behind the pages; answers with the key of the anchor for the list of keys.
    pub(crate) fn finish(mut self, output: &mut Output) -> Result<Vec<u8>> {
        self.close_group(output)?;
        let named = |output: &Output, error: FormatError| ReadError::from_format(&output.name(), &error);
        let footer = write_footer(&self.header, &self.groups).map_err(|error| named(output, error))?;
        let footer = write_envelope(output, &self.about, &footer, &mut self.compressor)?;
        let anchor = Anchor { version: VERSION, header: self.header_link, footer, max_key_size: MAX_KEY_SIZE };
        let plain = write_anchor(&anchor);
        let key = NewKey {
            class_name: CLASS_NAME,
            name: self.about.name.as_bytes(),
            title: b"",
            object_size: plain.len() as u64,
            stored_size: plain.len() as u64,
            date: self.about.date,
            seek: output.end(),
            seek_directory: BEGIN,
        };
        let key = key.bytes().map_err(|error| named(output, error))?;
        output.write(&key)?;
        output.write(&plain)?;
        Ok(key)
    }
}

fn write_envelope(
    output: &mut Output,
    about: &About,
    envelope: &NewEnvelope,
    compressor: &mut Compressor,
) -> Result<Link> {
    let stored = envelope.stored(about.setting, compressor);
    if stored.len() as u64 > MAX_KEY_SIZE {
        let message = format!("its metadata of {} bytes is more than a key holds", stored.len());
        return Err(ReadError::from_format(&output.name(), &FormatError::unsupported(message)));
    }
    let offset = write_blob(output, about.date, &stored)?;
    Ok(envelope.link(Locator { offset, size: stored.len() as u64 }))
}

/// Columns at one place of the representations of a field have as many elements each.
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
