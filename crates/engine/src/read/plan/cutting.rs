//! Splits the entries of a tree into chunks. The functions are pure.

use std::ops::Range;

use crate::limits;

/// Determines where chunks end.
pub(crate) struct Cutting {
    /// Maximum number of entries in a chunk.
    pub(crate) step: u64,
    /// Entries at which all columns begin a basket, sorted. A chunk ends at the last of these entries that is within
    /// `step`.
    pub(crate) boundaries: Vec<u64>,
    /// Entries at which a chunk must end, sorted.
    pub(crate) ends: Vec<u64>,
}

/// Returns the maximum number of entries in a chunk. A step given in entries is never changed, because the chunk
/// boundaries of a job must not depend on which columns a stream reads.
pub(crate) fn step_of(step_entries: Option<u64>, step_bytes: u64, plain_per_entry: f64, by_memory: u64) -> u64 {
    let by_bytes = ((step_bytes as f64 / plain_per_entry.max(1e-9)) as u64).min(by_memory);
    step_entries.unwrap_or(by_bytes).max(limits::CHUNK_ENTRIES_MIN)
}

/// Returns the chunk length that splits `entries` into equal chunks of about `step` entries. The number of chunks is
/// `entries / step`, rounded as in Python (as for coffea's `chunksize`).
pub(crate) fn even_step(step: u64, entries: u64) -> u64 {
    let chunks = (entries as f64 / step.max(1) as f64).round_ties_even().max(1.0);
    entries.div_ceil(chunks as u64).max(limits::CHUNK_ENTRIES_MIN)
}

impl Cutting {
    /// Returns an iterator over the chunks of these entries. The iterator is lazy, because a damaged file may claim so
    /// many entries that a list of chunks would not fit in memory.
    pub(crate) fn chunks(self, entries: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let Self { step, boundaries, ends } = self;
        let mut start = entries.start;
        std::iter::from_fn(move || {
            if start >= entries.end {
                return None;
            }
            let furthest = start.saturating_add(step).min(entries.end);
            let last = boundaries.partition_point(|boundary| *boundary <= furthest);
            let stop = match boundaries[..last].last() {
                Some(boundary) if *boundary > start && furthest < entries.end => *boundary,
                _ => furthest,
            };
            let next_end = ends.get(ends.partition_point(|end| *end <= start));
            let chunk = start..next_end.map_or(stop, |end| stop.min(*end));
            start = chunk.end;
            Some(chunk)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(step: u64, boundaries: &[u64], ends: &[u64]) -> Vec<Range<u64>> {
        Cutting { step, boundaries: boundaries.to_vec(), ends: ends.to_vec() }.chunks(0..100).collect()
    }

    #[test]
    fn chunks_end_at_common_boundaries_where_they_reach_one() {
        assert_eq!(chunks(40, &[], &[]), [0..40, 40..80, 80..100]);
        assert_eq!(chunks(40, &[0, 30, 60, 90, 100], &[]), [0..30, 30..60, 60..100]);
        assert_eq!(chunks(40, &[0, 95, 100], &[]), [0..40, 40..80, 80..100]);
        assert_eq!(chunks(60, &[], &[25, 50]), [0..25, 25..50, 50..100]);
    }

    #[test]
    fn even_steps_round_the_number_of_chunks_as_python_does() {
        assert_eq!(even_step(40, 100), 50, "2.5 chunks are 2");
        assert_eq!(even_step(40, 140), 35, "3.5 chunks are 4");
        assert_eq!(even_step(300, 1000), 334);
        assert_eq!(even_step(1000, 100), 100);
        assert_eq!(even_step(1000, 0), 1);
    }

    #[test]
    fn a_step_in_entries_is_kept_to() {
        assert_eq!(step_of(Some(7), 1000, 1.0, 3), 7);
        assert_eq!(step_of(None, 1000, 10.0, 1 << 40), 100);
        assert_eq!(step_of(None, 1000, 10.0, 5), 5);
    }
}
