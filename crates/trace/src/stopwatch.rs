//! A stopwatch for the work of one thread.

use std::time::Instant;

/// Measures wall time in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts the stopwatch.
    #[inline]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Returns the nanoseconds since the start or the last lap.
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        nanoseconds(self.started, Instant::now())
    }

    /// Returns the nanoseconds since the start or the last lap, and starts the next lap at the same moment, so that
    /// consecutive laps add up to the total time.
    #[inline]
    pub fn lap_ns(&mut self) -> u64 {
        let now = Instant::now();
        let elapsed = nanoseconds(self.started, now);
        self.started = now;
        elapsed
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    // 2^64 ns are 584 years.
    u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_add_up_to_the_whole_time() {
        let whole = Stopwatch::start();
        let mut laps = whole;
        let sum: u64 = (0..100).map(|_| laps.lap_ns()).sum();
        assert_eq!(sum, nanoseconds(whole.started, laps.started));
        assert!(whole.elapsed_ns() >= sum);
    }
}
