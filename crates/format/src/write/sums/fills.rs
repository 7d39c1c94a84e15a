//! Entries in a histogram's buffer (TH1::SetBuffer). They are filled into the cells like in TH1::BufferEmpty, or stay
//! in the buffer until the axis limits are known, like in TH1Merger.

use crate::classes::streamer::ClassInfos;
use crate::error::{FormatError, Result};

use super::addend::{Addend, CELLS};
use super::buffered_fills::Fills;
use super::found_limits::found_limits;
use crate::write::object::axis::{Axis, Joined, ALPHANUMERIC};
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;

/// Status bits that control how a histogram is filled (TH1::kIsNotW, TH1::kAutoBinPTwo, TAxis::kIsInteger).
mod bit {
    pub const NOT_WEIGHTED: u32 = 1 << 19;
    pub const LIMITS_IN_POWERS_OF_TWO: u32 = 1 << 20;
    pub const INTEGER: u32 = 1 << 22;
}

/// Maximum number of buffers to accumulate before choosing limits: 64 buffers of 1000 entries take 1 MiB.
const BUFFERS_MAX: usize = 64;
/// TH1::kConsider: value of fStatOverflows that includes entries outside the limits in the statistics.
pub(crate) const COUNTS_ALL: f64 = 1.0;
/// Members with the sums over all entries, for each coordinate: the sum of the coordinate and the sum of its square.
pub(crate) const SUMS: [(&str, &str); 4] =
    [("fTsumwx", "fTsumwx2"), ("fTsumwy", "fTsumwy2"), ("fTsumwz", "fTsumwz2"), ("fTsumwt", "fTsumwt2")];
/// Members with the sums of products, for each pair of coordinates.
pub(crate) const PAIRS: [(usize, usize, &str); 3] = [(0, 1, "fTsumwxy"), (0, 2, "fTsumwxz"), (1, 2, "fTsumwyz")];
/// Members with the limits of a profile's values, indexed by the number of dimensions minus one.
const VALUE_LIMITS: [(&str, &str); 3] = [("fYmin", "fYmax"), ("fZmin", "fZmax"), ("fTmin", "fTmax")];

impl Addend {
    /// Empty the buffers of all histograms. The entries are filled into the cells if the histogram has axis limits, and
    /// kept in `waiting` otherwise.
    pub(crate) fn empty_buffers(&mut self, infos: &ClassInfos) -> Result<()> {
        let owners = self.owners.iter().enumerate().filter(|(_, owner)| owner.0 == OwnerKind::Histogram);
        for owner in owners.map(|(number, _)| number).collect::<Vec<_>>() {
            let Some(Numbers::F64(buffer)) = self.numbers.get_mut((owner, "fBuffer")) else { continue };
            let buffer = std::mem::take(buffer);
            let Some(count) = buffer.first().copied() else { continue };
            if let Some(size) = self.numbers.get_mut((owner, "fBufferSize")) {
                size.set(0.0);
            }
            let lineage = infos.lineage(&self.owners[owner].1);
            let is_profile = ["TProfile", "TProfile2D", "TProfile3D"].iter().any(|name| lineage.contains(name));
            let dimensions = 1 + usize::from(lineage.contains(&"TH2")) + 2 * usize::from(lineage.contains(&"TH3"));
            let mut fills = Fills { values: Vec::new(), dimensions, is_profile, room: buffer.len() };
            if count >= 1.0 {
                if self.bits.get(&owner).is_some_and(|bits| bits & bit::LIMITS_IN_POWERS_OF_TWO != 0) {
                    let message = "buffered entries with axis limits in powers of two are not supported";
                    return Err(FormatError::unsupported(message));
                }
                let numbers = (count as usize).saturating_mul(fills.width());
                let values = buffer.get(1..numbers.saturating_add(1));
                let short = || FormatError::damaged(0, "its buffer is shorter than its number of entries");
                fills.values = values.ok_or_else(short)?.to_vec();
            }
            // Filling allocates cells for all bins, so a damaged number of bins could exhaust the memory.
            if self.shape(owner).is_none_or(|axes| axes.len() != dimensions) {
                return Err(FormatError::unsupported("its number of cells does not match its axes"));
            }
            let has_limits = self.axes_of(owner, dimensions).all(|axis| axis.low < axis.high);
            match has_limits {
                true => self.fill(owner, &fills, fills.len()),
                false => drop(self.waiting.insert(owner, fills)),
            }
        }
        Ok(())
    }

    fn axes_of(&self, owner: usize, dimensions: usize) -> impl Iterator<Item = &Axis> {
        (owner + 1..=owner + dimensions).filter_map(|number| self.axes.get(&number))
    }

    /// Merge the buffered entries of two histograms. If only one of them has buffered entries, fill these into cells
    /// with the axes of the other histogram. Call this before adding the cells.
    pub(crate) fn join_waiting(&mut self, owner: usize, other: &mut Self) {
        match (self.waiting.remove(&owner), other.waiting.remove(&owner)) {
            (Some(mut ours), Some(theirs)) => {
                ours.values.extend(theirs.values);
                let is_too_much = ours.len() > BUFFERS_MAX.saturating_mul(ours.held_max());
                self.waiting.insert(owner, ours);
                if is_too_much {
                    self.find_limits(owner);
                }
            }
            (Some(ours), None) => {
                let axes = other.axes_of(owner, ours.dimensions).cloned().collect();
                self.replace_axes(owner, axes);
                self.fill(owner, &ours, 0);
            }
            (None, Some(theirs)) => self.fill(owner, &theirs, 0),
            (None, None) => {}
        }
    }

    /// Prepare buffered entries for writing. They stay in the buffer if the buffer can hold them all, and are filled
    /// into the cells otherwise.
    pub(crate) fn settle_waiting(&mut self) {
        let mut owners: Vec<usize> = self.waiting.keys().copied().collect();
        owners.sort_unstable();
        for owner in owners {
            let Some(fills) = self.waiting.get(&owner) else { continue };
            if fills.len() > fills.held_max() {
                self.find_limits(owner);
                continue;
            }
            let (buffer, size) = fills.stored();
            self.numbers.insert((owner, "fBuffer"), buffer);
            if let Some(numbers) = self.numbers.get_mut((owner, "fBufferSize")) {
                numbers.set(size);
            }
        }
    }

    /// Choose axis limits that include the first entries, as many as fit into the buffer, and fill all entries into the
    /// cells.
    fn find_limits(&mut self, owner: usize) {
        let Some(fills) = self.waiting.remove(&owner) else { return };
        let held = fills.len().min(fills.held_max());
        let mut axes: Vec<Axis> = self.axes_of(owner, fills.dimensions).cloned().collect();
        for (coordinate, axis) in axes.iter_mut().enumerate() {
            let is_whole = self.bits.get(&(owner + 1 + coordinate)).is_some_and(|bits| bits & bit::INTEGER != 0);
            let found = found_limits(axis.bins, fills.range(coordinate, held), is_whole);
            (axis.bins, axis.low, axis.high) = (found.bins, found.low, found.high);
            axis.edges.clear();
        }
        self.replace_axes(owner, axes);
        self.fill(owner, &fills, 0);
    }

    /// Replace the axes of a histogram without filled entries.
    fn replace_axes(&mut self, owner: usize, axes: Vec<Axis>) {
        let mut joined = Vec::new();
        for (number, axis) in (owner + 1..).zip(axes) {
            let bits = self.axes.get(&number).map_or(axis.bits, |was| was.bits);
            if let Some(edges) = self.numbers.get_mut((number, "fXbins")) {
                *edges = Numbers::F64(axis.edges.as_slice().into());
            }
            joined.push(Joined { axis: Axis { bits, ..axis }, one: Vec::new(), two: Vec::new() });
        }
        self.rebin_to(owner, joined);
    }

    /// Fill entries into cells (TH1::DoFillN, TProfile::Fill). The first `buffered` entries come from the histogram's
    /// own buffer.
    fn fill(&mut self, owner: usize, fills: &Fills, buffered: usize) {
        self.extend(owner, fills, buffered);
        let axes: Vec<Axis> = self.axes_of(owner, fills.dimensions).cloned().collect();
        let counts_all = self.number(owner, "fStatOverflows") == COUNTS_ALL;
        let is_weighted = self.bits.get(&owner).is_none_or(|bits| bits & bit::NOT_WEIGHTED == 0);
        let (least, most) = VALUE_LIMITS[fills.dimensions - 1];
        let taken = (self.number(owner, least), self.number(owner, most));
        for entry in fills.entries() {
            let (weight, places) = (entry[0], &entry[1..]);
            let value = places.get(fills.dimensions).copied();
            let is_taken = |value: f64| taken.0 == taken.1 || (taken.0..=taken.1).contains(&value);
            if !value.is_none_or(is_taken) {
                continue;
            }
            let bins: Vec<usize> = axes.iter().zip(places).map(|(axis, place)| axis.bin(*place)).collect();
            let cell = bins.iter().zip(&axes).rev().fold(0, |cell, (bin, axis)| cell * (axis.bins + 2) + bin);
            self.add_at(owner, "fEntries", 0, 1.0);
            if value.is_none() && weight != 1.0 && is_weighted {
                self.make_squared_errors(owner);
            }
            self.add_to_cell(owner, cell, (weight, value));
            let is_within = bins.iter().zip(&axes).all(|(bin, axis)| (1..=axis.bins).contains(bin));
            if is_within || counts_all {
                self.add_to_sums(owner, weight, places, fills.dimensions);
            }
        }
    }

    fn add_at(&mut self, owner: usize, name: &'static str, place: usize, value: f64) {
        if let Some(numbers) = self.numbers.get_mut((owner, name)) {
            numbers.add_at(place, value);
        }
    }

    fn add_to_cell(&mut self, owner: usize, cell: usize, (weight, value): (f64, Option<f64>)) {
        let content = value.map_or(weight, |value| weight * value);
        for name in CELLS {
            self.add_at(owner, name, cell, content);
        }
        self.add_at(owner, "fSumw2", cell, content * value.unwrap_or(weight));
        self.add_at(owner, "fBinEntries", cell, weight);
        self.add_at(owner, "fBinSumw2", cell, weight * weight);
    }

    fn add_to_sums(&mut self, owner: usize, weight: f64, places: &[f64], dimensions: usize) {
        self.add_at(owner, "fTsumw", 0, weight);
        self.add_at(owner, "fTsumw2", 0, weight * weight);
        for ((sum, squares), place) in SUMS.into_iter().zip(places) {
            self.add_at(owner, sum, 0, weight * place);
            self.add_at(owner, squares, 0, weight * place * place);
        }
        for (one, two, sum) in PAIRS.into_iter().filter(|(_, two, _)| *two < dimensions) {
            self.add_at(owner, sum, 0, weight * places[one] * places[two]);
        }
    }

    /// Create the squared errors if the histogram has none (TH1::Sumw2).
    fn make_squared_errors(&mut self, owner: usize) {
        let has_some = self.numbers.get((owner, "fSumw2")).is_none_or(|numbers| numbers.len() > 0);
        if let Some(squares) = self.cells(owner).map(Numbers::absolute_values).filter(|_| !has_some) {
            self.numbers.insert((owner, "fSumw2"), Numbers::F64(squares.into()));
        }
    }

    /// Extend the extendable axes to include entries outside their limits (TH1::ExtendAxis).
    fn extend(&mut self, owner: usize, fills: &Fills, buffered: usize) {
        let axes: Vec<Axis> = self.axes_of(owner, fills.dimensions).cloned().collect();
        let can_all = axes.iter().all(Axis::can_extend);
        let mut joined = Vec::new();
        for (coordinate, axis) in axes.iter().enumerate() {
            let mut wide = axis.clone();
            if axis.can_extend() && axis.edges.is_empty() && axis.bins > 0 {
                let (low, high) = fills.range(coordinate, buffered);
                let first = [low, high].into_iter().filter(|_| can_all);
                let is_free = axis.bits & ALPHANUMERIC == 0;
                let all = fills.entries().map(|entry| entry[1 + coordinate]).filter(|_| is_free);
                first.chain(all).for_each(|value| wide.extend_to(value));
            }
            let one = axis.bins_within(&wide);
            joined.push(Joined { axis: wide, one, two: Vec::new() });
        }
        if joined.iter().zip(&axes).any(|(joined, axis)| joined.axis != *axis) {
            self.rebin_to(owner, joined);
        }
    }
}
