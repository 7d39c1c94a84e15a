//! Whether two trees have the same branches: baskets can only be copied behind each other where they mean the same.

use branchline_format::tree::{ElementBranch, TBranch, TLeaf};

use crate::error::{ReadError, ReadErrorKind, Result};

use super::input::Input;

/// Refuses a tree that differs from the first one, and says in what.
pub(super) fn check_same(first: &Input, other: &Input) -> Result<()> {
    let differs = |what: String| {
        let message = format!("{what}, unlike {}", first.file.path());
        Err(ReadError::new(ReadErrorKind::Unsupported, other.file.path(), message)
            .with_hint("only trees with the same branches can be merged; merge these files apart"))
    };
    if first.key.class_name != other.key.class_name {
        return differs(format!("{} is a {}", other.key.name, other.key.class_name));
    }
    let (before, after) = (&first.tree.branches, &other.tree.branches);
    for (one, two) in before.iter().zip(after) {
        if one.path != two.path {
            let is_there = after.iter().any(|branch| branch.path == one.path);
            let known = before.iter().any(|branch| branch.path == two.path);
            return differs(match (is_there, known) {
                (false, _) => format!("branch {} is missing", one.path),
                (true, false) => format!("there is a branch {}", two.path),
                (true, true) => format!("branch {} stands where {} is", two.path, one.path),
            });
        }
        if let Some(what) = difference(one, two) {
            return differs(format!("branch {} {what}", two.path));
        }
        let has_data = |branch: &TBranch, entries: u64| !branch.baskets.is_empty() || entries == 0;
        let (first_entries, entries) = (first.tree.entries_count, other.tree.entries_count);
        if first_entries > 0 && entries > 0 && has_data(one, first_entries) != has_data(two, entries) {
            return differs(format!("branch {} has baskets or has none", two.path));
        }
    }
    match (before.get(after.len()), after.get(before.len())) {
        (Some(missing), _) => differs(format!("branch {} is missing", missing.path)),
        (_, Some(more)) => differs(format!("there is a branch {}", more.path)),
        (None, None) => Ok(()),
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
