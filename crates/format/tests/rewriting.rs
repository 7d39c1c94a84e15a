//! Parsing a tree's record and encoding it without changes yields the same bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod records;

use std::path::Path;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::Decompressor;
use branchline_format::error::{ErrorKind, FormatError};
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::file::{read_header, read_key_at, read_object};
use branchline_format::tree::{read_tree, Place, TBranch, TTree};
use branchline_format::write::{join_infos, Addend, Changes, InfoList, MemberStorage, ObjectPrograms};
use branchline_format::write::{RecordedMember, Recording, Sum};
use records::{files, trees_in, TreeRecord};

fn rewritten(tree: &TreeRecord, infos: &ClassInfos, key_size: u64) -> Result<Vec<u8>, FormatError> {
    Recording::of_tree(&tree.plain, tree.key_size, &tree.class_name, infos)?.emit(key_size, &Changes::new())
}

/// Whether the writer repeats class names, where ROOT would refer to the first occurrence.
fn names_are_repeated(bytes: &[u8]) -> bool {
    bytes.windows(b"TBranch\0".len()).filter(|window| window == b"TBranch\0").count() > 1
}

#[test]
fn a_tree_that_is_written_again_unchanged_has_the_same_bytes() {
    let mut same = 0;
    for path in files() {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for mut tree in trees {
            let name = format!("{}:{}", path.file_name().unwrap().to_string_lossy(), tree.name);
            let bytes = match rewritten(&tree, &infos, tree.key_size) {
                Ok(bytes) => bytes,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Unsupported, "{name}: {error}");
                    assert!(error.message.contains("written by ROOT 2 or older"), "{name}: {error}");
                    continue;
                }
            };
            if names_are_repeated(&tree.plain) {
                assert!(bytes.len() < tree.plain.len(), "{name}: repeated names are left out");
                tree.plain = bytes.clone();
                assert_eq!(rewritten(&tree, &infos, tree.key_size).unwrap(), bytes, "{name}");
            } else {
                assert!(bytes == tree.plain, "{name}: {} bytes for {}", bytes.len(), tree.plain.len());
                same += 1;
            }
        }
    }
    println!("{same} trees are the same");
    assert!(same > 0);
}

#[test]
fn a_tree_behind_another_key_says_the_same() {
    for path in files() {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for tree in trees {
            let Ok(bytes) = rewritten(&tree, &infos, tree.key_size + 8) else { continue };
            let before = read_tree(&tree.plain, tree.key_size, &tree.class_name, &infos);
            let after = read_tree(&bytes, tree.key_size + 8, &tree.class_name, &infos);
            let without_ids = |tree: TTree| {
                let mut tree = tree;
                tree.branches.iter_mut().for_each(|branch| branch.object_id = 0);
                format!("{tree:?}")
            };
            assert_eq!(before.map(without_ids), after.map(without_ids), "{}:{}", path.display(), tree.name);
        }
    }
}

/// In branches written by a custom streamer, a flag byte before the basket offsets selects the width of the offsets.
#[test]
fn baskets_of_old_branches_may_lie_far_behind() {
    let mut old_count = 0;
    for path in files() {
        let Ok((infos, trees)) = trees_in(&path) else { continue };
        for tree in trees {
            let Ok(recording) = Recording::of_tree(&tree.plain, tree.key_size, &tree.class_name, &infos) else {
                continue;
            };
            let is_old = |(_, member): (usize, &RecordedMember)| matches!(member.kind, MemberStorage::Seeks(_));
            let Some(owner) = (0..recording.owners.len()).find(|owner| {
                recording.find(*owner, "fBasketSeek").is_some_and(is_old) && recording.value(*owner, "fEntries") > 0
            }) else {
                continue;
            };
            old_count += 1;
            for seek in [300, 1 << 40] {
                let mut changes = Changes::new();
                changes.number(&recording, owner, "fMaxBaskets", 2).unwrap();
                changes.number(&recording, owner, "fWriteBasket", 1).unwrap();
                changes.array(&recording, owner, "fBasketBytes", &[100, 0]).unwrap();
                changes.array(&recording, owner, "fBasketEntry", &[0, recording.value(owner, "fEntries")]).unwrap();
                changes.array(&recording, owner, "fBasketSeek", &[seek, 0]).unwrap();
                changes.no_baskets(&recording, owner, 2).unwrap();
                let bytes = recording.emit(tree.key_size, &changes).unwrap();
                let again = read_tree(&bytes, tree.key_size, &tree.class_name, &infos).unwrap();
                let places =
                    |branch: &TBranch| branch.baskets.iter().map(|basket| basket.place.clone()).collect::<Vec<_>>();
                let found =
                    again.branches.iter().map(places).filter(
                        |places| matches!(places[..], [Place::File { seek: at, size: 100 }] if at == seek as u64),
                    );
                assert_eq!(found.count(), 1, "{}:{}", path.display(), tree.name);
            }
        }
    }
    println!("{old_count} trees have old branches");
    let has_old_files = files().iter().any(|path| path.ends_with("g4-like.root"));
    assert_eq!(old_count > 0, has_old_files);
}

#[test]
fn a_list_of_streamer_infos_joined_with_itself_stays_the_same() {
    let mut same = 0;
    for path in files() {
        let loaded = LoadedBytes::whole(std::fs::read(&path).unwrap().into());
        let Ok(header) = read_header(&loaded) else { continue };
        let Ok(key) = read_key_at(&loaded, header.seek_info) else { continue };
        let Ok(plain) = read_object(&loaded, &key, &mut Decompressor::new()) else { continue };
        let joined = join_infos(&[InfoList { plain: &plain, key_size: key.key_size }; 2], key.key_size);
        let joined = joined.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        same += usize::from(joined == plain);
        let names = |bytes: &[u8]| {
            format!("{:?}", ClassInfos::read(bytes, key.key_size).map(|infos| infos.newest("TTree").cloned()))
        };
        assert_eq!(names(&joined), names(&plain), "{}", path.display());
    }
    println!("{same} lists are the same");
    assert!(same > 0);
}

/// Adds a TH3I whose streamer infos declare a summed number as the length of an array in the histogram's axes.
#[test]
fn a_sum_that_could_not_be_read_again_is_refused() {
    let bytes =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sums/counted_axes")).unwrap();
    let part = |at: usize| {
        let size = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        &bytes[at + 2..(at + 2 + size).min(bytes.len())]
    };
    let infos = std::sync::Arc::new(ClassInfos::read(part(2), 64).unwrap());
    let object = part(4 + part(2).len() + 3);
    let addend = || Addend::new(object, 36, "TH3I", &mut ObjectPrograms::new(&infos)).unwrap();
    let mut sum = Sum::new(object.to_vec(), 36, "TH3I", &infos, addend());
    let plan = sum.plan(&addend()).unwrap();
    sum.add(addend(), &plan);
    assert_eq!(sum.record(77, &mut None).unwrap_err().kind, ErrorKind::Damaged);
}
