//! TH2Poly and TProfile2Poly, added up bin by bin as TH2Poly::Add and TProfile2Poly::Merge do.

use super::addend::Addend;
use crate::write::object::family::{OwnerKind, POLYGON_SUMS};
use crate::write::object::numbers::Numbers;

/// Bins beyond the limits of the axes (TH2Poly::kNOverflow); with those of the list they are the cells of fSumw2.
const OVERFLOW_BINS: usize = 9;
/// The box around a bin.
const BOX: [&str; 4] = ["fXmin", "fXmax", "fYmin", "fYmax"];
/// Sums of a bin of a profile.
const PROFILE_SUMS: [&str; 4] = ["fSumw", "fSumvw", "fSumw2", "fSumwv2"];

impl Addend {
    /// The bins of a histogram by their numbers. Those of a profile beyond its limits have the number 0.
    fn polygons(&self, owner: usize) -> Vec<(i64, usize)> {
        let bins = self.parts(owner, OwnerKind::Polygon);
        let mut bins: Vec<_> = bins.into_iter().map(|bin| (self.number(bin, "fNumber") as i64, bin)).collect();
        bins.sort_by_key(|(number, _)| *number);
        bins
    }

    /// Refuses a histogram with other bins or limits.
    pub(crate) fn check_polygons(&self, other: &Self, owner: usize) -> Result<(), String> {
        let axes = self.parts(owner, OwnerKind::Axis).into_iter();
        let pairs = axes.filter_map(|axis| self.axes.get(&axis).zip(other.axes.get(&axis)));
        pairs.into_iter().try_for_each(|(one, two)| one.check_same_bins(two))?;
        let (ours, theirs) = (self.polygons(owner), other.polygons(owner));
        for ((number, one), (other_number, two)) in ours.iter().zip(&theirs) {
            let has_box =
                *number == 0 || BOX.into_iter().all(|name| self.number(*one, name) == other.number(*two, name));
            if number != other_number || !has_box {
                return Err(format!("its bin {other_number} has other limits"));
            }
        }
        let cells = OVERFLOW_BINS + ours.iter().filter(|(number, _)| *number > 0).count();
        let count = |of: &Self, name| of.numbers.get((owner, name)).map_or(0, Numbers::len);
        let fits = |of: &Self| [0, cells].contains(&count(of, "fSumw2")) && count(of, "fOverflow") == OVERFLOW_BINS;
        match fits(self) && fits(other) {
            true => Ok(()),
            false => Err("its errors are not those of its bins".to_string()),
        }
    }

    /// Adds the numbers of a histogram that has the same bins.
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

    /// Makes the sums of squared weights if only the other histogram has them (TH1::Sumw2).
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

    /// TProfile2PolyBin::Update; the content is the average.
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
