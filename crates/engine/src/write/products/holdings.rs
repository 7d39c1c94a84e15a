//! What some files hold together, to be compared with what others hold.

use std::collections::{BTreeMap, HashSet};

use branchline_format::write::Sum;

use crate::write::merged::filled::FilledColumns;

/// What some files hold together, by paths.
#[derive(Default)]
pub(crate) struct Holdings {
    pub(crate) trees: BTreeMap<String, Table>,
    pub(crate) objects: BTreeMap<String, Versions>,
}

impl Holdings {
    /// The tree or RNTuple with this path.
    pub(crate) fn tree(&mut self, path: &str) -> &mut Table {
        self.trees.entry(path.to_string()).or_default()
    }

    /// The objects with this path.
    pub(crate) fn object(&mut self, path: &str) -> &mut Versions {
        self.objects.entry(path.to_string()).or_default()
    }
}

/// The baskets of the branches of a tree, or the pages of the fields at the top of an RNTuple.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) is_ttree: bool,
    pub(crate) entries_count: u64,
    pub(crate) branches: BTreeMap<String, Vec<Row>>,
    /// Branches and fields that some of the files lack.
    pub(crate) filled: FilledColumns,
}

/// A basket or a page: its first entry, its entries or elements, and a digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) entry_start: u64,
    pub(crate) entries_count: u64,
    pub(crate) digest: u64,
}

/// Objects of one path.
#[derive(Default)]
pub(crate) struct Versions {
    pub(crate) sums: Vec<Sum>,
    pub(crate) copies: HashSet<u128>,
    /// Older cycles, which need not be in another file.
    pub(crate) older_sums: Vec<Sum>,
    pub(crate) older_copies: HashSet<u128>,
}

impl Versions {
    /// How many there are that need to be in another file.
    pub(crate) fn count(&self) -> u64 {
        (self.sums.len() + self.copies.len()) as u64
    }

    /// How the versions of an output differ from those of its inputs.
    pub(crate) fn difference(&self, given: &Self, path: &str) -> Option<String> {
        let all = |of: &'_ Self| -> HashSet<u128> { of.copies.union(&of.older_copies).copied().collect() };
        let (ours, theirs) = (all(self), all(given));
        if !given.copies.is_subset(&ours) || !self.copies.is_subset(&theirs) {
            return Some(format!("{path} has other versions than the inputs"));
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
            let why = why.unwrap_or_else(|| "there is none".to_string());
            format!("{path} is not the sum of those of the inputs: {why}")
        })
    }
}
