//! The source of memory for fetched bytes.

use std::sync::Arc;

use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::prefetch::{PendingRange, Prefetcher};
use crate::file::File;
use crate::memory::budget::{Budget, Lease};

/// The source of memory for fetched bytes.
#[derive(Clone, Copy)]
pub(crate) enum Room<'a> {
    /// The budget of a stream. Memory is leased for the chunk that is being prepared.
    Leased(LeasedRoom<'a>),
    /// Memory that is not counted: for small reads outside the budget of a stream.
    Free,
}

/// Memory leased from the budget of a stream.
#[derive(Clone, Copy)]
pub(crate) struct LeasedRoom<'a> {
    pub(crate) budget: &'a Arc<Budget>,
    /// Creates the error for stored bytes that exceed the budget even when all of it is free.
    pub(crate) too_large: &'a dyn Fn(u64) -> ReadError,
    /// The prefetcher, which holds the ranges that are already prefetched.
    pub(crate) prefetcher: &'a Arc<Prefetcher>,
}

impl Room<'_> {
    pub(crate) fn lease(self, bytes: u64) -> Result<Option<Lease>> {
        let Self::Leased(LeasedRoom { budget, too_large, .. }) = self else { return Ok(None) };
        budget.lease(bytes).map(Some).map_err(|_| too_large(bytes))
    }

    /// Finds the prefetch that contains this range.
    pub(crate) fn prefetched(self, file: &Arc<File>, range: ByteRange) -> Option<Arc<PendingRange>> {
        let Self::Leased(LeasedRoom { prefetcher, .. }) = self else { return None };
        prefetcher.find(file, range)
    }
}
