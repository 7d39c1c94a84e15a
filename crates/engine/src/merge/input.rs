//! A file that is merged: its tree, taken apart, and that it holds nothing else.

use std::path::Path;
use std::sync::Arc;

use branchline_format::compress::Decompressor;
use branchline_format::directory::is_directory;
use branchline_format::error::FormatError;
use branchline_format::file::{read_key_at, read_object, TKey};
use branchline_format::ntuple::anchor;
use branchline_format::tree::{read_tree, Place, TTree};
use branchline_format::write::{FileFrame, Recording};
use branchline_storage::Access;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;

/// A file with one tree.
pub(crate) struct Input {
    pub(crate) file: Arc<File>,
    pub(crate) key: TKey,
    /// The tree without what its baskets hold.
    pub(crate) tree: TTree,
    /// The record of the tree.
    plain: Vec<u8>,
}

impl Input {
    /// Opens a file and checks that it can be merged.
    pub(crate) fn open(path: &str, tree: Option<&str>) -> Result<Self> {
        let file = File::open(path, &Access::default())?;
        let entry = file.find_tree(tree)?;
        check_alone(&file, &entry.path)?;
        let key = entry.key;
        if key.class_name == anchor::CLASS_NAME {
            return Err(refused(path, format!("{} is an RNTuple, and only TTrees are merged", entry.path)));
        }
        let plain = {
            let mut reader = file.metadata_reader();
            let mut decompressor = Decompressor::new();
            reader.until_known(|held| read_object(held, &key, &mut decompressor))?
        };
        let named = |error: FormatError| ReadError::from_format(file.path(), &error.in_object(&key.name));
        let tree = read_tree(&plain, key.key_size, &key.class_name, file.class_infos()).map_err(named)?;
        let input = Self { file, key, tree, plain };
        input.check_baskets()?;
        Ok(input)
    }

    /// The record of the tree, taken apart.
    pub(crate) fn recording(&self) -> Result<Recording<'_>> {
        Recording::of_tree(&self.plain, self.key.key_size, &self.key.class_name, self.file.class_infos())
            .map_err(|error| ReadError::from_format(self.file.path(), &error.in_object(&self.key.name)))
    }

    /// What stands around the records of a file that is made from this one.
    pub(crate) fn frame(&self, output: &Path) -> FileFrame {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The same inputs make the same file, and other files have other numbers.
        let mut uuid = xxh3_128(&[name.as_bytes(), &self.plain].concat()).to_be_bytes();
        uuid[6] = (uuid[6] & 0x0f) | 0x80; // version 8: of one's own making
        uuid[8] = (uuid[8] & 0x3f) | 0x80;
        let header = self.file.header();
        FileFrame { name, date: self.key.date, uuid, root_version: header.version, compress: header.compress }
    }

    /// The plain bytes of its list of streamer infos, and the size of the key in front of it.
    pub(crate) fn info_list(&self) -> Result<(Vec<u8>, u64)> {
        let seek = self.file.header().seek_info;
        let mut reader = self.file.metadata_reader();
        let key = reader.until_known(|held| read_key_at(held, seek))?;
        let mut decompressor = Decompressor::new();
        let plain = reader.until_known(|held| read_object(held, &key, &mut decompressor))?;
        Ok((plain, key.key_size))
    }

    /// Whether it describes its classes with the same bytes as another.
    pub(crate) fn has_class_infos_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.file.class_infos(), other.file.class_infos())
    }

    /// Refuses a tree whose baskets are not all records of the file, each entry in one of them.
    fn check_baskets(&self) -> Result<()> {
        for branch in &self.tree.branches {
            let wrong = |what: String| Err(refused(self.file.path(), format!("branch {} {what}", branch.path)));
            if !branch.file_name.is_empty() {
                return wrong(format!("has its baskets in another file, {}", branch.file_name));
            }
            let mut next = 0;
            for basket in &branch.baskets {
                if matches!(basket.place, Place::Embedded(_)) {
                    return wrong("has a basket that was never written to the file by itself".to_string());
                }
                if basket.entry_start != next {
                    return wrong(format!("has no basket for entry {next}"));
                }
                next = basket.entry_stop;
            }
            let has_data = !branch.baskets.is_empty() || !branch.has_children;
            if has_data && next != self.tree.entries_count {
                return wrong(format!("has {next} entries, the tree {}", self.tree.entries_count));
            }
        }
        Ok(())
    }
}

/// An input that cannot be merged by copying.
pub(crate) fn refused(path: &str, message: String) -> ReadError {
    ReadError::new(ReadErrorKind::Unsupported, path, message)
        .with_hint("hadd of ROOT may merge what branchline cannot merge yet")
}

/// Refuses a file with other objects than the tree: they would be lost.
fn check_alone(file: &File, tree_path: &str) -> Result<()> {
    if tree_path.contains('/') {
        return Err(refused(file.path(), format!("the tree {tree_path} lies in a directory")));
    }
    let entries = file.entries_below("")?;
    let others: Vec<String> = entries
        .iter()
        .filter(|entry| entry.path != tree_path && !is_directory(&entry.key))
        .map(|entry| format!("{} ({})", entry.path, entry.key.class_name))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(refused(file.path(), format!("beside the tree {tree_path} it holds {}", crate::file::some_of(&others))))
}
