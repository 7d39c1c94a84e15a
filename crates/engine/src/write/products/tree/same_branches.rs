//! Whether two trees have the same branches: baskets can only be copied behind each other where they mean the same.

use std::sync::Arc;

use branchline_format::tree::{TBranch, TTree};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::products::tree_input::difference::difference;
use crate::write::products::tree_input::input::TreeInput;

/// A tree and the file that it is in.
pub(crate) struct TreeOfFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) tree: &'a TreeInput,
}

/// How two trees differ, and what to do about it.
struct Unlike {
    what: String,
    hint: &'static str,
}

const OTHER_BRANCHES: &str =
    "fill what files lack with --fill-missing-branches (fill_missing_branches=True), or merge \
                              these files apart";
const OTHER_KIND: &str = "branches of one name must be of one kind; merge these files apart";

/// Refuses a tree that differs from the first one. The error names the difference.
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
        return refused(other_kind("its branches and leaves come in another order".to_string()));
    }
    Ok(())
}

fn other_branches(what: String) -> Unlike {
    Unlike { what, hint: OTHER_BRANCHES }
}

fn other_kind(what: String) -> Unlike {
    Unlike { what, hint: OTHER_KIND }
}

/// How two trees differ; None if they do not.
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
                (None, None) => format!("branch {} stands where {} is", two.path, one.path),
            }));
        }
        if let Some(what) = if Arc::ptr_eq(&one.info, &two.info) { None } else { difference(one, two) } {
            return Some(other_kind(format!("branch {} {what}", two.path)));
        }
        let has_data = |branch: &TBranch, entries: u64| !branch.baskets.is_empty() || entries == 0;
        let (first_entries, entries) = (first.entries_count, other.entries_count);
        if first_entries > 0 && entries > 0 && has_data(one, first_entries) != has_data(two, entries) {
            return Some(other_kind(format!("branch {} has baskets or has none", two.path)));
        }
    }
    match (before.get(after.len()), after.get(before.len())) {
        (Some(missing), _) => Some(other_branches(format!("branch {} is missing", missing.path))),
        (_, Some(more)) => Some(other_branches(format!("there is a branch {}", more.path))),
        (None, None) => None,
    }
}
