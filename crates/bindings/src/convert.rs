//! Files that are made from columns of values, for Python.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use branchline_engine::error::Result;
use branchline_engine::write::columns::TreeWriter;
use branchline_engine::write::columns::{ColumnsWriter, Layout, NewNtuple, NtupleWriter, Shown, Written};
use branchline_format::column::Column;
use branchline_format::compress::Setting;
use branchline_format::write::datime;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::detached;

/// NumPy's names of numbers.
const DTYPES: [&str; 13] = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "unknown"];
/// Columns in columns deeper than this do not come from files.
const DEPTH_MAX: usize = 64;

/// A column from nested tuples, as `column_to_python` of `buffer.rs` makes them.
fn column_of(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Column> {
    let wrong = |what: &str| PyValueError::new_err(format!("not a column: {what}"));
    if depth > DEPTH_MAX {
        return Err(wrong("nested too deeply"));
    }
    let tuple = value.cast::<PyTuple>()?;
    let kind: String = tuple.get_item(0)?.extract()?;
    let column = |place: usize| column_of(&tuple.get_item(place)?, depth + 1);
    let columns = |place: usize| -> PyResult<Vec<Column>> {
        let all = tuple.get_item(place)?;
        all.cast::<PyTuple>()?.iter().map(|one| column_of(&one, depth + 1)).collect()
    };
    let bytes = |place: usize| bytes_of(&tuple.get_item(place)?);
    Ok(match kind.as_str() {
        "flat" => {
            let dtype: String = tuple.get_item(1)?.extract()?;
            let known = DTYPES.iter().find(|known| **known == dtype);
            Column::Flat { dtype: known.ok_or_else(|| wrong(&dtype))?, values: bytes(2)? }
        }
        "regular" => Column::Regular { size: tuple.get_item(1)?.extract()?, content: Box::new(column(2)?) },
        "list" => Column::List { offsets: numbers_of(&bytes(1)?), content: Box::new(column(2)?) },
        "text" => Column::Text { offsets: numbers_of(&bytes(1)?), bytes: bytes(2)? },
        "record" => {
            let names: Vec<String> = tuple.get_item(1)?.extract()?;
            let members = names.into_iter().zip(columns(2)?).collect();
            Column::Record { class_name: tuple.get_item(4)?.extract()?, count: tuple.get_item(3)?.extract()?, members }
        }
        "tuple" => Column::Tuple { count: tuple.get_item(2)?.extract()?, items: columns(1)? },
        "option" => Column::Option { valid: bytes(1)?, content: Box::new(column(2)?) },
        "union" => Column::Union { tags: bytes(1)?, contents: columns(2)? },
        other => return Err(wrong(other)),
    })
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    PyBuffer::<u8>::get(value)?.to_vec(value.py())
}

fn numbers_of(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|raw| i64::from_ne_bytes(*raw)).collect()
}

/// The time, as TDatime packs it.
fn now() -> u32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    datime(seconds)
}

/// Output, inputs, and whether a file that is there is replaced.
type Place = (PathBuf, Vec<String>, bool);
/// Codec, entries and bytes of a cluster, and bytes of a page.
type Sizes = (String, Option<u64>, u64, u64);

fn new_output(place: Place, about: (String, String), sizes: Sizes) -> PyResult<NewNtuple> {
    let (output, inputs, replace) = place;
    let (codec, cluster_entries, cluster_bytes, page_bytes) = sizes;
    let setting: Setting = codec.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
    let layout = Layout { setting, cluster_entries, cluster_bytes, page_bytes };
    Ok(NewNtuple { output, replace, inputs, name: about.0, description: about.1, date: now(), layout })
}

fn fields_of(fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Vec<(String, Column)>> {
    fields.into_iter().map(|(name, column)| Ok((name, column_of(&column, 0)?))).collect()
}

fn columns_of(columns: &[Bound<'_, PyAny>]) -> PyResult<Vec<Column>> {
    columns.iter().map(|column| column_of(column, 0)).collect()
}

fn told(py: Python<'_>, written: Written) -> PyResult<Bound<'_, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("entries", written.entries_count)?;
    about.set_item("clusters", written.clusters_count)?;
    about.set_item("size_bytes", written.size_bytes)?;
    Ok(about)
}

fn closed() -> PyErr {
    PyValueError::new_err("the file is closed")
}

/// A file that is being written: an RNTuple or a TTree.
#[pyclass(frozen)]
pub struct ColumnsFile {
    path: String,
    writer: Mutex<Option<Box<dyn ColumnsWriter>>>,
}

impl ColumnsFile {
    fn begun(
        py: Python<'_>,
        new: NewNtuple,
        create: impl FnOnce(NewNtuple) -> Result<Box<dyn ColumnsWriter>> + Send,
    ) -> PyResult<Self> {
        let path = new.output.display().to_string();
        let writer = detached(py, &path, || create(new))?;
        Ok(Self { path, writer: Mutex::new(Some(writer)) })
    }

    fn writer(&self) -> MutexGuard<'_, Option<Box<dyn ColumnsWriter>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ColumnsFile {
    /// Begins an RNTuple with fields for columns like these; `shown` are names with a collection and one of its members.
    #[staticmethod]
    fn ntuple(
        py: Python<'_>,
        place: Place,
        about: (String, String),
        sizes: Sizes,
        fields: Vec<(String, Bound<'_, PyAny>)>,
        shown: Vec<(String, String, Option<String>)>,
    ) -> PyResult<Self> {
        let (new, fields) = (new_output(place, about, sizes)?, fields_of(fields)?);
        let shown = shown.into_iter().map(|(name, collection, member)| Shown { name, collection, member });
        let shown: Vec<Shown> = shown.collect();
        Self::begun(py, new, |new| Ok(Box::new(NtupleWriter::create(new, &fields, &shown)?)))
    }

    /// Begins a TTree with branches for columns like these.
    #[staticmethod]
    fn tree(
        py: Python<'_>,
        place: Place,
        about: (String, String),
        sizes: Sizes,
        fields: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let (new, fields) = (new_output(place, about, sizes)?, fields_of(fields)?);
        Self::begun(py, new, |new| Ok(Box::new(TreeWriter::create(new, &fields)?)))
    }

    /// Adds entries, with a column of each field.
    fn fill(&self, py: Python<'_>, columns: Vec<Bound<'_, PyAny>>, count: usize) -> PyResult<()> {
        let columns = columns_of(&columns)?;
        let fill = || self.writer().as_mut().map(|writer| writer.fill(&columns, count)).transpose();
        detached(py, &self.path, fill)?.ok_or_else(closed)
    }

    /// Leaves nothing of it.
    fn abandon(&self) {
        drop(self.writer().take());
    }

    /// Ends the file, and tells what was made.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let writer = self.writer().take().ok_or_else(closed)?;
        told(py, detached(py, &self.path, || writer.finish())?)
    }
}
