//! An object to be added to a sum: its numbers, axes and bins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::Result;

use super::buffered_fills::Fills;
use crate::write::object::axis::{Axis, Labels};
use crate::write::object::family::OwnerKind;
use crate::write::object::number_table::{NumberTable, StoredAt};
use crate::write::object::numbers::Numbers;
use crate::write::object::recorder::ObjectPrograms;
use crate::write::object::recording::Recording;
use crate::write::object::sparse::Sparse;

/// Members of a histogram that hold the cell contents: one number per cell.
pub(crate) const CELLS: [&str; 6] = ["TArrayC", "TArrayS", "TArrayI", "TArrayL64", "TArrayF", "TArrayD"];

/// An object to be added to a sum, with its parsed numbers.
#[derive(Debug, Clone)]
pub struct Addend {
    pub(crate) owners: Vec<(OwnerKind, Arc<str>)>,
    pub(crate) numbers: NumberTable,
    pub(crate) axes: HashMap<usize, Axis>,
    /// Owner indexes of the axes whose bin labels have changed.
    pub(crate) relabelled: BTreeSet<usize>,
    /// Status bits of parameters, histograms and histogram axes, by owner index.
    pub(crate) bits: BTreeMap<usize, u32>,
    /// Bins of sparse histograms, by owner index.
    pub(crate) sparse: BTreeMap<usize, Sparse>,
    /// Buffered entries of histograms without axis limits, by owner index.
    pub(crate) waiting: BTreeMap<usize, Fills>,
    /// Hash of the list elements that cannot be added.
    pub(crate) others: u64,
    /// Whether the object can only be written with a key of the same size.
    pub(crate) is_fixed: bool,
}

impl Addend {
    /// Parse the uncompressed bytes of an object.
    pub fn new(bytes: &[u8], key_size: u64, class_name: &str, programs: &mut ObjectPrograms) -> Result<Self> {
        let recording = Recording::of_object(bytes, key_size, class_name, programs)?;
        let owners = recording.owners.iter().map(|owner| (owner.kind, Arc::clone(&owner.class_name))).collect();
        let mut numbers = NumberTable::with_room(&recording);
        let (mut labels, mut bits) = (BTreeMap::new(), BTreeMap::new());
        let mut sparse = BTreeMap::new();
        for member in &recording.members {
            match member.name {
                "fLabels" => drop(labels.insert(member.owner, recording.alone(member)?)),
                "fBinContent" => drop(sparse.insert(member.owner, Sparse::read(&recording.alone(member)?)?)),
                // The status bits follow the version and the unique ID.
                "TObject" => drop(bits.insert(member.owner, Cursor::at(recording.stored(member), 6).u32()?)),
                name => {
                    if let Some(found) = Numbers::of(recording.stored(member), &member.kind)? {
                        numbers.insert_read((member.owner, name), found, StoredAt::of(member, &recording));
                    }
                }
            }
        }
        let (axes, relabelled, is_fixed) = (HashMap::new(), BTreeSet::new(), recording.is_fixed());
        let others = recording.digest_of_others();
        let waiting = BTreeMap::new();
        let mut addend = Self { owners, numbers, axes, relabelled, bits, sparse, waiting, others, is_fixed };
        addend.find_axes(labels);
        addend.empty_buffers(programs.infos())?;
        Ok(addend)
    }

    fn find_axes(&mut self, mut labels: BTreeMap<usize, Vec<u8>>) {
        for owner in (0..self.owners.len()).filter(|owner| self.owners[*owner].0 == OwnerKind::Axis) {
            let number = |name| self.number(owner, name);
            let edges = match self.numbers.get((owner, "fXbins")) {
                Some(Numbers::F64(edges)) => edges.to_vec(),
                Some(Numbers::F32(_) | Numbers::Whole(..)) | None => Vec::new(),
            };
            let axis = Axis {
                bins: number("fNbins").max(0.0) as usize,
                low: number("fXmin"),
                high: number("fXmax"),
                edges,
                labels: labels.remove(&owner).map_or(Labels::Named(Vec::new()), Labels::read),
                bits: number("fBits2") as i64,
            };
            self.axes.insert(owner, axis);
        }
    }

    /// Whether the object can only differ in numbers from the parsed bytes. False if labels have changed or the object
    /// has sparse bins.
    pub(crate) fn has_axes_as_read(&self) -> bool {
        self.relabelled.is_empty() && self.sparse.is_empty()
    }

    pub(crate) fn number(&self, owner: usize, name: &'static str) -> f64 {
        self.numbers.get((owner, name)).map_or(0.0, Numbers::first)
    }

    /// The cell contents of a histogram.
    pub(crate) fn cells(&self, owner: usize) -> Option<&Numbers> {
        CELLS.iter().find_map(|name| self.numbers.get((owner, *name)))
    }
}
