//! What a stream reads and how: trees of files and ranges of their entries, branches, sizes of chunks, memory.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_storage::Access;

use crate::tree::Tree;

/// Where the tree of a source is.
#[derive(Debug, Clone)]
pub enum SourceTree {
    /// To be opened.
    Path {
        /// Path or URL of the file.
        file: String,
        /// Path of the tree in it; none for the only one.
        tree: Option<String>,
    },
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
            SourceTree::Path { file, .. } => file,
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
    /// Named branches that a tree may lack. Its chunks do not have them.
    pub optional: HashSet<String>,
    /// Bytes after decompression in a chunk.
    pub step_bytes: u64,
    /// Entries in a chunk, instead of bytes.
    pub step_entries: Option<u64>,
    /// Whether all chunks of the entries of a source are to have the same length.
    pub has_even_steps: bool,
    /// Decoding threads.
    pub threads: usize,
    /// Bytes that reading may take in memory, with the chunk in use and the one before.
    pub memory_limit_bytes: u64,
    /// How many streams share the memory limit in equal parts.
    pub memory_parts: u64,
    /// How files are read that the stream opens.
    pub access: Access,
    /// Whether the caller keeps all values, so that they do not count for the memory limit.
    pub keeps_values: bool,
}
