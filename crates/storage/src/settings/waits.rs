//! User settings for the timeouts, retries and pauses of network requests.

use std::ops::RangeInclusive;

use branchline_trace::environment::{STORAGE_PAUSE, STORAGE_TIMEOUT, STORAGE_TRIES, STORAGE_WAIT};

use crate::limits::{REQUEST_TIMEOUT, RETRY_PAUSE, TRIES_MAX, WAIT_MAX};
use crate::{Result, StorageError};

/// Maximum value of all settings that are times, in seconds: one day.
const DAY_S: f64 = 86_400.0;

/// User's settings for network requests. A value of None stands for the value from the environment, or else for the
/// default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// Silence timeout of a server, in seconds.
    pub timeout_s: Option<f64>,
    /// Maximum total time of the waits that a server may request, in seconds.
    pub server_wait_s: Option<f64>,
    /// Maximum number of attempts per request.
    pub tries: Option<u32>,
    /// Pause before the first retry, in seconds.
    pub retry_pause_s: Option<f64>,
}

/// Description of a setting for network requests.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitSetting {
    /// Name of the setting's field in `branchline.Access`.
    pub name: &'static str,
    /// Name of the environment variable.
    pub variable: &'static str,
    /// Range of valid values.
    pub allowed: RangeInclusive<f64>,
    /// Default value.
    pub default: f64,
}

impl Waits {
    /// Returns the descriptions of all settings.
    pub fn settings() -> [WaitSetting; 4] {
        let setting = |name, variable, allowed, default| WaitSetting { name, variable, allowed, default };
        [
            setting("timeout", STORAGE_TIMEOUT, 0.001..=DAY_S, REQUEST_TIMEOUT.as_secs_f64()),
            setting("server_wait", STORAGE_WAIT, 0.0..=DAY_S, WAIT_MAX.as_secs_f64()),
            setting("tries", STORAGE_TRIES, 1.0..=100.0, f64::from(TRIES_MAX)),
            setting("retry_pause", STORAGE_PAUSE, 0.0..=3600.0, RETRY_PAUSE.as_secs_f64()),
        ]
    }

    /// Reads the settings from the environment. An invalid value is an error of the kind `Option`.
    pub(super) fn from_environment() -> Result<Self> {
        let [timeout, wait, tries, pause] = Self::settings();
        let number = |setting: WaitSetting| number_in_environment(setting.variable, setting.allowed);
        Ok(Self {
            timeout_s: number(timeout)?,
            server_wait_s: number(wait)?,
            tries: number(tries)?.map(|tries| tries as u32),
            retry_pause_s: number(pause)?,
        })
    }
}

/// Returns the number in an environment variable; None if the variable is unset or empty. An invalid number, or a
/// number outside the allowed range, is an error of the kind `Option`.
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
