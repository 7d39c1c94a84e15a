//! Internal errors during a merge. Each must be reported as an internal error that names the input and the output,
//! whether or not bad inputs are skipped.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use branchline_engine::error::{ReadError, ReadErrorKind};
use branchline_engine::write::columns::{ColumnsFile, Layout, NamedColumn, NewColumnsFile};
use branchline_engine::write::compare::{compare, CompareRequest};
use branchline_engine::write::merge::Merge;
use branchline_engine::write::{BasketLayout, Branches, MergeLimits, MergeRequest, Order};
use branchline_format::column::Column;
use branchline_format::compress::Setting;
use branchline_storage::{
    register_bridge, Access, ByteRange, Library, LibraryFailure, LibraryFile, RangesRead, WantedRange,
};

/// Maximum size of the head or the tail of a file, which are read when the file is opened.
const ENDS_BYTES: u64 = 2 << 20;
/// Number of entries in a column of `f8`, large enough that the file is not read whole.
const ENTRIES: usize = 2 << 20;

/// Opens `broken:///path`. Reads in the middle of the file panic.
fn open(url: &str, _: Library, _: Duration) -> Result<LibraryFile, LibraryFailure> {
    let bytes = std::fs::read(url.trim_start_matches("broken://")).unwrap();
    let size_bytes = bytes.len() as u64;
    let read = move |mut ranges: Vec<WantedRange>, _: Duration| -> Result<RangesRead, LibraryFailure> {
        for one in &mut ranges {
            let ByteRange { offset, length } = one.range();
            let end = offset + length;
            let is_middle = offset > ENDS_BYTES && end < size_bytes - ENDS_BYTES;
            assert!(!is_middle && length <= ENDS_BYTES, "the bytes of a basket were looked at");
            one.append(&bytes[offset as usize..end as usize]);
        }
        Ok(RangesRead { ranges, calls_count: 1 })
    };
    Ok(LibraryFile { name: "broken".to_string(), size_bytes, identity: None, reader: Arc::new(read) })
}

fn write(path: &Path) {
    let values: Vec<u8> = (0..ENTRIES).flat_map(|number| (number as f64).to_ne_bytes()).collect();
    let values = Column::Flat { dtype: "f8", values: values.as_slice() };
    let layout = Layout { setting: Setting::NONE, cluster_entries: None, cluster_bytes: 1 << 20, page_bytes: 1 << 16 };
    let new = NewColumnsFile {
        output: path.to_owned(),
        replace: false,
        inputs: Vec::new(),
        name: "events".to_string(),
        description: String::new(),
        date: 0,
        layout,
    };
    let column = NamedColumn { name: "x".to_string(), values: values.clone(), counter: None, descriptions: Vec::new() };
    let mut writer = ColumnsFile::tree(new, &[column]).unwrap();
    writer.fill(&[values], ENTRIES).unwrap();
    writer.finish().unwrap();
}

fn request(inputs: Vec<String>, output: PathBuf, layout: Option<BasketLayout>) -> MergeRequest {
    MergeRequest {
        inputs,
        access: Access::default(),
        output,
        tree: None,
        branches: Branches::new(),
        order: Order::Entry,
        replace: false,
        codec: None,
        layout,
        selections: [].into(),
        selected: None,
        size_bytes_max: None,
        fills_missing_branches: false,
        skips_bad_files: true,
        verifies: false,
        skips_sync: true,
        resumes: false,
        limits: MergeLimits { memory_bytes: 1 << 30, journal_bytes: 1 << 28 },
    }
}

fn check(error: &ReadError, input: &str) {
    assert_eq!(error.kind, ReadErrorKind::Internal, "{error}");
    assert_eq!(error.path, input);
    assert!(error.message.contains("internal error in Branchline"), "{error}");
    assert!(error.hint.as_ref().unwrap().contains("please report it"));
}

#[test]
fn a_panic_while_baskets_are_copied_names_the_input_and_the_output() {
    register_bridge(open);
    let folder = std::env::temp_dir().join(format!("branchline-merge-faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (good, bad, output) = (folder.join("good.root"), folder.join("bad.root"), folder.join("all.root"));
    write(&good);
    write(&bad);
    let broken = format!("broken://{}", bad.display());
    let inputs = vec![good.display().to_string(), broken.clone()];
    for layout in [None, Some(BasketLayout { basket_bytes: Some(100_000), clusters: None })] {
        let error = Merge::new(request(inputs.clone(), output.clone(), layout)).run().unwrap_err();
        check(&error, &broken);
        assert!(error.message.contains(&output.display().to_string()), "{error}");
        assert!(!output.exists());
    }
    let request = CompareRequest {
        outputs: vec![good.display().to_string()],
        inputs: vec![broken.clone()],
        tree: None,
        access: Access::default(),
    };
    check(&compare(&request, &mut || Ok(())).unwrap_err(), &broken);
    std::fs::remove_dir_all(&folder).unwrap();
}
