//! The trace of this process: starts it, ends it, and logs the steps that only Python knows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use branchline_trace::journal;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Records every request from now on, in a file of this process in the folder.
#[pyfunction]
pub fn trace_begin(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    py.detach(|| journal::begin(&folder)).map_err(Into::into)
}

/// Ends the recording. All records are in the file when this returns.
#[pyfunction]
pub fn trace_end(py: Python<'_>) -> PyResult<()> {
    py.detach(journal::end).map_err(Into::into)
}

/// The wagon for which this thread reads from now on; "" for none.
#[pyfunction]
pub fn trace_wagon(name: &str) {
    journal::set_wagon(name);
}

/// Records a step of this thread that ends now, with its duration in seconds.
#[pyfunction]
pub fn trace_did(what: &str, wagon: &str, seconds: f64) -> PyResult<()> {
    let took = Duration::try_from_secs_f64(seconds);
    let took = took.map_err(|error| PyValueError::new_err(format!("{seconds} s is no duration: {error}")))?;
    if let Some(since) = Instant::now().checked_sub(took) {
        journal::did(what, wagon, since);
    }
    Ok(())
}

/// Whether requests are recorded.
#[pyfunction]
pub fn trace_is_on() -> bool {
    journal::is_on()
}
