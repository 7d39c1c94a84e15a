//! Output files that Python code writes under a temporary name until they are complete.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use branchline_engine::write::output::Output;
use pyo3::prelude::*;

use crate::errors::{closed, detached};

/// A file that Python writes at the path `temporary`; `publish` renames it to its final path.
#[pyclass(frozen)]
pub struct NewFile {
    #[pyo3(get)]
    temporary: PathBuf,
    path: String,
    output: Mutex<Option<Output>>,
}

impl NewFile {
    fn take(&self) -> Option<Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl NewFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, inputs: Vec<String>, replace: bool) -> PyResult<Self> {
        let name = path.display().to_string();
        let output = detached(py, &name, || Output::create(&path, replace, &inputs))?;
        Ok(Self { temporary: output.temporary().to_owned(), path: name, output: Mutex::new(Some(output)) })
    }

    /// Syncs the file to disk and renames it to its final path.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let mut output = self.take().ok_or_else(|| closed(&self.path))?;
        detached(py, &self.path, || output.sync().and_then(|()| output.publish()))
    }

    /// Removes the file, unless it was published.
    fn abandon(&self) {
        drop(self.take());
    }
}
