//! What the way to each storage element is like: its round trip and its bandwidth, as reading finds them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LINK_BYTES_MIN, LINK_MEMORY, LINK_SAMPLES};
use crate::{Around, RangeRead, ReadEffort, Result, Store};

/// A way to a storage element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The shortest time that a request has taken lately.
    pub round_trip: Duration,
    /// Bytes that come in a second while some are due; 0 while too few have come to tell.
    pub bytes_per_second: f64,
}

/// Measures the way to one storage element, for all of its files that are open.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<State>, AtomicU64);

#[derive(Debug, Default)]
struct State {
    /// What the last calls took.
    took: VecDeque<Duration>,
    /// Calls that are due, and since when the number of bytes below counts.
    due_count: usize,
    due_since: Option<Instant>,
    /// Of the last while: bytes, and the time in which some were due. Both fade.
    bytes: f64,
    seconds: f64,
    /// Bytes that came in all.
    moved_bytes: u64,
}

static METERS: Mutex<Option<HashMap<String, Arc<Meter>>>> = Mutex::new(None);

/// The meter of a storage element.
pub(crate) fn meter_of(name: &str) -> Arc<Meter> {
    let mut meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    let meters = meters.get_or_insert_default();
    match meters.get(name) {
        Some(known) => Arc::clone(known),
        None => Arc::clone(meters.entry(name.to_owned()).or_default()),
    }
}

/// The way to a storage element, if something was read from there.
pub fn link_to(name: &str) -> Option<Link> {
    meter_of(name).link()
}

/// The ways to all storage elements that this process has read from: name, way, and the gap that files there have.
pub fn links() -> Vec<(String, Link, u64)> {
    let meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = meters.iter().flatten();
    let mut links: Vec<(String, Link, u64)> = known
        .filter_map(|(name, meter)| Some((name.clone(), meter.link()?, meter.1.load(Ordering::Relaxed))))
        .collect();
    links.sort_by(|one, other| one.0.cmp(&other.0));
    links
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that moves no bytes worth counting.
    pub(crate) fn took(&self, took: Duration) {
        self.lock().took(took);
    }

    fn begin(&self) -> Instant {
        let now = Instant::now();
        let mut state = self.lock();
        state.pass(now);
        state.due_count += 1;
        now
    }

    fn end(&self, began: Instant, bytes: u64) {
        let now = Instant::now();
        let mut state = self.lock();
        state.pass(now);
        state.due_count = state.due_count.saturating_sub(1);
        state.bytes += bytes as f64;
        state.moved_bytes += bytes;
        state.took(now - began);
    }

    pub(crate) fn link(&self) -> Option<Link> {
        let state = self.lock();
        let round_trip = *state.took.iter().min()?;
        let is_known = state.seconds > 0.0 && state.moved_bytes >= LINK_BYTES_MIN;
        let bytes_per_second = if is_known { state.bytes / state.seconds } else { 0.0 };
        Some(Link { round_trip, bytes_per_second })
    }
}

impl State {
    fn took(&mut self, took: Duration) {
        if self.took.len() == LINK_SAMPLES {
            self.took.pop_front();
        }
        self.took.push_back(took);
    }

    /// Adds the time since the last change if something was due in it, and lets what is older fade.
    fn pass(&mut self, now: Instant) {
        if let (Some(since), true) = (self.due_since, self.due_count > 0) {
            let passed = (now - since).as_secs_f64();
            let kept = (-passed / LINK_MEMORY.as_secs_f64()).exp();
            self.bytes *= kept;
            self.seconds = self.seconds * kept + passed;
        }
        self.due_since = Some(now);
    }
}

/// A store around a store that measures the way to its place.
pub(crate) struct Measured {
    inner: Arc<dyn Store>,
    meter: Arc<Meter>,
}

impl Measured {
    /// Opens a store, which may take a round trip or several.
    pub(crate) fn open(open: impl FnOnce() -> Result<Arc<dyn Store>>) -> Result<Self> {
        let began = Instant::now();
        let inner = open()?;
        let meter = meter_of(inner.name());
        meter.took(began.elapsed());
        meter.1.store(inner.gap_bytes(), Ordering::Relaxed);
        Ok(Self { inner, meter })
    }
}

impl Around for Measured {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.inner.read_again(reads)
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let began = self.meter.begin();
        let result = self.inner.read_ranges(reads);
        self.meter.end(began, result.as_ref().map_or(0, |effort| effort.read_bytes));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_is_the_shortest_of_the_last_calls() {
        let meter = Meter::default();
        assert_eq!(meter.link(), None);
        meter.took(Duration::from_millis(1));
        meter.took(Duration::from_millis(80));
        assert_eq!(meter.link().map(|link| link.round_trip), Some(Duration::from_millis(1)));
        (0..LINK_SAMPLES).for_each(|_| meter.took(Duration::from_millis(70)));
        assert_eq!(meter.link().map(|link| link.round_trip), Some(Duration::from_millis(70)));
    }

    #[test]
    fn a_few_bytes_tell_nothing_of_the_bandwidth() {
        let meter = Meter::default();
        let bandwidth = || meter.link().map(|link| link.bytes_per_second);
        meter.end(meter.begin(), LINK_BYTES_MIN - 1);
        assert_eq!(bandwidth(), Some(0.0));
        let began = meter.begin();
        std::thread::sleep(Duration::from_millis(2));
        meter.end(began, 1);
        assert!(bandwidth() > Some(0.0));
    }

    #[test]
    fn bandwidth_counts_the_time_in_which_bytes_were_due_once() {
        let mut state = State::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        state.pass(at(0));
        state.due_count = 2;
        state.pass(at(100));
        state.bytes += 1e6;
        state.due_count = 1;
        state.pass(at(200));
        state.bytes += 1e6;
        state.due_count = 0;
        // Nothing is due, so nobody waits.
        state.pass(at(5000));
        assert!((state.bytes / state.seconds - 1e7).abs() < 1e6, "{state:?}");
    }
}
