//! A wrapper around a store that counts reads.

use std::sync::{Arc, Mutex, PoisonError};

use branchline_trace::{journal, Counter, Counters};

use crate::{Around, RangeRead, ReadEffort, ReplicaRead, Result, Store};

/// Remarks of stores and readers, and the reads from each replica. They remain available after the file is closed.
#[derive(Debug, Clone, Default)]
pub struct Remarks(Arc<Mutex<RemarkLists>>);

#[derive(Debug, Default)]
struct RemarkLists {
    of_stores: Vec<String>,
    of_readers: Vec<String>,
    replicas: Vec<ReplicaRead>,
}

impl Remarks {
    /// Returns all remarks. Each remark is a sentence without a full stop.
    pub fn all(&self) -> Vec<String> {
        let both = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        both.of_stores.iter().chain(&both.of_readers).cloned().collect()
    }

    /// Adds a remark by the reader of the store.
    pub fn add(&self, remark: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of_readers.push(remark);
    }

    /// Returns what was read from each replica, for a file with several replicas.
    pub fn replicas(&self) -> Vec<ReplicaRead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replicas.clone()
    }

    fn take_from(&self, store: &dyn Store) {
        let (remarks, replicas) = (store.remarks(), store.replicas());
        let mut both = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !remarks.is_empty() {
            both.of_stores = remarks;
        }
        both.replicas = replicas;
    }
}

/// A wrapper around a store that counts requested bytes, bytes read and read calls, and measures their time.
///
/// A failed read counts its requested bytes and its time, but no bytes read, because their number is unknown.
pub struct Counted {
    inner: Arc<dyn Store>,
    counters: Arc<Counters>,
    remarks: Remarks,
}

impl Counted {
    /// Wraps `inner`, and counts its reads in `counters`.
    pub fn new(inner: Arc<dyn Store>, counters: Arc<Counters>) -> Self {
        let remarks = Remarks::default();
        remarks.take_from(&*inner);
        Self { inner, counters, remarks }
    }

    /// Returns the remarks. The returned object also receives later remarks.
    pub fn remarked(&self) -> Remarks {
        self.remarks.clone()
    }
}

impl Around for Counted {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.count(reads, |reads| self.inner.read_ranges(reads))
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.count(reads, |reads| self.inner.read_again(reads))
    }
}

impl Counted {
    fn count(
        &self,
        reads: &mut [RangeRead],
        read: impl FnOnce(&mut [RangeRead]) -> Result<ReadEffort>,
    ) -> Result<ReadEffort> {
        let requested = reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.range.length));
        self.counters.add(Counter::BytesAsked, requested);
        let _queued = journal::queued_since(None);
        let effort = self.counters.timed(Counter::FetchNs, || read(reads));
        self.remarks.take_from(&*self.inner);
        let effort = effort?;
        self.counters.add(Counter::BytesRead, effort.read_bytes);
        self.counters.add(Counter::ReadCalls, effort.calls_count);
        self.counters.add(Counter::CachedBytes, effort.cached_bytes);
        Ok(effort)
    }
}
