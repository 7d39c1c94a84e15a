//! Tree: our handle on a TTree of an open file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use branchline_format::layout::{Kind, Layout};
use branchline_format::tree::{Basket, Place, TBranch, TTree};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::names;

/// A tree whose metadata were read.
#[derive(Debug)]
pub struct Tree {
    file: Arc<File>,
    path: String,
    meta: TTree,
    kinds: Vec<Kind>,
    /// Filled when a branch is looked for the first time: whoever reads all of them looks for none.
    index_by_path: OnceLock<HashMap<String, usize>>,
}

impl Tree {
    pub(crate) fn new(file: Arc<File>, path: String, meta: TTree, kinds: Vec<Kind>) -> Self {
        Self { file, path, meta, kinds, index_by_path: OnceLock::new() }
    }

    /// The file that it is in.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Its path in the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.meta.title
    }

    /// Its entries.
    pub fn entries_count(&self) -> u64 {
        self.meta.entries_count
    }

    /// Its branches, a parent before its children.
    pub fn branches(&self) -> &[TBranch] {
        &self.meta.branches
    }

    /// A branch.
    pub fn branch(&self, index: usize) -> &TBranch {
        &self.meta.branches[index]
    }

    /// What a branch holds.
    pub fn kind(&self, index: usize) -> &Kind {
        &self.kinds[index]
    }

    /// The layout of a branch that can be read.
    pub fn layout(&self, index: usize) -> Result<&Layout> {
        let name = &self.meta.branches[index].path;
        match &self.kinds[index] {
            Kind::Data(layout) => Ok(layout),
            Kind::Group => {
                let message = format!("branch {name} only groups others and holds no data of its own");
                Err(self.error(ReadErrorKind::Unsupported, message).with_hint("ask for the branches below it"))
            }
            Kind::Unsupported { class_name, reason } => {
                let message = format!("branch {name} of class {class_name}: {reason}");
                Err(self.error(ReadErrorKind::Unsupported, message).with_hint("the other branches still read"))
            }
        }
    }

    /// Indices of the branches that can be read.
    pub fn readable(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.kinds.len()).filter(|index| matches!(self.kinds[*index], Kind::Data(_)))
    }

    /// Finds a branch by its path, or by a shorter name if that means only one.
    pub fn find(&self, name: &str) -> Result<usize> {
        let indices =
            || self.meta.branches.iter().enumerate().map(|(index, branch)| (branch.path.clone(), index)).collect();
        if let Some(index) = self.index_by_path.get_or_init(indices).get(name) {
            return Ok(*index);
        }
        let names = self.meta.branches.iter().map(|branch| (branch.path.as_str(), branch.name.as_str()));
        let mut same = names::candidates(name, names);
        // A split object and its first member may share a name: the one with data is meant.
        if same.iter().any(|index| !matches!(self.kinds[*index], Kind::Group)) {
            same.retain(|index| !matches!(self.kinds[*index], Kind::Group));
        }
        match same.as_slice() {
            [only] => Ok(*only),
            [] => Err(self.error(ReadErrorKind::NoSuchKey, format!("tree {} has no branch {name:?}", self.path))),
            many => {
                let paths: Vec<&str> = many.iter().take(4).map(|index| self.branch(*index).path.as_str()).collect();
                let message = format!("tree {} has several branches named {name:?}", self.path);
                let hint = format!("give the whole path: {}", paths.join(", "));
                Err(self.error(ReadErrorKind::NoSuchKey, message).with_hint(hint))
            }
        }
    }

    /// Indices of the baskets of a branch that overlap these entries; all entries must be covered.
    pub(crate) fn baskets_of(&self, index: usize, entries: &Range<u64>) -> Result<Range<usize>> {
        let baskets = &self.meta.branches[index].baskets;
        let first = baskets.partition_point(|basket| basket.entry_stop <= entries.start);
        let last = baskets.partition_point(|basket| basket.entry_start < entries.end);
        let mut next = entries.start;
        for basket in &baskets[first..last.max(first)] {
            if basket.entry_start > next {
                break;
            }
            next = basket.entry_stop;
        }
        if next < entries.end {
            let name = &self.meta.branches[index].path;
            let message = format!("branch {name} has no basket for entry {next} of {}", self.entries_count());
            return Err(self.error(ReadErrorKind::BadFile, message));
        }
        Ok(first..last.max(first))
    }

    /// Refuses a number of entries that no branch has: where nothing is read from baskets, nothing else would tell.
    pub(crate) fn check_entries_count(&self) -> Result<()> {
        let most = self.meta.branches.iter().map(|branch| branch.entries_count).max().unwrap_or(0);
        if self.entries_count() <= most {
            return Ok(());
        }
        let message = format!("tree {} says {} entries, its branches have {most}", self.path, self.entries_count());
        Err(self.error(ReadErrorKind::BadFile, message))
    }

    /// Entries at which baskets of all these branches begin, the last being the end of the tree.
    pub fn common_boundaries(&self, columns: &[usize]) -> Vec<u64> {
        let starts = |index: &usize| self.meta.branches[*index].baskets.iter().map(|basket| basket.entry_start);
        let mut common: Option<Vec<u64>> = None;
        for column in columns {
            let own: Vec<u64> = starts(column).collect();
            common = Some(match common {
                None => own,
                Some(before) => before.into_iter().filter(|entry| own.binary_search(entry).is_ok()).collect(),
            });
        }
        let mut boundaries = common.unwrap_or_default();
        boundaries.push(self.entries_count());
        boundaries
    }

    /// Entries at which the baskets of the branch with most bytes in the file begin.
    pub fn basket_borders(&self) -> Vec<u64> {
        let size = |branch: &&TBranch| branch.baskets.iter().map(stored_size).sum::<u64>();
        let largest = self.meta.branches.iter().max_by_key(size);
        largest.map_or_else(Vec::new, |branch| branch.baskets.iter().map(|basket| basket.entry_start).collect())
    }

    /// Bytes per entry of these branches: stored, and after decompression.
    pub fn bytes_per_entry(&self, columns: &[usize]) -> (f64, f64) {
        let entries = self.entries_count().max(1) as f64;
        let (mut stored, mut plain) = (0.0, 0.0);
        for column in columns {
            let branch = &self.meta.branches[*column];
            let zipped = branch.compressed_bytes.max(branch.baskets.iter().map(stored_size).sum());
            stored += zipped as f64;
            plain += branch.plain_bytes.max(zipped) as f64;
        }
        (stored / entries, plain / entries)
    }

    /// Bytes per entry that these branches take while they are read: stored, decompressed and decoded.
    pub(crate) fn memory_per_entry(&self, columns: &[usize]) -> f64 {
        let (stored, plain) = self.bytes_per_entry(columns);
        let offsets = columns.iter().filter(|column| !matches!(self.kinds[**column], Kind::Data(Layout::Fixed { .. })));
        stored + plain + 8.0 * offsets.count() as f64
    }

    /// Bytes after decompression of the largest basket of these branches, as far as their averages tell.
    pub(crate) fn largest_basket_bytes(&self, columns: &[usize]) -> u64 {
        let largest = |column: &usize| {
            let branch = &self.meta.branches[*column];
            let entries = branch.baskets.iter().map(|basket| basket.entry_stop - basket.entry_start).max();
            let plain_per_entry = branch.plain_bytes as f64 / branch.entries_count.max(1) as f64;
            (plain_per_entry * entries.unwrap_or(0) as f64) as u64
        };
        columns.iter().map(largest).max().unwrap_or(0)
    }

    pub(crate) fn error(&self, kind: ReadErrorKind, message: impl Into<String>) -> ReadError {
        ReadError::new(kind, self.file.path(), message)
    }
}

/// Bytes of a basket in the file.
pub fn stored_size(basket: &Basket) -> u64 {
    match &basket.place {
        Place::File { size, .. } => *size,
        Place::Embedded(basket) => basket.data.len() as u64,
    }
}
