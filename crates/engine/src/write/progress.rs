//! How long work reports its progress and is stopped.

use crate::error::Result;

/// Is called with the bytes that were written since the last call. An error ends the work.
pub(crate) type Progress<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Is called between pieces of work. An error ends the work.
pub(crate) type Check<'a> = dyn FnMut() -> Result<()> + 'a;
