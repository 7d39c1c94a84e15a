//! The process IDs of an output. A reference to an object (TRef) contains the number of a process ID, which identifies
//! the process that created the object.

use bytes::Bytes;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::new_file::{ObjectName, TOP};
use crate::write::products::output::MergeOutput;

/// The class name of process IDs.
pub(crate) const PROCESS_ID: &str = "TProcessID";

/// A process whose objects are referenced by other objects (TProcessID). The title of the process ID's key identifies
/// the process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) name: ObjectName,
    pub(crate) object_size: u64,
    pub(crate) stored: Bytes,
}

/// The process IDs written to an output.
pub(crate) struct ProcessIds {
    /// Number of process IDs that the output already had.
    before: usize,
    written: Vec<ProcessId>,
}

impl ProcessIds {
    /// Creates an empty list for an output that already has `before` process IDs.
    pub(crate) fn behind(before: usize) -> Self {
        Self { before, written: Vec::new() }
    }

    /// Total number of process IDs.
    pub(crate) fn count(&self) -> usize {
        self.before + self.written.len()
    }

    /// Removes all process IDs after the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.written.truncate(count.saturating_sub(self.before));
    }

    /// Returns the key names of the process IDs after the first `count`.
    pub(crate) fn names_behind(&self, count: usize) -> impl Iterator<Item = ObjectName> + '_ {
        let named = |(number, id): (usize, &ProcessId)| numbered(id, self.before + number);
        self.written.iter().enumerate().map(named).skip(count.saturating_sub(self.before))
    }

    /// Appends the process IDs of an input, unless the same sequence was written before. Returns the number of process
    /// IDs that precede the sequence (TTreeCloner::CopyProcessIds).
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
            let message = "the output needs more process IDs than ROOT supports";
            ReadError::new(ReadErrorKind::Unsupported, &output.file.path(), message)
        })
    }
}

fn numbered(id: &ProcessId, number: usize) -> ObjectName {
    ObjectName { name: format!("ProcessID{number}"), ..id.name.clone() }
}
