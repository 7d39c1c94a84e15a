//! The checksums of a file, asked for in the background.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::limits::CHECKSUM_AGAIN;
use crate::Store;

/// What a place told when it was asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    last: Mutex<Option<Instant>>,
    told: Arc<OnceLock<Vec<String>>>,
}

impl Asked {
    /// Asks this store, unless it has told or was asked lately: a server that has to read the whole file first says so
    /// and is asked again later. The answer may never come.
    pub(super) fn ask(&self, store: &Arc<dyn Store>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.told.get().is_some() || last.is_some_and(|last| last.elapsed() < CHECKSUM_AGAIN) {
            return;
        }
        *last = Some(Instant::now());
        let (store, told) = (Arc::clone(store), Arc::clone(&self.told));
        let ask = move || {
            let checksums = store.checksums();
            if !checksums.is_empty() {
                // Another thread may have been told the same.
                let _ = told.set(checksums);
            }
        };
        // Without a thread nothing is told.
        let _ = std::thread::Builder::new().name("branchline-checksum".to_owned()).spawn(ask);
    }

    /// What was told until now.
    pub(super) fn told(&self) -> &[String] {
        self.told.get().map_or(&[], Vec::as_slice)
    }
}
