//! From the baskets that a chunk needs to bytes in memory: what is not held is planned, joined and read.

use std::sync::Arc;

use bytes::Bytes;

use branchline_format::tree::Place;
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, ByteRange, Placement, RangeRead};
use branchline_trace::Counter;

use crate::basket_source::{BasketSource, Carried};
use crate::chunk::Chunk;
use crate::error::{ReadError, ReadErrorKind, Result};
use crate::page_fetch::fetch_pages;
use crate::read_buffers;
use crate::tree::Content;

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

/// The bytes of these baskets, in their order. Baskets that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left there are not fetched again.
pub(crate) fn fetch_carrying(chunk: &Chunk, needed: &[Needed], carried: &mut Carried) -> Result<Vec<BasketSource>> {
    let before = carried.take();
    if let Content::Ntuple(ntuple) = chunk.tree.content() {
        return fetch_pages(chunk, ntuple, needed, &before, carried);
    }
    let place = |one: &Needed| (chunk.columns[one.column], one.basket);
    let known = |one: &Needed| before.get(place(one).0, one.basket);
    let fresh: Vec<Needed> = needed.iter().filter(|one| known(one).is_none()).copied().collect();
    let mut fetched = fetch(chunk, &fresh)?.into_iter();
    let missing = || ReadError::new(ReadErrorKind::Internal, chunk.tree.file().path(), "a basket was not fetched");
    let mut sources = Vec::with_capacity(needed.len());
    for one in needed {
        let (branch, index) = place(one);
        let source = known(one).or_else(|| fetched.next()).ok_or_else(missing)?;
        let goes_on = chunk.tree.basket_entries(branch, index).end > chunk.entries.end;
        sources.push(if goes_on { carried.keep(branch, index, source) } else { source });
    }
    Ok(sources)
}

/// The bytes of these baskets, in their order.
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed]) -> Result<Vec<BasketSource>> {
    let file = chunk.tree.file();
    let meta = match chunk.tree.content() {
        Content::Tree { meta, .. } => meta,
        Content::Ntuple(ntuple) => return fetch_pages(chunk, ntuple, needed, &Carried::new(0), &mut Carried::new(0)),
    };
    let mut sources: Vec<Option<BasketSource>> = Vec::with_capacity(needed.len());
    let mut wanted = Vec::new();
    for one in needed {
        let basket = &meta.branches[chunk.columns[one.column]].baskets[one.basket];
        sources.push(match &basket.place {
            Place::Embedded(basket) => Some(BasketSource::Embedded(Arc::clone(basket))),
            Place::File { seek, size } => match file.held(*seek, *size) {
                Some(bytes) => Some(BasketSource::Record(bytes)),
                None => {
                    wanted.push(ByteRange::new(*seek, *size));
                    None
                }
            },
        });
    }
    let mut read = read_joined(chunk, &wanted)?.into_iter().map(BasketSource::Record);
    let missing = || ReadError::new(ReadErrorKind::Internal, file.path(), "a basket was not fetched");
    sources.into_iter().map(|source| source.or_else(|| read.next()).ok_or_else(missing)).collect()
}

/// The bytes of these ranges; near ones are read together.
pub(crate) fn read_joined(chunk: &Chunk, wanted: &[ByteRange]) -> Result<Vec<Bytes>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let file = chunk.tree.file();
    let plan = coalesce(wanted, file.gap_bytes(), MAX_JOINED_BYTES);
    file.counters().add(Counter::GapBytes, plan.gap_bytes);
    let mut reads: Vec<RangeRead> = plan.ranges.iter().copied().map(read_buffers::read_of).collect();
    file.read_ranges(&mut reads)?;
    let joined: Vec<Bytes> = reads.into_iter().map(read_buffers::share).collect();
    let source = |place: &Placement| {
        let start = place.offset as usize;
        joined[place.range].slice(start..start + place.length as usize)
    };
    Ok(plan.placements.iter().map(source).collect())
}
