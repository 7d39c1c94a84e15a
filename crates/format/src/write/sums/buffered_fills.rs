//! Entries that a histogram keeps in its buffer (TH1::fBuffer) until its axes have limits.

use crate::write::object::numbers::Numbers;

/// Entries of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fills {
    /// Of each its weight, its coordinates and, in a profile, its value.
    pub(crate) values: Vec<f64>,
    pub(crate) dimensions: usize,
    pub(crate) is_profile: bool,
    /// Numbers that the buffer has room for (TH1::fBufferSize).
    pub(crate) room: usize,
}

impl Fills {
    /// Numbers of an entry.
    pub(crate) fn width(&self) -> usize {
        1 + self.dimensions + usize::from(self.is_profile)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width()
    }

    /// Entries that the buffer has room for.
    pub(crate) fn held_max(&self) -> usize {
        self.room.saturating_sub(1) / self.width()
    }

    /// The numbers of each.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width())
    }

    /// The smallest and the largest of a coordinate among the first `count` entries.
    pub(crate) fn range(&self, coordinate: usize, count: usize) -> (f64, f64) {
        let finite = self.entries().take(count).map(|entry| entry[1 + coordinate]).filter(|value| value.is_finite());
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// TH1::fBuffer and its size.
    pub(crate) fn stored(&self) -> (Numbers, f64) {
        let mut buffer = vec![self.len() as f64];
        buffer.extend(&self.values);
        buffer.resize(self.room.max(buffer.len()), 0.0);
        let size = buffer.len() as f64;
        (Numbers::F64(buffer.into()), size)
    }
}
