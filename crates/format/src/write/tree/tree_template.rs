//! Fast reading of trees whose records differ only in their entries and basket locations, as in most datasets. One
//! record is split into pieces, and other records are compared with these pieces.

use crate::classes::streamer::ClassInfos;
use crate::error::Result;
use crate::numbers::number::Number;
use crate::tree::members::{ArrayField, Members, NumberField, Numbers};
use crate::tree::read::{counted, fill};
use crate::tree::{Basket, Place, TBranch, TTree};

use crate::write::object::pieces::{Found, Pieces};
use crate::write::object::recording::Recording;

/// A tree without entries, and the positions of all numbers in its record that depend on the tree's entries.
#[derive(Debug)]
pub struct TreeTemplate {
    pieces: Pieces,
    /// The tree without baskets.
    tree: TTree,
    /// Index of the tree's entry count among the numbers of the record.
    entries: usize,
    branches: Vec<BranchSpots>,
}

/// Indexes of the numbers and arrays that depend on a branch's entries.
#[derive(Debug)]
struct BranchSpots {
    numbers: Vec<(NumberField, usize)>,
    arrays: Vec<(ArrayField, usize, Number)>,
}

/// A tree read with a template, from which the tree differs only in its entries.
#[derive(Debug)]
pub struct FilledTree {
    /// The tree. Its branches have the object IDs of the template's record, not of their own record.
    pub tree: TTree,
    numbers: Vec<i64>,
}

const NUMBERS: [(&str, NumberField); 6] = [
    ("fEntries", NumberField::Entries),
    ("fFirstEntry", NumberField::FirstEntry),
    ("fTotBytes", NumberField::TotBytes),
    ("fZipBytes", NumberField::ZipBytes),
    ("fEntryNumber", NumberField::LastEntry),
    ("fWriteBasket", NumberField::WriteBasket),
];
const ARRAYS: [(&str, ArrayField); 3] = [
    ("fBasketBytes", ArrayField::Sizes),
    ("fBasketEntry", ArrayField::FirstEntries),
    ("fBasketSeek", ArrayField::Seeks),
];
/// Index of the tree among the objects in its record.
const TREE: usize = 0;

impl TreeTemplate {
    /// Create a template from a tree that was read from a record. Branches may have been removed from the tree. None
    /// for trees with an index or with branches that were added later, because their records do not only differ in the
    /// entries.
    pub fn new(recording: &Recording<'_>, tree: &TTree, infos: &ClassInfos) -> Option<Self> {
        let has_late = tree.branches.iter().any(|branch| branch.class_name == "TBranchSTL");
        if has_late || recording.value(TREE, "fTreeIndex") != 0 {
            return None;
        }
        let pieces = Pieces::of(recording, infos)?;
        let mut without = tree.clone();
        without.branches.iter_mut().for_each(|branch| branch.baskets = Vec::new());
        let mut branches = Vec::with_capacity(tree.branches.len());
        for branch in &tree.branches {
            // `owners` is sorted by ID.
            let owner = recording.owners.binary_search_by_key(&branch.object_id, |owner| owner.id).ok()?;
            let number = |(name, which)| Some((which, pieces.number(owner, name)?));
            let array = |(name, which)| pieces.array(owner, name).map(|(array, basic)| (which, array, basic));
            let numbers = NUMBERS.into_iter().map(number).collect::<Option<_>>()?;
            branches.push(BranchSpots { numbers, arrays: ARRAYS.into_iter().filter_map(array).collect() });
        }
        let entries = pieces.number(TREE, "fEntries")?;
        let form = Self { pieces, tree: without, entries, branches };
        // Verify the template by reading the original record with the template.
        let again = form.read(recording.bytes, recording.key_size)?.ok()?;
        is_filled_alike(&again.tree, tree).then_some(form)
    }

    /// Read the tree of another record, whose key has `key_size` bytes. None if the tree differs from the template in
    /// more than its entries.
    pub fn read(&self, bytes: &[u8], key_size: u64) -> Option<Result<FilledTree>> {
        let found = self.pieces.compare(bytes, key_size)?;
        Some(self.filled(found))
    }

    /// The value of a number member in another record; None if the value is the same in all records.
    pub fn value(&self, alike: &FilledTree, owner: usize, name: &'static str) -> Option<i64> {
        self.pieces.number(owner, name).and_then(|number| alike.numbers.get(number).copied())
    }

    fn filled(&self, found: Found<'_>) -> Result<FilledTree> {
        let mut tree = self.tree.clone();
        let number = |index: usize| found.numbers.get(index).copied().unwrap_or(0);
        tree.entries_count = counted("fEntries", number(self.entries))?;
        for (branch, spots) in tree.branches.iter_mut().zip(&self.branches) {
            let mut members = Members::default();
            for (which, index) in &spots.numbers {
                members.set_number(*which, number(*index));
            }
            for (which, index, basic) in &spots.arrays {
                let stored = found.arrays.get(*index).copied().unwrap_or_default();
                members.set_array(*which, Numbers::new(stored, *basic));
            }
            fill(branch, &mut members)?;
        }
        Ok(FilledTree { tree, numbers: found.numbers })
    }
}

/// Whether two trees with the same branches have the same entries, stored at the same locations.
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
