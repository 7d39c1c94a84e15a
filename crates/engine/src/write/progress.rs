//! Callbacks for reporting the progress of long work, and for cancelling it.

use crate::error::Result;

/// Called with the number of bytes written since the last call. Returning an error stops the work.
pub(crate) type Progress<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Called regularly between steps. Returning an error stops the work.
pub(crate) type Check<'a> = dyn FnMut() -> Result<()> + 'a;
