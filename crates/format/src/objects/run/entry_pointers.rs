//! Targets of the pointers in an entry: classes by the tag that named them, objects by their position.

use std::sync::Arc;

use crate::layout::program::ClassProgram;
use crate::layout::steps::Step;

/// Maximum number of bytes to read again, as a multiple of the entry size. An object is read once for each pointer to
/// it.
const READ_AGAIN_FACTOR_MAX: usize = 256;

/// A class of objects that pointers refer to.
#[derive(Debug, Clone)]
pub(super) struct KnownClass {
    pub(super) class: Arc<ClassProgram>,
    pub(super) steps: Arc<Vec<Step>>,
}

/// Possible targets of the pointers in an entry.
#[derive(Debug, Default)]
pub(super) struct EntryPointers {
    /// Classes named so far, each with the reference by which later tags refer to it.
    pub(super) classes: Vec<(u64, KnownClass)>,
    /// Start positions of the objects that are currently being read.
    pub(super) open: Vec<usize>,
    /// Number of bytes that may still be read again.
    pub(super) read_again_max: usize,
    /// Positions of references to classes and objects in all entries read so far; None unless requested.
    pub(super) references: Option<Vec<u32>>,
}

impl EntryPointers {
    /// Record the position of a reference, if positions are requested.
    pub(super) fn refers_at(&mut self, place: usize) {
        if let Some(references) = &mut self.references {
            references.push(place as u32);
        }
    }

    /// Discard the targets of the previous entry.
    pub(super) fn begin(&mut self, entry_size: usize) {
        self.classes.clear();
        self.open.clear();
        self.read_again_max = entry_size.saturating_mul(READ_AGAIN_FACTOR_MAX);
    }
}
