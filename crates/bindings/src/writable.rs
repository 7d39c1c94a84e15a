//! Python class for a file that a program fills with objects, trees and RNTuples.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_engine::error::{ReadError, ReadErrorKind, Result};
use branchline_engine::write::columns::{NamedColumn, Shown};
use branchline_engine::write::{Differences, NewObject, NewTable, WritableFile as Writable};
use branchline_format::compress::Setting;
use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::column::{Column, Given};
use crate::convert::{all_given, all_values, fields_of, layout_of, now, FileLayout, ShownField};
use crate::errors::{closed, detached};
use crate::files::File;

/// A key in a file that is being written.
#[pyclass(frozen, get_all)]
pub struct WrittenKey {
    path: String,
    cycle: i16,
    class_name: String,
    title: String,
}

/// Fields of the Python class `branchline.writing.recreate.copies.Differences`.
#[derive(FromPyObject)]
struct ObjectDifferences {
    title: Option<String>,
    numbers: Vec<(String, Vec<f64>)>,
}

/// Pairs of a field's path and its description.
type Descriptions = Vec<(String, String)>;

/// Fields of the Python class `branchline.writing.columns.output_file.NewTable`.
#[derive(FromPyObject)]
struct Table {
    name: String,
    title: String,
    layout: FileLayout,
    names: Vec<String>,
    columns: Vec<Py<Column>>,
    counters: Vec<Option<String>>,
    descriptions: Vec<Descriptions>,
    codecs: HashMap<String, String>,
    shown: Option<Vec<ShownField>>,
}

/// A ROOT file that is being written.
#[pyclass(frozen)]
pub struct WritableFile {
    path: String,
    file: Mutex<Option<Writable>>,
}

fn setting_of(codec: &str) -> PyResult<Setting> {
    codec.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

fn named_columns<'a>(
    names: Vec<String>,
    given: &'a [Given],
    counters: Vec<Option<String>>,
    descriptions: Vec<Descriptions>,
) -> PyResult<Vec<NamedColumn<'a>>> {
    let mut fields = fields_of(names, given)?;
    for ((field, counter), descriptions) in fields.iter_mut().zip(counters).zip(descriptions) {
        (field.counter, field.descriptions) = (counter, descriptions);
    }
    Ok(fields)
}

impl WritableFile {
    fn file(&self) -> MutexGuard<'_, Option<Writable>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Writable) -> Result<T> + Send) -> PyResult<T> {
        let work = || self.file().as_mut().map(work).transpose();
        detached(py, &self.path, work)?.ok_or_else(|| closed(&self.path))
    }
}

#[pymethods]
impl WritableFile {
    /// Creates a file, which gets its name when it is published. `codec` is a string such as `"zstd"` or `"zlib:6"`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, replace: bool, codec: &str) -> PyResult<Self> {
        let setting = setting_of(codec)?;
        let name = path.display().to_string();
        let file = detached(py, &name, || Writable::create(&path, replace, setting, now()))?;
        Ok(Self { path: name, file: Mutex::new(Some(file)) })
    }

    /// Creates a copy of a file to which objects can be added. The copy replaces the file when it is published.
    #[staticmethod]
    fn update(py: Python<'_>, path: PathBuf, codec: Option<&str>) -> PyResult<Self> {
        let setting = codec.map(setting_of).transpose()?;
        let name = path.display().to_string();
        let file = detached(py, &name, || Writable::update(&path, setting, now()))?;
        Ok(Self { path: name, file: Mutex::new(Some(file)) })
    }

    /// Returns the keys in the order in which they were written.
    fn keys(&self) -> PyResult<Vec<WrittenKey>> {
        let file = self.file();
        let file = file.as_ref().ok_or_else(|| closed(&self.path))?;
        let key = |listed: &branchline_engine::write::Listed| WrittenKey {
            path: listed.path.clone(),
            cycle: listed.cycle,
            class_name: listed.class_name.clone(),
            title: listed.title.clone(),
        };
        Ok(file.listed().map(key).collect())
    }

    /// Creates a directory and its missing parents.
    fn add_directory(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        self.with(py, |file| file.add_directory(&names))
    }

    /// Writes an object, given by its class, name, title and bytes, into a directory, which is created if necessary.
    /// Returns the object's cycle.
    fn add(
        &self,
        py: Python<'_>,
        directories: Vec<String>,
        class_name: String,
        name: String,
        title: String,
        content: PyBackedBytes,
    ) -> PyResult<i16> {
        let object = NewObject { class_name, name, title, bytes: Bytes::from_owner(content) };
        self.with(py, |file| file.add(&directories, object))
    }

    /// Copies an object of another file under a new name, and applies `differences` to the copy. Returns the copy's
    /// cycle.
    fn copy(
        &self,
        py: Python<'_>,
        source: &File,
        path: &str,
        directories: Vec<String>,
        name: &str,
        differences: ObjectDifferences,
    ) -> PyResult<i16> {
        let ObjectDifferences { title, numbers } = differences;
        let differences = Differences { title, numbers };
        self.with(py, |file| file.copy(&source.0, path, (&directories, name), &differences))
    }

    /// Copies a tree or an RNTuple of another file under a new name, compressed with `codec`. Returns sentences about
    /// anything that was not copied.
    fn copy_tree(
        &self,
        py: Python<'_>,
        source: &File,
        path: &str,
        directories: Vec<String>,
        name: &str,
        codec: &str,
    ) -> PyResult<Vec<String>> {
        let setting = setting_of(codec)?;
        let mut signal = None;
        let mut check = || {
            Python::attach(|py| py.check_signals()).map_err(|error| {
                signal = Some(error);
                ReadError::new(ReadErrorKind::Refused, &self.path, "the copy was interrupted")
            })
        };
        let copied = self.with(py, |file| file.copy_tree(&source.0, path, (&directories, name), setting, &mut check));
        match signal {
            Some(signal) => Err(signal),
            None => copied.map(|copied| copied.left_out),
        }
    }

    /// Creates a tree or an RNTuple. Returns the table's index for `fill`.
    fn add_table(&self, py: Python<'_>, directories: Vec<String>, table: Table) -> PyResult<usize> {
        let Table { name, title, layout, names, columns, counters, descriptions, codecs, shown } = table;
        let given = all_given(py, &columns)?;
        let fields = named_columns(names, &given, counters, descriptions)?;
        let shown = shown.map(|shown| shown.into_iter().map(Shown::from).collect());
        let setting = |(name, codec): (String, String)| Ok((name, setting_of(&codec)?));
        let codecs = codecs.into_iter().map(setting).collect::<PyResult<_>>()?;
        let table = NewTable { name, title, layout: layout_of(layout)?, fields, codecs, ntuple: shown };
        self.with(py, |file| file.add_table(&directories, table))
    }

    /// Resumes filling a tree or an RNTuple that the file already contained. `old` is the file from which the existing
    /// entries' metadata are read, `table` has the columns that will be filled, and `counts` has the maximum value of
    /// each existing counter. Returns the table's index for `fill`.
    fn resume_table(
        &self,
        py: Python<'_>,
        old: &File,
        path: &str,
        table: Table,
        counts: HashMap<String, i32>,
    ) -> PyResult<usize> {
        let given = all_given(py, &table.columns)?;
        let fields = named_columns(table.names, &given, table.counters, table.descriptions)?;
        let layout = layout_of(table.layout)?;
        self.with(py, |file| file.resume_table(&old.0, path, layout, &fields, &counts))
    }

    /// Adds branches to a tree, or fields to an RNTuple, with values for all existing entries.
    fn add_columns(
        &self,
        py: Python<'_>,
        table: usize,
        names: Vec<String>,
        columns: Vec<Py<Column>>,
        counters: Vec<Option<String>>,
        descriptions: Vec<Descriptions>,
    ) -> PyResult<()> {
        let given = all_given(py, &columns)?;
        let fields = named_columns(names, &given, counters, descriptions)?;
        self.with(py, |file| file.add_columns(table, &fields))
    }

    /// Appends entries to a tree or an RNTuple, with one column per field.
    fn fill(&self, py: Python<'_>, table: usize, columns: Vec<Py<Column>>, count: usize) -> PyResult<()> {
        let given = all_given(py, &columns)?;
        let values = all_values(&given)?;
        self.with(py, |file| file.fill(table, &values, count))
    }

    /// Removes the key with this path and cycle, or all keys with this path if `cycle` is None.
    #[pyo3(signature = (path, cycle=None))]
    fn remove(&self, py: Python<'_>, path: &str, cycle: Option<i16>) -> PyResult<()> {
        self.with(py, |file| file.remove(path, cycle))
    }

    /// Publishes the file: all finished objects become visible under the file's name.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Writable::publish)
    }

    /// Returns whether the file has been published.
    fn is_published(&self) -> bool {
        self.file().as_mut().is_some_and(|file| file.is_published())
    }

    /// Closes the file without publishing it again. A file that was never published is removed.
    fn abandon(&self) {
        drop(self.file().take());
    }

    /// Finishes the file and returns its size in bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.file().take().ok_or_else(|| closed(&self.path))?;
        detached(py, &self.path, || file.finish())
    }
}
