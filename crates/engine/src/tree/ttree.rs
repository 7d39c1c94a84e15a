//! A TTree as a tree.

use std::ops::Range;
use std::sync::Arc;

use branchline_format::layout::{Kind, Layout};
use branchline_format::tree::type_name;
use branchline_format::tree::{Basket, ElementBranch, Place, TBranch, TTree};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::baskets::fetch_baskets;
use crate::fetch::request::FetchRequest;
use crate::file::external::Externals;
use crate::file::File;
use crate::memory::buffers::buffer_bytes;
use crate::tree::branch_info::{BranchInfo, State};
use crate::tree::content::{BasketBytes, Content, Shape, StoredBytes, Unreadable, ValueBytes};
use crate::tree::extents::Extent;

/// The content of a TTree.
#[derive(Debug)]
pub(crate) struct BasketTree {
    pub(crate) meta: TTree,
    /// The kind of each branch.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) externals: Externals,
}

impl BasketTree {
    fn basket(&self, branch: usize, basket: usize) -> &Basket {
        &self.meta.branches[branch].baskets[basket]
    }

    /// Returns the error that prevented opening another file with the baskets of a branch, if any.
    fn other_file_error(&self, branch: usize) -> Option<&ReadError> {
        self.externals.error(&self.meta.branches[branch].file_name)
    }
}

impl Content for BasketTree {
    fn title(&self) -> &str {
        &self.meta.title
    }

    fn entries_count(&self) -> u64 {
        self.meta.entries_count
    }

    fn branches_count(&self) -> usize {
        self.meta.branches.len()
    }

    fn branch_path(&self, branch: usize) -> &str {
        &self.meta.branches[branch].path
    }

    fn branch_name(&self, branch: usize) -> &str {
        &self.meta.branches[branch].name
    }

    fn separator(&self) -> &'static str {
        "/"
    }

    fn has_relatives(&self) -> bool {
        self.meta.has_relatives
    }

    fn nests(&self) -> bool {
        false
    }

    fn parent(&self, branch: usize) -> Option<usize> {
        self.meta.branches[branch].parent
    }

    fn counter(&self, branch: usize) -> Option<usize> {
        let branch = &self.meta.branches[branch];
        let of_element = branch.element.as_ref().and_then(|element| element.count);
        of_element.or_else(|| branch.leaves.first().and_then(|leaf| leaf.count_branch))
    }

    fn kind(&self, branch: usize) -> Option<&Kind> {
        self.kinds.get(branch)
    }

    fn shape(&self, branch: usize) -> std::result::Result<Shape<'_>, Unreadable<'_>> {
        match &self.kinds[branch] {
            Kind::Data(layout) => match self.other_file_error(branch) {
                None => Ok(Shape::Baskets(layout)),
                Some(error) => Err(Unreadable::OtherFile(error)),
            },
            Kind::Group => Err(Unreadable::Group),
            Kind::Unreadable { class_name, error } => Err(Unreadable::Format { class_name, error }),
        }
    }

    fn is_read_by_default(&self, branch: usize) -> bool {
        matches!(self.state(branch), State::Data) && !self.is_short(branch)
    }

    fn is_short(&self, branch: usize) -> bool {
        self.meta.branches[branch].entries_count < self.meta.entries_count
    }

    fn state(&self, branch: usize) -> State {
        match &self.kinds[branch] {
            Kind::Group => State::Group,
            Kind::Data(_) => match self.other_file_error(branch) {
                // If a retry may succeed, the branch still counts as data: an array without the branch would hide the
                // failure.
                Some(error) if !error.retry_may_help => State::Unreadable(error.to_string()),
                Some(_) | None => State::Data,
            },
            Kind::Unreadable { error, .. } => State::Unreadable(error.to_string()),
        }
    }

    fn branch_info(&self, _file: &File, branch: usize) -> BranchInfo {
        let state = self.state(branch);
        let (meta, kind) = (&self.meta.branches[branch], &self.kinds[branch]);
        let stored = stored_bytes(meta);
        BranchInfo {
            title: meta.title.clone(),
            class_name: meta.class_name.clone(),
            type_name: type_name(kind, meta),
            container_class: meta.element.as_ref().map_or_else(String::new, container_class),
            state,
            is_part: false,
            entries_count: meta.entries_count,
            baskets_count: meta.baskets.len(),
            compressed_bytes: meta.compressed_bytes.max(stored),
            plain_bytes: meta.plain_bytes.max(stored),
            compress: meta.compress,
        }
    }

    fn other_home(&self, branch: usize) -> Option<&Arc<File>> {
        self.externals.get(&self.meta.branches[branch].file_name)
    }

    fn other_files(&self) -> Vec<&Arc<File>> {
        self.externals.files().collect()
    }

    fn metadata_start(&self, file: &File, record_start: u64) -> Option<u64> {
        let seek_info = file.header().seek_info;
        Some(if seek_info > 0 { seek_info.min(record_start) } else { record_start })
    }

    fn baskets_of(
        &self,
        _file: &File,
        branch: usize,
        entries: &Range<u64>,
    ) -> Result<std::result::Result<Range<usize>, u64>> {
        Ok(baskets_of(&self.meta.branches[branch].baskets, entries))
    }

    fn basket_entries(&self, _file: &File, branch: usize, basket: usize) -> Range<u64> {
        entries_of(self.basket(branch, basket))
    }

    fn all_basket_entries(&self, _file: &File, branch: usize) -> Vec<Range<u64>> {
        self.meta.branches[branch].baskets.iter().map(entries_of).collect()
    }

    /// The index of the basket and its offset in the file.
    fn basket_name(&self, branch: usize, basket: usize) -> String {
        match &self.basket(branch, basket).place {
            Place::File { seek, .. } => match self.other_home(branch) {
                None => format!("basket {basket} at {seek}"),
                Some(home) => format!("basket {basket} at {seek} of {}", home.path()),
            },
            Place::Embedded(_) => format!("basket {basket}, embedded in the tree"),
        }
    }

    fn basket_place(&self, branch: usize, basket: usize) -> Option<ByteRange> {
        match &self.basket(branch, basket).place {
            Place::File { seek, size } => Some(ByteRange::new(*seek, *size)),
            Place::Embedded(_) => None,
        }
    }

    /// Baskets embedded in the tree have no extent. A branch whose baskets are in another file has no extents in this
    /// file.
    fn extents(&self, _file: &File, branch: usize) -> Result<Vec<Extent>> {
        let branch = &self.meta.branches[branch];
        if !branch.file_name.is_empty() {
            return Ok(Vec::new());
        }
        Ok(branch.baskets.iter().filter_map(extent_of).collect())
    }

    fn names_codecs(&self) -> bool {
        false
    }

    fn basket_ranges(
        &self,
        _file: &File,
        branch: usize,
        basket: usize,
        _entries: &Range<u64>,
    ) -> Result<Vec<ByteRange>> {
        Ok(self.basket_place(branch, basket).into_iter().collect())
    }

    fn stored_entries_end(&self, _file: &File) -> Result<u64> {
        Ok(self.meta.branches.iter().map(|branch| branch.entries_count).max().unwrap_or(0))
    }

    fn common_starts(&self, file: &File, branches: &[usize]) -> Vec<u64> {
        let mut common: Option<Vec<u64>> = None;
        for branch in branches {
            let own = self.all_basket_entries(file, *branch).into_iter().map(|entries| entries.start);
            let own: Vec<u64> = own.collect();
            common = Some(match common {
                None => own,
                Some(before) => before.into_iter().filter(|entry| own.binary_search(entry).is_ok()).collect(),
            });
        }
        common.unwrap_or_default()
    }

    fn largest_branch(&self) -> Option<usize> {
        (0..self.meta.branches.len()).max_by_key(|branch| stored_bytes(&self.meta.branches[*branch]))
    }

    fn cut_bytes(&self, borders: &[u64]) -> Vec<u64> {
        // For each border, the bytes of the baskets that span this border but not the previous one, minus the bytes of
        // the baskets that span the previous border but not this one.
        let mut changes = vec![0_i128; borders.len() + 1];
        for basket in self.meta.branches.iter().flat_map(|branch| &branch.baskets) {
            let entries = entries_of(basket);
            let first = borders.partition_point(|border| *border <= entries.start);
            let end = borders.partition_point(|border| *border < entries.end).max(first);
            changes[first] += i128::from(stored_size(basket));
            changes[end] -= i128::from(stored_size(basket));
        }
        let sums = changes.iter().scan(0_i128, |sum, change| {
            *sum += change;
            Some(u64::try_from(*sum).unwrap_or(u64::MAX))
        });
        sums.take(borders.len()).collect()
    }

    fn stored_bytes(&self, _file: &File, branches: &[usize]) -> StoredBytes {
        let mut sum = StoredBytes::default();
        for branch in branches.iter().map(|branch| &self.meta.branches[*branch]) {
            let stored = branch.compressed_bytes.max(stored_bytes(branch));
            sum.stored = sum.stored.saturating_add(stored);
            sum.plain = sum.plain.saturating_add(branch.plain_bytes.max(stored));
        }
        sum
    }

    fn values_per_entry(&self, _file: &File, branch: usize) -> ValueBytes {
        let entries = self.meta.entries_count.max(1) as f64;
        values_per_entry(&self.kinds[branch], self.meta.branches[branch].plain_bytes as f64 / entries)
    }

    fn largest_basket(&self, file: &File, branch: usize) -> BasketBytes {
        let branch = &self.meta.branches[branch];
        let entries = branch.baskets.iter().map(|basket| basket.entry_stop - basket.entry_start).max();
        let plain_per_entry = branch.plain_bytes as f64 / branch.entries_count.max(1) as f64;
        let is_compressed = branch.plain_bytes > branch.compressed_bytes;
        let plain = (plain_per_entry * entries.unwrap_or(0) as f64) as u64;
        let stored = branch.baskets.iter().map(stored_size).max().map_or(0, buffer_bytes);
        let compress = match branch.compress {
            ..=0 => i64::from(file.compress()),
            own => own,
        };
        let scratch = if compress / 100 == LZMA { plain.saturating_mul(2) } else { plain };
        BasketBytes { stored, scratch: if is_compressed { scratch } else { 0 } }
    }

    fn fetched_bytes(&self, file: &File, branch: usize, basket: usize, _entries: &Range<u64>) -> u64 {
        let home = self.other_home(branch).map_or(file, |home| home);
        match self.basket(branch, basket).place {
            Place::File { seek, size } if home.loaded(seek, size).is_none() => size,
            Place::File { .. } | Place::Embedded(_) => 0,
        }
    }

    fn fetch(&self, request: &FetchRequest<'_>, before: &Carried, carried: &mut Carried) -> Result<Vec<BasketSource>> {
        fetch_baskets(&self.meta, &self.externals, request, before, carried)
    }
}

/// The class of a container that was split: TBranchElement::fType is 3 for a TClonesArray and 4 for an STL collection.
fn container_class(element: &ElementBranch) -> String {
    match element.branch_type {
        3 => "TClonesArray".to_string(),
        4 if element.class_name.contains('<') => element.class_name.clone(),
        4 => format!("vector<{}>", element.clones_name),
        _ => String::new(),
    }
}

/// Returns the memory for the values of an entry that has this many bytes after decompression.
fn values_per_entry(kind: &Kind, plain: f64) -> ValueBytes {
    match kind {
        Kind::Data(Layout::Fixed { scalar, dimensions }) => {
            let bytes = dimensions.iter().fold(scalar.size() as f64, |size, extent| size * *extent as f64);
            ValueBytes { bytes, is_in_place: true }
        }
        Kind::Data(Layout::Run { scalar, .. }) => {
            let bytes = plain * scalar.size() as f64 / scalar.stored_size().max(1) as f64 + OFFSET_BYTES;
            ValueBytes { bytes, is_in_place: false }
        }
        // Inner lists need offsets, and growing pieces have spare capacity.
        _ => ValueBytes { bytes: 2.0 * plain + 2.0 * OFFSET_BYTES, is_in_place: false },
    }
}

/// Algorithm number of LZMA in a compression setting. The LZMA dictionary is as large as the basket.
const LZMA: i64 = 2;
/// Number of bytes of one entry offset.
const OFFSET_BYTES: f64 = 8.0;

/// Returns the indices of the baskets that overlap these entries. If an entry is in no basket, the error is the first
/// such entry.
fn baskets_of(baskets: &[Basket], entries: &Range<u64>) -> std::result::Result<Range<usize>, u64> {
    let first = baskets.partition_point(|basket| basket.entry_stop <= entries.start);
    let last = baskets.partition_point(|basket| basket.entry_start < entries.end).max(first);
    let mut next = entries.start;
    for basket in &baskets[first..last] {
        if basket.entry_start > next {
            break;
        }
        next = basket.entry_stop;
    }
    if next < entries.end {
        Err(next)
    } else {
        Ok(first..last)
    }
}

fn entries_of(basket: &Basket) -> Range<u64> {
    basket.entry_start..basket.entry_stop
}

fn extent_of(basket: &Basket) -> Option<Extent> {
    match &basket.place {
        Place::File { seek, size } => Some(Extent { offset: *seek, size: *size, entries: entries_of(basket) }),
        Place::Embedded(_) => None,
    }
}

/// Total size of the baskets of a branch in the file.
fn stored_bytes(branch: &TBranch) -> u64 {
    branch.baskets.iter().map(stored_size).sum()
}

fn stored_size(basket: &Basket) -> u64 {
    match &basket.place {
        Place::File { size, .. } => *size,
        Place::Embedded(basket) => basket.data.len() as u64,
    }
}
