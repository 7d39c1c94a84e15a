//! Removal of branches from a tree.

use std::collections::HashSet;

use crate::tree::{TBranch, TTree};

/// Remove branches from a tree. Returns the IDs of the removed branches' objects in the tree's record.
///
/// `wanted` returns whether to keep the branch with this path. Parents and counter branches of kept branches are kept
/// too.
pub fn slim(tree: &mut TTree, wanted: &dyn Fn(&str) -> bool) -> HashSet<u64> {
    let mut is_kept: Vec<bool> = vec![false; tree.branches.len()];
    let mut open: Vec<usize> = (0..tree.branches.len()).filter(|index| wanted(&tree.branches[*index].path)).collect();
    while let Some(index) = open.pop() {
        if !std::mem::replace(&mut is_kept[index], true) {
            open.extend(needed_by(&tree.branches[index]));
        }
    }
    let mut new_index = Vec::with_capacity(is_kept.len());
    let mut count = 0;
    for kept in &is_kept {
        new_index.push(kept.then_some(count));
        count += usize::from(*kept);
    }
    let mut dropped = HashSet::new();
    let mut index = 0;
    tree.branches.retain_mut(|branch| {
        let kept = is_kept[index];
        index += 1;
        if !kept {
            dropped.insert(branch.object_id);
            return false;
        }
        branch.parent = branch.parent.and_then(|parent| new_index[parent]);
        for leaf in &mut branch.leaves {
            leaf.count_branch = leaf.count_branch.and_then(|counter| new_index[counter]);
        }
        if let Some(element) = &mut branch.element {
            element.count = element.count.and_then(|counter| new_index[counter]);
            element.count2 = element.count2.and_then(|counter| new_index[counter]);
        }
        true
    });
    dropped
}

fn needed_by(branch: &TBranch) -> Vec<usize> {
    let counters = branch.leaves.iter().filter_map(|leaf| leaf.count_branch);
    let element = branch.element.iter().flat_map(|element| [element.count, element.count2]).flatten();
    branch.parent.into_iter().chain(counters).chain(element).collect()
}
