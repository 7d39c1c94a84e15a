//! The RNTuples of several files become one.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_format::directory::Entry;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::Page;
use branchline_format::ntuple::schema::Schema;
use branchline_format::ntuple::write::page::checked;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::limits;
use crate::write::baskets::copy::Copied;
use crate::write::baskets::rewrite::{ClusterSize, Rewriting};
use crate::write::merge::Order;
use crate::write::output::Output;
use crate::write::pages::cluster::{Columns, Layout};
use crate::write::pages::copy::Copying;
use crate::write::pages::input::Input;
use crate::write::pages::join::{join, of_first, ColumnMap};
use crate::write::pages::metadata::{checksum_of, write_metadata, About, Made};
use crate::write::pages::refill::{Filling, Refilling};
use crate::write::selection::Selection;

/// How the pages of an input are copied.
#[derive(Debug, Clone)]
pub(crate) struct PageCopying {
    /// In which order they are written.
    pub(crate) order: Order,
    /// Another compression, if it is wanted.
    pub(crate) setting: Option<Setting>,
    /// Bytes of pages that are read at a time.
    pub(crate) bundle_bytes: u64,
    /// How values are laid out anew, if they are.
    pub(crate) layout: Option<Layout>,
    /// Which entries are kept, when they are laid out anew; all if it is not given.
    pub(crate) selection: Option<Arc<Selection>>,
    /// Where its pages lie, if they are there already.
    pub(crate) there: Option<Vec<Copied>>,
}

/// A page, and what tells its bytes from others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageDigest {
    /// Of its cluster.
    pub(crate) first_entry: u64,
    pub(crate) elements_count: u64,
    pub(crate) digest: u64,
}

/// An RNTuple of an input.
pub(crate) struct NtupleInput {
    input: Input,
    size_bytes: u64,
    memory_bytes: u64,
}

/// What was copied of an input, until it is added.
pub(crate) struct NtupleCopy {
    schema: Schema,
    made: Vec<Made>,
    entries_count: u64,
    filling: Option<Filling>,
}

/// What has come together so far.
pub(crate) struct NtupleTotals {
    first: String,
    about: About,
    schema: Schema,
    made: Vec<Made>,
    entries_count: u64,
    /// The cluster that is not full yet.
    filling: Option<Filling>,
}

impl NtupleInput {
    /// Reads header, footer and page lists, of all fields or those that are wanted.
    pub(crate) fn open(file: &Arc<File>, entry: &Entry, wanted: Option<&HashSet<String>>) -> Result<Self> {
        let input = Input::open(file, entry, wanted)?;
        let (mut size_bytes, mut memory_bytes) = (0u64, 0);
        for cluster in input.clusters()? {
            memory_bytes += 64 * cluster.columns_count() as u64;
            for pages in input.pages(cluster)?.into_iter().flatten() {
                memory_bytes += (pages.pages.len() * size_of::<Page>()) as u64;
                size_bytes = pages.pages.iter().fold(size_bytes, |sum, page| sum.saturating_add(page.stored().size));
            }
        }
        Ok(Self { input, size_bytes, memory_bytes })
    }

    /// Bytes of its pages.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// What tells it from another of its size.
    pub(crate) fn identity(&self) -> u64 {
        self.input.ntuple.header_checksum
    }

    /// Entries in it.
    pub(crate) fn entries_count(&self) -> u64 {
        self.input.ntuple.entries_count
    }

    /// Name and pages of each field at the top, in the order of its columns and clusters.
    pub(crate) fn digests(&self, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Vec<(String, Vec<PageDigest>)>> {
        let schema = &self.input.schema;
        // Parents that make a circle lead to no field at the top.
        let top_of = |field: usize| {
            let parent = |field: &usize| schema.fields.get(*field)?.parent;
            std::iter::successors(Some(field), parent).take(schema.fields.len() + 1).last()
        };
        let physical = schema.top.iter().filter(|field| schema.fields[**field].source.is_none());
        let mut all: Vec<(usize, Vec<PageDigest>)> = physical.map(|field| (*field, Vec::new())).collect();
        for cluster in self.input.clusters()? {
            go_on()?;
            for (column, pages) in self.input.pages(cluster)?.into_iter().enumerate() {
                let top = top_of(schema.columns[column].field);
                let Some((_, digests)) = all.iter_mut().find(|(field, _)| Some(*field) == top) else { continue };
                let pages = pages.unwrap_or_default().pages;
                for (page, stored) in pages.iter().zip(self.input.read_pages(&pages)?) {
                    let named = |error| ReadError::from_format(self.input.file.path(), &error);
                    let digest = xxh3_64(checked(&stored, page).map_err(named)?);
                    let (first_entry, elements_count) = (cluster.entries.start, page.elements_count);
                    digests.push(PageDigest { first_entry, elements_count, digest });
                }
            }
        }
        Ok(all.into_iter().map(|(field, digests)| (schema.fields[field].name.clone(), digests)).collect())
    }

    /// How values are laid out that come to new clusters; compressed as they were, if no codec is wanted.
    pub(crate) fn layout(&self, wanted: Rewriting, codec: Option<Setting>) -> Layout {
        let setting =
            codec.or_else(|| Setting::of_root(i64::from(self.input.file.compress()))).unwrap_or(Setting::NONE);
        let (cluster_entries, cluster_bytes) = match wanted.clusters {
            Some(ClusterSize::Entries(entries)) => (Some(entries), limits::NTUPLE_CLUSTER_BYTES),
            Some(ClusterSize::Bytes(bytes)) => (None, bytes),
            None => (None, limits::NTUPLE_CLUSTER_BYTES),
        };
        let page_bytes = wanted.basket_bytes.map_or(limits::PAGE_BYTES, u64::from);
        Layout { setting, cluster_entries, cluster_bytes, page_bytes }
    }

    /// What of it is not merged.
    pub(crate) fn left_out(&self) -> Option<String> {
        let count = self.input.ntuple.linked_sets_count;
        (count > 0).then(|| format!("{count} sets of attributes of the RNTuple {}", self.input.ntuple.path()))
    }

    /// Copies its pages behind what was written already. `copied` is told how many bytes were copied, and may end the
    /// merge.
    pub(crate) fn copy(
        &self,
        totals: Option<&NtupleTotals>,
        how: PageCopying,
        output: &mut Output,
        copied: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<NtupleCopy> {
        let (schema, map) = self.joined(totals)?;
        let (date, mut entries_count) = (self.input.date, self.input.ntuple.entries_count);
        let input = &self.input;
        if let Some(selection) = &how.selection {
            entries_count = selection.count(0..entries_count);
        }
        if let Some(layout) = how.layout {
            let known = totals.and_then(|totals| totals.filling.clone());
            let mut filling = known.unwrap_or_else(|| Filling::new(Columns::new(&schema, layout)));
            filling.columns.extend(&schema);
            let Layout { cluster_entries, cluster_bytes, .. } = layout;
            let selection = how.selection.as_deref();
            let bundle_bytes = how.bundle_bytes;
            let refilling = Refilling {
                input,
                map: &map,
                schema: &schema,
                cluster_entries,
                cluster_bytes,
                selection,
                bundle_bytes,
            };
            let made = refilling.run(&mut filling, output, date, copied)?;
            return Ok(NtupleCopy { schema, made, entries_count, filling: Some(filling) });
        }
        let PageCopying { order, setting, bundle_bytes, .. } = how;
        let copying = Copying { input, map: &map, schema: &schema, order, bundle_bytes, setting };
        let before = output.end();
        let made = match &how.there {
            None => copying.run(output, date, copied)?,
            Some(there) => {
                let made = copying.pass(there, output)?;
                copied(output.end() - before)?;
                let message = "its pages are not those that were kept";
                made.ok_or_else(|| ReadError::new(ReadErrorKind::Unsupported, input.file.path(), message))?
            }
        };
        Ok(NtupleCopy { schema, made, entries_count, filling: None })
    }

    /// The schema with all that this input needs, and where its columns are in it. Refuses one with other fields than
    /// those before.
    pub(crate) fn joined(&self, totals: Option<&NtupleTotals>) -> Result<(Schema, ColumnMap)> {
        let own = &self.input.schema;
        let Some(totals) = totals else { return Ok((of_first(own), (0..own.columns.len()).collect())) };
        let mut schema = totals.schema.clone();
        let map = join(&mut schema, own).map_err(|what| {
            let message = format!("{}: {what}, unlike {}", self.input.ntuple.path(), totals.first);
            ReadError::new(ReadErrorKind::Unsupported, self.input.file.path(), message)
                .with_hint("only RNTuples with the same fields can be merged; merge these files apart")
        })?;
        Ok((schema, map))
    }
}

impl NtupleCopy {
    /// Where its pages lie in so many bytes of the output, as it is kept for a merge that is killed.
    pub(crate) fn places(&self, bytes: u64) -> Vec<Copied> {
        let whole = Copied { seek: 0, size: bytes, plain_size: 0, digest: 0 };
        let columns = self.made.iter().flat_map(|made| made.columns.iter().zip(&made.checksums));
        let pages = columns.flat_map(|(column, checksums)| column.pages.iter().zip(checksums));
        let place = |(page, checksum): (&Page, &u64)| {
            let Locator { offset, size } = page.locator;
            Copied { seek: offset, size, plain_size: page.elements_count, digest: *checksum }
        };
        std::iter::once(whole).chain(pages.map(place)).collect()
    }
}

impl NtupleTotals {
    /// What was copied of the first input. Header, footer and page lists are compressed as `setting` says.
    pub(crate) fn new(input: &NtupleInput, name: &str, setting: Option<Setting>, copy: NtupleCopy) -> Self {
        let Input { file, ntuple, date, .. } = &input.input;
        let setting = setting.or_else(|| Setting::of_root(i64::from(file.compress()))).unwrap_or(Setting::NONE);
        let (name, description) = (name.to_string(), ntuple.description().to_string());
        let mut totals = Self {
            first: file.path().to_string(),
            about: About { name, description, date: *date, setting },
            schema: Schema::default(),
            made: Vec::new(),
            entries_count: 0,
            filling: None,
        };
        totals.add(copy);
        totals
    }

    /// Adds what was copied.
    pub(crate) fn add(&mut self, copy: NtupleCopy) {
        self.schema = copy.schema;
        self.entries_count += copy.entries_count;
        self.made.extend(copy.made);
        self.filling = copy.filling;
    }

    /// Entries so far.
    pub(crate) fn entries_count(&self) -> u64 {
        self.entries_count
    }

    /// Pages so far, and their bytes. Those that several columns share are counted for each.
    pub(crate) fn pages(&self) -> (u64, u64) {
        let columns = self.made.iter().flat_map(|made| &made.columns);
        let pages = columns.flat_map(|column| &column.pages);
        pages.fold((0, 0), |(count, bytes), page| (count + 1, bytes + page.stored().size))
    }

    /// In what an RNTuple that was read from the disk is not this one: every page is read and compared.
    pub(crate) fn difference(
        &self,
        written: &NtupleInput,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<String>> {
        written.joined(Some(self))?;
        let input = &written.input;
        if input.ntuple.entries_count != self.entries_count {
            return Ok(Some(format!("{} entries, not {}", input.ntuple.entries_count, self.entries_count)));
        }
        let clusters = input.clusters()?;
        let made: Vec<&Made> = self.made.iter().filter(|made| made.entries_count > 0).collect();
        if clusters.len() != made.len() {
            return Ok(Some(format!("{} clusters, not {}", clusters.len(), made.len())));
        }
        for (number, (cluster, made)) in clusters.iter().zip(made).enumerate() {
            let pages = input.pages(cluster)?;
            for (column, pages) in pages.into_iter().enumerate() {
                go_on()?;
                let pages = pages.unwrap_or_default().pages;
                let none = (Vec::new(), Vec::new());
                let expected = made.columns.get(column).zip(made.checksums.get(column));
                let (places, checksums) = expected.map_or(none, |(one, two)| (one.pages.clone(), two.clone()));
                let stored = input.read_pages(&pages)?;
                let found = stored
                    .iter()
                    .zip(&pages)
                    .map(|(stored, page)| checked(stored, page).map(|_| checksum_of(stored)).unwrap_or_default());
                if pages != places || !found.eq(checksums) {
                    let path = input.schema.path_of(input.schema.columns[column].field);
                    return Ok(Some(format!("other pages of field {path} in cluster {number}")));
                }
            }
        }
        Ok(None)
    }

    /// Writes the cluster that is not full, and what comes behind the pages; answers with the bytes of the anchor.
    pub(crate) fn write_metadata(&mut self, output: &mut Output) -> Result<Vec<u8>> {
        if let Some(mut filling) = self.filling.take() {
            self.made.extend(filling.close(output, self.about.date)?);
        }
        write_metadata(output, &self.about, &self.schema, &self.made)
    }
}
