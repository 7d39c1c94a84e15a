//! The bytes of one basket in memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use branchline_format::error::Result as FormatResult;
use branchline_format::tree::embedded::EmbeddedBasket;

/// Where the bytes of a basket are in memory.
#[derive(Debug, Clone)]
pub(crate) enum BasketSource {
    /// A record, as a share of bytes that were fetched.
    Record(Bytes),
    /// A record that the next chunk needs too: whoever comes first decompresses it.
    Shared(Arc<SharedBasket>),
    /// It came with the tree.
    Embedded(Arc<EmbeddedBasket>),
}

impl BasketSource {
    /// Bytes as they lie in the file.
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Record(bytes) => bytes,
            Self::Shared(basket) => &basket.record,
            Self::Embedded(basket) => &basket.data,
        }
    }
}

/// A basket that reaches from one chunk into the next.
#[derive(Debug)]
pub(crate) struct SharedBasket {
    pub(crate) record: Bytes,
    /// Its plain bytes, once somebody needed them.
    pub(crate) plain: OnceLock<FormatResult<Vec<u8>>>,
}

/// The baskets that reach beyond a chunk, by branch and index; the next chunk finds them here.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    by_basket: HashMap<(usize, usize), Arc<SharedBasket>>,
}

impl Carried {
    pub(crate) fn get(&self, branch: usize, basket: usize) -> Option<BasketSource> {
        self.by_basket.get(&(branch, basket)).cloned().map(BasketSource::Shared)
    }

    /// Keeps a basket for the next chunk; answers with the form in which both have it.
    pub(crate) fn keep(&mut self, branch: usize, basket: usize, source: BasketSource) -> BasketSource {
        let shared = match source {
            BasketSource::Record(record) => Arc::new(SharedBasket { record, plain: OnceLock::new() }),
            BasketSource::Shared(shared) => shared,
            embedded @ BasketSource::Embedded(_) => return embedded,
        };
        self.by_basket.insert((branch, basket), Arc::clone(&shared));
        BasketSource::Shared(shared)
    }
}
