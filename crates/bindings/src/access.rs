//! `branchline.Access` as the storage knows it.

use std::path::PathBuf;

use branchline_storage::{links, Access, AccessMode, Choice, LocalWay};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The fields of the Python class, which has checked them.
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
        let no_way = || PyValueError::new_err(format!("there is no local {:?}", fields.local));
        Ok(Self(Access {
            mode: AccessMode::named(&fields.mode).ok_or_else(unknown)?,
            read_ahead_bytes: fields.read_ahead,
            tree_cache_bytes: fields.tree_cache,
            local: LocalWay::named(&fields.local).ok_or_else(no_way)?,
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

/// The way to every storage element that this process has read from, and what is chosen for it: `name`, `round_trip_s`,
/// `bytes_per_second`, `gap_bytes`, `requests_in_flight` and `bytes_in_flight`.
#[pyfunction]
pub fn links_chosen<'py>(py: Python<'py>, access: PythonAccess) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    for (name, link, gap_bytes) in links() {
        let choice = Choice::of(&access.0, Some(link), gap_bytes);
        let about = PyDict::new(py);
        about.set_item("name", name)?;
        about.set_item("round_trip_s", link.round_trip.as_secs_f64())?;
        about.set_item("bytes_per_second", link.bytes_per_second)?;
        about.set_item("gap_bytes", choice.gap_bytes)?;
        about.set_item("requests_in_flight", choice.requests_in_flight)?;
        about.set_item("bytes_in_flight", choice.bytes_in_flight)?;
        all.append(about)?;
    }
    Ok(all)
}
