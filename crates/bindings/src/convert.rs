//! Python class that writes a file from columns of values.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use branchline_engine::error::Result;
use branchline_engine::write::columns::{ColumnsFile as Columns, Layout, NamedColumn, NewColumnsFile, Shown, Values};
use branchline_format::compress::Setting;
use branchline_format::write::datime;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::column::{Column, Given};
use crate::errors::{closed, detached};

/// Returns the current time in the packed format of ROOT's TDatime.
pub(crate) fn now() -> u32 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    datime(seconds)
}

/// Fields of the Python class `branchline.writing.columns.output_file.Target`.
#[derive(FromPyObject)]
struct Target {
    path: PathBuf,
    force: bool,
    inputs: Vec<String>,
    name: String,
    title: String,
}

/// Fields of the Python class `branchline.writing.columns.output_file.Layout`.
#[derive(FromPyObject)]
pub(crate) struct FileLayout {
    codec: String,
    cluster_entries: Option<u64>,
    cluster_bytes: u64,
    page_bytes: u64,
}

/// Fields of the Python class `branchline.writing.columns.fields.ShownField`.
#[derive(FromPyObject)]
pub(crate) struct ShownField {
    name: String,
    collection: String,
    member: Option<String>,
}

impl From<ShownField> for Shown {
    fn from(ShownField { name, collection, member }: ShownField) -> Self {
        Self { name, collection, member }
    }
}

/// Converts the layout of a file, or of a tree in a file.
pub(crate) fn layout_of(layout: FileLayout) -> PyResult<Layout> {
    let FileLayout { codec, cluster_entries, cluster_bytes, page_bytes } = layout;
    let setting: Setting = codec.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
    Ok(Layout { setting, cluster_entries, cluster_bytes, page_bytes })
}

/// Sizes of a written file.
#[pyclass(frozen, get_all)]
pub struct WrittenFile {
    entries: u64,
    clusters: u64,
    size_bytes: u64,
}

fn new_file(target: Target, layout: FileLayout) -> PyResult<NewColumnsFile> {
    let Target { path: output, force: replace, inputs, name, title: description } = target;
    let layout = layout_of(layout)?;
    Ok(NewColumnsFile { output, replace, inputs, name, description, date: now(), layout })
}

/// Converts Python columns.
pub(crate) fn all_given(py: Python<'_>, columns: &[Py<Column>]) -> PyResult<Vec<Given>> {
    columns.iter().map(|column| Given::of(py, column)).collect()
}

/// Returns the values of columns.
pub(crate) fn all_values(given: &[Given]) -> PyResult<Vec<Values<'_>>> {
    given.iter().map(Given::values).collect()
}

pub(crate) fn fields_of(names: Vec<String>, given: &[Given]) -> PyResult<Vec<NamedColumn<'_>>> {
    if names.len() != given.len() {
        return Err(PyValueError::new_err(format!("{} names for {} columns", names.len(), given.len())));
    }
    let named = |(name, values)| NamedColumn { name, values, counter: None, descriptions: Vec::new() };
    Ok(names.into_iter().zip(all_values(given)?).map(named).collect())
}

/// An RNTuple or TTree file that is being written.
#[pyclass(frozen)]
pub struct ColumnsFile {
    path: String,
    writer: Mutex<Option<Columns>>,
}

impl ColumnsFile {
    fn begun(
        py: Python<'_>,
        new: NewColumnsFile,
        create: impl FnOnce(NewColumnsFile) -> Result<Columns> + Send,
    ) -> PyResult<Self> {
        let path = new.output.display().to_string();
        let writer = detached(py, &path, || create(new))?;
        Ok(Self { path, writer: Mutex::new(Some(writer)) })
    }

    fn writer(&self) -> MutexGuard<'_, Option<Columns>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ColumnsFile {
    /// Creates an RNTuple with the given field names and column types.
    #[staticmethod]
    fn ntuple(
        py: Python<'_>,
        target: Target,
        layout: FileLayout,
        names: Vec<String>,
        columns: Vec<Py<Column>>,
        shown: Vec<ShownField>,
    ) -> PyResult<Self> {
        let (new, given) = (new_file(target, layout)?, all_given(py, &columns)?);
        let fields = fields_of(names, &given)?;
        let shown: Vec<Shown> = shown.into_iter().map(Shown::from).collect();
        Self::begun(py, new, |new| Columns::ntuple(new, &fields, &shown))
    }

    /// Creates a TTree with the given branch names and column types.
    #[staticmethod]
    fn tree(
        py: Python<'_>,
        target: Target,
        layout: FileLayout,
        names: Vec<String>,
        columns: Vec<Py<Column>>,
    ) -> PyResult<Self> {
        let (new, given) = (new_file(target, layout)?, all_given(py, &columns)?);
        let fields = fields_of(names, &given)?;
        Self::begun(py, new, |new| Columns::tree(new, &fields))
    }

    /// Appends entries. There is one column per field.
    fn fill(&self, py: Python<'_>, columns: Vec<Py<Column>>, count: usize) -> PyResult<()> {
        let given = all_given(py, &columns)?;
        let values = all_values(&given)?;
        let fill = || self.writer().as_mut().map(|writer| writer.fill(&values, count)).transpose();
        detached(py, &self.path, fill)?.ok_or_else(|| closed(&self.path))
    }

    /// Removes the unfinished file.
    fn abandon(&self) {
        drop(self.writer().take());
    }

    /// Finishes the file and renames it to its final name.
    fn finish(&self, py: Python<'_>) -> PyResult<WrittenFile> {
        let writer = self.writer().take().ok_or_else(|| closed(&self.path))?;
        let written = detached(py, &self.path, || writer.finish())?;
        let (entries, clusters, size_bytes) = (written.entries_count, written.clusters_count, written.size_bytes);
        Ok(WrittenFile { entries, clusters, size_bytes })
    }
}
