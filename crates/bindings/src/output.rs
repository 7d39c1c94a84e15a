//! Files that Python's packages write, with the names that those of the engine have until they are whole.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use branchline_engine::write::output::Output;
use pyo3::prelude::*;

use crate::errors::detached;

/// A file that other code writes at `temporary`, and `publish` gives its name.
#[pyclass(frozen)]
pub struct NewFile {
    #[pyo3(get)]
    temporary: PathBuf,
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
        let output = detached(py, &path.display().to_string(), || Output::create(&path, replace, &inputs))?;
        Ok(Self { temporary: output.temporary().to_owned(), output: Mutex::new(Some(output)) })
    }

    /// Brings it to the disk, and gives it its name.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, &self.temporary.display().to_string(), || match self.take() {
            Some(mut output) => output.sync().and_then(|()| output.publish()),
            None => Ok(()),
        })
    }

    /// Leaves nothing of it, unless it has its name already.
    fn abandon(&self) {
        drop(self.take());
    }
}
