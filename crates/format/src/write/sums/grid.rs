//! Addition of THn and THnSparse, cell by cell, like THnBase::Merge. Requires that the axes are the same.

use super::addend::Addend;
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;

/// Members that are summed. fTsumw2 is -1 if the histogram does not compute errors.
const SUMS: [&str; 5] = ["fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2"];

impl Addend {
    /// Owner indexes of a histogram's parts of the given kind. Parts come after their histogram and before the next
    /// histogram.
    pub(super) fn parts(&self, histogram: usize, kind: OwnerKind) -> Vec<usize> {
        let is_part = |kind: OwnerKind| matches!(kind, OwnerKind::Axis | OwnerKind::Cells | OwnerKind::Polygon);
        let behind = self.owners.iter().enumerate().skip(histogram + 1);
        let its = behind.take_while(|(_, (kind, _))| is_part(*kind));
        its.filter(|(_, (other, _))| *other == kind).map(|(owner, _)| owner).collect()
    }

    /// Reject a histogram with different axes. Returns whether the bin labels differ.
    pub(crate) fn check_grid(&self, other: &Self, grid: usize) -> Result<bool, String> {
        let mut has_other_labels = false;
        for owner in self.parts(grid, OwnerKind::Axis) {
            let (Some(one), Some(two)) = (self.axes.get(&owner), other.axes.get(&owner)) else { continue };
            one.check_same_bins(two)?;
            has_other_labels |= one.labels != two.labels;
        }
        let count = |of: &Self, owner: usize| of.numbers.get((owner, "fData")).map_or(0, Numbers::len);
        let cells = self.parts(grid, OwnerKind::Cells);
        for owner in &cells {
            let (one, two) = (count(self, *owner), count(other, *owner));
            let is_contents = cells.last() == Some(owner);
            if one != two && (is_contents || one.min(two) > 0) {
                return Err("it has a different number of cells".to_string());
            }
        }
        match (self.sparse.get(&grid), other.sparse.get(&grid)) {
            (Some(one), Some(two)) if !one.is_like(two) => Err("its bins are stored in a different format".to_string()),
            _ => Ok(has_other_labels),
        }
    }

    /// Add sums and sparse bins. If only one of the histograms has cell errors, errors are created for the other
    /// histogram.
    pub(crate) fn add_grid(&mut self, grid: usize, other: &mut Self) {
        if let [errors, contents] = self.parts(grid, OwnerKind::Cells)[..] {
            self.make_errors(other, errors, contents);
            other.make_errors(self, errors, contents);
        }
        let has_errors = |of: &Self| of.number(grid, "fTsumw2") >= 0.0;
        let (ours, theirs) = (has_errors(self), has_errors(other));
        if ours != theirs {
            for (of, _) in [(&mut *self, ours), (&mut *other, theirs)].into_iter().filter(|(_, has)| !has) {
                if let Some(numbers) = of.numbers.get_mut((grid, "fTsumw2")) {
                    numbers.set(0.0);
                }
            }
        }
        for name in SUMS.into_iter().filter(|name| *name != "fTsumw2" || ours || theirs) {
            if let (Some(one), Some(two)) = (self.numbers.get_mut((grid, name)), other.numbers.get((grid, name))) {
                one.add(two);
            }
        }
        if let (Some(one), Some(two)) = (self.sparse.get_mut(&grid), other.sparse.remove(&grid)) {
            one.add(two);
            let count = one.len() as f64;
            if let Some(numbers) = self.numbers.get_mut((grid, "fFilledBins")) {
                numbers.set(count);
            }
        }
    }

    fn make_errors(&mut self, other: &Self, errors: usize, contents: usize) {
        let is_empty = |of: &Self| of.numbers.get((errors, "fData")).is_none_or(|numbers| numbers.len() == 0);
        if is_empty(self) && !is_empty(other) {
            let sizes = self.numbers.get((contents, "fData")).map(Numbers::absolute_values).unwrap_or_default();
            self.numbers.insert((errors, "fData"), Numbers::F64(sizes.into()));
        }
    }

    /// Add the cell contents of a histogram, or the errors of the cells.
    pub(crate) fn add_cells(&mut self, owner: usize, other: &Self) {
        if let (Some(one), Some(two)) = (self.numbers.get_mut((owner, "fData")), other.numbers.get((owner, "fData"))) {
            one.add(two);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, HashMap};

    use super::*;
    use crate::write::object::axis::{Axis, Labels};
    use crate::write::object::number_table::NumberTable;

    #[test]
    fn axes_of_any_number_of_bins_are_compared_without_memory_for_each_bin() {
        let axis =
            Axis { bins: 1 << 60, low: 0.0, high: 1.0, edges: Vec::new(), labels: Labels::Named(Vec::new()), bits: 0 };
        let grid = |axis: &Axis| Addend {
            owners: vec![(OwnerKind::Grid, "THnSparseT<TArrayD>".into()), (OwnerKind::Axis, "TAxis".into())],
            numbers: NumberTable::default(),
            axes: HashMap::from([(1, axis.clone())]),
            relabelled: BTreeSet::new(),
            bits: BTreeMap::new(),
            sparse: BTreeMap::new(),
            waiting: BTreeMap::new(),
            others: 0,
            is_fixed: false,
        };
        assert_eq!(grid(&axis).check_grid(&grid(&axis), 0), Ok(false));
        let longer = Axis { high: 2.0, ..axis.clone() };
        assert!(grid(&axis).check_grid(&grid(&longer), 0).is_err());
    }
}
