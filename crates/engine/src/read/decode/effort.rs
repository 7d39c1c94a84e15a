//! The cost of decoding a basket, and the cost of a column of a chunk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_format::compress::Codec;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cost of one basket.
pub(crate) struct Effort {
    /// Number of decompressed baskets: 1, or 0 if the basket was already decompressed for the previous chunk.
    pub(crate) baskets: u64,
    pub(crate) compressed: usize,
    pub(crate) plain: usize,
    pub(crate) codec: Codec,
    pub(crate) decompress_ns: u64,
    pub(crate) decode_ns: u64,
}

impl Effort {
    /// The total cost of a column.
    pub(crate) fn of_column(cost: &ColumnCost) -> Self {
        Self {
            baskets: cost.baskets.load(Ordering::Relaxed),
            compressed: cost.compressed_bytes.load(Ordering::Relaxed) as usize,
            plain: cost.plain_bytes.load(Ordering::Relaxed) as usize,
            codec: cost.codec().unwrap_or(Codec::None),
            decompress_ns: cost.decompress_ns.load(Ordering::Relaxed),
            decode_ns: cost.decode_ns.load(Ordering::Relaxed),
        }
    }

    /// Adds the cost of decoding the element counts for the basket.
    pub(crate) fn include(&mut self, other: &Self) {
        self.baskets += other.baskets;
        self.compressed += other.compressed;
        self.plain += other.plain;
        self.decompress_ns += other.decompress_ns;
        self.decode_ns += other.decode_ns;
    }
}

/// The cost of a column of a chunk.
#[derive(Debug, Default)]
pub struct ColumnCost {
    /// Number of decoded baskets.
    pub baskets: AtomicU64,
    /// Number of bytes in the file.
    pub compressed_bytes: AtomicU64,
    /// Number of bytes after decompression.
    pub plain_bytes: AtomicU64,
    /// Time spent in the codec, in nanoseconds.
    pub decompress_ns: AtomicU64,
    /// Time spent decoding, in nanoseconds.
    pub decode_ns: AtomicU64,
    codec: Mutex<Option<Codec>>,
}

impl ColumnCost {
    pub(crate) fn add(&self, effort: &Effort) {
        self.baskets.fetch_add(effort.baskets, Ordering::Relaxed);
        self.compressed_bytes.fetch_add(effort.compressed as u64, Ordering::Relaxed);
        self.plain_bytes.fetch_add(effort.plain as u64, Ordering::Relaxed);
        self.decompress_ns.fetch_add(effort.decompress_ns, Ordering::Relaxed);
        self.decode_ns.fetch_add(effort.decode_ns, Ordering::Relaxed);
        *lock(&self.codec) = Some(effort.codec);
    }

    /// The codec of the last decoded basket.
    pub fn codec(&self) -> Option<Codec> {
        *lock(&self.codec)
    }
}
