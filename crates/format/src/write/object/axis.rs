//! Axes of histograms that are summed, and joining of two different axes, like in ROOT's TH1::Merge.

use std::collections::HashMap;

use crate::classes::buffer::{ObjectBuffer, Pointer};
use crate::error::Result;

/// Bit of TAxis::fBits2 that means that the bins have labels.
pub(crate) const ALPHANUMERIC: i64 = 1;
/// Bit of TAxis::fBits2 that means that the axis can be extended by further bins.
pub(crate) const CAN_EXTEND: i64 = 2;
/// Maximum relative difference between equal limits or edges, as a fraction of the bin width (TH1::SameLimitsAndNBins,
/// TH1::CheckBinLimits).
const ROUNDING: f64 = 1e-10;
/// Maximum difference between a number of bins and the nearest integer (TH1::RecomputeAxisLimits).
const WHOLE: f64 = 1e-8;

/// An axis of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) bins: usize,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Edges of variable-width bins; empty for uniform bins.
    pub(crate) edges: Vec<f64>,
    pub(crate) labels: Labels,
    pub(crate) bits: i64,
}

/// The index of a bin, and the label of the bin.
pub(crate) type Label = (u32, Vec<u8>);

/// Labels of an axis's bins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Labels {
    /// Labels in list order.
    Named(Vec<Label>),
    /// Labels that are not strings, as encoded bytes.
    Other(Vec<u8>),
}

/// The axis of a sum. Each bin of the two summed axes has a target bin on this axis, or None if the bin must be empty.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) axis: Axis,
    pub(crate) one: Vec<Option<usize>>,
    pub(crate) two: Vec<Option<usize>>,
}

impl Labels {
    /// Parse an encoded pointer to a THashList of TObjString, whose unique IDs are bin indexes.
    pub(crate) fn read(bytes: Vec<u8>) -> Self {
        match named(&bytes) {
            Ok(Some(labels)) => Self::Named(labels),
            Ok(None) | Err(_) => Self::Other(bytes),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Named(labels) if labels.is_empty())
    }

    fn list(&self) -> &[Label] {
        match self {
            Self::Named(labels) => labels,
            Self::Other(_) => &[],
        }
    }
}

fn named(bytes: &[u8]) -> Result<Option<Vec<Label>>> {
    let mut buffer = ObjectBuffer::new(bytes, 0);
    match buffer.pointer()? {
        Pointer::Null => return Ok(Some(Vec::new())),
        Pointer::New { class_name, .. } if &*class_name == "THashList" => {}
        Pointer::New { .. } | Pointer::Seen(_) => return Ok(None),
    }
    let count = buffer.tlist()?;
    let mut labels = Vec::new();
    for _ in 0..count {
        let Pointer::New { class_name, .. } = buffer.pointer()? else { return Ok(None) };
        if &*class_name != "TObjString" {
            return Ok(None);
        }
        let header = buffer.cursor.version_header()?;
        // The unique ID follows the version in the TObject.
        let mut start = buffer.cursor.clone();
        start.skip(2)?;
        let bin = start.u32()?;
        buffer.skip_tobject()?;
        labels.push((bin, buffer.cursor.string_bytes()?.to_vec()));
        buffer.cursor.finish(header)?;
        buffer.cursor.string_bytes()?; // drawing option
    }
    Ok(Some(labels))
}

fn is_same(one: f64, two: f64, bin_width: f64) -> bool {
    one == two || (one - two).abs() < (ROUNDING * bin_width).max(f64::MIN_POSITIVE)
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() < WHOLE
}

impl Axis {
    pub(crate) fn can_extend(&self) -> bool {
        self.bits & CAN_EXTEND != 0
    }

    pub(crate) fn is_labelled(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether both axes have the same number of bins and the same limits (TH1::SameLimitsAndNBins).
    fn has_limits_of(&self, other: &Self) -> bool {
        let width = self.bin_width(self.bins);
        self.bins == other.bins && is_same(self.low, other.low, width) && is_same(self.high, other.high, width)
    }

    /// Whether the bins of both axes have the same edges, given that the limits are the same (TH1::CheckBinLimits).
    /// ROOT adds histograms with different inner edges bin by bin as well, which yields wrong contents.
    fn has_edges_of(&self, other: &Self) -> bool {
        let inner = self.edges.len().max(other.edges.len());
        let is_complete = |axis: &Self| axis.edges.is_empty() || axis.edges.len() == inner;
        let mut numbers = 0..inner;
        is_complete(self)
            && is_complete(other)
            && numbers.all(|edge| is_same(self.edge(edge), other.edge(edge), self.bin_width(edge.max(1))))
    }

    /// The average bin width.
    fn width(&self) -> f64 {
        (self.high - self.low) / self.bins as f64
    }

    /// The upper edge of a bin.
    fn edge(&self, bin: usize) -> f64 {
        self.edges.get(bin).copied().unwrap_or_else(|| self.low + bin as f64 * self.width())
    }

    fn bin_width(&self, bin: usize) -> f64 {
        match self.edges.is_empty() {
            true => self.width(),
            false => self.edge(bin) - self.edge(bin.saturating_sub(1)),
        }
    }

    fn has_equal_widths(&self) -> bool {
        let mut widths = self.edges.windows(2).map(|edges| edges[1] - edges[0]);
        let Some(first) = widths.next() else { return true };
        widths.all(|width| (first - width).abs() <= 0.5 * ROUNDING * (first.abs() + width.abs()))
    }

    /// The index of the bin that contains a value (TAxis::FindFixBin).
    pub(crate) fn bin(&self, value: f64) -> usize {
        if value < self.low {
            return 0;
        }
        if value >= self.high || value.is_nan() {
            return self.bins + 1;
        }
        match self.edges.is_empty() {
            true => (1 + (self.bins as f64 * (value - self.low) / (self.high - self.low)) as usize).min(self.bins),
            false => self.edges.partition_point(|edge| *edge <= value).min(self.bins),
        }
    }

    /// The center of a bin (TAxis::GetBinCenter).
    pub(crate) fn center(&self, bin: usize) -> f64 {
        match (bin.checked_sub(1).and_then(|before| self.edges.get(before)), self.edges.get(bin)) {
            (Some(low), Some(high)) => low + 0.5 * (high - low),
            _ => self.low + (bin as f64 - 0.5) * self.width(),
        }
    }

    /// Double the width of the axis until it includes `value` (TH1::FindNewAxisLimits).
    pub(crate) fn extend_to(&mut self, value: f64) {
        let mut width = self.high - self.low;
        if !(value.is_finite() && width.is_finite() && width > 0.0) {
            return;
        }
        let (mut low, mut high) = (self.low, self.high);
        while value < low && width.is_finite() {
            (low, width) = (low - width, 2.0 * width);
        }
        while value >= high && width.is_finite() {
            (high, width) = (high + width, 2.0 * width);
        }
        if low.is_finite() && high.is_finite() {
            (self.low, self.high) = (low, high);
        }
    }

    /// For each bin, the bin of a wider axis that contains the bin's center. Underflow and overflow map to underflow
    /// and overflow.
    pub(crate) fn bins_within(&self, wide: &Self) -> Vec<Option<usize>> {
        let middle = |bin: usize| self.low + (bin as f64 - 0.5) * self.width();
        let inner = |bin| if self == wide { bin } else { wide.bin(middle(bin)) };
        [0].into_iter().chain((1..=self.bins).map(inner)).chain([wide.bins + 1]).map(Some).collect()
    }

    /// The number of bins and the limits, for error messages.
    pub(crate) fn description(&self) -> String {
        format!("{} bins from {} to {}", self.bins, self.low, self.high)
    }

    /// Map each bin to itself.
    pub(crate) fn as_it_is(&self) -> Vec<Option<usize>> {
        (0..self.bins + 2).map(Some).collect()
    }

    /// Reject an axis with different bins. Allocates no memory per bin, because a file may declare any number of bins.
    pub(crate) fn check_same_bins(&self, other: &Self) -> std::result::Result<(), String> {
        match (self.has_limits_of(other), self.has_edges_of(other)) {
            (true, true) => Ok(()),
            (true, false) => Err("its bins have different edges".to_string()),
            (false, _) => Err(self.difference(other)),
        }
    }

    fn difference(&self, other: &Self) -> String {
        format!("it has {}, not {}", other.description(), self.description())
    }

    /// Join two axes with the same bins, bin by bin. The caller must check that the histograms have a cell for each
    /// bin.
    fn by_number(&self, other: &Self) -> std::result::Result<Joined, String> {
        self.check_same_bins(other)?;
        Ok(Joined { axis: self.clone(), one: self.as_it_is(), two: other.as_it_is() })
    }

    /// Map the bins of both axes by their centers to an axis that spans both axes (TH1::RecomputeAxisLimits). Requires
    /// uniform bins and coinciding edges, and one bin width must be a multiple of the other.
    pub(crate) fn by_middle(&self, other: &Self, bins_max: usize) -> std::result::Result<Joined, String> {
        let refused = match self.by_number(other) {
            Ok(joined) => return Ok(joined),
            Err(refused) => refused,
        };
        if self.has_limits_of(other) || !(self.has_equal_widths() && other.has_equal_widths()) {
            return Err(refused);
        }
        let (one, two) = (self.width(), other.width());
        let width = one.max(two);
        if !(one > 0.0 && two > 0.0 && is_whole(width / one) && is_whole(width / two)) {
            return Err(refused);
        }
        let (mut low, mut high) = (self.low.min(other.low), self.high.max(other.high));
        for (axis, width) in [(self, one), (other, two)] {
            if !is_whole((axis.low - low) / width) {
                low = axis.low - ((axis.low - low) / width).ceil() * width;
            }
            if !is_whole((high - axis.high) / width) {
                high = axis.high + ((high - axis.high) / width).ceil() * width;
            }
        }
        if !(is_whole((self.low - low) / one) && is_whole((high - self.high) / one)) {
            return Err(refused);
        }
        let bins = ((high - low) / width).round();
        if !(bins >= 1.0 && bins <= bins_max as f64) {
            return Err(format!("{refused}: a common axis would have {bins} bins"));
        }
        let axis = Self { bins: bins as usize, low, high, edges: Vec::new(), ..self.clone() };
        let maps = (axis.bins_of(self, self.can_extend()), axis.bins_of(other, self.can_extend()));
        Ok(Joined { axis, one: maps.0, two: maps.1 })
    }

    /// For each bin of another axis, the target bin on this axis. None for an underflow or overflow bin whose range
    /// overlaps this axis or could extend it, because its entries may belong to any bin
    /// (TH1Merger::DifferentAxesMerge).
    fn bins_of(&self, other: &Self, can_extend: bool) -> Vec<Option<usize>> {
        let middle = |bin: usize| other.low + (bin as f64 - 0.5) * other.width();
        let find = |bin| match middle(bin) {
            place if place < self.low => 0,
            place if place >= self.high => self.bins + 1,
            place => 1 + (((place - self.low) / self.width()) as usize).min(self.bins - 1),
        };
        let is_beyond = |bin| bin == 0 || bin == other.bins + 1;
        let is_lost = |bin| is_beyond(bin) && (can_extend || (1..=self.bins).contains(&find(bin)));
        (0..other.bins + 2).map(|bin| (!is_lost(bin)).then(|| find(bin))).collect()
    }

    /// Join two axes by their bin labels. Labels that only the other axis has are appended (TH1Merger::LabelMerge).
    /// `used` has the nonempty bins of the other axis, in the order of their first cells.
    pub(crate) fn by_name(&self, other: &Self, used: &[usize], bins_max: usize) -> std::result::Result<Joined, String> {
        let (Labels::Named(known), Labels::Named(_)) = (&self.labels, &other.labels) else {
            return Err("its bin labels are not strings".to_string());
        };
        let mut labels = known.clone();
        let mut numbers: HashMap<&[u8], u32> = known.iter().map(|(number, name)| (name.as_slice(), *number)).collect();
        let names: HashMap<usize, &[u8]> =
            other.labels.list().iter().map(|(number, name)| (*number as usize, name.as_slice())).collect();
        let mut last = known.iter().map(|(number, _)| *number).max().unwrap_or(0);
        let mut axis = self.clone();
        let mut two = vec![None; other.bins + 2];
        for bin in used.iter().copied().filter(|bin| (1..=other.bins).contains(bin)) {
            let Some(name) = names.get(&bin).copied().filter(|name| !name.is_empty()) else {
                return Err(format!("its bin {bin} has entries but no label"));
            };
            let number = *numbers.entry(name).or_insert_with(|| {
                last = last.saturating_add(1);
                labels.push((last, name.to_vec()));
                last
            }) as usize;
            while number > axis.bins {
                // Double the number of bins, like TH1::LabelsInflate.
                (axis.bins, axis.high) = (2 * axis.bins.max(1), axis.low + 2.0 * (axis.high - axis.low));
                if axis.bins > bins_max || !axis.edges.is_empty() {
                    return Err(format!("its axis cannot be extended for the label of bin {bin}"));
                }
            }
            two[bin] = Some(number);
        }
        let mut one = self.as_it_is();
        (one[self.bins + 1], two[0], two[other.bins + 1]) = (Some(axis.bins + 1), Some(0), Some(axis.bins + 1));
        if labels.len() > known.len() {
            axis.bits |= ALPHANUMERIC | CAN_EXTEND;
            axis.labels = Labels::Named(labels);
        }
        Ok(Joined { axis, one, two })
    }
}
