//! Where the entries of a tree are stored: the baskets of its branches, with their entry ranges and sizes.

use std::ops::Range;
use std::sync::Arc;

use branchline_storage::ByteRange;

use crate::error::{ReadErrorKind, Result};
use crate::file::File;
use crate::limits::PART_CUT_DIVISOR;
use crate::memory::buffers::buffer_bytes;
use crate::tree::content::BasketBytes;
use crate::tree::extents::Extent;
use crate::tree::Tree;

/// Bytes of a buffer per byte of its values: buffers have some spare capacity, so that the next chunk can reuse them.
const BUFFER_FACTOR: f64 = 1.125;

/// Average bytes per entry of some branches.
#[derive(Debug, Clone, Copy)]
pub struct BytesPerEntry {
    /// Stored bytes per entry, in the file.
    pub stored: f64,
    /// Bytes per entry after decompression.
    pub plain: f64,
}

/// Ranges of one file.
pub(crate) struct FileRanges {
    pub(crate) file: Arc<File>,
    pub(crate) ranges: Vec<ByteRange>,
}

impl Tree {
    /// Returns the indices of the baskets of a branch that overlap these entries. Returns an error if any of the
    /// entries is in no basket.
    pub(crate) fn baskets_of(&self, index: usize, entries: &Range<u64>) -> Result<Range<usize>> {
        self.content().baskets_of(self.file(), index, entries)?.map_err(|entry| {
            let (name, count) = (self.branch_path(index), self.branch_info(index).entries_count);
            let message = format!("branch {name} has no basket for entry {entry} of {}", self.entries_count());
            if entry < count {
                return self.contradiction(&message);
            }
            let (tree, of_tree) = (self.path(), self.entries_count());
            let message = format!("branch {name} has {count} entries, but its tree {tree} has {of_tree}");
            let hint = "leave it out, or read it separately with tree[\"branch\"].array()";
            self.error(ReadErrorKind::Unsupported, message).with_hint(hint)
        })
    }

    /// The entry range of a basket.
    pub(crate) fn basket_entries(&self, index: usize, basket: usize) -> Range<u64> {
        self.content().basket_entries(self.file(), index, basket)
    }

    /// The name of a basket in error messages: its index and its offset in the file.
    pub(crate) fn basket_name(&self, index: usize, basket: usize) -> String {
        self.content().basket_name(index, basket)
    }

    /// The range of a TTree basket in the file; None if it is embedded in the tree.
    pub(crate) fn basket_place(&self, index: usize, basket: usize) -> Option<ByteRange> {
        self.content().basket_place(index, basket)
    }

    /// Returns the extents of a branch in entry order. Baskets embedded in the tree have no extent. A branch whose
    /// baskets are in another file has no extents in this file.
    pub fn extents(&self, index: usize) -> Result<Vec<Extent>> {
        self.content().extents(self.file(), index)
    }

    /// The entry ranges of all baskets of a branch.
    pub fn all_basket_entries(&self, index: usize) -> Vec<Range<u64>> {
        self.content().all_basket_entries(self.file(), index)
    }

    /// Returns an error if no branch has as many entries as the tree claims. If no branches are read, nothing else
    /// would detect this.
    pub(crate) fn check_entries_count(&self) -> Result<()> {
        let most = self.content().stored_entries_end(self.file())?;
        if self.entries_count() <= most {
            return Ok(());
        }
        let message = format!("tree {} claims {} entries, its branches have {most}", self.path(), self.entries_count());
        Err(self.contradiction(&message))
    }

    /// Entries at which all these branches begin a basket, followed by the end of the tree.
    pub fn common_boundaries(&self, columns: &[usize]) -> Vec<u64> {
        let mut boundaries = self.content().common_starts(self.file(), columns);
        boundaries.push(self.entries_count());
        boundaries
    }

    /// Returns the entries at which the tree may be split into parts that are read separately. Only starts of baskets
    /// of the largest branch are considered. Baskets of other branches that span such an entry are read for both parts,
    /// so the entry is only returned if these baskets are small compared with the bytes since the previous returned
    /// entry (`PART_CUT_DIVISOR`).
    pub fn basket_borders(&self) -> Vec<u64> {
        let entries = self.content().largest_branch().map_or_else(Vec::new, |index| self.all_basket_entries(index));
        let mut borders: Vec<u64> = entries.into_iter().map(|entries| entries.start).collect();
        if !borders.is_sorted() {
            return borders;
        }
        let all: Vec<usize> = (0..self.branches_count()).collect();
        let stored = self.bytes_per_entry(&all).stored;
        let mut cut = self.content().cut_bytes(&borders).into_iter();
        let mut last = 0;
        borders.retain(|border| {
            let read_twice = cut.next().unwrap_or(0).saturating_mul(PART_CUT_DIVISOR) as f64;
            let is_kept = read_twice <= (border - last) as f64 * stored;
            if is_kept {
                last = *border;
            }
            is_kept
        });
        borders
    }

    /// Average bytes per entry of these branches.
    pub fn bytes_per_entry(&self, columns: &[usize]) -> BytesPerEntry {
        let entries = self.entries_count().max(1) as f64;
        let bytes = self.content().stored_bytes(self.file(), columns);
        BytesPerEntry { stored: bytes.stored as f64 / entries, plain: bytes.plain as f64 / entries }
    }

    /// Returns the memory per entry for the values of these branches. This includes a second copy of the largest column
    /// that is joined from pieces.
    pub(crate) fn values_per_entry(&self, columns: &[usize]) -> f64 {
        let (mut sum, mut largest): (f64, f64) = (0.0, 0.0);
        for column in columns {
            let values = self.content().values_per_entry(self.file(), *column);
            sum += values.bytes;
            largest = largest.max(if values.is_in_place { 0.0 } else { values.bytes });
        }
        (sum + largest) * BUFFER_FACTOR
    }

    /// Estimated size of the largest basket of a branch, from averages.
    pub(crate) fn largest_basket(&self, index: usize) -> BasketBytes {
        self.content().largest_basket(self.file(), index)
    }

    /// Returns the memory per entry for the values of these branches, and the memory for decompressing their largest
    /// basket.
    pub fn memory_needs(&self, columns: &[usize]) -> (f64, u64) {
        let scratch = columns.iter().map(|column| self.largest_basket(*column).scratch).max();
        (self.values_per_entry(columns), scratch.unwrap_or(0))
    }

    /// Number of bytes to fetch for these entries of a basket; 0 if the basket is in memory.
    pub(crate) fn fetched_bytes(&self, index: usize, basket: usize, entries: &Range<u64>) -> u64 {
        self.content().fetched_bytes(self.file(), index, basket, entries)
    }

    /// Returns the start entries of all baskets in branches whose largest basket exceeds this many bytes.
    pub(crate) fn large_basket_starts(&self, columns: &[usize], bytes: u64) -> Vec<u64> {
        let large = columns.iter().filter(|column| self.largest_basket(**column).stored > bytes);
        let mut starts: Vec<u64> =
            large.flat_map(|column| self.all_basket_entries(*column)).map(|entries| entries.start).collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Returns how many of these entries may be read at a time so that this many bytes suffice for each column.
    pub(crate) fn entries_fetched_within(&self, columns: &[usize], entries: &Range<u64>, bytes_max: u64) -> u64 {
        let fetched = |column: &usize| {
            // If the baskets cannot be determined, reading the entries will report the error.
            let baskets = self.baskets_of(*column, entries).unwrap_or(0..0);
            let each = |basket| buffer_bytes(self.fetched_bytes(*column, basket, entries));
            baskets.map(each).fold(0, u64::saturating_add)
        };
        let most = columns.iter().map(fetched).max().unwrap_or(0);
        let all = entries.end - entries.start;
        if most <= bytes_max {
            return all;
        }
        // Only half of the average, because the bytes are not evenly distributed over the entries.
        (all as f64 * bytes_max as f64 / most as f64 / 2.0) as u64
    }

    /// Returns the ranges to fetch for these columns and entries, grouped by file. Loaded ranges are left out.
    pub(crate) fn ranges_to_fetch(&self, columns: &[usize], entries: &Range<u64>) -> Result<Vec<FileRanges>> {
        let mut by_file: Vec<FileRanges> = Vec::new();
        let mut add = |file: &Arc<File>, range: ByteRange| {
            if file.loaded(range.offset, range.length).is_some() {
                return;
            }
            match by_file.iter_mut().find(|one| Arc::ptr_eq(&one.file, file)) {
                Some(one) => one.ranges.push(range),
                None => by_file.push(FileRanges { file: Arc::clone(file), ranges: vec![range] }),
            }
        };
        for column in columns {
            for basket in self.baskets_of(*column, entries)? {
                let ranges = self.content().basket_ranges(self.file(), *column, basket, entries)?;
                ranges.into_iter().for_each(|range| add(self.home(*column), range));
            }
        }
        for FileRanges { ranges, .. } in &mut by_file {
            ranges.sort_unstable_by_key(|range| (range.offset, range.length));
            ranges.dedup();
        }
        Ok(by_file)
    }
}
