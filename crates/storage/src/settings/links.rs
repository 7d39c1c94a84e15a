//! The link to each storage element: its round trip and its bandwidth, as reading measures them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LINK_BYTES_MIN, LINK_FULL_BYTES, LINK_MEMORY, LINK_SAMPLES};
use crate::{Around, RangeRead, ReadEffort, Result, Store};

/// A link to a storage element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The shortest time that a request has taken lately.
    pub round_trip: Duration,
    /// Bytes that come in a second while some are in flight; 0 while too few have come for a measurement.
    pub bytes_per_second: f64,
}

/// A storage element, and the link to it.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageLink {
    /// The storage element, as reports name it.
    pub element: String,
    /// Its link.
    pub link: Link,
    /// The gap up to which two ranges of a file there are better read as one.
    pub gap_bytes: u64,
}

/// Measures the link to one storage element, over all of its open files.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
    /// The gap of the file that was opened last.
    gap_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Durations of the last calls.
    took: VecDeque<Duration>,
    /// Bytes that are due.
    due_bytes: u64,
    /// The first moment at which they can have come, while enough are due to fill a link.
    full_since: Option<Instant>,
    /// Bytes that came recently while the link was full, and the time in which it was. Both fade.
    bytes: f64,
    seconds: f64,
    /// Bytes that came while the link was full, in all.
    moved_bytes: u64,
}

/// A way to a storage element: its name, and the words that make it slow, if any do. A place that is made slow is
/// another place: what was measured without that says nothing about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    element: String,
    throttle: Option<String>,
}

static METERS: Mutex<Option<HashMap<Way, Arc<Meter>>>> = Mutex::new(None);

fn way(element: &str, throttle: Option<&str>) -> Way {
    Way { element: element.to_owned(), throttle: throttle.map(str::to_owned) }
}

/// The meter of a way, which begins to measure if it did not yet.
fn meter_of(element: &str, throttle: Option<&str>) -> Arc<Meter> {
    let mut meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(meters.get_or_insert_default().entry(way(element, throttle)).or_default())
}

/// The meter of a way, if something was read from there. Asking is no reading: names that were only asked for, one for
/// each server that a long list of replicas names, leave nothing behind.
fn known_meter(element: &str, throttle: Option<&str>) -> Option<Arc<Meter>> {
    let meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    meters.as_ref()?.get(&way(element, throttle)).cloned()
}

/// The names under which elements are measured, by those that URLs have: a bucket of S3 is measured with its server.
static MEASURED_NAMES: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// The link to a storage element, by its own name or by that which URLs have, if something was read from there with
/// this throttle.
pub fn link_to(name: &str, throttle: Option<&str>) -> Option<Link> {
    let names = MEASURED_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let measured = names.as_ref().and_then(|names| names.get(name)).cloned();
    drop(names);
    known_meter(measured.as_deref().unwrap_or(name), throttle)?.link()
}

/// The links to all storage elements that this process has read from with this throttle, ordered by their names.
pub fn links(throttle: Option<&str>) -> Vec<StorageLink> {
    let meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    let link_of = |(way, meter): (&Way, &Arc<Meter>)| {
        let (link, gap_bytes) = (meter.link()?, meter.gap_bytes.load(Ordering::Relaxed));
        Some(StorageLink { element: way.element.clone(), link, gap_bytes })
    };
    let all = meters.iter().flatten().filter(|(way, _)| way.throttle.as_deref() == throttle);
    let mut links: Vec<StorageLink> = all.filter_map(link_of).collect();
    links.sort_by(|one, other| one.element.cmp(&other.element));
    links
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that moves no bytes worth counting.
    pub(crate) fn took(&self, took: Duration) {
        self.lock().took(took);
    }

    fn begin(&self, bytes: u64) -> Instant {
        let now = Instant::now();
        self.lock().begin(now, bytes);
        now
    }

    fn end(&self, began: Instant, requested_bytes: u64, bytes: u64) {
        let now = Instant::now();
        let mut state = self.lock();
        state.end(now, requested_bytes, bytes);
        state.took(now - began);
    }

    pub(crate) fn link(&self) -> Option<Link> {
        let state = self.lock();
        let round_trip = state.round_trip()?;
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

    fn round_trip(&self) -> Option<Duration> {
        self.took.iter().min().copied()
    }

    fn begin(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.due_bytes = self.due_bytes.saturating_add(bytes);
        if self.full_since.is_none() && self.due_bytes >= LINK_FULL_BYTES {
            // The first of them travel for this long.
            self.full_since = Some(now + self.round_trip().unwrap_or_default());
        }
    }

    fn end(&mut self, now: Instant, requested_bytes: u64, bytes: u64) {
        self.pass(now);
        if self.full_since.is_some() {
            self.bytes += bytes as f64;
            self.moved_bytes += bytes;
        }
        self.due_bytes = self.due_bytes.saturating_sub(requested_bytes);
        if self.due_bytes < LINK_FULL_BYTES {
            self.full_since = None;
        }
    }

    /// Adds the time since the last change if the link was full in it, and lets older measurements fade. What comes
    /// while little is in flight does not measure the bandwidth.
    fn pass(&mut self, now: Instant) {
        if let Some(since) = self.full_since.filter(|since| *since < now) {
            let passed = (now - since).as_secs_f64();
            let kept = (-passed / LINK_MEMORY.as_secs_f64()).exp();
            self.bytes *= kept;
            self.seconds = self.seconds * kept + passed;
            self.full_since = Some(now);
        }
    }
}

/// A wrapper around a store that measures the link to it.
pub(crate) struct Measured {
    inner: Arc<dyn Store>,
    meter: Arc<Meter>,
}

impl Measured {
    /// Opens a store, which may take a round trip or several. `element` is the name that its URL has, `throttle` what
    /// makes it slow.
    pub(crate) fn open(
        element: &str,
        throttle: Option<&str>,
        open: impl FnOnce() -> Result<Arc<dyn Store>>,
    ) -> Result<Self> {
        let began = Instant::now();
        let inner = open()?;
        // A chain of fsspec to a file of this machine has the element of its disks, of which it says nothing.
        if inner.name() != element && element.contains("://") {
            let mut names = MEASURED_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
            names.get_or_insert_default().insert(element.to_owned(), inner.name().to_owned());
        }
        let meter = meter_of(inner.name(), throttle);
        meter.took(began.elapsed());
        meter.gap_bytes.store(inner.gap_bytes(), Ordering::Relaxed);
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
        let requested_bytes = reads.iter().map(|read| read.range.length).fold(0, u64::saturating_add);
        let began = self.meter.begin(requested_bytes);
        let result = self.inner.read_ranges(reads);
        self.meter.end(began, requested_bytes, result.as_ref().map_or(0, |effort| effort.read_bytes));
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
    #[allow(clippy::unwrap_used)]
    fn a_link_is_known_by_the_name_that_urls_have() {
        let open = || Ok(Arc::new(crate::Memory::new("s3://a-bucket/key", b"x".to_vec())) as Arc<dyn Store>);
        let link = |name| link_to(name, None);
        assert_eq!(link("s3://a-bucket"), None);
        Measured::open("s3://a-bucket", None, open).unwrap();
        assert!(link("s3://a-bucket").is_some() && link("s3://a-bucket") == link("memory"));
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_chain_to_a_file_of_this_machine_says_nothing_of_its_disks() {
        let chain = "zip://f.root::file:///a.zip";
        let open = || Ok(Arc::new(crate::Memory::new(chain, b"x".to_vec())) as Arc<dyn Store>);
        let here = crate::servers::url::element_of("/a.root");
        assert_eq!(crate::servers::url::element_of(chain), here);
        Measured::open(&here, Some("latency=7ms"), open).unwrap();
        let names = MEASURED_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(names.as_ref().is_none_or(|names| !names.contains_key(&here)));
    }

    #[test]
    fn asking_for_a_link_leaves_nothing_behind() {
        for throttle in [None, Some("latency=3ms")] {
            assert_eq!(link_to("root://asked.example", throttle), None);
        }
        let meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!meters.iter().flatten().any(|(way, _)| way.element == "root://asked.example"));
    }

    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_place_that_is_made_slow_has_a_link_of_its_own() {
        // Without a throttle this place belongs to another test.
        let (quick, slow) = (Some("latency=0.1ms"), Some("latency=20ms"));
        let open = |pause_ms: u64| {
            move || {
                std::thread::sleep(Duration::from_millis(pause_ms));
                Ok(Arc::new(crate::Memory::new("slow://place", b"x".to_vec())) as Arc<dyn Store>)
            }
        };
        Measured::open("slow://place", quick, open(0)).unwrap();
        Measured::open("slow://place", slow, open(20)).unwrap();
        Measured::open("slow://place", quick, open(0)).unwrap();
        let round_trip = |throttle| link_to("slow://place", throttle).map(|link| link.round_trip).unwrap();
        assert!(round_trip(slow) >= Duration::from_millis(20));
        assert!(round_trip(quick) < Duration::from_millis(20));
        let known = |throttle| links(throttle).into_iter().any(|one| one.element == "memory");
        assert!(known(slow) && known(quick) && !known(Some("latency=21ms")));
    }

    #[test]
    fn only_what_comes_while_the_link_is_full_tells_of_its_bandwidth() {
        let mut state = State::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        state.took(Duration::from_millis(100));
        // Requests for little, one after the other: their round trips are no bandwidth.
        for number in 0..50 {
            state.begin(at(100 * number), 1 << 20);
            state.end(at(100 * number + 100), 1 << 20, 1 << 20);
        }
        assert_eq!((state.moved_bytes, state.seconds), (0, 0.0));
        // 40 MB at 100 MB/s.
        (0..10).for_each(|_| state.begin(at(6000), 4_000_000));
        (1..=10).for_each(|number| state.end(at(6100 + 40 * number), 4_000_000, 4_000_000));
        assert!((state.bytes / state.seconds / 1e8 - 1.0).abs() < 0.2, "{state:?}");
        // Nothing is in flight, so no thread waits.
        state.begin(at(9000), 1);
        assert!((state.bytes / state.seconds / 1e8 - 1.0).abs() < 0.2, "{state:?}");
    }

    #[test]
    fn the_bandwidth_of_a_wide_link_is_not_known_before_it_was_full_for_a_while() {
        let meter = Meter::default();
        meter.took(Duration::from_millis(1));
        let bandwidth = || meter.link().map(|link| link.bytes_per_second);
        let (mut began, half) = (Vec::new(), LINK_BYTES_MIN / 2);
        (0..3).for_each(|_| began.push(meter.begin(half)));
        std::thread::sleep(Duration::from_millis(5));
        meter.end(began[0], half, half);
        assert_eq!(bandwidth(), Some(0.0));
        meter.end(began[1], half, half);
        assert!(bandwidth() > Some(0.0));
    }
}
