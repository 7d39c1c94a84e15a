//! What is wrong with some bytes: which object, at which offset, and what was expected.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Result of looking at bytes of a file.
pub type Result<T> = std::result::Result<T, FormatError>;

/// Bytes that are not what the format demands, or a kind that is not read.
///
/// It is one pointer, so that the result of a small step fits into registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError(Box<ErrorDetails>);

/// What a [`FormatError`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDetails {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The object in whose bytes it was found, e.g. `TTree events` or `basket 3 of branch px`.
    pub object: String,
    /// Offset in the bytes of that object.
    pub offset: u64,
    /// What was expected and what was found.
    pub message: String,
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
    /// The format is known but this part of it is not read.
    Unsupported,
    /// A fault of this program: the bytes have nothing to do with it.
    Internal,
}

impl FormatError {
    /// An error of `kind` at `offset`; the object is named later by [`FormatError::in_object`].
    #[cold]
    pub fn new(kind: ErrorKind, offset: u64, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails { kind, object: String::new(), offset, message: message.into() }))
    }

    /// Bytes that contradict the format.
    pub fn damaged(offset: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, offset, message)
    }

    /// A part of the format that is not read.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, 0, message)
    }

    /// A fault of this program, which is to be reported.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, 0, message)
    }

    /// Names the object; an outer object is put before an inner one.
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

impl fmt::Display for FormatError {
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

impl std::error::Error for FormatError {}
