//! Where the entries of a tree lie: the baskets of its branches, their entries and what they take.

use std::ops::Range;

use branchline_format::layout::{Kind, Layout};
use branchline_format::tree::{Basket, Place, TBranch};

use crate::error::Result;
use crate::read_buffers::buffer_bytes;
use crate::tree::{Content, Tree};

impl Tree {
    /// Indices of the baskets of a branch that overlap these entries; all entries must be covered.
    pub(crate) fn baskets_of(&self, index: usize, entries: &Range<u64>) -> Result<Range<usize>> {
        let found = match self.content() {
            Content::Tree { meta, .. } => baskets_of(&meta.branches[index].baskets, entries),
            Content::Ntuple(ntuple) => ntuple.clusters_of(self.file(), entries)?,
        };
        found.map_err(|entry| {
            let name = self.branch_path(index);
            let message = format!("branch {name} has no basket for entry {entry} of {}", self.entries_count());
            self.contradiction(&message)
        })
    }

    /// The entries of a basket of a branch.
    pub(crate) fn basket_entries(&self, index: usize, basket: usize) -> Range<u64> {
        match self.content() {
            Content::Tree { meta, .. } => entries_of(&meta.branches[index].baskets[basket]),
            Content::Ntuple(ntuple) => {
                let cluster = ntuple.clusters(self.file()).ok().and_then(|clusters| clusters.get(basket));
                cluster.map_or(0..0, |cluster| cluster.entries.clone())
            }
        }
    }

    /// What a basket of a branch is called in errors: its number, and where it begins in the file.
    pub(crate) fn basket_name(&self, index: usize, basket: usize) -> String {
        match self.content() {
            Content::Tree { meta, .. } => match &meta.branches[index].baskets[basket].place {
                Place::File { seek, .. } => match meta.branches[index].file_name.as_str() {
                    "" => format!("basket {basket} at {seek}"),
                    _ => format!("basket {basket} at {seek} of {}", self.home(index).path()),
                },
                Place::Embedded(_) => format!("basket {basket}, which came with the tree"),
            },
            // Of its pages the error tells where they are.
            Content::Ntuple(_) => format!("cluster {basket}"),
        }
    }

    /// Offset and size of a basket of a TTree, if it lies in a file by itself.
    pub(crate) fn basket_place(&self, index: usize, basket: usize) -> Option<(u64, u64)> {
        match self.content() {
            Content::Tree { meta, .. } => match &meta.branches[index].baskets[basket].place {
                Place::File { seek, size } => Some((*seek, *size)),
                Place::Embedded(_) => None,
            },
            Content::Ntuple(_) => None,
        }
    }

    /// Entries of all baskets of a branch.
    pub fn all_basket_entries(&self, index: usize) -> Vec<Range<u64>> {
        match self.content() {
            Content::Tree { meta, .. } => meta.branches[index].baskets.iter().map(entries_of).collect(),
            Content::Ntuple(ntuple) => {
                let clusters = ntuple.clusters(self.file()).unwrap_or_default();
                clusters.iter().map(|cluster| cluster.entries.clone()).collect()
            }
        }
    }

    /// Refuses a number of entries that no branch has: where nothing is read from baskets, nothing else would tell.
    pub(crate) fn check_entries_count(&self) -> Result<()> {
        let most = match self.content() {
            Content::Tree { meta, .. } => meta.branches.iter().map(|branch| branch.entries_count).max().unwrap_or(0),
            Content::Ntuple(ntuple) => ntuple.clusters(self.file())?.last().map_or(0, |cluster| cluster.entries.end),
        };
        if self.entries_count() <= most {
            return Ok(());
        }
        let message = format!("tree {} says {} entries, its branches have {most}", self.path(), self.entries_count());
        Err(self.contradiction(&message))
    }

    /// Entries at which baskets of all these branches begin, the last being the end of the tree.
    pub fn common_boundaries(&self, columns: &[usize]) -> Vec<u64> {
        let starts = |index: &usize| self.all_basket_entries(*index).into_iter().map(|entries| entries.start);
        let mut boundaries: Vec<u64> = match (self.content(), columns) {
            // All fields have the same clusters.
            (Content::Ntuple(_), [first, ..]) => starts(first).collect(),
            (Content::Ntuple(_), []) => Vec::new(),
            (Content::Tree { .. }, columns) => {
                let mut common: Option<Vec<u64>> = None;
                for column in columns {
                    let own: Vec<u64> = starts(column).collect();
                    common = Some(match common {
                        None => own,
                        Some(before) => before.into_iter().filter(|entry| own.binary_search(entry).is_ok()).collect(),
                    });
                }
                common.unwrap_or_default()
            }
        };
        boundaries.push(self.entries_count());
        boundaries
    }

    /// Entries at which the baskets of the branch with most bytes in the file begin.
    pub fn basket_borders(&self) -> Vec<u64> {
        let largest = match self.content() {
            Content::Tree { meta, .. } => {
                let size = |index: &usize| stored_bytes(&meta.branches[*index]);
                (0..meta.branches.len()).max_by_key(size)
            }
            Content::Ntuple(ntuple) => (!ntuple.branches.is_empty()).then_some(0),
        };
        let entries = largest.map_or_else(Vec::new, |index| self.all_basket_entries(index));
        entries.into_iter().map(|entries| entries.start).collect()
    }

    /// Bytes per entry of these branches: stored, and after decompression.
    pub fn bytes_per_entry(&self, columns: &[usize]) -> (f64, f64) {
        let entries = self.entries_count().max(1) as f64;
        let (mut stored, mut plain) = (0.0, 0.0);
        match self.content() {
            Content::Tree { meta, .. } => {
                for column in columns {
                    let branch = &meta.branches[*column];
                    let zipped = branch.compressed_bytes.max(stored_bytes(branch));
                    stored += zipped as f64;
                    plain += branch.plain_bytes.max(zipped) as f64;
                }
            }
            Content::Ntuple(ntuple) => {
                let sizes = ntuple.branch_sizes(self.file(), columns);
                stored = sizes.stored as f64;
                plain = sizes.plain as f64;
            }
        }
        (stored / entries, plain / entries)
    }

    /// Bytes that the values of these branches take per entry, once more for the largest of those that are put together
    /// from pieces.
    pub(crate) fn values_per_entry(&self, columns: &[usize]) -> f64 {
        let entries = self.entries_count().max(1) as f64;
        let (mut sum, mut largest): (f64, f64) = (0.0, 0.0);
        for column in columns {
            let (values, is_whole) = match self.content() {
                Content::Tree { meta, kinds, .. } => {
                    values_per_entry(&kinds[*column], meta.branches[*column].plain_bytes as f64 / entries)
                }
                Content::Ntuple(ntuple) => {
                    let decoded = ntuple.branch_sizes(self.file(), &[*column]).decoded as f64 / entries;
                    (decoded, ntuple.form(*column).is_ok_and(|form| form.fixed().is_some()))
                }
            };
            sum += values;
            largest = largest.max(if is_whole { 0.0 } else { values });
        }
        // Buffers have a little room beyond, for the next chunk.
        (sum + largest) * BUFFER_FACTOR
    }

    /// What the largest basket of a branch takes, as far as averages tell; of an RNTuple the largest page, as a cluster
    /// is decompressed page by page.
    pub(crate) fn largest_basket(&self, index: usize) -> BasketBytes {
        match self.content() {
            Content::Tree { meta, .. } => {
                let branch = &meta.branches[index];
                let entries = branch.baskets.iter().map(|basket| basket.entry_stop - basket.entry_start).max();
                let plain_per_entry = branch.plain_bytes as f64 / branch.entries_count.max(1) as f64;
                let is_compressed = branch.plain_bytes > branch.compressed_bytes;
                let plain = (plain_per_entry * entries.unwrap_or(0) as f64) as u64;
                let stored = branch.baskets.iter().map(stored_size).max().map_or(0, buffer_bytes);
                let compress = match branch.compress {
                    ..=0 => i64::from(self.file().compress()),
                    own => own,
                };
                let scratch = if compress / 100 == LZMA { plain.saturating_mul(2) } else { plain };
                BasketBytes { stored, scratch: if is_compressed { scratch } else { 0 } }
            }
            Content::Ntuple(ntuple) => {
                let largest = ntuple.branch_sizes(self.file(), &[index]).largest_page;
                BasketBytes { stored: buffer_bytes(largest), scratch: largest }
            }
        }
    }

    /// Bytes that are fetched for these entries of a basket; none for what is there already.
    pub(crate) fn fetched_bytes(&self, index: usize, basket: usize, entries: &Range<u64>) -> u64 {
        match self.content() {
            Content::Tree { meta, .. } => match meta.branches[index].baskets[basket].place {
                Place::File { seek, size } if self.home(index).held(seek, size).is_none() => size,
                _ => 0,
            },
            Content::Ntuple(ntuple) => {
                let all = self.basket_entries(index, basket);
                let wanted = entries.end.min(all.end).saturating_sub(entries.start.max(all.start));
                let stored = ntuple.branch_sizes(self.file(), &[index]).stored as f64;
                (stored / self.entries_count().max(1) as f64 * wanted as f64) as u64
            }
        }
    }
}

impl Tree {
    /// Entries at which baskets begin of those branches whose largest one takes more than so many bytes.
    pub(crate) fn large_basket_starts(&self, columns: &[usize], bytes: u64) -> Vec<u64> {
        let large = columns.iter().filter(|column| self.largest_basket(**column).stored > bytes);
        let mut starts: Vec<u64> =
            large.flat_map(|column| self.all_basket_entries(*column)).map(|entries| entries.start).collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// How many of these entries may be read at a time so that fetching one column of them takes no more than so many
    /// bytes.
    pub(crate) fn entries_fetched_within(&self, columns: &[usize], entries: &Range<u64>, bytes_max: u64) -> u64 {
        let fetched = |column: &usize| {
            // What cannot be read is told when it is read.
            let baskets = self.baskets_of(*column, entries).unwrap_or(0..0);
            let each = |basket| buffer_bytes(self.fetched_bytes(*column, basket, entries));
            baskets.map(each).fold(0, u64::saturating_add)
        };
        let most = columns.iter().map(fetched).max().unwrap_or(0);
        let all = entries.end - entries.start;
        if most <= bytes_max {
            return all;
        }
        // Half of the average: some parts have more than others.
        (all as f64 * bytes_max as f64 / most as f64 / 2.0) as u64
    }
}

/// What a basket takes: its stored bytes, and what decompressing it takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BasketBytes {
    pub(crate) stored: u64,
    pub(crate) scratch: u64,
}

/// Bytes of the values of an entry that has so many bytes after decompression, and whether they are made where they
/// stay.
fn values_per_entry(kind: &Kind, plain: f64) -> (f64, bool) {
    match kind {
        Kind::Data(Layout::Fixed { scalar, dimensions }) => {
            (dimensions.iter().fold(scalar.size() as f64, |size, extent| size * *extent as f64), true)
        }
        Kind::Data(Layout::Run { scalar, .. }) => {
            (plain * scalar.size() as f64 / scalar.stored_size().max(1) as f64 + OFFSET_BYTES, false)
        }
        // Offsets of inner lists, and room in which pieces grow.
        _ => (2.0 * plain + 2.0 * OFFSET_BYTES, false),
    }
}

/// The number, in a compression setting, of the codec that takes a dictionary as large as the basket.
const LZMA: i64 = 2;
/// What a buffer takes of its values.
const BUFFER_FACTOR: f64 = 1.125;
/// Bytes of the offset of an entry's values.
const OFFSET_BYTES: f64 = 8.0;

/// Indices of the baskets that overlap these entries, or the first entry that is in none.
fn baskets_of(baskets: &[Basket], entries: &Range<u64>) -> std::result::Result<Range<usize>, u64> {
    let first = baskets.partition_point(|basket| basket.entry_stop <= entries.start);
    let last = baskets.partition_point(|basket| basket.entry_start < entries.end).max(first);
    let mut next = entries.start;
    for basket in &baskets[first..last] {
        if basket.entry_start > next {
            break;
        }
        next = basket.entry_stop;
    }
    if next < entries.end {
        Err(next)
    } else {
        Ok(first..last)
    }
}

fn entries_of(basket: &Basket) -> Range<u64> {
    basket.entry_start..basket.entry_stop
}

/// Bytes of the baskets of a branch in the file.
pub(crate) fn stored_bytes(branch: &TBranch) -> u64 {
    branch.baskets.iter().map(stored_size).sum()
}

fn stored_size(basket: &Basket) -> u64 {
    match &basket.place {
        Place::File { size, .. } => *size,
        Place::Embedded(basket) => basket.data.len() as u64,
    }
}
