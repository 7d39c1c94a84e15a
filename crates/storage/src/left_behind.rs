//! Work that may never end, as a read from a dead mount: it is waited for so long and then left behind with its thread.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

/// More threads than this are not left behind: what they wait for is dead.
const LEFT_MAX: usize = 64;

static LEFT: AtomicUsize = AtomicUsize::new(0);

/// What `work` answers, if it does so in time; else `TimedOut`, while it goes on in its thread, if it ever does.
pub(crate) fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if LEFT.load(Ordering::Relaxed) >= LEFT_MAX {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (done, answer) = channel();
    let run = move || {
        if done.send(work()).is_err() {
            LEFT.fetch_sub(1, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("branchline-watched".to_owned()).spawn(run)?;
    match answer.recv_timeout(limit) {
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("a mistake in Branchline")),
        Err(RecvTimeoutError::Timeout) => {
            LEFT.fetch_add(1, Ordering::Relaxed);
            // It may have answered just now, and then counted nobody.
            match answer.try_recv() {
                Ok(answer) => {
                    LEFT.fetch_sub(1, Ordering::Relaxed);
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
