//! Entries that some branches of a tree do not have, because these were filled less often than the tree. If entries of
//! another file follow, the missing ones get 0, or an empty text or container, so that each entry stays with its tree.
//! ROOT's hadd leaves a gap before the baskets of the next file. ROOT reads memory of other things there.

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

/// Behind the last entry that a branch has.
fn stop(branch: &TBranch) -> u64 {
    branch.baskets.last().map_or(0, |last| last.entry_stop)
}

/// Whether a branch has other entries than its tree. A branch that was never filled has none, and does not count.
pub(crate) fn has_uneven_branches(tree: &TTree) -> bool {
    tree.branches.iter().any(|branch| !branch.baskets.is_empty() && stop(branch) != tree.entries_count)
}

/// Gives all branches the entries that they lack. Returns a sentence for the user.
pub(crate) fn complete(tree: &mut TTree, recording: &Recording<'_>, source: &Source<'_>) -> Result<Option<String>> {
    let (file, path, date) = (source.file, source.path(), source.key().date);
    let refused = |what: String| unmergeable(file.path(), format!("tree {path}: {what}"));
    let stated = tree.entries_count;
    if stated == 0 {
        // Its branches were filled one by one, without TTree::SetEntries.
        tree.entries_count = tree.branches.iter().map(stop).max().unwrap_or(0);
    }
    let entries_count = tree.entries_count;
    if let Some(branch) = tree.branches.iter().find(|branch| stop(branch) > entries_count) {
        return Err(refused(format!("branch {} has {} entries, the tree {entries_count}", branch.path, stop(branch))));
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
        let lacks = format!("branch {} has {entry_start} entries, the tree {entries_count}", branch.path);
        let count = entries_count - entry_start;
        let entry = match kind {
            Kind::Data(layout) => empty_entry(layout),
            _ => None,
        };
        let entry = entry.ok_or_else(|| refused(format!("{lacks}, and what is missing cannot be made up for")))?;
        let basket =
            same_entries(&entry, count, form.stores_offsets, &mut room).ok_or_else(|| refused(lacks.clone()))?;
        let place = Place::Embedded(Arc::new(EmbeddedBasket { date, ..basket }));
        branch.baskets.push(Basket { entry_start, entry_stop: entries_count, place });
        branch.entries_count = entries_count;
        short.push(ShortBranch { path: branch.path.clone(), entries_count: entry_start });
    }
    Ok(note_on(path, RaisedEntries { stated, entries_count }, &short))
}

/// Refuses branches of which one says how many elements the other has, and that do not have the same entries.
fn check_counters(tree: &TTree, kinds: &[Kind]) -> std::result::Result<(), String> {
    for (branch, kind) in tree.branches.iter().zip(kinds) {
        let Some(counter) = counter_of(kind).and_then(|counter| tree.branches.get(counter)) else { continue };
        if stop(counter) != stop(branch) {
            return Err(format!(
                "branch {} has {} entries, {}, which says how many elements they have, {}",
                branch.path,
                stop(branch),
                counter.path,
                stop(counter)
            ));
        }
    }
    Ok(())
}

/// A basket of entries that all have these bytes; none if it is too large.
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

/// The entries that a tree says it has, and those that it gets: as many as the longest of its branches.
#[derive(Clone, Copy)]
struct RaisedEntries {
    stated: u64,
    entries_count: u64,
}

/// A sentence for the user on a tree whose entries were raised or filled.
fn note_on(path: &str, raised: RaisedEntries, short: &[ShortBranch]) -> Option<String> {
    let RaisedEntries { stated, entries_count } = raised;
    let raised = (stated != entries_count)
        .then(|| format!("the tree {path} says that it has no entries, its branches have up to {entries_count}"));
    let filled = short.first().map(|ShortBranch { path: first, entries_count: own }| {
        let others = match short.len() {
            1 => String::new(),
            count => format!(", and {} more have too few", count - 1),
        };
        format!(
            "branch {first} of the tree {path} has {own} of {entries_count} entries{others}: \
             what is missing is 0 or empty"
        )
    });
    match (raised, filled) {
        (Some(raised), Some(filled)) => Some(format!("{raised}; {filled}")),
        (one, other) => one.or(other),
    }
}
