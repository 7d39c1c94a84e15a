//! The clock for all time measurements of decoders. The clock can be switched off to determine the overhead of the
//! measurements.

use std::sync::OnceLock;

use branchline_trace::environment::SENSORS;
use branchline_trace::Stopwatch;

fn is_on() -> bool {
    static IS_ON: OnceLock<bool> = OnceLock::new();
    *IS_ON.get_or_init(|| std::env::var(SENSORS).map_or(true, |value| value != "off"))
}

/// A stopwatch that always reads 0 when time measurements are switched off.
pub(crate) struct Clock(Option<Stopwatch>);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(is_on().then(Stopwatch::start))
    }

    pub(crate) fn lap_ns(&mut self) -> u64 {
        self.0.as_mut().map_or(0, Stopwatch::lap_ns)
    }
}
