//! Queries the checksums of a file in the background.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::limits::CHECKSUM_AGAIN;
use crate::Store;

/// One question for the checksums of a file, and the answer when it has come.
#[derive(Debug, Default)]
pub(super) struct ChecksumQuery {
    last_sent: Mutex<Option<Instant>>,
    answer: Arc<OnceLock<Vec<String>>>,
}

impl ChecksumQuery {
    /// Queries this store, unless it has answered or was queried lately. A server that has to read the whole file first
    /// says so and is queried again later. The answer may never come.
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
                // Another thread may have set the same answer.
                let _ = answer.set(checksums);
            }
        };
        // Without a thread there is no answer, which is allowed.
        let _ = std::thread::Builder::new().name("branchline-checksum".to_owned()).spawn(query);
    }

    /// The checksums, empty before they have come.
    pub(super) fn answer(&self) -> &[String] {
        self.answer.get().map_or(&[], Vec::as_slice)
    }
}
