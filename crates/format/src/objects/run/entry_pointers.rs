//! What pointers in an entry may refer to: classes by the tags that named them, objects by their places.

use std::sync::Arc;

use crate::layout::program::ClassProgram;
use crate::layout::steps::Step;

/// An object that several pointers lead to is read for each, up to this many times the bytes of the entry.
const READ_AGAIN_FACTOR_MAX: usize = 256;

/// A class that objects behind pointers had.
#[derive(Debug, Clone)]
pub(super) struct KnownClass {
    pub(super) class: Arc<ClassProgram>,
    pub(super) steps: Arc<Vec<Step>>,
}

/// What the pointers of an entry may refer to.
#[derive(Debug, Default)]
pub(super) struct EntryPointers {
    /// Classes by the number of the tag that named them.
    pub(super) classes: Vec<(u64, KnownClass)>,
    /// Places of the objects that are being read.
    pub(super) open: Vec<usize>,
    /// Bytes that may be read again.
    pub(super) read_again_max: usize,
    /// Places of references to classes and objects, of all entries so far, where these are wanted.
    pub(super) references: Option<Vec<u32>>,
}

impl EntryPointers {
    /// Takes note of a reference at this place.
    pub(super) fn refers_at(&mut self, place: usize) {
        if let Some(references) = &mut self.references {
            references.push(place as u32);
        }
    }

    /// Forgets the entry before.
    pub(super) fn begin(&mut self, entry_size: usize) {
        self.classes.clear();
        self.open.clear();
        self.read_again_max = entry_size.saturating_mul(READ_AGAIN_FACTOR_MAX);
    }
}
