//! Fills the branches of a union that a tree lacks: each entry gets 0, false or an empty value. ROOT's haddnano does so
//! too, but only for branches with a single value per entry.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use branchline_format::basket::decode::Counts;
use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::compress::Setting;
use branchline_format::tree::{Basket, Place, TBranch, TTree};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::baskets::counting::Counting;
use crate::write::baskets::forms::BranchForm;
use crate::write::errors::unmergeable;
use crate::write::products::source::Source;
use crate::write::products::tree_input::difference::difference;
use crate::write::products::tree_input::made_basket::{basket_of, EntryBytes};
use crate::write::products::tree_input::union::{Filling, TreeUnion, UnionBranch};

/// State shared by all baskets generated for a tree.
struct Filler<'a> {
    source: &'a Source<'a>,
    own: &'a TTree,
    by_path: HashMap<&'a str, usize>,
    counting: Counting<'a>,
    /// Generated baskets, which all branches with identical bytes share.
    shared: HashMap<SharedKey, Arc<EmbeddedBasket>>,
    /// Number of bytes that further generated baskets may take.
    room: u64,
}

/// Identifies a generated basket: the bytes of an entry, the number of entries, whether entry offsets are stored, and
/// the compression.
type SharedKey = (Vec<u8>, u64, bool, Setting);

/// Extends a tree by all branches of a union that it lacks, and puts the branches into the order of the union. Returns
/// the tree, and the indices of the filled branches.
pub(crate) fn filled(
    own: &TTree,
    union: &TreeUnion,
    source: &Source<'_>,
    wanted: Option<&HashSet<String>>,
) -> Result<(TTree, Vec<usize>)> {
    let by_path: HashMap<&str, usize> =
        own.branches.iter().enumerate().map(|(index, branch)| (branch.path.as_str(), index)).collect();
    let counting = Counting::new(source.file, own);
    let room = limits::MISSING_ENTRIES_BYTES;
    let mut filler = Filler { source, own, by_path, counting, shared: HashMap::new(), room };
    let (mut branches, mut missing, mut known) = (Vec::with_capacity(union.branches.len()), Vec::new(), 0);
    for (index, one) in union.branches.iter().enumerate() {
        match filler.by_path.get(one.branch.path.as_str()) {
            Some(place) => {
                known += 1;
                branches.push(filler.same(one, &own.branches[*place])?);
            }
            None => {
                let is_wanted = wanted.is_none_or(|wanted| wanted.contains(&one.branch.path));
                let baskets = if is_wanted { filler.baskets(union, one)? } else { Vec::new() };
                if !baskets.is_empty() {
                    missing.push(index);
                }
                branches.push(TBranch { baskets, entries_count: own.entries_count, ..one.branch.clone() });
            }
        }
    }
    if known < own.branches.len() {
        // The union was computed from all files, so an unknown branch means that the file has changed since then.
        let error = ReadError::new(ReadErrorKind::BadFile, source.file_path(), "the file changed during the merge");
        return Err(error.with_hint("merge again when no process is writing it"));
    }
    Ok((TTree { branches, name: own.name.clone(), title: own.title.clone(), ..*own }, missing))
}

impl Filler<'_> {
    /// Returns a branch of the tree with the description that the branch has in the union.
    fn same(&self, one: &UnionBranch, own: &TBranch) -> Result<TBranch> {
        if let Some(what) = difference(&one.branch, own) {
            return Err(self.refused(&own.path, &format!("{what}, unlike in previous files")));
        }
        Ok(TBranch { info: Arc::clone(&one.branch.info), ..own.clone() })
    }

    fn refused(&self, branch: &str, what: &str) -> ReadError {
        unmergeable(self.source.file_path(), format!("tree {}: branch {branch} {what}", self.source.path()))
    }

    /// Returns generated baskets for a branch that the tree lacks.
    fn baskets(&mut self, union: &TreeUnion, one: &UnionBranch) -> Result<Vec<Basket>> {
        let entries_count = self.own.entries_count;
        let path = &one.branch.path;
        if entries_count == 0 {
            return Ok(Vec::new());
        }
        match &one.filling {
            Filling::None => Ok(Vec::new()),
            Filling::Same(entry) => self.same_entries(path, entry, one.form),
            Filling::Counted(element_bytes) => match self.counter(union, one) {
                Some(counter) => self.counted_zeros(path, counter, *element_bytes, one.form),
                None => self.same_entries(path, &[], one.form),
            },
            Filling::Uncounted(entry) if self.counter(union, one).is_none() => self.same_entries(path, entry, one.form),
            Filling::Uncounted(_) => {
                let what = "is missing, but the branch with its element counts is present";
                Err(self.refused(path, what))
            }
            Filling::Impossible(reason) => {
                Err(self.refused(path, &format!("is missing, and cannot be filled: {reason}")))
            }
        }
    }

    /// Finds the branch with the element counts of a branch of the union. Returns the branch's index in this tree.
    fn counter(&self, union: &TreeUnion, one: &UnionBranch) -> Option<usize> {
        let of_leaves = one.branch.leaves.iter().find_map(|leaf| leaf.count_branch);
        let counter = of_leaves.or_else(|| one.branch.element.as_ref().and_then(|element| element.count));
        let counter = union.branches.get(counter?)?;
        self.by_path.get(counter.branch.path.as_str()).copied()
    }

    /// Returns generated baskets in which every entry has these bytes.
    fn same_entries(&mut self, path: &str, entry: &[u8], form: BranchForm) -> Result<Vec<Basket>> {
        let table_bytes = if form.stores_offsets { 4 } else { 0 };
        let at_once = (limits::FILLED_BASKET_BYTES / (entry.len() + table_bytes).max(1)).max(1) as u64;
        let mut baskets = Vec::new();
        let mut entry_start = 0;
        while entry_start < self.own.entries_count {
            let count = at_once.min(self.own.entries_count - entry_start);
            let key = (entry.to_vec(), count, form.stores_offsets, form.setting);
            let made = match self.shared.get(&key) {
                Some(made) => Arc::clone(made),
                None => {
                    let entries =
                        EntryBytes { data: entry.repeat(count as usize), sizes: vec![entry.len(); count as usize] };
                    let made = self.made(path, entries, form)?;
                    self.shared.insert(key, Arc::clone(&made));
                    made
                }
            };
            baskets.push(Basket { entry_start, entry_stop: entry_start + count, place: Place::Embedded(made) });
            entry_start += count;
        }
        Ok(baskets)
    }

    /// Returns generated baskets of zeros. The numbers of elements are read from the count branch.
    fn counted_zeros(
        &mut self,
        path: &str,
        counter: usize,
        element_bytes: usize,
        form: BranchForm,
    ) -> Result<Vec<Basket>> {
        let entries_count = self.own.entries_count;
        let counts = self.counting.counts_of(counter, 0..entries_count)?;
        let Counts::Entries(counts) = &*counts else {
            return Err(self.refused(path, "is missing, and its element counts are in a list"));
        };
        if counts.len() as u64 != entries_count {
            return Err(self.refused(path, "is missing, and the branch with its element counts is incomplete"));
        }
        let sizes = counts.iter().map(|count| usize::try_from(*count).ok()?.checked_mul(element_bytes));
        let sizes = sizes.collect::<Option<Vec<usize>>>();
        let sizes = sizes.ok_or_else(|| self.refused(path, "is missing, and its element count is negative"))?;
        let (mut baskets, mut start) = (Vec::new(), 0);
        while start < sizes.len() {
            let mut bytes = 0usize;
            let fits = sizes[start..].iter().take_while(|size| {
                let is_first = bytes == 0;
                bytes = bytes.saturating_add(**size).saturating_add(4);
                is_first || bytes <= limits::FILLED_BASKET_BYTES
            });
            let stop = start + fits.count().max(1);
            let bytes = sizes[start..stop].iter().fold(0usize, |sum, size| sum.saturating_add(*size));
            let room = self.room.checked_sub(bytes as u64 + 4 * (stop - start) as u64);
            self.room = room.ok_or_else(|| {
                self.refused(path, "is missing, and filling it would exceed the memory for missing entries")
            })?;
            let entries = EntryBytes { data: vec![0; bytes], sizes: sizes[start..stop].to_vec() };
            let place = Place::Embedded(self.made(path, entries, form)?);
            baskets.push(Basket { entry_start: start as u64, entry_stop: stop as u64, place });
            start = stop;
        }
        Ok(baskets)
    }

    fn made(&self, path: &str, entries: EntryBytes, form: BranchForm) -> Result<Arc<EmbeddedBasket>> {
        let basket = basket_of(entries, form.stores_offsets);
        let basket =
            basket.ok_or_else(|| self.refused(path, "is missing, and one of its baskets would be too large"))?;
        let date = self.source.key().date;
        Ok(Arc::new(EmbeddedBasket { date, made_with: Some(form.setting), ..basket }))
    }
}
