//! Entries that a histogram keeps in a buffer (TH1::fBuffer) until its axes have limits.

use crate::write::object::numbers::Numbers;

/// Buffered entries of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fills {
    /// For each entry, the weight, the coordinates and, for a profile, the value.
    pub(crate) values: Vec<f64>,
    pub(crate) dimensions: usize,
    pub(crate) is_profile: bool,
    /// Maximum number of doubles in the buffer (TH1::fBufferSize).
    pub(crate) room: usize,
}

impl Fills {
    /// Number of doubles per entry.
    pub(crate) fn width(&self) -> usize {
        1 + self.dimensions + usize::from(self.is_profile)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width()
    }

    /// Maximum number of entries in the buffer.
    pub(crate) fn held_max(&self) -> usize {
        self.room.saturating_sub(1) / self.width()
    }

    /// Iterate over the entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width())
    }

    /// Minimum and maximum of one coordinate of the first `count` entries.
    pub(crate) fn range(&self, coordinate: usize, count: usize) -> (f64, f64) {
        let finite = self.entries().take(count).map(|entry| entry[1 + coordinate]).filter(|value| value.is_finite());
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The contents and the size of TH1::fBuffer.
    pub(crate) fn stored(&self) -> (Numbers, f64) {
        let mut buffer = vec![self.len() as f64];
        buffer.extend(&self.values);
        buffer.resize(self.room.max(buffer.len()), 0.0);
        let size = buffer.len() as f64;
        (Numbers::F64(buffer.into()), size)
    }
}
