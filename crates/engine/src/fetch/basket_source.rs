//! The source of a basket's bytes, once they are in memory.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::basket::{BasketRecord, ScratchBytes};
use branchline_format::cursor::Cursor;
use branchline_format::error::Result as FormatResult;
use branchline_format::file::parse_key_sizes;
use branchline_format::ntuple::cluster::{FieldCluster, FieldReader, Stored};

use crate::fetch::request::BasketId;
use crate::file::rntuple_metadata::Ntuple;
use crate::memory::budget::{Budget, Lease};

/// Location of the bytes of a basket in memory.
#[derive(Debug, Clone)]
pub(crate) enum BasketSource {
    /// A record, which shares the buffer of the fetched bytes.
    Record(Bytes),
    /// A record that the next chunk needs too. The first decoder that uses it decompresses it for both chunks.
    Shared(Arc<SharedBasket>),
    /// A basket embedded in the tree.
    Embedded(Arc<EmbeddedBasket>),
    /// The pages of an RNTuple field in one cluster.
    Pages(Arc<ClusterPages>),
}

impl BasketSource {
    /// The stored bytes of a basket; for pages, only the bytes of the first page.
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Record(bytes) => bytes,
            Self::Shared(basket) => &basket.record,
            Self::Embedded(basket) => &basket.data,
            Self::Pages(cluster) => cluster.stored.first().map_or(&[], |bytes| bytes),
        }
    }

    /// Number of stored bytes.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            Self::Pages(cluster) => cluster.stored.size_bytes(),
            other => other.stored().len(),
        }
    }

    /// Temporary memory for decompressing the basket; none for a shared or embedded basket, whose decompressed bytes
    /// are kept.
    pub(crate) fn scratch(&self, entries_count: u64) -> ScratchBytes {
        match self {
            // If the record does not parse, decoding reports the error.
            Self::Record(bytes) => {
                BasketRecord::parse(bytes, entries_count).map_or(ScratchBytes::default(), |record| record.scratch())
            }
            Self::Shared(_) | Self::Embedded(_) => ScratchBytes::default(),
            Self::Pages(pages) => {
                let kept = pages.cluster.largest_page_bytes(&pages.ntuple.schema);
                ScratchBytes { kept, passing: 0 }
            }
        }
    }

    /// Address of the stored bytes in memory.
    pub(crate) fn address(&self) -> usize {
        self.stored().as_ptr() as usize
    }
}

/// The pages of a field in one cluster, or only the pages that a chunk needs.
#[derive(Debug)]
pub(crate) struct ClusterPages {
    pub(crate) ntuple: Arc<Ntuple>,
    /// Index of the field's branch.
    pub(crate) branch: usize,
    pub(crate) cluster: FieldCluster,
    pub(crate) stored: Stored,
}

impl ClusterPages {
    /// Returns a reader of the field over the fetched pages.
    pub(crate) fn reader(&self) -> FormatResult<FieldReader<'_>> {
        let form = self.ntuple.form(self.branch).map_err(Clone::clone)?;
        Ok(FieldReader { schema: &self.ntuple.schema, form, cluster: &self.cluster, stored: &self.stored })
    }
}

/// A basket that extends from one chunk into the next.
#[derive(Debug)]
pub(crate) struct SharedBasket {
    pub(crate) record: Bytes,
    /// The decompressed bytes, or the error. Filled by the first decoder that needs them.
    pub(crate) plain: OnceLock<FormatResult<Vec<u8>>>,
    _lease: Lease,
}

/// Baskets that extend beyond a chunk and are kept for the next chunk, keyed by branch and index. Baskets that do not
/// fit are fetched again.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    by_basket: HashMap<BasketId, CarriedBasket>,
    /// Pages that extend beyond a chunk, keyed by their offset in the file.
    pages: HashMap<u64, Bytes>,
    budget: Option<Arc<Budget>>,
    /// Number of bytes, out of `room_max`, that are still available for carried baskets.
    room: u64,
    room_max: u64,
}

/// A carried basket, with the lease of its memory.
#[derive(Debug, Clone)]
pub(crate) struct CarriedBasket {
    pub(crate) source: BasketSource,
    bytes: u64,
}

impl Carried {
    /// Creates an empty set with this maximum total size.
    pub(crate) fn new(budget: &Arc<Budget>, room_max: u64) -> Self {
        Self { budget: Some(Arc::clone(budget)), room: room_max, room_max, ..Self::default() }
    }

    /// Takes the baskets carried over from the previous chunk, and leaves an empty set.
    pub(crate) fn take(&mut self) -> Self {
        let (budget, room_max) = (self.budget.clone(), self.room_max);
        std::mem::replace(self, Self { budget, room: room_max, room_max, ..Self::default() })
    }

    /// Drops all carried baskets and pages; returns whether there were any.
    pub(crate) fn clear(&mut self) -> bool {
        let before = self.take();
        !before.by_basket.is_empty() || !before.pages.is_empty()
    }

    /// Returns a basket carried over from the previous chunk.
    pub(crate) fn get(&self, basket: BasketId) -> Option<&CarriedBasket> {
        self.by_basket.get(&basket)
    }

    /// Returns a page carried over from the previous chunk.
    pub(crate) fn page(&self, offset: u64, size: u64) -> Option<Bytes> {
        self.pages.get(&offset).filter(|bytes| bytes.len() as u64 == size).cloned()
    }

    /// Leases this many more bytes, if that is within `room`.
    fn lease(&mut self, bytes: u64) -> Option<Lease> {
        let room = self.room.checked_sub(bytes)?;
        let lease = self.budget.as_ref()?.try_lease(bytes)?;
        self.room = room;
        Some(lease)
    }

    /// Copies bytes, so that the buffer of the whole read can be dropped. Returns None if there is no room for the
    /// copy.
    fn copy(&mut self, bytes: &[u8]) -> Option<Bytes> {
        let lease = self.lease(bytes.len() as u64)?;
        Some(Bytes::from_owner(Copied(bytes.to_vec(), lease)))
    }

    /// Keeps a page for the next chunk.
    pub(crate) fn keep_page(&mut self, offset: u64, bytes: &Bytes) {
        if !self.pages.contains_key(&offset)
            && let Some(copy) = self.copy(bytes)
        {
            self.pages.insert(offset, copy);
        }
    }

    /// Keeps a carried basket for another chunk.
    pub(crate) fn keep_on(&mut self, basket: BasketId, kept: &CarriedBasket) {
        self.room = self.room.saturating_sub(kept.bytes);
        self.by_basket.insert(basket, kept.clone());
    }

    /// Keeps a basket for the next chunk, and returns the source that both chunks use. If the basket was loaded with
    /// the file, its bytes are not copied.
    pub(crate) fn keep(&mut self, basket: BasketId, source: BasketSource, is_loaded: bool) -> BasketSource {
        let room = self.room;
        let source = match source {
            BasketSource::Record(record) => {
                let kept = if is_loaded { Some(record.clone()) } else { self.copy(&record) };
                let Some(record) = kept else { return BasketSource::Record(record) };
                match self.plain_room(&record) {
                    Some(lease) => {
                        BasketSource::Shared(Arc::new(SharedBasket { record, plain: OnceLock::new(), _lease: lease }))
                    }
                    None => BasketSource::Record(record),
                }
            }
            other => other,
        };
        let kept = CarriedBasket { source: source.clone(), bytes: room - self.room };
        self.by_basket.insert(basket, kept);
        source
    }

    /// Leases memory for a basket's decompressed bytes, if the basket is compressed.
    fn plain_room(&mut self, record: &[u8]) -> Option<Lease> {
        let key = parse_key_sizes(&mut Cursor::new(record)).ok()?;
        if key.is_compressed() {
            self.lease(key.object_size)
        } else {
            None
        }
    }
}

struct Copied(Vec<u8>, #[expect(dead_code, reason = "given back when it is dropped")] Lease);

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
