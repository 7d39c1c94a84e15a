//! The parts of a tree's record other than branches and baskets. Also maps the objects in the record to branches and
//! leaves.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::tree::TTree;
use branchline_format::write::{OwnerKind, Recording, TreeIndex};

/// Index of the tree among the objects of its record.
pub(crate) const TREE: usize = 0;

/// The parts of a tree's record other than its branches and baskets.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeFacts {
    /// The kinds of the record's objects, which must be the same in the records of all inputs.
    pub(crate) owners: Arc<Vec<OwnerKind>>,
    /// Maxima of counting branches and leaves, and buffer sizes of strings. They are sorted by the index of their
    /// object in the record.
    pub(crate) maxima: Vec<Maximum>,
    pub(crate) auto_flush: i64,
    pub(crate) clusters: Vec<ClusterRange>,
    /// The index of the tree, if it can be merged; `has_index` says whether the tree has any index.
    pub(crate) index: Option<TreeIndex>,
    pub(crate) has_index: bool,
}

/// A range of entries up to `last`, whose clusters have `size` entries each (TTree::fClusterRangeEnd and fClusterSize).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterRange {
    pub(crate) last: i64,
    pub(crate) size: i64,
}

/// A member of an object in a tree's record, and the member's value.
pub(crate) type Maximum = ((usize, &'static str), i64);

impl TreeFacts {
    /// Extracts these facts from a parsed record.
    pub(crate) fn of(recording: &Recording<'_>) -> std::result::Result<Self, FormatError> {
        let mut maxima = Vec::new();
        for (number, owner) in recording.owners.iter().enumerate() {
            let names: &[&'static str] = match (owner.kind, &*owner.class_name) {
                (OwnerKind::Tree, _) => &[],
                (_, "TLeafC") => &["fMaximum", "fLen"],
                _ => &["fMaximum"],
            };
            for name in names.iter().filter(|name| recording.find(number, name).is_some()) {
                maxima.push(((number, *name), recording.value(number, name)));
            }
        }
        let ends = recording.values(TREE, "fClusterRangeEnd")?;
        let sizes = recording.values(TREE, "fClusterSize")?;
        Ok(Self {
            owners: Arc::new(recording.owners.iter().map(|owner| owner.kind).collect()),
            maxima,
            auto_flush: recording.value(TREE, "fAutoFlush"),
            clusters: ends.into_iter().zip(sizes).map(|(last, size)| ClusterRange { last, size }).collect(),
            // An index of another kind is not merged, and the user gets a message about it.
            index: recording.tree_index().unwrap_or(None),
            has_index: recording.value(TREE, "fTreeIndex") != 0,
        })
    }
}

/// Identifies a branch by its path, or a leaf by the path of its branch and its index in the branch.
type OwnerName = (String, Option<usize>);

/// The indices that branches and leaves have among the objects of a tree's record.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnerNumbers {
    by_name: HashMap<OwnerName, usize>,
}

impl OwnerNumbers {
    /// Collects the indices for a tree that was read from this record.
    pub(crate) fn of(recording: &Recording<'_>, tree: &TTree) -> Self {
        // The objects are sorted by ID.
        let number = |id: u64| recording.owners.binary_search_by_key(&id, |owner| owner.id).ok();
        let mut by_name = HashMap::new();
        for branch in &tree.branches {
            let leaves = recording.leaves_of(branch.object_id).into_iter().enumerate();
            let of_leaves = leaves.map(|(place, id)| (Some(place), id));
            for (leaf, id) in std::iter::once((None, branch.object_id)).chain(of_leaves) {
                by_name.extend(number(id).map(|number| ((branch.path.clone(), leaf), number)));
            }
        }
        Self { by_name }
    }

    /// Maps the indices in this record to the indices in another record, which has at least the same branches.
    pub(crate) fn numbers_in(&self, other: &Self) -> HashMap<usize, usize> {
        let both = self.by_name.iter().filter_map(|(name, own)| other.by_name.get(name).map(|number| (*own, *number)));
        std::iter::once((TREE, TREE)).chain(both).collect()
    }
}

/// Translates the object indices of maxima to the indices in another record.
pub(crate) fn renumbered(maxima: &[Maximum], numbers: &HashMap<usize, usize>) -> Vec<Maximum> {
    let renumber = |((owner, name), value): &Maximum| numbers.get(owner).map(|owner| ((*owner, *name), *value));
    let mut all: Vec<Maximum> = maxima.iter().filter_map(renumber).collect();
    all.sort_unstable();
    all
}
