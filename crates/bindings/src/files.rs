//! Files and trees, their metadata only.

use std::sync::Arc;

use branchline_engine::error::ReadError;
use branchline_engine::read::read_now::read_now;
use branchline_engine::tree::branch_info::State;
use branchline_engine::{file, tree};
use branchline_format::compress::Codec;
use branchline_format::file::TKey;
use branchline_slab::Pool;
use branchline_storage::ByteRange;
use pyo3::prelude::*;
use pyo3::types::PyList;

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

/// The place of a branch among the others of its tree.
#[pyclass(frozen, get_all)]
pub struct OutlineRow {
    name: String,
    parent: Option<usize>,
    kind: &'static str,
    counter: Option<usize>,
}

/// The metadata of a branch.
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

/// Bytes per entry of some branches: as they are stored, and after decompression.
#[pyclass(frozen, get_all)]
pub struct BytesPerEntry {
    stored: f64,
    plain: f64,
}

/// Where baskets or pages lie: columns of 64-bit numbers with a row for each.
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

    /// Offsets and sizes of the ranges that are in memory.
    fn infos_range(&self) -> Option<(u64, u64)> {
        self.0.infos_range().map(|range| (range.offset, range.length))
    }

    fn metadata_requests(&self) -> Vec<Vec<(u64, u64)>> {
        let ranges = |request: Vec<ByteRange>| request.iter().map(|range| (range.offset, range.length)).collect();
        self.0.metadata_requests().into_iter().map(ranges).collect()
    }

    /// The gap up to which its store joins ranges by itself.
    #[getter]
    fn store_gap_bytes(&self) -> u64 {
        self.0.store_gap_bytes()
    }

    /// Whether it is on a disk of this machine, or in its memory, and its store is not made slow.
    #[getter]
    fn is_near(&self) -> bool {
        self.0.is_near()
    }

    /// How many keys were found again because the file was never closed.
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

    /// Every key below a directory.
    fn keys_below(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let entries = detached(py, self.0.path(), || self.0.entries_below(path))?;
        Ok(entries.into_iter().map(|one| self.key(one.path, one.key)).collect())
    }

    /// The keys right in a directory; no other directory is read for it.
    fn keys_in(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let keys = detached(py, self.0.path(), || self.0.keys_in(path))?;
        let path_of = |key: &TKey| if path.is_empty() { key.name.clone() } else { format!("{path}/{}", key.name) };
        Ok(keys.into_iter().map(|key| self.key(path_of(&key), key)).collect())
    }

    /// The keys with this path, one for each cycle, the newest first.
    fn find(&self, py: Python<'_>, path: &str) -> PyResult<Vec<Key>> {
        let keys = detached(py, self.0.path(), || self.0.find(path))?;
        Ok(keys.into_iter().map(|key| self.key(path.to_string(), key)).collect())
    }

    /// Reads the object of a key that is no tree.
    fn object(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyAny>> {
        let column = detached(py, self.0.path(), || self.0.object(path))?;
        value_to_python(py, column)
    }

    /// Reads the members of a TTree.
    fn tree_members(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyAny>> {
        let column = detached(py, self.0.path(), || self.0.tree_members(path))?;
        value_to_python(py, column)
    }

    /// A class, and behind it all that it inherits from.
    fn lineage(&self, class_name: &str) -> Vec<String> {
        self.0.lineage(class_name)
    }

    /// Opens a tree by its path, or the only one.
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

    /// Whether a branch holds all that the branches below it hold.
    #[getter]
    fn nests(&self) -> bool {
        self.0.nests()
    }

    /// Whether it has aliases, an index or friends.
    #[getter]
    fn has_relatives(&self) -> bool {
        self.0.has_relatives()
    }

    /// The separator of names in a path of a branch.
    #[getter]
    fn separator(&self) -> &'static str {
        self.0.separator()
    }

    #[getter]
    fn entries_count(&self) -> u64 {
        self.0.entries_count()
    }

    /// Paths of all branches, a parent before its children.
    fn paths(&self) -> Vec<String> {
        (0..self.0.branches_count()).map(|index| self.0.branch_path(index).to_string()).collect()
    }

    /// Every branch, a parent before its children.
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

    /// Entries at which the baskets of a branch begin, and its end.
    fn entry_offsets(&self, index: usize) -> Vec<u64> {
        let baskets = self.0.all_basket_entries(index);
        let first = baskets.first().map_or(0, |entries| entries.start);
        std::iter::once(first).chain(baskets.iter().map(|entries| entries.end)).collect()
    }

    /// The extents of these branches.
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

    /// The codecs of the first baskets of these branches; None for a branch that records its codec, or has no basket.
    fn codecs_in_baskets(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Vec<Option<&'static str>>> {
        let codecs = detached(py, self.0.file().path(), || self.0.codecs_in_baskets(&indices))?;
        Ok(codecs.into_iter().map(|codec| codec.map(Codec::name)).collect())
    }

    /// Paths of the branches that can be read.
    fn readable(&self) -> Vec<String> {
        self.0.readable().map(|index| self.0.branch_path(index).to_string()).collect()
    }

    /// Index of the branch with this path, or of the only branch that this shorter name can mean.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        self.0.find(name).map_err(|error| to_python(py, &error))
    }

    /// Raises the error that reading the branch would raise.
    fn check_readable(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let checked = self.0.find(name).and_then(|index| self.0.check_readable(index));
        checked.map_err(|error| to_python(py, &error))
    }

    /// Empty columns with the types of these branches.
    fn empty_columns<'py>(&self, py: Python<'py>, names: Vec<String>) -> PyResult<Bound<'py, PyList>> {
        let chunk = detached(py, self.0.file().path(), || {
            let columns = names.iter().map(|name| self.0.find(name)).collect::<Result<Vec<_>, _>>()?;
            read_now(&self.0, columns, 0..0, &Pool::new(0))
        })?;
        columns_to_python(py, &chunk)
    }

    /// Entries at which parts that are read apart may begin.
    fn basket_borders(&self) -> Vec<u64> {
        self.0.basket_borders()
    }

    /// Bytes per entry of these branches.
    fn bytes_per_entry(&self, indices: Vec<usize>) -> BytesPerEntry {
        let bytes = self.0.bytes_per_entry(&indices);
        BytesPerEntry { stored: bytes.stored, plain: bytes.plain }
    }

    /// What the values of these branches take per entry in memory, and what decompressing the largest basket takes.
    fn memory_needs(&self, indices: Vec<usize>) -> (f64, u64) {
        self.0.memory_needs(&indices)
    }

    /// The metadata of a branch.
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

/// The columns of `Extents`.
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
