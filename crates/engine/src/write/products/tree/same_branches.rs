//! Compares the branches of two trees. Baskets can only be appended to a branch if they have the same meaning as the
//! branch's other baskets.

use std::sync::Arc;

use branchline_format::tree::{TBranch, TTree};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::products::tree_input::difference::difference;
use crate::write::products::tree_input::input::TreeInput;

/// A tree, with the path of its file.
pub(crate) struct TreeOfFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) tree: &'a TreeInput,
}

/// A difference between two trees, with a hint on what the user can do.
struct Unlike {
    what: String,
    hint: &'static str,
}

const OTHER_BRANCHES: &str =
    "fill missing branches with --fill-missing-branches (fill_missing_branches=True), or merge \
     these files separately";
const OTHER_KIND: &str = "branches with the same name must be of the same kind; merge these files separately";

/// Returns an error if a tree differs from the first tree. The error names the difference.
pub(crate) fn check_same(first: &TreeOfFile<'_>, other: &TreeOfFile<'_>) -> Result<()> {
    let name = &other.tree.tree.name;
    let refused = |Unlike { what, hint }: Unlike| {
        let message = format!("tree {name}: {what}, unlike {}", first.file);
        Err(ReadError::new(ReadErrorKind::Unsupported, other.file, message).with_hint(hint))
    };
    if let Some(unlike) = of_trees(&first.tree.tree, &other.tree.tree) {
        return refused(unlike);
    }
    let (owners, others) = (&first.tree.facts.owners, &other.tree.facts.owners);
    if !Arc::ptr_eq(owners, others) && owners != others {
        return refused(other_kind("its branches and leaves are in a different order".to_string()));
    }
    Ok(())
}

fn other_branches(what: String) -> Unlike {
    Unlike { what, hint: OTHER_BRANCHES }
}

fn other_kind(what: String) -> Unlike {
    Unlike { what, hint: OTHER_KIND }
}

/// Returns the difference between two trees. Returns None if they have the same branches.
fn of_trees(first: &TTree, other: &TTree) -> Option<Unlike> {
    let (before, after) = (&first.branches, &other.branches);
    for (one, two) in before.iter().zip(after) {
        if !Arc::ptr_eq(&one.info, &two.info) && one.path != two.path {
            let is_in = |path: &str, branches: &[TBranch]| branches.iter().any(|branch| branch.path == path);
            let missing = before.iter().find(|branch| !is_in(&branch.path, after));
            let more = after.iter().find(|branch| !is_in(&branch.path, before));
            return Some(other_branches(match (missing, more) {
                (Some(missing), _) => format!("branch {} is missing", missing.path),
                (None, Some(more)) => format!("there is a branch {}", more.path),
                (None, None) => format!("branch {} is at the position of {}", two.path, one.path),
            }));
        }
        if let Some(what) = if Arc::ptr_eq(&one.info, &two.info) { None } else { difference(one, two) } {
            return Some(other_kind(format!("branch {} {what}", two.path)));
        }
        let has_data = |branch: &TBranch, entries: u64| !branch.baskets.is_empty() || entries == 0;
        let (first_entries, entries) = (first.entries_count, other.entries_count);
        if first_entries > 0 && entries > 0 && has_data(one, first_entries) != has_data(two, entries) {
            return Some(other_kind(format!("branch {} has baskets in only one of the files", two.path)));
        }
    }
    match (before.get(after.len()), after.get(before.len())) {
        (Some(missing), _) => Some(other_branches(format!("branch {} is missing", missing.path))),
        (_, Some(more)) => Some(other_branches(format!("there is a branch {}", more.path))),
        (None, None) => None,
    }
}
