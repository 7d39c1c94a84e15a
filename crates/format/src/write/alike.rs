//! Trees whose records differ in nothing but how much was filled into them and where it lies, as those of a data set
//! mostly do: one of them is taken apart, of the others these numbers are read, where they stand in the first.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::streamer::ClassInfos;
use crate::tree::members::{wanted, Members, Number, NumberArray, Numbers, Wanted};
use crate::tree::meta::fill;
use crate::tree::{Basic, Basket, Place, TBranch, TTree};

use super::record::{Kept, KeptKind, Recording, Token};

/// Numbers that may differ: nothing in a record counts by them.
const FREE: [&str; 10] = [
    "fEntries",
    "fTotBytes",
    "fZipBytes",
    "fSavedBytes",
    "fFlushedBytes",
    "fAutoFlush",
    "fWriteBasket",
    "fEntryNumber",
    "fFirstEntry",
    "fMaximum",
];
/// Arrays of which the numbers may differ, but not how many there are.
const FREE_ARRAYS: [&str; 3] = ["fBasketBytes", "fBasketEntry", "fBasketSeek"];
/// The tree among the objects of its record.
const TREE: usize = 0;

/// A tree as its record says it, and where in the record what is filled into it stands.
#[derive(Debug)]
pub struct TreeForm {
    bytes: Vec<u8>,
    key_size: u64,
    /// The bytes that all records have in common.
    fixed: Vec<Range<usize>>,
    /// Without baskets.
    tree: TTree,
    entries: Option<Spot>,
    branches: Vec<BranchSpots>,
    /// Numbers by the object that they are of and their names, in the order of the objects.
    numbers: Vec<((usize, &'static str), Spot)>,
}

/// Where numbers stand, and how.
#[derive(Debug, Clone)]
struct Spot {
    at: Range<usize>,
    basic: Basic,
}

/// Where it stands what was filled into a branch.
#[derive(Debug, Default)]
struct BranchSpots {
    numbers: Vec<(Number, Spot)>,
    arrays: Vec<(NumberArray, Spot)>,
}

impl TreeForm {
    /// That of a tree which was read from a record, and of which branches may have been left out. None of one that says
    /// more of its baskets and entries than these numbers.
    pub fn new(recording: &Recording<'_>, tree: &TTree, infos: &ClassInfos) -> Option<Self> {
        let has_late = tree.branches.iter().any(|branch| branch.class_name == "TBranchSTL");
        let has_index = recording.value(TREE, "fTreeIndex") != 0;
        if has_late || has_index || has_baskets(recording) || FREE.iter().any(|name| infos.counts_by(name)) {
            return None;
        }
        let mut without = tree.clone();
        without.branches.iter_mut().for_each(|branch| branch.baskets = Vec::new());
        let mut form = Self {
            bytes: recording.bytes.to_vec(),
            key_size: recording.key_size,
            fixed: Vec::new(),
            tree: without,
            entries: None,
            branches: Vec::new(),
            numbers: Vec::new(),
        };
        let mut behind = 0;
        for kept in &recording.kept {
            let Some(spot) = free_spot(recording, kept) else { continue };
            form.fixed.push(behind..spot.at.start);
            behind = spot.at.end;
            if (kept.owner, kept.name) == (TREE, "fEntries") {
                form.entries = Some(spot.clone());
            }
            if matches!(kept.kind, KeptKind::Number(_)) {
                form.numbers.push(((kept.owner, kept.name), spot));
            }
        }
        form.numbers.sort_by_key(|(place, _)| *place);
        form.fixed.push(behind..form.bytes.len());
        // Each lies behind those before.
        form.fixed.iter().all(|range| range.start <= range.end).then_some(())?;
        form.branches = branch_spots(recording, tree)?;
        let again = form.filled(recording.bytes).ok()?;
        is_filled_alike(&again, tree).then_some(form)
    }

    /// The tree of another record behind a key of so many bytes; None if more is different in it.
    pub fn read(&self, bytes: &[u8], key_size: u64) -> Option<Result<TTree>> {
        let is_same = |range: &Range<usize>| self.bytes.get(range.clone()) == bytes.get(range.clone());
        if key_size != self.key_size || bytes.len() != self.bytes.len() || !self.fixed.iter().all(is_same) {
            return None;
        }
        Some(self.filled(bytes))
    }

    /// A number of another record that is alike, which may differ from that of the first.
    pub fn value(&self, bytes: &[u8], owner: usize, name: &'static str) -> Option<i64> {
        let behind = self.numbers.partition_point(|(place, _)| *place <= (owner, name));
        let (place, spot) = self.numbers.get(behind.checked_sub(1)?)?;
        (*place == (owner, name)).then(|| spot.number(bytes).ok()).flatten()
    }

    fn filled(&self, bytes: &[u8]) -> Result<TTree> {
        let mut tree = self.tree.clone();
        let entries = self.entries.as_ref().map_or(Ok(0), |spot| spot.number(bytes))?;
        tree.entries_count = u64::try_from(entries).unwrap_or(0);
        for (branch, spots) in tree.branches.iter_mut().zip(&self.branches) {
            let mut members = Members::default();
            for (which, spot) in &spots.numbers {
                members.set_number(*which, spot.number(bytes)?);
            }
            for (which, spot) in &spots.arrays {
                members.set_array(*which, Numbers::new(spot.bytes(bytes), spot.basic));
            }
            fill(branch, &mut members)?;
        }
        Ok(tree)
    }
}

impl Spot {
    fn bytes<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.at.clone()).unwrap_or_default()
    }

    fn number(&self, bytes: &[u8]) -> Result<i64> {
        self.basic.read(&mut Cursor::new(self.bytes(bytes)))
    }
}

/// Where a member stands that may differ.
fn free_spot(recording: &Recording<'_>, kept: &Kept) -> Option<Spot> {
    let at = recording.place(kept)?;
    match kept.kind {
        KeptKind::Number(basic) if FREE.contains(&kept.name) => Some(Spot { at, basic }),
        // Behind the byte that says whether there are any.
        KeptKind::Array(basic) if FREE_ARRAYS.contains(&kept.name) && at.len() > 1 => {
            Some(Spot { at: at.start + 1..at.end, basic })
        }
        _ => None,
    }
}

/// Of each branch of a tree where in its record it stands what was filled into it.
fn branch_spots(recording: &Recording<'_>, tree: &TTree) -> Option<Vec<BranchSpots>> {
    let mut by_owner: Vec<BranchSpots> = Vec::new();
    by_owner.resize_with(recording.owners.len(), BranchSpots::default);
    for kept in &recording.kept {
        let (Some(spot), Some(spots)) = (free_spot(recording, kept), by_owner.get_mut(kept.owner)) else { continue };
        match wanted(kept.name) {
            Some(Wanted::Number(which)) => spots.numbers.push((which, spot)),
            Some(Wanted::Array(which)) => spots.arrays.push((which, spot)),
            _ => {}
        }
    }
    let mut found = Vec::with_capacity(tree.branches.len());
    for branch in &tree.branches {
        // Objects come in the order of their numbers.
        let owner = recording.owners.binary_search_by_key(&branch.object_id, |owner| owner.id).ok()?;
        found.push(std::mem::take(&mut by_owner[owner]));
    }
    Some(found)
}

/// Whether there are baskets among the objects of a record.
fn has_baskets(recording: &Recording<'_>) -> bool {
    let are_there = |kept: &Kept| {
        let tokens = recording.tokens.get(kept.tokens.clone()).unwrap_or_default();
        tokens.iter().any(|token| matches!(token, Token::Object { .. } | Token::Seen { .. }))
    };
    recording.kept.iter().any(|kept| kept.name == "fBaskets" && are_there(kept))
}

/// Whether two trees with the same branches have the same entries in the same places.
fn is_filled_alike(one: &TTree, two: &TTree) -> bool {
    let place = |basket: &Basket| match basket.place {
        Place::File { seek, size } => Some((basket.entry_start, basket.entry_stop, seek, size)),
        Place::Embedded(_) => None,
    };
    let of = |branch: &TBranch| (branch.entries_count, branch.plain_bytes, branch.compressed_bytes);
    let is_alike = |(one, two): (&TBranch, &TBranch)| {
        let places = one.baskets.iter().map(place);
        of(one) == of(two) && places.clone().all(|place| place.is_some()) && places.eq(two.baskets.iter().map(place))
    };
    one.entries_count == two.entries_count && one.branches.iter().zip(&two.branches).all(is_alike)
}
