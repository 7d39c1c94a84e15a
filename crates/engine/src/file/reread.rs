//! A file that is read again, past all caches and from another replica if there is one: its bytes may have been damaged
//! on their way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use branchline_storage::{Around, RangeRead, ReadEffort, Store};

/// The same file, whose bytes are read past all caches until they are trusted.
pub(crate) struct Reread {
    store: Arc<dyn Store>,
    is_trusted: AtomicBool,
}

impl Reread {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), is_trusted: AtomicBool::new(false) })
    }

    /// From now on it is read as usual.
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
