//! Files and trees, with their metadata.

use std::sync::Arc;

use branchline_engine::error::ReadError;
use branchline_engine::read::read_now::read_now;
use branchline_engine::tree::branch_info::State;
use branchline_engine::{file, tree};
use branchline_format::compress;
use branchline_format::file::TKey;
use branchline_slab::Pool;
use branchline_storage::ByteRange;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::access::PythonAccess;
use crate::buffer::Buffer;
use crate::column::columns_to_python;
use crate::errors::{detached, to_python};
use crate::stored_object::value_to_python;

/// A key of a file.
#[pyclass(frozen, get_all)]
pub struct Key {
    path: String,
    cycle: i16,
    class_name: String,
    title: String,
    is_tree: bool,
}

/// The position of a branch in the branch hierarchy of its tree.
#[pyclass(frozen, get_all)]
pub struct OutlineRow {
    name: String,
    parent: Option<usize>,
    kind: &'static str,
    counter: Option<usize>,
}

/// Metadata of a branch.
#[pyclass(frozen, get_all)]
pub struct BranchFacts {
    path: String,
    name: String,
    title: String,
    class_name: String,
    kind: &'static str,
    reason: Option<String>,
    typename: String,
    container_class: String,
    is_part: bool,
    entries_count: u64,
    baskets_count: usize,
    compressed_bytes: u64,
    plain_bytes: u64,
    compress: i64,
}

/// Average bytes per entry of some branches, as stored and after decompression.
#[pyclass(frozen, get_all)]
pub struct BytesPerEntry {
    stored: f64,
    plain: f64,
}

/// Positions of baskets or pages, as columns of 64-bit integers with one row per basket or page.
#[pyclass(frozen, get_all)]
pub struct Extents {
    branch: Py<Buffer>,
    offset: Py<Buffer>,
    size: Py<Buffer>,
    entry_start: Py<Buffer>,
    entry_stop: Py<Buffer>,
}

/// An open file.
#[pyclass(frozen)]
pub struct File(pub(crate) Arc<file::File>);

#[pymethods]
impl File {
    #[new]
    #[pyo3(signature = (path, access=None))]
    fn new(py: Python<'_>, path: &str, access: Option<PythonAccess>) -> PyResult<Self> {
        let access = access.unwrap_or_default();
        detached(py, path, || file::File::open(path, &access.0)).map(Self)
    }

    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    #[getter]
    fn store(&self) -> &str {
        self.0.store_name()
    }

    #[getter]
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Offset and size of the streamer info record; None if the file has none.
    fn infos_range(&self) -> Option<(u64, u64)> {
        self.0.infos_range().map(|range| (range.offset, range.length))
    }

    fn metadata_requests(&self) -> Vec<Vec<(u64, u64)>> {
        let ranges = |request: Vec<ByteRange>| request.iter().map(|range| (range.offset, range.length)).collect();
        self.0.metadata_requests().into_iter().map(ranges).collect()
    }

    /// Maximum gap in bytes at which the storage itself joins two ranges into one read.
    #[getter]
    fn store_gap_bytes(&self) -> u64 {
        self.0.store_gap_bytes()
    }

    /// Whether the file is on a local disk or in memory, and no throttle is emulated.
    #[getter]
    fn is_near(&self) -> bool {
        self.0.is_near()
    }

    /// Number of keys recovered from a file that was not closed properly.
    #[getter]
    fn recovered_count(&self) -> usize {
        self.0.recovered_count()
    }

    #[getter]
    fn uuid(&self) -> [u8; 16] {
        self.0.uuid()
    }

    #[getter]
    fn compress(&self) -> i32 {
        self.0.compress()
    }

    #[getter]
    fn root_version(&self) -> i32 {
        self.0.root_version()
    }

    /// Returns all keys below a directory, including those in subdirectories.
    fn keys_below(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let entries = detached(py, self.0.path(), || self.0.entries_below(path))?;
        Ok(entries.into_iter().map(|one| self.key(one.path, one.key)).collect())
    }

    /// Returns the keys directly in a directory, without reading other directories.
    fn keys_in(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let keys = detached(py, self.0.path(), || self.0.keys_in(path))?;
        let path_of = |key: &TKey| if path.is_empty() { key.name.clone() } else { format!("{path}/{}", key.name) };
        Ok(keys.into_iter().map(|key| self.key(path_of(&key), key)).collect())
    }

    /// Returns the keys with this path, one for each cycle, the newest first.
    fn find(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let keys = detached(py, self.0.path(), || self.0.find(path))?;
        Ok(keys.into_iter().map(|key| self.key(path.to_string(), key)).collect())
    }

    /// Reads the object of a key. The object must not be a tree.
    fn object(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyAny>> {
        let column = detached(py, self.0.path(), || self.0.object(path))?;
        value_to_python(py, column)
    }

    /// Reads the members of a TTree.
    fn tree_members(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyAny>> {
        let column = detached(py, self.0.path(), || self.0.tree_members(path))?;
        value_to_python(py, column)
    }

    /// Returns a class followed by all its base classes.
    fn lineage(&self, class_name: &str) -> Vec<String> {
        self.0.lineage(class_name)
    }

    /// Opens the tree with this path, or the file's only tree if no path is given.
    #[pyo3(signature = (path=None))]
    fn tree(&self, py: Python<'_>, path: Option<&str>) -> PyResult<Tree> {
        detached(py, self.0.path(), || self.0.tree(path)).map(Tree)
    }
}

impl File {
    fn key(&self, path: String, key: TKey) -> Key {
        let is_tree = self.0.is_tree(&key);
        Key { path, cycle: key.cycle, class_name: key.class_name, title: key.title, is_tree }
    }
}

/// A tree.
#[pyclass(frozen)]
pub struct Tree(pub Arc<tree::Tree>);

#[pymethods]
impl Tree {
    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    /// Whether parent branches contain all data of their child branches.
    #[getter]
    fn nests(&self) -> bool {
        self.0.nests()
    }

    /// Whether the tree has aliases, an index or friends.
    #[getter]
    fn has_relatives(&self) -> bool {
        self.0.has_relatives()
    }

    /// Separator between the names in a branch path.
    #[getter]
    fn separator(&self) -> &'static str {
        self.0.separator()
    }

    #[getter]
    fn entries_count(&self) -> u64 {
        self.0.entries_count()
    }

    /// Returns the paths of all branches, parents before their children.
    fn paths(&self) -> Vec<String> {
        (0..self.0.branches_count()).map(|index| self.0.branch_path(index).to_string()).collect()
    }

    /// Returns all branches, parents before their children.
    fn outline(&self) -> Vec<OutlineRow> {
        let row = |index| OutlineRow {
            name: self.0.branch_name(index).to_string(),
            parent: self.0.parent(index),
            kind: match self.0.state(index) {
                State::Data if self.0.is_short(index) => "short",
                state => kind_name(&state),
            },
            counter: self.0.counter(index),
        };
        (0..self.0.branches_count()).map(row).collect()
    }

    /// Returns the first entry of each basket of a branch, followed by the end of the last basket.
    fn entry_offsets(&self, index: usize) -> Vec<u64> {
        let baskets = self.0.all_basket_entries(index);
        let first = baskets.first().map_or(0, |entries| entries.start);
        std::iter::once(first).chain(baskets.iter().map(|entries| entries.end)).collect()
    }

    /// Returns the positions of all baskets or pages of these branches.
    fn extents(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Extents> {
        let columns = detached(py, self.0.file().path(), || extents_of(&self.0, &indices))?;
        let numbers = |column: Vec<i64>| Py::new(py, Buffer::numbers(column));
        Ok(Extents {
            branch: numbers(columns.branch)?,
            offset: numbers(columns.offset)?,
            size: numbers(columns.size)?,
            entry_start: numbers(columns.entry_start)?,
            entry_stop: numbers(columns.entry_stop)?,
        })
    }

    /// Returns the codec of each branch's first basket. None for a branch without baskets, and for a branch whose
    /// metadata already name its codec.
    fn codecs_in_baskets(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Vec<Option<&'static str>>> {
        let codecs = detached(py, self.0.file().path(), || self.0.codecs_in_baskets(&indices))?;
        Ok(codecs.into_iter().map(|codec| codec.map(compress::Codec::name)).collect())
    }

    /// Returns the paths of the branches that can be read.
    fn readable(&self) -> Vec<String> {
        self.0.readable().map(|index| self.0.branch_path(index).to_string()).collect()
    }

    /// Returns the index of the branch with this path, or of the only branch that matches this abbreviated name.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        self.0.find(name).map_err(|error| to_python(py, &error))
    }

    /// Raises the error that reading the branch would raise.
    fn check_readable(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let checked = self.0.find(name).and_then(|index| self.0.check_readable(index));
        checked.map_err(|error| to_python(py, &error))
    }

    /// Returns empty columns with the types of these branches.
    fn empty_columns<'py>(&self, py: Python<'py>, names: Vec<String>) -> PyResult<Bound<'py, PyList>> {
        let chunk = detached(py, self.0.file().path(), || {
            let columns = names.iter().map(|name| self.0.find(name)).collect::<Result<Vec<_>, _>>()?;
            read_now(&self.0, columns, 0..0, &Pool::new(0))
        })?;
        columns_to_python(py, &chunk)
    }

    /// Returns the entries at which the tree can be split without cutting baskets of its largest branch.
    fn basket_borders(&self) -> Vec<u64> {
        self.0.basket_borders()
    }

    /// Returns the average bytes per entry of these branches.
    fn bytes_per_entry(&self, indices: Vec<usize>) -> BytesPerEntry {
        let bytes = self.0.bytes_per_entry(&indices);
        BytesPerEntry { stored: bytes.stored, plain: bytes.plain }
    }

    /// Returns the memory per entry for the values of these branches, and the memory needed to decompress their largest
    /// basket.
    fn memory_needs(&self, indices: Vec<usize>) -> (f64, u64) {
        self.0.memory_needs(&indices)
    }

    /// Returns the metadata of a branch.
    fn branch(&self, index: usize) -> BranchFacts {
        let known = self.0.branch_info(index);
        let kind = kind_name(&known.state);
        let reason = match known.state {
            State::Unreadable(reason) => Some(reason),
            State::Group | State::Data => None,
        };
        BranchFacts {
            path: self.0.branch_path(index).to_string(),
            name: self.0.branch_name(index).to_string(),
            title: known.title,
            class_name: known.class_name,
            kind,
            reason,
            typename: known.type_name,
            container_class: known.container_class,
            is_part: known.is_part,
            entries_count: known.entries_count,
            baskets_count: known.baskets_count,
            compressed_bytes: known.compressed_bytes,
            plain_bytes: known.plain_bytes,
            compress: known.compress,
        }
    }
}

/// Columns of `Extents`.
#[derive(Default)]
struct ExtentColumns {
    branch: Vec<i64>,
    offset: Vec<i64>,
    size: Vec<i64>,
    entry_start: Vec<i64>,
    entry_stop: Vec<i64>,
}

fn extents_of(tree: &tree::Tree, indices: &[usize]) -> Result<ExtentColumns, ReadError> {
    let mut columns = ExtentColumns::default();
    for index in indices {
        for extent in tree.extents(*index)? {
            columns.branch.push(*index as i64);
            columns.offset.push(extent.offset as i64);
            columns.size.push(extent.size as i64);
            columns.entry_start.push(extent.entries.start as i64);
            columns.entry_stop.push(extent.entries.end as i64);
        }
    }
    Ok(columns)
}

fn kind_name(state: &State) -> &'static str {
    match state {
        State::Group => "group",
        State::Data => "data",
        State::Unreadable(_) => "unreadable",
    }
}

/// A compression codec of ROOT.
#[pyclass(frozen, get_all)]
pub struct Codec {
    name: &'static str,
    root_number: u8,
    default_level: Option<u8>,
}

/// Returns all codecs, in the order of the engine's codec table.
pub fn all_codecs(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let codecs = compress::Codec::ALL.iter().map(|codec| Codec {
        name: codec.name(),
        root_number: codec.root_number(),
        default_level: codec.default_level(),
    });
    PyTuple::new(py, codecs.collect::<Vec<_>>())
}
