//! Errors of reading.

use std::fmt;

use branchline_format::error::{ErrorKind, FormatError};
use branchline_storage::{StorageError, StorageErrorKind};
use branchline_trace::panics::{self, Panic};

/// Result of reading.
pub type Result<T> = std::result::Result<T, ReadError>;

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// The kind, for programs that act on it.
    pub kind: ReadErrorKind,
    /// The file.
    pub path: String,
    /// What is wrong, with object and offset.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the same may work when tried again.
    pub retry_may_help: bool,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// No such file.
    Missing,
    /// The bytes are wrong.
    BadFile,
    /// The storage failed.
    Storage,
    /// The output cannot be written.
    Output,
    /// No such tree or branch.
    NoSuchKey,
    /// A kind of branch that is not read.
    Unsupported,
    /// It does not fit into the memory limit.
    MemoryLimit,
    /// A thread is stuck.
    Stuck,
    /// An option has an invalid value.
    Option,
    /// A fault of Branchline, not of the file or its storage. Such a file is never skipped.
    Internal,
    /// This machine gives no more threads, or the caller stopped the work.
    Refused,
}

/// The hint for a damaged file.
pub(crate) const COPY_AGAIN: &str =
    "copy the file again; trains and merges can leave it out with --skip-bad-files (in Python skip_bad_files=True)";
/// The hint for a fault of ours.
const PLEASE_REPORT: &str = concat!(
    "please report it with this message, version ",
    env!("CARGO_PKG_VERSION"),
    " of Branchline and, if you may share it, the file"
);

/// What `work` returns; its panic becomes a fault of ours about a file.
pub fn guarded<T>(path: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::guarded(work).unwrap_or_else(|panic| Err(ReadError::panicked(path, &panic)))
}

impl ReadError {
    /// An error about a file.
    pub fn new(kind: ReadErrorKind, path: &str, message: impl Into<String>) -> Self {
        // A path as the user gave it may hold secrets.
        let path = branchline_storage::without_secrets(path);
        Self { kind, path, message: message.into(), hint: None, retry_may_help: false }
    }

    /// Says what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A fault of ours, with what is needed to report it.
    pub fn internal(path: &str, message: impl fmt::Display) -> Self {
        let message = format!("a fault of Branchline: {message}");
        Self::new(ReadErrorKind::Internal, path, message).with_hint(PLEASE_REPORT)
    }

    /// A piece of work on a file panicked.
    pub fn panicked(path: &str, panic: &Panic) -> Self {
        Self::internal(path, panic)
    }

    /// Names the object in the file.
    #[must_use]
    pub(crate) fn in_object(mut self, object: impl fmt::Display) -> Self {
        self.message = format!("{object}: {}", self.message);
        self
    }

    /// The error of a decoder, with what to do about it.
    pub fn from_format(path: &str, error: &FormatError) -> Self {
        let (kind, hint) = match error.kind {
            ErrorKind::Unsupported => {
                (ReadErrorKind::Unsupported, "branchline cannot read this yet; other branches still read")
            }
            ErrorKind::NotRoot => (ReadErrorKind::BadFile, "check that it is the file you mean"),
            ErrorKind::Truncated | ErrorKind::Damaged => (ReadErrorKind::BadFile, COPY_AGAIN),
            ErrorKind::Internal => return Self::internal(path, error),
        };
        Self::new(kind, path, error.to_string()).with_hint(hint)
    }

    /// The error of a storage.
    pub fn from_storage(error: &StorageError) -> Self {
        let kind = match error.kind {
            StorageErrorKind::NotFound => ReadErrorKind::Missing,
            StorageErrorKind::Truncated => ReadErrorKind::BadFile,
            StorageErrorKind::Option => ReadErrorKind::Option,
            StorageErrorKind::Internal => return Self::internal(&error.path, &error.message),
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
        let mut own = Self::new(kind, &error.path, error.message.clone());
        own.retry_may_help = error.retry_may_help();
        own.hint = (kind == ReadErrorKind::BadFile).then(|| COPY_AGAIN.to_string());
        own
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for ReadError {}
