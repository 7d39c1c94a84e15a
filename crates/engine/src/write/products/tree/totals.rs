//! The record of a merged tree, which is the record of the first input with the totals of all inputs.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::Setting;
use branchline_format::error::FormatError;
use branchline_format::tree::Place;
use branchline_format::write::{Changes, Recording, TreeIndex};

use crate::error::{ReadError, Result};
use crate::write::baskets::rewrite::NewBaskets;
use crate::write::merged::filled::{FilledColumn, FilledColumns};
use crate::write::placed::{Placed, Places};
use crate::write::products::source::Source;
use crate::write::products::tree_input::facts::{ClusterRange, Maximum, OwnerNumbers, TREE};
use crate::write::products::tree_input::input::TreeInput;

/// Minimum capacity of a branch's basket arrays (see TBranch::Streamer).
const BASKETS_MIN: usize = 10;

/// Value of TBranch::fEntryOffsetLen for a branch whose baskets store where their entries begin. Any positive number
/// has this meaning.
const OFFSETS_LENGTH: i64 = 1000;

/// The totals over all trees that have been added.
pub(crate) struct Totals {
    /// The first tree. Its record is written with the totals of all trees.
    pub(crate) first: TreeInput,
    /// The path of the file with the first tree.
    pub(crate) first_path: String,
    /// The new name of the tree. If None, the name of the first tree is kept.
    pub(crate) name: Option<String>,
    class_name: String,
    infos: Arc<ClassInfos>,
    /// The compression of baskets. If None, baskets are copied.
    codec: Option<Setting>,
    entries: u64,
    branches: Vec<BranchTotals>,
    clusters: Vec<ClusterRange>,
    auto_flush: i64,
    /// Maxima of branches and leaves. They are identified by their index among the objects of the record.
    maxima: Vec<Maximum>,
    index: Index,
    filled: FilledColumns,
}

/// The state of the tree index (TTreeIndex).
enum Index {
    /// No tree with entries has been added yet.
    Unknown,
    /// No added tree has an index.
    None,
    /// All added trees have an index. Contains the merged index.
    Merged(TreeIndex),
    /// Only some trees have an index, or the indices are for different expressions.
    Lost,
}

#[derive(Debug, Clone, Default)]
struct BranchTotals {
    entries: u64,
    plain_bytes: u64,
    stored_bytes: u64,
    baskets: Vec<Placed>,
    /// The new value of TBranch::fBasketSize. None if it does not change.
    basket_bytes: Option<u64>,
    /// Whether the new baskets store where their entries begin.
    stores_offsets: bool,
}

impl Totals {
    /// Creates empty totals for trees with the same branches as `first`.
    pub(crate) fn new(first: TreeInput, source: &Source<'_>, codec: Option<Setting>) -> Self {
        Self {
            codec,
            entries: 0,
            branches: vec![BranchTotals::default(); first.tree.branches.len()],
            clusters: Vec::new(),
            auto_flush: 0,
            maxima: Vec::new(),
            index: Index::Unknown,
            filled: FilledColumns::default(),
            first,
            first_path: source.file_path().to_string(),
            name: None,
            class_name: source.key().class_name.clone(),
            infos: Arc::clone(source.file.class_infos()),
        }
    }

    /// Adds the first tree, whose baskets were copied to these locations.
    pub(crate) fn add_first(&mut self, places: &Places) {
        let mut first = std::mem::replace(&mut self.first, TreeInput::nothing());
        self.add(&mut first, places);
        self.first = first;
        for branch in &mut self.first.tree.branches {
            // From here on, it only matters whether the branch has any baskets.
            branch.baskets.truncate(1);
            branch.baskets.shrink_to_fit();
        }
    }

    /// Adds a tree whose baskets were copied to these locations.
    pub(crate) fn add(&mut self, input: &mut TreeInput, places: &Places) {
        for ((totals, branch), places) in self.branches.iter_mut().zip(&input.tree.branches).zip(places) {
            // A damaged record may contain arbitrarily large numbers, so saturate.
            totals.plain_bytes = totals.plain_bytes.saturating_add(branch.plain_bytes);
            totals.stored_bytes = totals.stored_bytes.saturating_add(branch.compressed_bytes);
            for (basket, copied) in branch.baskets.iter().zip(places) {
                let stored_before = match &basket.place {
                    Place::File { size, .. } => *size,
                    Place::Embedded(_) => {
                        // A tree's totals include an embedded basket only once it is written, so add its bytes here.
                        totals.plain_bytes = totals.plain_bytes.saturating_add(copied.plain_size);
                        0
                    }
                };
                totals.stored_bytes = totals.stored_bytes.saturating_add(copied.size).saturating_sub(stored_before);
                totals.baskets.push(Placed { first_entry: self.entries + copied.first_entry, ..*copied });
            }
            totals.entries = totals.entries.saturating_add(branch.entries_count);
        }
        let branches = &input.tree.branches;
        let filled = input.filled.iter().map(|branch| (branches[*branch].path.as_str(), input.tree.entries_count));
        self.filled.add(filled);
        self.add_maxima(&input.facts.maxima);
        if input.tree.entries_count > 0 {
            self.add_index(input);
            self.add_clusters(input);
        }
        self.entries += input.tree.entries_count;
    }

    /// Updates the maxima. If only one of two trees has a member, because of an older class version, the member's value
    /// is kept.
    fn add_maxima(&mut self, maxima: &[Maximum]) {
        let are_same =
            self.maxima.len() == maxima.len() && self.maxima.iter().zip(maxima).all(|(one, two)| one.0 == two.0);
        if are_same {
            self.maxima.iter_mut().zip(maxima).for_each(|(largest, other)| largest.1 = largest.1.max(other.1));
            return;
        }
        let mut largest: HashMap<(usize, &'static str), i64> = self.maxima.drain(..).collect();
        for (place, value) in maxima {
            let known = largest.entry(*place).or_insert(*value);
            *known = (*value).max(*known);
        }
        self.maxima = largest.into_iter().collect();
        self.maxima.sort_unstable();
    }

    /// Replaces the totals by the totals of the rewritten trees.
    pub(crate) fn take(&mut self, new: NewBaskets) {
        if new.entries_count != self.entries && !matches!(self.index, Index::None | Index::Unknown) {
            self.index = Index::Lost;
        }
        self.entries = new.entries_count;
        self.clusters.clear();
        if new.cluster_entries > 0 {
            self.auto_flush = new.cluster_entries as i64;
        }
        let has_entries = self.first.tree.entries_count > 0;
        let branches = self.branches.iter_mut().zip(&self.first.tree.branches);
        let forms = new.basket_bytes.into_iter().zip(new.stores_offsets);
        for (((totals, branch), baskets), (bytes, stores_offsets)) in branches.zip(new.places).zip(forms) {
            totals.basket_bytes = (!baskets.is_empty()).then_some(bytes);
            totals.stores_offsets = stores_offsets;
            let is_counted = branch.entries_count > 0 || !baskets.is_empty() || !has_entries;
            totals.entries = if is_counted { self.entries } else { 0 };
            totals.plain_bytes = baskets.iter().map(|basket| basket.plain_size).sum();
            totals.stored_bytes = baskets.iter().map(|basket| basket.size).sum();
            totals.baskets = baskets;
        }
    }

    /// Appends the index of a tree, as TTreeIndex::Append does.
    fn add_index(&mut self, input: &mut TreeInput) {
        let other = input.facts.index.take();
        let before = std::mem::replace(&mut self.index, Index::Lost);
        self.index = match (before, other) {
            (Index::Unknown, Some(index)) => Index::Merged(index),
            (Index::Unknown | Index::None, None) if !input.facts.has_index => Index::None,
            (Index::Merged(mut index), Some(other)) => match index.append(&other, self.entries) {
                Some(()) => Index::Merged(index),
                None => Index::Lost,
            },
            _ => Index::Lost,
        };
    }

    /// Appends the clusters of an input. The last cluster ends with the input.
    fn add_clusters(&mut self, input: &TreeInput) {
        let (start, entries) = (self.entries as i64, input.tree.entries_count as i64);
        let auto_flush = input.facts.auto_flush;
        let last = start + entries - 1;
        for range in &input.facts.clusters {
            let moved = start.saturating_add(range.last).clamp(start, last);
            self.clusters.push(ClusterRange { last: moved, ..*range });
        }
        let rest = match auto_flush {
            1.. => auto_flush,
            // The input never reached the size at which it would have been flushed, so it is a single cluster.
            ..0 => entries,
            0 => 0,
        };
        if self.clusters.last().is_none_or(|before| before.last < last) {
            self.clusters.push(ClusterRange { last, size: rest });
        }
        self.auto_flush = auto_flush;
    }

    /// The indices of the branches and leaves in the record to be written.
    pub(crate) fn owner_numbers(&self) -> Result<OwnerNumbers> {
        self.first.owner_numbers(&self.class_name, &self.infos, &self.first_path)
    }

    /// Returns the uncompressed record of the tree. `key_size` is the size of the key that precedes the record.
    pub(crate) fn record(&self, key_size: u64) -> Result<Vec<u8>> {
        let emitted = Recording::of_tree(&self.first.plain, self.first.key_size, &self.class_name, &self.infos)
            .and_then(|recording| recording.emit(key_size, &self.changes(&recording)?));
        emitted.map_err(|error| {
            ReadError::from_format(&self.first_path, &error.in_object(format!("tree {}", self.first.tree.name)))
        })
    }

    fn changes(&self, recording: &Recording<'_>) -> std::result::Result<Changes, FormatError> {
        let mut changes = Changes::new();
        changes.without(&self.first.dropped);
        self.change_tree(recording, &mut changes)?;
        self.rename(recording, &mut changes)?;
        let by_id: HashMap<u64, usize> =
            recording.owners.iter().enumerate().map(|(number, owner)| (owner.id, number)).collect();
        for (branch, totals) in self.first.tree.branches.iter().zip(&self.branches) {
            let missing = || FormatError::internal(format!("branch {} is not in the record of its tree", branch.path));
            let owner = *by_id.get(&branch.object_id).ok_or_else(missing)?;
            totals.change(owner, recording, &mut changes)?;
            if let Some(codec) = self.codec {
                changes.number(recording, owner, "fCompress", i64::from(codec.as_root()))?;
            }
        }
        for ((owner, name), largest) in &self.maxima {
            changes.number(recording, *owner, name, *largest)?;
        }
        Ok(changes)
    }

    fn change_tree(&self, recording: &Recording<'_>, changes: &mut Changes) -> std::result::Result<(), FormatError> {
        let sum_of = |bytes: fn(&BranchTotals) -> u64| self.branches.iter().map(bytes).fold(0, u64::saturating_add);
        let stored = signed(sum_of(|branch| branch.stored_bytes));
        changes.number(recording, TREE, "fEntries", signed(self.entries))?;
        changes.number(recording, TREE, "fTotBytes", signed(sum_of(|branch| branch.plain_bytes)))?;
        for name in ["fZipBytes", "fSavedBytes", "fFlushedBytes"] {
            changes.number(recording, TREE, name, stored)?;
        }
        let ranges = match self.clusters.as_slice() {
            // There is only one cluster size, so fAutoFlush applies to all clusters.
            [only] if only.size == self.auto_flush => &[],
            ranges => ranges,
        };
        changes.number(recording, TREE, "fNClusterRange", ranges.len() as i64)?;
        let column = |of: fn(&ClusterRange) -> i64| ranges.iter().map(of).collect::<Vec<i64>>();
        changes.array(recording, TREE, "fClusterRangeEnd", &column(|range| range.last))?;
        changes.array(recording, TREE, "fClusterSize", &column(|range| range.size))?;
        changes.number(recording, TREE, "fAutoFlush", self.auto_flush)?;
        match &self.index {
            Index::Merged(index) => changes.link(recording, TREE, "fTreeIndex", index.pointed()?),
            Index::Unknown | Index::None | Index::Lost => changes.no_link(recording, TREE, "fTreeIndex"),
        }
    }

    fn rename(&self, recording: &Recording<'_>, changes: &mut Changes) -> std::result::Result<(), FormatError> {
        let old = &self.first.tree.name;
        let Some(name) = self.name.as_ref().filter(|name| *name != old) else { return Ok(()) };
        let bases = self.infos.first_bases(&self.class_name);
        match changes.rename(recording, &bases, old, (name, None))? {
            true => Ok(()),
            false => Err(FormatError::unsupported("its record has no name to change")),
        }
    }

    /// Number of entries added.
    pub(crate) fn entries_count(&self) -> u64 {
        self.entries
    }

    /// Number of baskets added, and their total size.
    pub(crate) fn baskets(&self) -> (u64, u64) {
        let count = self.branches.iter().map(|branch| branch.baskets.len() as u64).sum();
        (count, self.branches.iter().flat_map(|branch| &branch.baskets).map(|basket| basket.size).sum())
    }

    /// Returns a message about the parts of the inputs that are not in the output, if any.
    pub(crate) fn left_out(&self) -> Option<String> {
        let name = &self.first.tree.name;
        let is_lost = matches!(self.index, Index::Lost);
        is_lost.then(|| {
            format!("the index of the tree {name}, which does not cover all entries: rebuild it with BuildIndex")
        })
    }

    /// Returns the branches that some inputs lack.
    pub(crate) fn filled(&self, path: &str) -> Vec<FilledColumn> {
        self.filled.of_tree(path)
    }

    /// Returns each branch with its written baskets.
    pub(crate) fn written(&self) -> impl Iterator<Item = WrittenBranch<'_>> {
        let branches = self.first.tree.branches.iter().zip(&self.branches);
        branches.map(|(branch, totals)| WrittenBranch { name: &branch.path, baskets: &totals.baskets })
    }
}

/// A branch with its written baskets.
pub(crate) struct WrittenBranch<'a> {
    pub(crate) name: &'a str,
    pub(crate) baskets: &'a [Placed],
}

/// Converts a count to ROOT's signed type. A count that is too large becomes the maximum.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl BranchTotals {
    fn change(
        &self,
        owner: usize,
        recording: &Recording<'_>,
        changes: &mut Changes,
    ) -> std::result::Result<(), FormatError> {
        let count = self.baskets.len();
        let room = (count + 1).max(BASKETS_MIN);
        let entries = signed(self.entries);
        changes.number(recording, owner, "fWriteBasket", count as i64)?;
        changes.number(recording, owner, "fMaxBaskets", room as i64)?;
        changes.number(recording, owner, "fEntries", entries)?;
        changes.number(recording, owner, "fEntryNumber", entries)?;
        changes.number(recording, owner, "fFirstEntry", 0)?;
        changes.number(recording, owner, "fTotBytes", signed(self.plain_bytes))?;
        changes.number(recording, owner, "fZipBytes", signed(self.stored_bytes))?;
        if let Some(bytes) = self.basket_bytes {
            changes.number(recording, owner, "fBasketSize", bytes as i64)?;
            changes.no_features(recording, owner)?;
        }
        if self.stores_offsets && recording.value(owner, "fEntryOffsetLen") == 0 {
            changes.number(recording, owner, "fEntryOffsetLen", OFFSETS_LENGTH)?;
        }
        changes.no_baskets(recording, owner, room)?;
        let filled = |of: fn(&Placed) -> u64, next: i64| {
            let mut numbers: Vec<i64> = self.baskets.iter().map(|basket| of(basket) as i64).collect();
            numbers.push(next);
            numbers.resize(room, 0);
            numbers
        };
        changes.array(recording, owner, "fBasketBytes", &filled(|basket| basket.size, 0))?;
        // ROOT stores the entry at which the next basket would begin, which is one past the last entry.
        let next = if count > 0 { entries } else { 0 };
        changes.array(recording, owner, "fBasketEntry", &filled(|basket| basket.first_entry, next))?;
        changes.array(recording, owner, "fBasketSeek", &filled(|basket| basket.seek, 0))
    }
}
