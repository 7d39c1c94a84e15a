//! The request for a merge: inputs, output, selected contents, layout and limits.

pub(crate) mod selection;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use selection::Selection;

/// The order in which the baskets of an input are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In the order of their offsets in the input.
    Offset,
    /// Branch by branch.
    Branch,
    /// By first entry, so that baskets that are needed at the same time are close to each other.
    Entry,
}

/// The branches to keep in each tree, keyed by the path of the tree. Branches that the kept branches need are kept too.
/// If a tree has no key here, all its branches are kept.
pub type Branches = HashMap<String, HashSet<String>>;

/// The size of the clusters of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterSize {
    /// Number of entries in a cluster.
    Entries(u64),
    /// Approximate compressed size of a cluster in bytes. The estimate uses the compression ratio of the first input's
    /// entries.
    Bytes(u64),
}

/// The layout of new baskets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BasketLayout {
    /// Maximum size of a basket before compression. If None, each cluster has as few baskets as is sensible.
    pub basket_bytes: Option<u32>,
    /// The cluster size. If None, the cluster size of the first input is used, provided that it is constant.
    pub clusters: Option<ClusterSize>,
}

/// The request for a merge.
#[derive(Debug, Clone)]
pub struct MergeRequest {
    /// Paths or URLs of the input files.
    pub inputs: Vec<String>,
    /// How the inputs are read.
    pub access: Access,
    /// The output file.
    pub output: PathBuf,
    /// Path of the only tree to merge. If None, everything is merged.
    pub tree: Option<String>,
    /// The branches to keep in each tree.
    pub branches: Branches,
    /// The order in which the baskets of an input are written.
    pub order: Order,
    /// Whether an existing output file is replaced.
    pub replace: bool,
    /// The compression of baskets. If None, the compression of the inputs is kept.
    pub codec: Option<Setting>,
    /// The layout in which the entries of all trees are rewritten into new baskets. If None, baskets are copied, except
    /// in trees with a selection of entries.
    pub layout: Option<BasketLayout>,
    /// The selected entries of each input, keyed by the path of the input. If the map is empty, all entries are
    /// selected.
    pub selections: HashMap<String, Arc<Selection>>,
    /// Path of the tree to which the selections apply. If None, they apply to every tree. All entries of other trees
    /// are kept.
    pub selected: Option<String>,
    /// Maximum size of an output. If set, there may be several outputs. The contents of a single input are never split.
    pub size_bytes_max: Option<u64>,
    /// Whether each tree in the output has the union of the branches of all inputs. Where an input lacks a branch, the
    /// values are 0 or empty.
    pub fills_missing_branches: bool,
    /// Whether inputs that cannot be merged are skipped.
    pub skips_bad_files: bool,
    /// Whether outputs are read back and compared with the written data before they get their final names.
    pub verifies: bool,
    /// Whether outputs get their final names without a sync to disk.
    pub skips_sync: bool,
    /// Whether a killed merge is resumed.
    pub resumes: bool,
    /// The resource limits.
    pub limits: MergeLimits,
}

/// The resource limits of a merge: its memory, and the amount of work that is lost if it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeLimits {
    /// Maximum memory for inputs and baskets, in bytes. The tables of the output take additional memory.
    pub memory_bytes: u64,
    /// Maximum number of bytes that are written between two checkpoints of the journal. If the merge is killed, this
    /// much work may be lost, in addition to the work on one input.
    pub journal_bytes: u64,
}

impl MergeLimits {
    /// Number of bytes of baskets or pages to read at a time.
    pub(crate) fn bundle_bytes(&self) -> u64 {
        limits::COPIED_AT_ONCE_BYTES.min(self.memory_bytes / limits::BUNDLE_MEMORY_DIVISOR)
    }
}

impl MergeRequest {
    /// Creates the request for copying a tree with this compression into an output that also has other contents.
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

    /// Whether the merge skips an input with this error.
    pub(crate) fn skips(&self, error: &ReadError) -> bool {
        self.skips_bad_files
            && !matches!(error.kind, ReadErrorKind::Output | ReadErrorKind::Internal | ReadErrorKind::Refused)
    }

    /// Returns the layout in which the entries of a tree are rewritten. Returns None if the baskets of the tree are
    /// copied.
    pub(crate) fn layout_of(&self, tree: &str) -> Option<BasketLayout> {
        self.layout.or_else(|| self.selects_from(tree).then(BasketLayout::default))
    }

    /// Whether the entries of any tree are rewritten into new baskets.
    pub(crate) fn has_new_baskets(&self) -> bool {
        self.layout.is_some() || !self.selections.is_empty()
    }

    fn selects_from(&self, tree: &str) -> bool {
        !self.selections.is_empty() && self.selected.as_ref().is_none_or(|selected| selected == tree)
    }

    /// Returns the selected entries of a tree in an input. Returns None if all entries are selected.
    pub(crate) fn selection_of(&self, path: &str, tree: &str, entries_count: u64) -> Result<Option<Arc<Selection>>> {
        if !self.selects_from(tree) {
            return Ok(None);
        }
        let given = self.selections.get(path);
        if given.is_some_and(|selection| selection.entries_count() == 0) && entries_count > 0 {
            let message = "its tree claims to have no entries, but its branches have some";
            return Err(ReadError::new(ReadErrorKind::Unsupported, path, message));
        }
        let fitting = given.filter(|selection| selection.entries_count() == entries_count);
        fitting.map(|selection| Some(Arc::clone(selection))).ok_or_else(|| {
            let message = format!("the selection does not match the {entries_count} entries of tree {tree}");
            ReadError::new(ReadErrorKind::Refused, path, message)
        })
    }
}
