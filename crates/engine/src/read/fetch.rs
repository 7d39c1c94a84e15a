//! From the baskets that a chunk needs to bytes in memory: what is not held is planned, joined and read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use branchline_format::tree::{Basket, Place, TTree};
use branchline_storage::limits::MAX_JOINED_BYTES;
use branchline_storage::{coalesce, AccessMode, ByteRange, Placement, Plan, RangeRead};
use branchline_trace::Counter;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::limits;
use crate::read::basket_source::{BasketSource, Carried};
use crate::read::budget::{Budget, Lease};
use crate::read::chunk::Chunk;
use crate::read::page_fetch::fetch_pages;
use crate::read::prefetch::{Ahead, Piece};
use crate::read_buffers::{buffer_bytes, read_of, share};
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

/// Columns of a chunk whose baskets are fetched together.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    pub(crate) columns: Range<usize>,
    pub(crate) needed: &'a [Needed],
}

/// The columns of a chunk in groups of which not more than so many bytes have to be fetched, but one column at least.
pub(crate) fn groups<'a>(chunk: &Chunk, needed: &'a [Needed], before: &Carried, bytes_max: u64) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    let (mut first_column, mut first, mut bytes) = (0, 0, 0u64);
    let mut next = 0;
    for (column, branch) in chunk.columns.iter().enumerate() {
        let start = next;
        let mut own = 0u64;
        while let Some(one) = needed.get(next).filter(|one| one.column == column) {
            if before.get(*branch, one.basket).is_none() {
                own = own.saturating_add(chunk.tree.fetched_bytes(*branch, one.basket, &chunk.entries));
            }
            next += 1;
        }
        bytes = bytes.saturating_add(own);
        if bytes > bytes_max && column > first_column {
            groups.push(Group { columns: first_column..column, needed: &needed[first..start] });
            (first_column, first, bytes) = (column, start, own);
        }
    }
    groups.push(Group { columns: first_column..chunk.columns.len(), needed: &needed[first..] });
    groups
}

impl Group<'_> {
    /// The same columns in two groups, if they are several.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        let middle = self.columns.start + self.columns.len() / 2;
        if middle == self.columns.start {
            return None;
        }
        let (first, second) = self.needed.split_at(self.needed.partition_point(|one| one.column < middle));
        Some([
            Self { columns: self.columns.start..middle, needed: first },
            Self { columns: middle..self.columns.end, needed: second },
        ])
    }
}

/// Where the memory comes from for what is fetched.
#[derive(Clone, Copy)]
pub(crate) enum Room<'a> {
    /// Leased from a budget for a chunk in the making, or else this error for so many bytes. Something may have been asked
    /// for ahead.
    Leased(&'a Arc<Budget>, &'a dyn Fn(u64) -> ReadError, &'a Arc<Ahead>),
    /// Whoever reads just now has asked for little.
    Free,
}

impl Room<'_> {
    fn lease(self, bytes: u64) -> Result<Option<Lease>> {
        let Self::Leased(budget, no_room, _) = self else { return Ok(None) };
        budget.lease(bytes).map(Some).map_err(|_| no_room(bytes))
    }

    fn coming(self, file: &Arc<File>, range: ByteRange) -> Option<Arc<Piece>> {
        let Self::Leased(_, _, ahead) = self else { return None };
        ahead.find(file, range)
    }
}

/// The bytes of these baskets, in their order. Baskets that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left there are not fetched again.
pub(crate) fn fetch_carrying(
    chunk: &Chunk,
    needed: &[Needed],
    before: &Carried,
    carried: &mut Carried,
    room: Room<'_>,
) -> Result<Vec<BasketSource>> {
    if let Content::Ntuple(ntuple) = chunk.tree.content() {
        return fetch_pages(chunk, ntuple, needed, before, carried, room);
    }
    let known = |one: &Needed| before.get(chunk.columns[one.column], one.basket);
    let fresh: Vec<Needed> = needed.iter().filter(|one| known(one).is_none()).copied().collect();
    let mut fetched = fetch(chunk, &fresh, room)?.into_iter();
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
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed], room: Room<'_>) -> Result<Vec<BasketSource>> {
    let file = chunk.tree.file();
    let meta = match chunk.tree.content() {
        Content::Tree { meta, .. } => meta,
        Content::Ntuple(ntuple) => {
            return fetch_pages(chunk, ntuple, needed, &Carried::default(), &mut Carried::default(), room)
        }
    };
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
    if matches!(file.access().mode, AccessMode::Plain | AccessMode::Cache) {
        wanted.sort_by_key(|(position, _)| first_entry(*position));
    }
    if file.access().mode == AccessMode::Cache {
        if wanted.iter().all(|(position, _)| first_entry(*position) >= limits::LEARN_ENTRIES) {
            file.learned().end();
        }
        let first = wanted.partition_point(|(position, _)| first_entry(*position) < limits::LEARN_ENTRIES);
        let ranges: Vec<ByteRange> = wanted[..first].iter().map(|(_, range)| *range).collect();
        read.extend(read_first_entries(file, &ranges, beside, room)?);
    }
    let rest: Vec<ByteRange> = wanted[read.len()..].iter().map(|(_, range)| *range).collect();
    read.extend(read_joined(file, &rest, room)?);
    Ok(wanted.into_iter().map(|(position, _)| position).zip(read).collect())
}

/// The bytes of baskets with first entries: from the cache, which at the first time is filled with those `beside` them,
/// too. Without room there for all of them each is read by itself until the branches are known.
fn read_first_entries(
    file: &Arc<File>,
    wanted: &[ByteRange],
    beside: &dyn Fn() -> Vec<ByteRange>,
    room: Room<'_>,
) -> Result<Vec<Bytes>> {
    if !wanted.is_empty() && file.learned().is_due() {
        let mut all = wanted.to_vec();
        all.extend(beside());
        if all.iter().map(|range| range.length).fold(0, u64::saturating_add) <= file.access().tree_cache_bytes {
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

/// The bytes of these ranges, in portions as the file's access wants it; near ones are read together.
pub(crate) fn read_joined(file: &Arc<File>, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
    let bytes_max = match file.access().mode {
        AccessMode::Plain => 0,
        AccessMode::Cache => file.access().tree_cache_bytes,
        AccessMode::Planned | AccessMode::Prefetch | AccessMode::Stage => return read_missing(file, wanted, room),
    };
    let mut read = Vec::with_capacity(wanted.len());
    let mut left = wanted;
    while !left.is_empty() {
        let mut bytes = 0u64;
        let fits = |range: &&ByteRange| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(range.length.max(1));
            is_first || bytes <= bytes_max
        };
        let (some, rest) = left.split_at(left.iter().take_while(fits).count());
        read.extend(read_together(file, some, room)?);
        left = rest;
    }
    Ok(read)
}

/// The bytes of these ranges, of which some may have been asked for ahead.
fn read_missing(file: &Arc<File>, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
    let coming: Vec<Option<Arc<Piece>>> = wanted.iter().map(|range| room.coming(file, *range)).collect();
    let of = |is_wanted: &dyn Fn(usize) -> bool| -> Vec<ByteRange> {
        wanted.iter().enumerate().filter(|(index, _)| is_wanted(*index)).map(|(_, range)| *range).collect()
    };
    let mut read = read_together(file, &of(&|index| coming[index].is_none()), room)?.into_iter();
    let came: Vec<Option<Bytes>> = wanted
        .iter()
        .zip(&coming)
        .map(|(range, piece)| piece.as_ref().map_or_else(|| read.next(), |one| one.wait(*range)))
        .collect();
    // What could not be read ahead is asked for again, by whoever needs it.
    let mut again = read_together(file, &of(&|index| came[index].is_none()), room)?.into_iter();
    let missing = || ReadError::internal(file.path(), "a range was not fetched");
    came.into_iter().map(|bytes| bytes.or_else(|| again.next()).ok_or_else(missing)).collect()
}

/// The bytes of these ranges, read now; near ones are read together.
fn read_together(file: &File, wanted: &[ByteRange], room: Room<'_>) -> Result<Vec<Bytes>> {
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
