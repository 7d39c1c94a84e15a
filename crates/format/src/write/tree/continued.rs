//! Branches of a tree that was written before, and gets more entries.

use crate::numbers::leaf_class::LeafClass;
use crate::numbers::number::Number;
use crate::tree::TBranch;

use super::tree_record::BranchKind;

/// Whether a branch is written as one of this kind, whose elements the branch `counter` counts.
pub fn is_of_kind(old: &TBranch, kind: &BranchKind, counter: Option<&str>) -> bool {
    let is_plain = old.class_name == "TBranch" && old.parent.is_none() && old.file_name.is_empty();
    let ([leaf], true) = (old.leaves.as_slice(), is_plain && !old.has_children) else { return false };
    let holds = |number: Number, dimensions: &[usize]| {
        let class = LeafClass::of_class(&leaf.class_name, leaf.is_unsigned);
        let length = dimensions.iter().product::<usize>();
        class.is_some_and(|class| class.number == number && class.is_unsigned == leaf.is_unsigned)
            && usize::try_from(leaf.length).is_ok_and(|own| own == length)
    };
    let is_counted = leaf.count_name.as_deref() == counter;
    match kind {
        BranchKind::Numbers(number, dimensions) | BranchKind::Counted(number, dimensions, _) => {
            is_counted && holds(*number, dimensions)
        }
        BranchKind::Counter => is_counted && holds(Number::I32, &[]),
        BranchKind::Characters => is_counted && leaf.class_name == "TLeafC",
        BranchKind::Text | BranchKind::List(_) | BranchKind::Lists(_) | BranchKind::Texts => false,
    }
}
