//! Index of the cached parts of a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::segment::{Record, Segment};
use crate::ByteRange;

/// The cached parts of a file, ordered by offset. The parts do not overlap, and each part lies within one record.
#[derive(Debug, Default)]
pub(super) struct Content {
    parts: BTreeMap<u64, (u64, Arc<Record>)>,
}

/// A part of a range, with the record that contains the part, or None if the part is not cached.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) range: ByteRange,
    pub(super) record: Option<Arc<Record>>,
}

impl Content {
    /// Splits a range, which must end at or before 2^64, into cached and missing parts.
    pub(super) fn parts_of(&self, range: ByteRange) -> Vec<Part> {
        let end = range.offset + range.length;
        let mut parts = Vec::new();
        let mut at = range.offset;
        let before = self.parts.range(..=at).next_back().filter(|(start, (length, _))| *start + length > at);
        let from = before.map_or(at, |(start, _)| *start);
        for (start, (length, record)) in self.parts.range(from..) {
            if *start >= end {
                break;
            }
            if *start > at {
                parts.push(Part { range: ByteRange::new(at, start - at), record: None });
                at = *start;
            }
            let stop = (start + length).min(end);
            parts.push(Part { range: ByteRange::new(at, stop - at), record: Some(Arc::clone(record)) });
            at = stop;
        }
        if at < end {
            parts.push(Part { range: ByteRange::new(at, end - at), record: None });
        }
        parts
    }

    /// Adds a record, except for the parts that are already cached.
    pub(super) fn add(&mut self, record: Record) {
        let record = Arc::new(record);
        for part in self.parts_of(record.range) {
            if part.record.is_none() {
                self.parts.insert(part.range.offset, (part.range.length, Arc::clone(&record)));
            }
        }
    }

    /// Removes all records of a segment.
    pub(super) fn forget(&mut self, segment: &Arc<Segment>) {
        self.parts.retain(|_, (_, record)| !Arc::ptr_eq(&record.segment, segment));
    }
}
