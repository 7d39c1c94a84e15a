//! The clock of the sensors. It can be switched off, to measure what the sensors cost.

use std::sync::OnceLock;

use branchline_trace::Stopwatch;

/// Set to `off` to run without clocks; for the benchmark that compares with and without.
const SWITCH: &str = "BRANCHLINE_SENSORS";

fn is_on() -> bool {
    static IS_ON: OnceLock<bool> = OnceLock::new();
    *IS_ON.get_or_init(|| std::env::var(SWITCH).map_or(true, |value| value != "off"))
}

/// A stopwatch that always shows 0 when sensors are off.
pub(crate) struct Clock(Option<Stopwatch>);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(is_on().then(Stopwatch::start))
    }

    pub(crate) fn lap_ns(&mut self) -> u64 {
        self.0.as_mut().map_or(0, Stopwatch::lap_ns)
    }
}
