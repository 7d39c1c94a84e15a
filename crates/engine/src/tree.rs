//! Tree: our handle on a TTree or an RNTuple of an open file. Nobody else asks which it is, but those who fetch and
//! decode.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use branchline_format::column::Column;
use branchline_format::directory::Entry;
use branchline_format::layout::{Kind, Layout};
use branchline_format::ntuple::form::Form;
use branchline_format::tree::TTree;
use branchline_trace::journal;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::external::Externals;
use crate::file::File;
use crate::names;
use crate::ntuple::Ntuple;

/// A tree whose metadata were read.
#[derive(Debug)]
pub struct Tree {
    file: Arc<File>,
    path: String,
    cycle: i16,
    /// Where its record begins in the file.
    offset: u64,
    content: Content,
    /// Filled when a branch is looked for the first time: whoever reads all of them looks for none.
    index_by_path: OnceLock<HashMap<String, usize>>,
    /// Filled when the first basket is told to a trace.
    told_branches: OnceLock<journal::Branches>,
}

/// What a tree is in its file.
#[derive(Debug)]
pub(crate) enum Content {
    /// A TTree, and what each of its branches holds.
    Tree { meta: TTree, kinds: Vec<Kind>, externals: Externals },
    /// An RNTuple, whose fields are the branches and whose clusters are the baskets of each of them.
    Ntuple(Box<Ntuple>),
}

/// What the entries of a branch are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// Baskets of this layout.
    Baskets(&'a Layout),
    /// Clusters of a field of this form.
    Clusters(&'a Form),
}

impl Shape<'_> {
    /// The column of no entries.
    pub(crate) fn empty(self) -> Column {
        match self {
            Self::Baskets(layout) => Column::empty(layout),
            Self::Clusters(form) => form.empty(),
        }
    }

    /// Whether its entries have any number of elements.
    pub(crate) fn is_run(self) -> bool {
        match self {
            Self::Baskets(layout) => matches!(layout, Layout::Run { .. }),
            Self::Clusters(form) => matches!(form, Form::List { .. }),
        }
    }

    /// NumPy's name, bytes and extents of the numbers of a branch whose values can be made where they stay.
    pub(crate) fn numbers(self) -> Option<(&'static str, usize, Vec<usize>)> {
        match self {
            Self::Baskets(Layout::Fixed { scalar, dimensions } | Layout::Run { scalar, dimensions, .. }) => {
                Some((scalar.dtype(), scalar.size(), dimensions.clone()))
            }
            Self::Baskets(_) => None,
            Self::Clusters(form) => {
                let (number, dimensions) = form.fixed().or_else(|| form.run())?;
                Some((number.dtype(), number.size(), dimensions))
            }
        }
    }
}

impl Tree {
    pub(crate) fn new(file: Arc<File>, entry: Entry, content: Content) -> Self {
        let (path, cycle, offset) = (entry.path, entry.key.cycle, entry.key.seek);
        Self { file, path, cycle, offset, content, index_by_path: OnceLock::new(), told_branches: OnceLock::new() }
    }

    /// The file that it is in.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Its path in the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where its record begins in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Its path with its cycle.
    pub(crate) fn location(&self) -> String {
        format!("{};{}", self.path, self.cycle)
    }

    /// Its title.
    pub fn title(&self) -> &str {
        match &self.content {
            Content::Tree { meta, .. } => &meta.title,
            Content::Ntuple(ntuple) => ntuple.description(),
        }
    }

    /// Its entries.
    pub fn entries_count(&self) -> u64 {
        match &self.content {
            Content::Tree { meta, .. } => meta.entries_count,
            Content::Ntuple(ntuple) => ntuple.entries_count,
        }
    }

    /// How many branches it has; they are told apart by their index, and a parent comes before its children.
    pub fn branches_count(&self) -> usize {
        match &self.content {
            Content::Tree { meta, .. } => meta.branches.len(),
            Content::Ntuple(ntuple) => ntuple.branches.len(),
        }
    }

    /// The names that lead to a branch and its own.
    pub fn branch_path(&self, index: usize) -> &str {
        match &self.content {
            Content::Tree { meta, .. } => &meta.branches[index].path,
            Content::Ntuple(ntuple) => &ntuple.branches[index].path,
        }
    }

    /// Its branches for a trace.
    pub(crate) fn told_branches(&self) -> &journal::Branches {
        let paths = || (0..self.branches_count()).map(|index| self.branch_path(index));
        self.told_branches.get_or_init(|| journal::Branches::of(paths()))
    }

    /// What stands between the names of a path.
    pub fn separator(&self) -> &'static str {
        match &self.content {
            Content::Tree { .. } => "/",
            Content::Ntuple(_) => ".",
        }
    }

    /// Whether it has aliases, an index or friends.
    pub fn has_relatives(&self) -> bool {
        matches!(&self.content, Content::Tree { meta, .. } if meta.has_relatives)
    }

    /// Whether a branch holds all that the branches below it hold.
    pub fn nests(&self) -> bool {
        matches!(self.content, Content::Ntuple(_))
    }

    /// What a branch is made of.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// What a branch of a TTree holds.
    pub(crate) fn kind(&self, index: usize) -> Option<&Kind> {
        match &self.content {
            Content::Tree { kinds, .. } => kinds.get(index),
            Content::Ntuple(_) => None,
        }
    }

    /// What a branch that can be read is made from.
    pub(crate) fn shape(&self, index: usize) -> Result<Shape<'_>> {
        let name = self.branch_path(index);
        let refused = |class_name: &str, reason: &str| {
            let message = format!("branch {name} of class {class_name}: {reason}");
            Err(self.error(ReadErrorKind::Unsupported, message).with_hint("the other branches still read"))
        };
        match &self.content {
            Content::Tree { kinds, .. } => match &kinds[index] {
                Kind::Data(layout) => Ok(Shape::Baskets(layout)),
                Kind::Group => {
                    let message = format!("branch {name} only groups others and holds no data of its own");
                    Err(self.error(ReadErrorKind::Unsupported, message).with_hint("ask for the branches below it"))
                }
                Kind::Unsupported { class_name, reason } => refused(class_name, reason),
            },
            Content::Ntuple(ntuple) => match ntuple.form(index) {
                Ok(form) => Ok(Shape::Clusters(form)),
                Err(reason) => refused(&ntuple.field(index).type_name, reason),
            },
        }
    }

    /// Refuses a branch that cannot be read, and says why.
    pub fn check_readable(&self, index: usize) -> Result<()> {
        self.shape(index).map(|_| ())
    }

    /// Indices of the branches that are read when none are named: all that hold data, each once.
    pub fn readable(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.branches_count()).filter(|index| match &self.content {
            Content::Tree { kinds, .. } => matches!(kinds[*index], Kind::Data(_)),
            Content::Ntuple(ntuple) => ntuple.branches[*index].parent.is_none() && ntuple.form(*index).is_ok(),
        })
    }

    /// Finds a branch by its path, or by a shorter name if that means only one.
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
        // A split object and its first member may share a name: the one with data is meant.
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

    /// Its own name.
    pub fn branch_name(&self, index: usize) -> &str {
        match &self.content {
            Content::Tree { meta, .. } => &meta.branches[index].name,
            Content::Ntuple(ntuple) => &ntuple.branches[index].name,
        }
    }

    pub(crate) fn error(&self, kind: ReadErrorKind, message: impl Into<String>) -> ReadError {
        ReadError::new(kind, self.file.path(), message)
    }

    /// The file that holds the baskets of a branch.
    pub(crate) fn home(&self, index: usize) -> &Arc<File> {
        let named = match &self.content {
            Content::Tree { meta, externals, .. } => externals.get(&meta.branches[index].file_name),
            Content::Ntuple(_) => None,
        };
        named.unwrap_or(&self.file)
    }

    /// Other files that hold baskets of its branches.
    pub(crate) fn other_files(&self) -> Vec<&Arc<File>> {
        match &self.content {
            Content::Tree { externals, .. } => externals.files().collect(),
            Content::Ntuple(_) => Vec::new(),
        }
    }

    /// What the tree says in one place contradicts what it says in another.
    pub(crate) fn contradiction(&self, message: &str) -> ReadError {
        let message = format!("{message} (tree {} at offset {} of the file)", self.path, self.offset);
        self.error(ReadErrorKind::BadFile, message)
    }
}
