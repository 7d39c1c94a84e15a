//! Whether two trees have the same branches: baskets can only be copied behind each other where they mean the same.

use std::sync::Arc;

use branchline_format::tree::{ElementBranch, TBranch, TLeaf, TTree};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::products::tree::input::TreeInput;

/// A tree and the file that it is in.
pub(crate) struct TreeOfFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) tree: &'a TreeInput,
}

/// Refuses a tree that differs from the first one. The error names the difference.
pub(crate) fn check_same(first: &TreeOfFile<'_>, other: &TreeOfFile<'_>) -> Result<()> {
    let name = &other.tree.tree.name;
    let refused = |what: String| {
        let message = format!("tree {name}: {what}, unlike {}", first.file);
        Err(ReadError::new(ReadErrorKind::Unsupported, other.file, message)
            .with_hint("only trees with the same branches can be merged; merge these files apart"))
    };
    if let Some(what) = of_trees(&first.tree.tree, &other.tree.tree) {
        return refused(what);
    }
    let (owners, others) = (&first.tree.facts.owners, &other.tree.facts.owners);
    if !Arc::ptr_eq(owners, others) && owners != others {
        return refused("its branches and leaves come in another order".to_string());
    }
    Ok(())
}

/// In what two trees differ.
fn of_trees(first: &TTree, other: &TTree) -> Option<String> {
    let (before, after) = (&first.branches, &other.branches);
    for (one, two) in before.iter().zip(after) {
        if !Arc::ptr_eq(&one.info, &two.info) && one.path != two.path {
            let is_there = after.iter().any(|branch| branch.path == one.path);
            let known = before.iter().any(|branch| branch.path == two.path);
            return Some(match (is_there, known) {
                (false, _) => format!("branch {} is missing", one.path),
                (true, false) => format!("there is a branch {}", two.path),
                (true, true) => format!("branch {} stands where {} is", two.path, one.path),
            });
        }
        if let Some(what) = if Arc::ptr_eq(&one.info, &two.info) { None } else { difference(one, two) } {
            return Some(format!("branch {} {what}", two.path));
        }
        let has_data = |branch: &TBranch, entries: u64| !branch.baskets.is_empty() || entries == 0;
        let (first_entries, entries) = (first.entries_count, other.entries_count);
        if first_entries > 0 && entries > 0 && has_data(one, first_entries) != has_data(two, entries) {
            return Some(format!("branch {} has baskets or has none", two.path));
        }
    }
    match (before.get(after.len()), after.get(before.len())) {
        (Some(missing), _) => Some(format!("branch {} is missing", missing.path)),
        (_, Some(more)) => Some(format!("there is a branch {}", more.path)),
        (None, None) => None,
    }
}

/// In what two branches of one name differ.
fn difference(one: &TBranch, two: &TBranch) -> Option<String> {
    if one.class_name != two.class_name {
        return Some(format!("is a {}", two.class_name));
    }
    if one.leaves.len() != two.leaves.len() {
        return Some(format!("has {} leaves", two.leaves.len()));
    }
    for (left, right) in one.leaves.iter().zip(&two.leaves) {
        let of = |leaf: &TLeaf| {
            let names = (leaf.name.clone(), leaf.title.clone(), leaf.class_name.clone(), leaf.count_name.clone());
            // Of a text it is the room that the longest one takes.
            let length = if leaf.class_name == "TLeafC" { 0 } else { leaf.length };
            (names, length, leaf.is_unsigned)
        };
        if of(left) != of(right) {
            return Some(format!("has the leaf {} ({}, {})", right.name, right.class_name, right.title));
        }
    }
    let of = |element: &ElementBranch| {
        let names = (element.class_name.clone(), element.clones_name.clone());
        (names, element.checksum, element.class_version, element.id, element.branch_type, element.streamer_type)
    };
    match (&one.element, &two.element) {
        (Some(left), Some(right)) if of(left) != of(right) => Some(format!(
            "is of class {} version {} (checksum {:x}, type {}, member {})",
            right.class_name, right.class_version, right.checksum, right.branch_type, right.id
        )),
        _ => None,
    }
}
