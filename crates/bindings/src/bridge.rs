//! Opens and reads files through Python libraries, using `branchline.reading.bridge`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use branchline_storage::{Library, LibraryFailure, LibraryFile, RangesRead, StorageErrorKind};
use pyo3::exceptions::{PyException, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// Number of bytes above which a copy releases the GIL.
const COPY_BYTES_MAX: usize = 1 << 20;

/// A file's metadata from `branchline.reading.bridge`.
#[derive(FromPyObject)]
struct BridgedFile {
    name: String,
    size_bytes: u64,
    identity: Option<String>,
}

/// A range for `branchline.reading.bridge` to read, with the buffer to fill. The buffer is available until the read has
/// ended.
#[pyclass(frozen)]
pub struct WantedRange {
    #[pyo3(get)]
    offset: u64,
    #[pyo3(get)]
    length: u64,
    memory: Mutex<Option<branchline_storage::WantedRange>>,
}

impl WantedRange {
    fn of(wanted: branchline_storage::WantedRange) -> Self {
        let range = wanted.range();
        Self { offset: range.offset, length: range.length, memory: Mutex::new(Some(wanted)) }
    }

    fn take(&self) -> Option<branchline_storage::WantedRange> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl WantedRange {
    fn append(&self, py: Python<'_>, content: PyBackedBytes) -> PyResult<()> {
        let copy = || {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = memory.as_mut().ok_or("the read has ended".to_owned())?;
            wanted.append(&content);
            Ok(())
        };
        let copied: Result<(), String> = if content.len() > COPY_BYTES_MAX { py.detach(copy) } else { copy() };
        copied.map_err(PyValueError::new_err)
    }
}

/// Opens a file with the given Python library.
pub fn open(url: &str, library: Library, time_limit: Duration) -> Result<LibraryFile, LibraryFailure> {
    let function = match library {
        Library::Fsspec => "open_by_fsspec",
        Library::HdfsPackage => "open_by_hdfs",
        Library::XrootdPackage => "open_by_xrootd",
    };
    let (metadata, file) = attached(|py| {
        let module = py.import("branchline.reading.bridge")?;
        let file = module.getattr(function)?.call1((url, time_limit.as_secs_f64()))?;
        Ok((file.extract::<BridgedFile>()?, file.unbind()))
    })?;
    let reader = move |wanted, time_limit: Duration| read(&file, wanted, time_limit);
    let BridgedFile { name, size_bytes, identity } = metadata;
    Ok(LibraryFile { name, size_bytes, identity, reader: Arc::new(reader) })
}

fn read(
    file: &Py<PyAny>,
    wanted: Vec<branchline_storage::WantedRange>,
    time_limit: Duration,
) -> Result<RangesRead, LibraryFailure> {
    attached(|py| {
        let own = |one| Py::new(py, WantedRange::of(one));
        let wanted = wanted.into_iter().map(own).collect::<PyResult<Vec<_>>>()?;
        let given: Vec<_> = wanted.iter().map(|one| one.clone_ref(py)).collect();
        let calls_count = file.bind(py).call_method1("read", (given, time_limit.as_secs_f64()))?.extract()?;
        let ranges = wanted.iter().filter_map(|one| one.get().take()).collect();
        Ok(RangesRead { ranges, calls_count })
    })
}

/// Runs `work` while holding the GIL, unless Python is shutting down.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, LibraryFailure> {
    let done = Python::try_attach(|py| work(py).map_err(|error| failure(py, &error)));
    done.unwrap_or_else(|| {
        let reason = "Python is shutting down".to_owned();
        Err(LibraryFailure { kind: StorageErrorKind::Io, reason, retry_may_help: false })
    })
}

/// Converts an exception. A `BridgeError` carries its kind. The bridge converts every exception of its libraries to a
/// `BridgeError`, so an exception of any other class is an internal error.
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

/// Returns whether an exception indicates a bug rather than a failure of the machine or the storage.
fn is_programming_error(py: Python<'_>, error: &PyErr) -> bool {
    let is_from_outside = error.is_instance_of::<PyMemoryError>(py) || error.is_instance_of::<PyOSError>(py);
    error.is_instance_of::<PyException>(py) && !is_from_outside
}
