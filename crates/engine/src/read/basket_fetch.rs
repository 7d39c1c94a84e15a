//! From the baskets of a TTree that a chunk needs to their bytes in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use branchline_format::tree::{Basket, Place, TTree};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::limits;
use crate::read::basket_source::{BasketSource, Carried};
use crate::read::chunk::Chunk;
use crate::read::needed::Needed;
use crate::read::range_fetch::{read_joined, read_together};
use crate::read::room::Room;

/// The bytes of these baskets, in their order. Baskets that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left there are not fetched again.
pub(crate) fn fetch_baskets(
    chunk: &Chunk,
    meta: &TTree,
    needed: &[Needed],
    before: &Carried,
    carried: &mut Carried,
    room: Room<'_>,
) -> Result<Vec<BasketSource>> {
    let known = |one: &Needed| before.get(chunk.columns[one.column], one.basket);
    let fresh: Vec<Needed> = needed.iter().filter(|one| known(one).is_none()).copied().collect();
    let mut fetched = fetch(chunk, meta, &fresh, room)?.into_iter();
    let missing = || ReadError::internal(chunk.tree.file().path(), "a basket was not fetched");
    let mut sources = Vec::with_capacity(needed.len());
    for one in needed {
        let (branch, index) = (chunk.columns[one.column], one.basket);
        let goes_on = chunk.tree.basket_entries(branch, index).end > chunk.entries.end;
        sources.push(match known(one) {
            Some(kept) => {
                if goes_on {
                    carried.keep_on(branch, index, kept);
                }
                kept.source.clone()
            }
            None => {
                let source = fetched.next().ok_or_else(missing)?;
                let is_held = || chunk.tree.fetched_bytes(branch, index, &chunk.entries) == 0;
                if goes_on {
                    carried.keep(branch, index, source, is_held())
                } else {
                    source
                }
            }
        });
    }
    Ok(sources)
}

/// The bytes of these baskets, in their order.
fn fetch(chunk: &Chunk, meta: &TTree, needed: &[Needed], room: Room<'_>) -> Result<Vec<BasketSource>> {
    let file = chunk.tree.file();
    let mut sources: Vec<Option<BasketSource>> = Vec::with_capacity(needed.len());
    // By file: a branch may have its baskets in another one.
    let mut wanted: BTreeMap<&str, (Vec<usize>, Vec<ByteRange>)> = BTreeMap::new();
    for (position, one) in needed.iter().enumerate() {
        let index = chunk.columns[one.column];
        let branch = &meta.branches[index];
        sources.push(match &branch.baskets[one.basket].place {
            Place::Embedded(basket) => Some(BasketSource::Embedded(Arc::clone(basket))),
            Place::File { seek, size } => match chunk.tree.home(index).held(*seek, *size) {
                Some(bytes) => Some(BasketSource::Record(bytes)),
                None => {
                    let (positions, ranges) = wanted.entry(&branch.file_name).or_default();
                    positions.push(position);
                    ranges.push(ByteRange::new(*seek, *size));
                    None
                }
            },
        });
    }
    for (positions, ranges) in wanted.into_values() {
        let home = chunk.tree.home(chunk.columns[needed[positions[0]].column]);
        let first_entry = |position: usize| {
            let one = &needed[position];
            chunk.tree.basket_entries(chunk.columns[one.column], one.basket).start
        };
        for (position, bytes) in
            read_in_order(home, positions, &ranges, &first_entry, &|| first_baskets_beside(chunk, meta), room)?
        {
            sources[position] = Some(BasketSource::Record(bytes));
        }
    }
    let missing = || ReadError::internal(file.path(), "a basket was not fetched");
    sources.into_iter().map(|source| source.ok_or_else(missing)).collect()
}

/// The bytes of these baskets in the order in which the file's access reads them, each with its position. With the access
/// `cache` the first ones are read together with what is there `beside` them, as nobody knows yet what will be wanted.
fn read_in_order(
    file: &Arc<File>,
    positions: Vec<usize>,
    ranges: &[ByteRange],
    first_entry: &dyn Fn(usize) -> u64,
    beside: &dyn Fn() -> Vec<ByteRange>,
    room: Room<'_>,
) -> Result<Vec<(usize, Bytes)>> {
    let mut wanted: Vec<(usize, ByteRange)> = positions.into_iter().zip(ranges.iter().copied()).collect();
    let mut read = Vec::with_capacity(wanted.len());
    if file.strategy().reads_records_alone() {
        wanted.sort_by_key(|(position, _)| first_entry(*position));
    }
    if let Some(cache_bytes) = file.strategy().learning_cache_bytes() {
        if wanted.iter().all(|(position, _)| first_entry(*position) >= limits::LEARN_ENTRIES) {
            file.learned().end();
        }
        let first = wanted.partition_point(|(position, _)| first_entry(*position) < limits::LEARN_ENTRIES);
        let ranges: Vec<ByteRange> = wanted[..first].iter().map(|(_, range)| *range).collect();
        read.extend(read_first_entries(file, cache_bytes, &ranges, beside, room)?);
    }
    let rest: Vec<ByteRange> = wanted[read.len()..].iter().map(|(_, range)| *range).collect();
    read.extend(read_joined(file, &rest, room)?);
    Ok(wanted.into_iter().map(|(position, _)| position).zip(read).collect())
}

/// The bytes of baskets with first entries: from the cache, which at the first time is filled with those `beside` them,
/// too. Without room there for all of them each is read by itself until the branches are known.
fn read_first_entries(
    file: &Arc<File>,
    cache_bytes: u64,
    wanted: &[ByteRange],
    beside: &dyn Fn() -> Vec<ByteRange>,
    room: Room<'_>,
) -> Result<Vec<Bytes>> {
    if !wanted.is_empty() && file.learned().is_due() {
        let mut all = wanted.to_vec();
        all.extend(beside());
        if all.iter().map(|range| range.length).fold(0, u64::saturating_add) <= cache_bytes {
            // The cache comes on top of what chunks may take, as it outlives them.
            file.learned().keep(&all, &read_joined(file, &all, Room::Free)?);
        }
    }
    let mut read = Vec::with_capacity(wanted.len());
    for range in wanted {
        match file.learned().find(*range) {
            Some(bytes) => read.push(bytes),
            None => read.extend(read_together(file, &[*range], room)?),
        }
    }
    Ok(read)
}

/// The baskets with the first entries of those branches of a chunk's tree that the chunk has not, in its own file.
fn first_baskets_beside(chunk: &Chunk, meta: &TTree) -> Vec<ByteRange> {
    let others = (0..meta.branches.len()).filter(|index| !chunk.columns.contains(index));
    let branches = others.map(|index| &meta.branches[index]).filter(|branch| branch.file_name.is_empty());
    let baskets = branches.flat_map(|branch| &branch.baskets);
    let first = baskets.filter(|basket| basket.entry_start < limits::LEARN_ENTRIES);
    let range = |basket: &Basket| match basket.place {
        Place::File { seek, size } => Some(ByteRange::new(seek, size)),
        Place::Embedded(_) => None,
    };
    first.filter_map(range).collect()
}
