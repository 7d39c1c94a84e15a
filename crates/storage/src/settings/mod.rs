//! Settings for network requests, determined from the access options and environment variables.

pub(crate) mod access;
pub(crate) mod choice;
pub(crate) mod links;
pub(crate) mod local_mode;
pub(crate) mod waits;

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{BYTES_PER_SECOND_MIN, CONNECT_TIMEOUT, REPLICA_SILENCE, REPLICA_TRIES_MAX};
use crate::limits::{MOUNT_BYTES_PER_SECOND_MIN, REQUEST_TIMEOUT, RETRY_PAUSE, RETRY_PAUSE_MAX, TRIES_MAX};
use crate::limits::{REPLICA_TIMED_OUT_TRIES_MAX, STALL_MIN, TIMED_OUT_TRIES_MAX};
use crate::limits::{UNKNOWN_SIZE_SILENCES, WAIT_MAX};
use crate::{Access, Choice, Result};
use links::link_to;
use waits::Waits;

/// Timeouts, limits and options of network requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Connection timeout.
    pub(crate) connect_timeout: Duration,
    /// Maximum time that a server may be silent while a response is pending.
    pub(crate) silence: Duration,
    /// Maximum wait that a server may request.
    pub(crate) wait_max: Duration,
    /// Maximum number of attempts per request.
    pub(crate) tries_max: u32,
    /// Maximum number of attempts if a request times out.
    pub(crate) timed_out_tries_max: u32,
    /// Pause before the first retry.
    pub(crate) pause: Duration,
    /// Name of the storage element for which failures are counted.
    pub(crate) element: String,
    /// Emulated throttle of the link to the storage element, if any. Link measurements with different throttles are
    /// kept separate.
    pub(crate) throttle: Option<String>,
    /// Maximum number of pending requests, if chosen by the user.
    pub(crate) requests_in_flight: Option<usize>,
    /// Maximum number of pending bytes, if chosen by the user.
    pub(crate) bytes_in_flight: Option<u64>,
    /// Number of bytes at the start of a file that are read directly after opening.
    pub(crate) first_bytes: u64,
    /// Whether files are opened only to query their size and version.
    pub(crate) is_size_only: bool,
    /// Number of connections over which an XRootD server sends the bytes of a large read.
    pub(crate) streams: usize,
    /// Folder for temporary copies of files from servers that send only whole files.
    pub(crate) spool_dir: PathBuf,
}

/// Returns the maximum duration of a store's call that reads this many bytes, with all retries and waits. A call that
/// takes longer has hung despite its own timeouts. Invalid environment variables are ignored, because opening a file
/// reports such errors.
pub fn longest_wait(waits: Waits, bytes: u64) -> Duration {
    Settings::from_environment().unwrap_or_default().waiting(waits).longest_wait(bytes)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            silence: REQUEST_TIMEOUT,
            wait_max: WAIT_MAX,
            tries_max: TRIES_MAX,
            timed_out_tries_max: TIMED_OUT_TRIES_MAX,
            pause: RETRY_PAUSE,
            element: String::new(),
            throttle: None,
            requests_in_flight: None,
            bytes_in_flight: None,
            first_bytes: 0,
            is_size_only: false,
            streams: 1,
            spool_dir: std::env::temp_dir(),
        }
    }
}

impl Settings {
    /// Reads the settings from the environment. An invalid value is an error of the kind `Option`.
    pub(crate) fn from_environment() -> Result<Self> {
        Ok(Self::default().waiting(Waits::from_environment()?))
    }

    /// Applies the timeouts, pauses and attempts that are set in `waits`.
    fn waiting(mut self, waits: Waits) -> Self {
        if let Some(seconds) = waits.timeout_s {
            self.silence = Duration::from_secs_f64(seconds);
            self.connect_timeout = CONNECT_TIMEOUT.min(self.silence);
        }
        if let Some(seconds) = waits.server_wait_s {
            self.wait_max = Duration::from_secs_f64(seconds);
        }
        if let Some(seconds) = waits.retry_pause_s {
            self.pause = Duration::from_secs_f64(seconds);
        }
        if let Some(tries) = waits.tries {
            self.tries_max = tries;
            self.timed_out_tries_max = tries;
        }
        self
    }

    fn longest_wait(&self, bytes: u64) -> Duration {
        let one = self.silence * 2 + Duration::from_secs(bytes / MOUNT_BYTES_PER_SECOND_MIN);
        (one + RETRY_PAUSE_MAX.min(self.silence)) * self.tries_max + self.wait_max
    }

    /// Applies the options for reading a file.
    pub(crate) fn chosen(self, access: &Access) -> Self {
        let Access { requests_in_flight, bytes_in_flight, first_bytes, streams, .. } = *access;
        let throttle = access.throttle.clone();
        let settings = self.waiting(access.waits);
        let spool_dir = access.stage_dir.clone().unwrap_or(settings.spool_dir);
        Self { throttle, requests_in_flight, bytes_in_flight, first_bytes, streams, spool_dir, ..settings }
    }

    /// Returns how many requests of `bytes` bytes one read keeps in flight: enough to fill the link to the storage
    /// element, but at most `most`.
    pub(crate) fn requests_within(&self, element: &str, bytes: u64, most: usize) -> usize {
        let access = Access { bytes_in_flight: self.bytes_in_flight, ..Access::default() };
        let link = link_to(element, self.throttle.as_deref());
        let by_bytes = Choice::of(&access, link, 0).bytes_in_flight / bytes.max(1);
        let most = self.requests_in_flight.unwrap_or(most).min(most);
        (by_bytes.max(2) as usize).min(most).max(1)
    }

    /// Shortens timeouts and reduces the number of attempts, for a file with several replicas.
    pub(crate) fn for_one_of_several(mut self) -> Self {
        self.silence = self.silence.min(REPLICA_SILENCE);
        self.connect_timeout = self.connect_timeout.min(self.silence);
        self.tries_max = self.tries_max.min(REPLICA_TRIES_MAX);
        self.timed_out_tries_max = REPLICA_TIMED_OUT_TRIES_MAX;
        self
    }

    /// Limits the attempts, the time and the waits for a server that did not answer before, and did not answer for
    /// `files_count` other files. Limits that the user has chosen are kept for the first of these files.
    pub(crate) fn after_silences(mut self, files_count: u32) -> Self {
        let default = Self::default();
        let most = match files_count {
            0 => self.silence,
            1 => REPLICA_SILENCE,
            _ => STALL_MIN,
        };
        self.silence = self.silence.min(most);
        self.connect_timeout = self.connect_timeout.min(self.silence);
        if files_count > 0 || self.timed_out_tries_max == default.timed_out_tries_max {
            // The first attempt need not detect a dead connection.
            self.timed_out_tries_max = 1;
        }
        if files_count > 0 || self.wait_max == default.wait_max {
            // A cache that cannot reach its origin is silent at first, and then asks to wait for as long as it tries.
            self.wait_max = self.wait_max.min(self.time_limit(0));
        }
        self
    }

    /// Limits optional requests to a single attempt, with a short timeout and without long waits requested by servers.
    pub(crate) fn once(self) -> Self {
        let settings = self.for_one_of_several();
        // A redirector may ask the client to wait a few seconds before it reports that no server has a file.
        let wait_max = settings.wait_max.min(settings.silence);
        Self { tries_max: 1, wait_max, is_size_only: true, ..settings }
    }

    /// Sets the storage element for which failures are counted.
    pub(crate) fn at(mut self, element: &str) -> Self {
        element.clone_into(&mut self.element);
        self
    }

    /// Returns the time limit for a response of unknown size, such as a folder listing.
    pub(crate) fn time_limit_of_list(&self) -> Duration {
        self.silence * UNKNOWN_SIZE_SILENCES
    }

    /// Returns the time limit for a response of `bytes` bytes.
    pub(crate) fn time_limit(&self, bytes: u64) -> Duration {
        self.silence * 2 + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_access_sets_counts_more_than_the_default() {
        let waits = Waits { timeout_s: Some(2.0), server_wait_s: Some(5.0), tries: Some(7), retry_pause_s: Some(0.0) };
        let settings = Settings::default().chosen(&Access { waits, ..Access::default() });
        assert_eq!((settings.silence, settings.connect_timeout), (Duration::from_secs(2), Duration::from_secs(2)));
        assert_eq!((settings.wait_max, settings.pause), (Duration::from_secs(5), Duration::ZERO));
        assert_eq!((settings.tries_max, settings.timed_out_tries_max), (7, 7));
        assert_eq!(settings.longest_wait(0), Duration::from_secs(7 * 6 + 5));
        assert_eq!(Settings::default().chosen(&Access::default()), Settings::default());
    }

    #[test]
    fn a_read_asks_for_as_much_at_a_time_as_is_chosen() {
        use crate::limits::MIB;
        let within = |access: Access, bytes| Settings::default().chosen(&access).requests_within("none", bytes, 64);
        assert_eq!(within(Access::default(), 4 * MIB), 4);
        assert_eq!(within(Access { requests_in_flight: Some(1), ..Access::default() }, 4 * MIB), 1);
        assert_eq!(within(Access { bytes_in_flight: Some(100 * MIB), ..Access::default() }, 4 * MIB), 25);
        // Two requests are in flight even with a small limit, so that one is pending while the response to the other
        // arrives.
        assert_eq!(within(Access { bytes_in_flight: Some(1), ..Access::default() }, 4 * MIB), 2);
        // Many small requests together fill the link too.
        assert_eq!(within(Access::default(), MIB / 2), 32);
        assert_eq!(within(Access { bytes_in_flight: Some(u64::MAX), ..Access::default() }, 1), 64);
    }
}
