//! The contents of a set of files, which are compared with the contents of another set.

use std::collections::{BTreeMap, HashSet};

use branchline_format::write::Sum;

use crate::write::merged::filled::FilledColumns;

/// The contents of a set of files, keyed by path.
#[derive(Default)]
pub(crate) struct Holdings {
    pub(crate) trees: BTreeMap<String, Table>,
    pub(crate) objects: BTreeMap<String, Versions>,
}

impl Holdings {
    /// The tree or RNTuple at this path, which is created if necessary.
    pub(crate) fn tree(&mut self, path: &str) -> &mut Table {
        self.trees.entry(path.to_string()).or_default()
    }

    /// The objects at this path, which are created if necessary.
    pub(crate) fn object(&mut self, path: &str) -> &mut Versions {
        self.objects.entry(path.to_string()).or_default()
    }
}

/// The baskets of a tree's branches, or the pages of an RNTuple's top-level fields.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) is_ttree: bool,
    pub(crate) entries_count: u64,
    pub(crate) branches: BTreeMap<String, Vec<Row>>,
    /// Branches or fields that some of the files lack.
    pub(crate) filled: FilledColumns,
}

/// A basket or a page, as its first entry, its number of entries or elements, and a digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) entry_start: u64,
    pub(crate) entries_count: u64,
    pub(crate) digest: u64,
}

/// The objects at one path.
#[derive(Default)]
pub(crate) struct Versions {
    pub(crate) sums: Vec<Sum>,
    pub(crate) copies: HashSet<u128>,
    /// Older cycles, which the other set of files may lack.
    pub(crate) older_sums: Vec<Sum>,
    pub(crate) older_copies: HashSet<u128>,
}

impl Versions {
    /// Number of versions that the other set of files must have too.
    pub(crate) fn count(&self) -> u64 {
        (self.sums.len() + self.copies.len()) as u64
    }

    /// Returns the difference between these versions, which are from outputs, and the versions `given` from inputs.
    pub(crate) fn difference(&self, given: &Self, path: &str) -> Option<String> {
        let all = |of: &'_ Self| -> HashSet<u128> { of.copies.union(&of.older_copies).copied().collect() };
        let (ours, theirs) = (all(self), all(given));
        if !given.copies.is_subset(&ours) || !self.copies.is_subset(&theirs) {
            return Some(format!("{path} has different versions than in the inputs"));
        }
        let mut why = None;
        let mut is_among = |sum: &Sum, others: &Self| {
            others.sums.iter().chain(&others.older_sums).any(|other| match sum.difference(other) {
                Some(what) => {
                    why = Some(what);
                    false
                }
                None => true,
            })
        };
        let is_whole =
            given.sums.iter().all(|sum| is_among(sum, self)) && self.sums.iter().all(|sum| is_among(sum, given));
        (!is_whole).then(|| {
            let why = why.unwrap_or_else(|| "there are none".to_string());
            format!("{path} is not the sum of the input objects: {why}")
        })
    }
}
