//! Failures of communication with servers, before the affected file and range are known.

use std::io;
use std::time::Duration;

use branchline_trace::panics::Panic;
use rustix::io::Errno;

use crate::secrets::without_secrets;
use crate::{ByteRange, IoCause, StorageError, StorageErrorKind};

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// A failure, and the reason for it. The reason contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Fault {
    pub(crate) kind: StorageErrorKind,
    pub(crate) reason: String,
    /// I/O error that caused the failure, if any.
    pub(crate) source: Option<IoCause>,
    /// Whether a retry may succeed.
    pub(crate) retry_may_help: bool,
    /// Wait that the server requests before a retry, if any.
    pub(crate) wait: Option<Duration>,
    /// Whether the failure has already been counted for its storage element.
    pub(crate) is_counted: bool,
}

impl Fault {
    /// Creates a failure. The kind determines whether a retry may help.
    pub(crate) fn new(kind: StorageErrorKind, reason: impl Into<String>) -> Self {
        use StorageErrorKind::{Io, Protocol, Timeout, Unreachable};
        let retry_may_help = matches!(kind, Timeout | Unreachable | Protocol | Io);
        Self { kind, reason: reason.into(), source: None, retry_may_help, wait: None, is_counted: false }
    }

    /// Marks the failure as not worth retrying now.
    pub(crate) fn final_for_now(mut self) -> Self {
        self.retry_may_help = false;
        self
    }

    /// Adds the I/O error that caused the failure.
    pub(crate) fn caused_by(self, error: &io::Error) -> Self {
        Self { source: Some(error.into()), ..self }
    }

    /// Creates the failure for a server that violated its protocol.
    pub(crate) fn protocol(server: &str, what: &str) -> Self {
        Self::new(StorageErrorKind::Protocol, format!("{server} answered with {what}"))
    }

    /// Creates the failure for a task that panicked, which is an internal error.
    pub(crate) fn panicked(panic: &Panic) -> Self {
        Self::new(StorageErrorKind::Internal, panic.to_string())
    }

    /// Creates the failure for an I/O error on this machine.
    pub(crate) fn io(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Panic>()) {
            Some(panic) => Self::panicked(panic),
            None => Self::new(StorageErrorKind::Io, error.to_string()).caused_by(error),
        }
    }

    /// Creates the failure for a range that does not fit into memory.
    pub(crate) fn no_memory() -> Self {
        Self::new(StorageErrorKind::Io, "there is not enough memory for the bytes").final_for_now()
    }

    /// Creates the failure for an I/O error on a connection to `server`. `doing` names the step that failed.
    pub(crate) fn connection(server: &str, doing: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        const LACKS_OF_THIS_MACHINE: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if Errno::from_io_error(error).is_some_and(|errno| LACKS_OF_THIS_MACHINE.contains(&errno)) {
            let reason = format!("this machine lacks resources for a connection to {server}, {doing}: {error}");
            return Self::new(StorageErrorKind::Io, reason).caused_by(error);
        }
        let fault = match error.kind() {
            TimedOut | WouldBlock => {
                Self::new(StorageErrorKind::Timeout, format!("{server} did not answer in time, {doing}"))
            }
            UnexpectedEof | ConnectionReset | BrokenPipe => {
                Self::new(StorageErrorKind::Unreachable, format!("{server} closed the connection, {doing}"))
            }
            _ => Self::new(StorageErrorKind::Unreachable, format!("no connection to {server}, {doing}: {error}")),
        };
        fault.caused_by(error)
    }

    /// Builds the error for a file, or for a range of a file.
    pub(crate) fn at(self, path: &str, range: Option<ByteRange>) -> StorageError {
        let path = without_secrets(path);
        let what = match range {
            None => "cannot be opened".to_owned(),
            Some(ByteRange { offset, length }) => format!("reading {length} bytes at offset {offset} failed"),
        };
        let message = format!("{path}: {what}: {}.", self.reason.trim_end_matches('.'));
        let error = StorageError::new(self.kind, path, range.map(|range| range.offset), message, self.retry_may_help);
        StorageError { source: self.source, is_counted: self.is_counted, ..error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_failure_of_the_server() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            let fault = Fault::connection("host:1", "while connecting", &errno.into());
            assert_eq!(fault.kind, StorageErrorKind::Io, "{fault:?}");
            assert!(fault.reason.starts_with("this machine lacks resources for a connection to host:1"), "{fault:?}");
        }
        let refused = Fault::connection("host:1", "while connecting", &Errno::CONNREFUSED.into());
        assert_eq!(refused.kind, StorageErrorKind::Unreachable);
        let errno = refused.at("http://host:1/f", None).source.and_then(|source| source.errno());
        assert_eq!(errno, Some(Errno::CONNREFUSED.raw_os_error()));
    }
}
