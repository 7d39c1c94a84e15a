//! Addition of objects with the same name from several files, like ROOT's `Merge` functions. Supports histograms,
//! profiles, efficiencies, graphs, parameters, and lists of such objects.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::classes::streamer::ClassInfos;
use crate::error::{ErrorKind, FormatError, Result};

use super::addend::Addend;
use super::changes::Changes;
use super::histogram::SumPlan;
use crate::write::object::axis::{Axis, Labels};
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;
use crate::write::object::recorder::ObjectPrograms;
use crate::write::object::recording::Recording;
use crate::write::object::sparse::Sparse;

impl Addend {
    /// Class names of the objects with replaceable members, for error messages.
    fn names_of_owners(&self) -> String {
        let same = self.owners.chunk_by(|(_, one), (_, two)| one == two);
        let named = same.map(|same| match same {
            [(_, name)] => name.to_string(),
            _ => format!("{} {}", same.len(), same[0].1),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// Plan the addition of another object. Fails unless both contain objects of the same classes. The axes may differ.
    fn plan_of(&self, other: &Self) -> std::result::Result<SumPlan, String> {
        if self.owners != other.owners {
            return Err(format!("it contains {}, not {}", other.names_of_owners(), self.names_of_owners()));
        }
        let mut plan = SumPlan { leaves_out: self.others != other.others, ..SumPlan::default() };
        if plan.leaves_out && self.owners.is_empty() {
            return Err("it contains different objects that cannot be added".to_string());
        }
        for (owner, (kind, _)) in self.owners.iter().enumerate() {
            match kind {
                OwnerKind::Histogram => self.plan_histogram(other, owner, &mut plan)?,
                OwnerKind::Grid => plan.ignores_labels |= self.check_grid(other, owner)?,
                OwnerKind::PolygonHistogram => self.check_polygons(other, owner)?,
                // These objects are checked together with their histogram.
                OwnerKind::Cells | OwnerKind::Axis | OwnerKind::Polygon => {}
                // Graphs, parameters and efficiencies can always be added.
                OwnerKind::Graph | OwnerKind::Parameter | OwnerKind::Efficiency => {}
                OwnerKind::Tree | OwnerKind::Branch | OwnerKind::Leaf => {}
            }
        }
        let is_like = |(place, one): (_, &Numbers)| other.numbers.get(place).is_none_or(|two| one.is_like(two));
        if !self.numbers.iter().all(is_like) {
            return Err("its numbers are stored in a different format".to_string());
        }
        Ok(plan)
    }
}

/// A running sum of objects.
#[derive(Debug)]
pub struct Sum {
    class_name: String,
    bytes: Vec<u8>,
    key_size: u64,
    infos: Arc<ClassInfos>,
    total: Addend,
    count: u64,
    /// Whether bins were added although their labels differ.
    ignores_labels: bool,
    /// Whether list elements that cannot be added were dropped because they differ from the elements of the first
    /// object.
    leaves_out: bool,
}

impl Sum {
    /// Start a sum with the first object. `bytes` are the object's uncompressed bytes, with references that are
    /// relative to a key of `key_size` bytes. `total` has the object's numbers.
    pub fn new(bytes: Vec<u8>, key_size: u64, class_name: &str, infos: &Arc<ClassInfos>, total: Addend) -> Self {
        let (class_name, infos) = (class_name.to_string(), Arc::clone(infos));
        Self { class_name, bytes, key_size, infos, total, count: 1, ignores_labels: false, leaves_out: false }
    }

    /// The size of the uncompressed bytes, if the sum needs a key of the same size as the first object's key. None if
    /// the key may have any size.
    pub fn fixed_bytes(&self) -> Option<u64> {
        self.total.is_fixed.then_some(self.bytes.len() as u64)
    }

    /// Whether the sum consists only of the first object.
    pub fn is_single(&self) -> bool {
        self.count == 1
    }

    /// Plan the addition of an object. Fails if the object cannot be added.
    pub fn plan(&self, addend: &Addend) -> Result<SumPlan> {
        self.total.plan_of(addend).map_err(FormatError::unsupported)
    }

    /// Notes for the user about how objects were added.
    pub fn notes(&self) -> impl Iterator<Item = &'static str> {
        let labels = "its bin labels differ between files; the bins were added by number, like in hadd";
        let others = "objects that cannot be added differ between files; the objects of the first file were kept";
        [(self.ignores_labels, labels), (self.leaves_out, others)]
            .into_iter()
            .filter(|(is_so, _)| *is_so)
            .map(|(_, note)| note)
    }

    /// Add an object according to its plan.
    pub fn add(&mut self, mut addend: Addend, plan: &SumPlan) {
        // Compute statistics before rebinning, because they depend on the original bins.
        if self.is_single() {
            self.total.make_statistics();
        }
        addend.make_statistics();
        self.count += 1;
        self.ignores_labels |= plan.ignores_labels;
        self.leaves_out |= plan.leaves_out;
        for histogram in &plan.histograms {
            self.total.rebin(histogram, false);
            addend.rebin(histogram, true);
            self.ignores_labels |= histogram.ignores_labels;
        }
        for owner in 0..self.total.owners.len() {
            match self.total.owners[owner].0 {
                OwnerKind::Histogram => self.total.add_histogram(owner, &mut addend),
                OwnerKind::Grid => self.total.add_grid(owner, &mut addend),
                OwnerKind::Cells => self.total.add_cells(owner, &addend),
                OwnerKind::PolygonHistogram => self.total.add_polygons(owner, &mut addend),
                OwnerKind::Graph => self.total.append_points(owner, &addend),
                OwnerKind::Parameter => self.total.add_parameter(owner, &addend),
                OwnerKind::Efficiency => self.total.add_weight(owner, &addend),
                // Axes and polygons are added together with their histogram. Trees are merged separately.
                OwnerKind::Axis | OwnerKind::Polygon | OwnerKind::Tree | OwnerKind::Branch | OwnerKind::Leaf => {}
            }
        }
    }

    /// Describe the first difference from another sum. Ignores rounding differences due to the order of addition.
    pub fn difference(&self, other: &Self) -> Option<String> {
        // Settle buffered entries first, as is done before a sum is written.
        let (ours, theirs) = (self.settled(), other.settled());
        match ours.plan_of(&theirs) {
            Err(what) => return Some(what),
            Ok(plan) if plan.leaves_out => {
                return Some("it contains different objects that cannot be added".to_string())
            }
            Ok(plan) if !plan.histograms.is_empty() => return Some("its axes differ".to_string()),
            Ok(_) => {}
        }
        let names: BTreeSet<_> = ours.numbers.iter().chain(theirs.numbers.iter()).map(|(name, _)| name).collect();
        let is_same = |place| match (ours.numbers.get(place), theirs.numbers.get(place)) {
            (Some(one), Some(two)) => one.is_near(two),
            (one, two) => one.or(two).is_none_or(|numbers| numbers.len() == 0),
        };
        let is_near = |(owner, bins): (&usize, &Sparse)| theirs.sparse.get(owner).is_some_and(|two| bins.is_near(two));
        if !ours.sparse.iter().all(is_near) {
            return Some("its bins differ".to_string());
        }
        let differs = names.into_iter().find(|place| !is_same(*place));
        differs.map(|place| format!("its {} differs", place.1))
    }

    /// The numbers to write, with buffered entries prepared for writing.
    fn settled(&self) -> Cow<'_, Addend> {
        let mut total = Cow::Borrowed(&self.total);
        if !total.waiting.is_empty() {
            total.to_mut().settle_waiting();
        }
        total
    }

    /// Encode the uncompressed bytes of the sum for a key of `key_size` bytes. `programs` is reused between sums.
    pub fn record(&self, key_size: u64, programs: &mut Option<ObjectPrograms>) -> Result<Vec<u8>> {
        if self.is_single() && key_size == self.key_size {
            return Ok(self.bytes.clone());
        }
        let total = self.settled();
        if key_size == self.key_size && total.has_axes_as_read() {
            let mut record = self.bytes.clone();
            if total.numbers.write_over(&mut record) {
                return Ok(record);
            }
        }
        let programs = match programs.take().filter(|known| Arc::ptr_eq(known.infos(), &self.infos)) {
            Some(known) => programs.insert(known),
            None => programs.insert(ObjectPrograms::new(&self.infos)),
        };
        let recording = Recording::of_object(&self.bytes, self.key_size, &self.class_name, programs)?;
        let mut changes = Changes::new();
        for (index, member) in recording.members.iter().enumerate() {
            let axis = total.axes.get(&member.owner).filter(|_| total.relabelled.contains(&member.owner));
            if let (Some(Axis { labels: Labels::Named(labels), .. }), "fLabels") = (axis, member.name) {
                changes.labels(index, labels.clone());
            } else if let (Some(bins), "fBinContent") = (total.sparse.get(&member.owner), member.name) {
                changes.chunks(index, bins.clone());
            } else if let Some(numbers) = total.numbers.get((member.owner, member.name)) {
                changes.stored(index, numbers.stored(&member.kind));
            }
        }
        let record = recording.emit(key_size, &changes)?;
        // Verify the result, because a damaged description may name the wrong member as the counter of an array.
        let again = Recording::of_object(&record, key_size, &self.class_name, programs);
        if again.is_err_and(|error| error.kind == ErrorKind::Damaged) {
            return Err(FormatError::damaged(0, "the sum could not be read back"));
        }
        Ok(record)
    }
}
