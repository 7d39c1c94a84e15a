//! What the record of a tree holds except branches and baskets, and which of its objects are branches and leaves.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::tree::TTree;
use branchline_format::write::{OwnerKind, Recording, TreeIndex};

/// The tree among the objects of its record.
pub(crate) const TREE: usize = 0;

/// What its record holds except branches and baskets.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeFacts {
    /// The objects in it, as all others must have them.
    pub(crate) owners: Arc<Vec<OwnerKind>>,
    /// The largest values of branches and leaves that count others, and the room that texts take, by their number among
    /// the objects and in their order.
    pub(crate) maxima: Vec<Maximum>,
    pub(crate) auto_flush: i64,
    pub(crate) clusters: Vec<ClusterRange>,
    /// Its index, or whether it has one that cannot be merged.
    pub(crate) index: Option<TreeIndex>,
    pub(crate) has_index: bool,
}

/// Entries up to `last` are in clusters of `size` entries (TTree::fClusterRangeEnd and fClusterSize).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterRange {
    pub(crate) last: i64,
    pub(crate) size: i64,
}

/// A member of an object of a tree's record, and its value.
pub(crate) type Maximum = ((usize, &'static str), i64);

impl TreeFacts {
    /// Of a record that was taken apart.
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
            // An index of another kind is left out, and reported.
            index: recording.tree_index().unwrap_or(None),
            has_index: recording.value(TREE, "fTreeIndex") != 0,
        })
    }
}

/// A branch by its path, or one of its leaves by its place among them.
type OwnerName = (String, Option<usize>);

/// Which objects of a tree's record are its branches and leaves: their numbers among the objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnerNumbers {
    by_name: HashMap<OwnerName, usize>,
}

impl OwnerNumbers {
    /// Of a tree that was read from a record.
    pub(crate) fn of(recording: &Recording<'_>, tree: &TTree) -> Self {
        // Objects come in the order of their numbers.
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

    /// For each of these objects the number that it has in another record with the same branches, and more.
    pub(crate) fn numbers_in(&self, other: &Self) -> HashMap<usize, usize> {
        let both = self.by_name.iter().filter_map(|(name, own)| other.by_name.get(name).map(|number| (*own, *number)));
        std::iter::once((TREE, TREE)).chain(both).collect()
    }
}

/// The largest values of branches and leaves, by the numbers of these in another record.
pub(crate) fn renumbered(maxima: &[Maximum], numbers: &HashMap<usize, usize>) -> Vec<Maximum> {
    let renumber = |((owner, name), value): &Maximum| numbers.get(owner).map(|owner| ((*owner, *name), *value));
    let mut all: Vec<Maximum> = maxima.iter().filter_map(renumber).collect();
    all.sort_unstable();
    all
}
