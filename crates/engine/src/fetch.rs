//! From the baskets that a chunk needs to bytes in memory: what is not held is planned, joined and read.

use std::sync::Arc;

use branchline_format::tree::Place;
use branchline_storage::limits::{LOCAL_GAP_BYTES, MAX_JOINED_BYTES};
use branchline_storage::{coalesce, ByteRange, RangeRead};
use branchline_trace::Counter;

use crate::basket_source::BasketSource;
use crate::chunk::Chunk;
use crate::error::{ReadError, ReadErrorKind, Result};

/// A basket that a chunk needs: its column in the chunk and its index in the branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    pub(crate) column: usize,
    pub(crate) basket: usize,
}

/// The baskets of a chunk, column by column.
pub(crate) fn needed_baskets(chunk: &Chunk) -> Result<Vec<Needed>> {
    let mut needed = Vec::new();
    for (column, branch) in chunk.columns.iter().enumerate() {
        let baskets = chunk.tree.baskets_of(*branch, &chunk.entries)?;
        needed.extend(baskets.map(|basket| Needed { column, basket }));
    }
    Ok(needed)
}

/// The bytes of these baskets, in their order.
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed]) -> Result<Vec<BasketSource>> {
    let file = chunk.tree.file();
    let mut sources: Vec<Option<BasketSource>> = Vec::with_capacity(needed.len());
    let mut wanted = Vec::new();
    for one in needed {
        let basket = &chunk.tree.branch(chunk.columns[one.column]).baskets[one.basket];
        sources.push(match &basket.place {
            Place::Embedded(basket) => Some(BasketSource::Embedded(Arc::clone(basket))),
            Place::File { seek, size } => match file.held_piece(*seek, *size) {
                Some((bytes, start)) => Some(BasketSource::Record { bytes, start, size: *size as usize }),
                None => {
                    wanted.push(ByteRange::new(*seek, *size));
                    None
                }
            },
        });
    }
    let mut read = read_joined(chunk, &wanted)?.into_iter();
    let missing = || ReadError::new(ReadErrorKind::Internal, file.path(), "a basket was not fetched");
    sources.into_iter().map(|source| source.or_else(|| read.next()).ok_or_else(missing)).collect()
}

fn read_joined(chunk: &Chunk, wanted: &[ByteRange]) -> Result<Vec<BasketSource>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let file = chunk.tree.file();
    let plan = coalesce(wanted, LOCAL_GAP_BYTES, MAX_JOINED_BYTES);
    file.counters().add(Counter::GapBytes, plan.gap_bytes);
    let mut reads: Vec<RangeRead> = plan.ranges.iter().copied().map(RangeRead::new).collect();
    file.read_ranges(&mut reads)?;
    let joined: Vec<Arc<Vec<u8>>> = reads.into_iter().map(|read| Arc::new(read.bytes)).collect();
    let source = |place: &branchline_storage::Placement| BasketSource::Record {
        bytes: Arc::clone(&joined[place.range]),
        start: place.offset as usize,
        size: place.length as usize,
    };
    Ok(plan.placements.iter().map(source).collect())
}
