//! Errors of the engine as the exceptions of `branchline.errors`.

use branchline_engine::error::{guarded, ReadError, ReadErrorKind, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Runs `work` without Python's lock. Its error becomes an exception, and its panic an `InternalError`.
pub fn detached<T: Send>(py: Python<'_>, path: &str, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| guarded(path, work)).map_err(|error| to_python(py, &error))
}

/// The Python exception for an error.
pub fn to_python(py: Python<'_>, error: &ReadError) -> PyErr {
    let class = match error.kind {
        ReadErrorKind::Missing => "MissingFileError",
        ReadErrorKind::BadFile => "BadFileError",
        ReadErrorKind::Storage | ReadErrorKind::Output => "StorageError",
        ReadErrorKind::NoSuchKey => "NoSuchKeyError",
        ReadErrorKind::Unsupported => "UnsupportedBranchError",
        ReadErrorKind::MemoryLimit => "MemoryLimitError",
        ReadErrorKind::Stuck => "StuckError",
        ReadErrorKind::Option => "OptionError",
        ReadErrorKind::Internal => "InternalError",
        ReadErrorKind::Refused => "BranchlineError",
    };
    match build(py, class, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception of a call on a file that was finished or abandoned.
pub fn closed(path: &str) -> PyErr {
    PyValueError::new_err(format!("{path}: the file is closed"))
}

fn build<'py>(py: Python<'py>, class: &str, error: &ReadError) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(py);
    keywords.set_item("path", &error.path)?;
    keywords.set_item("hint", error.hint.as_deref())?;
    keywords.set_item("retry", error.retry_may_help)?;
    let what = PyString::new(py, &error.message);
    py.import("branchline.errors")?.getattr(class)?.call((what,), Some(&keywords))
}
