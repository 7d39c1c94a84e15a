//! Queries a file's checksums in the background.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::limits::CHECKSUM_AGAIN;
use crate::Store;

/// A query for a file's checksums, and the result once it has arrived.
#[derive(Debug, Default)]
pub(super) struct ChecksumQuery {
    last_sent: Mutex<Option<Instant>>,
    answer: Arc<OnceLock<Vec<String>>>,
}

impl ChecksumQuery {
    /// Queries the store in the background, unless the checksums are known or were queried recently. A server that must
    /// first read the whole file reports no checksum, and is queried again later. The checksums may never arrive.
    pub(super) fn send(&self, store: &Arc<dyn Store>) {
        let mut last = self.last_sent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.answer.get().is_some() || last.is_some_and(|last| last.elapsed() < CHECKSUM_AGAIN) {
            return;
        }
        *last = Some(Instant::now());
        let (store, answer) = (Arc::clone(store), Arc::clone(&self.answer));
        let query = move || {
            let checksums = store.checksums();
            if !checksums.is_empty() {
                // This has no effect if another thread has already stored the same checksums.
                let _ = answer.set(checksums);
            }
        };
        // Checksums are optional, so a failure to start the thread is ignored.
        let _ = std::thread::Builder::new().name("branchline-checksum".to_owned()).spawn(query);
    }

    /// Returns the checksums; empty until they have arrived.
    pub(super) fn answer(&self) -> &[String] {
        self.answer.get().map_or(&[], Vec::as_slice)
    }
}
