//! A tree of a file that is merged, and the facts of its record that add up.

use std::collections::{HashMap, HashSet};

use branchline_format::error::FormatError;
use branchline_format::file::TKey;
use branchline_format::tree::{read_tree, Place, TBranch, TTree};
use branchline_format::write::{slim, OwnerKind, Recording, TreeIndex};

use crate::error::{ReadError, Result};
use crate::file::File;

use super::input::refused;

/// The tree among the objects of its record.
pub(super) const TREE: usize = 0;
/// What a basket takes in the tables of a tree's record.
const TABLE_ROW_BYTES: u64 = 20;

/// A tree of an input.
pub(super) struct TreeInput {
    /// Without what its baskets hold.
    pub(super) tree: TTree,
    pub(super) facts: TreeFacts,
    /// Branches of its record that are left out of it, as objects.
    pub(super) dropped: HashSet<u64>,
    /// Its record, not compressed, and the size of the key in front.
    pub(super) plain: Vec<u8>,
    pub(super) key_size: u64,
}

/// What its record says beside its branches and baskets.
#[derive(Default)]
pub(super) struct TreeFacts {
    /// The objects in it, as all others must have them.
    pub(super) owners: Vec<OwnerKind>,
    /// The largest values of branches and leaves that count others, and the room that texts take, by their number among
    /// the objects.
    pub(super) maxima: HashMap<(usize, &'static str), i64>,
    pub(super) auto_flush: i64,
    /// Clusters: up to which entry, and of how many entries.
    pub(super) clusters: Vec<(i64, i64)>,
    /// Its index, or whether it has one that cannot be merged.
    pub(super) index: Option<TreeIndex>,
    pub(super) has_index: bool,
}

impl TreeInput {
    /// Takes a tree apart and checks that it can be merged.
    pub(super) fn new(
        file: &File,
        path: &str,
        key: &TKey,
        plain: Vec<u8>,
        branches: Option<&HashSet<String>>,
    ) -> Result<Self> {
        let infos = file.class_infos();
        let named = |error: FormatError| ReadError::from_format(file.path(), &error.in_object(format!("tree {path}")));
        let mut tree = read_tree(&plain, key.key_size, &key.class_name, infos).map_err(named)?;
        let dropped = branches.map(|branches| slim(&mut tree, &|path| branches.contains(path))).unwrap_or_default();
        check_baskets(file, &tree)?;
        let facts = Recording::of_tree(&plain, key.key_size, &key.class_name, infos)
            .and_then(|recording| TreeFacts::of(&recording))
            .map_err(named)?;
        Ok(Self { tree, facts, dropped, plain, key_size: key.key_size })
    }

    /// A tree without anything, which stands for one that is elsewhere for a moment.
    pub(super) fn nothing() -> Self {
        let tree = TTree {
            name: String::new(),
            title: String::new(),
            entries_count: 0,
            has_relatives: false,
            branches: Vec::new(),
        };
        Self { tree, facts: TreeFacts::default(), dropped: HashSet::new(), plain: Vec::new(), key_size: 0 }
    }

    fn baskets_count(&self) -> u64 {
        self.tree.branches.iter().map(|branch| branch.baskets.len() as u64).sum()
    }

    /// About the bytes that it adds to an output.
    pub(super) fn size_bytes(&self) -> u64 {
        let stored: u64 = self.tree.branches.iter().map(|branch| branch.compressed_bytes).sum();
        stored + self.plain.len() as u64 + TABLE_ROW_BYTES * self.baskets_count()
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let baskets = self.baskets_count() * std::mem::size_of::<branchline_format::tree::Basket>() as u64;
        baskets + self.plain.len() as u64 + (self.tree.branches.len() * std::mem::size_of::<TBranch>()) as u64
    }
}

impl TreeFacts {
    fn of(recording: &Recording<'_>) -> std::result::Result<Self, FormatError> {
        let mut maxima = HashMap::new();
        for (owner, about) in recording.owners.iter().enumerate() {
            let names: &[&'static str] = match (about.kind, &*about.class_name) {
                (OwnerKind::Tree, _) => &[],
                (_, "TLeafC") => &["fMaximum", "fLen"],
                _ => &["fMaximum"],
            };
            for name in names.iter().filter(|name| recording.find(owner, name).is_some()) {
                maxima.insert((owner, *name), recording.value(owner, name));
            }
        }
        let ends = recording.values(TREE, "fClusterRangeEnd")?;
        let sizes = recording.values(TREE, "fClusterSize")?;
        Ok(Self {
            owners: recording.owners.iter().map(|owner| owner.kind).collect(),
            maxima,
            auto_flush: recording.value(TREE, "fAutoFlush"),
            clusters: ends.into_iter().zip(sizes).collect(),
            // One that is of another kind is left out with a word.
            index: recording.tree_index().unwrap_or(None),
            has_index: recording.value(TREE, "fTreeIndex") != 0,
        })
    }
}

/// Refuses a tree whose baskets do not have each entry once.
fn check_baskets(file: &File, tree: &TTree) -> Result<()> {
    for branch in &tree.branches {
        let wrong = |what: String| Err(refused(file.path(), format!("branch {} {what}", branch.path)));
        if !branch.file_name.is_empty() {
            return wrong(format!("has its baskets in another file, {}", branch.file_name));
        }
        let mut next = 0;
        for basket in &branch.baskets {
            if matches!(&basket.place, Place::Embedded(embedded) if embedded.key_size == 0) {
                return wrong(format!("was made when there were {} entries already", basket.entry_stop));
            }
            if basket.entry_start != next {
                return wrong(format!("has no basket for entry {next}"));
            }
            next = basket.entry_stop;
        }
        let has_data = !branch.baskets.is_empty() || !branch.has_children;
        if has_data && next != tree.entries_count {
            return wrong(format!("has {next} entries, the tree {}", tree.entries_count));
        }
    }
    Ok(())
}
