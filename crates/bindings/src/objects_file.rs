//! Files of objects whose bytes Python makes.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_engine::write::{NewObject, ObjectsFile as Objects};
use branchline_format::compress::Setting;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::now;
use crate::errors::{closed, detached};

/// A ROOT file of histograms that is being written.
#[pyclass(frozen)]
pub struct ObjectsFile {
    path: String,
    file: Mutex<Option<Objects>>,
}

impl ObjectsFile {
    fn file(&self) -> MutexGuard<'_, Option<Objects>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ObjectsFile {
    /// Begins a file, which gets its name when it is finished. `codec` is written like `"zstd"` or `"zlib:6"`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, replace: bool, codec: &str) -> PyResult<Self> {
        let setting: Setting = codec.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let name = path.display().to_string();
        let file = detached(py, &name, || Objects::create(&path, replace, setting, now()))?;
        Ok(Self { path: name, file: Mutex::new(Some(file)) })
    }

    /// Writes an object of a class with its name, title and bytes into a directory, which is made if need be.
    fn add(
        &self,
        py: Python<'_>,
        directories: Vec<String>,
        class_name: String,
        name: String,
        title: String,
        content: &[u8],
    ) -> PyResult<()> {
        let object = NewObject { class_name, name, title, bytes: content.to_vec() };
        let add = || self.file().as_mut().map(|file| file.add(&directories, object)).transpose();
        detached(py, &self.path, add)?.ok_or_else(|| closed(&self.path))
    }

    /// Removes the file, unless it is finished.
    fn abandon(&self) {
        drop(self.file().take());
    }

    /// Ends the file and returns its size in bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.file().take().ok_or_else(|| closed(&self.path))?;
        detached(py, &self.path, || file.finish())
    }
}
