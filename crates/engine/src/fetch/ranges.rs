//! Reads byte ranges of a file. Some ranges may be prefetched. The remaining ranges are coalesced and read now.

use std::sync::Arc;

use bytes::Bytes;

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, Placement, Plan, RangeRead};
use branchline_trace::Counter;

use crate::error::{ReadError, Result};
use crate::fetch::prefetch::PendingRange;
use crate::fetch::room::Room;
use crate::file::File;
use crate::memory::budget::Lease;
use crate::memory::buffers::{buffer_bytes, read_of, share};

/// Returns the bytes of these ranges. The ranges are coalesced, and read in portions according to the file's strategy.
pub(crate) fn read_joined(file: &Arc<File>, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
    let Some(bytes_max) = file.strategy().bytes_together() else { return read_missing(file, wanted, room) };
    let mut read = Vec::with_capacity(wanted.len());
    for some in portions(wanted, bytes_max) {
        read.extend(read_together(file, some, room)?);
    }
    Ok(read)
}

/// Splits ranges into portions of at most this many bytes. A range that exceeds the maximum forms its own portion.
pub(crate) fn portions(wanted: &[ByteRange], bytes_max: u64) -> Vec<&[ByteRange]> {
    let mut portions = Vec::new();
    let mut left = wanted;
    while !left.is_empty() {
        let mut bytes = 0u64;
        let fits = |range: &&ByteRange| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(range.length.max(1));
            is_first || bytes <= bytes_max
        };
        let (some, rest) = left.split_at(left.iter().take_while(fits).count());
        portions.push(some);
        left = rest;
    }
    portions
}

/// Returns the bytes of these ranges. Some ranges may be prefetched.
fn read_missing(file: &Arc<File>, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
    let prefetched: Vec<Option<Arc<PendingRange>>> = wanted.iter().map(|range| room.prefetched(file, *range)).collect();
    let of = |is_wanted: &dyn Fn(usize) -> bool| -> Vec<ByteRange> {
        wanted.iter().enumerate().filter(|(index, _)| is_wanted(*index)).map(|(_, range)| *range).collect()
    };
    let mut read = read_together(file, &of(&|index| prefetched[index].is_none()), room)?.into_iter();
    let found: Vec<Option<Bytes>> = wanted
        .iter()
        .zip(&prefetched)
        .map(|(range, pending)| pending.as_ref().map_or_else(|| Ok(read.next()), |one| one.wait(*range)))
        .collect::<Result<_>>()?;
    // Ranges whose prefetch failed are read again here, so that the error is reported.
    let mut again = read_together(file, &of(&|index| found[index].is_none()), room)?.into_iter();
    let missing = || ReadError::internal(file.path(), "a range was not fetched");
    found.into_iter().map(|bytes| bytes.or_else(|| again.next()).ok_or_else(missing)).collect()
}

/// Reads these ranges now, coalesced.
pub(crate) fn read_together(file: &File, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let sizes = |plan: &Plan| -> Vec<u64> { plan.ranges.iter().map(|range| buffer_bytes(range.length)).collect() };
    let leased = |plan: &Plan| room.lease(sizes(plan).into_iter().fold(0, u64::saturating_add));
    let mut plan = coalesce(wanted, file.gap_bytes(), MAX_JOINED_BYTES);
    let mut leased_now = leased(&plan);
    if leased_now.is_err() && plan.gap_bytes > 0 {
        plan = coalesce(wanted, 0, MAX_JOINED_BYTES);
        leased_now = leased(&plan);
    }
    let mut lease = leased_now?;
    file.counters().add(Counter::GapBytes, plan.gap_bytes);
    let leases: Vec<Option<Lease>> =
        sizes(&plan).into_iter().map(|size| lease.as_mut().map(|lease| lease.split(size))).collect();
    let mut reads: Vec<RangeRead> = plan.ranges.iter().copied().map(read_of).collect();
    file.read_ranges(&mut reads)?;
    let joined: Vec<Bytes> = reads.into_iter().zip(leases).map(|(read, lease)| share(read, lease)).collect();
    let source = |place: &Placement| {
        let start = place.offset as usize;
        joined[place.range].slice(start..start + place.length as usize)
    };
    Ok(plan.placements.iter().map(source).collect())
}
