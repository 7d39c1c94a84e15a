//! Errors of stores, with messages that are shown to users.

use std::io;

use branchline_trace::panics::Panic;

use crate::secrets::{quoted, without_secrets};
use crate::ByteRange;

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Kind of an error, so that programs can decide how to react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageErrorKind {
    /// The file does not exist.
    NotFound,
    /// The user has no permission to read the file.
    Permission,
    /// The server requires a login protocol that Branchline does not support.
    LoginUnknown,
    /// The file ends before the requested bytes.
    Truncated,
    /// Reading failed.
    Io,
    /// The scheme of the URL is not supported.
    UnsupportedScheme,
    /// The path is a directory, a pipe or a device.
    NotAFile,
    /// The server cannot be reached, or the connection was lost.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// The server violated its protocol or sent wrong bytes.
    Protocol,
    /// The server does not support the request.
    Refused,
    /// The file has changed since it was opened.
    Changed,
    /// An option for reading or an environment variable has an invalid value.
    Option,
    /// An internal error (a bug in Branchline).
    Internal,
}

/// Message and error number of the I/O error that caused another error; used because `io::Error` cannot be cloned or
/// compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct IoCause(Box<IoDetails>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct IoDetails {
    message: String,
    errno: Option<i32>,
}

impl IoCause {
    /// Returns the operating system's error number, if any.
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }
}

impl From<&io::Error> for IoCause {
    fn from(error: &io::Error) -> Self {
        let (text, errno) = (error.to_string(), error.raw_os_error());
        // The error number is removed from the text, because Python's OSError shows the number itself.
        let text = errno.and_then(|errno| text.strip_suffix(&format!(" (os error {errno})"))).unwrap_or(&text);
        // The message is quoted because libraries may repeat text that a server sent.
        Self(Box::new(IoDetails { message: quoted(text.as_bytes()), errno }))
    }
}

/// An error while opening or reading a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StorageError {
    /// Kind of the error, so that programs can decide how to react.
    pub kind: StorageErrorKind,
    /// Path or URL, as given by the user.
    pub path: String,
    /// Offset of the range that failed, if any.
    pub offset: Option<u64>,
    /// Message for users, including the path.
    pub message: String,
    /// I/O error that caused this error, if any.
    pub source: Option<IoCause>,
    pub(crate) retry_may_help: bool,
    /// Whether the error has already been counted for its storage element.
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
        Self { kind, path, offset, message, source: None, retry_may_help, is_counted: false }
    }

    /// Returns whether the same call may succeed when it is retried.
    pub fn retry_may_help(&self) -> bool {
        self.retry_may_help
    }

    /// Appends a sentence to the message.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.message = format!("{} {note}", self.message);
        self
    }

    /// Builds the error for a file that ends at `size_bytes`, before the end of `wanted`.
    pub(crate) fn truncated(path: &str, wanted: ByteRange, size_bytes: u64) -> Self {
        let ByteRange { offset, length } = wanted;
        let got = size_bytes.saturating_sub(offset).min(length);
        let message = format!(
            "{path}: wanted {length} bytes at offset {offset} and got {got}, because the file ends at {size_bytes} \
             bytes. It may have been cut short while it was written or copied: compare its size with the original."
        );
        Self::new(StorageErrorKind::Truncated, path.to_owned(), Some(offset), message, false)
    }

    /// Builds the error for a path that the operating system failed to open.
    pub(crate) fn not_opened(path: &str, error: &io::Error) -> Self {
        Self::from_io(path, None, "cannot be opened", error)
    }

    /// Builds the error for a range that the operating system failed to read.
    pub(crate) fn not_read(path: &str, wanted: ByteRange, error: &io::Error) -> Self {
        let ByteRange { offset, length } = wanted;
        Self::from_io(path, Some(offset), &format!("reading {length} bytes at offset {offset} failed"), error)
    }

    /// Builds the error for a range that does not fit into memory.
    pub(crate) fn no_memory(path: &str, wanted: ByteRange) -> Self {
        Self::not_read(path, wanted, &io::ErrorKind::OutOfMemory.into())
    }

    /// Builds the error for an invalid reading option.
    pub(crate) fn option(path: &str, reason: String) -> Self {
        Self::new(StorageErrorKind::Option, without_secrets(path), None, reason, false)
    }

    /// Builds the error for a panic in a task.
    pub(crate) fn panicked(path: &str, panic: &Panic) -> Self {
        let message = format!("{path}: {panic}");
        Self::new(StorageErrorKind::Internal, path.to_owned(), None, message, false)
    }

    pub(crate) fn not_a_file(path: &str, what_it_is: &str) -> Self {
        let message = format!("{path} is {what_it_is}, not a file.");
        Self::new(StorageErrorKind::NotAFile, path.to_owned(), None, message, false)
    }

    pub(crate) fn unsupported_scheme(path: &str, message: String) -> Self {
        Self::new(StorageErrorKind::UnsupportedScheme, path.to_owned(), None, message, false)
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
        // Retries may help, since network file systems report temporary failures as I/O errors. An invalid name stays
        // invalid.
        let is_final = matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidFilename);
        let message = format!("{path}: {what}: {reason}.");
        let retry_may_help = kind == StorageErrorKind::Io && !is_final;
        Self { source: Some(error.into()), ..Self::new(kind, path.to_owned(), offset, message, retry_may_help) }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn the_error_of_the_system_is_kept() {
        let cause = io::Error::from_raw_os_error(2);
        let error = StorageError::not_opened("f.root", &cause);
        assert_eq!(error.to_string(), "f.root: cannot be opened: there is no such file.");
        let source = error.source().and_then(|source| source.downcast_ref::<IoCause>());
        assert_eq!(source, Some(&IoCause::from(&cause)));
        assert_eq!(source.and_then(IoCause::errno), Some(2));
        assert_eq!(source.map(ToString::to_string).as_deref(), Some("No such file or directory"));
        assert_eq!(StorageError::not_a_file("f", "a pipe").source().map(ToString::to_string), None);
    }
}
