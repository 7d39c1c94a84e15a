//! Addition of TH2Poly and TProfile2Poly, bin by bin, like TH2Poly::Add and TProfile2Poly::Merge.

use super::addend::Addend;
use crate::write::object::family::{OwnerKind, POLYGON_SUMS};
use crate::write::object::numbers::Numbers;

/// Number of bins outside the axis limits (TH2Poly::kNOverflow). In fSumw2, they precede the bins in the list.
const OVERFLOW_BINS: usize = 9;
/// Members with the bounding box of a bin.
const BOX: [&str; 4] = ["fXmin", "fXmax", "fYmin", "fYmax"];
/// Members with the sums in a profile's bin.
const PROFILE_SUMS: [&str; 4] = ["fSumw", "fSumvw", "fSumw2", "fSumwv2"];

impl Addend {
    /// The bins of a histogram: bin number and owner index, sorted by bin number. The out-of-range bins of a profile
    /// have the bin number 0.
    fn polygons(&self, owner: usize) -> Vec<(i64, usize)> {
        let bins = self.parts(owner, OwnerKind::Polygon);
        let mut bins: Vec<_> = bins.into_iter().map(|bin| (self.number(bin, "fNumber") as i64, bin)).collect();
        bins.sort_by_key(|(number, _)| *number);
        bins
    }

    /// Reject a histogram with different bins or limits.
    pub(crate) fn check_polygons(&self, other: &Self, owner: usize) -> Result<(), String> {
        let axes = self.parts(owner, OwnerKind::Axis).into_iter();
        let pairs = axes.filter_map(|axis| self.axes.get(&axis).zip(other.axes.get(&axis)));
        pairs.into_iter().try_for_each(|(one, two)| one.check_same_bins(two))?;
        let (ours, theirs) = (self.polygons(owner), other.polygons(owner));
        for ((number, one), (other_number, two)) in ours.iter().zip(&theirs) {
            let has_box =
                *number == 0 || BOX.into_iter().all(|name| self.number(*one, name) == other.number(*two, name));
            if number != other_number || !has_box {
                return Err(format!("its bin {other_number} has different limits"));
            }
        }
        let cells = OVERFLOW_BINS + ours.iter().filter(|(number, _)| *number > 0).count();
        let count = |of: &Self, name| of.numbers.get((owner, name)).map_or(0, Numbers::len);
        let fits = |of: &Self| [0, cells].contains(&count(of, "fSumw2")) && count(of, "fOverflow") == OVERFLOW_BINS;
        match fits(self) && fits(other) {
            true => Ok(()),
            false => Err("its number of errors does not match its bins".to_string()),
        }
    }

    /// Add the numbers of a histogram with the same bins.
    pub(crate) fn add_polygons(&mut self, owner: usize, other: &mut Self) {
        self.make_squares(other, owner);
        other.make_squares(self, owner);
        for name in POLYGON_SUMS.iter().copied() {
            self.add_number(owner, (&*other, owner), name);
        }
        for ((_, one), (_, two)) in self.polygons(owner).into_iter().zip(other.polygons(owner)) {
            if !self.numbers.contains((one, "fSumvw")) {
                self.add_number(one, (&*other, two), "fContent");
                continue;
            }
            for name in PROFILE_SUMS {
                self.add_number(one, (&*other, two), name);
            }
            self.update_average(one);
        }
    }

    fn add_number(&mut self, owner: usize, (other, others_owner): (&Self, usize), name: &'static str) {
        let theirs = other.numbers.get((others_owner, name));
        if let (Some(ours), Some(theirs)) = (self.numbers.get_mut((owner, name)), theirs) {
            ours.add(theirs);
        }
    }

    /// Create the sums of squared weights if only `other` has them (TH1::Sumw2).
    fn make_squares(&mut self, other: &Self, owner: usize) {
        let place = (owner, "fSumw2");
        let is_empty = |of: &Self| of.numbers.get(place).is_none_or(|numbers| numbers.len() == 0);
        if !is_empty(self) || is_empty(other) {
            return;
        }
        let mut squares = self.numbers.get((owner, "fOverflow")).map(Numbers::absolute_values).unwrap_or_default();
        let bins = self.polygons(owner).into_iter().filter(|(number, _)| *number > 0);
        squares.extend(bins.map(|(_, bin)| self.number(bin, "fContent").abs()));
        self.numbers.insert(place, Numbers::F64(squares.into()));
    }

    /// Set the content of a profile's bin to the average, like TProfile2PolyBin::Update.
    fn update_average(&mut self, bin: usize) {
        let weights = self.number(bin, "fSumw");
        let (average, error) = match weights == 0.0 {
            true => (self.number(bin, "fAverage"), 0.0),
            false => {
                let average = self.number(bin, "fSumvw") / weights;
                (average, (self.number(bin, "fSumwv2") / weights - average * average).sqrt())
            }
        };
        for (name, value) in [("fAverage", average), ("fError", error), ("fContent", average)] {
            if let Some(numbers) = self.numbers.get_mut((bin, name)) {
                numbers.set(value);
            }
        }
    }
}
