//! Streams of chunks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use branchline_engine::read::decode::chunk;
use branchline_engine::read::decompress_limit;
use branchline_engine::read::read_now::read_now;
use branchline_engine::read::records;
use branchline_engine::read::source::{Options, Selection, Source, SourceTree};
use branchline_engine::read::stream::{self, Next};
use branchline_format::compress::{InvalidSetting, Setting};
use branchline_slab::Pool;
use branchline_trace::Counter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::access::PythonAccess;
use crate::column::columns_to_python;
use crate::errors::{detached, to_python};
use crate::files::Tree;

/// Interval at which a waiting call checks for Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// `branchline.reading.sources.Source`: an entry range of a tree, with the tree itself if it is already open.
#[derive(FromPyObject)]
struct SourceFields {
    path: String,
    tree: Option<String>,
    entry_start: u64,
    entry_stop: Option<u64>,
    open_tree: Option<OpenTree>,
    counts_apart: bool,
}

/// Fields of the Python class `branchline.reading.trees.tree.Tree`.
#[derive(FromPyObject)]
struct OpenTree {
    core: Py<Tree>,
}

impl From<SourceFields> for Source {
    fn from(given: SourceFields) -> Self {
        let SourceFields { path, tree, entry_start, entry_stop, open_tree, counts_apart } = given;
        let tree = match open_tree {
            Some(open) if counts_apart => SourceTree::Open(open.core.get().0.counted_apart()),
            Some(open) => SourceTree::Open(Arc::clone(&open.core.get().0)),
            None => SourceTree::Path { file: path, tree },
        };
        Self { tree, entry_start, entry_stop }
    }
}

/// The length of a chunk, in entries or bytes.
#[derive(FromPyObject)]
struct StepFields {
    size_bytes: u64,
    entries: Option<u64>,
    is_even: bool,
}

/// `branchline.reading.request.StreamRequest`: what a stream reads from its sources.
#[derive(FromPyObject)]
struct RequestFields {
    branches: Option<Vec<String>>,
    optional: Vec<String>,
    step: StepFields,
    threads: usize,
    memory_limit_bytes: u64,
    memory_parts: u64,
    keeps_values: bool,
    access: PythonAccess,
}

impl From<RequestFields> for Options {
    fn from(given: RequestFields) -> Self {
        Self {
            selection: given.branches.map_or(Selection::All, Selection::Named),
            optional: given.optional.into_iter().collect(),
            step_bytes: given.step.size_bytes,
            step_entries: given.step.entries,
            has_even_steps: given.step.is_even,
            threads: given.threads,
            memory_limit_bytes: given.memory_limit_bytes,
            memory_parts: given.memory_parts,
            access: given.access.0,
            keeps_values: given.keeps_values,
        }
    }
}

/// A source that could not be read to its end, with the error and, if known, the failed chunk.
#[pyclass(frozen, get_all)]
pub struct FailedSource {
    source_index: usize,
    error: Py<PyAny>,
    chunk: Option<Py<Chunk>>,
}

/// A stream of chunks over many files.
#[pyclass(frozen)]
pub struct Stream {
    // The lock ensures that only one thread uses the stream at a time.
    stream: Mutex<stream::Stream>,
    records: Arc<records::Records>,
    pool: Arc<Pool>,
}

#[pymethods]
impl Stream {
    #[new]
    fn new(py: Python<'_>, sources: Vec<SourceFields>, request: RequestFields) -> PyResult<Self> {
        let sources = sources.into_iter().map(Source::from).collect();
        let options = Options::from(request);
        let stream = detached(py, "", || stream::Stream::start(sources, options))?;
        let (records, pool) = (Arc::clone(stream.records()), Arc::clone(stream.pool()));
        Ok(Self { stream: Mutex::new(stream), records, pool })
    }

    /// Returns the next chunk or, if a source cannot be read, a `FailedSource`. Returns None at the end of the stream.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let next = || self.stream.lock().unwrap_or_else(PoisonError::into_inner).next(SIGNAL_CHECK);
            let next = detached(py, "", || Ok(next()))?;
            match next {
                Next::NotYet => py.check_signals()?,
                Next::End => return Ok(None),
                Next::Chunk(chunk) => return Ok(Some(self.chunk(py, chunk)?.into_any())),
                Next::Failed { source_index, error, chunk } => {
                    let chunk = chunk.map(|chunk| self.chunk(py, chunk)).transpose()?;
                    let error = to_python(py, &error).into_value(py).into_any();
                    let failed = FailedSource { source_index, error, chunk: chunk.map(Bound::unbind) };
                    return Ok(Some(failed.into_pyobject(py)?.into_any()));
                }
            }
        }
    }

    /// Returns the records of all reads until now.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::records::to_python(py, &self.records)
    }

    /// Stops reading and joins the stream's threads.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.stream.lock().unwrap_or_else(PoisonError::into_inner).close());
    }
}

impl Drop for Stream {
    /// Joins the threads without holding the GIL, because a thread may be waiting for the GIL to call a Python library.
    fn drop(&mut self) {
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        Python::attach(|py| py.detach(|| stream.close()));
    }
}

impl Stream {
    fn chunk<'py>(&self, py: Python<'py>, chunk: Arc<chunk::Chunk>) -> PyResult<Bound<'py, Chunk>> {
        let chunk = Chunk { chunk, records: Arc::clone(&self.records), pool: Arc::clone(&self.pool) };
        Bound::new(py, chunk)
    }
}

/// Columns of one entry range of one tree.
#[pyclass(frozen)]
pub struct Chunk {
    chunk: Arc<chunk::Chunk>,
    records: Arc<records::Records>,
    pool: Arc<Pool>,
}

#[pymethods]
impl Chunk {
    #[getter]
    fn source_index(&self) -> usize {
        self.chunk.source_index
    }

    #[getter]
    fn path(&self) -> &str {
        self.chunk.tree.file().path()
    }

    /// Number of keys recovered from a file that was not closed properly.
    #[getter]
    fn recovered_count(&self) -> usize {
        self.chunk.tree.file().recovered_count()
    }

    #[getter]
    fn tree_path(&self) -> &str {
        self.chunk.tree.path()
    }

    #[getter]
    fn tree_entries(&self) -> u64 {
        self.chunk.tree.entries_count()
    }

    #[getter]
    fn entry_start(&self) -> u64 {
        self.chunk.entries.start
    }

    #[getter]
    fn entry_stop(&self) -> u64 {
        self.chunk.entries.end
    }

    /// Returns the paths of the decoded branches.
    fn branches(&self) -> Vec<String> {
        self.chunk.columns.iter().map(|index| self.chunk.tree.branch_path(*index).to_string()).collect()
    }

    /// Returns the tree that the chunk was read from.
    fn tree(&self) -> Tree {
        Tree(Arc::clone(&self.chunk.tree))
    }

    /// Takes the decoded columns, in the order of `branches`. The columns can be taken only once.
    fn take_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        columns_to_python(py, &self.chunk)
    }

    /// Reads another branch for the same entries.
    fn read_late<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let tree = &self.chunk.tree;
        let started = Instant::now();
        let read = detached(py, tree.file().path(), || {
            let index = tree.find(name)?;
            tree.check_readable(index)?;
            read_now(tree, vec![index], self.chunk.entries.clone(), &self.pool)
        });
        let chunk = read?;
        tree.file().counters().add(Counter::LateReads, 1);
        self.records.add_late_read(&chunk, started.elapsed());
        columns_to_python(py, &chunk)?.get_item(0)
    }
}

/// The cost of decompressing baskets without decoding them.
#[pyclass(frozen, get_all)]
pub struct Decompressed {
    seconds: f64,
    baskets: u64,
    compressed_bytes: u64,
    plain_bytes: u64,
}

/// Decompresses every basket of these branches without decoding it. If `codec` is given, compresses the bytes again.
/// The results are upper limits for the speed of reading and of recompressing.
#[pyfunction]
#[pyo3(signature = (paths, tree=None, branches=None, threads=1, codec=None))]
pub fn decompress_all(
    py: Python<'_>,
    paths: Vec<String>,
    tree: Option<&str>,
    branches: Option<Vec<String>>,
    threads: usize,
    codec: Option<&str>,
) -> PyResult<Decompressed> {
    let names = branches.unwrap_or_default();
    let setting: Option<Setting> =
        codec.map(str::parse).transpose().map_err(|error: InvalidSetting| PyValueError::new_err(error.to_string()))?;
    let options = decompress_limit::DecompressOptions { threads, setting };
    let done = detached(py, "", || decompress_limit::decompress_all(&paths, tree, &names, options))?;
    Ok(Decompressed {
        seconds: done.seconds,
        baskets: done.baskets,
        compressed_bytes: done.compressed_bytes,
        plain_bytes: done.plain_bytes,
    })
}
