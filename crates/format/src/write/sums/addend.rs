//! An object that is to be added up with others: its numbers, axes and bins.

use std::collections::{HashMap, HashSet};

use crate::cursor::Cursor;
use crate::error::Result;

use super::buffered_fills::Fills;
use crate::write::object::axis::{Axis, Labels};
use crate::write::object::family::OwnerKind;
use crate::write::object::numbers::Numbers;
use crate::write::object::recorder::ObjectPrograms;
use crate::write::object::recording::Recording;
use crate::write::object::sparse::Sparse;

/// Numbers that there are for each cell.
pub(crate) const CELLS: [&str; 6] = ["TArrayC", "TArrayS", "TArrayI", "TArrayL64", "TArrayF", "TArrayD"];

/// An object to be added: its numbers.
#[derive(Debug, Clone)]
pub struct Addend {
    pub(crate) owners: Vec<(OwnerKind, String)>,
    pub(crate) numbers: HashMap<(usize, &'static str), Numbers>,
    pub(crate) axes: HashMap<usize, Axis>,
    /// Axes whose bins have other names than they had.
    pub(crate) relabelled: HashSet<usize>,
    /// Bits of parameters, of histograms and of their axes.
    pub(crate) bits: HashMap<usize, u32>,
    /// Bins of sparse histograms.
    pub(crate) sparse: HashMap<usize, Sparse>,
    /// Entries of histograms that have no limits yet.
    pub(crate) waiting: HashMap<usize, Fills>,
    /// Digest of the objects in lists that do not add up.
    pub(crate) others: u64,
    /// Whether something in it can only be written to the same place.
    pub(crate) is_fixed: bool,
}

impl Addend {
    /// Takes the plain bytes of an object apart.
    pub fn new(bytes: &[u8], key_size: u64, class_name: &str, programs: &mut ObjectPrograms) -> Result<Self> {
        let recording = Recording::of_object(bytes, key_size, class_name, programs)?;
        let owners = recording.owners.iter().map(|owner| (owner.kind, owner.class_name.to_string())).collect();
        let (mut numbers, mut labels, mut bits) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut sparse = HashMap::new();
        for member in &recording.members {
            match member.name {
                "fLabels" => drop(labels.insert(member.owner, recording.alone(member)?)),
                "fBinContent" => drop(sparse.insert(member.owner, Sparse::read(&recording.alone(member)?)?)),
                // Behind version and unique id.
                "TObject" => drop(bits.insert(member.owner, Cursor::at(recording.stored(member), 6).u32()?)),
                name => {
                    if let Some(found) = Numbers::of(recording.stored(member), &member.kind)? {
                        numbers.insert((member.owner, name), found);
                    }
                }
            }
        }
        let (axes, relabelled, is_fixed) = (HashMap::new(), HashSet::new(), recording.is_fixed());
        let others = recording.digest_of_others();
        let waiting = HashMap::new();
        let mut addend = Self { owners, numbers, axes, relabelled, bits, sparse, waiting, others, is_fixed };
        addend.find_axes(labels);
        addend.empty_buffers(programs.infos())?;
        Ok(addend)
    }

    fn find_axes(&mut self, mut labels: HashMap<usize, Vec<u8>>) {
        for owner in (0..self.owners.len()).filter(|owner| self.owners[*owner].0 == OwnerKind::Axis) {
            let number = |name| self.number(owner, name);
            let edges = match self.numbers.get(&(owner, "fXbins")) {
                Some(Numbers::F64(edges)) => edges.clone(),
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

    pub(crate) fn number(&self, owner: usize, name: &'static str) -> f64 {
        self.numbers.get(&(owner, name)).map_or(0.0, Numbers::first)
    }

    /// The numbers in its cells that a histogram has.
    pub(crate) fn cells(&self, owner: usize) -> Option<&Numbers> {
        CELLS.iter().find_map(|name| self.numbers.get(&(owner, *name)))
    }
}
