//! The request of a merge: inputs, output, what is kept, layout and limits.

pub(crate) mod selection;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use selection::Selection;

/// In which order the baskets of an input are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In the order of the input.
    Offset,
    /// Those of a branch together.
    Branch,
    /// By their first entry, so that those that are read together lie together.
    Entry,
}

/// The branches of a tree that are kept, by the path of the tree; the branches that they need are kept too. All
/// branches of a tree that is not named are kept.
pub type Branches = HashMap<String, HashSet<String>>;

/// How large the clusters of a tree are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterSize {
    /// Entries of a cluster.
    Entries(u64),
    /// Compressed bytes of a cluster, approximately: as the entries of the first input compress.
    Bytes(u64),
}

/// How entries are put into new baskets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BasketLayout {
    /// Bytes of a basket before compression, at most; if it is not given, each cluster has as few baskets as are
    /// sensible.
    pub basket_bytes: Option<u32>,
    /// The clusters; those of the first input if it is not given and they have one size.
    pub clusters: Option<ClusterSize>,
}

/// The request of a merge.
#[derive(Debug, Clone)]
pub struct MergeRequest {
    /// Files by path or URL.
    pub inputs: Vec<String>,
    /// How the inputs are read.
    pub access: Access,
    /// The file to make.
    pub output: PathBuf,
    /// Path of the only tree that is merged; everything is merged if it is not given.
    pub tree: Option<String>,
    /// Branches that are kept.
    pub branches: Branches,
    /// The order of the baskets.
    pub order: Order,
    /// Whether a file that is there already is replaced.
    pub replace: bool,
    /// How baskets are compressed; they stay as they are if it is not given.
    pub codec: Option<Setting>,
    /// How the entries of all trees are put into new baskets; without it baskets are copied, unless entries of their
    /// tree are selected.
    pub layout: Option<BasketLayout>,
    /// Entries of each input that are kept, by its path; all if it is empty.
    pub selections: HashMap<String, Arc<Selection>>,
    /// The tree whose entries are selected; all others are kept whole. Every tree if it is not given.
    pub selected: Option<String>,
    /// Bytes of an output at most; then there may be several outputs. A single input is never divided.
    pub size_bytes_max: Option<u64>,
    /// Whether the output has the branches of all inputs, with 0 or nothing for entries of inputs that lack them.
    pub fills_missing_branches: bool,
    /// Whether inputs that cannot be merged are left out.
    pub skips_bad_files: bool,
    /// Whether outputs are read again and compared with what was written, before they have their names.
    pub verifies: bool,
    /// Whether outputs have their names as soon as they are written, not only when they are on the disk.
    pub skips_sync: bool,
    /// Whether it resumes a merge that was killed.
    pub resumes: bool,
    /// What the merge may take.
    pub limits: MergeLimits,
}

/// What a merge may take, in memory and in work that a kill can cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeLimits {
    /// Memory of inputs and baskets, in addition to the tables of the output.
    pub memory_bytes: u64,
    /// Bytes that are written between two checkpoints in the journal, at most: what a kill can cost beyond an input.
    pub journal_bytes: u64,
}

impl MergeLimits {
    /// Bytes of baskets or pages that are read at a time.
    pub(crate) fn bundle_bytes(&self) -> u64 {
        limits::COPIED_AT_ONCE_BYTES.min(self.memory_bytes / limits::BUNDLE_MEMORY_SHARE)
    }
}

impl MergeRequest {
    /// Of a tree that is copied into an output that has other things too, and compressed like this.
    pub(crate) fn of_copied_tree(output: PathBuf, codec: Setting) -> Self {
        let memory_bytes = limits::COPIED_TREE_MEMORY_BYTES;
        Self {
            inputs: Vec::new(),
            access: Access::default(),
            output,
            tree: None,
            branches: Branches::new(),
            order: Order::Offset,
            replace: false,
            codec: Some(codec),
            layout: None,
            selections: HashMap::new(),
            selected: None,
            size_bytes_max: None,
            fills_missing_branches: false,
            skips_bad_files: false,
            verifies: false,
            skips_sync: true,
            resumes: false,
            limits: MergeLimits { memory_bytes, journal_bytes: u64::MAX },
        }
    }

    /// Whether the merge goes on without an input that has this error.
    pub(crate) fn skips(&self, error: &ReadError) -> bool {
        self.skips_bad_files
            && !matches!(error.kind, ReadErrorKind::Output | ReadErrorKind::Internal | ReadErrorKind::Refused)
    }

    /// How the entries of a tree are put into new baskets; none if its baskets are copied.
    pub(crate) fn layout_of(&self, tree: &str) -> Option<BasketLayout> {
        self.layout.or_else(|| self.selects_from(tree).then(BasketLayout::default))
    }

    /// Whether the entries of any tree are put into new baskets.
    pub(crate) fn has_new_baskets(&self) -> bool {
        self.layout.is_some() || !self.selections.is_empty()
    }

    fn selects_from(&self, tree: &str) -> bool {
        !self.selections.is_empty() && self.selected.as_ref().is_none_or(|selected| selected == tree)
    }

    /// The entries of a tree of an input that are kept; none if all are.
    pub(crate) fn selection_of(&self, path: &str, tree: &str, entries_count: u64) -> Result<Option<Arc<Selection>>> {
        if !self.selects_from(tree) {
            return Ok(None);
        }
        let given = self.selections.get(path);
        if given.is_some_and(|selection| selection.entries_count() == 0) && entries_count > 0 {
            let message = "its tree says that it has no entries, and its branches have some";
            return Err(ReadError::new(ReadErrorKind::Unsupported, path, message));
        }
        let fitting = given.filter(|selection| selection.entries_count() == entries_count);
        fitting.map(|selection| Some(Arc::clone(selection))).ok_or_else(|| {
            let message = format!("the selection is not of the {entries_count} entries of tree {tree}");
            ReadError::new(ReadErrorKind::Refused, path, message)
        })
    }
}
