//! Appends copies of an RNTuple's pages to the output, unchanged or recompressed.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use branchline_format::compress::{Compressor, Decompressor, Setting};
use branchline_format::error::FormatError;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::{ColumnPages, Page, PAGE_CHECKSUM_SIZE};
use branchline_format::ntuple::schema::{Column, Schema};
use branchline_format::ntuple::write::elements::reencoded;
use branchline_format::ntuple::write::page::{add_checksum, checked, sealed, unpacked};
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::write::output::Output;
use crate::write::pages::input::{fixed_counts, InputNtuple};
use crate::write::pages::join::ColumnMap;
use crate::write::pages::metadata::{checksum_of, next_blob, write_blob, WrittenCluster};
use crate::write::pages::zeros::ZeroPages;
use crate::write::parallel::map_in_order;
use crate::write::placed::Placed;
use crate::write::progress::Progress;
use crate::write::request::Order;

/// A page to copy.
#[derive(Debug, Clone, Copy)]
struct PageToCopy {
    cluster: usize,
    /// The column in the input; `index` is the index of the page in this column.
    column: usize,
    index: usize,
    page: Page,
    /// Position of the page's first element in the cluster, as a fraction of the column's elements, in units of 2^-32.
    position: u64,
    is_recompressed: bool,
}

/// Identifies the bytes of a copied page: pages with equal keys have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PageKey {
    offset: u64,
    size: u64,
    plain_size: u64,
    is_recompressed: bool,
    /// Column of the output if the page is re-encoded, else None.
    column: Option<usize>,
}

/// A copy of the pages of an input.
pub(crate) struct PageCopy<'a> {
    pub(crate) input: &'a InputNtuple,
    /// Maps the columns of the input to the columns of the output.
    pub(crate) map: &'a ColumnMap,
    /// The schema of the output.
    pub(crate) schema: &'a Schema,
    pub(crate) order: Order,
    /// Number of bytes of pages to read at a time.
    pub(crate) bundle_bytes: u64,
    /// The compression of all pages. Pages with this compression are copied unchanged.
    pub(crate) setting: Setting,
}

/// Returns the compression of a column's pages, if known.
pub(crate) fn setting_of(pages: &ColumnPages) -> Option<Setting> {
    pages.compression.and_then(|number| Setting::of_root(i64::from(number)))
}

impl PageCopy<'_> {
    /// Copies all clusters, and returns the written clusters.
    pub(crate) fn run(
        &self,
        output: &mut Output,
        date: u32,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<WrittenCluster>> {
        let zeros = ZeroPages::new(self.setting, date);
        let (mut made, mut wanted) = self.clusters(zeros, &mut Some(&mut *output))?;
        match self.order {
            Order::Offset => wanted.sort_by_key(|one| one.page.locator.offset),
            Order::Branch => wanted.sort_by_key(|one| (one.column, one.cluster, one.index)),
            Order::Entry => wanted.sort_by_key(|one| (one.cluster, one.position, one.column, one.index)),
        }
        self.copy(&wanted, &mut made, date, output, progress)?;
        Ok(made)
    }

    /// Skips pages that a killed merge already wrote, in the order of clusters and columns. Returns None if the written
    /// pages do not match this RNTuple.
    pub(crate) fn skip_written(&self, written: &[Placed], output: &mut Output) -> Result<Option<Vec<WrittenCluster>>> {
        let (mut made, _) = self.clusters(ZeroPages::new(Setting::NONE, 0), &mut None)?;
        let Some((whole, mut rest)) = written.split_first() else { return Ok(None) };
        let region = output.end()..output.end().saturating_add(whole.size);
        for (pages, checksums) in made.iter_mut().flat_map(|made| made.columns.iter_mut().zip(&mut made.checksums)) {
            for (page, checksum) in pages.pages.iter_mut().zip(checksums) {
                let Some((own, after)) = rest.split_first() else { return Ok(None) };
                let is_inside = own.size <= whole.size && region.contains(&own.seek);
                if !is_inside || own.plain_size != page.elements_count {
                    return Ok(None);
                }
                page.locator = Locator { offset: own.seek, size: own.size };
                (page.has_checksum, *checksum) = (true, own.digest);
                rest = after;
            }
        }
        if !rest.is_empty() {
            return Ok(None);
        }
        output.skip_written(whole.size)?;
        Ok(Some(made))
    }

    /// Returns all clusters as they will be in the output, but without the locations of pages. Also returns the pages
    /// to copy.
    fn clusters(
        &self,
        mut zeros: ZeroPages,
        output: &mut Option<&mut Output>,
    ) -> Result<(Vec<WrittenCluster>, Vec<PageToCopy>)> {
        let (mut made, mut wanted) = (Vec::new(), Vec::new());
        for cluster in self.input.clusters()? {
            let pages = self.input.pages(cluster)?;
            let (one, more) = self.cluster(made.len(), cluster.entries_count(), pages, &mut zeros, output)?;
            made.push(one);
            wanted.extend(more);
        }
        Ok((made, wanted))
    }

    /// Returns the columns of a cluster as they will be in the output. Also returns the pages to copy.
    fn cluster(
        &self,
        number: usize,
        entries_count: u64,
        pages: Vec<Option<ColumnPages>>,
        zeros: &mut ZeroPages,
        output: &mut Option<&mut Output>,
    ) -> Result<(WrittenCluster, Vec<PageToCopy>)> {
        let schema = &self.input.schema;
        let suppressed = ColumnPages { is_suppressed: true, ..ColumnPages::default() };
        let columns = vec![suppressed; self.schema.columns.len()];
        let checksums = vec![Vec::new(); columns.len()];
        let mut made = WrittenCluster { entries_count, columns, checksums };
        let mut wanted = Vec::new();
        let fixed = fixed_counts(&self.input.schema, entries_count);
        for field in schema.fields.iter().filter(|field| field.source.is_none() && !field.columns.is_empty()) {
            let Some(active) = self.input.active(&field.columns, &pages) else {
                return Err(self.input.damaged(format!("field {} has no columns in a cluster", field.name)));
            };
            for column in active {
                let there = pages[*column].clone().unwrap_or_default();
                let place = self.map[*column];
                // Claim the same setting for all pages: ROOT's RNTupleInspector cannot open an RNTuple with several
                // compression settings in a column.
                let compression = Some(self.setting.as_root() as u32);
                made.columns[place] = ColumnPages { pages: Vec::new(), is_suppressed: false, compression };
                if let Some(expected) = fixed.get(column) {
                    let before = self.zeros_before(*column, &there, *expected, zeros, output)?;
                    (made.columns[place].pages, made.checksums[place]) = before.into_iter().unzip();
                }
                self.add_pages(number, *column, &there, &mut made.columns[place], &mut wanted);
                made.checksums[place].resize(made.columns[place].pages.len(), 0);
            }
        }
        Ok((made, wanted))
    }

    /// Returns pages of zeros, with their checksums, for the missing first elements of a column that was added later.
    fn zeros_before(
        &self,
        column: usize,
        there: &ColumnPages,
        expected: u64,
        zeros: &mut ZeroPages,
        output: &mut Option<&mut Output>,
    ) -> Result<Vec<(Page, u64)>> {
        let missing = self.input.missing_before(column, there.elements_count(), expected)?;
        if missing == 0 {
            return Ok(Vec::new());
        }
        let info = &self.schema.columns[self.map[column]];
        let named = |reason: String| {
            let error = FormatError::unsupported(reason).in_object(self.schema.path_of(info.field));
            ReadError::from_format(self.input.file.path(), &error)
        };
        let encoding = info.encoding.clone().map_err(named)?;
        zeros.pages(&encoding, missing, output)
    }

    /// Whether the pages of a column must be recompressed.
    fn is_recompressed(&self, column: usize, there: &ColumnPages) -> bool {
        setting_of(there) != Some(self.setting) || self.is_reencoded(column)
    }

    fn is_reencoded(&self, column: usize) -> bool {
        let own = &self.schema.columns[self.map[column]].encoding;
        *own != self.input.schema.columns[column].encoding
    }

    fn add_pages(
        &self,
        cluster: usize,
        column: usize,
        there: &ColumnPages,
        made: &mut ColumnPages,
        wanted: &mut Vec<PageToCopy>,
    ) {
        let (before, all) = (made.elements_count(), there.elements_count().max(1));
        let is_recompressed = self.is_recompressed(column, there);
        for page in &there.pages {
            let index = made.pages.len();
            let position = (u128::from(page.first_element) << 32) / u128::from(all);
            let position = position as u64;
            wanted.push(PageToCopy { cluster, column, index, page: *page, position, is_recompressed });
            made.pages.push(Page { first_element: before + page.first_element, ..*page });
        }
    }

    /// Copies pages and sets their new locations. A page that several columns share is copied once.
    fn copy(
        &self,
        wanted: &[PageToCopy],
        made: &mut [WrittenCluster],
        date: u32,
        output: &mut Output,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut known: HashMap<PageKey, (Locator, u64)> = HashMap::new();
        let mut rest = wanted;
        while !rest.is_empty() {
            let mut bytes = 0;
            let bundle = rest.iter().take_while(|one| {
                let is_first = bytes == 0;
                bytes += one.page.stored().size;
                is_first || bytes <= self.bundle_bytes
            });
            let (bundle, after) = rest.split_at(bundle.count());
            let mut seen: HashSet<PageKey> = HashSet::new();
            let is_new = |one: &&PageToCopy| !known.contains_key(&self.key_of(one)) && seen.insert(self.key_of(one));
            let fresh: Vec<&PageToCopy> = bundle.iter().filter(is_new).collect();
            let (parts, joined) = self.prepared(&fresh)?;
            let start = next_blob(output);
            for (one, part) in fresh.iter().zip(parts) {
                let size = (part.end - part.start) as u64 - PAGE_CHECKSUM_SIZE;
                let locator = Locator { offset: start + part.start as u64, size };
                known.insert(self.key_of(one), (locator, checksum_of(&joined[part])));
            }
            if !joined.is_empty() {
                write_blob(output, date, &[&joined])?;
            }
            for one in bundle {
                let (cluster, column) = (&mut made[one.cluster], self.map[one.column]);
                let page = &mut cluster.columns[column].pages[one.index];
                (page.locator, cluster.checksums[column][one.index]) = known[&self.key_of(one)];
                page.has_checksum = true;
            }
            progress(joined.len() as u64)?;
            rest = after;
        }
        Ok(())
    }

    /// Returns the new bytes of pages, including their checksums, as one buffer, and the range of each page in the
    /// buffer.
    fn prepared(&self, pages: &[&PageToCopy]) -> Result<(Vec<Range<usize>>, Vec<u8>)> {
        let stored = self.input.read_pages(&pages.iter().map(|one| one.page).collect::<Vec<Page>>())?;
        let both: Vec<(&PageToCopy, Bytes)> = pages.iter().copied().zip(stored).collect();
        let workers = || (Decompressor::new(), Compressor::new());
        let ready = map_in_order(&both, workers, |(decompressor, compressor), (one, stored)| {
            self.ready(one, stored, decompressor, compressor).map_err(|error| {
                let schema = &self.input.schema;
                let name = format!("field {}", schema.path_of(schema.columns[one.column].field));
                ReadError::from_format(self.input.file.path(), &error.in_object(name))
            })
        });
        let (mut parts, mut joined) = (Vec::with_capacity(ready.len()), Vec::new());
        for page in ready {
            let start = joined.len();
            joined.extend_from_slice(&page?);
            parts.push(start..joined.len());
        }
        Ok((parts, joined))
    }

    fn ready(
        &self,
        one: &PageToCopy,
        stored: &Bytes,
        decompressor: &mut Decompressor,
        compressor: &mut Compressor,
    ) -> std::result::Result<Bytes, FormatError> {
        let compressed = checked(stored, &one.page)?;
        match one.is_recompressed {
            true => {
                let known = |column: &Column| column.encoding.clone().map_err(FormatError::unsupported);
                let encoding = known(&self.input.schema.columns[one.column])?;
                let mut plain = unpacked(compressed, &one.page, &encoding, decompressor)?;
                if self.is_reencoded(one.column) {
                    let own = known(&self.schema.columns[self.map[one.column]])?;
                    plain = reencoded(&encoding, &plain, one.page.elements_count as usize, &own)?;
                }
                Ok(sealed(&plain, self.setting, compressor).into())
            }
            false if one.page.has_checksum => Ok(stored.clone()),
            false => {
                let mut bytes = compressed.to_vec();
                add_checksum(&mut bytes);
                Ok(bytes.into())
            }
        }
    }

    fn key_of(&self, one: &PageToCopy) -> PageKey {
        let Locator { offset, size } = one.page.locator;
        let encoding = self.input.schema.columns[one.column].encoding.as_ref();
        let count = one.page.elements_count;
        let plain_size = encoding.map_or(count, |encoding| encoding.page_size(count));
        let column = self.is_reencoded(one.column).then(|| self.map[one.column]);
        PageKey { offset, size, plain_size, is_recompressed: one.is_recompressed, column }
    }
}
