//! Branches that were made when a tree had entries already: a split container of pointers (TBranchSTL) gets one for each
//! class when an object of it is met. In the entries before there was none.

use std::sync::Arc;

use crate::error::{FormatError, Result};

use super::embedded::EmbeddedBasket;
use super::meta::{Basket, Place, TBranch};

/// Entries in each of the baskets that stand for the entries before.
const BASKET_ENTRIES: usize = 1 << 16;
/// More entries than this before a branch are not filled up: a file that lies about them shall not take memory for it.
const ENTRIES_MAX: u64 = 1 << 24;

/// Fills branches below a TBranchSTL up with baskets of empty entries.
pub(super) fn complete(branches: &mut [TBranch]) -> Result<()> {
    let mut is_below: Vec<bool> = Vec::with_capacity(branches.len());
    let mut lists: Option<Arc<EmbeddedBasket>> = None;
    let mut counts: Option<Arc<EmbeddedBasket>> = None;
    for index in 0..branches.len() {
        let of_parent = |parent: usize| is_below[parent] || branches[parent].class_name == "TBranchSTL";
        let below = branches[index].parent.is_some_and(of_parent);
        is_below.push(below);
        let branch = &mut branches[index];
        let (true, Some(element), Some(first)) = (below, &branch.element, branch.baskets.first()) else { continue };
        if first.entry_start > ENTRIES_MAX {
            let message = format!("its first entry is {}, more than {ENTRIES_MAX}", first.entry_start);
            return Err(FormatError::unsupported(message).in_object(format!("branch {}", branch.path)));
        }
        let kept = if element.branch_type == COLLECTION { &mut counts } else { &mut lists };
        let is_count = element.branch_type == COLLECTION;
        let empty = Arc::clone(kept.get_or_insert_with(|| Arc::new(empty_basket(BASKET_ENTRIES, is_count))));
        let mut before = baskets_up_to(first.entry_start, &empty, is_count);
        before.append(&mut branch.baskets);
        branch.entries_count = before.last().map_or(0, |last| last.entry_stop);
        branch.baskets = before;
    }
    Ok(())
}

/// TBranchElement::fType of the branch that counts the elements of a split STL collection.
const COLLECTION: i32 = 4;

fn baskets_up_to(end: u64, full: &Arc<EmbeddedBasket>, is_count: bool) -> Vec<Basket> {
    let starts = (0..end).step_by(BASKET_ENTRIES);
    let one = |entry_start: u64| {
        let entry_stop = end.min(entry_start + BASKET_ENTRIES as u64);
        let entries_count = (entry_stop - entry_start) as usize;
        let basket = if entries_count == BASKET_ENTRIES {
            Arc::clone(full)
        } else {
            Arc::new(empty_basket(entries_count, is_count))
        };
        Basket { entry_start, entry_stop, place: Place::Embedded(basket) }
    };
    starts.map(one).collect()
}

/// Entries that are each an empty list, or a count of 0.
fn empty_basket(entries_count: usize, is_count: bool) -> EmbeddedBasket {
    let data = if is_count { vec![0; 4 * entries_count] } else { Vec::new() };
    let offsets = if is_count { None } else { Some(vec![0; entries_count + 1]) };
    EmbeddedBasket { has_data: true, key_size: 0, entries_count, data: Arc::new(data), offsets }
}
