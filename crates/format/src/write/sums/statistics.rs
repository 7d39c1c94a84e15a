//! Statistics (sums of weights and moments) of histograms whose bin contents were set without filling.
//!
//! ROOT computes such statistics from the bins on demand (TH1::GetStats), also for sums. Without this module, the sum
//! of a filled histogram and a histogram with set contents would have the mean of the filled histogram. Unlike ROOT,
//! Branchline ignores a display range (TAxis::SetRange), because it does not change the contents.

use super::addend::Addend;
use super::fills::{COUNTS_ALL, PAIRS, SUMS};
use crate::write::object::axis::Axis;
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;

impl Addend {
    /// Compute the statistics of all histograms that have entries but no statistics.
    pub(crate) fn make_statistics(&mut self) {
        let is_histogram = |owner: &usize| self.owners[*owner].0 == OwnerKind::Histogram;
        let lacking = (0..self.owners.len()).filter(is_histogram).filter(|owner| self.lacks_statistics(*owner));
        let found: Vec<_> = lacking.filter_map(|owner| Some((owner, self.moments_of_bins(owner)?))).collect();
        for (owner, moments) in found {
            for (name, value) in moments {
                if let Some(numbers) = self.numbers.get_mut((owner, name)) {
                    numbers.set(value);
                }
            }
        }
    }

    /// Whether the statistics must be computed from the bins, as in TH1::GetStats. False for profiles, which have
    /// different sums, and for histograms with buffered entries, which are filled later.
    fn lacks_statistics(&self, owner: usize) -> bool {
        let is_profile = self.numbers.contains((owner, "fBinEntries"));
        let is_unset = self.number(owner, "fTsumw") == 0.0 && self.number(owner, "fEntries") > 0.0;
        is_unset && !is_profile && !self.waiting.contains_key(&owner)
    }

    /// Compute the statistics from the bins, by member name. None if the number of cells does not match the axes.
    fn moments_of_bins(&self, owner: usize) -> Option<Vec<(&'static str, f64)>> {
        let axes = self.shape(owner)?;
        let cells = self.cells(owner)?;
        let squares = self.numbers.get((owner, "fSumw2")).filter(|squares| squares.len() == cells.len());
        let counts_all = self.number(owner, "fStatOverflows") == COUNTS_ALL;
        let mut sums = vec![("fTsumw", 0.0), ("fTsumw2", 0.0)];
        sums.extend(SUMS[..axes.len()].iter().flat_map(|(sum, squares)| [(*sum, 0.0), (*squares, 0.0)]));
        let pairs: Vec<_> = PAIRS.into_iter().filter(|(_, two, _)| *two < axes.len()).collect();
        sums.extend(pairs.iter().map(|(_, _, name)| (*name, 0.0)));
        let mut places = vec![0.0; axes.len()];
        for cell in 0..cells.len() {
            if !locate(cell, &axes, counts_all, &mut places) {
                continue;
            }
            let weight = cells.at(cell);
            let products = pairs.iter().map(|(one, two, _)| places[*one] * places[*two]);
            let moments = places.iter().flat_map(|place| [*place, place * place]).chain(products);
            let values = moments.map(|moment| weight * moment);
            let error = squares.map_or(weight.abs(), |squares| squares.at(cell).abs());
            for ((_, sum), value) in sums.iter_mut().zip([weight, error].into_iter().chain(values)) {
                *sum += value;
            }
        }
        Some(sums)
    }
}

/// Compute the center of a cell along each axis; 0 for labelled extendable axes. Returns false if the cell is outside
/// the limits and excluded from the statistics.
fn locate(cell: usize, axes: &[&Axis], counts_all: bool, places: &mut [f64]) -> bool {
    let mut rest = cell;
    for (axis, place) in axes.iter().zip(places) {
        let bin = rest % (axis.bins + 2);
        rest /= axis.bins + 2;
        if !counts_all && !(1..=axis.bins).contains(&bin) {
            return false;
        }
        *place = if axis.is_labelled() && axis.can_extend() { 0.0 } else { axis.center(bin) };
    }
    true
}

impl Numbers {
    /// The number at index `place`; 0 if the index is out of bounds.
    fn at(&self, place: usize) -> f64 {
        match self {
            Self::F64(values) => values.get(place).copied(),
            Self::F32(values) => values.get(place).map(|value| f64::from(*value)),
            Self::Whole(_, values) => values.get(place).map(|value| *value as f64),
        }
        .unwrap_or(0.0)
    }
}
