//! Calls that may never return, like a read from a dead mount: they run in a thread, which is abandoned at a deadline.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

/// With so many abandoned threads, what they wait for is dead, and no more are started.
const ABANDONED_MAX: usize = 64;

static ABANDONED: AtomicUsize = AtomicUsize::new(0);

/// The result of `work` if it returns in time, else `TimedOut`; its thread then goes on alone.
pub(crate) fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if ABANDONED.load(Ordering::Relaxed) >= ABANDONED_MAX {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (done, answer) = channel();
    let run = move || {
        if done.send(work()).is_err() {
            ABANDONED.fetch_sub(1, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("branchline-watched".to_owned()).spawn(run)?;
    match answer.recv_timeout(limit) {
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("a mistake in Branchline")),
        Err(RecvTimeoutError::Timeout) => {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
            // It may have returned just now, before it was counted.
            match answer.try_recv() {
                Ok(answer) => {
                    ABANDONED.fetch_sub(1, Ordering::Relaxed);
                    Ok(answer)
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
    fn what_does_not_answer_is_left_and_what_does_is_told() {
        assert_eq!(within(Duration::from_secs(20), || 7).unwrap(), 7);
        let (go, wait) = channel::<()>();
        let error = within(Duration::from_millis(5), move || wait.recv().is_ok()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(go);
    }
}
