//! Errors in the bytes of a file. Each error names the object, the offset in the object, and the problem.
//!
//! ```
//! use branchline_format::error::FormatError;
//!
//! let error = FormatError::damaged(12, "its size is negative").in_object("basket 3");
//! assert_eq!(error.to_string(), "basket 3: its size is negative (offset 12)");
//! ```

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::compress::CompressError;

/// Result of parsing or writing bytes of a file.
pub type Result<T> = std::result::Result<T, FormatError>;

/// Error for bytes that violate the format or use an unsupported part of the format.
///
/// Has the size of a single pointer, so that small functions return their results in registers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct FormatError(Box<ErrorDetails>);

/// Contents of a [`FormatError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ErrorDetails {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The object that contains the error, e.g. `TTree events` or `basket 3 of branch px`.
    pub object: String,
    /// Offset in the bytes of the object.
    pub offset: u64,
    /// The problem and, where it helps, the offending value.
    pub message: String,
    /// The error of the decompressor, if decompression failed.
    pub source: Option<CompressError>,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The bytes end too early.
    Truncated,
    /// The bytes contradict the format.
    Damaged,
    /// The bytes are not a ROOT file at all.
    NotRoot,
    /// A valid but unsupported part of the format.
    Unsupported,
    /// A bug in Branchline, not a problem of the file.
    Internal,
}

impl FormatError {
    /// Create an error of `kind` at `offset`. Callers add the object's name with [`FormatError::in_object`].
    #[cold]
    pub fn new(kind: ErrorKind, offset: u64, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails { kind, object: String::new(), offset, message: message.into(), source: None }))
    }

    /// Create an error for bytes that contradict the format.
    pub fn damaged(offset: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, offset, message)
    }

    /// Create an error for compression records at `offset` that cannot be decompressed.
    #[cold]
    pub fn not_decompressed(offset: u64, error: CompressError) -> Self {
        let mut damaged = Self::damaged(offset, error.to_string());
        damaged.source = Some(error);
        damaged
    }

    /// Create an error for an unsupported part of the format.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, 0, message)
    }

    /// Create an error for a bug in Branchline.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, 0, message)
    }

    /// Prepend the name of an enclosing object. For nested objects, call this for the innermost object first.
    #[must_use]
    #[cold]
    pub fn in_object(mut self, object: impl fmt::Display) -> Self {
        self.object = if self.object.is_empty() { object.to_string() } else { format!("{object}: {}", self.object) };
        self
    }
}

impl Deref for FormatError {
    type Target = ErrorDetails;

    fn deref(&self) -> &ErrorDetails {
        &self.0
    }
}

impl DerefMut for FormatError {
    fn deref_mut(&mut self) -> &mut ErrorDetails {
        &mut self.0
    }
}

impl fmt::Display for ErrorDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        write!(f, "{}", self.message)?;
        match self.kind {
            ErrorKind::Truncated | ErrorKind::Damaged => write!(f, " (offset {})", self.offset),
            ErrorKind::NotRoot | ErrorKind::Unsupported | ErrorKind::Internal => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::compress::CompressFault;

    #[test]
    fn the_reason_why_a_record_is_not_decompressed_is_kept() {
        let reason = CompressError { offset: 3, codec: None, fault: CompressFault::ShortHeader { count: 1 } };
        let error = FormatError::not_decompressed(7, reason.clone()).in_object("basket 3");
        assert!(error.to_string().contains(&reason.to_string()), "{error}");
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&reason));
        assert!(FormatError::damaged(7, "short").source().is_none());
    }
}
