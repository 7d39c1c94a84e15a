//! A handle on a TTree or an RNTuple of an open file. `Content` hides the differences between the two.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_storage::Access;
//!
//! let tree = File::open("data.root", &Access::default())?.tree(Some("events"))?;
//! println!("{} entries in {} branches", tree.entries_count(), tree.branches_count());
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

pub(crate) mod basket_ranges;
pub mod branch_info;
pub(crate) mod codecs;
pub(crate) mod content;
pub mod extents;
pub(crate) mod names;
pub(crate) mod open_tree;
pub(crate) mod rntuple;
pub(crate) mod ttree;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use branchline_format::file::directory::Entry;
use branchline_format::layout::Kind;
use branchline_trace::journal;

use crate::error::{ReadError, ReadErrorKind, Result, COPY_AGAIN};
use crate::file::File;
use crate::tree::content::{Content, Shape, Unreadable};
use branch_info::{BranchInfo, State};

/// A tree whose metadata have been read.
#[derive(Debug)]
pub struct Tree {
    file: Arc<File>,
    path: String,
    cycle: i16,
    /// Offset of the tree's record in the file.
    offset: u64,
    content: Arc<dyn Content>,
    /// Index of each branch by path. Filled by the first lookup of a branch, because reading all branches does not need
    /// the map.
    index_by_path: OnceLock<HashMap<String, usize>>,
    /// The branches as a trace records them. Filled when the first basket is recorded in a trace.
    traced_branches: OnceLock<journal::Branches>,
    /// Whether a stream with separate counters has read the tree.
    is_counted: AtomicBool,
}

impl Tree {
    pub(crate) fn new(file: Arc<File>, entry: Entry, content: Arc<dyn Content>) -> Self {
        let (path, cycle, offset) = (entry.path, entry.key.cycle, entry.key.seek);
        Self {
            file,
            path,
            cycle,
            offset,
            content,
            index_by_path: OnceLock::new(),
            traced_branches: OnceLock::new(),
            is_counted: AtomicBool::new(false),
        }
    }

    /// Returns a handle on the tree for one of several streams that count their reads separately. The first stream also
    /// counts the opening of the file. Later streams get the same tree with new counters, or the same handle if
    /// separate counters would require reading the tree again.
    pub fn counted_apart(self: &Arc<Self>) -> Arc<Self> {
        if !self.is_counted.swap(true, Ordering::Relaxed) || !self.content.other_files().is_empty() {
            return Arc::clone(self);
        }
        self.file.again().map_or_else(|| Arc::clone(self), |file| Arc::new(self.over(file)))
    }

    /// Returns the same tree on another handle of the same file.
    fn over(&self, file: Arc<File>) -> Self {
        Self {
            file,
            path: self.path.clone(),
            cycle: self.cycle,
            offset: self.offset,
            content: Arc::clone(&self.content),
            index_by_path: OnceLock::new(),
            traced_branches: OnceLock::new(),
            is_counted: AtomicBool::new(true),
        }
    }

    /// The file that contains the tree.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The path of the tree in the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Offset of the tree's record in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The tree's path with its cycle.
    pub(crate) fn location(&self) -> String {
        format!("{};{}", self.path, self.cycle)
    }

    pub(crate) fn content(&self) -> &dyn Content {
        &*self.content
    }

    /// The title of the tree.
    pub fn title(&self) -> &str {
        self.content.title()
    }

    /// Number of entries.
    pub fn entries_count(&self) -> u64 {
        self.content.entries_count()
    }

    /// Number of branches. Branches are addressed by index, and a parent comes before its children.
    pub fn branches_count(&self) -> usize {
        self.content.branches_count()
    }

    /// The path of a branch: the names of its ancestors, followed by its own name.
    pub fn branch_path(&self, index: usize) -> &str {
        self.content.branch_path(index)
    }

    /// The name of a branch, without its ancestors.
    pub fn branch_name(&self, index: usize) -> &str {
        self.content.branch_name(index)
    }

    /// The branches of the tree as a trace records them.
    pub(crate) fn traced_branches(&self) -> &journal::Branches {
        let paths = || (0..self.branches_count()).map(|index| self.branch_path(index));
        self.traced_branches.get_or_init(|| journal::Branches::of(paths()))
    }

    /// The separator between the names in a path.
    pub fn separator(&self) -> &'static str {
        self.content.separator()
    }

    /// Whether the tree has aliases, an index or friends.
    pub fn has_relatives(&self) -> bool {
        self.content.has_relatives()
    }

    /// Whether parent branches contain all data of their child branches.
    pub fn nests(&self) -> bool {
        self.content.nests()
    }

    /// Index of the parent of a branch.
    pub fn parent(&self, index: usize) -> Option<usize> {
        self.content.parent(index)
    }

    /// Index of the branch with the element counts of a variable-length branch.
    pub fn counter(&self, index: usize) -> Option<usize> {
        self.content.counter(index)
    }

    /// The kind of a TTree branch.
    pub(crate) fn kind(&self, index: usize) -> Option<&Kind> {
        self.content.kind(index)
    }

    /// Whether a branch can be read.
    pub fn state(&self, index: usize) -> State {
        self.content.state(index)
    }

    /// The metadata of a branch.
    pub fn branch_info(&self, index: usize) -> BranchInfo {
        self.content.branch_info(&self.file, index)
    }

    /// Returns the layout of the entries of a branch, or an error if the branch cannot be read.
    pub(crate) fn shape(&self, index: usize) -> Result<Shape<'_>> {
        self.content.shape(index).map_err(|unreadable| {
            let name = self.branch_path(index);
            match unreadable {
                Unreadable::Group => {
                    let message = format!("branch {name} only groups others and has no data");
                    self.error(ReadErrorKind::Unsupported, message).with_hint("name the branches below it")
                }
                Unreadable::Format { class_name, error } => {
                    let object = format!("branch {name} of class {class_name}");
                    ReadError::from_format(self.file.path(), &error.clone().in_object(object))
                }
                Unreadable::OtherFile(error) => {
                    error.clone().in_object(format!("branch {name} of {}", self.file.path()))
                }
            }
        })
    }

    /// Returns an error if a branch cannot be read.
    pub fn check_readable(&self, index: usize) -> Result<()> {
        self.shape(index).map(|_| ())
    }

    /// Whether a branch has fewer entries than the tree.
    pub fn is_short(&self, index: usize) -> bool {
        self.content.is_short(index)
    }

    /// Indices of the branches that are read by default: all branches with data, each once.
    pub fn readable(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.branches_count()).filter(|index| self.content.is_read_by_default(*index))
    }

    /// Finds a branch by its path, or by a shorter name that matches no other branch.
    pub fn find(&self, name: &str) -> Result<usize> {
        let path = |index| (self.branch_path(index).to_string(), index);
        let indices = || (0..self.branches_count()).map(path).collect();
        let by_path = self.index_by_path.get_or_init(indices);
        let slashed = || by_path.get(&name.replace('/', self.separator()));
        if let Some(index) = by_path.get(name).or_else(slashed) {
            return Ok(*index);
        }
        let names = (0..self.branches_count()).map(|index| (self.branch_path(index), self.branch_name(index)));
        let mut same = names::candidates(name, names);
        // A split object and its first member may share a name: choose the one with data.
        let is_group = |index: &usize| matches!(self.kind(*index), Some(Kind::Group));
        if same.iter().any(|index| !is_group(index)) {
            same.retain(|index| !is_group(index));
        }
        match same.as_slice() {
            [only] => Ok(*only),
            [] => Err(self.error(ReadErrorKind::NoSuchKey, format!("tree {} has no branch {name:?}", self.path))),
            many => {
                let paths: Vec<&str> = many.iter().take(4).map(|index| self.branch_path(*index)).collect();
                let message = format!("tree {} has several branches named {name:?}", self.path);
                let hint = format!("give the whole path: {}", paths.join(", "));
                Err(self.error(ReadErrorKind::NoSuchKey, message).with_hint(hint))
            }
        }
    }

    pub(crate) fn error(&self, kind: ReadErrorKind, message: impl Into<String>) -> ReadError {
        ReadError::new(kind, self.file.path(), message)
    }

    /// The file that contains the baskets of a branch.
    pub(crate) fn home(&self, index: usize) -> &Arc<File> {
        self.content.other_home(index).unwrap_or(&self.file)
    }

    /// Other files that contain baskets of the tree.
    pub(crate) fn other_files(&self) -> Vec<&Arc<File>> {
        self.content.other_files()
    }

    /// Returns an error for a tree with contradictory metadata.
    pub(crate) fn contradiction(&self, message: &str) -> ReadError {
        let message = format!("{message} (tree {} at offset {} of the file)", self.path, self.offset);
        self.error(ReadErrorKind::BadFile, message).with_hint(COPY_AGAIN)
    }
}
