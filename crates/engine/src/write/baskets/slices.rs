//! Finds the parts of an input's baskets that belong to an entry range.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use branchline_format::tree::kind_of;
use branchline_format::tree::{Place, TBranch, TTree};
use branchline_storage::ByteRange;

use crate::error::Result;
use crate::file::File;
use crate::write::baskets::counting::Counting;
use crate::write::baskets::source::{InputBranches, Slice, Source, Stored};
use crate::write::ranges::read_ranges;
use crate::write::request::selection::Selection;

/// A tree of an input whose entries are rewritten into new baskets.
pub(crate) struct RewrittenTree<'a> {
    pub(crate) file: &'a File,
    pub(crate) tree: &'a TTree,
    /// Number of entries in a cluster, if positive (TTree::fAutoFlush).
    pub(crate) auto_flush: i64,
    pub(crate) process_ids_before: u16,
    pub(crate) selection: Option<Arc<Selection>>,
}

/// Reads the baskets of an input, as slices for entry ranges.
pub(crate) struct SliceReader<'a> {
    input: &'a RewrittenTree<'a>,
    branches: Arc<InputBranches>,
    counting: Counting<'a>,
    /// For each branch, the basket that was read last, which may extend into the next entry range.
    last: Vec<Option<Arc<Source>>>,
}

impl<'a> SliceReader<'a> {
    /// Creates a reader of an input's baskets.
    pub(crate) fn new(input: &'a RewrittenTree<'a>) -> Self {
        let branches = &input.tree.branches;
        let input_branches = InputBranches {
            file_path: input.file.path().to_string(),
            tree_name: input.tree.name.clone(),
            kinds: branches.iter().map(|branch| kind_of(branch, input.file.classes())).collect(),
            paths: branches.iter().map(|branch| branch.path.clone()).collect(),
            process_ids_before: input.process_ids_before,
            selection: input.selection.clone(),
        };
        let counting = Counting::new(input.file, input.tree);
        let last = vec![None; branches.len()];
        Self { input, branches: Arc::new(input_branches), counting, last }
    }

    /// Returns the stored size of the baskets that contain these entries.
    pub(crate) fn stored_bytes(&self, entries: &Range<u64>) -> u64 {
        let mut bytes = 0;
        for branch in &self.input.tree.branches {
            for basket in &branch.baskets[overlapping(branch, entries)] {
                let in_it = basket.entry_start.max(entries.start)..basket.entry_stop.min(entries.end);
                if self.branches.selection.as_ref().is_some_and(|selection| selection.count(in_it) == 0) {
                    continue;
                }
                bytes += match &basket.place {
                    Place::File { size, .. } => *size,
                    Place::Embedded(embedded) => embedded.data.len() as u64,
                };
            }
        }
        bytes
    }

    /// Returns the slices of all baskets that contain these entries, ordered by branch and entry.
    pub(crate) fn slices(&mut self, entries: Range<u64>) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        let mut missing = Vec::new();
        for (number, branch) in self.input.tree.branches.iter().enumerate() {
            for basket in overlapping(branch, &entries) {
                let one = &branch.baskets[basket];
                let in_it = one.entry_start.max(entries.start)..one.entry_stop.min(entries.end);
                if self.branches.selection.as_ref().is_some_and(|selection| selection.count(in_it.clone()) == 0) {
                    continue;
                }
                let known = self.last[number].as_ref().filter(|source| source.basket == basket);
                match (known, &one.place) {
                    (Some(source), _) => slices.push((number, in_it, Some(Arc::clone(source)))),
                    (None, Place::Embedded(embedded)) => {
                        let stored = Stored::Embedded(Arc::clone(embedded));
                        slices.push((number, in_it, Some(self.source(number, basket, stored)?)));
                    }
                    (None, Place::File { seek, size }) => {
                        missing.push((slices.len(), number, basket, ByteRange::new(*seek, *size)));
                        slices.push((number, in_it, None));
                    }
                }
            }
        }
        let ranges: Vec<ByteRange> = missing.iter().map(|(.., range)| *range).collect();
        for ((slice, branch, basket, _), record) in missing.into_iter().zip(read_ranges(self.input.file, &ranges)?) {
            slices[slice].2 = Some(self.source(branch, basket, Stored::Record(record))?);
        }
        let mut done = Vec::with_capacity(slices.len());
        for (branch, entries, source) in slices {
            if let Some(source) = source {
                self.last[branch] = Some(Arc::clone(&source)).filter(|source| source.entries.end > entries.end);
                done.push(Slice { source, entries });
            }
        }
        Ok(done)
    }

    fn source(&mut self, branch: usize, basket: usize, stored: Stored) -> Result<Arc<Source>> {
        let one = &self.input.tree.branches[branch].baskets[basket];
        let entries = one.entry_start..one.entry_stop;
        let counts = match self.branches.kinds.get(branch) {
            Some(kind) if !stored.says_bounds() => self.counting.counts_for(kind, entries.clone())?,
            _ => None,
        };
        let taken_apart = OnceLock::new();
        Ok(Arc::new(Source { stored, input: Arc::clone(&self.branches), branch, basket, entries, counts, taken_apart }))
    }
}

/// Returns the size in the file of the baskets that contain these entries.
pub(crate) fn stored_between(tree: &TTree, entries: Range<u64>) -> u64 {
    let of = |place: &Place| match place {
        Place::File { size, .. } => *size,
        Place::Embedded(_) => 0,
    };
    let baskets = tree.branches.iter().flat_map(|branch| &branch.baskets[overlapping(branch, &entries)]);
    baskets.map(|basket| of(&basket.place)).sum()
}

/// Returns the indices of the baskets of a branch that overlap these entries.
fn overlapping(branch: &TBranch, entries: &Range<u64>) -> Range<usize> {
    let first = branch.baskets.partition_point(|basket| basket.entry_stop <= entries.start);
    let behind = branch.baskets.partition_point(|basket| basket.entry_start < entries.end);
    first..behind.max(first)
}
