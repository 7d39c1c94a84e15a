//! Errors that several parts of a merge report.

use std::path::Path;

use crate::error::{ReadError, ReadErrorKind};

/// An input that cannot be merged.
pub(crate) fn unmergeable(path: &str, message: impl Into<String>) -> ReadError {
    ReadError::new(ReadErrorKind::Unsupported, path, message)
        .with_hint("hadd of ROOT may merge what branchline cannot merge yet")
}

/// A merge that cannot be resumed.
pub(crate) fn not_resumable(path: &Path, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Option, &path.display().to_string(), message)
        .with_hint("leave --resume out: the merge begins again")
}

/// What a killed merge left does not fit the inputs that are given now.
pub(crate) fn other_leftovers(path: &Path) -> ReadError {
    not_resumable(path, "what was left of it is not what these inputs make")
}

/// The output does not hold what was written.
pub(crate) fn differs(path: &str, message: &str) -> ReadError {
    ReadError::new(ReadErrorKind::Output, path, format!("what was written is not what was copied: {message}"))
        .with_hint("the disk or the memory may be failing; merge again, to another place")
}
