//! An RNTuple as a tree. The fields are the branches, and each cluster is a basket of every branch.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::layout::Kind;
use branchline_format::ntuple::page_list::{Cluster, Page};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::pages::fetch_pages;
use crate::fetch::request::FetchRequest;
use crate::file::rntuple_metadata::Ntuple;
use crate::file::File;
use crate::memory::buffers::buffer_bytes;
use crate::tree::branch_info::{BranchInfo, State};
use crate::tree::content::{BasketBytes, Content, Shape, StoredBytes, Unreadable, ValueBytes};
use crate::tree::extents::Extent;

/// The content of an RNTuple. Pages share ownership of it, because they are decoded with its schema.
#[derive(Debug)]
pub(crate) struct ClusterTree(Arc<Ntuple>);

impl ClusterTree {
    pub(crate) fn new(ntuple: Ntuple) -> Self {
        Self(Arc::new(ntuple))
    }
}

impl Content for ClusterTree {
    fn title(&self) -> &str {
        self.0.description()
    }

    fn entries_count(&self) -> u64 {
        self.0.entries_count
    }

    fn branches_count(&self) -> usize {
        self.0.branches.len()
    }

    fn branch_path(&self, branch: usize) -> &str {
        &self.0.branches[branch].path
    }

    fn branch_name(&self, branch: usize) -> &str {
        &self.0.branches[branch].name
    }

    fn separator(&self) -> &'static str {
        "."
    }

    fn has_relatives(&self) -> bool {
        false
    }

    fn nests(&self) -> bool {
        true
    }

    fn parent(&self, branch: usize) -> Option<usize> {
        self.0.branches[branch].parent
    }

    fn counter(&self, _branch: usize) -> Option<usize> {
        None
    }

    fn kind(&self, _branch: usize) -> Option<&Kind> {
        None
    }

    fn shape(&self, branch: usize) -> std::result::Result<Shape<'_>, Unreadable<'_>> {
        let class_name = &self.0.field(branch).type_name;
        self.0.form(branch).map(Shape::Clusters).map_err(|error| Unreadable::Format { class_name, error })
    }

    fn is_short(&self, _branch: usize) -> bool {
        false
    }

    fn is_read_by_default(&self, branch: usize) -> bool {
        self.0.branches[branch].parent.is_none() && self.0.form(branch).is_ok()
    }

    fn state(&self, branch: usize) -> State {
        self.0.form(branch).map_or_else(|error| State::Unreadable(error.to_string()), |_| State::Data)
    }

    fn branch_info(&self, file: &File, branch: usize) -> BranchInfo {
        let field = self.0.field(branch);
        let sizes = self.0.branch_sizes(file, &[branch]);
        BranchInfo {
            title: field.description.clone(),
            class_name: "ROOT::RField".to_string(),
            type_name: field.type_name.clone(),
            container_class: String::new(),
            state: self.state(branch),
            is_part: self.0.branches[branch].parent.is_some(),
            entries_count: self.0.entries_count,
            baskets_count: self.0.clusters(file).map_or(0, <[_]>::len),
            compressed_bytes: sizes.stored,
            plain_bytes: sizes.plain,
            compress: sizes.compression.map_or(-1, i64::from),
        }
    }

    fn other_home(&self, _branch: usize) -> Option<&Arc<File>> {
        None
    }

    fn other_files(&self) -> Vec<&Arc<File>> {
        Vec::new()
    }

    fn metadata_start(&self, _file: &File, _record_start: u64) -> Option<u64> {
        None
    }

    fn baskets_of(
        &self,
        file: &File,
        _branch: usize,
        entries: &Range<u64>,
    ) -> Result<std::result::Result<Range<usize>, u64>> {
        self.0.clusters_of(file, entries)
    }

    fn basket_entries(&self, file: &File, _branch: usize, basket: usize) -> Range<u64> {
        self.0.cluster_entries(file, basket)
    }

    fn all_basket_entries(&self, file: &File, _branch: usize) -> Vec<Range<u64>> {
        self.0.clusters(file).unwrap_or_default().iter().map(|cluster| cluster.entries.clone()).collect()
    }

    fn basket_name(&self, _branch: usize, basket: usize) -> String {
        // The offset is not needed: an error about a page gives the location of the page.
        format!("cluster {basket}")
    }

    fn basket_place(&self, _branch: usize, _basket: usize) -> Option<ByteRange> {
        None
    }

    fn extents(&self, file: &File, branch: usize) -> Result<Vec<Extent>> {
        let mut columns = Vec::new();
        if let Ok(form) = self.0.form(branch) {
            form.each_column(&mut |column| columns.push(column));
        }
        let mut extents = Vec::new();
        for cluster in self.0.clusters(file)? {
            for column in columns.iter().filter(|column| **column < cluster.columns_count()) {
                let pages = cluster.pages(*column);
                let pages = pages.map_err(|error| {
                    let object = format!("{}, field {}", self.0.path(), self.branch_path(branch));
                    ReadError::from_format(file.path(), &error.in_object(object))
                })?;
                let Some(pages) = pages else { continue };
                let has_entry_per_element = pages.elements_count() == cluster.entries_count();
                extents.extend(pages.pages.iter().map(|page| extent_of(page, cluster, has_entry_per_element)));
            }
        }
        Ok(extents)
    }

    fn names_codecs(&self) -> bool {
        true
    }

    /// Returns the ranges of all pages of a cluster if all entries of the cluster are requested. Returns no ranges for
    /// a part of a cluster, because collection offsets must be read to know which pages are needed.
    fn basket_ranges(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> Result<Vec<ByteRange>> {
        let all = self.0.cluster_entries(file, basket);
        if entries.start > all.start || all.end > entries.end {
            return Ok(Vec::new());
        }
        let cluster = self.0.field_cluster(file, branch, basket)?;
        Ok(cluster.locators().map(|one| ByteRange::new(one.offset, one.size)).collect())
    }

    fn stored_entries_end(&self, file: &File) -> Result<u64> {
        Ok(self.0.clusters(file)?.last().map_or(0, |cluster| cluster.entries.end))
    }

    fn common_starts(&self, file: &File, branches: &[usize]) -> Vec<u64> {
        // All fields have the same clusters, so the first field suffices.
        let first = branches.first().map_or_else(Vec::new, |branch| self.all_basket_entries(file, *branch));
        first.into_iter().map(|entries| entries.start).collect()
    }

    fn largest_branch(&self) -> Option<usize> {
        (!self.0.branches.is_empty()).then_some(0)
    }

    fn cut_bytes(&self, borders: &[u64]) -> Vec<u64> {
        // Each cluster has the entries of all columns, so no page spans a cluster boundary, and splitting at a boundary
        // costs no extra bytes.
        vec![0; borders.len()]
    }

    fn stored_bytes(&self, file: &File, branches: &[usize]) -> StoredBytes {
        let sizes = self.0.branch_sizes(file, branches);
        StoredBytes { stored: sizes.stored, plain: sizes.plain }
    }

    fn values_per_entry(&self, file: &File, branch: usize) -> ValueBytes {
        let entries = self.0.entries_count.max(1) as f64;
        let bytes = self.0.branch_sizes(file, &[branch]).decoded as f64 / entries;
        ValueBytes { bytes, is_in_place: self.0.form(branch).is_ok_and(|form| form.fixed().is_some()) }
    }

    /// The size of the largest page, because a cluster is decompressed page by page.
    fn largest_basket(&self, file: &File, branch: usize) -> BasketBytes {
        let largest = self.0.branch_sizes(file, &[branch]).largest_page;
        BasketBytes { stored: buffer_bytes(largest), scratch: largest }
    }

    fn fetched_bytes(&self, file: &File, branch: usize, basket: usize, entries: &Range<u64>) -> u64 {
        let all = self.0.cluster_entries(file, basket);
        let wanted = entries.end.min(all.end).saturating_sub(entries.start.max(all.start));
        let stored = self.0.branch_sizes(file, &[branch]).stored as f64;
        (stored / self.0.entries_count.max(1) as f64 * wanted as f64) as u64
    }

    fn fetch(&self, request: &FetchRequest<'_>, before: &Carried, carried: &mut Carried) -> Result<Vec<BasketSource>> {
        fetch_pages(&self.0, request, before, carried)
    }
}

fn extent_of(page: &Page, cluster: &Cluster, has_entry_per_element: bool) -> Extent {
    let stored = page.stored();
    let entries = if has_entry_per_element {
        let start = cluster.entries.start.saturating_add(page.first_element);
        start..start.saturating_add(page.elements_count)
    } else {
        cluster.entries.clone()
    };
    Extent { offset: stored.offset, size: stored.size, entries }
}
