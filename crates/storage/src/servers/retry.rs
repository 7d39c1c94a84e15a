//! Retries requests with exponential backoff and jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use branchline_trace::environment::STORAGE_WAIT;
use branchline_trace::journal;

use crate::limits::RETRY_PAUSE_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::failure_counts::{note, note_failure, note_wait};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Calls `work` until a call succeeds, fails permanently, or reaches the maximum number of attempts. The argument of
/// `work` is the index of the attempt. A wait requested by a server does not count as an attempt; the total duration of
/// such waits is limited by the settings.
pub(crate) fn with_retries<T>(settings: &Settings, mut work: impl FnMut(u32) -> Result<T>) -> Result<T> {
    let (mut tries, mut timed_out) = (0, 0);
    let mut waited = Duration::ZERO;
    loop {
        let started = Instant::now();
        journal::set_attempt(tries);
        let result = work(tries);
        journal::set_attempt(0);
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if let Some(wait) = error.wait {
            waited = waited.saturating_add(wait);
            if waited > settings.wait_max {
                return Err(asks_for_too_long(error, wait, settings.wait_max));
            }
            note_wait(&settings.element, wait);
            // The pause is randomized, so that clients whose servers requested the same wait do not all return at once.
            std::thread::sleep(wait + pause(settings.pause, 1));
            continue;
        }
        tries += 1;
        timed_out += u32::from(error.kind == StorageErrorKind::Timeout);
        let is_silent = timed_out >= settings.timed_out_tries_max;
        let goes_on = error.retry_may_help && tries < settings.tries_max && !is_silent;
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

fn asks_for_too_long(error: Fault, wait: Duration, wait_max: Duration) -> Fault {
    let (reason, wait_s, most_s) = (error.reason.trim_end_matches('.'), wait.as_secs(), wait_max.as_secs());
    let reason = format!(
        "{reason}; it asks to wait {wait_s} s, but waits are limited to {most_s} s in total: try again later, or set \
         {STORAGE_WAIT} or --server-wait to a longer time in seconds"
    );
    Fault::new(StorageErrorKind::Timeout, reason).final_for_now()
}

fn with_tries_named(mut error: Fault, tries: u32) -> Fault {
    if tries > 1 {
        error.reason = format!("{} ({tries} tries)", error.reason.trim_end_matches('.'));
    }
    error
}

/// Returns the pause after `tries` attempts. The pause doubles with every attempt. Half of it is random, so that
/// clients that failed together do not retry together.
pub(crate) fn pause(first: Duration, tries: u32) -> Duration {
    let whole = first.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(RETRY_PAUSE_MAX.max(first));
    let random = RandomState::new().hash_one(tries) % 1000;
    whole / 2 + (whole / 2).mul_f64(random as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RETRY_PAUSE;
    use crate::servers::failure_counts::troubles_with;

    fn settings() -> Settings {
        Settings { tries_max: 4, timed_out_tries_max: 2, pause: Duration::ZERO, ..Settings::default() }
    }

    #[test]
    fn passing_failures_are_retried_and_final_ones_are_not() {
        let mut calls = 0;
        let result = with_retries(&settings(), |tries| {
            calls += 1;
            if tries < 2 {
                Err(Fault::new(StorageErrorKind::Unreachable, "late"))
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
        assert_eq!(result.unwrap_err().reason, "late (2 tries)");
        let result: Result<()> = with_retries(&settings(), |_| Err(Fault::new(StorageErrorKind::Unreachable, "off")));
        assert_eq!(result.unwrap_err().reason, "off (4 tries)");
    }

    #[test]
    fn pauses_double_up_to_a_limit_that_is_no_less_than_the_first() {
        let second = Duration::from_secs(1);
        assert!((second / 2..second).contains(&pause(second, 1)));
        assert!((second * 2..second * 4).contains(&pause(second, 3)));
        assert!((RETRY_PAUSE_MAX / 2..RETRY_PAUSE_MAX).contains(&pause(second, 9)));
        assert!((second * 30..second * 60).contains(&pause(second * 60, 2)));
    }

    #[test]
    fn waits_that_a_server_asks_for_are_no_tries_and_end_at_the_limit_of_all_together() {
        let second = Duration::from_millis(20);
        let (pause, tries_max, wait_max) = (Duration::ZERO, 1, second * 3);
        let settings = Settings { pause, tries_max, wait_max, ..Settings::default() }.at("waits");
        let busy = || Fault { wait: Some(second), ..Fault::new(StorageErrorKind::Unreachable, "busy") };
        let mut calls = 0;
        let work = |most| {
            move |tries| {
                calls += 1;
                if calls > most {
                    Ok(tries)
                } else {
                    Err(busy())
                }
            }
        };
        assert_eq!(with_retries(&settings, work(3)), Ok(0));
        let counted = troubles_with("waits");
        assert_eq!((counted.waits_count, counted.waited, counted.retries_count), (3, second * 3, 0));
        let fault = with_retries(&settings, work(4)).unwrap_err();
        assert!(fault.reason.starts_with("busy; it asks to wait") && !fault.retry_may_help, "{fault:?}");
        assert_eq!(fault.kind, StorageErrorKind::Timeout);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        for tries in 1..100 {
            let pause = pause(RETRY_PAUSE, tries);
            assert!(pause >= RETRY_PAUSE / 2 && pause <= RETRY_PAUSE_MAX, "{pause:?}");
        }
    }
}
