//! A failure between client and server, before file and bytes are added to it.

use std::io;
use std::time::Duration;

use branchline_trace::panics::Panic;
use rustix::io::Errno;

use crate::secrets::without_secrets;
use crate::{ByteRange, StorageError, StorageErrorKind};

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// A failure with its reason, which names no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: StorageErrorKind,
    pub(crate) reason: String,
    /// Whether the same may succeed when it is tried again.
    pub(crate) retry_may_help: bool,
    /// How long the server asks to wait before the request is made again.
    pub(crate) wait: Option<Duration>,
    /// Whether it is counted in the troubles of its storage element already.
    pub(crate) is_counted: bool,
}

impl Fault {
    /// A failure of this kind; the kind says whether it is final.
    pub(crate) fn new(kind: StorageErrorKind, reason: impl Into<String>) -> Self {
        use StorageErrorKind::{Io, Protocol, Timeout, Unreachable};
        let retry_may_help = matches!(kind, Timeout | Unreachable | Protocol | Io);
        Self { kind, reason: reason.into(), retry_may_help, wait: None, is_counted: false }
    }

    /// The same without a retry: it would not help now.
    pub(crate) fn final_for_now(mut self) -> Self {
        self.retry_may_help = false;
        self
    }

    /// The server breaks its protocol.
    pub(crate) fn protocol(server: &str, what: &str) -> Self {
        Self::new(StorageErrorKind::Protocol, format!("{server} answered with {what}"))
    }

    /// A piece of work panicked: a fault of ours.
    pub(crate) fn panicked(panic: &Panic) -> Self {
        Self::new(StorageErrorKind::Internal, panic.to_string())
    }

    /// Input or output on this machine failed.
    pub(crate) fn io(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Panic>()) {
            Some(panic) => Self::panicked(panic),
            None => Self::new(StorageErrorKind::Io, error.to_string()),
        }
    }

    /// There is not enough memory for the bytes that are wanted.
    pub(crate) fn no_memory() -> Self {
        Self::new(StorageErrorKind::Io, "there is not enough memory for the bytes").final_for_now()
    }

    /// Input or output on a connection to `server` failed, in the step `doing`.
    pub(crate) fn connection(server: &str, doing: &str, error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        const LACKS_OF_THIS_MACHINE: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if Errno::from_io_error(error).is_some_and(|errno| LACKS_OF_THIS_MACHINE.contains(&errno)) {
            let reason = format!("this machine has no room for a connection to {server}, {doing}: {error}");
            return Self::new(StorageErrorKind::Io, reason);
        }
        match error.kind() {
            TimedOut | WouldBlock => {
                Self::new(StorageErrorKind::Timeout, format!("{server} did not answer in time, {doing}"))
            }
            UnexpectedEof | ConnectionReset | BrokenPipe => {
                Self::new(StorageErrorKind::Unreachable, format!("{server} closed the connection, {doing}"))
            }
            _ => Self::new(StorageErrorKind::Unreachable, format!("no connection to {server}, {doing}: {error}")),
        }
    }

    /// The error for a file, or for a range of it.
    pub(crate) fn at(self, path: &str, range: Option<ByteRange>) -> StorageError {
        let path = without_secrets(path);
        let what = match range {
            None => "cannot be opened".to_owned(),
            Some(ByteRange { offset, length }) => format!("reading {length} bytes at offset {offset} failed"),
        };
        let message = format!("{path}: {what}: {}.", self.reason.trim_end_matches('.'));
        let error = StorageError::new(self.kind, path, range.map(|range| range.offset), message, self.retry_may_help);
        StorageError { is_counted: self.is_counted, ..error }
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
            assert!(fault.reason.starts_with("this machine has no room for a connection to host:1"), "{fault:?}");
        }
        let refused = Fault::connection("host:1", "while connecting", &Errno::CONNREFUSED.into());
        assert_eq!(refused.kind, StorageErrorKind::Unreachable);
    }
}
