//! The bytes of one basket in memory.

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

/// Where the bytes of a basket are in memory.
#[derive(Debug, Clone)]
pub(crate) enum BasketSource {
    /// A record, as a share of bytes that were fetched.
    Record(Bytes),
    /// A record that the next chunk needs too. The first decoder that needs it decompresses it.
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

    /// What decompressing it takes for a while. A shared basket takes nothing: its plain bytes stay.
    pub(crate) fn scratch(&self, entries_count: u64) -> ScratchBytes {
        match self {
            // Decoding reports the error of a record that does not parse.
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

    /// Where they are in memory.
    pub(crate) fn address(&self) -> usize {
        self.stored().as_ptr() as usize
    }
}

/// The pages of a field in one cluster, or those of them that a chunk needs.
#[derive(Debug)]
pub(crate) struct ClusterPages {
    pub(crate) ntuple: Arc<Ntuple>,
    /// The branch of the field.
    pub(crate) branch: usize,
    pub(crate) cluster: FieldCluster,
    pub(crate) stored: Stored,
}

impl ClusterPages {
    /// Decodes the field from the pages that were fetched.
    pub(crate) fn reader(&self) -> FormatResult<FieldReader<'_>> {
        let form = self.ntuple.form(self.branch).map_err(Clone::clone)?;
        Ok(FieldReader { schema: &self.ntuple.schema, form, cluster: &self.cluster, stored: &self.stored })
    }
}

/// A basket that reaches from one chunk into the next.
#[derive(Debug)]
pub(crate) struct SharedBasket {
    pub(crate) record: Bytes,
    /// Its decompressed bytes, filled by the first decoder.
    pub(crate) plain: OnceLock<FormatResult<Vec<u8>>>,
    _lease: Lease,
}

/// The baskets that reach beyond a chunk, kept for the next one, by branch and index. Those without room are fetched
/// again.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    by_basket: HashMap<BasketId, CarriedBasket>,
    /// Pages that reach beyond a chunk, by their place in the file.
    pages: HashMap<u64, Bytes>,
    budget: Option<Arc<Budget>>,
    /// Bytes that more of them may take, and that all of them may take.
    room: u64,
    room_max: u64,
}

/// A basket that is kept, and what that takes.
#[derive(Debug, Clone)]
pub(crate) struct CarriedBasket {
    pub(crate) source: BasketSource,
    bytes: u64,
}

impl Carried {
    /// Nothing yet, and room for this many bytes.
    pub(crate) fn new(budget: &Arc<Budget>, room_max: u64) -> Self {
        Self { budget: Some(Arc::clone(budget)), room: room_max, room_max, ..Self::default() }
    }

    /// Takes what the chunk before left, and begins with nothing for the next one.
    pub(crate) fn take(&mut self) -> Self {
        let (budget, room_max) = (self.budget.clone(), self.room_max);
        std::mem::replace(self, Self { budget, room: room_max, room_max, ..Self::default() })
    }

    /// Drops everything; returns whether there was anything.
    pub(crate) fn clear(&mut self) -> bool {
        let before = self.take();
        !before.by_basket.is_empty() || !before.pages.is_empty()
    }

    /// A basket that the chunk before left.
    pub(crate) fn get(&self, basket: BasketId) -> Option<&CarriedBasket> {
        self.by_basket.get(&basket)
    }

    /// A page that the chunk before left.
    pub(crate) fn page(&self, offset: u64, size: u64) -> Option<Bytes> {
        self.pages.get(&offset).filter(|bytes| bytes.len() as u64 == size).cloned()
    }

    /// Room for this many more bytes, if there is any.
    fn lease(&mut self, bytes: u64) -> Option<Lease> {
        let room = self.room.checked_sub(bytes)?;
        let lease = self.budget.as_ref()?.try_lease(bytes)?;
        self.room = room;
        Some(lease)
    }

    /// A copy, so that the buffer of the whole read can be dropped.
    fn copy(&mut self, bytes: &[u8]) -> Option<Bytes> {
        let lease = self.lease(bytes.len() as u64)?;
        Some(Bytes::from_owner(Copied(bytes.to_vec(), lease)))
    }

    /// Keeps a page for the next chunk.
    pub(crate) fn keep_page(&mut self, offset: u64, bytes: &Bytes) {
        if !self.pages.contains_key(&offset) {
            if let Some(copy) = self.copy(bytes) {
                self.pages.insert(offset, copy);
            }
        }
    }

    /// Keeps a basket that was kept before for another chunk.
    pub(crate) fn keep_on(&mut self, basket: BasketId, kept: &CarriedBasket) {
        self.room = self.room.saturating_sub(kept.bytes);
        self.by_basket.insert(basket, kept.clone());
    }

    /// Keeps a basket for the next chunk; returns the source that both chunks use. Bytes that came with the file are
    /// not copied.
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

    /// Room for the plain bytes of a basket, if it is compressed.
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
