//! The input and the options of a stream.
//!
//! ```
//! use branchline_engine::read::source::{Source, SourceTree};
//!
//! let tree = SourceTree::Path { file: "root://server//data.root".to_string(), tree: None };
//! let first_thousand = Source { tree, entry_start: 0, entry_stop: Some(1000) };
//! assert_eq!(first_thousand.entry_stop, Some(1000));
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use branchline_storage::Access;

use crate::tree::Tree;

/// The tree of a source.
#[derive(Debug, Clone)]
pub enum SourceTree {
    /// A tree that still has to be opened.
    Path {
        /// Path or URL of the file.
        file: String,
        /// Path of the tree in the file; None if the file has only one tree.
        tree: Option<String>,
    },
    /// A tree that is already open.
    Open(Arc<Tree>),
}

/// An entry range of a tree.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tree to read.
    pub tree: SourceTree,
    /// The first entry to read.
    pub entry_start: u64,
    /// One past the last entry to read; None to read to the end of the tree.
    pub entry_stop: Option<u64>,
}

impl Source {
    /// Path or URL of the file.
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
    /// All branches that can be read.
    All,
    /// The branches with these names.
    Named(Vec<String>),
}

/// Options of a stream.
#[derive(Debug, Clone)]
pub struct Options {
    /// The branches to read.
    pub selection: Selection,
    /// Named branches that a tree may lack. Chunks of a tree without such a branch do not have its column.
    pub optional: HashSet<String>,
    /// Size of a chunk in bytes after decompression.
    pub step_bytes: u64,
    /// Size of a chunk in entries; overrides `step_bytes`.
    pub step_entries: Option<u64>,
    /// Whether all chunks of a source have the same length.
    pub has_even_steps: bool,
    /// Number of decoding threads.
    pub threads: usize,
    /// Maximum memory for reading, in bytes. The memory includes the current and the previous chunk.
    pub memory_limit_bytes: u64,
    /// Number of streams that share the memory limit equally.
    pub memory_parts: u64,
    /// How the files of the stream are read.
    pub access: Access,
    /// Whether the caller keeps all values. The values then do not count towards the memory limit.
    pub keeps_values: bool,
}
