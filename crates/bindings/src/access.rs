//! Converts `branchline.Access` to the access options of the storage crate.

use std::path::PathBuf;
use std::time::Duration;

use branchline_storage::{
    links, Access, AccessMode, Choice, Link as MeasuredLink, LocalMode, StorageLink, WaitSetting, Waits,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The fields of the Python class, which has already validated them.
#[derive(FromPyObject)]
struct Fields {
    mode: String,
    read_ahead: Option<u64>,
    tree_cache: u64,
    local: String,
    gap: Option<u64>,
    requests_in_flight: Option<usize>,
    bytes_in_flight: Option<u64>,
    streams: usize,
    cache_dir: Option<PathBuf>,
    cache_size: u64,
    stage_dir: Option<PathBuf>,
    timeout: Option<f64>,
    server_wait: Option<f64>,
    tries: Option<u32>,
    retry_pause: Option<f64>,
    throttle: Option<String>,
    fault: Option<String>,
}

/// Access options converted from Python.
#[derive(Default)]
pub struct PythonAccess(pub Access);

impl<'a, 'py> FromPyObject<'a, 'py> for PythonAccess {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let fields: Fields = given.extract()?;
        let unknown = || PyValueError::new_err(format!("unknown access mode {:?}", fields.mode));
        let no_mode = || PyValueError::new_err(format!("unknown local mode {:?}", fields.local));
        Ok(Self(Access {
            mode: AccessMode::named(&fields.mode).ok_or_else(unknown)?,
            read_ahead_bytes: fields.read_ahead,
            tree_cache_bytes: fields.tree_cache,
            local: LocalMode::named(&fields.local).ok_or_else(no_mode)?,
            gap_bytes: fields.gap,
            requests_in_flight: fields.requests_in_flight,
            bytes_in_flight: fields.bytes_in_flight,
            first_bytes: 0,
            streams: fields.streams,
            cache_dir: fields.cache_dir,
            cache_bytes: fields.cache_size,
            stage_dir: fields.stage_dir,
            waits: Waits {
                timeout_s: fields.timeout,
                server_wait_s: fields.server_wait,
                tries: fields.tries,
                retry_pause_s: fields.retry_pause,
            },
            throttle: fields.throttle,
            fault: fields.fault,
        }))
    }
}

/// Returns the timeout and retry settings of `branchline.Access`, each as (name, environment variable, minimum,
/// maximum, default).
#[pyfunction]
pub fn wait_settings() -> Vec<(&'static str, &'static str, f64, f64, f64)> {
    let parts = |one: WaitSetting| (one.name, one.variable, *one.allowed.start(), *one.allowed.end(), one.default);
    Waits::settings().into_iter().map(parts).collect()
}

/// Returns the names of the environment variables that the engine reads.
#[pyfunction]
pub fn environment_names() -> Vec<&'static str> {
    branchline_trace::environment::NAMES.to_vec()
}

/// The measured link to a storage element, and the request sizes chosen for the link.
#[pyclass(frozen, get_all)]
pub struct Link {
    name: String,
    round_trip_s: f64,
    bytes_per_second: f64,
    gap_bytes: u64,
    requests_in_flight: usize,
    bytes_in_flight: u64,
}

/// Returns the links to all storage elements from which this process has read.
#[pyfunction]
pub fn links_chosen(access: PythonAccess) -> Vec<Link> {
    links(access.0.throttle.as_deref()).into_iter().map(|link| chosen(&access.0, link)).collect()
}

/// Returns the request sizes chosen for a link with this round-trip time and bandwidth. `gap_bytes` is the default gap
/// of the storage element.
#[pyfunction]
pub fn link_chosen(access: PythonAccess, round_trip_s: f64, bytes_per_second: f64, gap_bytes: u64) -> PyResult<Link> {
    let round_trip = Duration::try_from_secs_f64(round_trip_s)
        .map_err(|_| PyValueError::new_err(format!("invalid round-trip time: {round_trip_s} s")))?;
    let link = MeasuredLink { round_trip, bytes_per_second };
    Ok(chosen(&access.0, StorageLink { element: String::new(), link, gap_bytes }))
}

fn chosen(access: &Access, StorageLink { element, link, gap_bytes }: StorageLink) -> Link {
    let choice = Choice::of(access, Some(link), gap_bytes);
    Link {
        name: element,
        round_trip_s: link.round_trip.as_secs_f64(),
        bytes_per_second: link.bytes_per_second,
        gap_bytes: choice.gap_bytes,
        requests_in_flight: choice.requests_in_flight,
        bytes_in_flight: choice.bytes_in_flight,
    }
}
