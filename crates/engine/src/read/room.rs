//! Where the memory for fetched bytes comes from.

use std::sync::Arc;

use branchline_storage::ByteRange;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::read::budget::{Budget, Lease};
use crate::read::prefetch::{PendingRange, Prefetcher};

/// Where the memory comes from for what is fetched.
#[derive(Clone, Copy)]
pub(crate) enum Room<'a> {
    /// Leased from a budget for the chunk that is being made, or else this error for so many bytes. Some ranges may be
    /// prefetched.
    Leased(&'a Arc<Budget>, &'a dyn Fn(u64) -> ReadError, &'a Arc<Prefetcher>),
    /// Not counted: a late read, which is small.
    Free,
}

impl Room<'_> {
    pub(crate) fn lease(self, bytes: u64) -> Result<Option<Lease>> {
        let Self::Leased(budget, no_room, _) = self else { return Ok(None) };
        budget.lease(bytes).map(Some).map_err(|_| no_room(bytes))
    }

    /// The prefetch that reads this range, if there is one.
    pub(crate) fn prefetched(self, file: &Arc<File>, range: ByteRange) -> Option<Arc<PendingRange>> {
        let Self::Leased(_, _, prefetcher) = self else { return None };
        prefetcher.find(file, range)
    }
}
