//! Fetches the pages that a chunk needs from the clusters of an RNTuple.
//!
//! If only a part of a cluster is wanted, the pages with collection offsets are fetched first: the offsets determine
//! which pages with elements are needed. Nested collections repeat this at each level.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use branchline_format::compress::Decompressor;
use branchline_format::error::FormatError;
use branchline_format::ntuple::cluster::{Scratch, Stored, Unpacker};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::{BasketSource, Carried, ClusterPages};
use crate::fetch::ranges::read_joined;
use crate::fetch::request::FetchRequest;
use crate::file::rntuple_metadata::Ntuple;
use crate::file::File;

/// A range of the file, as offset and size in bytes.
type Extent = (u64, u64);

/// Returns the pages of these clusters, in order. Pages that extend beyond the request are kept in `carried` for the
/// next request. Pages that the previous request kept in `before` are not fetched again.
pub(crate) fn fetch_pages(
    ntuple: &Arc<Ntuple>,
    request: &FetchRequest<'_>,
    before: &Carried,
    carried: &mut Carried,
) -> Result<Vec<BasketSource>> {
    let FetchRequest { file, needed, .. } = request;
    let mut fetching = Vec::with_capacity(needed.len());
    for one in *needed {
        let branch = request.branches[one.column];
        let cluster = ntuple.field_cluster(file, branch, one.basket)?;
        let stored = Stored::new(file.size_bytes(), ntuple.max_key_size);
        let all = ntuple.cluster_entries(file, one.basket);
        // The wanted entries, relative to the start of the cluster.
        let start = request.entries.start.max(all.start) - all.start;
        let entries = start..request.entries.end.min(all.end).saturating_sub(all.start);
        let pages = ClusterPages { ntuple: Arc::clone(ntuple), branch, cluster, stored };
        fetching.push(Fetching { entries, reaches_beyond: all.end > request.entries.end, pages, is_done: false });
    }
    let mut decompressor = Decompressor::new();
    let mut scratch = Scratch::default();
    loop {
        // Group by extent, because several fields may need the same page.
        let mut missing: BTreeMap<Extent, Vec<usize>> = BTreeMap::new();
        for (index, one) in fetching.iter_mut().enumerate().filter(|(_, one)| !one.is_done) {
            let extents = one.missing(file, &mut decompressor, &mut scratch)?;
            one.is_done = extents.is_empty();
            extents.into_iter().for_each(|extent| missing.entry(extent).or_default().push(index));
        }
        if missing.is_empty() {
            break;
        }
        let extents: Vec<Extent> = missing.keys().copied().collect();
        for ((extent, bytes), indices) in
            extents.iter().zip(read_extents(request, &extents, before)?).zip(missing.values())
        {
            indices.iter().for_each(|index| fetching[*index].pages.stored.add(extent.0, bytes.clone()));
        }
    }
    for one in fetching.iter().filter(|one| one.reaches_beyond) {
        let pages = one.pages.cluster.last_pages(&one.pages.stored);
        pages.for_each(|(offset, bytes)| carried.keep_page(offset, bytes));
    }
    Ok(fetching.into_iter().map(|one| BasketSource::Pages(Arc::new(one.pages))).collect())
}

/// A cluster of a field whose pages are being fetched.
struct Fetching {
    /// The wanted entries, relative to the start of the cluster.
    entries: Range<u64>,
    /// Whether the next request needs the last entries of the cluster.
    reaches_beyond: bool,
    pages: ClusterPages,
    is_done: bool,
}

impl Fetching {
    fn missing(&self, file: &File, decompressor: &mut Decompressor, scratch: &mut Scratch) -> Result<Vec<Extent>> {
        let named = |error: FormatError| {
            let ClusterPages { ntuple, branch, .. } = &self.pages;
            let object = format!("tree {}, branch {}", ntuple.path(), ntuple.branches[*branch].path);
            ReadError::from_format(file.path(), &error.in_object(object))
        };
        let reader = self.pages.reader().map_err(named)?;
        let mut decompress = |from: &[u8], to: &mut [u8]| decompressor.decompress_into(from, to);
        let missing = reader.missing(&self.entries, &mut Unpacker::new(&mut decompress, scratch)).map_err(named)?;
        Ok(missing.into_iter().map(|locator| (locator.offset, locator.size)).collect())
    }
}

/// Returns the bytes of these extents. Extents that were carried over from the previous request or loaded with the file
/// are not read again.
fn read_extents(request: &FetchRequest<'_>, extents: &[Extent], before: &Carried) -> Result<Vec<Bytes>> {
    let file = request.file;
    let mut found = Vec::with_capacity(extents.len());
    let mut wanted = Vec::new();
    for (offset, size) in extents {
        let bytes = before.page(*offset, *size).or_else(|| file.loaded(*offset, *size));
        if bytes.is_none() {
            wanted.push(ByteRange::new(*offset, *size));
        }
        found.push(bytes);
    }
    let mut read = read_joined(file, &wanted, request.room)?.into_iter();
    let missing = || ReadError::internal(file.path(), "a page was not fetched");
    found.into_iter().map(|bytes| bytes.or_else(|| read.next()).ok_or_else(missing)).collect()
}
