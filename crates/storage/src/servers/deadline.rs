//! Runs calls that may never return, such as a read from a dead mount. Each call has its own thread, which is abandoned
//! at a deadline.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

use branchline_trace::panics::guarded;

/// Maximum number of abandoned threads. When this number is reached, no more calls are started.
const ABANDONED_MAX: usize = 64;

static ABANDONED: AtomicUsize = AtomicUsize::new(0);

/// Fails if the maximum number of threads has been abandoned. The error is not a timeout, because the storage element
/// of the refused call did not cause it.
fn check_room(abandoned: usize) -> io::Result<()> {
    if abandoned < ABANDONED_MAX {
        return Ok(());
    }
    let reason = format!("{abandoned} calls of this process to storage never returned; no more calls are made");
    Err(io::Error::other(reason))
}

/// Runs `work` in its own thread and returns the result. After the time `limit`, the thread is abandoned and the error
/// is `TimedOut`. If `work` panics, the error contains the `Panic`.
pub(crate) fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    check_room(ABANDONED.load(Ordering::Relaxed))?;
    let (done, answer) = channel();
    let run = move || {
        if done.send(guarded(work)).is_err() {
            ABANDONED.fetch_sub(1, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("branchline-watched".to_owned()).spawn(run)?;
    match answer.recv_timeout(limit) {
        Ok(answer) => answer.map_err(io::Error::other),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its thread ended without a result")),
        Err(RecvTimeoutError::Timeout) => {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
            // The result may have arrived just before the thread was counted as abandoned.
            match answer.try_recv() {
                Ok(answer) => {
                    ABANDONED.fetch_sub(1, Ordering::Relaxed);
                    answer.map_err(io::Error::other)
                }
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_is_left_and_what_does_is_returned() {
        assert_eq!(within(Duration::from_secs(20), || 7).unwrap(), 7);
        let (go, wait) = channel::<()>();
        let error = within(Duration::from_millis(5), move || wait.recv().is_ok()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(go);
    }

    #[test]
    fn too_many_calls_that_never_return_are_no_silence_of_the_next_place() {
        assert!(check_room(ABANDONED_MAX - 1).is_ok());
        let fault = crate::servers::failure::Fault::io(&check_room(ABANDONED_MAX).unwrap_err());
        assert_eq!(fault.kind, crate::StorageErrorKind::Io);
        assert!(fault.reason.contains("never returned"), "{}", fault.reason);
    }

    #[test]
    fn a_panic_of_the_work_is_a_fault_of_ours() {
        let error = within(Duration::from_secs(20), || -> usize { panic!("it is 7") }).unwrap_err();
        let fault = crate::servers::failure::Fault::io(&error);
        assert_eq!(fault.kind, crate::StorageErrorKind::Internal);
        assert!(fault.reason.contains("it is 7") && fault.reason.contains("deadline.rs:"), "{}", fault.reason);
        assert!(!fault.retry_may_help);
    }
}
