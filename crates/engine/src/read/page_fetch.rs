//! From the clusters of an RNTuple that a chunk needs to the bytes of their pages.
//!
//! Where only a part of a cluster is wanted, the pages of collections' ends come first: they tell which other pages
//! are needed, and so on inwards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use branchline_format::compress::Decompressor;
use branchline_format::error::FormatError;
use branchline_format::ntuple::cluster::{FieldReader, Scratch, Stored, Unpacker};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::ntuple::Ntuple;
use crate::read::basket_source::{BasketSource, Carried, ClusterPages};
use crate::read::chunk::Chunk;
use crate::read::needed::Needed;
use crate::read::range_fetch::read_joined;
use crate::read::room::Room;

/// A range of the file: offset and bytes.
type Extent = (u64, u64);

/// The pages of these clusters, in their order. Those that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left are not fetched again.
pub(crate) fn fetch_pages(
    chunk: &Chunk,
    ntuple: &Ntuple,
    needed: &[Needed],
    before: &Carried,
    carried: &mut Carried,
    room: Room<'_>,
) -> Result<Vec<BasketSource>> {
    let file = chunk.tree.file();
    let mut fetching = Vec::with_capacity(needed.len());
    for one in needed {
        let branch = chunk.columns[one.column];
        let cluster = ntuple.field_cluster(file, branch, one.basket)?;
        let stored = Stored::new(file.size_bytes(), ntuple.max_key_size);
        let entries = wanted_entries(chunk, branch, one.basket);
        fetching.push(Fetching { branch, entries, pages: ClusterPages { cluster, stored }, is_done: false });
    }
    let mut decompressor = Decompressor::new();
    let mut scratch = Scratch::default();
    loop {
        // By extent, as several fields may need the same page.
        let mut missing: BTreeMap<Extent, Vec<usize>> = BTreeMap::new();
        for (index, one) in fetching.iter_mut().enumerate().filter(|(_, one)| !one.is_done) {
            let extents = one.missing(chunk, ntuple, &mut decompressor, &mut scratch)?;
            one.is_done = extents.is_empty();
            extents.into_iter().for_each(|extent| missing.entry(extent).or_default().push(index));
        }
        if missing.is_empty() {
            break;
        }
        let extents: Vec<Extent> = missing.keys().copied().collect();
        for ((extent, bytes), indices) in
            extents.iter().zip(read_extents(chunk, &extents, before, room)?).zip(missing.values())
        {
            indices.iter().for_each(|index| fetching[*index].pages.stored.add(extent.0, bytes.clone()));
        }
    }
    for (one, of) in fetching.iter().zip(needed) {
        if chunk.tree.basket_entries(one.branch, of.basket).end > chunk.entries.end {
            let pages = one.pages.cluster.last_pages(&one.pages.stored);
            pages.for_each(|(offset, bytes)| carried.keep_page(offset, bytes));
        }
    }
    Ok(fetching.into_iter().map(|one| BasketSource::Pages(Arc::new(one.pages))).collect())
}

/// Entries of a cluster that a chunk wants, counted from the start of the cluster.
fn wanted_entries(chunk: &Chunk, branch: usize, cluster: usize) -> Range<u64> {
    let all = chunk.tree.basket_entries(branch, cluster);
    let start = chunk.entries.start.max(all.start) - all.start;
    start..chunk.entries.end.min(all.end).saturating_sub(all.start)
}

/// A cluster of a field whose pages are being fetched.
struct Fetching {
    branch: usize,
    entries: Range<u64>,
    pages: ClusterPages,
    is_done: bool,
}

impl Fetching {
    fn missing(
        &self,
        chunk: &Chunk,
        ntuple: &Ntuple,
        decompressor: &mut Decompressor,
        scratch: &mut Scratch,
    ) -> Result<Vec<Extent>> {
        let named = |error: FormatError| {
            let object = format!("tree {}, branch {}", chunk.tree.path(), chunk.tree.branch_path(self.branch));
            ReadError::from_format(chunk.tree.file().path(), &error.in_object(object))
        };
        let form = ntuple.form(self.branch).map_err(|reason| named(FormatError::unsupported(reason)))?;
        let ClusterPages { cluster, stored } = &self.pages;
        let reader = FieldReader { schema: &ntuple.schema, form, cluster, stored };
        let mut decompress = |from: &[u8], to: &mut [u8]| decompressor.decompress_into(from, to);
        let missing = reader.missing(&self.entries, &mut Unpacker::new(&mut decompress, scratch)).map_err(named)?;
        Ok(missing.into_iter().map(|locator| (locator.offset, locator.size)).collect())
    }
}

/// The bytes of these extents: left by the chunk before, held with the file, or read.
fn read_extents(chunk: &Chunk, extents: &[Extent], before: &Carried, room: Room<'_>) -> Result<Vec<Bytes>> {
    let file = chunk.tree.file();
    let mut found = Vec::with_capacity(extents.len());
    let mut wanted = Vec::new();
    for (offset, size) in extents {
        let bytes = before.page(*offset, *size).or_else(|| file.held(*offset, *size));
        if bytes.is_none() {
            wanted.push(ByteRange::new(*offset, *size));
        }
        found.push(bytes);
    }
    let mut read = read_joined(file, &wanted, room)?.into_iter();
    let missing = || ReadError::internal(file.path(), "a page was not fetched");
    found.into_iter().map(|bytes| bytes.or_else(|| read.next()).ok_or_else(missing)).collect()
}
