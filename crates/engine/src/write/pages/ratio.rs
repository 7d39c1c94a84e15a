//! How much compression makes of data that was written: an estimate for what is still to be written.

/// Bytes that were compressed, and what they became.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompressionRatio {
    pub(crate) stored_bytes: u64,
    pub(crate) plain_bytes: u64,
}

impl CompressionRatio {
    /// The bytes that these will take after compression, if they compress as the others did.
    pub(crate) fn stored(&self, plain_bytes: u64) -> u64 {
        let product = u128::from(plain_bytes) * u128::from(self.stored_bytes);
        u64::try_from(product / u128::from(self.plain_bytes.max(1))).unwrap_or(u64::MAX)
    }

    /// The bytes that will take these after compression.
    pub(crate) fn plain(&self, stored_bytes: u64) -> u64 {
        Self { stored_bytes: self.plain_bytes, plain_bytes: self.stored_bytes }.stored(stored_bytes)
    }
}
