//! A tree of an input file, with the facts in its record that are added up in a merge.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::error::FormatError;
use branchline_format::file::TKey;
use branchline_format::tree::{read_tree, Place, TBranch, TTree};
use branchline_format::write::slim;
use branchline_format::write::{Recording, TreeTemplate};

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::errors::unmergeable;
use crate::write::products::source::Source;
use crate::write::products::tree_input::difference::difference;
use crate::write::products::tree_input::facts::{renumbered, OwnerNumbers, TreeFacts, TREE};
use crate::write::products::tree_input::filling::filled;
use crate::write::products::tree_input::missing::{complete, has_uneven_branches};
use crate::write::products::tree_input::union::{JoinedTree, TreeUnion};
use crate::write::products::tree_input::unions::Unions;

/// Number of bytes that each basket takes in the tables of a tree's record.
const TABLE_ROW_BYTES: u64 = 20;

/// A tree of an input.
pub(crate) struct TreeInput {
    /// The tree. The contents of its baskets are not loaded.
    pub(crate) tree: TTree,
    pub(crate) facts: TreeFacts,
    /// IDs of the branches in the record that are not merged.
    pub(crate) dropped: Arc<HashSet<u64>>,
    /// The uncompressed record; `key_size` is the size of the key that precedes it.
    pub(crate) plain: Vec<u8>,
    pub(crate) key_size: u64,
    /// A message for the user about filled entries, if any.
    pub(crate) note: Option<String>,
    /// Whether the record was not parsed, but only compared with the record of another tree. The objects of that other
    /// tree then name the branches.
    is_alike: bool,
    /// The union by which the tree was extended, if any.
    pub(crate) union: Option<Arc<TreeUnion>>,
    /// Indices of the union's branches that were filled, because the tree lacks them.
    pub(crate) filled: Vec<usize>,
}

/// The first tree at each path. The records of further trees are compared with the record of the first tree before they
/// are parsed. All trees at a path have the same wanted branches.
pub(crate) struct KnownTrees {
    trees: Mutex<HashMap<String, Arc<KnownTree>>>,
    uneven: UnevenBranches,
    /// The branches and fields by which trees and RNTuples are extended if they lack them.
    pub(crate) unions: Unions,
}

/// The treatment of branches that have fewer entries than their tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnevenBranches {
    /// The branches are not changed, because no other tree follows.
    Unchanged,
    /// The missing entries of the branches are filled. If this is not possible, the tree is refused.
    Filled,
    /// The missing entries of the branches are filled if possible.
    FilledIfPossible,
}

struct KnownTree {
    infos: Arc<ClassInfos>,
    class_name: String,
    form: TreeTemplate,
    facts: TreeFacts,
    /// Maps the objects of the tree's record to their indices in the record of the union.
    numbers: Arc<HashMap<usize, usize>>,
    dropped: Arc<HashSet<u64>>,
}

impl KnownTrees {
    /// Creates an empty collection.
    pub(crate) fn new(uneven: UnevenBranches) -> Self {
        Self::with_unions(uneven, Unions::default())
    }

    /// Creates an empty collection. If a path has a union, each tree at that path is extended by all branches of the
    /// union.
    pub(crate) fn with_unions(uneven: UnevenBranches, unions: Unions) -> Self {
        Self { trees: Mutex::default(), uneven, unions }
    }

    fn get(&self, path: &str) -> Option<Arc<KnownTree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).get(path).map(Arc::clone)
    }

    fn keep(&self, path: &str, known: KnownTree) {
        let mut all = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(path.to_string()).or_insert_with(|| Arc::new(known));
    }
}

impl KnownTree {
    /// Reads a record that differs from the record of the known tree only in numbers. Returns None if there is any
    /// other difference.
    fn read(&self, plain: &[u8], key: &TKey, infos: &Arc<ClassInfos>) -> Option<(TTree, TreeFacts)> {
        if !Arc::ptr_eq(&self.infos, infos) || self.class_name != key.class_name {
            return None;
        }
        // If the record cannot be read in this way, parsing it will find the damage.
        let alike = self.form.read(plain, key.key_size)?.ok()?;
        let value = |(owner, name): (usize, &'static str)| self.form.value(&alike, owner, name);
        let mut facts = self.facts.clone();
        facts.auto_flush = value((TREE, "fAutoFlush")).unwrap_or(facts.auto_flush);
        facts.maxima = facts.maxima.into_iter().map(|(place, first)| (place, value(place).unwrap_or(first))).collect();
        Some((alike.tree, facts))
    }
}

impl TreeInput {
    /// Parses a tree, and checks that it can be merged. If `branches` is None, all branches are wanted.
    pub(crate) fn new(
        source: &Source<'_>,
        plain: Vec<u8>,
        branches: Option<&HashSet<String>>,
        known: &KnownTrees,
    ) -> Result<Self> {
        let (file, path, key) = (source.file, source.path(), source.key());
        let infos = file.class_infos();
        let key_size = key.key_size;
        if let Some(first) = known.get(path) {
            let alike = first.read(&plain, key, infos);
            if let Some((tree, facts)) =
                alike.filter(|(tree, _)| known.uneven == UnevenBranches::Unchanged || !has_uneven_branches(tree))
            {
                check_baskets(file, &tree)?;
                let dropped = Arc::clone(&first.dropped);
                let own = Self { tree, facts, dropped, plain, key_size, is_alike: true, ..Self::nothing() };
                return own.united(known.unions.trees.get(path), &first.numbers, source, branches);
            }
        }
        let named = |error: FormatError| ReadError::from_format(file.path(), &error.in_object(format!("tree {path}")));
        let mut tree = read_tree(&plain, key_size, &key.class_name, infos).map_err(named)?;
        let dropped = branches.map(|branches| slim(&mut tree, &|path| branches.contains(path))).unwrap_or_default();
        check_baskets(file, &tree)?;
        let recording = Recording::of_tree(&plain, key_size, &key.class_name, infos).map_err(named)?;
        let (facts, dropped) = (TreeFacts::of(&recording).map_err(named)?, Arc::new(dropped));
        let union = known.unions.trees.get(path);
        let numbers = union.map(|union| OwnerNumbers::of(&recording, &tree).numbers_in(&union.numbers));
        let numbers = Arc::new(numbers.unwrap_or_default());
        if let Some(form) = TreeTemplate::new(&recording, &tree, infos) {
            let (infos, class_name) = (Arc::clone(infos), key.class_name.clone());
            let (facts, numbers, dropped) = (facts.clone(), Arc::clone(&numbers), Arc::clone(&dropped));
            known.keep(path, KnownTree { infos, class_name, form, facts, numbers, dropped });
        }
        let mut note = None;
        if known.uneven != UnevenBranches::Unchanged && has_uneven_branches(&tree) {
            let mut whole = tree.clone();
            match complete(&mut whole, &recording, source) {
                Ok(sentence) => (tree, note) = (whole, sentence),
                Err(error) if known.uneven == UnevenBranches::Filled => return Err(error),
                Err(_) => {}
            }
        }
        let own = Self { tree, facts, dropped, plain, key_size, note, ..Self::nothing() };
        own.united(union, &numbers, source, branches)
    }

    /// Extends the tree by all branches of the union at its path, if there is one.
    fn united(
        mut self,
        union: Option<&Arc<TreeUnion>>,
        numbers: &HashMap<usize, usize>,
        source: &Source<'_>,
        branches: Option<&HashSet<String>>,
    ) -> Result<Self> {
        let Some(union) = union else { return Ok(self) };
        (self.tree, self.filled) = filled(&self.tree, union, source, branches)?;
        self.facts.owners = Arc::clone(&union.owners);
        self.facts.maxima = renumbered(&self.facts.maxima, numbers);
        self.dropped = Arc::default();
        self.union = Some(Arc::clone(union));
        Ok(self)
    }

    /// Returns the tree as an input for building a union.
    pub(crate) fn joined<'a>(&'a self, source: Source<'a>) -> JoinedTree<'a> {
        JoinedTree { source, tree: &self.tree, plain: &self.plain, key_size: self.key_size }
    }

    /// Prepares the record for rewriting: parses it if it was only compared so far. If the tree was extended by a
    /// union, the record of the union is used instead.
    pub(crate) fn take_apart(&mut self, source: &Source<'_>, branches: Option<&HashSet<String>>) -> Result<()> {
        if let Some(union) = &self.union {
            (self.plain, self.key_size) = (union.plain.clone(), union.key_size);
        } else if self.is_alike {
            let plain = std::mem::take(&mut self.plain);
            // Missing entries need not be filled: the record was only compared if no branch of the tree lacks entries,
            // or if branches that lack entries stay unchanged.
            *self = Self::new(source, plain, branches, &KnownTrees::new(UnevenBranches::Unchanged))?;
        }
        Ok(())
    }

    /// Whether the tree has the same branches as another tree, but in a different order.
    pub(crate) fn is_reordered(&self, other: &Self) -> bool {
        let (own, others) = (&self.tree.branches, &other.tree.branches);
        let is_other = |(one, two): (&TBranch, &TBranch)| !Arc::ptr_eq(&one.info, &two.info) && one.path != two.path;
        if own.len() != others.len() || !own.iter().zip(others).any(is_other) {
            return false;
        }
        let paths: HashSet<&str> = own.iter().map(|branch| branch.path.as_str()).collect();
        others.iter().all(|branch| paths.contains(branch.path.as_str()))
    }

    /// Reorders the branches to match `first`, a tree with the same branches. `numbers` are the object indices in the
    /// record of `first`.
    pub(crate) fn reorder(&mut self, first: &Self, numbers: &OwnerNumbers, source: &Source<'_>) -> Result<()> {
        let class_name = &source.key().class_name;
        let own = self.owner_numbers(class_name, source.file.class_infos(), source.file_path())?;
        let mut by_path: HashMap<String, TBranch> =
            self.tree.branches.drain(..).map(|branch| (branch.path.clone(), branch)).collect();
        let in_order = first.tree.branches.iter().filter_map(|known| {
            let branch = by_path.remove(&known.path)?;
            // If the branch differs in kind, keep its own description: it will be refused later.
            let info = if difference(known, &branch).is_none() { &known.info } else { &branch.info };
            Some(TBranch { info: Arc::clone(info), ..branch })
        });
        self.tree.branches = in_order.collect();
        self.facts.maxima = renumbered(&self.facts.maxima, &own.numbers_in(numbers));
        self.facts.owners = Arc::clone(&first.facts.owners);
        Ok(())
    }

    /// The indices of the branches and leaves in the tree's record.
    pub(crate) fn owner_numbers(&self, class_name: &str, infos: &ClassInfos, file: &str) -> Result<OwnerNumbers> {
        let recording = Recording::of_tree(&self.plain, self.key_size, class_name, infos);
        let recording = recording.map_err(|error| ReadError::from_format(file, &error.in_object(&self.tree.name)))?;
        Ok(OwnerNumbers::of(&recording, &self.tree))
    }

    /// Creates an empty tree as a placeholder for a tree that was moved out.
    pub(crate) fn nothing() -> Self {
        let tree = TTree {
            name: String::new(),
            title: String::new(),
            entries_count: 0,
            has_relatives: false,
            has_user_info: false,
            branches: Vec::new(),
        };
        Self {
            tree,
            facts: TreeFacts::default(),
            dropped: Arc::default(),
            plain: Vec::new(),
            key_size: 0,
            note: None,
            is_alike: false,
            union: None,
            filled: Vec::new(),
        }
    }

    fn baskets_count(&self) -> u64 {
        self.tree.branches.iter().map(|branch| branch.baskets.len() as u64).sum()
    }

    /// Estimates the number of bytes that the tree adds to an output.
    pub(crate) fn output_bytes(&self) -> u64 {
        let tables = self.plain.len() as u64 + TABLE_ROW_BYTES * self.baskets_count();
        self.tree.branches.iter().fold(tables, |sum, branch| sum.saturating_add(branch.compressed_bytes))
    }

    /// Number of bytes of memory that the tree takes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let baskets = self.baskets_count() * std::mem::size_of::<branchline_format::tree::Basket>() as u64;
        baskets + self.plain.len() as u64 + (self.tree.branches.len() * std::mem::size_of::<TBranch>()) as u64
    }
}

/// Returns an error if the baskets of a branch do not cover each entry exactly once.
fn check_baskets(file: &File, tree: &TTree) -> Result<()> {
    for branch in &tree.branches {
        let wrong = |what: String| Err(unmergeable(file.path(), format!("branch {} {what}", branch.path)));
        if !branch.file_name.is_empty() {
            return wrong(format!("has its baskets in another file, {}", branch.file_name));
        }
        let mut next = 0;
        for basket in &branch.baskets {
            if matches!(&basket.place, Place::Embedded(embedded) if embedded.key_size == 0) {
                return wrong(format!("was added after {} entries", basket.entry_stop));
            }
            if basket.entry_start != next {
                return wrong(format!("has no basket for entry {next}"));
            }
            next = basket.entry_stop;
        }
    }
    Ok(())
}
