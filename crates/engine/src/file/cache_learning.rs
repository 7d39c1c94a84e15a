//! What the access mode `cache` reads of a file before it knows which branches are wanted. It is kept until later
//! entries are read, as by TTreeCache.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use branchline_storage::ByteRange;

/// The baskets of the first entries, by their offsets. They are at most as large as the cache.
#[derive(Debug, Default)]
pub(crate) struct Learned(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nothing was read yet.
    #[default]
    Before,
    /// Read, and still needed.
    Cached(HashMap<u64, Bytes>),
    /// Later entries were read.
    Over,
}

impl Learned {
    /// The bytes of a basket.
    pub(crate) fn find(&self, range: ByteRange) -> Option<Bytes> {
        match &*self.lock() {
            State::Cached(baskets) => {
                baskets.get(&range.offset).filter(|bytes| bytes.len() as u64 == range.length).cloned()
            }
            State::Before | State::Over => None,
        }
    }

    /// Whether the first entries are still to be read.
    pub(crate) fn is_due(&self) -> bool {
        matches!(*self.lock(), State::Before)
    }

    /// Keeps what was read.
    pub(crate) fn keep(&self, ranges: &[ByteRange], baskets: &[Bytes]) {
        let by_offset = ranges.iter().zip(baskets).map(|(range, bytes)| (range.offset, bytes.clone()));
        *self.lock() = State::Cached(by_offset.collect());
    }

    /// Drops what is kept, for good.
    pub(crate) fn end(&self) {
        *self.lock() = State::Over;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
