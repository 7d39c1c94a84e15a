//! Negative counts in a tree's record are errors that name the member. They never yield an empty tree or branch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod records;

use branchline_format::error::ErrorKind;
use branchline_format::tree::read_tree;
use branchline_format::write::{Changes, OwnerKind, Recording, TreeTemplate};
use records::{files, trees_in};

const FILE_BYTES_MAX: u64 = 1_000_000;

/// Members that hold counts, with the kind of their object.
const COUNTS: [(OwnerKind, &str); 5] = [
    (OwnerKind::Tree, "fEntries"),
    (OwnerKind::Branch, "fEntries"),
    (OwnerKind::Branch, "fTotBytes"),
    (OwnerKind::Branch, "fZipBytes"),
    (OwnerKind::Branch, "fWriteBasket"),
];

#[test]
fn no_tree_of_a_real_file_is_refused_for_its_counts() {
    // Negative numbers are valid elsewhere: leaves counted by another member have the length -1, and old versions of
    // ROOT also wrote -1 for unwritten baskets.
    for path in files().into_iter().filter(|path| !path.components().any(|part| part.as_os_str() == "fuzz")) {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for tree in trees {
            let read = read_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let why = read.err().map(|error| error.to_string()).unwrap_or_default();
            let is_refused = why.contains("is negative: ") || why.contains("has an invalid offset or size");
            assert!(!is_refused, "{}:{}: {why}", path.display(), tree.name);
        }
    }
}

#[test]
fn a_count_below_zero_is_damage_that_names_its_member() {
    let mut tried = [0; COUNTS.len()];
    let is_small = |path: &std::path::PathBuf| path.metadata().is_ok_and(|about| about.len() < FILE_BYTES_MAX);
    for path in files().into_iter().filter(is_small) {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for tree in trees {
            let read = read_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let recording = Recording::of_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let (Ok(read), Ok(recording)) = (read, recording) else { continue };
            let form = TreeTemplate::new(&recording, &read, &infos);
            for (number, (kind, member)) in COUNTS.into_iter().enumerate() {
                let is_one =
                    |owner: &usize| recording.owners[*owner].kind == kind && recording.find(*owner, member).is_some();
                let Some(owner) = (0..recording.owners.len()).find(is_one) else { continue };
                let mut changes = Changes::new();
                changes.number(&recording, owner, member, -7).unwrap();
                let bytes = recording.emit(tree.key_size, &changes).unwrap();
                let alone = read_tree(&bytes, tree.key_size, &tree.class_name, &infos);
                let alike = form.as_ref().and_then(|form| form.read(&bytes, tree.key_size));
                let errors = [Some(alone.expect_err(member)), alike.map(|read| read.expect_err(member))];
                for error in errors.into_iter().flatten() {
                    assert_eq!(error.kind, ErrorKind::Damaged, "{}: {error}", path.display());
                    assert!(
                        error.to_string().contains(&format!("{member} is negative: -7")),
                        "{}: {error}",
                        path.display()
                    );
                    assert_eq!(error.object.contains("branch "), kind != OwnerKind::Tree, "{error}");
                }
                tried[number] += 1;
            }
        }
    }
    assert!(tried.iter().all(|count| *count > 0), "{tried:?}");
}
