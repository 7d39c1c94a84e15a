//! Access to a file's bytes in any storage.

use std::sync::Arc;

use branchline_engine::error::ReadError;
use branchline_engine::memory::buffers::read_ranges;
use branchline_storage::{ByteRange, ListingForm};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::access::PythonAccess;
use crate::buffer::view_of_stored;
use crate::errors::detached;

/// An open file, read as bytes.
#[pyclass(frozen)]
pub struct Store(Arc<dyn branchline_storage::Store>);

/// Returns the string with all secrets in its URLs masked.
#[pyfunction]
pub fn without_secrets(text: &str) -> String {
    branchline_storage::without_secrets(text)
}

/// Sets the directory against which relative paths are resolved.
#[pyfunction]
#[pyo3(signature = (directory))]
pub fn set_base_directory(directory: Option<std::path::PathBuf>) {
    branchline_storage::set_base_directory(directory);
}

/// The listing of a folder on a server: the response format, and the bytes of each response.
#[pyclass(frozen, get_all)]
pub struct FolderListing {
    form: &'static str,
    pages: Vec<Py<PyBytes>>,
}

/// The contents of several ranges of a file, with counts of the calls and bytes needed to read them.
#[pyclass(frozen, get_all)]
pub struct RangesRead {
    contents: Vec<Py<PyMemoryView>>,
    read_calls: u64,
    bytes_read: u64,
}

/// Lists a folder on a server.
#[pyfunction]
#[pyo3(signature = (url, access=None, once=false))]
pub fn list_folder(py: Python<'_>, url: &str, access: Option<PythonAccess>, once: bool) -> PyResult<FolderListing> {
    let access = access.unwrap_or_default();
    let listing = stored(py, url, || branchline_storage::list_folder(url, &access.0, once))?;
    let form = match listing.form {
        ListingForm::Xrootd => "xrootd",
        ListingForm::Webdav => "webdav",
        ListingForm::Json => "json",
        ListingForm::Html => "html",
        ListingForm::S3 => "s3",
    };
    Ok(FolderListing { form, pages: listing.pages.iter().map(|page| PyBytes::new(py, page).unbind()).collect() })
}

/// Returns the size in bytes and the identity of a file on a server. The identity changes whenever the file changes,
/// and is None if the server provides none.
#[pyfunction]
#[pyo3(signature = (url, access=None))]
pub fn size_and_identity(py: Python<'_>, url: &str, access: Option<PythonAccess>) -> PyResult<(u64, Option<String>)> {
    let access = access.unwrap_or_default();
    stored(py, url, || branchline_storage::size_and_identity(url, &access.0))
}

/// Makes this process prefer replicas with low ranks. `ranks` are pairs of a location prefix and its rank.
#[pyfunction]
pub fn prefer_replicas(ranks: Vec<(String, u32)>) {
    let rank_of = |(beginning, rank)| branchline_storage::ReplicaRank { beginning, rank };
    branchline_storage::prefer_replicas(ranks.into_iter().map(rank_of).collect());
}

/// Returns the storage elements that recently did not answer.
#[pyfunction]
pub fn silent_elements() -> Vec<String> {
    branchline_storage::silent_elements()
}

/// Makes this process read replicas on these storage elements last, because they did not answer another process.
#[pyfunction]
pub fn avoid_silent(elements: Vec<String>) {
    elements.iter().for_each(|element| branchline_storage::avoid(element, true));
}

/// Returns the maximum time in seconds that a call reading this many bytes may take, including all retries and waits.
#[pyfunction]
pub fn longest_wait_s(access: PythonAccess, size_bytes: u64) -> f64 {
    branchline_storage::longest_wait(access.0.waits, size_bytes).as_secs_f64()
}

/// Returns the time limit in seconds for a Python library that lists a folder.
#[pyfunction]
#[pyo3(signature = (url, access, once))]
pub fn listing_wait_s(py: Python<'_>, url: &str, access: Option<PythonAccess>, once: bool) -> PyResult<f64> {
    let access = access.unwrap_or_default();
    stored(py, url, || branchline_storage::listing_wait(url, &access.0, once)).map(|wait| wait.as_secs_f64())
}

/// Numbers of failures of a storage element, by kind.
#[pyclass(frozen, get_all)]
pub struct Troubles {
    name: String,
    retries: u64,
    timeouts: u64,
    resets: u64,
    wrong_answers: u64,
    other_errors: u64,
    replicas_left: u64,
    replicas_refused: u64,
    waits: u64,
    waited_s: f64,
    lost_s: f64,
}

/// Returns the numbers of failures of each storage element since the previous call.
#[pyfunction]
pub fn take_troubles() -> Vec<Troubles> {
    let troubles_of = |branchline_storage::ElementTroubles { element, troubles: one }| Troubles {
        name: element,
        retries: one.retries_count,
        timeouts: one.timeouts_count,
        resets: one.resets_count,
        wrong_answers: one.wrong_answers_count,
        other_errors: one.other_errors_count,
        replicas_left: one.replicas_left_count,
        replicas_refused: one.replicas_refused_count,
        waits: one.waits_count,
        waited_s: one.waited.as_secs_f64(),
        lost_s: one.lost.as_secs_f64(),
    };
    branchline_storage::take_troubles().into_iter().map(troubles_of).collect()
}

/// Like `detached`, for calls of the storage crate.
fn stored<T: Send>(
    py: Python<'_>,
    path: &str,
    work: impl FnOnce() -> branchline_storage::Result<T> + Send,
) -> PyResult<T> {
    detached(py, path, || work().map_err(|error| ReadError::from_storage(&error)))
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, access=None))]
    fn new(py: Python<'_>, path: &str, access: Option<PythonAccess>) -> PyResult<Self> {
        let access = access.unwrap_or_default();
        stored(py, path, || branchline_storage::open(path, &access.0)).map(Self)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    #[getter]
    fn identity(&self) -> Option<String> {
        self.0.identity()
    }

    /// Notes to the user about reads that succeeded.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.0.remarks()
    }

    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        stored(py, self.0.path(), || self.0.size_bytes())
    }

    /// Reads ranges, given as (offset, length). Once Python has freed the contents, their memory is reused for later
    /// reads.
    fn read(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<RangesRead> {
        let ranges = ranges.into_iter().map(|(offset, length)| ByteRange::new(offset, length)).collect();
        let (contents, effort) = stored(py, self.0.path(), || read_ranges(&*self.0, ranges))?;
        let contents = contents.into_iter().map(|bytes| view_of_stored(py, bytes)).collect::<PyResult<_>>()?;
        Ok(RangesRead { contents, read_calls: effort.calls_count, bytes_read: effort.read_bytes })
    }
}
