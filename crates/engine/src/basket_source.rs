//! The bytes of one basket in memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use branchline_format::cursor::Cursor;
use branchline_format::error::Result as FormatResult;
use branchline_format::file::parse_key_sizes;
use branchline_format::ntuple::cluster::{FieldCluster, Stored};
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
    /// The pages of a field of an RNTuple in one cluster.
    Pages(Arc<ClusterPages>),
}

impl BasketSource {
    /// Bytes of a basket as they lie in the file; of pages those of the first.
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Record(bytes) => bytes,
            Self::Shared(basket) => &basket.record,
            Self::Embedded(basket) => &basket.data,
            Self::Pages(cluster) => cluster.stored.first().map_or(&[], |bytes| bytes),
        }
    }

    /// How many bytes are there.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            Self::Pages(cluster) => cluster.stored.size_bytes(),
            other => other.stored().len(),
        }
    }

    /// Where they are in memory.
    pub(crate) fn address(&self) -> usize {
        self.stored().as_ptr() as usize
    }
}

/// The pages of a field in one cluster, or those of them that a chunk needs.
#[derive(Debug)]
pub(crate) struct ClusterPages {
    pub(crate) cluster: FieldCluster,
    pub(crate) stored: Stored,
}

/// A basket that reaches from one chunk into the next.
#[derive(Debug)]
pub(crate) struct SharedBasket {
    pub(crate) record: Bytes,
    /// Its plain bytes, once somebody needed them.
    pub(crate) plain: OnceLock<FormatResult<Vec<u8>>>,
}

/// The baskets that reach beyond a chunk, by branch and index; the next chunk finds them here.
#[derive(Debug)]
pub(crate) struct Carried {
    by_basket: HashMap<(usize, usize), BasketSource>,
    /// Pages that reach beyond a chunk, by their place in the file.
    pages: HashMap<u64, Bytes>,
    /// Plain bytes that more of them may take, and that all of them may take.
    room: u64,
    room_max: u64,
}

impl Carried {
    /// Nothing yet; the plain bytes are kept of so many baskets as fit into `room_max`, of others the stored ones.
    pub(crate) fn new(room_max: u64) -> Self {
        Self { by_basket: HashMap::new(), pages: HashMap::new(), room: room_max, room_max }
    }

    /// What was left by the chunk before; from now on this is for the next one.
    pub(crate) fn take(&mut self) -> Self {
        let next = Self::new(self.room_max);
        std::mem::replace(self, next)
    }

    /// Plain bytes that may be kept now.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.room_max - self.room
    }

    pub(crate) fn get(&self, branch: usize, basket: usize) -> Option<BasketSource> {
        self.by_basket.get(&(branch, basket)).cloned()
    }

    /// A page that the chunk before left.
    pub(crate) fn page(&self, offset: u64, size: u64) -> Option<Bytes> {
        self.pages.get(&offset).filter(|bytes| bytes.len() as u64 == size).cloned()
    }

    /// Keeps a page for the next chunk: a copy, so that what was read beside it can go.
    pub(crate) fn keep_page(&mut self, offset: u64, bytes: &Bytes) {
        if !self.pages.contains_key(&offset) {
            self.room = self.room.saturating_sub(bytes.len() as u64);
            self.pages.insert(offset, Bytes::copy_from_slice(bytes));
        }
    }

    /// Keeps a basket for the next chunk; answers with the form in which both have it.
    pub(crate) fn keep(&mut self, branch: usize, basket: usize, source: BasketSource) -> BasketSource {
        let plain_bytes = match parse_key_sizes(&mut Cursor::new(source.stored())) {
            Ok(key) if key.object_size > key.stored_size() => key.object_size,
            _ => 0,
        };
        let source = match source {
            BasketSource::Record(record) if 0 < plain_bytes && plain_bytes <= self.room => {
                BasketSource::Shared(Arc::new(SharedBasket { record, plain: OnceLock::new() }))
            }
            other => other,
        };
        if matches!(source, BasketSource::Shared(_)) {
            self.room = self.room.saturating_sub(plain_bytes);
        }
        self.by_basket.insert((branch, basket), source.clone());
        source
    }
}
