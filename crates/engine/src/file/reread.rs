//! Rereads a file because its bytes may have been damaged in transit. All caches are bypassed, and another replica is
//! used if there is one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use branchline_storage::{Around, RangeRead, ReadEffort, Store};

/// A store that bypasses all caches until its bytes are trusted.
pub(crate) struct Reread {
    store: Arc<dyn Store>,
    is_trusted: AtomicBool,
}

impl Reread {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), is_trusted: AtomicBool::new(false) })
    }

    /// Marks the bytes as trusted: from now on the file is read as usual.
    pub(crate) fn trust(&self) {
        self.is_trusted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }
}

impl Around for Reread {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> branchline_storage::Result<ReadEffort> {
        if self.is_trusted() {
            self.store.read_ranges(reads)
        } else {
            self.store.read_again(reads)
        }
    }

    fn remarks(&self) -> Vec<String> {
        self.store.remarks()
    }
}
