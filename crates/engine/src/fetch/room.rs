//! Where the memory for fetched bytes comes from.

use std::sync::Arc;

use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::fetch::prefetch::{PendingRange, Prefetcher};
use crate::file::File;
use crate::memory::budget::{Budget, Lease};

/// Where the memory comes from for what is fetched.
#[derive(Clone, Copy)]
pub(crate) enum Room<'a> {
    /// From the budget of a stream, for the chunk that is being made.
    Leased(LeasedRoom<'a>),
    /// Not counted: a late read, which is small.
    Free,
}

/// The memory of a stream.
#[derive(Clone, Copy)]
pub(crate) struct LeasedRoom<'a> {
    pub(crate) budget: &'a Arc<Budget>,
    /// The error if this many stored bytes never fit.
    pub(crate) too_large: &'a dyn Fn(u64) -> ReadError,
    /// Has some of the ranges already.
    pub(crate) prefetcher: &'a Arc<Prefetcher>,
}

impl Room<'_> {
    pub(crate) fn lease(self, bytes: u64) -> Result<Option<Lease>> {
        let Self::Leased(LeasedRoom { budget, too_large, .. }) = self else { return Ok(None) };
        budget.lease(bytes).map(Some).map_err(|_| too_large(bytes))
    }

    /// The prefetch that reads this range, if there is one.
    pub(crate) fn prefetched(self, file: &Arc<File>, range: ByteRange) -> Option<Arc<PendingRange>> {
        let Self::Leased(LeasedRoom { prefetcher, .. }) = self else { return None };
        prefetcher.find(file, range)
    }
}
