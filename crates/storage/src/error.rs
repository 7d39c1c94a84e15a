//! Errors of stores, worded for the person who reads them.

use std::fmt;
use std::io;

use branchline_trace::panics::Panic;

use crate::secrets::without_secrets;
use crate::ByteRange;

/// The result of anything that a store does.
pub type Result<T> = std::result::Result<T, StorageError>;

/// The kind of an error, for programs that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageErrorKind {
    /// There is no such file.
    NotFound,
    /// The file may not be read by this user.
    Permission,
    /// The server wants a kind of login that is not supported.
    LoginUnknown,
    /// The file ends before the bytes that are wanted.
    Truncated,
    /// Reading failed.
    Io,
    /// The path is a URL of a kind that is not readable yet.
    UnsupportedScheme,
    /// The path leads to a directory, a pipe or a device.
    NotAFile,
    /// The server cannot be reached, or the connection to it broke.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// The server answered with what its protocol does not allow, or with bytes that are not those it has.
    Protocol,
    /// The server cannot do what is needed.
    Refused,
    /// The file is no longer the one that was opened.
    Changed,
    /// An option for reading, or an environment variable, has a value that is not valid.
    Option,
    /// A fault of this program: neither the file nor its storage has to do with it.
    Internal,
}

/// A failure to open or to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageError {
    /// The kind, for programs that act on it.
    pub kind: StorageErrorKind,
    /// The path or URL as the user gave it.
    pub path: String,
    /// The range of the file, if it happened at one.
    pub offset: Option<u64>,
    /// The message for a person, with the path in it.
    pub message: String,
    pub(crate) retry_may_help: bool,
    /// Whether it is counted in the troubles of its storage element already.
    pub(crate) is_counted: bool,
}

impl StorageError {
    pub(crate) fn new(
        kind: StorageErrorKind,
        path: String,
        offset: Option<u64>,
        message: String,
        retry_may_help: bool,
    ) -> Self {
        Self { kind, path, offset, message, retry_may_help, is_counted: false }
    }

    /// Whether the same call may succeed when it is tried again.
    pub fn retry_may_help(&self) -> bool {
        self.retry_may_help
    }

    /// The same with a further sentence.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.message = format!("{} {note}", self.message);
        self
    }

    /// The file ends at `size_bytes`, before the end of `wanted`.
    pub(crate) fn truncated(path: &str, wanted: ByteRange, size_bytes: u64) -> Self {
        let ByteRange { offset, length } = wanted;
        let got = size_bytes.saturating_sub(offset).min(length);
        Self {
            kind: StorageErrorKind::Truncated,
            path: path.to_owned(),
            offset: Some(offset),
            message: format!(
                "{path}: wanted {length} bytes at offset {offset} and got {got}, because the file ends at \
                 {size_bytes} bytes. It may have been cut short while it was written or copied: compare its size \
                 with the original."
            ),
            retry_may_help: false,
            is_counted: false,
        }
    }

    /// The operating system refused to open `path`.
    pub(crate) fn not_opened(path: &str, error: &io::Error) -> Self {
        Self::from_io(path, None, "cannot be opened", error)
    }

    /// The operating system failed to read `wanted`.
    pub(crate) fn not_read(path: &str, wanted: ByteRange, error: &io::Error) -> Self {
        let ByteRange { offset, length } = wanted;
        Self::from_io(path, Some(offset), &format!("reading {length} bytes at offset {offset} failed"), error)
    }

    /// There is not enough memory for the bytes of `wanted`.
    pub(crate) fn no_memory(path: &str, wanted: ByteRange) -> Self {
        Self::not_read(path, wanted, &io::ErrorKind::OutOfMemory.into())
    }

    /// An option for reading is not valid.
    pub(crate) fn option(path: &str, reason: String) -> Self {
        let path = without_secrets(path);
        Self {
            kind: StorageErrorKind::Option,
            message: reason,
            path,
            offset: None,
            retry_may_help: false,
            is_counted: false,
        }
    }

    /// A piece of work panicked.
    pub(crate) fn panicked(path: &str, panic: &Panic) -> Self {
        let message = format!("{path}: {panic}");
        Self::new(StorageErrorKind::Internal, path.to_owned(), None, message, false)
    }

    pub(crate) fn not_a_file(path: &str, what_it_is: &str) -> Self {
        Self {
            kind: StorageErrorKind::NotAFile,
            path: path.to_owned(),
            offset: None,
            message: format!("{path} is {what_it_is}, not a file."),
            retry_may_help: false,
            is_counted: false,
        }
    }

    pub(crate) fn unsupported_scheme(path: &str, message: String) -> Self {
        Self {
            kind: StorageErrorKind::UnsupportedScheme,
            path: path.to_owned(),
            offset: None,
            message,
            retry_may_help: false,
            is_counted: false,
        }
    }

    fn from_io(path: &str, offset: Option<u64>, what: &str, error: &io::Error) -> Self {
        use io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => StorageErrorKind::NotFound,
            ErrorKind::PermissionDenied => StorageErrorKind::Permission,
            ErrorKind::IsADirectory => StorageErrorKind::NotAFile,
            _ => StorageErrorKind::Io,
        };
        let reason = match kind {
            StorageErrorKind::NotFound => "there is no such file".to_owned(),
            StorageErrorKind::Permission => "you have no permission to read it".to_owned(),
            _ => error.to_string(),
        };
        // Network file systems report passing trouble as I/O errors; a name that is impossible stays so.
        let is_final = matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidFilename);
        Self {
            kind,
            path: path.to_owned(),
            offset,
            message: format!("{path}: {what}: {reason}."),
            retry_may_help: kind == StorageErrorKind::Io && !is_final,
            is_counted: false,
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for StorageError {}
