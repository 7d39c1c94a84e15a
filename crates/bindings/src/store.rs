//! The bytes of a file at any storage.

use std::sync::Arc;

use branchline_engine::error::ReadError;
use branchline_engine::memory::buffers::read_ranges;
use branchline_storage::{ByteRange, ListingForm};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::access::PythonAccess;
use crate::buffer::view_of_stored;
use crate::errors::detached;

/// An opened file as bytes.
#[pyclass(frozen)]
pub struct Store(Arc<dyn branchline_storage::Store>);

/// A text without the secrets of the URLs in it.
#[pyfunction]
pub fn without_secrets(text: &str) -> String {
    branchline_storage::without_secrets(text)
}

/// Makes relative paths of files to read start from a directory.
#[pyfunction]
#[pyo3(signature = (directory))]
pub fn set_base_directory(directory: Option<std::path::PathBuf>) {
    branchline_storage::set_base_directory(directory);
}

/// The listing of a folder at a server: the format of its answers, and their bytes.
#[pyclass(frozen, get_all)]
pub struct FolderListing {
    form: &'static str,
    pages: Vec<Py<PyBytes>>,
}

/// Bytes of several ranges of a file, and what reading them took.
#[pyclass(frozen, get_all)]
pub struct RangesRead {
    contents: Vec<Py<PyMemoryView>>,
    read_calls: u64,
    bytes_read: u64,
}

/// Lists a folder at a server.
#[pyfunction]
#[pyo3(signature = (url, once=false))]
pub fn list_folder(py: Python<'_>, url: &str, once: bool) -> PyResult<FolderListing> {
    let listing = stored(py, url, || branchline_storage::list_folder(url, once))?;
    let form = match listing.form {
        ListingForm::Xrootd => "xrootd",
        ListingForm::Webdav => "webdav",
        ListingForm::Json => "json",
        ListingForm::Html => "html",
        ListingForm::S3 => "s3",
    };
    Ok(FolderListing { form, pages: listing.pages.iter().map(|page| PyBytes::new(py, page).unbind()).collect() })
}

/// The size of a file at a server in bytes, and what differs between its versions, if the server says that.
#[pyfunction]
pub fn size_and_identity(py: Python<'_>, url: &str) -> PyResult<(u64, Option<String>)> {
    stored(py, url, || branchline_storage::size_and_identity(url))
}

/// Has this process read the replicas with the lowest ranks first: pairs of the beginning of a location and its rank.
#[pyfunction]
pub fn prefer_replicas(ranks: Vec<(String, u32)>) {
    let rank_of = |(beginning, rank)| branchline_storage::ReplicaRank { beginning, rank };
    branchline_storage::prefer_replicas(ranks.into_iter().map(rank_of).collect());
}

/// How long a call that reads this number of bytes may take, with all its tries and waits.
#[pyfunction]
pub fn longest_wait_s(size_bytes: u64) -> f64 {
    branchline_storage::longest_wait(size_bytes).as_secs_f64()
}

/// How long a library of Python's may take to list a folder.
#[pyfunction]
pub fn listing_wait_s(py: Python<'_>, url: &str, once: bool) -> PyResult<f64> {
    stored(py, url, || branchline_storage::listing_wait(url, once)).map(|wait| wait.as_secs_f64())
}

/// Counts of failures at a storage element.
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

/// Counts of failures at each storage element since the last call.
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

/// `detached`, for calls of the storage.
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

    /// Remarks for the user on a file that was read without an error.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.0.remarks()
    }

    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        stored(py, self.0.path(), || self.0.size_bytes())
    }

    /// Reads these ranges (offset, length). The memory of the contents is used again once they are gone.
    fn read(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<RangesRead> {
        let ranges = ranges.into_iter().map(|(offset, length)| ByteRange::new(offset, length)).collect();
        let (contents, effort) = stored(py, self.0.path(), || read_ranges(&*self.0, ranges))?;
        let contents = contents.into_iter().map(|bytes| view_of_stored(py, bytes)).collect::<PyResult<_>>()?;
        Ok(RangesRead { contents, read_calls: effort.calls_count, bytes_read: effort.read_bytes })
    }
}
