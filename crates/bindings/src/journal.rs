//! Controls the trace of this process, and records activities of Python code in the trace.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use branchline_trace::journal;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Starts recording all requests of this process, in a new file in `folder`.
#[pyfunction]
pub fn trace_begin(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    py.detach(|| journal::begin(&folder)).map_err(Into::into)
}

/// Stops recording. When this returns, all records have been written to the file.
#[pyfunction]
pub fn trace_end(py: Python<'_>) -> PyResult<()> {
    py.detach(journal::end).map_err(Into::into)
}

/// Sets the wagon to which the trace assigns further reads of this thread; "" means no wagon.
#[pyfunction]
pub fn trace_wagon(name: &str) {
    journal::set_wagon(name);
}

/// Records an activity of this thread that has just ended. The duration is in seconds.
#[pyfunction]
pub fn trace_did(what: &str, wagon: &str, seconds: f64) -> PyResult<()> {
    let took = Duration::try_from_secs_f64(seconds);
    let took = took.map_err(|error| PyValueError::new_err(format!("invalid duration: {seconds} s: {error}")))?;
    if let Some(since) = Instant::now().checked_sub(took) {
        journal::did(what, wagon, since);
    }
    Ok(())
}

/// Returns whether requests are recorded.
#[pyfunction]
pub fn trace_is_on() -> bool {
    journal::is_on()
}
