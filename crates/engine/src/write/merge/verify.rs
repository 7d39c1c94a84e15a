//! Whether an output that was written is what was to be written: it is opened as any file, and each of its baskets is read
//! from the disk and compared with what was copied.

use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::baskets::copy::{digest_of, Copying};
use crate::write::merge::input::{Content, Input};
use crate::write::merge::volume::Finished;
use crate::write::merge::{Branches, Order};
use crate::write::products::tree::input::{KnownTrees, TreeInput, Uneven};
use crate::write::products::tree::totals::Totals;

/// Refuses an output that differs from what was to be written.
pub(crate) fn check(finished: &mut Finished, mut go_on: impl FnMut() -> Result<()>) -> Result<()> {
    let path = finished.file.output().path().display().to_string();
    let temporary = finished.file.output().temporary().display().to_string();
    // What the output is called is what a message is to say.
    let renamed = |mut error: ReadError| {
        error.path.clone_from(&path);
        error
    };
    let written = Input::open(&temporary, None, (&Branches::new(), &KnownTrees::new(Uneven::Kept)), &Access::default())
        .map_err(renamed)?;
    for (name, totals) in finished.trees() {
        let item = written.items.iter().find(|item| item.path == name);
        let Some(Content::Tree(tree)) = item.map(|item| &item.content) else {
            return Err(differs(&path, format!("there is no tree {name}")));
        };
        check_tree(&written, tree, totals, &mut go_on).map_err(renamed)?;
    }
    for (name, totals) in finished.ntuples() {
        let item = written.items.iter().find(|item| item.path == name);
        let Some(Content::Ntuple(ntuple)) = item.map(|item| &item.content) else {
            return Err(differs(&path, format!("there is no RNTuple {name}")));
        };
        if let Some(what) = totals.difference(ntuple, &mut go_on).map_err(renamed)? {
            return Err(differs(&path, format!("RNTuple {name} has {what}")));
        }
    }
    Ok(())
}

fn differs(path: &str, message: String) -> ReadError {
    ReadError::new(ReadErrorKind::Output, path, format!("what was written is not what was copied: {message}"))
        .with_hint("the disk or the memory may be failing; merge again, to another place")
}

fn check_tree(file: &Input, written: &TreeInput, totals: &Totals, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let path = file.file.path();
    let tree = &written.tree;
    if tree.entries_count != totals.entries_count() {
        let message = format!("tree {} has {} entries, not {}", tree.name, tree.entries_count, totals.entries_count());
        return Err(differs(path, message));
    }
    for (branch, expected) in tree.branches.iter().zip(totals.written()) {
        let firsts = branch.baskets.iter().map(|basket| basket.entry_start as i64);
        if branch.path != expected.name || !firsts.eq(expected.first_entries.iter().copied()) {
            let message = format!("branch {} of tree {} has other baskets", branch.path, tree.name);
            return Err(differs(path, message));
        }
    }
    let expected: Vec<&[u64]> = totals.written().map(|branch| branch.digests).collect();
    let reading = Copying {
        file: &file.file,
        tree,
        order: Order::Offset,
        seek_directory: 0,
        process_ids_before: 0,
        bundle_bytes: limits::COPIED_AT_ONCE_BYTES,
        digests: false,
    };
    reading.for_bundles(|bundle, records| {
        for (basket, record) in bundle.iter().zip(records) {
            if expected[basket.branch].get(basket.basket) != Some(&digest_of(&record)) {
                let branch = &tree.branches[basket.branch].path;
                let message = format!("basket {} of branch {branch} of tree {}", basket.basket, tree.name);
                return Err(differs(path, message));
            }
        }
        go_on()
    })
}
