//! Compares branches with the same name. Baskets can only be appended to a branch if they have the same meaning as the
//! branch's other baskets.

use branchline_format::tree::{ElementBranch, TBranch, TLeaf};

/// Returns the difference between two branches with the same name; None if they are compatible.
pub(crate) fn difference(one: &TBranch, two: &TBranch) -> Option<String> {
    if one.class_name != two.class_name {
        return Some(format!("is a {}", two.class_name));
    }
    if one.leaves.len() != two.leaves.len() {
        return Some(format!("has {} leaves", two.leaves.len()));
    }
    for (left, right) in one.leaves.iter().zip(&two.leaves) {
        let of = |leaf: &TLeaf| {
            let names = (leaf.name.clone(), leaf.title.clone(), leaf.class_name.clone(), leaf.count_name.clone());
            // Ignore the length of a string leaf, which is the buffer size for its longest value.
            let length = if leaf.class_name == "TLeafC" { 0 } else { leaf.length };
            (names, length, leaf.is_unsigned)
        };
        if left.is_unsigned != right.is_unsigned && left.class_name == right.class_name {
            let words = |leaf: &TLeaf| if leaf.is_unsigned { "unsigned" } else { "signed" };
            let name = &right.name;
            return Some(format!("has {} instead of {} integers in the leaf {name}", words(right), words(left)));
        }
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
