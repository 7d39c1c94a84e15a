//! What reading some branches of a tree takes in memory, and how much of it goes to chunks, baskets and scratch.

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::extents::BasketBytes;
use crate::limits;
use crate::tree::Tree;

/// How a memory limit is shared out, whatever is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Values that nobody uses any more and whose memory waits for the next chunk.
    pub(crate) pool: u64,
    /// Buffers of stored bytes that wait for the next read.
    pub(crate) read_buffers: u64,
    /// What each decoder keeps for the small baskets that it decompresses.
    pub(crate) own_scratch: u64,
    /// A file up to this size is read whole.
    pub(crate) whole_file: u64,
    /// The rest: what is leased for stored bytes, values, and the decompression of large baskets.
    pub(crate) leased: u64,
}

impl Shares {
    pub(crate) fn of(memory_limit: u64, threads: usize) -> Self {
        let pool = memory_limit / limits::POOL_MEMORY_SHARE;
        let read_buffers = (limits::READ_BUFFERS_BYTES as u64).min(memory_limit / limits::READ_BUFFERS_MEMORY_SHARE);
        let own_scratch = memory_limit / limits::OWN_SCRATCH_MEMORY_SHARE;
        Self {
            pool,
            read_buffers,
            own_scratch: (own_scratch / threads.max(1) as u64).min(limits::OWN_SCRATCH_BYTES),
            whole_file: limits::WHOLE_FILE_BYTES.min(memory_limit / limits::WHOLE_FILE_MEMORY_SHARE),
            leased: memory_limit - pool - read_buffers - own_scratch,
        }
    }
}

/// What reading some branches of a tree may take. It depends on the tree and the memory limit alone: where a tree is
/// cut may not depend on the trees before it or on the number of threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPlan {
    /// Bytes of the values of an entry.
    values_per_entry: f64,
    /// Those of a chunk with the bytes that are stored of it.
    chunk_bytes: u64,
    /// Stored bytes that are fetched at a time.
    pub(crate) group_bytes: u64,
    /// What may be kept decompressed for the next chunk.
    pub(crate) carried_bytes: u64,
    /// What decompressing the largest basket takes.
    pub(crate) scratch_bytes: u64,
}

impl MemoryPlan {
    /// Fails if the limit is too small for a single basket.
    pub(crate) fn new(tree: &Tree, columns: &[usize], memory_limit: u64, threads: usize) -> Result<Self> {
        let largest = |column: &usize| (*column, tree.largest_basket(*column));
        let all: Vec<(usize, BasketBytes)> = columns.iter().map(largest).collect();
        let scratch_bytes = all.iter().map(|(_, bytes)| bytes.scratch).max().unwrap_or(0);
        let stored_bytes = all.iter().map(|(_, bytes)| bytes.stored).max().unwrap_or(0);
        let shared = Shared::new(Shares::of(memory_limit, threads).leased, stored_bytes, scratch_bytes);
        let Some(Shared { chunk_bytes, group_bytes, carried_bytes }) = shared else {
            let worst = all.iter().max_by_key(|(_, bytes)| bytes.stored + bytes.scratch);
            let (column, bytes) = worst.copied().unwrap_or_default();
            let largest = BasketBytes { stored: stored_bytes, scratch: scratch_bytes };
            return Err(too_large(tree, column, bytes, largest, memory_limit));
        };
        let values_per_entry = tree.values_per_entry(columns);
        Ok(Self { values_per_entry, chunk_bytes, group_bytes, carried_bytes, scratch_bytes })
    }

    /// How many entries a chunk may have, each of which has so many stored bytes.
    pub(crate) fn entries_of_chunk(&self, stored_per_entry: f64) -> u64 {
        (self.chunk_bytes as f64 / (stored_per_entry + self.values_per_entry).max(1e-9)) as u64
    }

    /// What the values of so many entries take.
    pub(crate) fn values_bytes(&self, entries: u64) -> u64 {
        (self.values_per_entry * entries as f64) as u64
    }
}

/// Shares of what is leased while some branches are read.
struct Shared {
    chunk_bytes: u64,
    group_bytes: u64,
    carried_bytes: u64,
}

impl Shared {
    /// None where the largest baskets, of so many stored and decompressed bytes, leave too little for chunks.
    fn new(leased: u64, stored_bytes: u64, scratch_bytes: u64) -> Option<Self> {
        let part = leased / limits::BASKET_MEMORY_SHARE;
        let scratch = scratch_bytes.max(part);
        let baskets = stored_bytes.checked_add(scratch)?;
        // Two chunks, in use and in the making, and what is carried from one to the next take the rest at least.
        let rest = leased.checked_sub(baskets)?.checked_sub(part)?;
        let least = leased / limits::CHUNK_MEMORY_SHARE_MIN;
        if rest / 2 < least || least == 0 {
            return None;
        }
        let usual = (leased - scratch) / limits::CHUNK_MEMORY_SHARE;
        let chunk_bytes = if scratch > part { rest / 2 } else { usual.min(rest / 2) };
        let group_bytes = leased - scratch - part - 2 * chunk_bytes;
        Some(Self { chunk_bytes, group_bytes, carried_bytes: part })
    }
}

/// The smallest memory limit, in whole MiB, that is enough for baskets of so many stored and decompressed bytes.
fn sufficient_limit(stored_bytes: u64, scratch_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    let is_enough = |mib: u64| Shared::new(Shares::of(mib * MIB, 1).leased, stored_bytes, scratch_bytes).is_some();
    let mut enough = 1;
    while !is_enough(enough) && enough < u64::MAX / MIB / 2 {
        enough *= 2;
    }
    let mut too_little = enough / 2;
    while too_little + 1 < enough {
        let middle = (too_little + enough) / 2;
        if is_enough(middle) {
            enough = middle;
        } else {
            too_little = middle;
        }
    }
    enough * MIB
}

/// The error for a basket that does not fit, where the largest of all are so large.
pub(crate) fn too_large(
    tree: &Tree,
    column: usize,
    basket: BasketBytes,
    largest: BasketBytes,
    memory_limit: u64,
) -> ReadError {
    let message = format!(
        "a basket of branch {} takes {} as it is stored and {} decompressed, too much for a memory limit of {}",
        tree.branch_path(column),
        in_mb(basket.stored),
        in_mb(basket.scratch),
        in_mb(memory_limit),
    );
    let enough = sufficient_limit(largest.stored.max(basket.stored), largest.scratch.max(basket.scratch));
    tree.error(ReadErrorKind::MemoryLimit, message).with_hint(enough_is(enough))
}

/// The error for stored bytes that do not fit.
pub(crate) fn too_much_stored(tree: &Tree, bytes: u64, memory_limit: u64) -> ReadError {
    let message = format!(
        "baskets of tree {} that are needed together take {}, too much for a memory limit of {}",
        tree.path(),
        in_mb(bytes),
        in_mb(memory_limit),
    );
    tree.error(ReadErrorKind::MemoryLimit, message)
        .with_hint(enough_is(sufficient_limit(bytes, 0).max(2 * memory_limit)))
}

fn enough_is(memory_limit: u64) -> String {
    format!("a memory_limit of \"{} MiB\" is enough", memory_limit.div_ceil(1 << 20))
}

/// The error for a chunk whose values do not fit.
pub(crate) fn too_many_entries(tree: &Tree, entries: u64, values_bytes: u64, memory_limit: u64) -> ReadError {
    let message = format!(
        "{entries} entries of tree {} take {} in memory, too much for a memory limit of {}",
        tree.path(),
        in_mb(values_bytes),
        in_mb(memory_limit),
    );
    // Two such chunks are there at a time, and what is fetched for them.
    let enough = values_bytes.saturating_mul(limits::CHUNK_MEMORY_SHARE).div_ceil(1 << 20);
    tree.error(ReadErrorKind::MemoryLimit, message)
        .with_hint(format!("take fewer entries at a time, or a memory_limit of \"{enough} MiB\""))
}

fn in_mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn all_shares_fit_into_the_limit() {
        for limit in [1, 1000, MIB, 64 * MIB, 1 << 30, 1 << 40] {
            for threads in [1, 4, 64] {
                let shares = Shares::of(limit, threads);
                let own = shares.own_scratch * threads as u64;
                assert!(shares.pool + shares.read_buffers + own + shares.leased <= limit);
                for (stored, scratch) in [(0, 0), (limit / 4, 0), (0, limit / 4), (limit / 8, limit / 8)] {
                    let Some(shared) = Shared::new(shares.leased, stored, scratch) else { continue };
                    let parts = 2 * shared.chunk_bytes + shared.group_bytes + shared.carried_bytes + scratch;
                    assert!(parts <= shares.leased && shared.group_bytes >= stored, "{limit}, {stored}, {scratch}");
                }
            }
        }
    }

    #[test]
    fn the_smallest_sufficient_limit_is_enough_and_a_mebibyte_less_is_not() {
        for (stored, scratch) in [(15_000_000, 15_000_000), (0, 100 * MIB), (48 * MIB, 0), (MIB, 1 << 30)] {
            let enough = sufficient_limit(stored, scratch);
            let fits = |limit: u64| Shared::new(Shares::of(limit, 4).leased, stored, scratch).is_some();
            assert!(fits(enough) && !fits(enough - MIB), "{stored} and {scratch}: {enough}");
            assert!(enough < 3 * (stored + scratch), "{stored} and {scratch}: {enough}");
        }
    }
}
