//! The bytes of one basket in memory.

use std::sync::Arc;

use bytes::Bytes;

use branchline_format::tree::embedded::EmbeddedBasket;

/// Where the bytes of a basket are in memory.
#[derive(Debug, Clone)]
pub(crate) enum BasketSource {
    /// A record, as a share of bytes that were fetched.
    Record(Bytes),
    /// It came with the tree.
    Embedded(Arc<EmbeddedBasket>),
}

impl BasketSource {
    /// Bytes as they lie in the file.
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Record(bytes) => bytes,
            Self::Embedded(basket) => &basket.data,
        }
    }
}
