//! The union of the branches of all trees at one path, in the order of their first appearance, and the record of a tree
//! with all these branches.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::layout::{Kind, Layout, RunHeader};
use branchline_format::objects::empty_entry;
use branchline_format::tree::kind_of;
use branchline_format::tree::{read_tree, TBranch, TTree};
use branchline_format::write::{Graft, OwnerKind, Recording};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::baskets::counting::counter_of;
use crate::write::baskets::forms::{forms, BranchForm};
use crate::write::products::source::Source;
use crate::write::products::tree_input::difference::difference;
use crate::write::products::tree_input::facts::OwnerNumbers;

/// The union of the TTrees at one path.
pub(crate) struct TreeUnion {
    /// The branches, without baskets and entries. Their object IDs refer to the record `plain`.
    pub(crate) branches: Vec<UnionBranch>,
    /// The uncompressed record of a tree with all branches; `key_size` is the size of the key that precedes it.
    pub(crate) plain: Vec<u8>,
    pub(crate) key_size: u64,
    /// The kinds of the objects in the record.
    pub(crate) owners: Arc<Vec<OwnerKind>>,
    pub(crate) numbers: OwnerNumbers,
    pub(crate) digest: u128,
}

/// A branch of a union.
pub(crate) struct UnionBranch {
    pub(crate) branch: TBranch,
    pub(crate) form: BranchForm,
    pub(crate) filling: Filling,
}

/// How a branch is filled in a tree that lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Not at all, because the branch only groups other branches.
    None,
    /// Every entry has these bytes.
    Same(Vec<u8>),
    /// Every element consists of this many zero bytes. The number of elements is read from the count branch; without a
    /// count branch, there are no elements.
    Counted(usize),
    /// Every entry has these bytes. The branch cannot be filled in a tree that has the count branch of this branch.
    Uncounted(Vec<u8>),
    /// The branch cannot be filled, for this reason.
    Impossible(String),
}

/// Builds the union of the trees at one path, one tree after another.
pub(crate) struct TreeUnionBuilder {
    class_name: String,
    infos: Arc<ClassInfos>,
    plain: Vec<u8>,
    key_size: u64,
    tree: TTree,
    /// For each branch, the first file in which it was found, the form of its baskets and its filling.
    found: Vec<FoundBranch>,
    by_path: HashMap<String, usize>,
    is_needed: bool,
}

struct FoundBranch {
    file: String,
    form: BranchForm,
    filling: Filling,
}

/// A tree of a file that is added to a union.
#[derive(Clone, Copy)]
pub(crate) struct JoinedTree<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) tree: &'a TTree,
    pub(crate) plain: &'a [u8],
    pub(crate) key_size: u64,
}

impl TreeUnionBuilder {
    /// Starts the union with the branches of the first tree.
    pub(crate) fn new(first: JoinedTree<'_>) -> Result<Self> {
        let JoinedTree { source, tree, plain, key_size } = first;
        let mut own = Self {
            class_name: source.key().class_name.clone(),
            infos: Arc::clone(source.file.class_infos()),
            plain: plain.to_vec(),
            key_size,
            tree: TTree { branches: Vec::new(), ..tree.clone() },
            found: Vec::new(),
            by_path: HashMap::new(),
            is_needed: false,
        };
        let all: Vec<usize> = (0..tree.branches.len()).collect();
        own.found = first.found(&all)?;
        own.take_branches(tree.branches.clone());
        Ok(own)
    }

    /// Adds a tree of another file. Returns an error if branches have the same name but different types.
    pub(crate) fn add(&mut self, other: JoinedTree<'_>) -> Result<()> {
        let branches = &other.tree.branches;
        let is_alike = |(one, two): (&TBranch, &TBranch)| {
            Arc::ptr_eq(&one.info, &two.info) || (one.path == two.path && difference(one, two).is_none())
        };
        if branches.len() == self.found.len() && self.tree.branches.iter().zip(branches).all(is_alike) {
            return Ok(());
        }
        self.check(&other)?;
        self.is_needed = true;
        let is_new = |index: &usize| !self.by_path.contains_key(&branches[*index].path);
        let new: Vec<usize> = (0..branches.len()).filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut found = other.found(&new)?;
        let paths: Vec<String> = new.iter().map(|index| branches[*index].path.clone()).collect();
        let added: HashSet<usize> = new.iter().copied().collect();
        let plain = self.grafted(&other, &new)?;
        let named = |error: branchline_format::error::FormatError| {
            ReadError::from_format(other.source.file_path(), &error.in_object(other.tree_name()))
        };
        let tree = read_tree(&plain, self.key_size, &self.class_name, &self.infos).map_err(named)?;
        let expected = self.tree.branches.iter().map(|branch| &branch.path).chain(&paths);
        if !tree.branches.iter().map(|branch| &branch.path).eq(expected) {
            let message = format!("{}: {} branches were not added correctly", other.tree_name(), added.len());
            return Err(ReadError::internal(other.source.file_path(), message));
        }
        self.plain = plain;
        self.found.append(&mut found);
        self.take_branches(tree.branches);
        Ok(())
    }

    /// Returns the union. Returns None if all trees have the same branches.
    pub(crate) fn finish(self) -> Result<Option<TreeUnion>> {
        if !self.is_needed {
            return Ok(None);
        }
        let Self { class_name, infos, plain, key_size, tree, found, .. } = self;
        let named = |error| ReadError::from_format(found.first().map_or("", |first| &first.file), &error);
        let recording = Recording::of_tree(&plain, key_size, &class_name, &infos).map_err(named)?;
        let owners = Arc::new(recording.owners.iter().map(|owner| owner.kind).collect());
        let numbers = OwnerNumbers::of(&recording, &tree);
        let both = tree.branches.into_iter().zip(found);
        let branches = both
            .map(|(branch, FoundBranch { form, filling, .. })| UnionBranch { branch, form, filling })
            .collect::<Vec<_>>();
        let digest = xxh3_128(&plain);
        Ok(Some(TreeUnion { branches, plain, key_size, owners, numbers, digest }))
    }

    fn take_branches(&mut self, mut branches: Vec<TBranch>) {
        for branch in &mut branches {
            branch.baskets = Vec::new();
            (branch.entries_count, branch.plain_bytes, branch.compressed_bytes) = (0, 0, 0);
        }
        self.by_path = branches.iter().enumerate().map(|(index, branch)| (branch.path.clone(), index)).collect();
        self.tree.branches = branches;
    }

    /// Returns an error if a branch of the tree differs from the branch of the union with the same name, or has
    /// different child branches.
    fn check(&self, other: &JoinedTree<'_>) -> Result<()> {
        let branches = &other.tree.branches;
        let theirs: HashSet<&str> = branches.iter().map(|branch| branch.path.as_str()).collect();
        for branch in branches {
            match self.by_path.get(&branch.path).map(|index| (&self.tree.branches[*index], &self.found[*index])) {
                Some((own, found)) => {
                    if let Some(what) = difference(own, branch) {
                        return Err(other.refused(&branch.path, &what, &found.file));
                    }
                }
                None => {
                    let parent = branch.parent.and_then(|parent| branches.get(parent));
                    if let Some(known) = parent.and_then(|parent| self.by_path.get(&parent.path)) {
                        let what = "is new within an existing branch";
                        return Err(other.refused(&branch.path, what, &self.found[*known].file));
                    }
                }
            }
        }
        for (own, found) in self.tree.branches.iter().zip(&self.found) {
            let parent = own.parent.and_then(|parent| self.tree.branches.get(parent));
            if !theirs.contains(own.path.as_str()) && parent.is_some_and(|parent| theirs.contains(parent.path.as_str()))
            {
                let what = "is missing within an existing branch";
                return Err(other.refused(&own.path, what, &found.file));
            }
        }
        Ok(())
    }

    /// Returns the record of the union, extended by these branches of another tree.
    fn grafted(&self, other: &JoinedTree<'_>, new: &[usize]) -> Result<Vec<u8>> {
        let named =
            |error: branchline_format::error::FormatError| ReadError::from_format(other.source.file_path(), &error);
        let own = Recording::of_tree(&self.plain, self.key_size, &self.class_name, &self.infos).map_err(named)?;
        let theirs = other.recording()?;
        let mut shared = HashMap::new();
        for branch in &other.tree.branches {
            let Some(known) = self.by_path.get(&branch.path).map(|index| &self.tree.branches[*index]) else { continue };
            shared.insert(branch.object_id, known.object_id);
            shared.extend(theirs.leaves_of(branch.object_id).into_iter().zip(own.leaves_of(known.object_id)));
        }
        let added = || new.iter().map(|index| &other.tree.branches[*index]);
        let graft = Graft {
            from: &theirs,
            branches: added().filter(|branch| branch.parent.is_none()).map(|branch| branch.object_id).collect(),
            leaves: added().flat_map(|branch| theirs.leaves_of(branch.object_id)).collect(),
            shared,
        };
        own.grafted(&graft).map_err(|error| {
            let names: Vec<&str> =
                added().take(crate::limits::NAMES_SHOWN).map(|branch| branch.path.as_str()).collect();
            let object = format!("{}: branches that other files lack ({})", other.tree_name(), names.join(", "));
            ReadError::from_format(other.source.file_path(), &error.in_object(object))
        })
    }
}

impl JoinedTree<'_> {
    fn tree_name(&self) -> String {
        format!("tree {}", self.source.path())
    }

    fn refused(&self, branch: &str, what: &str, other: &str) -> ReadError {
        let message = format!("{}: branch {branch} {what}, unlike {other}", self.tree_name());
        ReadError::new(ReadErrorKind::Unsupported, self.source.file_path(), message)
            .with_hint("branches with the same name must be the same in all files; merge these files separately")
    }

    fn recording(&self) -> Result<Recording<'_>> {
        let (file, class_name) = (self.source.file, &self.source.key().class_name);
        Recording::of_tree(self.plain, self.key_size, class_name, file.class_infos())
            .map_err(|error| ReadError::from_format(file.path(), &error.in_object(self.tree_name())))
    }

    /// Returns the forms and fillings of these branches.
    fn found(&self, branches: &[usize]) -> Result<Vec<FoundBranch>> {
        let file = self.source.file;
        let forms = forms(self.tree, &self.recording()?, None, file.header().compress, file.classes());
        let found = |index: &usize| FoundBranch {
            file: file.path().to_string(),
            form: forms[*index],
            filling: Filling::of(&kind_of(&self.tree.branches[*index], file.classes())),
        };
        Ok(branches.iter().map(found).collect())
    }
}

impl Filling {
    fn of(kind: &Kind) -> Self {
        let impossible = || Self::Impossible("its type has no known empty value".to_string());
        match kind {
            Kind::Group => Self::None,
            Kind::Unreadable { class_name, error } => Self::Impossible(format!("{class_name}: {error}")),
            Kind::Data(layout) => match (layout, empty_entry(layout)) {
                (Layout::Run { scalar, dimensions, header: RunHeader::None, count: Some(_) }, _) => {
                    let size = |size: usize, extent: &usize| size.checked_mul(*extent);
                    let size = dimensions.iter().try_fold(scalar.stored_size(), size);
                    size.map_or_else(impossible, Self::Counted)
                }
                (_, None) => impossible(),
                (_, Some(entry)) if counter_of(kind).is_some() => Self::Uncounted(entry),
                (_, Some(entry)) => Self::Same(entry),
            },
        }
    }
}
