//! What a stream reads and how: trees of files and ranges of their entries, branches, sizes of chunks, memory.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_storage::Access;

use crate::tree::Tree;

/// Where the tree of a source is.
#[derive(Debug, Clone)]
pub enum SourceTree {
    /// To be opened: path or URL of the file, and path of the tree in it (none for the only one).
    Path(String, Option<String>),
    /// Open already.
    Open(Arc<Tree>),
}

/// A range of entries of a tree.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tree.
    pub tree: SourceTree,
    /// First entry.
    pub entry_start: u64,
    /// Behind the last entry; none for the end of the tree.
    pub entry_stop: Option<u64>,
}

impl Source {
    /// Path or URL of its file.
    pub(crate) fn path(&self) -> &str {
        match &self.tree {
            SourceTree::Path(path, _) => path,
            SourceTree::Open(tree) => tree.file().path(),
        }
    }
}

/// Which branches to read.
#[derive(Debug, Clone)]
pub enum Selection {
    /// All that can be read.
    All,
    /// Those with these names.
    Named(Vec<String>),
}

/// How to read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Branches.
    pub selection: Selection,
    /// Those of the named branches that trees may lack: they are left out of chunks of these.
    pub optional: HashSet<String>,
    /// Bytes after decompression in a chunk.
    pub step_bytes: u64,
    /// Entries in a chunk, instead of bytes.
    pub step_entries: Option<u64>,
    /// Decoding threads.
    pub threads: usize,
    /// What reading may take in memory, with the chunk in use and the one before.
    pub memory_limit_bytes: u64,
    /// How many streams share it: each has such a part.
    pub memory_parts: u64,
    /// How files are read that are not open yet.
    pub access: Access,
    /// Whether the values are kept by whoever asked for them, and do not count.
    pub keeps_values: bool,
}
