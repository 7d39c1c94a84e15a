//! The statistics (sums of weights and of their moments) of histograms whose bins were set and never filled.
//!
//! ROOT computes them from the bins when they are needed (TH1::GetStats), also for sums. Without that, the sum of a
//! histogram with fills and one with set bins would have the mean of the fills. Unlike in ROOT, a range for drawing
//! (TAxis::SetRange) changes nothing: it does not change what was filled.

use super::addend::Addend;
use super::fills::{COUNTS_ALL, PAIRS, SUMS};
use crate::write::object::axis::Axis;
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;

impl Addend {
    /// Computes the statistics of all histograms in it that have entries and no statistics.
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

    /// The condition of TH1::GetStats. Profiles have other sums, and what waits in a buffer is filled later.
    fn lacks_statistics(&self, owner: usize) -> bool {
        let is_profile = self.numbers.contains((owner, "fBinEntries"));
        let is_unset = self.number(owner, "fTsumw") == 0.0 && self.number(owner, "fEntries") > 0.0;
        is_unset && !is_profile && !self.waiting.contains_key(&owner)
    }

    /// The sums over its bins by the names of their members; None if its cells are not those of its axes.
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

/// The middle of a cell along each axis, 0 where bins have names and may become more; false for a cell beyond the
/// limits that does not count.
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
    /// The number at a place; 0 if there is none.
    fn at(&self, place: usize) -> f64 {
        match self {
            Self::F64(values) => values.get(place).copied(),
            Self::F32(values) => values.get(place).map(|value| f64::from(*value)),
            Self::Whole(_, values) => values.get(place).map(|value| *value as f64),
        }
        .unwrap_or(0.0)
    }
}
