//! Measures the round-trip time and bandwidth of the link to each storage element during reads.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LINK_BYTES_MIN, LINK_FULL_BYTES, LINK_MEMORY, LINK_SAMPLES};
use crate::{Around, RangeRead, ReadEffort, Result, Store};

/// Measured properties of the link to a storage element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Round-trip time: the duration of the shortest recent call.
    pub round_trip: Duration,
    /// Bandwidth while requests are in flight, in bytes per second; 0 if too few bytes were received to measure the
    /// bandwidth.
    pub bytes_per_second: f64,
}

/// A storage element, and the link to it.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageLink {
    /// Name of the storage element in reports.
    pub element: String,
    /// Link to the storage element.
    pub link: Link,
    /// Largest gap across which two ranges of a file on the storage element are read as one.
    pub gap_bytes: u64,
}

/// Measures the link to one storage element during reads from all open files.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
    /// Default gap for joining ranges in the file that was opened last.
    gap_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Durations of the latest calls.
    took: VecDeque<Duration>,
    /// Number of pending bytes.
    due_bytes: u64,
    /// Time since which the link is full: the earliest time at which pending bytes could arrive. None if too few bytes
    /// are pending to fill the link.
    full_since: Option<Instant>,
    /// Number of bytes received while the link was full, with exponential decay.
    bytes: f64,
    /// Time for which the link was full, in seconds, with exponential decay.
    seconds: f64,
    /// Total number of bytes received while the link was full, without decay.
    moved_bytes: u64,
}

/// Key of the measurements: a storage element, and the emulated throttle of the link to it, if any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    element: String,
    throttle: Option<String>,
}

static METERS: Mutex<Option<HashMap<Way, Arc<Meter>>>> = Mutex::new(None);

fn way(element: &str, throttle: Option<&str>) -> Way {
    Way { element: element.to_owned(), throttle: throttle.map(str::to_owned) }
}

/// Returns the meter for a storage element and throttle, creating it if necessary.
fn meter_of(element: &str, throttle: Option<&str>) -> Arc<Meter> {
    let mut meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(meters.get_or_insert_default().entry(way(element, throttle)).or_default())
}

/// Returns the meter for a storage element and throttle, or None if nothing was read with that throttle yet. Queries do
/// not create meters, since they may name every server in a long list of replicas.
fn known_meter(element: &str, throttle: Option<&str>) -> Option<Arc<Meter>> {
    let meters = METERS.lock().unwrap_or_else(PoisonError::into_inner);
    meters.as_ref()?.get(&way(element, throttle)).cloned()
}

/// Maps names of storage elements in URLs to the names under which their links are measured. For example, an S3 bucket
/// is measured under the name of its server.
static MEASURED_NAMES: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Returns the link to a storage element, or None if nothing was read with this throttle yet. `name` may be the name in
/// reports or the name in URLs.
pub fn link_to(name: &str, throttle: Option<&str>) -> Option<Link> {
    let names = MEASURED_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let measured = names.as_ref().and_then(|names| names.get(name)).cloned();
    drop(names);
    known_meter(measured.as_deref().unwrap_or(name), throttle)?.link()
}

/// Returns the links to all storage elements from which this process has read with this throttle, sorted by element
/// name.
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

    /// Records the duration of a call that transfers few bytes, as a sample of the round-trip time.
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
            // The link can fill only after one round trip, when the first byte arrives.
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

    /// Applies the decay since the last change, and counts the time since then if the link was full. Bytes that arrive
    /// while the link is not full do not indicate its bandwidth.
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

/// A wrapper around a store that measures the link to the store's storage element.
pub(crate) struct Measured {
    inner: Arc<dyn Store>,
    meter: Arc<Meter>,
}

impl Measured {
    /// Opens a store with `open`, which may take several round trips. `element` is the storage element's name in URLs,
    /// and `throttle` the emulated throttle.
    pub(crate) fn open(
        element: &str,
        throttle: Option<&str>,
        open: impl FnOnce() -> Result<Arc<dyn Store>>,
    ) -> Result<Self> {
        let began = Instant::now();
        let inner = open()?;
        // If an fsspec URL ends in a local file, `element` is the name of the local disks, which must not be mapped to
        // the name of the fsspec store.
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
        // Another test uses this storage element without a throttle.
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
        // Small requests are sent one after the other, so their round trips do not indicate the bandwidth.
        for number in 0..50 {
            state.begin(at(100 * number), 1 << 20);
            state.end(at(100 * number + 100), 1 << 20, 1 << 20);
        }
        assert_eq!((state.moved_bytes, state.seconds), (0, 0.0));
        // Ten requests fill the link: 40 MB arrive at 100 MB/s.
        (0..10).for_each(|_| state.begin(at(6000), 4_000_000));
        (1..=10).for_each(|number| state.end(at(6100 + 40 * number), 4_000_000, 4_000_000));
        assert!((state.bytes / state.seconds / 1e8 - 1.0).abs() < 0.2, "{state:?}");
        // Time without requests in flight is not counted.
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
