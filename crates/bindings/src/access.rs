//! `branchline.Access` as the storage knows it.

use std::path::PathBuf;
use std::time::Duration;

use branchline_storage::{links, Access, AccessMode, Choice, Link as MeasuredLink, LocalMode, StorageLink};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The fields of the Python class, which has checked their values.
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
    throttle: Option<String>,
    fault: Option<String>,
}

/// How to read.
#[derive(Default)]
pub struct PythonAccess(pub Access);

impl<'a, 'py> FromPyObject<'a, 'py> for PythonAccess {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let fields: Fields = given.extract()?;
        let unknown = || PyValueError::new_err(format!("there is no access {:?}", fields.mode));
        let no_mode = || PyValueError::new_err(format!("there is no local {:?}", fields.local));
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
            throttle: fields.throttle,
            fault: fields.fault,
        }))
    }
}

/// The link to a storage element as it was measured, and what reading chooses for it.
#[pyclass(frozen, get_all)]
pub struct Link {
    name: String,
    round_trip_s: f64,
    bytes_per_second: f64,
    gap_bytes: u64,
    requests_in_flight: usize,
    bytes_in_flight: u64,
}

/// The links to all storage elements that this process has read from.
#[pyfunction]
pub fn links_chosen(access: PythonAccess) -> Vec<Link> {
    links(access.0.throttle.as_deref()).into_iter().map(|link| chosen(&access.0, link)).collect()
}

/// What reading would choose for a link of this round trip and bandwidth, to a store whose own gap is `gap_bytes`.
#[pyfunction]
pub fn link_chosen(access: PythonAccess, round_trip_s: f64, bytes_per_second: f64, gap_bytes: u64) -> PyResult<Link> {
    let round_trip = Duration::try_from_secs_f64(round_trip_s)
        .map_err(|_| PyValueError::new_err(format!("there is no round trip of {round_trip_s} s")))?;
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
