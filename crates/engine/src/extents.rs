//! The extents of a branch: where each of its baskets, or each page of a field of an RNTuple, lies in the file.

use std::ops::Range;

use branchline_format::compress::Codec;
use branchline_format::cursor::Cursor;
use branchline_format::file::parse_key_sizes;
use branchline_format::held::Need;
use branchline_format::ntuple::envelope::Locator;
use branchline_format::ntuple::page_list::{Cluster, Page};
use branchline_format::tree::Place;

use crate::error::{ReadError, Result};
use crate::ntuple::Ntuple;
use crate::tree::{Content, Tree};

/// Where a basket or page lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// The entries that it has values of; those of its cluster where a page does not tell.
    pub entries: Range<u64>,
}

impl Tree {
    /// The extents of a branch in the order of its entries. Baskets that came with the tree have none, and those of a
    /// branch that is kept in another file are not in this one.
    pub fn extents(&self, index: usize) -> Result<Vec<Extent>> {
        match self.content() {
            Content::Tree { meta, .. } if !meta.branches[index].file_name.is_empty() => Ok(Vec::new()),
            Content::Tree { meta, .. } => {
                let baskets = meta.branches[index].baskets.iter();
                Ok(baskets
                    .filter_map(|basket| of_basket(&basket.place, basket.entry_start..basket.entry_stop))
                    .collect())
            }
            Content::Ntuple(ntuple) => self.page_extents(ntuple, index),
        }
    }

    /// The codecs of the first baskets of these branches of a TTree, as their own bytes tell: some writers do not say it
    /// in the branch. None where there is no basket, and of an RNTuple, which says it.
    pub fn codecs_in_baskets(&self, indices: &[usize]) -> Result<Vec<Option<Codec>>> {
        let first = |index: &usize| self.extents(*index).map(|extents| extents.into_iter().next());
        let firsts = indices.iter().map(first).collect::<Result<Vec<_>>>()?;
        if matches!(self.content(), Content::Ntuple(_)) {
            return Ok(vec![None; indices.len()]);
        }
        let head = |one: &Extent| Locator { offset: one.offset, size: one.size.min(RECORD_HEAD_BYTES) };
        let mut reader = self.file().metadata_reader();
        reader.fetch(firsts.iter().flatten().map(head))?;
        let mut codec = |one: &Extent| reader.until_known(|held| codec_of(held.get(one.offset, head(one).size)?));
        firsts.iter().map(|one| one.as_ref().map(&mut codec).transpose()).collect()
    }

    fn page_extents(&self, ntuple: &Ntuple, index: usize) -> Result<Vec<Extent>> {
        let mut columns = Vec::new();
        if let Ok(form) = ntuple.form(index) {
            form.each_column(&mut |column| columns.push(column));
        }
        let mut extents = Vec::new();
        for cluster in ntuple.clusters(self.file())? {
            for column in columns.iter().filter(|column| **column < cluster.columns_count()) {
                let pages = cluster.pages(*column);
                let pages = pages.map_err(|error| {
                    let object = format!("{}, field {}", self.path(), self.branch_path(index));
                    ReadError::from_format(self.file().path(), &error.in_object(object))
                })?;
                let Some(pages) = pages else { continue };
                let an_element_an_entry = pages.elements_count() == cluster.entries_count();
                extents.extend(pages.pages.iter().map(|page| of_page(page, cluster, an_element_an_entry)));
            }
        }
        Ok(extents)
    }
}

/// What is fetched of a record for its codec: TKeys are hardly longer, as their names are those of branch and tree.
const RECORD_HEAD_BYTES: u64 = 1024;

fn codec_of(head: &[u8]) -> std::result::Result<Codec, Need> {
    let key = parse_key_sizes(&mut Cursor::new(head)).map_err(Need::Nothing)?;
    let stored = head.get(key.key_size as usize..).unwrap_or_default();
    Ok(if key.is_compressed() { Codec::of_record(stored).unwrap_or(Codec::None) } else { Codec::None })
}

fn of_basket(place: &Place, entries: Range<u64>) -> Option<Extent> {
    match place {
        Place::File { seek, size } => Some(Extent { offset: *seek, size: *size, entries }),
        Place::Embedded(_) => None,
    }
}

fn of_page(page: &Page, cluster: &Cluster, an_element_an_entry: bool) -> Extent {
    let stored = page.stored();
    let entries = if an_element_an_entry {
        let start = cluster.entries.start.saturating_add(page.first_element);
        start..start.saturating_add(page.elements_count)
    } else {
        cluster.entries.clone()
    };
    Extent { offset: stored.offset, size: stored.size, entries }
}
