//! A file that is read past all that keeps its bytes, and from another replica if there is one: they may have been damaged
//! on their way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use branchline_storage::{Around, RangeRead, ReadEffort, Store};

/// The same file, every byte of which is read anew, until it is settled what its metadata are.
pub(crate) struct Anew {
    store: Arc<dyn Store>,
    is_settled: AtomicBool,
}

impl Anew {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), is_settled: AtomicBool::new(false) })
    }

    /// From now on it is read as it was.
    pub(crate) fn settle(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }
}

impl Around for Anew {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> branchline_storage::Result<ReadEffort> {
        if self.is_settled() {
            self.store.read_ranges(reads)
        } else {
            self.store.read_again(reads)
        }
    }

    fn remarks(&self) -> Vec<String> {
        self.store.remarks()
    }
}
