//! The growing buffers that a program fills.

use std::sync::Arc;

use crate::layout::program::ClassProgram;

/// A growing buffer of numbers or characters, of offsets, or of both (strings). In a slot of pointers, `bytes` has one
/// tag per pointer: the index of its class in `instances`.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offsets: Vec<i64>,
    pub(crate) instances: Vec<Instance>,
}

/// All objects of one class that the pointers in a slot refer to.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) class: Arc<ClassProgram>,
    /// Index of the first slot for these objects.
    pub(crate) base: usize,
    /// Number of objects.
    pub(crate) count: usize,
}

/// Size of a slot at an earlier time, to roll back to.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    bytes: usize,
    offsets: usize,
    /// Number of objects of each class.
    counts: Vec<usize>,
}

impl Slot {
    /// Record the current size.
    pub(crate) fn mark(&self) -> Mark {
        let counts = self.instances.iter().map(|instance| instance.count).collect();
        Mark { bytes: self.bytes.len(), offsets: self.offsets.len(), counts }
    }

    /// Remove everything that was added after `mark`.
    pub(crate) fn go_back(&mut self, mark: &Mark) {
        self.bytes.truncate(mark.bytes);
        self.offsets.truncate(mark.offsets);
        self.instances.truncate(mark.counts.len());
        self.instances.iter_mut().zip(&mark.counts).for_each(|(instance, count)| instance.count = *count);
    }
}

/// Tag of a null pointer.
pub(crate) const NULL_TAG: u8 = u8::MAX;
/// Maximum number of classes that the pointers in one slot refer to.
pub(crate) const INSTANCES_MAX: usize = 100;

/// Append empty slots. Slots with offsets start with the offset 0.
pub(crate) fn add_slots(slots: &mut Vec<Slot>, has_offsets: &[bool]) {
    slots.extend(
        has_offsets
            .iter()
            .map(|has_offsets| Slot { offsets: if *has_offsets { vec![0] } else { Vec::new() }, ..Slot::default() }),
    );
}

/// Maximum memory to reserve for a basket, as a multiple of the basket's data size.
const ROOM_FACTOR_MAX: usize = 16;

impl ClassProgram {
    /// Reserve the memory that the last basket needed, unless that exceeds the limit for `data_bytes` bytes of data.
    pub(crate) fn make_room(&self, slots: &mut [Slot], data_bytes: usize) {
        let room = self.room();
        let sum: usize = room.iter().map(|(bytes, offsets)| bytes + offsets * size_of::<i64>()).sum();
        if sum <= data_bytes.saturating_mul(ROOM_FACTOR_MAX) {
            for (slot, (bytes, offsets)) in slots.iter_mut().zip(room.iter()) {
                slot.bytes.reserve(*bytes);
                slot.offsets.reserve(*offsets);
            }
        }
    }

    /// Remember how much memory the slots needed.
    pub(crate) fn remember(&self, slots: &[Slot]) {
        let used = slots.iter().take(self.has_offsets.len()).map(|slot| (slot.bytes.len(), slot.offsets.len()));
        *self.room() = used.collect();
    }
}
