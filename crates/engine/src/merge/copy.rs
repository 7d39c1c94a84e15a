//! Copies the baskets of a file behind what was written already.

use branchline_format::cursor::Cursor;
use branchline_format::error::FormatError;
use branchline_format::tree::embedded::read_basket_head;
use branchline_format::tree::Place;
use branchline_format::write::file::BEGIN;
use branchline_format::write::move_record;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, RangeRead};
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::limits;
use crate::read_buffers;

use super::input::Input;
use super::output::Output;
use super::Order;

/// A basket to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) branch: usize,
    pub(crate) basket: usize,
    entry_start: u64,
    pub(crate) entries_count: u64,
    seek: u64,
    size: u64,
}

/// A basket in the output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Laid {
    /// Where its record lies.
    pub(crate) seek: u64,
    /// Bytes of its record.
    pub(crate) size: u64,
}

/// Copies all baskets of an input. `copied` is told how many bytes were, and may end the merge.
pub(super) fn copy_baskets(
    input: &Input,
    order: Order,
    output: &mut Output,
    copied: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Vec<Vec<Laid>>> {
    let mut laid = none_laid(input);
    for_bundles(input, order, |bundle, records| {
        let mut joined = Vec::with_capacity(records.iter().map(Bytes::len).sum());
        for (basket, record) in bundle.iter().zip(records) {
            let start = joined.len();
            joined.extend_from_slice(&record);
            let seek = output.end() + start as u64;
            moved(basket, &mut joined[start..], seek).map_err(|error| about(input, basket, error))?;
            laid[basket.branch][basket.basket] = Laid { seek, size: record.len() as u64 };
        }
        output.write(&joined)?;
        copied(joined.len() as u64)
    })?;
    Ok(laid)
}

/// Room for where the baskets of each branch will lie.
pub(crate) fn none_laid(input: &Input) -> Vec<Vec<Laid>> {
    input.tree.branches.iter().map(|branch| vec![Laid::default(); branch.baskets.len()]).collect()
}

/// Reads all baskets of an input in the order in which they are to lie, by bundles of a bounded size.
pub(crate) fn for_bundles(
    input: &Input,
    order: Order,
    mut visit: impl FnMut(&[Wanted], Vec<Bytes>) -> Result<()>,
) -> Result<()> {
    let baskets = in_order(input, order);
    let mut rest = baskets.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let bundle = rest.iter().take_while(|basket| {
            let is_first = bytes == 0;
            bytes += basket.size;
            is_first || bytes <= limits::COPIED_AT_ONCE_BYTES
        });
        let (bundle, after) = rest.split_at(bundle.count());
        visit(bundle, read(input, bundle)?)?;
        rest = after;
    }
    Ok(())
}

/// An error of a basket of an input.
pub(crate) fn about(input: &Input, basket: &Wanted, error: FormatError) -> ReadError {
    let name = format!("branch {}: basket {}", input.tree.branches[basket.branch].path, basket.basket);
    ReadError::from_format(input.file.path(), &error.in_object(name))
}

fn in_order(input: &Input, order: Order) -> Vec<Wanted> {
    let mut baskets = Vec::new();
    for (branch, about) in input.tree.branches.iter().enumerate() {
        for (basket, one) in about.baskets.iter().enumerate() {
            let Place::File { seek, size } = one.place else { continue };
            let (entry_start, entries_count) = (one.entry_start, one.entry_stop - one.entry_start);
            baskets.push(Wanted { branch, basket, entry_start, entries_count, seek, size });
        }
    }
    match order {
        Order::Offset => baskets.sort_by_key(|basket| basket.seek),
        Order::Branch => {}
        Order::Entry => baskets.sort_by_key(|basket| (basket.entry_start, basket.branch)),
    }
    baskets
}

/// The records of these baskets.
fn read(input: &Input, baskets: &[Wanted]) -> Result<Vec<Bytes>> {
    let mut records: Vec<Option<Bytes>> =
        baskets.iter().map(|basket| input.file.held(basket.seek, basket.size)).collect();
    let missing: Vec<usize> = (0..baskets.len()).filter(|index| records[*index].is_none()).collect();
    let wanted: Vec<ByteRange> =
        missing.iter().map(|index| ByteRange::new(baskets[*index].seek, baskets[*index].size)).collect();
    if !wanted.is_empty() {
        let plan = coalesce(&wanted, input.file.gap_bytes(), MAX_JOINED_BYTES);
        let mut reads: Vec<RangeRead> = plan.ranges.iter().map(|range| read_buffers::read_of(*range)).collect();
        input.file.read_ranges(&mut reads)?;
        let joined: Vec<Bytes> = reads.into_iter().map(|read| read_buffers::share(read, None)).collect();
        for (index, place) in missing.into_iter().zip(&plan.placements) {
            let start = place.offset as usize;
            records[index] = Some(joined[place.range].slice(start..start + place.length as usize));
        }
    }
    Ok(records.into_iter().flatten().collect())
}

/// Checks that a record is the basket that the tree says, and says in it where it lies now.
fn moved(basket: &Wanted, record: &mut [u8], seek: u64) -> std::result::Result<(), FormatError> {
    let (key, head) = read_basket_head(&mut Cursor::new(record))?;
    if key.size != basket.size || head.entries_count as u64 != basket.entries_count {
        let message = format!(
            "a record of {} bytes with {} entries lies at {}, where the tree has {} bytes with {}",
            key.size, head.entries_count, basket.seek, basket.size, basket.entries_count
        );
        return Err(FormatError::damaged(basket.seek, message));
    }
    move_record(record, seek, BEGIN)
}
