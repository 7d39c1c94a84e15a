//! The bridge to the libraries of Python that read what we do not: `branchline.bridge` as the storage knows it.

use std::sync::Arc;
use std::time::Duration;

use branchline_storage::{ByteRange, Library, LibraryFailure, LibraryFile, RangesRead, StorageErrorKind};
use pyo3::exceptions::{PyException, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// The metadata of a file, as `branchline.bridge` gives it.
#[derive(FromPyObject)]
struct BridgedFile {
    name: String,
    size_bytes: u64,
    identity: Option<String>,
}

/// What was read, as `branchline.bridge` gives it.
#[derive(FromPyObject)]
struct BridgedRead {
    contents: Vec<PyBackedBytes>,
    calls: u64,
}

/// Opens a file by one of these libraries.
pub fn open(url: &str, library: Library, time_limit: Duration) -> Result<LibraryFile, LibraryFailure> {
    let function = match library {
        Library::Fsspec => "open_by_fsspec",
        Library::HdfsPackage => "open_by_hdfs",
        Library::XrootdPackage => "open_by_xrootd",
    };
    let (metadata, file) = attached(|py| {
        let module = py.import("branchline.bridge")?;
        let file = module.getattr(function)?.call1((url, time_limit.as_secs_f64()))?;
        Ok((file.extract::<BridgedFile>()?, file.unbind()))
    })?;
    let reader = move |ranges: &[ByteRange], time_limit: Duration| read(&file, ranges, time_limit);
    let BridgedFile { name, size_bytes, identity } = metadata;
    Ok(LibraryFile { name, size_bytes, identity, reader: Arc::new(reader) })
}

fn read(file: &Py<PyAny>, ranges: &[ByteRange], time_limit: Duration) -> Result<RangesRead, LibraryFailure> {
    let done = attached(|py| {
        let class = py.import("branchline.bridge")?.getattr("ByteRange")?;
        let range_of = |range: &ByteRange| class.call1((range.offset, range.length));
        let ranges = ranges.iter().map(range_of).collect::<PyResult<Vec<_>>>()?;
        file.bind(py).call_method1("read", (ranges, time_limit.as_secs_f64()))?.extract::<BridgedRead>()
    })?;
    let boxed = |part| Box::new(part) as Box<dyn AsRef<[u8]> + Send>;
    Ok(RangesRead { contents: done.contents.into_iter().map(boxed).collect(), calls_count: done.calls })
}

/// Runs `work` with Python's lock, unless Python is ending.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, LibraryFailure> {
    let done = Python::try_attach(|py| work(py).map_err(|error| failure(py, &error)));
    done.unwrap_or_else(|| {
        let reason = "Python is ending".to_owned();
        Err(LibraryFailure { kind: StorageErrorKind::Io, reason, retry_may_help: false })
    })
}

/// A `BridgeError` has its kind. The bridge turns all that its libraries raise into such: any other exception is a
/// fault of ours.
fn failure(py: Python<'_>, error: &PyErr) -> LibraryFailure {
    let value = error.value(py);
    let kind = value.getattr("kind").and_then(|kind| kind.extract::<String>()).unwrap_or_default();
    let reason = if kind.is_empty() { error.to_string() } else { value.to_string() };
    let kind = match kind.as_str() {
        "missing" => StorageErrorKind::NotFound,
        "permission" => StorageErrorKind::Permission,
        "not a file" => StorageErrorKind::NotAFile,
        "unknown" => StorageErrorKind::UnsupportedScheme,
        "timeout" => StorageErrorKind::Timeout,
        "unreachable" => StorageErrorKind::Unreachable,
        "changed" => StorageErrorKind::Changed,
        "refused" => StorageErrorKind::Refused,
        "" if is_programming_error(py, error) => StorageErrorKind::Internal,
        _ => StorageErrorKind::Io,
    };
    let retry_may_help = value.getattr("retry").and_then(|retry| retry.extract()).unwrap_or(false);
    LibraryFailure { kind, reason, retry_may_help }
}

/// Whether an exception says that code is wrong, not that the machine or the storage failed.
fn is_programming_error(py: Python<'_>, error: &PyErr) -> bool {
    let is_from_outside = error.is_instance_of::<PyMemoryError>(py) || error.is_instance_of::<PyOSError>(py);
    error.is_instance_of::<PyException>(py) && !is_from_outside
}
