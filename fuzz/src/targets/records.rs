//! What a merge does to a tree's record: streamer infos and a tree as for `tree`. The record is taken apart and put
//! together again, at another place and without some branches, and must be the same tree then.

use std::collections::HashSet;

use crate::input::Input;
use crate::memory::bounded;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::error::Result;
use branchline_format::tree::{read_tree, TTree};
use branchline_format::write::slim;
use branchline_format::write::{join_infos, Changes, InfoList, Recording};

/// Bytes of memory for a byte of streamer infos and tree: the tree twice, and its record in pieces.
const FACTOR: usize = 2048;
const CLASS_NAME: &str = "TTree";
/// Of the key of the output, which is no other.
const NEW_KEY_SIZE: u64 = 77;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let info_key_size = u64::from(input.short());
    let info_bytes = input.part();
    let infos = ClassInfos::read(info_bytes, info_key_size).unwrap_or_default();
    let list = InfoList { plain: info_bytes, key_size: info_key_size };
    if let Ok(joined) = bounded(bytes.len(), FACTOR, || join_infos(&[list; 2], NEW_KEY_SIZE)) {
        assert!(joined.len() <= 2 * info_bytes.len() + 64, "each class is there once");
    }
    let key_size = u64::from(input.short());
    let record = Record { bytes: input.0, key_size, infos: &infos };
    let Ok(tree) = read_tree(record.bytes, key_size, CLASS_NAME, &infos) else { return };
    if let Ok(emitted) = bounded(bytes.len(), FACTOR, || record.emitted(&HashSet::new())) {
        check_same(&tree, &emitted, &infos);
    }
    let mut slimmed = tree;
    let mut number = 0;
    let is_wanted = std::cell::RefCell::new(|| {
        number += 1;
        number % 3 != 1
    });
    let dropped = slim(&mut slimmed, &|_| is_wanted.borrow_mut()());
    if let Ok(emitted) = bounded(bytes.len(), FACTOR, || record.emitted(&dropped)) {
        check_same(&slimmed, &emitted, &infos);
    }
}

struct Record<'a> {
    bytes: &'a [u8],
    key_size: u64,
    infos: &'a ClassInfos,
}

impl Record<'_> {
    fn emitted(&self, dropped: &HashSet<u64>) -> Result<Vec<u8>> {
        let recording = Recording::of_tree(self.bytes, self.key_size, CLASS_NAME, self.infos)?;
        drop(recording.tree_index());
        let mut changes = Changes::new();
        changes.without(dropped);
        recording.emit(NEW_KEY_SIZE, &changes)
    }
}

/// What was emitted is read as the same tree.
fn check_same(tree: &TTree, emitted: &[u8], infos: &ClassInfos) {
    let again = read_tree(emitted, NEW_KEY_SIZE, CLASS_NAME, infos).expect("what was written is read");
    assert_eq!((&again.name, again.entries_count), (&tree.name, tree.entries_count));
    let facts = |tree: &TTree| {
        let of = |branch: &branchline_format::tree::TBranch| {
            let baskets = branch.baskets.iter().map(|one| (one.entry_start, one.entry_stop)).collect::<Vec<_>>();
            // Not its path: that numbers branches of one name, which changes when one of them is dropped.
            (branch.name.clone(), branch.parent, branch.leaves.len(), baskets)
        };
        tree.branches.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(facts(&again), facts(tree));
}
