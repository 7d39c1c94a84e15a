//! The record of the tree that is made: that of the first input with what has become more.

use std::collections::HashMap;

use branchline_format::compress::Setting;
use branchline_format::error::FormatError;
use branchline_format::tree::Place;
use branchline_format::write::{Changes, OwnerKind, Recording};

use crate::error::{ReadError, Result};

use super::copy::Laid;
use super::input::{refused, Input};

/// A branch has room for at least so many baskets (TBranch::Streamer).
const BASKETS_MIN: usize = 10;
/// The tree among the objects of its record.
const TREE: usize = 0;

/// What has come together so far.
pub(super) struct Totals {
    entries: u64,
    /// How the baskets are compressed, unless they were copied.
    codec: Option<Setting>,
    branches: Vec<BranchTotals>,
    clusters: Vec<ClusterRange>,
    auto_flush: i64,
    /// The largest values of branches and leaves that count others, and the room that texts take, by their number among
    /// the objects of the record.
    maxima: HashMap<(usize, &'static str), i64>,
    /// Which objects of the first record there are, as all others must have them.
    owners: Vec<OwnerKind>,
    has_index: bool,
}

#[derive(Debug, Clone, Default)]
struct BranchTotals {
    entries: u64,
    plain_bytes: u64,
    stored_bytes: u64,
    sizes: Vec<i64>,
    first_entries: Vec<i64>,
    seeks: Vec<i64>,
}

/// Entries up to one in clusters of so many (TTree::fClusterRangeEnd and fClusterSize).
#[derive(Debug, Clone, Copy)]
struct ClusterRange {
    last: i64,
    size: i64,
}

impl Totals {
    /// Nothing yet of trees like this one.
    pub(super) fn new(first: &Input, codec: Option<Setting>) -> Result<Self> {
        let recording = first.recording()?;
        Ok(Self {
            entries: 0,
            codec,
            branches: vec![BranchTotals::default(); first.tree.branches.len()],
            clusters: Vec::new(),
            auto_flush: 0,
            maxima: HashMap::new(),
            owners: recording.owners.iter().map(|owner| owner.kind).collect(),
            has_index: false,
        })
    }

    /// Adds a tree whose baskets lie in the output now: those of each branch in their order.
    pub(super) fn add(&mut self, input: &Input, laid: &[Vec<Laid>]) -> Result<()> {
        let recording = input.recording()?;
        let is_same = recording.owners.iter().map(|owner| &owner.kind).eq(&self.owners);
        if !is_same {
            return Err(refused(input.file.path(), "its branches and leaves come in another order".to_string()));
        }
        for ((totals, branch), laid) in self.branches.iter_mut().zip(&input.tree.branches).zip(laid) {
            totals.plain_bytes += branch.plain_bytes;
            totals.stored_bytes += branch.compressed_bytes;
            for (basket, laid) in branch.baskets.iter().zip(laid) {
                let Place::File { size, .. } = basket.place else { continue };
                totals.stored_bytes = (totals.stored_bytes + laid.size).saturating_sub(size);
                totals.sizes.push(laid.size as i64);
                totals.first_entries.push((self.entries + basket.entry_start) as i64);
                totals.seeks.push(laid.seek as i64);
            }
            totals.entries += branch.entries_count;
        }
        for (owner, about) in recording.owners.iter().enumerate() {
            let names: &[&'static str] = match (about.kind, &*about.class_name) {
                (OwnerKind::Tree, _) => &[],
                (_, "TLeafC") => &["fMaximum", "fLen"],
                _ => &["fMaximum"],
            };
            for name in names.iter().filter(|name| recording.find(owner, name).is_some()) {
                let value = recording.value(owner, name);
                let largest = self.maxima.entry((owner, name)).or_insert(value);
                *largest = value.max(*largest);
            }
        }
        self.has_index |= recording.value(TREE, "fTreeIndex") != 0;
        self.add_clusters(&recording, input.tree.entries_count)
            .map_err(|error| ReadError::from_format(input.file.path(), &error))?;
        self.entries += input.tree.entries_count;
        Ok(())
    }

    /// Clusters of an input end with it, whatever their size.
    fn add_clusters(&mut self, recording: &Recording<'_>, entries: u64) -> std::result::Result<(), FormatError> {
        if entries == 0 {
            return Ok(());
        }
        let start = self.entries as i64;
        let auto_flush = recording.value(TREE, "fAutoFlush");
        let ends = recording.values(TREE, "fClusterRangeEnd")?;
        let sizes = recording.values(TREE, "fClusterSize")?;
        let last = start + entries as i64 - 1;
        for (end, size) in ends.into_iter().zip(sizes) {
            self.clusters.push(ClusterRange { last: start.saturating_add(end).clamp(start, last), size });
        }
        let rest = match auto_flush {
            1.. => auto_flush,
            // It was to be flushed when it has so many bytes, which it never had: all is one cluster.
            ..0 => entries as i64,
            0 => 0,
        };
        if self.clusters.last().is_none_or(|before| before.last < last) {
            self.clusters.push(ClusterRange { last, size: rest });
        }
        self.auto_flush = auto_flush;
        Ok(())
    }

    /// The plain bytes of the tree's record behind a key of so many bytes.
    pub(super) fn record(&self, first: &Input, key_size: u64) -> Result<Vec<u8>> {
        let recording = first.recording()?;
        let emitted = self.changes(first, &recording).and_then(|changes| recording.emit(key_size, &changes));
        emitted.map_err(|error| ReadError::from_format(first.file.path(), &error))
    }

    fn changes(&self, first: &Input, recording: &Recording<'_>) -> std::result::Result<Changes, FormatError> {
        let mut changes = Changes::new();
        self.change_tree(recording, &mut changes)?;
        let by_id: HashMap<u64, usize> =
            recording.owners.iter().enumerate().map(|(owner, about)| (about.id, owner)).collect();
        for (branch, totals) in first.tree.branches.iter().zip(&self.branches) {
            let missing = || FormatError::damaged(0, format!("branch {} is not in its tree", branch.path));
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
        let plain: u64 = self.branches.iter().map(|branch| branch.plain_bytes).sum();
        let stored = self.branches.iter().map(|branch| branch.stored_bytes).sum::<u64>() as i64;
        changes.number(recording, TREE, "fEntries", self.entries as i64)?;
        changes.number(recording, TREE, "fTotBytes", plain as i64)?;
        for name in ["fZipBytes", "fSavedBytes", "fFlushedBytes"] {
            changes.number(recording, TREE, name, stored)?;
        }
        let ranges = match self.clusters.as_slice() {
            // What fAutoFlush says holds for all of them.
            [only] if only.size == self.auto_flush => &[],
            ranges => ranges,
        };
        changes.number(recording, TREE, "fNClusterRange", ranges.len() as i64)?;
        let column = |of: fn(&ClusterRange) -> i64| ranges.iter().map(of).collect::<Vec<i64>>();
        changes.array(recording, TREE, "fClusterRangeEnd", &column(|range| range.last))?;
        changes.array(recording, TREE, "fClusterSize", &column(|range| range.size))?;
        changes.number(recording, TREE, "fAutoFlush", self.auto_flush)?;
        changes.no_link(recording, TREE, "fTreeIndex")
    }

    /// Entries so far.
    pub(super) fn entries_count(&self) -> u64 {
        self.entries
    }

    /// Baskets so far, and their bytes.
    pub(super) fn baskets(&self) -> (u64, u64) {
        let count = self.branches.iter().map(|branch| branch.sizes.len() as u64).sum();
        (count, self.branches.iter().flat_map(|branch| &branch.sizes).map(|size| *size as u64).sum())
    }

    /// What of the inputs is not in the output.
    pub(super) fn left_out(&self, first: &Input) -> Vec<String> {
        let index = format!("the index of the tree {}: BuildIndex makes it again", first.tree.name);
        self.has_index.then_some(index).into_iter().collect()
    }
}

impl BranchTotals {
    fn change(
        &self,
        owner: usize,
        recording: &Recording<'_>,
        changes: &mut Changes,
    ) -> std::result::Result<(), FormatError> {
        let count = self.sizes.len();
        let room = (count + 1).max(BASKETS_MIN);
        let entries = self.entries as i64;
        changes.number(recording, owner, "fWriteBasket", count as i64)?;
        changes.number(recording, owner, "fMaxBaskets", room as i64)?;
        changes.number(recording, owner, "fEntries", entries)?;
        changes.number(recording, owner, "fEntryNumber", entries)?;
        changes.number(recording, owner, "fFirstEntry", 0)?;
        changes.number(recording, owner, "fTotBytes", self.plain_bytes as i64)?;
        changes.number(recording, owner, "fZipBytes", self.stored_bytes as i64)?;
        changes.no_pointers(recording, owner, "fBaskets")?;
        let filled = |numbers: &[i64], next: i64| {
            let mut numbers = numbers.to_vec();
            numbers.push(next);
            numbers.resize(room, 0);
            numbers
        };
        changes.array(recording, owner, "fBasketBytes", &filled(&self.sizes, 0))?;
        // The basket that would come next begins behind the last entry.
        let next = if count > 0 { entries } else { 0 };
        changes.array(recording, owner, "fBasketEntry", &filled(&self.first_entries, next))?;
        changes.array(recording, owner, "fBasketSeek", &filled(&self.seeks, 0))
    }
}
