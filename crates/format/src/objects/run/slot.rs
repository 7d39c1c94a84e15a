//! The growing buffers that a program fills.

use std::sync::Arc;

use crate::layout::program::ClassProgram;

/// A growing buffer: of numbers or letters, of offsets, or of both for strings. A slot of pointers has a tag for each,
/// which says which of the instances it belongs to.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offsets: Vec<i64>,
    pub(crate) instances: Vec<Instance>,
}

/// The objects of one class that pointers of one slot point to.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) class: Arc<ClassProgram>,
    /// Number of the first of its slots.
    pub(crate) base: usize,
    /// Objects so far.
    pub(crate) count: usize,
}

/// How full a slot is, to go back to.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    bytes: usize,
    offsets: usize,
    /// Objects of each instance.
    counts: Vec<usize>,
}

impl Slot {
    /// How full it is now.
    pub(crate) fn mark(&self) -> Mark {
        let counts = self.instances.iter().map(|instance| instance.count).collect();
        Mark { bytes: self.bytes.len(), offsets: self.offsets.len(), counts }
    }

    /// Takes out what was added since.
    pub(crate) fn go_back(&mut self, mark: &Mark) {
        self.bytes.truncate(mark.bytes);
        self.offsets.truncate(mark.offsets);
        self.instances.truncate(mark.counts.len());
        self.instances.iter_mut().zip(&mark.counts).for_each(|(instance, count)| instance.count = *count);
    }
}

/// The tag of a null pointer.
pub(crate) const NULL_TAG: u8 = u8::MAX;
/// Limit of the classes of objects in one column.
pub(crate) const INSTANCES_MAX: usize = 100;

/// Adds empty slots; those with offsets begin at 0.
pub(crate) fn add_slots(slots: &mut Vec<Slot>, has_offsets: &[bool]) {
    slots.extend(
        has_offsets
            .iter()
            .map(|has_offsets| Slot { offsets: if *has_offsets { vec![0] } else { Vec::new() }, ..Slot::default() }),
    );
}

/// The largest memory that is reserved for a basket, in multiples of its bytes.
const ROOM_FACTOR_MAX: usize = 16;

impl ClassProgram {
    /// Reserves what the last basket needed, for data of `data_bytes` bytes.
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

    /// Keeps how much room was needed.
    pub(crate) fn remember(&self, slots: &[Slot]) {
        let used = slots.iter().take(self.has_offsets.len()).map(|slot| (slot.bytes.len(), slot.offsets.len()));
        *self.room() = used.collect();
    }
}
