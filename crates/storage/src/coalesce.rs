//! Joining near ranges before they are read: a pure function.

use std::cmp::Reverse;

use crate::ByteRange;

/// The ranges to read instead of the wanted ones, and where in them each wanted one lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The ranges to read, ordered by offset.
    pub ranges: Vec<ByteRange>,
    /// A place for every wanted range, in the given order.
    pub placements: Vec<Placement>,
    /// Bytes that are read only because ranges were joined across gaps.
    pub gap_bytes: u64,
}

/// Where the bytes of a wanted range are once the joined ranges are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Index of the joined range.
    pub range: usize,
    /// Offset inside it.
    pub offset: u64,
    /// The wanted length.
    pub length: u64,
}

/// Joins wanted ranges that overlap or lie at most `gap_bytes` apart into ranges of at most `max_bytes`.
///
/// The wanted ranges may come in any order, overlap, repeat, or be empty. A range longer than `max_bytes` is kept
/// whole; shorter ones are joined with it only where they lie inside it. Where joining overlapping ranges would
/// exceed `max_bytes` they stay apart, and the shared bytes are read twice.
pub fn coalesce(wanted: &[ByteRange], gap_bytes: u64, max_bytes: u64) -> Plan {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    // Among ranges with one start the longest comes first, so that the others lie inside it.
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

/// Extends `last` to hold `next` too, which does not start before it, and returns the gap between them; `None` if
/// they have to stay apart.
fn join(last: &mut ByteRange, next: ByteRange, gap_bytes: u64, max_bytes: u64) -> Option<u64> {
    // Ends may lie behind 2^64 when a file lies about its offsets.
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
