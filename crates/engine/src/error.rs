//! Errors of reading and writing files.
//!
//! ```
//! use branchline_engine::error::{ReadError, ReadErrorKind};
//!
//! let error = ReadError::new(ReadErrorKind::NoSuchKey, "f.root", "it has no tree").with_hint("name another one");
//! assert_eq!(error.to_string(), "f.root: it has no tree");
//! ```

use std::fmt;

use branchline_format::error::{ErrorKind, FormatError};
use branchline_storage::{IoCause, StorageError, StorageErrorKind};
use branchline_trace::panics::{self, Panic};

/// Result with a [`ReadError`].
pub type Result<T> = std::result::Result<T, ReadError>;

/// An error of reading or writing a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ReadError {
    /// The kind of the error, for programs that handle errors.
    pub kind: ReadErrorKind,
    /// Path or URL of the file.
    pub path: String,
    /// Description of the problem, with the affected object and its offset.
    pub message: String,
    /// A hint on how the user can solve the problem.
    pub hint: Option<String>,
    /// Whether a retry may succeed.
    pub retry_may_help: bool,
    /// The lower-level error that caused this error.
    pub source: Option<Box<Cause>>,
}

/// A lower-level error that caused a [`ReadError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum Cause {
    /// An error of a decoder.
    Format(#[from] FormatError),
    /// An error of the storage.
    Storage(#[from] StorageError),
    /// An error of the operating system while an output was written.
    Io(#[from] IoCause),
    /// A panic in Branchline.
    Panic(#[from] Panic),
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// The file does not exist.
    Missing,
    /// The file is damaged or not a ROOT file.
    BadFile,
    /// The storage failed.
    Storage,
    /// The output cannot be written.
    Output,
    /// The file has no such tree or branch.
    NoSuchKey,
    /// This kind of branch is not supported.
    Unsupported,
    /// The request does not fit in the memory limit.
    MemoryLimit,
    /// A thread is stuck.
    Stuck,
    /// An option has an invalid value.
    Option,
    /// An internal error (a bug in Branchline), for which neither the file nor its storage is to blame. Files with
    /// internal errors are never skipped.
    Internal,
    /// The operating system refuses to start more threads, or the caller cancelled the work.
    Refused,
}

/// The hint for a damaged file.
pub(crate) const COPY_AGAIN: &str =
    "copy the file again; trains and merges can leave it out with --skip-bad-files (in Python skip_bad_files=True)";
/// The hint for an internal error.
const PLEASE_REPORT: &str = concat!(
    "please report it with this message, version ",
    env!("CARGO_PKG_VERSION"),
    " of Branchline and, if you may share it, the file"
);

/// Runs `work`, and converts a panic into an internal error that names the file.
pub fn guarded<T>(path: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::guarded(work).unwrap_or_else(|panic| Err(ReadError::panicked(path, &panic)))
}

impl ReadError {
    /// Creates an error that names the file.
    pub fn new(kind: ReadErrorKind, path: &str, message: impl Into<String>) -> Self {
        // The user's path may contain secrets.
        let path = branchline_storage::without_secrets(path);
        Self { kind, path, message: message.into(), hint: None, retry_may_help: false, source: None }
    }

    /// Adds a hint on how to solve the problem.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the lower-level error that caused this error.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        self.source = Some(Box::new(cause.into()));
        self
    }

    /// Creates an internal error, with the hint on how to report it.
    pub fn internal(path: &str, message: impl fmt::Display) -> Self {
        let message = format!("internal error in Branchline: {message}");
        Self::new(ReadErrorKind::Internal, path, message).with_hint(PLEASE_REPORT)
    }

    /// Creates an internal error for a panic that occurred while a file was processed.
    pub fn panicked(path: &str, panic: &Panic) -> Self {
        Self::internal(path, panic).caused_by(panic.clone())
    }

    /// Prefixes the message with the object in the file that the error is about.
    #[must_use]
    pub(crate) fn in_object(mut self, object: impl fmt::Display) -> Self {
        self.message = format!("{object}: {}", self.message);
        self
    }

    /// Converts a decoder error, and adds a hint on how to solve the problem.
    pub fn from_format(path: &str, error: &FormatError) -> Self {
        let (kind, hint) = match error.kind {
            ErrorKind::Unsupported => {
                (ReadErrorKind::Unsupported, "branchline does not support this yet; other branches can still be read")
            }
            ErrorKind::NotRoot => (ReadErrorKind::BadFile, "check the path"),
            ErrorKind::Truncated | ErrorKind::Damaged => (ReadErrorKind::BadFile, COPY_AGAIN),
            ErrorKind::Internal => return Self::internal(path, error).caused_by(error.clone()),
        };
        Self::new(kind, path, error.to_string()).with_hint(hint).caused_by(error.clone())
    }

    /// Converts a storage error.
    pub fn from_storage(error: &StorageError) -> Self {
        let kind = match error.kind {
            StorageErrorKind::NotFound => ReadErrorKind::Missing,
            StorageErrorKind::Truncated => ReadErrorKind::BadFile,
            StorageErrorKind::Option => ReadErrorKind::Option,
            StorageErrorKind::Internal => {
                return Self::internal(&error.path, &error.message).caused_by(error.clone());
            }
            StorageErrorKind::Permission
            | StorageErrorKind::LoginUnknown
            | StorageErrorKind::Io
            | StorageErrorKind::UnsupportedScheme
            | StorageErrorKind::NotAFile
            | StorageErrorKind::Unreachable
            | StorageErrorKind::Timeout
            | StorageErrorKind::Protocol
            | StorageErrorKind::Refused
            | StorageErrorKind::Changed => ReadErrorKind::Storage,
        };
        let mut own = Self::new(kind, &error.path, error.message.clone()).caused_by(error.clone());
        own.retry_may_help = error.retry_may_help();
        own.hint = (kind == ReadErrorKind::BadFile).then(|| COPY_AGAIN.to_string());
        own
    }
}
