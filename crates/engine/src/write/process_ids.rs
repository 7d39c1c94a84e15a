//! The process ids of an output: the names by which objects refer to others (TRef), each with its number.

use bytes::Bytes;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::new_file::{ObjectName, TOP};
use crate::write::products::output::MergeOutput;

/// The class of process ids.
pub(crate) const PROCESS_ID: &str = "TProcessID";

/// The name of a process whose objects others refer to (TProcessID). The title of the key identifies it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) name: ObjectName,
    pub(crate) object_size: u64,
    pub(crate) stored: Bytes,
}

/// The process ids that were written to an output.
pub(crate) struct ProcessIds {
    /// Those that were there before.
    before: usize,
    written: Vec<ProcessId>,
}

impl ProcessIds {
    /// None yet, behind so many that the output has already.
    pub(crate) fn behind(before: usize) -> Self {
        Self { before, written: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.before + self.written.len()
    }

    /// Forgets those behind the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.written.truncate(count.saturating_sub(self.before));
    }

    /// Those behind the first `count`, as their keys name them.
    pub(crate) fn names_behind(&self, count: usize) -> impl Iterator<Item = ObjectName> + '_ {
        let named = |(number, id): (usize, &ProcessId)| numbered(id, self.before + number);
        self.written.iter().enumerate().map(named).skip(count.saturating_sub(self.before))
    }

    /// Process ids of an input come behind those of others, unless they are there in this order already. Returns
    /// how many stand before (TTreeCloner::CopyProcessIds).
    pub(crate) fn write(&mut self, ids: &[ProcessId], output: &mut MergeOutput) -> Result<u16> {
        if ids.is_empty() {
            return Ok(0);
        }
        let count = self.written.len();
        let is_there = |first: &usize| self.written.get(*first..first + ids.len()).is_some_and(|some| some == ids);
        let first = (0..count).find(is_there).unwrap_or(count);
        if first == count {
            output.settle()?;
            for id in ids {
                let slot = output.file.reserve(TOP);
                output.file.write_stored(slot, &numbered(id, self.count()), id.object_size, &id.stored)?;
                self.written.push(id.clone());
            }
        }
        u16::try_from(self.before + first).map_err(|_| {
            let message = "more process ids than ROOT has room for";
            ReadError::new(ReadErrorKind::Unsupported, &output.file.path(), message)
        })
    }
}

fn numbered(id: &ProcessId, number: usize) -> ObjectName {
    ObjectName { name: format!("ProcessID{number}"), ..id.name.clone() }
}
