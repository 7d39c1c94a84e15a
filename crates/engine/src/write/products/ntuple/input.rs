//! An RNTuple of an input.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_format::file::directory::Entry;
use branchline_format::ntuple::page_list::Page;
use branchline_format::ntuple::write::page::checked;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::limits;
use crate::write::pages::cluster::Layout;
use crate::write::pages::copy::setting_of;
use crate::write::pages::input::InputNtuple;
use crate::write::pages::union::NtupleUnion;
use crate::write::pages::zeros::ZeroPages;
use crate::write::progress::Check;
use crate::write::request::{BasketLayout, ClusterSize};

/// Approximate memory that each column takes in the list of a cluster, in bytes.
const COLUMN_BYTES: u64 = 64;

/// An RNTuple of an input.
pub(crate) struct NtupleInput {
    pub(crate) input: InputNtuple,
    /// Digest of the union by which the RNTuple was extended; 0 if there was no union.
    pub(crate) union_digest: u128,
    /// Total size of the RNTuple's pages, in bytes.
    pub(crate) page_bytes: u64,
    /// Number of bytes of memory that the input takes.
    pub(crate) held_bytes: u64,
    /// The compression of the RNTuple's first pages.
    pub(crate) page_setting: Setting,
}

/// The pages of a top-level field, ordered by column and cluster.
pub(crate) struct FieldDigests {
    pub(crate) name: String,
    pub(crate) pages: Vec<PageDigest>,
}

/// A page, with a digest of its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageDigest {
    /// The first entry of the page's cluster.
    pub(crate) first_entry: u64,
    pub(crate) elements_count: u64,
    pub(crate) digest: u64,
}

impl NtupleInput {
    /// Reads the header, footer and page lists. If fields are selected, only these are kept. If there is a union, the
    /// RNTuple is extended by all its fields.
    pub(crate) fn open(
        file: &Arc<File>,
        entry: &Entry,
        wanted: Option<&HashSet<String>>,
        union: Option<&NtupleUnion>,
    ) -> Result<Self> {
        let mut input = InputNtuple::open(file, entry, wanted)?;
        if let Some(union) = union {
            input = input.united(union)?;
        }
        let (mut page_bytes, mut held_bytes, mut page_setting) = (0u64, 0, None);
        for cluster in input.clusters()? {
            held_bytes += COLUMN_BYTES * cluster.columns_count() as u64;
            for pages in input.pages(cluster)?.into_iter().flatten() {
                held_bytes += (pages.pages.len() * size_of::<Page>()) as u64;
                page_setting = page_setting.or_else(|| setting_of(&pages));
                page_bytes = pages.pages.iter().fold(page_bytes, |sum, page| sum.saturating_add(page.stored().size));
            }
        }
        let page_setting = page_setting.unwrap_or_else(|| file_setting(file));
        Ok(Self { input, union_digest: union.map_or(0, |union| union.digest), page_bytes, held_bytes, page_setting })
    }

    /// Number of entries.
    pub(crate) fn entries_count(&self) -> u64 {
        self.input.ntuple.entries_count
    }

    /// Returns the top-level fields with digests of their pages.
    pub(crate) fn digests(&self, check: &mut Check<'_>) -> Result<Vec<FieldDigests>> {
        let schema = &self.input.schema;
        // In a damaged schema, the parents may form a cycle.
        let top_of = |field: usize| {
            let parent = |field: &usize| schema.fields.get(*field)?.parent;
            std::iter::successors(Some(field), parent).take(schema.fields.len() + 1).last()
        };
        let physical = schema.top.iter().filter(|field| schema.fields[**field].source.is_none());
        let mut all: Vec<(usize, Vec<PageDigest>)> = physical.map(|field| (*field, Vec::new())).collect();
        let mut zeros = ZeroPages::new(self.page_setting, 0);
        for cluster in self.input.clusters()? {
            check()?;
            let pages = self.input.pages(cluster)?;
            let missing = self.input.zeros_before(cluster, &pages)?;
            for (column, pages) in pages.into_iter().enumerate() {
                let top = top_of(schema.columns[column].field);
                let Some((_, digests)) = all.iter_mut().find(|(field, _)| Some(*field) == top) else { continue };
                if let (Some(count), Ok(encoding)) = (missing.get(&column), &schema.columns[column].encoding) {
                    let page = |(elements_count, digest)| PageDigest {
                        first_entry: cluster.entries.start,
                        elements_count,
                        digest,
                    };
                    digests.extend(zeros.digests(encoding, *count).into_iter().map(page));
                }
                let pages = pages.unwrap_or_default().pages;
                for (page, stored) in pages.iter().zip(self.input.read_pages(&pages)?) {
                    let named = |error| ReadError::from_format(self.input.file.path(), &error);
                    let digest = xxh3_64(checked(&stored, page).map_err(named)?);
                    let (first_entry, elements_count) = (cluster.entries.start, page.elements_count);
                    digests.push(PageDigest { first_entry, elements_count, digest });
                }
            }
        }
        let named = |(field, pages): (usize, _)| FieldDigests { name: schema.fields[field].name.clone(), pages };
        Ok(all.into_iter().map(named).collect())
    }

    /// Returns the layout for new clusters. If no codec is given, the compression of the pages is kept.
    pub(crate) fn layout(&self, wanted: BasketLayout, codec: Option<Setting>) -> Layout {
        let setting = codec.unwrap_or(self.page_setting);
        let (cluster_entries, cluster_bytes) = match wanted.clusters {
            Some(ClusterSize::Entries(entries)) => (Some(entries), limits::NTUPLE_CLUSTER_BYTES),
            Some(ClusterSize::Bytes(bytes)) => (None, bytes),
            None => (None, limits::NTUPLE_CLUSTER_BYTES),
        };
        let page_bytes = wanted.basket_bytes.map_or(limits::PAGE_BYTES, u64::from);
        Layout { setting, cluster_entries, cluster_bytes, page_bytes }
    }
}

/// Returns the compression setting of a file.
fn file_setting(file: &File) -> Setting {
    Setting::of_root(i64::from(file.compress())).unwrap_or(Setting::NONE)
}
