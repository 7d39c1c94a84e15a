//! The compression ratio of data that have been written. It serves as an estimate for the data that follow.

/// The total size of written data before and after compression, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompressionRatio {
    pub(crate) stored_bytes: u64,
    pub(crate) plain_bytes: u64,
}

impl CompressionRatio {
    /// Estimates the size of this many bytes after compression.
    pub(crate) fn stored(&self, plain_bytes: u64) -> u64 {
        let product = u128::from(plain_bytes) * u128::from(self.stored_bytes);
        u64::try_from(product / u128::from(self.plain_bytes.max(1))).unwrap_or(u64::MAX)
    }

    /// Estimates how many bytes will have this size after compression.
    pub(crate) fn plain(&self, stored_bytes: u64) -> u64 {
        Self { stored_bytes: self.plain_bytes, plain_bytes: self.stored_bytes }.stored(stored_bytes)
    }
}
