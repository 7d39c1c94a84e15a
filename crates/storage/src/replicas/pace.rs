//! Measures how long reads from a replica take, to detect stalls.

use std::time::Duration;

use crate::limits::{BYTES_PER_SECOND_EXPECTED, STALL_FACTOR, STALL_MIN};

/// Minimum size of a read that measures the bandwidth. A smaller read measures the round-trip time.
const SMALL_BYTES: u64 = 64 * 1024;
/// Weight of the newest measurement in the moving average.
const NEWEST_SHARE: f64 = 0.3;

/// Measured round-trip time and bandwidth of one replica.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    call_s: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl Pace {
    /// Records the duration `took` of a read of `bytes` bytes.
    pub(super) fn measure(&mut self, bytes: u64, took: Duration) {
        let took_s = took.as_secs_f64();
        let mixed =
            |before: Option<f64>, now: f64| Some(before.map_or(now, |before| before + NEWEST_SHARE * (now - before)));
        if bytes < SMALL_BYTES {
            self.call_s = mixed(self.call_s, took_s);
        } else {
            let moving_s = (took_s - self.call_s.unwrap_or(0.0)).max(took_s / 10.0).max(1e-6);
            self.bytes_per_second = mixed(self.bytes_per_second, bytes as f64 / moving_s);
        }
    }

    /// Returns how long a read of `bytes` bytes may take before it counts as stalled, if another replica is available.
    /// `silence` is the silence timeout, which applies to a server whose round trip has not been measured yet.
    pub(super) fn stalls_after(&self, bytes: u64, silence: Duration) -> Duration {
        let rate = self.bytes_per_second.unwrap_or(BYTES_PER_SECOND_EXPECTED);
        let moving_s = bytes as f64 / rate.max(1.0);
        let expected = match self.call_s {
            Some(call_s) => Duration::try_from_secs_f64(STALL_FACTOR * (call_s + moving_s)),
            None => Duration::try_from_secs_f64(silence.as_secs_f64() + STALL_FACTOR * moving_s),
        };
        let least = STALL_MIN.min(silence);
        expected.map_or(Duration::MAX, |expected| expected.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_has_stalled_that_takes_many_times_as_long_as_others() {
        let silence = Duration::from_secs(15);
        let mut pace = Pace::default();
        assert_eq!(pace.stalls_after(0, silence), silence);
        pace.measure(1000, Duration::from_millis(20));
        assert_eq!(pace.stalls_after(1000, silence), STALL_MIN);
        for _ in 0..20 {
            pace.measure(10_000_000, Duration::from_secs(1));
        }
        let limit = pace.stalls_after(10_000_000, silence);
        assert!(limit > Duration::from_secs(9) && limit < Duration::from_secs(12), "{limit:?}");
        // A user's shorter timeout also applies to small reads.
        assert!(pace.stalls_after(1000, Duration::from_millis(100)) < Duration::from_millis(210));
    }
}
