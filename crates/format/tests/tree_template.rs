//! Reading a tree with a template either yields the same result as without it, or is refused because the tree's record
//! differs too much.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod records;

use std::path::PathBuf;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::tree::{read_tree, TTree};
use branchline_format::write::{Changes, OwnerKind, Recording, TreeTemplate};
use records::{files, trees_in, TreeRecord};

/// Maximum size of a test file. Larger files have no additional kinds of trees.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// Format the contents of a tree, without the object IDs in its record.
fn as_text(tree: &TTree) -> String {
    let mut tree = tree.clone();
    tree.branches.iter_mut().for_each(|branch| branch.object_id = 0);
    format!("{tree:?}")
}

/// All trees for which a template can be created: name, record, template, and the file's class descriptions.
fn forms() -> Vec<(String, TreeRecord, TreeTemplate, ClassInfos)> {
    let mut forms = Vec::new();
    let is_small = |path: &PathBuf| path.metadata().is_ok_and(|about| about.len() < FILE_BYTES_MAX);
    for path in files().into_iter().filter(is_small) {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for tree in trees {
            let read = read_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let recording = Recording::of_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let (Ok(read), Ok(recording)) = (read, recording) else { continue };
            let name = format!("{}:{}", path.file_name().unwrap().to_string_lossy(), tree.name);
            // Skip records whose writer repeats class names, because encoding does not reproduce them.
            if recording.emit(tree.key_size, &Changes::new()).is_ok_and(|again| again != tree.plain) {
                continue;
            }
            if let Some(form) = TreeTemplate::new(&recording, &read, &infos) {
                let read_again = form.read(&tree.plain, tree.key_size).unwrap().unwrap();
                assert_eq!(as_text(&read_again.tree), as_text(&read), "{name}");
                forms.push((name, tree, form, infos.clone()));
            }
        }
    }
    println!("{} trees have a form", forms.len());
    assert!(!forms.is_empty());
    forms
}

/// Encode a tree's record in which each branch has different baskets, possibly more or fewer than before.
fn filled_anew(tree: &TreeRecord, infos: &ClassInfos, random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let recording = Recording::of_tree(&tree.plain, tree.key_size, &tree.class_name, infos).unwrap();
    let mut changes = Changes::new();
    let entries = 1 + random(1000) as i64;
    for (owner, about) in recording.owners.iter().enumerate() {
        changes.number(&recording, owner, "fMaximum", random(100) as i64).unwrap();
        if about.kind == OwnerKind::Leaf {
            continue;
        }
        for name in ["fEntries", "fEntryNumber"] {
            changes.number(&recording, owner, name, entries).unwrap();
        }
        changes.number(&recording, owner, "fBasketSize", random(1 << 20) as i64).unwrap();
        changes.number(&recording, owner, "fTotBytes", random(1 << 30) as i64).unwrap();
        changes.number(&recording, owner, "fZipBytes", random(1 << 30) as i64).unwrap();
        if about.kind != OwnerKind::Branch || recording.value(owner, "fWriteBasket") == 0 {
            continue;
        }
        let count = 1 + random(3) as i64;
        let room = count + 1 + random(12) as i64;
        changes.number(&recording, owner, "fWriteBasket", count).unwrap();
        changes.number(&recording, owner, "fMaxBaskets", room).unwrap();
        let column = |of: &dyn Fn(i64) -> i64| (0..room).map(of).collect::<Vec<i64>>();
        let first = |index: i64| if index > count { 0 } else { entries * index / count };
        changes.array(&recording, owner, "fBasketBytes", &column(&|index| 100 + index)).unwrap();
        changes.array(&recording, owner, "fBasketEntry", &column(&first)).unwrap();
        changes.array(&recording, owner, "fBasketSeek", &column(&|index| 1000 * (index + 1))).unwrap();
    }
    recording.emit(tree.key_size, &changes).unwrap()
}

/// Reproducible pseudo-random numbers.
fn drawn(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn a_tree_that_is_like_another_is_read_as_if_it_were_alone() {
    let mut random = drawn(5);
    for (name, tree, form, infos) in forms() {
        for _ in 0..3 {
            let bytes = filled_anew(&tree, &infos, &mut random);
            let Ok(alone) = read_tree(&bytes, tree.key_size, &tree.class_name, &infos) else { continue };
            let alike = form.read(&bytes, tree.key_size).expect(&name).unwrap();
            assert_eq!(as_text(&alike.tree), as_text(&alone), "{name}");
            let recording = Recording::of_tree(&bytes, tree.key_size, &tree.class_name, &infos).unwrap();
            for owner in 0..recording.owners.len() {
                for member in ["fMaximum", "fAutoFlush", "fEntries", "fMaxBaskets"] {
                    let there = recording.find(owner, member).map(|(_, found)| found.value);
                    assert_eq!(form.value(&alike, owner, member), there, "{name}: {member} of {owner}");
                }
            }
        }
        assert!(form.read(&tree.plain, tree.key_size + 8).is_none(), "{name}");
    }
}

#[test]
fn a_tree_that_is_hardly_like_another_is_not_taken_for_it() {
    let mut random = drawn(6);
    for (name, tree, form, infos) in forms().into_iter().filter(|(_, tree, ..)| tree.plain.len() < 60_000) {
        for _ in 0..40 {
            let mut bytes = filled_anew(&tree, &infos, &mut random);
            for _ in 0..=random(2) {
                let at = random(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random(8);
            }
            if random(8) == 0 {
                bytes.truncate(random(bytes.len() as u64) as usize);
            }
            let alone = read_tree(&bytes, tree.key_size, &tree.class_name, &infos);
            if let Some(Ok(alike)) = form.read(&bytes, tree.key_size) {
                assert_eq!(as_text(&alike.tree), as_text(&alone.unwrap()), "{name}");
            }
        }
    }
}
