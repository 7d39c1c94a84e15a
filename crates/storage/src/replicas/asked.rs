//! The checksum of a file, asked for in the background, once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::Store;

/// What a place told when it was asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    is_asked: AtomicBool,
    told: Arc<OnceLock<Option<String>>>,
}

impl Asked {
    /// Asks this store, unless one was asked already. The answer may never come.
    pub(super) fn ask(&self, store: &Arc<dyn Store>) {
        if self.is_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (store, told) = (Arc::clone(store), Arc::clone(&self.told));
        let ask = move || {
            // Nobody else sets it.
            let _ = told.set(store.checksum());
        };
        // Without a thread nothing is told.
        let _ = std::thread::Builder::new().name("branchline-checksum".to_owned()).spawn(ask);
    }

    /// What was told until now.
    pub(super) fn told(&self) -> Option<String> {
        self.told.get().cloned().flatten()
    }
}
