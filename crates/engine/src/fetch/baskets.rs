//! Fetches the baskets of a TTree.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use branchline_format::tree::{Basket, Place, TBranch, TTree};
use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::ranges::{read_joined, read_together};
use crate::fetch::request::{FetchRequest, Needed};
use crate::fetch::room::Room;
use crate::file::external::Externals;
use crate::file::File;
use crate::limits;

/// Returns the bytes of the needed baskets, in order. Baskets that extend beyond the request are kept in `carried` for
/// the next request. Baskets that the previous request kept in `before` are not fetched again.
pub(crate) fn fetch_baskets(
    meta: &TTree,
    externals: &Externals,
    request: &FetchRequest<'_>,
    before: &Carried,
    carried: &mut Carried,
) -> Result<Vec<BasketSource>> {
    let fetching = BasketFetch { meta, externals, request };
    let known = |one: &Needed| before.get(one.id(request.branches));
    let fresh: Vec<Needed> = request.needed.iter().filter(|one| known(one).is_none()).copied().collect();
    let mut fetched = fetching.fetch(&fresh)?.into_iter();
    let missing = || ReadError::internal(request.file.path(), "a basket was not fetched");
    let mut sources = Vec::with_capacity(request.needed.len());
    for one in request.needed {
        let id = one.id(request.branches);
        let reaches_beyond = fetching.basket(one).entry_stop > request.entries.end;
        sources.push(match known(one) {
            Some(kept) => {
                if reaches_beyond {
                    carried.keep_on(id, kept);
                }
                kept.source.clone()
            }
            None => {
                let source = fetched.next().ok_or_else(missing)?;
                if reaches_beyond {
                    carried.keep(id, source, fetching.is_loaded(one))
                } else {
                    source
                }
            }
        });
    }
    Ok(sources)
}

/// Fetches baskets of one tree for a request.
struct BasketFetch<'a> {
    meta: &'a TTree,
    externals: &'a Externals,
    request: &'a FetchRequest<'a>,
}

/// The baskets to read from one file.
struct FileBaskets<'a> {
    file: &'a Arc<File>,
    baskets: Vec<WantedBasket>,
}

/// A basket to read, and the index of its bytes in the result.
struct WantedBasket {
    position: usize,
    range: ByteRange,
    first_entry: u64,
}

impl<'a> BasketFetch<'a> {
    fn branch(&self, one: &Needed) -> &'a TBranch {
        &self.meta.branches[self.request.branches[one.column]]
    }

    fn basket(&self, one: &Needed) -> &'a Basket {
        &self.branch(one).baskets[one.basket]
    }

    /// The file that contains the baskets of a branch.
    fn home(&self, branch: &TBranch) -> &'a Arc<File> {
        self.externals.get(&branch.file_name).unwrap_or(self.request.file)
    }

    /// Whether a basket's bytes are already in memory.
    fn is_loaded(&self, one: &Needed) -> bool {
        match self.basket(one).place {
            Place::File { seek, size } => size == 0 || self.home(self.branch(one)).loaded(seek, size).is_some(),
            Place::Embedded(_) => true,
        }
    }

    /// Returns the bytes of these baskets, in order.
    fn fetch(&self, needed: &[Needed]) -> Result<Vec<BasketSource>> {
        let mut sources: Vec<Option<BasketSource>> = Vec::with_capacity(needed.len());
        // Group by file, because the baskets of a branch may be in another file.
        let mut wanted: BTreeMap<&str, FileBaskets<'_>> = BTreeMap::new();
        for (position, one) in needed.iter().enumerate() {
            let (branch, basket) = (self.branch(one), self.basket(one));
            let file = self.home(branch);
            sources.push(match &basket.place {
                Place::Embedded(basket) => Some(BasketSource::Embedded(Arc::clone(basket))),
                Place::File { seek, size } => match file.loaded(*seek, *size) {
                    Some(bytes) => Some(BasketSource::Record(bytes)),
                    None => {
                        let range = ByteRange::new(*seek, *size);
                        let of_file = wanted.entry(&branch.file_name);
                        let of_file = of_file.or_insert_with(|| FileBaskets { file, baskets: Vec::new() });
                        of_file.baskets.push(WantedBasket { position, range, first_entry: basket.entry_start });
                        None
                    }
                },
            });
        }
        for FileBaskets { file, mut baskets } in wanted.into_values() {
            let read = read_in_order(file, &mut baskets, &|| self.unwanted_first_baskets(), self.request.room)?;
            for (WantedBasket { position, .. }, bytes) in baskets.into_iter().zip(read) {
                sources[position] = Some(BasketSource::Record(bytes));
            }
        }
        let missing = || ReadError::internal(self.request.file.path(), "a basket was not fetched");
        sources.into_iter().map(|source| source.ok_or_else(missing)).collect()
    }

    /// Returns the ranges of the baskets that begin within the first `LEARN_ENTRIES` entries, for all branches that
    /// were not requested. Baskets outside the file of the tree are left out.
    fn unwanted_first_baskets(&self) -> Vec<ByteRange> {
        let others = (0..self.meta.branches.len()).filter(|index| !self.request.branches.contains(index));
        let branches = others.map(|index| &self.meta.branches[index]).filter(|branch| branch.file_name.is_empty());
        let baskets = branches.flat_map(|branch| &branch.baskets);
        let first = baskets.filter(|basket| basket.entry_start < limits::LEARN_ENTRIES);
        let range = |basket: &Basket| match basket.place {
            Place::File { seek, size } => Some(ByteRange::new(seek, size)),
            Place::Embedded(_) => None,
        };
        first.filter_map(range).collect()
    }
}

/// Sorts these baskets into the order in which the file's strategy reads them, and returns their bytes in that order. A
/// learning cache also reads the first baskets of all other branches (`unwanted`), as TTreeCache does: the cache does
/// not know yet which branches will be read.
fn read_in_order(
    file: &Arc<File>,
    baskets: &mut [WantedBasket],
    unwanted: &dyn Fn() -> Vec<ByteRange>,
    room: Room<'_>,
) -> Result<Vec<Bytes>> {
    let mut read = Vec::with_capacity(baskets.len());
    if file.strategy().reads_records_alone() {
        baskets.sort_by_key(|basket| basket.first_entry);
    }
    let ranges_of =
        |baskets: &[WantedBasket]| -> Vec<ByteRange> { baskets.iter().map(|basket| basket.range).collect() };
    if let Some(cache_bytes) = file.strategy().learning_cache_bytes() {
        let first_count = baskets.partition_point(|basket| basket.first_entry < limits::LEARN_ENTRIES);
        if first_count == 0 {
            file.learned().end();
        }
        read.extend(read_first_entries(file, cache_bytes, &ranges_of(&baskets[..first_count]), unwanted, room)?);
    }
    read.extend(read_joined(file, &ranges_of(&baskets[read.len()..]), room)?);
    Ok(read)
}

/// Returns the bytes of baskets with first entries from the cache. The first call fills the cache, including the
/// `unwanted` baskets. If these baskets exceed the size of the cache, nothing is cached, and each basket is read
/// separately.
fn read_first_entries(
    file: &Arc<File>,
    cache_bytes: u64,
    wanted: &[ByteRange],
    unwanted: &dyn Fn() -> Vec<ByteRange>,
    room: Room<'_>,
) -> Result<Vec<Bytes>> {
    if !wanted.is_empty() && file.learned().is_due() {
        let mut all = wanted.to_vec();
        all.extend(unwanted());
        if all.iter().map(|range| range.length).fold(0, u64::saturating_add) <= cache_bytes {
            // The cache is not counted in the memory of a chunk, because it outlives the chunk.
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
