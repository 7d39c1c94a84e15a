//! Converts errors of the engine to the exceptions of `branchline.errors`.

use branchline_engine::error::{guarded, Cause, ReadError, ReadErrorKind, Result};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Runs `work` without the GIL. Converts an error to its Python exception, and a panic to an `InternalError`.
pub fn detached<T: Send>(py: Python<'_>, path: &str, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| guarded(path, work)).map_err(|error| to_python(py, &error))
}

/// Returns the Python exception for an error.
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
        Ok(exception) => {
            let raised = PyErr::from_value(exception);
            raised.set_cause(py, cause_of(error));
            raised
        }
        Err(error) => error,
    }
}

/// Returns the I/O error among the causes, if any. The messages of all other causes are already part of the error's
/// message.
fn cause_of(error: &ReadError) -> Option<PyErr> {
    let cause = match error.source.as_deref()? {
        Cause::Io(cause) => cause,
        Cause::Storage(error) => error.source.as_ref()?,
        Cause::Format(_) | Cause::Panic(_) => return None,
    };
    let text = cause.to_string();
    Some(
        cause
            .errno()
            .map_or_else(|| PyOSError::new_err(text.clone()), |errno| PyOSError::new_err((errno, text.clone()))),
    )
}

/// Returns the exception for a call on a file that was already finished or abandoned.
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
