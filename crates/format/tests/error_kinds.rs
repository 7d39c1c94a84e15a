//! Classification of errors: damaged files, unsupported formats, and bugs in Branchline.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::error::{ErrorKind, FormatError};
use branchline_format::file::directory::Directories;
use branchline_format::file::loaded_bytes::LoadedBytes;
use branchline_format::file::read_header;
use branchline_format::layout::{Kind, Layout};
use branchline_format::objects::{Classes, Program};
use branchline_format::tree::kind_of;
use branchline_format::tree::{BranchInfo, ElementBranch, TBranch};

fn classes() -> Arc<Classes> {
    Arc::new(Classes::new(Arc::new(ClassInfos::default())))
}

fn branch(name: &str, element: ElementBranch) -> TBranch {
    let info = BranchInfo {
        object_id: 0,
        path: name.to_string(),
        name: name.to_string(),
        title: String::new(),
        class_name: "TBranchElement".to_string(),
        parent: None,
        has_children: false,
        leaves: Vec::new(),
        compress: 0,
        file_name: String::new(),
        element: Some(element),
    };
    TBranch { info: Arc::new(info), entries_count: 1, plain_bytes: 0, compressed_bytes: 0, baskets: Vec::new() }
}

/// Decode one entry of the branch, with a header of version 1, and return the expected error.
fn decoded(branch: &TBranch, members: &[u8]) -> FormatError {
    let Kind::Data(Layout::Objects(program)) = kind_of(branch, &classes()) else { panic!("no objects") };
    let size = (0x4000_0000 | (members.len() as u32 + 2)).to_be_bytes();
    let data = [&size[..], &[0, 1], members].concat();
    let offsets = Some(vec![0, data.len() as u32]);
    let basket =
        EmbeddedBasket { has_data: true, entries_count: 1, data: Arc::new(data), offsets, ..Default::default() };
    let plain = branchline_format::basket::Plain::embedded(&basket);
    program.decode(&plain, 0..1, None).expect_err("one element of an undescribed class")
}

#[test]
fn elements_of_a_class_that_the_file_does_not_describe_are_not_read() {
    let element = ElementBranch { class_name: "vector<Unknown<int> >".to_string(), id: -1, ..ElementBranch::default() };
    let error = decoded(&branch("hits", element), &[0, 0, 0, 1, 7, 7, 7, 7]);
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("does not describe"), "{error}");
}

#[test]
fn arrays_of_objects_in_split_collections_are_not_read() {
    // Type code 501: an array of objects whose length is stored in another member (kStreamLoop).
    let element = ElementBranch {
        class_name: "TNamed*".to_string(),
        id: 0,
        branch_type: 41,
        streamer_type: 501,
        ..ElementBranch::default()
    };
    let kind = kind_of(&branch("event.hits", element), &classes());
    let Kind::Unreadable { error, .. } = &kind else { panic!("{kind:?}") };
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    assert!(error.message.contains("split collection"), "{error}");
}

/// A TObjArray with one pointer to an object of class `class_name` that has no byte count.
fn array_of_one(class_name: &str) -> Vec<u8> {
    // Version, TObject, empty name, count, lower bound, and the tag that means that a class name follows.
    let mut members = vec![0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    members.extend(class_name.as_bytes());
    members.extend([0, 0, 1, 2, 3]);
    [&(0x4000_0000 | members.len() as u32).to_be_bytes()[..], &members].concat()
}

#[test]
fn an_object_behind_a_pointer_whose_class_is_not_described_is_not_read() {
    for classes in [classes(), Arc::new(Classes::whole(Arc::new(ClassInfos::default())))] {
        let program = Program::of_class(&classes, "TObjArray").unwrap();
        let error = program.decode_object(&array_of_one("Unknown"), 0).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("Unknown"), "{error}");
    }
}

#[test]
fn a_directory_that_the_caller_did_not_read_is_a_fault_of_branchline() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/file");
    let header = std::fs::read_dir(path).unwrap().flatten().find_map(|entry| {
        let loaded = LoadedBytes::whole(std::fs::read(entry.path()).ok()?.into());
        Some((read_header(&loaded).ok()?, loaded.file_size()))
    });
    let (header, size) = header.expect("a file with a header is among the seeds");
    let mut directories = Directories::new(&header, size);
    let error = directories.entries_below("folder", &LoadedBytes::new(size)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal, "{error}");
}
