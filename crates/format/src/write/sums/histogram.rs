//! Addition of histograms with different axes, which are rebinned to common axes, like in ROOT's TH1Merger.

use super::addend::{Addend, CELLS};
use crate::write::object::axis::{Axis, Joined};
use crate::write::object::numbers::Numbers;

/// Array members with one number per cell, apart from the cell contents.
const PER_CELL: [&str; 3] = ["fSumw2", "fBinEntries", "fBinSumw2"];
/// Array members that may be missing, each with the array from which it is derived. In a profile, fBinSumw2 is derived
/// from the sums of weights (TProfileHelper::BuildArray). The empty name means the absolute values of the cell contents
/// (TH1::Sumw2).
const STANDS_FOR: [(&str, &str); 2] = [("fBinSumw2", "fBinEntries"), ("fSumw2", "")];

/// Members that are not added in a histogram.
const STAY: [&str; 10] =
    ["fBuffer", "fBufferSize", "fNcells", "fStatOverflows", "fYmin", "fYmax", "fZmin", "fZmax", "fTmin", "fTmax"];
/// Maximum number of cells of a sum, as a multiple of the cells of both histograms, plus [`FEW_CELLS`].
const GROWTH_MAX: usize = 64;
/// Number of cells by which a sum may exceed the multiple [`GROWTH_MAX`].
const FEW_CELLS: usize = 4096;

/// Plan for adding two histograms with different axes.
#[derive(Debug)]
pub(crate) struct HistogramPlan {
    pub(crate) owner: usize,
    axes: Vec<Joined>,
    cells: [Vec<Option<usize>>; 2],
    cells_count: usize,
    /// Whether bins are added by number although their labels differ.
    pub(crate) ignores_labels: bool,
}

/// Plan for adding an object to a sum.
#[derive(Debug, Default)]
pub struct SumPlan {
    pub(crate) histograms: Vec<HistogramPlan>,
    /// Whether cells are added by number although their labels differ.
    pub(crate) ignores_labels: bool,
    /// Whether the object has list elements that cannot be added and differ from the elements in the sum.
    pub(crate) leaves_out: bool,
}

impl Addend {
    /// Plan the addition of a histogram whose axes may differ.
    pub(crate) fn plan_histogram(&self, other: &Self, owner: usize, plan: &mut SumPlan) -> Result<(), String> {
        self.check_cells(owner)?;
        other.check_cells(owner)?;
        let waits = |of: &Self| of.waiting.contains_key(&owner);
        if waits(self) || waits(other) {
            let has_axes = |of: &Self| waits(of) || of.shape(owner).is_some();
            return match has_axes(self) && has_axes(other) {
                true => Ok(()),
                false => Err("its number of cells does not match its axes".to_string()),
            };
        }
        let joined = self.plan(other, owner)?;
        let count = |of: &Self| of.cells(owner).map(Numbers::len);
        if joined.is_none() && count(self) != count(other) {
            return Err("it has a different number of cells".to_string());
        }
        plan.histograms.extend(joined);
        Ok(())
    }

    /// Reject a histogram whose arrays do not have one number per cell.
    fn check_cells(&self, owner: usize) -> Result<(), String> {
        let Some(count) = self.cells(owner).map(Numbers::len) else {
            return Err("it has no cells".to_string());
        };
        let fits = |name| self.numbers.get((owner, name)).is_none_or(|numbers| [0, count].contains(&numbers.len()));
        match PER_CELL.into_iter().all(fits) {
            true => Ok(()),
            false => Err("its number of errors does not match its cells".to_string()),
        }
    }

    /// Add the numbers of a histogram. Both histograms must have been rebinned to the same axes.
    pub(crate) fn add_histogram(&mut self, owner: usize, addend: &mut Addend) {
        self.join_waiting(owner, addend);
        for (name, instead) in STANDS_FOR {
            stand_in(self, addend, owner, name, instead);
            stand_in(addend, self, owner, name, instead);
        }
        for (name, numbers) in self.numbers.of_mut(owner).filter(|(name, _)| !STAY.contains(name)) {
            if let Some(others) = addend.numbers.get((owner, name)) {
                numbers.add(others);
            }
        }
    }

    /// The axes that span a histogram's cells; None if the number of cells does not match the axes.
    pub(crate) fn shape(&self, owner: usize) -> Option<Vec<&Axis>> {
        let cells_count = self.cells(owner)?.len();
        let (mut axes, mut product) = (Vec::new(), 1_usize);
        for number in owner + 1..owner + 4 {
            let axis = self.axes.get(&number)?;
            axes.push(axis);
            product = product.checked_mul(axis.bins.checked_add(2)?)?;
            if product == cells_count {
                return Some(axes);
            }
        }
        None
    }

    /// Whether the histogram has neither entries nor contents (TH1::IsEmpty).
    fn is_empty(&self, owner: usize) -> bool {
        let is_used = |cell| self.cells(owner).is_some_and(|cells| cells.is_used(cell));
        let is_filled = self.number(owner, "fTsumw") != 0.0 || self.number(owner, "fEntries") > 0.0;
        !is_filled && !(0..self.cells(owner).map_or(0, |cells| cells.len())).any(is_used)
    }

    /// Indexes of the cells that are not 0 in all arrays.
    fn used_cells(&self, owner: usize) -> Vec<usize> {
        let arrays: Vec<_> =
            CELLS.iter().chain(&PER_CELL).filter_map(|name| self.numbers.get((owner, *name))).collect();
        let count = self.cells(owner).map_or(0, |cells| cells.len());
        (0..count).filter(|cell| arrays.iter().any(|numbers| numbers.is_used(*cell))).collect()
    }

    /// Plan the addition of two histograms; None if their axes are the same.
    fn plan(&self, other: &Self, owner: usize) -> Result<Option<HistogramPlan>, String> {
        let axes = || (owner + 1..owner + 4).map(|number| (self.axes.get(&number), other.axes.get(&number)));
        if axes().all(|(one, two)| one == two) {
            return Ok(None);
        }
        let (Some(ours), Some(theirs)) = (self.shape(owner), other.shape(owner)) else {
            let differs = axes().find(|(one, two)| one != two);
            let words = |axis: Option<&Axis>| axis.map_or_else(|| "no axis".to_string(), Axis::description);
            return Err(
                differs.map_or_else(String::new, |(one, two)| format!("it has {}, not {}", words(two), words(one)))
            );
        };
        if ours.len() != theirs.len() {
            return Err(format!("it has {} dimensions, not {}", theirs.len(), ours.len()));
        }
        let room = |of: &[&Axis]| of.iter().map(|axis| axis.bins + 2).product::<usize>();
        let cells_max = FEW_CELLS + GROWTH_MAX * (room(&ours) + room(&theirs));
        let pairs = || ours.iter().zip(&theirs);
        let used = [self.used_cells(owner), other.used_cells(owner)];
        let is_by_name = self.is_by_name((&ours, &theirs), other, owner);
        let mut joined = Vec::new();
        for (number, (one, two)) in pairs().enumerate() {
            joined.push(if is_by_name && (one.is_labelled() || two.is_labelled()) {
                let bins = bins_in_order(&used[1], &theirs, number);
                one.by_name(two, &bins, cells_max)?
            } else {
                one.by_middle(two, cells_max)?
            });
        }
        let cells_count = joined.iter().try_fold(1_usize, |product, one| product.checked_mul(one.axis.bins + 2));
        let Some(cells_count) = cells_count.filter(|count| *count <= cells_max) else {
            return Err(format!("common axes would have more than {cells_max} cells"));
        };
        let cells = [
            targets((&ours, &used[0]), &joined, |one| &one.one)?,
            targets((&theirs, &used[1]), &joined, |one| &one.two)?,
        ];
        let differ = |(one, two): (&&Axis, &&Axis)| one.labels != two.labels && !used[1].is_empty();
        let ignores_labels = !is_by_name && pairs().any(differ);
        Ok(Some(HistogramPlan { owner, axes: joined, cells, cells_count, ignores_labels }))
    }

    /// Whether to match bins by label. This requires that all nonempty histograms have labels on the first axis, and
    /// that all labelled axes can be extended (TH1Merger::ExamineHistograms).
    fn is_by_name(&self, (ours, theirs): (&[&Axis], &[&Axis]), other: &Self, owner: usize) -> bool {
        let empty = (self.is_empty(owner), other.is_empty(owner));
        let (Some(first), Some(second)) = (ours.first(), theirs.first()) else { return false };
        let has_names = (empty.0 || first.is_labelled()) && (empty.1 || second.is_labelled());
        let can_grow = ours.iter().filter(|axis| axis.is_labelled()).all(|axis| axis.can_extend());
        has_names && empty != (true, true) && (empty.0 || can_grow)
    }

    /// Move the cells of a histogram to other axes, using the target bins in `Joined::one`. If an axis has no target
    /// bins, all cells become empty.
    pub(crate) fn rebin_to(&mut self, owner: usize, axes: Vec<Joined>) {
        let cells_count = axes.iter().map(|joined| joined.axis.bins + 2).product();
        let moved = self.axes.get(&(owner + 1)).filter(|_| axes.iter().all(|joined| !joined.one.is_empty()));
        let cells = match moved {
            Some(_) => {
                let ours: Vec<&Axis> = (owner + 1..).take(axes.len()).filter_map(|axis| self.axes.get(&axis)).collect();
                targets((&ours, &[]), &axes, |joined| &joined.one).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let plan = HistogramPlan { owner, axes, cells: [cells, Vec::new()], cells_count, ignores_labels: false };
        self.rebin(&plan, false);
    }

    /// Move the cells of a histogram to the common axes of a sum.
    pub(crate) fn rebin(&mut self, plan: &HistogramPlan, is_other: bool) {
        for name in CELLS.iter().chain(&PER_CELL) {
            if let Some(numbers) = self.numbers.get_mut((plan.owner, *name)).filter(|numbers| numbers.len() > 0) {
                *numbers = numbers.moved(&plan.cells[usize::from(is_other)], plan.cells_count);
            }
        }
        for (number, Joined { axis, .. }) in (plan.owner + 1..).zip(&plan.axes) {
            let was = self.axes.insert(number, axis.clone());
            if was.is_none_or(|was| was.labels != axis.labels) {
                self.relabelled.insert(number);
            }
            let values = [("fNbins", axis.bins as f64), ("fXmin", axis.low), ("fXmax", axis.high)];
            for (name, value) in values.into_iter().chain([("fBits2", axis.bits as f64)]) {
                if let Some(numbers) = self.numbers.get_mut((number, name)) {
                    numbers.set(value);
                }
            }
            if let Some(edges) = self.numbers.get_mut((number, "fXbins")) {
                edges.truncate(axis.edges.len());
            }
        }
        if let Some(numbers) = self.numbers.get_mut((plan.owner, "fNcells")) {
            numbers.set(plan.cells_count as f64);
        }
    }
}

/// Indexes of the bins of one axis that contain a used cell, in the order of their first used cells.
fn bins_in_order(used: &[usize], axes: &[&Axis], number: usize) -> Vec<usize> {
    let before: usize = axes[..number].iter().map(|axis| axis.bins + 2).product();
    let mut is_there = vec![false; axes[number].bins + 2];
    let bins = used.iter().map(|cell| cell / before % (axes[number].bins + 2));
    bins.filter(|bin| !std::mem::replace(&mut is_there[*bin], true)).collect()
}

/// For each cell, the target cell in the sum. Fails if a used cell has no target.
fn targets(
    (axes, used): (&[&Axis], &[usize]),
    joined: &[Joined],
    map: impl Fn(&Joined) -> &Vec<Option<usize>>,
) -> Result<Vec<Option<usize>>, String> {
    let target = |cell: usize| {
        let (mut rest, mut place, mut stride) = (cell, 0, 1);
        for (axis, joined) in axes.iter().zip(joined) {
            let bin = rest % (axis.bins + 2);
            rest /= axis.bins + 2;
            place += stride * map(joined)[bin]?;
            stride *= joined.axis.bins + 2;
        }
        Some(place)
    };
    let count = axes.iter().map(|axis| axis.bins + 2).product();
    let all: Vec<Option<usize>> = (0..count).map(target).collect();
    match used.iter().any(|cell| all[*cell].is_none()) {
        true => Err("it has entries outside its limits, which may belong to bins of the sum".to_string()),
        false => Ok(all),
    }
}

/// Create the array `name` in histogram `one`, derived from the array `instead`, if only the other histogram has it.
fn stand_in(one: &mut Addend, other: &Addend, owner: usize, name: &'static str, instead: &'static str) {
    let is_empty = |of: &Addend| of.numbers.get((owner, name)).is_none_or(|numbers| numbers.len() == 0);
    if !is_empty(one) || is_empty(other) {
        return;
    }
    let sizes = match instead {
        "" => one.cells(owner).map(Numbers::absolute_values),
        instead => one.numbers.get((owner, instead)).map(Numbers::absolute_values),
    };
    if let Some(sizes) = sizes {
        one.numbers.insert((owner, name), Numbers::F64(sizes.into()));
    }
}
