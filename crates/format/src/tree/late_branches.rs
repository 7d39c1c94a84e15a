//! Branches that are added after a tree already has entries. A split container of pointers (TBranchSTL) gets a branch
//! for a class when the first object of that class is filled. All earlier entries of that branch are empty.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{FormatError, Result};

use super::model::{Basket, Place, TBranch};
use crate::basket::embedded::EmbeddedBasket;

/// Maximum number of entries per basket that is created for the entries before a branch was added.
const BASKET_ENTRIES_MAX: u64 = 1 << 16;
/// Maximum number of entries before a branch was added, so that a damaged file cannot exhaust the memory.
const ENTRIES_MAX: u64 = 1 << 24;
/// TBranchElement::fType of a branch that counts the elements of a split STL collection.
const COLLECTION: i32 = 4;

/// Prepend baskets of empty entries to the branches below a TBranchSTL.
pub(super) fn fill_up(branches: &mut [TBranch]) -> Result<()> {
    let mut is_below: Vec<bool> = Vec::with_capacity(branches.len());
    let mut made = EmptyBaskets::default();
    for index in 0..branches.len() {
        let of_parent = |parent: usize| is_below[parent] || branches[parent].class_name == "TBranchSTL";
        let below = branches[index].parent.is_some_and(of_parent);
        is_below.push(below);
        let branch = &mut branches[index];
        let (true, Some(element), Some(first)) = (below, &branch.element, branch.baskets.first()) else { continue };
        if first.entry_start > ENTRIES_MAX {
            let message = format!("its first entry is {}; at most {ENTRIES_MAX} is supported", first.entry_start);
            return Err(FormatError::unsupported(message).in_object(format!("branch {}", branch.path)));
        }
        let mut before = made.up_to(first.entry_start, element.branch_type == COLLECTION);
        before.append(&mut branch.baskets);
        branch.entries_count = before.last().map_or(0, |last| last.entry_stop);
        branch.baskets = before;
    }
    Ok(())
}

/// Empty baskets, shared by all branches. The key is the number of entries, and whether the entries are counts.
#[derive(Default)]
struct EmptyBaskets(HashMap<(u64, bool), Arc<EmbeddedBasket>>);

impl EmptyBaskets {
    /// Baskets for all entries before `end`. The size of each basket is a power of two, so that few sizes are needed.
    fn up_to(&mut self, end: u64, are_counts: bool) -> Vec<Basket> {
        let mut baskets = Vec::new();
        let mut entry_start = 0;
        while let Some(power) = (end - entry_start).checked_ilog2() {
            let entries_count = (1 << power).min(BASKET_ENTRIES_MAX);
            let new = || Arc::new(empty_basket(entries_count as usize, are_counts));
            let basket = Arc::clone(self.0.entry((entries_count, are_counts)).or_insert_with(new));
            let entry_stop = entry_start + entries_count;
            baskets.push(Basket { entry_start, entry_stop, place: Place::Embedded(basket) });
            entry_start = entry_stop;
        }
        baskets
    }
}

/// Create a basket whose entries are all empty lists or counts of 0.
fn empty_basket(entries_count: usize, are_counts: bool) -> EmbeddedBasket {
    let data = if are_counts { vec![0; 4 * entries_count] } else { Vec::new() };
    let offsets = if are_counts { None } else { Some(vec![0; entries_count + 1]) };
    EmbeddedBasket {
        has_data: true,
        key_size: 0,
        entries_count,
        data: Arc::new(data),
        offsets,
        ..EmbeddedBasket::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_before_are_in_baskets_that_branches_share() {
        let mut made = EmptyBaskets::default();
        assert!(made.up_to(0, true).is_empty());
        for end in [1, 5, 65_535, 65_536, 200_000] {
            let baskets = made.up_to(end, false);
            let starts: Vec<u64> = baskets.iter().map(|basket| basket.entry_start).collect();
            let stops: Vec<u64> = baskets.iter().map(|basket| basket.entry_stop).collect();
            assert_eq!(starts[0], 0);
            assert_eq!(starts[1..], stops[..stops.len() - 1]);
            assert_eq!(stops.last(), Some(&end));
        }
        assert!(made.0.len() <= 17);
    }
}
