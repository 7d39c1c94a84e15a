//! Joins nearby ranges before reading, so that fewer requests are needed. No I/O.

use std::cmp::Reverse;

use crate::ByteRange;

/// The ranges to read, and the location of each requested range within them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The ranges to read, ordered by offset.
    pub ranges: Vec<ByteRange>,
    /// The location of every requested range within the joined ranges, in the requested order.
    pub placements: Vec<Placement>,
    /// Number of bytes that are read only because ranges were joined across gaps.
    pub gap_bytes: u64,
}

/// Location of a requested range within the joined ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Index of the joined range that contains the requested range.
    pub range: usize,
    /// Offset of the requested range within the joined range.
    pub offset: u64,
    /// Length of the requested range.
    pub length: u64,
}

/// Joins ranges that overlap or lie at most `gap_bytes` apart into ranges of at most `max_bytes`.
///
/// The ranges may come in any order, overlap, repeat, or be empty. A range longer than `max_bytes` is kept whole, and
/// absorbs only ranges inside it. Overlapping ranges stay separate where joining them would exceed `max_bytes`; the
/// overlapping bytes are then read twice.
pub fn coalesce(wanted: &[ByteRange], gap_bytes: u64, max_bytes: u64) -> Plan {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    // Among ranges that start at the same offset, the longest comes first, because it contains the others.
    order.sort_by_key(|&index| (wanted[index].offset, Reverse(wanted[index].length)));

    let mut plan = Plan {
        ranges: Vec::new(),
        placements: vec![Placement { range: 0, offset: 0, length: 0 }; wanted.len()],
        gap_bytes: 0,
    };
    for index in order {
        let next = wanted[index];
        match plan.ranges.last_mut().and_then(|last| join(last, next, gap_bytes, max_bytes)) {
            Some(gap) => plan.gap_bytes = plan.gap_bytes.saturating_add(gap),
            None => plan.ranges.push(next),
        }
        let range = plan.ranges.len() - 1;
        let offset = next.offset - plan.ranges[range].offset;
        plan.placements[index] = Placement { range, offset, length: next.length };
    }
    plan
}

/// Extends `last` to include `next`, and returns the gap between the two ranges; returns `None` if the ranges must stay
/// separate. `next` must not start before `last`.
fn join(last: &mut ByteRange, next: ByteRange, gap_bytes: u64, max_bytes: u64) -> Option<u64> {
    // The end of a range may exceed 2^64 if a file contains wrong offsets.
    let start = u128::from(next.offset);
    let last_end = u128::from(last.offset) + u128::from(last.length);
    let next_end = start + u128::from(next.length);
    if next_end <= last_end {
        return Some(0);
    }
    let gap = u64::try_from(start.saturating_sub(last_end)).ok().filter(|gap| *gap <= gap_bytes)?;
    let joined = u64::try_from(next_end - u128::from(last.offset)).ok().filter(|joined| *joined <= max_bytes)?;
    last.length = joined;
    Some(gap)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
