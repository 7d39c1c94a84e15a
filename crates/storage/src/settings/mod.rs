//! Settings for servers, from environment variables.

pub(crate) mod access;
pub(crate) mod choice;
pub(crate) mod links;
pub(crate) mod local_mode;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{BYTES_PER_SECOND_MIN, CONNECT_TIMEOUT, REPLICA_SILENCE, REPLICA_TRIES_MAX};
use crate::limits::{MOUNT_BYTES_PER_SECOND_MIN, REQUEST_TIMEOUT, RETRY_PAUSE, RETRY_PAUSE_MAX, TRIES_MAX};
use crate::limits::{REPLICA_TIMED_OUT_TRIES_MAX, TIMED_OUT_TRIES_MAX};
use crate::limits::{UNKNOWN_SIZE_SILENCES, WAIT_MAX};
use crate::{Access, Choice, Result, StorageError};
use links::link_to;

/// The longest time that may be set, in seconds: a day.
const WAIT_MAX_S: f64 = 86_400.0;
/// Seconds that a server may stay silent before it is given up.
const TIMEOUT_VARIABLE: &str = "BRANCHLINE_STORAGE_TIMEOUT";
/// How often a request is tried.
const TRIES_VARIABLE: &str = "BRANCHLINE_STORAGE_TRIES";

/// Seconds that a server may make us wait by saying so.
const WAIT_VARIABLE: &str = "BRANCHLINE_STORAGE_WAIT";

/// Seconds before the second try; before each further one it is twice as long.
const PAUSE_VARIABLE: &str = "BRANCHLINE_STORAGE_PAUSE";

/// Waits, tries, and sizes of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How long a connection may take.
    pub(crate) connect_timeout: Duration,
    /// How long a server may send nothing while an answer is due.
    pub(crate) silence: Duration,
    /// How long a server may make us wait by saying so.
    pub(crate) wait_max: Duration,
    /// How often a request is made before it has failed.
    pub(crate) tries_max: u32,
    /// How often a request is made that was not answered in time.
    pub(crate) timed_out_tries_max: u32,
    /// How long the pause before the second try is.
    pub(crate) pause: Duration,
    /// The storage element whose troubles are counted.
    pub(crate) element: String,
    /// What makes the storage element slow, as links are known by it.
    pub(crate) throttle: Option<String>,
    /// Requests that a user wants to be due at a time.
    pub(crate) requests_in_flight: Option<usize>,
    /// Bytes that a user wants to be due at a time.
    pub(crate) bytes_in_flight: Option<u64>,
    /// Bytes at the start of a file that are read right after it is opened.
    pub(crate) first_bytes: u64,
    /// Whether a file is opened for its size and version alone, and not to be read.
    pub(crate) is_size_only: bool,
    /// Connections over which an XRootD server sends the bytes of one large read.
    pub(crate) streams: usize,
    /// The folder for copies of files that a server sends only as a whole.
    pub(crate) spool_dir: PathBuf,
}

/// How long a call of a store may take that reads this many bytes, with all its tries and waits; what takes longer has
/// not kept its own deadlines. Where the settings of the environment are not valid, that is an error of opening a file.
pub fn longest_wait(bytes: u64) -> Duration {
    let settings = Settings::from_environment().unwrap_or_default();
    let one = settings.silence * 2 + Duration::from_secs(bytes / MOUNT_BYTES_PER_SECOND_MIN);
    (one + RETRY_PAUSE_MAX.min(settings.silence)) * settings.tries_max + settings.wait_max
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

/// The number in an environment variable; None where it is not set or empty. A value that is no number, or not in this
/// range, is an error of the kind `Option`.
pub fn number_in_environment(name: &str, allowed: RangeInclusive<f64>) -> Result<Option<f64>> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.to_string_lossy();
    match text.trim().parse::<f64>() {
        Ok(number) if allowed.contains(&number) => Ok(Some(number)),
        _ => {
            let (least, most) = (allowed.start(), allowed.end());
            let reason =
                format!("the environment variable {name} cannot be {text:?}: give a number from {least} to {most}");
            Err(StorageError::option(&text, reason))
        }
    }
}

impl Settings {
    /// The settings of the environment. A value that is not valid is an error of the kind `Option`.
    pub(crate) fn from_environment() -> Result<Self> {
        let mut settings = Self::default();
        if let Some(seconds) = number_in_environment(TIMEOUT_VARIABLE, 0.001..=WAIT_MAX_S)? {
            settings.silence = Duration::from_secs_f64(seconds);
            settings.connect_timeout = settings.connect_timeout.min(settings.silence);
        }
        if let Some(seconds) = number_in_environment(WAIT_VARIABLE, 0.0..=WAIT_MAX_S)? {
            settings.wait_max = Duration::from_secs_f64(seconds);
        }
        if let Some(seconds) = number_in_environment(PAUSE_VARIABLE, 0.0..=3600.0)? {
            settings.pause = Duration::from_secs_f64(seconds);
        }
        if let Some(tries) = number_in_environment(TRIES_VARIABLE, 1.0..=100.0)? {
            settings.tries_max = tries as u32;
            settings.timed_out_tries_max = settings.tries_max;
        }
        Ok(settings)
    }

    /// The same with what is chosen for reading.
    pub(crate) fn chosen(self, access: &Access) -> Self {
        let Access { requests_in_flight, bytes_in_flight, first_bytes, streams, .. } = *access;
        let throttle = access.throttle.clone();
        let spool_dir = access.stage_dir.clone().unwrap_or(self.spool_dir);
        Self { throttle, requests_in_flight, bytes_in_flight, first_bytes, streams, spool_dir, ..self }
    }

    /// How many requests of this size are in flight at a time within one read of this storage element: as many as
    /// fill the link, and no more than `most`.
    pub(crate) fn requests_within(&self, element: &str, bytes: u64, most: usize) -> usize {
        let access = Access { bytes_in_flight: self.bytes_in_flight, ..Access::default() };
        let link = link_to(element, self.throttle.as_deref());
        let by_bytes = Choice::of(&access, link, 0).bytes_in_flight / bytes.max(1);
        let most = self.requests_in_flight.unwrap_or(most).min(most);
        (by_bytes.max(2) as usize).min(most).max(1)
    }

    /// The same for a file of which there are other replicas: shorter waits, and one connection more.
    pub(crate) fn for_one_of_several(mut self) -> Self {
        self.silence = self.silence.min(REPLICA_SILENCE);
        self.connect_timeout = self.connect_timeout.min(self.silence);
        self.tries_max = self.tries_max.min(REPLICA_TRIES_MAX);
        self.timed_out_tries_max = REPLICA_TIMED_OUT_TRIES_MAX;
        self
    }

    /// The same for what is only good to know: tried once, without long waits that servers ask for.
    pub(crate) fn once(self) -> Self {
        let settings = self.for_one_of_several();
        // A redirector asks for some seconds before it says that no server has a file.
        let wait_max = settings.wait_max.min(settings.silence);
        Self { tries_max: 1, wait_max, is_size_only: true, ..settings }
    }

    /// The same for this storage element.
    pub(crate) fn at(mut self, element: &str) -> Self {
        element.clone_into(&mut self.element);
        self
    }

    /// How long an answer may take whose size is not known before, such as a list.
    pub(crate) fn time_limit_of_list(&self) -> Duration {
        self.silence * UNKNOWN_SIZE_SILENCES
    }

    /// How long an answer of this size may take.
    pub(crate) fn time_limit(&self, bytes: u64) -> Duration {
        self.silence * 2 + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_asks_for_as_much_at_a_time_as_is_chosen() {
        const MIB: u64 = 1 << 20;
        let within = |access: Access, bytes| Settings::default().chosen(&access).requests_within("none", bytes, 64);
        assert_eq!(within(Access::default(), 4 * MIB), 4);
        assert_eq!(within(Access { requests_in_flight: Some(1), ..Access::default() }, 4 * MIB), 1);
        assert_eq!(within(Access { bytes_in_flight: Some(100 * MIB), ..Access::default() }, 4 * MIB), 25);
        // While one is received the next is in flight.
        assert_eq!(within(Access { bytes_in_flight: Some(1), ..Access::default() }, 4 * MIB), 2);
        // Small ones fill it, too.
        assert_eq!(within(Access::default(), MIB / 2), 32);
        assert_eq!(within(Access { bytes_in_flight: Some(u64::MAX), ..Access::default() }, 1), 64);
    }
}
