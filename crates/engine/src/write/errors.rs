//! Errors shared by several parts of a merge.

use std::path::Path;

use crate::error::{ReadError, ReadErrorKind};

/// Creates the error for an input that cannot be merged.
pub(crate) fn unmergeable(path: &str, message: impl Into<String>) -> ReadError {
    ReadError::new(ReadErrorKind::Unsupported, path, message).with_hint("ROOT's hadd may be able to merge it")
}

/// Creates the error for a merge that cannot be resumed.
pub(crate) fn not_resumable(path: &Path, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Option, &path.display().to_string(), message)
        .with_hint("start the merge again without --resume")
}

/// Creates the error for leftovers of a killed merge that do not match the inputs.
pub(crate) fn other_leftovers(path: &Path) -> ReadError {
    not_resumable(path, "its leftovers do not match these inputs")
}

/// Creates the error for an output whose content differs from what was written.
pub(crate) fn differs(path: &str, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Output, path, format!("the output differs from what was written: {message}"))
        .with_hint("the disk or the memory may be failing; merge again to another disk")
}
