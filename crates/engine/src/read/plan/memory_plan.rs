//! Plans the memory for reading some branches of a tree, and divides it among chunks, baskets and scratch buffers.

use branchline_storage::limits::MIB;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::tree::content::BasketBytes;
use crate::tree::Tree;

/// The memory limit for reading, and the number of streams that share it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimit {
    /// Number of bytes available to this stream.
    pub(crate) bytes: u64,
    /// Number of streams that share the user's limit equally.
    pub(crate) parts: u64,
    /// Number of decoding threads.
    pub(crate) threads: usize,
}

impl MemoryLimit {
    pub(crate) fn shares(self) -> Shares {
        Shares::of(self.bytes, self.threads)
    }

    /// The limit as the user specified it.
    fn given(self) -> String {
        let bytes = self.bytes.saturating_mul(self.parts);
        if bytes.is_multiple_of(MIB) {
            format!("{} MiB", bytes / MIB)
        } else {
            in_mb(bytes)
        }
    }

    /// Returns a hint that names a memory limit sufficient for this stream.
    fn sufficient_hint(self, bytes: u64) -> String {
        format!("set memory_limit to at least \"{} MiB\"", self.parts.saturating_mul(bytes).div_ceil(MIB))
    }
}

/// The division of a memory limit, which does not depend on what is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Buffers of released values that are kept for the next chunk.
    pub(crate) pool: u64,
    /// Buffers for stored bytes that are kept for the next read.
    pub(crate) read_buffers: u64,
    /// The private buffer of each decoder, into which it decompresses small baskets.
    pub(crate) own_scratch: u64,
    /// Maximum size of a file that is read whole.
    pub(crate) whole_file: u64,
    /// Prefetched files, and prefetched ranges of chunks.
    pub(crate) prefetched: u64,
    /// The remainder, which is leased for stored bytes, for values, and for decompressing large baskets.
    pub(crate) leased: u64,
}

impl Shares {
    pub(crate) fn of(memory_limit: u64, threads: usize) -> Self {
        let pool = memory_limit / limits::POOL_MEMORY_DIVISOR;
        let read_buffers = (limits::READ_BUFFERS_BYTES as u64).min(memory_limit / limits::READ_BUFFERS_MEMORY_DIVISOR);
        let prefetched = memory_limit / limits::PREFETCH_MEMORY_DIVISOR;
        let own_scratch = memory_limit / limits::OWN_SCRATCH_MEMORY_DIVISOR;
        Self {
            pool,
            read_buffers,
            own_scratch: (own_scratch / threads.max(1) as u64).min(limits::OWN_SCRATCH_BYTES),
            whole_file: limits::WHOLE_FILE_BYTES.min(memory_limit / limits::WHOLE_FILE_MEMORY_DIVISOR),
            prefetched,
            leased: memory_limit - pool - read_buffers - own_scratch - prefetched,
        }
    }
}

/// The memory plan for reading some branches of a tree. The plan depends only on the tree, the branches and the memory
/// limit, because chunk boundaries must not depend on previous trees or the number of threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPlan {
    /// Number of bytes that the values of an entry take.
    values_per_entry: f64,
    /// Number of bytes that a chunk's values and stored baskets may take.
    chunk_bytes: u64,
    /// Number of stored bytes to fetch at a time.
    pub(crate) group_bytes: u64,
    /// Maximum size of the decompressed baskets that are kept for the next chunk.
    pub(crate) carried_bytes: u64,
    /// Number of bytes needed to decompress the largest basket.
    pub(crate) scratch_bytes: u64,
    /// The minimum that has to fit: the stored bytes of the file or of the largest basket, and the estimated memory for
    /// decompressing the largest basket.
    pub(crate) largest: BasketBytes,
    /// Set if there is only room for one basket of a branch at a time. Chunks then end wherever a basket larger than
    /// this begins.
    pub(crate) ends_at_baskets_above: Option<u64>,
}

impl MemoryPlan {
    /// Creates a plan. Returns an error if the limit is too small for a single basket, or for the whole file if the
    /// file was read whole.
    pub(crate) fn new(tree: &Tree, columns: &[usize], file_bytes: u64, memory_limit: MemoryLimit) -> Result<Self> {
        let largest = |column: &usize| (*column, tree.largest_basket(*column));
        let all: Vec<(usize, BasketBytes)> = columns.iter().map(largest).collect();
        let scratch_bytes = all.iter().map(|(_, bytes)| bytes.scratch).max().unwrap_or(0);
        let is_loaded = tree.file().whole_bytes() > 0;
        let stored_bytes =
            if is_loaded { file_bytes } else { all.iter().map(|(_, bytes)| bytes.stored).max().unwrap_or(0) };
        let largest = BasketBytes { stored: stored_bytes, scratch: scratch_bytes };
        let leased = memory_limit.shares().leased;
        Self::within(leased, largest, is_loaded, tree.values_per_entry(columns)).ok_or_else(|| {
            let worst = all.iter().max_by_key(|(_, bytes)| bytes.stored.saturating_add(bytes.scratch));
            let (column, bytes) = worst.copied().unwrap_or_default();
            basket_too_large(tree, column, bytes, largest, memory_limit)
        })
    }

    /// Creates a plan for this much leased memory; None if the memory is too small. `largest.scratch` is the memory to
    /// decompress the largest basket. `largest.stored` is the stored size of the largest basket, or of the file if
    /// `is_loaded` says that the whole file was read.
    pub(crate) fn within(leased: u64, largest: BasketBytes, is_loaded: bool, values_per_entry: f64) -> Option<Self> {
        let BasketBytes { stored, scratch } = largest;
        let shared = |stored_bytes| ChunkShares::new(leased, stored_bytes, scratch);
        // A chunk that begins in one basket of a branch and ends in the next basket needs both baskets.
        let both = if is_loaded { Some(stored) } else { stored.checked_mul(2) };
        let roomy = both.and_then(shared);
        let is_tight = roomy.is_none();
        let estimated = roomy.or_else(|| shared(stored));
        let fits_estimate = estimated.is_some();
        // The scratch estimate comes from averages, and the actual baskets may need less: try a plan without scratch.
        let without_scratch = || ChunkShares::new(leased, stored, 0);
        let ChunkShares { chunk_bytes, group_bytes, carried_bytes } = estimated.or_else(without_scratch)?;
        let ends_at_baskets_above = is_tight.then_some(group_bytes / 2);
        let scratch_bytes = if fits_estimate { scratch } else { 0 };
        Some(Self {
            values_per_entry,
            chunk_bytes,
            group_bytes,
            carried_bytes,
            scratch_bytes,
            largest,
            ends_at_baskets_above,
        })
    }

    /// Sets the number of bytes for decompressing a basket. Returns whether this always fits.
    pub(crate) fn set_scratch(&mut self, bytes: u64, memory_limit: MemoryLimit) -> bool {
        self.scratch_bytes = bytes;
        self.largest.scratch = self.largest.scratch.max(bytes);
        ChunkShares::new(memory_limit.shares().leased, self.largest.stored, bytes).is_some()
    }

    /// Returns the maximum number of entries in a chunk, given the stored bytes per entry.
    pub(crate) fn entries_of_chunk(&self, stored_per_entry: f64) -> u64 {
        (self.chunk_bytes as f64 / (stored_per_entry + self.values_per_entry).max(1e-9)) as u64
    }

    /// Returns the size of the values of this many entries.
    pub(crate) fn values_bytes(&self, entries: u64) -> u64 {
        (self.values_per_entry * entries as f64) as u64
    }
}

/// The division of the leased memory while some branches are read.
struct ChunkShares {
    chunk_bytes: u64,
    group_bytes: u64,
    carried_bytes: u64,
}

impl ChunkShares {
    /// Divides the leased memory. Returns None if the largest basket, with this stored size and decompression memory,
    /// leaves too little for chunks.
    fn new(leased: u64, stored_bytes: u64, scratch_bytes: u64) -> Option<Self> {
        let part = leased / limits::BASKET_MEMORY_DIVISOR;
        // Reserve memory for one more chunk: the caller may still hold a chunk of the previous tree.
        let in_use = leased / limits::CHUNK_MEMORY_DIVISOR;
        let free = leased.checked_sub(scratch_bytes.max(part))?.checked_sub(part)?.checked_sub(in_use)?;
        let chunk_bytes = free.checked_sub(stored_bytes)?.min(in_use);
        let least = leased / limits::CHUNK_MEMORY_DIVISOR_MAX;
        if chunk_bytes < least || least == 0 {
            return None;
        }
        Some(Self { chunk_bytes, group_bytes: free - chunk_bytes, carried_bytes: part })
    }
}

/// Returns the smallest memory limit, in whole MiB, for which `is_enough` holds.
fn smallest_limit(is_enough: impl Fn(u64) -> bool) -> u64 {
    let mut enough = 1;
    while !is_enough(enough * MIB) && enough < u64::MAX / MIB / 2 {
        enough *= 2;
    }
    let mut too_little = enough / 2;
    while too_little + 1 < enough {
        let middle = too_little + (enough - too_little) / 2;
        if is_enough(middle * MIB) {
            enough = middle;
        } else {
            too_little = middle;
        }
    }
    enough * MIB
}

/// Returns the smallest memory limit that is sufficient for baskets with this stored size and decompression memory.
fn sufficient_limit(stored_bytes: u64, scratch_bytes: u64) -> u64 {
    smallest_limit(|limit| ChunkShares::new(Shares::of(limit, 1).leased, stored_bytes, scratch_bytes).is_some())
}

/// Creates the error for a basket that does not fit. The limit in the hint is computed from `largest`.
pub(crate) fn basket_too_large(
    tree: &Tree,
    column: usize,
    basket: BasketBytes,
    largest: BasketBytes,
    memory_limit: MemoryLimit,
) -> ReadError {
    let message = format!(
        "a basket of branch {} needs {} stored and {} for decompression, which exceeds the memory limit of {}",
        tree.branch_path(column),
        in_mb(basket.stored),
        in_mb(basket.scratch),
        memory_limit.given(),
    );
    let enough = sufficient_limit(largest.stored.max(basket.stored), largest.scratch.max(basket.scratch));
    tree.error(ReadErrorKind::MemoryLimit, message).with_hint(memory_limit.sufficient_hint(enough))
}

/// Creates the error for entries that do not fit: their values, or the stored bytes that are needed together, exceed
/// the memory.
pub(crate) fn too_many_entries(
    tree: &Tree,
    entries: u64,
    values_bytes: u64,
    stored_bytes: u64,
    plan: &MemoryPlan,
    memory_limit: MemoryLimit,
) -> ReadError {
    let message = format!(
        "{entries} entries of tree {} need {} for values and {} for stored bytes, which exceeds the memory limit of {}",
        tree.path(),
        in_mb(values_bytes),
        in_mb(stored_bytes),
        memory_limit.given(),
    );
    let stored_bytes = stored_bytes.max(plan.largest.stored);
    let enough = smallest_limit(|limit| {
        let leased = Shares::of(limit, 1).leased;
        let part = leased / limits::BASKET_MEMORY_DIVISOR;
        let all =
            [values_bytes, values_bytes, stored_bytes, plan.scratch_bytes.max(plan.largest.scratch).max(part), part];
        all.into_iter().fold(0, u64::saturating_add) <= leased
    });
    tree.error(ReadErrorKind::MemoryLimit, message)
        .with_hint(format!("read fewer entries at a time; {}", memory_limit.sufficient_hint(enough)))
}

fn in_mb(bytes: u64) -> String {
    match bytes {
        ..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_fit_into_the_limit() {
        for limit in [1, 1000, MIB, 64 * MIB, 1 << 30, 1 << 40] {
            for threads in [1, 4, 64] {
                let shares = Shares::of(limit, threads);
                let own = shares.own_scratch * threads as u64;
                assert!(shares.pool + shares.read_buffers + own + shares.prefetched + shares.leased <= limit);
                for (stored, scratch) in [(0, 0), (limit / 4, 0), (0, limit / 4), (limit / 8, limit / 8)] {
                    let Some(shared) = ChunkShares::new(shares.leased, stored, scratch) else { continue };
                    let in_use = shares.leased / limits::CHUNK_MEMORY_DIVISOR;
                    assert!(shared.chunk_bytes <= in_use, "{limit}, {stored}, {scratch}");
                    let parts = in_use + shared.chunk_bytes + shared.group_bytes + shared.carried_bytes + scratch;
                    assert!(parts <= shares.leased && shared.group_bytes >= stored, "{limit}, {stored}, {scratch}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_read_whole_fits_with_the_one_before() {
        for limit in [MIB, 64 * MIB, 1 << 30] {
            let shares = Shares::of(limit, 4);
            assert!(ChunkShares::new(shares.leased, shares.whole_file, 0).is_some());
            assert!(shares.whole_file <= shares.leased / limits::BASKET_MEMORY_DIVISOR);
        }
    }

    #[test]
    fn the_smallest_sufficient_limit_is_enough_and_a_mebibyte_less_is_not() {
        for (stored, scratch) in [(15_000_000, 15_000_000), (0, 100 * MIB), (48 * MIB, 0), (MIB, 1 << 30)] {
            let enough = sufficient_limit(stored, scratch);
            let fits = |limit: u64| ChunkShares::new(Shares::of(limit, 4).leased, stored, scratch).is_some();
            assert!(fits(enough) && !fits(enough - MIB), "{stored} and {scratch}: {enough}");
            assert!(2 * enough < 7 * (stored + scratch), "{stored} and {scratch}: {enough}");
        }
    }
}
