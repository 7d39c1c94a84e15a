//! Reads trees whose records differ only in their entries and in the places of their baskets, as most trees of a data
//! set do: one of them is taken apart, and the others are compared with it, piece by piece.

use crate::classes::streamer::ClassInfos;
use crate::error::Result;
use crate::numbers::number::Number;
use crate::tree::members::{ArrayField, Members, NumberField, Numbers};
use crate::tree::read::{counted, fill};
use crate::tree::{Basket, Place, TBranch, TTree};

use crate::write::object::pieces::{Found, Pieces};
use crate::write::object::recording::Recording;

/// A tree without entries, and where in its record the numbers stand that filling it changes.
#[derive(Debug)]
pub struct TreeTemplate {
    pieces: Pieces,
    /// Without baskets.
    tree: TTree,
    /// The entries of the tree, among the numbers.
    entries: usize,
    branches: Vec<BranchSpots>,
}

/// Which of the numbers and arrays filling a branch changes.
#[derive(Debug)]
struct BranchSpots {
    numbers: Vec<(NumberField, usize)>,
    arrays: Vec<(ArrayField, usize, Number)>,
}

/// Another tree that differs from the first in its entries only.
#[derive(Debug)]
pub struct FilledTree {
    /// The tree. Branches are called by the objects that they are in the first one's record.
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
/// The tree among the objects of its record.
const TREE: usize = 0;

impl TreeTemplate {
    /// The template of a tree that was read from a record; branches may have been left out of it. None for trees with
    /// an index or with branches that were added later, whose records differ in more than entries.
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
            // Objects come in the order of their numbers.
            let owner = recording.owners.binary_search_by_key(&branch.object_id, |owner| owner.id).ok()?;
            let number = |(name, which)| Some((which, pieces.number(owner, name)?));
            let array = |(name, which)| pieces.array(owner, name).map(|(array, basic)| (which, array, basic));
            let numbers = NUMBERS.into_iter().map(number).collect::<Option<_>>()?;
            branches.push(BranchSpots { numbers, arrays: ARRAYS.into_iter().filter_map(array).collect() });
        }
        let entries = pieces.number(TREE, "fEntries")?;
        let form = Self { pieces, tree: without, entries, branches };
        // What is not as expected shows when it is read in this way.
        let again = form.read(recording.bytes, recording.key_size)?.ok()?;
        is_filled_alike(&again.tree, tree).then_some(form)
    }

    /// The tree of another record behind a key of `key_size` bytes; None if more is different in it.
    pub fn read(&self, bytes: &[u8], key_size: u64) -> Option<Result<FilledTree>> {
        let found = self.pieces.compare(bytes, key_size)?;
        Some(self.filled(found))
    }

    /// A number of another record; None if it is the same in all records.
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
