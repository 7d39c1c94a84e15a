//! The same for RNTuples, whose pages are what baskets are to a TTree.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use branchline_format::directory::Entry;
use branchline_format::ntuple::anchor;
use branchline_format::write::file::BEGIN;
use branchline_format::write::join_infos;
use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::ntuple_write::{NtupleOptions, NtuplePlan};

use super::close::close;
use super::input::{check_alone, frame, info_list, stored_object};
use super::output::Output;
use super::{Merge, Merged};

/// A file with one RNTuple.
struct Input {
    file: Arc<File>,
    entry: Entry,
}

impl Input {
    fn open(path: &str, tree: Option<&str>) -> Result<Self> {
        let file = File::open(path, &Access::default())?;
        let entry = file.find_tree(tree)?;
        check_alone(&file, &entry.path)?;
        if entry.key.class_name != anchor::CLASS_NAME {
            let message = format!("{} is a {}, where an RNTuple is to be merged", entry.path, entry.key.class_name);
            return Err(ReadError::new(ReadErrorKind::Unsupported, path, message)
                .with_hint("merge TTrees and RNTuples apart"));
        }
        Ok(Self { file, entry })
    }
}

/// Whether a file's tree is an RNTuple.
pub(super) fn is_ntuple(path: &str, tree: Option<&str>) -> Result<bool> {
    let entry = File::open(path, &Access::default())?.find_tree(tree)?;
    Ok(entry.key.class_name == anchor::CLASS_NAME)
}

impl Merge {
    /// Merges RNTuples. All are looked at before the first is copied.
    pub(super) fn run_ntuples(&self) -> Result<Merged> {
        let tree = self.options.tree.as_deref();
        let mut output = Output::create(&self.options.output, &self.options.inputs, self.options.replace)?;
        let first = Input::open(&self.options.inputs[0], tree)?;
        let mut plan = NtuplePlan::new(&first.file, &first.entry, self.options.codec)?;
        let mut lists = vec![info_list(&first.file)?];
        for path in &self.options.inputs[1..] {
            self.check_stopped()?;
            let input = Input::open(path, tree)?;
            plan.add(&input.file, &input.entry)?;
            if !Arc::ptr_eq(input.file.class_infos(), first.file.class_infos()) {
                let list = info_list(&input.file)?;
                if !lists.contains(&list) {
                    lists.push(list);
                }
            }
        }
        let seed = stored_object(&first.file, &first.entry.key)?;
        let mut frame = frame(&first.file, first.entry.key.date, &seed, &self.options.output);
        if let Some(codec) = self.options.codec {
            frame.compress = codec.as_root();
        }
        output.write_placeholder(BEGIN + frame.top_size())?;
        let mut merge = plan.begin(NtupleOptions { order: self.options.order, setting: self.options.codec }, &mut output)?;
        for path in &self.options.inputs {
            let input = Input::open(path, tree)?;
            merge.add(&input.file, &input.entry, &mut output, &mut |bytes| {
                self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
                self.check_stopped()
            })?;
            self.files_done.fetch_add(1, Ordering::Relaxed);
        }
        self.check_stopped()?;
        let (entries_count, (baskets_count, basket_bytes)) = (merge.entries_count(), merge.pages());
        let key = merge.finish(&mut output)?;
        let lists: Vec<(&[u8], u64)> = lists.iter().map(|(bytes, size)| (bytes.as_slice(), *size)).collect();
        let size_bytes = close(output, &frame, &[key], |key_size| join_infos(&lists, key_size))?;
        Ok(Merged { entries_count, baskets_count, basket_bytes, size_bytes, left_out: Vec::new() })
    }
}
