//! Fills the missing entries of branches that have fewer entries than their tree. If the entries of another file
//! follow, all branches must stay aligned, so missing entries get 0 or an empty string or container. ROOT's hadd
//! instead leaves a gap before the baskets of the next file, and ROOT reads unrelated memory for the entries in the
//! gap.

use std::sync::Arc;

use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::layout::Kind;
use branchline_format::objects::empty_entry;
use branchline_format::tree::kind_of;
use branchline_format::tree::{Basket, Place, TBranch, TTree};
use branchline_format::write::Recording;

use crate::error::Result;
use crate::limits;
use crate::write::baskets::counting::counter_of;
use crate::write::baskets::forms::forms;
use crate::write::errors::unmergeable;
use crate::write::products::source::Source;
use crate::write::products::tree_input::made_basket::{basket_of, EntryBytes};

/// Returns the end of a branch's entries, i.e. one past the last entry.
fn stop(branch: &TBranch) -> u64 {
    branch.baskets.last().map_or(0, |last| last.entry_stop)
}

/// Whether any branch has a different number of entries than its tree. Branches that were never filled do not count.
pub(crate) fn has_uneven_branches(tree: &TTree) -> bool {
    tree.branches.iter().any(|branch| !branch.baskets.is_empty() && stop(branch) != tree.entries_count)
}

/// Fills the missing entries of all branches. Returns a message for the user if anything was filled.
pub(crate) fn complete(tree: &mut TTree, recording: &Recording<'_>, source: &Source<'_>) -> Result<Option<String>> {
    let (file, path, date) = (source.file, source.path(), source.key().date);
    let refused = |what: String| unmergeable(file.path(), format!("tree {path}: {what}"));
    let stated = tree.entries_count;
    if stated == 0 {
        // The branches were filled separately, and TTree::SetEntries was not called.
        tree.entries_count = tree.branches.iter().map(stop).max().unwrap_or(0);
    }
    let entries_count = tree.entries_count;
    if let Some(branch) = tree.branches.iter().find(|branch| stop(branch) > entries_count) {
        return Err(refused(format!(
            "branch {} has {} entries, but the tree has {entries_count}",
            branch.path,
            stop(branch)
        )));
    }
    let kinds: Vec<Kind> = tree.branches.iter().map(|branch| kind_of(branch, file.classes())).collect();
    let forms = forms(tree, recording, None, file.header().compress, file.classes());
    check_counters(tree, &kinds).map_err(refused)?;
    let mut room = limits::MISSING_ENTRIES_BYTES;
    let mut short = Vec::new();
    for ((branch, kind), form) in tree.branches.iter_mut().zip(&kinds).zip(&forms) {
        let entry_start = stop(branch);
        if branch.baskets.is_empty() || entry_start == entries_count {
            continue;
        }
        let lacks = format!("branch {} has {entry_start} entries, but the tree has {entries_count}", branch.path);
        let count = entries_count - entry_start;
        let entry = match kind {
            Kind::Data(layout) => empty_entry(layout),
            _ => None,
        };
        let entry = entry.ok_or_else(|| refused(format!("{lacks}, and the missing ones cannot be filled")))?;
        let basket =
            same_entries(&entry, count, form.stores_offsets, &mut room).ok_or_else(|| refused(lacks.clone()))?;
        let place = Place::Embedded(Arc::new(EmbeddedBasket { date, ..basket }));
        branch.baskets.push(Basket { entry_start, entry_stop: entries_count, place });
        branch.entries_count = entries_count;
        short.push(ShortBranch { path: branch.path.clone(), entries_count: entry_start });
    }
    Ok(note_on(path, RaisedEntries { stated, entries_count }, &short))
}

/// Returns an error if a branch has a different number of entries than its count branch.
fn check_counters(tree: &TTree, kinds: &[Kind]) -> std::result::Result<(), String> {
    for (branch, kind) in tree.branches.iter().zip(kinds) {
        let Some(counter) = counter_of(kind).and_then(|counter| tree.branches.get(counter)) else { continue };
        if stop(counter) != stop(branch) {
            return Err(format!(
                "branch {} has {} entries, but {}, which holds its element counts, has {}",
                branch.path,
                stop(branch),
                counter.path,
                stop(counter)
            ));
        }
    }
    Ok(())
}

/// Creates a basket in which every entry has these bytes. Returns None if the basket would be too large.
fn same_entries(entry: &[u8], count: u64, stores_offsets: bool, room: &mut u64) -> Option<EmbeddedBasket> {
    let table_bytes = if stores_offsets { 4 } else { 0 };
    let bytes = count.checked_mul(entry.len() as u64 + table_bytes)?;
    *room = room.checked_sub(bytes)?;
    let entries_count = usize::try_from(count).ok()?;
    let entries = EntryBytes { data: entry.repeat(entries_count), sizes: vec![entry.len(); entries_count] };
    basket_of(entries, stores_offsets)
}

/// A branch that had fewer entries than its tree.
struct ShortBranch {
    path: String,
    entries_count: u64,
}

/// The number of entries that a tree claims (`stated`), and the number that it has after completion, which is the
/// length of its longest branch.
#[derive(Clone, Copy)]
struct RaisedEntries {
    stated: u64,
    entries_count: u64,
}

/// Returns a message for the user about a tree with raised or filled entries, if there are any.
fn note_on(path: &str, raised: RaisedEntries, short: &[ShortBranch]) -> Option<String> {
    let RaisedEntries { stated, entries_count } = raised;
    let raised = (stated != entries_count)
        .then(|| format!("the tree {path} claims to have no entries, but its branches have up to {entries_count}"));
    let filled = short.first().map(|ShortBranch { path: first, entries_count: own }| {
        let others = match short.len() {
            1 => String::new(),
            count => format!(", and {} more branches have too few", count - 1),
        };
        format!(
            "branch {first} of the tree {path} has {own} of {entries_count} entries{others}: \
             missing entries are 0 or empty"
        )
    });
    match (raised, filled) {
        (Some(raised), Some(filled)) => Some(format!("{raised}; {filled}")),
        (one, other) => one.or(other),
    }
}
