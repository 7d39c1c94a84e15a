//! Reads many ranges of a file in few requests.

use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, RangeRead};
use bytes::Bytes;

use crate::error::Result;
use crate::file::File;
use crate::memory::buffers;

/// Returns the bytes of these ranges. Ranges that are in memory are not read again. Nearby ranges are coalesced.
pub(crate) fn read_ranges(file: &File, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
    let mut parts: Vec<Option<Bytes>> = ranges.iter().map(|range| file.loaded(range.offset, range.length)).collect();
    let missing: Vec<usize> = (0..ranges.len()).filter(|index| parts[*index].is_none()).collect();
    let wanted: Vec<ByteRange> = missing.iter().map(|index| ranges[*index]).collect();
    if !wanted.is_empty() {
        let plan = coalesce(&wanted, file.gap_bytes(), MAX_JOINED_BYTES);
        let mut reads: Vec<RangeRead> = plan.ranges.iter().map(|range| buffers::read_of(*range)).collect();
        file.read_ranges(&mut reads)?;
        let joined: Vec<Bytes> = reads.into_iter().map(|read| buffers::share(read, None)).collect();
        for (index, place) in missing.into_iter().zip(&plan.placements) {
            let start = place.offset as usize;
            parts[index] = Some(joined[place.range].slice(start..start + place.length as usize));
        }
    }
    Ok(parts.into_iter().flatten().collect())
}
