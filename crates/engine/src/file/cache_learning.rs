//! The cache of the access mode `cache` while it learns which branches are read. Like TTreeCache, it keeps the baskets
//! of the first entries until later entries are read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use branchline_storage::ByteRange;

/// The baskets of the first entries, keyed by offset. They take at most the size of the cache.
#[derive(Debug, Default)]
pub(crate) struct Learned(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nothing has been read yet.
    #[default]
    Before,
    /// The baskets are in the cache and still needed.
    Cached(HashMap<u64, Bytes>),
    /// Later entries have been read, and the cache was dropped.
    Over,
}

impl Learned {
    /// Returns the bytes of a basket if they are cached.
    pub(crate) fn find(&self, range: ByteRange) -> Option<Bytes> {
        match &*self.lock() {
            State::Cached(baskets) => {
                baskets.get(&range.offset).filter(|bytes| bytes.len() as u64 == range.length).cloned()
            }
            State::Before | State::Over => None,
        }
    }

    /// Whether the first entries still have to be read.
    pub(crate) fn is_due(&self) -> bool {
        matches!(*self.lock(), State::Before)
    }

    /// Caches the baskets that were read.
    pub(crate) fn keep(&self, ranges: &[ByteRange], baskets: &[Bytes]) {
        let by_offset = ranges.iter().zip(baskets).map(|(range, bytes)| (range.offset, bytes.clone()));
        *self.lock() = State::Cached(by_offset.collect());
    }

    /// Drops the cached baskets for good.
    pub(crate) fn end(&self) {
        *self.lock() = State::Over;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
