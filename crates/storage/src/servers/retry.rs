//! Retries: a few, after growing pauses that differ between clients.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use branchline_trace::journal;

use crate::limits::RETRY_PAUSE_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::failure_counts::{note, note_failure};
use crate::settings::Settings;

/// Does `work` until it succeeds, fails for good, or was tried as often as the settings allow. It gets the number of
/// the try, from 0.
pub(crate) fn with_retries<T>(settings: &Settings, mut work: impl FnMut(u32) -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        let started = Instant::now();
        journal::set_attempt(tries);
        let result = work(tries);
        journal::set_attempt(0);
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        tries += 1;
        let goes_on = error.retry_may_help && tries < settings.tries_max;
        if goes_on {
            std::thread::sleep(pause(settings.pause, tries));
            note(&settings.element, |troubles| troubles.retries_count += 1);
        }
        if error.retry_may_help {
            note_failure(&settings.element, error.kind, started.elapsed());
        }
        if !goes_on {
            return Err(Fault { is_counted: true, ..with_tries_named(error, tries) });
        }
    }
}

fn with_tries_named(mut error: Fault, tries: u32) -> Fault {
    if tries > 1 {
        error.reason = format!("{} ({tries} tries)", error.reason.trim_end_matches('.'));
    }
    error
}

/// Doubles from try to try. Half of it is random, so that clients which failed together do not come back together.
pub(crate) fn pause(first: Duration, tries: u32) -> Duration {
    let whole = first.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(RETRY_PAUSE_MAX);
    let random = RandomState::new().hash_one(tries) % 1000;
    whole / 2 + (whole / 2).mul_f64(random as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RETRY_PAUSE;
    use crate::StorageErrorKind;

    fn settings() -> Settings {
        Settings { tries_max: 3, ..Settings::default() }
    }

    #[test]
    fn passing_failures_are_retried_and_final_ones_are_not() {
        let mut calls = 0;
        let result = with_retries(&settings(), |tries| {
            calls += 1;
            if tries < 2 {
                Err(Fault::new(StorageErrorKind::Timeout, "late"))
            } else {
                Ok(tries)
            }
        });
        assert_eq!((result, calls), (Ok(2), 3));
        let mut calls = 0;
        let result: Result<()> = with_retries(&settings(), |_| {
            calls += 1;
            Err(Fault::new(StorageErrorKind::NotFound, "gone"))
        });
        assert_eq!((result.unwrap_err().reason.as_str(), calls), ("gone", 1));
        let result: Result<()> = with_retries(&settings(), |_| Err(Fault::new(StorageErrorKind::Timeout, "late")));
        assert_eq!(result.unwrap_err().reason, "late (3 tries)");
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        for tries in 1..100 {
            let pause = pause(RETRY_PAUSE, tries);
            assert!(pause >= RETRY_PAUSE / 2 && pause <= RETRY_PAUSE_MAX, "{pause:?}");
        }
    }
}
